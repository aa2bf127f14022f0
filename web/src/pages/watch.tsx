/** Every game of the server: to find, to sort, to watch. */
import type { GameSummary } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ENDING, SIDE, plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { VirtualTable } from "../parts/virtual.tsx";
import { amend, go, href, place } from "../router.ts";
import { key, server } from "../session.ts";
import { Status } from "./game.tsx";

const SHOW = {
  all: { name: "All", status: undefined },
  running: { name: "Running", status: "created,running,suspended" },
  finished: { name: "Finished", status: "finished" },
  ended: { name: "Cancelled or failed", status: "cancelled,failed" },
} as const;
type Show = keyof typeof SHOW;

const SORT: Record<string, string> = {
  "-created": "Newest first",
  created: "Oldest first",
  "-finished": "Last finished first",
  status: "By status",
  winner: "By winner",
  "-players": "By seats",
  profile: "By rules",
};

const ago = (at: string): string => {
  const s = (Date.now() - Date.parse(at)) / 1000;
  if (s < 60) return "just now";
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  return new Date(at).toLocaleDateString();
};

const won = (game: GameSummary): string => (game.winner ? `${SIDE[game.winner]} wins: ${ENDING[game.ending!]}` : "");

const Row = ({ game }: { game: GameSummary }): JSX.Element => (
  <>
    <span role="cell" class="c-game">
      <a href={href(`/games/${game.game_id}`)}><ShortId id={game.game_id} /></a>
    </span>
    <span role="cell" class="c-status">
      <Status status={game.status} />
    </span>
    <span role="cell" class="c-won">
      {game.winner && <Icon name={game.winner} />} {won(game)}
    </span>
    <span role="cell" class="c-rules" title={game.title ?? game.profile}>
      {plural(game.players, "seat")}, {game.agents?.join(", ") ?? game.profile}
    </span>
    <span role="cell" class="c-batch">
      <a href={href(`/batches/${game.batch_id}`)}><ShortId id={game.batch_id} /></a>
    </span>
    <span role="cell" class="c-when">
      <time dateTime={game.created_at}>{ago(game.created_at)}</time>
    </span>
  </>
);

const Columns = (): JSX.Element => (
  <>
    <span role="columnheader" class="c-game">Game</span>
    <span role="columnheader" class="c-status">Status</span>
    <span role="columnheader" class="c-won">Result</span>
    <span role="columnheader" class="c-rules">Seats</span>
    <span role="columnheader" class="c-batch">Batch</span>
    <span role="columnheader" class="c-when">Begun</span>
  </>
);

const EVERY_MS = 3000;
const PAGE = 200;
/** Games to a page where all of them are wanted, to look for words in them. */
const LARGE = 1000;

