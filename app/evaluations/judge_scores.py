"""The scores of a judge's work: shares with counts and intervals, and its agreement with people."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from math import isnan
from typing import Any, Final

from app.base.off_loop import off_loop
from app.evaluations.items import FinishedGames
from app.evaluations.judge_work import STATEMENTS
from app.evaluations.rater_work import judgements_from, spoken_from
from app.store.evaluations import EvaluationStore, Whose
from app.store.rows import EvaluationRow, StatementsRow
from engine.errors import AvalonError
from engine.terms import Side
from evaluators.ground.judgements import SCORES, Judgement, by_game
from evaluators.ground.turns import Game
from evaluators.judges.rules import RATER as RULES
from evaluators.judges.rules import Ruling, ruled
from evaluators.judges.statement_scores import READERS, StatementScores, against_rules
from evaluators.measures.hallucination import Hallucinations, statements_of
from evaluators.measures.judged import PARTS, Aspect, FollowingScores, SelectionScores
from evaluators.measures.scoring import estimate_as_json
from evaluators.report.columns import agent_names, columns_of
from evaluators.report.corrections import correction_of, count_overlap
from evaluators.statistics.agreement import BAR, JudgeAgreement, grouped, judge_agreement, ratings_of
from evaluators.statistics.corrected import LEAST_GAMES, CorrectedShare, Correction
from evaluators.statistics.figures import FigureTally
from evaluators.statistics.intervals import RATE, Estimate, estimate, share
from evaluators.statistics.rates import Rate

__all__ = [
    "Corrections",
    "RuleScores",
    "StatementRules",
    "agreement",
    "judged_scores",
    "rulings_as_judgements",
]

_CHUNK: Final = 100
"""How many games' judgements are in memory at once."""


async def judged_scores(
    evaluation_id: str,
    dimension: str,
    game_ids: Sequence[str],
    games: FinishedGames,
    store: EvaluationStore,
) -> dict[str, Any]:
    """The scores of a model judge's judgements, as ``full``, for callers who may read the games in full.
    Unreadable games are left out.
    """
    if dimension == STATEMENTS:
        return _of_statements(await _statement_scores(evaluation_id, game_ids, games, store))
    selection, following = SelectionScores(), FollowingScores()
    for first in range(0, len(game_ids), _CHUNK):
        rows = await store.judged_by(evaluation_id, game_ids[first : first + _CHUNK])
        for game_id, judgements in by_game(judgements_from(rows)).items():
            game = await _readable(games, game_id)
            if game is None:
                continue
            if dimension == "selection":
                selection.add(game, judgements)
            else:
                following.add(game, judgements)
    return _of_selection(selection) if dimension == "selection" else _of_following(following)


async def _readable(games: FinishedGames, game_id: str) -> Game | None:
    try:
        return await games.by_id(game_id)
    except AvalonError:
        return None


async def _statement_scores(
    evaluation_id: str, game_ids: Sequence[str], games: FinishedGames, store: EvaluationStore
) -> StatementScores:
    scores = StatementScores()
    for first in range(0, len(game_ids), _CHUNK):
        rows = await store.statements_by(evaluation_id, game_ids[first : first + _CHUNK])
        by_game_id: dict[str, list[StatementsRow]] = {}
        for row in rows:
            by_game_id.setdefault(row.game_id, []).append(row)
        for game_id, of_game in by_game_id.items():
            game = await _readable(games, game_id)
            if game is not None:
                await off_loop(scores.add, game, spoken_from(of_game))
    return scores


def _of_statements(scores: StatementScores) -> dict[str, Any]:
    """The counts by the rules, by the judge and by both together, over the speeches that the judge read."""
    everybody = scores.as_json()
    for reader in READERS:
        of_games = {game: tuple(counts[reader]) for game, counts in scores.by_game.items()}
        everybody[reader]["refuted_per_speech"] = estimate_as_json(estimate(of_games, within=RATE))
    totals = {"games": len(scores.by_game), **everybody}
    groups = {
        "by_side": {side.value: scores.as_json(side) for side in Side},
        "by_role": {role.value: scores.as_json(role) for role in scores.roles},
    }
    return {
        "full": {
            "totals": {
                **totals,
                **groups,
                "against_rules": against_rules(scores.spans, scores.control).as_json(),
            }
        },
    }


class StatementRules:
    """The statements of speeches, read only by the rules, without a model."""

    def __init__(self) -> None:
        self._statements = Hallucinations()

    def add(self, game: Game) -> None:
        """Counts one game."""
        self._statements.add(statements_of(game.log), game.roles)

    def as_json(self) -> dict[str, Any]:
        """The scores, as ``full``."""
        return {"full": {"totals": self._statements.as_json()}}

    @property
    def items(self) -> int:
        """The number of speeches."""
        return self._statements.speeches().den


