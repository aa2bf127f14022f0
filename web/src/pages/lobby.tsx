/** Where people and bots who do not know each other meet: who waits for what, and a seek of one's own. */
import type { Lobby, NewSeek, Seek } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { keepToken } from "../play/tokens.ts";
import { go } from "../router.ts";
import { key, server } from "../session.ts";

const EVERY_MS = 3000;

/** The name that this page seeks by: another one in each tab, so that two people with one key can meet. */
const ME = `person-${Math.random().toString(36).slice(2, 10)}`;

const PACE: Record<NonNullable<NewSeek["pace"]>, string> = {
  fast: "10 s for each decision",
  normal: "a minute or two for each decision",
  slow: "10 minutes for each decision",
};

/** Takes the seat of a paired seek, and goes there. */
const sit = (seek: Seek): void => {
  if (!seek.game) return;
  keepToken(seek.game.game, { seat: seek.game.seat, token: seek.game.token });
  go(`/play/${seek.game.game}`);
};

const Waiting = ({ seek, left }: { seek: Seek; left: () => void }): JSX.Element => {
  const [now, setNow] = useState(Date.now());
  const [fault, setFault] = useState<unknown>(undefined);
  const [over, setOver] = useState<Seek | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setInterval(() => setNow(Date.now()), 1000);
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
  }, [seek.seek_id]);
  const seconds = Math.max(0, Math.ceil((Date.parse(seek.starts_by) - now) / 1000));
  if (fault !== undefined) return <Fault error={fault} again={left} />;
  if (over)
    return (
      <section class="panel" role="status">
        <h2>{over.status === "withdrawn" ? "You have left the queue" : "Nobody else came in time"}</h2>
        <button type="button" class="primary" onClick={left}>
          Seek again
        </button>
      </section>
    );
  return (
    <section class="panel" aria-label="Your seek">
      <h2>Waiting for others</h2>
      <p role="status">
        The game begins as soon as all seats are taken, or {seconds > 0 ? `in ${seconds} s` : "now"} with those who are there;
        scripted players take the other seats. Keep this page open.
      </p>
      <button
        type="button"
        onClick={() => {
          // Where the game has begun at this moment, the answer says so.
          server.withdraw(seek.seek_id).then((ended) => (ended.game ? sit(ended) : left()), setFault);
        }}
      >
        Leave the queue
      </button>
    </section>
  );
};

export const LobbyPage = (): JSX.Element => {
  const [lobby, setLobby] = useState<Lobby | undefined>(undefined);
  const [fault, setFault] = useState<unknown>(undefined);
  const [mine, setMine] = useState<Seek | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const [wish, setWish] = useState<Required<Pick<NewSeek, "profile" | "players" | "pace" | "wait_s">>>({
    profile: "interintent",
    players: 5,
    pace: "normal",
    wait_s: 60,
  });
  useEffect(() => {
    const stop = new AbortController();
    setFault(undefined);
    const look = (): void => {
      server.lobby(stop.signal).then(setLobby, (error: unknown) => stop.signal.aborted || setFault(error));
    };
    look();
    const timer = setInterval(() => document.hidden || look(), EVERY_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [key.value, round]);
  const begin = async (seeking: Promise<Seek>): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      const seek = await seeking;
      if (seek.game) sit(seek);
      else setMine(seek);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  const again = (): void => setRound(round + 1);
  const others = lobby?.seeks.filter(({ seek_id: id }) => id !== mine?.seek_id) ?? [];
  return (
    <section class="begin">
      <h1>Find others</h1>
      <p class="muted">Play with people and bots who seek the same. Nobody learns who waits, and seats have new names in every game.</p>
      {fault !== undefined && <Fault error={fault} again={again} />}
      {mine ? (
        <Waiting
          key={mine.seek_id}
          seek={mine}
          left={() => {
            setMine(undefined);
            again();
          }}
        />
      ) : (
        <form
          class="panel"
          onSubmit={(event) => {
            event.preventDefault();
            void begin(server.seek({ ...wish, bot: ME }));
          }}
        >
          <label class="field">
            Rules
            <select value={wish.profile} onChange={(event) => setWish({ ...wish, profile: event.currentTarget.value as NonNullable<NewSeek["profile"]> })}>
              <option value="interintent">with talk after each proposal</option>
              <option value="official">of the board game</option>
            </select>
          </label>
          <label class="field">
            Seats
            <select value={wish.players} onChange={(event) => setWish({ ...wish, players: Number(event.currentTarget.value) })}>
              {[5, 6, 7, 8, 9, 10].map((count) => (
                <option key={count} value={count}>
                  {count}
                </option>
              ))}
            </select>
          </label>
          <label class="field">
            Pace
            <select value={wish.pace} onChange={(event) => setWish({ ...wish, pace: event.currentTarget.value as NonNullable<NewSeek["pace"]> })}>
              {Object.entries(PACE).map(([pace, words]) => (
                <option key={pace} value={pace}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <label class="field">
            Wait for others
            <select value={wish.wait_s} onChange={(event) => setWish({ ...wish, wait_s: Number(event.currentTarget.value) })}>
              {[10, 60, 300, 1800].map((seconds) => (
                <option key={seconds} value={seconds}>
                  {seconds < 60 ? `${seconds} s` : `${seconds / 60} min`}
                </option>
              ))}
            </select>
          </label>
          <button type="submit" class="primary" disabled={busy}>
            Seek a game
          </button>
        </form>
      )}
      <section aria-label="Who waits">
        <h2>Who waits</h2>
        {lobby === undefined ? (
          fault === undefined && <Loading what="who waits" />
        ) : lobby.pools.length + lobby.games.length === 0 ? (
          <Empty title="Nobody waits at the moment">
            <p>Whoever comes next finds you, if you seek a game.</p>
          </Empty>
        ) : (
          <ul class="invitations">
            {lobby.pools.map((pool) => (
              <li key={`${pool.profile} ${pool.players} ${pool.pace} ${pool.rated}`} class="row">
                {pool.waiting} of {plural(pool.players, "player")}: {pool.profile}, {pool.pace}
                {pool.rated && ", rated (for bots)"}
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
              <li key={game.game_id} class="row">
                Game <ShortId id={game.game_id} />: {plural(game.seats.length - game.claimed, "open seat")} of {game.players}
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
              <li key={seek.seek_id} class="row">
                <bdi>{seek.bot}</bdi>: {seek.pool}
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
