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
    "settled_ms",
    "steady_ms",
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

    def steady_ms(self) -> int:
        """Milliseconds since some moment, which nobody can set."""
        return _steady_ns() // 1_000_000

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
SET_FORWARD_MS = 60_000
"""A clock that is put forward by no more than this is believed at once."""
SETTLED_MS = 3_600_000
"""A clock that was set forward is believed after so long, if nobody has set it again."""

_clock = Clock()
_ahead_ms = 0
"""How far the database's clock is ahead of this machine's."""


class _Settling:
    """By how much the time is ahead of the steady one, without what it was set forward in the last hour."""

    def __init__(self) -> None:
        self._believed_ms: int | None = None
        self._shown_ms: int | None = None
        """What the clock shows instead; None: it is believed."""
        self._since_ms = 0
        """Since when, by the steady time."""

    def look(self, shown_ms: int, steady_ms: int) -> int:
        """What is believed now. ``shown_ms``: by how much the clock is ahead of the steady time."""
        if self._believed_ms is None or shown_ms <= self._believed_ms + SET_FORWARD_MS:
            self._believed_ms, self._shown_ms = shown_ms, None
        elif self._shown_ms is None or abs(shown_ms - self._shown_ms) > SET_FORWARD_MS:
            self._shown_ms, self._since_ms = shown_ms, steady_ms
        elif steady_ms - self._since_ms >= SETTLED_MS:
            self._believed_ms, self._shown_ms = shown_ms, None
        return self._believed_ms


_settling = _Settling()


def now_ms() -> int:
    """The time in milliseconds since 1970, UTC: PostgreSQL's, which all processes share."""
    return _clock.now_ms() + _ahead_ms


def steady_ms() -> int:
    """Milliseconds since some moment, which nobody can set."""
    return _clock.steady_ms()


def settled_ms() -> int:
    """The time for what nobody can take back: ``now_ms()``, or an earlier time for an hour after the clock
    was set forward by more than a minute, since it may be set back again. To be called every minute or so.
    """
    steady = _clock.steady_ms()
    return steady + _settling.look(now_ms() - steady, steady)


def agree(theirs: int, before: int, after: int) -> int:
    """Goes by the database's clock from now on, and no longer by the machine's: whoever sets that one changes
    no deadline. ``theirs``: what the database showed at some moment between ``before`` and ``after`` by
    ``now_ms``. Returns by how many milliseconds our time was changed; 0 if the clocks agree.
    """
    global _ahead_ms
    _clock.hold()
    settled_ms()  # before the change: what the machine's clock shows counts, too
    if before > after or before - APART_MS <= theirs <= after + APART_MS:
        return 0  # or somebody else has changed it meanwhile
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
    global _clock, _ahead_ms, _settling
    before = _clock, _ahead_ms, _settling
    _clock, _ahead_ms, _settling = clock, 0, _Settling()
    try:
        yield
    finally:
        _clock, _ahead_ms, _settling = before
