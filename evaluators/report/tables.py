"""The form of a report: tables of figures, the data behind them, what was left out, and the order of rows.

JSON, CSV and the page all render this form, so they cannot show different numbers.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal

from engine.intentions import BY_ID, CATALOGUE
from engine.terms import Role, Side, side_of
from evaluators.measures.judged import ASPECTS, PARTS
from evaluators.report.cells import inert
from evaluators.statistics.figures import Figure, GameSet, nothing

__all__ = [
    "COLUMNS",
    "DIMENSIONS",
    "GROUPS",
    "IMPACTFUL_BY",
    "ONLY_EXCLUDED",
    "OURS",
    "PAPER",
    "QUESTIONS",
    "SECTIONS",
    "WHO",
    "Audience",
    "Column",
    "Report",
    "ReportTable",
    "TableRow",
    "Unit",
    "as_csv",
    "in_order",
    "place",
    "public_part",
    "with_excluded",
]

PAPER: Final = "The paper's tables and figures"
QUESTIONS: Final = "The study's questions"
DIMENSIONS: Final = "The dimensions in detail"
OURS: Final = "What we add"
WHO: Final = "Who played"
GROUPS: Final = "Groups side by side"
SECTIONS: Final = (PAPER, QUESTIONS, DIMENSIONS, OURS, WHO, GROUPS)
"""The sections of a report in their order. All after the second are the appendix."""

Unit = Literal["share", "number", "count"]
"""share: in [0, 1], shown as a percentage."""

ONLY_EXCLUDED: Final = "only in excluded games"
"""The note of a figure that no other game has."""

ONLY_WITHOUT: Final = "not listed with excluded games"
"""The note in place of a second figure that is missing: only a game that was played anew has the first, or
the second is no longer one of the largest.
"""

IMPACTFUL_BY: Final = "impactful by"
"""The head of labels that depend on the figures of their row."""

Audience = Literal["public", "full"]
"""Who may see a table. ``public``: everybody, since it counts what the public record and the revealed roles
of finished games say. ``full``: callers who may read those games in full.
"""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: Unit = "share"

    def is_tiny(self, value: float) -> bool:
        """Whether this is a p value below 0.001, which three decimals would show as 0."""
        of_p = self.name in ("p", "p, Holm") or self.name.endswith((": p", "test p"))
        return of_p and value < 0.001


@dataclass(frozen=True, slots=True)
class TableRow:
    labels: tuple[str, ...]
    """One label for each of the table's ``heads``."""
    figures: Mapping[str, Figure]
    """By column; a column that does not apply to the row is missing."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    name: str
    """A stable name for programs."""
    section: str
    title: str
    caption: str
    """How the numbers are computed, and from which data."""
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...] = ()
    empty: str = ""
    """Why there are no rows; empty if there are rows."""
    audience: Audience = "full"

    def as_json(self, sources: "_Sources | None" = None) -> dict[str, Any]:
        """``words``: the sentence of each intention that a label names, by id. ``items`` of the table: the
        dimension of the items that the figures count, and whether only followed ones; ``items`` of a row:
        which of them.
        """
        return {
            "name": self.name,
            "section": self.section,
            "title": self.title,
            "caption": self.caption,
            "heads": list(self.heads),
            "columns": [{"name": column.name, "unit": column.unit} for column in self.columns],
            "empty": self.empty,
            **({"items": _ITEMS_OF[self.name]} if self.name in _ITEMS_OF else {}),
            "rows": [
                {
                    "labels": list(row.labels),
                    **_with_words(row),
                    **({"items": _items_of(self, row)} if self.name in _ITEMS_OF else {}),
                    "figures": {name: _figure_json(figure, sources) for name, figure in row.figures.items()},
                }
                for row in self.rows
            ],
        }

    @property
    def names_apart(self) -> bool:
        """Whether the first label is a long name of many rows in turn, such as a contrast: then it is shown
        once above them, and not in each.
        """
        if len(self.heads) < 2 or not self.rows:
            return False
        names = [name for name, _ in groupby(self.rows, key=lambda row: row.labels[0])]
        return _MANY_ROWS * len(names) <= len(self.rows) and max(map(len, names)) > _LONG

    def figure(self, labels: Iterable[str], column: str) -> Figure:
        """One figure of the table. Raises KeyError."""
        wanted = tuple(labels)
        for row in self.rows:
            if row.labels == wanted:
                return row.figures[column]
        raise KeyError(wanted)


_MANY_ROWS: Final = 8
"""The least rows of a name, in the mean, that is shown apart from them."""

_LONG: Final = 40
"""The most letters of a name that is repeated in every row."""

_ITEMS_OF: Final[dict[str, dict[str, Any]]] = {
    **{
        f"{dimension}{followed}{single}": {"dimension": dimension, "followed": bool(followed)}
        for dimension in ("summarisation", "guessing")
        for followed in ("", "_followed")
        for single in ("", "_intentions")
    },
    **{
        f"{dimension}{single}": {"dimension": dimension, "followed": False}
        for dimension in ("selection", "following")
        for single in ("", "_intentions")
    },
    **{
        name: {"dimension": "guessing", "followed": False}
        for name in (
            "guessers",
            "confusions",
            "beliefs",
            "beliefs_intentions",
            "role_guesses",
            "reliability",
        )
    },
}
"""By table. There are too many items to be listed for every figure: those of a figure are the items of this
dimension in the figure's games, as ``_items_of`` describes them."""

