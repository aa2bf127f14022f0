"""Self-regulation: how well thinking and speaking follow the selected intentions, scored 1 to 5.

1 to 3 are flawed, 4 and 5 good. The share of each score, by think and speak, stage, side and role.
InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, get_args

from engine.terms import Role, Side, side_of
from engine.thoughts import SelectionStage
from evaluators.ground.judgements import SCORES, Judgement, good
from evaluators.ground.turns import Game
from evaluators.measures.selection import LeftOut, judged_turns
from evaluators.statistics.rates import Rate, tally

__all__ = ["PARTS", "Cell", "FollowingScores", "Histogram", "Part"]

Part = Literal["think", "speak"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


class Histogram(NamedTuple):
    """How many intentions got each score."""

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
        """Scored 4 or 5, of all scored."""
        return Rate(sum(n for score, n in zip(SCORES, self, strict=True) if good(score)), self.scored)

    @property
    def flawed(self) -> Rate:
        """Scored 1 to 3, of all scored."""
        return Rate(self.scored - self.good.num, self.scored)

    @property
    def mean(self) -> float | None:
        """The mean score; None without any."""
        if not self.scored:
            return None
        return sum(score * n for score, n in zip(SCORES, self, strict=True)) / self.scored

    def plus(self, other: "Histogram") -> "Histogram":
        return Histogram(*(a + b for a, b in zip(self, other, strict=True)))

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": {str(score): n for score, n in zip(SCORES, self, strict=True)},
            "scored": self.scored,
            "good": self.good.as_json(),
            "flawed": self.flawed.as_json(),
            "mean": self.mean,
        }


class Cell(NamedTuple):
    """What a score belongs to."""

    part: Part
    stage: SelectionStage
    role: Role


class FollowingScores:
    """Following scores counted by cell; every table is a sum over cells. Several raters pool."""

    __slots__ = ("by_game", "cells", "left_out")

    def __init__(self) -> None:
        self.cells: dict[Cell, Histogram] = {}
        self.by_game: dict[str, dict[Part, Rate]] = {}
        """Good scores of all, for the bootstrap."""
        self.left_out: Counter[LeftOut] = Counter()

    def add(self, game: Game, judgements: Iterable[Judgement]) -> None:
        """Counts the judgements that are about this game; those of other games are passed over.

        ``judgements.by_game`` sorts many games' judgements once.
        """
        for judgement, turn, stage in judged_turns(game, judgements, self.left_out):
            if judgement.think is None and judgement.speak is None:
                self.left_out["not_judged"] += 1
            for part in PARTS:
                score: int | None = getattr(judgement, part)
                if score is not None:
                    cell = Cell(part, stage.name, game.role(turn.seat))
                    self.cells[cell] = self.cells.get(cell, Histogram()).plus(_ONE[score])
                    tally(self.by_game.setdefault(game.id, {}), part, Rate(int(good(score)), 1))

    def histogram(
        self,
        part: Part | None = None,
        stage: SelectionStage | None = None,
        *,
        role: Role | None = None,
        side: Side | None = None,
    ) -> Histogram:
        """The scores of all cells that fit; what is left None does not restrict."""
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
        """``total``, then by part, by part and stage, and these by side and by role that occurs."""
        return {
            "games": len(self.by_game),
            "total": self.histogram().as_json(),
            **{part: self._of_part(part) for part in PARTS},
            "left_out": dict(sorted(self.left_out.items())),
        }

    def _of_part(self, part: Part) -> dict[str, Any]:
        return {
            "all": self._by_who(part, None),
            **{stage: self._by_who(part, stage) for stage in get_args(SelectionStage)},
        }

    def _by_who(self, part: Part, stage: SelectionStage | None) -> dict[str, Any]:
        return {
            "all": self.histogram(part, stage).as_json(),
            "by_side": {
                side.value: self.histogram(part, stage, side=side).as_json() for side in sorted(Side)
            },
            "by_role": {
                role.value: self.histogram(part, stage, role=role).as_json() for role in self._roles()
            },
        }

    def _roles(self) -> Iterator[Role]:
        present = {cell.role for cell in self.cells}
        return (role for role in Role if role in present)


_ONE: Final = {score: Histogram(*(int(score == other) for other in SCORES)) for score in SCORES}
