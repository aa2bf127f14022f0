"""Intervals and comparisons whose independent trials are games: bootstrap and permutation.

Events within one game depend on each other, so whole games are drawn, never items or votes. A figure is given
by its counts in each game (for example matched, guessed, gold) and a statistic of their sums. Most statistics
are a ratio of two sums, including micro F1: ``2 * matched`` divided by ``guessed + gold``.

The interval is BCa (bias-corrected and accelerated). Unlike the percentile interval it is second-order
accurate, and it is invariant under transformations, as a share near 0 or 1 requires. Source: Efron, JASA 82
(1987); DiCiccio and Efron, Statistical Science 11 (1996). With few games (below about 15) every bootstrap
interval is too narrow; an estimate always states the number of games.

Results depend only on the counts and the seed, not on the order of the games.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, product
from math import isclose, isnan, nan
from operator import itemgetter
from random import Random
from statistics import NormalDist
from typing import Final, Literal

from engine.chance import draw
from evaluators.statistics.rates import Interval, wilson

__all__ = [
    "BLOCKS",
    "RESAMPLES",
    "Comparison",
    "Counts",
    "Estimate",
    "Method",
    "Statistic",
    "bootstrap",
    "by_game",
    "compared",
    "paired",
    "pooled_f1",
    "pooled_recall",
    "ratio",
    "share",
]

Counts = Sequence[float]
"""The counts that one game (or item) adds to a figure; equally long for all."""

Statistic = Callable[[Sequence[float]], float]
"""Computes a figure from summed counts; nan if it is undefined."""

Method = Literal["bca", "wilson", "none"]

RESAMPLES: Final = 2000
"""Enough for 95 % limits: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 14."""

BLOCKS: Final = 1000
"""If there are more games, they are dealt into this number of blocks, and blocks are drawn instead. Games are
independent, so sums over blocks vary as the games do. The standard error is off by 1/sqrt(2 * 1000), 2 %,
about as much as with 2,000 resamples. This bounds the work for any number of games."""

_EXACT: Final = 12
"""Up to this number of games, every exchange is tried: 2**12 are 4,096 exchanges."""

_NORMAL: Final = NormalDist()


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval and the data behind both."""

    value: float
    """nan if nothing could be counted."""
    interval: Interval | None
    """None with fewer than two games, or if all games are alike (``share`` has an interval even then)."""
    confidence: float
    games: int
    """The number of games with counts."""
    resamples: int
    """The number of draws in which the figure was defined; 0 without a bootstrap."""
    method: Method


