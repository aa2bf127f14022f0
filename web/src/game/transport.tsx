/** Through the game by slider, keyboard or playback, and a link to the present moment. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { copy } from "../parts/copy.ts";
import { Icon } from "../parts/icons.tsx";
import { type Player, SPEEDS } from "./player.ts";
import { sentence } from "./words.ts";

export const Transport = ({ player, live, link }: { player: Player; live: boolean; link: () => string }): JSX.Element => {
  const [copied, setCopied] = useState(false);
  const at = player.at.value;
  const head = player.head.value;
  const chapters = player.chapters.value;
  const playing = player.playing.value;
  const table = player.table.value;
  const event = player.seen.value[at - 1];
  const behind = live && (!playing || at < (player.beats.value.at(-1) ?? 0));
  const copyLink = async (): Promise<void> => {
    if (!(await copy(link()))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="transport" role="group" aria-label="Replay">
      <button type="button" class="round" aria-label="The event before" title="The event before (←)" onClick={() => player.step(-1)}>
        <Icon name="previous" />
      </button>
      <button type="button" class="round big" aria-label={playing ? "Pause" : "Play"} title="Play or pause (space)" onClick={() => player.toggle()}>
        <Icon name={playing ? "pause" : "play"} />
      </button>
      <button type="button" class="round" aria-label="The next event" title="The next event (→)" onClick={() => player.step(1)}>
        <Icon name="next" />
      </button>
      <div class="track">
        <div class="segments" aria-hidden="true">
          {chapters.map((chapter) => {
            const past = chapter.to <= at;
            const quest = past ? chapter.entries.find(({ event }) => event?.type === "quest_resolved")?.event : undefined;
            const state = quest?.type === "quest_resolved" ? (quest.succeeded ? "won" : "lost") : past ? "past" : "ahead";
            return <span key={chapter.key} class={`segment segment-${state}`} style={{ flexGrow: String(chapter.to - chapter.from + 1) }} />;
          })}
        </div>
        <input
          type="range"
          min={1}
          max={Math.max(1, head)}
          value={at}
          aria-label="Moment of the game"
          aria-valuetext={`Event ${at} of ${head}${event && table ? `: ${sentence(event, table).slice(0, 120)}` : ""}`}
          onInput={(input) => player.seek(Number(input.currentTarget.value))}
        />
      </div>
      <span class="position" aria-hidden="true">
        {at}/{head}
      </span>
      <label class="speed">
        <span class="hidden">Speed</span>
        <select value={player.speed.value} onChange={(change) => (player.speed.value = Number(change.currentTarget.value))}>
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed}×
            </option>
          ))}
        </select>
      </label>
      {behind && (
        <button
          type="button"
          class="live-button"
          onClick={() => {
            player.seek(head);
            player.playing.value = true;
          }}
        >
          Go live
        </button>
      )}
      {!import.meta.env.SITE && (
        <button type="button" class="round" aria-label={copied ? "The link is copied" : "Copy a link to this moment"} title="Copy a link to this moment" onClick={() => void copyLink()}>
          <Icon name={copied ? "check" : "link"} />
        </button>
      )}
      <span class="hidden" role="status">
        {copied ? "The link is copied." : ""}
      </span>
    </div>
  );
};

/** Keys that work wherever no field has the focus. */
export const onKey = (player: Player, event: KeyboardEvent): void => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  const target = event.target as HTMLElement;
  if (target.closest("input, select, textarea, dialog")) return;
  const acts = target.closest("button, a, summary");
  switch (event.key) {
    case "ArrowLeft":
      event.shiftKey ? player.leap(-1) : player.step(-1);
      break;
    case "ArrowRight":
      event.shiftKey ? player.leap(1) : player.step(1);
      break;
    case " ":
      if (acts) return;
      player.toggle();
      break;
    default:
      return;
  }
  event.preventDefault();
};
