/** When to try again. */

/** Close codes after which a client comes back; 1005 and 1006 are a connection that broke. */
export const COME_BACK: ReadonlySet<number> = new Set([1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429]);

/** Statuses of HTTP after which the same call is made again. */
export const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Milliseconds to wait after the nth failure in a row (from 0): full jitter, 30 s at most. */
export const pause = (failures: number): number => Math.random() * Math.min(30_000, 500 * 2 ** Math.min(failures, 10));

/** Waits; ends at once, without an error, when the signal is aborted. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
