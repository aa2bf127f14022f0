"""The next page of a viewer's stream, read once for all connections that wait at the same place."""

import itertools
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.protocol.messages import events_frame
from app.store.games import OPEN
from app.store.log import LogLine, LogReader, is_last, is_seen, line_text
from app.stream.feed import Tails
from app.stream.positions import Positions
from app.stream.shared import Shared
from engine.errors import CorruptLog
from engine.terms import FULL, PUBLIC, Viewer

__all__ = ["MAX_EVENTS", "MAX_PAGE", "Page", "Pages", "Spot"]

MAX_EVENTS: Final = 100
"""The most events of one frame."""

MAX_PAGE: Final = 262_144
"""The most bytes of one frame. A single event that is larger goes alone."""

MAX_BLOCKS: Final = 32 << 20
"""The most bytes of old events that are cached for returning spectators."""

_OPENING: Final = events_frame([])[:-2].encode()


class Spot(NamedTuple):
    """How far a viewer's stream has been sent."""

    game_id: str
    viewer: Viewer
    seq: int
    """Events that this viewer has received."""
    place: int
    """A place in the full log up to which the viewer has received everything that it may see."""


@dataclass(frozen=True, slots=True)
class Page:
    """The events that follow a spot."""

    frame: str
    """The frame's text, the same for every spectator; empty if there is nothing to send."""
    count: int
    """Events in the frame; with 0 there is nothing to send."""
    end: Spot
    more: bool
    """Whether the page was full, so that there may be more to read at once."""
    over: bool
    """Whether this page ends the stream: no event will ever follow."""
    ends: bool = False
    """Whether the game's last event is in the frame."""


class Block:
    """A hundred old events of a spectator's stream, beginning after a multiple of a hundred. They never
    change, so they are read once for all returning spectators.
    """

    __slots__ = ("_end", "_ends", "_payload", "_starts", "size")

    def __init__(self, lines: Sequence[LogLine], start: Spot) -> None:
        items = [
            line_text(start.game_id, seq, line).encode() for seq, line in enumerate(lines, start.seq + 1)
        ]
        lengths = [len(item) + 1 for item in items]
        self._payload = _OPENING + b",".join(items) + b"]}"
        self._starts = array("I", itertools.accumulate(lengths[:-1], initial=len(_OPENING)))
        """Where in the payload each event begins."""
        self._end = Spot(start.game_id, start.viewer, start.seq + len(items), lines[-1].seq)
        self._ends = is_last(lines[-1])
        self.size = len(self._payload)

    def page(self, past: int) -> Page:
        """The block without its first ``past`` events. The next page starts after the block."""
        payload = self._payload if not past else _OPENING + self._payload[self._starts[past] :]
        count = len(self._starts) - past
        return Page(payload.decode(), count, self._end, more=True, over=False, ends=self._ends)


class Pages:
    """Reads pages. Spectators at the same spot share one read and one serialised frame."""

    def __init__(self, reader: LogReader, tails: Tails, positions: Positions) -> None:
        self._reader = reader
        self._tails = tails
        self._positions = positions
        self._reading: Shared[Spot, Page] = Shared(self._read, "page")
        self._blocks: OrderedDict[tuple[str, Viewer, int], Block] = OrderedDict()
        self._blocks_size = 0
        self._block_reading: Shared[tuple[str, Viewer, int], Block] = Shared(self._read_block, "page")

    async def after(self, spot: Spot) -> Page:
        """The page that follows ``spot``, as of now."""
        if spot.viewer in (PUBLIC, FULL):
            number, past = divmod(spot.seq, MAX_EVENTS)
            if len(self._positions.known(spot.game_id, spot.viewer)) >= (number + 1) * MAX_EVENTS:
                key = (spot.game_id, spot.viewer, number)
                block = self._blocks.get(key) or await self._block_reading.get(key)
                if block.size <= MAX_PAGE:
                    return block.page(past)
        return await self._reading.get(spot)

    async def _read_block(self, key: tuple[str, Viewer, int]) -> Block:
        if key in self._blocks:
            return self._blocks[key]
        game_id, viewer, number = key
        first = number * MAX_EVENTS
        known = self._positions.known(game_id, viewer)
        if len(known) < first:
            known = await self._positions.of(game_id, viewer)  # dropped from the cache since
        place = known[first - 1] if first else 0
        _, lines = await self._reader.follow(game_id, viewer, place, MAX_EVENTS)
        block = Block(lines, Spot(game_id, viewer, first, place))
        if key not in self._blocks:
            self._blocks[key] = block
            self._blocks_size += block.size
        while self._blocks_size > MAX_BLOCKS and len(self._blocks) > 1:
            self._blocks_size -= self._blocks.popitem(last=False)[1].size
        return block

    def at_once(self, spot: Spot) -> Page | None:
        """The page, where this process has just committed the events after ``spot``; None: read it."""
        fresh = self._tails.after(spot.game_id, spot.place)
        if not fresh:
            return None
        seen = [line for line in fresh if is_seen(line, spot.viewer)]
        # Past events that this viewer may not see, so that the tail serves the next page as well.
        return _page(spot, seen[:MAX_EVENTS], over=is_last(fresh[-1]), place=fresh[-1].seq)

    async def _read(self, spot: Spot) -> Page:
        fresh = self.at_once(spot)
        if fresh is not None:
            return fresh
        status, lines = await self._reader.follow(spot.game_id, spot.viewer, spot.place, MAX_EVENTS)
        if status is None:
            # If it were closed as over, its bots would never reconnect.
            raise CorruptLog(f"game {spot.game_id} is no longer in the database")
        return _page(spot, lines, over=status not in OPEN)


def _page(spot: Spot, lines: Sequence[LogLine], *, over: bool, place: int | None = None) -> Page:
    """A page of as many of these lines as fit. ``over``: nothing follows the last line. ``place``: where the
    viewer has everything that it may see, once it has all of the lines; None: at the last one.
    """
    items: list[bytes] = []
    size = len(_OPENING) + 2
    for seq, line in enumerate(lines, spot.seq + 1):
        item = line_text(spot.game_id, seq, line).encode()
        size += len(item) + 1
        if items and size > MAX_PAGE:
            break
        items.append(item)
    more = len(items) < len(lines) or len(lines) == MAX_EVENTS
    if more or place is None:
        place = lines[len(items) - 1].seq if items else spot.place
    end = Spot(spot.game_id, spot.viewer, spot.seq + len(items), place)
    frame = (_OPENING + b",".join(items) + b"]}").decode() if items else ""
    ends = bool(items) and is_last(lines[len(items) - 1])
    return Page(frame, len(items), end, more, over and not more, ends)
