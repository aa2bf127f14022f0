"""Results as tables on a terminal."""

from rich.console import Console
from rich.table import Table

from evaluators.play import MODELS, PlayMetrics, Rate, Sides

__all__ = ["print_metrics"]


def _ours(value: Rate | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, Rate):
        if value.rate is None or value.interval is None:
            return "- (0)"
        low, high = value.interval
        return f"{100 * value.rate:5.1f}  [{100 * low:.1f}, {100 * high:.1f}]  {value.num}/{value.den}"
    return f"{100 * value:5.1f}  mean over roles"


def _published(sides: Sides | None) -> str:
    if sides is None:
        return ""
    return " / ".join("-" if value is None else f"{value:.1f}" for value in sides)


def print_metrics(metrics: PlayMetrics, title: str, console: Console | None = None) -> None:
    """The game metrics of InterIntent, section 3, in percent, with counts and 95 % intervals."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("%")
    table.add_column("loyal [95 %]  n")
    table.add_column("evil [95 %]  n")
    for model in MODELS:
        table.add_column(f"{model}\nloyal / evil", justify="right", style="dim")
    for row in metrics.table_rows():
        table.add_row(
            row.label, _ours(row.loyal), _ours(row.evil), *(_published(row.published.get(m)) for m in MODELS)
        )
    (console or Console()).print(table)
