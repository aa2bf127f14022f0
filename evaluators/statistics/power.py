"""The smallest difference between two conditions that a design finds with a given power.

Values are one for each game. Paired games (same deal, same seating) are compared by a t test of their
differences, others by a t test of two samples. Power is exact for normal values (noncentral t); shares of
games, at least a dozen of them, are close to that. Cohen, Statistical Power Analysis (1988), chapter 2.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

__all__ = ["POWER", "WORST_SD", "SmallestDifference", "power_of", "smallest_difference"]

POWER: Final = 0.8

WORST_SD: Final = 0.5
"""The largest standard deviation that a share of games can have: half of them."""


@dataclass(frozen=True, slots=True)
class SmallestDifference:
    """What a design can find."""

    difference: float | None
    """None: nothing, since there are fewer than two games."""
    games: int
    """In each condition."""
    sd: float
    correlation: float
    alpha: float
    power: float


def power_of(
    difference: float, games: int, *, sd: float, correlation: float, paired: bool, alpha: float
) -> float:
    """The probability that a two-sided t test at ``alpha`` finds this difference; 0 for fewer than two games.

    ``games``: in each condition. ``correlation``: of the values of paired games. Needs scipy.
    """
    from scipy.stats import nct, t

    if games < 2:
        return 0.0
    if sd == 0 or (paired and correlation >= 1):
        return 1.0 if difference else alpha
    freedom = games - 1 if paired else 2 * games - 2
    error = sd * sqrt(2 * (1 - (correlation if paired else 0.0)) / games)
    bound = t.ppf(1 - alpha / 2, freedom)
    shift = abs(difference) / error
    # Far from zero, scipy's other tail loses its digits; there it is nothing.
    below = nct.cdf(-bound, freedom, shift) if shift < 5 else 0.0
    return float(nct.sf(bound, freedom, shift) + below)


def smallest_difference(
    games: int,
    *,
    sd: float = WORST_SD,
    correlation: float = 0.0,
    paired: bool = True,
    alpha: float = 0.05,
    power: float = POWER,
) -> SmallestDifference:
    """The smallest difference that is found with this power. The defaults are the worst case of a share."""
    from scipy.optimize import brentq

    def lacking(difference: float) -> float:
        found = power_of(difference, games, sd=sd, correlation=correlation, paired=paired, alpha=alpha)
        return found - power

    difference: float | None = None
    if games >= 2:
        high = max(sd, 1e-9)
        while lacking(high) < 0:
            high *= 2
        difference = float(brentq(lacking, 0.0, high, xtol=1e-9)) if sd and correlation < 1 else 0.0
    return SmallestDifference(difference, games, sd, correlation, alpha, power)
