"""The tables of a report, in the order of the page: first those of the paper, then ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, get_args

from evaluators.ground.judgements import SCORES
from evaluators.measures.defaults import CAUSES
from evaluators.measures.impact import ImpactCounts
from evaluators.measures.judged import sign_test
from evaluators.measures.play import MODELS, PUBLISHED
from evaluators.measures.ratings import Rating, head_to_head
from evaluators.measures.scoring import STEPS
from evaluators.report.agreement import agreement, kappa_with
from evaluators.report.builder import DEFAULTS, EXCLUDED, Exclusion, ReportBuilder
from evaluators.report.corrections import judges_corrected
from evaluators.report.groups import side_by_side
from evaluators.report.raters import raters_compared
from evaluators.report.rulings import rulings
from evaluators.report.statements import statement_tables
from evaluators.report.tables import (
    IMPACTFUL_BY,
    Audience,
    Column,
    Report,
    ReportTable,
    TableRow,
    Unit,
    place,
    with_excluded,
)
from evaluators.statistics.agreement import BAR, JudgeAgreement, grouped, judge_agreement
from evaluators.statistics.figures import Figure, FigureKey, FigureTally, Kind, nothing
from evaluators.statistics.rates import Rate

__all__ = ["make_report"]

PAPER: Final = "The paper's tables"
DIMENSIONS: Final = "The four dimensions"
OURS: Final = "What we add"
WHO: Final = "Who played"


def make_report(builder: ReportBuilder) -> Report:
    """The report on the games counted so far; the builder can continue counting. Where excluded games change
    a figure, it stands a second time, with them in.
    """
    tables = list(_all_tables(builder))
    if builder.set_aside is not None:
        tables = list(_joined(builder, tables))
    return Report(
        title=builder.title,
        made_of=builder.made_of(),
        excluded={about: dict(sorted(n.items())) for about, n in sorted(builder.excluded.items())},
        tables=tuple(tables),
        notes=tuple(builder.notes()),
        notes_on_gold=tuple(builder.notes_on_gold()),
    )


def _joined(builder: ReportBuilder, tables: Sequence[ReportTable]) -> Iterator[ReportTable]:
    every = builder.with_excluded()
    sound = {table.name: table for table in tables}
    for table in _all_tables(every):
        yield with_excluded(sound.get(table.name, replace(table, columns=(), rows=())), table)
        if table.name == DEFAULTS:
            yield _excluded(every.tally, builder.exclude_above)


def _all_tables(builder: ReportBuilder) -> Iterator[ReportTable]:
    """Every table; an empty table says why it is empty."""
    tally = builder.tally
    yield _dimensions(builder)
    yield from _play(tally)
    yield _rounds(tally)
    yield _roles(tally)
    yield _link(tally)
    yield from _selection(builder)
    yield _following(builder)
    for dimension in ("summarisation", "guessing"):
        yield from _scores(builder, dimension)
    yield from _beliefs(tally)
    yield from _role_guesses(tally)
    yield _impact(builder)
    yield from _correction(tally)
    yield _hallucination(tally)
    yield from statement_tables(tally)
    yield agreement(
        {
            part: {rater: rated for rater, rated in shared.items() if rater not in builder.judges}
            for part, shared in builder.shared.items()
        }
    )
    yield _judges(builder)
    yield judges_corrected(builder.tally)
    yield rulings(builder.tally)
    yield raters_compared(builder.tally, lambda judge, part: _lacking(builder, judge, part))
    yield from _agents(builder)
    yield _defaults(builder.tally)
    yield _use(builder)
    yield from side_by_side(builder.tally, builder.groups)


# --- rows from counts -----------------------------------------------------------------------------


class _ColumnSpec(NamedTuple):
    """One column: its name, how it is computed, and its unit."""

    name: str
    kind: Kind = "share"
    unit: Unit = "share"
    counts: str = ""
    """The tally's name for the counts behind it; empty: the column's own name."""
    whole: bool = False
    """Whether it is shown only for the total, not by group."""
    empty: str = ""
    """Why the column may be empty, if the reason is not that of the table."""


def _rows(
    tally: FigureTally, table: str, heads: Mapping[str, str], columns: Sequence[_ColumnSpec], empty: str
) -> tuple[TableRow, ...]:
    labels = {(key.of, key.group, key.label) for key in tally.keys(table) if key.makes_row}
    ordered = sorted(labels, key=place)
    return tuple(
        TableRow(
            tuple(
                value
                for head, value in zip(("of", "group", "label"), (of, group, label), strict=True)
                if head in heads
            ),
            {
                column.name: tally.figure(
                    FigureKey(table, of, group, label, column.counts or column.name),
                    column.kind,
                    column.empty or empty,
                )
                for column in columns
                if group == "all" or not column.whole
            },
        )
        for of, group, label in ordered
    )


def _table(
    tally: FigureTally,
    name: str,
    section: str,
    title: str,
    caption: str,
    heads: Mapping[str, str],
    columns: Sequence[_ColumnSpec],
    *,
    empty: str,
    audience: Audience = "items",
) -> ReportTable:
    rows = _rows(tally, name, heads, columns, "nothing counted")
    return ReportTable(
        name,
        section,
        title,
        caption,
        tuple(heads.values()),
        tuple(Column(column.name, column.unit) for column in columns),
        rows,
        "" if rows else empty,
        audience,
    )


_BY: Final = {"group": "by", "label": "group"}
_NO_JUDGEMENTS: Final = "no judgements of people were given"
_NO_THOUGHTS: Final = "no items: imported games and plain bots hold no thoughts"


# --- the paper's tables ---------------------------------------------------------------------------


def _published(percent: float | None, note: str = "published") -> Figure:
    if percent is None:
        return nothing("not published")
    return Figure(round(percent / 100, 6), method="published", note=note)


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


def _dimensions(builder: ReportBuilder) -> ReportTable:
    tally = builder.tally
    columns = ("ours", *MODELS, "human on GPT-3.5's", "human on GPT-4's")
    ours: dict[str, Figure] = {
        "selection accuracy": tally.figure(
            FigureKey("selection", "", "all", "all", "accuracy"), "share", _NO_JUDGEMENTS
        ),
        "responses rated good": tally.figure(
            FigureKey("responses", "", "all", "all", "good"), "share", _NO_JUDGEMENTS
        ),
    }
    rows = []
    for label, published in _OF_PAPER:
        figures = {
            name: _published(value, f"published {spread}".strip())
            for name, (value, spread) in published.items()
        }
        rows.append(TableRow((label,), {"ours": ours.get(label, nothing("by rater below")), **figures}))
        if label in _RATED_AFTER:
            rows += _by_raters(tally, _RATED_AFTER[label])
    return ReportTable(
        "dimensions",
        PAPER,
        "The four dimensions",
        "Ours beside the published figures. Selection: reasonable of all judged selections, first ones and "
        "changed final ones. Responses rated good: following scores of 4 or 5, thinking and speaking "
        "pooled. F1 is micro-averaged over items; the paper's counts only what was followed. Beside the "
        "published figures stands what the paper gives with them, a count or a spread.",
        ("measure",),
        tuple(Column(name) for name in columns),
        tuple(rows),
        whole=False,
    )


_RATED_AFTER: Final = {"summarisation F1": "summarisation", "guessing F1 on GPT-4's games": "guessing"}
"""The dimension whose raters are listed below a published row."""


def _by_raters(tally: FigureTally, dimension: str) -> Iterator[TableRow]:
    for table, filter_ in ((dimension, ""), (f"{dimension}_followed", ", only what was followed")):
        for rater in sorted({key.of for key in tally.keys(table)}):
            figure = tally.figure(FigureKey(table, rater, "all", "all", "f1"), "f1", "no answers")
            yield TableRow((f"{dimension} F1, {rater}{filter_}",), {"ours": figure})


_PUBLIC: Final = ("win rate", "quest win rate", "Merlin assassination rate")
_MEASURES: Final = (*PUBLISHED, "proposal approval rate", "approve ballot rate")
_EVIL_ONLY: Final = ("failure vote rate", "Merlin assassination rate")


def _play(tally: FigureTally) -> Iterator[ReportTable]:
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
                kind: Kind = "mean_of_shares" if measure == "quest engagement" else "share"
                key = FigureKey("play", "", measure, side, "share")
                published = PUBLISHED.get(measure, {})
                rows.append(
                    TableRow(
                        (measure, side),
                        {
                            "ours": tally.figure(key, kind, "nothing to count in these games"),
                            **{
                                model: _published(getattr(published[model], side))
                                for model in MODELS
                                if model in published
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
            "public" if name == "results" else "games",
        )


def _rounds(tally: FigureTally) -> ReportTable:
    return _table(
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
            _ColumnSpec("played"),
            _ColumnSpec("succeeded"),
            _ColumnSpec("evil on team", counts="evil_on_team"),
            _ColumnSpec("forced"),
            _ColumnSpec("first approved", counts="first_approved"),
            _ColumnSpec("changed"),
        ],
        empty="no finished games",
        audience="games",
    )


def _roles(tally: FigureTally) -> ReportTable:
    return _table(
        tally,
        "roles",
        PAPER,
        "Roles on quests and in won games",
        "On quests: (quest, holder) pairs in which the holder of the role was on the team. Games won: by the "
        "role's side, of the games that dealt it.",
        {"label": "role"},
        [_ColumnSpec("on quests"), _ColumnSpec("games won")],
        empty="no finished games",
        audience="games",
    )


# --- the four dimensions --------------------------------------------------------------------------


def _people(builder: ReportBuilder) -> str:
    """The people who judged, with their numbers of judgements; empty if nobody did."""
    people = sorted(builder.judgements.keys() - builder.judges)
    named = ", ".join(f"{name} ({builder.judgements[name]:,} judgements)" for name in people[:12])
    more = f" and {len(people) - 12} more" if len(people) > 12 else ""
    return f" Raters: {named}{more}." if people else ""


def _selection(builder: ReportBuilder) -> Iterator[ReportTable]:
    tally = builder.tally
    for name, title, audience in (
        ("selection", "Selection: are the chosen intentions reasonable?", "items"),
        ("selection_intentions", "Selection by intention", "full"),
    ):
        yield _table(
            tally,
            name,
            DIMENSIONS,
            title,
            "Reasonable, of all judged selections: first ones, and final ones that modification changed. "
            f"Several raters pool.{_people(builder)}",
            _BY,
            [_ColumnSpec("accuracy")],
            empty=_NO_JUDGEMENTS,
            audience=audience,  # type: ignore[arg-type]
        )


def _following(builder: ReportBuilder) -> ReportTable:
    return _table(
        builder.tally,
        "following",
        DIMENSIONS,
        "Following: are they acted on?",
        "Share of each score 1 to 5, in thinking and in speaking; 4 and 5 are good. One score is one "
        f"rater's, of one intention of one stage.{_people(builder)}",
        {"of": "part and stage", **_BY},
        [
            *(_ColumnSpec(str(score)) for score in SCORES),
            _ColumnSpec("good"),
            _ColumnSpec("mean", "mean", "number"),
        ],
        empty=_NO_JUDGEMENTS,
    )


_F1: Final = [
    _ColumnSpec("precision", "precision", counts="f1"),
    _ColumnSpec("recall", "recall", counts="f1"),
    _ColumnSpec("f1", "f1", counts="f1"),
]
_CHANCE: Final = _ColumnSpec("chance", "mean", whole=True)


def _scores(builder: ReportBuilder, dimension: str) -> Iterator[ReportTable]:
    question = {
        "summarisation": "Summarisation: does a seat know its own intentions?",
        "guessing": "Guessing: are the others' intentions read?",
    }[dimension]
    ways = (
        (dimension, question, "Every answered item with gold.", "no answers were given"),
        (
            f"{dimension}_followed",
            f"{question} Only what was followed.",
            "Items whose intentions were all followed with 3 or more, by the mean of the judgements given.",
            "no answers were given" if builder.judgements else _NO_JUDGEMENTS,
        ),
    )
    for name, title, items, empty in ways:
        for suffix, audience in (("", "items"), ("_intentions", "full")):
            yield _table(
                builder.tally,
                f"{name}{suffix}",
                DIMENSIONS,
                f"{title} By intention" if suffix else title,
                f"{items} F1 is 2 matched / (predicted + gold), pooled over items; chance is what as "
                "many names drawn "
                "from the options would score.",
                {"of": "rater", **_BY},
                [_F1[-1]] if suffix else [*_F1, _CHANCE],
                empty=empty,
                audience=audience,  # type: ignore[arg-type]
            )


def _beliefs(tally: FigureTally) -> Iterator[ReportTable]:
    for name, title, audience in (
        ("beliefs", "Beliefs recorded while playing", "items"),
        ("beliefs_intentions", "Beliefs recorded while playing, by intention", "full"),
    ):
        yield _table(
            tally,
            name,
            DIMENSIONS,
            title,
            "What a seat took another to intend, scored as a guess about that seat's latest speech; "
            "options are the "
            "lists of every role. By the speaker's side and role.",
            _BY,
            [_F1[-1]] if audience == "full" else [*_F1, _CHANCE],
            empty="no beliefs about intentions were recorded",
            audience=audience,  # type: ignore[arg-type]
        )


def _role_guesses(tally: FigureTally) -> Iterator[ReportTable]:
    heads = {"of": "rater", **_BY}
    yield _table(
        tally,
        "role_guesses",
        DIMENSIONS,
        "Role guesses",
        "Right, of all guesses that name a role, by the true role; Brier score of confidence / 5 (0 "
        "is best).",
        heads,
        [
            _ColumnSpec("accuracy"),
            _ColumnSpec("brier", "mean", "number", whole=True, empty="no confidence was stated"),
        ],
        empty="nobody named a role",
    )
    yield _table(
        tally,
        "reliability",
        DIMENSIONS,
        "Reliability of stated confidence",
        "Of the role guesses stated with each confidence 0 to 5: how many were right, beside what was stated "
        f"(confidence / {STEPS[-1]}).",
        {"of": "rater", "label": "confidence"},
        [_ColumnSpec("right"), _ColumnSpec("stated", "mean")],
        empty="nobody stated a confidence",
    )


# --- what we add ----------------------------------------------------------------------------------


def _link(tally: FigureTally) -> ReportTable:
    return _table(
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
        [_ColumnSpec("above"), _ColumnSpec("below"), _ColumnSpec("equal")],
        empty="nobody judged both sides' intentions both ways",
    )


def _impact(builder: ReportBuilder) -> ReportTable:
    tally = builder.tally
    columns = [_ColumnSpec("paper's rule"), _ColumnSpec("released rule")]
    rows = []
    flags = {
        "paper's rule": _impactful(builder.paper_impact),
        "released rule": _impactful(builder.released_impact),
    }
    for row in _rows(tally, "impact", {"group": "", "label": ""}, columns, "not selected, or not followed"):
        side, intention = row.labels
        marks = [name for name, members in flags.items() if (side, intention) in members]
        rows.append(TableRow((side, intention, "; ".join(marks) or "no"), row.figures))
    return ReportTable(
        "impact",
        OURS,
        "Impactful intentions",
        "Rounds that went to the side, of those in which it selected the intention. Impactful: above 0.7 or "
        "below 0.3, selected twice at least. The paper's rule counts rounds, first and final selections; the "
        "released script counts final selections that were followed with 3 or more.",
        ("side", "intention", IMPACTFUL_BY),
        (Column("paper's rule"), Column("released rule")),
        tuple(rows),
        "" if rows else _NO_THOUGHTS,
        "full",
    )


def _impactful(counts: ImpactCounts) -> set[tuple[str, str]]:
    return {(impact.side.value, impact.intention) for impact in counts.table() if impact.impactful}


def _correction(tally: FigureTally) -> Iterator[ReportTable]:
    yield _table(
        tally,
        "correction",
        OURS,
        "Self-correction: how often modification changes the choice",
        "Turns whose final selection is another set than the first, of all that recorded both.",
        _BY,
        [_ColumnSpec("changed")],
        empty=_NO_THOUGHTS,
    )
    yield _table(
        tally,
        "correction_sets",
        OURS,
        "Self-correction: what is changed",
        "Dropped: intentions of first selections that the final one lacks. Added: intentions of "
        "final selections "
        "that the first one lacked.",
        {"label": "intentions"},
        [_ColumnSpec("share")],
        empty=_NO_THOUGHTS,
    )
    columns = [
        _ColumnSpec("better"),
        _ColumnSpec("worse"),
        *(_ColumnSpec(name, "mean", "number") for name in ("mean first", "mean final", "mean change")),
    ]
    heads = {"group": "aspect", "label": "turns"}
    rows = _rows(tally, "correction_worth", heads, columns, "nothing counted")
    yield ReportTable(
        "correction_worth",
        OURS,
        "Self-correction: does it make things better?",
        "A turn's final stage against its first, in turns judged in both. Reasonable: the mean "
        "share, in turns "
        "that changed; think, speak: the mean score. Sign test: two-sided p of better against worse, "
        "over turns; "
        "turns of one game hang together, so with few games it is a little too small.",
        tuple(heads.values()),
        (*(Column(column.name, column.unit) for column in columns), Column("sign test p", "number")),
        tuple(TableRow(row.labels, {**row.figures, "sign test p": _sign_test(row.figures)}) for row in rows),
        "" if rows else _NO_JUDGEMENTS,
    )


def _sign_test(figures: Mapping[str, Figure]) -> Figure:
    better, worse = figures["better"], figures["worse"]
    moved = int(better.num or 0), int(worse.num or 0)
    p = sign_test(*moved)
    if p is None:
        return nothing("no turn moved")
    return Figure(
        p, den=sum(moved), games=better.games, items=better.items, note="a p value, not an estimate"
    )


def _hallucination(tally: FigureTally) -> ReportTable:
    return _table(
        tally,
        "hallucination",
        OURS,
        "Statements that the record refutes",
        "Read by rule from English: who led, was on a team, voted how, which quest failed. A lower bound. "
        "Undecided: statements that the rules could not judge.",
        _BY,
        [
            _ColumnSpec("speeches with one"),
            _ColumnSpec("statements refuted", empty="no statement was decided"),
            _ColumnSpec("refuted a speech", "mean", "number"),
            _ColumnSpec("undecided", "sum", "count"),
        ],
        empty="nobody spoke",
    )


_PARTS: Final = ("reasonable", "think", "speak")


def _judges(builder: ReportBuilder) -> ReportTable:
    """Each judge separately. If people judged too, a judge's scores are shown only if it agrees with them."""
    beside_people = bool(builder.judgements.keys() - builder.judges)
    rows = []
    for judge in sorted(builder.judges):
        figures: dict[str, Figure] = {}
        for part in _PARTS:
            figure = builder.tally.figure(
                FigureKey("judges", "", "judge", judge, part), "share", "the judge did not judge this"
            )
            if figure.value is not None and beside_people:
                measured = _with_people(builder, judge, part)
                if measured.lacking:
                    figure = nothing(f"not shown beside people's: {'; '.join(measured.lacking)}")
                figures[f"kappa, {part}"] = kappa_with(*_rated(builder, judge, part))
            figures[part] = figure
        rows.append(TableRow((judge,), figures))
    return ReportTable(
        "judges",
        OURS,
        "Judges that are not people",
        "Reasonable selections, and following scored 4 or 5, as each model or program says; never pooled "
        "with people's. "
        "Where people judged too, a judge's scores are shown when its mean kappa with them is at least "
        f"{BAR.kappa} on {BAR.items} items and at most {BAR.shortfall} below people among themselves.",
        ("judge",),
        tuple(
            Column(name, "number" if name.startswith("kappa") else "share")
            for name in (*_PARTS, *(f"kappa, {part}" for part in _PARTS))
        ),
        tuple(rows),
        "" if rows else "nobody but people judged",
        whole=False,
    )