_FIELDS: Final = {"guesser": "rater", "intention": "gold", "role": "speaker_role"}
"""What a head, or a group, is called in an item, if not by its own name."""


def _items_of(table: ReportTable, row: TableRow) -> dict[str, Any]:
    """Which items a row's figures count: by field of an item, the values that it may have; and ``rater``, who
    answered or judged them. A field that is no field of an item (``player``, ``place``, ``category``) says it
    in words.
    """
    fields: dict[str, Any] = {}
    labels = dict(zip(table.heads, row.labels, strict=True))
    group = labels.pop("group", "all")
    by = labels.pop("by", "all")
    labels.pop("figure", None)
    labels.pop("named instead", None)
    if "part and stage" in labels:
        part, _, stage = labels.pop("part and stage").partition(", ")
        fields["part"] = part
        if stage != "both stages":
            fields["stage"] = [stage]
    for head, label in [*labels.items(), (by, group)]:
        name = _FIELDS.get(head, head)
        if head == "side" and label in set(Side):
            fields["speaker_role"] = [role.value for role in Role if side_of(role).value == label]
        elif name == "rater":
            fields[name] = label
        elif label not in ("all", "all players"):
            fields[name] = [int(label) if head in ("round", "confidence") else label]
    if by == "intention":
        judged = table.name.startswith(("selection", "following"))
        fields["asked" if judged else "gold or named"] = fields.pop("gold")
    return fields


def _with_words(row: TableRow) -> dict[str, dict[str, str]]:
    words = {label: BY_ID[label].label for label in row.labels if label in BY_ID}
    return {"words": words} if words else {}


