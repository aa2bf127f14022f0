"""Figures: numbers that always carry their counts, their interval, and how many games and items they rest on.

    tally = Tally()
    tally.begin("g1")
    tally.count(("selection", "all", "all", "accuracy"), (7, 9), items=3)
    tally.figure(("selection", "all", "all", "accuracy"), "share").as_json()

Counts are kept by game, since intervals draw games, and in bounded memory: beyond ``BLOCKS`` games they
are summed into so many blocks, dealt by a hash of the game's id. Values are exact whatever the number;
two tallies of different games merge into what one would have counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Final, Literal, NamedTuple

from engine.chance import draw
from evaluators.statistics.resampling import (
    Counts,
    Statistic,
    bootstrap,
    pooled_f1,
    pooled_recall,
    ratio,
    share,
)

__all__ = [
    "BLOCKS",
    "RESAMPLES",
    "Clusters",
    "Figure",
    "FigureKey",
    "FigureTally",
    "Kind",
    "Method",
    "nothing",
]

BLOCKS: Final = 250
"""Clusters kept: the standard error found from so many is off by 1/sqrt(2 * 250), 4.5 %."""

RESAMPLES: Final = 1000
"""A report has a thousand figures; half the usual draws move a limit by less than its last shown digit."""

Kind = Literal["share", "mean", "f1", "precision", "recall", "mean_of_shares", "sum"]
"""How a figure is computed from its counts.

share, mean: the first over the second, a share in [0, 1] or any ratio. f1, precision, recall: of
(matched, predicted, gold). mean_of_shares: the unweighted mean over pairs of counts, of those that occur.
sum: the count itself, which is no sample of anything and has no interval.
"""

Method = Literal["bca", "wilson", "rating", "published", "count", "none"]
"""How its interval was computed. count: it has none, since it counts input and reveals nothing about gold."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its counts, its interval, games and items."""

    value: float | None
    """None: nothing could be counted; ``note`` says why."""
    low: float | None = None
    """Of the 95 % interval. None: there is none; ``note`` says why."""
    high: float | None = None
    num: float | None = None
    den: float | None = None
    games: int | None = None
    """Games that count something."""
    items: int | None = None
    """Items behind it: stages of turns for judgements and scores. None: it is not made of items."""
    method: Method = "none"
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Figure.__dataclass_fields__}


def nothing(why: str) -> Figure:
    """A figure without a number, and the reason."""
    return Figure(None, note=why)


class FigureKey(NamedTuple):
    """Identifies a figure: its table, whose it is (such as a rater), its row and its column."""

    table: str
    of: str
    group: str
    label: str
    column: str

    @property
    def makes_row(self) -> bool:
        """Whether it makes a row of its table: ``played`` alone does not."""
        return self.column != "played"


class Clusters(NamedTuple):
    """One figure's counts."""

    counts: dict[str, Counts]
    """By game, or by block of games."""
    games: int
    items: int


class _Cell:
    """One figure's counts by cluster."""

    __slots__ = ("clusters", "games", "items")

    def __init__(self) -> None:
        self.clusters: dict[str, Counts] = {}
        self.games = 0
        self.items = 0

    def add(self, cluster: str, counts: Counts) -> None:
        held = self.clusters.get(cluster)
        self.clusters[cluster] = counts if held is None else _plus(held, counts)


def _plus(one: Counts, other: Counts) -> Counts:
    # Figures over roles grow longer when a role comes up that no game had before.
    if len(one) < len(other):
        one, other = other, one
    return (*(a + b for a, b in zip(one, other, strict=False)), *one[len(other) :])


