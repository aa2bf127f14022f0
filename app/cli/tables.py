"""Tables of results for terminals of 80 columns."""

from typing import Final

from rich.console import Console
from rich.table import Table

from evaluators.measures.play import MODELS, PlayMetrics
from evaluators.statistics.rates import Rate

__all__ = ["WIDTH", "print_metrics"]

WIDTH: Final = 80


def _measured(value: Rate | float) -> tuple[str, str, str]:
    """Share, interval and count, in percent."""
    if not isinstance(value, Rate):
        return f"{100 * value:.1f}", "by role", ""
    count = f"{value.num}/{value.den}"
    if value.rate is None or value.interval is None:
        return "-", "", count
    low, high = value.interval
    return f"{100 * value.rate:.1f}", f"{100 * low:.1f}-{100 * high:.1f}", count


def print_metrics(metrics: PlayMetrics, title: str, console: Console | None = None) -> None:
    """Prints the game metrics of InterIntent, section 3, in percent, with counts and 95 % intervals.

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
    for row in metrics.table_rows():
        label = row.label
        for side, value in (("loyal", row.loyal), ("evil", row.evil)):
            if value is None:
                continue
            published = []
            for model in MODELS:
                sides = row.published.get(model)
                figure = None if sides is None else getattr(sides, side)
                published.append("" if figure is None else f"{figure:.1f}")
            table.add_row(label, side, *_measured(value), *published)
            label = ""
    console.print(table, width=WIDTH, crop=False)
