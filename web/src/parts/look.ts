/** Asking the server, once or again and again, for as long as a page is open. */
import { useEffect, useRef, useState } from "preact/hooks";
import { faultOf, key } from "../session.ts";

/** Milliseconds until a server that was away is asked again. */
const AWAY_MS = 3000;

export interface Looked<T> {
  /** What was found last; undefined: nothing yet, or nothing for this key. */
  found: T | undefined;
  /** Why the last look failed; undefined: it did not. */
  fault: unknown;
  again: () => void;
  /** Changes what was found. */
  change: (how: (found: T) => T) => void;
}

/** Looks now, and again after as many milliseconds as `every` says of what was found; undefined: no more. What may work
 * later is tried again by itself, and nothing is asked while nobody sees the page. With another key, or another of
 * `about`, it begins anew; only with another key, what was found before goes at once. */
export const useLook = <T>(
  look: (stop: AbortSignal, known: T | undefined) => Promise<T>,
  every: (found: T) => number | undefined = () => undefined,
  about: readonly unknown[] = [],
): Looked<T> => {
  const [held, setHeld] = useState<{ key: string | undefined; found: T } | undefined>(undefined);
  const [fault, setFault] = useState<unknown>(undefined);
  const [round, setRound] = useState(0);
  const found = held && held.key === key.value ? held.found : undefined;
  const latest = useRef({ look, every, found });
  latest.current = { look, every, found };
  useEffect(() => {
    const stop = new AbortController();
    const asked = key.value;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const once = async (first: boolean): Promise<void> => {
      let next: number | undefined = AWAY_MS;
      if (!document.hidden || first)
        try {
          const now = await latest.current.look(stop.signal, latest.current.found);
          if (stop.signal.aborted) return;
          setHeld({ key: asked, found: now });
          setFault(undefined);
          next = latest.current.every(now);
        } catch (error) {
          if (stop.signal.aborted) return;
          const told = faultOf(error);
          setFault(error);
          if (told.key) setHeld(undefined);
          if (!told.again) return;
        }
      if (next !== undefined) timer = setTimeout(() => void once(false), next);
    };
    setFault(undefined);
    void once(true);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...about, key.value, round]);
  return {
    found,
    fault,
    again: () => setRound((one) => one + 1),
    change: (how) => setHeld((known) => known && { ...known, found: how(known.found) }),
  };
};
