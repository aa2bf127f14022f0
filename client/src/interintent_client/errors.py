"""The exceptions of this client.

InterIntentError
├── ApiError            the server answered a call with a problem (RFC 9457)
├── Refused             the server refused a seat's answer; the request may still be open
├── Unacknowledged      nobody can say whether a seat's answer counted
│   └── GameOver        because the game ended first
├── Unreachable         no answer, in spite of every retry
├── ExportBroken        an export that does not match its last line
└── Closed              the server ended the connection for good
    ├── TokenRefused    4401: mint another token
    ├── NoSuchGame      4403: no such game for this credential
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
    """The base class of this client's exceptions."""


class ApiError(InterIntentError):
    """The server answered with a problem: ``code`` is stable, ``detail`` is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", ""))
        self.trace_id = problem.get("trace_id")
        errors = problem.get("errors")
        # What stands between us and the server may answer with problems of another form.
        self.errors: list[Mapping[str, Any]] = (
            [error for error in errors if isinstance(error, Mapping)] if isinstance(errors, list) else []
        )
        """The errors, each with ``pointer`` (into the sent body), ``code`` and ``message``."""
        self.problem = problem
        """The whole problem, as received."""
        faults = "".join(f"; {error.get('pointer')}: {error.get('message')}" for error in self.errors)
        super().__init__(f"{status} {self.code}: {self.detail}{faults}")

    @property
    def pointer(self) -> str | None:
        """JSON pointer to the first error in the sent body; None when the problem names no place."""
        pointer = self.errors[0].get("pointer") if self.errors else None
        return None if pointer is None else str(pointer)


class Refused(InterIntentError):
    """The server refused an answer; ``code`` is ``illegal-action``, ``too-late``, ``already-answered``, …"""

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
        """JSON pointer into the action (or the thoughts); None when the refusal names no place."""
        self.attempts_left = attempts_left
        self.request = request
        """The request that is still open to the seat; None if none is, or if the server does not say."""


class Unacknowledged(InterIntentError):
    """The request closed before its answer was acknowledged; nobody can say whether the answer counted."""


class GameOver(Unacknowledged):
    """The game ended before the answer was acknowledged."""


class Unreachable(InterIntentError):
    """The server gave no answer to any attempt, or answered each time that it cannot serve now, refused the
    connection, or did not finish a long answer in time; or what answers at its address is something else.
    """


class ExportBroken(InterIntentError):
    """Lines of an export are missing or changed."""


class Closed(InterIntentError):
    """The server closed the connection; connecting again would not help."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with {code}: {reason}")
        self.code = code
        self.reason = reason


class TokenRefused(Closed):
    """The token is missing, unknown, expired or revoked."""


class NoSuchGame(Closed):
    """The game does not exist, or this credential may not see it."""


class Replaced(Closed):
    """A newer connection of the same seat took over. Connecting again would start a fight over the seat."""


_CLOSED = {4401: TokenRefused, 4403: NoSuchGame, 4409: Replaced}


def closed(code: int, reason: str) -> Closed:
    """The exception for this close code."""
    return _CLOSED.get(code, Closed)(code, reason)
