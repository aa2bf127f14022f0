"""Figures: numbers with their counts, their interval, and the number of games and items behind them.

    tally = FigureTally()
    key = FigureKey("selection", "", "all", "all", "accuracy")
    tally.begin("g1")
    tally.count(key, (7, 9), items=3)
    tally.figure(key, "share", "nothing counted").as_json()

Counts are kept by game, since whole games are the trials, and in bounded memory: beyond ``BLOCKS``
games they are summed into that many blocks by a hash of the game's id. Games of one deal that were played
under the same conditions are one trial (``begin``). Values are exact for any number of games; two tallies of
different games merge into what one tally would have counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from math import isnan, nan, sqrt
from operator import add
from typing import Any, Final, Literal, NamedTuple

from engine.chance import draw
from evaluators.statistics.intervals import (
    RATE,
    SCORE,
    SHARE,
    Clustering,
    Counts,
    Estimate,
    IntervalMethod,
    Range,
    Spread,
    Statistic,
    clustering,
    jackknife,
    limits,
    pooled_f1,
    pooled_recall,
    ratio,
    snapped,
    wilson,
)

__all__ = [
    "BLOCKS",
    "MEANS",
    "RULES",
    "Clusters",
    "Figure",
    "FigureKey",
    "FigureMethod",
    "FigureTally",
    "GameSet",
    "Kind",
    "estimated",
    "nothing",
]

BLOCKS: Final = 250
"""The most clusters that are kept. A standard error from so many is off by 1/sqrt(2 * 250), 4.5 %, which
Student's t allows for."""

Kind = Literal[
    "share", "fraction", "score", "rate", "mean", "f1", "precision", "recall", "mean_of_shares", "sum"
]
"""How a figure is computed from its counts, and the range that its limits respect.

share, fraction, score, rate, mean: the first count divided by the second. A share counts items of which each
is a hit or none; a fraction is a mean of values in [0, 1], such as stated confidence; a score lies in 1 to 5;
a rate is 0 or more; a mean is any ratio. f1, precision, recall: of (matched, predicted, gold).
mean_of_shares: the unweighted mean of the shares of all pairs of counts that occur. sum: the count itself,
which is not a sample and has no interval.
"""

MEANS: Final = frozenset[Kind]({"mean", "score", "rate"})
"""The kinds of figures that need not lie in [0, 1]."""

FigureMethod = IntervalMethod | Literal["rating", "published", "count", "difference", "mixed model"]
"""How the interval was computed. difference: from those of two levels (``contrasts``). count: there is none,
since the figure counts input and reveals nothing about gold."""


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
    method: FigureMethod = "none"
    note: str = ""
    design_effect: float | None = None
    """How many times as large the variance is as that of as many independent items. Only of shares, and
    where a game has several items; so is ``icc``."""
    icc: float | None = None
    """The intraclass correlation: what items of one game have in common."""
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
    """The counts by game (of games that are one trial: by the first), or by block of games."""
    games: int = 0
    items: int = 0
    mask: int = 0
    """The games with counts, as in ``GameSet``."""
    squares: Counts | None = None
    """The sums over games of the squared counts; None as long as counts are kept by game."""

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
        squares = (
            None
            if self.squares is None or other.squares is None
            else (*_wide(self.squares, width), *_wide(other.squares, more))
        )
        return Clusters(counts, mask.bit_count(), self.items + other.items, mask, squares)

    def add(self, cluster: str, counts: Counts) -> None:
        """Adds to the counts of a game or block."""
        known = self.counts.get(cluster)
        if known is not None:
            # Counts by role grow longer when a role occurs for the first time.
            counts = _added(known, counts)
        self.counts[cluster] = counts


def _wide(counts: Counts, width: int) -> Counts:
    return (*counts, *(0,) * (width - len(counts)))


