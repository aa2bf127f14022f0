"""Brings a game's live events to its spectators: one reader a game and viewer, which writes the same bytes
to every socket that has had all before.

Waking a task for each socket and event costs several times what the writing does. A spectator's own task
reads what lies behind; once it has caught up it sits down here, and is rung when it has to look for itself:
its peer does not take more, its credential has ended, the game is over.
"""

import asyncio
import time
from typing import Final, Protocol

import structlog

from app.play.feed import Feed, Watch
from app.play.metrics import socket_events, socket_frames
from app.play.pages import Page, Pages, Spot
from engine.terms import Viewer

__all__ = ["Relays", "Spectator"]

log = structlog.get_logger()

AT_ONCE: Final = 256
"""Sockets written to before others may go on."""


class Spectator(Protocol):
    """One that watches through its viewer's eyes."""

    spot: Spot
    """How far its stream has been sent; moved on by whoever writes to it."""

    def push(self, page: Page, now: float) -> bool:
        """Writes the page, which follows on ``spot``. False: nothing was written."""
        ...

    def ring(self) -> None:
        """It is not written to from here any more, and has to look for itself."""
        ...


class Relay:
    """The spectators of one game through one viewer's eyes."""

    def __init__(self, pages: Pages, feed: Feed, spot: Spot) -> None:
        self._pages = pages
        self._feed = feed
        self.spot = spot
        """What has been written to those who sit here, or is being written."""
        self.seated: set[Spectator] = set()
        self.watch: Watch | None = None

    async def run(self) -> None:
        """Returns when nobody sits here any more."""
        try:
            with self._feed.watch(self.spot.game_id) as self.watch, self._feed.tails.keep(self.spot.game_id):
                while self.seated:
                    # Also at first: what was committed before this watch began rang nobody here.
                    page = self._pages.at_once(self.spot) or await self._pages.after(self.spot)
                    start, self.spot = self.spot, page.end
                    if page.count:
                        await self._write(page, start.seq)
                    if page.over:
                        self.let_go()
                    elif page.more:
                        await asyncio.sleep(0)
                    else:
                        await self.watch.wait(None)
        finally:
            # Where the read broke, each finds out for itself, and says so to its client.
            self.let_go()

    async def _write(self, page: Page, after: int) -> None:
        now = time.monotonic()
        written = 0
        for count, one in enumerate(tuple(self.seated), 1):
            # One that read for itself may be further, and sits here waiting for the next.
            if one in self.seated and one.spot.seq != page.end.seq:
                if one.spot.seq == after and one.push(page, now):
                    written += 1
                else:
                    self.seated.discard(one)
                    one.ring()
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
                now = time.monotonic()
        socket_frames.labels("out").inc(written)
        socket_events.inc(written * page.count)

    def let_go(self) -> None:
        """Everybody is to look for themselves."""
        gone, self.seated = self.seated, set()
        for one in gone:
            one.ring()


class Relays:
    """The relays of this process: one a game and viewer that somebody watches."""

    def __init__(self, pages: Pages, feed: Feed) -> None:
        self._pages = pages
        self._feed = feed
        self._relays: dict[tuple[str, Viewer], Relay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def sit(self, one: Spectator) -> bool:
        """From now on the events after its spot are written to it. False: there are some already, which it
        has to read first.
        """
        key = (one.spot.game_id, one.spot.viewer)
        relay = self._relays.get(key)
        if relay is None:
            relay = self._relays[key] = Relay(self._pages, self._feed, one.spot)
            relay.seated.add(one)
            task = asyncio.create_task(self._run(key, relay), name="relay")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        if relay.spot.seq > one.spot.seq:
            return False
        relay.seated.add(one)
        return True

    def rise(self, one: Spectator) -> None:
        """Nothing is written to it any more. No harm where it does not sit."""
        relay = self._relays.get((one.spot.game_id, one.spot.viewer))
        if relay is not None:
            relay.seated.discard(one)
            if not relay.seated and relay.watch is not None:
                relay.watch.ring()

    async def _run(self, key: tuple[str, Viewer], relay: Relay) -> None:
        try:
            await relay.run()
        except Exception as fault:
            log.warning("cannot read for the spectators of a game", game=key[0], cause=type(fault).__name__)
        finally:
            del self._relays[key]

    async def stop(self) -> None:
        """Lets everybody go; returns when nothing runs any more."""
        for relay in self._relays.values():
            relay.let_go()
            if relay.watch is not None:
                relay.watch.ring()
        if self._tasks:
            await asyncio.wait(self._tasks)
