"""The rule judge: finds selected intentions that are unreasonable by rule, and gives the reason.

It checks three things: whether the role may select the intention, whether the public record has the facts
that the intention refers to (without a failed quest, no concern about its members), and whether two selected
intentions exclude each other (``contradictions.json``). It never calls a selection reasonable: all others
stay undecided, for people and model judges.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

from engine.intentions import BY_ID, IntentionId, allowed, missing_facts
from engine.state import State, apply
from engine.terms import Role
from evaluators.ground.judgements import Judgement, StageKey
from evaluators.ground.turns import Game

__all__ = ["CONTRADICTIONS", "RATER", "Rule", "Ruling", "contradictions", "rule", "ruled"]

RATER: Final = "rules"
"""The rater's name in judgements of this judge."""

Rule = Literal["role", "fact", "contradiction"]

_DATA: Final = json.loads(files("evaluators.judges").joinpath("contradictions.json").read_text("utf-8"))

CONTRADICTIONS: Final[Mapping[frozenset[IntentionId], str]] = {
    frozenset(pair["intentions"]): pair["why"] for pair in _DATA["pairs"]
}
"""The reasons why two intentions cannot be in one speech, by pair."""

_FACTS: Final = {
    "earlier_vote": "no vote has been taken before",
    "failed_quest": "no quest has failed",
    "last_quest_failed": "the last quest did not fail",
    "leader_not_on_team": "the leader is on the team, or no team stands",
    "seat_not_on_team": "the seat is on the team, or no team stands",
}


@dataclass(frozen=True, slots=True)
class Ruling:
    """The ruling on one selected intention."""

    key: StageKey
    intention: IntentionId
    rule: Rule | None
    """The rule that the intention breaks; None if undecided."""
    reason: str
    """The reason why the intention is unreasonable; empty if undecided."""

    @property
    def judgement(self) -> Judgement | None:
        """The judgement "unreasonable" by the rater ``rules``; None if undecided."""
        if self.rule is None:
            return None
        return Judgement(*self.key, self.intention, False, None, None, RATER)


def contradictions(intention: IntentionId, others: Iterable[IntentionId]) -> list[IntentionId]:
    """The other intentions that exclude this one, sorted."""
    return sorted(other for other in others if frozenset((intention, other)) in CONTRADICTIONS)


def rule(
    role: Role, intention: IntentionId, others: Iterable[IntentionId], facts: Iterable[str]
) -> tuple[Rule, str] | None:
    """The first rule that an intention breaks, in the order role, fact, contradiction; None if undecided.

    ``others`` were selected with it; ``facts`` are those of ``Table.facts`` for the seat at that time. An
    intention outside the catalogue is undecided.
    """
    if intention not in BY_ID:
        return None
    if intention not in allowed(role):
        return "role", f"{role.value} may not select it"
    missing = missing_facts(intention, facts)
    if missing:
        return "fact", "; ".join(_FACTS[fact] for fact in missing)
    excluded = contradictions(intention, others)
    if excluded:
        other = excluded[0]
        return "contradiction", f"with {other}: {CONTRADICTIONS[frozenset((intention, other))]}"
    return None


def ruled(game: Game) -> Iterator[Ruling]:
    """A ruling for every selected intention of a game, in the order of the log.

    A final selection has rulings only if modification changed it. Defaulted turns have none.
    """
    state = State()
    done = 0
    for turn in game.turns:
        # A first selection may have been made before the last speech, and the team proposed with it.
        start = turn.unheard.start if turn.without == "speech" else turn.opening
        apply(state, game.log[done:start])
        facts = {"first": state.table.facts(turn.seat)}
        # Folds the events up to the turn's own proposal or utterance; the thoughts before it do not change
        # the table.
        apply(state, game.log[start : turn.opening])
        done = turn.opening
        if turn.defaulted is not None:
            continue
        facts["final"] = state.table.facts(turn.seat)
        stages = (turn.first, turn.final if turn.changed or turn.first is None else None)
        for stage in filter(None, stages):
            key = StageKey(game.id, turn.request_id, stage.name)
            for choice in stage.chosen:
                verdict = rule(
                    game.role(turn.seat), choice.id, stage.intentions - {choice.id}, facts[stage.name]
                )
                yield Ruling(key, choice.id, *(verdict or (None, "")))
