"""One read for all tasks that ask for the same thing at the same moment; no read is interrupted."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

__all__ = ["Shared", "unbroken"]

AT_ONCE: Final = 2
"""The most reads of one kind at a time. Others can be joined while they wait: when a thousand connections
return at once, one read serves all of one game, and some database connections stay free for other work.
"""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. If the waiting task is cancelled, it still waits until the work has ended: an
    interrupted query costs its database connection.
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
    """Reads by key. A read may only be joined before it begins: a read under way could miss the commit whose
    hint woke the joining task.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]], name: str) -> None:
        self._read = read
        self._name = name
        self._joinable: dict[K, asyncio.Task[T]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(self, key: K) -> T:
        """The value of the key as of now: a read that begins after the call."""
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