def _lacking(builder: ReportBuilder, judge: str, part: str) -> str:
    """Why the judge's scores may not be shown beside people's in this part; empty: they may."""
    if judge not in builder.judges or part not in _PARTS:
        return ""
    return "; ".join(_with_people(builder, judge, part).lacking)


def _with_people(builder: ReportBuilder, judge: str, part: str) -> JudgeAgreement:
    by_judge, people = _rated(builder, judge, part)
    return judge_agreement(by_judge, people, name=judge)


def _rated(
    builder: ReportBuilder, judge: str, part: str
) -> tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]]:
    """The ratings of the judge and those of the people, of items that several raters judged."""
    shared: Mapping[str, Mapping[str, int]] = builder.shared[part]
    rated = shared if part == "reasonable" else grouped(shared)
    people = {rater: items for rater, items in rated.items() if rater not in builder.judges}
    return rated.get(judge, {}), people


# --- defaults -------------------------------------------------------------------------------------


def _defaults(tally: FigureTally) -> ReportTable:
    return _table(
        tally,
        DEFAULTS,
        WHO,
        "Decisions played by default",
        "Of all decisions of these seats, those for which the rules' default was played: because no answer "
        "of a model could be used (model_error), because a bot was late (deadline), or because its answers "
        "were illegal (attempts). Several seats of one agent pool.",
        _BY,
        [_ColumnSpec("defaulted"), *(_ColumnSpec(cause) for cause in sorted(CAUSES))],
        empty="nobody decided anything",
        audience="full",
    )


