"""The plots of a report, as SVG: the paper's figures, and ours.

This module needs altair and vl-convert-python, the extra ``reports``; ``page`` imports it only to draw plots.
A plot shows the numbers of a table and nothing else.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from evaluators.report.tables import Report, ReportTable
from evaluators.statistics.figures import Figure

__all__ = ["Plot", "plots"]


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot."""

    name: str
    table: str
    """The table whose numbers it shows."""
    title: str
    svg: str


def plots(report: Report) -> tuple[Plot, ...]:
    """Every plot that the report has numbers for. Raises ImportError without vl-convert-python."""
    import vl_convert

    drawings = []
    for draw in _CHARTS:
        for name, table, title, chart in draw(report):
            # The chart's own colours suit paper; text and lines take the colour of the page, light or dark.
            spec = chart.to_dict(validate=False)
            spec["config"] = _CONFIG
            spec["background"] = None
            # The reader's font may be wider than the one that measured the labels.
            spec["padding"] = {"left": 48, "top": 5, "right": 24, "bottom": 5}
            drawings.append(Plot(name, table, title, _inline(vl_convert.vegalite_to_svg(spec))))
    return tuple(drawings)


# A placeholder for the text colour of the page, which no chart can name.
_TEXT: Final = "#123457"
_CONFIG: Final[dict[str, Any]] = {
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _TEXT,
        "titleColor": _TEXT,
        "domainColor": _TEXT,
        "tickColor": _TEXT,
        "gridColor": "#88888844",
        "labelLimit": 240,
    },
    "legend": {"labelColor": _TEXT, "titleColor": _TEXT, "labelLimit": 240},
    "header": {"labelColor": _TEXT, "titleColor": _TEXT},
    "title": {"color": _TEXT},
    "rule": {"color": _TEXT},
}


def _inline(svg: str) -> str:
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    return svg.replace(_TEXT, "currentColor")


Chart = tuple[str, str, str, Any]
"""Name, table, title, Altair chart."""


def _rows(table: ReportTable, column: str) -> Iterator[tuple[tuple[str, ...], Figure]]:
    for row in table.rows:
        figure = row.figures.get(column)
        if figure is not None and figure.value is not None:
            yield row.labels, figure


def _point(figure: Figure, **names: str) -> dict[str, Any]:
    value = figure.value
    return {
        **names,
        "value": value,
        "low": value if figure.low is None else figure.low,
        "high": value if figure.high is None else figure.high,
    }


def _data(points: list[dict[str, Any]]) -> Any:
    return alt.InlineData(values=points)


def _percent(axis: str, title: str, **kwargs: Any) -> alt.X | alt.Y:
    channel = alt.X if axis == "x" else alt.Y
    return channel("value:Q", title=title, axis=alt.Axis(format=".0%"), **kwargs)


_SCORE_COLOURS: Final = ["#b2182b", "#ef8a62", "#d0d0d0", "#67a9cf", "#2166ac"]
_COLOURS: Final = ["#3b7dd8", "#d9822b", "#2e9e6b", "#b45fb4", "#c23b3b", "#7a7a7a", "#a88b2a", "#2aa3a8"]


def _following(report: Report) -> Iterator[Chart]:
    scores = [str(score) for score in range(1, 6)]
    points = [
        {"of": labels[0], "score": score, "value": figure.value}
        for score in scores
        for labels, figure in _rows(report.table("following"), score)
        if labels[1:] == ("all", "all") and "both" not in labels[0]
    ]
    if points:
        chart = (
            alt.Chart(_data(points), width=420, height=alt.Step(28))
            .mark_bar()
            .encode(
                _percent("x", "share of scores", stack="zero"),
                alt.Y("of:N", title=None),
                alt.Color("score:N", scale=alt.Scale(domain=scores, range=_SCORE_COLOURS), title="score"),
                alt.Order("score:N"),
            )
        )
        yield "following", "following", "Following scores", chart


def _over_rounds(report: Report) -> Iterator[Chart]:
    points = []
    for name in ("guessing", "guessing_followed", "summarisation"):
        points += [
            _point(
                figure,
                rater=f"{labels[0]}, {name.replace('_', ', ')}",
                round=labels[2],
            )
            for labels, figure in _rows(report.table(name), "f1")
            if labels[1] == "round"
        ]
    points += [
        _point(figure, rater="beliefs while playing", round=labels[1])
        for labels, figure in _rows(report.table("beliefs"), "f1")
        if labels[0] == "round"
    ]
    if points:
        base = alt.Chart(_data(points), width=420, height=260).encode(
            alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0)),
            alt.Color("rater:N", title=None, scale=alt.Scale(range=_COLOURS)),
        )
        value = _percent("y", "F1", scale=alt.Scale(domain=[0, 1]))
        chart = base.mark_line(point=True).encode(value) + base.mark_rule(opacity=0.6).encode(
            alt.Y("low:Q", title="F1"), alt.Y2("high:Q")
        )
        yield "rounds_f1", "guessing", "Reading intentions, over the rounds", chart


