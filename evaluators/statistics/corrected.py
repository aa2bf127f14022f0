"""A model judge's share, corrected by the items that people judged too.

A judge reads many items and is sometimes wrong; people read a few of them. The corrected share is that of
people, estimated from both: on the items of both it is known how often the judge is wrong, and that is taken
off its share over all items. This is prediction-powered inference with power tuning: the less the judge says
about people, the less its share counts, down to people's share alone. The interval covers both samples: each
game is left out in turn, with all that the judge and people judged in it.

The items of both must be a random sample of the judge's, within strata (role and agent): people's choice of
what to judge would be taken for the judge's fault. Items of a stratum of which people judged few weigh more.

Beside it stands Rogan and Gladen's estimate from sensitivity and specificity alone. It holds where the judge
is equally sensitive in both samples, even if one of them has more reasonable items than the other; with a
judge that is hardly better than chance it is of no use, and so it has no interval.

Sources: Angelopoulos et al., Science 382 (2023) and arXiv:2311.01453 (PPI++); Rogan and Gladen, American
Journal of Epidemiology 107 (1978); Korn and Graubard, Survey Methodology 24 (1998), for the limits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Final, NamedTuple

from evaluators.statistics.intervals import (
    SHARE,
    Counts,
    Interval,
    IntervalMethod,
    Statistic,
    jackknife,
    limits,
)

__all__ = ["LEAST_GAMES", "CorrectedShare", "Correction", "Overlap", "corrected"]

LEAST_GAMES: Final = 8
"""The fewest games with items of both. With fewer, intervals do not hold (docs/reports.md)."""


class Overlap(NamedTuple):
    """What a judge and people said about the items of one stratum of one game."""

    items: float
    """Items that the judge judged."""
    good: float
    """Of these, items that it called good (reasonable, or followed with 4 or 5)."""
    both: float
    """Items that people judged too."""
    both_good: float
    """Of these, items that the judge called good."""
    people: float
    """Of these, items that people called good; the mean of several people, so it need not be whole."""
    agreed: float
    """Of these, items that people called good, where the judge did."""

    def plus(self, other: "Overlap") -> "Overlap":
        return Overlap(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class CorrectedShare(NamedTuple):
    """A share with its interval."""

    value: float
    """nan if it is undefined."""
    interval: Interval | None
    method: IntervalMethod
    games: int
    """The games of both; of ``raw``, the games that the judge judged."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A judge's share, raw and corrected."""

    raw: CorrectedShare
    value: CorrectedShare
    """Prediction-powered."""
    rogan_gladen: float
    """nan if the judge is no better than chance."""
    sensitivity: CorrectedShare
    """How many of what people call good the judge calls good."""
    specificity: CorrectedShare
    """How many of what people do not call good the judge does not either."""
    tuning: float
    """How much the judge's share counts, from 0 (not at all) to 1."""
    items: int
    """Items of both."""
    games: int
    """Games with items of both."""
    strata: int
    """The strata that were weighted; those with too few items of both are pooled."""
    lacking: str
    """Why nothing is corrected; empty if it is. Without a correction every share but ``raw`` is nan."""


