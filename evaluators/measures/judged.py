"""Three measures of the selected intentions, by the judgements of people or judges.

``SelectionScores``: situational awareness, the share of the selected intentions that are reasonable in their
context. First selections count, and final selections that the seat changed.

``FollowingScores``: self-regulation, how well thinking and speaking follow the selected intentions. Scores of
1 to 3 are flawed, 4 and 5 good. Both measures are defined in InterIntent (EMNLP 2024), section 3.

``CorrectionScores``: self-correction, how often modification changes the choice, and whether it improves the
turn. The authors leave this open (limitations of the paper); the measure is ours. A turn is compared with
itself: its first selection with its final one, its formulation with its refinement. One turn gives one
difference, whatever the number of intentions and raters. The sign test asks whether more turns got better
than got worse.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from operator import add
from typing import Any, Final, Literal, NamedTuple, get_args

from engine.intentions import BY_ID, IntentionId
from engine.terms import Role, Side, side_of
from engine.thoughts import SelectionStage
from evaluators.ground.judgements import SCORES, Judgement, good
from evaluators.ground.turns import Game, Stage, Turn
from evaluators.statistics.rates import Rate, rates_as_json, tally

__all__ = [
    "ASPECTS",
    "PARTS",
    "Aspect",
    "Cell",
    "CorrectionScores",
    "FollowingScores",
    "Histogram",
    "JudgedChoice",
    "LeftOut",
    "Part",
    "SelectionScores",
    "Shift",
    "judged_turns",
    "sign_test",
]

LeftOut = Literal["defaulted", "no_turn", "not_selected", "unchanged", "not_judged"]
"""The reasons why a judgement is not counted.

