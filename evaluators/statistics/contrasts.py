"""Differences between conditions whose independent trials are games: interval, test, adjustment.

    paper = {"seed 1": (1, 1), "seed 2": (0, 1), …}
    direct = {"seed 1": (0, 1), "seed 2": (0, 1), …}
    contrast((paper, direct), "share", paired=True).difference

A level of a condition is given by its counts in each unit. A unit is a game, or all games of one seed: games
of one deal are alike. Two levels are compared by their difference; four cells (two levels of one
condition under two of another) by their interaction, the difference of two differences.

Test. Unpaired: whole games are exchanged between the levels, and the difference is compared with its standard
error in each exchange (a studentised permutation test: exact if the levels are alike, and right for many
games if only the means are; Janssen, Statistics & Probability Letters 36 (1997); Chung and Romano, Annals of
Statistics 41 (2013)). Paired: the two levels are exchanged within units. Interactions exchange residuals (ter
Braak 1992). Exchanges that give the same difference count half (mid-p; Lancaster, JASA 56 (1961)). Where some
units have no partner, exchanges mix levels of different size, as if the smaller one were known as well as the
larger: p is then at least Student's, with the degrees of freedom of the smallest level.

Where games are single trials (who won), no exchanges are drawn: every result is counted that could have come
with the shares that were seen, and of pairs with as many that differ (Lloyd, Biometrics 64 (2008)). Exchanges
keep the number of won games, and near the ends these tell nothing.

Interval. The two levels' own intervals (``intervals``: of shares Wilson's with the design effect) are joined
(MOVER; Zou and Donner, Statistics in Medicine 27 (2008)). So no limit of a share leaves [0, 1], and none of a
difference [-1, 1]. For single trials, unpaired, it is Miettinen and Nurminen's. For means it is Student's
interval of the difference.

numpy and scipy (extra ``reports``) are imported where they are used. Results depend only on counts and seed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, zip_longest
from math import comb, inf, isnan, nan, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal

from evaluators.statistics.figures import MEANS, RULES, Kind
from evaluators.statistics.intervals import Counts, Interval, jackknife, limits, snapped, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "DRAWN",
    "FEW",
    "Difference",
    "Test",
    "contrast",
    "influences",
    "items_in",
    "limit_counts",
    "worst_case",
]

FEW: Final = 15
"""Below this number of games a level's interval and test are only rough."""

DRAWN: Final = 1999
"""The number of exchanges that are drawn where not all are tried."""

_EXACT: Final = 12
"""Up to this number of units that differ, every exchange within pairs is tried: 2**12."""

_WAYS: Final = 4096
"""Up to this number of ways to deal the games to two levels, each is tried."""

Test = Literal["exact", "drawn", "residuals", "none"]
"""exact: every exchange was counted. drawn: ``DRAWN`` exchanges. residuals: drawn exchanges of residuals."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A contrast of two levels, or the interaction of four cells."""

    levels: tuple[float, ...]
    """The figure of each cell; nan if it is undefined."""
    value: float
    """The first less the second; of four cells (first less second) less (third less fourth)."""
    low: float
    """The lower limit of the interval; nan if there is none."""
    high: float
    p_value: float
    """Two-sided; nan if there is none."""
    units: tuple[int, ...]
    """The number of units with counts in each cell."""
    paired: bool
    test: Test

    @property
    def defined(self) -> bool:
        return not isnan(self.value)


