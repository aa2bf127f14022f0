"""A turn of the preset ``paper`` in the timing ``eager``: what can be asked before the turn is.

A seat prepares its coming speech while others still speak. It is asked about each other seat as soon as that
one has done its last before this seat's turn, and selects its intentions when it has heard all but the last
speech; it drafts its speech when it has heard that one too. A seat that opens an attempt selects while it
sums up the one before. The belief about those who did something last comes when the draft is written; the
readings, the modification and the final speech have it.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field

from agents.llm.context import situation
from agents.llm.mechanism import (
    Sibling,
    abouts,
    ask_about,
    drafted,
    formed,
    formulation,
    revised,
    selected_first,
    selection,
    selection_words,
)
from agents.llm.preparation import heard_first, last_on_quest, unheard
from agents.llm.replies import Selected, SpeechReply
from agents.llm.talk import ModelTurn, StepFailed, Talk
from agents.model.model import ModelUnavailable
from engine.actions import SeatAction
from engine.events import Note, ProposalOpened, SelectionPrepared
from engine.state import fold
from engine.terms import Phase, Seat
from engine.thoughts import Unheard

__all__ = ["Begun", "eager_turn", "prepare"]


class _First:
    """What came of the first selection."""

    def __init__(self) -> None:
        self.talk: Talk | None = None
        """None: it was not asked for, since no model answered about some seat."""
        self.selected: Selected | None = None
        self.notes: list[Note] = []
        self.fault: StepFailed | ModelUnavailable | None = None
        self.events_read = 0
        """Events of the seat's stream that it was based on."""
        self.without: Unheard | None = None


@dataclass(slots=True)
class Begun:
    """The questions that were put for one coming speech."""

    request_id: str = ""
    about: dict[Seat, "asyncio.Task[Sibling]"] = field(default_factory=dict)
    first: "asyncio.Task[_First] | None" = None

    def give_up(self) -> None:
        """Ends what nobody waits for any more."""
        tasks: list[asyncio.Task[Sibling] | asyncio.Task[_First]] = [*self.about.values()]
        for task in [*tasks, *([self.first] if self.first else [])]:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                # What it met has stopped the game already, or is met again in the turn.
                task.exception()


def prepare(turn: ModelTurn, begun: Begun) -> None:
    """Puts those questions of a coming speech that need not wait any longer.

    They are the very ones that ``eager_turn`` would put: a seat made anew misses nothing but time.
    """
    for seat in _ready_abouts(turn):
        if seat not in begun.about:
            begun.about[seat] = asyncio.create_task(ask_about(turn, seat))
    if begun.first is None and _ready_to_select(turn):
        begun.first = asyncio.create_task(_first_selection(turn, begun.about))


async def eager_turn(turn: ModelTurn, begun: Begun) -> SeatAction:
    """The turn, with what was begun before it. Raises StepFailed or ModelUnavailable; what was completed
    before stands in the turn's notes.
    """
    about = abouts(turn)
    late = _late(turn, about)
    try:
        async with asyncio.TaskGroup() as group:
            asked = {
                seat: begun.about.get(seat) or group.create_task(ask_about(turn, seat)) for seat in about
            }
            first = await (begun.first or group.create_task(_first_selection(turn, asked)))
            if first.talk is not None:
                # It was begun before the turn was: what is noted from here on is this turn's.
                first.talk.continue_in(turn)
            # Who opens has had time to hear of everybody; who responds drafts while it is asked about the
            # last one to speak.
            late_results = [await asked[seat] for seat in late] if turn.opens else []
            draft = await _first_draft(turn, first, late_results)
            results = [await asked[seat] for seat in about]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    # In the order of the steps and the seats, whatever was answered first.
    formed(turn, results)
    turn.notes += first.notes
    if first.fault is not None:
        raise first.fault
    assert first.talk is not None, "a model that did not answer about a seat has been raised"
    assert first.selected is not None
    if first.without is not None:
        turn.notes.append(SelectionPrepared(turn.seat, first.without))
    turn.notes += selected_first(turn, first.selected)
    turn.notes += draft.notes
    if draft.fault is not None:
        raise draft.fault
    assert draft.speech is not None
    turn.notes.append(drafted(turn, first.selected, draft.speech))
    if not turn.opens:
        first.talk.add_to_record(
            beliefs=[result.belief for result in results if result.about in late and result.belief]
        )
    return await revised(turn, first.talk, first.selected)


async def _first_selection(turn: ModelTurn, asked: Mapping[Seat, Awaitable[Sibling]]) -> _First:
    """The selection, upon what is heard before the last speech, and the beliefs about all others."""
    # Nothing is raised here: the questions beside it go on.
    out = _First()
    about = abouts(turn)
    late = _late(turn, about)
    known = [await asked[seat] for seat in about if seat not in late]
    if any(result.unavailable is not None for result in known):
        return out
    request = turn.request
    part = heard_first(turn.events, request, turn.opens, turn.leader, turn.table.players)
    opening = ProposalOpened(request.round, request.attempt, turn.leader)
    waits = turn.opens and part[-1] != opening
    where = situation(fold([*part, opening] if waits else part).table, turn.hand)
    out.events_read = len(part)
    out.talk = turn.talk_through(part, [result.belief for result in known if result.belief is not None])
    words = selection_words(turn, situation=where, early=not turn.opens)
    try:
        out.selected = await selection(turn, out.talk, words, out.notes)
    except (StepFailed, ModelUnavailable) as fault:
        out.fault = fault
    return out


class _Draft:
    """What came of the formulation."""

    def __init__(self) -> None:
        self.speech: SpeechReply | None = None
        self.notes: list[Note] = []
        self.fault: StepFailed | ModelUnavailable | None = None


async def _first_draft(turn: ModelTurn, first: _First, late_results: list[Sibling]) -> _Draft:
    """The draft, upon the whole record."""
    out = _Draft()
    if first.talk is None or first.selected is None or any(result.unavailable for result in late_results):
        return out
    part = turn.events[: first.events_read]
    first.without = unheard(turn.events, part, turn.opens)
    first.talk.add_to_record(
        turn.events[first.events_read :],
        [result.belief for result in late_results if result.belief is not None],
    )
    try:
        out.speech = await formulation(turn, first.talk, out.notes)
    except (StepFailed, ModelUnavailable) as fault:
        out.fault = fault
    return out


# --- what waits for what ------------------------------------------------------------------------------


def _late(turn: ModelTurn, about: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The seats whose beliefs the selection does not wait for: the one that speaks just before; for an
    opener those who were on the quest just before.
    """
    if turn.opens:
        last = last_on_quest(turn.events, turn.request)
    else:
        last = ((turn.seat - 2) % turn.table.players + 1,)
    return tuple(seat for seat in about if seat in last)


def _ready_abouts(turn: ModelTurn) -> tuple[Seat, ...]:
    """The seats about which the question will get no further events."""
    table = turn.table
    if turn.opens:
        on_quest = table.team if table.phase is Phase.QUEST else ()
        return tuple(seat for seat in abouts(turn) if seat not in on_quest)
    order = {(table.leader - 1 + n) % table.players + 1: n for n in range(table.players)}
    mine = order[turn.seat]
    return tuple(seat for seat in abouts(turn) if order[seat] < table.turn or order[seat] > mine)


def _ready_to_select(turn: ModelTurn) -> bool:
    table = turn.table
    if turn.opens:
        return table.phase is not Phase.QUEST
    return table.turn >= (turn.seat - table.leader) % table.players - 1
