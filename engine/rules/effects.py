"""The consequences of legal actions."""

from collections.abc import Callable
from typing import Any, Final

from engine.actions import Assassinate, ProposeTeam, Reconsider, Remark, Repropose, Speak
from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    Event,
    GameEnded,
    ProposalOpened,
    RoundSummarised,
    TeamConfirmed,
    UtteranceMade,
)
from engine.rules.asking import Answers
from engine.rules.interned import (
    ASSASSINATION_OPENED,
    card_played,
    game_ended,
    nothing_summarised,
    proposal_opened,
    quest_resolved,
    silence,
    team_proposed,
    vote_cast,
    votes_revealed,
)
from engine.state import State, Table
from engine.terms import Ending, Phase, Role, Seat, Side

__all__ = [
    "ALONE",
    "after_vote",
    "assassinate",
    "opens_next",
    "play_all",
    "reconsider",
    "resolve",
    "shoot",
    "speak",
    "summarise_all",
    "vote_all",
]


def vote_all(state: State, answers: Answers) -> tuple[Event, ...]:
    players = state.table.players
    events: list[Event] = []
    for seat, action in answers:
        events += action.thoughts
        events.append(vote_cast(seat, action.approve))  # type: ignore[union-attr]
    if state.answers + len(answers) == players:
        ballots = {seat: action.approve for seat, action in answers}  # type: ignore[union-attr]
        votes = tuple(
            [ballots[hand.seat] if hand.seat in ballots else bool(hand.vote) for hand in state.hands]
        )
        events += after_vote(state, votes, votes.count(True) >= state.table.profile.yes_needed)
    return tuple(events)


def after_vote(state: State, votes: tuple[bool | None, ...], approved: bool) -> tuple[Event, ...]:
    table = state.table
    if approved:
        return (votes_revealed(votes, True, False),)
    profile = table.profile
    if table.attempt < profile.max_rejections:
        revealed = votes_revealed(votes, False, False)
        if profile.summaries:
            return (revealed,)
        return (revealed, proposal_opened(table.round, table.attempt + 1, table.next_leader()))
    rule = profile.on_max_rejections
    if rule == "last_team_goes":
        return (votes_revealed(votes, False, True),)
    revealed = votes_revealed(votes, False, False)
    if rule == "quest_fails":
        return (revealed, *resolve(state, (), None, False))
    return (revealed, _end(state, Side.EVIL, Ending.MAX_REJECTIONS))


def play_all(state: State, answers: Answers) -> tuple[Event, ...]:
    table = state.table
    events: list[Event] = []
    fails = 0
    for seat, action in answers:
        success = action.success  # type: ignore[union-attr]
        events += action.thoughts
        events.append(card_played(seat, success))
        fails += not success
    if state.answers + len(answers) == len(table.team):
        if state.answers:
            earlier = (state.hands[seat - 1] for seat in table.team)
            fails += sum(h.answered == table.opening and not h.success for h in earlier)
        needed = table.profile.fails_needed[table.round - 1]
        events += resolve(state, table.team, fails, fails < needed)
    return tuple(events)


def resolve(state: State, team: tuple[Seat, ...], fails: int | None, succeeded: bool) -> tuple[Event, ...]:
    table = state.table
    resolved = quest_resolved(table.round, team, fails, succeeded)
    profile = table.profile
    if table.failed + (not succeeded) == 3:
        return (resolved, _end(state, Side.EVIL, Ending.THREE_QUESTS_FAILED))
    shot = profile.assassination != "none" and not table.missed
    if table.succeeded + succeeded == 3:
        return (resolved, ASSASSINATION_OPENED if shot else _end_after_successes(state))
    if shot and profile.assassination == "after_any_quest":
        return (resolved, ASSASSINATION_OPENED)
    if profile.summaries:
        return (resolved,)
    return (resolved, _next_round(table))


