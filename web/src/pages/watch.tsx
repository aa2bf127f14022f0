/** Every game of the server: to find, to sort, to watch. */
import type { GameSummary } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ENDING, SIDE, ago, plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { useLook } from "../parts/look.ts";
import { Select } from "../parts/select.tsx";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { VirtualTable } from "../parts/virtual.tsx";
import { amend, go, href, place } from "../router.ts";
import { server } from "../session.ts";
import { Status } from "./game.tsx";

const SHOW = {
  all: { name: "All", status: undefined },
  running: { name: "Running", status: "created,running,suspended" },
  finished: { name: "Finished", status: "finished" },
  ended: { name: "Cancelled or failed", status: "cancelled,failed" },
} as const;
type Show = keyof typeof SHOW;
const SHOWS = Object.entries(SHOW).map(([show, { name }]) => [show as Show, name] as const);

const RESULTS = [
  ["", "Any result"],
  ["loyal", "Loyal wins"],
  ["evil", "Evil wins"],
] as const;

const SORT: Record<string, string> = {
  "-created": "Newest first",
  created: "Oldest first",
  "-finished": "Last finished first",
  status: "By status",
  winner: "By winner",
  "-players": "By seats",
  profile: "By rules",
};
const SORTS = Object.entries(SORT);

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
      <time dateTime={game.created_at} title={new Date(game.created_at).toLocaleString()}>{ago(game.created_at)}</time>
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
/** Milliseconds after the last letter until the server is asked for what was written. */
const REST_MS = 200;

interface Found {
  /** What was asked for. */
  of: string;
  games: readonly GameSummary[];
  next: string | null;
}

/** What is written to find games; it goes into the address, and comes from there. */
const useWords = (): [string, (words: string) => void] => {
  const { find = "" } = place.value.query;
  const [words, setWords] = useState(find);
  const told = useRef(find);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (words.trim() === told.current) return;
      told.current = words.trim();
      amend({ find: told.current });
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [words]);
  // A link to other words.
  useEffect(() => {
    if (find === told.current) return;
    told.current = find;
    setWords(find);
  }, [find]);
  return [words, setWords];
};

const None = (): JSX.Element => (
  <Empty title="No game has been played here yet">
    <p>“Show me a game” lets five scripted seats play one. A study or POST /games brings more.</p>
  </Empty>
);

export const WatchPage = (): JSX.Element => {
  const { show: asked, sort: by, batch, winner, find } = place.value.query;
  const show: Show = asked && asked in SHOW ? (asked as Show) : "all";
  const sort = by && by in SORT ? by : "-created";
  const [words, setWords] = useWords();
  const query = { status: SHOW[show].status, batch, winner, find, sort, limit: PAGE };
  const of = JSON.stringify(query);

  // The server finds, sorts and filters; pages come as they are scrolled to. What was found before stays until then.
  const { found, fault, again, change } = useLook<Found>(
    async (stop, known) => {
      const { games, next } = await server.games(query, stop);
      if (known?.of !== of) return { of, games, next };
      // What is new or has changed lies on the first page; it is laid over what is known.
      const ids = new Set(games.map(({ game_id }) => game_id));
      return { ...known, games: [...games, ...known.games.filter(({ game_id }) => !ids.has(game_id))] };
    },
    () => EVERY_MS,
    [of],
  );

  const [refused, setRefused] = useState<unknown>(undefined);
  const busy = useRef(false);
  const more = async (): Promise<void> => {
    if (!found?.next || found.of !== of || busy.current) return;
    busy.current = true;
    try {
      const page = await server.games({ ...query, cursor: found.next });
      change((known) => {
        if (known.of !== of) return known;
        const ids = new Set(known.games.map(({ game_id }) => game_id));
        return { of, games: [...known.games, ...page.games.filter(({ game_id }) => !ids.has(game_id))], next: page.next };
      });
    } catch (error) {
      setRefused(error);
    } finally {
      busy.current = false;
    }
  };

  const [making, setMaking] = useState(false);
  const play = async (): Promise<void> => {
    setMaking(true);
    setRefused(undefined);
    try {
      const made = await server.createGames();
      go(href(`/games/${made.games?.[0]?.game_id}`, { at: 1, play: 1 }));
    } catch (error) {
      setRefused(error);
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
          <input type="search" placeholder="Find: id, title, agent, result" value={words} maxLength={200} onInput={(input) => setWords(input.currentTarget.value)} />
        </label>
        <Select bare label="Which games" value={show} choices={SHOWS} choose={(one) => amend({ show: one === "all" ? undefined : one })} />
        <Select bare label="Result" value={winner ?? ""} choices={RESULTS} choose={(one) => amend({ winner: one })} />
        <Select bare label="Order" value={sort} choices={SORTS} choose={(one) => amend({ sort: one === "-created" ? undefined : one })} />
        <p class="count" role="status">
          {found ? `${found.next ? "more than " : ""}${plural(found.games.length, "game")}` : ""}
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
      {refused !== undefined && <Fault beside error={refused} />}
      {fault !== undefined && <Fault beside={!!found} error={fault} again={again} />}
      {!found && fault === undefined && <Loading what="the games" />}
      {found && found.games.length === 0 && (find ? <Empty title="No game fits these words" /> : show !== "all" || winner || batch ? <Empty title="No game is like that" /> : <None />)}
      {found && found.games.length > 0 && (
        <VirtualTable key={found.of} count={found.games.length} rowHeight={56} label="Games" columns={<Columns />} row={(index) => <Row game={found.games[index]!} />} onEnd={() => void more()} />
      )}
    </div>
  );
};