export const WatchPage = (): JSX.Element => {
  const { show: asked, sort: by, batch, winner } = place.value.query;
  const show: Show = asked && asked in SHOW ? (asked as Show) : "all";
  const sort = by && by in SORT ? by : "-created";
  const [words, setWords] = useState("");
  const [games, setGames] = useState<readonly GameSummary[] | undefined>(undefined);
  const [next, setNext] = useState<string | null>(null);
  const [fault, setFault] = useState<unknown>(undefined);
  const [round, setRound] = useState(0);
  const loading = useRef<AbortController | undefined>(undefined);
  const query = { status: SHOW[show].status, batch, winner, sort, limit: PAGE };

  // The server sorts and filters; pages come as they are scrolled to, or all of them where words are looked for.
  useEffect(() => {
    const stop = new AbortController();
    loading.current = stop;
    setGames(undefined);
    setFault(undefined);
    server.games(query, stop.signal).then(
      (page) => {
        setGames(page.games);
        setNext(page.next);
      },
      (error: unknown) => stop.signal.aborted || setFault(error),
    );
    const refresh = setInterval(() => {
      if (document.hidden) return;
      // What is new or has changed lies on the first page; it is laid over what is known.
      server.games(query, stop.signal).then(
        ({ games: fresh }) =>
          setGames((known) => {
            const ids = new Set(fresh.map(({ game_id }) => game_id));
            return [...fresh, ...(known ?? []).filter(({ game_id }) => !ids.has(game_id))];
          }),
        () => undefined,
      );
    }, EVERY_MS);
    return () => {
      stop.abort();
      clearInterval(refresh);
    };
  }, [show, sort, batch, winner, key.value, round]);

  const [looking, setLooking] = useState(false);
  const busy = useRef(false);
  const more = (): void => {
    const stop = loading.current;
    if (!next || busy.current || !stop) return;
    busy.current = true;
    server
      .games({ ...query, limit: looking || words.trim() ? LARGE : PAGE, cursor: next }, stop.signal)
      .then(
        (page) => {
          setGames((known) => {
            const ids = new Set(known?.map(({ game_id }) => game_id));
            return [...(known ?? []), ...page.games.filter(({ game_id }) => !ids.has(game_id))];
          });
          setNext(page.next);
        },
        (error: unknown) => stop.signal.aborted || setFault(error),
      )
      .finally(() => {
        busy.current = false;
      });
  };
  useEffect(() => {
    if (looking || words.trim()) more();
  }, [looking, !!words.trim(), next]);

  const shown = useMemo(() => {
    const wanted = words.trim().toLowerCase();
    const fits = (game: GameSummary): boolean =>
      !wanted ||
      `${game.game_id} ${game.batch_id} ${game.title ?? ""} ${game.agents?.join(" ") ?? ""} ${game.status} ${game.profile} ${won(game)}`
        .toLowerCase()
        .includes(wanted);
    return (games ?? []).filter(fits);
  }, [games, words]);

  const [making, setMaking] = useState(false);
  const play = async (): Promise<void> => {
    setMaking(true);
    try {
      const made = await server.createGames();
      go(href(`/games/${made.games?.[0]?.game_id}`, { at: 1, play: 1 }));
    } catch (error) {
      setFault(error);
    } finally {
      setMaking(false);
    }
  };

  return (
    <div class="watch">
      <div class="lead">
        <div>
          <h1>Watch</h1>
          <p>Language models, bots and people play Avalon here. Look at any table, live or again.</p>
        </div>
        <button type="button" class="primary" disabled={making} onClick={() => void play()}>
          <Icon name="play" /> Show me a game
        </button>
      </div>
      <form class="filters" role="search" aria-label="Games" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span class="hidden">Find a game</span>
          <input type="search" placeholder="Find: id, title, agent, result" value={words} onFocus={() => setLooking(true)} onBlur={() => setLooking(false)} onInput={(input) => setWords(input.currentTarget.value)} />
        </label>
        <label>
          <span class="hidden">Which games</span>
          <select value={show} onChange={(change) => amend({ show: change.currentTarget.value === "all" ? undefined : change.currentTarget.value })}>
            {Object.entries(SHOW).map(([name, { name: label }]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="hidden">Result</span>
          <select value={winner ?? ""} onChange={(change) => amend({ winner: change.currentTarget.value || undefined })}>
            <option value="">Any result</option>
            <option value="loyal">Loyal wins</option>
            <option value="evil">Evil wins</option>
          </select>
        </label>
        <label>
          <span class="hidden">Order</span>
          <select value={sort} onChange={(change) => amend({ sort: change.currentTarget.value === "-created" ? undefined : change.currentTarget.value })}>
            {Object.entries(SORT).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <p class="count" role="status">
          {games ? `${next ? "more than " : ""}${plural(shown.length, "game")}` : ""}
        </p>
        {batch && (
          <p>
            of batch {batch}{" "}
            <button type="button" class="link" onClick={() => amend({ batch: undefined })}>
              show all
            </button>
          </p>
        )}
      </form>
      {fault !== undefined && <Fault error={fault} again={() => setRound(round + 1)} />}
      {!games && fault === undefined && <Loading what="the games" />}
      {games && games.length === 0 && (
        <Empty title={show === "all" ? "No game has been played here yet" : "No game is in this state"}>
          <p>
            {show === "all" ? "“Show me a game” lets five scripted seats play one. A study or POST /games brings more." : "Choose others above."}
          </p>
        </Empty>
      )}
      {games && games.length > 0 && shown.length === 0 && <Empty title="No game fits these words" />}
      {shown.length > 0 && <VirtualTable count={shown.length} rowHeight={56} label="Games" columns={<Columns />} row={(index) => <Row game={shown[index]!} />} onEnd={more} />}
    </div>
  );
};
