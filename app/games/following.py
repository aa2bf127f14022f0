"""Streams events as lines of JSON: the past ones and, while the client stays, the new ones."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from app.base.errors import BeyondHead, Forbidden
from app.base.lifecycle import Lifecycle
from app.edge.auth import Caller, Keys
from app.edge.lines import BrokenOff
from app.games.access import Access
from app.games.schemas import OVER, BatchView
from app.store.db import PASSING
from app.store.games import OPEN, GameStore
from app.store.log import LogLine, LogReader, line_text
from app.store.rows import GameRow
from app.store.trouble import trouble_of
from app.stream.feed import Feed, over_name
from app.stream.positions import Positions
from engine.errors import CorruptLog
from engine.terms import Viewer

__all__ = ["Following"]

PAGE: Final = 500
"""Events read from the database at a time."""

BETWEEN_S: Final = 0.02
"""The fewest seconds between two looks at a batch, of which hundreds of games may end in a second."""

LOOKING: Final = 10
"""From one look to the next it takes so many times as long as the look took: large batches are looked at less
often, until they are over.
"""


class Following:
    """Streams of games and batches over HTTP. A stream ends when its credential is no longer valid."""

    def __init__(
        self,
        store: GameStore,
        access: Access,
        reader: LogReader,
        positions: Positions,
        feed: Feed,
        keys: Keys,
        lifecycle: Lifecycle,
        blank_s: float,
    ) -> None:
        self._store = store
        self._access = access
        self._reader = reader
        self._positions = positions
        self._feed = feed
        self._keys = keys
        self._lifecycle = lifecycle
        self._blank_s = blank_s
        """Seconds of silence after which a stream gets a blank line."""

    async def events(
        self, caller: Caller, row: GameRow, viewer: Viewer, *, after: int, limit: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """The viewer's events after position ``after``, one per line. Raises Forbidden, BeyondHead, and
        CorruptLog for a log that cannot be read, before the first line.
        """
        if not self._is_valid(caller, row):
            raise Forbidden("this credential may read no more of the game")
        game_id = row.game_id
        head, place = await self._positions.place(game_id, viewer, after) if after else (0, 0)
        if place is None:
            raise BeyondHead(f"the stream has {head} events, after is {after}")
        if not await self._reader.whole(game_id):
            raise CorruptLog(f"the log of {game_id} has holes")
        first = await self._reader.lines(game_id, viewer, place, min(PAGE, limit or PAGE))
        return self._lines(caller, game_id, viewer, after, place, limit, follow, first)

    async def _lines(
        self,
        caller: Caller,
        game_id: str,
        viewer: Viewer,
        seq: int,
        place: int,
        limit: int | None,
        follow: bool,
        page: Sequence[LogLine],
    ) -> AsyncIterator[bytes]:
        left, over = limit, False
        # Measured here: where other processes write too, a wait returns several times a second without news.
        sent = time.monotonic()
        with self._feed.watch(game_id) as watch:
            while True:
                page = page or await self._reader.lines(game_id, viewer, place, min(PAGE, left or PAGE))
                # Read after the page: whoever comes to the table later has played nothing that is in it.
                row = await self._store.game(game_id)
                if row is None or not await self._may_read_on(caller, row, viewer):
                    if follow:
                        return  # the end of a game is an event, and the next request is told why
                    raise BrokenOff(f"{game_id} is gone, or its reader may read no more of it")
                # Lines read after the status include every event behind that status.
                was_over, over = over, row.status not in OPEN
                if page:
                    texts = []
                    for line in page:
                        seq += 1
                        texts.append(line_text(game_id, seq, line))
                    yield ("\n".join(texts) + "\n").encode()
                    sent = time.monotonic()
                    place = page[-1].seq
                    if left is not None:
                        left -= len(page)
                        if left == 0:
                            return
                    page = ()
                elif over and follow and not was_over:
                    continue
                elif over and follow and not await self._reader.whole(game_id):
                    raise CorruptLog(f"the log of {game_id} has holes")
                elif not follow or over or self._lifecycle.draining:
                    return
                elif time.monotonic() - sent >= self._blank_s:
                    sent = time.monotonic()
                    yield b"\n"
                else:
                    await watch.wait(self._blank_s)

    def _is_valid(self, caller: Caller, row: GameRow) -> bool:
        return self._keys.is_valid(caller) and caller.is_current(row.epochs)

    async def _may_read_on(self, caller: Caller, row: GameRow, viewer: Viewer) -> bool:
        if not self._is_valid(caller, row):
            return False
        # Its owner may play a fork with this deal, which the end tells.
        if row.status not in OPEN and not await self._access.reaches(caller, row):
            return False
        # Others may have come to the table since.
        return caller.key_id is None or not row.taken or (await self._access.sight(caller, row)).shows(viewer)

    async def progress(
        self, caller: Caller, batch_id: str, view: Callable[[], Awaitable[BatchView]], *, follow: bool
    ) -> AsyncIterator[bytes]:
        """The batch as ``view`` shows it, as a line: once or, with ``follow``, whenever it has changed.
        Raises what ``view`` raises before the first line.
        """
        return self._progress(caller, batch_id, view, await view(), follow=follow)

    async def _progress(
        self,
        caller: Caller,
        batch_id: str,
        view: Callable[[], Awaitable[BatchView]],
        first: BatchView,
        *,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        last = _mark(first)
        sent = time.monotonic()
        yield _line(first)
        if not follow or first.status in OVER:
            return
        await asyncio.sleep(BETWEEN_S)
        over = over_name(batch_id)
        with self._feed.watch(batch_id, over) as watch:
            while self._keys.is_valid(caller):
                looked = time.monotonic()
                try:
                    shown = await view()
                    next_look = looked + max(BETWEEN_S, LOOKING * (time.monotonic() - looked))
                except PASSING as fault:
                    if trouble_of(fault) is None:
                        raise
                    return  # the client's next request is told why
                if _mark(shown) != last:
                    last = _mark(shown)
                    sent = time.monotonic()
                    yield _line(shown)
                if self._lifecycle.draining or shown.status in OVER:
                    return
                await watch.wait(self._blank_s)
                while not watch.rung_by(over) and (left := next_look - time.monotonic()) > 0:
                    await watch.wait(left)
                if time.monotonic() - sent >= self._blank_s:
                    sent = time.monotonic()
                    yield b"\n"


def _mark(shown: BatchView) -> object:
    """What makes the batch worth another line when it changes."""
    return shown.status, shown.games, shown.waiting


def _line(shown: BatchView) -> bytes:
    return shown.model_dump_json().encode() + b"\n"
