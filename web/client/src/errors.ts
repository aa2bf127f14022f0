import type { Problem, Request } from "./types.ts";

/** The service refused a call. `code` names the problem; `GET /problems/{code}` explains it. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly problem: Partial<Problem>;
  /** Seconds to wait before another try, if the service named them. */
  readonly retryAfter: number | undefined;

  constructor(status: number, problem: Partial<Problem>, retryAfter?: number) {
    super(problem.detail ?? problem.title ?? `the service answered ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** No answer came, however often the call was made. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The server closed the socket for a reason that coming back does not mend. */
export class Closed extends Error {
  override readonly name = "Closed";
  readonly code: number;

  constructor(code: number, reason: string) {
    super(reason || CLOSED[code] || `the connection was closed with ${code}`);
    this.code = code;
  }
}

/** An answer was refused. `request`: the request that is still open, if one is. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly code: string;
  readonly pointer: string | undefined;
  readonly attemptsLeft: number | undefined;
  readonly request: Request | undefined;

  constructor(refusal: {
    code: string;
    detail: string;
    pointer?: string | null;
    attempts_left?: number | null;
    request?: Request | null;
  }) {
    super(refusal.detail);
    this.code = refusal.code;
    this.pointer = refusal.pointer ?? undefined;
    this.attemptsLeft = refusal.attempts_left ?? undefined;
    this.request = refusal.request ?? undefined;
  }
}

const CLOSED: Record<number, string> = {
  4400: "the server could not read what was asked",
  4401: "a valid key or token is needed",
  4403: "there is no such game for this key or token",
  4409: "a newer connection holds this seat",
  4416: "the position asked for lies beyond the end of the game",
  4426: "the server speaks another version of the protocol",
};
