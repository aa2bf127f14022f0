/** Where people and bots who do not know each other meet: who waits for what, and a seek of one's own. */
import { ApiError, type NewSeek, type Seek } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { useLook } from "../parts/look.ts";
import { Select, counts } from "../parts/select.tsx";
import { drop, keep, kept } from "../parts/tab.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { keepToken } from "../play/tokens.ts";
import { go } from "../router.ts";
import { key, server } from "../session.ts";

const EVERY_MS = 3000;

/** The name that this page seeks by: another one in each tab, so that two people with one key can meet. */
const ME = `person-${Math.random().toString(36).slice(2, 10)}`;

const PACES: readonly [NonNullable<NewSeek["pace"]>, string][] = [
  ["fast", "10 s for each decision"],
  ["normal", "a minute or two for each decision"],
  ["slow", "10 minutes for each decision"],
];

/** The seek of this tab, kept with it: whoever loads the page again goes on waiting, or finds the seat that was given. */
const SEEK = "seek";

const RULES: readonly [NonNullable<NewSeek["profile"]>, string][] = [
  ["interintent", "with talk after each proposal"],
  ["official", "of the board game"],
];

const wordsOf = (choices: readonly (readonly [string, string])[], one: string): string => choices.find(([name]) => name === one)?.[1] ?? one;

/** What a seek waits for; its pool is named by the game that it is of, or by profile, seats, pace and kind. */
const Terms = ({ pool, rated }: Seek): JSX.Element => {
  const [, kind, game] = /^(rematch|open):(.+)$/.exec(pool) ?? [];
  if (game)
    return (
      <>
        a {kind === "open" ? "seat" : "rematch"} of game <ShortId id={game} />
      </>
    );
  const [profile = "", players = "", pace = ""] = pool.split("/");
  return (
    <>
      {plural(Number(players), "seat")}, rules {wordsOf(RULES, profile)} · {wordsOf(PACES, pace)}
      {rated && " · rated"}
    </>
  );
};

/** What became of a seek that gave no seat. */
const OVER: Record<string, string> = { withdrawn: "You have left the queue", paired: "A scripted player took your seat, since you were away" };

/** Whether a seek is known no more: it was another server's, or another key's. */
const isUnknown = (error: unknown): boolean => error instanceof ApiError && error.status === 404;

/** Takes the seat of a paired seek, and goes there. */
const sit = (seek: Seek): void => {
  if (!seek.game) return;
  drop(SEEK);
  keepToken(seek.game.game, { seat: seek.game.seat, token: seek.game.token });
  go(`/play/${seek.game.game}`);
};

const Waiting = ({ seek, left }: { seek: Seek; left: () => void }): JSX.Element => {
  const [now, setNow] = useState(Date.now());
  const [fault, setFault] = useState<unknown>(undefined);
  const [over, setOver] = useState<Seek | undefined>(undefined);
  const [round, setRound] = useState(0);
  const heading = useRef<HTMLHeadingElement>(null);
  // Who used the button that is gone now is brought to what took its place.
  useEffect(() => heading.current?.focus(), [over === undefined]);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setInterval(() => setNow(Date.now()), 1000);
    setFault(undefined);
    const wait = async (): Promise<void> => {
      let seen = seek;
      while (seen.status === "open" && !stop.signal.aborted) seen = await server.seekState(seek.seek_id, 20, stop.signal);
      if (seen.game) sit(seen);
      else if (!stop.signal.aborted) setOver(seen);
    };
    wait().catch((error: unknown) => stop.signal.aborted || setFault(error));
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [seek.seek_id, key.value, round]);
  const seconds = Math.max(0, Math.ceil((Date.parse(seek.starts_by) - now) / 1000));
  if (over)
    return (
      <section class="panel" role="status">
        <h2 ref={heading} tabIndex={-1}>{OVER[over.status] ?? "Nobody else came in time"}</h2>
        <button type="button" class="primary" onClick={left}>
          Seek again
        </button>
      </section>
    );
  return (
    <>
      {fault !== undefined && <Fault beside error={fault} again={() => setRound(round + 1)} />}
      <section class="panel" aria-label="Your seek">
        <h2 ref={heading} tabIndex={-1}>
          Waiting for others
        </h2>
        <p role="status">
          The game begins as soon as all seats are taken, or {seconds > 0 ? `in ${seconds} s` : "now"} with those who are there;
          scripted players take the other seats. Keep this page open.
        </p>
        <button
          type="button"
          onClick={() => {
            // Where the game has begun at this moment, the answer says so.
            server.withdraw(seek.seek_id).then(
              (ended) => (ended.game ? sit(ended) : left()),
              (error: unknown) => (isUnknown(error) ? left() : setFault(error)),
            );
          }}
        >
          Leave the queue
        </button>
      </section>
    </>
  );
};

