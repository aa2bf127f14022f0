"""The paper's tables with ours in the same cells: the four dimensions, people beside models, how games go.

The paper is InterIntent (EMNLP 2024). Its figures stand in columns or rows of their own and are marked as
published.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from statistics import fmean, pstdev
from typing import Final

from engine.terms import Side
from evaluators.measures.play import MODELS, PUBLISHED, play_figure
from evaluators.report.builder import ReportBuilder
from evaluators.report.counted import CountedColumn, counted_table, published
from evaluators.report.tables import PAPER, Column, ReportTable, TableRow, place
from evaluators.statistics.association import theils_u
from evaluators.statistics.figures import Clusters, Figure, FigureKey, FigureTally, nothing
from evaluators.statistics.intervals import SHARE, SIGNED, Counts, pooled_f1

__all__ = [
    "NO_JUDGEMENTS",
    "dimensions",
    "link",
    "people",
    "published",
    "results_of_games",
    "roles",
    "rounds",
]

NO_JUDGEMENTS: Final = "no judgements of people were given"


_ANNOTATED: Final = ("of 2,440 annotated intentions", "of 350 annotated intentions")

# InterIntent (EMNLP 2024), the tables of the four dimensions, in percent; F1 likewise.
_OF_PAPER: Final[tuple[tuple[str, dict[str, tuple[float, str]]], ...]] = (
    ("selection accuracy", {"GPT-3.5": (87.5, _ANNOTATED[0]), "GPT-4": (88.8, _ANNOTATED[1])}),
    ("responses rated good", {"GPT-3.5": (47.5, _ANNOTATED[0]), "GPT-4": (64.8, _ANNOTATED[1])}),
    (
        "summarisation F1",
        {
            "GPT-3.5": (69.49, ""),
            "GPT-4": (83.76, ""),
            "human on GPT-3.5's": (75.21, "± 0.97"),
            "human on GPT-4's": (83.34, "± 2.72"),
        },
    ),
    (
        "guessing F1 on GPT-3.5's games",
        {"GPT-3.5": (31.73, ""), "GPT-4": (45.66, ""), "human on GPT-3.5's": (61.34, "± 2.75")},
    ),
    (
        "guessing F1 on GPT-4's games",
        {"GPT-3.5": (24.85, ""), "GPT-4": (46.87, ""), "human on GPT-4's": (65.23, "± 5.03")},
    ),
)


def dimensions(builder: ReportBuilder) -> ReportTable:
    """The four dimensions: ours beside the published figures, each F1 beside chance and ceiling."""
    tally = builder.tally
    columns = ("ours", *MODELS, "human on GPT-3.5's", "human on GPT-4's", "chance", "ceiling")
    ours: dict[str, Figure] = {
        "selection accuracy": tally.figure(
            FigureKey("selection", "", "all", "all", "accuracy"), "share", NO_JUDGEMENTS
        ),
        "responses rated good": tally.figure(
            FigureKey("responses", "", "all", "all", "good"), "share", NO_JUDGEMENTS
        ),
    }
    rows = []
    for label, of_models in _OF_PAPER:
        figures = {
            name: published(value, f"published {spread}".strip())
            for name, (value, spread) in of_models.items()
        }
        rows.append(TableRow((label,), {"ours": ours.get(label, nothing("by rater below")), **figures}))
        if label in _RATED_AFTER:
            rows += _by_raters(builder, _RATED_AFTER[label])
    return ReportTable(
        "dimensions",
        PAPER,
        "The four dimensions",
        "Ours beside the published figures. Selection: reasonable of all judged selections, first ones and "
        "changed final ones. Responses rated good: following scores of 4 or 5, thinking and speaking "
        "pooled. F1 is micro-averaged over items; the paper's counts only what was followed. Chance and "
        "ceiling: what as many names would score, drawn from the options or all as right as they can be. "
        "Beside the published figures stands what the paper gives with them, a count or a spread. People: "
        "the mean over persons; the tables of summarisation and guessing have each of them.",
        ("measure",),
        tuple(Column(name) for name in columns),
        tuple(rows),
    )


_RATED_AFTER: Final = {"summarisation F1": "summarisation", "guessing F1 on GPT-4's games": "guessing"}
"""The dimension whose raters are listed below a published row."""


def _by_raters(builder: ReportBuilder, dimension: str) -> Iterator[TableRow]:
    """People first, as their mean and deviation, then each rater who is none of them: a person's own figures
    stand in the dimension's table.
    """
    tally = builder.tally
    for table, filter_ in _ways(dimension):
        raters = sorted({key.of for key in tally.keys(table)})
        persons = [name for name in raters if builder.raters[name][:2] == ("human", "")]
        if persons:
            mean, deviation = _of_people(tally, table, persons)
            if deviation.value is not None:
                note = f"± {100 * deviation.value:.2f} over {len(persons)} persons"
                mean = replace(mean, note="; ".join(filter(None, (note, mean.note))))
            limits = {column: _mean_limit(tally, table, persons, column) for column in ("chance", "ceiling")}
            yield TableRow((f"{dimension} F1, people{filter_}",), {"ours": mean, **limits})
        for rater in raters:
            if rater in persons:
                continue
            key = FigureKey(table, rater, "all", "all", "f1")
            yield TableRow(
                (f"{dimension} F1, {rater}{filter_}",),
                {
                    "ours": tally.figure(key, "f1", "no answers"),
                    "chance": tally.figure(key._replace(column="chance"), "fraction", "no options"),
                    "ceiling": tally.figure(key._replace(column="ceiling"), "fraction", "nothing was named"),
                },
            )


def _ways(dimension: str) -> tuple[tuple[str, str], ...]:
    """The tables of a dimension, and what their names add to its own."""
    return (dimension, ""), (f"{dimension}_followed", ", only what was followed")


# --- people beside models -------------------------------------------------------------------------------


_PUBLISHED_PAIRS: Final = (
    ("summarisation F1", "human on GPT-3.5's", ("GPT-3.5",)),
    ("summarisation F1", "human on GPT-4's", ("GPT-4",)),
    ("guessing F1 on GPT-3.5's games", "human on GPT-3.5's", MODELS),
    ("guessing F1 on GPT-4's games", "human on GPT-4's", MODELS),
)
"""A published measure, the people's figure in it, and the models that people are compared with."""

