"""Sends a game's live events to its spectators: one reader for each game and viewer, which sends the same
text to every socket that has had everything before it.

Waking a task for each socket and event costs several times what the sending does. A spectator's own task
reads the older events. Once it has caught up it sits down here. It is rung when it has to read for itself
again: its peer does not take more, its credential has ended, or the game is over.
"""

import asyncio
import time
from typing import Final, Protocol

import structlog

from app.stream.feed import Feed, Watch
from app.stream.metrics import socket_events, socket_frames
from app.stream.pages import Page, Pages, Spot
from engine.terms import Viewer

__all__ = ["Relays", "Spectator"]

log = structlog.get_logger()

AT_ONCE: Final = 256
"""Sockets that a relay sends to before other tasks get a turn."""


class Spectator(Protocol):
    """A connection that watches a game as its viewer sees it."""

    spot: Spot
    """How far its stream has been sent. The relay moves it on, too."""

    def push(self, page: Page, now: float) -> bool:
        """Sends the page, which follows on ``spot``, without waiting. False: nothing was sent."""
        ...

    def ring(self) -> None:
        """Tells the spectator that the relay no longer sends to it: it has to read for itself."""
        ...


class Relay:
    """Sends one game, as one viewer sees it, to those who watch it."""

    def __init__(self, pages: Pages, feed: Feed, spot: Spot) -> None:
        self._pages = pages
        self._feed = feed
        self.spot = spot
        """How far the stream has been sent to those who sit here."""
        self.seated: set[Spectator] = set()
        self.watch: Watch | None = None

    async def run(self) -> None:
        """Returns when nobody sits here any more."""
        try:
            with self._feed.watch(self.spot.game_id) as self.watch, self._feed.tails.keep(self.spot.game_id):
                while self.seated:
                    # Also the first time: a commit before this watch began did not ring it.
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
            # If the read failed, each spectator finds out for itself and tells its client.
            self.let_go()

    async def _write(self, page: Page, after: int) -> None:
        now = time.monotonic()
        written = 0
        for count, one in enumerate(tuple(self.seated), 1):
            # A spectator that read for itself may be ahead of the relay and wait for the next page.
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
        """Lets every spectator read for itself."""
        gone, self.seated = self.seated, set()
        for one in gone:
            one.ring()


class Relays:
    """The relays of this process: one for each game and viewer that is watched."""

    def __init__(self, pages: Pages, feed: Feed) -> None:
        self._pages = pages
        self._feed = feed
        self._relays: dict[tuple[str, Viewer], Relay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def sit(self, one: Spectator) -> bool:
        """From now on the relay sends the spectator the events after its spot. False: there are such events
        already, and it has to read them first.
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
        """The relay no longer sends to this spectator, which need not sit there."""
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
        """Stops all relays and waits for them to end."""
        for relay in self._relays.values():
            relay.let_go()
            if relay.watch is not None:
                relay.watch.ring()
        if self._tasks:
            await asyncio.wait(self._tasks)
