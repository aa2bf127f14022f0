"""Contrasts in a report: which figures are compared between conditions, and the tables that show them.

Every share, score and mean that a report has for groups is contrasted: in total, and by side, role, round or
stage. Each contrast stands three times: as excluded (the report's own exclusions), as played (no game
excluded), and in the worst case (each excluded game counted against the difference).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import zip_longest
from math import isnan
from operator import add
from typing import Final, NamedTuple

from engine.chance import draw
from engine.terms import Seat
from evaluators.dataset.metrics import OWN_METRICS, installed_metrics
from evaluators.measures.comparing import holm
from evaluators.measures.play import PUBLISHED
from evaluators.report.columns import Contrast, GameColumns
from evaluators.report.tables import GROUPS, QUESTIONS, Column, ReportTable, TableRow, Unit, place
from evaluators.statistics.contrasts import FEW, Difference, contrast, worst_case
from evaluators.statistics.figures import (
    RULES,
    Clusters,
    Figure,
    FigureKey,
    FigureTally,
    GameSet,
    Kind,
    nothing,
)
from evaluators.statistics.intervals import Counts, snapped
from evaluators.statistics.mixed import ALL_EQUAL, Mixed, MixedRow, mixed

__all__ = [
    "CONTRASTS",
    "FOUND_BELOW",
    "MISSING",
    "ContrastCounts",
    "Contrasted",
    "FigureOfCells",
    "contrasted",
    "figure_names",
    "figures_of_cells",
    "is_compared",
    "range_of",
]

CONTRASTS: Final = "contrasts"
"""The table of the contrasts' main figures."""

_PARTS: Final = "contrast_parts"
_MEANS: Final = "contrast_means"

NO_MIXED: Final = (
    "Without statsmodels no mixed model stands beside the contrasts as a second opinion: "
    "pip install statsmodels."
)

MISSING: Final = "contrasts need numpy and scipy: pip install numpy scipy"

FOUND_BELOW: Final = 0.05


# --- which figures ----------------------------------------------------------------------------------


class _Measure(NamedTuple):
    """How a figure is contrasted."""

    words: str
    """What it is called, with ``{of}`` for whom it is about and ``{group}`` for its metric."""
    kind: Kind = "share"
    limits: tuple[float, float] | None = None
    """The least and the greatest value; None: there are none, so there is no worst case."""

    @property
    def unit(self) -> Unit:
        return "number" if self.kind == "mean" else "share"


_F1: Final = ("f1", "precision", "recall")
_BOTH: Final = (0.0, 1.0)

_MEASURES: Final[Mapping[tuple[str, str], tuple[_Measure, ...]]] = {
    ("seats", "share"): (_Measure("seats won", limits=_BOTH),),
    ("play", "share"): (_Measure("{group}", limits=_BOTH),),
    ("roles", "on quests"): (_Measure("on quests", limits=_BOTH),),
    ("roles", "games won"): (_Measure("games won", limits=_BOTH),),
    **{
        ("rounds", column): (_Measure(words, limits=_BOTH),)
        for column, words in (
            ("played", "quest played"),
            ("succeeded", "quest succeeded"),
            ("evil_on_team", "evil on the team"),
            ("forced", "team forced"),
            ("first_approved", "first proposal approved"),
            ("changed", "team changed"),
        )
    },
    ("selection", "accuracy"): (_Measure("selection accuracy", limits=_BOTH),),
    ("responses", "good"): (_Measure("responses rated good", limits=_BOTH),),
    ("following", "good"): (_Measure("following good ({of})", limits=_BOTH),),
    ("following", "mean"): (_Measure("mean following score ({of})", "mean", (1, 5)),),
    **{
        (table, "f1"): tuple(_Measure(f"{words} {kind}{who}", kind, _BOTH) for kind in _F1)
        for table, words, who in (
            ("summarisation", "summarisation", ", {of}"),
            ("summarisation_followed", "summarisation of what was followed", ", {of}"),
            ("guessing", "guessing", ", {of}"),
            ("guessing_followed", "guessing of what was followed", ", {of}"),
            ("beliefs", "beliefs", ""),
        )
    },
    ("role_guesses", "accuracy"): (_Measure("roles right, {of}", limits=_BOTH),),
    ("role_guesses", "brier"): (_Measure("Brier score of roles, {of}", "mean", _BOTH),),
    ("correction", "changed"): (_Measure("modification changes the choice", limits=_BOTH),),
    ("correction_sets", "share"): (_Measure("self-correction, intentions", limits=_BOTH),),
    ("correction_worth", "better"): (_Measure("self-correction: {group} better", limits=_BOTH),),
    ("correction_worth", "worse"): (_Measure("self-correction: {group} worse", limits=_BOTH),),
    ("correction_worth", "mean change"): (_Measure("self-correction: {group}, mean change", "mean"),),
    ("own_metrics", "share"): (_Measure("{of}", limits=_BOTH),),
    ("own_metrics", "value"): (_Measure("{of}", "mean"),),
    ("hallucination", "speeches with one"): (_Measure("speeches that the record refutes", limits=_BOTH),),
    ("hallucination", "statements refuted"): (_Measure("statements refuted", limits=_BOTH),),
    ("hallucination", "refuted a speech"): (_Measure("refuted statements a speech", "mean"),),
    ("hallucination_judged", "speeches with one"): (_Measure("speeches refuted ({of})", limits=_BOTH),),
    ("judges", "reasonable"): (_Measure("selections called reasonable", limits=_BOTH),),
    ("judges", "think"): (_Measure("thinking scored 4 or 5", limits=_BOTH),),
    ("judges", "speak"): (_Measure("speaking scored 4 or 5", limits=_BOTH),),
    ("link", "above"): (_Measure("evil above loyal, {of}", limits=_BOTH),),
    ("defaults", "defaulted"): (_Measure("decisions played by default", limits=_BOTH),),
    **{
        ("defaults", cause): (_Measure(f"decisions played by default ({cause})", limits=_BOTH),)
        for cause in ("model_error", "deadline", "attempts")
    },
}

