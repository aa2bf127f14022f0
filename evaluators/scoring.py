"""Scores of sets of intentions: precision, recall and F1, over items and by group.

``micro_f1`` and ``per_item`` are public: they take plain mappings of item id to set of intention ids.

    micro_f1({"a": {"defend_self"}, "b": {"support_proposal"}}, {"a": {"defend_self"}}).recall  # 0.5

Nothing is normalised in them; free text becomes ids in ``answers`` first. InterIntent (EMNLP 2024),
section 3.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isnan, nan
from typing import Any, Final, NamedTuple

from engine.intentions import BY_ID, IntentionId
from engine.terms import Role, Side, side_of
from evaluators.answers import Guess, Unmapped
from evaluators.errors import UnknownItem
from evaluators.items import Item

__all__ = ["F1", "Counts", "Scores", "micro_f1", "per_item", "pooled_f1", "score"]


class Counts(NamedTuple):
    """What F1 is made of. Counts of disjoint items add up, so a bootstrap may resample them."""

    matched: int
    predicted: int
    gold: int

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.matched + other.matched, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def f1(self) -> "F1":
        return F1(*self)


class F1(float):
    """F1 of pooled counts, as a number in [0, 1], with what it was made of.

    It compares, adds and prints as the F1 itself; nan when there is neither gold nor guess.
    """

    __slots__ = ("gold", "matched", "predicted")

    matched: int
    """Intentions that are both gold and predicted."""
    predicted: int
    """Intentions predicted, unmapped text included where it counts."""
    gold: int
    """Intentions that were to be named."""

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
    total = Counts(0, 0, 0)
    for one in per_item(gold, guessed).values():
        total = total.plus(one.counts)
    return total.f1


def per_item(gold: Mapping[ItemId, Named], guessed: Mapping[ItemId, Named]) -> dict[ItemId, F1]:
    """F1 of every item of ``gold``, in its order; ``micro_f1`` of one item each.

    Raises UnknownItem (a ValueError) for a guess about an item outside ``gold``.
    """
    _known(guessed, gold)
    return {item: _compare(set(right), set(guessed.get(item, ()))).f1 for item, right in gold.items()}


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
    """Counts over items, whole and by group. Its size grows with the games alone, by three numbers each.

    ``add`` takes items one by one, ``merge`` another table; both leave the F1 of every group exact.
    """

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
        self.total = Counts(0, 0, 0)
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
        """Text that named no intention, with how often; a rater's own words."""
        self._item_f1 = 0.0
        self._by_chance = 0.0

    def add(self, item: Item, guess: Guess | None) -> F1:
        """Counts one item and what a rater said of it; None: nothing. Returns the item's own F1.

        Raises UnknownItem where the guess is about another item, ValueError where the item holds no gold.
        """
        if item.gold is None or item.speaker_role is None:
            raise ValueError(f"an item is scored by its gold, {item.id} holds none")
        if guess is not None and guess.item_id != item.id:
            raise UnknownItem(f"the guess about {guess.item_id!r} was given for {item.id!r}")
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

    def merge(self, other: "Scores") -> None:
        """Adds the counts of ``other``, made of other items, to these."""
        self.items += other.items
        self.silent += other.silent
        self.total = self.total.plus(other.total)
        for name in _TABLES:
            for key, counts in getattr(other, name).items():
                _count(getattr(self, name), key, counts)
        self.behind.update(other.behind)
        self.confusion.update(other.confusion)
        self.unmapped_texts.update(other.unmapped_texts)
        self._item_f1 += other._item_f1
        self._by_chance += other._by_chance

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
        """The F1 to expect of as many intentions an item, drawn at random from its options; None
        without gold and guess.

        Exact: of k named out of n, each of g right ones is hit with k / n, and F1 is linear in the hits.
        """
        total = self.total.predicted + self.total.gold
        return 2 * self._by_chance / total if total else None

    def as_json(self) -> dict[str, Any]:
        """Every number with its counts, groups sorted by key; ``by_game`` is left to the bootstrap."""
        tables = {
            name: {str(key): counts.f1.as_json() for key, counts in sorted(getattr(self, name).items())}
            for name in _TABLES
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


_TABLES: Final = (
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


def score(some: Iterable[Item], guesses: Iterable[Guess], unmapped: Unmapped = "count") -> Scores:
    """The scores of one rater's guesses over these items; items without a guess count as silence.

    One guess an item: samples are joined by ``answers.majority`` first. Raises UnknownItem for a guess
    about an item that is not among them, and for a second guess about the same one.
    """
    given: dict[str, Guess] = {}
    for guess in guesses:
        if guess.item_id in given:
            raise UnknownItem(f"{guess.item_id!r} was guessed twice; join samples by majority first")
        given[guess.item_id] = guess
    scores = Scores(unmapped)
    for item in some:
        scores.add(item, given.pop(item.id, None))
    _known(given, ())
    return scores
