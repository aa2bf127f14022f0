"""The fast path for common decisions, without checks that cannot fail there. ``decide`` gives the same events
without it, only more slowly: deleting this file and its one call costs nothing but speed.
"""

from functools import cache

from engine.actions import APPROVE, FAIL, NOTHING, REJECT, SUCCESS, ProposeTeam
from engine.events import CardPlayed, Event, ProposalOpened, RoundSummarised, TeamProposed
from engine.rules.asking import Answers
from engine.rules.effects import after_vote, opens_next, resolve
from engine.rules.interned import (
    card_played,
    nothing_summarised,
    proposal_opened,
    team_proposed,
    votes_revealed,
)
from engine.rules.members import EVIL, PROPOSE, QUEST, SUMMARY, VOTE
from engine.state import State, ballots_of
from engine.terms import Seat

__all__ = ["take_short_way"]


def take_short_way(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The events that follow from these answers if every seat being asked answers, in seat order, with an
    object that ``legal`` lists. None if ``decide`` must check the answers.
    """
    phase = state.table.phase
    if phase is VOTE:
        return _whole_vote(state, answers)
    if phase is PROPOSE:
        return _plain_proposal(state, answers)
    if phase is QUEST:
        return _whole_quest(state, answers)
    if phase is SUMMARY:
        return _whole_summary(state, answers)
    return None


def _votes_of(ballots: int) -> tuple[bool, ...]:
    """The votes in ``ballots``, whose binary form is a 1 and then one digit for each seat, seat 1 first."""
    return tuple(digit == "1" for digit in f"{ballots:b}"[1:])


@cache
def _cast_and_revealed(ballots: int, approved: bool) -> tuple[Event, ...]:
    votes = _votes_of(ballots)
    return (*ballots_of(votes), votes_revealed(votes, approved, False))


@cache
def _next_attempt(round_: int, attempt: int, leader: Seat) -> tuple[ProposalOpened, ...]:
    return (proposal_opened(round_, attempt, leader),)


@cache
def _cards_on_table(team: tuple[Seat, ...], failing: tuple[Seat, ...]) -> tuple[CardPlayed, ...]:
    return tuple(card_played(seat, seat not in failing) for seat in team)


def _whole_vote(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The events of a vote whose ballots all come at once; None if ``decide`` must check the answers."""
    table = state.table
    profile = table.profile
    if state.answers or len(answers) != table.players:
        return None
    ballots = 1
    expected = 1
    for seat, action in answers:
        # Compared by identity, since True equals 1 but is not a seat.
        if seat is not expected:
            return None
        expected += 1
        if action is APPROVE:
            ballots += ballots + 1
        elif action is REJECT:
            ballots += ballots
        else:
            return None
    if ballots.bit_count() > profile.yes_needed:
        return _cast_and_revealed(ballots, True)
    if table.attempt >= profile.max_rejections:
        votes = _votes_of(ballots)
        return (*ballots_of(votes), *after_vote(state, votes, False))
    events = _cast_and_revealed(ballots, False)
    if profile.summaries:
        return events
    return events + _next_attempt(table.round, table.attempt + 1, table.next_leader())


def _whole_quest(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The events of a quest whose cards all come at once; None if ``decide`` must check the answers."""
    table = state.table
    team = table.team
    if state.answers or len(answers) != len(team):
        return None
    failing: list[Seat] = []
    place = 0
    for seat, action in answers:
        if seat is not team[place]:
            return None
        place += 1
        if action is SUCCESS:
            continue
        if action is not FAIL or state.hands[seat - 1].side is not EVIL:
            return None
        failing.append(seat)
    fails = len(failing)
    needed = table.profile.fails_needed[table.round - 1]
    return _cards_on_table(team, tuple(failing)) + resolve(state, team, fails, fails < needed)


def _whole_summary(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The events when no seat has anything to summarise; None if ``decide`` must check the answers."""
    table = state.table
    if state.answers or len(answers) != table.players:
        return None
    expected = 1
    for seat, action in answers:
        if seat is not expected or action is not NOTHING:
            return None
        expected += 1
    return (*_no_summaries(table.players, table.round, table.attempt), opens_next(table))


@cache
def _no_summaries(players: int, round_: int, attempt: int) -> tuple[RoundSummarised, ...]:
    return tuple(nothing_summarised(seat, round_, attempt, ()) for seat in range(1, players + 1))


def _plain_proposal(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The event of a team that is proposed without talk; None if ``decide`` must check the answers."""
    if len(answers) != 1:
        return None
    seat, action = answers[0]
    table = state.table
    profile = table.profile
    if seat is not table.leader or profile.discussion == "after_proposal":
        return None
    if type(action) is not ProposeTeam or action.thoughts or action.text != "":
        return None
    team = action.team
    # The team must be the tuple object in the table of legal teams: an equal one may hold True instead of 1.
    if type(team) is not tuple or profile.legal_team[table.round - 1].get(team) is not team:
        return None
    return _proposed(seat, team)


@cache
def _proposed(leader: Seat, team: tuple[Seat, ...]) -> tuple[TeamProposed, ...]:
    return (team_proposed(leader, team),)
