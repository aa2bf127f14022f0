"""The tables of a report, in the order of the page: first those of the paper, then ours."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Final, get_args

from engine.terms import Role, Side, side_of
from evaluators.dataset.metrics import OWN_METRICS, installed_metrics
from evaluators.ground.judgements import SCORES
from evaluators.measures.defaults import CAUSES
from evaluators.measures.duels import Played, head_to_head
from evaluators.measures.impact import ImpactCounts
from evaluators.measures.judged import ASPECTS, PARTS, sign_test
from evaluators.measures.scoring import STEPS
from evaluators.ratings.fit import rate
from evaluators.ratings.games import RatedGame
from evaluators.report.agreement import agreement, kappa_with
from evaluators.report.builder import DEFAULTS, EXCLUDED, Exclusion, ReportBuilder
from evaluators.report.contrasts import contrasted
from evaluators.report.corrections import judges_corrected
from evaluators.report.counted import CountedColumn, counted_rows, counted_table
from evaluators.report.groups import side_by_side
from evaluators.report.notices import warnings
from evaluators.report.paper import (
    NO_JUDGEMENTS,
    association,
    dimensions,
    link,
    people,
    results_of_games,
    roles,
    rounds,
)
from evaluators.report.raters import raters_compared
from evaluators.report.reading import confusions, guessers, history
from evaluators.report.rulings import rulings
from evaluators.report.statements import is_withheld, statement_tables
from evaluators.report.tables import (
    DIMENSIONS,
    IMPACTFUL_BY,
    OURS,
    PAPER,
    WHO,
    Column,
    Report,
    ReportTable,
    TableRow,
    in_order,
    with_excluded,
)
from evaluators.statistics.agreement import BAR, JudgeAgreement, grouped, judge_agreement
from evaluators.statistics.figures import Figure, FigureKey, FigureTally, GameSet, Kind, nothing
from evaluators.statistics.rates import Rate

__all__ = ["make_report"]


def make_report(builder: ReportBuilder) -> Report:
    """The report on the games counted so far; the builder can continue counting. Where excluded games change
    a figure, it stands a second time, with them in.
    """
    builder = builder.settled()
    tables = list(_all_tables(builder))
    if builder.set_aside is not None:
        tables = list(_joined(builder, tables))
    if builder.limited:
        tables = [_without_games(builder, table) for table in tables]
    notes_on_gold = list(builder.notes_on_gold())
    if builder.contrasts:
        aside = None if builder.set_aside is None else builder.set_aside.contrasts
        first = None if builder.first is None else builder.first.contrasts
        found = contrasted(
            builder.contrasts, aside, lambda key: _is_withheld(builder, key), builder.level, first
        )
        tables[:0] = found.tables
        notes_on_gold[:0] = found.notes
    return Report(
        title=builder.title,
        made_of=builder.made_of(),
        excluded={about: dict(sorted(n.items())) for about, n in sorted(builder.excluded.items())},
        tables=in_order(tables),
        notes=tuple(builder.notes()),
        notes_on_gold=(*notes_on_gold, *warnings(builder, tables)),
    )


_OF_GAMES: Final = frozenset(
    {"results", "rounds", "link", "association", "standings", "duels", "models", EXCLUDED}
)
"""The tables whose figures are those of whole games, not of seats."""


def _without_games(builder: ReportBuilder, table: ReportTable) -> ReportTable:
    if table.name not in _OF_GAMES:
        return table
    why = f"these are figures of whole games, which {builder.where_words()} does not select"
    return replace(table, rows=(), empty=why)


def _is_withheld(builder: ReportBuilder, key: FigureKey) -> bool:
    """Whether the figure of a judge may not be shown beside those of people or of the rules."""
    if key.table == "judges":
        beside_people = bool(builder.judgements.keys() - builder.judges)
        return beside_people and bool(_lacking(builder, key.label, key.column))
    return key.table == "hallucination_judged" and is_withheld(builder.tally, key.of)


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
    yield dimensions(builder)
    if builder.limited:
        yield _seats(tally)
    yield from _selection(builder)
    yield _following(builder)
    for dimension in ("summarisation", "guessing"):
        yield from _scores(builder, dimension)
    yield people(builder)
    yield guessers(tally)
    yield history(tally, builder.raters)
    yield confusions(tally)
    yield from results_of_games(tally)
    yield rounds(tally)
    yield roles(tally)
    yield link(tally)
    yield association(tally)
    yield _impact(builder)
    yield agreement(
        {
            part: {rater: rated for rater, rated in shared.items() if rater not in builder.judges}
            for part, shared in builder.shared.items()
        }
    )
    yield from _beliefs(tally)
    yield from _role_guesses(tally)
    yield _hallucination(tally)
    yield from _correction(tally)
    if installed_metrics():
        yield _own_metrics(tally)
    yield from statement_tables(tally)
    yield _judges(builder)
    yield judges_corrected(builder.tally)
    yield rulings(builder.tally)
    yield raters_compared(builder.tally, lambda judge, part: _lacking(builder, judge, part))
    yield from _agents(builder)
    yield _defaults(builder.tally)
    yield _use(builder)
    yield from side_by_side(builder.tally, builder.groups)


_BY: Final = {"group": "by", "label": "group"}
_NO_THOUGHTS: Final = "no items: imported games and plain bots hold no thoughts"


def _seats(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        "seats",
        PAPER,
        "Seats: games won",
        "Of the games of these seats, those that their side won; several seats of one game count each.",
        {"label": "side"},
        [CountedColumn("won", counts="share")],
        empty="no finished games",
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
    for name, title, section in (
        ("selection", "Selection: are the chosen intentions reasonable?", PAPER),
        (
            "selection_intentions",
            "By intention: Selection: are the chosen intentions reasonable?",
            DIMENSIONS,
        ),
    ):
        yield counted_table(
            tally,
            name,
            section,
            title,
            "Reasonable, of all judged selections: first ones, and final ones that modification changed. "
            f"Several raters pool.{_people(builder)}",
            _BY,
            [CountedColumn("accuracy")],
            empty=NO_JUDGEMENTS,
        )


def _following(builder: ReportBuilder) -> ReportTable:
    return counted_table(
        builder.tally,
        "following",
        PAPER,
        "Following: are they acted on?",
        "Share of each score 1 to 5, in thinking and in speaking; 4 and 5 are good. One score is one "
        f"rater's, of one intention of one stage.{_people(builder)}",
        {"of": "part and stage", **_BY},
        [
            *(CountedColumn(str(score)) for score in SCORES),
            CountedColumn("good"),
            CountedColumn("mean", "score", "number"),
        ],
        empty=NO_JUDGEMENTS,
    )


_F1: Final = [
    CountedColumn("f1", "f1", counts="f1"),
    CountedColumn("precision", "precision", counts="f1"),
    CountedColumn("recall", "recall", counts="f1"),
]
_LIMITS: Final = tuple(
    CountedColumn(
        name, "fraction", groups=frozenset({"all", "side", "role", "round", "stage"}), empty="no options"
    )
    for name in ("chance", "ceiling")
)


def _scores(builder: ReportBuilder, dimension: str) -> Iterator[ReportTable]:
    question = {
        "summarisation": "Summarisation: does a seat know its own intentions?",
        "guessing": "Guessing: are the others' intentions read?",
    }[dimension]
    ways = (
        (dimension, question, "Every answered item with gold.", "no answers were given"),
        (
            f"{dimension}_followed",
            f"{question.removesuffix('?')}, only of what was followed?",
            "Items whose intentions were all followed with 3 or more, by the mean of the judgements given.",
            "no answers were given" if builder.judgements else NO_JUDGEMENTS,
        ),
    )
    for name, title, items, empty in ways:
        for suffix in ("", "_intentions"):
            yield counted_table(
                builder.tally,
                f"{name}{suffix}",
                DIMENSIONS if suffix else PAPER,
                f"By intention: {title}" if suffix else title,
                f"{items} F1 is 2 matched / (predicted + gold), pooled over items. Chance is what as many "
                "names drawn from the options would score; the ceiling is what as many names would score "
                "that are all as right as they can be.",
                {"of": "rater", **_BY},
                [_F1[0]] if suffix else [*_F1, *_LIMITS],
                empty=empty,
            )


def _beliefs(tally: FigureTally) -> Iterator[ReportTable]:
    for name, title, columns in (
        ("beliefs", "Beliefs recorded while playing", [*_F1, *_LIMITS]),
        ("beliefs_intentions", "By intention: Beliefs recorded while playing", [_F1[0]]),
    ):
        yield counted_table(
            tally,
            name,
            DIMENSIONS,
            title,
            "What a seat took another to intend, scored as a guess about that seat's latest speech. Its "
            "first belief about each speech that gives an item counts; options are the lists of every role. "
            "By the speaker's side and role.",
            _BY,
            columns,
            empty="no beliefs about intentions were recorded",
        )


def _role_guesses(tally: FigureTally) -> Iterator[ReportTable]:
    heads = {"of": "rater", **_BY}
    yield counted_table(
        tally,
        "role_guesses",
        DIMENSIONS,
        "Role guesses",
        "Right, of the guesses about an item that name a role, by the true role; Brier score of confidence "
        "/ 5 (0 is best). Of a seat's beliefs, the first one about each speech that gives an item counts.",
        heads,
        [
            CountedColumn("accuracy"),
            CountedColumn(
                "brier", "fraction", "number", groups=frozenset({"all"}), empty="no confidence was stated"
            ),
        ],
        empty="nobody named a role",
    )
    yield counted_table(
        tally,
        "reliability",
        DIMENSIONS,
        "Reliability of stated confidence",
        "Of the role guesses stated with each confidence 0 to 5: how many were right, beside what was stated "
        f"(confidence / {STEPS[-1]}).",
        {"of": "rater", "label": "confidence"},
        [CountedColumn("right"), CountedColumn("stated", "fraction")],
        empty="nobody stated a confidence",
    )


# --- what we add ----------------------------------------------------------------------------------


def _impact(builder: ReportBuilder) -> ReportTable:
    tally = builder.tally
    columns = [CountedColumn("paper's rule"), CountedColumn("released rule")]
    rows = []
    flags = {
        "paper's rule": _impactful(builder.paper_impact),
        "released rule": _impactful(builder.released_impact),
    }
    for row in counted_rows(
        tally, "impact", {"group": "", "label": ""}, columns, "not selected, or not followed"
    ):
        side, intention = row.labels
        marks = [name for name, members in flags.items() if (side, intention) in members]
        rows.append(TableRow((side, intention, "; ".join(marks) or "no"), row.figures))
    return ReportTable(
        "impact",
        PAPER,
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
    yield counted_table(
        tally,
        "correction",
        OURS,
        "Self-correction: how often modification changes the choice",
        "Turns whose final selection is another set than the first, of all that recorded both.",
        _BY,
        [CountedColumn("changed")],
        empty=_NO_THOUGHTS,
    )
    yield counted_table(
        tally,
        "correction_sets",
        OURS,
        "Self-correction: what is changed",
        "Dropped: intentions of first selections that the final one lacks. Added: intentions of "
        "final selections "
        "that the first one lacked.",
        {"label": "intentions"},
        [CountedColumn("share")],
        empty=_NO_THOUGHTS,
    )
    heads = {"group": "aspect", "label": "turns"}
    columns = _worth_columns("score")
    rows: list[TableRow] = []
    kinds: tuple[tuple[Kind, Sequence[str]], ...] = (("fraction", ("reasonable",)), ("score", PARTS))
    for kind, aspects in kinds:
        of_kind = counted_rows(
            tally,
            "correction_worth",
            heads,
            _worth_columns(kind),
            "nothing counted",
        )
        rows += [row for row in of_kind if row.labels[0] in aspects]
    yield ReportTable(
        "correction_worth",
        OURS,
        "Self-correction: does it make things better?",
        "A turn's final stage against its first, in turns judged in both. Reasonable: the mean "
        "share, in turns "
        "that changed; think, speak: the mean score. Sign test: two-sided p over games: those in which "
        "more turns got better than worse against those in which more got worse.",
        tuple(heads.values()),
        (*(Column(column.name, column.unit) for column in columns), Column("sign test p", "number")),
        tuple(
            TableRow(row.labels, {**row.figures, "sign test p": _sign_test(tally, *row.labels)})
            for row in rows
        ),
        "" if rows else NO_JUDGEMENTS,
    )


def _worth_columns(kind: Kind) -> list[CountedColumn]:
    return [
        CountedColumn("better"),
        CountedColumn("worse"),
        CountedColumn("mean first", kind, "number"),
        CountedColumn("mean final", kind, "number"),
        CountedColumn("mean change", "mean", "number"),
    ]


def _sign_test(tally: FigureTally, aspect: str, turns: str) -> Figure:
    """Over games, since turns of one game depend on each other."""
    better = tally.figure(FigureKey("correction_worth", "", aspect, turns, "games better"), "share", "")
    moved = int(better.den or 0)
    p = sign_test(int(better.num or 0), moved - int(better.num or 0))
    if p is None:
        return nothing("in no game did more turns get better than worse, or the other way round")
    return replace(
        better, value=p, low=None, high=None, num=None, method="none", note="a p value, not an estimate"
    )


def _own_metrics(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        OWN_METRICS,
        OURS,
        "Metrics of installed packages",
        "Functions of one speaking turn, from the entry points interintent.metrics. A share: of the turns "
        "that the metric says something about, those for which it says yes. A value: the sum of its "
        "numerators over the sum of its denominators.",
        {"of": "metric", **_BY},
        [CountedColumn("share"), CountedColumn("value", "mean", "number")],
        empty="no metric said anything about these turns",
    )


def _hallucination(tally: FigureTally) -> ReportTable:
    return counted_table(
        tally,
        "hallucination",
        OURS,
        "Statements that the record refutes",
        "Read by rule from English: who led, was on a team, voted how, which quest failed. A lower bound. "
        "Undecided: statements about the record that the rules could not judge. Coverage: decided ones, of "
        "all that the rules found; what is refuted is a share of the decided.",
        _BY,
        [
            CountedColumn("speeches with one"),
            CountedColumn("statements refuted", empty="no statement was decided"),
            CountedColumn("refuted a speech", "rate", "number"),
            CountedColumn("coverage", empty="no statement about the record was found"),
            CountedColumn("undecided", "sum", "count"),
        ],
        empty="nobody spoke",
    )


def _judges(builder: ReportBuilder) -> ReportTable:
    """Each judge separately. If people judged too, a judge's scores are shown only if it agrees with them."""
    beside_people = bool(builder.judgements.keys() - builder.judges)
    rows = []
    for judge in sorted(builder.judges):
        figures: dict[str, Figure] = {}
        for part in ASPECTS:
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
            for name in (*ASPECTS, *(f"kappa, {part}" for part in ASPECTS))
        ),
        tuple(rows),
        "" if rows else "nobody but people judged",
    )


