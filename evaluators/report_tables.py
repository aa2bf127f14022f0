"""The shape of a report: tables of figures, what they were made of, and what was left out.

One form serves every rendering, so that JSON, CSV and page cannot tell different numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from evaluators.figures import Figure, nothing

__all__ = ["LEAST_ITEMS", "Column", "Report", "Row", "Table", "Told", "Unit", "limited", "padded"]

Unit = Literal["share", "number", "count"]
"""share: in [0, 1], shown in percent."""

LEAST_ITEMS: Final = 20
"""Items, and games, that a figure must rest on before somebody is told it who may not see gold."""

Told = Literal["public", "games", "items", "full"]
"""Who may be told a table: ``public`` everybody, since each game shows it to everybody when it is over;
``games``, ``items`` everybody where enough of them stand behind it; ``full`` whoever may see whole logs."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: Unit = "share"


@dataclass(frozen=True, slots=True)
class Row:
    labels: tuple[str, ...]
    """Under the table's ``heads``."""
    figures: Mapping[str, Figure]
    """By column; a column that has no meaning for the row is not in it."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """Stable: what a program asks for."""
    section: str
    title: str
    caption: str
    """How the numbers are made, and of what."""
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    empty: str = ""
    """Why there are no rows; empty where there are."""
    told: Told = "items"
    whole: bool = True
    """Whether rows that differ in their last label alone are parts of a whole: whoever knows the whole and
    all parts but one knows that one too."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "section": self.section,
            "title": self.title,
            "caption": self.caption,
            "heads": list(self.heads),
            "columns": [{"name": one.name, "unit": one.unit} for one in self.columns],
            "empty": self.empty,
            "rows": [
                {
                    "labels": list(row.labels),
                    "figures": {name: figure.as_json() for name, figure in row.figures.items()},
                }
                for row in self.rows
            ],
        }

    def figure(self, labels: Iterable[str], column: str) -> Figure:
        """One figure of the table. Raises KeyError."""
        wanted = tuple(labels)
        for row in self.rows:
            if row.labels == wanted:
                return row.figures[column]
        raise KeyError(wanted)


@dataclass(frozen=True, slots=True)
class Report:
    """What a set of finished games comes to."""

    title: str
    made_of: Mapping[str, Any]
    """Games, items, filters, variants, raters, versions."""
    excluded: Mapping[str, Mapping[str, int]]
    """By what they were left out of, and why; counted."""
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = field(default=())
    """What a reader must know of the whole."""
    notes_on_gold: tuple[str, ...] = field(default=())
    """The same, where it tells what seats recorded."""

    def table(self, name: str) -> Table:
        """Raises KeyError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "notes": [*self.notes, *self.notes_on_gold],
            "made_of": dict(self.made_of),
            "excluded": {about: dict(reasons) for about, reasons in self.excluded.items()},
            "tables": [table.as_json() for table in self.tables],
        }


def limited(report: Report, least: int = LEAST_ITEMS) -> Report:
    """What of a report is told to whoever may not see gold.

    Figures of items that rest on ``least`` of them, public results of games, and published figures. No
    table of single intentions, nothing of who sat where, and not what was left out, which tells of gold.
    Where one row of a breakdown rests on fewer, its whole breakdown goes: the others and the total would
    tell it. What is left says nothing of what is gone, not even whether there was any.
    """
    tables = tuple(_limited(table, least) for table in report.tables if table.told != "full")
    made_of = {name: report.made_of[name] for name in _TOLD_OF if name in report.made_of}
    note = (
        f"Totals over at least {least} items are shown; tables of single intentions, of who sat where "
        "and of what was left out need the scope export:full. Raters: the caller's own."
    )
    notes = (*report.notes, note)
    return replace(report, made_of=made_of, excluded={}, tables=tables, notes=notes, notes_on_gold=())


_TOLD_OF: Final = ("games", "version", "confidence", "intervals", "variant")


def _limited(table: Table, least: int) -> Table:
    if table.told == "public":
        return table
    few = {_part_of(table, row) for row in table.rows if not _enough(row, table.told, least)}
    kept = tuple(row for row in table.rows if _part_of(table, row) not in few)
    empty = "" if kept else f"nothing, or fewer than {least} {table.told}"
    return replace(table, rows=kept, empty=empty)


def _part_of(table: Table, row: Row) -> tuple[str, ...]:
    """Rows that stand or fall together have it in common."""
    return row.labels[:-1] if table.whole else row.labels


def _enough(row: Row, told: Told, least: int) -> bool:
    for one in row.figures.values():
        behind = (one.games if told == "games" else one.items) or 0
        if one.method not in ("published", "count") and behind < least and (one.value is not None or behind):
            return False
    return True


def padded(table: Table) -> Table:
    """The table with a figure in every cell, for renderings that know no gaps."""
    gap = nothing("has no meaning here")
    rows = tuple(
        Row(row.labels, {one.name: row.figures.get(one.name, gap) for one in table.columns})
        for row in table.rows
    )
    return replace(table, rows=rows)
