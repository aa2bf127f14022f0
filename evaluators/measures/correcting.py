"""Self-correction: how often modification changes the choice, and whether it makes things better.

The authors leave this open (InterIntent, EMNLP 2024, limitations); the measures are ours. A turn is
compared with itself: its first selection with its final one, its formulation with its refinement. One
turn gives one difference, whatever the number of intentions and raters, and the sign test asks
whether the turns that got better outnumber those that got worse.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Final, Literal, NamedTuple, get_args

from engine.terms import Role, Side
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game, Turn
from evaluators.measures.selection import judged_turns
from evaluators.statistics.rates import Rate, tally

__all__ = ["ASPECTS", "Aspect", "CorrectionScores", "Shift", "sign_test"]

Aspect = Literal["reasonable", "think", "speak"]
ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)


class Shift(NamedTuple):
    """How turns moved from their first stage to their final one in one aspect."""

    better: int = 0
    worse: int = 0
    equal: int = 0
    first: float = 0.0
    """Sum over turns of the first stage's mean: share reasonable, or following score."""
    final: float = 0.0
    """Sum over turns of the final stage's mean."""

    @property
    def turns(self) -> int:
        """Turns judged in both stages."""
        return self.better + self.worse + self.equal

    def plus(self, other: "Shift") -> "Shift":
        return Shift(
            self.better + other.better,
            self.worse + other.worse,
            self.equal + other.equal,
            self.first + other.first,
            self.final + other.final,
        )


def sign_test(better: int, worse: int) -> float | None:
    """The exact two-sided p of so unequal a split or a more unequal one, were both equally likely.

    Ties are left out. None where nothing moved. Turns of one game are not independent, so with few
    games the p is a little too small; the bootstrap over games is the check.
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

    __slots__ = (
        "added",
        "by_role",
        "by_round",
        "by_side",
        "changed",
        "dropped",
        "kept",
        "shifts",
    )

    def __init__(self) -> None:
        self.changed = Rate(0, 0)
        """Turns whose final selection is another set than the first, of all that recorded both."""
        self.by_side: dict[Side, Rate] = {}
        self.by_role: dict[Role, Rate] = {}
        self.by_round: dict[int, Rate] = {}
        self.kept = self.dropped = self.added = 0
        """Intentions over those turns: in both selections, in the first alone, in the final alone."""
        self.shifts: dict[tuple[Aspect, bool], Shift] = {}
        """By aspect and by whether the selection changed. ``reasonable`` is compared in changed turns
        alone: elsewhere both selections are one."""

    def add(self, game: Game, judgements: Iterable[Judgement] = ()) -> None:
        """Counts one game and the judgements that are about it; several raters of one stage average."""
        turns = [turn for turn in game.turns if turn.defaulted is None and not turn.repeated and _both(turn)]
        for turn in turns:
            self._count_change(game, turn)
        values = self._values(game, judgements)
        for turn in turns:
            for aspect in ASPECTS:
                before = values.get((turn.request_id, "first", aspect))
                after = values.get((turn.request_id, "final", aspect))
                if before and after and (turn.changed or aspect != "reasonable"):
                    self._count_shift(aspect, turn.changed, _mean(before), _mean(after))

    def _count_change(self, game: Game, turn: Turn) -> None:
        one = Rate(int(turn.changed), 1)
        self.changed = self.changed.plus(one)
        tally(self.by_side, game.side(turn.seat), one)
        tally(self.by_role, game.role(turn.seat), one)
        tally(self.by_round, turn.round, one)
        assert turn.first is not None
        assert turn.final is not None
        first, final = turn.first.intentions, turn.final.intentions
        self.kept += len(first & final)
        self.dropped += len(first - final)
        self.added += len(final - first)

    def _values(
        self, game: Game, judgements: Iterable[Judgement]
    ) -> dict[tuple[str, str, Aspect], list[float]]:
        values: dict[tuple[str, str, Aspect], list[float]] = {}
        for judgement, turn, stage in judged_turns(game, judgements, Counter()):
            for aspect in ASPECTS:
                value = getattr(judgement, aspect)
                if value is not None:
                    values.setdefault((turn.request_id, stage.name, aspect), []).append(float(value))
        return values

    def _count_shift(self, aspect: Aspect, changed: bool, before: float, after: float) -> None:
        # Means of equal scores may differ in the last bit.
        moved = 0 if abs(after - before) < 1e-9 else 1 if after > before else -1
        one = Shift(int(moved > 0), int(moved < 0), int(moved == 0), before, after)
        self.shifts[aspect, changed] = self.shifts.get((aspect, changed), Shift()).plus(one)

    def shift(self, aspect: Aspect, changed: bool | None = None) -> Shift:
        """The turns of this aspect; ``changed`` None: those that changed their selection and those that
        did not.
        """
        wanted = (True, False) if changed is None else (changed,)
        total = Shift()
        for one in wanted:
            total = total.plus(self.shifts.get((aspect, one), Shift()))
        return total


def _both(turn: Turn) -> bool:
    return turn.first is not None and turn.modified


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