@dataclass(frozen=True, slots=True)
class Report:
    """The report on a set of finished games."""

    title: str
    made_of: Mapping[str, Any]
    """The data behind the report: games, items, filters, variants, raters, versions."""
    excluded: Mapping[str, Mapping[str, int]]
    """Counts of what was left out, by the place it is missing from and by reason."""
    tables: tuple[ReportTable, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know about the whole report."""
    notes_on_gold: tuple[str, ...] = ()
    """Notes that reveal what seats recorded."""

    def table(self, name: str) -> ReportTable:
        """The table of this name; an empty one if this report, or this part of it, lacks the table."""
        for table in self.tables:
            if table.name == name:
                return table
        return ReportTable(name, "", "", "", (), ())

    def as_json(self) -> dict[str, Any]:
        """``sources``: every game, and the sets of games to which ``from`` refers. Bit i of a set, the lowest
        first, says whether the i-th game is in it.
        """
        sources = _Sources(self)
        tables = [table.as_json(sources) for table in self.tables]
        return {
            "title": self.title,
            "notes": [*self.notes, *self.notes_on_gold],
            "made_of": dict(self.made_of),
            "excluded": {about: dict(reasons) for about, reasons in self.excluded.items()},
            "tables": tables,
            "sources": {"games": sources.games, "sets": list(sources.sets)},
        }


def public_part(report: Report) -> Report:
    """The part of a report that everybody may see, if its games told everybody their roles: what their public
    records say, and published figures. The figures with excluded games are left out, since which games are
    excluded is not public.
    """
    tables = tuple(_without_excluded(table) for table in report.tables if table.audience == "public")
    made_of = {name: report.made_of[name] for name in _SHOWN_OF if name in report.made_of}
    note = (
        "What public records say of games whose roles are public; whoever may read the games in full "
        "(export:full) gets all tables."
    )
    notes = (*report.notes, note)
    return replace(report, made_of=made_of, excluded={}, tables=tables, notes=notes, notes_on_gold=())


_SHOWN_OF: Final = ("games", "version", "confidence", "intervals", "variant")


def _without_excluded(table: ReportTable) -> ReportTable:
    rows = tuple(
        replace(
            row,
            figures={
                name: replace(figure, with_excluded=None, of_games=None)
                for name, figure in row.figures.items()
            },
        )
        for row in table.rows
        if any(figure.note != ONLY_EXCLUDED for figure in row.figures.values())
    )
    return replace(table, rows=rows, empty=table.empty or ("" if rows else "nothing counted"))


def with_excluded(sound: ReportTable, every: ReportTable) -> ReportTable:
    """The table of the games that count; each figure that the excluded games change has the second one
    beside it. ``every``: the same table of all games, without those that were played anew in place of others.
    """
    seconds = {_place_of(every, row): row for row in every.rows}
    rows = []
    for row in sound.rows:
        second = seconds.pop(_place_of(sound, row), None)
        rows.append(replace(row, figures=_joined(row.figures, {} if second is None else second.figures)))
    rows += [replace(row, figures=_joined({}, row.figures)) for row in seconds.values()]
    columns = (*sound.columns, *(column for column in every.columns if column not in sound.columns))
    return replace(sound, columns=columns, rows=tuple(rows), empty="" if rows else sound.empty)


def _joined(firsts: Mapping[str, Figure], seconds: Mapping[str, Figure]) -> dict[str, Figure]:
    """The figures of a row from those of both tables. What the paper published hangs on no game: it stands
    once.
    """
    figures = dict(firsts)
    for name, first in firsts.items():
        if name not in seconds and first.value is not None and first.method != "published":
            figures[name] = replace(first, with_excluded=nothing(ONLY_WITHOUT))
    for name, second in seconds.items():
        first = figures.get(name, nothing(ONLY_EXCLUDED))
        if second.method == "published":
            figures[name] = second
        elif name not in firsts or _numbers(first) != _numbers(second):
            figures[name] = replace(first, with_excluded=second)
    return figures


def _place_of(table: ReportTable, row: TableRow) -> tuple[str, ...]:
    """The labels of a row, without one that depends on its figures."""
    return tuple(label for head, label in zip(table.heads, row.labels, strict=True) if head != IMPACTFUL_BY)


def _numbers(figure: Figure) -> tuple[float | None, ...]:
    return figure.value, figure.low, figure.high, figure.num, figure.den, figure.games, figure.items


def in_order(tables: Iterable[ReportTable]) -> tuple[ReportTable, ...]:
    """The tables by section; within a section as they come."""
    return tuple(sorted(tables, key=lambda table: SECTIONS.index(table.section)))


# --- the games behind figures -------------------------------------------------------------------------


class _Sources:
    """The games of a report, and the sets of games behind its figures: each is listed once.

    A set is a bit mask in hexadecimal, so that it takes a quarter of a byte for each game, however the games
    are distributed.
    """

    def __init__(self, report: "Report") -> None:
        known = {
            id(of.names): of.names
            for table in report.tables
            for row in table.rows
            for figure in row.figures.values()
            for one in (figure, figure.with_excluded)
            if one is not None and (of := one.of_games) is not None
        }
        self.games = sorted({name for names in known.values() for name in names})
        place = {name: at for at, name in enumerate(self.games)}
        # Of every game of the report the place in each tally; the length of the tally if it is not in it.
        self._positions: dict[int, list[int]] = {}
        for key, names in known.items():
            positions = [len(names)] * len(self.games)
            for at, name in enumerate(names):
                positions[place[name]] = at
            self._positions[key] = positions
        self._found: dict[tuple[int, int], int] = {}
        self.sets: dict[str, int] = {}
        """The number of each set, by its mask."""

    def number(self, of: GameSet) -> int:
        """The place of a set in the report's list."""
        key = id(of.names), of.mask
        if key not in self._found:
            bits = f"{of.mask:0{len(of.names)}b}"[::-1] + "0"
            mask = int("".join([bits[at] for at in reversed(self._positions[key[0]])]) or "0", 2)
            self._found[key] = self.sets.setdefault(f"{mask:x}", len(self.sets))
        return self._found[key]


def _figure_json(figure: Figure, sources: _Sources | None) -> dict[str, Any]:
    """A figure; with ``sources``, ``from`` is the number of the set of its games."""
    values = figure.as_json()
    if sources is None:
        return values
    if figure.of_games is not None:
        values["from"] = sources.number(figure.of_games)
    if figure.with_excluded is not None:
        values["with_excluded"] = _figure_json(figure.with_excluded, sources)
    return values


# --- the order of rows ------------------------------------------------------------------------------

_ORDER: Final[dict[str, int]] = {
    word: place
    for place, word in enumerate(
        (
            "all",
            "both",
            *(f"{part}, {stage}" for part in PARTS for stage in ("both stages", "first", "final")),
            *ASPECTS,
            "part",
            "stage",
            "first",
            "final",
            "place",
            "opener",
            "responder",
            "side",
            *(side.value for side in (Side.LOYAL, Side.EVIL)),
            "role",
            *(role.value for role in Role),
            "round",
            "category",
            "changed",
            "unchanged",
            *(intention.id for intention in CATALOGUE),
        )
    )
}


def place(words: Iterable[str]) -> tuple[tuple[int, int, str], ...]:
    """A sort key for the labels of a row: totals before parts, sides and roles in the order of the rules,
    numbers by value."""
    return tuple(map(_place, words))


def _place(word: str) -> tuple[int, int, str]:
    if word.isdigit():
        return 1, int(word), ""
    return (0, _ORDER[word], "") if word in _ORDER else (2, 0, word)


# --- as CSV --------------------------------------------------------------------------------

COLUMNS: Final = (
    "table",
    "row",
    "column",
    "value",
    "low",
    "high",
    "num",
    "den",
    "games",
    "items",
    "method",
    "design_effect",
    "icc",
    "note",
    "words",
)


def as_csv(report: Report) -> str:
    """A report as one long table with one line per figure; the labels of a row are joined by `` | ``. A
    figure that excluded games change has a second line, whose column ends in ``, with excluded games``.
    ``words`` has the sentences of the intentions that the row names.

    Missing values are empty cells. A label that a spreadsheet would read as a formula is prefixed with a
    quote.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in report.tables:
        for row in table.rows:
            for column, figure in row.figures.items():
                lines = [(column, figure)]
                if figure.with_excluded is not None:
                    lines.append((f"{column}, with excluded games", figure.with_excluded))
                for name, shown in lines:
                    words = " | ".join(BY_ID[label].label for label in row.labels if label in BY_ID)
                    labels, column_ = map(inert, (" | ".join(row.labels), name))
                    writer.writerow([table.name, labels, column_, *_cells(shown), words])
    return out.getvalue()


def _cells(figure: Figure) -> list[Any]:
    values = figure.as_json()
    numbers = ("" if values[name] is None else values[name] for name in COLUMNS[3:-2])
    return [*numbers, inert(figure.note)]
