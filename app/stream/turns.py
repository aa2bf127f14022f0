"""Whom each game waits for, as everybody may know it: folded from its public events, once for all."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from app.protocol.messages import Awaited
from app.store.log import LogLine, LogReader, is_seen
from app.stream.feed import Tails
from engine.errors import UNREADABLE, CorruptLog
from engine.events import read_event
from engine.rules import turn_of
from engine.state import State, apply
from engine.terms import PUBLIC

__all__ = ["Turns"]

_MAX_GAMES: Final = 1_024
_AT_ONCE: Final = 500


@dataclass(slots=True)
class _PublicState:
    """A game's public state up to a place in its full log."""

    place: int = 0
    last: int = 0
    """The place of the last public event before it."""
    state: State = field(default_factory=State)
    frame: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Turns:
    """The frames that say whose turn it is. They depend on public events alone: no hidden fact goes in."""

    def __init__(self, reader: LogReader, tails: Tails) -> None:
        self._reader = reader
        self._tails = tails
        self._games: OrderedDict[str, _PublicState] = OrderedDict()

    async def frame(self, game_id: str, place: int) -> str | None:
        """The frame ``turn`` after all public events up to a place in the full log. None for a place that
        further public events follow, which are on their way, and for a log that cannot be read.

        Hidden events make no difference, nor do others who have seen them.
        """
        known = self._games.setdefault(game_id, _PublicState())
        self._games.move_to_end(game_id)
        if len(self._games) > _MAX_GAMES:
            self._games.popitem(last=False)
        if known.place < place:
            async with known.lock:
                try:
                    await self._advance(game_id, known, place)
                except (CorruptLog, *UNREADABLE):
                    self._games.pop(game_id, None)  # the stream itself tells of the damage
                    return None
        return known.frame if known.last <= place else None

    async def _advance(self, game_id: str, known: _PublicState, place: int) -> None:
        while known.place < place:
            tail = self._tails.after(game_id, known.place)
            if tail and tail[-1].seq >= place:
                lines: Sequence[LogLine] = [line for line in tail if is_seen(line, PUBLIC)]
                complete = True
            else:
                lines = await self._reader.lines(game_id, PUBLIC, known.place, _AT_ONCE)
                complete = len(lines) < _AT_ONCE or lines[-1].seq >= place
            lines = [line for line in lines if line.seq <= place]
            apply(known.state, tuple(read_event(line.type, orjson.loads(line.payload)) for line in lines))
            known.last = lines[-1].seq if lines else known.last
            known.place = place if complete else known.last
        kind, seats = turn_of(known.state.table)
        known.frame = Awaited(kind=kind, seats=list(seats)).model_dump_json()
