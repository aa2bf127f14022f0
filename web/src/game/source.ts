/** A game of the server: what has happened, and what happens. */
import { ApiError, Server, Stream, type Frame, type GameEvent, type GameView, type Seat, type SocketFrames, type Viewer } from "@interintent/client";
import { computed, signal } from "@preact/signals";
import { tokenOf } from "../play/tokens.ts";
import { server } from "../session.ts";

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
  /** What models are thinking and saying, as far as they have come, by seat; for the researcher alone. */
  readonly making = signal<readonly Making[]>([]);
  readonly running = computed(() => this.state.value === "open" || this.state.value === "cut");
  #stream: Stream | undefined;
  #stopped = new AbortController();

  constructor(game: string) {
    this.game = game;
  }

  async start(): Promise<void> {
    const { signal: stopped } = this.#stopped;
    try {
      const [asks, view] = await this.#first(stopped);
      const viewer = view.viewer as Viewer;
      if (OVER.has(view.status)) {
        const log = await asks.log(this.game, viewer, 0, stopped);
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
        token: asks.key,
        onState: (state) => {
          if (state !== "connecting") this.state.value = state;
        },
      });
      await this.#stream.run((frame) => this.#hear(frame));
      // What became of it, and what it took.
      if (!stopped.aborted) this.view.value = await asks.game(this.game, viewer, stopped);
    } catch (error) {
      if (!stopped.aborted) this.fault.value = error;
    }
  }

  /** Whom to ask, and the first answer. Who plays here and has no key looks on as the seat. */
  async #first(stopped: AbortSignal): Promise<[Server, GameView]> {
    try {
      return [server, await server.game(this.game, undefined, stopped)];
    } catch (error) {
      const held = tokenOf(this.game);
      if (!held || !(error instanceof ApiError) || error.status !== 401 || server.key !== undefined) throw error;
      const seat = new Server(server.url, { key: held.token });
      return [seat, await seat.game(this.game, undefined, stopped)];
    }
  }

  stop(): void {
    this.#stopped.abort();
    this.#stream?.stop();
  }

  #hear(frame: Frame): void {
    const heard = frame as unknown as LiveFrame;
    switch (heard.t) {
      case "events": {
        this.log.value = [...this.log.value, ...heard.items];
        // What a seat has done, it makes no more.
        const done = new Set(heard.items.map(doer));
        if (this.making.value.some(({ seat }) => done.has(seat))) this.making.value = this.making.value.filter(({ seat }) => !done.has(seat));
        return;
      }
      case "watchers":
        this.watchers.value = heard.n;
        return;
      case "turn":
        this.turn.value = heard.kind === null ? undefined : heard;
        return;
      case "speaking":
        this.#make(heard.seat, ({ withdrawn }) => ({ step: heard.step, text: "", withdrawn }));
        return;
      case "utterance_delta":
        // Who came late lacks the beginning, and is shown what follows.
        this.#make(heard.seat, ({ text }) => ({ text: text.slice(0, heard.start) + heard.text }));
        return;
      case "utterance_withdrawn":
        this.#make(heard.seat, ({ text, withdrawn }) => ({ text: "", withdrawn: text || withdrawn }));
    }
  }

  #make(seat: Seat, change: (known: Making) => Partial<Making>): void {
    const known = this.making.value.find((one) => one.seat === seat) ?? { seat, step: "", text: "", withdrawn: "" };
    const others = this.making.value.filter((one) => one.seat !== seat);
    this.making.value = [...others, { ...known, ...change(known) }].sort((one, other) => one.seat - other.seat);
  }
}

/** The seat whose deed an event is. */
const doer = (event: GameEvent): Seat | undefined =>
  "seat" in event ? event.seat : "leader" in event ? event.leader : "assassin" in event ? event.assassin : undefined;

type S = SocketFrames;
type LiveFrame = { t: "events"; items: GameEvent[] } | S["Awaited"] | S["Watchers"] | S["Speaking"] | S["UtteranceDelta"] | S["UtteranceWithdrawn"];

export type Turn = S["Awaited"];

export interface Making {
  seat: Seat;
  step: string;
  text: string;
  /** The speech that was taken back last; empty: none was. */
  withdrawn: string;
}