def contrast(
    cells: Sequence[Mapping[str, Counts]],
    kind: Kind,
    *,
    paired: bool,
    confidence: float = 0.95,
    seed: int = 0,
    drawn: int = DRAWN,
) -> Difference:
    """The contrast of two cells, or the interaction of four; each cell has its counts by unit.

    ``paired``: units of the same name belong together, such as the same seed under both levels. A unit that
    only one cell has stays in, and is exchanged with nothing. Raises ValueError for another number of cells,
    a kind without a denominator (``sum``), or a confidence outside (0, 1). Raises ImportError without numpy
    or scipy.
    """
    import numpy as np

    if len(cells) not in _WEIGHTS:
        raise ValueError(f"a contrast has two cells, an interaction four, got {len(cells)}")
    if kind == "sum":
        raise ValueError("a sum is no figure of a sample and cannot be contrasted")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    width = max((len(counts) for cell in cells for counts in cell.values()), default=2)
    names = [sorted(unit for unit, counts in cell.items() if any(counts)) for cell in cells]
    if paired:
        every = sorted(set().union(*names))
        names = [every] * len(cells)
    tables = _trials([_table(cell, units, width) for cell, units in zip(cells, names, strict=True)])
    shape = _Shape(kind, width)
    levels = tuple(float(shape.value(table.sum(axis=0))) for table in tables)
    weights = _WEIGHTS[len(cells)]
    value = snapped(sum(weight * level for weight, level in zip(weights, levels, strict=True)))
    units = tuple(int(table.any(axis=1).sum()) for table in tables)
    if isnan(value) or min(units) < 2:
        return Difference(levels, value, nan, nan, nan, units, paired, "none")
    errors = [shape.influence(table) for table in tables]
    low, high = _interval(kind, levels, tables, errors, weights, paired=paired, confidence=confidence)
    if len(cells) == 4:
        p, test = _residuals(value, errors, paired=paired, seed=seed, drawn=drawn)
    elif paired:
        p, test = _within_pairs(tables[0], tables[1], shape, seed, drawn)
    else:
        p, test = _between(tables[0], tables[1], shape, seed, drawn)
    if paired and min(units) < len(names[0]):
        p = max(p, _students_p(value, np.dot(weights, errors), min(units) - 1))
    # The interval holds what was seen, whatever rounding does.
    if not np.isnan(low):
        low, high = min(low, value), max(high, value)
    return Difference(levels, value, low, high, p, units, paired, test)


_WEIGHTS: Final[Mapping[int, tuple[int, ...]]] = {2: (1, -1), 4: (1, -1, -1, 1)}


def _table(cell: Mapping[str, Counts], units: Sequence[str], width: int) -> "Array":
    import numpy as np

    table = np.zeros((len(units), width))
    for row, unit in enumerate(units):
        counts = cell.get(unit, ())
        table[row, : len(counts)] = counts
    return table


def worst_case(
    cells: Sequence[Mapping[str, Counts]],
    excluded: Sequence[Mapping[str, Counts]],
    kind: Kind,
    value: float,
    limits: tuple[float, float] = (0.0, 1.0),
) -> tuple[dict[str, Counts], ...]:
    """The cells with their excluded games counted against the difference ``value``: as the least possible
    figure in a cell that the difference speaks for, as the greatest in the others.

    ``excluded`` has the counts of the excluded games by unit and cell; a game without counts weighs as much
    as the cell's mean unit. ``limits``: the least and the greatest figure of a kind ``mean``. Cells without
    any counted unit stay as they are.
    """
    weights = _WEIGHTS[len(cells)]
    filled = []
    for cell, out, weight in zip(cells, excluded, weights, strict=True):
        joined: dict[str, Counts] = dict(cell)
        mean = _mean_counts(cell.values())
        best = (weight > 0) is (value < 0)
        for unit, counts in out.items():
            basis = counts if any(counts) else mean
            if not basis:
                continue
            added = _at_limit(kind, basis, limits, best=best)
            known = joined.get(unit, ())
            joined[unit] = tuple(a + b for a, b in zip_longest(known, added, fillvalue=0.0))
        filled.append(joined)
    return tuple(filled)


def influences(rows: Sequence[Counts], kind: Kind) -> "Array":
    """How much each of these units moves the figure of all of them; the values add up to 0. Needs numpy."""
    width = max(map(len, rows), default=2)
    cell = {str(place): row for place, row in enumerate(rows)}
    table = _table(cell, list(cell), width)
    return _Shape(kind, width).influence(table)


def limit_counts(rows: Sequence[Counts], kind: Kind, limits: tuple[float, float]) -> list[tuple[float, ...]]:
    """The counts of one item with the greatest possible figure and of one with the least, as large as an item
    of these units is in the mean; none if they have no items.
    """
    mean = _mean_counts(rows)
    items = items_in(mean, kind) if mean else 0.0
    if not items:
        return []
    basis = tuple(count / items for count in mean)
    return [_at_limit(kind, basis, limits, best=best) for best in (True, False)]


