"""``decide`` by both of its ways: the short one of simple answers (ADR 0022) and the long one of the rest."""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any, Final

from engine import rules
from engine.actions import APPROVE, FAIL, NOTHING, REJECT, SUCCESS, Action, ProposeTeam
from engine.errors import IllegalAction
from engine.events import Event
from engine.rules import Answers
from engine.state import State

__all__ = ["both_ways", "long_way", "short_way"]

_SIMPLE: Final = {repr(action): action for action in (APPROVE, REJECT, SUCCESS, FAIL, NOTHING)}
"""By their looks: True equals 1, and is another vote."""


def short_way(state: State, answers: Answers) -> Answers:
    """The same answers by the very objects that ``legal`` lists, in seat order: as simple as they can be."""
    listed = [(seat, _listed(state, action)) for seat, action in answers]
    ordered = all(type(seat) is int for seat, _ in listed)
    return sorted(listed, key=lambda answer: answer[0]) if ordered else listed


def _listed(state: State, action: Action) -> Action:
    if type(action) is ProposeTeam:
        teams = state.table.profile.legal_team[state.table.round - 1].values()
        return next((replace(action, team=team) for team in teams if repr(team) == repr(action.team)), action)
    return _SIMPLE.get(repr(action), action)


def long_way(answers: Answers) -> Answers:
    """The same answers by objects of their own, which no short way takes."""
    return [(seat, _copied(action)) for seat, action in answers]


def _copied(action: Action) -> Action:
    if not is_dataclass(action):
        return action
    if type(action) is ProposeTeam and type(action.team) is tuple:
        return replace(action, team=tuple(iter(action.team)))
    return replace(action)


def both_ways(state: State, answers: Answers) -> tuple[Event, ...]:
    """What ``decide`` says by either way. Raises IllegalAction, and AssertionError where they differ."""
    short = _outcome(lambda: rules.decide(state, short_way(state, answers)))
    long = _outcome(lambda: rules.decide(state, long_way(answers)))
    assert repr(short) == repr(long), f"the two ways differ after {answers!r}: {short!r}, {long!r}"
    return rules.decide(state, answers)


def _outcome(decide: Callable[[], tuple[Event, ...]]) -> Any:
    try:
        return decide()
    except IllegalAction as refusal:
        return refusal.seat, str(refusal), refusal.pointer