_NOBODY: Final = "no answers of people (kind human) were given"
_NO_MODEL: Final = "no answers of models or programs were given"


def people(builder: ReportBuilder) -> ReportTable:
    """People's mean and deviation over raters, and people minus each model or program: published, then ours.

    Raters are compared if their items were made in the same way, each by its own items.
    """
    published_of = dict(_OF_PAPER)
    rows = [
        TableRow((measure, f"{model}, published"), _published_pair(published_of[measure], human, model))
        for measure, human, models in _PUBLISHED_PAIRS
        for model in models
    ]
    for dimension in ("summarisation", "guessing"):
        for table, filter_ in _ways(dimension):
            rows += _people_rows(builder, table, f"{dimension} F1{filter_}")
    return ReportTable(
        "people",
        PAPER,
        "People beside models",
        "People: the unweighted mean of the F1 of each person, and its deviation over persons (that of a "
        "whole population). People minus model: that mean less the model's F1; the interval draws games, "
        "people's and the model's together. Who is a person is what answers say as kind (human). Raters are "
        "set beside each other if their items were made in the same way.",
        ("measure", "model"),
        (
            Column("people"),
            Column("deviation"),
            Column("persons", "count"),
            Column("model"),
            Column("people minus model"),
        ),
        tuple(rows),
    )


def _published_pair(figures: Mapping[str, tuple[float, str]], human: str, model: str) -> dict[str, Figure]:
    mean, spread = figures[human]
    deviation = float(spread.removeprefix("± "))
    of_model = figures[model][0]
    return {
        "people": published(mean),
        "deviation": published(deviation),
        "model": published(of_model),
        "people minus model": published(mean - of_model, "of published figures"),
    }


def _people_rows(builder: ReportBuilder, table: str, measure: str) -> Iterator[TableRow]:
    tally = builder.tally
    by_settings: dict[str, tuple[list[str], list[str]]] = {}
    for name in sorted({key.of for key in tally.keys(table)}):
        rater = builder.raters[name]
        by_settings.setdefault(rater.settings, ([], []))[rater.kind != "human"].append(name)
    for settings, (persons, models) in sorted(by_settings.items()):
        words = f"{measure} ({settings})" if settings else measure
        if persons:
            for model in models or [""]:
                yield TableRow((words, model or "no model"), _people_figures(tally, table, persons, model))
        else:
            for model in models:
                figure = tally.figure(FigureKey(table, model, "all", "all", "f1"), "f1", "no answers")
                missing = dict.fromkeys(("people", "deviation", "people minus model"), nothing(_NOBODY))
                yield TableRow((words, model), {**missing, "model": figure})


def _of_people(tally: FigureTally, table: str, persons: Sequence[str]) -> tuple[Figure, Figure]:
    """Their mean F1, and its deviation over persons."""
    keys = [FigureKey(table, name, "all", "all", "f1") for name in persons]
    values = [figure.value for key in keys if (figure := tally.figure(key, "f1", "")).value is not None]
    joint = _beside_each_other(tally, keys)
    mean = replace(tally.figure_of(joint, _mean_f1, "no answers", SHARE), den=len(persons))
    deviation = replace(
        mean,
        value=pstdev(values) if len(values) > 1 else None,
        low=None,
        high=None,
        method="none",
        note="over persons: no interval" if len(values) > 1 else "one person: no deviation",
    )
    return mean, deviation


