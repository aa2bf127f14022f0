"""Joins two questions into one if nobody speaks between them (mechanism one_pass; docs/adr/0016).

The leader's answer that fixes the team (its reconsideration, or else its proposal) holds its vote too, and
the answer to the next leader's summary holds its opening turn. Nothing is kept in memory between the two
requests: the later request rebuilds the earlier question from the record as it was then, and finds the answer
in the session.
"""

from collections.abc import Sequence
from typing import Any, Final, get_args

from agents.llm.fields import Fields, UnusableReply
from agents.llm.mechanism import one_pass_turn
from agents.llm.question import Question
from agents.llm.questions import question, vote
from agents.llm.replies import THEN, joined_shape
from agents.llm.session import CallKey, ModelSession
from agents.llm.talk import ModelTurn, StepFailed, unusable
from agents.model.model import Form, Message, ModelUnavailable, Reply
from agents.model.request import longest
from engine.actions import SeatAction
from engine.events import Note, ProposalOpened, RoundSummarised, TeamConfirmed, TeamProposed
from engine.rules import asked, decide, offered, opens_next
from engine.state import fold
from engine.terms import Kind
from engine.view import observe, project

__all__ = ["joined_action", "whole_question"]

_CHARACTERS: Final = 4
"""Characters of a token, roughly."""


def whole_question(turn: ModelTurn) -> Question[Any]:
    """The question to the seat, joined with the next question if one answer can hold both."""
    first = question(turn)
    if not turn.options.one_pass:
        return first
    if _vote_follows(turn):
        return _joined(turn, first, vote(turn, joined=True))
    if turn.request.kind is Kind.SUMMARISE and turn.table.next_leader() == turn.seat:
        ahead = _opening(turn)
        if ahead is not None:
            return _joined(turn, first, one_pass_turn(ahead, turn))
    return first


def _joined(turn: ModelTurn, first: Question[Any], second: Question[Any]) -> Question[Any]:
    shape = joined_shape(first.shape, second.shape)
    if longest(shape.form.schema) > _CHARACTERS * turn.options.max_output_tokens:
        # A server that enforces the schema would cut the answer off.
        return first
    words = turn.render("joined", first=first.words, then=THEN, step=second.step, second=second.words)
    return Question(f"{first.step}+{second.step}", words, shape, first.build)


def _vote_follows(turn: ModelTurn) -> bool:
    """Whether the answer to this request fixes the team that everybody votes on next."""
    profile = turn.table.profile
    if turn.table.attempt == profile.unvoted_attempt:
        return False
    if turn.request.kind is Kind.RECONSIDER:
        return True
    alone = not profile.reconsideration and profile.discussion != "after_proposal"
    return alone and turn.request.kind is Kind.PROPOSE_TEAM


def _opening(turn: ModelTurn) -> ModelTurn | None:
    """The turn with which this seat opens the next discussion; None if it does not open the discussion."""
    table = turn.table
    summed = RoundSummarised(turn.seat, table.round, table.attempt, ())
    state = fold([*turn.events, summed, opens_next(table)])
    hand = state.hands[turn.seat - 1]
    request = asked(state.table, hand)
    if request is None or offered(state.table, hand, request.kind) is None:
        return None
    return turn.at(observe(state, request))


# --- the second of the two ------------------------------------------------------------------------------


async def joined_action(turn: ModelTurn, session: ModelSession) -> SeatAction | None:
    """The action that an earlier answer of the seat already holds; None if the model has to be asked.

    An answer whose second action cannot be used is recorded as unusable.
    """
    done = _earlier(turn)
    if not turn.options.one_pass or turn.refusals or done is None:
        return None
    earlier = await _answered(turn, session, done)
    if earlier is None:
        return None
    step, reply, shown = earlier
    speaks = offered(turn.table, turn.hand, turn.request.kind) is not None
    second: Question[Any] = one_pass_turn(turn, shown) if speaks else question(turn)
    try:
        fields = Fields(reply.value, turn.table.names, loose=False).inside(THEN)
        return turn.legal(second.build(second.shape.read(fields)))
    except UnusableReply:
        turn.notes.append(unusable(turn, step, reply))
        return None


def _earlier(turn: ModelTurn) -> int | None:
    """The index, in the seat's stream, of the earlier action whose answer may hold this action too; None if
    there is no such action.
    """
    events, table = turn.events, turn.table
    if turn.request.kind is Kind.VOTE and table.leader == turn.seat:
        done: tuple[type, ...] = (TeamConfirmed,) if table.profile.reconsideration else (TeamProposed,)
    elif type(events[-1]) is ProposalOpened and table.profile.summaries:
        done = (RoundSummarised,)
    else:
        return None
    return next((i for i in range(len(events) - 1, -1, -1) if type(events[i]) in done), None)


_NOTES: Final = frozenset(get_args(Note))


async def _answered(turn: ModelTurn, session: ModelSession, done: int) -> tuple[str, Reply, ModelTurn] | None:
    """The step and the answer that led to the event at index ``done`` of the seat's stream, and the turn in
    which the answer was given. None if that answer holds only one action, is not stored, or was not played.
    """
    events, seat = turn.events, turn.seat
    start = done
    while start and type(events[start - 1]) in _NOTES:
        start -= 1
    state = fold(events[:start])
    request = asked(state.table, state.hands[seat - 1])
    if request is None:
        return None
    earlier = turn.at(observe(state, request), _Memory(session))
    both = whole_question(earlier)
    if "+" not in both.step:
        return None
    try:
        action = await earlier.talk().ask_action(both)
    except (StepFailed, ModelUnavailable):
        return None
    # In a fork, another agent may have acted for the seat instead.
    became = project(decide(state, [(seat, action)]), seat)
    if became != list(events[start : start + len(became)]) or earlier.reply is None:
        return None
    return both.step, earlier.reply, earlier


class _Memory:
    """Returns stored answers only, and never asks a model."""

    def __init__(self, session: ModelSession) -> None:
        self._session = session

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        reply = self._session.recall(key, messages, temperature=temperature, max_tokens=max_tokens)
        if reply is None:
            raise StepFailed(key.step)
        return reply

    def read(self, key: CallKey, *, usable: bool) -> None:
        """Does nothing: the answer was read before."""
