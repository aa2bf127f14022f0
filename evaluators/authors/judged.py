"""Figures of selection and following, from the judgements of each game's own annotation file.

A row of that file counts in a stage when its three cells have equally many scores, and any.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.terms import Role, Seat
from engine.thoughts import SelectionStage
from evaluators.authors.playing import loyal_majority, side_name
from evaluators.authors.shapes import Figure, share
from evaluators.authors.taking import TakenGame
from evaluators.ground.judgements import SCORES, Judgement, StageKey
from evaluators.ground.turns import read_game

__all__ = ["JudgedStage", "following_histograms", "judged_stages", "selection_figures", "which_side_higher"]

Histogram = dict[str, int]


@dataclass(frozen=True, slots=True)
class JudgedStage:
    """One row of a stage that counts."""

    round: int
    seat: Seat
    side: str
    role: Role
    stage: SelectionStage
    changed: bool
    """Whether modification changed the set, in the final stage."""
    scores: tuple[tuple[bool, int, int], ...]
    """(reasonable, think, speak), one an intention."""


def judged_stages(game: TakenGame) -> Iterator[JudgedStage]:
    """The rows that count, of the rater of the game's own file."""
    changed = _changed(game)
    by_stage: dict[StageKey, list[Judgement]] = {}
    for one in game.judgements:
        if one.rater == game.rater:
            by_stage.setdefault(one.key, []).append(one)
    for key, judgements in by_stage.items():
        selection = [one.reasonable for one in judgements if one.reasonable is not None]
        think = [one.think for one in judgements if one.think is not None]
        speak = [one.speak for one in judgements if one.speak is not None]
        if not len(selection) == len(think) == len(speak) > 0:
            continue
        round_, _, _, seat = key.request_id.split(".")
        assert game.state.roles is not None
        yield JudgedStage(
            round=int(round_),
            seat=int(seat),
            side=side_name(game.state, int(seat)),
            role=game.state.roles[int(seat) - 1],
            stage=key.stage,
            changed=key.request_id in changed,
            scores=tuple(zip(selection, think, speak, strict=True)),
        )


def _changed(game: TakenGame) -> frozenset[str]:
    """The requests of turns whose modification changed the set."""
    turns = read_game(game.game_id, game.state.log).turns
    return frozenset(turn.request_id for turn in turns if turn.changed)


def _reasonable(stages: Iterable[JudgedStage]) -> Figure:
    marks = [reasonable for stage in stages for reasonable, _, _ in stage.scores]
    return share(sum(marks), len(marks))


def selection_figures(games: Sequence[TakenGame]) -> dict[str, Figure]:
    """``selection.*``, ``rows_skipped.*`` and ``following.*``."""
    stages = [stage for game in games for stage in judged_stages(game)]
    rows = sum(len(game.rows) for game in games)
    numbered = {"stage1": "first", "stage2": "final"}
    of = {name: [stage for stage in stages if stage.stage == which] for name, which in numbered.items()}
    figures = {name: _reasonable(of_stage) for name, of_stage in of.items()}
    figures = {f"selection.{name}": figure for name, figure in figures.items()}
    figures["selection.both"] = _reasonable(stages)
    figures["selection.stage1_plus_changed"] = _reasonable(
        [stage for stage in stages if stage.stage == "first" or stage.changed]
    )
    for name, of_stage in of.items():
        for side in ("evil", "loyal"):
            figures[f"selection.{name}.{side}"] = _reasonable(one for one in of_stage if one.side == side)
        figures[f"rows_skipped.{name}"] = share(rows - len(of_stage), rows)
    scores = [score for stage in stages for _, *both in stage.scores for score in both]
    figures["following.ge3"] = share(sum(score >= 3 for score in scores), len(scores))
    figures["following.eq5"] = share(sum(score == 5 for score in scores), len(scores))
    return figures


def following_histograms(games: Sequence[TakenGame]) -> dict[str, Histogram]:
    """How many intentions have each score, by stage, side, kind and reasonableness."""
    counts: dict[str, Counter[int]] = {}
    for kind in ("think", "speak"):
        for side in ("evil", "loyal"):
            for marked in ("reasonable", "unreasonable"):
                counts[f"{side}.{marked}.{kind}"] = Counter()
            for number in (1, 2):
                counts[f"{kind}_{number}"] = Counter()
                counts[f"{kind}_{number}_{side}"] = Counter()
    for game in games:
        for stage in judged_stages(game):
            number = 1 if stage.stage == "first" else 2
            for reasonable, think, speak in stage.scores:
                marked = "reasonable" if reasonable else "unreasonable"
                for kind, score in (("think", think), ("speak", speak)):
                    counts[f"{stage.side}.{marked}.{kind}"][score] += 1
                    counts[f"{kind}_{number}"][score] += 1
                    counts[f"{kind}_{number}_{stage.side}"][score] += 1
    return {
        name: {str(score): histogram[score] for score in SCORES} for name, histogram in sorted(counts.items())
    }