def items_in(counts: Counts, kind: Kind) -> float:
    """The number of items behind these counts: the denominator of the figure."""
    if kind == "f1":
        return (counts[1] + counts[2]) / 2
    return float(counts[2] if kind == "recall" else sum(counts[1::2]))


def _mean_counts(counts: Iterable[Counts]) -> tuple[float, ...]:
    rows = [row for row in counts if any(row)]
    sums = [sum(column) for column in zip_longest(*rows, fillvalue=0.0)]
    return tuple(total / len(rows) for total in sums)


def _at_limit(kind: Kind, basis: Counts, limits: tuple[float, float], *, best: bool) -> tuple[float, ...]:
    """Counts of about the same weight whose figure is the greatest or the least possible."""
    if kind == "f1":
        alike = (basis[1] + basis[2]) / 2
        return (alike, alike, alike) if best else (0.0, basis[1], basis[2])
    if kind in ("precision", "recall"):
        return ((basis[1 if kind == "precision" else 2]) if best else 0.0, basis[1], basis[2])
    low, high = limits if kind in MEANS else (0.0, 1.0)
    pairs = zip(basis[0::2], basis[1::2], strict=True)
    return tuple(count for _, n in pairs for count in ((high if best else low) * n, n))


# --- figures as ratios of sums ----------------------------------------------------------------------


class _Shape:
    """A figure as the mean of one or more ratios of summed counts, with its gradient."""

    def __init__(self, kind: Kind, width: int) -> None:
        import numpy as np

        rows = {
            "share": ([[1, 0]], [[0, 1]]),
            "mean": ([[1, 0]], [[0, 1]]),
            "f1": ([[2, 0, 0]], [[0, 1, 1]]),
            "precision": ([[1, 0, 0]], [[0, 1, 0]]),
            "recall": ([[1, 0, 0]], [[0, 0, 1]]),
        }.get(kind)
        if rows is None:
            even = np.eye(width)
            self.over, self.under = even[0::2], even[1::2]
        else:
            self.over, self.under = (np.zeros((1, width)) for _ in range(2))
            for matrix, row in zip((self.over, self.under), rows, strict=True):
                matrix[0, : len(row[0])] = row[0]

    def value(self, sums: "Array") -> "Array":
        """The figure for sums in the last axis; nan where it is undefined."""
        import numpy as np

        ratios, there = self._ratios(sums)
        n = there.sum(axis=-1)
        return np.where(n > 0, ratios.sum(axis=-1) / np.maximum(n, 1), np.nan)

    def gradient(self, sums: "Array") -> "Array":
        """How the figure changes with each count; 0 where it is undefined."""
        import numpy as np

        ratios, there = self._ratios(sums)
        below = np.where(there, sums @ self.under.T, 1.0)
        scale = there / below / np.maximum(there.sum(axis=-1, keepdims=True), 1)
        gradient: Array = scale @ self.over - (scale * ratios) @ self.under
        return gradient

    def influence(self, table: "Array") -> "Array":
        """How much each unit moves the figure; they add up to 0."""
        influence: Array = table @ self.gradient(table.sum(axis=0))
        return influence

    def _ratios(self, sums: "Array") -> "tuple[Array, NDArray[np.bool_]]":
        import numpy as np

        above, below = sums @ self.over.T, sums @ self.under.T
        there = below > 0
        return np.where(there, above / np.where(there, below, 1.0), 0.0), there


def _spread(influence: "Array") -> float:
    """The variance of a figure from what each of n units moves it; nan with fewer than two units."""
    n = int(influence.size)
    return float(n / (n - 1) * (influence @ influence)) if n > 1 else nan


# --- intervals --------------------------------------------------------------------------------------