def _excluded(tally: FigureTally, above: float) -> ReportTable:
    """``tally`` has the counts of all games."""
    return _table(
        tally,
        EXCLUDED,
        WHO,
        "Excluded games",
        "Of all games with this agent or in this group: those whose models defaulted more than "
        f"{100 * above:g} % of their decisions, and those that were marked as invalid. No figure counts "
        "them; where they change one, it stands a second time, with them in. What makes a model fail may "
        "hang together with what is compared: look whether the groups lose equally many.",
        _BY,
        [_ColumnSpec("excluded"), *(_ColumnSpec(reason) for reason in get_args(Exclusion))],
        empty="no games",
        audience="full",
    )


# --- who played -----------------------------------------------------------------------------------


def _rate(rate: Rate) -> Figure:
    interval = rate.interval
    if interval is None:
        return nothing("never played so")
    return Figure(rate.rate, *interval, rate.num, rate.den, games=rate.den, method="wilson")


def _rating(rating: Rating) -> Figure:
    note = "only differences between ratings mean anything"
    return Figure(rating.mu, rating.low, rating.high, games=rating.games, method="rating", note=note)


def _agents(builder: ReportBuilder) -> Iterator[ReportTable]:
    table = head_to_head(builder.played)
    empty = "nobody said who sat where" if not builder.played else "one agent held every seat of every game"
    standings = {row.agent: row for row in table.standings}
    yield ReportTable(
        "standings",
        WHO,
        "Agents: win rates and ratings",
        f"{table.games} games whose seats different agents held; {table.mirrors} that one agent held "
        "alone are "
        "left out. Ratings: openskill's Plackett-Luce, 25 before any game, with the deal's own worth learned "
        "beside them.",
        ("agent",),
        (Column("as loyal"), Column("as evil"), Column("rating", "number")),
        tuple(
            TableRow(
                (rating.agent,),
                {
                    "as loyal": _rate(standings[rating.agent].as_loyal),
                    "as evil": _rate(standings[rating.agent].as_evil),
                    "rating": _rating(rating),
                },
            )
            for rating in table.ratings
        ),
        "" if table.ratings else empty,
        "full",
    )
    yield ReportTable(
        "duels",
        WHO,
        "Head to head",
        "Games that the agent's side won, by its role and by an agent on the other side. A game counts once, "
        "however many seats either holds.",
        ("agent", "role", "against"),
        (Column("won"),),
        tuple(
            TableRow((duel.agent, duel.role.value, duel.opponent), {"won": _rate(duel.won)})
            for duel in table.duels
        ),
        "" if table.duels else empty,
        "full",
    )


_USE: Final = ("calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "cost")


def _use(builder: ReportBuilder) -> ReportTable:
    summed: dict[tuple[str, str], list[float]] = {}
    for use in builder.uses:
        sums = summed.setdefault((use.endpoint, use.model), [0] * len(_USE))
        for index, name in enumerate(_USE):
            sums[index] += getattr(use, name)
    note = "a sum over these games, not a sample: no interval"
    return ReportTable(
        "models",
        WHO,
        "What models were asked",
        "Calls, tokens and cost, summed over the games. Cost is what the endpoint's configured prices say.",
        ("endpoint", "model"),
        tuple(Column(name.replace("_", " "), "number" if name == "cost" else "count") for name in _USE),
        tuple(
            TableRow(
                key,
                {
                    name.replace("_", " "): Figure(value, num=value, games=builder.games, note=note)
                    for name, value in zip(_USE, values, strict=True)
                },
            )
            for key, values in sorted(summed.items())
        ),
        "" if summed else "no model was asked, or nothing was kept of it",
        "full",
    )
