import { Closed, Unreachable } from "./errors.ts";
import { COME_BACK, pause, sleep } from "./retry.ts";
import type { Frame, GameEvent, Viewer } from "./types.ts";

export interface StreamOptions {
  /** The server's address; empty in a page of the service itself. */
  url?: string;
  /** A key or token, or a function that gets one: called at the start, and again when it was refused. */
  token?: string | (() => Promise<string>) | undefined;
  viewer?: Viewer | undefined;
  /** Whether this connection holds the seat; without a word, it does if the token is the seat's own. */
  sit?: boolean;
  /** The position of the last event that is known already. */
  after?: number;
  /** Frames of the live layer are wanted, too: whose turn it is, and how many watch. */
  live?: boolean;
  /** Failures in a row after which the stream gives up; without a word, never. */
  patience?: number;
  /** Whether the stream is connected; `cut` until it has come back. */
  onState?: (state: "connecting" | "open" | "cut" | "over") => void;
}

const SUBPROTOCOL = "avalon.v1";

/** The frames of one viewer of one game, over as many sockets as it takes. Every event comes exactly once. */
export class Stream {
  readonly game: string;
  /** The position of the last event that came. */
  after: number;
  readonly #options: StreamOptions;
  #socket: WebSocket | undefined;
  #token: string | undefined;
  #welcomed = false;
  #failures = 0;
  #stopped = new AbortController();

  constructor(game: string, options: StreamOptions = {}) {
    this.game = game;
    this.#options = options;
    this.after = options.after ?? 0;
    if (typeof options.token === "string") this.#token = options.token;
  }

  /** Leaves: closes the socket, and `run` returns. */
  stop(): void {
    this.#stopped.abort();
    this.#socket?.close(1000);
  }

  /** Sends a message if connected. What is not answered is sent again by the caller at the next welcome. */
  send(message: Record<string, unknown>): void {
    if (this.#welcomed && this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(message));
  }

  /**
   * Gives every frame from each welcome on to `onFrame`; an `events` frame holds new events only.
   *
   * Returns when the game is over and everything has come, or after `stop`. Rejects with Closed when coming
   * back does not help, and with Unreachable after `patience` failures in a row.
   */
  async run(onFrame: (frame: Frame) => void): Promise<void> {
    const { signal } = this.#stopped;
    let renewed = false;
    while (!signal.aborted) {
      this.#options.onState?.("connecting");
      const { code, reason, worked } = await this.#connect(onFrame);
      if (signal.aborted) return;
      if (code === 1000) return this.#options.onState?.("over");
      renewed = renewed && !worked;
      if (code === 4401 && typeof this.#options.token === "function" && !renewed) {
        renewed = true;
        this.#token = undefined;
        continue;
      }
      if (!COME_BACK.has(code)) throw new Closed(code, reason);
      this.#options.onState?.("cut");
      this.#failures += 1;
      if (this.#failures >= (this.#options.patience ?? Infinity))
        throw new Unreachable(`gave up after ${this.#failures} failures in a row`);
      const asked = Number(/retry_after_ms=(\d+)/.exec(reason)?.[1] ?? 0);
      await sleep(Math.max(asked, pause(this.#failures - 1)), signal);
    }
  }

  async #connect(onFrame: (frame: Frame) => void): Promise<{ code: number; reason: string; worked: boolean }> {
    if (this.#token === undefined && typeof this.#options.token === "function") this.#token = await this.#options.token();
    return new Promise((resolve) => {
      const socket = new WebSocket(this.#address(), SUBPROTOCOL);
      this.#socket = socket;
      this.#welcomed = false;
      let ended = false;
      const end = (code: number, reason: string): void => {
        if (ended) return;
        ended = true;
        clearTimeout(silence);
        resolve({ code, reason, worked: this.#welcomed });
      };
      // A network that is gone does not say so: the server says something every 25 s.
      let silence: ReturnType<typeof setTimeout> | undefined;
      const heard = (): void => {
        clearTimeout(silence);
        silence = setTimeout(() => {
          socket.close();
          end(1006, "the server has said nothing for a minute");
        }, 60_000);
      };
      heard();
      socket.onopen = () => {
        socket.send(JSON.stringify(this.#identify()));
      };
      socket.onmessage = ({ data }: MessageEvent<string>) => {
        if (ended) return;
        heard();
        const frame = JSON.parse(data) as Frame;
        if (frame.t === "hello" || (frame.t === "error" && !this.#welcomed)) return;
        if (frame.t === "welcome") this.#welcomed = true;
        if (frame.t === "events") {
          const items = this.#fresh(frame["items"] as GameEvent[]);
          if (items === undefined) {
            // A gap is a fault of the server or of a proxy: read again from before the gap.
            socket.close();
            return end(1006, "an event is missing");
          }
          onFrame({ ...frame, items });
        } else onFrame(frame);
        if (frame.t === "events" || frame.t === "beat") this.#failures = 0;
        if (frame.t === "welcome") this.#options.onState?.("open");
      };
      socket.onclose = ({ code, reason }) => end(code, reason);
    });
  }

  #address(): string {
    const base = this.#options.url || globalThis.location?.origin;
    return `${base.replace(/\/+$/, "").replace(/^http/, "ws")}/ws`;
  }

  #identify(): Record<string, unknown> {
    const { viewer, sit, live } = this.#options;
    return {
      t: "identify",
      v: 1,
      game: this.game,
      after: this.after,
      client: "@interintent/client/0.1",
      ...(this.#token === undefined ? {} : { token: this.#token }),
      ...(viewer === undefined ? {} : { viewer }),
      ...(sit === undefined ? {} : { sit }),
      ...(live ? { live } : {}),
    };
  }

  #fresh(items: GameEvent[]): GameEvent[] | undefined {
    const fresh: GameEvent[] = [];
    for (const item of items) {
      if (item.seq <= this.after) continue;
      if (item.seq !== this.after + 1) return undefined;
      this.after = item.seq;
      fresh.push(item);
    }
    return fresh;
  }
}
