"""Sends a game's live events to its spectators: one reader for each game and viewer, which sends the same
text to every socket that has received all earlier events.

Waking a task for each socket and event costs several times as much as sending. A spectator's own task
reads the older events, and joins the relay once it has caught up. The relay wakes the task when the task has
to read for itself again: its peer does not take more, its credential has ended, or the game is over.
"""

import asyncio
import time
from typing import Final, Protocol

import structlog

from app.stream.feed import Feed, Watch
from app.stream.metrics import frames_out, socket_events
from app.stream.pages import Page, Pages, Spot
from app.stream.turns import Turns
from engine.terms import Viewer

__all__ = ["Relays", "Spectator"]

log = structlog.get_logger()

AT_ONCE: Final = 256
"""Sockets that a relay sends to before other tasks get a turn."""


class Spectator(Protocol):
    """A connection that watches a game as its viewer sees it."""

    spot: Spot
    """How far its stream has been sent. The relay advances it, too."""
    live: bool
    """Whether it asked for the live layer."""

    def push(self, page: Page, now: float) -> bool:
        """Sends the page, which follows ``spot``, without waiting. False: nothing was sent."""
        ...

    def show_turn(self, frame: str) -> None:
        """Sends the frame, unless it was the last one of its kind, without waiting."""
        ...

    def ring(self) -> None:
        """Tells the spectator that the relay no longer sends to it: it has to read for itself."""
        ...


class Relay:
    """Sends one game, as one viewer sees it, to its spectators."""

    def __init__(self, pages: Pages, feed: Feed, turns: Turns, spot: Spot) -> None:
        self._pages = pages
        self._feed = feed
        self._turns = turns
        self.spot = spot
        """How far the stream has been sent to the spectators."""
        self.spectators: set[Spectator] = set()
        self.watch: Watch | None = None

    async def run(self) -> None:
        """Returns when there are no spectators left."""
        try:
            with self._feed.watch(self.spot.game_id) as self.watch, self._feed.tails.keep(self.spot.game_id):
                while self.spectators:
                    # Also the first time: a commit before this watch began did not ring it.
                    page = self._pages.at_once(self.spot) or await self._pages.after(self.spot)
                    start, self.spot = self.spot, page.end
                    if page.count:
                        await self._write(page, start.seq)
                        await self._show_turn()
                    if page.over:
                        self.release()
                    elif page.more:
                        await asyncio.sleep(0)
                    else:
                        await self.watch.wait(None)
        finally:
            # If the read failed, each spectator meets the fault itself and tells its client.
            self.release()

    async def _write(self, page: Page, after: int) -> None:
        now = time.monotonic()
        written = 0
        for count, spectator in enumerate(tuple(self.spectators), 1):
            # A spectator that read for itself may be ahead of the relay and wait for the next page.
            if spectator in self.spectators and spectator.spot.seq != page.end.seq:
                if spectator.spot.seq == after and spectator.push(page, now):
                    written += 1
                else:
                    self.spectators.discard(spectator)
                    spectator.ring()
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
                now = time.monotonic()
        frames_out.inc(written)
        socket_events.inc(written * page.count)

    async def _show_turn(self) -> None:
        live = [spectator for spectator in self.spectators if spectator.live]
        frame = await self._turns.frame(self.spot.game_id, self.spot.place) if live else None
        if frame is not None:
            for spectator in live:
                spectator.show_turn(frame)

    def release(self) -> None:
        """Leaves every spectator to read for itself."""
        released, self.spectators = self.spectators, set()
        for spectator in released:
            spectator.ring()


class Relays:
    """The relays of this process: one for each game and viewer that is watched."""

    def __init__(self, pages: Pages, feed: Feed, turns: Turns) -> None:
        self._pages = pages
        self._feed = feed
        self._turns = turns
        self._relays: dict[tuple[str, Viewer], Relay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, spectator: Spectator) -> bool:
        """Adds the spectator to the relay, which from now on sends it the events after its spot. False: such
        events exist already, and the spectator has to read them first.
        """
        key = (spectator.spot.game_id, spectator.spot.viewer)
        relay = self._relays.get(key)
        if relay is None:
            relay = self._relays[key] = Relay(self._pages, self._feed, self._turns, spectator.spot)
            relay.spectators.add(spectator)
            task = asyncio.create_task(self._run(key, relay), name="relay")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        if relay.spot.seq > spectator.spot.seq:
            return False
        relay.spectators.add(spectator)
        return True

    def remove(self, spectator: Spectator) -> None:
        """Removes the spectator from its relay, if it is there."""
        relay = self._relays.get((spectator.spot.game_id, spectator.spot.viewer))
        if relay is not None:
            relay.spectators.discard(spectator)
            if not relay.spectators and relay.watch is not None:
                relay.watch.ring()

    async def _run(self, key: tuple[str, Viewer], relay: Relay) -> None:
        try:
            await relay.run()
        except Exception as fault:
            log.warning("cannot read for the spectators of a game", game=key[0], cause=type(fault).__name__)
        finally:
            del self._relays[key]

    async def stop(self) -> None:
        """Stops all relays, and waits until they have ended."""
        for relay in self._relays.values():
            relay.release()
            if relay.watch is not None:
                relay.watch.ring()
        if self._tasks:
            await asyncio.wait(self._tasks)
