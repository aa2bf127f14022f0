"""Scores of guesses: sets of intentions by precision, recall and F1; roles by accuracy and calibration.

``micro_f1`` and ``per_item`` are public: they take plain mappings of item id to set of intention ids.

    micro_f1({"a": {"defend_self"}, "b": {"support_proposal"}}, {"a": {"defend_self"}}).recall  # 0.5

Both compare ids as they are; ``answers`` turns free text into ids first. ``Scores`` counts items, ``Totals``
adds intervals over games. ``RoleScores`` counts role guesses and reads a confidence of 0 to 5 as the
probability confidence / 5. InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import floor, isnan, nan
from statistics import fmean
from typing import Any, Final, NamedTuple

from engine.intentions import BY_ID, IntentionId
from engine.terms import SIDES, Role, Side
from evaluators.errors import UnknownItem
from evaluators.ground.answers import Guess, Unmapped
from evaluators.ground.items import Item
from evaluators.statistics.intervals import (
    SHARE,
    Estimate,
    Statistic,
    estimate,
    pooled_f1,
    pooled_recall,
    ratio,
)
from evaluators.statistics.rates import Rate, rates_as_json, tally

__all__ = [
    "F1",
    "STEPS",
    "Bin",
    "Counts",
    "Limits",
    "RoleScores",
    "Scores",
    "Totals",
    "estimate_as_json",
    "limits_of",
    "micro_f1",
    "per_item",
    "score",
]


class Counts(NamedTuple):
    """The counts behind F1. Counts of disjoint items add up, over games too."""

    matched: int
    predicted: int
    gold: int

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.matched + other.matched, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def f1(self) -> "F1":
        return F1(*self)


class F1(float):
    """F1 of pooled counts, as a number in [0, 1], with the counts behind it.

    It compares, adds and prints as the F1 itself; nan if there is neither gold nor guess.
    """

    __slots__ = ("gold", "matched", "predicted")

    matched: int
    """Intentions that are both gold and predicted."""
    predicted: int
    """Predicted intentions, including unmapped texts where they count."""
    gold: int
    """Intentions in the gold."""

    def __new__(cls, matched: int, predicted: int, gold: int) -> "F1":
        f1 = super().__new__(cls, 2 * matched / (predicted + gold) if predicted + gold else nan)
        f1.matched, f1.predicted, f1.gold = matched, predicted, gold
        return f1

    def __getnewargs__(self) -> tuple[int, int, int]:  # type: ignore[override]  # float's gives its value
        return self.counts

    @property
    def f1(self) -> float:
        """The same number as the object itself."""
        return float(self)

    @property
    def precision(self) -> float:
        """matched / predicted; nan if nothing was predicted."""
        return self.matched / self.predicted if self.predicted else nan

    @property
    def recall(self) -> float:
        """matched / gold; nan if there is no gold."""
        return self.matched / self.gold if self.gold else nan

    @property
    def counts(self) -> Counts:
        return Counts(self.matched, self.predicted, self.gold)

    def as_json(self) -> dict[str, Any]:
        """Shares and counts; an undefined share is None."""
        shares = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {
            **{name: None if isnan(share) else share for name, share in shares.items()},
            **self.counts._asdict(),
        }


_NOTHING: Final = Counts(0, 0, 0)

ItemId = str
Named = Collection[IntentionId]
"""Ids; an id that is named several times counts once."""


def micro_f1(gold: Mapping[ItemId, Named], guessed: Mapping[ItemId, Named]) -> F1:
    """Micro-averaged F1 of guessed intentions: counts pooled over the items of ``gold``.

    An item without a guess counts as an empty guess: it lowers recall, never precision. Ids are compared as
    they are; a guessed id that is not gold counts as predicted and wrong.

    The result is a float, nan if there is neither gold nor guess, with ``precision``, ``recall``, ``f1``,
    ``matched``, ``predicted`` and ``gold``.
    Raises UnknownItem (a ValueError) for a guess about an item outside ``gold``.
    Source: InterIntent (EMNLP 2024), section 3.
    """
    total = _NOTHING
    for score in per_item(gold, guessed).values():
        total = total.plus(score.counts)
    return total.f1


def per_item(gold: Mapping[ItemId, Named], guessed: Mapping[ItemId, Named]) -> dict[ItemId, F1]:
    """F1 of every item of ``gold``, in the order of ``gold``.

    Raises UnknownItem (a ValueError) for a guess about an item outside ``gold``.
    """
    _known(guessed, gold)
    return {item: _compare(set(right), set(guessed.get(item, ()))).f1 for item, right in gold.items()}


def _known(guessed: Iterable[ItemId], gold: Collection[ItemId]) -> None:
    unknown = [item for item in guessed if item not in gold]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UnknownItem(
            f"guesses are scored where there is gold; no gold for {', '.join(map(repr, unknown[:3]))}{more}"
        )


def _compare(gold: AbstractSet[str], guessed: AbstractSet[str]) -> Counts:
    return Counts(len(gold & guessed), len(guessed), len(gold))


# --- tables -------------------------------------------------------------------------------------------


class Scores:
    """Exact counts over items, in total and by group. Memory grows by three numbers per game."""

    def __init__(self, unmapped: Unmapped = "count") -> None:
        """``unmapped``: whether text that names no intention counts as predicted or, as in the authors'
        scripts, is discarded."""
        self.unmapped: Unmapped = unmapped
        self.items = 0
        self.silent = 0
        """Items without a guess; they count as empty guesses."""
        self.behind: Counter[tuple[str, str]] = Counter()
        """The number of items by group and label, such as ``("role", "merlin")``. For a category or an
        intention, these are the items in which it is gold or named."""
        self.total = _NOTHING
        self.by_game: dict[str, Counts] = {}
        self.by_round: dict[int, Counts] = {}
        self.by_role: dict[Role, Counts] = {}
        """By the speaker's role."""
        self.by_side: dict[Side, Counts] = {}
        """By the speaker's side."""
        self.by_stage: dict[str, Counts] = {}
        self.by_category: dict[str, Counts] = {}
        """Matched, predicted and gold intentions of the category. Unmapped text has no category."""
        self.by_intention: dict[IntentionId, Counts] = {}
        self.confusion: Counter[tuple[IntentionId, IntentionId]] = Counter()
        """The number of items by (missed, wrongly named). An item may count in several pairs;
        ``by_intention`` has the hits."""
        self.unmapped_texts: Counter[str] = Counter()
        """The number of occurrences of each text that named no intention."""
        self.limits: dict[tuple[str, str], Limits] = {}
        """What guesses of the same length score by chance and at best, by group and label (as text). In total
        (``all``, ``all``), and for the groups that hold whole items: round, role, side and stage."""
        self._item_f1 = 0.0

    def add(self, item: Item, guess: Guess | None) -> F1:
        """Counts one item and the rater's guess (None if there is no guess). Returns the F1 of the item.

        Raises UnknownItem for a guess about another item, ValueError for an item without gold.
        """
        if item.gold is None or item.speaker_role is None:
            raise ValueError(f"an item needs gold and the speaker's role to be scored, {item.id} lacks one")
        if guess is not None and guess.item_id != item.id:
            raise UnknownItem(f"the guess is about {guess.item_id!r}, the item is {item.id!r}")
        named = _named(guess, self.unmapped)
        counts = _compare(item.gold, named)
        self.items += 1
        self.silent += guess is None
        self.total = self.total.plus(counts)
        _count(self.by_game, item.game_id, counts)
        limits = limits_of(item, counts)
        self._limit(("all", "all"), limits)
        for group, key, of_group in _groups(item, item.gold, named):
            _count(getattr(self, f"by_{group}"), key, of_group)
            self.behind[group, str(key)] += 1
            if group in _OF_WHOLE_ITEMS:
                self._limit((group, str(key)), limits)
        for missed in item.gold - named:
            for wrong in named - item.gold:
                if wrong in BY_ID:
                    self.confusion[missed, wrong] += 1
        if guess is not None:
            self.unmapped_texts.update(guess.unmapped)
        f1 = counts.f1
        self._item_f1 += f1
        return f1

    @property
    def micro(self) -> F1:
        """F1 of all items pooled, as in the paper."""
        return self.total.f1

    @property
    def macro(self) -> float | None:
        """The mean of the F1 of each intention that was gold or named; None if there is none."""
        # fmean is exact: a sum of floats would depend on the order of sets, which differs between processes.
        return fmean(counts.f1 for counts in self.by_intention.values()) if self.by_intention else None

    @property
    def mean_item(self) -> float | None:
        """The mean of the F1 of each item; None without items."""
        return self._item_f1 / self.items if self.items else None

    @property
    def chance(self) -> float | None:
        """The expected F1 of a rater who draws the same number of intentions at random from each item's
        options; None without gold and guess.

        Exact: with k of n options named, each gold intention is hit with probability k / n, and F1 is linear
        in the hits.
        """
        total = self.total.predicted + self.total.gold
        return 2 * self.limits["all", "all"].chance / total if total else None

    def _limit(self, place: tuple[str, str], limits: "Limits") -> None:
        self.limits[place] = self.limits.get(place, _NO_LIMITS).plus(limits)

    def as_json(self) -> dict[str, Any]:
        """Every number with its counts, groups sorted by key; without ``by_game``, which only intervals
        needs.
        """
        tables = {
            name: {str(key): counts.f1.as_json() for key, counts in sorted(getattr(self, name).items())}
            for name in (*_GROUP_TABLES, "by_intention")
        }
        return {
            "items": self.items,
            "silent": self.silent,
            "games": len(self.by_game),
            "micro": self.micro.as_json(),
            "macro": self.macro,
            "mean_item": self.mean_item,
            "chance": self.chance,
            **tables,
            "confusion": [
                {"missed": missed, "named": named, "items": n}
                for (missed, named), n in sorted(self.confusion.items(), key=lambda pair: (-pair[1], pair[0]))
            ],
            "unmapped": {
                "counted": self.unmapped == "count",
                "texts": sum(self.unmapped_texts.values()),
                "different": len(self.unmapped_texts),
            },
        }


