r"""The paper's tables, and the study's, in LaTeX: to be put into a paper with ``\input``.

A file needs the packages booktabs and longtable, and compiles with pdfLaTeX, XeLaTeX and LuaLaTeX. Shares are
percentages; below each figure stands its 95 % interval. Published figures are in italics. A figure without a
number is a dash; the reasons are in the page and in JSON, and so are further p values of contrasts
(``as played: p``).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from textwrap import wrap
from typing import Final

from engine.intentions import BY_ID
from evaluators.report.tables import PAPER, QUESTIONS, Column, Report, ReportTable, TableRow
from evaluators.statistics.figures import Figure

__all__ = ["as_latex", "escaped"]

_PAGE: Final = 34
"""A table of more lines may break over pages."""

_MACROS: Final = (
    # Below each other, with the first line on that of the row.
    r"\providecommand{\withinterval}[2]{\begin{tabular}[t]{@{}r@{}}#1\\ \scriptsize [#2]\end{tabular}}",
    # pdfLaTeX has no letters beyond the Latin ones: it prints their numbers.
    r"\providecommand{\beyondlatin}[2]{\ifdefined\Umathcode #1\else #2\fi}",
)


def as_latex(report: Report) -> str:
    """The tables of the report's first two sections that have rows, one after the other."""
    tables = [table for table in report.tables if table.section in (PAPER, QUESTIONS) and table.rows]
    lines = [
        f"% {_one_line(report.title)}",
        f"% {report.made_of['games']} finished games, InterIntent Server {report.made_of['version']}",
        r"% needs \usepackage{booktabs} and \usepackage{longtable}",
        rf"% intervals are 95 %: {_one_line(report.made_of['intervals'])}",
        *(f"% {_one_line(note)}" for note in (*report.notes, *report.notes_on_gold)),
        *_MACROS,
    ]
    for table in tables:
        lines += ["", *_table(table)]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(table: ReportTable) -> Iterator[str]:
    """The table; one for each long first label that many rows have in common, such as each contrast."""
    table = replace(table, columns=tuple(one for one in table.columns if not one.name.endswith(": p")))
    if not table.names_apart:
        yield from _part(table, "", table.caption)
        return
    heads = table.heads[1:]
    for number, (name, rows) in enumerate(groupby(table.rows, key=lambda row: row.labels[0]), 1):
        cut = tuple(replace(row, labels=row.labels[1:]) for row in rows)
        part = replace(table, name=f"{table.name}-{number}", heads=heads, rows=cut)
        yield from _part(part, name, table.caption if number == 1 else "")


def _part(table: ReportTable, name: str, caption: str) -> Iterator[str]:
    """A table in LaTeX; ``name``: what all of its rows are about, repeated on each page."""
    labels = _label_columns(table)
    columns = "".join(f"p{{{share:.2f}\\linewidth}}" if share else "l" for share in labels)
    columns += "r" * len(table.columns)
    heads = [" & ".join([*map(escaped, table.heads), *map(_head, table.columns)]) + r" \\"]
    if name:
        # As wide as nothing: it must not make the last column wider.
        above = rf"\rlap{{\parbox[t]{{0.9\linewidth}}{{\raggedright\itshape {_label(name)}}}}}"
        heads.insert(0, rf"\multicolumn{{{len(labels) + len(table.columns)}}}{{@{{}}l@{{}}}}{{{above}}} \\")
    stop = "" if table.title.endswith("?") else "."
    size = r"\small\setlength{\tabcolsep}{3pt}"
    if len(table.columns) > _MANY:
        size = r"\scriptsize\setlength{\tabcolsep}{2pt}"
    words = f"{escaped(table.title)}{stop} {escaped(caption)}".strip()
    captioned = rf"\caption{{{words}}}\label{{tab:{table.name}}}"
    body = [_row(table, row, labels) for row in table.rows]
    if sum(_lines(row, labels) for row in table.rows) > _PAGE:
        yield "{" + size + r"\setlength{\LTcapwidth}{\linewidth}"
        yield rf"\begin{{longtable}}{{{columns}}}"
        yield captioned + r" \\"
        yield from (r"\toprule", *heads, r"\midrule", r"\endfirsthead", r"\toprule", *heads, r"\midrule")
        yield from (r"\endhead", r"\bottomrule", r"\endfoot", *body, r"\end{longtable}", "}")
        return
    yield from (r"\begin{table}[tbp]", r"\centering" + size, captioned)
    yield rf"\begin{{tabular}}{{{columns}}}"
    yield from (r"\toprule", *heads, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}")


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


