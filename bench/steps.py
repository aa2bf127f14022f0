"""What is fed to watched games: the steps of one real game, over and over.

Nothing that brings events to spectators folds a log, so a log that repeats is as good as a long game,
and no engine time is in the figures.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from functools import cache

from agents.table import play
from app.protocol.messages import events_frame
from app.seats.seating import seat_agents
from app.store.log import LogLine, event_rows, line_text
from engine.events import Event, GameEnded, visible
from engine.profile import make_profile
from engine.rules import create
from engine.terms import PUBLIC

__all__ = ["Step", "broadcast_frames", "public_events", "steps"]

Step = Sequence[Event]
"""Events of one append."""

_SEED = 7


class _Steps:
    """A journal that keeps what was appended together."""

    def __init__(self) -> None:
        self.kept: list[Step] = []

    async def append(self, events: Sequence[Event]) -> None:
        self.kept.append(tuple(events))


@cache
def _game() -> tuple[Step, ...]:
    """A scripted `interintent` game with all its thoughts: 44 appends of 7 events, one or two of them
    public. Without its beginning and its end.
    """
    journal = _Steps()
    seats = seat_agents([{"agent": "scripted"}] * 5, str(_SEED))
    log = create(make_profile("interintent", 5), _SEED)
    playing = asyncio.new_event_loop()
    try:
        playing.run_until_complete(play(log, seats, journal))
    finally:
        playing.close()
    return tuple(step for step in journal.kept if not isinstance(step[-1], GameEnded))


def steps(count: int) -> Iterator[Step]:
    """This many appends. Call it once before an event loop runs: the first call plays the game."""
    return itertools.islice(itertools.cycle(_game()), count)


def public_events(count: int) -> int:
    """The number of events that a spectator gets from this many appends."""
    return sum(visible(event, PUBLIC) for step in steps(count) for event in step)


def broadcast_frames(count: int) -> list[str]:
    """The same public events, one a frame, with the bytes that a spectator of one game gets."""
    seen = [event for step in steps(count) for event in step if visible(event, PUBLIC)]
    rows = event_rows("g_" + "x" * 20, 1, seen, 1_700_000_000_000)
    return [
        events_frame(
            [
                line_text(
                    row["game_id"], row["seq"], LogLine(row["seq"], row["at"], 0, row["type"], row["payload"])
                )
            ]
        )
        for row in rows
    ]
