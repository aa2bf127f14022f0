"""Runs long work in threads, beside the event loop. Owners take turns at the threads."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["SharedThreads", "off_loop", "whose"]

_T = TypeVar("_T")

whose: Final = ContextVar("whose", default="")
"""The owner for whom a task works and writes; empty: the service itself, or an unknown one."""


class _Work(NamedTuple):
    owner: str
    do: Callable[[], Any]
    done: Future[Any]


class SharedThreads:
    """Threads at which owners take turns, a piece of work each; of one owner, what came first goes first. One
    thread is never at the work of an owner that is at all others. So however much of one owner waits, the
    work of another waits for none of it, unless a third is at work, too.
    """

    def __init__(self, count: int, name: str) -> None:
        """``count``: 2 or more."""
        self._most = count - 1
        """How many threads an owner has at once."""
        self._threads = ThreadPoolExecutor(count, name)
        self._lock = Lock()
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()
        """By owner; whose turn is next comes first."""
        self._busy = Counter[str]()
        """By owner, the threads that it has."""

    async def run(self, do: Callable[..., _T], /, *arguments: object) -> _T:
        """Runs ``do`` in a thread, for the owner of this task. Returns or raises what it does."""
        done: Future[_T] = Future()
        work = _Work(whose.get(), lambda: do(*arguments), done)
        with self._lock:
            self._waiting.setdefault(work.owner, deque()).append(work)
        self._threads.submit(self._work)
        return await asyncio.wrap_future(done)

    def stop(self) -> None:
        """Ends the threads, when all that waits is done."""
        self._threads.shutdown()

    def _work(self) -> None:
        """What a thread does: all that it may do now."""
        last: str | None = None
        while (work := self._next(last)) is not None:
            last = work.owner
            if not work.done.set_running_or_notify_cancel():
                continue
            try:
                result = work.do()
            except BaseException as fault:
                work.done.set_exception(fault)
            else:
                work.done.set_result(result)

    def _next(self, last: str | None) -> _Work | None:
        """Takes the next work of an owner that has not as many threads as it may have. ``last``: whose work
        the thread has just done.
        """
        with self._lock:
            if last is not None:
                self._busy[last] -= 1
                if not self._busy[last]:
                    del self._busy[last]
            for owner, line in self._waiting.items():
                if self._busy[owner] < self._most:
                    work = line.popleft()
                    del self._waiting[owner]
                    if line:
                        self._waiting[owner] = line  # behind all others
                    self._busy[owner] += 1
                    return work
        return None


_THREADS: Final = SharedThreads(3, "heavy")
"""The threads. They are few, since each busy one delays the loop and keeps its input in memory."""


async def off_loop(work: Callable[..., _T], /, *arguments: object) -> _T:
    """Runs ``work`` in a thread. Returns its result, or raises its exception."""
    return await _THREADS.run(work, *arguments)
