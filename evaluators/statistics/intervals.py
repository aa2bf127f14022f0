"""Intervals of figures whose independent trials are games.

What happens within one game depends on the rest of it, so a figure is given by its counts in each game (for
example matched, guessed, gold) and a statistic of their sums; most are a ratio of two sums. One rule holds:

1. The variance is the jackknife's: each game is left out in turn. For a ratio this is the delta method with
   the cluster-robust correction CR3. It needs no chance, and the order of the games does not matter.
2. Few games, or a few that carry most of the variance, make that variance uncertain. So limits take Student's
   t, with Satterthwaite's degrees of freedom.
3. Limits respect the figure's range. Between two ends, as for shares, they are Wilson's with the effective
   sample size, which is the number of games' items divided by the design effect. Above one end only, as for
   rates, they are those of the score test. Without ends they are symmetric.

Where games do not differ, or each is a single trial (who won), nothing needs to be estimated: the interval
is Wilson's with each game as one trial. ``python -m bench.coverage`` measures how often intervals hold the
truth; docs/statistics.md has the table.

Sources: Efron and Stein, Annals of Statistics 9 (1981); Bell and McCaffrey, Survey Methodology 28 (2002);
Korn and Graubard, Survey Methodology 24 (1998); Satterthwaite, Biometrics Bulletin 2 (1946).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import atan, cos, fsum, inf, isnan, nan, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

__all__ = [
    "RATE",
    "SCORE",
    "SHARE",
    "SIGNED",
    "Clustering",
    "Counts",
    "Estimate",
    "Interval",
    "IntervalMethod",
    "Range",
    "Spread",
    "Statistic",
    "clustering",
    "estimate",
    "jackknife",
    "limits",
    "pooled_f1",
    "pooled_recall",
    "ratio",
    "score_limits",
    "share",
    "snapped",
    "student_p",
    "student_quantile",
    "wilson",
]

Counts = Sequence[float]
"""The counts that one game (or item) adds to a figure; equally long for all."""

Statistic = Callable[[Sequence[float]], float]
"""Computes a figure from summed counts; nan if it is undefined."""

Range = tuple[float, float]
"""The ends between which a figure must lie."""

SHARE: Final[Range] = (0.0, 1.0)
RATE: Final[Range] = (0.0, inf)
SCORE: Final[Range] = (1.0, 5.0)
SIGNED: Final[Range] = (-1.0, 1.0)
"""Of kappa and alpha, and of the difference of two shares."""

IntervalMethod = Literal["wilson", "wilson, design effect", "score", "t", "none"]
"""wilson: each game is one trial. wilson, design effect: with the effective sample size. score: of a rate
that is 0 or more. t: symmetric. none: there is no interval."""


def ratio(sums: Sequence[float]) -> float:
    """The first sum divided by the second; nan if the second is 0."""
    return sums[0] / sums[1] if sums[1] else nan


def pooled_recall(sums: Sequence[float]) -> float:
    """Recall from summed (matched, predicted, gold); nan without gold."""
    return sums[0] / sums[2] if sums[2] else nan


def pooled_f1(sums: Sequence[float]) -> float:
    """F1 from summed (matched, predicted, gold); nan if predicted and gold are both 0."""
    matched, predicted, gold = sums
    return 2 * matched / (predicted + gold) if predicted + gold else nan


# --- independent trials -----------------------------------------------------------------------------


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


# --- the variance over games ----------------------------------------------------------------------


class Spread(NamedTuple):
    """A figure with its variance over games."""

    value: float
    """nan if nothing could be counted."""
    variance: float
    """0 if the games do not differ; nan with fewer than two games."""
    df: int
    """The degrees of freedom of the variance; 0 if it is 0 or nan."""
    games: int
    """The games that say something about the figure and without which it would still be defined."""


def snapped(value: float) -> float:
    """The value; 0 where it is only what rounding has left of a sum or difference of equal parts."""
    return 0.0 if 0 < abs(value) < _RESIDUE else value


_RESIDUE: Final = 1e-9
"""Sums of counts and scores, and differences of their means, are larger or 0."""


def jackknife(games: Collection[Counts], statistic: Statistic = ratio) -> Spread:
    """The figure over games, given by their counts, and its variance by leaving out each game in turn.

    The degrees of freedom are Satterthwaite's from the fourth moment, rounded down, at most one less than
    there are games: if two games of thirty carry the variance, it is known no better than from two.
    """
    sums = [fsum(column) for column in zip(*games, strict=True)]
    value = snapped(statistic(sums)) if games else nan
    if isnan(value):
        return Spread(nan, nan, 0, len(games))
    deviations = []
    for counts in games:
        deviation = statistic([total - count for total, count in zip(sums, counts, strict=True)]) - value
        # A game without anything to divide by says nothing about the figure.
        if not isnan(deviation) and (deviation or not isnan(statistic(counts))):
            deviations.append(deviation)
    size = len(deviations)
    if size < 2:
        return Spread(value, nan, 0, size)
    # Sums in a different order may differ by rounding.
    if max(map(abs, deviations)) <= 1e-12 * max(1.0, abs(value)):
        return Spread(value, 0.0, 0, size)
    squares = [deviation * deviation for deviation in deviations]
    total = fsum(squares)
    return Spread(value, (size - 1) / size * total, _degrees(squares, total), size)


def _degrees(squares: Sequence[float], total: float) -> int:
    size = len(squares)
    carrying = total * total / fsum(square * square for square in squares)
    # The variance of a variance is (kurtosis - 1) / size, and size / carrying is the kurtosis.
    known = 2 * size * carrying / (size - carrying) if carrying < size else inf
    return max(1, int(min(size - 1, known + 1e-9)))


# --- limits ---------------------------------------------------------------------------------------


def limits(
    spread: Spread, within: Range | None = None, confidence: float = 0.95
) -> tuple[Interval | None, IntervalMethod]:
    """The interval of a figure, and how it was made; None if the games do not differ or are fewer than two.

    A share has an interval even then, and so has whatever lies at an end of its range: each game counts as
    one trial.
    """
    method: IntervalMethod
    value, variance, df, games = spread
    if isnan(value):
        return None, "none"
    known = variance > 0
    quantile = student_quantile(confidence, df) if known else nan
    if within is None:
        return _around(value, quantile * sqrt(variance)) if known else (None, "none")
    low, high = within
    if high == inf:
        return _above(value, low, quantile * quantile * variance) if known else (None, "none")
    width = high - low
    place = min(max((value - low) / width, 0.0), 1.0)
    if known and 0 < place < 1:
        trials, method = place * (1 - place) * width * width / variance, "wilson, design effect"
    elif within == SHARE or place in (0, 1):
        trials, quantile, method = max(games, 1), _z(confidence), "wilson"
    else:
        return None, "none"
    found = score_limits(place, trials, quantile)
    return Interval(low + width * found.low, low + width * found.high), method


def _around(value: float, half: float) -> tuple[Interval, IntervalMethod]:
    return Interval(value - half, value + half), "t"


def _above(value: float, low: float, squared: float) -> tuple[Interval | None, IntervalMethod]:
    """Every rate m for which (value - m)² <= squared * m / value: a variance that grows with the rate."""
    rate = value - low
    if rate <= 0:
        return None, "none"
    half = squared / (2 * rate)
    root = sqrt(half * (2 * rate + half))
    upper = rate + half + root
    return Interval(low + rate * rate / upper, low + upper), "score"


class Clustering(NamedTuple):
    """How much the items of one game depend on each other."""

    design_effect: float
    """How many times as large the variance is as that of as many independent items."""
    icc: float | None
    """The intraclass correlation: what two items of one game have in common; 1 if they are always alike,
    below 0 if they differ more than by chance. None if no game has two items."""


def clustering(spread: Spread, trials: float, squares: float) -> Clustering | None:
    """The design effect of a share over ``trials`` items, and the intraclass correlation that makes it up:
    design effect = 1 + (m - 1) icc, where m is the mean size of the game in which an item lies.

    ``squares``: the sum over games of the squared numbers of items. None where the share is 0 or 1, or there
    is no variance over games. Source: Kish, Survey Sampling (1965), 5.4 and 8.2.
    """
    value = spread.value
    if not trials or not 0 < value < 1 or isnan(spread.variance):
        return None
    # value (1 - value) is too small by the variance of the value, on average.
    effect = spread.variance * trials / (value * (1 - value) + spread.variance)
    size = squares / trials
    return Clustering(effect, (effect - 1) / (size - 1) if size > 1 + 1e-9 else None)


# --- figures --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval and the data behind both."""

    value: float
    """nan if nothing could be counted."""
    interval: Interval | None
    """None if nothing could be counted; also with fewer than two games, or games that do not differ, unless
    the figure has two ends."""
    confidence: float
    games: int
    """The number of games with counts."""
    method: IntervalMethod
    clustering: Clustering | None = None
    """Of shares; None where each game is a single trial."""


