"""Errors of the service, in addition to those of the rules.

AvalonError                (engine.errors)
├── InvalidInput           it cannot be read
│   ├── InvalidRequest     a body, a query or a cursor of the wrong shape
│   ├── CredentialInUrl    a key or a token where logs would keep it
│   └── Unparsable         not JSON, or JSON that could be read in two ways
└── RefusedRequest         it can be read, and is refused
    ├── NotFound           unknown, or not for this caller: the same answer
    ├── Unauthenticated    no valid credential
    ├── Forbidden          the credential does not allow it
    ├── DrivenAutomatically  a step of a game that the service drives
    ├── Stale              the game has moved on since the caller read it
    ├── BeyondHead         a position after the last event
    ├── Unfinished         an export of a running batch
    ├── AlreadyOver        nothing is left to cancel or to step
    ├── NotSuspended       nothing is there to resume
    ├── StillNeeded        something that is not over needs what is to be deleted
    ├── AlreadyJudged      a rater's second judgement of the same thing
    ├── AlreadySeen        a guess about something that the caller was shown
    ├── SetSealed          what a set shows only after its date
    ├── SetClosed          answers to a set after its date
    ├── TooManyRaters      an owner's fourth rater of a set
    ├── DamagedEntry       a rater's answers to a set that cannot be read any more: our own fault
    ├── NotComparable      two raters with no item in common
    ├── UnknownRequest     the seat has no such request open
    ├── AlreadyAnswered    another answer to this request was accepted before
    ├── TooLate            the request is closed: no answer counts any more
    ├── CodeSpent          a claim code that was used, has expired, or whose game is over
    ├── RateLimited        too many requests in too short a time
    ├── QuotaExceeded      more than the caller's quota allows
    ├── NotAnswered        a step while a remote seat has not answered
    ├── BudgetSpent        the budget for models is spent
    ├── MissingAnswer      a recording without an answer to the question
    ├── TrialRunning       a second trial of a model while the first still runs
    ├── KeyReused          an idempotency key that was used with another body
    ├── KeyInUse           a request with the same key is in progress
    ├── TooLarge           a body beyond the size limit
    ├── TooSlow            a body that took too long to arrive
    ├── WrongMediaType     a body declared as something other than JSON
    ├── NotAllowed         the address takes other methods
    ├── UpgradeRequired    plain HTTP at the socket's address
    ├── Draining           the service is stopping
    └── NotReady           the service is starting, stopping, or without its database
"""

from engine.errors import AvalonError, InvalidInput

__all__ = [
    "AlreadyAnswered",
    "AlreadyJudged",
    "AlreadyOver",
    "AlreadySeen",
    "BeyondHead",
    "BudgetSpent",
    "CodeSpent",
    "CredentialInUrl",
    "DamagedEntry",
    "Draining",
    "DrivenAutomatically",
    "Forbidden",
    "InvalidRequest",
    "KeyInUse",
    "KeyReused",
    "MissingAnswer",
    "NotAllowed",
    "NotAnswered",
    "NotComparable",
    "NotFound",
    "NotReady",
    "NotSuspended",
    "QuotaExceeded",
    "RateLimited",
    "RefusedRequest",
    "SetClosed",
    "SetSealed",
    "Stale",
    "StillNeeded",
    "TooLarge",
    "TooLate",
    "TooManyRaters",
    "TooSlow",
    "TrialRunning",
    "Unauthenticated",
    "Unfinished",
    "UnknownRequest",
    "Unparsable",
    "UpgradeRequired",
    "WrongMediaType",
]


class InvalidRequest(InvalidInput):
    """A body, a query or a cursor of the wrong shape."""

    def __init__(self, message: str, pointer: str = "", code: str = "invalid") -> None:
        super().__init__(message, pointer)
        self.code = code


class CredentialInUrl(InvalidInput):
    """A key or a token in a path or a query, where logs would keep it."""


class Unparsable(InvalidInput):
    """Not JSON, or JSON that two parsers could read differently."""


class RefusedRequest(AvalonError):
    """The request was read, and is refused."""