def _next_round(table: Table) -> ProposalOpened:
    return proposal_opened(table.round + 1, 1, table.next_leader())


def _go_on(table: Table) -> tuple[Event, ...]:
    return () if table.profile.summaries else (_next_round(table),)


def _end_after_successes(state: State) -> GameEnded:
    survived = state.table.missed
    return _end(state, Side.LOYAL, Ending.MERLIN_SURVIVED if survived else Ending.THREE_QUESTS_SUCCEEDED)


def _end(state: State, winner: Side, ending: Ending) -> GameEnded:
    reveal = state.table.profile.reveal
    return game_ended(
        winner,
        ending,
        None if reveal == "none" else state.roles,
        state.seed if reveal == "all" else None,
    )


def summarise_all(state: State, answers: Answers) -> tuple[Event, ...]:
    table = state.table
    events: list[Event] = []
    for seat, action in answers:
        events += action.thoughts
        summary = action.answers  # type: ignore[union-attr]
        make = RoundSummarised if summary else nothing_summarised
        events.append(make(seat, table.round, table.attempt, summary))
    if state.answers + len(answers) == table.players:
        events.append(opens_next(table))
    return tuple(events)


def opens_next(table: Table) -> ProposalOpened:
    """The opening of the next proposal, once every seat has summarised."""
    if len(table.quests) == table.round:
        return _next_round(table)
    return proposal_opened(table.round, table.attempt + 1, table.next_leader())


def _utterance(table: Table, seat: Seat, text: str, phase: Any = "discuss") -> UtteranceMade:
    make = UtteranceMade if text else silence
    return make(seat, table.round, table.attempt, table.turn, phase, text)


def _propose(state: State, seat: Seat, action: ProposeTeam) -> tuple[Event, ...]:
    table = state.table
    team = action.team
    if type(team) is not tuple or team not in table.profile.legal_team[table.round - 1]:
        team = tuple(sorted(team))  # legal, but a list, or not ascending
    proposed = team_proposed(seat, team)
    # The opening turn of a discussion counts as a turn even when nothing is said.
    if action.text or table.profile.discussion == "after_proposal":
        return (proposed, _utterance(table, seat, action.text))
    return (proposed,)


def speak(state: State, seat: Seat, action: Speak | Remark) -> tuple[Event, ...]:
    return (_utterance(state.table, seat, action.text),)


def reconsider(state: State, seat: Seat, action: Reconsider | Repropose) -> tuple[Event, ...]:
    table = state.table
    team = tuple(sorted(action.team))
    confirmed = TeamConfirmed(seat, team, changed=team != table.team)
    if action.text:
        return (confirmed, _utterance(table, seat, action.text, "reconsider"))
    return (confirmed,)


def assassinate(state: State, seat: Seat, action: Assassinate) -> tuple[Event, ...]:
    if action.target is not None:
        assert state.roles is not None, "decide needs the deal"
        return shoot(state, seat, action.target, state.roles[action.target - 1] is Role.MERLIN)
    table = state.table
    if table.succeeded == 3:
        return (AssassinationDeclined(), _end_after_successes(state))
    return (AssassinationDeclined(), *_go_on(table))


def shoot(state: State, seat: Seat, target: Seat | None, hit: bool) -> tuple[Event, ...]:
    table = state.table
    made = AssassinationMade(seat, target, hit)
    if hit:
        return (made, _end(state, Side.EVIL, Ending.MERLIN_ASSASSINATED))
    if table.succeeded == 3 or table.profile.missed_shot == "loyal_wins":
        return (made, _end(state, Side.LOYAL, Ending.MERLIN_SURVIVED))
    return (made, *_go_on(table))


ALONE: Final[dict[Phase, Callable[[State, Seat, Any], tuple[Event, ...]]]] = {
    Phase.PROPOSE: _propose,
    Phase.DISCUSS: speak,
    Phase.RECONSIDER: reconsider,
    Phase.ASSASSINATE: assassinate,
}
