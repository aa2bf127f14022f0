/** A game of the server as one text. */
import type { Viewer } from "@interintent/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Reading } from "../game/reading.tsx";
import { Fault, Loading } from "../parts/states.tsx";
import { useGame } from "./game.tsx";

export const ReadPage = ({ game }: { game: string }): JSX.Element => {
  const [round, setRound] = useState(0);
  const source = useGame(game, round);
  const view = source.view.value;
  if (source.fault.value && !source.log.value.length) return <Fault whole error={source.fault.value} again={() => setRound(round + 1)} />;
  if (!view || !source.log.value.length) return <Loading what="the game" />;
  return <Reading log={source.log.value} viewer={view.viewer as Viewer} base={`/games/${game}`} name={`Game ${game.replace(/^g_/, "")}`} />;
};