# --- which side is higher ---------------------------------------------------------------------------


def which_side_higher(games: Sequence[TakenGame]) -> dict[str, dict[str, dict[str, int]]]:
    """By quest or game, and by its result: how often evil's share is higher, loyal's, or neither's."""
    tables = {
        name: {result: {"evil": 0, "loyal": 0, "equal": 0} for result in ("success", "failure")}
        for name in (
            "rounds_following",
            "rounds_following_unrounded",
            "rounds_reasonable_role_mean",
            "rounds_reasonable_role_mean_float",
        )
    }
    by_game = {result: {"evil": 0, "loyal": 0, "equal": 0} for result in ("loyal", "evil")}
    for game in games:
        stages = list(judged_stages(game))
        for quest in game.state.table.quests:
            result = "success" if quest.succeeded else "failure"
            of_round = [stage for stage in stages if stage.round == quest.round]
            for name, higher in _of_quest(of_round).items():
                tables[name][result][higher] += 1
        evil, loyal = (_followed(stages, side) for side in ("evil", "loyal"))
        if evil.den and loyal.den:
            won = "loyal" if loyal_majority(game.state) else "evil"
            by_game[won][_higher(evil.rounded, loyal.rounded)] += 1
    return {**tables, "games_following": by_game}


@dataclass(frozen=True, slots=True)
class _Share:
    num: int
    den: int

    @property
    def rounded(self) -> float:
        """As their scripts round it: the binary quotient to two digits."""
        return round(self.num / self.den, 2)

    @property
    def exact(self) -> Fraction:
        return Fraction(self.num, self.den)


def _followed(stages: Iterable[JudgedStage], side: str) -> _Share:
    """Following scores of 3 or more, of all: think and speak, both stages."""
    scores = [score for stage in stages if stage.side == side for _, *both in stage.scores for score in both]
    return _Share(sum(score >= 3 for score in scores), len(scores))


def _higher(evil: float | Fraction, loyal: float | Fraction) -> str:
    return "equal" if evil == loyal else "evil" if evil > loyal else "loyal"


def _of_quest(stages: Sequence[JudgedStage]) -> dict[str, str]:
    higher = {}
    evil, loyal = (_followed(stages, side) for side in ("evil", "loyal"))
    if evil.den > 1 and loyal.den > 1:
        higher["rounds_following"] = _higher(evil.rounded, loyal.rounded)
        higher["rounds_following_unrounded"] = _higher(evil.exact, loyal.exact)
    roles = {side: _by_role(stages, side) for side in ("evil", "loyal")}
    if roles["evil"] and roles["loyal"]:
        exact = {side: sum(shares, Fraction()) / len(shares) for side, shares in roles.items()}
        higher["rounds_reasonable_role_mean"] = _higher(exact["evil"], exact["loyal"])
        binary = {side: _plain_sum(shares) / len(shares) for side, shares in roles.items()}
        higher["rounds_reasonable_role_mean_float"] = _higher(binary["evil"], binary["loyal"])
    return higher


def _plain_sum(shares: Iterable[Fraction]) -> float:
    """One after the other, in the order of their deck, as the released script adds: from Python 3.12 on
    the built-in sum of floats is more exact than that.
    """
    total = 0.0
    for one in shares:
        total += one.numerator / one.denominator
    return total


def _by_role(stages: Iterable[JudgedStage], side: str) -> list[Fraction]:
    """Of each role of the side, in the order of ``Role``: reasonable ones among the first selections whose
    speech is scored 3 or more. Roles without any are left out.
    """
    marks: dict[Role, list[bool]] = {}
    for stage in stages:
        if stage.stage == "first" and stage.side == side:
            role_marks = marks.setdefault(stage.role, [])
            role_marks += [reasonable for reasonable, _, speak in stage.scores if speak >= 3]
    return [Fraction(sum(marks[role]), len(marks[role])) for role in Role if marks.get(role)]
