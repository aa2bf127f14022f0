"""Tables of results for terminals of 80 columns."""

from typing import Final

from rich.console import Console
from rich.table import Table

from evaluators.measures.play import MODELS, PlayFigures
from evaluators.statistics.figures import Figure

__all__ = ["WIDTH", "print_metrics"]

WIDTH: Final = 80


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
