"""One reading for all who ask for the same at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

__all__ = ["Shared"]

AT_ONCE: Final = 2
"""Readings of one kind at a time. The others can be joined as long as they wait: when a thousand come back
at once, those of one game are read for together, and the database's connections are left to others, too.
"""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shared(Generic[K, T]):
    """Readings by key. One may only be joined before it begins: one that had begun could miss the very
    commit whose hint woke the one who joins.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]], name: str) -> None:
        self._read = read
        self._name = name
        self._joinable: dict[K, asyncio.Task[T]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(self, key: K) -> T:
        """What the key stands for, as things are now."""
        task = self._joinable.get(key)
        if task is None:
            task = self._joinable[key] = asyncio.create_task(self._begin(key), name=self._name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The reader went away: a query broken off costs its database connection, so it is let finish.
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
            raise

    async def _begin(self, key: K) -> T:
        try:
            await asyncio.sleep(0)
            await self._turns.acquire()
        finally:
            del self._joinable[key]
        try:
            return await self._read(key)
        finally:
            self._turns.release()
