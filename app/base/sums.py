"""Sums over whole batches, made no more often than they are worth."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

__all__ = ["Sums"]

T = TypeVar("T")

SMALL: Final = 200
"""Sums over batches with no more games than this are computed again each time."""

PAUSE: Final = 20
"""A sum is reused for so many times as long as it took to make."""

KEPT: Final = 100
"""The most batches whose sums are kept."""


@dataclass(slots=True)
class _KeptSum(Generic[T]):
    value: T
    over: bool
    at: float
    took_s: float


class Sums(Generic[T]):
    """A sum for each batch, kept for a while where the batch is large. Once the batch is over, no sum from
    before its end is used.
    """

    def __init__(
        self, make: Callable[[str], Awaitable[T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``make``: sums up a batch, by its id. ``clock``: seconds."""
        self._make = make
        self._clock = clock
        self._made: dict[str, _KeptSum[T]] = {}
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, batch_id: str, games: int, *, over: bool) -> T:
        """The sum over a batch of so many games; ``over``: nothing is added to it any more."""
        if games <= SMALL:
            return await self._make(batch_id)
        async with self._making.setdefault(batch_id, asyncio.Lock()):
            known, began = self._made.pop(batch_id, None), self._clock()
            if known is None or known.over != over or began - known.at > PAUSE * known.took_s:
                value = await self._make(batch_id)
                now = self._clock()
                known = _KeptSum(value, over, now, now - began)
            self._made[batch_id] = known  # the last one again
        if len(self._made) > KEPT:
            del self._made[next(iter(self._made))]
        return known.value