def _lacking(builder: ReportBuilder, judge: str, part: str) -> str:
    """Why the judge's scores may not be shown beside people's in this part; empty: they may."""
    if judge not in builder.judges or part not in ASPECTS:
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
    return counted_table(
        tally,
        DEFAULTS,
        WHO,
        "Decisions played by default",
        "Of all decisions of these seats, those for which the rules' default was played: because no answer "
        "of a model could be used (model_error), because a bot was late (deadline), or because its answers "
        "were illegal (attempts). Several seats of one agent pool.",
        _BY,
        [CountedColumn("defaulted"), *(CountedColumn(cause) for cause in sorted(CAUSES))],
        empty="nobody decided anything",
    )


def _excluded(tally: FigureTally, above: float) -> ReportTable:
    """``tally`` has the counts of all games."""
    return counted_table(
        tally,
        EXCLUDED,
        WHO,
        "Excluded games",
        "Of all games with this agent or in this group: those whose models defaulted more than "
        f"{100 * above:g} % of their decisions, and those that were marked as invalid. No figure counts "
        "them; where they change one, it stands a second time, with them in. What makes a model fail may "
        "depend on what is compared: look whether the groups lose equally many.",
        _BY,
        [CountedColumn("excluded"), *(CountedColumn(reason) for reason in get_args(Exclusion))],
        empty="no games",
    )


