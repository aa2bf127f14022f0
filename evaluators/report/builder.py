"""Counts finished games one by one, for a report with the paper's tables beside its figures.

    builder = ReportBuilder()
    for game in games:
        builder.add(ReportedGame(game, judgements=…, answers=…, agents=…))
    report = make_report(builder)

All counts come from ``measures``. Memory grows only by a little per game for the contests of agents, and
by the items that several raters judged.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, get_args

from engine.events import UtteranceMade
from engine.intentions import BY_ID
from engine.terms import Seat, Side, side_of
from evaluators.dataset.metrics import METRICS, OWN_METRICS, counted, installed_metrics
from evaluators.dataset.rows import turn_rows
from evaluators.ground.anew import SPARE, KnownGames
from evaluators.ground.answers import Guess, Unmapped
from evaluators.ground.items import DIMENSIONS, Dimension, Followed, Item, Variant, items
from evaluators.ground.judgements import SCORES, Judgement, follow_scores
from evaluators.ground.provenance import package_version
from evaluators.ground.turns import Game
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.measures.comparing import judged_counts
from evaluators.measures.defaults import CAUSES, EXCLUDE_ABOVE, DecisionCounter, SeatDecisions
from evaluators.measures.duels import Played
from evaluators.measures.guessing import BeliefItems, BeliefScores
from evaluators.measures.hallucination import Hallucinations, statements_of
from evaluators.measures.impact import PAPER, RELEASED, ImpactCounts, Link, link_rules
from evaluators.measures.judged import (
    ASPECTS,
    PARTS,
    CorrectionScores,
    FollowingScores,
    SelectionScores,
    judged_turns,
)
from evaluators.measures.play import PlayMetrics, may_change_teams
from evaluators.measures.scoring import F1, RoleScores, Scores
from evaluators.measures.statements import Finding
from evaluators.ratings.games import RatedGame
from evaluators.report.columns import (
    SEAT_COLUMNS,
    Condition,
    Contrast,
    GameColumns,
    columns_of,
    pooled,
    rule_set,
    selected,
)
from evaluators.report.contrasts import FOUND_BELOW, ContrastCounts
from evaluators.report.corrections import count_overlap
from evaluators.report.raters import Rated, count_pairs
from evaluators.report.reading import (
    Answerer,
    RaterKind,
    count_confusions,
    count_guesses,
    limit_counts,
)
from evaluators.report.rulings import count_rulings
from evaluators.report.statements import count_statements
from evaluators.statistics.agreement import ratings_of
from evaluators.statistics.figures import FigureKey, FigureTally
from evaluators.statistics.intervals import Counts
from evaluators.statistics.rates import Rate

__all__ = [
    "DAMAGED",
    "DEFAULTS",
    "EXCLUDED",
    "Answered",
    "Exclusion",
    "ReportBuilder",
    "ReportedGame",
    "SeatUse",
]


@dataclass(frozen=True, slots=True)
class Answered:
    """One rater's answers to the items of one game, all items made by the same variant."""

    dimension: Dimension
    rater: str
    guesses: Sequence[Guess]
    """One guess per item; several samples are joined by majority first."""
    variant: Variant = field(default_factory=lambda: Variant(reader="all"))
    """How the items were made; by default every other seat guesses."""
    unmapped: Unmapped = "count"
    kind: RaterKind = "program"

    @property
    def settings(self) -> str:
        """Every setting that differs from the default; empty if none does."""
        plain = Variant()
        differences = [
            str(getattr(self.variant, name))
            for name in ("options", "history", "context")
            if getattr(self.variant, name) != getattr(plain, name)
        ]
        if self.unmapped != "count":
            differences.append(f"unmapped {self.unmapped}ed")
        return ", ".join(differences)

    @property
    def name(self) -> str:
        """The rater with its settings, since scores of different variants cannot be compared."""
        return f"{self.rater} ({self.settings})" if self.settings else self.rater

    @property
    def answerer(self) -> Answerer:
        with_history = replace(self, variant=replace(self.variant, history="all"))
        return Answerer(self.kind, self.settings, with_history.name)


@dataclass(frozen=True, slots=True)
class ReportedGame:
    """One finished game with its judgements, answers and agents."""

    game: Game
    judgements: Sequence[Judgement] = ()
    answers: Sequence[Answered] = ()
    agents: tuple[str, ...] | None = None
    """The agent of each seat, seat 1 first; None: unknown."""
    groups: Mapping[str, Collection[Seat]] = field(default_factory=dict)
    """The seats of each group, for the comparison side by side. A group of all seats counts the whole game;
    any other group counts what its seats said, thought and won."""
    judges: frozenset[str] = frozenset()
    """Raters that are models or programs. Their scores are never pooled with people's. If no person judged a
    game, their scores decide which intentions were followed, and the link to winning is shown for each
    judge."""
    statements: Sequence[SpeechJudgement] = ()
    """The statements that model judges found in the game's speeches."""
    models: Collection[Seat] | None = None
    """The seats that language models held; None: unknown."""
    invalid: bool = False
    """Whether somebody marked the game as invalid."""
    columns: GameColumns | None = None
    """What the game and its seats are told apart by; None: what its log says."""
    batch: str | None = None
    forked_from: str | None = None
    """The game whose log this one begins with; one of the same batch was played anew, in that one's place."""


Exclusion = Literal["defaults", "invalid"]
"""Why a game is excluded."""

DEFAULTS: Final = "defaults"
EXCLUDED: Final = "excluded_games"
"""The tables of decisions played by default, and of excluded games."""