export const LobbyPage = (): JSX.Element => {
  const [fault, setFault] = useState<unknown>(undefined);
  const [mine, setMine] = useState<Seek | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const heading = useRef<HTMLHeadingElement>(null);
  const [wish, setWish] = useState<Required<Pick<NewSeek, "profile" | "players" | "pace" | "wait_s">>>({
    profile: "interintent",
    players: 5,
    pace: "normal",
    wait_s: 60,
  });
  const { found: lobby, fault: away, again } = useLook((stop) => server.lobby(stop), () => EVERY_MS);
  const begin = async (seeking: Promise<Seek>): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      const seek = await seeking;
      if (seek.game) return sit(seek);
      keep(SEEK, seek.seek_id);
      setMine(seek);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    const known = kept<string>(SEEK);
    if (!known || mine) return;
    setFault(undefined);
    server.seekState(known).then(
      (seek) => begin(Promise.resolve(seek)),
      (error: unknown) => (isUnknown(error) ? drop(SEEK) : setFault(error)),
    );
  }, [key.value, round]);
  const leave = (): void => {
    drop(SEEK);
    setMine(undefined);
    again();
    heading.current?.focus();
  };
  const others = lobby?.seeks.filter(({ seek_id: id }) => id !== mine?.seek_id) ?? [];
  return (
    <section class="begin">
      <h1 ref={heading} tabIndex={-1}>
        Find others
      </h1>
      <p class="muted">Play with people and bots who seek the same. Nobody learns who waits, and seats have new names in every game.</p>
      {fault !== undefined && <Fault beside error={fault} {...(kept(SEEK) && !mine ? { again: () => setRound(round + 1) } : {})} />}
      {away !== undefined && <Fault beside error={away} again={again} />}
      {mine ? (
        <Waiting key={mine.seek_id} seek={mine} left={leave} />
      ) : (
        <form
          class="panel"
          onSubmit={(event) => {
            event.preventDefault();
            void begin(server.seek({ ...wish, bot: ME }));
          }}
        >
          <Select label="Rules" value={wish.profile} choices={RULES} choose={(profile) => setWish({ ...wish, profile })} />
          <Select label="Seats" value={wish.players} choices={counts(5, 10)} choose={(players) => setWish({ ...wish, players })} />
          <Select label="Pace" value={wish.pace} choices={PACES} choose={(pace) => setWish({ ...wish, pace })} />
          <Select
            label="Wait for others"
            value={wish.wait_s}
            choices={[10, 60, 300, 1800].map((seconds) => [seconds, seconds < 60 ? `${seconds} s` : `${seconds / 60} min`])}
            choose={(wait_s) => setWish({ ...wish, wait_s })}
          />
          <button type="submit" class="primary" disabled={busy}>
            Seek a game
          </button>
        </form>
      )}
      <section aria-label="Who waits">
        <h2>Who waits</h2>
        {lobby === undefined ? (
          away === undefined && <Loading what="who waits" />
        ) : lobby.pools.length + lobby.games.length === 0 ? (
          <Empty title="Nobody waits at the moment">
            <p>Whoever comes next finds you, if you seek a game.</p>
          </Empty>
        ) : (
          <ul class="invitations">
            {lobby.pools.map((pool) => (
              <li key={`${pool.profile} ${pool.players} ${pool.pace} ${pool.rated}`} class="panel invitation">
                <span>
                  <strong>
                    {pool.waiting} of {plural(pool.players, "player")}
                  </strong>
                  <small class="muted">
                    rules {wordsOf(RULES, pool.profile)} · {wordsOf(PACES, pool.pace)}
                    {pool.rated && " · rated, for bots"}
                  </small>
                </span>
                {!pool.rated && !mine && (
                  <button
                    type="button"
                    disabled={busy}
                    onClick={() => void begin(server.seek({ ...wish, profile: pool.profile as NonNullable<NewSeek["profile"]>, players: pool.players, pace: pool.pace, bot: ME }))}
                  >
                    Join them
                  </button>
                )}
              </li>
            ))}
            {lobby.games.map((game) => (
              <li key={game.game_id} class="panel invitation">
                <span>
                  <strong>{plural(game.seats.length - game.claimed, "open seat")}</strong>
                  <small class="muted">
                    at a table of {game.players}, game <ShortId id={game.game_id} />
                  </small>
                </span>
                {!mine && game.claimed < game.seats.length && (
                  <button type="button" disabled={busy} onClick={() => void begin(server.claimOpenSeat(game.game_id, { bot: ME }))}>
                    Take a seat
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
      </section>
      {others.length > 0 && (
        <section aria-label="Your other seeks">
          <h2>Your other seeks</h2>
          <ul class="invitations">
            {others.map((seek) => (
              <li key={seek.seek_id} class="panel invitation">
                <span>
                  <strong>
                    <bdi>{seek.bot}</bdi>
                  </strong>
                  <small class="muted">
                    <Terms {...seek} />
                  </small>
                </span>
                <button type="button" onClick={() => void server.withdraw(seek.seek_id).then(again, setFault)}>
                  Withdraw
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </section>
  );
};
