/** A seat that is played here: its events, what it is asked, and what became of its answers. */
import {
  type Acknowledgement,
  type Action,
  type GameEvent,
  type Request,
  type Seat,
  SeatPlayer,
  type Thought,
} from "@interintent/client";
import { computed, signal } from "@preact/signals";
import { fold } from "../game/fold.ts";
import { key, server } from "../session.ts";
import { draftOf, dropDraft, tokenOf } from "./tokens.ts";

export class SeatSource {
  readonly seat: Seat;
  readonly log = signal<readonly GameEvent[]>([]);
  readonly tables = computed(() => fold(this.log.value));
  readonly table = computed(() => this.tables.value.at(-1));
  readonly request = signal<Request | undefined>(undefined);
  /** When the open request ends, by this machine's clock; undefined: it has no deadline. */
  readonly until = signal<number | undefined>(undefined);
  /** Whom the game waits for, as the server says to everybody. */
  readonly turn = signal<{ kind: string | null; seats: readonly Seat[] } | undefined>(undefined);
  readonly watchers = signal(0);
  readonly state = signal<"loading" | "open" | "cut" | "over">("loading");
  readonly fault = signal<unknown>(undefined);
  /** What was asked last and went away without an answer from here, so that its default was played. */
  readonly missed = signal<Request | undefined>(undefined);
  #answered: string | undefined;
  readonly #player: SeatPlayer;

  constructor(
    readonly game: string,
    seat: Seat,
  ) {
    const held = tokenOf(game);
    this.seat = held?.seat ?? seat;
    this.#player = new SeatPlayer(
      game,
      {
        url: server.url,
        live: true,
        viewer: `seat:${this.seat}`,
        ...(held ? { token: held.token } : key.peek() === undefined ? {} : { token: key.peek()! }),
        onState: (state) => {
          if (state !== "connecting") this.state.value = state;
        },
      },
      {
        onEvents: (events) => {
          this.log.value = [...this.log.value, ...events];
        },
        onRequest: (request) => {
          const before = this.request.value;
          if (before && before.request_id !== request?.request_id && before.request_id !== this.#answered) this.missed.value = before;
          // It was asked again after a cut.
          else if (request && request.request_id === this.missed.value?.request_id) this.missed.value = undefined;
          if (request && !draftOf(game, this.seat, request.request_id)) dropDraft(game);
          this.request.value = request;
          this.until.value = request?.ttl_ms == null ? undefined : Date.now() + request.ttl_ms;
        },
        onFrame: (frame) => {
          if (frame.t === "turn") this.turn.value = frame as unknown as { kind: string | null; seats: Seat[] };
          else if (frame.t === "watchers") this.watchers.value = Number(frame["n"]);
        },
      },
    );
  }

  async start(): Promise<void> {
    try {
      await this.#player.run();
    } catch (error) {
      this.fault.value = error;
    }
  }

  stop(): void {
    this.#player.stop();
  }

  act(request: Request, action: Action, thoughts: readonly Thought[]): Promise<Acknowledgement> {
    this.#answered = request.request_id;
    this.missed.value = undefined;
    return this.#player.act(request, action, thoughts).then(
      (acknowledged) => {
        if (draftOf(this.game, this.seat, request.request_id)) dropDraft(this.game);
        return acknowledged;
      },
      (error: unknown) => {
        this.#answered = undefined;
        if (this.request.value?.request_id !== request.request_id) this.missed.value = request;
        throw error;
      },
    );
  }
}
