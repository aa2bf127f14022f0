"""Figures: numbers with their counts, their interval, and the number of games and items behind them.

    tally = FigureTally()
    key = FigureKey("selection", "", "all", "all", "accuracy")
    tally.begin("g1")
    tally.count(key, (7, 9), items=3)
    tally.figure(key, "share", "nothing counted").as_json()

Counts are kept by game, since intervals come from drawing games, and in bounded memory: beyond ``BLOCKS``
games they are summed into that many blocks by a hash of the game's id. Values are exact for any number of
games; two tallies of different games merge into what one tally would have counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import isnan, nan
from typing import Any, Final, Literal, NamedTuple

from engine.chance import draw
from evaluators.statistics.resampling import (
    Counts,
    Estimate,
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
    "GameSet",
    "Kind",
    "Method",
    "estimated",
    "nothing",
]

BLOCKS: Final = 250
"""The most clusters that are kept. A standard error from so many is off by 1/sqrt(2 * 250), 4.5 %."""

RESAMPLES: Final = 1000
"""Half of the usual number, since a report has a thousand figures: limits move by less than their last shown
digit."""

Kind = Literal["share", "mean", "f1", "precision", "recall", "mean_of_shares", "sum"]
"""How a figure is computed from its counts.

share, mean: the first count divided by the second; a share lies in [0, 1], a mean is any ratio. f1,
precision, recall: of (matched, predicted, gold). mean_of_shares: the unweighted mean of the shares of all
pairs of counts that occur. sum: the count itself, which is not a sample and has no interval.
"""

Method = Literal["bca", "wilson", "rating", "published", "count", "none"]
"""How the interval was computed. count: there is none, since the figure counts input and reveals nothing
about gold."""


class GameSet(NamedTuple):
    """The games behind a figure, a bit for each game, so that the names of many games are kept only once."""

    names: Sequence[str]
    """Every game of the tally, in the order in which they were counted."""
    mask: int
    """Bit i is set if the i-th game (from 0) has counts."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its counts, its interval, games and items."""

    value: float | None
    """None if nothing could be counted; ``note`` says why."""
    low: float | None = None
    """The lower limit of the 95 % interval. None if there is no interval; ``note`` says why."""
    high: float | None = None
    num: float | None = None
    den: float | None = None
    games: int | None = None
    """The number of games with counts."""
    items: int | None = None
    """The number of items behind the figure; for judgements and scores, stages of turns. None if it has no
    items."""
    method: Method = "none"
    note: str = ""
    with_excluded: "Figure | None" = None
    """The same figure over all games, the excluded ones too. None: they do not change it."""
    of_games: GameSet | None = field(default=None, compare=False, repr=False)
    """The games with counts. None: not known."""

    def as_json(self) -> dict[str, Any]:
        """By name; ``with_excluded`` only where there is one. The games are left to the report's list."""
        values = {name: getattr(self, name) for name in Figure.__dataclass_fields__ if name != "of_games"}
        second = values.pop("with_excluded")
        return values if second is None else {**values, "with_excluded": second.as_json()}


def nothing(why: str) -> Figure:
    """A figure without a number; ``why`` gives the reason."""
    return Figure(None, note=why)


class FigureKey(NamedTuple):
    """Identifies a figure: its table, its owner (such as a rater), its row and its column."""

    table: str
    of: str
    group: str
    label: str
    column: str

    @property
    def makes_row(self) -> bool:
        """Whether the figure makes a row of its table; ``played`` alone does not."""
        return self.column != "played"


@dataclass(slots=True)
class Clusters:
    """The counts of one figure by cluster."""

    counts: dict[str, Counts] = field(default_factory=dict)
    """The counts by game, or by block of games."""
    games: int = 0
    items: int = 0
    mask: int = 0
    """The games with counts, as in ``GameSet``."""

    def beside(self, other: "Clusters") -> "Clusters":
        """Both counts of every game, first these and then those of ``other``."""
        width, more = (max(map(len, one.counts.values()), default=0) for one in (self, other))
        counts: dict[str, Counts] = {
            name: (
                *_wide(self.counts.get(name, ()), width),
                *_wide(other.counts.get(name, ()), more),
            )
            for name in sorted(self.counts.keys() | other.counts.keys())
        }
        mask = self.mask | other.mask
        return Clusters(counts, mask.bit_count(), self.items + other.items, mask)

    def add(self, cluster: str, counts: Counts) -> None:
        """Adds to the counts of a game or block."""
        known = self.counts.get(cluster)
        if known is not None:
            # Counts by role grow longer when a role occurs for the first time.
            counts = tuple(a + b for a, b in zip_longest(known, counts, fillvalue=0))
        self.counts[cluster] = counts


def _wide(counts: Counts, width: int) -> Counts:
    return (*counts, *(0,) * (width - len(counts)))