def by_game(items: Mapping[str, Counts], game_of: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """The counts of items summed within their games. Raises KeyError for an item without a game."""
    sums: dict[str, list[float]] = {}
    for item in sorted(items):
        counts = items[item]
        of_game = sums.setdefault(game_of[item], [0] * len(counts))
        for index, count in enumerate(counts):
            of_game[index] += count
    return {game: tuple(counts) for game, counts in sums.items()}


def bootstrap(
    games: Mapping[str, Counts],
    statistic: Statistic = ratio,
    *,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Estimate:
    """A figure over games with its BCa interval; ``games`` maps a game's id to its counts.

    Games whose counts are all zero are left out. Raises ValueError for counts of
    unequal length, fewer than 100 resamples, or a confidence outside (0, 1).
    """
    _check(resamples, confidence)
    counting = _counting(games)
    value = statistic(_sums(counting.values())) if counting else nan
    estimate = Estimate(value, None, confidence, len(counting), 0, "none")
    if len(counting) < 2 or isnan(value):
        return estimate
    clusters = _clusters(counting)
    draws = sorted(_draws(clusters, statistic, f"{seed}/bootstrap", resamples))
    # Sums in a different order may differ by rounding.
    if not draws or isclose(draws[0], draws[-1], rel_tol=1e-12):
        return estimate
    interval = _bca(draws, value, _jackknife(clusters, statistic), confidence)
    return Estimate(value, interval, confidence, len(counting), len(draws), "bca")


def share(
    games: Mapping[str, tuple[int, int]],
    *,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Estimate:
    """``bootstrap`` of a share, given as (k, n) by game, that always has an interval.

    If every game is a single trial, such as its winner, games are the independent trials of Wilson's
    interval, which holds for few games where a bootstrap does not. If all games are alike, the bootstrap sees
    no spread and would claim certainty; the interval is then Wilson's with each game as one trial, which is
    cautious, and k and n are scaled to the number of games. Without counts the interval is (0, 1).
    """
    single = all(n <= 1 for _, n in games.values())
    estimate = bootstrap({} if single else games, seed=seed, resamples=resamples, confidence=confidence)
    if estimate.interval is not None:
        return estimate
    if single:
        hits, trials = (sum(column) for column in zip((0, 0), *games.values(), strict=True))
        value = hits / trials if trials else nan
        return Estimate(value, wilson(hits, trials, confidence), confidence, trials, 0, "wilson")
    trials = estimate.games
    hits = 0 if isnan(estimate.value) else estimate.value * trials
    interval = wilson(round(hits), trials, confidence)
    # A common share strictly between 0 and 1 need not be a whole number of games.
    low, high = min(interval.low, estimate.value), max(interval.high, estimate.value)
    return Estimate(
        estimate.value,
        interval if isnan(estimate.value) else Interval(low, high),
        confidence,
        trials,
        0,
        "wilson",
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two raters on the same items."""

    first: float
    second: float
    difference: Estimate
    """First minus second, with its interval over games."""
    p_value: float
    """Two-sided: how often exchanging the two raters within whole games gives a difference at least as large.
    nan if the difference is undefined."""
    items: int
    """The number of items that both answered."""
    left_out: int
    """The number of items that only one of them answered."""
    exact: bool
    """Whether every exchange was tried (up to 12 games), so that the p value does not depend on the seed."""


def paired(
    first: Mapping[str, Counts],
    second: Mapping[str, Counts],
    game_of: Mapping[str, str],
    statistic: Statistic = ratio,
    *,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Comparison:
    """Compares two raters by their counts on each item, on the items that both have, clustered by game.

    The p value is that of a permutation test: if the two raters are alike, their names can be exchanged in
    any game. Raises the same errors as ``bootstrap`` and ``by_game``. Source: Good, Permutation, Parametric
    and Bootstrap Tests of Hypotheses (2005), chapter 3.
    """
    common = sorted(first.keys() & second.keys())
    joined = by_game({item: (*first[item], *second[item]) for item in common}, game_of)
    return compared(
        joined,
        statistic,
        items=len(common),
        left_out=len(first.keys() ^ second.keys()),
        seed=seed,
        resamples=resamples,
        confidence=confidence,
    )


def compared(
    games: Mapping[str, Counts],
    statistic: Statistic = ratio,
    *,
    items: int,
    left_out: int,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Comparison:
    """``paired`` for counts that are already summed by game: the counts of the first rater, then those of the
    second.

    ``items`` and ``left_out`` are copied into the result.
    """
    width = len(next(iter(games.values()), ())) // 2

    def difference(sums: Sequence[float]) -> float:
        return statistic(sums[:width]) - statistic(sums[width:])

    estimate = bootstrap(games, difference, seed=seed, resamples=resamples, confidence=confidence)
    sums = _sums(games.values()) if games else []
    return Comparison(
        first=statistic(sums[:width]) if sums else nan,
        second=statistic(sums[width:]) if sums else nan,
        difference=estimate,
        p_value=_p_value(games, difference, estimate.value, Random(f"{seed}/exchange"), resamples),
        items=items,
        left_out=left_out,
        exact=len(_counting(games)) <= _EXACT,
    )


def _p_value(
    games: Mapping[str, Counts], difference: Statistic, seen: float, rng: Random, resamples: int
) -> float:
    if isnan(seen):
        return nan
    clusters = _clusters(_counting(games))
    sums = _sums(clusters)
    width = len(sums) // 2
    # Exchanging the raters in a cluster adds this to the first half of the sums and takes it from the second.
    moves = [[counts[column + width] - counts[column] for counts in clusters] for column in range(width)]

    def exchanged(signs: Sequence[int]) -> float:
        shifts = [sum(compress(column, signs)) for column in moves]
        return abs(
            difference(
                [
                    *(total + shift for total, shift in zip(sums[:width], shifts, strict=True)),
                    *(total - shift for total, shift in zip(sums[width:], shifts, strict=True)),
                ]
            )
        )

    # Rounding of sums must not make an equally large difference look smaller.
    bar = abs(seen) * (1 - 1e-12) - 1e-15
    if len(clusters) <= _EXACT:
        as_large = [exchanged(signs) >= bar for signs in product((0, 1), repeat=len(clusters))]
        return sum(as_large) / len(as_large)
    unit = rng.random
    beyond = sum(exchanged([unit() < 0.5 for _ in clusters]) >= bar for _ in range(resamples))
    # The observed assignment is one of the possible ones: Phipson and Smyth, SAGMB 9 (2010).
    return (beyond + 1) / (resamples + 1)


# --- drawing -------------------------------------------------------------------------------------


def _check(resamples: int, confidence: float) -> None:
    if resamples < 100:
        raise ValueError(f"a bootstrap needs 100 resamples or more, got {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")


def _counting(games: Mapping[str, Counts]) -> dict[str, Counts]:
    widths = Counter(len(counts) for counts in games.values())
    if len(widths) > 1:
        raise ValueError(f"counts must be equally long in every game, got lengths {sorted(widths)}")
    return {game: games[game] for game in sorted(games) if any(games[game])}


def _sums(clusters: Iterable[Counts]) -> list[float]:
    return [sum(column) for column in zip(*clusters, strict=True)]


def _clusters(games: Mapping[str, Counts]) -> list[Counts]:
    """The counts of games, or of blocks of games dealt by their ids."""
    if len(games) <= BLOCKS:
        return list(games.values())
    # Games are dealt by a hash of the id, since ids may follow time, and neighbours may be alike.
    dealt = sorted(games, key=lambda game: (draw(0, "block", game), game))
    return [_sums(games[game] for game in dealt[block::BLOCKS]) for block in range(BLOCKS)]


def _draws(clusters: Sequence[Counts], statistic: Statistic, rng: str, resamples: int) -> Iterable[float]:
    columns = [tuple(column) for column in zip(*clusters, strict=True)]
    size = len(clusters)
    picks = _kept_picks if size * resamples <= _KEPT else _picks
    for pick in picks(rng, size, resamples):
        value = statistic([sum(pick(column)) for column in columns])
        if not isnan(value):
            yield value


Pick = Callable[[tuple[float, ...]], Iterable[float]]
"""Draws as many clusters as there are, with replacement, and returns their counts in one column."""

_KEPT: Final = 500_000
"""The most indexes that one cached set of draws may hold: 4 MB."""


def _picks(seed: str, size: int, resamples: int) -> Iterator[Pick]:
    """A pick for each resample of ``size`` clusters, at least two."""
    # Only Random.random() is guaranteed to stay the same in every version of Python.
    unit = Random(seed).random
    for _ in range(resamples):
        yield itemgetter(*(int(unit() * size) for _ in range(size)))


# The hundreds of figures of a report over the same games share their draws.
@lru_cache(48)
def _kept_picks(seed: str, size: int, resamples: int) -> tuple[Pick, ...]:
    return tuple(_picks(seed, size, resamples))


def _jackknife(clusters: Sequence[Counts], statistic: Statistic) -> list[float]:
    """The figure without each cluster in turn, where it is defined."""
    sums = _sums(clusters)
    left = (
        statistic([total - count for total, count in zip(sums, counts, strict=True)]) for counts in clusters
    )
    return [value for value in left if not isnan(value)]


def _bca(draws: Sequence[float], value: float, left_out: Sequence[float], confidence: float) -> Interval:
    size = len(draws)
    # Half of the ties count, since a draw of a discrete figure often equals the figure itself.
    below = sum(draw < value for draw in draws) + sum(draw == value for draw in draws) / 2
    bias = _NORMAL.inv_cdf(min(max(below, 0.5), size - 0.5) / size)
    middle = sum(left_out) / len(left_out) if left_out else 0.0
    spread = sum((middle - value) ** 2 for value in left_out)
    acceleration = sum((middle - value) ** 3 for value in left_out) / (6 * spread**1.5) if spread else 0.0

    def limit(tail: float) -> float:
        z = bias + _NORMAL.inv_cdf(tail)
        rank = _NORMAL.cdf(bias + z / (1 - acceleration * z)) * (size + 1) - 1
        return draws[min(max(round(rank), 0), size - 1)]

    return Interval(limit((1 - confidence) / 2), limit((1 + confidence) / 2))