_HEADLINES: Final = frozenset({"all", "judge"})
"""The groups whose figures are totals."""

_DEFAULT_GROUPS: Final = frozenset({"all"})


@lru_cache(4096)
def _measures(table: str, group: str, column: str) -> tuple[_Measure, ...]:
    if table == "defaults" and group not in _DEFAULT_GROUPS:
        return ()
    found = _MEASURES.get((table, column), ())
    if table == "play" and group == "quest engagement":
        return tuple(measure._replace(kind="mean_of_shares") for measure in found)
    # Precision and recall in total, F1 by group too.
    return found if group in _HEADLINES else found[:1]


_ORDER: Final = {place_: number for number, place_ in enumerate(_MEASURES)}


def _names(key: FigureKey, measure: _Measure) -> tuple[str, str, str]:
    """What the figure is called, and its breakdown and group; the latter are empty for a main figure."""
    words = measure.words.format(of=key.of, group=key.group)
    if key.table in ("play", "seats"):
        return f"{words}, {key.label}", "", ""
    if key.table == "judges":
        return f"{words}, {key.label}", "", ""
    if key.table in ("correction_sets",):
        return f"{words} {key.label}", "", ""
    if key.table == "correction_worth":
        return (words, "", "") if key.label == "all" else (words, "turns", key.label)
    if key.group == "all":
        return words, "", ""
    return words, key.group, key.label


def range_of(name: str) -> tuple[Unit, tuple[float, float] | None] | None:
    """The unit and the limits of the figure of this name, as a question names it; limits None: it has none.
    None: no report has a figure of this name.
    """
    for _, words, measure in _names_of_figures():
        if _is_called(words, name):
            return measure.unit, measure.limits
    return None


def is_compared(name: str, *, of_seats: bool) -> bool:
    """Whether contrasts of some seats of each game (``of_seats``), or of whole games, have the figure of this
    name; False for a name that no figure has.
    """
    return any(_is_called(words, name) for words in figure_names(of_seats=of_seats))


def figure_names(*, of_seats: bool | None = None) -> tuple[str, ...]:
    """What figures are called; ``…`` stands for a rater, a role or another part of a name. ``of_seats``: in
    contrasts of some seats of each game alone, or of whole games alone.
    """
    return tuple(
        dict.fromkeys(
            words
            for table, words, _ in _names_of_figures()
            if of_seats is None or not (_is_of_games(table, words) if of_seats else table == "seats")
        )
    )


def _is_called(words: str, name: str) -> bool:
    wild = re.escape(words).replace("…", ".+")
    return re.fullmatch(wild if words.endswith("…") else f"{wild}(, .+)?", name) is not None


def _is_of_games(table: str, words: str) -> bool:
    """Whether a figure is of the whole table, never of some of its seats."""
    return table in ("rounds", "link") or (table == "play" and words.startswith(_OF_ONE_SIDE))


def _names_of_figures() -> Iterator[tuple[str, str, _Measure]]:
    """Each figure's table, what it is called, and how it is contrasted."""
    for (table, _), measures in _MEASURES.items():
        for measure in measures:
            if table == OWN_METRICS:
                yield from ((table, name, measure) for name in installed_metrics())
            elif table == "play":
                for metric in _METRICS:
                    kind: Kind = "mean_of_shares" if metric == "quest engagement" else "share"
                    sides = ["loyal"] if metric in _OF_ONE_SIDE else ["loyal", "evil"]
                    yield from ((table, f"{metric}, {side}", measure._replace(kind=kind)) for side in sides)
            else:
                words = measure.words.replace("{of}", "…").replace("{group}", "…")
                of_labels = {"seats": ", …", "judges": ", …", "correction_sets": " …"}
                yield table, words + of_labels.get(table, ""), measure


# --- counting ---------------------------------------------------------------------------------------

_KEPT: Final = 500
"""The most units of a cell whose counts are kept apart; beyond, they are summed into that many blocks."""


