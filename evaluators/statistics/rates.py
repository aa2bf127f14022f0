"""Rates with Wilson's interval, and tables of rates.

The interval holds for independent trials. Quests and votes of one game are not; ``intervals`` gives the
intervals of what is counted by game.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import nan, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

__all__ = ["Interval", "Rate", "rates_as_json", "score_limits", "tally", "wilson"]


class Interval(NamedTuple):
    low: float
    high: float


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for ``k`` of ``n``: shares in [0, 1]; (0, 1) if ``n`` is 0.

    Raises ValueError unless 0 <= k <= n and 0 < confidence < 1.
    Source: Wilson, JASA 22 (1927); Brown, Cai and DasGupta, Statistical Science 16 (2001).
    """
    if not 0 <= k <= n:
        raise ValueError(f"a share must be k of n with 0 <= k <= n, got {k} of {n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return score_limits(k / n if n else nan, n, _z(confidence))


def score_limits(share: float, trials: float, quantile: float) -> Interval:
    """Wilson's interval of a share in [0, 1] for any number of trials, an effective one too, and for any
    quantile; (0, 1) without trials.
    """
    if not trials:
        return Interval(0.0, 1.0)
    spread = quantile * quantile / trials
    middle = (share + spread / 2) / (1 + spread)
    half = quantile / (1 + spread) * sqrt(share * (1 - share) / trials + spread / (4 * trials))
    # The formula gives 0 and 1 at the ends, except for rounding.
    return Interval(
        0.0 if share <= 0 else max(0.0, middle - half), 1.0 if share >= 1 else min(1.0, middle + half)
    )


@lru_cache(maxsize=16)
def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


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
