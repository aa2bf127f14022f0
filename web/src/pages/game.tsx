/** A game of the server, live or over. */
import type { GameView, Viewer } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { AboutGame } from "../game/about.tsx";
import { keepCatalogue } from "../game/catalogue.ts";
import { GameScreen } from "../game/screen.tsx";
import { keepJudgements } from "../game/judged.ts";
import { GameSource } from "../game/source.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading, Watching } from "../parts/states.tsx";
import { key, server } from "../session.ts";

/** The source of a game, begun with the page and left with it; begun anew with another key, and in another round. */
export const useGame = (game: string, round = 0): GameSource => {
  const source = useMemo(() => new GameSource(game), [game, key.value, round]);
  useEffect(() => {
    void source.start();
    keepJudgements([]);
    // Without the catalogue, the ids of intentions are shown.
    server.intentions().then(keepCatalogue, () => undefined);
    return () => source.stop();
  }, [source]);
  // What raters found comes after the end, to those who may see it.
  const over = source.state.value === "over";
  const full = source.view.value?.viewer === "full";
  useEffect(() => {
    if (over && full) server.judgements(game).then(keepJudgements, () => undefined);
  }, [source, over, full]);
  return source;
};

const STATUS: Record<string, string> = {
  created: "Waiting",
  running: "Live",
  suspended: "Suspended",
  finished: "Finished",
  cancelled: "Cancelled",
  failed: "Failed",
  queued: "Queued",
  done: "Done",
};

export const Status = ({ status }: { status: string }): JSX.Element => (
  <span class={`status status-${status}`}>
    <span class="dot" aria-hidden="true" />
    {STATUS[status] ?? status}
  </span>
);

const Title = ({ game, view, source }: { game: string; view: GameView; source: GameSource }): JSX.Element => {
  // The view is as old as the page; the events tell what has become of the game since.
  const last = source.log.value.at(-1)?.type;
  const status = last === "game_ended" ? "finished" : last === "game_cancelled" ? "cancelled" : view.status === "created" && source.log.value.length > view.head ? "running" : view.status;
  return (
    <div class="game-title">
      <h1>
        <span class="muted">Game</span> <ShortId id={game} />
      </h1>
      <Status status={status} />
      {source.state.value === "cut" && (
        <span class="cut" role="status">
          Connection lost; coming back …
        </span>
      )}
      {source.watchers.value !== undefined && source.running.value && <Watching count={source.watchers.value} />}
    </div>
  );
};

export const GamePage = ({ game }: { game: string }): JSX.Element => {
  const [round, setRound] = useState(0);
  const source = useGame(game, round);
  const view = source.view.value;
  const begun = source.log.value.length > 0;
  if (source.fault.value && !begun) return <Fault whole error={source.fault.value} again={() => setRound(round + 1)} />;
  if (!view) return <Loading what="the game" />;
  if (!begun)
    return source.state.value === "over" ? (
      <Empty whole title="Nothing has happened in this game" />
    ) : (
      <Loading what="the game's events" />
    );
  return (
    <>
      {source.fault.value !== undefined && <Fault error={source.fault.value} again={() => setRound(round + 1)} />}
      <GameScreen
        key={view.viewer}
        log={source.log}
        running={source.running}
        viewer={view.viewer as Viewer}
        base={`/games/${game}`}
        title={<Title game={game} view={view} source={source} />}
        now={{ turn: source.turn.value, making: source.making.value }}
        about={<AboutGame view={view} log={source.log.value} />}
      />
    </>
  );
};
