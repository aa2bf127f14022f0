/** A seat, played by a person: what I know, what is asked, what was said and done. */
import { Closed } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { keepCatalogue } from "../game/catalogue.ts";
import { TableView } from "../game/table-view.tsx";
import { nameOf, namesOf, sentence } from "../game/words.ts";
import { Speech } from "../parts/speech.tsx";
import { Empty, Fault, Loading, Watching } from "../parts/states.tsx";
import { ASKED, Answer } from "../play/answer.tsx";
import { HowPlayed } from "../play/how-played.tsx";
import { Knows } from "../play/knows.tsx";
import { SeatSource } from "../play/seat.ts";
import { invitedTo, keepPad, padOf, tokenOf } from "../play/tokens.ts";
import { href, place } from "../router.ts";
import { key, server } from "../session.ts";

const Talk = ({ source }: { source: SeatSource }): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  const log = source.log.value;
  const tables = source.tables.value;
  // The talk alone: who is being asked something stays where it is asked.
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log.length]);
  return (
    <div class="feed" ref={box} role="log" aria-label="What was said and done" tabIndex={0}>
      <ol class="entries">
        {log.map((event, i) => {
          const table = tables[i]!;
          if (event.type === "utterance_made")
            return (
              <li key={event.seq} class={`entry said hue-${event.seat}`}>
                <span class="who">
                  <span class="chip" aria-hidden="true">
                    {event.seat}
                  </span>
                  <bdi>{nameOf(table, event.seat)}</bdi>
                </span>
                {event.text ? <Speech text={event.text} /> : <p class="muted">says nothing</p>}
              </li>
            );
          if (event.type === "round_summarised")
            return (
              <li key={event.seq} class="entry deed">
                {Object.entries(event.answers).map(([name, text]) => (
                  <p key={name} dir="auto">
                    My notes: {text}
                  </p>
                ))}
              </li>
            );
          const words = sentence(event, table);
          return words ? (
            <li key={event.seq} class={`entry ${event.type === "quest_resolved" || event.type === "game_ended" ? "outcome" : "deed"}`}>
              {words}
            </li>
          ) : null;
        })}
      </ol>
    </div>
  );
};

const Waiting = ({ source }: { source: SeatSource }): JSX.Element | null => {
  const table = source.table.value;
  const turn = source.turn.value;
  if (!table || source.request.value || table.phase === "over") return null;
  const seats = turn?.seats.filter((seat) => seat !== source.seat) ?? [];
  return (
    <section class="panel" role="status">
      {turn?.kind === "assassinate" ? "The assassin chooses a target …" : seats.length === table.players - 1 || !seats.length ? "Waiting for the others …" : `Waiting for ${namesOf(table, seats)} …`}
    </section>
  );
};

/** A pad to write on while one plays. It is kept with the tab, as the seat's token is, and sent to nobody. */
const Pad = ({ game }: { game: string }): JSX.Element => {
  const [text, setText] = useState(() => padOf(game));
  return (
    <section class="panel">
      <label class="field pad">
        <span>
          My notes <span class="muted">(they stay in this tab)</span>
        </span>
        <textarea
          dir="auto"
          rows={4}
          maxLength={20_000}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            keepPad(game, event.currentTarget.value);
          }}
        />
      </label>
    </section>
  );
};

export const SeatPage = ({ game }: { game: string }): JSX.Element => {
  const asked = Number(place.value.query["seat"]) || 0;
  const [turn, setTurn] = useState(0);
  const held = tokenOf(game);
  const source = useMemo(() => new SeatSource(game, asked), [game, asked, key.value, turn]);
  useEffect(() => {
    if (!held && !asked) return undefined;
    void source.start();
    server.intentions().then(keepCatalogue, () => undefined);
    return () => source.stop();
  }, [source]);
  if (!held && !asked)
    return (
      <Empty whole title="You hold no seat of this game here">
        <p>A seat is taken with a link, and stays with the tab that took it. Who made the table may be able to make you a new link.</p>
        <p>
          <a href={href(`/games/${game}`)}>Watch this game</a>
        </p>
      </Empty>
    );
  const fault = source.fault.value;
  if (fault instanceof Closed && fault.code === 4409)
    return (
      <Empty whole title="This seat is played elsewhere now">
        <p>Another window or device has taken it over.</p>
        <p class="row">
          <button type="button" class="primary" onClick={() => setTurn(turn + 1)}>
            Play here instead
          </button>
        </p>
      </Empty>
    );
  if (fault !== undefined) return <Fault whole error={fault} again={() => setTurn(turn + 1)} />;
  const table = source.table.value;
  if (!table) return <Loading what="your seat" />;
  const request = source.request.value;
  return (
    <div class="play">
      <header class="game-head">
        <div class="game-title">
          <h1>
            Seat {source.seat}, <bdi>{nameOf(table, source.seat)}</bdi>
          </h1>
          {source.state.value === "cut" && (
            <span class="cut" role="status">
              Connection lost; coming back …
            </span>
          )}
          {source.watchers.value > 0 && <Watching count={source.watchers.value} />}
        </div>
        {table.phase === "over" ? (
          <a href={href(`/games/${game}`)}>See the whole game</a>
        ) : (
          invitedTo(game) && <a href={href(`/play/${game}/links`)}>Links for your friends</a>
        )}
      </header>
      <div class="stage">
        <TableView table={table} chosen={source.seat} />
      </div>
      <div class="mine">
        {source.missed.value && table.phase !== "over" && (
          <p class="panel warning" role="alert">
            At “{ASKED[source.missed.value.kind]}” no answer of yours came in time, or none was legal. The default was played for you.
          </p>
        )}
        {request && <Answer key={request.request_id} source={source} request={request} table={table} />}
        <Waiting source={source} />
        <Knows table={table} seat={source.seat} />
        <Pad key={game} game={game} />
        <HowPlayed />
      </div>
      <Talk source={source} />
    </div>
  );
};
