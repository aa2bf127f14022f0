"""The open requests, and the intentions that they offer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from engine.actions import Action, Assassinate, CastVote, PlayCard, ProposeTeam, Reconsider, Speak, Summarise
from engine.intentions import IntentionId, menu
from engine.rules.members import (
    ASSASSINATE,
    DISCUSS,
    PROPOSE,
    QUEST,
    RECONSIDER,
    SUMMARY,
    TO_PROPOSE,
    TO_SPEAK,
    TO_SUMMARISE,
    TO_VOTE,
    VOTE,
)
from engine.state import Hand, State, Table
from engine.terms import Kind, Phase, Seat

__all__ = ["KIND_IN", "Answers", "Request", "asked", "everybody", "is_asked", "offered", "pending", "turn_of"]

Answers = Sequence[tuple[Seat, Action]]
"""Seats and their answers: any non-empty part of the open requests, in any order."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the game to one seat for one decision. Computed from the log, never stored."""

    seat: Seat
    kind: Kind
    round: int
    attempt: int
    team_size: int | None
    """Number of seats to name, when the decision is a team."""

    @property
    def id(self) -> str:
        """Unique in the game, e.g. ``2.1.vote.3``: round, attempt, kind, seat."""
        return f"{self.round}.{self.attempt}.{self.kind}.{self.seat}"


@cache
def _request(seat: Seat, kind: Kind, round_: int, attempt: int, size: int | None) -> tuple[Request, ...]:
    return (Request(seat, kind, round_, attempt, size),)


@cache
def _of_everybody(players: int, kind: Kind, round_: int, attempt: int) -> tuple[Request, ...]:
    return tuple(Request(seat, kind, round_, attempt, None) for seat in range(1, players + 1))


@cache
def _of_team(team: tuple[Seat, ...], round_: int, attempt: int) -> tuple[Request, ...]:
    return tuple(Request(seat, Kind.CARD, round_, attempt, None) for seat in team)


@cache
def everybody(players: int) -> tuple[Seat, ...]:
    return tuple(range(1, players + 1))


def pending(state: State) -> tuple[Request, ...]:
    """The open requests in seat order. Empty if the game is over."""
    table = state.table
    phase = table.phase
    if phase is VOTE:
        requests = _of_everybody(table.players, TO_VOTE, table.round, table.attempt)
    elif phase is PROPOSE:
        size = table.profile.team_sizes[table.round - 1]
        return _request(table.leader, TO_PROPOSE, table.round, table.attempt, size)
    elif phase is QUEST:
        requests = _of_team(table.team, table.round, table.attempt)
    elif phase is SUMMARY:
        requests = _of_everybody(table.players, TO_SUMMARISE, table.round, table.attempt)
    elif phase is DISCUSS:
        return _request(table.speaker, TO_SPEAK, table.round, table.attempt, None)
    elif phase is RECONSIDER:
        size = table.profile.team_sizes[table.round - 1]
        return _request(table.leader, Kind.RECONSIDER, table.round, table.attempt, size)
    elif phase is ASSASSINATE and state.shooter is not None:
        return _request(state.shooter, Kind.ASSASSINATE, table.round, table.attempt, None)
    else:
        return ()
    if state.answers:
        hands, opening = state.hands, table.opening
        return tuple(request for request in requests if hands[request.seat - 1].answered != opening)
    return requests


def turn_of(table: Table) -> tuple[Kind | None, tuple[Seat, ...]]:
    """What the game waits for, and from whom, as everybody may know it: (kind, seats).

    Where several are asked in secret, all of them, whoever has answered; at an assassination nobody, since
    the shooter is hidden. (None, ()) when the game is over.
    """
    phase = table.phase
    if phase not in KIND_IN:
        return None, ()
    kind = KIND_IN[phase][0]
    if phase is VOTE or phase is SUMMARY:
        return kind, everybody(table.players)
    if phase is QUEST:
        return kind, table.team
    if phase is DISCUSS:
        return kind, (table.speaker,)
    return kind, () if phase is ASSASSINATE else (table.leader,)


def offered(table: Table, hand: Hand, kind: Kind) -> tuple[IntentionId, ...] | None:
    """The intentions that this seat is offered for a turn of the discussion; None for other requests, and
    while the seat's role is unknown.

    Where the discussion comes after the proposal, the proposal is its opening turn. A reconsideration is
    not a turn of the discussion.
    """
    before = table.profile.discussion == "before_proposal"
    if kind is TO_SPEAK:
        opener = before and table.turn == 0
    elif kind is TO_PROPOSE and table.profile.discussion == "after_proposal":
        opener = True
    else:
        return None
    return None if hand.role is None else menu(hand.role, opener=opener, first_quest=table.round == 1)


KIND_IN: Final = {
    Phase.PROPOSE: (Kind.PROPOSE_TEAM, ProposeTeam),
    Phase.DISCUSS: (Kind.SPEAK, Speak),
    Phase.RECONSIDER: (Kind.RECONSIDER, Reconsider),
    Phase.VOTE: (Kind.VOTE, CastVote),
    Phase.QUEST: (Kind.CARD, PlayCard),
    Phase.SUMMARY: (Kind.SUMMARISE, Summarise),
    Phase.ASSASSINATE: (Kind.ASSASSINATE, Assassinate),
}


def is_asked(table: Table, hand: Hand) -> bool:
    phase = table.phase
    if phase is VOTE or phase is SUMMARY:
        return hand.answered != table.opening
    if phase is QUEST:
        return hand.seat in table.team and hand.answered != table.opening
    if phase is PROPOSE or phase is RECONSIDER:
        return hand.seat == table.leader
    if phase is DISCUSS:
        return hand.seat == table.speaker
    return phase is ASSASSINATE and hand.shoots


def asked(table: Table, hand: Hand) -> Request | None:
    """The seat's own request in ``pending``, computed from what it sees; None when it is not being asked."""
    if not is_asked(table, hand):
        return None
    kind = KIND_IN[table.phase][0]
    names_a_team = kind is TO_PROPOSE or kind is Kind.RECONSIDER
    size = table.profile.team_sizes[table.round - 1] if names_a_team else None
    return _request(hand.seat, kind, table.round, table.attempt, size)[0]
