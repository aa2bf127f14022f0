"""One question to a seat's model, of which an action comes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agents.llm.replies import Shape
from engine.actions import SeatAction

__all__ = ["Question"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What a step asks, in which form it is answered, and the action that an answer is."""

    step: str
    words: str
    shape: Shape[T]
    build: Callable[[T], SeatAction]