def _label_columns(table: ReportTable) -> list[float]:
    """For each label the part of the line in which it is broken; 0: it is not. Long ones, as the sentences of
    intentions, share what the others and the numbers leave of the line.
    """
    small = len(table.columns) > _MANY
    longest = [
        max(len(_words(label)) for label in labels)
        for labels in zip(*(row.labels for row in table.rows), strict=True)
    ]
    broken = {at for at, letters in enumerate(longest) if letters > _WIDE}
    while True:
        unbroken = {at: letters for at, letters in enumerate(longest) if at not in broken}
        left = 1 - (0.095 if small else 0.105) * len(table.columns) - 0.015 * len(longest)
        left -= sum(unbroken.values()) / (125 if small else 100)
        if left >= 0.15 * len(broken) or not unbroken:
            break
        broken.add(max(unbroken, key=unbroken.__getitem__))
    share = max(0.12, min(0.45, left / len(broken))) if broken else 0
    return [share if at in broken else 0 for at in range(len(longest))]


_WIDE: Final = 26
"""The most letters of a label that is not broken if there is room."""


def _words(label: str) -> str:
    return BY_ID[label].label if label in BY_ID else label


def _label(label: str) -> str:
    """A label that may be broken at the marks within a long name, too."""
    return re.sub(r"(\+|\\_|/)", r"\1\\allowbreak{}", escaped(_words(label)))


def _lines(row: TableRow, labels: list[float]) -> int:
    """About how many lines a row takes."""
    cells = zip(row.labels, labels, strict=True)
    lines = [-(-len(_words(label)) // max(1, int(_LETTERS * share))) for label, share in cells if share]
    return max(2 if any(figure.low is not None for figure in row.figures.values()) else 1, *lines, 0)


_LETTERS: Final = 80
"""About how many letters a line has."""


def _row(table: ReportTable, row: TableRow, labels: list[float]) -> str:
    """A line of the table."""
    names = [
        rf"\raggedright {_label(label)}" if share else escaped(_words(label))
        for label, share in zip(row.labels, labels, strict=True)
    ]
    figures = [_figure(row.figures.get(column.name), column) for column in table.columns]
    return " & ".join([*names, *figures]) + r" \\"


def _figure(figure: Figure | None, column: Column) -> str:
    """A figure, and below it its interval if there is any."""
    value, interval = _value(figure, column), _interval(figure, column)
    return rf"\withinterval{{{value}}}{{{interval}}}" if interval else value


def _value(figure: Figure | None, column: Column) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return "--"
    shown = _number(figure.value, column)
    return rf"\textit{{{shown}}}" if figure.method == "published" else shown


def _interval(figure: Figure | None, column: Column) -> str:
    if figure is None or figure.value is None or figure.low is None or figure.high is None:
        return ""
    return f"{_number(figure.low, column)}, {_number(figure.high, column)}"


def _number(value: float, column: Column) -> str:
    if column.is_tiny(value):
        return "$<$ 0.001"
    if column.unit == "share":
        shown = f"{100 * value:z.1f}"
    else:
        shown = f"{value:z,.0f}" if column.unit == "count" else f"{value:z.3f}"
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
    "—": "---",
    "…": r"\dots{}",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "²": r"\textsuperscript{2}",
    "−": "$-$",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
}


_ACCENTS: Final = frozenset(
    map(chr, (*range(0x300, 0x305), *range(0x306, 0x309), 0x30A, 0x30B, 0x30C, 0x327))
)
"""Grave, acute, circumflex, tilde, macron, breve, dot, diaeresis, ring, double acute, caron, cedilla."""


def _printed(letter: str) -> str:
    """A letter as every LaTeX prints it."""
    base, *accents = list(unicodedata.normalize("NFD", letter))
    if letter.isascii() or letter in "ßæœøÆŒØłŁ" or (base.isascii() and _ACCENTS.issuperset(accents)):
        return letter
    return rf"\beyondlatin{{{letter}}}{{U+{ord(letter):04X}}}"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands, on one line. A leading bracket would be an option of the row
    before it.
    """
    plain = "".join(_SPECIAL.get(letter) or _printed(letter) for letter in _one_line(text))
    return "{}" + plain if plain.startswith(("[", "*")) else plain
