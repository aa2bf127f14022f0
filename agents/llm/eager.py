"""A turn in steps with the timing ``eager``: its first questions are asked before the turn.

A seat prepares its coming speech while others still speak. It is asked about each other seat after that
seat's last action before this turn. It selects its intentions when it knows all speeches but the last, and
drafts its speech when it knows the last one too. A seat that opens an attempt selects its intentions while it
summarises the previous attempt. Beliefs about the seats that acted last are formed alongside the draft: only
the readings, the modification and the final speech use them.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field

from agents.llm.context import situation
from agents.llm.mechanism import (
    NOTHING_SELECTED,
    BeliefAnswer,
    ask_about,
    drafted,
    drafted_turn,
    formed,
    formulation,
    revised,
    seats_to_analyse,
    selected_first,
    selection,
    selection_words,
    speaks_at_once,
    spoken_draft,
)
from agents.llm.preparation import events_for_selection, last_on_quest, missing_part
from agents.llm.replies import Selected, SpeechReply
from agents.llm.talk import ModelTurn, StepFailed, Talk
from agents.model.model import ModelUnavailable
from engine.actions import SeatAction
from engine.events import Note, ProposalOpened, SelectionPrepared
from engine.state import fold
from engine.terms import Phase, Seat
from engine.thoughts import Unheard

__all__ = ["Preparation", "eager_turn", "prepare"]


class _FirstSelection:
    """The outcome of the first selection."""

    def __init__(self) -> None:
        self.talk: Talk | None = None
        """The conversation; None if the selection was not asked for, because the model did not answer the
        question about some seat.
        """
        self.selected: Selected | None = None
        self.notes: list[Note] = []
        self.fault: StepFailed | ModelUnavailable | None = None
        self.events_read = 0
        """The number of events of the seat's stream on which the selection is based."""
        self.without: Unheard | None = None


@dataclass(slots=True)
class Preparation:
    """The questions for one coming speech that were asked early."""

    request_id: str = ""
    about: dict[Seat, "asyncio.Task[BeliefAnswer]"] = field(default_factory=dict)
    first: "asyncio.Task[_FirstSelection] | None" = None

    def cancel(self) -> None:
        """Cancels the questions that nobody waits for any more."""
        tasks: list[asyncio.Task[BeliefAnswer] | asyncio.Task[_FirstSelection]] = [*self.about.values()]
        for task in [*tasks, *([self.first] if self.first else [])]:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                # Mark any fault as seen: it has stopped the game already, or will occur again in the turn.
                task.exception()


def prepare(turn: ModelTurn, preparation: Preparation) -> None:
    """Asks those questions of a coming speech that need not wait any longer.

    ``eager_turn`` would ask exactly the same questions, so an agent that is created anew loses only time.
    """
    for seat in _ready_seats(turn):
        if seat not in preparation.about:
            preparation.about[seat] = asyncio.create_task(ask_about(turn, seat))
    if preparation.first is None and turn.options.selects and _ready_to_select(turn):
        preparation.first = asyncio.create_task(_first_selection(turn, preparation.about))


async def eager_turn(turn: ModelTurn, preparation: Preparation) -> SeatAction:
    """Plays the turn with its preparation. Raises StepFailed or ModelUnavailable; the turn's notes then
    hold the steps that were completed before.
    """
    about = seats_to_analyse(turn)
    if not turn.options.selects:
        return await _without_selection(turn, preparation, about)
    late = _late(turn, about)
    at_once = speaks_at_once(turn)
    try:
        async with asyncio.TaskGroup() as group:
            asked = {
                seat: preparation.about.get(seat) or group.create_task(ask_about(turn, seat))
                for seat in about
            }
            first = await (preparation.first or group.create_task(_first_selection(turn, asked)))
            if first.talk is not None:
                # The conversation began before the turn; from here on it writes this turn's notes.
                first.talk.continue_in(turn)
            # An opener has had time for all beliefs; a responder drafts while it is asked about the last
            # speaker, unless the draft is all that it says.
            late_results = [await asked[seat] for seat in late] if turn.opens or at_once else []
            draft = await _first_draft(turn, first, late_results)
            results = [await asked[seat] for seat in about]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    # Record in the order of the steps and the seats, whichever answer came first.
    formed(turn, results)
    turn.notes += first.notes
    if first.fault is not None:
        raise first.fault
    assert first.talk is not None, "without an answer about some seat, ModelUnavailable has been raised"
    assert first.selected is not None
    if first.without is not None:
        turn.notes.append(SelectionPrepared(turn.seat, first.without))
    turn.notes += selected_first(turn, first.selected)
    if at_once:
        return await spoken_draft(turn, first.talk, first.selected)
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


