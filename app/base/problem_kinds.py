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
        "Mend the place in `errors`.",
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
        "Mend the place in `errors`.",
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
        "Mend the record, or its rules under `config`.",
    ),
    rules.CorruptLog: ProblemKind(
        "corrupt-log",
        500,
        "This game cannot be continued",
        "The stored log of this game does not fold.",
        "Report the `trace_id`; other games are not concerned.",
    ),
    InvalidAgent: ProblemKind(
        "invalid-agent",
        422,
        "No agent can be made from this",
        "A seat's spec names no installed kind, or options which that kind does not take.",
        "Take one of the kinds in `detail`.",
    ),
    UnknownItem: ProblemKind(
        "unknown-item",
        422,
        "There is no such item to score",
        "An item id reads as none, or is not among the items that are scored.",
        "Take ids from `GET /evaluations/items`, unchanged.",
    ),
    InvalidRun: ProblemKind(
        "invalid-run",
        422,
        "The run folder cannot be read",
        "Files of a run folder of the authors' program cannot be read.",
        "Mend what `detail` names: file, place, expected, found.",
    ),
    Unmeasurable: ProblemKind(
        "unmeasurable",
        409,
        "This game has nothing to measure yet",
        "The game is not over, or not shown whole: nothing can be counted in it.",
        "Wait for its end, and read it as the full viewer.",
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
        "A body, a parameter or a cursor of the wrong shape.",
        "Mend the places in `errors`.",
    ),
    edge.CredentialInUrl: ProblemKind(
        "credential-in-url",
        400,
        "A credential has no place in an address",
        "A key or a token stands in the address, where logs keep it.",
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
        "No such game, batch or address, or none for this caller: alike.",
        "Check the id.",
    ),
    edge.Unauthenticated: ProblemKind(
        "unauthenticated",
        401,
        "A valid credential is needed",
        "A credential is needed and there is none, or it is unknown, revoked, expired or replaced.",
        "Send `Authorization: Bearer <key or token>`.",
    ),
    edge.Forbidden: ProblemKind(
        "forbidden",
        403,
        "This credential does not allow that",
        "The credential does not allow that; or a web page of another origin called; or, without a "
        "configured key, another name than localhost.",
        "Use a key with the scope that `detail` names, or let the operator list the origin.",
    ),
    edge.DrivenAutomatically: ProblemKind(
        "driven-automatically",
        409,
        "This game steps itself",
        "A step was asked of a game that the service drives.",
        'Create it with `"drive": "manual"`.',
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
        "Go on from a `seq` you were given.",
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
        "Nothing: it goes on, or is over. To have keys and endpoints read anew while it waits for a model, "
        "pause it first.",
    ),
    edge.StillNeeded: ProblemKind(
        "still-needed",
        409,
        "It is not over, or something open needs it",
        "A game is to be deleted that is not over, or that a judge or a fork still needs; `detail` says "
        "which.",
        "Cancel what `detail` names, or wait for its end.",
    ),
    edge.UnknownRequest: ProblemKind(
        "unknown-request",
        404,
        "No such request is open for this seat",
        "No such request is open for this seat; another seat's request answers alike.",
        "Answer the request in `request`, or the last `request` frame.",
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
        "The request is closed: its deadline has passed, its attempts are used up, or the game was ended. "
        "The default was played.",
        "Go on to the next request.",
    ),
    edge.CodeSpent: ProblemKind(
        "code-spent",
        410,
        "This claim code is no longer good",
        "The claim code was used before, or has expired.",
        "Ask for a new code.",
    ),
    edge.RateLimited: ProblemKind(
        "rate-limited",
        429,
        "Too many requests in too short a time",
        "More than 10 messages or answers a second, after a burst of 20; an accepted answer does not count.",
        "Wait as `Retry-After` says.",
    ),
    edge.QuotaExceeded: ProblemKind(
        "quota-exceeded",
        429,
        "More than your quota allows",
        "More than a quota of your key's owner allows; `quota` and `limit` say which.",
        "Wait as `Retry-After` says; `GET /me` tells what is left.",
    ),
    edge.NotAnswered: ProblemKind(
        "not-answered",
        409,
        "A remote seat has not answered yet",
        "A step needs the answer of a `remote` seat that has not come yet; `detail` names the requests.",
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
        "A key of the same owner was shown what was chosen there, or the game through other eyes, or may "
        "read it in full; `errors` points at the first such answer.",
        "Leave it out: it counts as silence.",
    ),
    edge.SetSealed: ProblemKind(
        "set-sealed",
        409,
        "The set is sealed until its date",
        "Nothing is told of answers and gold of a set before its date.",
        "Ask again after the date in `detail`.",
    ),
    edge.SetClosed: ProblemKind(
        "set-closed",
        410,
        "The set takes no answers any more",
        "The date of the set has passed, or its owner has withdrawn it.",
        "Score answers to items of an open set with `POST /evaluations`.",
    ),
    edge.TooManyRaters: ProblemKind(
        "too-many-raters",
        409,
        "An owner answers a set as three raters",
        "The owner has answered the set under three raters' names.",
        "Answer again as one of them: the last answers count.",
    ),
    edge.NotComparable: ProblemKind(
        "not-comparable",
        409,
        "These two cannot be compared",
        "Two raters or evaluations have nothing in common, are of different dimensions, or count by "
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
        "Recorded answers hold none to what a seat asks its model, or one to another question.",
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
        "The body is larger than the service reads: 1 MiB, 4 MiB for a record and for answers to a set.",
        "Send less.",
    ),
    edge.TooSlow: ProblemKind(
        "too-slow",
        408,
        "The body came too slowly",
        "No byte of the body came for 15 s, or it was not whole after 60 s. The connection is closed.",
        "Send it again, in one go.",
    ),
    edge.WrongMediaType: ProblemKind(
        "wrong-media-type",
        415,
        "The body must be JSON",
        "The body says of itself that it is not JSON.",
        "Send `Content-Type: application/json`.",
    ),
    edge.NotAllowed: ProblemKind(
        "method-not-allowed",
        405,
        "This address takes other methods",
        "The address takes other methods.",
        "Use one of the header `Allow`.",
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
        "The service starts, stops, or cannot use its database: away, locked by another program, a full "
        "disk, an unknown schema. `detail` says which in a sentence.",
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
finds the matching line in the service's own log. What was sent is not repeated where it could not be read.

| code | status | what it means | what to do |
| --- | --- | --- | --- |
"""


def guide() -> str:
    """``docs/problems.md``."""
    rows = (f"| `{one.code}` | {one.status} | {one.meaning} | {one.remedy} |\n" for one in problem_kinds())
    return _OPENING + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(guide(), "utf-8")
