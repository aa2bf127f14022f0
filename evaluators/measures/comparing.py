"""Compares raters pair by pair, on the units that both of them answered or judged.

    pairing = Pairing("guessing")
    for game in games:
        mine, yours = (answer_counts(game, "guessing", one, variant) for one in guesses)
        pairing.add(game.id, mine, yours)
    pairing.compared(MEASURES["guessing"][0]).difference

A unit is an item of guessing or summarisation, or one selected intention of a stage. Units of only one of the
two raters are left out of the comparison and counted.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Final, Literal, NamedTuple

from evaluators.ground.answers import Guess, Unmapped
from evaluators.ground.items import ANSWERED, Dimension, Variant, items
from evaluators.ground.judgements import Judgement, good
from evaluators.ground.turns import Game
from evaluators.measures.judged import judged_turns
from evaluators.measures.scoring import estimate_as_json
from evaluators.statistics.intervals import (
    SCORE,
    SHARE,
    SIGNED,
    Counts,
    Estimate,
    Range,
    Statistic,
    estimate,
    pooled_f1,
    pooled_recall,
    ratio,
)
from evaluators.statistics.resampling import RESAMPLES, Comparison, compared

__all__ = [
    "MEASURES",
    "PARTS_OF",
    "TEST",
    "Measure",
    "Pairing",
    "Part",
    "Units",
    "answer_counts",
    "each",
    "holm",
    "joined",
    "judged_counts",
]

Part = Literal["guessing", "summarisation", "reasonable", "think", "speak"]
"""The part that is compared: answers by their F1, judgements by their values."""

PARTS_OF: Final[Mapping[Dimension, tuple[Part, ...]]] = {
    "guessing": ("guessing",),
    "summarisation": ("summarisation",),
    "selection": ("reasonable",),
    "following": ("think", "speak"),
}

Units = Mapping[str, Counts]
"""One rater's counts by unit. A unit is named by its item, with ``/intention`` appended if it is judged."""

TEST: Final = "permutation: the raters' names exchanged within whole games"
"""The method behind the p values; ``Comparison.exact`` says whether every exchange was tried."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure by which two raters are compared."""

    name: str
    unit: Literal["share", "number"]
    statistic: Statistic

    @property
    def within(self) -> Range:
        """The range of each rater's figure."""
        return SHARE if self.unit == "share" else SCORE

    @property
    def difference_within(self) -> Range | None:
        """The range of the difference; None: that of scores is not bounded by what matters."""
        return SIGNED if self.unit == "share" else None


def _mean(sums: Sequence[float]) -> float:
    return sums[2] / sums[1] if sums[1] else nan


_ANSWERED: Final = (
    Measure("f1", "share", pooled_f1),
    Measure("precision", "share", ratio),
    Measure("recall", "share", pooled_recall),
)
_FOLLOWED: Final = (Measure("good", "share", ratio), Measure("mean", "number", _mean))

MEASURES: Final[Mapping[Part, tuple[Measure, ...]]] = {
    "guessing": _ANSWERED,
    "summarisation": _ANSWERED,
    "reasonable": (Measure("accuracy", "share", ratio),),
    "think": _FOLLOWED,
    "speak": _FOLLOWED,
}
"""The measures of each part, the main one first. Answers are counted as (matched, predicted, gold),
judgements as (reasonable, 1), following scores as (good, 1, score)."""


def answer_counts(
    game: Game,
    dimension: Dimension,
    guesses: Mapping[str, Guess],
    variant: Variant,
    unmapped: Unmapped = "count",
) -> dict[str, Counts]:
    """The counts of a rater's answers about one game by item; items that do not count are left out."""
    by_item: dict[str, Counts] = {}
    for item in items(game, dimension, variant, with_gold=True):
        guess = guesses.get(item.id)
        if guess is not None:
            assert item.gold is not None
            named = guess.named(unmapped)
            by_item[item.id] = (len(item.gold & named), len(named), len(item.gold))
    return by_item


