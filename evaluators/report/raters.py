"""The table of a report that compares raters pair by pair, on the same items."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import isnan
from typing import Final, NamedTuple

from evaluators.measures.comparing import MEASURES, Part, Units, each, holm, joined
from evaluators.report.tables import OURS, Column, ReportTable, TableRow
from evaluators.statistics.figures import (
    Clusters,
    Figure,
    FigureKey,
    FigureTally,
    estimated,
    nothing,
)
from evaluators.statistics.intervals import Estimate
from evaluators.statistics.resampling import Comparison, compared

__all__ = ["Rated", "count_pairs", "raters_compared"]

_TABLE: Final = "raters"

_PART: Final[Mapping[str, tuple[str, Part]]] = {
    "summarisation": ("summarisation F1", "summarisation"),
    "summarisation_followed": ("summarisation F1, only what was followed", "summarisation"),
    "guessing": ("guessing F1", "guessing"),
    "guessing_followed": ("guessing F1, only what was followed", "guessing"),
    "reasonable": ("selections judged reasonable", "reasonable"),
    "think": ("thinking scored 4 or 5", "think"),
    "speak": ("speaking scored 4 or 5", "speak"),
}
"""The name in the table and the part of each comparison."""

_EXCHANGES: Final = 1000
"""Half of the usual number, since a report may have a hundred pairs of raters."""

_PAIRS: Final = 100
"""The most pairs that are shown for a measure: those with the most items in common."""


class Rated(NamedTuple):
    """One rater's counts in one game."""

    rater: str
    units: Units
    answered: Collection[str]
    """The units that it answered or judged, whether or not they count."""
    by: tuple[str, ...] = ()
    """The settings by which they count; raters with different settings are not compared."""


def count_pairs(tally: FigureTally, rated: Mapping[str, Sequence[Rated]]) -> None:
    """Counts the current game for every rater and every pair of raters of each part."""
    for part, raters in rated.items():
        answered: dict[str, set[str]] = {}
        for rater_counts in raters:
            answered.setdefault(rater_counts.rater, set()).update(rater_counts.answered)
        for rater, units in answered.items():
            tally.count(FigureKey(_TABLE, part, rater, "", _ANSWERED), (len(units),))
        for first, other in combinations(sorted(raters, key=lambda first: first.rater), 2):
            if first.by != other.by or first.rater == other.rater:
                continue
            key = FigureKey(_TABLE, part, first.rater, other.rater, "")
            pair = joined(first.units, other.units, _PART[part][1])
            if pair is not None:
                tally.count(key._replace(column="both"), pair.counts, items=pair.items)
            tally.count(key._replace(column=_ANSWERED), (len(set(first.answered) & set(other.answered)),))


def raters_compared(tally: FigureTally, lacking: Callable[[str, str], str]) -> ReportTable:
    """Compares every two raters that have units in common. ``lacking(rater, part)`` says why a judge may not
    be shown beside people; empty: it may.
    """
    rows: list[TableRow] = []
    omitted = 0
    for part, (words, kind) in _PART.items():
        keys = [key for key in tally.keys(_TABLE) if key.of == part and key.column == "both"]
        keys.sort(key=lambda key: (-tally.clusters(key).items, key))
        omitted += len(keys[_PAIRS:])
        pairs = sorted((key.group, key.label) for key in keys[:_PAIRS])
        compared = [_compared(tally, FigureKey(_TABLE, part, *pair, "both"), kind) for pair in pairs]
        adjusted = holm([result[0].p_value for result in compared])
        for pair, (comparison, sides, clusters), p in zip(pairs, compared, adjusted, strict=True):
            # A judge's scores are shown beside people's only if it agrees with them.
            why = "; ".join(filter(None, (lacking(rater, part) for rater in pair)))
            only = [_alone(tally, part, rater, pair) for rater in pair]
            figures = _figures(comparison, sides, clusters, p, len(pairs), only, why)
            both = tally.games_of(clusters)
            shown = {
                name: figure if figure.of_games is not None or why else replace(figure, of_games=both)
                for name, figure in figures.items()
            }
            rows.append(TableRow((words, *pair), shown))
    return ReportTable(
        _TABLE,
        OURS,
        "Raters compared, pairwise, on the same items",
        "Each pair on what both answered or judged, and on nothing else; what one of them alone did is "
        "counted beside it. Difference: the first's figure less the second's; its interval is over games. p: "
        "two-sided, of a permutation test that exchanges the two raters within whole games (every way up to "
        f"12 games, else {_EXCHANGES:,} drawn); with n games it cannot fall below 2 / 2^n. Holm: the same, "
        "adjusted for the number of pairs told by the measure."
        + (f" Left out: {omitted:,} pairs with less in common than these." if omitted else ""),
        ("measure", "first", "second"),
        (
            Column("first"),
            Column("second"),
            Column("difference"),
            Column("p", "number"),
            Column("p, Holm", "number"),
            Column("first only", "count"),
            Column("second only", "count"),
        ),
        tuple(rows),
        "" if rows else "no two raters answered or judged the same",
    )


_ANSWERED: Final = "said"
"""The column of the units that a rater, or both of a pair, answered or judged."""


def _alone(tally: FigureTally, part: str, rater: str, pair: tuple[str, str]) -> Figure:
    """The number of units that the rater answered or judged and the other one of the pair did not."""
    own = tally.figure(FigureKey(_TABLE, part, rater, "", _ANSWERED), "sum", "")
    both = tally.figure(FigureKey(_TABLE, part, *pair, _ANSWERED), "sum", "")
    alone = (own.num or 0) - (both.num or 0)
    return replace(own, value=alone, num=alone, method="count")


Sides = tuple[Estimate, Estimate]


def _compared(tally: FigureTally, key: FigureKey, part: Part) -> tuple[Comparison, Sides, Clusters]:
    clusters = tally.clusters(key)
    measure = MEASURES[part][0]
    comparison = compared(
        clusters.counts,
        measure.statistic,
        items=clusters.items,
        left_out=0,
        resamples=_EXCHANGES,
        within=measure.difference_within,
    )
    return comparison, each(clusters.counts, measure), clusters


def _figures(
    comparison: Comparison,
    sides: Sides,
    clusters: Clusters,
    adjusted: float,
    pairs: int,
    only: Sequence[Figure],
    lacking: str,
) -> dict[str, Figure]:
    left_out = dict(zip(("first only", "second only"), only, strict=True))
    if lacking:
        hidden = nothing(f"not shown beside people's: {lacking}")
        return {**dict.fromkeys(("first", "second", "difference", "p", "p, Holm"), hidden), **left_out}
    exact = "all exchanges tried" if comparison.exact else f"{_EXCHANGES:,} exchanges drawn"
    return {
        "first": estimated(sides[0], clusters.games, clusters.items),
        "second": estimated(sides[1], clusters.games, clusters.items),
        "difference": estimated(comparison.difference, clusters.games, clusters.items),
        "p": _p(comparison.p_value, clusters, exact),
        "p, Holm": _p(adjusted, clusters, f"of {pairs} pairs" if pairs > 1 else "of one pair"),
        **left_out,
    }


def _p(value: float, clusters: Clusters, note: str) -> Figure:
    if isnan(value):
        return nothing("undefined: nothing was named")
    return Figure(value, games=clusters.games, items=clusters.items, note=note)