class _Cell:
    """The counts of one cell of a contrast by figure and unit: a deal with all its games however they are
    seated, or a game whose deal nobody knows.
    """

    def __init__(self) -> None:
        self.games: Counter[str] = Counter()
        """The number of games by unit."""
        self.tables: set[str] = set()
        """The profiles and numbers of players of its games."""
        self.opponents: dict[str, str] = {}
        """By unit, the agents of the seats that are not in the cell; empty if its games differ in them."""
        self.counts: dict[FigureKey, dict[str, Counts]] = {}
        self.games_of: Counter[FigureKey] = Counter()
        self.masks: dict[FigureKey, int] = {}
        """The games with counts, as in ``GameSet``."""
        self.items: Counter[FigureKey] = Counter()

    def begin(self, unit: str, games: int, opponents: str) -> None:
        """Counts games of a unit."""
        self.games[unit] += games
        known = self.opponents.setdefault(unit, opponents)
        self.opponents[unit] = known if known == opponents else ""

    def add(self, unit: str, key: FigureKey, counts: Counts) -> None:
        by_unit = self.counts.setdefault(key, {})
        known = by_unit.get(unit)
        by_unit[unit] = tuple(counts) if known is None else _plus(known, counts)

    def merge(self, other: "_Cell", shift: int) -> None:
        """Adds the counts of other games, which stand ``shift`` places further on in the names."""
        for key, mask in other.masks.items():
            self.masks[key] = self.masks.get(key, 0) | mask << shift
        for unit, games in other.games.items():
            self.begin(unit, games, other.opponents[unit])
        self.tables |= other.tables
        self.games_of.update(other.games_of)
        self.items.update(other.items)
        for key, by_unit in other.counts.items():
            for unit, counts in by_unit.items():
                self.add(unit, key, counts)

    def by(self, key: FigureKey, unit_of: Callable[[str], str]) -> dict[str, Counts]:
        """The counts of a figure by what ``unit_of`` makes of the units."""
        by_unit = self.counts.get(key, {})
        if unit_of is _as_it_is:
            return by_unit
        joined: dict[str, Counts] = {}
        for unit, counts in by_unit.items():
            name = unit_of(unit)
            joined[name] = _plus(joined[name], counts) if name in joined else counts
        return joined


def _plus(first: Counts, second: Counts) -> Counts:
    if len(first) == len(second):
        return tuple(map(add, first, second))
    return tuple(map(sum, zip_longest(first, second, fillvalue=0)))


Write = Callable[[FigureKey, Sequence[float], int], None]


class ContrastCounts:
    """The counts of one contrast: of each cell, by unit."""

    def __init__(self, asked: Contrast) -> None:
        self.asked = asked
        self.cells = tuple(_Cell() for _ in asked.cells)
        self.names: list[str] = []
        """Every game with seats in a cell."""
        self.of_seats = False
        """Whether a cell held only some seats of a game."""
        self.found: set[tuple[str, str]] = set()
        """The columns that games had, each with the levels asked that they had, and with an empty one."""

    def begin(
        self, game_id: str, columns: GameColumns, kept: frozenset[Seat]
    ) -> Iterator[tuple[frozenset[Seat], Write]]:
        """Starts a game: for each cell that has seats in it, the seats and where their counts go."""
        unit = f"deal {columns.deal}" if columns.deal else f"game {game_id}"
        cells = self.asked.seats(columns)
        for column, levels in self.asked.levels.items():
            if values := columns.seats(column):
                self.found.update((column, level) for level in ("", *levels) if not level or level in values)
        if any(seats & kept for seats in cells):
            self.names.append(game_id)
        for cell, seats in zip(self.cells, cells, strict=True):
            if seats & kept:
                self.of_seats |= len(seats & kept) < columns.players
                cell.begin(unit, 1, _others(columns, seats & kept))
                cell.tables.add(f"{columns.of_game['profile']}, {columns.players} players")
                yield seats & kept, _writer(cell, unit, len(self.names) - 1)

    def games_behind(self, mask: int) -> GameSet:
        """The games of these bits. Games of one seed that were simulated into several files have one name."""
        unique = list(dict.fromkeys(self.names))
        if len(unique) == len(self.names):
            return GameSet(self.names, mask)
        place_of = {name: place_ for place_, name in enumerate(unique)}
        bits = {1 << place_of[name] for place_, name in enumerate(self.names) if mask >> place_ & 1}
        return GameSet(tuple(unique), sum(bits))

    def merge(self, other: "ContrastCounts") -> None:
        """Adds the counts of other games."""
        self.of_seats |= other.of_seats
        self.found |= other.found
        for cell, theirs in zip(self.cells, other.cells, strict=True):
            cell.merge(theirs, len(self.names))
        self.names += other.names


def _others(columns: GameColumns, seats: frozenset[Seat]) -> str:
    """The agents of the other seats; empty if there are none, or nobody knows them."""
    agents = enumerate(columns.of_seats.get("agent", ()), 1)
    return ", ".join(sorted({agent for seat, agent in agents if seat not in seats}))


def _writer(cell: _Cell, unit: str, place_: int) -> Write:
    def write(key: FigureKey, counts: Sequence[float], n: int) -> None:
        if any(counts) and _measures(key.table, key.group, key.column):
            cell.add(unit, key, counts)
            cell.games_of[key] += 1
            cell.items[key] += n
            cell.masks[key] = cell.masks.get(key, 0) | 1 << place_

    return write


