"""A seat's access to its model: every answer is paid for once, and stored before it is used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agents.model.model import Form, Message, Model, Reply
from engine.actions import SeatAction
from engine.events import ActionDefaulted, Note
from engine.rules import default
from engine.terms import Seat
from engine.view import Observation

__all__ = ["Answering", "CallKey", "MemorySession", "ModelSession", "TurnSession", "defaulted"]


@dataclass(frozen=True, slots=True)
class CallKey:
    """The key of a stored answer, unique in its game."""

    request_id: str
    """The request that the seat is answering, e.g. ``2.1.speak.3``."""
    step: str
    """The step of the mechanism, e.g. ``first_order``."""
    about: str
    """Distinguishes the questions of a step, e.g. ``seat 4``; empty if the step has only one question."""
    attempt: int
    """1 for the first answer, and one more each time the question is repeated after an unusable or refused
    answer.
    """


class Answering(Protocol):
    """Asks one model."""

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """The stored answer if there is one, else the model's answer, which is stored before it is returned.

        Raises ModelUnavailable if the model does not answer. Any other exception, for instance for a spent
        budget, stops the game: no agent handles it.
        """
        ...


class TurnSession(Answering, Protocol):
    """Asks one model for one turn, and learns which of its answers could be used."""

    def read(self, key: CallKey, *, usable: bool) -> None:
        """Records whether the answer under this key could be used."""
        ...


class ModelSession(TurnSession, Protocol):
    """Asks one model for one game, and remembers what it answered."""

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        """The stored answer to an earlier question; None if there is none. No model is asked.

        Raises ModelUnavailable if it is stored that the model did not answer.
        """
        ...

    async def linger(self, seat: Seat) -> None:
        """Waits as long as this seat's latest answer took, if an observer could time the seat."""
        ...

    async def unanswered(self, request_id: str) -> None:
        """Called before the default is played in place of the seat's answer, because no answer could be used.

        If the game must stop instead, raises an exception that no agent handles.
        """
        ...


def defaulted(observation: Observation, thoughts: Sequence[Note] = ()) -> SeatAction:
    """The default action, marked as ``model_error``, for a request without a usable answer, with the seat's
    thoughts so far. ``ModelSession.unanswered`` must be awaited before.
    """
    request = observation.request
    marked = ActionDefaulted(request.seat, request.id, "model_error")
    return replace(default(observation.table, request), thoughts=(*thoughts, marked))


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
        """Returns at once: nobody times a game that lives in one process."""

    def read(self, key: CallKey, *, usable: bool) -> None:
        """Does nothing."""

    async def unanswered(self, request_id: str) -> None:
        """Does nothing: the default is played."""
