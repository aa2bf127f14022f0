"""Every kind of problem: its code, its status, what it means and what to do about it.

``GET /problems/{code}`` serves one; ``python -m app.base.problem_kinds docs/problems.md`` writes the guide to
all of them.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.errors import InvalidAgent
from agents.model.model import ModelUnavailable
from app.base import errors as edge
from engine import errors as rules
from engine.errors import AvalonError
from evaluators.errors import InvalidRun, UnknownItem, Unmeasurable

__all__ = ["INTERNAL", "PROBLEMS", "ProblemKind", "guide", "problem_kinds"]


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: a stable code, the HTTP status, a constant title, and what it means and what to do
    in sentences of Markdown.
    """

    code: str
    status: int
    title: str
    meaning: str
    remedy: str


PROBLEMS: Final[Mapping[type[AvalonError], ProblemKind]] = {
    rules.InvalidProfile: ProblemKind(
        "invalid-profile",
        422,
        "These settings make no game",
        "The settings contradict each other or the rules: four players, two Merlins.",
        "Correct what `errors` points at.",
    ),
    rules.InvalidAction: ProblemKind(
        "invalid-action",
        422,
        "The action cannot be read",
        "The action or a thought cannot be read.",
        "Follow the schema of the request.",
    ),
    rules.InvalidRecord: ProblemKind(
        "invalid-record",
        422,
        "The record does not follow its schema",
        "The foreign record does not follow its schema.",
        "Correct what `errors` points at.",
    ),
    rules.IllegalAction: ProblemKind(
        "illegal-action",
        409,
        "The rules do not allow this action now",
        "The rules do not allow this action now.",
        "Answer the request that is open, with a legal action.",
    ),
    rules.IllegalRecord: ProblemKind(
        "illegal-record",
        422,
        "The record breaks a rule",
        "The foreign record breaks a rule; `move`, `rule`, `expected` and `found` say which and where.",
        "Correct the record, or its rules under `config`.",
    ),
    rules.CorruptLog: ProblemKind(
        "corrupt-log",
        500,
        "This game cannot be continued",
        "The stored log of this game is damaged.",
        "Report the `trace_id`. Other games are not affected.",
    ),
    InvalidAgent: ProblemKind(
        "invalid-agent",
        422,
        "No agent can be made from this",
        "A seat's spec names a kind that is not installed, or options that the kind does not take.",
        "Use a kind or an option that `detail` lists.",
    ),
    UnknownItem: ProblemKind(
        "unknown-item",
        422,
        "There is no such item to score",
        "An item id cannot be read, or is not among the items that are scored.",
        "Use ids from `GET /evaluations/items`, unchanged.",
    ),
    InvalidRun: ProblemKind(
        "invalid-run",
        422,
        "The run folder cannot be read",
        "Files of a run folder of the authors' program cannot be read.",
        "Correct what `detail` names: file, place, expected, found.",
    ),
    Unmeasurable: ProblemKind(
        "unmeasurable",
        409,
        "This game has nothing to measure yet",
        "Nothing can be counted in the game: it is not over, or you do not see all of it.",
        "Wait for its end, and read it as the viewer `full`.",
    ),
    ModelUnavailable: ProblemKind(
        "model-unavailable",
        503,
        "No model answered in time",
        "No model answered in time.",
        "Ask again after `Retry-After` seconds, or look at the model's server.",
    ),
    edge.InvalidRequest: ProblemKind(
        "invalid-request",
        422,
        "The request cannot be read",
        "A body, a parameter or a cursor has the wrong form.",
        "Correct what `errors` points at.",
    ),
    edge.CredentialInUrl: ProblemKind(
        "credential-in-url",
        400,
        "A credential has no place in an address",
        "The address holds a key or a token, and addresses end up in logs.",
        "Send `Authorization: Bearer …`, or `token` in `identify`, and have this credential replaced.",
    ),
    edge.Unparsable: ProblemKind(
        "unparsable",
        400,
        "The body is not clean JSON",
        "The body is not UTF-8, not JSON, nested too deep, or JSON that two readers would read "
        "differently (a key twice, `NaN`).",
        "Send plain JSON.",
    ),
    edge.NotFound: ProblemKind(
        "not-found",
        404,
        "Nothing here for this caller",
        "There is no such game, batch or address, or this caller may not see it; the answer is the same.",
        "Check the id and the credential.",
    ),
    edge.Unauthenticated: ProblemKind(
        "unauthenticated",
        401,
        "A valid credential is needed",
        "The credential is missing, unknown, revoked, expired or replaced.",
        "Send `Authorization: Bearer <key or token>`.",
    ),
    edge.Forbidden: ProblemKind(
        "forbidden",
        403,
        "This credential does not allow that",
        "The credential does not allow that; or a web page of another origin sent the request; or no key is "
        "configured and the request names another host than localhost.",
        "Use a key with the scope that `detail` names, or let the operator list the origin.",
    ),
    edge.DrivenAutomatically: ProblemKind(
        "driven-automatically",
        409,
        "This game steps itself",
        "Somebody asked for a step of a game that the service drives.",
        'To step a game by hand, create it with `"drive": "manual"`.',
    ),
    edge.Stale: ProblemKind(
        "stale",
        412,
        "The game has moved on",
        "The game moved on since `If-Match` was read, or while it was stepped.",
        "Read the game again, then decide.",
    ),
    edge.BeyondHead: ProblemKind(
        "beyond-head",
        416,
        "No event at that position yet",
        "`after` lies beyond the viewer's last event.",
        "Continue from a `seq` that you received.",
    ),
    edge.Unfinished: ProblemKind(
        "unfinished",
        409,
        "The batch is still running",
        "The batch or the game still runs.",
        "Wait for it, or export with `partial=true`.",
    ),
    edge.AlreadyOver: ProblemKind(
        "already-over",
        409,
        "It has already ended",
        "The game or batch has ended: there is nothing left to step or to cancel.",
        "Nothing.",
    ),
    edge.NotSuspended: ProblemKind(
        "not-suspended",
        409,
        "There is nothing to resume",
        "Neither the batch nor any of its games is suspended (for `retry`: or has failed, or is excluded "
        "and not played anew yet).",
        "Nothing: it is running, or over. If it waits for a model and should read keys and endpoints again, "
        "pause it first, then resume it.",
    ),
    edge.StillNeeded: ProblemKind(
        "still-needed",
        409,
        "It is not over, or something open needs it",
        "The game to delete is not over, or a judge or a fork still needs it; `detail` says which.",
        "Cancel what `detail` names, or wait for its end.",
    ),
    edge.UnknownRequest: ProblemKind(
        "unknown-request",
        404,
        "No such request is open for this seat",
        "This seat has no such open request. Another seat's request gets the same answer.",
        "Answer the request in `request`, or in the last `request` frame.",
    ),
    edge.AlreadyAnswered: ProblemKind(
        "already-answered",
        409,
        "Another answer was accepted before",
        "Another answer to this request was accepted before. That one stands.",
        "Go on to the next request.",
    ),
    edge.TooLate: ProblemKind(
        "too-late",
        410,
        "That request is closed",
        "The request is closed, and the default was played: its deadline has passed, its attempts are used "
        "up, or the game was ended.",
        "Go on to the next request.",
    ),
    edge.CodeSpent: ProblemKind(
        "code-spent",
        410,
        "This claim code is no longer good",
        "The claim code was used before, or has expired, or its game is over.",
        "Ask for a new code.",
    ),
    edge.RateLimited: ProblemKind(
        "rate-limited",
        429,
        "Too many requests in too short a time",
        "You sent more than 10 messages or answers a second, after a burst of 20. Accepted answers do not "
        "count.",
        "Wait as long as `Retry-After` says.",
    ),
    edge.QuotaExceeded: ProblemKind(
        "quota-exceeded",
        429,
        "More than your quota allows",
        "A quota of your key's owner is used up; `quota` and `limit` say which.",
        "Wait as long as `Retry-After` says. `GET /me` shows what is left.",
    ),
    edge.NotAnswered: ProblemKind(
        "not-answered",
        409,
        "A remote seat has not answered yet",
        "A step needs answers of `remote` seats that have not come yet; `detail` names the requests that you "
        "may see, and how many seats there are beside.",
        "Let those seats answer, then step again.",
    ),
    edge.AlreadyJudged: ProblemKind(
        "already-judged",
        409,
        "This rater has judged it before",
        "This rater has judged the intention before; `errors` points at it.",
        'Leave it out, or send `"revise": true`.',
    ),
    edge.AlreadySeen: ProblemKind(
        "already-seen",
        409,
        "Too much of this was shown to a key of yours",
        "A key of the same owner has seen what the seat chose there, or has seen the game as another seat, "
        "or may read the game in full; `errors` points at the first such answer.",
        "Leave it out: it counts as silence.",
    ),
    edge.SetSealed: ProblemKind(
        "set-sealed",
        409,
        "The set is sealed until its date",
        "The answers and the gold of a set stay secret until its date.",
        "Ask again after the date in `detail`.",
    ),
    edge.SetClosed: ProblemKind(
        "set-closed",
        410,
        "The set takes no answers any more",
        "The date of the set has passed, or its owner has withdrawn it.",
        "If the set is open now, score answers to its items with `POST /evaluations`.",
    ),
    edge.TooManyRaters: ProblemKind(
        "too-many-raters",
        409,
        "An owner answers a set as three raters",
        "The owner has answered the set under three raters' names already.",
        "Answer again under one of these names: the last answers count.",
    ),
    edge.DamagedEntry: ProblemKind(
        "damaged-entry",
        500,
        "The answers of this entry cannot be read",
        "What is stored of a rater's answers to a set is damaged. The set and its other entries are not "
        "affected.",
        "The rater may score its answers again for practice, with `POST /evaluations`. Whoever runs the "
        "service may have them in a backup.",
    ),
    edge.NotComparable: ProblemKind(
        "not-comparable",
        409,
        "These two cannot be compared",
        "The two raters or evaluations have no item in common, have different dimensions, or count by "
        "different rules.",
        "Compare what `detail` says can be compared.",
    ),
    edge.BudgetSpent: ProblemKind(
        "budget-spent",
        409,
        "The budget for models is spent",
        "The next call to a model would go beyond the budget of the game or batch.",
        "Fork the game with another budget.",
    ),
    edge.MissingAnswer: ProblemKind(
        "missing-answer",
        409,
        "The recorded answers do not fit this game",
        "The recording has no answer to a seat's question, or an answer to another question.",
        "Use the settings and seeds of the recorded run.",
    ),
    edge.TrialRunning: ProblemKind(
        "trial-running",
        409,
        "This model is being tried already",
        "This model is being tried already.",
        "Wait for that trial's answer.",
    ),
    edge.KeyReused: ProblemKind(
        "idempotency-key-reused",
        422,
        "This key was used with another body before",
        "This key was used with another body before.",
        "Use a new key.",
    ),
    edge.KeyInUse: ProblemKind(
        "idempotency-key-in-use",
        409,
        "A request with this key is being worked on",
        "A request with this key is being worked on.",
        "Ask again in a moment.",
    ),
    edge.TooLarge: ProblemKind(
        "too-large",
        413,
        "The body is larger than we read",
        "The body is larger than 1 MiB (4 MiB for a record and for answers to a set, 32 KiB for a seat's "
        "answer to a request, 1 KiB for a claim code).",
        "Send less.",
    ),
    edge.TooSlow: ProblemKind(
        "too-slow",
        408,
        "The body came too slowly",
        "No byte of the body came for 15 s, or the body was not complete after 60 s. The connection is "
        "closed.",
        "Send the request again, without pauses.",
    ),
    edge.WrongMediaType: ProblemKind(
        "wrong-media-type",
        415,
        "The body must be JSON",
        "The header `Content-Type` names something other than JSON.",
        "Send `Content-Type: application/json`.",
    ),
    edge.NotAllowed: ProblemKind(
        "method-not-allowed",
        405,
        "This address takes other methods",
        "The address takes other methods.",
        "Use a method that the header `Allow` names.",
    ),
    edge.UpgradeRequired: ProblemKind(
        "upgrade-required",
        426,
        "This address speaks WebSocket",
        "The address speaks WebSocket, and the request was plain HTTP.",
        "Connect with a WebSocket client; `/docs/bots.md` of the service is the guide.",
    ),
    edge.Draining: ProblemKind(
        "draining",
        503,
        "The service is stopping",
        "The service is stopping and takes no new work.",
        "Ask again after `Retry-After` seconds.",
    ),
    edge.NotReady: ProblemKind(
        "not-ready",
        503,
        "The service cannot take requests now",
        "The service is starting, is stopping, or cannot use its database: the database is away or locked by "
        "another program, its disk is full, or its schema is unknown. `detail` says which.",
        "Ask again after `Retry-After` seconds.",
    ),
}

INTERNAL: Final = ProblemKind(
    "internal",
    500,
    "Something broke on our side",
    "Something broke on our side.",
    "Report the `trace_id`.",
)


def problem_kinds() -> Iterator[ProblemKind]:
    """Every kind, by status."""
    yield from sorted((*PROBLEMS.values(), INTERNAL), key=lambda kind: kind.status)


_OPENING: Final = """# Problems

<!-- Written by `make openapi` from app/base/problem_kinds.py. -->

Every error of the service is a problem (RFC 9457) of the media type `application/problem+json`, over HTTP
and over the socket. `code` is stable, and `type` is `/problems/<code>`, where the service says the same as
this table. `detail` says what is wrong this time, `errors` names the places by JSON pointer, and `trace_id`
is also in the matching line of the service's log. A problem never repeats input that could not be read.

| code | status | what it means | what to do |
| --- | --- | --- | --- |
"""


def guide() -> str:
    """``docs/problems.md``."""
    rows = (f"| `{one.code}` | {one.status} | {one.meaning} | {one.remedy} |\n" for one in problem_kinds())
    return _OPENING + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(guide(), "utf-8")
