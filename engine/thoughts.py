"""The parts of what a seat privately records: values, without a seat and without a time.

The events that carry them (``beliefs_formed``, ``intentions_selected``, …) stand in ``events``;
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
    """What a seat makes of one other seat."""

    about: Seat
    role: Role | None
    """The likeliest role; None where the seat is not asked for one (Merlin) or has no idea."""
    intentions: tuple[IntentionId, ...]
    """What the other seems to intend, most likely first."""
    confidence: int | None
    """0 (a guess) to 5 (certain); None: a foreign record does not tell."""
    snippets: tuple[str, ...] = ()
    """The pieces of speech it rests on."""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One selected intention and why."""

    id: IntentionId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one other seat or role would take the speech."""

    by: str
    """``seat 3`` or a role's name."""
    text: str