# --- who played -----------------------------------------------------------------------------------


def _rate(rate: Rate, behind: GameSet) -> Figure:
    interval = rate.interval
    if interval is None:
        return nothing("never played so")
    made = Figure(rate.rate, *interval, rate.num, rate.den, games=rate.den, method="wilson")
    return replace(made, of_games=behind)


def _ratings(played: Sequence[RatedGame]) -> dict[str, Figure]:
    """Each agent's rating; empty without games, or without what ratings need."""
    if find_spec("scipy") is None:
        return {}
    return {
        one.player: Figure(*one.rating, games=one.games, method="rating", note=RATING)
        for one in rate(played).players
    }


def _with_own_ids(played: Iterable[RatedGame]) -> Iterator[RatedGame]:
    """The games, each under an id of its own: simulated games of one seed have the same id in every file."""
    times: Counter[str] = Counter()
    for rules, game in played:
        times[game.game_id] += 1
        n = times[game.game_id]
        yield RatedGame(rules, game if n == 1 else replace(game, game_id=f"{game.game_id} ({n})"))


RATING: Final = "the share of games won with a seat dealt at random, among agents of mean skill"
NO_RATING: Final = "ratings need numpy and scipy: pip install numpy scipy"


class _Seated:
    """The games that agents with rivals played, by agent and by role or side."""

    def __init__(self, played: Sequence[Played]) -> None:
        contests = [game for game in played if len(set(game.agents)) > 1]
        self._names = tuple(dict.fromkeys(game.game_id for game in contests))
        bits = {name: 1 << place_ for place_, name in enumerate(self._names)}
        self._masks: Counter[tuple[str, Role | Side]] = Counter()
        for game in contests:
            for agent, role in zip(game.agents, game.roles, strict=True):
                for part in (role, side_of(role)):
                    self._masks[agent, part] |= bits[game.game_id]

    def games(self, agent: str, *parts: Role | Side, against: str | None = None) -> GameSet:
        """The games in which the agent held one of these parts, against the other one if it is named."""
        mask = 0
        for part in parts:
            mask |= self._masks[agent, part]
        if against is not None:
            (role,) = parts
            other = Side.EVIL if side_of(Role(role)) is Side.LOYAL else Side.LOYAL
            mask &= self._masks[against, other]
        return GameSet(self._names, mask)


