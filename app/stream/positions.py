"""The place in the full log of each of a viewer's events.

Counting a viewer's events, or finding its 450th, reads the whole log; a thousand connections that return at
once would each do that. A log only grows, so known places stay true: only new events are read.
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
"""The most streams in the cache; each takes four bytes per event."""


class Positions:
    """Cached by game and viewer, so that no viewer's positions reveal events that it may not see."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, Viewer], array[int]] = OrderedDict()
        self._reading: Shared[tuple[str, Viewer], array[int]] = Shared(self._read, "places")

    async def of(self, game_id: str, viewer: Viewer) -> Sequence[int]:
        """The places of all events that the viewer may see so far; their number is the viewer's head."""
        return await self._reading.get((game_id, viewer))

    async def place(self, game_id: str, viewer: Viewer, position: int) -> tuple[int, int | None]:
        """The viewer's head, and the place of its event number ``position``: 0 for position 0, None for one
        beyond the head.
        """
        seqs = await self.of(game_id, viewer)
        if position > len(seqs):
            return len(seqs), None
        return len(seqs), seqs[position - 1] if position else 0

    def known(self, game_id: str, viewer: Viewer) -> Sequence[int]:
        """The cached places, from the first on; empty if there are none."""
        return self._known.get((game_id, viewer), ())

    async def _read(self, key: tuple[str, Viewer]) -> "array[int]":
        known = self._known.get(key) or array("I")
        new = await self._reader.seqs(*key, known[-1] if known else 0)
        # Meanwhile another read may have added the same places.
        known = self._known.setdefault(key, known)
        last = known[-1] if known else 0
        known.extend(place for place in new if place > last)
        self._known.move_to_end(key)
        if len(self._known) > MAX_STREAMS:
            self._known.popitem(last=False)
        return known
