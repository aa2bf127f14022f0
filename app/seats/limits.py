"""How much a client may ask of a socket."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["BURST", "IDENTIFIES", "MAX_WAITING", "RATE", "Allowance", "Doorstep", "Strikes"]

RATE: Final = 10.0
BURST: Final = 20
"""Messages a second from one client, and at once."""

MAX_WAITING: Final = 4_096
"""Connections of one address that have not identified yet. Each is gone in seconds either way; a storm of
honest reconnects, or a proxy that all come through, stays below it."""

IDENTIFIES: Final = 30
IDENTIFIES_S: Final = 60.0
"""How often one seat token identifies in so many seconds: a bot that comes back at once, for ever."""

_FORGET_AT: Final = 10_000


class Allowance:
    """A token bucket: ``burst`` at once, ``rate`` a second in the long run. Times are one clock's seconds."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._seen = now

    def spend(self, now: float) -> bool:
        """Takes one, and says whether there was one to take."""
        self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    @property
    def next_s(self) -> float:
        """Seconds until there is one to take."""
        return max(0.0, (1 - self._left) / self._rate)

    def is_full(self, now: float) -> bool:
        """Whether it is as if it had never been used."""
        return self._left + (now - self._seen) * self._rate >= self._burst

    @property
    def refill_s(self) -> float:
        """Seconds until an empty bucket is full again."""
        return self._burst / self._rate


class Strikes:
    """Counts faults within a window of seconds."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._window = window_s
        self._times: deque[float] = deque(maxlen=limit)

    def out(self, now: float) -> bool:
        """Counts one more, and says whether it was the last one borne."""
        self._times.append(now)
        return len(self._times) == self._times.maxlen and now - self._times[0] <= self._window


class Doorstep:
    """Who stands before ``welcome``, in this process."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._allowances: dict[str, Allowance] = {}

    def is_crowded(self, address: str) -> bool:
        """Whether as many connections of the address as we bear have not identified yet."""
        return self._waiting.get(address, 0) >= MAX_WAITING

    @contextmanager
    def waiting(self, address: str) -> Iterator[None]:
        """Counts one connection that has not identified, while the block lasts."""
        self._waiting[address] += 1
        try:
            yield
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def wait_s(self, name: str, now: float) -> float:
        """Counts one identify of this credential: 0 when it may, else the seconds to wait."""
        if len(self._allowances) >= _FORGET_AT:
            self._allowances = {k: v for k, v in self._allowances.items() if not v.is_full(now)}
        allowance = self._allowances.get(name)
        if allowance is None:
            allowance = self._allowances[name] = Allowance(IDENTIFIES / IDENTIFIES_S, IDENTIFIES, now)
        return 0.0 if allowance.spend(now) else allowance.next_s
