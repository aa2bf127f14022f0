"""A seat played by a language model: which steps a request needs."""

from typing import Final

from agents.agent import Setup
from agents.errors import ModelUnavailable
from agents.llm.context import listed
from agents.llm.desk import Desk
from agents.llm.eager import Begun, eager_turn, prepare
from agents.llm.mechanism import rejected_team, speaking_turn
from agents.llm.options import read_options
from agents.llm.replies import (
    Explained,
    Told,
    card_shape,
    proposal_shape,
    summary_shape,
    target_shape,
    vote_shape,
)
from agents.llm.talk import StepFailed, Turn
from agents.llm.templates import Templates, our_templates
from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Summarise,
)
from engine.events import ChoiceExplained, Note
from engine.rules import offered
from engine.terms import Kind, Seat, Side
from engine.view import Observation

__all__ = ["LlmAgent"]


class LlmAgent:
    """Answers every request through a model, and always answers.

    What it answers depends on its options, the observation and the desk's replies alone: one that is
    made anew for a request answers as one that sat there from the start.
    """

    def __init__(self, setup: Setup, desk: Desk, templates: Templates | None = None) -> None:
        """``templates``: other words for the prompts. Raises InvalidAgent for options it cannot take."""
        self._options = read_options(setup.options)
        self._desk = desk
        self._templates = our_templates() if templates is None else templates
        self._eager = self._options.timing == "eager" and self._options.mechanism == "paper"
        self._begun = Begun()
        """For the coming speech."""
        self._turn_begun = Begun()
        """For the speech that is asked for now."""

    async def act(self, observation: Observation) -> SeatAction:
        """The model's answer; the default, marked ``model_error``, where it gives none that is usable."""
        turn = self._turn(observation)
        try:
            if self._eager and _speaks(turn):
                return await eager_turn(turn, self._taken(turn))
            return await _answer(turn)
        except (StepFailed, ModelUnavailable):
            return turn.defaulted()
        finally:
            self._turn_begun.give_up()
            self._turn_begun = Begun()

    def notice(self, observation: Observation) -> None:
        """Puts the questions of the seat's coming speech that need not wait for it (timing eager)."""
        if not self._eager:
            return
        if observation.request.id != self._begun.request_id:
            self.leave()
            self._begun.request_id = observation.request.id
        prepare(self._turn(observation), self._begun)

    def leave(self) -> None:
        """Gives up what was put before its turn and is not needed any more."""
        self._begun.give_up()
        self._begun = Begun()

    def _taken(self, turn: Turn) -> Begun:
        """What was begun for this turn, once: an answer that is refused is asked for from the start."""
        if self._begun.request_id == turn.request.id:
            self._turn_begun, self._begun = self._begun, Begun()
        return self._turn_begun

    def _turn(self, observation: Observation) -> Turn:
        return Turn(observation, self._options, self._desk, self._templates)


async def _answer(turn: Turn) -> SeatAction:
    request = turn.request
    if _speaks(turn):
        return await speaking_turn(turn)
    match request.kind:
        case Kind.PROPOSE_TEAM:
            return await _proposal(turn)
        case Kind.RECONSIDER:
            return await _reconsideration(turn)
        case Kind.VOTE:
            return await _vote(turn)
        case Kind.CARD:
            return await _card(turn)
        case Kind.SUMMARISE:
            return await _summary(turn)
        case _:
            return await _assassination(turn)


def _speaks(turn: Turn) -> bool:
    """Whether the request is for a turn of the discussion."""
    return offered(turn.table, turn.hand, turn.request.kind) is not None


def _explained(turn: Turn, why: str) -> tuple[Note, ...]:
    """The notes so far, and the private reason where one was given."""
    told = (ChoiceExplained(turn.seat, turn.request.kind, why),) if why else ()
    return (*turn.notes, *told)


async def _proposal(turn: Turn) -> SeatAction:
    size = turn.request.team_size or 0
    talks = turn.table.profile.discussion != "none"
    words = turn.render("proposal", size=size, talks=talks, rejected=rejected_team(turn))

    def build(told: Told) -> SeatAction:
        return ProposeTeam(told.team, told.speak, _explained(turn, told.why))

    shape = proposal_shape("proposal", size, turn.table.players, talks=talks)
    return await turn.talk().ask_action("proposal", words, shape, build)


async def _reconsideration(turn: Turn) -> SeatAction:
    size = turn.request.team_size or 0
    talks = turn.table.profile.discussion != "none"
    words = turn.render("reconsideration", size=size, talks=talks, team=listed(turn.table.team))

    def build(told: Told) -> SeatAction:
        return Reconsider(told.team, told.speak, _explained(turn, told.why))

    shape = proposal_shape("reconsideration", size, turn.table.players, talks=talks)
    return await turn.talk().ask_action("reconsideration", words, shape, build)


_IF_REJECTED: Final = {
    "evil_wins": "if it is rejected, evil wins the game.",
    "last_team_goes": "it goes on the quest whatever the vote says, but everybody sees how you voted.",
    "quest_fails": "if it is rejected, the quest fails.",
}


async def _vote(turn: Turn) -> SeatAction:
    table = turn.table
    profile = table.profile
    last = _IF_REJECTED.get(profile.on_max_rejections, "") if table.attempt == profile.max_rejections else ""
    words = turn.render("vote", team=listed(table.team), leader=table.leader, last=last)

    def build(vote: Explained[bool]) -> SeatAction:
        return CastVote(vote.choice, _explained(turn, vote.why))

    return await turn.talk().ask_action("vote", words, vote_shape(), build)


async def _card(turn: Turn) -> SeatAction:
    # A loyal seat is asked too, although only one card is legal for it: were it not, a team without
    # evil would be quicker than any other, and every watcher could tell.
    table = turn.table
    evil = turn.side is Side.EVIL
    words = turn.render(
        "card",
        team=listed(table.team),
        fails=table.profile.fails_needed[table.round - 1],
        left=3 - (table.failed if evil else table.succeeded),
    )

    def build(card: Explained[bool]) -> SeatAction:
        return PlayCard(card.choice, _explained(turn, card.why))

    return await turn.talk().ask_action("card", words, card_shape(may_fail=evil), build)


async def _assassination(turn: Turn) -> SeatAction:
    may_hold = turn.table.profile.assassination == "after_any_quest"
    others = tuple(seat for seat in range(1, turn.table.players + 1) if seat != turn.seat)
    words = turn.render("assassination", may_hold=may_hold)

    def build(shot: Explained[Seat | None]) -> SeatAction:
        return Assassinate(shot.choice, _explained(turn, shot.why))

    shape = target_shape(others, may_hold=may_hold)
    return await turn.talk().ask_action("assassination", words, shape, build)


QUESTIONS: Final = ("leader", "team", "why_team", "disagreed", "result")
"""What every summary answers first; then ``suspects`` or ``protect``, by side, and ``next``."""


async def _summary(turn: Turn) -> SeatAction:
    table = turn.table
    if len(table.quests) == table.round:
        result = "succeeded" if table.quests[-1].succeeded else "failed"
        ended = f"Quest {table.round} has {result}."
    else:
        ended = f"The team of attempt {table.attempt} was rejected."
    words = turn.render("summary", ended=ended)
    last = ("protect" if turn.side is Side.EVIL else "suspects", "next")

    def build(answers: tuple[tuple[str, str], ...]) -> SeatAction:
        return Summarise(answers, tuple(turn.notes))

    return await turn.talk().ask_action("summary", words, summary_shape((*QUESTIONS, *last)), build)
