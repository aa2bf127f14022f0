"""Scores of sets of intentions: precision, recall and F1, over items and by group.

``micro_f1`` and ``per_item`` are public: they take plain mappings of item id to set of intention ids.

    micro_f1({"a": {"defend_self"}, "b": {"support_proposal"}}, {"a": {"defend_self"}}).recall  # 0.5

Both compare ids as they are; ``answers`` turns free text into ids first. ``Scores`` counts items, ``Totals``
adds intervals over games. InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isnan, nan
from typing import Any, Final, NamedTuple

from engine.intentions import BY_ID, IntentionId
from engine.terms import Role, Side, side_of
from evaluators.errors import UnknownItem
from evaluators.ground.answers import Guess, Unmapped
from evaluators.ground.items import Item
from evaluators.statistics.resampling import Estimate, Statistic, bootstrap, ratio

__all__ = [
    "F1",
    "LEAST",
    "Counts",
    "Scores",
    "Totals",
    "estimate_as_json",
    "limited",
    "micro_f1",
    "per_item",
    "pooled_f1",
    "pooled_recall",
    "score",
]


class Counts(NamedTuple):
    """The counts behind F1. Counts of disjoint items add up, so a bootstrap may resample them."""

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

    It compares, adds and prints as the F1 itself; nan when there is neither gold nor guess.
    """

    __slots__ = ("gold", "matched", "predicted")

    matched: int
    """Intentions that are both gold and predicted."""
    predicted: int
    """Intentions predicted, unmapped text included where it counts."""
    gold: int
    """Intentions in the gold."""

    def __new__(cls, matched: int, predicted: int, gold: int) -> "F1":
        made = super().__new__(cls, 2 * matched / (predicted + gold) if predicted + gold else nan)
        made.matched, made.predicted, made.gold = matched, predicted, gold
        return made

    def __getnewargs__(self) -> tuple[int, int, int]:  # type: ignore[override]  # float's gives its value
        return self.counts

    @property
    def f1(self) -> float:
        """The same number as the object itself."""
        return float(self)

    @property
    def precision(self) -> float:
        """matched / predicted; nan when nothing was predicted."""
        return self.matched / self.predicted if self.predicted else nan

    @property
    def recall(self) -> float:
        """matched / gold; nan when there is no gold."""
        return self.matched / self.gold if self.gold else nan

    @property
    def counts(self) -> Counts:
        return Counts(self.matched, self.predicted, self.gold)

    def as_json(self) -> dict[str, Any]:
        """Shares and counts; a share that is not defined is None."""
        shares = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {
            **{name: None if isnan(share) else share for name, share in shares.items()},
            **self.counts._asdict(),
        }


_NOTHING: Final = Counts(0, 0, 0)

ItemId = str
Named = Collection[IntentionId]
"""Ids, each counted once however often it is named."""


def micro_f1(gold: Mapping[ItemId, Named], guessed: Mapping[ItemId, Named]) -> F1:
    """Micro-averaged F1 of guessed intentions: counts pooled over the items of ``gold``.

    An item without a guess counts as an empty guess: silence costs recall, never precision. Ids are
    compared as they are; whatever is not gold counts as predicted and wrong.

    The result is a float, nan when there is neither gold nor guess, with ``precision``, ``recall``,
    ``f1``, ``matched``, ``predicted`` and ``gold``.
    Raises UnknownItem (a ValueError) for a guess about an item outside ``gold``.
    Source: InterIntent (EMNLP 2024), section 3.
    """
    total = _NOTHING
    for one in per_item(gold, guessed).values():
        total = total.plus(one.counts)
    return total.f1


def per_item(gold: Mapping[ItemId, Named], guessed: Mapping[ItemId, Named]) -> dict[ItemId, F1]:
    """F1 of every item of ``gold``, in its order; ``micro_f1`` of one item each.

    Raises UnknownItem (a ValueError) for a guess about an item outside ``gold``.
    """
    _known(guessed, gold)
    return {item: _compare(set(right), set(guessed.get(item, ()))).f1 for item, right in gold.items()}


def pooled_recall(sums: Sequence[float]) -> float:
    """Recall of summed (matched, predicted, gold), nan where it is undefined."""
    return sums[0] / sums[2] if sums[2] else nan