def _link(report: Report) -> Iterator[Chart]:
    relations = ("above", "below", "equal")
    points = [
        {"r": ", ".join((measure, *by)), "won": labels[1], "evil": relation, "value": figure.value}
        for relation in relations
        for labels, figure in _rows(report.table("link"), relation)
        for measure, per, *by in [labels[0].split(", ", 2)]
        if per == "per teammates"
    ]
    if points:
        chart = (
            alt.Chart(_data(points), width=360, height=alt.Step(18))
            .mark_bar()
            .encode(
                _percent("x", "share of quests and games", stack="zero"),
                alt.Y("won:N", title=None),
                alt.Row("r:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
                alt.Color(
                    "evil:N",
                    title="evil's r against loyal's",
                    scale=alt.Scale(domain=list(relations), range=["#c23b3b", "#3b7dd8", "#b0b0b0"]),
                ),
            )
        )
        yield "link", "link", "Understanding and winning", chart


def _reliability(report: Report) -> Iterator[Chart]:
    points = []
    for row in report.table("reliability").rows:
        right, stated = row.figures["right"], row.figures["stated"]
        if right.value is not None and stated.value is not None:
            points.append({**_point(right, rater=row.labels[0]), "stated": stated.value})
    if points:
        base = alt.Chart(_data(points), width=320, height=320).encode(
            alt.X("stated:Q", title="stated", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            alt.Color("rater:N", title=None, scale=alt.Scale(range=_COLOURS)),
        )
        ideal = (
            alt.Chart(_data([{"stated": 0, "value": 0}, {"stated": 1, "value": 1}]))
            .mark_line(strokeDash=[4, 4], color="#888888")
            .encode(alt.X("stated:Q"), alt.Y("value:Q"))
        )
        chart = (
            ideal
            + base.mark_rule(opacity=0.6).encode(alt.Y("low:Q", title="right"), alt.Y2("high:Q"))
            + base.mark_line(point=True).encode(_percent("y", "right", scale=alt.Scale(domain=[0, 1])))
        )
        yield "reliability", "reliability", "Reliability of stated confidence", chart


def _with_intervals(points: list[dict[str, Any]], what: str) -> alt.LayerChart:
    """Points with their intervals, one line each, beside published points without intervals."""
    base = alt.Chart(
        _data(points), width=420, height=alt.Step.from_dict({"step": 34, "for": "position"})
    ).encode(
        alt.Y("label:N", title=None, sort=None),
        alt.YOffset("by:N", sort=None),
        alt.Color("by:N", title=None, scale=alt.Scale(range=_COLOURS), sort=None),
    )
    shape = alt.Shape("by:N", sort=None, legend=None)
    layers: alt.LayerChart = base.mark_rule(strokeWidth=2).encode(
        alt.X("low:Q", title=what), alt.X2("high:Q")
    ) + base.mark_point(filled=True, size=70, opacity=1).encode(
        _percent("x", what, scale=alt.Scale(domain=[0, 1])), shape
    )
    return layers


def _beside_published(report: Report, name: str, title: str) -> Iterator[Chart]:
    table = report.table(name)
    points = [
        _point(figure, label=", ".join(labels), by=column.name)
        for column in table.columns
        for labels, figure in _rows(table, column.name)
    ]
    if any(point["by"] == "ours" for point in points):
        yield f"{name}_plot", name, title, _with_intervals(points, "%")


def _published(report: Report) -> Iterator[Chart]:
    yield from _beside_published(report, "dimensions", "The four dimensions beside the published figures")
    yield from _beside_published(report, "results", "Results beside the published figures")
    yield from _beside_published(report, "play", "How the sides play, beside the published figures")


def _columns(
    name: str, title: str, columns: tuple[str, ...], what: str, label: str = "{}"
) -> Callable[[Report], Iterator[Chart]]:
    """The chart of several columns of one table, which a limited report may lack."""

    def chart(report: Report) -> Iterator[Chart]:
        points = [
            _point(figure, label=label.format(labels[0]), by=column)
            for table in report.tables
            if table.name == name
            for column in columns
            for labels, figure in _rows(table, column)
        ]
        if points:
            yield name, name, title, _with_intervals(points, what)

    return chart


_CHARTS: Final[tuple[Callable[[Report], Iterator[Chart]], ...]] = (
    _published,
    _following,
    _over_rounds,
    _link,
    _columns("roles", "Roles on quests and in won games", ("on quests", "games won"), "share"),
    _columns(
        "rounds", "Results by round", ("succeeded", "evil on team", "first approved"), "share", "round {}"
    ),
    _reliability,
    _columns("standings", "Win rates of the agents", ("as loyal", "as evil"), "games won"),
)
