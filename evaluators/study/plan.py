"""What a study will take: calls, tokens, money and hours as ranges, and what these estimates are based on.

A range from measured games is the expected sum, less and more two standard errors of a sum of that many games
that was estimated from that many. Sums of ranges are sums of their ends, so they are wider than need be.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any, Final

__all__ = ["QUANTITIES", "Range", "SeatCosts", "expected", "measured_costs"]

QUANTITIES: Final = ("calls", "prompt_tokens", "completion_tokens", "cost")
"""What is summed over the seats of a game."""

_ONE: Final = 0.3
"""The standard deviation, as a share of the mean, that is assumed where one game was measured."""


@dataclass(frozen=True, slots=True)
class Range:
    """From ``low`` to ``high``."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> "Range":
        """Both ends multiplied."""
        return Range(self.low * factor, self.high * factor)

    def by(self, other: "Range") -> "Range":
        """The range of the product of two figures that are not negative."""
        return Range(self.low * other.low, self.high * other.high)

    @property
    def middle(self) -> float:
        """Half way between the ends."""
        return (self.low + self.high) / 2

    def as_json(self) -> list[float]:
        """Both ends."""
        return [self.low, self.high]


@dataclass(slots=True)
class SeatCosts:
    """What one seat with one model and preset takes in a game."""

    basis: str
    """Where the figures come from, in words."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """By quantity: measured values, one for each game's seat; or the two ends of a range."""
    measured: bool = True
    priced: bool = True
    """Whether the cost is known."""

    def total(self, quantity: str, seats: int) -> Range:
        """The range of the sum over so many seats of games still to be played."""
        values = self.values.get(quantity, [])
        if not values or not seats:
            return Range()
        if not self.measured:
            return Range(min(values), max(values)).times(seats)
        return expected(values, seats)


def expected(values: Sequence[float], count: int) -> Range:
    """The range of a sum of ``count`` further values like these (at least one)."""
    usual = mean(values)
    deviation = stdev(values) if len(values) > 1 else _ONE * usual
    width = 2 * deviation * math.sqrt(count + count * count / len(values))
    return Range(max(0.0, count * usual - width), count * usual + width)


def measured_costs(games: Iterable[Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], SeatCosts]:
    """The costs of seats by model and preset, from what the seats of finished games took."""
    found: dict[tuple[str, str], SeatCosts] = {}
    for seats in games:
        for seat in seats:
            if seat["preset"] is None:
                continue
            costs = found.setdefault((seat["model"], seat["preset"]), SeatCosts(""))
            for quantity in QUANTITIES:
                costs.values.setdefault(quantity, []).append(seat[quantity])
    for costs in found.values():
        costs.basis = f"measured in {len(costs.values['calls'])} seats of finished games"
    return found