def pooled_f1(sums: Sequence[float]) -> float:
    """F1 of summed (matched, predicted, gold), nan where it is undefined: the statistic by which
    ``resampling`` gives intervals to ``Scores.by_game`` and compares the counts of ``per_item``.
    """
    matched, predicted, gold = sums
    return 2 * matched / (predicted + gold) if predicted + gold else nan


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
    """Exact counts over items, whole and by group. Memory grows by three numbers a game."""

    __slots__ = (
        "_by_chance",
        "_item_f1",
        "_unmapped",
        "behind",
        "by_category",
        "by_game",
        "by_intention",
        "by_role",
        "by_round",
        "by_side",
        "by_stage",
        "confusion",
        "items",
        "silent",
        "total",
        "unmapped_texts",
    )

    def __init__(self, unmapped: Unmapped = "count") -> None:
        """``unmapped``: whether text that names no intention counts as predicted, or is discarded as
        the authors' scripts do."""
        self._unmapped: Unmapped = unmapped
        self.items = 0
        self.silent = 0
        """Items without a guess; they count as empty guesses."""
        self.behind: Counter[tuple[str, str]] = Counter()
        """By group and label, such as ``("role", "merlin")``: the items that count in it. In a category or an
        intention they are those in which it is gold or named."""
        self.total = _NOTHING
        self.by_game: dict[str, Counts] = {}
        self.by_round: dict[int, Counts] = {}
        self.by_role: dict[Role, Counts] = {}
        """By the speaker's role."""
        self.by_side: dict[Side, Counts] = {}
        """By the speaker's side."""
        self.by_stage: dict[str, Counts] = {}
        self.by_category: dict[str, Counts] = {}
        """Intentions of the category: gold, predicted, matched. Unmapped text has no category."""
        self.by_intention: dict[IntentionId, Counts] = {}
        self.confusion: Counter[tuple[IntentionId, IntentionId]] = Counter()
        """(missed, wrongly named): the items in which both happened. An item may count in several
        pairs; the hits stand in ``by_intention``."""
        self.unmapped_texts: Counter[str] = Counter()
        """The raters' own words that named no intention, and how often each occurred."""
        self._item_f1 = 0.0
        self._by_chance = 0.0

    def add(self, item: Item, guess: Guess | None) -> F1:
        """Counts one item and the rater's guess; None where there is no guess. Returns the item's own F1.

        Raises UnknownItem for a guess about another item, ValueError for an item without gold.
        """
        if item.gold is None or item.speaker_role is None:
            raise ValueError(f"an item needs gold and the speaker's role to be scored, {item.id} lacks one")
        if guess is not None and guess.item_id != item.id:
            raise UnknownItem(f"the guess is about {guess.item_id!r}, the item is {item.id!r}")
        named = frozenset[str]() if guess is None else guess.named(self._unmapped)
        counts = _compare(item.gold, named)
        self.items += 1
        self.silent += guess is None
        self.total = self.total.plus(counts)
        for table, key in (
            (self.by_game, item.game_id),
            (self.by_round, item.round),
            (self.by_role, item.speaker_role),
            (self.by_side, side_of(item.speaker_role)),
            (self.by_stage, item.stage),
        ):
            _count(table, key, counts)
        self.behind.update(
            (
                ("round", str(item.round)),
                ("role", item.speaker_role.value),
                ("side", side_of(item.speaker_role).value),
                ("stage", item.stage),
            )
        )
        self._count_intentions(item.gold, named)
        if guess is not None:
            self.unmapped_texts.update(guess.unmapped)
        if item.options:
            self._by_chance += counts.predicted * counts.gold / len(item.options)
        f1 = counts.f1
        self._item_f1 += f1
        return f1

    def _count_intentions(self, gold: frozenset[str], named: frozenset[str]) -> None:
        known = {id_ for id_ in gold | named if id_ in BY_ID}
        for id_ in known:
            counts = Counts(int(id_ in gold and id_ in named), int(id_ in named), int(id_ in gold))
            _count(self.by_intention, id_, counts)
            _count(self.by_category, BY_ID[id_].category, counts)
        self.behind.update(("intention", id_) for id_ in known)
        self.behind.update({("category", BY_ID[id_].category) for id_ in known})
        for missed in gold - named:
            for wrong in named - gold:
                if wrong in BY_ID:
                    self.confusion[missed, wrong] += 1

    @property
    def micro(self) -> F1:
        """F1 of all items pooled: the paper's score."""
        return self.total.f1

    @property
    def macro(self) -> float | None:
        """The mean of the intentions' own F1, over those that were gold or named; None without any."""
        return _mean([float(counts.f1) for counts in self.by_intention.values()])

    @property
    def mean_item(self) -> float | None:
        """The mean of the items' own F1; None without any."""
        return self._item_f1 / self.items if self.items else None

    @property
    def chance(self) -> float | None:
        """The F1 to expect of a rater who draws as many intentions at random from each item's options; None
        without gold and guess.

        Exact: with k of n options named, each gold intention is hit with probability k / n, and F1 is linear
        in the hits.
        """
        total = self.total.predicted + self.total.gold
        return 2 * self._by_chance / total if total else None

    def as_json(self) -> dict[str, Any]:
        """Every number with its counts, groups sorted by key; ``by_game`` is left to the bootstrap."""
        tables = {
            name: {str(key): counts.f1.as_json() for key, counts in sorted(getattr(self, name).items())}
            for name in _EXACT_TABLES
            if name != "by_game"
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
                "counted": self._unmapped == "count",
                "texts": sum(self.unmapped_texts.values()),
                "different": len(self.unmapped_texts),
            },
        }


_EXACT_TABLES: Final = (
    "by_round",
    "by_role",
    "by_side",
    "by_stage",
    "by_category",
    "by_intention",
    "by_game",
)