async def _without_selection(
    turn: ModelTurn, preparation: Preparation, about: tuple[Seat, ...]
) -> SeatAction:
    """Plays a turn that selects no intentions: only the questions about others were asked early."""
    try:
        async with asyncio.TaskGroup() as group:
            asked = [
                preparation.about.get(seat) or group.create_task(ask_about(turn, seat)) for seat in about
            ]
            results = [await task for task in asked]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return await drafted_turn(turn, turn.talk(formed(turn, results)), NOTHING_SELECTED)


async def _first_selection(turn: ModelTurn, asked: Mapping[Seat, Awaitable[BeliefAnswer]]) -> _FirstSelection:
    """Selects on the basis of the record before the last speech, and of the beliefs about all but the late
    seats.

    Any fault is kept in the outcome, so that the questions asked alongside continue.
    """
    outcome = _FirstSelection()
    about = seats_to_analyse(turn)
    late = _late(turn, about)
    known = [await asked[seat] for seat in about if seat not in late]
    if any(result.unavailable is not None for result in known):
        return outcome
    request = turn.request
    part = events_for_selection(turn.events, request, turn.opens, turn.leader, turn.table.players)
    opening = ProposalOpened(request.round, request.attempt, turn.leader)
    waits = turn.opens and part[-1] != opening
    where = situation(fold([*part, opening] if waits else part).table, turn.hand)
    outcome.events_read = len(part)
    outcome.talk = turn.talk_through(part, [result.belief for result in known if result.belief is not None])
    words = selection_words(turn, situation=where, early=not turn.opens)
    try:
        outcome.selected = await selection(turn, outcome.talk, words, outcome.notes)
    except (StepFailed, ModelUnavailable) as fault:
        outcome.fault = fault
    return outcome


class _Draft:
    """The outcome of the formulation."""

    def __init__(self) -> None:
        self.speech: SpeechReply | None = None
        self.notes: list[Note] = []
        self.fault: StepFailed | ModelUnavailable | None = None


async def _first_draft(turn: ModelTurn, first: _FirstSelection, late_results: list[BeliefAnswer]) -> _Draft:
    """Drafts on the basis of the whole record. Any fault is kept in the outcome."""
    outcome = _Draft()
    if first.talk is None or first.selected is None or any(result.unavailable for result in late_results):
        return outcome
    part = turn.events[: first.events_read]
    first.without = missing_part(turn.events, part, turn.opens)
    first.talk.add_to_record(
        turn.events[first.events_read :],
        [result.belief for result in late_results if result.belief is not None],
    )
    if speaks_at_once(turn):
        return outcome
    try:
        outcome.speech = await formulation(turn, first.talk, outcome.notes)
    except (StepFailed, ModelUnavailable) as fault:
        outcome.fault = fault
    return outcome


# --- what waits for what ------------------------------------------------------------------------------


def _late(turn: ModelTurn, about: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The seats whose beliefs the selection does not wait for: the seat that speaks just before this one or,
    if this seat opens an attempt, the team of the quest just before.
    """
    if turn.opens:
        last = last_on_quest(turn.events, turn.request)
    else:
        last = ((turn.seat - 2) % turn.table.players + 1,)
    return tuple(seat for seat in about if seat in last)


def _ready_seats(turn: ModelTurn) -> tuple[Seat, ...]:
    """The seats for which the question about them is ready: no further event can become part of it."""
    table = turn.table
    if turn.opens:
        on_quest = table.team if table.phase is Phase.QUEST else ()
        return tuple(seat for seat in seats_to_analyse(turn) if seat not in on_quest)
    order = {(table.leader - 1 + n) % table.players + 1: n for n in range(table.players)}
    mine = order[turn.seat]
    return tuple(seat for seat in seats_to_analyse(turn) if order[seat] < table.turn or order[seat] > mine)


def _ready_to_select(turn: ModelTurn) -> bool:
    table = turn.table
    if turn.opens:
        return table.phase is not Phase.QUEST
    return table.turn >= (turn.seat - table.leader) % table.players - 1
