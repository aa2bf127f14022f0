import { ApiError, Refused } from "./errors.ts";
import { Server, newId } from "./server.ts";
import { Stream, type StreamOptions } from "./stream.ts";
import type { Acknowledgement, Action, Frame, GameEvent, Refusal, Request, Thought } from "./types.ts";

interface Sent {
  message: Record<string, unknown>;
  resolve: (ack: Acknowledgement) => void;
  reject: (error: Error) => void;
}

/** What a player is told. */
export interface SeatHandlers {
  /** New events of this seat's own stream. */
  onEvents?: (events: readonly GameEvent[]) => void;
  /** The request that is open now; none when there is nothing to answer. */
  onRequest?: (request: Request | undefined) => void;
  /** Any other frame, e.g. of the live layer. */
  onFrame?: (frame: Frame) => void;
}

/** After a new connection, how long an open request may not be asked again before it counts as closed. */
const LEAVE_MS = 2000;

/** A seat of a game, played from here. Broken connections are mended; an answer counts once. */
export class SeatPlayer {
  readonly #stream: Stream;
  readonly #server: Server;
  readonly #token: string | undefined;
  readonly #handlers: SeatHandlers;
  readonly #sent = new Map<string, Sent>();
  #open: Request | undefined;
  #leave: ReturnType<typeof setTimeout> | undefined;

  constructor(game: string, options: StreamOptions & { token?: string }, handlers: SeatHandlers = {}) {
    this.#stream = new Stream(game, { sit: true, ...options });
    this.#server = new Server(options.url ?? "");
    this.#token = options.token;
    this.#handlers = handlers;
  }

  get request(): Request | undefined {
    return this.#open;
  }

  /** Plays until the game is over, or `stop`; rejects as `Stream.run` does, e.g. with code 4409 when replaced. */
  async run(): Promise<void> {
    try {
      await this.#stream.run((frame) => this.#hear(frame));
    } finally {
      this.#ask(undefined);
      for (const id of [...this.#sent.keys()]) void this.#settle(id);
    }
  }

  stop(): void {
    this.#stream.stop();
  }

  /**
   * Answers a request; resolves when the answer is committed. It is sent again over every new connection until then.
   *
   * Rejects with Refused; after `illegal-action` and `invalid-action` the request is still open.
   */
  act(request: Request, action: Action, thoughts: readonly Thought[] = []): Promise<Acknowledgement> {
    const id = newId();
    const message = { t: "act", id, request_id: request.request_id, action, ...(thoughts.length ? { thoughts } : {}) };
    return new Promise((resolve, reject) => {
      this.#sent.set(id, { message, resolve, reject });
      this.#stream.send(message);
    });
  }

  #hear(frame: Frame): void {
    switch (frame.t) {
      case "welcome":
        // What was open stays so until it is asked again, or is not: whoever was answering goes on.
        if (this.#open) this.#leave = setTimeout(() => this.#ask(undefined), LEAVE_MS);
        for (const { message } of this.#sent.values()) this.#stream.send(message);
        return;
      case "events":
        return this.#handlers.onEvents?.(frame["items"] as GameEvent[]);
      case "request": {
        const request = frame as unknown as Request;
        this.#ask(request);
        // An answer to an earlier request, not acknowledged yet: the server knows what became of it.
        for (const [id, { message }] of [...this.#sent])
          if (message["request_id"] !== request.request_id) void this.#settle(id);
        return;
      }
      case "ack": {
        const sent = this.#take(frame["re"]);
        if (sent?.message["request_id"] === this.#open?.request_id) this.#ask(undefined);
        return sent?.resolve(frame as unknown as Acknowledgement);
      }
      case "error": {
        const refusal = frame as unknown as Refusal;
        if (refusal.request !== undefined) this.#ask(refusal.request ?? undefined);
        return this.#take(refusal.re)?.reject(new Refused(refusal));
      }
      default:
        this.#handlers.onFrame?.(frame);
    }
  }

  #ask(request: Request | undefined): void {
    clearTimeout(this.#leave);
    this.#open = request;
    this.#handlers.onRequest?.(request);
  }

  #take(id: unknown): Sent | undefined {
    const sent = this.#sent.get(String(id));
    this.#sent.delete(String(id));
    return sent;
  }

  /** Asks over HTTP what became of an answer that the socket did not settle. */
  async #settle(id: string): Promise<void> {
    const sent = this.#take(id);
    if (sent === undefined) return;
    const { request_id: request, action, thoughts } = sent.message;
    const path = `/games/${encodeURIComponent(this.#stream.game)}/requests/${encodeURIComponent(String(request))}/action`;
    // Without a token of the seat, the query names the seat.
    const query = this.#token === undefined ? { viewer: `seat:${String(request).split(".").at(-1)}` } : {};
    try {
      const body = { action, ...(thoughts === undefined ? {} : { thoughts }) };
      sent.resolve(await this.#server.post(path, body, { repeat: true, token: this.#token, query }));
    } catch (error) {
      if (!(error instanceof ApiError)) return sent.reject(error as Error);
      sent.reject(new Refused({ ...error.problem, code: error.code, detail: error.message }));
    }
  }
}
