"""Tables of a report whose rows are what was counted, a figure in each column; and published figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evaluators.report.tables import Audience, Column, ReportTable, TableRow, Unit, place
from evaluators.statistics.figures import Figure, FigureKey, FigureTally, Kind, nothing

__all__ = ["CountedColumn", "counted_rows", "counted_table", "published"]


class CountedColumn(NamedTuple):
    """One column: its name, how it is computed, and its unit."""

    name: str
    kind: Kind = "share"
    unit: Unit = "share"
    counts: str = ""
    """The tally's name for the counts behind it; empty: the column's own name."""
    groups: frozenset[str] | None = None
    """The groups that it is shown for; None: all."""
    empty: str = ""
    """Why the column may be empty, if the reason is not that of the table."""


def counted_rows(
    tally: FigureTally, table: str, heads: Mapping[str, str], columns: Sequence[CountedColumn], empty: str
) -> tuple[TableRow, ...]:
    """A row for every owner, group and label that was counted. ``heads``: which of ``of``, ``group`` and
    ``label`` are shown, and under what name. The totals of all owners come before their parts.
    """
    labels = {(key.of, key.group, key.label) for key in tally.keys(table) if key.makes_row}
    ordered = sorted(labels, key=lambda one: (one[1] != "all", place(one)))
    return tuple(
        TableRow(
            tuple(
                value
                for head, value in zip(("of", "group", "label"), (of, group, label), strict=True)
                if head in heads
            ),
            {
                column.name: tally.figure(
                    FigureKey(table, of, group, label, column.counts or column.name),
                    column.kind,
                    column.empty or empty,
                )
                for column in columns
                if column.groups is None or group in column.groups
            },
        )
        for of, group, label in ordered
    )


def counted_table(
    tally: FigureTally,
    name: str,
    section: str,
    title: str,
    caption: str,
    heads: Mapping[str, str],
    columns: Sequence[CountedColumn],
    *,
    empty: str,
    audience: Audience = "full",
) -> ReportTable:
    """A table whose rows are those that were counted; ``empty`` says why there are none."""
    rows = counted_rows(tally, name, heads, columns, "nothing counted")
    return ReportTable(
        name,
        section,
        title,
        caption,
        tuple(heads.values()),
        tuple(Column(column.name, column.unit) for column in columns),
        rows,
        "" if rows else empty,
        audience,
    )


def published(percent: float | None, note: str = "published") -> Figure:
    """A figure of the paper, given in percent; None: the paper does not have it."""
    if percent is None:
        return nothing("not published")
    return Figure(round(percent / 100, 6), method="published", note=note)
