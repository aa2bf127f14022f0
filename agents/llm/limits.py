"""What an endpoint may be asked at once and in a minute: waits that are fair, and safe to cancel."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["Bucket", "Limits", "Slot"]

BURST_S: Final = 5.0
"""A bucket holds what flows in within so long: short bursts pass, and no minute sees more than 1/12
above its limit.
"""


class Bucket:
    """So many a minute, handed out in the order of asking."""

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute / 60
        self._capacity = max(1.0, self._rate * BURST_S)
        self._level = self._capacity
        self._filled: float | None = None
        self._turn = asyncio.Lock()

    async def take(self, amount: float) -> None:
        """Returns when ``amount`` is there; more than the bucket holds is lent, and others wait for it."""
        async with self._turn:
            while (missing := min(amount, self._capacity) - self._fill()) > 1e-9:  # noqa: ASYNC110 - time is what fills it
                await asyncio.sleep(missing / self._rate)
            self._level -= amount

    def give(self, amount: float) -> None:
        """Gives back what was reserved and not used; below zero: takes what was used beyond it."""
        self._level = min(self._capacity, self._level + amount)

    def _fill(self) -> float:
        now = asyncio.get_running_loop().time()
        since = 0.0 if self._filled is None else now - self._filled
        self._filled = now
        self._level = min(self._capacity, self._level + since * self._rate)
        return self._level


@dataclass(slots=True)
class Slot:
    """Leave to send one request."""

    waited_s: float
    """For our own limits."""
    used: int | None = None
    """Tokens it took, once that is known."""


class Limits:
    """One endpoint's. It belongs to the event loop that first waits on it."""

    def __init__(self, parallel: int, requests: float | None = None, tokens: float | None = None) -> None:
        self._slots = asyncio.Semaphore(parallel)
        self._requests = None if requests is None else Bucket(requests)
        self._tokens = None if tokens is None else Bucket(tokens)
        self._paused_until = -math.inf

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """Holds a place among the parallel requests while the block lasts.

        ``tokens`` is what the request may use; what it did not use flows back at the end.
        """
        loop = asyncio.get_running_loop()
        asked = loop.time()
        # The place first: a rate that was granted must be used at once, not after a queue.
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
        """The server asked for a pause: it holds for everybody's next request."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def paused_s(self) -> float:
        """How long the server still wants to be left alone."""
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())
