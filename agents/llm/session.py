"""Where a seat's model is asked: every answer is paid once, stored before it is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.model.model import Form, Message, Model, Reply
from engine.terms import Seat

__all__ = ["Answering", "CallKey", "MemorySession", "ModelSession"]


@dataclass(frozen=True, slots=True)
class CallKey:
    """Which answer of a game: the key it is stored under, beside the game's."""

    request_id: str
    """The request that the seat is answering, e.g. ``2.1.speak.3``."""
    step: str
    """The step of the mechanism, e.g. ``first_order``."""
    about: str
    """What tells sibling questions of a step apart, e.g. ``seat 4``; empty where there is one."""
    attempt: int
    """1 for the first; one more each time an unusable or refused answer is asked again."""


class Answering(Protocol):
    """Asks one model."""

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """The stored answer where there is one, else the model's, stored before it is returned.

        Raises ModelUnavailable when there is none. Whatever else it raises, a spent budget say, stops
        the game: no agent plays on over it.
        """
        ...


class ModelSession(Answering, Protocol):
    """Asks one model for one game, and remembers what it answered."""

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        """The stored answer to what was asked before; None where there is none: then nobody is asked.

        Raises ModelUnavailable where that was stored.
        """
        ...

    async def linger(self, seat: Seat) -> None:
        """Lets as much time pass as this seat's latest answer took, where somebody could time it."""
        ...


class MemorySession:
    """A session that keeps its answers in memory, for games that live in one process."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.stored: dict[CallKey, Reply] = {}

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        if key not in self.stored:
            self.stored[key] = await self._model.complete(
                messages, form, temperature=temperature, max_tokens=max_tokens
            )
        return self.stored[key]

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return self.stored.get(key)

    async def linger(self, seat: Seat) -> None:
        """At once: nobody times a game that lives in one process."""