class Limits(NamedTuple):
    """The hits that guesses of the same length would have; twice the hits by predicted + gold is an F1. The
    limits of disjoint items add up.
    """

    chance: float
    """Expected, of names drawn at random from each item's options."""
    ceiling: int
    """Of the best names: all of the gold, or as much of it as there are names."""

    def plus(self, other: "Limits") -> "Limits":
        return Limits(self.chance + other.chance, self.ceiling + other.ceiling)


_NO_LIMITS: Final = Limits(0.0, 0)
_OF_WHOLE_ITEMS: Final = ("round", "role", "side", "stage")


def limits_of(item: Item, counts: "Counts | F1") -> Limits:
    """The limits of a guess with these counts; without options, chance has no hits."""
    predicted, gold = counts.predicted, counts.gold
    return Limits(predicted * gold / len(item.options) if item.options else 0.0, min(predicted, gold))


def _named(guess: Guess | None, unmapped: Unmapped) -> frozenset[str]:
    return frozenset() if guess is None else guess.named(unmapped)


def _groups(item: Item, gold: frozenset[str], named: frozenset[str]) -> Iterator[tuple[str, Any, Counts]]:
    """Every group that an item counts in: its name, its label and the counts."""
    assert item.speaker_role is not None
    counts = _compare(gold, named)
    yield "round", item.round, counts
    yield "role", item.speaker_role, counts
    yield "side", SIDES[item.speaker_role], counts
    yield "stage", item.stage, counts
    by_category: dict[str, Counts] = {}
    for id_ in gold | named:
        if id_ in BY_ID:
            of_intention = _compare(gold & {id_}, named & {id_})
            yield "intention", id_, of_intention
            _count(by_category, BY_ID[id_].category, of_intention)
    for category, of_category in by_category.items():
        yield "category", category, of_category