# --- the tables -------------------------------------------------------------------------------------


class Contrasted(NamedTuple):
    """What a report says of its contrasts."""

    tables: tuple[ReportTable, ...]
    notes: tuple[str, ...]
    """A sentence for each question, and what a reader must know before the rest."""


class _Design(NamedTuple):
    """How the units of a contrast's cells belong together."""

    paired: bool
    unit_of: Callable[[str], str]
    pairs: int
    """How many units have counted games of both cells."""
    games: tuple[int, ...]
    """The number of games in each cell, the excluded ones too."""
    counted: tuple[int, ...]
    """Without the excluded ones: the games behind the figures."""
    units: tuple[int, ...]
    """The deals that these are, and the games without a known deal."""
    tables: tuple[frozenset[str], ...]
    """The profiles and numbers of players of each cell's deals."""

    def sizes(self, asked: Contrast) -> Iterator[str]:
        """Each cell with its number of games."""
        for cell, counted, games in zip(asked.cells, self.counted, self.games, strict=True):
            yield f"{cell} {counted:,}" + (f" of {games:,}" if counted != games else "")


class _TestedFigure(NamedTuple):
    """One figure of one contrast, in its three versions."""

    key: FigureKey
    measure: _Measure
    excluded: Difference
    played: Difference
    worst: Difference | None
    """None: there is no worst case, since the figure has no limits."""
    levels: tuple[Figure, ...]
    items: int
    of_games: GameSet | None
    mixed: Mixed | None
    """Of main figures of two levels, what the mixed model says; None: it was not asked."""


def contrasted(
    counts: Sequence[ContrastCounts],
    set_aside: Sequence[ContrastCounts] | None,
    withheld: Callable[[FigureKey], bool],
    level: float = FOUND_BELOW,
    first: Sequence[ContrastCounts] | None = None,
) -> Contrasted:
    """The tables of these contrasts.

    ``set_aside``: the same contrasts of the excluded games, if there are any. ``first``: the same contrasts
    without games that were played anew in place of excluded ones, if there are any; beside excluded games,
    these count. ``withheld`` says whether a
    judge's figure may not be shown beside people's. ``level``: the greatest adjusted p value of a difference
    that counts. Without numpy and scipy the first table is empty and says how to get them.
    """
    try:
        import scipy.special as _  # noqa: F401
    except ImportError:
        return Contrasted((_table(CONTRASTS, (), MISSING),), (f"{MISSING[0].upper()}{MISSING[1:]}.",))
    asks_mixed = find_spec("statsmodels") is not None
    compared: dict[Contrast, list[_TestedFigure]] = {}
    designs: dict[Contrast, _Design] = {}
    for place_, one in enumerate(counts):
        aside = None if set_aside is None else set_aside[place_]
        beside = one if first is None else first[place_]
        design = designs[one.asked] = _designed(one, beside, aside)
        figures = _all_figures(one, beside, aside, design, withheld, asks_mixed=asks_mixed)
        compared[one.asked] = [] if 0 in design.games else list(figures)
    adjusted = _adjusted(compared)
    main: list[TableRow] = []
    parts: list[TableRow] = []
    means: list[TableRow] = []
    for asked, found in compared.items():
        for figure in found:
            name, by, group = _names(figure.key, figure.measure)
            row = _row(asked, figure, adjusted[asked, figure.key, figure.measure.words], len(compared), level)
            if figure.measure.unit == "number":
                means.append(TableRow((str(asked), name, by or "all", group or "all"), row))
            elif by:
                parts.append(TableRow((str(asked), name, by, group), row))
            else:
                main.append(TableRow((str(asked), name), row))
    empty = "" if main else "no game has both levels of a contrast"
    tables = [_table(CONTRASTS, main, empty, mixed=asks_mixed)]
    tables += [_table(_PARTS, parts, "")] if parts else []
    tables += [_table(_MEANS, means, "", mixed=asks_mixed)] if means else []
    notes = [*_notes(compared, designs, adjusted, level), *([] if asks_mixed else [NO_MIXED])]
    return Contrasted(tuple(tables), tuple(notes))


class FigureOfCells(NamedTuple):
    """One figure of a contrast with its counts, before anything is tested."""

    name: str
    """As a question names it: with its group, if it is no main figure."""
    is_main: bool
    kind: Kind
    unit: Unit
    limits: tuple[float, float] | None
    cells: Sequence[Mapping[str, Counts]]
    """The counts of each cell by unit."""
    paired: bool


def figures_of_cells(counts: ContrastCounts) -> Iterator[FigureOfCells]:
    """Every figure that this contrast would test, main figures and others, in the order of the report."""
    design = _designed(counts, counts, None)
    keys = set.intersection(*(set(cell.counts) for cell in counts.cells))
    for key in sorted(keys, key=_place):
        if _is_shown_elsewhere(key, of_seats=counts.of_seats):
            continue
        for measure in _measures(key.table, key.group, key.column):
            name, by, group = _names(key, measure)
            cells = [cell.by(key, design.unit_of) for cell in counts.cells]
            shown = f"{name}, {group}" if by else name
            yield FigureOfCells(
                shown, not by, measure.kind, measure.unit, measure.limits, cells, design.paired
            )


