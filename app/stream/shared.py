"""One reading for all who ask for the same at the same moment, and none that is broken off."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

__all__ = ["Shared", "unbroken"]

AT_ONCE: Final = 2
"""Readings of one kind at a time. The others can be joined as long as they wait: when a thousand come back
at once, those of one game are read for together, and the database's connections are left to others, too.
"""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. Who waits may be cancelled and is, but not before the work has ended: a query
    that is broken off costs its database connection.
    """
    return await _let_end(asyncio.create_task(work))


async def _let_end(task: "asyncio.Task[T]") -> T:
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


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
        return await _let_end(task)

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
