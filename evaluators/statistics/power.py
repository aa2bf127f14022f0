"""The smallest difference between two conditions that a design finds with a given power.

Values are one for each game. Paired games (same deal) are compared by a t test of their
differences, others by a t test of two samples. Power is exact for normal values (noncentral t); shares of
games, at least a dozen of them, are close to that. Cohen, Statistical Power Analysis (1988), chapter 2.

How much games vary, and how alike paired ones are, comes from pilot games. A figure of turns or items is a
ratio of sums: a game's value is then what the game moves the figure by (the linearised ratio; Cochran,
Sampling Techniques (1977), chapter 6).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from typing import Final

from evaluators.statistics.contrasts import influences, items_in, limit_counts
from evaluators.statistics.figures import Kind
from evaluators.statistics.intervals import Counts

__all__ = [
    "FEWEST",
    "POWER",
    "WORST_SD",
    "SmallestDifference",
    "Variation",
    "games_for",
    "power_of",
    "smallest_difference",
    "variation",
]

POWER: Final = 0.8

WORST_SD: Final = 0.5
"""The largest standard deviation that a share can have over games: half of them at each end."""

FEWEST: Final = 4
"""Units of each level, and pairs of them, from which variation and pairing are estimated."""

_MOST_GAMES: Final = 1_000_000

_MOST_ALIKE: Final = 0.8
"""The largest correlation of pairs that few games are believed."""


@dataclass(frozen=True, slots=True)
class Variation:
    """How one figure varies from unit to unit; a unit is a game, or all games of one deal."""

    sd: float
    """Of one unit's value, the mean of both levels. Of an interaction: as if of two levels."""
    correlation: float
    """Of the values of paired units; 0 if they are not paired, or too few."""
    units: int
    """In the smaller level."""
    paired: bool


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


def games_for(
    difference: float,
    *,
    sd: float = WORST_SD,
    correlation: float = 0.0,
    paired: bool = True,
    alpha: float = 0.05,
    power: float = POWER,
) -> int | None:
    """The fewest games in each condition that find this difference with this power; None: more than a
    million.
    """

    def finds(games: int) -> bool:
        return (
            power_of(difference, games, sd=sd, correlation=correlation, paired=paired, alpha=alpha) >= power
        )

    enough = 2
    while not finds(enough):
        if enough > _MOST_GAMES:
            return None
        enough *= 2
    below = enough // 2
    while enough - below > 1:
        middle = (below + enough) // 2
        below, enough = (below, middle) if finds(middle) else (middle, enough)
    return enough


def variation(
    cells: Sequence[Mapping[str, Counts]],
    kind: Kind,
    *,
    paired: bool,
    limits: tuple[float, float] | None = (0.0, 1.0),
) -> Variation | None:
    """The variation of a figure over the units of two cells, or of the four of an interaction.

    Each cell gets one item more at either limit, since a few equal games are no proof that all are; without
    ``limits`` it gets none. None: a cell has fewer than ``FEWEST`` units with counts, or nothing varies.
    Needs numpy.
    """
    import numpy as np

    counted = [{unit: counts for unit, counts in cell.items() if any(counts)} for cell in cells]
    if min(map(len, counted)) < FEWEST:
        return None
    moved = [_values(cell, kind, limits) for cell in counted]
    variances = np.array([variance for _, variance in moved])
    if not np.isfinite(variances).all() or not variances.all():
        return None
    alike = np.eye(len(cells))
    if paired:
        for one in range(len(cells)):
            for other in range(one):
                first, second = moved[one][0], moved[other][0]
                shared = sorted(first.keys() & second.keys())
                if len(shared) >= FEWEST:
                    # Two pairs more that say nothing.
                    together = sum(first[unit] * second[unit] for unit in shared) / (len(shared) + 2)
                    found = together / sqrt(variances[one] * variances[other])
                    alike[one, other] = alike[other, one] = min(_MOST_ALIKE, max(0.0, found))
    units = min(map(len, counted))
    if len(cells) == 2:
        return Variation(sqrt(variances.mean()), float(alike[0, 1]), units, paired)
    signs = np.array((1, -1, -1, 1)) * np.sqrt(variances)
    return Variation(sqrt(float(signs @ alike @ signs) / 2), 0.0, units, paired)


def _values(
    cell: Mapping[str, Counts], kind: Kind, limits: tuple[float, float] | None
) -> tuple[dict[str, float], float]:
    """Each unit's value, less the figure, and the variance of these values; nan: the figure is undefined."""
    names = sorted(cell)
    rows = [cell[name] for name in names]
    added = [] if limits is None else limit_counts(rows, kind, limits)
    moved = influences([*rows, *added], kind)
    # An item more weighs less than a unit, which has several.
    items = sum(items_in(row, kind) for row in rows) / len(rows)
    weight = len(rows) + (len(added) / items if added else 0.0)
    values = [float(one) * weight for one in moved]
    variance = sum(value * value for value in values) / (weight - 1)
    # Units that do not differ may do so by rounding.
    if max(map(abs, values)) <= 1e-12 * max(1.0, *(abs(count) for row in rows for count in row)):
        variance = 0.0
    if limits is not None and not isnan(variance):
        variance = min(variance, ((limits[1] - limits[0]) / 2) ** 2)
    return dict(zip(names, values[: len(names)], strict=True)), variance
