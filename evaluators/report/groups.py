"""Groups of games or seats side by side: tables of a report with one column per group."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from evaluators.dataset.metrics import OWN_METRICS
from evaluators.report.tables import GROUPS, Column, ReportTable, TableRow, Unit, place
from evaluators.statistics.contrasts import FEW
from evaluators.statistics.figures import FigureKey, FigureTally, Kind

__all__ = ["side_by_side"]

_HEADLINES: Final[tuple[tuple[str, FigureKey, Kind], ...]] = (
    ("loyal wins", FigureKey("play", "", "win rate", "loyal", "share"), "share"),
    ("quests succeed", FigureKey("play", "", "quest win rate", "loyal", "share"), "share"),
    ("seats won as loyal", FigureKey("seats", "", "seats won", "loyal", "share"), "share"),
    ("seats won as evil", FigureKey("seats", "", "seats won", "evil", "share"), "share"),
    ("selection accuracy", FigureKey("selection", "", "all", "all", "accuracy"), "share"),
    ("responses rated good", FigureKey("responses", "", "all", "all", "good"), "share"),
    ("beliefs: intentions F1", FigureKey("beliefs", "beliefs", "all", "all", "f1"), "f1"),
    ("beliefs: roles right", FigureKey("role_guesses", "beliefs", "all", "all", "accuracy"), "share"),
    ("modification changes the choice", FigureKey("correction", "", "all", "all", "changed"), "share"),
    (
        "speeches that the record refutes",
        FigureKey("hallucination", "", "all", "all", "speeches with one"),
        "share",
    ),
)
"""The headline figures: label, key, and how each is computed."""


class _Compared(NamedTuple):
    """One table of the report, laid out by group."""

    table: str
    title: str
    heads: tuple[str, ...]
    """The names of the last parts of ``of``, ``group``, ``label`` that its rows have."""
    kinds: Mapping[str, Kind]
    """How each column is computed."""
    groups: frozenset[str] | None = None
    """The breakdowns that are shown; None: all of them."""
    unit: Unit = "share"


_WHO: Final = frozenset({"all", "stage", "side", "role", "round"})
_F1: Final[Mapping[str, Kind]] = {"f1": "f1"}
_SCORES: Final[Mapping[str, Kind]] = {str(score): "share" for score in range(1, 6)}

_COMPARED: Final = (
    _Compared("seats", "Seats: games won", ("measure", "side"), {"share": "share"}),
    _Compared("play", "Results, and how the sides play", ("metric", "side"), {"share": "share"}),
    _Compared(
        "rounds",
        "Results by round",
        ("by", "round"),
        dict.fromkeys(
            ("played", "succeeded", "evil_on_team", "forced", "first_approved", "changed"), "share"
        ),
    ),
    _Compared("selection", "Selection", ("by", "group"), {"accuracy": "share"}, _WHO),
    _Compared(
        "following",
        "Following: share of each score",
        ("part and stage", "by", "group"),
        {**_SCORES, "good": "share"},
        _WHO,
    ),
    _Compared(
        "following",
        "Following: mean score",
        ("part and stage", "by", "group"),
        {"mean": "score"},
        _WHO,
        "number",
    ),
    _Compared("summarisation", "Summarisation", ("rater", "by", "group"), _F1, _WHO),
    _Compared(
        "summarisation_followed", "Summarisation, only what was followed", ("rater", "by", "group"), _F1, _WHO
    ),
    _Compared("guessing", "Guessing", ("rater", "by", "group"), _F1, _WHO),
    _Compared("guessing_followed", "Guessing, only what was followed", ("rater", "by", "group"), _F1, _WHO),
    _Compared("beliefs", "Beliefs recorded while playing", ("rater", "by", "group"), _F1, _WHO),
    _Compared("role_guesses", "Role guesses", ("rater", "by", "group"), {"accuracy": "share"}),
    _Compared("correction", "Self-correction: how often", ("by", "group"), {"changed": "share"}),
    _Compared(
        "correction_worth",
        "Self-correction: better or worse",
        ("aspect", "turns"),
        {"better": "share", "worse": "share"},
    ),
    _Compared(
        "correction_worth",
        "Self-correction: mean change",
        ("aspect", "turns"),
        {"mean change": "mean"},
        None,
        "number",
    ),
    _Compared(OWN_METRICS, "Metrics of installed packages", ("metric", "by", "group"), {"share": "share"}),
    _Compared(
        OWN_METRICS,
        "Metrics of installed packages: values",
        ("metric", "by", "group"),
        {"value": "mean"},
        None,
        "number",
    ),
    _Compared(
        "hallucination",
        "Statements that the record refutes",
        ("by", "group"),
        {"speeches with one": "share", "statements refuted": "share"},
    ),
)

_MEANS: Final[Mapping[str, Kind]] = {"quest engagement": "mean_of_shares"}
"""Metrics that are computed differently from the others of their table."""

_NAMES: Final = {
    ("following", "number"): "groups_following_mean",
    ("correction_worth", "number"): "groups_change",
    (OWN_METRICS, "number"): "groups_own_values",
}


def side_by_side(tally: FigureTally, groups: Mapping[str, FigureTally]) -> Iterator[ReportTable]:
    """The headlines of every group, and each table by group if anything was counted for one of the groups.
    ``tally`` has the counts of all games.
    """
    yield _headlines(tally, groups)
    for layout in _COMPARED if groups else ():
        table = _by_group(layout, groups)
        if table.rows:
            yield table


def _headlines(tally: FigureTally, groups: Mapping[str, FigureTally]) -> ReportTable:
    names = sorted(groups)
    lines = list(_HEADLINES)
    for table in ("summarisation", "guessing"):
        raters = sorted({key.of for key in tally.keys(table)})
        lines += [
            (f"{table} F1, {rater}", FigureKey(table, rater, "all", "all", "f1"), "f1") for rater in raters
        ]
    rows = tuple(
        TableRow((label,), {name: groups[name].figure(key, kind, "nothing counted") for name in names})
        for label, key, kind in lines
        if any(key in groups[name] for name in names)
    )
    return ReportTable(
        "groups",
        GROUPS,
        "Groups side by side: what a reader looks at first",
        f"The same figures for each group: {_games_of(groups) or 'there is none'}. A group of seats that "
        "holds all seats of a game has the whole game; else it has what its seats said, thought and won.",
        ("measure",),
        tuple(Column(name) for name in names),
        rows,
        "" if rows else "nothing counted" if groups else "the games were not grouped",
        "full",
    )


def _games_of(groups: Mapping[str, FigureTally]) -> str:
    """Each group with its number of games, and where these are few."""
    return ", ".join(_in_games(name, tally) for name, tally in sorted(groups.items()))


def _in_games(name: str, tally: FigureTally) -> str:
    deals = (
        f" of {tally.trials:,} {'deal' if tally.trials == 1 else 'deals'}"
        if tally.trials < tally.games
        else ""
    )
    few = f" (fewer than {FEW}: rough)" if tally.trials < FEW else ""
    return f"{name} in {tally.games:,} {'game' if tally.games == 1 else 'games'}{deals}{few}"


def _by_group(layout: _Compared, groups: Mapping[str, FigureTally]) -> ReportTable:
    names = sorted(groups)
    labelled = {
        (key.of, key.group, key.label)
        for tally in groups.values()
        for key in tally.keys(layout.table)
        if key.makes_row
        and key.column in layout.kinds
        and (layout.groups is None or key.group in layout.groups)
    }
    rows = [
        TableRow(
            (*labels[3 - len(layout.heads) :], column.replace("_", " ")),
            {
                name: groups[name].figure(
                    FigureKey(layout.table, *labels, column), _MEANS.get(labels[1], kind), "nothing counted"
                )
                for name in names
            },
        )
        for labels in sorted(labelled, key=place)
        for column, kind in layout.kinds.items()
        if any(FigureKey(layout.table, *labels, column) in tally for tally in groups.values())
    ]
    return ReportTable(
        _NAMES.get((layout.table, layout.unit), f"groups_{layout.table}"),
        GROUPS,
        f"By group: {layout.title}",
        f"As in the table of the same figures above, for each group alone: {_games_of(groups)}.",
        (*layout.heads, "figure"),
        tuple(Column(name, layout.unit) for name in names),
        tuple(rows),
        "" if rows else "nothing counted",
        "full",
    )