def _interval(
    kind: Kind,
    levels: Sequence[float],
    tables: "Sequence[Array]",
    errors: "Sequence[Array]",
    weights: Sequence[int],
    *,
    paired: bool,
    confidence: float,
) -> tuple[float, float]:
    import numpy as np

    value = float(np.dot(weights, levels))
    if kind in MEANS:
        return _students(levels, tables, errors, weights, paired=paired, confidence=confidence)
    if not paired and len(tables) == 2 and all(map(_single, tables)):
        trials = [(int(table[:, 0].sum()), len(table)) for table in tables]
        return _score_limits(*trials[0], *trials[1], confidence)
    reach: list[tuple[float, float]] = []
    for level, table in zip(levels, tables, strict=True):
        low, high = _of_level(kind, table[table.any(axis=1)], confidence)
        reach.append((max(level - low, 0.0), max(high - level, 0.0)))
    down = [below if weight > 0 else above for weight, (below, above) in zip(weights, reach, strict=True)]
    up = [above if weight > 0 else below for weight, (below, above) in zip(weights, reach, strict=True)]
    together = np.eye(len(levels))
    if paired:
        together = _phi(tables) if all(map(_single, tables)) else _correlation(errors)
    signs = np.array(weights, float)
    parts = together * np.outer(signs, signs)
    below, above = (float(np.array(side) @ parts @ np.array(side)) for side in (down, up))
    return value - sqrt(max(below, 0.0)), value + sqrt(max(above, 0.0))


@lru_cache(maxsize=1024)
def _score_limits(won: int, n: int, other: int, m: int, confidence: float) -> Interval:
    """All differences of two shares of single trials that the score test does not refuse: Miettinen and
    Nurminen, Statistics in Medicine 4 (1985).
    """
    bar = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    limits_ = []
    for end in (-1.0, 1.0):
        inside, beyond = won / n - other / m, end
        for _ in range(_HALVES):
            middle = (inside + beyond) / 2
            if _score(won, n, other, m, middle) <= bar:
                inside = middle
            else:
                beyond = middle
        limits_.append(inside)
    return Interval(*limits_)


_HALVES: Final = 50
"""How often a span is halved to find a limit: until nothing is left of it."""


def _score(won: int, n: int, other: int, m: int, apart: float) -> float:
    """The squared distance of what was seen from shares that lie so far ``apart``, in their variance."""
    low, high = max(0.0, -apart), min(1.0, 1.0 - apart)
    for _ in range(_HALVES):
        # The likelihood of the second share has one top.
        middle = (low + high) / 2
        slope = sum(
            hits / share - (games - hits) / (1 - share)
            for hits, games, share in ((won, n, middle + apart), (other, m, middle))
            if 0 < share < 1
        )
        low, high = (middle, high) if slope > 0 else (low, middle)
    second = (low + high) / 2
    first = min(1.0, max(0.0, second + apart))
    variance = (first * (1 - first) / n + second * (1 - second) / m) * (n + m) / (n + m - 1)
    gap = float(won / n - other / m - apart) ** 2
    return gap / variance if variance > 1e-15 else inf if gap > 1e-15 else 0.0


def _students(
    levels: Sequence[float],
    tables: "Sequence[Array]",
    errors: "Sequence[Array]",
    weights: Sequence[int],
    *,
    paired: bool,
    confidence: float,
) -> tuple[float, float]:
    """Student's interval: over pairs, with as many degrees of freedom as the smallest level's units give, or
    with Welch's; nan where nothing differs.
    """
    import numpy as np
    from scipy.special import stdtrit

    moved = [np.dot(weights, errors)] if paired else errors
    # Games that do not differ may do so by rounding.
    if max(float(np.abs(one).max()) for one in moved) <= 1e-12 * max(1.0, *map(abs, levels)):
        return nan, nan
    spreads = [_spread(one) for one in moved]
    variance = sum(spreads)
    sizes = [int(table.any(axis=1).sum()) for table in tables]
    sizes = [min(sizes)] if paired else sizes
    below = sum(spread**2 / (size - 1) for spread, size in zip(spreads, sizes, strict=True))
    half = float(stdtrit(variance**2 / below, (1 + confidence) / 2)) * sqrt(variance)
    value = float(np.dot(weights, levels))
    return value - half, value + half


def _of_level(kind: Kind, table: "Array", confidence: float) -> Interval:
    """The interval of one level, a share or F1: as any figure's."""
    rows: list[Counts] = table.tolist()
    if _single(table):
        return wilson(int(table[:, 0].sum()), len(rows), confidence)
    statistic, within = RULES[kind]
    found, _ = limits(jackknife(rows, statistic), within, confidence)
    assert found is not None
    return found


def _single(table: "Array") -> bool:
    """Whether every unit is a single trial: (0, 1) or (1, 1)."""
    import numpy as np

    return bool(table.shape[1] == 2 and (table[:, 1] == 1).all() and np.isin(table[:, 0], (0, 1)).all())


