"""Raters beside each other, pair by pair, on what both of them answered or judged.

    pairing = Pairing("guessing")
    for game in games:
        mine, yours = (answer_counts(game, "guessing", one, variant) for one in guesses)
        pairing.add(game.id, mine, yours)
    pairing.compared(MEASURES["guessing"][0]).difference

A unit is what a rater says one thing about: an item of guessing or summarisation, or one selected
intention of a stage. Units that only one of the two has tell nothing of the other and are counted apart.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Final, Literal, NamedTuple

from evaluators.answers import Guess, Unmapped
from evaluators.items import Dimension, Variant, items
from evaluators.judgements import Judgement, good
from evaluators.resampling import RESAMPLES, Comparison, Counts, Estimate, Statistic, bootstrap, compared
from evaluators.scoring import pooled_f1
from evaluators.selection import judged_turns
from evaluators.totals import estimate_as_json
from evaluators.turns import Game

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
    "item_of",
    "joined",
    "judged_counts",
]

Part = Literal["guessing", "summarisation", "reasonable", "think", "speak"]
"""What is compared: answers by their F1, judgements by what they say."""

PARTS_OF: Final[Mapping[Dimension, tuple[Part, ...]]] = {
    "guessing": ("guessing",),
    "summarisation": ("summarisation",),
    "selection": ("reasonable",),
    "following": ("think", "speak"),
}

Units = Mapping[str, Counts]
"""One rater's counts by unit; a unit's name is that of its item, with ``/intention`` where it is judged."""

TEST: Final = "permutation: the raters' names exchanged within whole games"
"""How the p values are made; ``Comparison.exact`` says whether every exchange was tried."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that two raters are compared by."""

    name: str
    unit: Literal["share", "number"]
    statistic: Statistic