@dataclass(frozen=True, slots=True)
class SeatUse:
    """The calls of one model: number, tokens and cost."""

    endpoint: str
    model: str
    calls: int
    failed: int | None
    """None: not known."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None
    """Completion tokens that were reasoning; None: the provider does not say."""
    cost: float


RULES: Final = tuple(rule for per in ("teammates", "intentions") for rule in link_rules(per))
"""The rules of the link between understanding and winning: r of the paper and r of the released code."""

_NAMED: Final = 50
"""The most left-out games that are named; all are counted."""

DAMAGED: Final = "damaged where it was stored"
"""Why a judgement or an answer is not counted."""

FOLLOWED: Final = "followed"
UNFILTERED: Final = "no filter"


class ReportBuilder:
    """Counts games one by one; ``sections.make_report`` makes the report."""

    def __init__(
        self,
        title: str = "Report",
        *,
        variant: Variant | None = None,
        exclude_above: float = EXCLUDE_ABOVE,
        where: Sequence[Condition] = (),
        contrasts: Sequence[Contrast] = (),
        level: float = FOUND_BELOW,
    ) -> None:
        """``variant`` says how the counted items are made; ``made_of`` shows it. ``exclude_above``: games
        whose models defaulted a larger share of their decisions are excluded; with 1, none is. ``where``:
        only seats that meet every condition are counted. ``level``: the greatest p value of a contrast that
        counts.
        """
        self.level = level
        self.title = title
        self.where = tuple(where)
        self.contrasts = [ContrastCounts(one) for one in contrasts]
        self._variant = variant or Variant()
        self.exclude_above = exclude_above
        self.set_aside: ReportBuilder | None = None
        """The counts of excluded games; None: there is none."""
        self.first: ReportBuilder | None = None
        """The counts without games that were played anew in place of counted or excluded ones; None: there
        are no such games."""
        self._anew: list[ReportedGame] = []
        """Games that may have been played anew. Whether they count is known when all games are."""
        self._batches: dict[str, str | None] = {}
        """The batch of each other game that is counted or excluded."""
        self.anew = 0
        """The number of games that count in place of excluded ones."""
        self.forks = 0
        """The number of forks that count beside a game with which they share a past."""
        self.exclusions: Counter[Exclusion] = Counter()
        """Of the counted games; so it is empty unless this builder is the ``set_aside`` of another."""
        self.decisions: dict[str, SeatDecisions] = {}
        """By agent."""
        self.tally = FigureTally()
        self.groups: dict[str, FigureTally] = {}
        self.items: Counter[Dimension] = Counter()
        self.turns = 0
        self.beliefs = 0
        self.judged_games = 0
        self.judges: set[str] = set()
        """Raters that are models or programs."""
        self.judgements: Counter[str] = Counter()
        self.judged_speeches: Counter[str] = Counter()
        """The number of speeches that each judge read for statements."""
        self.answers: Counter[tuple[Dimension, str]] = Counter()
        self.raters: dict[str, Answerer] = {}
        """Who answered, by name. Who ever answered as a model or a program is no person."""
        self.variants: dict[str, dict[str, Any]] = {}
        self.excluded: dict[str, Counter[str]] = {}
        self.paper_impact = ImpactCounts(PAPER)
        self.released_impact = ImpactCounts(RELEASED)
        self.shared: dict[str, dict[str, dict[str, int]]] = {"reasonable": {}, "think": {}, "speak": {}}
        """By part, rater and item: the ratings of items that several raters judged."""
        self.played: list[RatedGame] = []
        self.unseated = 0
        """The number of games without known agents."""
        self.uses: list[SeatUse] = []
        self.profiles: Counter[str] = Counter()
        self.left_out: list[tuple[str, str]] = []
        """The first games that were left out, with the reason; of excluded games, in ``set_aside``."""
        self.served: dict[str, set[str]] = {}
        """By endpoint, the models that answered, as the provider names them."""
        self.versions: dict[str, dict[str, set[str]]] = {}
        """By group, or level of a contrast, and model as asked: the versions that answered."""
        self.invalid: dict[str, str] = {}
        """Games that were marked as invalid: when, by whom and why."""

    @property
    def games(self) -> int:
        return self.tally.games

    def pass_over(self, reason: str, games: int = 1) -> None:
        """Counts games that are left out of the report, by reason."""
        self._excluded("games")[reason] += games

    def leave_out(self, game_id: str, reason: str) -> None:
        """Counts one game that is left out, and names it if it is among the first ones."""
        self.pass_over(reason)
        if len(self.left_out) < _NAMED:
            self.left_out.append((game_id, reason))

    def lose(self, about: str, row: str, game_id: str) -> None:
        """Counts and names a judgement or answer that is damaged in the database."""
        self._excluded(about)[DAMAGED] += 1
        if len(self.left_out) < _NAMED:
            self.left_out.append((game_id, f"{row} is {DAMAGED}"))

    def use(self, uses: Iterable[SeatUse]) -> None:
        """Adds the model calls of the games."""
        for use in uses:
            self.uses.append(use)
            if use.calls > (use.failed or 0):
                self.served.setdefault(use.endpoint, set()).add(use.model)

    def _add_served(self, served: Mapping[str, Collection[str]]) -> None:
        for endpoint, models in served.items():
            self.served.setdefault(endpoint, set()).update(models)

    def _add_versions(self, cell: str, columns: GameColumns | None, seats: Collection[Seat]) -> None:
        for model, version in () if columns is None else columns.versions(seats):
            self.versions.setdefault(cell, {}).setdefault(model, set()).add(version)

    def _excluded(self, about: str) -> Counter[str]:
        return self.excluded.setdefault(about, Counter())

    # --- one game ---------------------------------------------------------------------------------

    @property
    def limited(self) -> bool:
        """Whether single seats are selected, so that figures of whole games are left out."""
        return any(condition.column in SEAT_COLUMNS for condition in self.where)

    def where_words(self) -> str:
        """The conditions in words; empty if there are none."""
        return " and ".join(map(str, self.where))

    def add(self, reported: ReportedGame) -> None:
        """Counts one game; an excluded one apart from the others. Each game is added once. A game without a
        seat that meets the conditions is passed over. What is forked from another game is counted by
        ``settled``.
        """
        if (self.where or self.contrasts) and reported.columns is None:
            reported = replace(reported, columns=columns_of(reported.game, agents=reported.agents))
        if self.where and not selected(reported.columns, self.where):  # type: ignore[arg-type]
            self.pass_over(f"no seat with {self.where_words()}")
            return
        if reported.forked_from is not None:
            self._anew.append(reported)
        else:
            self._place(reported)

    def _place(self, reported: ReportedGame) -> None:
        self._batches[reported.game.id] = reported.batch
        decisions = DecisionCounter(reported.game.log)
        exclusion = self._exclusion(reported, decisions)
        builder = self if exclusion is None else self._excluded_builder()
        builder._add(reported, decisions, exclusion)

    def _exclusion(self, reported: ReportedGame, decisions: DecisionCounter) -> Exclusion | None:
        if reported.invalid:
            return "invalid"
        share = decisions.of_models(reported.models).rate
        return "defaults" if share is not None and share > self.exclude_above else None

    def settled(self) -> "ReportBuilder":
        """The counts once all games were added: of a game and those that were played anew in its place, one
        counts, the first that is not excluded. With excluded games in, the earliest one counts.
        """
        if not self._anew:
            return self
        first = self._like()
        first.merge(self)
        first._anew = []
        forked = {reported.game.id: reported for reported in self._anew}
        known = KnownGames()
        aside = frozenset() if self.set_aside is None else frozenset(self.set_aside.tally.names)
        for name, batch in self._batches.items():
            known.add(name, batch, None, excluded=name in aside)
        for name, reported in forked.items():
            why = self._exclusion(reported, DecisionCounter(reported.game.log))
            known.add(name, reported.batch, reported.forked_from, excluded=why is not None)
        in_place: list[str] = []
        sources: set[str] = set()
        for name, reported in forked.items():
            source = str(reported.forked_from)
            if known.earlier(name):
                in_place.append(name)
            else:
                first._place(reported)
                first.forks += source in self._batches or source in forked or source in sources
                sources.add(source)
        if not in_place:
            return first
        whole = self._like()
        whole.merge(first)
        whole.first, whole.forks = first, first.forks
        for name in in_place:
            reported, decisions = forked[name], DecisionCounter(forked[name].game.log)
            if self._exclusion(reported, decisions) is not None:
                whole.leave_out(name, "played anew, and to be excluded again")
            elif known.is_spare(name):
                whole.leave_out(name, SPARE)
            else:
                whole._add(reported, decisions, None)
                whole.anew += 1
        return whole

    def _excluded_builder(self) -> "ReportBuilder":
        if self.set_aside is None:
            self.set_aside = self._like()
        return self.set_aside

    def _like(self) -> "ReportBuilder":
        """A builder with the same settings, and without counts."""
        return ReportBuilder(
            self.title,
            variant=self._variant,
            exclude_above=self.exclude_above,
            where=self.where,
            contrasts=[counts.asked for counts in self.contrasts],
            level=self.level,
        )

    def with_excluded(self) -> "ReportBuilder":
        """The counts of all games, the excluded ones too; these in place of what was played anew."""
        every = self._like()
        every._merge_counts(self.first or self)
        if self.set_aside is not None:
            every._merge_counts(self.set_aside)
        return every

    def _add(self, reported: ReportedGame, decisions: DecisionCounter, exclusion: Exclusion | None) -> None:
        game = reported.game
        players = frozenset(range(1, len(game.roles) + 1))
        kept = players if reported.columns is None else selected(reported.columns, self.where)
        trial = (reported.columns or columns_of(game, agents=reported.agents)).trial
        self.tally.begin(game.id, trial)
        parts: dict[frozenset[Seat], list[Count]] = {kept: [_counts_of(self.tally)]}
        groups = {group: frozenset(seats) & kept for group, seats in reported.groups.items()}
        for group, seats in groups.items():
            if seats:
                self.groups.setdefault(group, FigureTally()).begin(game.id, trial)
                parts.setdefault(seats, []).append(_counts_of(self.groups[group]))
                self._add_versions(f"group {group}", reported.columns, seats)
        for contrast in self.contrasts:
            assert reported.columns is not None
            cells = zip(contrast.asked.cells, contrast.asked.seats(reported.columns), strict=True)
            for cell, seats in cells:
                self._add_versions(f"{contrast.asked}, {cell}", reported.columns, seats & kept)
            for seats, write in contrast.begin(game.id, reported.columns, kept):
                parts.setdefault(seats, []).append(write)
        self.profiles[rule_set(game.profile)] += 1
        if game.provenance is not None:
            self._add_served(game.provenance.served)
        if exclusion is not None:
            self.exclusions[exclusion] += 1
            if len(self.left_out) < _NAMED:
                self.left_out.append((game.id, self._words(exclusion)))
        self._count_exclusion(reported, groups, exclusion)
        once = _ReadOnce(game, decisions)
        for seats, counting in parts.items():
            count = _to_all(counting)
            _count_wins(game, seats, count)
            if seats == kept:
                self._count_items(game if kept == players else game.of(kept))
                self._count_raters_of(reported, kept, self._count_part(reported, once, kept, count))
            else:
                # The second builder's counts of what was left out are dropped: the first has them.
                second = ReportBuilder(variant=self._variant)
                second._count_part(reported, once, seats, count)
        if reported.agents is None or kept < players:
            self.unseated += 1
        else:
            played = Played(game.id, reported.agents, game.roles, game.winner)
            self.played.append(RatedGame(rule_set(game.profile), played))

    def _count_part(
        self,
        reported: ReportedGame,
        once: "_ReadOnce",
        seats: frozenset[Seat],
        count: "Count",
    ) -> dict[str, list[Rated]]:
        """Counts what these seats did, said and thought, and everything if they are all seats. Returns each
        rater's counts of each item, by part, for the comparison of raters.
        """
        game = reported.game
        whole = len(seats) == len(game.roles)
        own = game if whole else game.of(seats)
        only = None if whole else seats
        self._count_decisions(reported, once.decisions, count, seats)
        self._count_play(game, count, only)
        self._count_speeches(once, count, only)
        self._count_own_metrics(once, count, only)
        statements = [one for one in reported.statements if whole or _seat_of(one.key.request_id) in seats]
        self.judged_speeches.update(count_statements(game, statements, count))
        count_rulings(own, count)
        scored = self._count_beliefs(once, count, only)
        count_guesses(None, scored, reported.agents, count)
        ours = _judgements_of(reported, seats)
        people = [judgement for judgement in ours if judgement.rater not in reported.judges]
        if people:
            self._count_judgements(own, people, count)
            if whole:
                self._count_links(game, people, count)
        for judge in sorted(reported.judges & {judgement.rater for judgement in ours}):
            self.judges.add(judge)
            its = [judgement for judgement in ours if judgement.rater == judge]
            self._count_judge(own, judge, its, count)
            if whole and not people:
                self._count_links(game, its, count, f", by {judge}")
        # In a game that some person judged, people's word alone counts, whichever seats they judged.
        by_people = any(
            one.game_id == game.id and one.rater not in reported.judges for one in reported.judgements
        )
        judgements = people if by_people else ours
        self._count_corrections(own, judgements, count)
        self._count_impact(own, judgements, count)
        units: dict[str, list[Rated]] = {}
        for answered in reported.answers:
            for part, rated in self._count_answers(own, answered, judgements, count, reported.agents):
                units.setdefault(part, []).append(rated)
        return units

    def _count_raters_of(
        self, reported: ReportedGame, seats: frozenset[Seat], units: dict[str, list[Rated]]
    ) -> None:
        """Counts who judged what, and compares raters."""
        ours = _judgements_of(reported, seats)
        if ours:
            self.judged_games += 1
            self._count_raters(ours)
        people = [judgement for judgement in ours if judgement.rater not in reported.judges]
        for judge in sorted(reported.judges & {judgement.rater for judgement in ours}):
            its = [judgement for judgement in ours if judgement.rater == judge]
            count_overlap(self.tally, reported.game, judge, its, people, reported.agents)
        for part_ in ("reasonable", "think", "speak"):
            for rater, counts in judged_counts(reported.game, ours, part_).items():
                units.setdefault(part_, []).append(Rated(rater, counts, counts))
        count_pairs(self.tally, units)

    def _count_exclusion(
        self, reported: ReportedGame, groups: Mapping[str, Collection[Seat]], exclusion: Exclusion | None
    ) -> None:
        """Counts whether the game is excluded, in the cells to which it belongs."""
        cells = [("all", "all"), *(("group", group) for group, seats in groups.items() if seats)]
        cells += [("agent", agent) for agent in sorted(set(reported.agents or ()))]
        for group, label in cells:
            key = FigureKey(EXCLUDED, "", group, label, "excluded")
            self.tally.count(key, (int(exclusion is not None), 1))
            for reason in get_args(Exclusion):
                self.tally.count(key._replace(column=reason), (int(exclusion == reason), 1))

    def _count_decisions(
        self, reported: ReportedGame, decisions: DecisionCounter, count: "Count", seats: Collection[Seat]
    ) -> None:
        agents = reported.agents or ("unknown",) * len(reported.game.roles)
        cells: dict[tuple[str, str], SeatDecisions] = {}
        for seat, decided in sorted(decisions.seats.items()):
            if seat not in seats:
                continue
            agent = agents[seat - 1]
            self.decisions.setdefault(agent, SeatDecisions()).add(decided)
            of_agent = [] if reported.agents is None else [("agent", agent)]
            for cell in (("all", "all"), ("seat", str(seat)), *of_agent):
                cells.setdefault(cell, SeatDecisions()).add(decided)
        for (group, label), decided in cells.items():
            key = FigureKey(DEFAULTS, "", group, label, "defaulted")
            count(key, (decided.defaulted.total(), decided.decisions))
            for cause in CAUSES:
                count(key._replace(column=cause), (decided.defaulted[cause], decided.decisions))

    def _words(self, exclusion: Exclusion) -> str:
        if exclusion == "invalid":
            return "marked as invalid"
        return f"models defaulted more than {100 * self.exclude_above:g} % of their decisions"

    def exclusion_words(self) -> str:
        """How many games are excluded, of how many, and why; empty if none is."""
        if self.set_aside is None:
            return ""
        excluded = self.set_aside.games
        why = (f"{n} × {self._words(reason)}" for reason, n in sorted(self.set_aside.exclusions.items()))
        anew = f"; {self.anew} of them played anew" if self.anew else ""
        return f"{excluded} of {self.games - self.anew + excluded} games ({', '.join(why)}{anew})"

    def _count_play(self, game: Game, count: "Count", seats: Collection[Seat] | None) -> None:
        metrics = PlayMetrics()
        for key, counts in metrics.add(game.log, seats):
            count(key, counts)
        for role, rate in metrics.engagement().items():
            count(FigureKey("roles", "", "role", role.value, "on quests"), rate)
        for role in {game.role(seat) for seat in seats or game.profile.seats}:
            won = Rate(int(side_of(role) is game.winner), 1)
            count(FigureKey("roles", "", "role", role.value, "games won"), won)
        if seats is not None:
            return  # Rounds are those of the whole table.
        rounds = {round_.round: round_ for round_ in metrics.by_round()}
        # A game that ended before a quest counts in the denominator of that quest.
        for number in range(1, len(game.profile.team_sizes) + 1):
            played = rounds[number].played if number in rounds else Rate(0, 1)
            count(FigureKey("rounds", "", "round", str(number), "played"), played)
        # Where no team can be reconsidered, that none changed is no finding.
        reconsiders = may_change_teams(game.profile)
        for number, round_ in rounds.items():
            for name in _OF_ROUND:
                if reconsiders or name != "changed":
                    count(FigureKey("rounds", "", "round", str(number), name), getattr(round_, name))

    def _count_speeches(self, once: "_ReadOnce", count: "Count", seats: Collection[Seat] | None) -> None:
        hallucinations = Hallucinations()
        hallucinations.add(once.statements, once.game.roles, seats)
        for group, label, whose in (
            ("all", "all", None),
            *(("side", side.value, side) for side in Side),
            *(("role", role.value, role) for role in hallucinations.roles),
        ):
            speeches = hallucinations.speeches(whose)
            statements = hallucinations.statements(whose)
            key = FigureKey("hallucination", "", group, label, "")
            for column, counts in (
                ("speeches with one", speeches),
                ("statements refuted", statements),
                ("refuted a speech", (statements.num, speeches.den)),
                ("undecided", (hallucinations.unparsed(whose),)),
                ("coverage", (statements.den, statements.den + hallucinations.unparsed(whose))),
            ):
                count(key._replace(column=column), counts, speeches.den)

    def _count_own_metrics(self, once: "_ReadOnce", count: "Count", seats: Collection[Seat] | None) -> None:
        """Counts what installed metrics say of each turn, in total and by side, role and round."""
        metrics = installed_metrics()
        if not metrics:
            return
        rows = [row for row in once.turns if seats is None or row["seat"] in seats]
        for name, row, result, failure in counted(metrics, rows):
            if failure:
                self._excluded(f"{METRICS} {name}")[failure] += 1
            if result is None:
                continue
            column = "share" if result.share else "value"
            for group in ("all", "side", "role", "round"):
                label = str(row.get(group, "all"))
                key = FigureKey(OWN_METRICS, name, group, label, column)
                count(key, (result.numerator, result.denominator), 1)

    def _count_items(self, game: Game) -> None:
        self.turns += len(game.turns)
        for dimension in DIMENSIONS:
            excluded: Counter[Any] = Counter()
            counted = items(game, dimension, self._variant, with_gold=True, excluded=excluded)
            self.items[dimension] += sum(1 for _ in counted)
            if excluded:
                self._excluded(dimension).update(excluded)

    def _count_beliefs(
        self, once: "_ReadOnce", count: "Count", seats: Collection[Seat] | None = None
    ) -> list[tuple[Item, F1]]:
        """Counts beliefs, and returns the items whose intentions were scored, with their F1."""
        scores = BeliefScores()
        scored = scores.add(once.game, seats, once.beliefs)
        self.beliefs += scores.beliefs
        if scores.left_out:
            self._excluded("beliefs").update({str(reason): n for reason, n in scores.left_out.items()})
        if scores.beliefs > scores.scored:
            self._excluded("beliefs")["about a speech that gives no item"] += scores.beliefs - scores.scored
        if scores.of_roles_alone:
            self._excluded("beliefs, their intentions")["of a game whose beliefs name roles alone"] += (
                scores.of_roles_alone
            )
        if scores.scored:
            _count_scores("beliefs", "beliefs", scores.intentions, count)
            _count_roles("beliefs", scores.roles, count)
        return scored

    def _count_judgements(self, game: Game, judgements: list[Judgement], count: "Count") -> None:
        selection, following = SelectionScores(), FollowingScores()
        selection.add(game, judgements)
        following.add(game, judgements)
        for about, left_out in (("selection", selection.left_out), ("following", following.left_out)):
            if left_out:
                self._excluded(f"judgements of {about}").update({str(k): n for k, n in left_out.items()})
        behind = _judged_items(game, judgements)
        for group, table in (
            ("all", {"all": selection.total}),
            ("stage", selection.by_stage),
            ("place", selection.by_place),
            ("side", selection.by_side),
            ("role", selection.by_role),
            ("round", selection.by_round),
            ("category", selection.by_category),
            ("intention", selection.by_intention),
        ):
            name = "selection_intentions" if group == "intention" else "selection"
            for label, rate in table.items():
                n = behind["reasonable", group, str(label)]
                count(FigureKey(name, "", group, str(label), "accuracy"), rate, n)
        for part in PARTS:
            for stage in (None, "first", "final"):
                for group, label, by in (
                    ("all", "all", {}),
                    *(("side", side.value, {"side": side}) for side in Side),
                    *(("role", role.value, {"role": role}) for role in sorted(set(game.roles))),
                ):
                    histogram = following.histogram(part, stage, **by)  # type: ignore[arg-type]
                    if not histogram.scored:
                        continue
                    n = behind[part, f"{stage or 'both'} {group}", label]
                    of = f"{part}, {stage or 'both stages'}"
                    for score in SCORES:
                        count(FigureKey("following", of, group, label, str(score)), histogram.share(score), n)
                    count(FigureKey("following", of, group, label, "good"), histogram.good, n)
                    mean = sum(score * n_score for score, n_score in zip(SCORES, histogram, strict=True))
                    count(FigureKey("following", of, group, label, "mean"), (mean, histogram.scored), n)
        every = following.histogram()
        n = behind["think", "both all", "all"] + behind["speak", "both all", "all"]
        count(FigureKey("responses", "", "all", "all", "good"), every.good, n)

    def _count_judge(self, game: Game, judge: str, judgements: list[Judgement], count: "Count") -> None:
        selection, following = SelectionScores(), FollowingScores()
        selection.add(game, judgements)
        following.add(game, judgements)
        behind = _judged_items(game, judgements)
        n = behind["reasonable", "all", "all"]
        count(FigureKey("judges", "", "judge", judge, "reasonable"), selection.total, n)
        for part in PARTS:
            n = behind[part, "both all", "all"]
            count(FigureKey("judges", "", "judge", judge, part), following.histogram(part).good, n)

    def _count_raters(self, judgements: list[Judgement]) -> None:
        for judgement in judgements:
            self.judgements[judgement.rater] += 1
        for part, shared in self.shared.items():
            ratings = ratings_of(judgements, part)  # type: ignore[arg-type]
            times = Counter(item for rated in ratings.values() for item in rated)
            for rater, rated in ratings.items():
                for item, value in rated.items():
                    if times[item] > 1:
                        shared.setdefault(rater, {})[item] = value

    def _count_links(self, game: Game, judgements: list[Judgement], count: "Count", by: str = "") -> None:
        """Counts the link between understanding and winning in one game, by each of ``RULES``. ``by``: names
        the judge in the row, if a judge replaces people.
        """
        for rule in RULES:
            link = Link(rule)
            link.add(game, judgements)
            measure = rule.measure if rule.measure == "selection" else f"following {rule.threshold}+"
            for unit in ("quest", "game"):
                of = f"{measure}, per {rule.per}{by}"
                for side in Side:
                    for relation, rate in link.shares(unit, side).items():
                        label = f"{unit}s won by {side.value}"
                        count(FigureKey("link", of, unit, label, relation), rate, rate.den)
                if link.left_out[unit]:
                    self._excluded(f"link to winning ({of})")[f"{unit}s in which a side has no r"] += (
                        link.left_out[unit]
                    )

    def _count_corrections(self, game: Game, judgements: list[Judgement], count: "Count") -> None:
        scores = CorrectionScores()
        scores.add(game, judgements)
        if not scores.changed.den:
            return
        for group, table in (
            ("all", {"all": scores.changed}),
            ("side", scores.by_side),
            ("role", scores.by_role),
            ("round", scores.by_round),
        ):
            for label, rate in table.items():
                count(FigureKey("correction", "", group, str(label), "changed"), rate, rate.den)
        first = scores.kept + scores.dropped
        n = scores.changed.den
        count(FigureKey("correction_sets", "", "intentions", "dropped", "share"), (scores.dropped, first), n)
        final = scores.kept + scores.added
        count(FigureKey("correction_sets", "", "intentions", "added", "share"), (scores.added, final), n)
        for aspect in ASPECTS:
            for label, changed in (("all", None), ("changed", True), ("unchanged", False)):
                shift = scores.shift(aspect, changed)
                key = FigureKey("correction_worth", "", aspect, label, "")
                turns = shift.turns
                if shift.better != shift.worse:
                    key_of_games = key._replace(column="games better")
                    count(key_of_games, (int(shift.better > shift.worse), 1), turns)
                for column, counts in (
                    ("better", (shift.better, turns)),
                    ("worse", (shift.worse, turns)),
                    ("mean first", (shift.first, turns)),
                    ("mean final", (shift.final, turns)),
                    ("mean change", (shift.final - shift.first, turns)),
                ):
                    if turns:
                        # A mean change of zero is a result; only a row without turns is left out.
                        count(key._replace(column=column), counts, turns)

    def _count_impact(self, game: Game, judgements: list[Judgement], count: "Count") -> None:
        for name, rule, total in (
            ("paper's rule", PAPER, self.paper_impact),
            ("released rule", RELEASED, self.released_impact),
        ):
            if rule.followed is not None and not judgements:
                continue
            counts = ImpactCounts(rule)
            counts.add(game, judgements)
            for impact in counts.table():
                key = FigureKey("impact", "", impact.side.value, impact.intention, name)
                count(key, impact.won, impact.won.den)
            total.merge(counts)

    def _count_answers(
        self,
        game: Game,
        answered: Answered,
        judgements: list[Judgement],
        count: "Count",
        agents: Sequence[str] | None = None,
    ) -> Iterator[tuple[str, Rated]]:
        """Counts one rater's answers, and yields the counts of each item for the comparison of raters."""
        name = answered.name
        self._know(name, answered.answerer)
        self.answers[answered.dimension, name] += len(answered.guesses)
        self.variants[f"{answered.dimension} {name}"] = {
            **replace(answered.variant, followed=None).as_json(),
            "unmapped": answered.unmapped,
        }
        guesses = {guess.item_id: guess for guess in answered.guesses}
        scores = follow_scores(judgements)
        filters: list[tuple[str, Variant]] = [(UNFILTERED, replace(answered.variant, followed=None))]
        if scores:
            filters.append((FOLLOWED, replace(answered.variant, followed=Followed(scores))))
        for filter_, variant in filters:
            totals, roles = Scores(answered.unmapped), RoleScores()
            units: dict[str, Counts] = {}
            guesses_scored: list[tuple[Item, F1]] = []
            for item in items(game, answered.dimension, variant, with_gold=True):
                guess = guesses.get(item.id)
                if guess is None:
                    continue  # not asked
                f1 = totals.add(item, guess)
                units[item.id] = f1.counts
                guesses_scored.append((item, f1))
                roles.add(item, guess)
            counted = len(units)
            table = answered.dimension if filter_ == UNFILTERED else f"{answered.dimension}_followed"
            # Also without a counted item: the number of answers of only one rater must not reveal which items
            # have gold.
            yield table, Rated(name, units, guesses, (answered.variant.options, answered.unmapped))
            if counted:
                _count_scores(table, name, totals, count)
                if filter_ == UNFILTERED:
                    _count_roles(name, roles, count)
                if table == "guessing":
                    count_guesses(name, guesses_scored, agents, count)
                    count_confusions(name, totals, count)
            if filter_ == UNFILTERED and len(guesses) > counted:
                self._excluded(f"answers ({answered.dimension})")["about no item that counts"] += (
                    len(guesses) - counted
                )

    def _know(self, name: str, rater: Answerer) -> None:
        known = self.raters.get(name)
        if known is None or known.kind == "human":
            self.raters[name] = rater

    # --- many games -------------------------------------------------------------------------------

    def merge(self, other: "ReportBuilder") -> None:
        """Adds the counts of ``other``, which counted other games."""
        self._merge_counts(other)
        if other.set_aside is not None:
            self._excluded_builder()._merge_counts(other.set_aside)
        self._anew += other._anew
        self._batches |= other._batches

    def _merge_counts(self, other: "ReportBuilder") -> None:
        self.tally.merge(other.tally)
        for contrast, theirs in zip(self.contrasts, other.contrasts, strict=True):
            contrast.merge(theirs)
        self.exclusions.update(other.exclusions)
        for agent, decided in other.decisions.items():
            self.decisions.setdefault(agent, SeatDecisions()).add(decided)
        for group, tally in other.groups.items():
            self.groups.setdefault(group, FigureTally()).merge(tally)
        for counter, other_counter in (
            (self.items, other.items),
            (self.judgements, other.judgements),
            (self.judged_speeches, other.judged_speeches),
            (self.answers, other.answers),
            (self.profiles, other.profiles),
        ):
            counter.update(other_counter)  # type: ignore[arg-type]
        self.turns += other.turns
        self.judges |= other.judges
        self.beliefs += other.beliefs
        self.judged_games += other.judged_games
        self.unseated += other.unseated
        self.left_out = [*self.left_out, *other.left_out][:_NAMED]
        self.invalid |= other.invalid
        for name, answerer in sorted(other.raters.items()):
            self._know(name, answerer)
        self.variants.update(other.variants)
        for about, reasons in other.excluded.items():
            self._excluded(about).update(reasons)
        self.paper_impact.merge(other.paper_impact)
        self.released_impact.merge(other.released_impact)
        for part, shared in other.shared.items():
            for rater, rated in shared.items():
                self.shared[part].setdefault(rater, {}).update(rated)
        self.played += other.played
        self.uses += other.uses
        self._add_served(other.served)
        for cell, of_cell in other.versions.items():
            for model, versions in of_cell.items():
                self.versions.setdefault(cell, {}).setdefault(model, set()).update(versions)

    def made_of(self) -> dict[str, Any]:
        """The data behind the report, by name: games, items, answers and judgements."""
        return {
            "games": self.games,
            **self._made_of_excluded(),
            "exclude_above": self.exclude_above,
            "defaults": {
                agent: decided.as_json() for agent, decided in sorted(self.with_excluded().decisions.items())
            },
            **({"where": list(map(str, self.where))} if self.where else {}),
            **({"contrasts": [str(counts.asked) for counts in self.contrasts]} if self.contrasts else {}),
            "profiles": dict(sorted(self.profiles.items())),
            "speaking_turns": self.turns,
            "items": {dimension: self.items[dimension] for dimension in DIMENSIONS},
            "variant": self._variant.as_json(),
            "answers": [
                {
                    "dimension": dimension,
                    "rater": name,
                    "kind": self.raters[name].kind,
                    "answers": n,
                    "variant": self.variants[f"{dimension} {name}"],
                }
                for (dimension, name), n in sorted(self.answers.items())
            ],
            "judgements": dict(sorted(self.judgements.items())),
            "judges": sorted(self.judges),
            "judged_speeches": dict(sorted(self.judged_speeches.items())),
            "judged_games": self.judged_games,
            "beliefs": self.beliefs,
            "groups": {group: tally.games for group, tally in sorted(self.groups.items())},
            "seated_games": len(self.played),
            "left_out": [{"game": game_id, "reason": reason} for game_id, reason in self.left_out],
            "filters": {
                UNFILTERED: "every item with gold",
                FOLLOWED: "only what was followed with 3 or more, by the mean of the judgements given",
            },
            "confidence": 0.95,
            "intervals": "over games (jackknife, Student's t); of shares Wilson's with the design effect, or "
            "with each game as one trial where games do not differ or are single trials",
            "served": {endpoint: sorted(models) for endpoint, models in sorted(self.served.items())},
            "version": package_version(),
        }

    def _made_of_excluded(self) -> dict[str, Any]:
        if self.set_aside is None:
            return {}
        return {
            "excluded_games": {
                self._words(exclusion): n for exclusion, n in sorted(self.set_aside.exclusions.items())
            },
            "excluded": [
                {"game": game_id, "reason": self.invalid.get(game_id, reason)}
                for game_id, reason in self.set_aside.left_out
            ],
        }

    def notes(self) -> Iterable[str]:
        """Notes on the whole report."""
        if self.where:
            whole = ": figures of whole games are left out" if self.limited else ""
            yield f"Only {'seats' if self.limited else 'games'} with {self.where_words()}{whole}."
        if self.set_aside is not None:
            yield f"Excluded: {self.exclusion_words()}."
        elif not self.games:
            yield "There is no finished game to report on."
        if len(self.profiles) > 1:
            note = "rule sets are pooled; group by rules to set them apart. Games of each"
            yield f"{len(self.profiles)} {note}: {pooled(self.profiles)}."
        if 0 < self.games < 15:
            yield "With fewer than 15 games intervals are rough; docs/statistics.md has how often they hold."

    def notes_on_gold(self) -> Iterable[str]:
        """Notes that reveal whether seats recorded thoughts, or what excluded games hold."""
        if self.set_aside is not None:
            yield "Where excluded games change a figure, it stands a second time, with them in."
            if self.anew:
                yield "What was played anew stands in the first figures, the excluded game in the second."
        if self.forks:
            yield (
                f"Forks among the games: {self.forks}. The past that they share with others here counts in "
                "each, and intervals take no account of it."
            )
        for endpoint, models in sorted(self.served.items()):
            if len(models) > 1:
                names = ", ".join(sorted(models))
                yield f"{endpoint} was served by {len(models)} models ({names}): its figures pool them."
        for cell, of_cell in sorted(self.versions.items()):
            for model, versions in sorted(of_cell.items()):
                if len(versions) > 1:
                    names = ", ".join(sorted(versions))
                    yield f"{cell}: {model} was served as {names}, and these are pooled (column served)."
        if self.games and not any(self.items.values()):
            yield "No items: no game holds thoughts; imported games, bots and the preset direct have none."


