"""The questions for requests that take only one question: their text, their form, and the action that the
answer becomes.
"""

from typing import Any, Final

from agents.llm.context import hunted, listed
from agents.llm.mechanism import direct_turn, one_pass_turn
from agents.llm.question import Question
from agents.llm.replies import (
    Explained,
    TeamReply,
    card_shape,
    proposal_shape,
    summary_questions,
    summary_shape,
    target_shape,
    vote_shape,
)
from agents.llm.talk import ModelTurn
from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam, Reconsider, SeatAction, Summarise
from engine.events import ChoiceExplained, Note
from engine.rules import offered
from engine.terms import Kind, Seat, Side

__all__ = ["question", "vote"]


def question(turn: ModelTurn) -> Question[Any]:
    """The question to the seat, for a request that takes only one."""
    request = turn.request
    if offered(turn.table, turn.hand, request.kind) is not None:
        return one_pass_turn(turn) if turn.options.one_pass else direct_turn(turn)
    match request.kind:
        case Kind.PROPOSE_TEAM:
            return _proposal(turn)
        case Kind.RECONSIDER:
            return _reconsideration(turn)
        case Kind.VOTE:
            return vote(turn)
        case Kind.CARD:
            return _card(turn)
        case Kind.SUMMARISE:
            return _summary(turn)
        case _:
            return _assassination(turn)


def _explained(turn: ModelTurn, why: str) -> tuple[Note, ...]:
    """The notes so far, and the private reason if one was given."""
    explained = (ChoiceExplained(turn.seat, turn.request.kind, why),) if why else ()
    return (*turn.notes, *explained)


def _proposal(turn: ModelTurn) -> Question[TeamReply]:
    size = turn.request.team_size or 0
    words = turn.render("proposal", size=size, fails=_fails(turn))

    def build(reply: TeamReply) -> SeatAction:
        return ProposeTeam(reply.team, reply.speak, _explained(turn, reply.why))

    shape = proposal_shape("proposal", size, turn.table.players, talks=turn.talks)
    return Question("proposal", words, shape, build)


def _reconsideration(turn: ModelTurn) -> Question[TeamReply]:
    size = turn.request.team_size or 0
    words = turn.render("reconsideration", size=size, team=listed(turn.table.team), fails=_fails(turn))

    def build(reply: TeamReply) -> SeatAction:
        return Reconsider(reply.team, reply.speak, _explained(turn, reply.why))

    shape = proposal_shape("reconsideration", size, turn.table.players, talks=turn.talks)
    return Question("reconsideration", words, shape, build)


_IF_REJECTED: Final = {
    "evil_wins": "if it is rejected, evil wins the game.",
    "last_team_goes": "it goes on the quest whatever the vote says, but everybody sees how you voted.",
    "quest_fails": "if it is rejected, the quest fails.",
}


def vote(turn: ModelTurn, *, joined: bool = False) -> Question[Explained[bool]]:
    """The question about the proposed team or, if ``joined``, about the team that the same answer fixes."""
    table = turn.table
    profile = table.profile
    last = _IF_REJECTED.get(profile.on_max_rejections, "") if table.attempt == profile.max_rejections else ""
    words = turn.render(
        "vote", team=listed(table.team), leader=table.leader, last=last, joined=joined, fails=_fails(turn)
    )

    def build(chosen: Explained[bool]) -> SeatAction:
        return CastVote(chosen.choice, _explained(turn, chosen.why))

    return Question("vote", words, vote_shape(), build)


def _card(turn: ModelTurn) -> Question[Explained[bool]]:
    table = turn.table
    evil = turn.side is Side.EVIL
    words = turn.render(
        "card",
        team=listed(table.team),
        fails=_fails(turn),
        left=3 - (table.failed if evil else table.succeeded),
        against=3 - (table.succeeded if evil else table.failed),
        mates=[seat for seat in table.team if evil and seat in turn.hand.sees],
    )

    def build(card: Explained[bool]) -> SeatAction:
        return PlayCard(card.choice, _explained(turn, card.why))

    return Question("card", words, card_shape(may_fail=evil), build)


def _assassination(turn: ModelTurn) -> Question[Explained[Seat | None]]:
    may_hold = turn.table.profile.assassination == "after_any_quest"
    # Whom an evil seat was shown is evil, so Merlin is not there.
    others = tuple(
        seat for seat in range(1, turn.table.players + 1) if seat != turn.seat and seat not in turn.hand.sees
    )
    words = turn.render(
        "assassination",
        may_hold=may_hold,
        missed=turn.table.profile.missed_shot,
        last_chance=turn.table.succeeded == 3,
    )

    def build(shot: Explained[Seat | None]) -> SeatAction:
        return Assassinate(shot.choice, _explained(turn, shot.why))

    shape = target_shape(others, may_hold=may_hold)
    return Question("assassination", words, shape, build)


def _summary(turn: ModelTurn) -> Question[tuple[tuple[str, str], ...]]:
    table = turn.table
    if len(table.quests) == table.round:
        result = "succeeded" if table.quests[-1].succeeded else "failed"
        ended = f"Quest {table.round} has {result}."
    else:
        ended = f"The team of attempt {table.attempt} was rejected."
    words = turn.render("summary", ended=ended, hunted=hunted(table.profile))
    questions = summary_questions(turn.side, hunted=hunted(table.profile))

    def build(answers: tuple[tuple[str, str], ...]) -> SeatAction:
        return Summarise(answers, tuple(turn.notes))

    return Question("summary", words, summary_shape(questions), build)


def _fails(turn: ModelTurn) -> int:
    """The number of fail cards that make this round's quest fail."""
    return turn.table.profile.fails_needed[turn.request.round - 1]
