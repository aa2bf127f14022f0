/** A whole game as one text: to read, to search with the browser's find, to print. */
import type { GameEvent, Viewer } from "@interintent/client";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { eyesWithin, project, readEyes } from "./eyes.ts";
import { type Table, fold } from "./fold.ts";
import { type Entry, mind, story } from "./story.ts";
import { MindView } from "./turn.tsx";
import { eyesName } from "./screen.tsx";
import { ROLE, nameOf, namesOf, sentence } from "./words.ts";
import { amend, href, place } from "../router.ts";

const Line = ({ entry, table }: { entry: Entry; table: Table }): JSX.Element | null => {
  const { event, notes } = entry;
  const records = notes.length > 0 && (
    <div class="records" role="group" aria-label={`What ${nameOf(table, entry.seat ?? 0)} had in mind`}>
      <MindView mind={mind(notes)} table={table} said={event?.type === "utterance_made" ? event.text : null} />
    </div>
  );
  const reasons = entry.hidden
    .filter(({ event, notes }) => notes.length || event.type === "card_played")
    .map(({ seat, event, notes }) => (
      <div class="records" key={seat}>
        <p>
          <bdi>{nameOf(table, seat)}</bdi>{" "}
          {event.type === "card_played" ? (event.success ? "plays success." : "plays fail.") : event.approve ? "votes for." : "votes against."}
        </p>
        <MindView mind={mind(notes)} table={table} said={null} />
      </div>
    ));
  if (event === undefined) return <>{records}</>;
  switch (event.type) {
    case "utterance_made":
      return (
        <>
          {records}
          <p class="line">
            <strong>
              <bdi>{nameOf(table, event.seat)}</bdi>
            </strong>
            {event.text ? ": " : " says nothing."}
            <span class="speech" dir="auto">
              {event.text}
            </span>
          </p>
        </>
      );
    case "role_learned":
      return (
        <p class="line">
          <bdi>{nameOf(table, event.seat)}</bdi> is {ROLE[event.role]}
          {event.sees.length > 0 && <> and is shown {namesOf(table, event.sees)}</>}.
        </p>
      );
    case "round_summarised":
      return (
        <div class="records">
          <h3 class="small">{nameOf(table, event.seat)} sums up</h3>
          <dl class="readings">
            {Object.entries(event.answers).map(([question, answer]) => (
              <div key={question}>
                <dt dir="auto">{question.replaceAll("_", " ")}</dt>
                <dd dir="auto">{String(answer)}</dd>
              </div>
            ))}
          </dl>
        </div>
      );
    case "evil_conferred":
      return (
        <p class="line">
          <strong>
            <bdi>{nameOf(table, event.seat)}</bdi>
          </strong>{" "}
          to the other evil seats:{" "}
          <span class="speech" dir="auto">
            {event.text}
          </span>
        </p>
      );
    default: {
      const text = sentence(event, table);
      return (
        <>
          {records}
          {text && <p class="line">{text}</p>}
          {reasons}
        </>
      );
    }
  }
};

export const Reading = ({ log, viewer, base, name }: { log: readonly GameEvent[]; viewer: Viewer; base: string; name: string }): JSX.Element => {
  const players = log[0]?.type === "game_created" ? log[0].profile.players : 5;
  const allowed = eyesWithin(viewer, players);
  const asked = readEyes(place.value.query["eyes"]);
  const eyes = asked && allowed.includes(asked) ? asked : viewer;
  const seen = useMemo(() => project(log, eyes), [log, eyes]);
  const tables = useMemo(() => fold(seen), [seen]);
  const chapters = useMemo(() => story(seen), [seen]);
  const last = tables.at(-1);
  if (!last) return <p class="state">This game has no readable beginning.</p>;
  return (
    <article class="reading">
      <header>
        <h1>{name}</h1>
        <p class="row">
          <a href={href(base, { eyes: eyes === viewer ? undefined : eyes })}>Back to the table</a>
          {allowed.length > 1 && (
            <label class="eyes">
              Seen by{" "}
              <select value={eyes} onChange={(change) => amend({ eyes: change.currentTarget.value === viewer ? undefined : change.currentTarget.value })}>
                {allowed.map((one) => (
                  <option key={one} value={one}>
                    {eyesName(one, last.names, viewer === "full" ? last.roles : {})}
                  </option>
                ))}
              </select>
            </label>
          )}
        </p>
      </header>
      {chapters.map((chapter) => (
        <section key={chapter.key} aria-labelledby={`read-${chapter.key}`}>
          <h2 id={`read-${chapter.key}`}>{chapter.title}</h2>
          {chapter.entries.map((entry) => (
            <Line key={entry.from} entry={entry} table={tables[entry.at - 1] ?? last} />
          ))}
        </section>
      ))}
    </article>
  );
};