def _count(table: dict[Any, Counts], key: Any, counts: Counts) -> None:
    table[key] = table[key].plus(counts) if key in table else counts


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def score(items: Iterable[Item], guesses: Iterable[Guess], unmapped: Unmapped = "count") -> Scores:
    """The scores of one rater's guesses over these items; items without a guess count as silence.

    One guess an item: samples are joined by ``answers.majority`` first. Raises UnknownItem for a guess
    about an item that is not among them, and for a second guess about the same one.
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


LEAST: Final = 20
"""Items that a total must rest on before it is shown to somebody who may not see gold."""


class _Group:
    """Counts of one group by game, and its items."""

    __slots__ = ("by_game", "items")

    def __init__(self) -> None:
        self.items = 0
        self.by_game: dict[str, Counts] = {}

    def add(self, game_id: str, counts: Counts) -> None:
        self.items += 1
        self.by_game[game_id] = self.by_game.get(game_id, _NOTHING).plus(counts)


class Totals:
    """Scores of one rater's guesses with intervals over games, whole and by group.

    ``Scores`` holds the exact counts. For the intervals every group also keeps its counts by game, since a
    bootstrap draws whole games.
    """

    def __init__(self, unmapped: Unmapped = "count") -> None:
        self.scores = Scores(unmapped)
        self._unmapped: Unmapped = unmapped
        self._groups: dict[tuple[str, str], _Group] = {}

    def add(self, item: Item, guess: Guess | None) -> None:
        """Counts one item and the rater's guess; None where there is no guess. As ``Scores.add``."""
        counts = self.scores.add(item, guess).counts
        assert item.gold is not None
        assert item.speaker_role is not None
        keys = [
            ("by_round", str(item.round)),
            ("by_role", item.speaker_role.value),
            ("by_side", side_of(item.speaker_role).value),
            ("by_stage", item.stage),
        ]
        for key in keys:
            self._groups.setdefault(key, _Group()).add(item.game_id, counts)
        named = frozenset[str]() if guess is None else guess.named(self._unmapped)
        for category in {BY_ID[id_].category for id_ in item.gold | named if id_ in BY_ID}:
            gold = frozenset(id_ for id_ in item.gold if BY_ID[id_].category == category)
            guessed = frozenset(id_ for id_ in named if id_ in BY_ID and BY_ID[id_].category == category)
            group = self._groups.setdefault(("by_category", category), _Group())
            group.add(item.game_id, Counts(len(gold & guessed), len(guessed), len(gold)))

    def as_json(self, *, seed: int | str = 0) -> dict[str, Any]:
        """Precision, recall and F1 with 95 % intervals over games, whole and by group."""
        exact = self.scores.as_json()
        totals: dict[str, Any] = {
            "items": self.scores.items,
            "games": len(self.scores.by_game),
            "silent": self.scores.silent,
            "micro": _with_intervals(self.scores.by_game, seed),
            "macro": self.scores.macro,
            "chance": self.scores.chance,
            **{name: {} for name in _GROUP_TABLES},
            **{name: exact[name] for name in _SINGLE_ITEM_KEYS},
        }
        for (table, key), group in sorted(self._groups.items()):
            shown = {"items": group.items, "games": len(group.by_game)}
            totals[table][key] = {**shown, **_with_intervals(group.by_game, seed)}
        totals["unmapped"]["most"] = dict(self.scores.unmapped_texts.most_common(20))
        return totals


def limited(totals: Mapping[str, Any], least: int = LEAST) -> dict[str, Any] | None:
    """The part of ``Totals.as_json`` that may be shown without gold; None for fewer than ``least`` items.

    Whatever names single intentions or texts is left out. Where one group has fewer than ``least`` items, its
    whole table is left out, since the other groups and the total would give that group away.
    """
    if totals["items"] < least:
        return None
    kept = {name: value for name, value in totals.items() if name not in _SINGLE_ITEM_KEYS}
    for name in _GROUP_TABLES:
        few = any(group["items"] < least for group in totals[name].values())
        kept[name] = {} if few else totals[name]
    return kept


_GROUP_TABLES: Final = ("by_round", "by_role", "by_side", "by_stage", "by_category")
_SINGLE_ITEM_KEYS: Final = ("mean_item", "by_intention", "confusion", "unmapped")


_SHARES: Final[Mapping[str, Statistic]] = {"precision": ratio, "recall": pooled_recall, "f1": pooled_f1}


def _with_intervals(by_game: dict[str, Counts], seed: int | str) -> dict[str, Any]:
    total = _NOTHING
    for counts in by_game.values():
        total = total.plus(counts)
    shares = {name: estimate_as_json(bootstrap(by_game, share, seed=seed)) for name, share in _SHARES.items()}
    return {**total._asdict(), **shares}


def estimate_as_json(estimate: Estimate) -> dict[str, Any]:
    """Value, 95 % interval and number of games. A value or a limit that is not defined is None."""
    interval = estimate.interval
    return {
        "value": None if isnan(estimate.value) else estimate.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": estimate.confidence,
        "games": estimate.games,
        "method": estimate.method,
    }
