/** What somebody said: text, whatever is in it. It is never read as markup. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import { calm } from "../theme.ts";

const LONG = 1500;
const LINES = 14;

/** Words a second that a speech is played out with. */
const PACE = 14;

/** Milliseconds that a speech takes to be played out. */
export const spokenMs = (text: string): number => Math.min(8000, (1000 * words(text).length) / PACE);

const words = (text: string): string[] => text.match(/\s*\S+/gu) ?? [];

interface Props {
  text: string;
  /** Whether the words come one after the other. All of them are in the page from the start, to be found and read. */
  playing?: boolean;
  label?: string;
}

export const Speech = ({ text, playing = false, label = "A long text" }: Props): JSX.Element => {
  const long = text.length > LONG || text.split("\n", LINES + 1).length > LINES;
  const body = playing && !calm.value ? <Played text={text} /> : text;
  if (!long)
    return (
      <p class="speech" dir="auto">
        {body}
      </p>
    );
  return (
    <div class="speech speech-long" dir="auto" role="group" tabIndex={0} aria-label={label}>
      {body}
    </div>
  );
};

const Played = ({ text }: { text: string }): JSX.Element => {
  const parts = useMemo(() => words(text), [text]);
  const [heard, setHeard] = useState(0);
  const began = useRef(0);
  useEffect(() => {
    const total = spokenMs(text);
    let frame = 0;
    began.current = performance.now();
    const step = (now: number): void => {
      const count = total ? Math.ceil((parts.length * (now - began.current)) / total) : parts.length;
      setHeard(Math.min(count, parts.length));
      if (count < parts.length) frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [text, parts]);
  return (
    <>
      {parts.slice(0, heard).join("")}
      <span class="unheard">{parts.slice(heard).join("")}</span>
    </>
  );
};