def _mean_limit(tally: FigureTally, table: str, persons: Sequence[str], column: str) -> Figure:
    """What the persons would score by chance, or at most, in the mean."""
    joint = _beside_each_other(tally, (FigureKey(table, name, "all", "all", column) for name in persons))
    return replace(tally.figure_of(joint, _mean_ratio, "no options", SHARE), den=len(persons))


def _mean_ratio(sums: Sequence[float]) -> float:
    ratios = [above / below for above, below in zip(sums[::2], sums[1::2], strict=True) if below]
    return fmean(ratios) if ratios else nan


def _beside_each_other(tally: FigureTally, keys: Iterable[FigureKey]) -> Clusters:
    joint = Clusters()
    for key in keys:
        joint = joint.beside(tally.clusters(key))
    return joint


def _people_figures(tally: FigureTally, table: str, persons: Sequence[str], model: str) -> dict[str, Figure]:
    mean, deviation = _of_people(tally, table, persons)
    count = replace(
        deviation,
        value=float(len(persons)),
        num=len(persons),
        den=None,
        items=None,
        method="count",
        note=_COUNT,
    )
    figures = {"people": mean, "deviation": deviation, "persons": count}
    if not model:
        return {**figures, "model": nothing(_NO_MODEL), "people minus model": nothing(_NO_MODEL)}
    keys = [FigureKey(table, name, "all", "all", "f1") for name in (*persons, model)]
    return {
        **figures,
        "model": tally.figure(keys[-1], "f1", "no answers"),
        "people minus model": tally.figure_of(
            _beside_each_other(tally, keys), _people_less_model, "no answers", SIGNED
        ),
    }


_COUNT: Final = "a count, not a sample: no interval"


def _mean_f1(sums: Sequence[float]) -> float:
    """The mean F1 of those whose three counts, one after the other, define one; nan if there is none."""
    scores = [pooled_f1(sums[at : at + 3]) for at in range(0, len(sums), 3)]
    defined = [score for score in scores if score == score]
    return fmean(defined) if defined else nan


def _people_less_model(sums: Sequence[float]) -> float:
    """The mean F1 of all but the last, less the F1 of the last."""
    return _mean_f1(sums[:-3]) - pooled_f1(sums[-3:])


# --- how games go ---------------------------------------------------------------------------------------


_PUBLIC: Final = ("win rate", "quest win rate", "Merlin assassination rate")
_MEASURES: Final = (*PUBLISHED, "proposal approval rate", "approve ballot rate")
_EVIL_ONLY: Final = ("failure vote rate", "Merlin assassination rate")


def results_of_games(tally: FigureTally) -> Iterator[ReportTable]:
    caption = (
        "Definitions of InterIntent, section 3. Engagement is the unweighted mean over the side's "
        "roles, whose "
        "counts stand in the table of roles. A leader's figures count for the leader's side. The paper gives "
        "no counts with its figures."
    )
    for name, title, measures in (
        ("results", "Results of games", [measure for measure in _MEASURES if measure in _PUBLIC]),
        ("play", "How the sides play", [measure for measure in _MEASURES if measure not in _PUBLIC]),
    ):
        rows = []
        for measure in measures:
            for side in ("loyal", "evil"):
                if side == "loyal" and measure in _EVIL_ONLY:
                    continue
                of_models = PUBLISHED.get(measure, {})
                rows.append(
                    TableRow(
                        (measure, side),
                        {
                            "ours": play_figure(tally, measure, side),
                            **{
                                model: published(getattr(of_models[model], side))
                                for model in MODELS
                                if model in of_models
                            },
                        },
                    )
                )
        yield ReportTable(
            name,
            PAPER,
            title,
            caption,
            ("metric", "side"),
            tuple(Column(name) for name in ("ours", *MODELS)),
            tuple(rows) if tally.games else (),
            "" if tally.games else "no finished games",
            "public",
        )


def rounds(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        "rounds",
        PAPER,
        "Results by round",
        "Played: games that came to the quest, of all. Succeeded: of the quests played. Evil on "
        "team, forced: of the "
        "teams that went. First approved: first proposals that the ballots approved. Changed: teams voted on "
        "that differ from the attempt's first.",
        {"label": "round"},
        [
            CountedColumn("played"),
            CountedColumn("succeeded"),
            CountedColumn("evil on team", counts="evil_on_team"),
            CountedColumn("forced"),
            CountedColumn("first approved", counts="first_approved"),
            CountedColumn("changed"),
        ],
        empty="no finished games",
        audience="public",
    )