def _count(table: dict[Any, Counts], key: Any, counts: Counts) -> None:
    table[key] = table[key].plus(counts) if key in table else counts


def score(items: Iterable[Item], guesses: Iterable[Guess], unmapped: Unmapped = "count") -> Scores:
    """The scores of one rater's guesses about these items; an item without a guess counts as silent.

    There is one guess per item: samples are joined by ``answers.majority`` first. Raises UnknownItem for a
    guess about another item, and for a second guess about the same item.
    """
    by_item: dict[str, Guess] = {}
    for guess in guesses:
        if guess.item_id in by_item:
            raise UnknownItem(f"{guess.item_id!r} was guessed twice; join samples by majority first")
        by_item[guess.item_id] = guess
    scores = Scores(unmapped)
    for item in items:
        scores.add(item, by_item.pop(item.id, None))
    _known(by_item, ())
    return scores


# --- totals with intervals --------------------------------------------------------------------------------


class Totals:
    """Scores of one rater's guesses with intervals over games, in total and by group.

    ``Scores`` holds the exact counts. For the intervals every group also keeps its counts by game, since
    whole games are the trials.
    """

    def __init__(self, unmapped: Unmapped = "count") -> None:
        self.scores = Scores(unmapped)
        self._by_game: dict[tuple[str, str], dict[str, Counts]] = {}
        """The counts by group and label, then by game."""

    def add(self, item: Item, guess: Guess | None) -> None:
        """Counts one item and the rater's guess, as ``Scores.add`` does."""
        self.scores.add(item, guess)
        assert item.gold is not None
        for group, key, counts in _groups(item, item.gold, _named(guess, self.scores.unmapped)):
            if group != "intention":
                _count(self._by_game.setdefault((group, str(key)), {}), item.game_id, counts)

    def as_json(self) -> dict[str, Any]:
        """Precision, recall and F1 with 95 % intervals over games, in total and by group."""
        exact = self.scores.as_json()
        totals: dict[str, Any] = {
            "items": self.scores.items,
            "games": len(self.scores.by_game),
            "silent": self.scores.silent,
            "micro": _with_intervals(self.scores.by_game),
            "macro": self.scores.macro,
            "chance": self.scores.chance,
            **{name: {} for name in _GROUP_TABLES},
            **{name: exact[name] for name in _OF_SINGLE_INTENTIONS},
        }
        for (group, label), by_game in sorted(self._by_game.items()):
            totals[f"by_{group}"][label] = {
                "items": self.scores.behind[group, label],
                "games": len(by_game),
                **_with_intervals(by_game),
            }
        totals["unmapped"]["most"] = dict(self.scores.unmapped_texts.most_common(20))
        return totals