class FigureTally:
    """Counts of many figures over games that are added one by one."""

    def __init__(self) -> None:
        self._figures: dict[FigureKey, Clusters] = {}
        self._ids: set[str] | None = set()
        """The games so far; None if there are too many, so that counts are kept by block."""
        self._cluster = ""
        self._names: list[str] = []
        """Every game, in the order of counting; ``GameSet`` refers to it."""
        self._bit = 0
        """The current game's bit in a ``GameSet``."""
        self.games = 0

    def begin(self, game_id: str) -> None:
        """Starts a game: all later counts belong to it. Each game is started once."""
        self.games += 1
        if self._ids is not None:
            self._ids.add(game_id)
            if len(self._ids) > BLOCKS:
                self._collapse()
        self._cluster = game_id if self._ids is not None else _block(game_id)
        self._bit = 1 << len(self._names)
        self._names.append(game_id)

    def count(self, key: FigureKey, counts: Counts, *, items: int = 0) -> None:
        """Adds the current game's counts of one figure; counts that are all 0 are ignored."""
        if not any(counts):
            return
        clusters = self._figures.get(key)
        if clusters is None:
            clusters = self._figures[key] = Clusters()
        clusters.add(self._cluster, counts)
        clusters.games += 1
        clusters.items += items
        clusters.mask |= self._bit

    def merge(self, other: "FigureTally") -> None:
        """Adds the counts of ``other``, which counted other games."""
        self.games += other.games
        if self._ids is not None and (other._ids is None or len(self._ids) + len(other._ids) > BLOCKS):
            self._collapse()
        if self._ids is not None and other._ids is not None:
            self._ids |= other._ids
        blocks = self._ids is None and other._ids is not None
        before = len(self._names)
        self._names += other._names
        for key, theirs in other._figures.items():
            clusters = self._figures.setdefault(key, Clusters())
            clusters.games += theirs.games
            clusters.items += theirs.items
            clusters.mask |= theirs.mask << before
            for cluster, counts in theirs.counts.items():
                clusters.add(_block(cluster) if blocks else cluster, counts)

    def _collapse(self) -> None:
        self._ids = None
        for clusters in self._figures.values():
            by_game, clusters.counts = clusters.counts, {}
            for game_id, counts in by_game.items():
                clusters.add(_block(game_id), counts)

    def keys(self, table: str) -> Iterator[FigureKey]:
        """The figures of one table that have counts."""
        return (key for key in self._figures if key.table == table)

    def __contains__(self, key: FigureKey) -> bool:
        """Whether the figure has counts."""
        return key in self._figures

    def clusters(self, key: FigureKey) -> Clusters:
        """The counts of a figure, for statistics over several counts; empty if nothing was counted."""
        return self._figures.get(key) or Clusters()

    def figure(self, key: FigureKey, kind: Kind, empty: str) -> Figure:
        """The figure with its interval; ``empty`` is its note if it has no number."""
        clusters = self._figures.get(key)
        if clusters is None:
            return Figure(0.0, num=0.0, games=0, note=_SUM) if kind == "sum" else nothing(empty)
        return self.figure_of(clusters, kind, empty)

    def figure_of(self, clusters: Clusters, kind: Kind | Statistic, empty: str) -> Figure:
        """The figure of counts that are put together from those of this tally; ``empty`` as in ``figure``."""
        if not clusters.counts:
            return nothing(empty)
        made = _figure(clusters, kind, empty)
        return replace(made, of_games=GameSet(self._names, clusters.mask))


def _figure(clusters: Clusters, kind: Kind | Statistic, empty: str) -> Figure:
    width = max(map(len, clusters.counts.values()))
    by_cluster = {name: _wide(counts, width) for name, counts in clusters.counts.items()}
    sums = [sum(column) for column in zip(*by_cluster.values(), strict=True)]
    games, n = clusters.games, clusters.items or None
    if kind == "sum":
        return Figure(sums[0], num=sums[0], games=games, items=n, note=_SUM)
    num, den = (None, None) if callable(kind) else _made_of(kind, sums)
    if callable(kind):
        estimate = bootstrap(by_cluster, kind, resamples=RESAMPLES)
    elif kind == "share":
        estimate = share({name: (int(k), int(n)) for name, (k, n) in by_cluster.items()}, resamples=RESAMPLES)
    else:
        estimate = bootstrap(by_cluster, _STATISTICS[kind], resamples=RESAMPLES)
    if isnan(estimate.value):
        return Figure(None, num=num, den=den, games=games, items=n, note=empty)
    return estimated(estimate, games, n, num, den)


def estimated(
    estimate: Estimate,
    games: int,
    items: int | None,
    num: float | None = None,
    den: float | None = None,
) -> Figure:
    """The figure of an estimate over games; an undefined value is None."""
    low, high = estimate.interval or (None, None)
    note = ""
    if estimate.interval is None:
        note = "one game: no interval over games" if games < 2 else "no game differs: no interval"
    value = None if isnan(estimate.value) else estimate.value
    return Figure(value, low, high, num, den, games, items, estimate.method, note)


_SUM: Final = "a count, not a sample: no interval"


def _block(game_id: str) -> str:
    return f"block {draw(0, 'report', game_id) % BLOCKS}"


def _made_of(kind: Kind, sums: Sequence[float]) -> tuple[float | None, float | None]:
    """The numerator and denominator of a figure; None for a kind that has none."""
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