def _trials(tables: "list[Array]") -> "list[Array]":
    """The tables with each unit as a single trial, if in every cell all units have the same number of items
    and the items of a unit are alike, as the seats of a side win together; else the tables as they are.
    """
    scaled = []
    for table in tables:
        counted = table[table.any(axis=1)]
        size = max(counted[0, -1], 1) if len(counted) else 1
        if not _single(counted / size):
            return tables
        scaled.append(table / size)
    return scaled


def _correlation(errors: "Sequence[Array]") -> "Array":
    """How the cells' errors go together over units; 0 where one has no spread, and where no unit differs
    between the cells, since units that do not differ claim no certainty.
    """
    import numpy as np

    matrix = np.array(errors)
    products = matrix @ matrix.T
    scale = np.sqrt(np.diag(products))
    scale = np.where(scale > 1e-12, scale, np.inf)
    together: Array = products / np.outer(scale, scale)
    together[together > 1 - 1e-9] = 0.0
    np.fill_diagonal(together, 1.0)
    return together


def _phi(tables: "Sequence[Array]") -> "Array":
    """The correlation of single trials over units, corrected for continuity: Newcombe, Statistics in Medicine
    17 (1998), method 10. Without it, few pairs look more alike than they are.
    """
    import numpy as np

    hits = np.array([table[:, 0] for table in tables])
    n = hits.shape[1]
    together = np.eye(len(hits))
    for one, other in combinations(range(len(hits)), 2):
        both = float((hits[one] * hits[other]).sum())
        won, lost = (float(hits[row].sum()) for row in (one, other))
        cross = n * both - won * lost
        scale = sqrt(won * (n - won) * lost * (n - lost))
        if cross > 0:
            cross = max(cross - n / 2, 0.0)
        together[one, other] = together[other, one] = cross / scale if scale else 0.0
    return together


# --- tests ------------------------------------------------------------------------------------------


def _mid_p(seen: float, drawn: "Array", weights: "Array | None" = None) -> float:
    """The share of values beyond what was seen, those as large counted half; nan values count as 0.

    Without ``weights`` the values were drawn, and what was seen counts as one of them.
    """
    import numpy as np

    size = np.nan_to_num(np.abs(drawn), nan=0.0, posinf=1e300)
    bar = min(abs(seen), 1e300)
    slack = 1e-9 * max(bar, 1e-6)
    beyond, equal = size > bar + slack, np.abs(size - bar) <= slack
    if equal.all():
        return 1.0
    if weights is not None:
        total = float(weights.sum())
        return min(1.0, float((weights * (beyond + 0.5 * equal)).sum()) / total)
    return min(1.0, (float(beyond.sum()) + 0.5 * float(equal.sum()) + 0.5) / (len(size) + 1))


def _studentised(difference: "Array", variance: "Array") -> "Array":
    """The differences in standard errors; infinite where there is a difference and no spread."""
    import numpy as np

    flat = variance <= 1e-18
    sure = np.where(np.abs(difference) > 1e-12, np.copysign(np.inf, difference), 0.0)
    return np.where(flat, sure, difference / np.sqrt(np.where(flat, 1.0, variance)))


def _between(first: "Array", second: "Array", shape: _Shape, seed: int, drawn: int) -> tuple[float, Test]:
    """Exchanges of whole games between two levels."""
    import numpy as np

    n, m = len(first), len(second)
    pooled = np.vstack([first, second])
    if _single(pooled):
        return _two_shares(int(first[:, 0].sum()), n, int(second[:, 0].sum()), m), "exact"
    exact = comb(n + m, n) <= _WAYS
    deals = _every_deal(n + m, n) if exact else _deals(n + m, n, seed, drawn)
    squares = np.einsum("ij,ik->ijk", pooled, pooled).reshape(n + m, -1)
    total, all_squares = pooled.sum(axis=0), squares.sum(axis=0)

    def statistic(chosen: "Array") -> "Array":
        sums = chosen @ pooled
        own = chosen @ squares
        return _studentised(
            shape.value(sums) - shape.value(total - sums),
            _quadratic(shape.gradient(sums), own) * n / (n - 1)
            + _quadratic(shape.gradient(total - sums), all_squares - own) * m / (m - 1),
        )

    seen = np.zeros((1, n + m))
    seen[0, :n] = 1
    found = _in_parts(statistic, deals, pooled.shape[1] ** 2)
    p = _mid_p(float(statistic(seen)[0]), found, np.ones(len(found)) if exact else None)
    return p, "exact" if exact else "drawn"


