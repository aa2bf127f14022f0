"""Runs ``decide`` along both of its paths: the fast one for simple answers (ADR 0022) and the general one."""

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
"""Actions by their ``repr``, since True equals 1 but is another vote."""


def short_way(state: State, answers: Answers) -> Answers:
    """The same answers as the objects that ``legal`` lists, in seat order, so that the fast path takes
    them.
    """
    listed = [(seat, _listed(state, action)) for seat, action in answers]
    ordered = all(type(seat) is int for seat, _ in listed)
    return sorted(listed, key=lambda answer: answer[0]) if ordered else listed


def _listed(state: State, action: Action) -> Action:
    if type(action) is ProposeTeam:
        teams = state.table.profile.legal_team[state.table.round - 1].values()
        return next((replace(action, team=team) for team in teams if repr(team) == repr(action.team)), action)
    return _SIMPLE.get(repr(action), action)


def long_way(answers: Answers) -> Answers:
    """The same answers as new objects, so that the fast path does not take them."""
    return [(seat, _copied(action)) for seat, action in answers]


def _copied(action: Action) -> Action:
    if not is_dataclass(action):
        return action
    if type(action) is ProposeTeam and type(action.team) is tuple:
        return replace(action, team=tuple(iter(action.team)))
    return replace(action)


def both_ways(state: State, answers: Answers) -> tuple[Event, ...]:
    """The result of ``decide`` on both paths. Raises IllegalAction, or AssertionError if the results
    differ.
    """
    short = _outcome(lambda: rules.decide(state, short_way(state, answers)))
    long = _outcome(lambda: rules.decide(state, long_way(answers)))
    assert repr(short) == repr(long), f"the two ways differ after {answers!r}: {short!r}, {long!r}"
    return rules.decide(state, answers)


def _outcome(decide: Callable[[], tuple[Event, ...]]) -> Any:
    try:
        return decide()
    except IllegalAction as refusal:
        return refusal.seat, str(refusal), refusal.pointer