def _designed(counts: ContrastCounts, beside: ContrastCounts, aside: ContrastCounts | None) -> _Design:
    """``beside``: the games that count beside the excluded ones ``aside``."""
    cells = [Counter(cell.games) for cell in beside.cells]
    for cell, more in zip(cells, () if aside is None else aside.cells, strict=False):
        cell.update(more.games)
    games = tuple(cell.total() for cell in cells)
    counted = tuple(cell.games.total() for cell in counts.cells)
    tables = tuple(frozenset(cell.tables) for cell in counts.cells)
    units = tuple(len(cell.games) for cell in counts.cells)
    together = len(set.intersection(*map(set, cells)))
    paired = 2 * together >= min(map(len, cells)) > 0
    pairs = len(set.intersection(*(set(cell.games) for cell in counts.cells))) if paired else 0
    most = len(set().union(*cells)) if paired else max(map(len, cells), default=0)
    unit_of = cache(_block) if most > _KEPT else _as_it_is
    return _Design(paired, unit_of, pairs, games, counted, units, tables)


def _as_it_is(unit: str) -> str:
    return unit


def _block(unit: str) -> str:
    return f"block {draw(0, 'contrast', unit) % _KEPT}"


def _all_figures(
    counts: ContrastCounts,
    beside: ContrastCounts,
    aside: ContrastCounts | None,
    design: _Design,
    withheld: Callable[[FigureKey], bool],
    *,
    asks_mixed: bool,
) -> Iterator[_TestedFigure]:
    keys = set().union(*(cell.counts.keys() for cell in counts.cells))
    if aside is not None:
        yield _of_exclusion(beside, aside, design)
        keys |= set().union(*(cell.counts.keys() for cell in aside.cells))
    for key in sorted(keys, key=_place):
        if withheld(key) or _is_shown_elsewhere(key, of_seats=counts.of_seats):
            continue
        for measure in _measures(key.table, key.group, key.column):
            main = not _names(key, measure)[1]
            yield _tested(counts, beside, aside, design, key, measure, asks_mixed=asks_mixed and main)


def _place(key: FigureKey) -> tuple[int, int, object]:
    metric = _METRICS.index(key.group) if key.group in _METRICS else 0
    return _ORDER[key.table, key.column], metric, place((key.of, key.group, key.label))


_OF_ONE_SIDE: Final = ("win rate", "quest win rate")
"""What one side wins the other loses: such metrics are shown of the loyal side."""

_METRICS: Final = (*PUBLISHED, "proposal approval rate", "approve ballot rate")


def _is_shown_elsewhere(key: FigureKey, *, of_seats: bool) -> bool:
    """Whether another figure says the same: in whole games one side wins what the other loses."""
    if key.table == "seats":
        return not of_seats
    return key.table == "play" and key.group in _OF_ONE_SIDE and key.label == "evil"


def _tested(
    counts: ContrastCounts,
    beside: ContrastCounts,
    aside: ContrastCounts | None,
    design: _Design,
    key: FigureKey,
    measure: _Measure,
    *,
    asks_mixed: bool,
) -> _TestedFigure:
    cells = [cell.by(key, design.unit_of) for cell in counts.cells]
    as_excluded = contrast(cells, measure.kind, paired=design.paired)
    played, worst = as_excluded, as_excluded if measure.limits else None
    if aside is not None and any(cell.games for cell in aside.cells):
        out = [cell.by(key, design.unit_of) for cell in aside.cells]
        within = cells if beside is counts else [cell.by(key, design.unit_of) for cell in beside.cells]
        if any(out):
            joined = [_joined(cell, more) for cell, more in zip(within, out, strict=True)]
            played = contrast(joined, measure.kind, paired=design.paired)
        if measure.limits and as_excluded.defined:
            # Of a game that counts nothing in the figure nobody knows what it would have counted.
            silent = [
                {unit: tuple(more.get(unit, ())) for unit in map(design.unit_of, cell.games)}
                for cell, more in zip(aside.cells, out, strict=True)
            ]
            filled = worst_case(within, silent, measure.kind, as_excluded.value, measure.limits)
            worst = contrast(filled, measure.kind, paired=design.paired)
    levels = []
    for cell, by_unit in zip(counts.cells, cells, strict=True):
        of_games = counts.games_behind(cell.masks.get(key, 0))
        units = len(cell.counts.get(key, ()))
        figure = _level(measure.kind, by_unit, cell.games_of[key], units, cell.items[key])
        levels.append(replace(figure, of_games=of_games))
    mask = 0
    for cell in counts.cells:
        mask |= cell.masks.get(key, 0)
    items = sum(cell.items[key] for cell in counts.cells)
    mixed = None
    if asks_mixed and len(cells) == 2 and as_excluded.defined:
        mixed = _second_opinion(counts, design, cells, measure.kind)
    of_games = counts.games_behind(mask)
    return _TestedFigure(key, measure, as_excluded, played, worst, tuple(levels), items, of_games, mixed)


