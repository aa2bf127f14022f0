"""When to reconnect, and how long to wait before."""

import random
import re
from typing import Final

__all__ = ["COME_BACK", "FIRST_S", "LONGEST_S", "PATIENCE", "named_wait_s", "wait_s"]

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0

PATIENCE: Final = 45
"""Failures in a row after which the client gives up: with the waits between them about ten minutes, longer
than a restart or an outage of the database should last.
"""

# 1005 and 1006 are the library's names for an end without a close frame.
COME_BACK: Final = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429})
"""Close codes after which a client may reconnect."""


def wait_s(failures: int) -> float:
    """Full jitter: anything from 0 to 0.5 s doubled with every failure, at most 30 s.

    Clients that were all cut off at once thus reconnect spread out.
    """
    return random.uniform(0, min(LONGEST_S, FIRST_S * 2 ** min(failures, 16)))


def named_wait_s(reason: str) -> float:
    """The seconds to wait that a close for too many messages names; 0 if it names none."""
    match = re.search(r"retry_after_ms=(\d{1,9})", reason)
    return int(match[1]) / 1000 if match else 0.0
