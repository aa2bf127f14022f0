"""Decides after which failures to reconnect, and how long to wait before each attempt."""

import random
import re
from typing import Final

__all__ = ["COME_BACK", "FIRST_S", "LONGEST_S", "PATIENCE", "named_wait_s", "wait_s"]

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0

PATIENCE: Final = 45
"""Failures in a row after which the client gives up. With the waits between them they take about ten minutes,
longer than a restart or an outage of the database should last.
"""

# 1005 and 1006 are the library's names for an end without a close frame.
COME_BACK: Final = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429})
"""Close codes after which a client may reconnect."""


def wait_s(failures: int) -> float:
    """The seconds to wait before the next attempt: drawn from 0 to a bound (full jitter), so that clients
    that were all cut off at once do not all reconnect at once. The bound is 0.5 s, doubled with every
    failure, and at most 30 s.
    """
    return random.uniform(0, min(LONGEST_S, FIRST_S * 2 ** min(failures, 16)))


def named_wait_s(reason: str) -> float:
    """The seconds to wait after a close for too many messages, as the reason of the close names them; 0 if it
    names none.
    """
    match = re.search(r"retry_after_ms=(\d{1,9})", reason)
    return int(match[1]) / 1000 if match else 0.0
