/** The script of a static site: the index, or one game. Everything that it shows is in the page. */
import type { Ending, GameEvent, Intention, Side, Viewer } from "@interintent/client";
import { signal } from "@preact/signals";
import { render } from "preact";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { AboutGame } from "./game/about.tsx";
import { keepCatalogue } from "./game/catalogue.ts";
import { Reading } from "./game/reading.tsx";
import { GameScreen } from "./game/screen.tsx";
import { ENDING, SIDE, plural } from "./game/words.ts";
import { Icon } from "./parts/icons.tsx";
import { ShortId } from "./parts/short-id.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { VirtualTable } from "./parts/virtual.tsx";
import { path } from "./router.ts";
import "./style.css";

interface Listed {
  file: string;
  game: string;
  profile: string;
  players: number;
  quests: readonly boolean[];
  winner: Side | null;
  ending: Ending | null;
}

type Data =
  | { kind: "index"; title: string; eyes: Viewer; games: readonly Listed[] }
  | { kind: "game"; title: string; eyes: Viewer; game: string; log: readonly GameEvent[]; intentions?: readonly Pick<Intention, "id" | "label">[] };

const won = ({ winner, ending }: Listed): string => (winner && ending ? `${SIDE[winner]} wins: ${ENDING[ending]}` : "not finished");

const Index = ({ games, title }: Extract<Data, { kind: "index" }>): JSX.Element => {
  const [words, setWords] = useState("");
  const shown = useMemo(() => {
    const wanted = words.trim().toLowerCase();
    return games.filter((game) => !wanted || `${game.game} ${game.profile} ${won(game)}`.toLowerCase().includes(wanted));
  }, [words, games]);
  return (
    <div class="watch">
      <div class="lead">
        <div>
          <h1 dir="auto">{title}</h1>
          <p>{plural(games.length, "game")} of Avalon, to watch again. Choose one.</p>
        </div>
      </div>
      <form class="filters" role="search" aria-label="Games" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span class="hidden">Find a game</span>
          <input type="search" placeholder="Find: id, rules, result" value={words} onInput={(input) => setWords(input.currentTarget.value)} />
        </label>
        <p class="count" role="status">
          {plural(shown.length, "game")}
        </p>
      </form>
      <VirtualTable
        count={shown.length}
        rowHeight={56}
        label="Games"
        columns={
          <>
            <span role="columnheader" class="c-game">Game</span>
            <span role="columnheader" class="c-status">Quests</span>
            <span role="columnheader" class="c-won">Result</span>
            <span role="columnheader" class="c-rules">Rules</span>
          </>
        }
        row={(index) => {
          const game = shown[index]!;
          return (
            <>
              <span role="cell" class="c-game">
                <a href={game.file}>
                  <ShortId id={game.game} />
                </a>
              </span>
              <span role="cell" class="c-status quest-dots">
                {game.quests.map((good, i) => (
                  <Icon key={i} name={good ? "check" : "cross"} label={`quest ${i + 1} ${good ? "succeeded" : "failed"}`} />
                ))}
              </span>
              <span role="cell" class="c-won">
                {game.winner && <Icon name={game.winner} />} {won(game)}
              </span>
              <span role="cell" class="c-rules">
                {plural(game.players, "seat")}, {game.profile}
              </span>
            </>
          );
        }}
      />
    </div>
  );
};

const Game = ({ data }: { data: Extract<Data, { kind: "game" }> }): JSX.Element => {
  const log = useMemo(() => signal(data.log), [data]);
  const running = useMemo(() => signal(false), []);
  if (path.value === "/text") return <Reading log={data.log} viewer={data.eyes} base="/" name={`Game ${data.game.replace(/^g_/, "")}`} />;
  return (
    <GameScreen
      log={log}
      running={running}
      viewer={data.eyes}
      base="/"
      title={
        <div class="game-title">
          <h1>
            <span class="muted">Game</span> <ShortId id={data.game} />
          </h1>
        </div>
      }
      about={<AboutGame log={data.log} />}
    />
  );
};

const Site = ({ data }: { data: Data }): JSX.Element => (
  <>
    <header class="top">
      <a class="brand" href={data.kind === "index" ? "#/" : "../index.html"}>
        <bdi>{data.title}</bdi>
      </a>
      <nav aria-label="Pages">{data.kind === "game" && <a href="../index.html">All games</a>}</nav>
      <ThemeSwitch />
    </header>
    <main id="main">{data.kind === "index" ? <Index {...data} /> : <Game data={data} />}</main>
  </>
);

const data = JSON.parse(document.getElementById("data")!.textContent) as Data;
if (data.kind === "game") keepCatalogue(data.intentions ?? []);
render(<Site data={data} />, document.getElementById("app")!);