def _of_selection(scores: SelectionScores) -> dict[str, Any]:
    accuracy = _share(scores.by_game)
    return {"full": {"totals": {**scores.as_json(), "games": len(scores.by_game), "accuracy": accuracy}}}


def _of_following(scores: FollowingScores) -> dict[str, Any]:
    shares: dict[str, Any] = {}
    for part in PARTS:
        games = {game: scored[part] for game, scored in scores.by_game.items() if part in scored}
        shares[part] = {
            "good": _share({game: scored.good for game, scored in games.items()}),
            **{
                str(score): _share({game: scored.share(score) for game, scored in games.items()})
                for score in SCORES
            },
        }
    totals = {"games": len(scores.by_game), "shares": shares}
    return {"full": {"totals": {**scores.as_json(), **totals}}}


def _share(games: Mapping[str, Rate]) -> dict[str, Any]:
    """The share over all games, with its counts and its interval over games."""
    num, den = sum(rate.num for rate in games.values()), sum(rate.den for rate in games.values())
    estimate = share({game: (rate.num, rate.den) for game, rate in games.items()})
    return {"num": num, "den": den, **estimate_as_json(estimate)}


class RuleScores:
    """Counts rulings: how many of all selected intentions the rules refuse, for each rule."""

    def __init__(self) -> None:
        self.by_game: dict[str, Rate] = {}
        """The share of selections that are not refused."""
        self.by_rule: dict[str, int] = {"role": 0, "fact": 0, "contradiction": 0}
        self.by_intention: dict[str, dict[str, int]] = {}
        """By intention: how often it was selected, and how often it was refused by each rule."""

    def add(self, game: Game) -> None:
        """Rules on one game."""
        kept = selected = 0
        for ruling in ruled(game):
            selected += 1
            of_intention = self.by_intention.setdefault(
                ruling.intention, {"selected": 0, **dict.fromkeys(self.by_rule, 0)}
            )
            of_intention["selected"] += 1
            if ruling.rule is None:
                kept += 1
            else:
                self.by_rule[ruling.rule] += 1
                of_intention[ruling.rule] += 1
        if selected:
            self.by_game[game.id] = Rate(kept, selected)

    @property
    def items(self) -> int:
        """The number of selected intentions."""
        return sum(rate.den for rate in self.by_game.values())

    def as_json(self) -> dict[str, Any]:
        """The scores, as ``full``. Rules never approve, so accuracy is at most this share."""
        at_most = _share(self.by_game)
        totals = {
            "games": len(self.by_game),
            "selected": at_most["den"],
            "refused": at_most["den"] - at_most["num"],
            "accuracy_at_most": at_most,
        }
        return {
            "full": {
                "totals": {
                    **totals,
                    "by_rule": self.by_rule,
                    "by_intention": dict(sorted(self.by_intention.items())),
                }
            },
        }


def rulings_as_judgements(rulings: Collection[Ruling]) -> list[Judgement]:
    """Rulings in the form of people's judgements. An intention that is not refused counts as reasonable."""
    return [
        Judgement(*ruling.key, ruling.intention, ruling.rule is None, None, None, RULES) for ruling in rulings
    ]


# --- agreement with people ----------------------------------------------------------------------


async def agreement(
    row: EvaluationRow,
    games: FinishedGames,
    store: EvaluationStore,
    *,
    sees_all: bool,
    people: Whose | None,
) -> tuple[dict[str, Any] | None, bool]:
    """The agreement of this evaluation's judge with people in the same games, and whether it is enough.

    The agreement is computed again each time, since later judgements of people count too. Following scores
    are grouped as in the paper (1-3, 4-5). Only callers who may read the games in full
    (``sees_all``) get the figures. ``people``: whose people; None: anybody's.
    """
    dimension = row.dimension
    if dimension == STATEMENTS:
        return _with_rules(row, sees_all=sees_all)
    rows = await store.judgements_of(row.spec["games"], whose=people, kind="human", dimension=dimension)
    shared = sorted({row.game_id for row in rows})
    judged_by_people = judgements_from(rows)
    if row.spec["judge"]["kind"] == "rule":
        readable = [await _readable(games, game_id) for game_id in shared]
        judged = [ruling for game in readable if game for ruling in rulings_as_judgements(list(ruled(game)))]
    else:
        judged = judgements_from(await store.judged_by(row.evaluation_id, shared))
    parts: tuple[Aspect, ...] = ("reasonable",) if dimension == "selection" else ("think", "speak")
    measured = {part: _measured(judged, judged_by_people, part) for part in parts}
    fit = all(agreed.shown for agreed in measured.values())
    if not sees_all:
        return None, fit
    figures: dict[str, Any] = {part: _as_json(agreed) for part, agreed in measured.items()}
    return {"bar": BAR._asdict(), **figures}, fit


