/** A game of the server: what has happened, and what happens. */
import { Stream, type Frame, type GameEvent, type GameView, type Viewer } from "@interintent/client";
import { computed, signal } from "@preact/signals";
import { key, server } from "../session.ts";

const OVER: ReadonlySet<string> = new Set(["finished", "cancelled", "failed"]);

export class GameSource {
  readonly game: string;
  readonly log = signal<readonly GameEvent[]>([]);
  readonly view = signal<GameView | undefined>(undefined);
  readonly state = signal<"loading" | "open" | "cut" | "over">("loading");
  readonly fault = signal<unknown>(undefined);
  /** How many people watch, where the server says so. */
  readonly watchers = signal<number | undefined>(undefined);
  readonly running = computed(() => this.state.value === "open" || this.state.value === "cut");
  #stream: Stream | undefined;
  #stopped = new AbortController();

  constructor(game: string) {
    this.game = game;
  }

  async start(): Promise<void> {
    const { signal: stopped } = this.#stopped;
    try {
      const view = await server.game(this.game, undefined, stopped);
      const viewer = view.viewer as Viewer;
      if (OVER.has(view.status)) {
        const log = await server.log(this.game, viewer, 0, stopped);
        this.view.value = view;
        this.log.value = log;
        this.state.value = "over";
        return;
      }
      this.view.value = view;
      this.#stream = new Stream(this.game, {
        url: server.url,
        viewer,
        sit: false,
        token: key.value,
        onState: (state) => {
          if (state !== "connecting") this.state.value = state;
        },
      });
      await this.#stream.run((frame) => this.#hear(frame));
    } catch (error) {
      if (!stopped.aborted) this.fault.value = error;
    }
  }

  stop(): void {
    this.#stopped.abort();
    this.#stream?.stop();
  }

  #hear(frame: Frame): void {
    if (frame.t === "events") this.log.value = [...this.log.value, ...(frame["items"] as GameEvent[])];
    else if (frame.t === "watchers") this.watchers.value = Number(frame["n"]);
  }
}
