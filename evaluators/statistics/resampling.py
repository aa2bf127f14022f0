"""Comparisons of two raters whose independent trials are games: differences, and permutation tests.

Events within one game depend on each other, so whole games are exchanged, never items or votes. A figure is
given by its counts in each game and a statistic of their sums; ``intervals`` has the intervals.

Results depend only on the counts and the seed, not on the order of the games.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from math import isnan, nan
from random import Random
from typing import Final

from engine.chance import draw
from evaluators.statistics.intervals import Counts, Estimate, Range, Statistic, estimate, ratio

__all__ = [
    "BLOCKS",
    "RESAMPLES",
    "Comparison",
    "by_game",
    "compared",
    "paired",
]

RESAMPLES: Final = 2000
"""Exchanges that are drawn where there are too many to try all: a p value of 0.05 is then off by 0.005."""

BLOCKS: Final = 1000
"""If there are more games, they are dealt into this number of blocks, and blocks are exchanged instead. This
bounds the work for any number of games."""

_EXACT: Final = 12
"""Up to this number of games, every exchange is tried: 2**12 are 4,096 exchanges."""


def by_game(items: Mapping[str, Counts], game_of: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """The counts of items summed within their games. Raises KeyError for an item without a game."""
    sums: dict[str, list[float]] = {}
    for item in sorted(items):
        counts = items[item]
        of_game = sums.setdefault(game_of[item], [0] * len(counts))
        for index, count in enumerate(counts):
            of_game[index] += count
    return {game: tuple(counts) for game, counts in sums.items()}


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
    within: Range | None = None,
) -> Comparison:
    """Compares two raters by their counts on each item, on the items that both have, clustered by game.

    The p value is that of a permutation test: if the two raters are alike, their names can be exchanged in
    any game. Raises the same errors as ``compared`` and ``by_game``. Source: Good, Permutation, Parametric
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
        within=within,
    )


def compared(
    games: Mapping[str, Counts],
    statistic: Statistic = ratio,
    *,
    items: int,
    left_out: int,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
    within: Range | None = None,
) -> Comparison:
    """``paired`` for counts that are already summed by game: the counts of the first rater, then those of the
    second.

    ``items`` and ``left_out`` are copied into the result; ``within`` is the range of the difference. Raises
    ValueError for fewer than 100 resamples, or counts of unequal length.
    """
    if resamples < 100:
        raise ValueError(f"a permutation test needs 100 resamples or more, got {resamples}")
    width = len(next(iter(games.values()), ())) // 2

    def difference(sums: Sequence[float]) -> float:
        return statistic(sums[:width]) - statistic(sums[width:])

    found = estimate(games, difference, within=within)
    sums = _sums(games.values()) if games else []
    return Comparison(
        first=statistic(sums[:width]) if sums else nan,
        second=statistic(sums[width:]) if sums else nan,
        difference=found,
        p_value=_p_value(games, difference, found.value, Random(f"{seed}/exchange"), resamples),
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


def _counting(games: Mapping[str, Counts]) -> dict[str, Counts]:
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
