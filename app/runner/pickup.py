"""Finds batches without a driver, and drives them to their end.

Every process that drives games looks for such batches; `claims` decides which process gets which batch. So
it does not matter which process created a batch, or dies: another one continues after the last commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from app.base import metrics
from app.base.tasks import end_tasks, keep_going
from app.runner.claims import Claims
from app.store.db import PASSING, is_ours
from app.store.games import GameStore
from engine.errors import CorruptLog

__all__ = ["Driver", "Pickup", "SeeThrough"]

log = structlog.get_logger()

LOOK_S: Final = 0.5
"""Seconds between two searches for batches with open games and no driver."""

UNLAID_S: Final = 30.0
"""Seconds between two searches for batches with missing games, no open game and no driver."""

TOGETHER: Final = 50
"""The most batches that a process claims in one statement, before other processes get their turn."""

SHARE_S: Final = 0.05
"""Seconds for claimed batches to queue their games, before this process checks for room for more."""

AWAY_S: Final = 2.0
"""Seconds to wait before the next attempt at a database that does not answer."""

SeeThrough = Callable[[str, Sequence[str] | None, asyncio.Event], Awaitable[None]]
"""Takes a batch id, the ids of all its games or None, and an event that is set whenever the batch has to be
looked at again; returns when no game of the batch is open.
"""


class Driver(Protocol):
    """What drives the games of one process: `Pickup`, or `Queued` on PostgreSQL."""

    async def offer(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        """Drives a batch that has just been stored or resumed, if this process drives games.

        ``game_ids``: all of its games; None when they have to be looked up.
        """
        ...

    def let_go(self, batch_id: str) -> None:
        """Stops driving a batch between two steps."""
        ...


class Pickup:
    """The batches that one process drives. In a process that drives no games it is never started."""

    def __init__(
        self,
        claims: Claims,
        store: GameStore,
        has_room: Callable[[], bool],
        all_wait: Callable[[str], bool],
    ) -> None:
        """``all_wait``: whether all open games of a batch wait for people or for a model's endpoint."""
        self._claims = claims
        self._store = store
        self._has_room = has_room
        self._all_wait = all_wait
        self._see_through: SeeThrough | None = None
        self._mine: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, asyncio.Event] = {}
        """By batch that this process drives, what is set when it has to be looked at again."""
        self._looking: asyncio.Task[None] | None = None
        self._lost: set[str] = set()
        self._damaged: set[str] = set()
        """Unreadable batches, which this process does not try again."""

    @property
    def busy(self) -> bool:
        """Whether this process drives a batch of which something could go on now."""
        return any(self._again[batch_id].is_set() or not self._all_wait(batch_id) for batch_id in self._mine)

    async def start(self, see_through: SeeThrough) -> int:
        """Takes over batches without a driver, now and from now on. Returns how many it has taken now."""
        self._see_through = see_through
        await self._look(unlaid=True)
        self._claims.on_lost.append(self._give_up)
        self._looking = keep_going(self._keep_looking, "pickup")
        return len(self._mine)

    async def stop(self) -> None:
        """Stops driving between two steps. Keeps the claims: whoever made them gives
        them back once nothing is running.
        """
        self._see_through = None
        await end_tasks(*self._mine.values(), self._looking)

    async def offer(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        """Drives a batch that this process has just stored, if this process drives games and can claim it;
        one that it drives already is looked at again.

        ``game_ids``: all of its games; None when they have to be looked up.
        """
        if batch_id in self._again:
            self._again[batch_id].set()
        elif self._see_through is not None:
            try:
                taken = await self._claims.take([batch_id])
            except PASSING:
                return  # a search finds the batch when the database is back
            for name in taken:
                self._begin(name, game_ids)

    def _begin(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        again = self._again[batch_id] = asyncio.Event()
        task = asyncio.create_task(self._through(batch_id, game_ids, again), name=f"batch {batch_id}")
        self._mine[batch_id] = task
        metrics.batches_driven.set(len(self._mine))

    async def _through(self, batch_id: str, game_ids: Sequence[str] | None, again: asyncio.Event) -> None:
        try:
            while self._see_through is not None:
                try:
                    await self._see_through(batch_id, game_ids, again)
                except PASSING as fault:
                    if is_ours(fault):
                        raise
                    log.warning("a batch waits for the database", batch=batch_id, cause=type(fault).__name__)
                    await asyncio.sleep(AWAY_S)
                    game_ids = None
                    continue
                break
        except CorruptLog as fault:
            log.error(
                "a batch is damaged and not played: interintent doctor says where",
                batch=batch_id,
                cause=str(fault),
            )
            self._damaged.add(batch_id)
        except Exception:
            log.exception("stopped driving a batch after an error; it is tried again later", batch=batch_id)
            # Something is wrong with the batch: it is kept from this process's next searches for a while.
            await asyncio.sleep(UNLAID_S)
        finally:
            self._mine.pop(batch_id, None)
            self._again.pop(batch_id, None)
            metrics.batches_driven.set(len(self._mine))
            if batch_id in self._lost:
                self._lost.discard(batch_id)
            elif self._see_through is not None:
                await self._claims.give_back(batch_id)

    def let_go(self, batch_id: str) -> None:
        """Stops driving a batch between two steps, and gives back its claim."""
        task = self._mine.get(batch_id)
        # A second time it would be interrupted while it lets go of its games.
        if task is not None and not task.cancelling():
            task.cancel()

    def _give_up(self, batch_id: str) -> None:
        task = self._mine.get(batch_id)
        if task is not None:
            log.warning("another process has taken a batch over", batch=batch_id)
            self._lost.add(batch_id)
            task.cancel()

    async def _keep_looking(self) -> None:
        pause_s, looked_s = SHARE_S, 0.0
        while True:
            await asyncio.sleep(pause_s)
            looked_s += pause_s
            try:
                more = await self._look(unlaid=looked_s >= UNLAID_S)
            except PASSING as fault:
                if is_ours(fault):
                    log.exception("cannot look for unfinished batches; it is tried again")
                else:
                    log.warning(
                        "cannot look for unfinished batches; it is tried again", cause=type(fault).__name__
                    )
                pause_s = AWAY_S
                continue
            if looked_s >= UNLAID_S:
                looked_s = 0.0
            pause_s = SHARE_S if more else LOOK_S

    async def _look(self, *, unlaid: bool) -> bool:
        """Claims some of the batches without a driver. Returns whether there may be more to claim."""
        if not (self._claims.sole or self._has_room()):
            return False
        if self._mine:
            # Another process on the same database may have done it, or this one could not finish it.
            for batch_id, is_cancelled in await self._store.stopped_of(list(self._mine)):
                if not is_cancelled:
                    self.let_go(batch_id)
                elif batch_id in self._again:
                    self._again[batch_id].set()
        candidates = await self._store.open_batches()
        if unlaid:
            candidates += await self._store.unlaid_batches()
        new = [
            name for name in dict.fromkeys(candidates) if name not in self._mine and name not in self._damaged
        ]
        for first in range(0, len(new), TOGETHER):
            taken = await self._claims.take(new[first : first + TOGETHER])
            for name in taken:
                self._begin(name, None)
            if taken and not self._claims.sole:
                return True
        return False