_PART: Final = 250_000
"""The most products of exchanges, units and counts at a time: what stays near the processor, and is too
little for the linear algebra to start threads, which cost more than they save."""


def _in_parts(statistic: "Callable[[Array], Array]", exchanges: "Array", width: int) -> "Array":
    """The statistic of each exchange (a row); ``width`` numbers are multiplied for each unit of it."""
    import numpy as np

    rows = max(1, _PART // (exchanges.shape[1] * width))
    parts = [statistic(exchanges[at : at + rows]) for at in range(0, len(exchanges), rows)]
    joined: Array = np.concatenate(parts)
    return joined


def _quadratic(gradient: "Array", squares: "Array") -> "Array":
    """The sum over units of (counts · gradient)², from their summed products of counts."""
    import numpy as np

    width = gradient.shape[-1]
    products = squares.reshape(-1, width, width)
    halves = (products @ gradient[:, :, None])[:, :, 0]
    sums: Array = np.maximum(np.einsum("ri,ri->r", gradient, halves), 0.0)
    return sums


@lru_cache(maxsize=1024)
def _two_shares(won: int, n: int, other: int, m: int) -> float:
    """The p value for single trials: the chance of every result of ``n`` and ``m`` games that is at least as
    far from equal shares as this one, if all games are won with the share that was seen.
    """
    import numpy as np
    from scipy.special import bdtr

    if not n or not m:
        return nan
    share = (won + other) / (n + m)
    if share in (0, 1):
        return 1.0
    first, second = np.arange(n + 1.0)[:, None], np.arange(m + 1.0)[None, :]
    pooled = (first + second) / (n + m)
    # The squared difference in standard errors, without what is the same everywhere.
    spread = pooled * (1 - pooled)
    far = (first / n - second / m) ** 2 / np.where(spread > 0, spread, 1.0)
    chances = [np.diff(bdtr(np.arange(size + 1.0), size, share), prepend=0.0) for size in (n, m)]
    beyond = far >= far[won, other] * (1 - 1e-9)
    return min(1.0, float(chances[0] @ beyond @ chances[1]))


def _within_pairs(
    first: "Array", second: "Array", shape: _Shape, seed: int, drawn: int
) -> tuple[float, Test]:
    """Exchanges of the two levels within units."""
    import numpy as np

    moves = second - first
    differing = np.abs(moves).any(axis=1)
    n = int(differing.sum())
    if n == 0:
        return 1.0, "exact"
    if _single(first) and _single(second):
        return _mcnemar(int((moves[:, 0] < 0).sum()), n, len(first)), "exact"
    exact = n <= _EXACT
    flips = _every_flip(n) if exact else _flips(n, seed, drawn)
    swapped = np.zeros((len(flips), len(first)))
    swapped[:, differing] = flips
    kept, turned = np.hstack([first, second]), np.hstack([second, first])

    def statistic(swaps: "Array") -> "Array":
        change = swaps @ moves
        one, two = first.sum(axis=0) + change, second.sum(axis=0) - change
        gradients = np.hstack([shape.gradient(one), -shape.gradient(two)])
        # What each unit moves, in each exchange: its counts stand in the level that they fell to.
        moved = np.where(swaps > 0, gradients @ turned.T, gradients @ kept.T)
        units = moved.shape[1]
        variance = units / (units - 1) * np.einsum("ij,ij->i", moved, moved)
        return _studentised(shape.value(one) - shape.value(two), variance)

    seen = float(statistic(np.zeros((1, len(first))))[0])
    found = _in_parts(statistic, swapped, kept.shape[1])
    return _mid_p(seen, found, np.ones(len(found)) if exact else None), "exact" if exact else "drawn"


def _mcnemar(more: int, n: int, pairs: int) -> float:
    """The mid-p value for pairs of single trials: of ``pairs``, ``n`` differ, and in ``more`` of these the
    first is ahead. Every way is counted in which so many pairs could have differed, each with the share that
    was seen.
    """
    import numpy as np
    from scipy.special import bdtr

    differing = np.arange(pairs + 1)
    ends = bdtr(differing.astype(float), pairs, n / pairs) if n < pairs else (differing == pairs) * 1.0
    p = 0.0
    for size, chance in zip(differing, np.diff(ends, prepend=0.0), strict=True):
        ahead = np.arange(size + 1)
        # (first less second)² / (first plus second), 0 where none differ; compared without a division.
        beyond = (2 * ahead - size) ** 2 * n - (2 * more - n) ** 2 * (int(size) or 1)
        ways = np.diff(bdtr(ahead.astype(float), int(size), 0.5), prepend=0.0)
        p += float(chance) * float((ways * ((beyond > 0) + 0.5 * (beyond == 0))).sum())
    return min(p, 1.0)


def _students_p(value: float, moved: "Array", freedom: int) -> float:
    """Student's p value of a difference over units, from what each moves it by; 0 without any spread."""
    from scipy.special import stdtr

    variance = _spread(moved)
    return 2 * float(stdtr(freedom, -abs(value) / sqrt(variance))) if variance > 1e-18 else 0.0


def _residuals(
    value: float, errors: "Sequence[Array]", *, paired: bool, seed: int, drawn: int
) -> tuple[float, Test]:
    """The interaction of four cells. Paired: the sign of what each unit gives is turned. Unpaired: what the
    units of each cell deviate is dealt to the cells again.
    """
    import numpy as np

    weights = np.array(_WEIGHTS[4], float)
    sizes = [len(error) for error in errors]
    if paired:
        n = sizes[0]
        given = value + n * (weights @ np.array(errors))
        exact = n <= _EXACT
        signs = 1 - 2 * (_every_flip(n) if exact else _flips(n, seed, drawn))

        def turned(signs: "Array") -> "Array":
            means = signs @ given / n
            return _studentised(means, (np.mean(given**2) - means**2) / (n - 1))

        found = turned(signs)
        p = _mid_p(float(turned(np.ones((1, n)))[0]), found, np.ones(len(found)) if exact else None)
        return p, "exact" if exact else "drawn"
    own = np.concatenate([size * error for size, error in zip(sizes, errors, strict=True)])
    ends = np.cumsum([0, *sizes])
    orders = _orders(len(own), seed, drawn)
    dealt = own[orders]
    differences, variance = np.zeros(drawn), np.zeros(drawn)
    for weight, start, end, size in zip(weights, ends, ends[1:], sizes, strict=False):
        part = dealt[:, start:end]
        differences += weight * part.mean(axis=1)
        variance += part.var(axis=1, ddof=1) / size
    seen = _studentised(np.array([value]), np.array([sum(map(_spread, errors))]))
    return _mid_p(float(seen[0]), _studentised(differences, variance)), "residuals"


# --- drawing ----------------------------------------------------------------------------------------
# The many figures of a report over the same games share their draws. The older generator of numpy gives the
# same numbers in every version.


@lru_cache(8)
def _orders(size: int, seed: int, drawn: int) -> "NDArray[np.intp]":
    import numpy as np

    return np.random.RandomState(seed).random_sample((drawn, size)).argsort(axis=1)


@lru_cache(8)
def _deals(size: int, first: int, seed: int, drawn: int) -> "Array":
    """Which units fall to the first level, one row for each draw."""
    import numpy as np

    ranks = np.random.RandomState(seed).random_sample((drawn, size)).argsort(axis=1)
    deals = np.zeros((drawn, size))
    np.put_along_axis(deals, ranks[:, :first], 1.0, axis=1)
    return deals


@lru_cache(32)
def _every_deal(size: int, first: int) -> "Array":
    import numpy as np

    chosen = np.array(list(combinations(range(size), first)))
    deals = np.zeros((len(chosen), size))
    np.put_along_axis(deals, chosen, 1.0, axis=1)
    return deals


@lru_cache(8)
def _flips(size: int, seed: int, drawn: int) -> "Array":
    import numpy as np

    flips: Array = (np.random.RandomState(seed).random_sample((drawn, size)) < 0.5).astype(float)
    return flips


@lru_cache(16)
def _every_flip(size: int) -> "Array":
    import numpy as np

    return ((np.arange(2**size)[:, None] >> np.arange(size)) & 1).astype(float)
