r"""The paper's tables, and the study's, in LaTeX: to be put into a paper with ``\input``.

A file needs the packages booktabs and longtable. Shares are percentages; below each figure stands its 95 %
interval. Published figures are in italics. A figure without a number is a dash; the reasons are in the page
and in JSON, and so are further p values of contrasts (``as played: p``).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap
from typing import Final

from engine.intentions import BY_ID
from evaluators.report.tables import PAPER, QUESTIONS, Column, Report, ReportTable, TableRow, Unit
from evaluators.statistics.figures import Figure

__all__ = ["as_latex", "escaped"]

_SHORT: Final = 30
"""A table with more rows may break over pages."""


def as_latex(report: Report) -> str:
    """The tables of the report's first two sections that have rows, one after the other."""
    tables = [table for table in report.tables if table.section in (PAPER, QUESTIONS) and table.rows]
    lines = [
        f"% {_one_line(report.title)}",
        f"% {report.made_of['games']} finished games, InterIntent Server {report.made_of['version']}",
        r"% needs \usepackage{booktabs} and \usepackage{longtable}",
        rf"% intervals are 95 %: {_one_line(report.made_of['intervals'])}",
        *(f"% {_one_line(note)}" for note in (*report.notes, *report.notes_on_gold)),
    ]
    for table in tables:
        lines += ["", *_table(table)]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(table: ReportTable) -> Iterator[str]:
    table = replace(table, columns=tuple(one for one in table.columns if not one.name.endswith(": p")))
    columns = "".join(_label_columns(table)) + "r" * len(table.columns)
    heads = [*map(escaped, table.heads), *map(_head, table.columns)]
    head = " & ".join(heads) + r" \\"
    stop = "" if table.title.endswith("?") else "."
    size = r"\small\setlength{\tabcolsep}{3pt}"
    if len(table.columns) > _MANY:
        size = r"\scriptsize\setlength{\tabcolsep}{2pt}"
    caption = rf"\caption{{{escaped(table.title)}{stop} {escaped(table.caption)}}}\label{{tab:{table.name}}}"
    body = [line for row in table.rows for line in _row(table, row)]
    if len(table.rows) > _SHORT:
        yield "{" + size
        yield rf"\begin{{longtable}}{{{columns}}}"
        yield caption + r" \\"
        yield from (r"\toprule", head, r"\midrule", r"\endfirsthead", r"\toprule", head, r"\midrule")
        yield from (r"\endhead", r"\bottomrule", r"\endfoot", *body, r"\end{longtable}", "}")
        return
    yield from (r"\begin{table}[tbp]", r"\centering" + size, caption)
    yield rf"\begin{{tabular}}{{{columns}}}"
    yield from (r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _head(column: Column) -> str:
    """The name of a column, in several lines if it is long."""
    lines = [escaped(line) for line in wrap(column.name, _NARROW, break_long_words=False)]
    if column.unit == "share":
        lines[-1] += r" \%"
    return lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r"\\".join(lines) + "}"


_MANY: Final = 7
"""With more columns of numbers, a table is set in smaller letters."""

_NARROW: Final = 10
"""The letters of a line of a column's name."""


def _label_columns(table: ReportTable) -> Iterator[str]:
    """Long labels, as the sentences of intentions, are broken within what the numbers leave of the line."""
    for at in range(len(table.heads)):
        longest = max(len(_words(row.labels[at])) for row in table.rows)
        share = max(0.2, min(0.5, 1 - 0.1 * len(table.columns)))
        yield "l" if longest <= _WIDE else rf"p{{{share / len(table.heads):.2f}\linewidth}}"


_WIDE: Final = 26
"""The most letters of a label that is never broken."""


def _words(label: str) -> str:
    return BY_ID[label].label if label in BY_ID else label


def _row(table: ReportTable, row: TableRow) -> Iterator[str]:
    """The figures of a row, and below them their intervals if there is any."""
    held = [(row.figures.get(column.name), column.unit) for column in table.columns]
    names = [escaped(_words(label)) for label in row.labels]
    yield " & ".join([*names, *(_value(figure, unit) for figure, unit in held)]) + r" \\"
    intervals = [_interval(figure, unit) for figure, unit in held]
    if any(intervals):
        yield " & ".join([*[""] * len(names), *intervals]) + r" \\"


def _value(figure: Figure | None, unit: Unit) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return "--"
    shown = _number(figure.value, unit)
    return rf"\textit{{{shown}}}" if figure.method == "published" else shown


def _interval(figure: Figure | None, unit: Unit) -> str:
    if figure is None or figure.value is None or figure.low is None or figure.high is None:
        return ""
    return rf"{{\scriptsize [{_number(figure.low, unit)}, {_number(figure.high, unit)}]}}"


def _number(value: float, unit: Unit) -> str:
    if unit == "share":
        shown = f"{100 * value:z.1f}"
    else:
        shown = f"{value:,.0f}" if unit == "count" else f"{value:z.3f}"
    return f"${shown}$" if shown.startswith("-") else shown


_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    "–": "--",
    "²": r"\textsuperscript{2}",
    "−": "$-$",
    "\u2019": "'",
}
_MARK: Final = re.compile("[" + re.escape("".join(_SPECIAL)) + "]")


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands, on one line. A leading bracket would be an option of the row
    before it.
    """
    plain = _MARK.sub(lambda mark: _SPECIAL[mark[0]], _one_line(text))
    return "{}" + plain if plain.startswith(("[", "*")) else plain