_GROUP_TABLES: Final = ("by_round", "by_role", "by_side", "by_stage", "by_category")
_OF_SINGLE_INTENTIONS: Final = ("mean_item", "by_intention", "confusion", "unmapped")


_SHARES: Final[Mapping[str, Statistic]] = {"precision": ratio, "recall": pooled_recall, "f1": pooled_f1}


def _with_intervals(by_game: dict[str, Counts]) -> dict[str, Any]:
    total = _NOTHING
    for counts in by_game.values():
        total = total.plus(counts)
    shares = {name: estimate_as_json(estimate(by_game, of, within=SHARE)) for name, of in _SHARES.items()}
    return {**total._asdict(), **shares}


def estimate_as_json(found: Estimate) -> dict[str, Any]:
    """Value, 95 % interval, number of games, and how much the items of one game depend on each other; None
    where undefined.
    """
    interval = found.interval
    effect, icc = found.clustering or (None, None)
    return {
        "value": None if isnan(found.value) else found.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": found.confidence,
        "games": found.games,
        "method": found.method,
        "design_effect": effect,
        "icc": icc,
    }


STEPS: Final = (0, 1, 2, 3, 4, 5)
"""The confidences that a guess may state."""


class Bin(NamedTuple):
    """One point of the reliability curve: the guesses with this confidence."""

    confidence: int
    stated: float | None
    """The mean confidence of these guesses as a probability; None if there are none."""
    right: Rate

    def as_json(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "stated": self.stated, **self.right.as_json()}


