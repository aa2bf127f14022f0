"""Tables of results: for terminals of 80 columns, and as CSV."""

import csv
import io
import sys
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table

from evaluators.measures.play import MODELS, PlayFigures
from evaluators.report.cells import inert
from evaluators.statistics.figures import Figure

__all__ = ["WIDTH", "metrics_csv", "print_metrics", "print_table"]

WIDTH: Final = 80


def print_table(table: Table) -> None:
    """Prints a table on standard output: as wide as the terminal, and elsewhere, where a program may read it,
    as wide as it is, so that no cell is cut or broken.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not sys.stdout.isatty():
        unbound = console.options.update(width=_UNLIMITED)
        console.width = max(console.measure(table, options=unbound).maximum, WIDTH)
    console.print(table, crop=False)


_UNLIMITED: Final = 100_000


def _measured(figure: Figure) -> tuple[str, str, str]:
    """Share, interval and count, in percent."""
    count = "by role" if figure.den is None else f"{figure.num or 0:.0f}/{figure.den:.0f}"
    if figure.value is None:
        return "-", "", "0/0"
    if figure.low is None or figure.high is None:
        return f"{100 * figure.value:.1f}", "", count
    return f"{100 * figure.value:.1f}", f"{100 * figure.low:.1f}-{100 * figure.high:.1f}", count


def print_metrics(figures: PlayFigures, title: str, console: Console | None = None) -> None:
    """Prints the game metrics of InterIntent, section 3, in percent, with counts and 95 % intervals over
    games.

    Each metric has a line for every side to which it applies. Engagement is the unweighted mean over the
    side's roles, so it has no count of its own.
    """
    console = console or Console(highlight=False)
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for heading, justify in (
        ("metric", "left"),
        ("side", "left"),
        ("%", "right"),
        ("95 %", "right"),
        ("count", "right"),
        *((model, "right") for model in MODELS),
    ):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    before = ""
    for row, side, figure in figures.rows():
        published = []
        for model in MODELS:
            sides = row.published.get(model)
            theirs = None if sides is None else getattr(sides, side)
            published.append("" if theirs is None else f"{theirs:.1f}")
        table.add_row("" if row.label == before else row.label, side, *_measured(figure), *published)
        before = row.label
    console.print(table, width=WIDTH, crop=False)


_CSV: Final = ("value", "low", "high", "num", "den", "games", "method", "design_effect", "icc", "note")


def metrics_csv(groups: Iterable[tuple[str, PlayFigures]]) -> str:
    """The game metrics of each group as CSV, shares in [0, 1]: a line for each metric and side, with counts,
    interval and the published figures. What does not exist is empty.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("group", "metric", "side", *_CSV, *MODELS))
    for group, figures in groups:
        for row, side, figure in figures.rows():
            values = figure.as_json()
            sides = [row.published.get(model) for model in MODELS]
            theirs = [None if one is None else getattr(one, side) for one in sides]
            shown = [values[name] for name in _CSV]
            shown += [None if percent is None else round(percent / 100, 6) for percent in theirs]
            words = inert(group), row.label, side
            writer.writerow((*words, *("" if value is None else value for value in shown)))
    return out.getvalue()
