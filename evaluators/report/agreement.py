"""The table of agreement between raters: kappa and alpha under every grouping of scores."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from math import isnan, nan
from statistics import pstdev
from typing import Final, NamedTuple, cast

from evaluators.report.tables import PAPER, Column, ReportTable, TableRow
from evaluators.statistics.agreement import GROUPINGS, Level, all_raters, alpha_of, grouped, pairwise
from evaluators.statistics.figures import Figure, GameSet, nothing
from evaluators.statistics.intervals import RATE, SIGNED, Range, Statistic, estimate

__all__ = ["agreement", "kappa_of_two", "kappa_with"]

Ratings = Mapping[str, Mapping[str, int]]

_PUBLISHED: Final = {"think": 0.448, "speak": 0.420}
"""Pairwise kappa of the paper's annotators, with scores grouped 1-4 | 5."""


def agreement(shared: Mapping[str, Ratings]) -> ReportTable:
    """Agreement in each part, over the items that two or more of these raters judged; ``shared`` may hold
    others.
    """
    rows = [row for what, ratings in shared.items() for row in _rows(what, _of_several(ratings))]
    return ReportTable(
        "agreement",
        PAPER,
        "Agreement of raters",
        "Over items (an intention of a stage) that several raters judged; n is how many, of pairs the sum "
        "over pairs. All raters: Fleiss' kappa on the items that every rater judged. Pairwise: mean and "
        "deviation over pairs of raters, each on the items both judged. Alpha: Krippendorff's, nominal or "
        "ordinal, on every shared item. All intervals are over games.",
        ("judged", "scores"),
        (
            Column("kappa, all raters", "number"),
            Column("kappa, pairwise mean", "number"),
            Column("pairwise deviation", "number"),
            Column("alpha, nominal", "number"),
            Column("alpha, ordinal", "number"),
            Column("paper's annotators", "number"),
        ),
        tuple(rows),
        "" if rows else "nothing was judged by two raters",
    )


def _of_several(ratings: Ratings) -> Ratings:
    """The ratings of items that two or more of these raters judged; a rater without any is left out."""
    times = Counter(item for rated in ratings.values() for item in rated)
    several = {
        rater: {item: value for item, value in rated.items() if times[item] > 1}
        for rater, rated in ratings.items()
    }
    return {rater: rated for rater, rated in several.items() if rated}


def _rows(what: str, ratings: Ratings) -> Iterable[TableRow]:
    if not ratings:
        return
    if what == "reasonable":
        yield _row(what, "yes | no", ratings, ratings)
        return
    for grouping in GROUPINGS:
        yield _row(what, grouping.name, grouped(ratings, grouping), None)
    yield _row(what, "1 to 5", ratings, ratings)


def _row(what: str, scores: str, ratings: Ratings, ordinal: Ratings | None) -> TableRow:
    whole, pairs = all_raters(ratings), pairwise(ratings)
    shared = {item for rated in ratings.values() for item in rated}
    every = set.intersection(*(set(rated) for rated in ratings.values()))
    raters = list(combinations(sorted(ratings), 2))
    common = [item for first, other in raters for item in ratings[first].keys() & ratings[other].keys()]
    of_pairs = _pair_counts(ratings, raters)
    figures = {
        "kappa, all raters": _figure(
            whole.value, _whole_counts(ratings, every), _fleiss(len(ratings)), every
        ),
        "kappa, pairwise mean": _figure(pairs.mean, of_pairs.counts, of_pairs.mean, common),
        "pairwise deviation": _figure(pairs.deviation, of_pairs.counts, of_pairs.deviation, common, RATE),
    }
    for level, rated in (("nominal", ratings), ("ordinal", ordinal)):
        if rated is not None:
            counts, alpha = _coincidences(rated), _alpha(rated, cast(Level, level))
            figures[f"alpha, {level}"] = _figure(alpha_of(rated, cast(Level, level)), counts, alpha, shared)
    if scores == "1-4|5":
        figures["paper's annotators"] = Figure(_PUBLISHED[what], method="published", note="published")
    return TableRow((what, scores), figures)


def kappa_with(judge: Mapping[str, int], people: Ratings) -> Figure:
    """The mean of the judge's kappas with each person, on the items that both judged, over games."""
    ratings = {**{f"person {name}": rated for name, rated in people.items()}, _JUDGE: judge}
    pairs = [
        (name, _JUDGE) for name in sorted(ratings) if name != _JUDGE and ratings[name].keys() & judge.keys()
    ]
    common = [item for name, _ in pairs for item in ratings[name].keys() & judge.keys()]
    counted = _pair_counts(ratings, pairs)
    sums = [sum(column) for column in zip(*counted.counts.values(), strict=True)]
    return _figure(counted.mean(sums) if sums else nan, counted.counts, counted.mean, common)


_JUDGE: Final = "judge"
_UNDEFINED: Final = "undefined: no shared items, or one category only"

GameCounts = Mapping[str, Sequence[float]]


def _figure(
    value: float, counts: GameCounts, statistic: Statistic, behind: Collection[str], within: Range = SIGNED
) -> Figure:
    """A coefficient with its interval over games. It is a function of counts that add up over games, so
    games can be left out. ``behind``: the intentions of stages that all of these raters judged.
    """
    if isnan(value):
        return nothing(_UNDEFINED)
    found = estimate(counts, statistic, within=within)
    low, high = found.interval or (None, None)
    games = sorted({_game(item) for item in behind})
    return Figure(
        value,
        low,
        high,
        den=len(behind),
        games=len(games),
        items=len({item.rsplit("/", 1)[0] for item in behind}),
        method=found.method,
        note="" if found.interval is not None else "one game, or games that do not differ: no interval",
        of_games=GameSet(games, (1 << len(games)) - 1),
    )


