"""The agreement of raters beyond chance: Fleiss' kappa, Krippendorff's alpha, and the bar for judges.

The two coefficients take plain tables, as in textbooks. All other functions take ratings by rater and item,
find the items that can be compared, and say how many there are. An undefined coefficient is nan: if all
raters gave one category, chance explains everything, and neither 0 nor 1 would be right.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, isnan, nan, sqrt
from typing import Any, Final, Literal, NamedTuple

from evaluators.ground.judgements import Judgement

__all__ = [
    "BAR",
    "GROUPINGS",
    "Bar",
    "Grouping",
    "JudgeAgreement",
    "Kappa",
    "Level",
    "Pairwise",
    "RatedItems",
    "all_raters",
    "alpha_of",
    "fleiss_kappa",
    "grouped",
    "judge_agreement",
    "krippendorff_alpha",
    "pairwise",
    "ratings_of",
]

Level = Literal["nominal", "ordinal"]

RatedItems = Mapping[str, Hashable]
"""One rater's categories by item id, without the items that the rater left out."""


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float:
    """Fleiss' kappa of a table: one row per subject, one column per category, the number of raters in each
    cell.

    nan if there is no subject, or if all ratings fall into one category (0/0, as in statsmodels). At most 1;
    below 0 if raters agree less than by chance.

    Raises ValueError, naming the row, unless every subject has the same number of ratings, at least two:
    Fleiss' chance term assumes equal numbers. For unequal numbers use ``krippendorff_alpha``. Source: Fleiss,
    Psychological Bulletin 76 (1971).
    """
    raters = sum(counts[0]) if counts else 0
    width = len(counts[0]) if counts else 0
    for row, cells in enumerate(counts):
        if len(cells) != width:
            raise ValueError(f"row {row} has {len(cells)} categories, row 0 has {width}")
        if any(cell < 0 for cell in cells):
            raise ValueError(f"row {row} has a negative number of ratings: {list(cells)}")
        if sum(cells) != raters:
            raise ValueError(
                f"row {row} has {sum(cells)} ratings, row 0 has {raters}: kappa needs equal numbers"
            )
        if raters < 2:
            raise ValueError(f"row {row} has {raters} ratings, kappa needs at least 2")
    if not counts:
        return nan
    # Whole numbers until the last division, so that kappa does not depend on the order of the table.
    subjects = len(counts)
    agreeing = sum(cell * (cell - 1) for cells in counts for cell in cells)
    by_chance = sum(total * total for total in map(sum, zip(*counts, strict=True)))
    all_pairs = subjects * raters * (raters - 1)
    all_chance = (subjects * raters) ** 2
    if by_chance == all_chance:
        return nan
    return (agreeing * all_chance - by_chance * all_pairs) / (all_pairs * (all_chance - by_chance))


def krippendorff_alpha(ratings: Sequence[Sequence[Any]], level: Level) -> float:
    """Krippendorff's alpha of a table: one row per rater, one column per unit, None for a missing rating.

    ``nominal``: values are equal or different, and may be any hashable objects. ``ordinal``: values are
    ordered, and the distance of two values is the number of ratings between them. A nan counts as missing.
    Units with fewer than two ratings are left out. nan if no unit has two ratings, or if only one value is
    left.

    Raises ValueError for another level, rows of unequal length, or values that cannot be ordered.
    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability (2011).
    """
    if level not in ("nominal", "ordinal"):
        raise ValueError(f"the level must be nominal or ordinal, got {level!r}")
    for row, values in enumerate(ratings):
        if len(values) != len(ratings[0]):
            raise ValueError(f"row {row} has {len(values)} units, row 0 has {len(ratings[0])}")
    units = [Counter(value for value in unit if _is_rated(value)) for unit in zip(*ratings, strict=True)]
    paired = [unit for unit in units if unit.total() >= 2]
    totals = sum(paired, Counter[Any]())
    if len(totals) < 2:
        return nan
    distance = _nominal if level == "nominal" else _ordinal(totals)
    observed = fsum(_disagreement(unit, distance) / (unit.total() - 1) for unit in paired)
    expected = _disagreement(totals, distance) / (totals.total() - 1)
    return 1 - observed / expected


def _is_rated(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and isnan(value))


_Distance = Callable[[Any, Any], float]