defaulted: a default was played for the turn. no_turn: the game has no such speaking turn or stage.
not_selected: the seat did not select that intention in that stage. unchanged: the final selection equals the
first one, and the selection is counted once. not_judged: the judgement lacks the value that is counted.
"""


class JudgedChoice(NamedTuple):
    """A judgement with the turn and stage that it is about."""

    judgement: Judgement
    turn: Turn
    stage: Stage


def judged_turns(
    game: Game, judgements: Iterable[Judgement], left_out: Counter[LeftOut]
) -> Iterator[JudgedChoice]:
    """The judgements of this game's selected intentions, each with its turn and stage.

    Judgements of other games are ignored; judgements that fit no selection are counted in ``left_out``.
    """
    turns = {turn.request_id: turn for turn in game.turns if not turn.repeated}
    for judgement in judgements:
        if judgement.game_id != game.id:
            continue
        turn = turns.get(judgement.request_id)
        stage = None if turn is None else turn.stage(judgement.stage)
        if turn is None or stage is None:
            left_out["no_turn"] += 1
        elif turn.defaulted is not None:
            left_out["defaulted"] += 1
        elif judgement.intention not in stage.intentions:
            left_out["not_selected"] += 1
        else:
            yield JudgedChoice(judgement, turn, stage)


class SelectionScores:
    """Counts the reasonable selections among all judged ones, in total and by group. Raters are pooled."""

    def __init__(self) -> None:
        self.total = Rate(0, 0)
        """The accuracy: reasonable selections of all judged ones."""
        self.by_stage: dict[str, Rate] = {}
        self.by_place: dict[str, Rate] = {}
        """``opener`` or ``responder``. In the published menu, most pairs for a loyal opener make no sense for
        a leader."""
        self.by_role: dict[Role, Rate] = {}
        self.by_side: dict[Side, Rate] = {}
        self.by_round: dict[int, Rate] = {}
        self.by_category: dict[str, Rate] = {}
        self.by_intention: dict[IntentionId, Rate] = {}
        self.by_game: dict[str, Rate] = {}
        self.left_out: Counter[LeftOut] = Counter()

    def add(self, game: Game, judgements: Iterable[Judgement]) -> None:
        """Counts the judgements of this game and ignores those of other games.

        For many games, group the judgements first (``by_game`` of ``evaluators.ground.judgements``) rather
        than pass all of them for every game.
        """
        for judgement, turn, stage in judged_turns(game, judgements, self.left_out):
            if judgement.reasonable is None:
                self.left_out["not_judged"] += 1
            elif stage.name == "final" and turn.first is not None and not turn.changed:
                self.left_out["unchanged"] += 1
            else:
                self._count(game, turn, judgement, Rate(int(judgement.reasonable), 1))

    def _count(self, game: Game, turn: Turn, judgement: Judgement, rate: Rate) -> None:
        self.total = self.total.plus(rate)
        tally(self.by_stage, judgement.stage, rate)
        tally(self.by_place, "opener" if turn.opens else "responder", rate)
        tally(self.by_role, game.role(turn.seat), rate)
        tally(self.by_side, game.side(turn.seat), rate)
        tally(self.by_round, turn.round, rate)
        tally(self.by_intention, judgement.intention, rate)
        if judgement.intention in BY_ID:
            tally(self.by_category, BY_ID[judgement.intention].category, rate)
        tally(self.by_game, game.id, rate)

    def as_json(self) -> dict[str, Any]:
        """Every rate with its counts, without ``by_game``, which only intervals need."""
        return {
            "games": len(self.by_game),
            "accuracy": self.total.as_json(),
            **{name: rates_as_json(getattr(self, name)) for name in _TABLES},
            "left_out": dict(sorted(self.left_out.items())),
        }


_TABLES: Final = ("by_stage", "by_role", "by_side", "by_round", "by_category", "by_intention")


Part = Literal["think", "speak"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


class Histogram(NamedTuple):
    """The number of intentions with each score."""

    one: int = 0
    two: int = 0
    three: int = 0
    four: int = 0
    five: int = 0

    @property
    def scored(self) -> int:
        return sum(self)

    def share(self, score: int) -> Rate:
        """Intentions with this score, of all scored."""
        return Rate(self[SCORES.index(score)], self.scored)

    @property
    def good(self) -> Rate:
        """Intentions scored 4 or 5, of all scored."""
        return Rate(sum(n for score, n in zip(SCORES, self, strict=True) if good(score)), self.scored)

    @property
    def flawed(self) -> Rate:
        """Intentions scored 1 to 3, of all scored."""
        return Rate(self.scored - self.good.num, self.scored)

    @property
    def mean(self) -> float | None:
        """The mean score; None without scores."""
        if not self.scored:
            return None
        return sum(score * n for score, n in zip(SCORES, self, strict=True)) / self.scored

    def plus(self, other: "Histogram") -> "Histogram":
        return Histogram(*map(add, self, other))

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": {str(score): n for score, n in zip(SCORES, self, strict=True)},
            "scored": self.scored,
            "good": self.good.as_json(),
            "flawed": self.flawed.as_json(),
            "mean": self.mean,
        }


class Cell(NamedTuple):
    """The part, stage and role that a score belongs to."""

    part: Part
    stage: SelectionStage
    role: Role


class FollowingScores:
    """Counts following scores by cell; every table is a sum over cells. Raters are pooled."""

    def __init__(self) -> None:
        self.cells: dict[Cell, Histogram] = {}
        self.by_game: dict[str, dict[Part, Histogram]] = {}
        """The scores of each game, for intervals over games."""
        self.left_out: Counter[LeftOut] = Counter()

    def add(self, game: Game, judgements: Iterable[Judgement]) -> None:
        """Counts the judgements of this game and ignores those of other games.

        ``judgements.by_game`` groups the judgements of many games in one pass.
        """
        for judgement, turn, stage in judged_turns(game, judgements, self.left_out):
            if judgement.think is None and judgement.speak is None:
                self.left_out["not_judged"] += 1
            for part in PARTS:
                score: int | None = getattr(judgement, part)
                if score is not None:
                    cell = Cell(part, stage.name, game.role(turn.seat))
                    self.cells[cell] = self.cells.get(cell, Histogram()).plus(_ONE[score])
                    of_game = self.by_game.setdefault(game.id, {})
                    of_game[part] = of_game.get(part, Histogram()).plus(_ONE[score])

    def histogram(
        self,
        part: Part | None = None,
        stage: SelectionStage | None = None,
        *,
        role: Role | None = None,
        side: Side | None = None,
    ) -> Histogram:
        """The scores of all cells that match; a criterion that is None matches every cell."""
        total = Histogram()
        for cell, counts in self.cells.items():
            if (
                part in (None, cell.part)
                and stage in (None, cell.stage)
                and role in (None, cell.role)
                and side in (None, side_of(cell.role))
            ):
                total = total.plus(counts)
        return total

    def as_json(self) -> dict[str, Any]:
        """The scores in total, by part, and by part and stage; the latter two also by side and by role."""
        return {
            "games": len(self.by_game),
            "total": self.histogram().as_json(),
            **{
                part: {
                    "all": self._groups(part, None),
                    **{stage: self._groups(part, stage) for stage in get_args(SelectionStage)},
                }
                for part in PARTS
            },
            "left_out": dict(sorted(self.left_out.items())),
        }

    def _groups(self, part: Part, stage: SelectionStage | None) -> dict[str, Any]:
        present = {cell.role for cell in self.cells}
        return {
            "all": self.histogram(part, stage).as_json(),
            "by_side": {
                side.value: self.histogram(part, stage, side=side).as_json() for side in sorted(Side)
            },
            "by_role": {
                role.value: self.histogram(part, stage, role=role).as_json()
                for role in Role
                if role in present
            },
        }


_ONE: Final = {score: Histogram(*(int(score == other) for other in SCORES)) for score in SCORES}


Aspect = Literal["reasonable", "think", "speak"]
ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)


class Shift(NamedTuple):
    """The changes of turns from their first stage to their final one in one aspect."""

    better: int = 0
    worse: int = 0
    equal: int = 0
    first: float = 0.0
    """The sum over turns of the first stage's mean: the share of reasonable intentions, or the following
    score."""
    final: float = 0.0
    """The sum over turns of the final stage's mean."""

    @property
    def turns(self) -> int:
        """Turns judged in both stages."""
        return self.better + self.worse + self.equal

    def plus(self, other: "Shift") -> "Shift":
        return Shift(*map(add, self, other))


