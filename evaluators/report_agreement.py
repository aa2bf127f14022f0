"""How far raters agree, as a table: kappa and alpha under every grouping of scores."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import isnan, nan
from typing import Final, cast

from evaluators.agreement import GROUPINGS, Level, all_raters, alpha_of, grouped, pairwise
from evaluators.figures import Figure, nothing
from evaluators.report_tables import Column, Row, Table
from evaluators.resampling import bootstrap

__all__ = ["agreement"]

Ratings = Mapping[str, Mapping[str, int]]

_PUBLISHED: Final = {"think": 0.448, "speak": 0.420}
"""Pairwise kappa of the paper's annotators, scores grouped 1-4 | 5."""


def agreement(shared: Mapping[str, Ratings]) -> Table:
    """Agreement in each part, over what two raters or more judged."""
    rows = [row for what, ratings in shared.items() if len(ratings) > 1 for row in _rows(what, ratings)]
    return Table(
        "agreement",
        "What we add",
        "Agreement of raters",
        "Over items (an intention of a stage) that several raters judged. All raters: Fleiss' kappa on the "
        "items that every rater judged. Pairwise: mean over pairs of raters, each on the items both judged; "
        "its interval draws games. Alpha: Krippendorff's, nominal or ordinal, on every shared item.",
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


def _rows(what: str, ratings: Ratings) -> Iterable[Row]:
    if what == "reasonable":
        yield _row(what, "yes | no", ratings, ratings)
        return
    for grouping in GROUPINGS:
        yield _row(what, grouping.name, grouped(ratings, grouping), None)
    yield _row(what, "1 to 5", ratings, ratings)


def _row(what: str, scores: str, ratings: Ratings, ordinal: Ratings | None) -> Row:
    whole, pairs = all_raters(ratings), pairwise(ratings)
    shared = {item for rated in ratings.values() for item in rated}
    games = len({_game(item) for item in shared})
    items = len({item.rsplit("/", 1)[0] for item in shared})
    undefined = "undefined: no shared items, or one category only"
    no_interval = "no interval is made"
    figures = {
        "kappa, all raters": _number(whole.value, undefined, no_interval, whole.items, games, items),
        "kappa, pairwise mean": _pairwise_mean(ratings, pairs.mean, undefined, items),
        "pairwise deviation": _number(
            pairs.deviation, undefined, "a deviation over pairs of raters", len(pairs.pairs), games, items
        ),
    }
    for level, rated in (("nominal", ratings), ("ordinal", ordinal)):
        if rated is not None:
            alpha = alpha_of(rated, cast(Level, level))
            figures[f"alpha, {level}"] = _number(alpha, undefined, no_interval, len(shared), games, items)
    if scores == "1-4|5":
        figures["paper's annotators"] = Figure(_PUBLISHED[what], method="published", note="published")
    return Row((what, scores), figures)


def _number(value: float, undefined: str, note: str, n: int, games: int, items: int) -> Figure:
    if isnan(value):
        return nothing(undefined)
    return Figure(value, den=n, games=games, items=items, note=note)


def _game(item: str) -> str:
    """The game of an item ``game/request/stage/intention``; a game's id may hold slashes."""
    return item.rsplit("/", 3)[0]


def _pairwise_mean(ratings: Ratings, mean: float, undefined: str, items: int) -> Figure:
    """The mean of the pairs' kappas with its interval over games.

    A pair's kappa is a function of how often each two categories met, so these counts are resampled.
    """
    if isnan(mean):
        return nothing(undefined)
    categories = sorted({value for rated in ratings.values() for value in rated.values()})
    pairs = list(combinations(sorted(ratings), 2))
    size = len(categories)
    place = {value: at for at, value in enumerate(categories)}
    clusters: dict[str, Counter[int]] = {}
    met = 0
    for at, (a, b) in enumerate(pairs):
        for item in ratings[a].keys() & ratings[b].keys():
            met += 1
            cell = at * size * size + place[ratings[a][item]] * size + place[ratings[b][item]]
            clusters.setdefault(_game(item), Counter())[cell] += 1
    width = len(pairs) * size * size

    def statistic(sums: Sequence[float]) -> float:
        kappas = [_kappa(sums[at * size * size : (at + 1) * size * size], size) for at in range(len(pairs))]
        defined = [kappa for kappa in kappas if not isnan(kappa)]
        return sum(defined) / len(defined) if defined else nan

    counts = {game: [held[cell] for cell in range(width)] for game, held in clusters.items()}
    estimate = bootstrap(counts, statistic, resamples=1000)
    interval = estimate.interval
    return Figure(
        mean,
        None if interval is None else interval.low,
        None if interval is None else interval.high,
        den=met,
        games=len(clusters),
        items=items,
        method=estimate.method,
        note="" if interval is not None else "one game, or games that do not differ: no interval",
    )


def _kappa(met: Sequence[float], size: int) -> float:
    """Fleiss' kappa of two raters from how often each two categories met; nan where undefined."""
    n = sum(met)
    if not n:
        return nan
    agreed = sum(met[one * size + one] for one in range(size)) / n
    by_chance = 0.0
    for one in range(size):
        row = sum(met[one * size : (one + 1) * size])
        column = sum(met[one::size])
        by_chance += ((row + column) / (2 * n)) ** 2
    return nan if by_chance >= 1 - 1e-12 else (agreed - by_chance) / (1 - by_chance)
