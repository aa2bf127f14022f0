"""What came of one HTTP request: values, and how to read them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["Answered", "Failed", "body_of", "retry_after"]


@dataclass(slots=True)
class Answered:
    """A whole response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(slots=True)
class Failed:
    """No whole response."""

    cause: str
    """timeout, refused, disconnected, reset, too_large, truncated, connection"""
    status: int | None
    """Of the response that began."""
    received: int
    """Bytes of its body."""
    sent: bool
    """The server may have got the request, and charge for it."""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait: milliseconds, seconds or a date. None: it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "").strip()
        if not said:
            continue
        try:
            seconds = float(said) * unit
        except ValueError:
            try:
                until = parsedate_to_datetime(said)
            except ValueError:
                continue
            if until.tzinfo is None:
                until = until.replace(tzinfo=UTC)
            seconds = (until - (now or datetime.now(UTC))).total_seconds()
        if math.isfinite(seconds):
            return max(0.0, seconds)
        if seconds > 0:
            return seconds
    return None


def body_of(answered: Answered) -> Any:
    """The JSON of an error's body; None where it is none."""
    try:
        return json.loads(answered.body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
