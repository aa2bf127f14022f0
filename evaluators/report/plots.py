"""The plots of a report, as SVG: the paper's figures, and ours.

This module needs altair and vl-convert-python, the extra ``reports``; ``page`` imports it only to draw plots.
A plot shows the numbers of a table and nothing else.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from evaluators.report.contrasts import CONTRASTS
from evaluators.report.tables import Report, ReportTable
from evaluators.statistics.figures import Figure

__all__ = ["Plot", "PlotFiles", "plot_files", "plots"]


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot."""

    name: str
    table: str
    """The table whose numbers it shows."""
    title: str
    svg: str
    """To stand within a page, whose text colour it takes."""
    words: str
    """What it shows, for those who do not see it."""


def plots(report: Report) -> tuple[Plot, ...]:
    """Every plot that the report has numbers for. Raises ImportError without vl-convert-python."""
    import vl_convert

    return tuple(
        # The chart's own colours suit paper; text and lines take the colour of the page, light or dark.
        Plot(name, table, title, _inline(vl_convert.vegalite_to_svg(spec)), _words(title, spec))
        for name, table, title, spec in _drawn(report, _TEXT)
    )


@dataclass(frozen=True, slots=True)
class PlotFiles:
    """A plot as files that stand alone, with black text."""

    name: str
    svg: str
    pdf: bytes


def plot_files(report: Report) -> Iterator[PlotFiles]:
    """Every plot as SVG and PDF, one after the other. Raises ImportError without vl-convert-python."""
    import vl_convert

    for name, _, _, spec in _drawn(report, "#000000"):
        yield PlotFiles(name, vl_convert.vegalite_to_svg(spec), _settled(vl_convert.vegalite_to_pdf(spec)))


def _settled(pdf: bytes) -> bytes:
    """The same PDF for the same plot. vl-convert lists the resources of a page in an order that differs from
    time to time; sorted, they take as many bytes, so no place in the file moves.
    """
    return _RESOURCES.sub(lambda run: b"".join(sorted(run[0].splitlines(keepends=True))), pdf)


_RESOURCES: Final = re.compile(rb"(?:^ +/[a-z]+\d+ [^\n]*\d 0 R\]?\n){2,}", re.MULTILINE)
"""Resources of a page, a line for each: ``/fo0 1 0 R`` or ``/cs0 [/ICCBased 7 0 R]``."""


