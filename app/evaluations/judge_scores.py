"""What a judge's work comes to: shares with counts and intervals, and its agreement with people."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from math import isnan
from typing import Any, Final, Literal

from app.evaluations.games import FinishedGames
from app.evaluations.judge_work import STATEMENTS, spoken_from
from app.evaluations.judged import judgements_from
from app.store.evaluations import EvaluationStore
from app.store.rows import EvaluationRow, StatementsRow
from engine.errors import AvalonError
from engine.terms import Side
from evaluators.ground.judgements import SCORES, Judgement, by_game
from evaluators.ground.turns import Game
from evaluators.judges.rules import RATER as RULES
from evaluators.judges.rules import Ruling, ruled
from evaluators.judges.statement_scores import READERS, StatementScores, against_rules
from evaluators.measures.hallucination import Hallucinations
from evaluators.measures.judged import PARTS, FollowingScores, SelectionScores
from evaluators.measures.scoring import LEAST, estimate_as_json
from evaluators.statistics.agreement import BAR, JudgeAgreement, Kappa, grouped, judge_agreement, ratings_of
from evaluators.statistics.rates import Rate
from evaluators.statistics.resampling import bootstrap, ratio, share

__all__ = ["RuleScores", "StatementRules", "agreement", "judged_scores", "rulings_as_judgements"]

_CHUNK: Final = 100
"""Games whose judgements are held at once."""

Part = Literal["reasonable", "think", "speak"]


async def judged_scores(
    evaluation_id: str,
    dimension: str,
    game_ids: Sequence[str],
    games: FinishedGames,
    store: EvaluationStore,
) -> dict[str, Any]:
    """The scores of what a model judge has said, as ``full`` and ``limited``.

    A game that can no longer be read counts nothing.
    """
    if dimension == STATEMENTS:
        return _statements_told(await _statement_scores(evaluation_id, game_ids, games, store))
    selection, following = SelectionScores(), FollowingScores()
    for first in range(0, len(game_ids), _CHUNK):
        rows = await store.judged_by(evaluation_id, game_ids[first : first + _CHUNK])
        for game_id, said in by_game(judgements_from(rows)).items():
            game = await _readable(games, game_id)
            if game is None:
                continue
            if dimension == "selection":
                selection.add(game, said)
            else:
                following.add(game, said)
    if dimension == "selection":
        return _selection_told(selection)
    return _following_told(following)


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
        said: dict[str, list[StatementsRow]] = {}
        for row in rows:
            said.setdefault(row.game_id, []).append(row)
        for game_id, of_game in said.items():
            game = await _readable(games, game_id)
            if game is not None:
                await asyncio.to_thread(scores.add, game, spoken_from(of_game))
    return scores


def _statements_told(scores: StatementScores) -> dict[str, Any]:
    """By rule, by the judge and together, over the speeches that the judge read."""
    everybody = scores.as_json()
    for reader in READERS:
        of_games = {game: tuple(told[reader]) for game, told in scores.by_game.items()}
        told = everybody[reader]
        told["refuted_per_speech"] = estimate_as_json(bootstrap(of_games, ratio, resamples=1000))
    totals = {"games": len(scores.by_game), **everybody}
    speeches = scores.speeches("rules").den
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
        "limited": {"totals": totals if speeches >= LEAST else None},
    }


class StatementRules:
    """What the rules alone read in speeches."""

    def __init__(self) -> None:
        self._found = Hallucinations()

    def add(self, game: Game) -> None:
        """Counts one game."""
        self._found.add(game.log, game.roles)

    def as_json(self) -> dict[str, Any]:
        """``full`` and ``limited``."""
        told = self._found.as_json()
        enough = self._found.speeches().den >= LEAST
        return {
            "full": {"totals": told},
            "limited": {"totals": {"all": told["all"]} if enough else None},
        }

    @property
    def items(self) -> int:
        """Speeches."""
        return self._found.speeches().den


def _selection_told(scores: SelectionScores) -> dict[str, Any]:
    accuracy = _share(scores.by_game)
    count = scores.total.den
    few = {"games": len(scores.by_game), "accuracy": accuracy}
    return {
        "full": {"totals": {**scores.as_json(), "accuracy": accuracy}},
        "limited": {"totals": few if count >= LEAST else None},
    }


def _following_told(scores: FollowingScores) -> dict[str, Any]:
    shares: dict[str, Any] = {}
    for part in PARTS:
        histogram = scores.histogram(part)
        rates = {game: rates[part] for game, rates in scores.by_game.items() if part in rates}
        shares[part] = {
            "good": _share(rates),
            **{str(score): _wilson(histogram.share(score)) for score in SCORES},
        }
    told = {"games": len(scores.by_game), "shares": shares}
    counted = [scores.histogram(part).scored for part in PARTS]
    enough = max(counted) >= LEAST and all(count == 0 or count >= LEAST for count in counted)
    return {
        "full": {"totals": {**scores.as_json(), **told}},
        "limited": {"totals": told if enough else None},
    }


def _share(games: Mapping[str, Rate]) -> dict[str, Any]:
    """A share pooled over games, with its counts and its interval over games."""
    num, den = sum(rate.num for rate in games.values()), sum(rate.den for rate in games.values())
    estimate = share({game: (rate.num, rate.den) for game, rate in games.items()})
    return {"num": num, "den": den, **estimate_as_json(estimate)}


def _wilson(rate: Rate) -> dict[str, Any]:
    interval = rate.interval
    return {
        "num": rate.num,
        "den": rate.den,
        "value": rate.rate,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": 0.95,
        "method": "wilson",
    }


class RuleScores:
    """Rulings counted: what the rules refuse, by rule, of all that was selected."""

    def __init__(self) -> None:
        self.by_game: dict[str, Rate] = {}
        """Not refused, of all."""
        self.by_rule: dict[str, int] = {"role": 0, "fact": 0, "contradiction": 0}

    def add(self, game: Game) -> None:
        """Rules on one game."""
        kept = selected = 0
        for one in ruled(game):
            selected += 1
            if one.rule is None:
                kept += 1
            else:
                self.by_rule[one.rule] += 1
        if selected:
            self.by_game[game.id] = Rate(kept, selected)

    @property
    def items(self) -> int:
        """Intentions selected."""
        return sum(rate.den for rate in self.by_game.values())

    def as_json(self) -> dict[str, Any]:
        """``full`` and ``limited``. The rules refuse and never approve: the accuracy is at most this."""
        at_most = _share(self.by_game)
        told = {
            "games": len(self.by_game),
            "selected": at_most["den"],
            "refused": at_most["den"] - at_most["num"],
            "accuracy_at_most": at_most,
        }
        enough = at_most["den"] >= LEAST
        return {
            "full": {"totals": {**told, "by_rule": self.by_rule}},
            "limited": {"totals": told if enough else None},
        }


def rulings_as_judgements(rulings: Collection[Ruling]) -> list[Judgement]:
    """Rulings beside people's words: what is not refused passes for reasonable."""
    return [Judgement(*one.key, one.intention, one.rule is None, None, None, RULES) for one in rulings]