class _ReadOnce:
    """What is read of a game once, however many groups and contrasts count some of its seats."""

    def __init__(self, game: Game, decisions: DecisionCounter) -> None:
        self.game = game
        self.decisions = decisions

    @cached_property
    def statements(self) -> tuple[tuple[UtteranceMade, tuple[Finding, ...]], ...]:
        return tuple(statements_of(self.game.log))

    @cached_property
    def beliefs(self) -> BeliefItems:
        return BeliefScores().read(self.game)

    @cached_property
    def turns(self) -> list[dict[str, Any]]:
        return turn_rows(self.game)


Count = Callable[..., None]
"""Counts a figure by its key, its counts, and the number of items behind them."""


def _counts_of(tally: FigureTally) -> Count:
    """Counts into the tally."""

    def count(key: FigureKey, counts: Sequence[float], n: int = 0) -> None:
        tally.count(key, tuple(counts), items=n)

    return count


def _to_all(counting: Sequence[Count]) -> Count:
    """Counts into each of several places."""

    def count(key: FigureKey, counts: Sequence[float], n: int = 0) -> None:
        for one in counting:
            one(key, counts, n)

    return count


def _seat_of(request_id: str) -> Seat:
    return int(request_id.rpartition(".")[2])


def _judgements_of(reported: ReportedGame, seats: frozenset[Seat]) -> list[Judgement]:
    """The judgements of what these seats said."""
    ours = [one for one in reported.judgements if one.game_id == reported.game.id]
    if len(seats) == len(reported.game.roles):
        return ours
    turns = {turn.request_id for turn in reported.game.turns if turn.seat in seats}
    return [one for one in ours if one.request_id in turns]