def roles(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        "roles",
        PAPER,
        "Roles on quests and in won games",
        "On quests: (quest, holder) pairs in which the holder of the role was on the team. Games won: by the "
        "role's side, of the games that dealt it.",
        {"label": "role"},
        [CountedColumn("on quests"), CountedColumn("games won")],
        empty="no finished games",
        audience="public",
    )


# --- understanding and winning ---------------------------------------------------------------------------


def link(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        "link",
        PAPER,
        "Understanding and winning",
        "In how many of the quests and games that went to each side evil's r is above, below or "
        "equal to loyal's. r: "
        "sum of binary scores over the side's teammates (the paper's), or over its intentions (the released "
        "code's). Selection counts reasonable intentions followed above 2; following counts scores of 3, 4 "
        "or 5 and more of reasonable ones; speaking, final stage. What modification left unchanged is "
        "reasonable where the first selection is. Of games that no person judged each judge makes rows of "
        "its own.",
        {"of": "r", "label": "won"},
        [CountedColumn("above"), CountedColumn("below"), CountedColumn("equal")],
        empty="nobody judged both sides' intentions both ways",
    )


def association(tally: FigureTally) -> ReportTable:
    """Theil's U between which side's r is higher and who won, from the counts of the table of links."""
    units = sorted({(key.of, key.group) for key in tally.keys("link")}, key=place)
    rows = []
    for of, unit in units:
        joint = _above_by_winner(tally, of, unit)
        rows.append(
            TableRow(
                (of, f"{unit}s"),
                {
                    "r, by the result": _within_ends(tally.figure_of(joint, _u_of_relation, _ONE_RELATION)),
                    "result, by r": _within_ends(tally.figure_of(joint, _u_of_result, _ONE_WINNER)),
                },
            )
        )
    return ReportTable(
        "association",
        PAPER,
        "Understanding and winning: Theil's U",
        "How much of the uncertainty about one thing the other removes, from 0 (nothing) to 1 (all): whether "
        "loyal's r is at least evil's, and whether loyal won; ties count as at least, as in the authors' "
        "script, whose direction comes first. r as in the table above; the script's own sums are recomputed "
        "by interintent authors check. U is undefined where the thing itself never varies. Its interval is "
        "rough, and cut at 0 and 1.",
        ("r", "of"),
        (Column("r, by the result", "number"), Column("result, by r", "number")),
        tuple(rows),
        "" if rows else _NOT_JUDGED,
    )


_NOT_JUDGED: Final = "nobody judged both sides' intentions both ways"

_ONE_RELATION: Final = "undefined: loyal's r is always at least evil's, or never"

_ONE_WINNER: Final = "undefined: one side always won"


def _within_ends(u: Figure) -> Figure:
    """U lies between 0 and 1, and Student's limits are cut there."""
    if u.low is None or u.high is None:
        return u
    return replace(u, low=max(u.low, 0.0), high=min(u.high, 1.0))


def _above_by_winner(tally: FigureTally, of: str, unit: str) -> Clusters:
    """By game: of the units that loyal won, in how many evil's r was the higher one, and how many they are;
    then both numbers of the units that evil won.
    """
    by_winner = [
        tally.clusters(FigureKey("link", of, unit, f"{unit}s won by {side.value}", "above")) for side in Side
    ]
    nothing_counted: Counts = (0, 0)
    counts: dict[str, Counts] = {
        name: tuple(n for one in by_winner for n in one.counts.get(name, nothing_counted))
        for name in sorted({name for one in by_winner for name in one.counts})
    }
    mask = by_winner[0].mask | by_winner[1].mask
    items = sum(one.items for one in by_winner)
    return Clusters(counts, games=mask.bit_count(), items=items, mask=mask)


def _u_of_relation(sums: Sequence[float]) -> float:
    """U of what ``_above_by_winner`` counts, summed over games."""
    above, loyal_won, above_lost, evil_won = sums
    return theils_u(
        {
            ("at least", "won"): loyal_won - above,
            ("below", "won"): above,
            ("at least", "lost"): evil_won - above_lost,
            ("below", "lost"): above_lost,
        }
    )


def _u_of_result(sums: Sequence[float]) -> float:
    """As ``_u_of_relation``, the other way round."""
    above, loyal_won, above_lost, evil_won = sums
    return theils_u(
        {
            ("won", "at least"): loyal_won - above,
            ("won", "below"): above,
            ("lost", "at least"): evil_won - above_lost,
            ("lost", "below"): above_lost,
        }
    )
