"""Totals of scored items with intervals: whole, and by round, role, side, stage and category.

``Scores`` counts exactly and small; here counts are kept by game for every group, since an interval
draws games. No number stands without what it rests on: items, games and its interval.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan
from typing import Any, Final

from engine.intentions import BY_ID
from engine.terms import side_of
from evaluators.answers import Guess, Unmapped
from evaluators.items import Item
from evaluators.resampling import Estimate, bootstrap
from evaluators.scoring import Counts, Scores

__all__ = ["LEAST", "Totals", "estimate_as_json", "limited"]

LEAST: Final = 20
"""Items that a total must rest on before somebody is told it who may not see gold."""

_NOTHING: Final = Counts(0, 0, 0)


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
    """Scores of one rater's guesses with intervals over games."""

    def __init__(self, unmapped: Unmapped = "count") -> None:
        self.scores = Scores(unmapped)
        self._unmapped: Unmapped = unmapped
        self._groups: dict[tuple[str, str], _Group] = {}

    def add(self, item: Item, guess: Guess | None) -> None:
        """Counts one item and what the rater said of it; None: nothing. As ``Scores.add``."""
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
            said = frozenset(id_ for id_ in named if id_ in BY_ID and BY_ID[id_].category == category)
            group = self._groups.setdefault(("by_category", category), _Group())
            group.add(item.game_id, Counts(len(gold & said), len(said), len(gold)))

    def as_json(self, *, seed: int | str = 0) -> dict[str, Any]:
        """Precision, recall and F1 with 95 % intervals over games, whole and by group."""
        exact = self.scores.as_json()
        told: dict[str, Any] = {
            "items": self.scores.items,
            "games": len(self.scores.by_game),
            "silent": self.scores.silent,
            "micro": _with_intervals(self.scores.by_game, seed),
            "macro": self.scores.macro,
            "chance": self.scores.chance,
            **{name: {} for name in _TABLES},
            **{name: exact[name] for name in _OF_SINGLE_ITEMS},
        }
        for (table, key), group in sorted(self._groups.items()):
            shown = {"items": group.items, "games": len(group.by_game)}
            told[table][key] = {**shown, **_with_intervals(group.by_game, seed)}
        told["unmapped"]["most"] = dict(self.scores.unmapped_texts.most_common(20))
        return told


def limited(told: Mapping[str, Any], least: int = LEAST) -> dict[str, Any] | None:
    """Of ``Totals.as_json`` what rests on so many items; None where the whole does not.

    What names single intentions or texts is left out, and where a group rests on fewer, all groups of its
    table: the others and the whole would tell it.
    """
    if told["items"] < least:
        return None
    kept = {name: value for name, value in told.items() if name not in _OF_SINGLE_ITEMS}
    for name in _TABLES:
        few = any(group["items"] < least for group in told[name].values())
        kept[name] = {} if few else told[name]
    return kept


_TABLES: Final = ("by_round", "by_role", "by_side", "by_stage", "by_category")
_OF_SINGLE_ITEMS: Final = ("mean_item", "by_intention", "confusion", "unmapped")


def _precision(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else nan


def _recall(sums: Sequence[float]) -> float:
    return sums[0] / sums[2] if sums[2] else nan


def _f1(sums: Sequence[float]) -> float:
    return 2 * sums[0] / (sums[1] + sums[2]) if sums[1] + sums[2] else nan


_SHARES: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
}


def _with_intervals(by_game: dict[str, Counts], seed: int | str) -> dict[str, Any]:
    total = _NOTHING
    for counts in by_game.values():
        total = total.plus(counts)
    shares = {name: estimate_as_json(bootstrap(by_game, share, seed=seed)) for name, share in _SHARES.items()}
    return {**total._asdict(), **shares}


def estimate_as_json(estimate: Estimate) -> dict[str, Any]:
    """Value, 95 % interval and number of games; None where there is nothing to say."""
    interval = estimate.interval
    return {
        "value": None if isnan(estimate.value) else estimate.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": estimate.confidence,
        "games": estimate.games,
        "method": estimate.method,
    }