def _count_wins(game: Game, seats: Collection[Seat], count: Count) -> None:
    """Counts what the seats won, by side."""
    for side in Side:
        of_side = [seat for seat in seats if game.side(seat) is side]
        if of_side:
            won = Rate(len(of_side) if game.winner is side else 0, len(of_side))
            count(FigureKey("seats", "", "seats won", side.value, "share"), won)


_OF_ROUND: Final = ("succeeded", "evil_on_team", "forced", "first_approved", "changed")


def _judged_items(game: Game, judgements: Iterable[Judgement]) -> Counter[tuple[str, str, str]]:
    """The number of items (stages of turns) that were judged, by part, group and label."""
    about: dict[tuple[str, str, str], set[tuple[str, str]]] = {}
    for judgement, turn, stage in judged_turns(game, judgements, Counter()):
        item = turn.request_id, stage.name
        role, side = game.role(turn.seat).value, game.side(turn.seat).value
        # A final selection that equals the first one is counted once, as the first.
        unchanged = stage.name == "final" and turn.first is not None and not turn.changed
        if judgement.reasonable is not None and not unchanged:
            groups = [
                ("all", "all"),
                ("stage", judgement.stage),
                ("place", "opener" if turn.opens else "responder"),
                ("side", side),
                ("role", role),
                ("round", str(turn.round)),
                ("intention", judgement.intention),
            ]
            if judgement.intention in BY_ID:
                groups.append(("category", BY_ID[judgement.intention].category))
            for group, label in groups:
                about.setdefault(("reasonable", group, label), set()).add(item)
        for part in PARTS:
            if getattr(judgement, part) is not None:
                for of in ("both", stage.name):
                    for group, label in (("all", "all"), ("side", side), ("role", role)):
                        about.setdefault((part, f"{of} {group}", label), set()).add(item)
    return Counter({key: len(items) for key, items in about.items()})


