import { ApiError, Unreachable } from "./errors.ts";
import { AGAIN, pause, sleep } from "./retry.ts";
import type {
  BatchCreated,
  BatchPage,
  BatchView,
  GameEvent,
  GamePage,
  GameView,
  Intention,
  ItemPage,
  Judgement,
  Lobby,
  NewGames,
  NewSeek,
  Problem,
  Ratings,
  Report,
  ReportProgress,
  Seek,
  Viewer,
} from "./types.ts";

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface CallOptions {
  query?: Query;
  body?: unknown;
  /** Whether a second call does no harm; without a word, every call but a POST. */
  repeat?: boolean;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A seat's or watcher's token, in place of the server's key. */
  token?: string | undefined;
}

/** One server, called with one credential or with none. */
export class Server {
  /** The address, without a slash at its end; empty in a page of the service itself. */
  readonly url: string;
  /** The key; sent as Bearer with every call, kept nowhere else. */
  key: string | undefined;
  readonly #tries: number;

  constructor(url = "", options: { key?: string; tries?: number } = {}) {
    this.url = url.replace(/\/+$/, "");
    this.key = options.key;
    this.#tries = options.tries ?? 5;
  }

  /** The answer to a call; refusals become ApiError. A call that may be repeated is, while no answer comes. */
  async response(method: string, path: string, options: CallOptions = {}): Promise<Response> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options.query ?? {}))
      if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
    const address = `${this.url}${path}${query.size ? `?${query}` : ""}`;
    const credential = options.token ?? this.key;
    const init: RequestInit = {
      method,
      headers: {
        ...(credential ? { Authorization: `Bearer ${credential}` } : {}),
        ...(options.body === undefined ? {} : { "Content-Type": "application/json" }),
        ...options.headers,
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      ...(options.signal ? { signal: options.signal } : {}),
      credentials: "omit",
    };
    const tries = (options.repeat ?? method !== "POST") ? this.#tries : 1;
    for (let failures = 0; ; failures++) {
      let fault: unknown;
      let wait = pause(failures);
      try {
        const answer = await fetch(address, init);
        if (answer.ok || answer.status === 304) return answer;
        const refused = await problemOf(answer);
        if (!AGAIN.has(answer.status) || failures + 1 >= tries) throw refused;
        wait = Math.max(wait, 1000 * (refused.retryAfter ?? 0));
      } catch (error) {
        if (error instanceof ApiError || options.signal?.aborted) throw error;
        fault = error;
        if (failures + 1 >= tries)
          throw new Unreachable(`no answer from ${this.url || "the server"}: is it running?`, { cause: fault });
      }
      await sleep(wait, options.signal);
    }
  }

  async get<T>(path: string, query: Query = {}, options: CallOptions = {}): Promise<T> {
    return (await this.response("GET", path, { ...options, query })).json() as Promise<T>;
  }

  async post<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
    return (await this.response("POST", path, { ...options, body })).json() as Promise<T>;
  }

  /** A POST that counts once, and so is repeated while no answer comes; `key` names it, to repeat it later still. */
  once<T>(path: string, body: unknown, key = newId()): Promise<T> {
    return this.post(path, body, { repeat: true, headers: { "Idempotency-Key": key } });
  }

  /** Everybody who played rated games, by one fit over all of them. */
  ratings(signal?: AbortSignal): Promise<Ratings> {
    return this.get("/ratings", {}, signal ? { signal } : {});
  }

  // --- games ---

  /** A page of games; `sort` and the filters are those of `GET /games`, `next` is the next page's `cursor`. */
  games(query: Query = {}, signal?: AbortSignal): Promise<GamePage> {
    return this.get("/games", query, signal ? { signal } : {});
  }

  game(game: string, viewer?: Viewer, signal?: AbortSignal): Promise<GameView> {
    return this.get(`/games/${encodeURIComponent(game)}`, { viewer }, signal ? { signal } : {});
  }

  /** Everything that has happened so far. */
  async log(game: string, viewer?: Viewer, after = 0, signal?: AbortSignal): Promise<GameEvent[]> {
    const answer = await this.response("GET", `/games/${encodeURIComponent(game)}/events`, {
      query: { viewer, after },
      ...(signal ? { signal } : {}),
    });
    const lines = (await answer.text()).split("\n");
    return lines.filter((line) => line.trim()).map((line) => JSON.parse(line) as GameEvent);
  }

  /** Creates games; an answer that got lost is asked for again, and the games are created once. */
  createGames(settings: Partial<NewGames> = {}): Promise<BatchCreated> {
    return this.once("/games", settings);
  }

  // --- meeting ---

  /** Seeks a game; an answer that got lost is asked for again, and leads to one seat. */
  seek(wish: NewSeek = {}): Promise<Seek> {
    return this.once("/seeks", wish);
  }

  /** One of the own seeks; with `wait`, when it has ended or so many seconds are over. */
  seekState(seek: string, wait = 0, signal?: AbortSignal): Promise<Seek> {
    return this.get(`/seeks/${encodeURIComponent(seek)}`, { wait_s: wait }, signal ? { signal } : {});
  }

  /** Ends a seek. If it was paired at this moment, the answer has the game. */
  async withdraw(seek: string): Promise<Seek> {
    return (await this.response("DELETE", `/seeks/${encodeURIComponent(seek)}`)).json() as Promise<Seek>;
  }

  /** Who waits for what, games with open seats, and the own seeks. */
  lobby(signal?: AbortSignal): Promise<Lobby> {
    return this.get("/seeks", {}, signal ? { signal } : {});
  }

  /** Takes an open seat, as a seek that waits for the game to begin. */
  claimOpenSeat(game: string, who: { bot?: string; version?: string } = {}): Promise<Seek> {
    return this.post(`/games/${encodeURIComponent(game)}/seats/open/claim`, who, { repeat: true });
  }

  /** A page of batches, the newest first. */
  batches(query: Query = {}, signal?: AbortSignal): Promise<BatchPage> {
    return this.get("/batches", query, signal ? { signal } : {});
  }

  batch(batch: string, signal?: AbortSignal): Promise<BatchView> {
    return this.get(`/batches/${encodeURIComponent(batch)}`, {}, signal ? { signal } : {});
  }

  /** A report on finished games; the query is that of `GET /reports`. Asks again until it is made; `making` is told how
   * far it is. */
  async report(query: Query, making?: (progress: ReportProgress) => void, signal?: AbortSignal): Promise<Report> {
    for (;;) {
      const answer = await this.response("GET", "/reports", {
        query: { wait_s: 10, ...query, format: "json" },
        ...(signal ? { signal } : {}),
      });
      if (answer.status !== 202) return answer.json() as Promise<Report>;
      making?.((await answer.json()) as ReportProgress);
      await sleep(1000 * Math.min(10, Number(answer.headers.get("Retry-After")) || 1), signal);
    }
  }

  /** A page of items; the query is that of `GET /evaluations/items`. */
  items(query: Query, signal?: AbortSignal): Promise<ItemPage> {
    return this.get("/evaluations/items", query, signal ? { signal } : {});
  }

  /** The judgements of a game that the key may see: its own, or everybody's. */
  async judgements(game: string, signal?: AbortSignal): Promise<Judgement[]> {
    const { judgements } = await this.get<{ judgements: Judgement[] }>("/annotations", { game }, signal ? { signal } : {});
    return judgements;
  }

  intentions(signal?: AbortSignal): Promise<Intention[]> {
    return this.get("/intentions", {}, signal ? { signal } : {});
  }
}

/** A random name, e.g. for an idempotency key. */
export const newId = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

const problemOf = async (answer: Response): Promise<ApiError> => {
  let problem: Partial<Problem> = {};
  try {
    const read: unknown = await answer.json();
    if (read && typeof read === "object") problem = read as Partial<Problem>;
  } catch {
    // A proxy answered with something else: the status says what is to be said.
  }
  const wait = Number(answer.headers.get("Retry-After"));
  return new ApiError(answer.status, problem, Number.isFinite(wait) && wait > 0 ? wait : undefined);
};
