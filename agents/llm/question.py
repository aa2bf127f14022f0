"""One question to a seat's model, whose answer becomes an action."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agents.llm.replies import Shape
from engine.actions import SeatAction

__all__ = ["Question"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A step's question: its text, the form of its answer, and how the answer becomes an action."""

    step: str
    words: str
    shape: Shape[T]
    build: Callable[[T], SeatAction]
