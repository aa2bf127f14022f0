"""Cursors of pages: where a page goes on, as one opaque word."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from sqlalchemy import RowMapping

from app.base.errors import InvalidRequest
from engine.errors import CorruptLog

__all__ = ["next_cursor", "read_cursor", "unknown_cursor", "write_cursor"]


def write_cursor(*values: str | int) -> str:
    """The values as a word for an address."""
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


def next_cursor(rows: Sequence[RowMapping], columns: Sequence[str], read: Callable[[str], Any]) -> str:
    """The cursor behind the last of these rows whose place ``read`` takes: what is damaged in others would
    be told, and refused. Raises CorruptLog where there is none.
    """
    for row in reversed(rows):
        try:
            cursor = write_cursor(*(row[name] for name in columns))
            read(cursor)
        except (InvalidRequest, TypeError):
            continue
        return cursor
    raise CorruptLog("none of the rows of this page tells its place; ask for a larger page")


def read_cursor(cursor: str, count: int) -> list[Any]:
    """The ``count`` values of a cursor; what they are, who asked checks. Raises InvalidRequest."""
    try:
        read = orjson.loads(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
    except (binascii.Error, ValueError):
        raise unknown_cursor() from None
    if not (isinstance(read, list) and len(read) == count):
        raise unknown_cursor()
    return read


def unknown_cursor(here: str = "") -> InvalidRequest:
    """The refusal of a cursor that we cannot have given; ``here`` says for what."""
    return InvalidRequest(f"this cursor was not given by us{here}", "/cursor", "cursor")
