"""Limits on an endpoint's requests, at once and per minute. Waits are fair and safe to cancel."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["AdaptiveLimit", "Bucket", "Parallel", "RateLimits", "Slot", "Slots"]

BURST_S: Final = 5.0
"""A bucket holds as much as flows in during this many seconds: short bursts pass, and no minute exceeds its
limit by more than 1/12.
"""


class Bucket:
    """Hands out ``per_minute`` units a minute, first come, first served."""

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute / 60
        self._capacity = max(1.0, self._rate * BURST_S)
        self._level = self._capacity
        self._filled: float | None = None
        self._turn = asyncio.Lock()

    async def take(self, amount: float) -> None:
        """Waits for ``amount`` units. Units beyond the bucket's size are lent; later callers wait longer."""
        async with self._turn:
            while (missing := min(amount, self._capacity) - self._fill()) > 1e-9:  # noqa: ASYNC110 - time is what fills it
                await asyncio.sleep(missing / self._rate)
            self._level -= amount

    def give(self, amount: float) -> None:
        """Gives back reserved units that were not used. A negative amount means that more was used than was
        reserved.
        """
        self._level = min(self._capacity, self._level + amount)

    def _fill(self) -> float:
        now = asyncio.get_running_loop().time()
        since = 0.0 if self._filled is None else now - self._filled
        self._filled = now
        self._level = min(self._capacity, self._level + since * self._rate)
        return self._level


@dataclass(slots=True)
class Slot:
    """Permission to send one request."""

    waited_s: float
    """Seconds spent waiting for these limits."""
    used: int | None = None
    """Tokens that the request used, once known."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """How many requests may be in flight: ``4-20-100`` begins with 20 and adapts between 4 and 100.

    A single number is both the beginning and the most; the least is then 1.
    """

    least: int
    first: int
    most: int

    @classmethod
    def read(cls, text: int | str) -> "Parallel":
        """Reads one number, or three numbers joined by ``-``. Raises ValueError for anything else, for zero,
        and for numbers that fall.
        """
        parts = str(text).split("-")
        if len(parts) not in (1, 3) or not all(part.isdecimal() and len(part) < 6 for part in parts):
            raise ValueError("parallel must be a number such as 16, or three such as 4-20-100")
        numbers = [int(part) for part in parts]
        least, first, most = numbers if len(numbers) == 3 else (1, *numbers, *numbers)
        if not 1 <= least <= first <= most:
            raise ValueError("the numbers of parallel must be 1 or more, and must not fall")
        return cls(least, first, most)


class AdaptiveLimit:
    """How much may be in flight at once, as far as the server can bear it: N becomes N + 1 after N answers,
    and half as many when a request is turned away.
    """

    def __init__(self, parallel: Parallel) -> None:
        self._bounds = parallel
        self.now = parallel.first
        self._answers = 0
        self._lowered_at = -math.inf
        self._slots: list[Slots] = []

    def slots(self) -> "Slots":
        """Slots, as many as this limit says at any time. What one queue has handed out, another does not
        count.
        """
        self._slots.append(Slots(self))
        return self._slots[-1]

    def answered(self) -> None:
        """Counts an answer."""
        self._answers += 1
        if self._answers >= self.now and self.now < self._bounds.most:
            self.now += 1
            self._answers = 0
            for slots in self._slots:
                slots.hand_out()

    def turned_away(self, sent_at: float) -> None:
        """Halves the limit, unless it was halved after this request was sent: many requests that are turned
        away together count once. ``sent_at``: in the event loop's time.
        """
        if sent_at > self._lowered_at:
            self.now = max(self._bounds.least, self.now // 2)
            self._lowered_at = asyncio.get_running_loop().time()
            self._answers = 0


class Slots:
    """Hands out the slots of a limit, first come, first served."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._used < self._limit.now and not self._waiting:
            self._used += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._release()
            else:
                self._waiting.remove(turn)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        self._used -= 1
        self.hand_out()

    def hand_out(self) -> None:
        """Lets in those who wait, as far as the limit allows now."""
        while self._waiting and self._used < self._limit.now:
            turn = self._waiting.popleft()
            self._used += 1
            turn.set_result(None)


class RateLimits:
    """The limits of one endpoint. They belong to the event loop that first waits for them."""

    def __init__(
        self, parallel: AdaptiveLimit, requests: float | None = None, tokens: float | None = None
    ) -> None:
        self.parallel = parallel
        self._slots = parallel.slots()
        self._requests = None if requests is None else Bucket(requests)
        self._tokens = None if tokens is None else Bucket(tokens)
        self._paused_until = -math.inf

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """Holds one of the parallel slots while the block lasts.

        ``tokens`` is the most that the request may use; unused tokens are returned at the end.
        """
        loop = asyncio.get_running_loop()
        asked = loop.time()
        # Wait for the slot first: units of a rate must be used at once, not after waiting in a queue.
        async with self._slots:
            if self._requests is not None:
                await self._requests.take(1)
            if self._tokens is not None:
                await self._tokens.take(tokens)
            slot = Slot(loop.time() - asked)
            try:
                yield slot
            finally:
                if self._tokens is not None and slot.used is not None:
                    self._tokens.give(tokens - slot.used)

    def pause(self, seconds: float) -> None:
        """Delays the next request of all callers, because the server asked for a pause."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def paused_s(self) -> float:
        """Seconds left of the pause that the server asked for."""
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())