class NotFound(RefusedRequest):
    """It does not exist, or not for this caller; callers cannot tell which."""


class Unauthenticated(RefusedRequest):
    """No credential, or an invalid one."""


class Forbidden(RefusedRequest):
    """The credential does not allow this."""


class DrivenAutomatically(RefusedRequest):
    """The game is driven by the service."""


class Stale(RefusedRequest):
    """``If-Match`` names an older state."""


class BeyondHead(RefusedRequest):
    """``after`` lies beyond the last event."""


class Unfinished(RefusedRequest):
    """The batch is still running."""


class AlreadyOver(RefusedRequest):
    """The game or batch has ended."""


class NotSuspended(RefusedRequest):
    """Neither the batch nor any of its games is suspended."""


class StillNeeded(RefusedRequest):
    """A game that is to be deleted is not over, or something that is not over needs it."""


class UnknownRequest(RefusedRequest):
    """No such request is open for this seat. Another seat's request gets the same answer."""


class AlreadyAnswered(RefusedRequest):
    """Another answer to this request was accepted before."""


class TooLate(RefusedRequest):
    """The request is closed: its deadline has passed, its attempts are used up, or the game is over."""


class CodeSpent(RefusedRequest):
    """The claim code was used before, replaced, or has expired, or its game is over."""


class RefusedForNow(RefusedRequest):
    """A request that is allowed again after some seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(RefusedForNow):
    """Too many requests in too short a time."""


class QuotaExceeded(RefusedForNow):
    """More than the quota of the caller's owner allows."""

    def __init__(self, message: str, retry_after_s: float, quota: str, limit: float) -> None:
        super().__init__(message, retry_after_s)
        self.quota = quota
        """The quota's name."""
        self.limit = limit


class NotAnswered(RefusedRequest):
    """A step needs the answer of a remote seat, which has not come yet."""


class _RefusedPart(RefusedRequest):
    """A refusal that points to one part of the request."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


class AlreadyJudged(_RefusedPart):
    """The rater has judged this before: the same intention or, for a judge, one of the same games. Also
    raised while another request stores or makes those judgements.
    """

    def __init__(self, message: str, pointer: str, unfinished: str | None = None) -> None:
        super().__init__(message, pointer)
        self.unfinished = unfinished
        """The evaluation that is making the judgements; None if they are stored, or nobody knows it."""


class AlreadySeen(_RefusedPart):
    """A key of the caller's owner was shown too much to answer this item."""


class SetSealed(RefusedRequest):
    """The set's answers and gold are not shown before its date."""


class SetClosed(RefusedRequest):
    """The set's date has passed, or it was withdrawn: it takes no answers any more."""


class TooManyRaters(_RefusedPart):
    """The owner has answered the set under as many raters' names as it may."""


class DamagedEntry(RefusedRequest):
    """The stored answers or scores of a rater's entry to a set cannot be read: our own fault."""


class NotComparable(RefusedRequest):
    """Two raters with no item in common, or whose answers are scored by different rules."""


class BudgetSpent(RefusedRequest):
    """The model budget of a game or a batch is spent."""


class MissingAnswer(RefusedRequest):
    """The recording has no answer to this question."""


class TrialRunning(RefusedRequest):
    """The model is being tried, and two trials at once would slow each other down."""


class KeyReused(RefusedRequest):
    """The idempotency key was used with another body before."""


class KeyInUse(RefusedRequest):
    """A request with the same idempotency key is in progress."""


class TooLarge(RefusedRequest):
    """The body exceeds the size limit."""


class TooSlow(RefusedRequest):
    """The body took too long to arrive, or paused for too long."""


class WrongMediaType(RefusedRequest):
    """The request declares its body as something other than JSON."""


class NotAllowed(RefusedRequest):
    """The address exists, but takes only other methods."""


class UpgradeRequired(RefusedRequest):
    """The address takes WebSocket handshakes only."""


class Draining(RefusedRequest):
    """The service is stopping."""


class NotReady(RefusedRequest):
    """The service is starting, stopping, or without its database."""