def _value(figure: Figure | None) -> float:
    return 0.0 if figure is None or figure.value is None else figure.value


def _agents(builder: ReportBuilder) -> Iterator[ReportTable]:
    played = list(_with_own_ids(builder.played))
    table = head_to_head(game for _, game in played)
    seated = _Seated([game for _, game in builder.played])
    ratings = _ratings([game for game in played if len(set(game.played.agents)) > 1])
    ladder = sorted(table.standings, key=lambda row: (-(_value(ratings.get(row.agent))), row.agent))
    empty = "nobody said who sat where" if not builder.played else "one agent held every seat of every game"
    yield ReportTable(
        "standings",
        WHO,
        "Agents: win rates and ratings",
        f"{table.games} games whose seats different agents held; {table.mirrors} that one agent held "
        "alone are "
        "left out. Rating: the share of games that an agent is expected to win with a seat dealt at random, "
        "if agents of mean skill hold all other seats; one fit over all games (docs/ratings.md).",
        ("agent",),
        (Column("as loyal"), Column("as evil"), Column("rating")),
        tuple(
            TableRow(
                (row.agent,),
                {
                    "as loyal": _rate(row.as_loyal, seated.games(row.agent, Side.LOYAL)),
                    "as evil": _rate(row.as_evil, seated.games(row.agent, Side.EVIL)),
                    "rating": replace(
                        ratings.get(row.agent, nothing(NO_RATING)), of_games=seated.games(row.agent, *Side)
                    ),
                },
            )
            for row in ladder
        ),
        "" if table.standings else empty,
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
            TableRow(
                (duel.agent, duel.role.value, duel.opponent),
                {"won": _rate(duel.won, seated.games(duel.agent, duel.role, against=duel.opponent))},
            )
            for duel in table.duels
        ),
        "" if table.duels else empty,
        "full",
    )


_USE: Final = (
    *("calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost"),
)


def _use(builder: ReportBuilder) -> ReportTable:
    summed: dict[tuple[str, str], dict[str, float]] = {}
    for use in builder.uses:
        sums = summed.setdefault((use.endpoint, use.model), {})
        for name in _USE:
            if (value := getattr(use, name)) is not None:
                sums[name] = sums.get(name, 0) + value
    note = "a sum over these games, not a sample: no interval"
    return ReportTable(
        "models",
        WHO,
        "What models were asked",
        "Calls, tokens and cost, summed over the games. Reasoning tokens are a part of the completion's, as "
        "far as the provider says; none: it does not say. Cost is what the endpoint's configured prices say.",
        ("endpoint", "model"),
        tuple(Column(name.replace("_", " "), "number" if name == "cost" else "count") for name in _USE),
        tuple(
            TableRow(
                key,
                {
                    name.replace("_", " "): Figure(sums[name], num=sums[name], games=builder.games, note=note)
                    if name in sums
                    else Figure(None, note="not kept" if name == "failed" else "the provider does not say")
                    for name in _USE
                },
            )
            for key, sums in sorted(summed.items())
        ),
        "" if summed else "no model was asked, or nothing was kept of it",
        "full",
    )