def _second_opinion(
    counts: ContrastCounts, design: _Design, cells: Sequence[Mapping[str, Counts]], kind: Kind
) -> Mixed:
    """What a mixed model says; an observation is a unit's own figure. Opponents are a part of it only if each
    of them met both levels: else nobody can tell them from the level.
    """
    met = [
        {design.unit_of(unit): opponents for unit, opponents in cell.opponents.items()}
        for cell in counts.cells
    ]
    comparable = set(met[0].values()) == set(met[1].values())
    statistic, _ = RULES[kind]
    rows = []
    for level, (cell, of_unit) in enumerate(zip(cells, met, strict=True)):
        for unit, of_figure in cell.items():
            value = statistic(of_figure)
            if not isnan(value):
                opponents = of_unit[unit] if comparable else ""
                game = f"{level} {unit}"
                rows.append(MixedRow(value, str(level), game, unit if design.paired else game, opponents))
    return mixed(rows, "0", "1")


def _joined(first: Mapping[str, Counts], second: Mapping[str, Counts]) -> dict[str, Counts]:
    joined = dict(first)
    for unit, counts in second.items():
        joined[unit] = _plus(joined[unit], counts) if unit in joined else counts
    return joined


def _of_exclusion(counts: ContrastCounts, aside: ContrastCounts, design: _Design) -> _TestedFigure:
    """How many games of each cell are excluded: the same in every version."""
    key, measure = FigureKey("excluded_games", "", "all", "all", "excluded"), _Measure("games excluded")
    cells: list[dict[str, Counts]] = []
    for cell, out in zip(counts.cells, aside.cells, strict=True):
        by_unit: dict[str, Counts] = {}
        for games, hit in ((cell.games, 0), (out.games, 1)):
            for unit, n in games.items():
                name = design.unit_of(unit)
                by_unit[name] = _plus(by_unit.get(name, (0, 0)), (hit * n, n))
        cells.append(by_unit)
    difference = contrast(cells, "share", paired=design.paired)
    levels = tuple(
        _level("share", by_unit, games, len(cell.games.keys() | out.games.keys()), 0)
        for by_unit, games, cell, out in zip(cells, design.games, counts.cells, aside.cells, strict=True)
    )
    return _TestedFigure(key, measure, difference, difference, None, levels, 0, None, None)


def _level(kind: Kind, by_unit: Mapping[str, Counts], games: int, units: int, items: int) -> Figure:
    counts = {unit: counts for unit, counts in sorted(by_unit.items()) if any(counts)}
    figure = FigureTally().figure_of(Clusters(counts, units, items), kind, "nothing counted")
    few = f"{_of_deals(games, units)}, fewer than {FEW}: rough" if games != 1 else "1 game: rough"
    note = figure.note if units >= FEW or figure.value is None else few
    return replace(figure, games=games, items=items or None, note=note, of_games=None)


def _of_deals(games: int, units: int) -> str:
    """So many games, and of how many deals where several share one."""
    return (
        f"{games} games"
        if games == units
        else f"{games} games of {units} {'deal' if units == 1 else 'deals'}"
    )


def _adjusted(
    compared: Mapping[Contrast, Sequence[_TestedFigure]],
) -> dict[tuple[Contrast, FigureKey, str], float]:
    """Holm's p values: of each figure over the contrasts that were asked, also those without this figure."""
    by_figure: dict[tuple[FigureKey, str], list[tuple[Contrast, float]]] = {}
    for asked, found in compared.items():
        for figure in found:
            name = figure.key, figure.measure.words
            by_figure.setdefault(name, []).append((asked, figure.excluded.p_value))
    adjusted = {}
    for (key, words), family in by_figure.items():
        for (asked, _), p in zip(family, holm([p for _, p in family], len(compared)), strict=True):
            adjusted[asked, key, words] = p
    return adjusted


# --- in words ---------------------------------------------------------------------------------------


SPENT: Final = "nothing can count as found: earlier looks have spent the error"


def _shown(value: float, unit: Unit, *, signed: bool = True) -> str:
    number = 100 * value if unit == "share" else value
    text = f"{number:+z.{1 if unit == 'share' else 2}f}" if signed else f"{abs(number):.1f}"
    return text.replace("-", "−")


def _points(unit: Unit) -> str:
    return " points" if unit == "share" else ""


