"""The next page of a viewer's stream, read once for all who wait for it at the same place."""

import asyncio
from dataclasses import dataclass
from typing import Final

from app.play.messages import events_frame
from app.store.games import OPEN, GameStore, Row
from app.store.log import LogReader, line_text
from engine.terms import Viewer

__all__ = ["MAX_EVENTS", "MAX_PAGE", "Page", "Pages", "Spot"]

MAX_EVENTS: Final = 100
"""Events of one frame."""

MAX_PAGE: Final = 262_144
"""Bytes of one frame. A single event that is larger goes alone."""


@dataclass(frozen=True, slots=True)
class Spot:
    """How far a viewer's stream has been sent."""

    game_id: str
    viewer: Viewer
    seq: int
    """Events this viewer has had."""
    place: int
    """Where the last of them stands in the full log."""


@dataclass(frozen=True, slots=True)
class Page:
    """What follows on a spot."""

    frame: str
    count: int
    """Events in the frame; with 0 there is nothing to send."""
    end: Spot
    more: bool
    """Whether the page was full, so that reading on pays at once."""
    over: bool
    """Whether this page ends the stream: nothing will ever follow."""
    game: Row | None
    """The game's row as it was before the read; None: there is no such game any more."""


class Pages:
    """Reads pages. Spectators at the same spot share one read and one serialised frame.

    A read may only be joined before it begins: one that had begun could miss the very commit
    whose hint woke the one who joins.
    """

    def __init__(self, reader: LogReader, store: GameStore) -> None:
        self._reader = reader
        self._store = store
        self._joinable: dict[Spot, asyncio.Task[Page]] = {}

    async def after(self, spot: Spot) -> Page:
        """The page that follows on ``spot``, as things stand now."""
        task = self._joinable.get(spot)
        if task is None:
            task = self._joinable[spot] = asyncio.create_task(self._read(spot), name="page")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The reader went away: a query broken off costs its database connection, so it is let finish.
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
            raise

    async def _read(self, spot: Spot) -> Page:
        try:
            await asyncio.sleep(0)
        finally:
            del self._joinable[spot]
        # The status first: the last events are committed with it, so they are in what is read after it.
        row = await self._store.game(spot.game_id)
        over = row is None or row["status"] not in OPEN
        lines = await self._reader.lines(spot.game_id, spot.viewer, spot.place, MAX_EVENTS)
        items: list[str] = []
        size = 0
        for seq, line in enumerate(lines, spot.seq + 1):
            item = line_text(spot.game_id, seq, line)
            size += len(item.encode()) + 1
            if items and size > MAX_PAGE - len(events_frame([])):
                break
            items.append(item)
        more = len(items) < len(lines) or len(lines) == MAX_EVENTS
        place = lines[len(items) - 1].seq if items else spot.place
        end = Spot(spot.game_id, spot.viewer, spot.seq + len(items), place)
        frame = events_frame(items) if items else ""
        return Page(frame, len(items), end, more, over and not more, row)
