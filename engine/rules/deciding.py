"""Turns answers into events: checks them, then carries them out."""

from itertools import pairwise
from operator import ge

from engine.actions import Action
from engine.errors import IllegalAction
from engine.events import Event, GameCancelled
from engine.rules.asking import Answers
from engine.rules.checking import check
from engine.rules.effects import ALONE, play_all, summarise_all, vote_all
from engine.rules.foreign import FOREIGN
from engine.rules.members import DISCUSS, QUEST, SUMMARY, VOTE
from engine.rules.short import take_short_way
from engine.state import State
from engine.terms import Seat

__all__ = ["cancel", "decide"]


def decide(state: State, answers: Answers, *, foreign: bool = False) -> tuple[Event, ...]:
    """The events that follow from these answers: each seat's thoughts, the effects, and the consequences.

    ``answers`` may answer any of the open requests, but must answer at least one. Answers given one by one in
    seat order lead to the same events as answers given together. ``foreign`` admits the actions that only a
    record may hold. ``state`` is not changed. Raises IllegalAction for the first seat, in seat order, whose
    action is illegal. Raises ValueError if there is no answer, or if one of several answers is an action that
    only a record may hold.
    """
    table = state.table
    phase = table.phase
    # Speeches, most steps of a game with talk, have no short way.
    if phase is not DISCUSS and (events := take_short_way(state, answers)):
        return events
    if len(answers) > 1:
        seats = [seat for seat, _ in answers]
        if any(map(ge, seats, seats[1:])):
            answers = sorted(answers, key=_seat_of)
            _refuse_doubles(answers)
    elif not answers:
        raise ValueError("decide needs at least one answer")
    hands = state.hands
    for seat, action in answers:
        if type(seat) is not int or not 1 <= seat <= table.players:
            raise IllegalAction(seat, f"seats are 1 to {table.players}, got {seat!r}")
        if foreign and type(action) in FOREIGN:
            if len(answers) > 1:
                raise ValueError(
                    f"a record's {type(action).__name__} is decided alone, got {len(answers)} answers"
                )
            return (*action.thoughts, *FOREIGN[type(action)](state, seat, action))
        check(table, hands[seat - 1], action, foreign=foreign)
    if phase is VOTE:
        return vote_all(state, answers)
    if phase is QUEST:
        return play_all(state, answers)
    if phase is SUMMARY:
        return summarise_all(state, answers)
    ((seat, action),) = answers
    events = ALONE[phase](state, seat, action)
    return (*action.thoughts, *events) if action.thoughts else events


def _seat_of(answer: tuple[Seat, Action]) -> Seat:
    return answer[0]


def _refuse_doubles(answers: Answers) -> None:
    for earlier, later in pairwise(answers):
        if earlier[0] == later[0]:
            raise IllegalAction(later[0], f"seat {later[0]} may answer only once")


def cancel(reason: str) -> tuple[Event, ...]:
    """The events that cancel a game."""
    return (GameCancelled(reason),)