class Corrections:
    """What model judges say, corrected by the items that people judged too, as in reports. Each correction is
    kept until people judge more.
    """

    def __init__(self, games: FinishedGames, store: EvaluationStore) -> None:
        self._games = games
        self._store = store
        self._kept: OrderedDict[str, tuple[int, dict[str, Any]]] = OrderedDict()

    async def of(self, row: EvaluationRow, whose: Whose | None) -> dict[str, Any] | None:
        """By part; None for rules, for judges of statements, and before the judge is done. For callers who
        see all. Unreadable games are left out. ``whose``: whose people; None: anybody's.
        """
        if row.dimension == STATEMENTS or row.spec["judge"]["kind"] == "rule" or row.status != "scored":
            return None
        games: list[str] = row.spec["games"]
        verdicts = await self._store.judgements_of(games, whose=whose, kind="human", dimension=row.dimension)
        state = hash(tuple(sorted((*one.key, one.grade) for one in verdicts)))
        kept = self._kept.get(row.evaluation_id)
        if kept is None or kept[0] != state:
            people = by_game(judgements_from(verdicts))
            # Nothing is corrected with fewer games of both, so nothing else needs to be read.
            wanted = games if len(people) >= LEAST_GAMES else sorted(people)
            tally = FigureTally()
            for first in range(0, len(wanted), _CHUNK):
                rows = await self._store.judged_by(row.evaluation_id, wanted[first : first + _CHUNK])
                for game_id, its in by_game(judgements_from(rows)).items():
                    game = await _readable(self._games, game_id)
                    if game is not None:
                        theirs = people.get(game_id, [])
                        await off_loop(_count_both, tally, game, its, theirs)
            parts = ("reasonable",) if row.dimension == "selection" else PARTS
            kept = state, {part: _correction_as_json(correction_of(tally, _JUDGE, part)) for part in parts}
            self._kept[row.evaluation_id] = kept
        self._kept.move_to_end(row.evaluation_id)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept[1]


_JUDGE: Final = "judge"

_KEPT: Final = 100
"""The most evaluations whose corrections are kept."""


def _count_both(
    tally: FigureTally, game: Game, its: Sequence[Judgement], people: Sequence[Judgement]
) -> None:
    tally.begin(game.id, columns_of(game).trial)
    count_overlap(tally, game, _JUDGE, its, people, agent_names(game))


def _correction_as_json(found: Correction) -> dict[str, Any]:
    def share(of: CorrectedShare) -> dict[str, Any] | None:
        if isnan(of.value):
            return None
        return estimate_as_json(Estimate(of.value, of.interval, 0.95, of.games, of.method))

    return {
        "corrected": share(found.value),
        "sensitivity": share(found.sensitivity),
        "specificity": share(found.specificity),
        "rogan_gladen": _number(found.rogan_gladen),
        "items": found.items,
        "games": found.games,
        "lacking": found.lacking,
    }


def _with_rules(row: EvaluationRow, *, sees_all: bool) -> tuple[dict[str, Any] | None, bool]:
    """Like ``agreement``, for a judge of statements. Since no people judge statements, it is compared with
    the rules, on the statements that both have read. The comparison is made once, with the scores; before
    that, the figures are None.
    """
    if row.spec["judge"]["kind"] == "rule":
        return None, True
    result = row.result or {}
    against = ((result.get("full") or {}).get("totals") or {}).get("against_rules")
    if against is None:
        return None, False
    fit = not against["lacking"]
    if not sees_all:
        return None, fit
    return {"bar": {"items": BAR.items, "kappa": BAR.kappa}, "statements": against}, fit


def _measured(judged: Sequence[Judgement], people: Sequence[Judgement], part: Aspect) -> JudgeAgreement:
    of_judge, of_people = ratings_of(judged, part), ratings_of(people, part)
    if part != "reasonable":
        of_judge, of_people = grouped(of_judge), grouped(of_people)
    ratings = next(iter(of_judge.values()), {})
    # A person may have the judge's name.
    return judge_agreement(ratings, {f"person {name}": r for name, r in of_people.items()}, name="judge")


def _as_json(measured: JudgeAgreement) -> dict[str, Any]:
    majority = measured.with_majority
    return {
        "items": measured.items,
        "people": len(measured.with_people.pairs),
        "kappa": _number(measured.with_people.mean),
        "kappa_among_people": _number(measured.among_people.mean),
        "with_majority": {
            "kappa": _number(majority.value),
            "items": majority.items,
            "agreed": majority.agreed,
        },
        "lacking": list(measured.lacking),
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else value
