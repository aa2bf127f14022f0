"""How much a client may ask of a socket."""

from collections import deque
from typing import Final

__all__ = ["BURST", "RATE", "Allowance", "Strikes"]

RATE: Final = 10.0
BURST: Final = 20
"""Messages a second from one client, and at once."""


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

    def is_full(self, now: float) -> bool:
        """Whether nothing of it is missing: a new one would be the same."""
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