def judged_counts(game: Game, judgements: Iterable[Judgement], part: Part) -> dict[str, dict[str, Counts]]:
    """The counts of each rater's judgements of one game in one part, by unit."""
    by_rater: dict[str, dict[str, Counts]] = {}
    for judgement, turn, stage in judged_turns(game, judgements, Counter()):
        if part == "reasonable":
            # A final selection that equals the first one is counted once, as the first.
            if judgement.reasonable is None or (stage.name == "final" and turn.first and not turn.changed):
                continue
            counts: Counts = (int(judgement.reasonable), 1)
        else:
            score: int | None = getattr(judgement, part)
            if score is None:
                continue
            counts = (int(good(score)), 1, score)
        unit = f"{game.id}/{judgement.request_id}/{judgement.stage}/{judgement.intention}"
        by_rater.setdefault(judgement.rater, {})[unit] = counts
    return by_rater


class Joined(NamedTuple):
    """Two raters' counts in one game, on the units that both have."""

    counts: tuple[float, ...]
    """The sums of the first rater, then those of the second."""
    units: int
    items: int
    """The number of items that the units belong to."""


def joined(first: Units, second: Units, part: Part) -> Joined | None:
    """The counts on the units in common; None if there are none."""
    common = sorted(first.keys() & second.keys())
    if not common:
        return None
    columns = zip(*((*first[unit], *second[unit]) for unit in common), strict=True)
    answered = part in ANSWERED
    items = {unit if answered else unit.rsplit("/", 1)[0] for unit in common}
    return Joined(tuple(map(sum, columns)), len(common), len(items))


class Pairing:
    """Two raters' counts by game, for one part. Memory grows by a few numbers per game."""

    def __init__(self, part: Part) -> None:
        self.part: Part = part
        self.games: dict[str, tuple[float, ...]] = {}
        self.units = 0
        """The number of units that both have."""
        self.items = 0
        """The number of items that these units belong to."""
        self.left_out = 0
        """The number of units that only one of them has."""

    def add(self, game_id: str, first: Units, second: Units) -> None:
        """Counts one game; each game is added once."""
        self.left_out += len(first.keys() ^ second.keys())
        pair = joined(first, second, self.part)
        if pair is not None:
            self.games[game_id] = pair.counts
            self.units += pair.units
            self.items += pair.items

    def compared(self, measure: Measure, *, seed: int | str = 0, resamples: int = RESAMPLES) -> Comparison:
        """Compares the two by one measure; nan if they have nothing in common."""
        return compared(
            self.games,
            measure.statistic,
            items=self.units,
            left_out=self.left_out,
            seed=seed,
            resamples=resamples,
            within=measure.difference_within,
        )

    def as_json(self, *, seed: int | str = 0) -> dict[str, Any]:
        """Every measure of the part: both raters with their intervals, their difference, and its p value."""
        return {
            "items": self.items,
            "units": self.units,
            "games": len(self.games),
            "measures": {measure.name: self._as_json(measure, seed) for measure in MEASURES[self.part]},
        }

    def _as_json(self, measure: Measure, seed: int | str) -> dict[str, Any]:
        comparison = self.compared(measure, seed=seed)
        sides = each(self.games, measure)
        return {
            "first": estimate_as_json(sides[0]),
            "second": estimate_as_json(sides[1]),
            "difference": estimate_as_json(comparison.difference),
            "p_value": None if isnan(comparison.p_value) else comparison.p_value,
            "exact": comparison.exact,
        }


def each(games: Mapping[str, Counts], measure: Measure) -> tuple[Estimate, Estimate]:
    """The figure of each rater with its own interval, on the games in common."""
    width = len(next(iter(games.values()), ())) // 2

    def of(cut: slice) -> Estimate:
        return estimate(
            {game: counts[cut] for game, counts in games.items()}, measure.statistic, within=measure.within
        )

    return of(slice(None, width)), of(slice(width, None))


def holm(p_values: Collection[float], comparisons: int = 0) -> list[float]:
    """Holm's adjusted p values in the order given: they bound the chance of even one false difference.

    nan stays nan and is not counted as a comparison. ``comparisons``: how many there are, if more than have
    a p value; the others count as if they found nothing.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    values = list(p_values)
    ranked = sorted((p, index) for index, p in enumerate(values) if not isnan(p))
    adjusted = [nan] * len(values)
    highest, of = 0.0, max(comparisons, len(ranked))
    for rank, (p, index) in enumerate(ranked):
        highest = max(highest, min(1.0, (of - rank) * p))
        adjusted[index] = highest
    return adjusted
