"""Finds batches that nobody drives, and sees them through.

Every process that drives games looks for them; `claims` decides who gets which. So it does not matter
where a batch was created, nor which process dies: another one goes on behind the last commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from app.base import metrics
from app.runner.claims import Claims
from app.store.db import PASSING, is_ours
from app.store.games import GameStore
from engine.errors import CorruptLog

__all__ = ["Pickup", "SeeThrough"]

log = structlog.get_logger()

LOOK_S: Final = 0.5
"""How often is looked for batches with open games and no driver."""

UNLAID_S: Final = 30.0
"""How often is looked for batches whose layer-out died before any of their games was left open."""

TOGETHER: Final = 50
"""Batches claimed in one statement, and before others get their turn."""

SHARE_S: Final = 0.05
"""What was claimed puts its games in line; then is looked whether there is room for more."""

AWAY_S: Final = 2.0
"""How long a database that does not answer is left alone."""

SeeThrough = Callable[[str, Sequence[str] | None], Awaitable[None]]
"""Batch, and its games where all are known → when nothing of it is open any more."""


class Pickup:
    """The batches of one process. One that does not drive games is never started, and takes none."""

    def __init__(self, claims: Claims, store: GameStore, has_room: Callable[[], bool]) -> None:
        self._claims = claims
        self._store = store
        self._has_room = has_room
        self._see_through: SeeThrough | None = None
        self._mine: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._lost: set[str] = set()
        self._damaged: set[str] = set()
        """Batches that do not read: this process does not try them again."""

    @property
    def busy(self) -> bool:
        """Whether there is a batch that this process sees through."""
        return bool(self._mine)

    async def start(self, see_through: SeeThrough) -> int:
        """Takes up what an earlier process left, now and from now on. Returns how many batches."""
        self._see_through = see_through
        self._claims.on_lost.append(self._give_up)
        await self._claims.start()
        await self._look(unlaid=True)
        self._looking = asyncio.create_task(self._keep_looking(), name="pickup")
        return len(self._mine)

    async def stop(self) -> None:
        """Lets go between two steps. The claims end with ``release``, when nothing is under way any more."""
        self._see_through = None
        tasks = [*self._mine.values(), *([] if self._looking is None else [self._looking])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def release(self) -> None:
        """Another process may take over."""
        await self._claims.stop()

    async def offer(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        """A batch that was just written here: driven here at once, if this process drives games and gets it.

        ``game_ids``: all of its games; None when they have to be looked up.
        """
        if self._see_through is not None and batch_id not in self._mine:
            try:
                taken = await self._claims.take([batch_id])
            except PASSING:
                return  # it is found when the database is back
            for name in taken:
                self._begin(name, game_ids)

    def _begin(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        task = asyncio.create_task(self._through(batch_id, game_ids), name=f"batch {batch_id}")
        self._mine[batch_id] = task
        metrics.batches_driven.set(len(self._mine))

    async def _through(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        try:
            while self._see_through is not None:
                try:
                    await self._see_through(batch_id, game_ids)
                except PASSING as fault:
                    if is_ours(fault):
                        raise
                    log.warning("the database is away", batch=batch_id, cause=type(fault).__name__)
                    await asyncio.sleep(AWAY_S)
                    game_ids = None
                    continue
                break
        except CorruptLog as fault:
            log.error("a batch is damaged, and left", batch=batch_id, cause=str(fault))
            self._damaged.add(batch_id)
        except Exception:
            log.exception(
                "a batch could not be seen through; the next process that looks tries", batch=batch_id
            )
            # Not at once again, nor by this process's next look: something is wrong with it.
            await asyncio.sleep(UNLAID_S)
        finally:
            self._mine.pop(batch_id, None)
            metrics.batches_driven.set(len(self._mine))
            if batch_id in self._lost:
                self._lost.discard(batch_id)
            elif self._see_through is not None:
                await self._claims.give_back(batch_id)

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
                    log.exception("cannot look for batches")
                else:
                    log.warning("cannot look for batches", cause=type(fault).__name__)
                pause_s = AWAY_S
                continue
            if looked_s >= UNLAID_S:
                looked_s = 0.0
            pause_s = SHARE_S if more else LOOK_S

    async def _look(self, *, unlaid: bool) -> bool:
        """Claims some of the batches that nobody drives. Whether there may be more to be had."""
        if not (self._claims.sole or self._has_room()):
            return False
        found = await self._store.open_batches()
        if unlaid:
            found += await self._store.unlaid_batches()
        new = [name for name in dict.fromkeys(found) if name not in self._mine and name not in self._damaged]
        for first in range(0, len(new), TOGETHER):
            taken = await self._claims.take(new[first : first + TOGETHER])
            for name in taken:
                self._begin(name, None)
            if taken and not self._claims.sole:
                return True
        return False
