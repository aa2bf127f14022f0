"""Sums by row, column and game, and the cells of tables that they make."""

from collections.abc import Hashable, Mapping
from typing import Any

Labels = tuple[str, ...]
Cell = dict[str, Any]
"""``value`` and what it rests on: ``num``, ``den``, ``games``, ``items``."""
Rows = dict[Labels, dict[str, Cell]]


def cell(
    value: float | None,
    num: float | None = None,
    den: float | None = None,
    games: int | None = None,
    items: int | None = None,
) -> Cell:
    return {"value": value, "num": num, "den": den, "games": games, "items": items}


NOTHING = cell(None)


class Sums:
    """What is counted, kept by game: a game in which every count is 0 tells nothing of the figure."""

    def __init__(self) -> None:
        self._held: dict[tuple[Labels, str], dict[str, list[float]]] = {}
        self._items: dict[tuple[Labels, str, str], set[Hashable]] = {}

    def add(
        self, game: str, labels: Labels, column: str, counts: tuple[float, ...], item: Hashable = None
    ) -> None:
        """``item``: what the count is made of; what is added of one item is one item's."""
        held = self._held.setdefault((labels, column), {})
        before = held.get(game, [0.0] * len(counts))
        held[game] = [a + b for a, b in zip(before, counts, strict=True)]
        if item is not None:
            self._items.setdefault((labels, column, game), set()).add(item)

    def _told(self, labels: Labels, column: str) -> dict[str, list[float]]:
        return {game: sums for game, sums in self._held.get((labels, column), {}).items() if any(sums)}

    def by_game(self, labels: Labels, column: str) -> dict[str, list[float]]:
        return self._told(labels, column)

    def labels(self) -> list[Labels]:
        """Rows in which some game tells something."""
        return list(dict.fromkeys(labels for labels, column in self._held if self._told(labels, column)))

    def has(self, labels: Labels, column: str) -> bool:
        return bool(self._told(labels, column))

    def cell(self, labels: Labels, column: str, kind: str = "share") -> Cell:
        told = self._told(labels, column)
        if not told:
            return cell(0, 0, None, 0) if kind == "sum" else NOTHING
        sums = [sum(counts) for counts in zip(*told.values(), strict=True)]
        items = sum(len(self._items.get((labels, column, game), ())) for game in told)
        if kind == "sum":
            return cell(sums[0], sums[0], None, len(told), items or None)
        num, den = _PARTS[kind](sums)
        return cell(num / den if den else None, num, den, len(told), items or None)

    def rows(self, columns: Mapping[str, str], whole: tuple[str, ...] = ()) -> Rows:
        """``columns``: how each is made. ``whole``: those that only the row of all has."""
        return {
            labels: {
                name: self.cell(labels, name, kind)
                for name, kind in columns.items()
                if name not in whole or "all" in labels
            }
            for labels in self.labels()
        }


_PARTS = {
    "share": lambda sums: (sums[0], sums[1]),
    "f1": lambda sums: (2 * sums[0], sums[1] + sums[2]),
    "precision": lambda sums: (sums[0], sums[1]),
    "recall": lambda sums: (sums[0], sums[2]),
}
