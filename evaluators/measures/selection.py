"""Situational awareness: how many of the selected intentions are reasonable in their context.

Accuracy is reasonable / all, over first selections plus modified selections where the seat changed
them. InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from engine.intentions import BY_ID, IntentionId
from engine.terms import Role, Seat, Side
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game, Stage, Turn
from evaluators.statistics.rates import Rate, rates_as_json, tally

__all__ = ["JudgedChoice", "LeftOut", "SelectionScores", "judged_turns"]

LeftOut = Literal["defaulted", "no_turn", "not_selected", "unchanged", "not_judged"]
"""Why a judgement is not counted.

defaulted: a default was played for the turn. no_turn: the game has no such speaking turn or stage.
not_selected: the seat did not select that intention there. unchanged: of a final selection that
modification left as it was, which is counted once. not_judged: nothing is said of what is counted.
"""


class JudgedChoice(NamedTuple):
    """A judgement beside what it is about."""

    judgement: Judgement
    turn: Turn
    stage: Stage


def judged_turns(
    game: Game, judgements: Iterable[Judgement], left_out: Counter[LeftOut]
) -> Iterator[JudgedChoice]:
    """The judgements that are about something this game's seats selected, each beside its turn.

    Judgements of other games are passed over; what fits nothing is counted in ``left_out``.
    """
    turns = {turn.request_id: turn for turn in game.turns if not turn.repeated}
    for one in judgements:
        if one.game_id != game.id:
            continue
        turn = turns.get(one.request_id)
        stage = None if turn is None else turn.stage(one.stage)
        if turn is None or stage is None:
            left_out["no_turn"] += 1
        elif turn.defaulted is not None:
            left_out["defaulted"] += 1
        elif one.intention not in stage.intentions:
            left_out["not_selected"] += 1
        else:
            yield JudgedChoice(one, turn, stage)


class SelectionScores:
    """Reasonable selections, of all judged ones, whole and by group. Several raters pool."""

    __slots__ = (
        "by_category",
        "by_game",
        "by_intention",
        "by_role",
        "by_round",
        "by_side",
        "by_stage",
        "left_out",
        "total",
    )

    def __init__(self) -> None:
        self.total = Rate(0, 0)
        """The accuracy: reasonable, of all."""
        self.by_stage: dict[str, Rate] = {}
        self.by_role: dict[Role, Rate] = {}
        self.by_side: dict[Side, Rate] = {}
        self.by_round: dict[int, Rate] = {}
        self.by_category: dict[str, Rate] = {}
        self.by_intention: dict[IntentionId, Rate] = {}
        self.by_game: dict[str, Rate] = {}
        self.left_out: Counter[LeftOut] = Counter()

    def add(self, game: Game, judgements: Iterable[Judgement]) -> None:
        """Counts the judgements that are about this game; those of other games are passed over.

        ``judgements.by_game`` sorts many games' judgements once.
        """
        for judgement, turn, stage in judged_turns(game, judgements, self.left_out):
            if judgement.reasonable is None:
                self.left_out["not_judged"] += 1
            elif stage.name == "final" and turn.first is not None and not turn.changed:
                self.left_out["unchanged"] += 1
            else:
                self._count(game, turn.seat, turn.round, judgement, judgement.reasonable)

    def _count(self, game: Game, seat: Seat, round_: int, judgement: Judgement, reasonable: bool) -> None:
        one = Rate(int(reasonable), 1)
        self.total = self.total.plus(one)
        tally(self.by_stage, judgement.stage, one)
        tally(self.by_role, game.role(seat), one)
        tally(self.by_side, game.side(seat), one)
        tally(self.by_round, round_, one)
        tally(self.by_intention, judgement.intention, one)
        if judgement.intention in BY_ID:
            tally(self.by_category, BY_ID[judgement.intention].category, one)
        tally(self.by_game, game.id, one)

    def as_json(self) -> dict[str, Any]:
        """Every rate with its counts; ``by_game`` is left to the bootstrap."""
        return {
            "games": len(self.by_game),
            "accuracy": self.total.as_json(),
            **{name: rates_as_json(getattr(self, name)) for name in _TABLES},
            "left_out": dict(sorted(self.left_out.items())),
        }


_TABLES: Final = ("by_stage", "by_role", "by_side", "by_round", "by_category", "by_intention")
