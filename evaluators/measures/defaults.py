"""Decisions of seats, and how many of them were played by default, from a game's events.

Every answered request is one decision, however many events it made: a proposal with its speech is one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from engine.events import (
    ActionDefaulted,
    AssassinationDeclined,
    AssassinationMade,
    CardPlayed,
    Cause,
    Event,
    RolesDealt,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
)
from engine.terms import Seat
from evaluators.statistics.rates import Rate

__all__ = ["CAUSES", "EXCLUDE_ABOVE", "DecisionCounter", "SeatDecisions"]

CAUSES: Final = frozenset(get_args(Cause)) - {"cancelled"}

EXCLUDE_ABOVE: Final = 0.05
"""The share of models' decisions played by default above which a game says nothing about models."""


@dataclass(slots=True)
class SeatDecisions:
    """The decisions of one seat in one game."""

    decisions: int = 0
    defaulted: Counter[Cause] = field(default_factory=Counter)
    """Decisions that were played by default, by cause; at most ``decisions``."""

    def add(self, other: "SeatDecisions") -> None:
        self.decisions += other.decisions
        for cause, number in other.defaulted.items():
            self.defaulted[cause] += number

    def as_json(self) -> dict[str, Any]:
        return {"decisions": self.decisions, "defaulted": dict(self.defaulted)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SeatDecisions":
        """What ``as_json`` gave. Raises KeyError, TypeError or ValueError for anything else."""
        decisions, defaulted = value["decisions"], Counter[Cause]()
        for cause, number in value["defaulted"].items():
            if cause not in CAUSES or type(number) is not int:
                raise ValueError("no count of defaults")
            defaulted[cause] = number
        if type(decisions) is not int:
            raise ValueError("no count of decisions")
        return cls(decisions, defaulted)


class DecisionCounter:
    """Counts the decisions of one game; its events are added in order, in any portions.

    A request that was closed because its game was cancelled (cause ``cancelled``) is no decision.
    """

    def __init__(self, log: Iterable[Event] = ()) -> None:
        self.seats: dict[Seat, SeatDecisions] = {}
        """Seats without a decision are missing."""
        self._defaulted: set[str] = set()
        """Requests: of several causes of one default, the first counts."""
        self._shooter: Seat | None = None
        self._proposer: Seat | None = None
        """Who proposed a team in the event before, whose speech may follow; None: nobody."""
        self.add(log)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            proposer, self._proposer = self._proposer, None
            match event:
                case VoteCast() | CardPlayed() | RoundSummarised():
                    self._of(event.seat).decisions += 1
                case UtteranceMade():
                    if event.phase == "discuss" and event.seat != proposer:
                        self._of(event.seat).decisions += 1
                case TeamProposed():
                    self._of(event.leader).decisions += 1
                    self._proposer = event.leader
                case TeamConfirmed():
                    self._of(event.leader).decisions += 1
                case AssassinationMade():
                    self._of(event.assassin).decisions += 1
                case AssassinationDeclined() if self._shooter is not None:
                    self._of(self._shooter).decisions += 1
                case ActionDefaulted() if (
                    event.cause != "cancelled" and event.request_id not in self._defaulted
                ):
                    self._defaulted.add(event.request_id)
                    self._of(event.seat).defaulted[event.cause] += 1
                case RolesDealt():
                    self._shooter = event.shooter

    def _of(self, seat: Seat) -> SeatDecisions:
        found = self.seats.get(seat)
        if found is None:
            found = self.seats[seat] = SeatDecisions()
        return found

    def of_models(self, models: Collection[Seat] | None) -> Rate:
        """Decisions played by default, of all decisions, in the seats of models. None: it is unknown where
        models sat; then of all decisions those that were played by default because of a model.
        """
        counted = [seat for number, seat in self.seats.items() if models is None or number in models]
        defaults = [
            seat.defaulted["model_error"] if models is None else seat.defaulted.total() for seat in counted
        ]
        return Rate(sum(defaults), sum(seat.decisions for seat in counted))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DecisionCounter":
        """A counter with what ``as_json`` gave. Raises KeyError, TypeError, AttributeError or ValueError for
        anything else.
        """
        counted = cls()
        counted.seats = {int(seat): SeatDecisions.from_json(of) for seat, of in value.items()}
        return counted

    def as_json(self) -> dict[str, Any]:
        """By seat: ``{"1": {"decisions": 31, "defaulted": {"model_error": 2}}, …}``."""
        return {str(number): seat.as_json() for number, seat in sorted(self.seats.items())}
