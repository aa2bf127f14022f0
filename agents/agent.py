"""What sits at the table, and what it is handed: protocols only."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.actions import SeatAction
from engine.events import Cause, Event
from engine.rules import Request
from engine.terms import Seat
from engine.view import Observation

__all__ = ["Agent", "Attentive", "Inbox", "Journal", "MakeAgent", "RemoteOutcome", "Setup"]


class Agent(Protocol):
    """Chooses for one seat of one game."""

    def act(self, observation: Observation) -> SeatAction | Awaitable[SeatAction]:
        """The answer to ``observation.request``, at once or awaited.

        An illegal answer is asked again, with the refusals so far in ``observation.refusals``.
        The observation shares the live table: read it before you answer, keep nothing of it.
        """
        ...


class Attentive(Protocol):
    """An agent that thinks while others speak. Only a game that is played on to its end tells it."""

    def notice(self, observation: Observation) -> None:
        """What the seat sees now, with the request for its own coming speech, which is not open yet."""
        ...

    def leave(self) -> None:
        """The game is over, or broken off: whatever was begun is not needed."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What an agent is made from. It never holds the game's seed, which would tell the deal."""

    seat: Seat
    seed: str
    """The agent's own source of chance: equal seeds, equal play."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the seat's spec says beside the kind."""


class MakeAgent(Protocol):
    """An agent kind: what an entry point of the group ``interintent.agents`` names."""

    def __call__(self, setup: Setup, /) -> Agent:
        """A new agent for one seat of one game. Raises InvalidAgent for options it cannot take."""
        ...


class Journal(Protocol):
    """Where a game's new events go. ``append`` returns when they are safe; only then are they folded."""

    async def append(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """What a remote player answered to one request."""

    action: SeatAction | None
    """The accepted answer with its thoughts; None: the default is to be played."""
    cause: Cause | None = None
    """Why the default is played."""
    refusals: tuple[str, ...] = ()
    """Why earlier answers were refused, oldest first."""


class Inbox(Protocol):
    """Where the answers of remote players arrive. It keeps the deadlines: callers need no clock."""

    async def take(self, request: Request) -> RemoteOutcome:
        """The outcome of this request, however often it is asked for, as soon as there is one."""
        ...