def _p_shown(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def _sentence(difference: Difference, p: float, unit: Unit, level: float) -> str:
    """What the difference says, in words."""
    if not difference.defined:
        return "nothing to compare: a level has no counts"
    if isnan(p):
        return "one game or deal in a level: no interval and no test"
    span = f"{_shown(difference.low, unit)} to {_shown(difference.high, unit)}{_points(unit)}"
    if isnan(difference.low):
        span = "no interval, since the difference has no spread"
    if level <= 0:
        return f"{SPENT}: {span} ({_p_shown(p)})"
    if p > level:
        return f"no difference found: {span} ({_p_shown(p)})"
    return f"{_shown(difference.value, unit)}{_points(unit)}: {span} ({_p_shown(p)})"


def _row(
    asked: Contrast, compared: _TestedFigure, p: float, questions: int, level: float
) -> dict[str, Figure]:
    unit = compared.measure.unit
    games = sum(figure.games or 0 for figure in compared.levels)
    if asked.by is None:
        first, second = compared.levels
    else:
        values = [figure.value for figure in compared.levels]
        first, second = (
            nothing("nothing counted")
            if values[at] is None or values[at + 1] is None
            else Figure(
                snapped(compared.excluded.levels[at] - compared.excluded.levels[at + 1]),
                games=sum(figure.games or 0 for figure in compared.levels[at : at + 2]),
                note=f"{' − '.join(asked.factor.levels)} where {asked.by.name} is {level}",
            )
            for at, level in ((0, asked.by.first), (2, asked.by.second))
        )
    return {
        "difference": replace(
            _figure(compared.excluded, games, compared.items, _sentence(compared.excluded, p, unit, level)),
            of_games=compared.of_games,
        ),
        "p, Holm": _p(p, games, f"of {questions} contrasts" if questions > 1 else "of one contrast"),
        "first": first,
        "second": second,
        "p": _p(compared.excluded.p_value, games, _TESTS[compared.excluded.test]),
        "as played": _figure(compared.played, None, None, _changed(compared.excluded, compared.played)),
        "as played: p": _p(compared.played.p_value, None, ""),
        "worst case": nothing("the figure has no limits")
        if compared.worst is None
        else _figure(compared.worst, None, None, _changed(compared.excluded, compared.worst)),
        "worst case: p": nothing("") if compared.worst is None else _p(compared.worst.p_value, None, ""),
        **({} if compared.mixed is None else _of_mixed(compared.mixed)),
    }


def _of_mixed(mixed: Mixed) -> dict[str, Figure]:
    if mixed.effect is None or mixed.p is None:
        return {"mixed model": nothing(mixed.note), "mixed model: p": nothing("")}
    games = mixed.games
    limits = mixed.low, mixed.high
    return {
        "mixed model": Figure(mixed.effect, *limits, games=games, method="mixed model", note=mixed.note),
        "mixed model: p": _p(mixed.p, games, f"Student's t, df {mixed.df}"),
    }


_TESTS: Final = {
    "exact": "every exchange counted",
    "drawn": "exchanges drawn",
    "residuals": "exchanges of residuals drawn",
    "none": "",
}


def _figure(difference: Difference, games: int | None, items: int | None, note: str) -> Figure:
    if not difference.defined:
        return nothing(note or "nothing to compare")
    if isnan(difference.low):
        return Figure(difference.value, games=games, items=items or None, note=note)
    limits = difference.low, difference.high
    return Figure(difference.value, *limits, None, None, games, items or None, "difference", note)


def _p(value: float, games: int | None, note: str) -> Figure:
    return nothing("no test") if isnan(value) else Figure(value, games=games, note=note)


def _turned(first: Difference, second: Difference | None) -> bool:
    return second is not None and first.value * second.value < 0


def _changed(first: Difference, second: Difference) -> str:
    return "the sign changes" if _turned(first, second) else ""


def _notes(
    compared: Mapping[Contrast, Sequence[_TestedFigure]],
    designs: Mapping[Contrast, _Design],
    adjusted: Mapping[tuple[Contrast, FigureKey, str], float],
    level: float,
) -> Iterator[str]:
    for asked, found in compared.items():
        design = designs[asked]
        empty = [cell for cell, games in zip(asked.whole_cells, design.games, strict=True) if not games]
        if empty:
            yield f"{asked}: no game has {', '.join(empty)}, so there is nothing to compare."
            continue
        main = [one for one in found if not _names(one.key, one.measure)[1]]
        if asked.measure:
            yield _decided(asked, found, adjusted, level)
        yield _question(asked, design, main, adjusted, level)
        cells = zip(asked.cells, design.counted, design.units, strict=True)
        few = [
            f"{cell} ({games if games == units else _of_deals(games, units)})"
            for cell, games, units in cells
            if units < FEW
        ]
        if few:
            deals = "" if design.counted == design.units else " or deals"
            words = f"fewer than {FEW} games{deals}, so intervals and tests are rough"
            yield f"{asked.short}: {words}: {', '.join(few)}."
        if len(set(design.tables)) > 1 and _OF_TABLES.isdisjoint(asked.columns):
            sizes = (
                f"{cell} {' and '.join(sorted(tables))}"
                for cell, tables in zip(asked.cells, design.tables, strict=True)
            )
            yield (
                f"{asked.short}: the levels did not play at the same tables ({'; '.join(sizes)}), which may "
                "be what differs: compare them at one with `where`."
            )
        for version, words in (("played", "With the excluded games in"), ("worst", "In the worst case")):
            turned = [
                _names(one.key, one.measure)[0]
                for one in main
                if _turned(one.excluded, getattr(one, version))
            ]
            if turned:
                yield f"{asked.short}: {words} the sign of the difference changes for {_listed(turned)}."
        yield from _mixed_notes(asked, main, level)


_OF_TABLES: Final = frozenset({"players", "profile", "rules", "label:players", "label:profile"})
"""Columns whose levels never play at the same tables."""


def _mixed_notes(asked: Contrast, main: Sequence[_TestedFigure], level: float) -> Iterator[str]:
    """Where the mixed model says something else, or nothing."""
    otherwise, without = [], []
    for one in main:
        if one.mixed is None or isnan(one.excluded.p_value):
            continue
        name = _names(one.key, one.measure)[0]
        if one.mixed.p is None and one.mixed.note != ALL_EQUAL:
            without.append((name, one.mixed.note))
        elif one.mixed.p is not None and (one.mixed.p <= level) is not (one.excluded.p_value <= level):
            otherwise.append(f"{name} ({_p_shown(one.mixed.p)} for {one.excluded.p_value:.3f})")
    if otherwise:
        yield f"{asked.short}: the mixed model judges otherwise of {_listed(otherwise)}."
    if without:
        reasons = _listed(dict.fromkeys(note for _, note in without))
        yield f"{asked.short}: no mixed model for {_listed(name for name, _ in without)} ({reasons})."


def _question(
    asked: Contrast,
    design: _Design,
    main: Sequence[_TestedFigure],
    adjusted: Mapping[tuple[Contrast, FigureKey, str], float],
    level: float,
) -> str:
    cells = ", ".join(design.sizes(asked))
    how = f"paired by {design.pairs:,} deals or games" if design.paired else "not paired"
    tested = [one for one in main if not isnan(adjusted[asked, one.key, one.measure.words])]
    differing = [
        f"{_names(one.key, one.measure)[0]} {_shown(one.excluded.value, one.measure.unit)}"
        f"{_points(one.measure.unit)}"
        for one in tested
        if adjusted[asked, one.key, one.measure.words] <= level
    ]
    question = f"{asked.question} " if asked.question and not asked.measure else ""
    # A question with a measure has its whole name in the sentence before.
    begins = f"{question}{asked.short if asked.measure else asked} (games: {cells}; {how}): "
    if not tested:
        return f"{begins}nothing could be tested."
    if level <= 0:
        return f"{begins}{SPENT}."
    if not differing:
        return f"{begins}no difference was found in any of {len(tested)} main figures."
    return (
        f"{begins}of {len(tested)} main figures {len(differing)} "
        f"{'differs' if len(differing) == 1 else 'differ'}: {_listed(differing)}. "
        f"Of figures without any difference {100 * level:.3g} % would."
    )


def _decided(
    asked: Contrast,
    found: Sequence[_TestedFigure],
    adjusted: Mapping[tuple[Contrast, FigureKey, str], float],
    level: float,
) -> str:
    """What the one figure says that decides the question."""
    begins = f"{asked.question} " if asked.question else ""
    for one in found:
        name, by, group = _names(one.key, one.measure)
        if asked.measure in (name, f"{name}, {group}" if by else name):
            p = adjusted[asked, one.key, one.measure.words]
            sentence = _sentence(one.excluded, p, one.measure.unit, level)
            levels = " and ".join(
                f"{cell} {_plain(value, one.measure.unit)}"
                for cell, value in zip(asked.cells, one.excluded.levels, strict=True)
            )
            return f"{begins}{asked}, {asked.measure}: {levels}; {sentence}."
    names = _listed(dict.fromkeys(_names(one.key, one.measure)[0] for one in found), 40)
    return f"{begins}{asked}: no figure is called {asked.measure!r}; there are {names}."


def _plain(value: float, unit: Unit) -> str:
    if isnan(value):
        return "nothing"
    return f"{100 * value:.1f} %" if unit == "share" else f"{value:z.2f}"


def _listed(names: Iterable[str], most: int = 6) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def _table(name: str, rows: Sequence[TableRow], empty: str, *, mixed: bool = False) -> ReportTable:
    title, heads = {
        CONTRASTS: ("Contrasts", ("contrast", "figure")),
        _PARTS: ("Contrasts by side, role, round and stage", ("contrast", "figure", "by", "group")),
        _MEANS: ("Contrasts of means", ("contrast", "figure", "by", "group")),
    }[name]
    unit: Unit = "number" if name == _MEANS else "share"
    return ReportTable(
        name,
        QUESTIONS if name == CONTRASTS else GROUPS,
        title,
        "The first level less the second, with its interval over games; for crossed columns how that "
        "difference changes. Paired where games of both levels share a deal. p: exchanges of whole games, or "
        "of the two levels within pairs. Holm: adjusted for the contrasts asked, not for the number of "
        "figures. As played: no game is excluded. Worst case: each excluded game is counted against the "
        "difference." + (" Mixed model: a second opinion, over the games' own figures." if mixed else ""),
        heads,
        (
            # What matters first, since a narrow screen shows two columns.
            Column("difference", unit),
            Column("p, Holm", "number"),
            Column("first", unit),
            Column("second", unit),
            Column("p", "number"),
            Column("as played", unit),
            Column("as played: p", "number"),
            Column("worst case", unit),
            Column("worst case: p", "number"),
            *((Column("mixed model", unit), Column("mixed model: p", "number")) if mixed else ()),
        ),
        tuple(rows),
        empty,
        "full",
    )