def _drawn(report: Report, ink: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Name, table, title and specification of every plot."""
    for draw in _CHARTS:
        for name, table, title, chart in draw(report):
            spec = _in_xml(chart.to_dict(validate=False))
            spec["config"] = _config(ink)
            spec["background"] = None
            # The reader's font may be wider than the one that measured the labels.
            spec["padding"] = {"left": 16, "top": 5, "right": 20, "bottom": 5}
            yield name, table, title, spec


def _in_xml(value: Any) -> Any:
    """The same, with characters escaped that no SVG may hold: vl-convert would end the whole process."""
    if isinstance(value, str):
        return _NOT_IN_XML.sub(lambda one: rf"\u{ord(one[0]):04x}", value)
    if isinstance(value, dict):
        return {name: _in_xml(one) for name, one in value.items()}
    return [_in_xml(one) for one in value] if isinstance(value, list) else value


_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Source: Extensible Markup Language (XML) 1.0, fifth edition, section 2.2, Char."""

_MOST_POINTS: Final = 40
"""The most points that a plot's words tell."""


def _words(title: str, spec: dict[str, Any]) -> str:
    """The title and the first points of a plot."""
    values = [value for named in spec.get("datasets", {}).values() for value in named]
    values += [
        value for one in (spec, *spec.get("layer", ())) for value in one.get("data", {}).get("values", ())
    ]
    points = []
    for value in values:
        names = ", ".join(str(value[name]) for name in value if name not in ("value", "low", "high", "place"))
        points.append(f"{names}: {100 * value['value']:.1f} %")
    points = list(dict.fromkeys(points))
    more = f"; and {len(points) - _MOST_POINTS} more" if len(points) > _MOST_POINTS else ""
    return f"{title}. {'; '.join(points[:_MOST_POINTS])}{more}. The table below has every number."


# A placeholder for the text colour of the page, which no chart can name.
_TEXT: Final = "#123457"


def _config(ink: str) -> dict[str, Any]:
    # One font, since a PDF lists several in an order that differs from time to time.
    text = {"labelColor": ink, "titleColor": ink, "titleFontWeight": "normal"}
    return {
        "font": "sans-serif",
        "view": {"stroke": None},
        "axis": {**text, "domainColor": ink, "tickColor": ink, "gridColor": "#88888844", "labelLimit": 210},
        # Below the plot, so that it is not wider than a narrow screen can show.
        "legend": {**text, "labelLimit": 260, "orient": "bottom", "columns": 2},
        "header": {**text, "labelFontWeight": "normal"},
        "title": {"color": ink},
        "rule": {"color": ink},
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


_WIDTH: Final = 220
"""Of every plot without its labels: with them, a telephone shows it without shrinking it."""


def _named(line: str = "") -> alt.Axis:
    """An axis of names, with long ones in several lines, like ``line``."""
    broken = rf"split(replace(datum.label, regexp('{line or _LINE}', 'g'), '$1\n'), '\n')"
    limit = 130 if not line else 210
    return alt.Axis(labelExpr=broken, labelLimit=limit, labelLineHeight=_LINE_HEIGHT)


_LINE: Final = "(.{12,20}?) "
"""A line of a long name."""

_WIDE_LINE: Final = "(.{22,32}?) "
"""A line of a long name where there are so many that their height matters more than their width."""

_LINE_HEIGHT: Final = 11


def _step(names: Iterable[str], least: int, line: str = "") -> int:
    """The height of a row in which the longest of these names finds room."""
    lines = max((len(re.findall(line or _LINE, name)) + 1 for name in names), default=1)
    return max(least, _LINE_HEIGHT * (lines + 1))


_SCORE_COLOURS: Final = ["#b2182b", "#ef8a62", "#d0d0d0", "#67a9cf", "#2166ac"]
_COLOURS: Final = ["#3b7dd8", "#c46f16", "#268a5c", "#b45fb4", "#c23b3b", "#7a7a7a", "#95791d", "#1f8f94"]


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
            alt.Chart(
                _data(points), width=_WIDTH, height=alt.Step(_step((str(one["of"]) for one in points), 28))
            )
            .mark_bar()
            .encode(
                _percent("x", "share of scores", stack="zero"),
                alt.Y("of:N", title=None, axis=_named()),
                alt.Color("score:N", scale=alt.Scale(domain=scores, range=_SCORE_COLOURS), title="score"),
                alt.Order("score:N"),
            )
        )
        yield "following", "following", "Following scores", chart


def _over_rounds(report: Report) -> Iterator[Chart]:
    table = report.table("history")
    points = [
        _point(figure, guesser=labels[0], history=column.name, round=labels[1])
        for column in table.columns
        for labels, figure in _rows(table, column.name)
        if labels[1] != "all" and not labels[0].endswith("only what was followed")
    ]
    if points:
        base = alt.Chart(_data(points), width=_WIDTH, height=260).encode(
            # Said here, since a legend of dashes is lost beside one of colours.
            alt.X("round:O", title="round (dashed: without history)", axis=alt.Axis(labelAngle=0)),
            alt.Color("guesser:N", title=None, scale=alt.Scale(range=_COLOURS)),
        )
        value = _percent("y", "F1", scale=alt.Scale(domain=[0, 1]))
        names = [column.name for column in table.columns]
        dash = alt.StrokeDash("history:N", scale=alt.Scale(domain=names, range=_DASHES), legend=None)
        shape = alt.Shape(
            "history:N", scale=alt.Scale(domain=names, range=["circle", "triangle-up"]), legend=None
        )
        chart = (
            base.mark_line().encode(value, dash)
            + base.mark_point(filled=True, size=60, opacity=1).encode(value, shape)
            + base.mark_rule(opacity=0.6).encode(alt.Y("low:Q", title="F1"), alt.Y2("high:Q"))
        )
        yield "rounds_f1", "history", table.title, chart


_DASHES: Final = [[1, 0], [5, 4]]


def _guessers(report: Report) -> Iterator[Chart]:
    table = report.table("guessers")
    points = [_point(figure, label=labels[0], by=labels[1]) for labels, figure in _rows(table, "f1")]
    if any(not point["label"].endswith(", published") for point in points):
        yield "guessers_plot", table.name, table.title, _with_intervals(points, "F1")


def _people(report: Report) -> Iterator[Chart]:
    table = report.table("people")
    points = [
        _point(figure, label=labels[0], by=labels[1]) for labels, figure in _rows(table, "people minus model")
    ]
    if any(not point["by"].endswith(", published") for point in points):
        title = "People minus model: F1"
        yield "people_plot", table.name, title, _with_intervals(points, "difference", domain=(-1, 1))


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
            alt.Chart(_data(points), width=_WIDTH, height=alt.Step(18))
            .mark_bar()
            .encode(
                _percent("x", "share of quests and games", stack="zero"),
                alt.Y("won:N", title=None),
                alt.Row(
                    "r:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left", labelPadding=24)
                ),
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
        base = alt.Chart(_data(points), width=_WIDTH, height=_WIDTH).encode(
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


def _with_intervals(
    points: list[dict[str, Any]], what: str, domain: tuple[float, float] = (0, 1), line: str = ""
) -> alt.LayerChart:
    """Points with their intervals, one line each, beside published points without intervals. The points of a
    name stand around it, however many it has. ``line``: that of a long name.
    """
    of_name = Counter(point["label"] for point in points)
    room = max(of_name.values()) / 2 + 0.4
    before: Counter[str] = Counter()
    for point in points:
        point["place"] = before[point["label"]] - (of_name[point["label"]] - 1) / 2
        before[point["label"]] += 1
    least = 22 if line else 34
    step = {"step": _step((point["label"] for point in points), least, line), "for": "position"}
    # One colour has nothing to tell apart.
    legend = alt.Undefined if len({point["by"] for point in points}) > 1 else None
    base = alt.Chart(_data(points), width=_WIDTH, height=alt.Step.from_dict(step)).encode(
        alt.Y("label:N", title=None, sort=None, axis=_named(line)),
        alt.YOffset("place:Q", scale=alt.Scale(domain=[-room, room])),
        alt.Color("by:N", title=None, scale=alt.Scale(range=_COLOURS), sort=None, legend=legend),
    )
    shape = alt.Shape("by:N", sort=None, legend=None)
    layers: alt.LayerChart = base.mark_rule(strokeWidth=2).encode(
        alt.X("low:Q", title=what), alt.X2("high:Q")
    ) + base.mark_point(filled=True, size=70, opacity=1).encode(
        _percent("x", what, scale=alt.Scale(domain=list(domain))), shape
    )
    return layers


def _beside_published(report: Report, name: str, title: str) -> Iterator[Chart]:
    table = report.table(name)
    points = [
        _point(figure, label=", ".join(row.labels), by=column)
        for row in table.rows
        for column, figure in row.figures.items()
        if figure.value is not None and column not in ("chance", "ceiling")
    ]
    if any(point["by"] == "ours" for point in points):
        yield f"{name}_plot", name, title, _with_intervals(points, "%")


def _published(report: Report) -> Iterator[Chart]:
    yield from _beside_published(report, "dimensions", "The four dimensions beside the published figures")
    yield from _beside_published(report, "results", "Results beside the published figures")
    yield from _beside_published(report, "play", "How the sides play, beside the published figures")


def _contrasts(report: Report) -> Iterator[Chart]:
    """A plot for each contrast."""
    by_contrast: dict[str, list[dict[str, Any]]] = {}
    for (asked, measure), figure in _rows(report.table(CONTRASTS), "difference"):
        by_contrast.setdefault(asked, []).append(_point(figure, label=measure, by=asked))
    for number, (asked, points) in enumerate(by_contrast.items(), 1):
        chart = _with_intervals(points, "difference", domain=(-1, 1), line=_WIDE_LINE)
        yield f"contrast_{number}", CONTRASTS, f"Differences: {asked}", chart


def _columns(
    name: str, title: str, columns: tuple[str, ...], what: str, label: str = "{}"
) -> Callable[[Report], Iterator[Chart]]:
    """The chart of several columns of one table."""

    def chart(report: Report) -> Iterator[Chart]:
        points = [
            _point(figure, label=label.format(labels[0]), by=column)
            for column in columns
            for labels, figure in _rows(report.table(name), column)
        ]
        if points:
            yield name, name, title, _with_intervals(points, what)

    return chart


_CHARTS: Final[tuple[Callable[[Report], Iterator[Chart]], ...]] = (
    _published,
    _contrasts,
    _following,
    _guessers,
    _people,
    _over_rounds,
    _link,
    _columns("roles", "Roles on quests and in won games", ("on quests", "games won"), "share"),
    _columns(
        "rounds", "Results by round", ("succeeded", "evil on team", "first approved"), "share", "round {}"
    ),
    _reliability,
    _columns("standings", "Win rates of the agents", ("as loyal", "as evil"), "games won"),
)
