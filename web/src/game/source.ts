/** A game of the server: what has happened, and what happens. */
import { Stream, type Frame, type GameEvent, type GameView, type Seat, type SocketFrames, type Viewer } from "@interintent/client";
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
  /** Whom the game waits for; none when nobody is told. */
  readonly turn = signal<Turn | undefined>(undefined);
  /** What a model is saying, as far as it has come; for the researcher alone. */
  readonly making = signal<Making | undefined>(undefined);
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
        live: true,
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
    const heard = frame as unknown as LiveFrame;
    switch (heard.t) {
      case "events":
        this.log.value = [...this.log.value, ...heard.items];
        if (heard.items.some((event) => event.type === "utterance_made" && event.seat === this.making.value?.seat))
          this.making.value = undefined;
        return;
      case "watchers":
        this.watchers.value = heard.n;
        return;
      case "turn":
        this.turn.value = heard.kind === null ? undefined : heard;
        return;
      case "speaking":
        this.making.value = { seat: heard.seat, step: heard.step, text: "" };
        return;
      case "utterance_delta": {
        const known = this.making.value?.seat === heard.seat ? this.making.value : undefined;
        // Who came late lacks the beginning, and is shown what follows.
        const text = (known?.text ?? "").slice(0, heard.start) + heard.text;
        this.making.value = { seat: heard.seat, step: known?.step ?? "", text };
        return;
      }
      case "utterance_withdrawn":
        if (this.making.value?.seat === heard.seat) this.making.value = undefined;
    }
  }
}

type S = SocketFrames;
type LiveFrame = { t: "events"; items: GameEvent[] } | S["Awaited"] | S["Watchers"] | S["Speaking"] | S["UtteranceDelta"] | S["UtteranceWithdrawn"];

export type Turn = S["Awaited"];

export interface Making {
  seat: Seat;
  step: string;
  text: string;
}
