"""The time and randomness of the service.

Commit times, ids, seeds and traces come from this module, and with them everything that clients receive and
that is not a fact of a game. A test can therefore fix them, and compare two runs byte for byte.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

__all__ = [
    "APART_MS",
    "DAY_MS",
    "SET_BACK_MS",
    "Clock",
    "agree",
    "now_ms",
    "random_bits",
    "random_name",
    "timestamp",
    "use_clock",
]


class Clock:
    """The real time, and the operating system's randomness."""

    _held_ns: int | None = None
    """By how much the time is ahead of the steady one; None: the time is what the machine's clock shows."""

    def now_ms(self) -> int:
        if self._held_ns is None:
            return time.time_ns() // 1_000_000
        return (_steady_ns() + self._held_ns) // 1_000_000

    def hold(self) -> None:
        """From now on time passes evenly, even while somebody sets the machine's clock."""
        if self._held_ns is None:
            self._held_ns = time.time_ns() - _steady_ns()

    def random_bits(self, count: int) -> int:
        return secrets.randbits(count)


# On Linux it goes on while the machine sleeps.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def _steady_ns() -> int:
    """Nanoseconds since some moment, which nobody can set."""
    return time.monotonic_ns() if _STEADY is None else time.clock_gettime_ns(_STEADY)


DAY_MS = 86_400_000
APART_MS = 50
"""Clocks that differ by no more than this agree."""
SET_BACK_MS = 5_000
"""A stored time that was the present then, and is further in the future than this, is older than a clock that
was set back.
"""

_clock = Clock()
_ahead_ms = 0
"""How far the database's clock is ahead of this machine's."""


def now_ms() -> int:
    """The time in milliseconds since 1970, UTC: PostgreSQL's, which all processes share."""
    return _clock.now_ms() + _ahead_ms


def agree(theirs: int, before: int, after: int) -> int:
    """Goes by the database's clock from now on, and no longer by the machine's: whoever sets that one changes
    no deadline. ``theirs``: what the database showed at some moment between ``before`` and ``after`` by
    ``now_ms``. Returns by how many milliseconds our time was changed; 0 if the clocks agree.
    """
    global _ahead_ms
    _clock.hold()
    if before - APART_MS <= theirs <= after + APART_MS:
        return 0
    change = theirs - (before + after) // 2
    _ahead_ms += change
    return change


# Cached, since all events of a commit have the same time, and hundreds of viewers may get frames of them.
@lru_cache(256)
def timestamp(ms: int) -> str:
    """The time as text: RFC 3339, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def random_bits(count: int) -> int:
    """An integer of that many unpredictable bits."""
    return _clock.random_bits(count)


def random_name() -> str:
    """16 hexadecimal digits: the name of a trace or a connection."""
    return f"{random_bits(64):016x}"


@contextmanager
def use_clock(clock: Clock) -> Iterator[None]:
    """Replaces the clock while the block lasts."""
    global _clock, _ahead_ms
    before, _clock, _ahead_ms = (_clock, _ahead_ms), clock, 0
    try:
        yield
    finally:
        _clock, _ahead_ms = before