# --- agreement with people ----------------------------------------------------------------------


async def agreement(
    row: EvaluationRow, games: FinishedGames, store: EvaluationStore, *, sees_all: bool
) -> tuple[dict[str, Any] | None, bool]:
    """How this evaluation's judge agrees with people in the same games, and whether that is enough.

    What people say later counts too, so it is reckoned anew each time. Following scores are grouped as
    the paper groups them (1-3, 4-5). Fewer than 20 common items are told to who sees all.
    """
    dimension = row.dimension
    if dimension == STATEMENTS:
        return _with_rules(row, sees_all=sees_all)
    people_rows = await store.judgements_of(row.spec["games"], kind="human", dimension=dimension)
    shared = sorted({one.game_id for one in people_rows})
    people = judgements_from(people_rows)
    if row.spec["judge"]["kind"] == "rule":
        readable = [await _readable(games, game_id) for game_id in shared]
        judged = [one for game in readable if game for one in rulings_as_judgements(list(ruled(game)))]
    else:
        judged = judgements_from(await store.judged_by(row.evaluation_id, shared))
    parts: tuple[Part, ...] = ("reasonable",) if dimension == "selection" else ("think", "speak")
    measured = {part: _measured(judged, people, part) for part in parts}
    fit = all(one.shown for one in measured.values())
    if not sees_all and any(one.items < LEAST for one in measured.values()):
        return None, fit
    told: dict[str, Any] = {part: _as_json(one) for part, one in measured.items()}
    return {"bar": BAR._asdict(), **told}, fit


def _with_rules(row: EvaluationRow, *, sees_all: bool) -> tuple[dict[str, Any] | None, bool]:
    """A judge of statements is measured by the rules, where both read the same; nobody else judges them.

    It is reckoned once, with the scores: before, there is none.
    """
    if row.spec["judge"]["kind"] == "rule":
        return None, True
    result = row.result or {}
    told = ((result.get("full") or {}).get("totals") or {}).get("against_rules")
    if told is None:
        return None, False
    fit = not told["lacking"]
    if not sees_all and told["items"] < LEAST:
        return None, fit
    return {"bar": {"items": BAR.items, "kappa": BAR.kappa}, "statements": told}, fit


def _measured(judged: Sequence[Judgement], people: Sequence[Judgement], part: Part) -> JudgeAgreement:
    said, heard = ratings_of(judged, part), ratings_of(people, part)
    if part != "reasonable":
        said, heard = grouped(said), grouped(heard)
    mine = next(iter(said.values()), {})
    # A person may bear the judge's name.
    return judge_agreement(mine, {f"person {name}": rated for name, rated in heard.items()}, name="judge")


def _as_json(one: JudgeAgreement) -> dict[str, Any]:
    return {
        "items": one.items,
        "people": len(one.with_people.pairs),
        "kappa": _number(one.with_people.mean),
        "kappa_among_people": _number(one.among_people.mean),
        "with_majority": _kappa(one.with_majority),
        "lacking": list(one.lacking),
    }


def _kappa(one: Kappa) -> dict[str, Any]:
    return {"kappa": _number(one.value), "items": one.items, "agreed": one.agreed}


def _number(value: float) -> float | None:
    return None if isnan(value) else value