class FigureTally:
    """Counts of many figures over games that are added one by one."""

    def __init__(self) -> None:
        self._cells: dict[FigureKey, _Cell] = {}
        self._ids: set[str] | None = set()
        """The games so far; None: there were too many, and counts are kept by block."""
        self._cluster = ""
        self.games = 0

    def begin(self, game_id: str) -> None:
        """Starts a game: what follows is counted for it. Each game is started once."""
        self.games += 1
        if self._ids is not None:
            self._ids.add(game_id)
            if len(self._ids) > BLOCKS:
                self._collapse()
        self._cluster = game_id if self._ids is not None else _block(game_id)

    def count(self, key: FigureKey, counts: Counts, *, items: int = 0) -> None:
        """Adds the current game's counts of one figure; counts that are all 0 are ignored."""
        if not any(counts):
            return
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Cell()
        cell.add(self._cluster, counts)
        cell.games += 1
        cell.items += items

    def merge(self, other: "FigureTally") -> None:
        """Adds the counts of ``other``, of other games, to these."""
        self.games += other.games
        if self._ids is not None and (other._ids is None or len(self._ids) + len(other._ids) > BLOCKS):
            self._collapse()
        if self._ids is not None and other._ids is not None:
            self._ids |= other._ids
        blocks = self._ids is None and other._ids is not None
        for key, theirs in other._cells.items():
            cell = self._cells.setdefault(key, _Cell())
            cell.games += theirs.games
            cell.items += theirs.items
            for cluster, counts in theirs.clusters.items():
                cell.add(_block(cluster) if blocks else cluster, counts)

    def _collapse(self) -> None:
        self._ids = None
        for cell in self._cells.values():
            games, cell.clusters = cell.clusters, {}
            for game_id, counts in games.items():
                cell.add(_block(game_id), counts)

    def keys(self, table: str) -> Iterator[FigureKey]:
        """The figures of one table that have counts."""
        return (key for key in self._cells if key.table == table)

    def __contains__(self, key: FigureKey) -> bool:
        """Whether the figure has counts."""
        return key in self._cells

    def clusters(self, key: FigureKey) -> "Clusters":
        """A figure's counts by cluster, for what is made of several counts at once; empty ones where
        nothing was counted.
        """
        cell = self._cells.get(key)
        return Clusters({}, 0, 0) if cell is None else Clusters(dict(cell.clusters), cell.games, cell.items)

    def figure(self, key: FigureKey, kind: Kind, empty: str) -> Figure:
        """The figure with its interval; ``empty`` says why there may be nothing."""
        cell = self._cells.get(key)
        if cell is None:
            return Figure(0.0, num=0.0, games=0, note=_SUM) if kind == "sum" else nothing(empty)
        width = max(map(len, cell.clusters.values()))
        clusters = {name: (*counts, *(0,) * (width - len(counts))) for name, counts in cell.clusters.items()}
        sums = [sum(column) for column in zip(*clusters.values(), strict=True)]
        games, n = cell.games, cell.items or None
        if kind == "sum":
            return Figure(sums[0], num=sums[0], games=games, items=n, note=_SUM)
        num, den = _made_of(kind, sums)
        if kind == "share":
            estimate = share(
                {name: (int(k), int(n)) for name, (k, n) in clusters.items()}, resamples=RESAMPLES
            )
        else:
            estimate = bootstrap(clusters, _STATISTICS[kind], resamples=RESAMPLES)
        if isnan(estimate.value):
            return Figure(None, num=num, den=den, games=games, items=n, note=empty)
        interval = estimate.interval
        note = ""
        if interval is None:
            note = "one game: no interval over games" if cell.games < 2 else "no game differs: no interval"
        return Figure(
            estimate.value,
            None if interval is None else interval.low,
            None if interval is None else interval.high,
            num,
            den,
            games,
            n,
            estimate.method,
            note,
        )


_SUM: Final = "a count, not a sample: no interval"


def _block(game_id: str) -> str:
    return f"block {draw(0, 'report', game_id) % BLOCKS}"


def _made_of(kind: Kind, sums: Sequence[float]) -> tuple[float | None, float | None]:
    """Numerator and denominator of what stands as one number."""
    if kind in ("share", "mean"):
        return sums[0], sums[1]
    if kind == "f1":
        return 2 * sums[0], sums[1] + sums[2]
    if kind in ("precision", "recall"):
        return sums[0], sums[1 if kind == "precision" else 2]
    return None, None


def _of_shares(sums: Sequence[float]) -> float:
    shares = [sums[at] / sums[at + 1] for at in range(0, len(sums), 2) if sums[at + 1]]
    return sum(shares) / len(shares) if shares else nan


_STATISTICS: Final[dict[Kind, Callable[[Sequence[float]], float] | Statistic]] = {
    "mean": ratio,
    "f1": pooled_f1,
    "precision": ratio,
    "recall": pooled_recall,
    "mean_of_shares": _of_shares,
}