def _precision(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else nan


def _recall(sums: Sequence[float]) -> float:
    return sums[0] / sums[2] if sums[2] else nan


def _share(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else nan


def _mean(sums: Sequence[float]) -> float:
    return sums[2] / sums[1] if sums[1] else nan


_ANSWERED: Final = (
    Measure("f1", "share", pooled_f1),
    Measure("precision", "share", _precision),
    Measure("recall", "share", _recall),
)
_FOLLOWED: Final = (Measure("good", "share", _share), Measure("mean", "number", _mean))

MEASURES: Final[Mapping[Part, tuple[Measure, ...]]] = {
    "guessing": _ANSWERED,
    "summarisation": _ANSWERED,
    "reasonable": (Measure("accuracy", "share", _share),),
    "think": _FOLLOWED,
    "speak": _FOLLOWED,
}
"""By part; the first is the one that stands for it. Answers are counted as (matched, predicted, gold),
judgements as (reasonable, 1), following scores as (good, 1, score)."""


def answer_counts(
    game: Game,
    dimension: Dimension,
    guesses: Mapping[str, Guess],
    variant: Variant,
    unmapped: Unmapped = "count",
) -> dict[str, Counts]:
    """A rater's answers about one game, where the item counts; other items are left out."""
    found: dict[str, Counts] = {}
    for item in items(game, dimension, variant, with_gold=True):
        guess = guesses.get(item.id)
        if guess is not None:
            assert item.gold is not None
            named = guess.named(unmapped)
            found[item.id] = (len(item.gold & named), len(named), len(item.gold))
    return found


def judged_counts(game: Game, judgements: Iterable[Judgement], part: Part) -> dict[str, dict[str, Counts]]:
    """By rater, what was said of one game in one part, counted as the scores of the part count it."""
    found: dict[str, dict[str, Counts]] = {}
    for one, turn, stage in judged_turns(game, judgements, Counter()):
        if part == "reasonable":
            # A final selection that modification left as it was is counted once, as the first.
            if one.reasonable is None or (stage.name == "final" and turn.first and not turn.changed):
                continue
            counts: Counts = (int(one.reasonable), 1)
        else:
            score: int | None = getattr(one, part)
            if score is None:
                continue
            counts = (int(good(score)), 1, score)
        unit = f"{game.id}/{one.request_id}/{one.stage}/{one.intention}"
        found.setdefault(one.rater, {})[unit] = counts
    return found


class Joined(NamedTuple):
    """Two raters' counts in one game, on the units that both have."""

    counts: tuple[float, ...]
    """The first's and then the second's, summed."""
    units: int


def joined(first: Units, second: Units) -> Joined | None:
    """None where they have no unit in common."""
    common = first.keys() & second.keys()
    if not common:
        return None
    columns = zip(*((*first[unit], *second[unit]) for unit in sorted(common)), strict=True)
    return Joined(tuple(map(sum, columns)), len(common))


def item_of(unit: str, part: Part) -> str:
    """The item that a unit belongs to: its own name where it is answered, else without the intention."""
    return unit if part in ("guessing", "summarisation") else unit.rsplit("/", 1)[0]


class Pairing:
    """Two raters' counts by game, for one part. Its size grows with the games by some numbers each."""

    def __init__(self, part: Part) -> None:
        self.part: Part = part
        self.games: dict[str, tuple[float, ...]] = {}
        self.units = 0
        """What both have."""
        self.items = 0
        """Items that these units belong to."""
        self.first_only = 0
        """Units that the first alone has."""
        self.second_only = 0

    def add(self, game_id: str, first: Units, second: Units) -> None:
        """Counts one game; a game is added once."""
        found = joined(first, second)
        common = first.keys() & second.keys()
        self.first_only += len(first) - len(common)
        self.second_only += len(second) - len(common)
        if found is not None:
            self.games[game_id] = found.counts
            self.units += found.units
            self.items += len({item_of(unit, self.part) for unit in common})

    def compared(self, measure: Measure, *, seed: int | str = 0, resamples: int = RESAMPLES) -> Comparison:
        """The two by one measure. nan where nothing is in common."""
        return compared(
            self.games,
            measure.statistic,
            items=self.units,
            left_out=self.first_only + self.second_only,
            seed=seed,
            resamples=resamples,
        )

    def as_json(self, *, seed: int | str = 0) -> dict[str, Any]:
        """Every measure of the part: both raters with their intervals, their difference, its p value."""
        return {
            "items": self.items,
            "units": self.units,
            "games": len(self.games),
            "measures": {one.name: self._told(one, seed) for one in MEASURES[self.part]},
        }

    def _told(self, measure: Measure, seed: int | str) -> dict[str, Any]:
        found = self.compared(measure, seed=seed)
        sides = each(self.games, measure.statistic, seed=seed)
        return {
            "first": estimate_as_json(sides[0]),
            "second": estimate_as_json(sides[1]),
            "difference": estimate_as_json(found.difference),
            "p_value": None if isnan(found.p_value) else found.p_value,
            "exact": found.exact,
        }


def each(
    games: Mapping[str, Counts],
    statistic: Statistic,
    *,
    seed: int | str = 0,
    resamples: int = RESAMPLES,
) -> tuple[Estimate, Estimate]:
    """The first's figure and the second's, with their own intervals, on the games that both are in."""
    width = len(next(iter(games.values()), ())) // 2
    cuts = (slice(None, width), slice(width, 2 * width))

    def of(cut: slice) -> Callable[[Sequence[float]], float]:
        return lambda sums: statistic(sums[cut])

    first, second = (bootstrap(games, of(cut), seed=seed, resamples=resamples) for cut in cuts)
    return first, second


def holm(p_values: Collection[float]) -> list[float]:
    """Holm's adjusted p values in the order given: the chance of any false difference among them all.

    nan stays nan and counts for no comparison. Source: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    given = list(p_values)
    ranked = sorted((p, place) for place, p in enumerate(given) if not isnan(p))
    adjusted = [nan] * len(given)
    highest = 0.0
    for rank, (p, place) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - rank) * p))
        adjusted[place] = highest
    return adjusted
