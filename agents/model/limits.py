"""Limits on an endpoint's requests, at once and per minute. Waits are fair and safe to cancel."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["Bucket", "RateLimits", "Slot"]

BURST_S: Final = 5.0
"""A bucket holds the inflow of this many seconds: short bursts pass, and no minute exceeds its limit by more
than 1/12.
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
        """Waits for ``amount`` units. What exceeds the bucket's size is lent; later callers wait for it."""
        async with self._turn:
            while (missing := min(amount, self._capacity) - self._fill()) > 1e-9:  # noqa: ASYNC110 - time is what fills it
                await asyncio.sleep(missing / self._rate)
            self._level -= amount

    def give(self, amount: float) -> None:
        """Gives back reserved units that were not used; a negative amount is use beyond the reservation."""
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


class RateLimits:
    """The limits of one endpoint. They belong to the event loop that first waits for them."""

    def __init__(self, parallel: int, requests: float | None = None, tokens: float | None = None) -> None:
        self._slots = asyncio.Semaphore(parallel)
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
        # The slot first: a granted rate has to be used at once, not after a queue.
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
