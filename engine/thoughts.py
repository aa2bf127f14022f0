"""The parts of a seat's private records: plain values, without a seat or a time.

The events that carry them (``beliefs_formed``, ``intentions_selected``, …) are in ``events``;
an action's ``thoughts`` are such events of the acting seat.
"""

from dataclasses import dataclass
from typing import Literal

from engine.intentions import IntentionId
from engine.terms import Role, Seat

__all__ = ["Belief", "Choice", "Reading", "SelectionStage", "SpeechStage", "Unheard"]

SelectionStage = Literal["first", "final"]
SpeechStage = Literal["formulation", "refinement"]
Unheard = Literal["speech", "summary"]


@dataclass(frozen=True, slots=True)
class Belief:
    """A seat's belief about one other seat."""

    about: Seat
    role: Role | None
    """The most likely role; None when the seat is not asked for one (Merlin) or has no idea."""
    intentions: tuple[IntentionId, ...]
    """The other seat's likely intentions, most likely first."""
    confidence: int | None
    """0 (a guess) to 5 (certain); None if a foreign record does not give it."""
    snippets: tuple[str, ...] = ()
    """The pieces of speech that the belief rests on."""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One selected intention and the reason for it."""

    id: IntentionId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one other seat or role would understand the speech."""

    by: str
    """``seat 3`` or a role's name."""
    text: str