class RoleScores:
    """Counts role guesses, in total and by role, with their confidence."""

    def __init__(self) -> None:
        self.right = Rate(0, 0)
        """Right guesses, of all guesses that name a role."""
        self.by_role: dict[Role, Rate] = {}
        """By the speaker's true role."""
        self.confusion: dict[tuple[Role, Role], int] = {}
        """The number of guesses by (true role, guessed role)."""
        self._squares = 0.0
        # For each step: the number of guesses, the number of right guesses, and the sum of the confidences.
        self._bins = [[0, 0, 0.0] for _ in STEPS]

    def add(self, item: Item, guess: Guess) -> None:
        """Counts a guess that names a role; a guess that names none is ignored.

        Raises ValueError if the item lacks the speaker's role, or if the confidence is not 0 to 5.
        """
        role = item.speaker_role
        if role is None:
            raise ValueError(f"a role guess is scored by the true role, which {item.id} lacks")
        if guess.role is None:
            return
        right = guess.role is role
        rate = Rate(int(right), 1)
        self.right = self.right.plus(rate)
        tally(self.by_role, role, rate)
        self.confusion[role, guess.role] = self.confusion.get((role, guess.role), 0) + 1
        if guess.confidence is not None:
            self._count_confidence(guess.confidence, right)

    def _count_confidence(self, confidence: float, right: bool) -> None:
        if not 0 <= confidence <= STEPS[-1]:
            raise ValueError(f"a confidence must be 0 to 5, got {confidence}")
        probability = confidence / STEPS[-1]
        self._squares += (probability - right) ** 2
        # A mean over samples may lie between steps: it is rounded to the nearest one, halves upwards.
        of_step = self._bins[floor(confidence + 0.5)]
        of_step[0] += 1
        of_step[1] += right
        of_step[2] += confidence

    @property
    def stated(self) -> int:
        """The number of guesses with a confidence."""
        return sum(int(step[0]) for step in self._bins)

    @property
    def brier(self) -> float | None:
        """The mean of (confidence / 5 - right)², where right is 1 or 0; 0 is best. None without a stated
        confidence.

        Source: Brier, Monthly Weather Review 78 (1950), for the two outcomes right and wrong.
        """
        return self._squares / self.stated if self.stated else None

    @property
    def curve(self) -> tuple[Bin, ...]:
        """The reliability curve: how often the guesses with each confidence were right."""
        return tuple(
            Bin(step, total / n / STEPS[-1] if n else None, Rate(int(right), int(n)))
            for step, (n, right, total) in zip(STEPS, self._bins, strict=True)
        )

    @property
    def calibration_error(self) -> float | None:
        """The expected calibration error over the six steps: the mean distance between stated confidence and
        share of right guesses, weighted by guesses; None without a stated confidence.
        """
        if not self.stated:
            return None
        return sum(abs(total / STEPS[-1] - right) for n, right, total in self._bins) / self.stated

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.right.as_json(),
            "by_role": rates_as_json(self.by_role),
            "confusion": [
                {"true": true.value, "guessed": guessed.value, "guesses": n}
                for (true, guessed), n in sorted(self.confusion.items())
            ],
            "stated": self.stated,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "curve": [point.as_json() for point in self.curve],
        }