def corrected(games: Mapping[str, Mapping[str, Overlap]], confidence: float = 0.95) -> Correction:
    """The correction of a judge's share; ``games`` has what was judged in each game, by stratum.

    Raises ValueError for a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    pooled = {game: _sum(of_game.values()) for game, of_game in games.items()}
    labelled = sum(overlap.both > 0 for overlap in pooled.values())
    raw_counts: list[Counts] = [(overlap.good, overlap.items) for overlap in pooled.values() if overlap.items]

    def share(counts: Sequence[Counts], statistic: Statistic, trials: int) -> CorrectedShare:
        spread = jackknife(counts, statistic)
        # Where nothing varies, only the games of both say something about people.
        interval, method = limits(spread._replace(games=trials), SHARE, confidence)
        return CorrectedShare(spread.value, interval, method, trials)

    raw = share(raw_counts, lambda sums: sums[0] / sums[1] if sums[1] else nan, len(raw_counts))
    whole = _sum(pooled.values())
    if labelled < LEAST_GAMES:
        why = f"people judged the judge's items in {labelled} games, {LEAST_GAMES} are needed"
        nothing = CorrectedShare(nan, None, "none", labelled)
        return Correction(raw, nothing, nan, nothing, nothing, nan, round(whole.both), labelled, 0, why)
    strata = _strata(games)
    width = len(set(strata.values()))
    counts = [_vector(of_game, strata, width) for of_game in games.values()]
    sums = [sum(column) for column in zip(*counts, strict=True)]
    return Correction(
        raw,
        share(counts, _over(_prediction_powered), labelled),
        _rogan_gladen(_overlaps(sums)),
        share(counts, _over(_sensitivity), labelled),
        share(counts, _over(_specificity), labelled),
        _tuning(_overlaps(sums)),
        round(whole.both),
        labelled,
        width,
        "",
    )


def _sum(overlaps: Iterable[Overlap]) -> Overlap:
    total = Overlap(0, 0, 0, 0, 0, 0)
    for overlap in overlaps:
        total = total.plus(overlap)
    return total


# --- strata -----------------------------------------------------------------------------------------


def _strata(games: Mapping[str, Mapping[str, Overlap]]) -> dict[str, int]:
    """The number of each stratum, from 0. A stratum whose items of both lie in fewer than two games cannot be
    weighted when one of them is left out; all such strata are one, together with the largest other one if
    they are still too few.
    """
    behind: dict[str, int] = {}
    for of_game in games.values():
        for name, overlap in of_game.items():
            behind[name] = behind.get(name, 0) + (overlap.both > 0)
    enough = sorted((name for name in behind if behind[name] >= 2), key=lambda name: (-behind[name], name))
    numbers = {name: place for place, name in enumerate(enough)}
    few = [name for name in behind if behind[name] < 2]
    of_few = {
        game for game, of_game in games.items() if any(name in of_game and of_game[name].both for name in few)
    }
    rest = len(enough) if len(of_few) >= 2 or not enough else 0
    return {**numbers, **dict.fromkeys(few, rest)}


def _vector(of_game: Mapping[str, Overlap], strata: Mapping[str, int], width: int) -> Counts:
    """The counts of one game, stratum after stratum."""
    found = [Overlap(0, 0, 0, 0, 0, 0)] * width
    for name, overlap in of_game.items():
        found[strata[name]] = found[strata[name]].plus(overlap)
    return [count for overlap in found for count in overlap]


_FIELDS: Final = len(Overlap._fields)


def _overlaps(sums: Sequence[float]) -> list[Overlap]:
    """The sums of each stratum in which the judge judged anything."""
    found = [Overlap(*sums[at : at + _FIELDS]) for at in range(0, len(sums), _FIELDS)]
    return [overlap for overlap in found if overlap.items > 0.5]


# --- estimators -------------------------------------------------------------------------------------


def _over(estimator: Callable[[Sequence[Overlap]], float]) -> Statistic:
    """The estimator over sums; nan if a stratum has no item of both."""

    def statistic(sums: Sequence[float]) -> float:
        strata = _overlaps(sums)
        return nan if not strata or any(overlap.both < 0.5 for overlap in strata) else estimator(strata)

    return statistic


def _mean(strata: Sequence[Overlap], count: Callable[[Overlap], float]) -> float:
    """The mean over all items of what is counted in the items of both: each stratum weighs as many items as
    the judge judged in it.
    """
    items = sum(overlap.items for overlap in strata)
    return sum(overlap.items * count(overlap) / overlap.both for overlap in strata) / items


def _tuning(strata: Sequence[Overlap]) -> float:
    """How much the judge's share counts: the slope of people's verdicts on the judge's within strata, which
    makes the variance smallest if items are independent. Any other value would be right too, only less exact.
    """
    together = _mean(strata, lambda of: of.agreed - of.people * of.both_good / of.both)
    alone = _mean(strata, lambda of: of.both_good - of.both_good * of.both_good / of.both)
    return min(max(together / alone, 0.0), 1.0) if alone > 1e-12 else 0.0


def _prediction_powered(strata: Sequence[Overlap]) -> float:
    items = sum(overlap.items for overlap in strata)
    judged = sum(overlap.good for overlap in strata) / items
    people = _mean(strata, lambda of: of.people)
    value = people + _tuning(strata) * (judged - _mean(strata, lambda of: of.both_good))
    return min(max(value, 0.0), 1.0)


def _sensitivity(strata: Sequence[Overlap]) -> float:
    people = _mean(strata, lambda of: of.people)
    return _mean(strata, lambda of: of.agreed) / people if people > 1e-12 else nan


def _specificity(strata: Sequence[Overlap]) -> float:
    not_good = _mean(strata, lambda of: of.both - of.people)
    neither = _mean(strata, lambda of: of.both - of.people - of.both_good + of.agreed)
    return neither / not_good if not_good > 1e-12 else nan


def _rogan_gladen(strata: Sequence[Overlap]) -> float:
    better = _sensitivity(strata) + _specificity(strata) - 1
    # A judge that is no better than chance says nothing about people.
    if isnan(better) or better <= 1e-9:
        return nan
    judged = sum(overlap.good for overlap in strata) / sum(overlap.items for overlap in strata)
    return min(max((judged + _specificity(strata) - 1) / better, 0.0), 1.0)