class FigureTally:
    """Counts of many figures over games that are added one by one."""

    def __init__(self) -> None:
        self._figures: dict[FigureKey, Clusters] = {}
        self._ids: set[str] | None = set()
        """The games so far; None if there are too many, so that counts are kept by block."""
        self._first: dict[int, str] = {}
        """The first game by trial; trials are hashed, since their names are long."""
        self._cluster = ""
        self._names: list[str] = []
        """Every game, in the order of counting; ``GameSet`` refers to it."""
        self._bit = 0
        """The current game's bit in a ``GameSet``."""
        self.games = 0
        self._later = 0
        """The games that are one trial with an earlier one."""

    @property
    def trials(self) -> int:
        """How many of the games are independent."""
        return self.games - self._later

    @property
    def names(self) -> Sequence[str]:
        """Every game, in the order of counting."""
        return self._names

    def begin(self, game_id: str, trial: str = "") -> None:
        """Starts a game: all later counts belong to it. Each game is started once. ``trial``: a name that it
        shares with the games that are one trial with it, such as those of one deal under the same conditions;
        empty: it is one alone.
        """
        self.games += 1
        cluster = game_id
        if trial:
            before = len(self._first)
            cluster = self._first.setdefault(draw(0, "trial", trial), game_id)
            self._later += len(self._first) == before
        if self._ids is not None:
            self._ids.add(game_id)
            if len(self._ids) > BLOCKS:
                self._collapse()
        self._cluster = cluster if self._ids is not None else _block(cluster)
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
        if self._ids is None:
            clusters.squares = _squares([counts], clusters.squares)
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
        one_trial: dict[str, str] = {}
        """The first game here by the first one there."""
        for trial, first in other._first.items():
            if trial in self._first:
                one_trial[first] = self._first[trial]
            else:
                self._first[trial] = first
        self._later += other._later + len(one_trial)
        before = len(self._names)
        self._names += other._names
        for key, theirs in other._figures.items():
            clusters = self._figures.setdefault(key, Clusters())
            clusters.games += theirs.games
            clusters.items += theirs.items
            clusters.mask |= theirs.mask << before
            if self._ids is None:
                more = _squares(theirs.counts.values()) if blocks else theirs.squares
                clusters.squares = _added(clusters.squares, more)
            for cluster, counts in theirs.counts.items():
                joined = one_trial.get(cluster, cluster)
                clusters.add(_block(joined) if blocks else joined, counts)

    def _collapse(self) -> None:
        self._ids = None
        for clusters in self._figures.values():
            by_game, clusters.counts = clusters.counts, {}
            clusters.squares = _squares(by_game.values())
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

    def figure_of(
        self, clusters: Clusters, kind: Kind | Statistic, empty: str, within: Range | None = None
    ) -> Figure:
        """The figure of counts that are put together from those of this tally; ``empty`` as in ``figure``.
        ``within`` is the range of a statistic that is no kind.
        """
        if not clusters.counts:
            return nothing(empty)
        # Blocks are never more than the units in them.
        trials = len(clusters.counts) if self._later else clusters.games
        made = _figure(clusters, trials, kind, empty, within)
        return replace(made, of_games=self.games_of(clusters) if clusters.mask else None)

    def games_of(self, clusters: Clusters) -> GameSet:
        """The games with counts."""
        return GameSet(self._names, clusters.mask)