def sign_test(better: int, worse: int) -> float | None:
    """The exact two-sided p of the sign test: the chance of a split at least as unequal as this one if better
    and worse were equally likely.

    Ties are left out. None if there is nothing else. What is counted must be independent, as games are and
    turns of one game are not.
    Source: Conover, Practical Nonparametric Statistics, 3.4.
    """
    n = better + worse
    if n == 0:
        return None
    # Whole numbers to the last step: 2**n outgrows a double at n = 1024.
    ways = tail = 1
    for k in range(min(better, worse)):
        ways = ways * (n - k) // (k + 1)
        tail += ways
    return min(1.0, float(Fraction(2 * tail, 2**n)))


class CorrectionScores:
    """Counts changes of selection, and whether judgements improved where raters judged both stages."""

    def __init__(self) -> None:
        self.changed = Rate(0, 0)
        """Turns whose final selection is a different set from the first, of all turns with both."""
        self.by_side: dict[Side, Rate] = {}
        self.by_role: dict[Role, Rate] = {}
        self.by_round: dict[int, Rate] = {}
        self.kept = self.dropped = self.added = 0
        """The number of intentions in both selections of a turn, only in the first, and only in the final
        one."""
        self.shifts: dict[tuple[Aspect, bool], Shift] = {}
        """The shifts by aspect and by whether the selection changed. ``reasonable`` is compared only in
        changed turns, since in the others both selections are the same."""

    def add(self, game: Game, judgements: Iterable[Judgement] = ()) -> None:
        """Counts one game and its judgements; the scores of several raters of one stage are averaged."""
        values: dict[tuple[str, str, Aspect], list[float]] = {}
        for judgement, turn, stage in judged_turns(game, judgements, Counter()):
            for aspect in ASPECTS:
                value = getattr(judgement, aspect)
                if value is not None:
                    values.setdefault((turn.request_id, stage.name, aspect), []).append(float(value))
        for turn in game.turns:
            if turn.defaulted is not None or turn.repeated or turn.first is None or not turn.modified:
                continue
            self._count_change(game, turn)
            for aspect in ASPECTS:
                before = values.get((turn.request_id, "first", aspect))
                after = values.get((turn.request_id, "final", aspect))
                if before and after and (turn.changed or aspect != "reasonable"):
                    self._count_shift(aspect, turn.changed, _mean(before), _mean(after))

    def _count_change(self, game: Game, turn: Turn) -> None:
        rate = Rate(int(turn.changed), 1)
        self.changed = self.changed.plus(rate)
        tally(self.by_side, game.side(turn.seat), rate)
        tally(self.by_role, game.role(turn.seat), rate)
        tally(self.by_round, turn.round, rate)
        assert turn.first is not None
        assert turn.final is not None
        first, final = turn.first.intentions, turn.final.intentions
        self.kept += len(first & final)
        self.dropped += len(first - final)
        self.added += len(final - first)

    def _count_shift(self, aspect: Aspect, changed: bool, before: float, after: float) -> None:
        # Means of equal scores may differ in the last bit.
        equal = abs(after - before) < 1e-9
        shift = Shift(
            int(not equal and after > before), int(not equal and after < before), int(equal), before, after
        )
        self.shifts[aspect, changed] = self.shifts.get((aspect, changed), Shift()).plus(shift)

    def shift(self, aspect: Aspect, changed: bool | None = None) -> Shift:
        """The shift of the turns whose selection changed, or did not change; of all turns if ``changed`` is
        None.
        """
        if changed is None:
            return self.shift(aspect, True).plus(self.shift(aspect, False))
        return self.shifts.get((aspect, changed), Shift())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
