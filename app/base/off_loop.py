"""Runs long work in threads, beside the event loop. Owners take turns at the threads."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["SharedThreads", "fail", "off_loop", "settle", "tell", "whose"]

_T = TypeVar("_T")

whose: Final = ContextVar("whose", default="")
"""The owner for whom a task works and writes; empty: the service itself, or an unknown one."""


class _Work(NamedTuple):
    owner: str
    do: Callable[[], Any]
    done: "asyncio.Future[Any]"


class SharedThreads:
    """Threads at which owners take turns, a piece of work each; of one owner, what came first goes first. One
    thread is never at the work of an owner that is at all others. So however much of one owner waits, the
    work of another waits for none of it, unless a third is at work, too.
    """

    def __init__(self, count: int, name: str) -> None:
        """``count``: 2 or more."""
        self._count = count
        self._name = name
        self._threads: list[Thread] = []
        # An executor's futures would double the cost of handing work over.
        self._calls: SimpleQueue[bool] = SimpleQueue()
        """For each piece of work True; False ends a thread."""
        self._lock = Lock()
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()
        """By owner; whose turn is next comes first."""
        self._busy = Counter[str]()
        """By owner, the threads that it has."""

    async def run(self, do: Callable[..., _T], /, *arguments: object) -> _T:
        """Runs ``do`` in a thread, for the owner of this task. Returns or raises what it does."""
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        work = _Work(whose.get(), lambda: do(*arguments), done)
        with self._lock:
            self._waiting.setdefault(work.owner, deque()).append(work)
            if len(self._threads) < self._count:
                self._threads.append(Thread(target=self._run, name=self._name, daemon=True))
                self._threads[-1].start()
        self._calls.put(True)
        return await done

    def stop(self) -> None:
        """Ends the threads, when all that waits is done."""
        for _ in self._threads:
            self._calls.put(False)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _run(self) -> None:
        while self._calls.get():
            self._work()

    def _work(self) -> None:
        """What a thread does when it is called: all that it may do now."""
        last: str | None = None
        while (work := self._next(last)) is not None:
            last = work.owner
            if not work.done.cancelled():
                tell(work.done, work.do)

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
                if self._busy[owner] < self._count - 1:
                    work = line.popleft()
                    del self._waiting[owner]
                    if line:
                        self._waiting[owner] = line  # behind all others
                    self._busy[owner] += 1
                    return work
        return None


def tell(done: "asyncio.Future[_T]", do: Callable[[], _T]) -> None:
    """Runs ``do`` in this thread, and tells the result, or what it raised, to who waits in the event loop."""
    outcome: tuple[Any, ...]
    try:
        outcome = (settle, done, do())
    except BaseException as fault:
        outcome = (fail, done, fault)
    # Nobody waits on a loop that was closed in the meantime.
    with suppress(RuntimeError):
        done.get_loop().call_soon_threadsafe(*outcome)


def settle(done: "asyncio.Future[_T]", result: _T) -> None:
    """Gives the result to who waits, unless nobody does any more."""
    if not done.done():
        done.set_result(result)


def fail(done: "asyncio.Future[Any]", fault: BaseException) -> None:
    """Raises the fault where somebody waits."""
    if not done.done():
        done.set_exception(fault)


_THREADS: Final = SharedThreads(3, "heavy")
"""The threads. They are few, since each busy one delays the loop and keeps its input in memory."""


async def off_loop(work: Callable[..., _T], /, *arguments: object) -> _T:
    """Runs ``work`` in a thread. Returns its result, or raises its exception."""
    return await _THREADS.run(work, *arguments)
