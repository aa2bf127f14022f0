"""The parts of its stream that a seat uses when it prepares its coming speech (timing ``eager``).

The log alone determines each part. So the part is the same whether a question is asked while others still
speak, or later, in the seat's turn, by an agent that was created anew.
"""

from collections.abc import Sequence

from engine.events import (
    Event,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    UtteranceMade,
)
from engine.rules import Request
from engine.terms import Seat
from engine.thoughts import Unheard

__all__ = ["events_about", "events_for_selection", "last_on_quest", "missing_part"]


def events_about(events: Sequence[Event], coming: Request, opens: bool, about: Seat) -> Sequence[Event]:
    """The stream through the last action of the seat ``about``, for the question about that seat.

    If the seat being asked does not open the attempt, the part ends with the speech of ``about`` in this
    attempt, or with the attempt's opening if ``about`` speaks later.

    If the seat being asked opens the attempt, the part ends with the quest of the attempt before, or just
    before that quest if ``about`` was not on its team; without a quest, it ends with the vote. It never holds
    the summary of that attempt by the seat being asked, so the speeches of that attempt are in full.
    """
    if not opens:
        opened = _opened(events, coming)
        for place in range(len(events) - 1, opened, -1):
            event = events[place]
            if type(event) is UtteranceMade and event.seat == about:
                return events[: place + 1]
        return events[: opened + 1]
    before = _before_opening(events, coming)
    quest = _last_quest(before)
    if quest is None:
        return before
    place, event = quest
    return before[: place + 1] if about in event.team else _to_public(before[:place])


def events_for_selection(
    events: Sequence[Event], coming: Request, opens: bool, leader: Seat, players: int
) -> Sequence[Event]:
    """The stream that the first selection is based on.

    For a seat that does not open the attempt, it ends with the last speech but one, or with the attempt's
    opening if there was only one speech. For the seat that opens the attempt, it holds everything except the
    seat's own summary of the attempt before; the question itself says that the seat opens the next attempt.
    """
    if opens:
        part = _before_opening(events, coming)
        opened = _opened(events, coming)
        # Without summaries, the attempt opens at once, so the part includes the opening.
        return events[: opened + 1] if part == events[:opened] and opened < len(events) else part
    before_last = (coming.seat - leader) % players - 1
    opened = _opened(events, coming)
    if before_last < 1:
        return events[: opened + 1]
    spoken = 0
    for place in range(opened + 1, len(events)):
        spoken += type(events[place]) is UtteranceMade
        if spoken == before_last:
            return events[: place + 1]
    raise AssertionError(f"{coming.id} needs {before_last} speeches before the last one, got {spoken}")


def missing_part(events: Sequence[Event], part: Sequence[Event], opens: bool) -> Unheard | None:
    """The part of the record before its turn that the first selection lacks: the last speech, or the seat's
    own summary. None: it lacks nothing.
    """
    rest = events[len(part) :]
    if not opens:
        return "speech"
    return "summary" if any(type(event) is RoundSummarised for event in rest) else None


def last_on_quest(events: Sequence[Event], coming: Request) -> tuple[Seat, ...]:
    """The team of the quest in the attempt before; empty if there was no quest."""
    quest = _last_quest(_before_opening(events, coming))
    return () if quest is None else quest[1].team


def _last_quest(before: Sequence[Event]) -> tuple[int, QuestResolved] | None:
    """The index of the last attempt's quest in the stream, and the quest; None if there was none."""
    for place in range(len(before) - 1, -1, -1):
        event = before[place]
        if type(event) is ProposalOpened:
            return None
        if type(event) is QuestResolved:
            return place, event
    return None


def _before_opening(events: Sequence[Event], coming: Request) -> Sequence[Event]:
    """The stream through the last public event before the attempt's opening. For the game's first attempt,
    the stream through the opening itself.
    """
    opened = _opened(events, coming)
    if not any(type(event) is ProposalOpened for event in events[:opened]):
        return events[: opened + 1]
    return _to_public(events[:opened])


def _opened(events: Sequence[Event], coming: Request) -> int:
    """The index of the event that opens the request's attempt; the stream's length if there is none yet."""
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if type(event) is ProposalOpened:
            return place if (event.round, event.attempt) == (coming.round, coming.attempt) else len(events)
    return len(events)


def _to_public(events: Sequence[Event]) -> Sequence[Event]:
    """The stream without the seat's own events at its end."""
    end = len(events)
    while end and events[end - 1].seen_by != "public":
        end -= 1
    return events[:end]
