"""Where in the full log each of a viewer's events stands.

Counting a viewer's events, or finding its 450th, reads its whole log; a thousand who come back at once would
each do that. A log only grows, so what was found once is true for good: only what is new is read.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from app.store.log import LogReader
from app.stream.shared import Shared
from engine.terms import Viewer

__all__ = ["MAX_STREAMS", "Positions"]

MAX_STREAMS: Final = 1_024
"""Streams remembered; each takes four bytes an event."""


class Positions:
    """By game and viewer, so that nobody's positions tell of what he is not shown."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, Viewer], array[int]] = OrderedDict()
        self._reading: Shared[tuple[str, Viewer], array[int]] = Shared(self._read, "places")

    async def of(self, game_id: str, viewer: Viewer) -> Sequence[int]:
        """The places of all events that the viewer has been shown so far; its head is their number."""
        return await self._reading.get((game_id, viewer))

    async def place(self, game_id: str, viewer: Viewer, position: int) -> tuple[int, int | None]:
        """The viewer's head, and where its event number ``position`` stands: 0 for position 0, None for one
        that it has not been shown.
        """
        places = await self.of(game_id, viewer)
        if position > len(places):
            return len(places), None
        return len(places), places[position - 1] if position else 0

    def known(self, game_id: str, viewer: Viewer) -> Sequence[int]:
        """Those of them that were read before, from the first on."""
        return self._known.get((game_id, viewer), ())

    async def _read(self, key: tuple[str, Viewer]) -> "array[int]":
        known = self._known.get(key) or array("I")
        found = await self._reader.places(*key, known[-1] if known else 0)
        # In the meantime another reading may have added the same.
        known = self._known.setdefault(key, known)
        last = known[-1] if known else 0
        known.extend(place for place in found if place > last)
        self._known.move_to_end(key)
        if len(self._known) > MAX_STREAMS:
            self._known.popitem(last=False)
        return known
