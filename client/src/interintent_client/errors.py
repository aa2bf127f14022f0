"""Everything this client raises.

InterIntentError
├── ApiError            the server answered a call with a problem (RFC 9457)
├── Refused             the server did not take an answer of a seat; the request may still be open
├── Unacknowledged      nobody can say whether an answer of a seat counted
│   └── GameOver        it found the game over
├── Unreachable         no answer after every retry
├── ExportBroken        an export that is not what its last line signs
└── Closed              the server ended the connection for good
    ├── TokenRefused    4401: mint another token
    ├── NoSuchGame      4403: none for this credential
    └── Replaced        4409: a newer connection holds the seat
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interintent_client.records import Request

__all__ = [
    "ApiError",
    "Closed",
    "ExportBroken",
    "GameOver",
    "InterIntentError",
    "NoSuchGame",
    "Refused",
    "Replaced",
    "TokenRefused",
    "Unacknowledged",
    "Unreachable",
    "closed",
]


class InterIntentError(Exception):
    """The root of all."""


class ApiError(InterIntentError):
    """A problem: ``code`` is stable, ``detail`` is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", ""))
        self.trace_id = problem.get("trace_id")
        self.errors: list[Mapping[str, Any]] = list(problem.get("errors", ()))
        """Each with ``pointer`` (into what was sent), ``code`` and ``message``."""
        self.problem = problem
        """As it came."""
        faults = "".join(f"; {error.get('pointer')}: {error.get('message')}" for error in self.errors)
        super().__init__(f"{status} {self.code}: {self.detail}{faults}")

    @property
    def pointer(self) -> str | None:
        """Where in what was sent the first error lies; None where the problem names no place."""
        return str(self.errors[0]["pointer"]) if self.errors else None


class Refused(InterIntentError):
    """An answer that was not taken: ``illegal-action``, ``too-late``, ``already-answered``, …"""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        pointer: str | None = None,
        attempts_left: int | None = None,
        request: "Request | None" = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.pointer = pointer
        """JSON pointer into the action (or the thoughts)."""
        self.attempts_left = attempts_left
        self.request = request
        """What the seat is still asked for, where it is asked."""


class Unacknowledged(InterIntentError):
    """The request closed before its answer was acknowledged, and nobody says what became of it."""


class GameOver(Unacknowledged):
    """The game ended before the answer was acknowledged."""


class Unreachable(InterIntentError):
    """The server did not answer, or kept answering that it cannot, as often as we tried."""


class ExportBroken(InterIntentError):
    """Lines are missing or changed."""


class Closed(InterIntentError):
    """Connecting again would not help."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with {code}: {reason}")
        self.code = code
        self.reason = reason


class TokenRefused(Closed):
    """The token is missing, unknown, expired, or it was revoked."""


class NoSuchGame(Closed):
    """No such game for this credential."""


class Replaced(Closed):
    """A newer connection of the same seat took over. Connecting again would start a fight over the seat."""


_CLOSED = {4401: TokenRefused, 4403: NoSuchGame, 4409: Replaced}


def closed(code: int, reason: str) -> Closed:
    """The error that this close code is."""
    return _CLOSED.get(code, Closed)(code, reason)
