"""When to come back, and how long to wait before it."""

import random
import re
from typing import Final

__all__ = ["COME_BACK", "FIRST_S", "LONGEST_S", "PATIENCE", "named_wait_s", "wait_s"]

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0

PATIENCE: Final = 45
"""Failures in a row after which a server is given up: with the waits between them about ten minutes, which is
longer than a restart or an outage of its database should last.
"""

# 1005 and 1006 are the library's names for an end without a close frame.
COME_BACK: Final = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429})
"""Close codes after which the server wants to see us again."""


def wait_s(failures: int) -> float:
    """Full jitter: anything from 0 to 0.5 s doubled with every failure, at most 30 s.

    Many clients that were cut off at once come back spread out.
    """
    return random.uniform(0, min(LONGEST_S, FIRST_S * 2 ** min(failures, 16)))


def named_wait_s(reason: str) -> float:
    """The seconds that a close for too many messages asks for; 0 where it names none."""
    match = re.search(r"retry_after_ms=(\d{1,9})", reason)
    return int(match[1]) / 1000 if match else 0.0