def estimate(
    games: Mapping[str, Counts],
    statistic: Statistic = ratio,
    *,
    within: Range | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """A figure over games with its interval; ``games`` maps a game's id to its counts, ``within`` is the
    figure's range.

    Games whose counts are all zero are left out. Raises ValueError for counts of unequal length, or a
    confidence outside (0, 1).
    """
    counting = _counting(games, confidence)
    spread = jackknife(counting, statistic)
    interval, method = limits(spread, within, confidence)
    return Estimate(spread.value, interval, confidence, len(counting), method)


def share(games: Mapping[str, Counts], *, confidence: float = 0.95) -> Estimate:
    """``estimate`` of a share, given as (k, n) by game, with the design effect.

    If every game is a single trial, such as its winner, the trials are independent, and the interval is
    Wilson's without more ado; without counts it is (0, 1).
    """
    counting = _counting(games, confidence)
    hits, trials = (fsum(column) for column in zip((0, 0), *counting, strict=True))
    if trials == len(counting):  # n is a whole number, and at least 1
        value = hits / trials if trials else nan
        known = score_limits(value, trials, _z(confidence))
        return Estimate(value, known, confidence, len(counting), "wilson")
    spread = jackknife(counting, ratio)
    interval, method = limits(spread, SHARE, confidence)
    found = clustering(spread, trials, fsum(n * n for _, n in counting))
    return Estimate(spread.value, interval, confidence, len(counting), method, found)


def _counting(games: Mapping[str, Counts], confidence: float) -> list[Counts]:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    widths = Counter(len(counts) for counts in games.values())
    if len(widths) > 1:
        raise ValueError(f"counts must be equally long in every game, got lengths {sorted(widths)}")
    return [counts for counts in games.values() if any(counts)]


# --- Student's t ----------------------------------------------------------------------------------
# Ours, so that a service without scipy gives the same limits. For whole degrees of freedom it is a sum.


def student_p(t: float, df: int) -> float:
    """The two-sided p value of ``t`` with ``df`` degrees of freedom, at least 1."""
    return max(0.0, 1 - _within(atan(abs(t) / sqrt(df)), df))


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, df: int) -> float:
    """The t below whose absolute value Student's distribution has a share of ``confidence``.

    Raises ValueError unless 0 < confidence < 1 and df >= 1.
    """
    if not 0 < confidence < 1 or df < 1:
        raise ValueError(
            f"a quantile needs a confidence in (0, 1) and df of 1 or more, got {confidence}, {df}"
        )
    low, high = 0.0, pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _within(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return tan(high) * sqrt(df)


def _within(angle: float, df: int) -> float:
    """The share of Student's distribution between -t and t, where t is sqrt(df) times the angle's tangent.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = sin(angle), cos(angle)
    odd = df % 2
    term = cosine if odd else 1.0
    terms = [term] if df > 1 else []
    for k in range(2 + odd, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        terms.append(term)
    return 2 / pi * (angle + sine * fsum(terms)) if odd else sine * fsum(terms)
