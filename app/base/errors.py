"""What can go wrong at the edge.

AvalonError                (engine.errors)
├── InvalidInput           could we read it?
│   ├── InvalidRequest     a body, a query or a cursor of the wrong shape
│   ├── CredentialInUrl    a key or a token where logs would keep it
│   └── Unparsable         not JSON at all
└── RefusedRequest         do we allow it now?
    ├── NotFound           no such thing, or not for this caller: alike
    ├── Unauthenticated    no credential, or one we do not know
    ├── Forbidden          this credential does not reach so far
    ├── DrivenAutomatically  a step, for a game that steps itself
    ├── Stale              the game moved on since the caller looked
    ├── BeyondHead         after a position that is not there yet
    ├── Unfinished         an export of a batch that still runs
    ├── AlreadyOver        nothing left to cancel or to step
    ├── AlreadyGraded      a rater's answer to an item that has one
    ├── AlreadyJudged      a rater's second word on the same intention
    ├── AlreadySeen        a guess about what the caller was shown
    ├── NotComparable      two raters with nothing in common
    ├── UnknownRequest     no such request of this seat: another's, or none, alike
    ├── AlreadyAnswered    another answer to this request was accepted before
    ├── TooLate            that request is closed: the default was played
    ├── RateLimited        more, and faster, than one caller may
    ├── NotAnswered        a step, and a remote seat has not answered yet
    ├── BudgetSpent        no further call to a model may be paid
    ├── MissingAnswer      a recording lacks what was asked
    ├── KeyReused          one idempotency key, two bodies
    ├── KeyInUse           the same key is being worked on
    ├── TooLarge           more than we read
    ├── TooSlow            a body that stopped coming, or came for too long
    ├── WrongMediaType     not JSON by its own word
    ├── NotAllowed         this address takes other methods
    ├── UpgradeRequired    the socket's address, asked over plain HTTP
    ├── Draining           stopping; ask again elsewhere or later
    └── NotReady           starting, stopping, or without its database
"""

from engine.errors import AvalonError, InvalidInput

__all__ = [
    "AlreadyAnswered",
    "AlreadyGraded",
    "AlreadyJudged",
    "AlreadyOver",
    "AlreadySeen",
    "BeyondHead",
    "BudgetSpent",
    "CredentialInUrl",
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
    "RateLimited",
    "RefusedRequest",
    "Stale",
    "TooLarge",
    "TooLate",
    "TooSlow",
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
    """A key or a token in a path or a query."""


class Unparsable(InvalidInput):
    """Not JSON, or JSON that two readers would read differently."""


class RefusedRequest(AvalonError):
    """It was read, and is refused."""


class NotFound(RefusedRequest):
    """No such thing, or not for this caller."""


class Unauthenticated(RefusedRequest):
    """No credential, or one we do not know."""


class Forbidden(RefusedRequest):
    """The credential does not reach so far."""


class DrivenAutomatically(RefusedRequest):
    """The game is driven by the service."""


class Stale(RefusedRequest):
    """``If-Match`` names an older state."""


class BeyondHead(RefusedRequest):
    """``after`` lies beyond the last event."""


class Unfinished(RefusedRequest):
    """The batch still runs."""


class AlreadyOver(RefusedRequest):
    """The game or batch has ended."""


class UnknownRequest(RefusedRequest):
    """No such request is open for this seat. Another seat's request answers just so."""


class AlreadyAnswered(RefusedRequest):
    """Another answer to this request was accepted before, and counts."""


class TooLate(RefusedRequest):
    """The request is closed: its deadline has passed, its attempts are used up, or the game is over."""


class RateLimited(RefusedRequest):
    """Too many in too short a time."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotAnswered(RefusedRequest):
    """A step needs the answer of a remote seat that has not come yet."""


class _Placed(RefusedRequest):
    """A refusal that names the part of the request that it is about."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


class AlreadyGraded(_Placed):
    """The rater's answer to this item was graded before."""


class AlreadyJudged(_Placed):
    """The rater has judged this intention before."""


class AlreadySeen(_Placed):
    """The credential was shown the gold that it guesses."""


class NotComparable(RefusedRequest):
    """Two raters who said nothing about the same thing, or whose answers count by different rules."""


class BudgetSpent(RefusedRequest):
    """A game's or a batch's budget for models is spent."""


class MissingAnswer(RefusedRequest):
    """The recorded answers hold none to this question, or an answer to another."""


class KeyReused(RefusedRequest):
    """The idempotency key came with another body before."""


class KeyInUse(RefusedRequest):
    """The same idempotency key is being worked on."""


class TooLarge(RefusedRequest):
    """The body is larger than we read."""


class TooSlow(RefusedRequest):
    """The body stopped coming, or came for too long."""


class WrongMediaType(RefusedRequest):
    """The body says of itself that it is not JSON."""


class NotAllowed(RefusedRequest):
    """The address exists and takes other methods."""


class UpgradeRequired(RefusedRequest):
    """The address speaks WebSocket only."""


class Draining(RefusedRequest):
    """The service is stopping."""


class NotReady(RefusedRequest):
    """The service starts, stops, or has lost its database."""