def _figure(
    clusters: Clusters, trials: int, kind: Kind | Statistic, empty: str, within: Range | None
) -> Figure:
    """``trials``: how many of the games are independent."""
    width = max(map(len, clusters.counts.values()))
    by_cluster = [_wide(counts, width) for counts in clusters.counts.values()]
    sums = [snapped(sum(column)) for column in zip(*by_cluster, strict=True)]
    games, n = clusters.games, clusters.items or None
    if kind == "sum":
        return Figure(sums[0], num=sums[0], games=games, items=n, note=_SUM)
    num, den = (None, None) if callable(kind) else _made_of(kind, sums)
    if kind == "share" and sums[1] == games == trials:
        # Each game is a single trial, and these are independent.
        low, high = wilson(int(sums[0]), games)
        return Figure(sums[0] / games, low, high, num, den, games, n, "wilson")
    statistic, within = (kind, within) if callable(kind) else RULES[kind]
    spread = jackknife(by_cluster, statistic)
    if isnan(spread.value):
        return Figure(None, num=num, den=den, games=games, items=n, note=empty)
    interval, method = limits(spread._replace(games=trials), within)
    together = None if callable(kind) else _clustering(kind, spread, clusters, sums)
    made = estimated(Estimate(spread.value, interval, 0.95, games, method, together), games, n, num, den)
    return replace(made, note=_ONE_DEAL) if interval is None and trials < 2 <= games else made


_ONE_DEAL: Final = "games of one deal: no interval"


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
    effect, icc = estimate.clustering or (None, None)
    return Figure(value, low, high, num, den, games, items, estimate.method, note, effect, icc)


_SUM: Final = "a count, not a sample: no interval"


@lru_cache(1 << 16)
def _block(game_id: str) -> str:
    return f"block {draw(0, 'report', game_id) % BLOCKS}"


def _made_of(kind: Kind, sums: Sequence[float]) -> tuple[float | None, float | None]:
    """The numerator and denominator of a figure; None for a kind that has none."""
    if kind in ("share", "fraction", "score", "rate", "mean"):
        return sums[0], sums[1]
    if kind == "f1":
        return 2 * sums[0], sums[1] + sums[2]
    if kind in ("precision", "recall"):
        return sums[0], sums[1 if kind == "precision" else 2]
    return None, None


def _of_shares(sums: Sequence[float]) -> float:
    shares = [sums[at] / sums[at + 1] for at in range(0, len(sums), 2) if sums[at + 1]]
    return sum(shares) / len(shares) if shares else nan


RULES: Final[dict[Kind, tuple[Statistic, Range | None]]] = {
    "share": (ratio, SHARE),
    "fraction": (ratio, SHARE),
    "score": (ratio, SCORE),
    "rate": (ratio, RATE),
    "mean": (ratio, None),
    "f1": (pooled_f1, SHARE),
    "precision": (ratio, SHARE),
    "recall": (pooled_recall, SHARE),
    "mean_of_shares": (_of_shares, SHARE),
}
"""The statistic of each kind and its range."""


def _clustering(kind: Kind, spread: Spread, clusters: Clusters, sums: Sequence[float]) -> Clustering | None:
    """Of figures that count items; None where no game has several."""
    weights = _TRIALS.get(kind)
    if weights is None:
        return None
    squares = clusters.squares or _squares(clusters.counts.values())
    trials = sum(weight * total for weight, total in zip(weights, sums, strict=True))
    # The sum of squares of a weighted sum of counts, which are as good as proportional to each other.
    root = sum(weight * sqrt(square) for weight, square in zip(weights, squares, strict=True))
    found = clustering(spread, trials, root * root)
    return found if found is not None and found.icc is not None else None


_TRIALS: Final[dict[Kind, tuple[float, ...]]] = {
    "share": (0, 1),
    "precision": (0, 1, 0),
    "recall": (0, 0, 1),
    "f1": (0, 0.5, 0.5),
}
"""What each count adds to the number of items. F1 is the share of matched among the mean of predicted and
gold."""


def _squares(games: Iterable[Counts], known: Counts | None = None) -> Counts:
    """The sums of squared counts, added to those that are known."""
    for counts in games:
        known = _added(known, [count * count for count in counts])
    return known or ()


def _added(known: Counts | None, more: Counts | None) -> Counts:
    if known is not None and more is not None and len(known) == len(more):
        return tuple(map(add, known, more))
    return tuple(a + b for a, b in zip_longest(known or (), more or (), fillvalue=0))
