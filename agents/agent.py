"""The protocols of agents and of the parts that agents are given."""

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
        """The answer to ``observation.request``, directly or awaited.

        After an illegal answer the agent is asked again, with the refusals so far in
        ``observation.refusals``. The observation shares the live table: read it before you answer, and keep
        no reference to it.
        """
        ...


class Attentive(Protocol):
    """An agent that can think while others speak. ``table.play`` notifies it; ``table.step`` does not."""

    def notice(self, observation: Observation) -> None:
        """Called with what the seat sees now. The observation's request is for the seat's next speech and is
        not open yet.
        """
        ...

    def leave(self) -> None:
        """Called when the game ends or is interrupted: unfinished work is no longer needed."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """The arguments for a new agent, without the game's seed, which would reveal the deal."""

    seat: Seat
    seed: str
    """The seed of the agent's own random numbers: equal seeds give equal play."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options in the seat's spec."""


class MakeAgent(Protocol):
    """An agent kind, as named by an entry point of the group ``interintent.agents``."""

    def __call__(self, setup: Setup, /) -> Agent:
        """A new agent for one seat of one game. Raises InvalidAgent for invalid options."""
        ...


class Journal(Protocol):
    """Stores a game's new events. ``append`` returns when they are safe; only then are they applied."""

    async def append(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The outcome of one request to a remote player."""

    action: SeatAction | None
    """The accepted answer with its thoughts; None if the default is played."""
    cause: Cause | None = None
    """The reason why the default is played."""
    refusals: tuple[str, ...] = ()
    """The reasons why earlier answers were refused, oldest first."""


class Inbox(Protocol):
    """Receives the answers of remote players and watches the deadlines, so that callers need no clock."""

    async def take(self, request: Request) -> RemoteOutcome:
        """Waits for the outcome of this request and returns it; if called again, returns the same outcome."""
        ...
