"""How much a client may send over a socket."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.base.errors import RateLimited

__all__ = ["BURST", "IDENTIFIES", "MAX_WAITING", "RATE", "Allowance", "Guesses", "Strikes", "Unidentified"]

RATE: Final = 10.0
BURST: Final = 20
"""Messages from one client: ``RATE`` a second in the long run, ``BURST`` at once."""

MAX_WAITING: Final = 4_096
"""The most unidentified connections from one address at a time. Each identifies or is closed within
seconds, so that even a storm of honest reconnects, or a proxy that many clients share, stays below it."""

IDENTIFIES: Final = 30
IDENTIFIES_S: Final = 60.0
"""A seat token may identify ``IDENTIFIES`` times in ``IDENTIFIES_S`` seconds. This slows down a bot that
keeps reconnecting without a pause."""

GUESSES: Final = 60
GUESSES_S: Final = 60.0
"""An address may send ``GUESSES`` wrong codes in ``GUESSES_S`` seconds. A code has 130 random bits; this only
keeps guessing from being work for the database."""

_FORGET_AT: Final = 10_000


class Allowance:
    """A token bucket: ``burst`` at once, ``rate`` a second in the long run. Times are one clock's seconds."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._seen = now

    def spend(self, now: float) -> bool:
        """Takes one token, and returns whether there was one."""
        self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait_s(self, now: float) -> float:
        """Seconds until there is a token, without taking one; 0: there is one."""
        left = self._left + (now - self._seen) * self._rate
        return max(0.0, (1 - left) / self._rate)

    @property
    def next_s(self) -> float:
        """Seconds until the next token; 0: there is one."""
        return max(0.0, (1 - self._left) / self._rate)

    def is_full(self, now: float) -> bool:
        """Whether the bucket is full, as if it had never been used."""
        return self._left + (now - self._seen) * self._rate >= self._burst

    @property
    def refill_s(self) -> float:
        """Seconds until an empty bucket is full again."""
        return self._burst / self._rate


class Guesses:
    """Bounds how often one address may be wrong about a secret, in this process."""

    def __init__(self) -> None:
        self._allowances: dict[str, Allowance] = {}

    def check(self, address: str, now: float) -> None:
        """Raises RateLimited for an address that was wrong too often."""
        allowance = self._allowances.get(address)
        if allowance is not None and (wait_s := allowance.wait_s(now)):
            raise RateLimited("too many wrong codes from your address", wait_s)

    def wrong(self, address: str, now: float) -> None:
        """Notes a wrong guess."""
        if len(self._allowances) >= _FORGET_AT:
            self._allowances = {k: v for k, v in self._allowances.items() if not v.is_full(now)}
        allowance = self._allowances.setdefault(address, Allowance(GUESSES / GUESSES_S, GUESSES, now))
        allowance.spend(now)


class Strikes:
    """Counts faults within a window of seconds."""

    def __init__(self, limit: int, window_s: float) -> None:
        self._window = window_s
        self._times: deque[float] = deque(maxlen=limit)

    def out(self, now: float) -> bool:
        """Counts one fault, and returns whether it reached the limit within the window."""
        self._times.append(now)
        return len(self._times) == self._times.maxlen and now - self._times[0] <= self._window


class Unidentified:
    """Counts this process's unidentified connections by address, and ``identify`` messages by credential."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._allowances: dict[str, Allowance] = {}

    def is_crowded(self, address: str) -> bool:
        """Whether the address has as many unidentified connections as are allowed."""
        return self._waiting.get(address, 0) >= MAX_WAITING

    @contextmanager
    def waiting(self, address: str) -> Iterator[None]:
        """Counts one unidentified connection of the address while the block lasts."""
        self._waiting[address] += 1
        try:
            yield
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def wait_s(self, name: str, now: float) -> float:
        """Counts one ``identify`` with this credential. Returns the seconds that it has to wait, or 0."""
        if len(self._allowances) >= _FORGET_AT:
            self._allowances = {k: v for k, v in self._allowances.items() if not v.is_full(now)}
        allowance = self._allowances.get(name)
        if allowance is None:
            allowance = self._allowances[name] = Allowance(IDENTIFIES / IDENTIFIES_S, IDENTIFIES, now)
        return 0.0 if allowance.spend(now) else allowance.next_s
