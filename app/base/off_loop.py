"""What owners take turns at: threads for long work beside the event loop, and places for work on it."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, NamedTuple, TypeVar

__all__ = ["SharedPlaces", "SharedThreads", "fail", "off_loop", "settle", "tell", "whose"]

_T = TypeVar("_T")

whose: Final = ContextVar("whose", default="")
"""The owner for whom a task works and writes; empty: the service itself, or an unknown one."""


class _Turns(Generic[_T]):
    """What waits for one of several places, and who has them. Owners take turns, one place each; of one
    owner, what came first goes first. An owner never has all places.
    """

    def __init__(self, count: int) -> None:
        """``count``: 2 or more."""
        self._most = count - 1
        """How many places an owner has at once."""
        self._waiting: OrderedDict[str, deque[_T]] = OrderedDict()
        """By owner; whose turn is next comes first."""
        self._busy = Counter[str]()
        """By owner, the places that it has."""

    def add(self, owner: str, work: _T) -> None:
        """Lets work wait."""
        self._waiting.setdefault(owner, deque()).append(work)

    def take(self) -> tuple[str, _T] | None:
        """The next work that may have a place, which its owner has from now on; None: none may have one."""
        for owner, line in self._waiting.items():
            if self._busy[owner] < self._most:
                work = line.popleft()
                del self._waiting[owner]
                if line:
                    self._waiting[owner] = line  # behind all others
                self._busy[owner] += 1
                return owner, work
        return None

    def leave(self, owner: str) -> None:
        """Notes that the owner has given up one of its places."""
        self._busy[owner] -= 1
        if not self._busy[owner]:
            del self._busy[owner]


class SharedPlaces:
    """Places for work that waits on the event loop, such as for connections: as ``SharedThreads``."""

    def __init__(self, count: int) -> None:
        """``count``: 2 or more."""
        self._free = count
        self._turns = _Turns[asyncio.Future[None]](count)

    async def take(self) -> str:
        """Waits for a place, for the owner of this task. Returns whose it is, for ``leave``."""
        owner, turn = whose.get(), asyncio.get_running_loop().create_future()
        self._turns.add(owner, turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given a place at this moment
                self.leave(owner)
            raise
        return owner

    def leave(self, owner: str) -> None:
        """Gives a place of this owner back."""
        self._free += 1
        self._turns.leave(owner)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and (taken := self._turns.take()) is not None:
            owner, turn = taken
            if turn.done():
                self._turns.leave(owner)
                continue
            self._free -= 1
            turn.set_result(None)


class _Work(NamedTuple):
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
        self._idle = count
        """How many threads are not at ``_work``, also of those that have not been started."""
        # An executor's futures would double the cost of handing work over.
        self._calls: SimpleQueue[bool] = SimpleQueue()
        """True wakes a thread; False ends one."""
        self._lock = Lock()
        self._turns = _Turns[_Work](count)

    async def run(self, do: Callable[..., _T], /, *arguments: object) -> _T:
        """Runs ``do`` in a thread, for the owner of this task. Returns or raises what it does."""
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._turns.add(whose.get(), _Work(lambda: do(*arguments), done))
            wakes = self._idle > 0  # else the first that is done with its work takes this
            self._idle -= wakes
            if wakes and len(self._threads) < self._count:
                self._threads.append(Thread(target=self._run, name=self._name, daemon=True))
                self._threads[-1].start()
        if wakes:
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
        while (taken := self._next(last)) is not None:
            last, work = taken
            if not work.done.cancelled():
                tell(work.done, work.do)

    def _next(self, last: str | None) -> tuple[str, _Work] | None:
        """Takes the next work. ``last``: whose work the thread has just done."""
        with self._lock:
            if last is not None:
                self._turns.leave(last)
            taken = self._turns.take()
            self._idle += taken is None
            return taken


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
