"""The actions that only a foreign record may hold, and their consequences."""

from collections.abc import Callable
from typing import Any, Final

from engine.actions import Action, Assassinate, Confer, RecordQuest, RecordShot, RecordVote, Remark, Repropose
from engine.errors import IllegalAction
from engine.events import Event, EvilConferred
from engine.rules.checking import check_target, check_team, not_asked
from engine.rules.effects import after_vote, assassinate, reconsider, resolve, shoot, speak
from engine.rules.members import ASSASSINATE, EVIL, QUEST
from engine.state import State
from engine.terms import Phase, Seat

__all__ = ["FOREIGN"]


def _confer(state: State, seat: Seat, action: Confer) -> tuple[Event, ...]:
    return (EvilConferred(seat, action.text),)


def _foreign_needs(state: State, seat: Seat, phase: Phase, action: Action) -> None:
    table = state.table
    asked = state.shooter if phase is ASSASSINATE else table.leader
    if table.phase is not phase or seat != asked:
        raise not_asked(table, state.hand(seat), action)
    if state.answers:
        raise IllegalAction(
            seat, f"{type(action).__name__} must come before single answers, got it after {state.answers}"
        )


def _repropose(state: State, seat: Seat, action: Repropose) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.VOTE, action)
    check_team(state.table, state.hand(seat), action.team)
    return reconsider(state, seat, action)


def _record_vote(state: State, seat: Seat, action: RecordVote) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.VOTE, action)
    table = state.table
    votes = action.votes
    if len(votes) != table.players:
        raise IllegalAction(seat, f"a vote takes {table.players} ballots, got {len(votes)}", "/votes")
    yes, unknown = votes.count(True), votes.count(None)
    needed = table.profile.yes_needed
    if (action.approved and yes + unknown < needed) or (not action.approved and yes >= needed):
        raise IllegalAction(
            seat,
            f"approved={action.approved} contradicts {yes} approvals and {unknown} unknown ballots: "
            f"a team needs {needed} approvals",
            "/approved",
        )
    return after_vote(state, votes, action.approved)


def _record_quest(state: State, seat: Seat, action: RecordQuest) -> tuple[Event, ...]:
    table = state.table
    # Unlike the other actions of a record, this one may follow single answers: the known cards.
    if table.phase is not QUEST or seat != table.leader:
        raise not_asked(table, state.hand(seat), action)
    hands = [state.hand(member) for member in table.team]
    known = sum(hand.answered == table.opening and not hand.success for hand in hands)
    evil = known + sum(hand.answered != table.opening and hand.side is EVIL for hand in hands)
    needed = table.profile.fails_needed[table.round - 1]
    if action.fails is not None:
        if not 0 <= action.fails <= evil:
            raise IllegalAction(
                seat,
                f"{evil} evil seats on the team can play 0 to {evil} fails, got {action.fails}",
                "/fails",
            )
        if action.fails < known:
            raise IllegalAction(seat, f"{known} fails were played, got {action.fails} in all", "/fails")
        if action.succeeded != (action.fails < needed):
            raise IllegalAction(
                seat,
                f"succeeded={action.succeeded} contradicts {action.fails} fails, with {needed} needed",
                "/succeeded",
            )
    elif action.succeeded if known >= needed else not action.succeeded and evil < needed:
        raise IllegalAction(
            seat,
            f"succeeded={action.succeeded} contradicts {known} to {evil} fails, with {needed} needed",
            "/succeeded",
        )
    return resolve(state, table.team, action.fails, action.succeeded)


def _record_shot(state: State, seat: Seat, action: RecordShot) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.ASSASSINATE, action)
    return shoot(state, seat, None, action.hit)


def _hold_or_shoot(state: State, seat: Seat, action: Assassinate) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.ASSASSINATE, action)
    if action.target is not None:
        check_target(state.table, state.hand(seat), action.target)
    return assassinate(state, seat, action)


FOREIGN: Final[dict[type[Any], Callable[[State, Seat, Any], tuple[Event, ...]]]] = {
    Remark: speak,
    Confer: _confer,
    Repropose: _repropose,
    RecordVote: _record_vote,
    RecordQuest: _record_quest,
    RecordShot: _record_shot,
    Assassinate: _hold_or_shoot,
}
