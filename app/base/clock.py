"""What the service takes from outside itself: the time, and chance.

Everything that a client is sent and is not a fact of a game comes from here: commit times, ids,
seeds, traces. So a test can hold it still and compare two runs byte for byte.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["Outside", "held", "now_ms", "random_bits", "random_name", "timestamp"]


class Outside:
    """The real time, and the operating system's randomness."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def random_bits(self, count: int) -> int:
        return secrets.randbits(count)


_outside = Outside()


def now_ms() -> int:
    """UTC, milliseconds since 1970."""
    return _outside.now_ms()


# All events of a commit, and the frames that hundreds of viewers get of them, have the same time.
@lru_cache(256)
def timestamp(ms: int) -> str:
    """RFC 3339, UTC, milliseconds."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def random_bits(count: int) -> int:
    """That many bits nobody can guess."""
    return _outside.random_bits(count)


def random_name() -> str:
    """16 hexadecimal digits: a trace's or a connection's name."""
    return f"{random_bits(64):016x}"


@contextmanager
def held(instead: Outside) -> Iterator[None]:
    """Takes time and chance from elsewhere while the block lasts."""
    global _outside
    before, _outside = _outside, instead
    try:
        yield
    finally:
        _outside = before