def _disagreement(values: Mapping[Any, int], distance: _Distance) -> float:
    """The squared distances of all pairs of values, each pair both ways."""
    return fsum(2 * n * m * distance(a, b) for (a, n), (b, m) in combinations(values.items(), 2))


def _nominal(a: Any, b: Any) -> float:
    return 1.0


def _ordinal(totals: Mapping[Any, int]) -> _Distance:
    try:
        ordered = sorted(totals)
    except TypeError:
        raise ValueError(f"ordinal values must be ordered, got {sorted(map(repr, totals))}") from None
    # The mean rank of a value's ratings: the difference of two mean ranks is the number of ratings between
    # the values, with half of the ratings of either value.
    rank: dict[Any, float] = {}
    before = 0
    for value in ordered:
        rank[value] = before + totals[value] / 2
        before += totals[value]
    return lambda a, b: float((rank[a] - rank[b]) ** 2)


# --- scores in groups ----------------------------------------------------------------------------


class Grouping(NamedTuple):
    """Scores of 1 to 5 in two groups."""

    name: str
    good_from: int
    """The lowest score of the upper group."""

    def group(self, score: int) -> int:
        """0 below ``good_from``, else 1. Raises ValueError for a score outside 1 to 5."""
        if not 1 <= score <= 5:
            raise ValueError(f"a following score must be 1 to 5, got {score}")
        return int(score >= self.good_from)


GROUPINGS: Final = (Grouping("1-3|4-5", 4), Grouping("1-4|5", 5), Grouping("1-2|3-5", 3))
"""The default comes first. Source: InterIntent (EMNLP 2024), section 3 and its appendix on agreement."""


def grouped(
    ratings: Mapping[str, Mapping[str, int]], grouping: Grouping = GROUPINGS[0]
) -> dict[str, dict[str, int]]:
    """Every rater's scores as groups (0 or 1)."""
    return {
        rater: {item: grouping.group(score) for item, score in scores.items()}
        for rater, scores in ratings.items()
    }


# --- several raters ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kappa:
    """Fleiss' kappa with the data behind it."""

    value: float
    """nan if it is undefined (``fleiss_kappa``) or no item is shared."""
    items: int
    """The number of items that all of ``raters`` rated."""
    raters: tuple[str, ...]
    agreed: int
    """The number of items on which all of them agree."""
    labels: tuple[tuple[Any, int], ...]
    """(category, number of ratings), the categories in order."""


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Kappa of every pair of raters, with mean and deviation over the pairs where it is defined."""

    pairs: tuple[Kappa, ...]
    """In the order of the raters' names."""
    mean: float
    """nan without a defined pair."""
    deviation: float
    """The population standard deviation, since the pairs are not a sample. nan without a defined pair."""
    undefined: int
    """The number of pairs that share no item, or only one category on the items they share."""


def all_raters(ratings: Mapping[str, RatedItems]) -> Kappa:
    """Fleiss' kappa over the items that all of these raters rated; with fewer than two raters, no items and
    nan.
    """
    raters = tuple(sorted(ratings))
    shared = _shared([ratings[rater] for rater in raters]) if len(raters) > 1 else []
    rows = [Counter(ratings[rater][item] for rater in raters) for item in shared]
    totals = sum(rows, Counter[Any]())
    categories = sorted(totals, key=lambda category: (str(type(category)), category))
    return Kappa(
        value=fleiss_kappa([[row[category] for category in categories] for row in rows]),
        items=len(rows),
        raters=raters,
        agreed=sum(len(row) == 1 for row in rows),
        labels=tuple((category, totals[category]) for category in categories),
    )


def _shared(tables: Iterable[RatedItems]) -> list[str]:
    first, *others = tables
    return sorted(item for item in first if all(item in other for other in others))


def pairwise(ratings: Mapping[str, RatedItems]) -> Pairwise:
    """Fleiss' kappa of every pair of raters on the items that both rated, as the paper reports agreement."""
    pairs = tuple(all_raters({a: ratings[a], b: ratings[b]}) for a, b in combinations(sorted(ratings), 2))
    return _pairwise(pairs)


def _pairwise(pairs: tuple[Kappa, ...]) -> Pairwise:
    values = [pair.value for pair in pairs if not isnan(pair.value)]
    mean = fsum(values) / len(values) if values else nan
    deviation = sqrt(fsum((value - mean) ** 2 for value in values) / len(values)) if values else nan
    return Pairwise(pairs, mean, deviation, len(pairs) - len(values))


