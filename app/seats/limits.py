"""How much a client may send over a socket."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.base.allowance import Allowance
from app.base.errors import RateLimited

__all__ = ["BURST", "IDENTIFIES", "MAX_WAITING", "RATE", "Guesses", "Strikes", "Unidentified"]

RATE: Final = 10.0
BURST: Final = 20
"""Messages from one client: ``RATE`` a second in the long run, ``BURST`` at once. An answer that is accepted
does not count: a request takes one, so a bot that only answers may be as fast as the game."""

MAX_WAITING: Final = 4_096
"""The most unidentified connections from one address at a time. Each identifies or is closed within
seconds, so that even a storm of honest reconnects, or a proxy that many clients share, stays below it."""

IDENTIFIES: Final = 30
IDENTIFIES_S: Final = 60.0
"""A seat token may identify ``IDENTIFIES`` times in ``IDENTIFIES_S`` seconds. This slows down a bot that
keeps reconnecting without a pause."""

GUESSES: Final = 60
GUESSES_S: Final = 60.0
"""An owner, or an address without a key, may send ``GUESSES`` wrong codes in ``GUESSES_S`` seconds. A code
has 130 random bits; this only keeps guessing from being work for the database."""

_FORGET_AT: Final = 10_000


class Guesses:
    """Bounds how often one guesser, an owner or an address, may be wrong about a secret, in this process."""

    def __init__(self) -> None:
        self._allowances: dict[str, Allowance] = {}

    def check(self, guesser: str, now: float) -> None:
        """Raises RateLimited for a guesser who was wrong too often."""
        allowance = self._allowances.get(guesser)
        if allowance is not None and (wait_s := allowance.wait_s(now)):
            raise RateLimited("too many wrong codes from you, or without a key from your address", wait_s)

    def wrong(self, guesser: str, now: float) -> None:
        """Notes a wrong guess."""
        if len(self._allowances) >= _FORGET_AT:
            self._allowances = {k: v for k, v in self._allowances.items() if not v.is_full(now)}
        allowance = self._allowances.setdefault(guesser, Allowance(GUESSES / GUESSES_S, GUESSES, now))
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