def _game(item: str) -> str:
    """The game of an item ``game/request/stage/intention``; a game's id may contain slashes."""
    return item.rsplit("/", 3)[0]


def _categories(ratings: Ratings) -> dict[int, int]:
    """The index of each category that any rater gave."""
    values = sorted({value for rated in ratings.values() for value in rated.values()})
    return {value: index for index, value in enumerate(values)}


def _by_game(added: Iterable[tuple[str, int, float]], width: int) -> dict[str, list[float]]:
    """Sums the counts of items by game."""
    counts: dict[str, list[float]] = {}
    for item, cell, n in added:
        counts.setdefault(_game(item), [0.0] * width)[cell] += n
    return counts


def _whole_counts(ratings: Ratings, every: Collection[str]) -> dict[str, list[float]]:
    """By game, for the items that all raters rated: the number of items, the number of ordered pairs of
    raters that agree, and the number of ratings in each category.
    """
    place = _categories(ratings)

    def added() -> Iterator[tuple[str, int, float]]:
        for item in every:
            counts = Counter(rated[item] for rated in ratings.values())
            yield item, 0, 1
            yield item, 1, sum(n * (n - 1) for n in counts.values())
            for value, n in counts.items():
                yield item, 2 + place[value], n

    return _by_game(added(), 2 + len(place))


def _fleiss(raters: int) -> Statistic:
    def kappa(sums: Sequence[float]) -> float:
        subjects, agreeing, *totals = sums
        all_pairs, all_chance = subjects * raters * (raters - 1), (subjects * raters) ** 2
        by_chance = sum(total * total for total in totals)
        # Sums of drawn blocks may differ by rounding.
        if not subjects or by_chance >= all_chance * (1 - 1e-12):
            return nan
        return (agreeing * all_chance - by_chance * all_pairs) / (all_pairs * (all_chance - by_chance))

    return kappa


def _coincidences(ratings: Ratings) -> dict[str, list[float]]:
    """By game, Krippendorff's matrix of coincidences of categories within items, row by row."""
    place = _categories(ratings)
    size = len(place)

    def added() -> Iterator[tuple[str, int, float]]:
        for item in {item for rated in ratings.values() for item in rated}:
            counts = Counter(rated[item] for rated in ratings.values() if item in rated)
            if counts.total() < 2:
                continue
            for category, n in counts.items():
                for other, m in counts.items():
                    pairs = n * (m - (category == other))
                    yield item, place[category] * size + place[other], pairs / (counts.total() - 1)

    return _by_game(added(), size * size)


def _alpha(ratings: Ratings, level: Level) -> Statistic:
    size = len(_categories(ratings))

    def alpha(sums: Sequence[float]) -> float:
        totals = [sum(sums[at * size : (at + 1) * size]) for at in range(size)]
        before = list(accumulate(totals, initial=0.0))
        middle = [before[at] + totals[at] / 2 for at in range(size)]
        observed = expected = 0.0
        for row in range(size):
            for other in range(size):
                if row != other:
                    distance = 1.0 if level == "nominal" else (middle[row] - middle[other]) ** 2
                    observed += sums[row * size + other] * distance
                    expected += totals[row] * totals[other] * distance
        return 1 - (sum(totals) - 1) * observed / expected if expected else nan

    return alpha


class _Pairs(NamedTuple):
    """By game and pair of raters: the number of items on which both agreed, and the number of ratings of the
    two in each category.
    """

    counts: dict[str, list[float]]
    pairs: int
    width: int

    def kappas(self, sums: Sequence[float]) -> list[float]:
        """The kappas of the pairs where it is defined."""
        kappas = [kappa_of_two(sums[at * self.width : (at + 1) * self.width]) for at in range(self.pairs)]
        return [kappa for kappa in kappas if not isnan(kappa)]

    def mean(self, sums: Sequence[float]) -> float:
        kappas = self.kappas(sums)
        return sum(kappas) / len(kappas) if kappas else nan

    def deviation(self, sums: Sequence[float]) -> float:
        kappas = self.kappas(sums)
        return pstdev(kappas) if kappas else nan


def _pair_counts(ratings: Ratings, pairs: Sequence[tuple[str, str]]) -> _Pairs:
    place = _categories(ratings)
    width = 1 + len(place)

    def added() -> Iterator[tuple[str, int, float]]:
        for at, (a, b) in enumerate(pairs):
            for item in ratings[a].keys() & ratings[b].keys():
                first, other = ratings[a][item], ratings[b][item]
                yield item, at * width, first == other
                yield item, at * width + 1 + place[first], 1
                yield item, at * width + 1 + place[other], 1

    return _Pairs(_by_game(added(), len(pairs) * width), len(pairs), width)


def kappa_of_two(counts: Sequence[float]) -> float:
    """Fleiss' kappa of two raters; nan if undefined."""
    agreed, *totals = counts
    rated_values = sum(totals)
    if not rated_values:
        return nan
    by_chance = sum((total / rated_values) ** 2 for total in totals)
    return nan if by_chance >= 1 - 1e-12 else (2 * agreed / rated_values - by_chance) / (1 - by_chance)