def alpha_of(ratings: Mapping[str, RatedItems], level: Level) -> float:
    """Krippendorff's alpha of these raters over every item that at least two of them rated."""
    items = sorted({item for rated in ratings.values() for item in rated})
    table = [[ratings[rater].get(item) for item in items] for rater in sorted(ratings)]
    return krippendorff_alpha(table, level) if table else nan


def ratings_of(
    judgements: Iterable[Judgement], what: Literal["reasonable", "think", "speak"]
) -> dict[str, dict[str, int]]:
    """One part of judgements by rater and item, in the form that this module takes; unjudged parts are left
    out.

    An item is one intention of one stage: ``game/request/stage/intention``. Reasonable is 1 or 0. A rater's
    later judgement of an item replaces the earlier one.
    """
    by_rater: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        value = getattr(judgement, what)
        if value is not None:
            item = f"{judgement.game_id}/{judgement.request_id}/{judgement.stage}/{judgement.intention}"
            by_rater.setdefault(judgement.rater, {})[item] = int(value)
    return by_rater


# --- a judge against people ----------------------------------------------------------------------


class Bar(NamedTuple):
    """The agreement that a judge must reach before its scores may be shown beside people's."""

    items: int
    """The least number of items rated by both the judge and a person."""
    kappa: float
    """The least mean kappa of the judge with each person."""
    shortfall: float
    """The most by which that mean may lie below the pairwise mean of the people, if they share items."""


BAR: Final = Bar(items=50, kappa=0.4, shortfall=0.1)
"""Our choice. Moderate agreement begins at 0.4 by Landis and Koch (Biometrics 33, 1977), and the paper's
annotators reached about as much among themselves (0.448 for thinking, 0.420 for speaking). With fewer than 50
items the standard error of such a kappa is above 0.1, too large to tell."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """The agreement of one judge with people, and of people with each other."""

    with_people: Pairwise
    """The judge with each person."""
    among_people: Pairwise
    items: int
    """The number of items that the judge and at least one person rated."""
    with_majority: Kappa
    """The judge compared with the most frequent answer of people, on items without a tie."""
    lacking: tuple[str, ...]
    """The reasons why the judge's scores may not be shown beside people's; empty if they may."""

    @property
    def shown(self) -> bool:
        """Whether the judge's scores may be shown beside people's."""
        return not self.lacking


def judge_agreement(
    judge: RatedItems, people: Mapping[str, RatedItems], *, name: str = "judge", bar: Bar = BAR
) -> JudgeAgreement:
    """Measures a judge against people on the same items, by the given categories (``grouped`` scores, or
    0/1).

    Raises ValueError if a person has the judge's name.
    """
    if name in people:
        raise ValueError(f"a judge is not measured against itself: {name!r} is among the people")
    with_people = _pairwise(
        tuple(all_raters({name: judge, person: people[person]}) for person in sorted(people))
    )
    among = pairwise(people)
    common = {item for rated in people.values() for item in rated if item in judge}
    majority = all_raters({name: judge, "majority of people": _majority(people)})
    return JudgeAgreement(
        with_people, among, len(common), majority, tuple(_lacking(with_people, among, len(common), bar))
    )


def _majority(people: Mapping[str, RatedItems]) -> dict[str, Hashable]:
    answers: dict[str, Counter[Hashable]] = {}
    for rated in people.values():
        for item, value in rated.items():
            answers.setdefault(item, Counter())[value] += 1
    most_frequent: dict[str, Hashable] = {}
    for item, votes in answers.items():
        top = votes.most_common(2)
        if len(top) == 1 or top[0][1] > top[1][1]:
            most_frequent[item] = top[0][0]
    return most_frequent


def _lacking(judge: Pairwise, people: Pairwise, items: int, bar: Bar) -> Iterable[str]:
    if items < bar.items:
        yield f"{items} items rated by the judge and by people, {bar.items} are needed"
    if isnan(judge.mean):
        yield "the judge's kappa with people is undefined"
        return
    if judge.mean < bar.kappa:
        yield f"mean kappa with people {judge.mean:.3f}, {bar.kappa} is needed"
    if judge.mean < people.mean - bar.shortfall:  # never where people share nothing: their mean is nan
        yield (
            f"mean kappa with people {judge.mean:.3f}, people among themselves {people.mean:.3f}: "
            f"more than {bar.shortfall} below"
        )
