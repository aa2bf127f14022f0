"""A report as one long table: a line a figure."""

import csv
import io
from typing import Final

from evaluators.report_tables import Report

__all__ = ["COLUMNS", "as_csv"]

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
    "note",
)

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def as_csv(report: Report) -> str:
    """Every figure of a report, a line each; a row's labels are joined by `` | ``.

    What is not there is empty. A label with which a spreadsheet would begin a formula gets a quote before it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in report.tables:
        for row in table.rows:
            for column, figure in row.figures.items():
                values = figure.as_json()
                told = ["" if values[name] is None else values[name] for name in COLUMNS[3:]]
                told[-1] = _text(figure.note)
                writer.writerow([table.name, _text(" | ".join(row.labels)), _text(column), *told])
    return out.getvalue()


def _text(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value
