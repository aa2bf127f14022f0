"""Rates, with Wilson's interval, and tables of rates.

The interval holds for independent trials. Quests and votes of one game are not; ``intervals`` gives the
intervals of what is counted by game.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from evaluators.statistics.intervals import Interval, wilson

__all__ = ["Rate", "rates_as_json", "tally"]


class Rate(NamedTuple):
    """A rate: ``num`` of ``den``."""

    num: int
    den: int

    @property
    def rate(self) -> float | None:
        """A share in [0, 1]; None if ``den`` is 0."""
        return self.num / self.den if self.den else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's 95 % interval; None if ``den`` is 0."""
        return wilson(self.num, self.den) if self.den else None

    def plus(self, other: "Rate") -> "Rate":
        """The pooled rate of both."""
        return Rate(self.num + other.num, self.den + other.den)

    def as_json(self) -> dict[str, Any]:
        return {"num": self.num, "den": self.den, "rate": self.rate}


def tally(table: dict[Any, Rate], key: Any, rate: Rate) -> None:
    """Adds ``rate`` to the rate under ``key``."""
    table[key] = table[key].plus(rate) if key in table else rate


def rates_as_json(table: Mapping[Any, Rate]) -> dict[str, Any]:
    """A table of rates by the names of its keys, sorted."""
    return {str(key): rate.as_json() for key, rate in sorted(table.items())}