def _count_scores(table: str, of: str, scores: Scores, count: Count) -> None:
    """Counts F1, in total and by group."""
    for group, table_counts in (
        ("all", {"all": scores.total}),
        ("side", scores.by_side),
        ("role", scores.by_role),
        ("round", scores.by_round),
        ("stage", scores.by_stage),
        ("category", scores.by_category),
        ("intention", scores.by_intention),
    ):
        name = f"{table}_intentions" if group == "intention" else table
        for label, counts in table_counts.items():
            n = scores.items if group == "all" else scores.behind[group, str(label)]
            count(FigureKey(name, of, group, str(label), "f1"), counts, n)
            if (group, str(label)) in scores.limits:
                limits = scores.limits[group, str(label)]
                for column, limit in limit_counts(limits, counts.predicted + counts.gold).items():
                    count(FigureKey(table, of, group, str(label), column), limit, n)


def _count_roles(of: str, roles: RoleScores, count: Count) -> None:
    """Counts role guesses: accuracy, Brier score and the reliability curve."""
    if not roles.right.den:
        return
    n = roles.right.den
    count(FigureKey("role_guesses", of, "all", "all", "accuracy"), roles.right, n)
    for role, rate in roles.by_role.items():
        count(FigureKey("role_guesses", of, "role", role.value, "accuracy"), rate, rate.den)
    if roles.brier is not None:
        # Counted with its denominator, since a Brier score of 0 is a result.
        count(
            FigureKey("role_guesses", of, "all", "all", "brier"),
            (roles.brier * roles.stated, roles.stated),
            n,
        )
    for point in roles.curve:
        if point.stated is not None:
            key = FigureKey("reliability", of, "confidence", str(point.confidence), "right")
            count(key, point.right, point.right.den)
            stated = (point.stated * point.right.den, point.right.den)
            count(key._replace(column="stated"), stated, point.right.den)
