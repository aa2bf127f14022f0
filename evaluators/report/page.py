"""A report as a self-contained page without scripts or requests, for light and dark screens, phones and
paper."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from engine.intentions import BY_ID
from evaluators.report.paper import NO_JUDGEMENTS
from evaluators.report.tables import PAPER, SECTIONS, Column, Report, ReportTable, Unit
from evaluators.statistics.figures import Figure

__all__ = ["MISSING", "as_html"]

MISSING: Final = "Plots need the extra reports: pip install altair numpy scipy vl-convert-python"


def as_html(report: Report, *, drawn: bool = True) -> str:
    """The page; ``drawn``: with plots. If they cannot be drawn, the page says how to get them."""
    drawings: Sequence[Any] = ()
    missing = ""
    if drawn:
        try:
            from evaluators.report.plots import plots

            drawings = plots(report)
        except ImportError:
            missing = MISSING
    # A table of the paper keeps its place without numbers, since readers look for it there.
    kept = [table for table in report.tables if table.rows or table.section == PAPER]
    sections = [(section, list(tables)) for section, tables in groupby(kept, key=lambda table: table.section)]
    return _template().render(
        report=report,
        sections=sections,
        first=SECTIONS[:2],
        empty=[table for table in report.tables if table not in kept],
        plots=drawings,
        no_judgements=NO_JUDGEMENTS,
        judged=any(table.name == "judges" and table.rows for table in report.tables),
        notices=[*report.notes, *report.notes_on_gold, *filter(None, [missing])],
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("evaluators.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": _cell,
        "exact": _exact,
        "counts": _counts,
        "together": _together,
        "decided": _decided,
        "in_words": _in_words,
        "words": lambda name: name.replace("_", " "),
        "sentence": lambda label: BY_ID[label].label if label in BY_ID else label,
        "figures_named": _figures_named,
        "svg": _svg,
    }
    return environment.get_template("report.html.j2")


def _figures_named(table: ReportTable) -> str:
    """The names of the figures in one of the paper's tables of many, as the paper has them; empty for others.
    The contents list them, and the plot comes after the numbers.
    """
    if table.name not in ("dimensions", "results", "play"):
        return ""
    return ", ".join(dict.fromkeys(row.labels[0] for row in table.rows if "," not in row.labels[0]))


def _svg(plot: Any) -> Markup:
    """The plot as SVG, with a text for readers who cannot see it. vl-convert draws our own specification and
    escapes all text in it.
    """
    start, svg = plot.svg.split("<svg", 1)
    words = Markup(' role="img" aria-label="{}"').format(plot.words)
    return Markup(start + "<svg") + words + Markup(svg)


def _cell(value: float, column: Column) -> str:
    return "< 0.001" if column.is_tiny(value) else _shown(value, column.unit)


def _shown(value: float, unit: Unit) -> str:
    if unit == "share":
        return f"{100 * value:z.1f}"
    if unit == "count":
        return f"{value:z,.0f}"
    return f"{value:z.3f}"


def _decided(made_of: Mapping[str, Any]) -> str:
    """How many decisions there were, and which of them were played by default, by agent and cause."""
    agents = made_of.get("defaults")
    if not agents:
        return ""
    decisions = sum(counted["decisions"] for counted in agents.values())
    defaults = {
        agent: ", ".join(f"{cause} {n:,}" for cause, n in sorted(counted["defaulted"].items()))
        for agent, counted in agents.items()
        if counted["defaulted"]
    }
    if not defaults:
        return f"{decisions:,} decisions, none by default"
    total = sum(sum(counted["defaulted"].values()) for counted in agents.values())
    words = "; ".join(
        f"{agent}: {causes} of {agents[agent]['decisions']:,}" for agent, causes in defaults.items()
    )
    return f"{decisions:,} decisions, {total:,} by default ({_shown(total / decisions, 'share')} %): {words}"


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _number(value: float) -> str:
    return f"{value:z,.0f}" if float(value).is_integer() else f"{value:z,.2f}"


def _together(figure: Figure) -> str:
    """How much the items of one game depend on each other."""
    return f"design effect {figure.design_effect:.2f}, intraclass correlation {figure.icc:.2f}"


def _counts(figure: Figure) -> str:
    parts = []
    if figure.num is not None and figure.den is not None:
        parts.append(f"{_number(figure.num)}/{_number(figure.den)}")
    elif figure.den is not None:
        parts.append(f"n {_number(figure.den)}")
    if figure.games is not None:
        parts.append(f"{figure.games:,} games" if figure.games != 1 else "1 game")
    if figure.items is not None:
        parts.append(f"{figure.items:,} items" if figure.items != 1 else "1 item")
    return " · ".join(parts)


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_in_words(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return (
            ", ".join(
                _in_words(item) if not isinstance(item, dict) else f"({_in_words(item)})" for item in value
            )
            or "none"
        )
    return "none" if value is None else str(value)
