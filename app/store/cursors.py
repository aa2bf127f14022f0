"""Cursors of pages: the place where the next page begins, as one opaque text."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import BigInteger, Column, Integer, RowMapping, Select, or_

from app.base.errors import InvalidRequest
from app.store.db import Database
from engine.errors import CorruptLog

__all__ = ["newest_first", "next_cursor", "read_cursor", "unknown_cursor", "write_cursor"]


def write_cursor(*values: str | int) -> str:
    """The values as one text that can be part of an address."""
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


async def newest_first(
    database: Database, query: Select[Any], place: Mapping[str, Column[Any]], limit: int, cursor: str | None
) -> tuple[Sequence[RowMapping], str | None]:
    """A page of what the query finds, newest first, and the cursor of the next page; None after the last one.
    ``place``: the columns of the time and of the id, by their names in the rows.
    """
    at, name = place.values()
    if cursor is not None:
        last_at, last_name = read_cursor(cursor, place)
        query = query.where(at <= last_at, or_(at < last_at, name < last_name))
    rows = await database.mappings(query.order_by(at.desc(), name.desc()).limit(limit + 1))
    page = rows[:limit]
    return page, next_cursor(page, place) if len(rows) > limit else None


def next_cursor(rows: Sequence[RowMapping], columns: Mapping[str, Column[Any]]) -> str:
    """The cursor for the page after these rows.

    It points to the last row with a readable place: a cursor with a damaged place would be refused when the
    client returns it. ``columns``: the columns that make up a place, by their names in the rows. Raises
    CorruptLog if every place is damaged.
    """
    for row in reversed(rows):
        values = [row[name] for name in columns]
        if _fit(columns, values):
            return write_cursor(*values)
    raise CorruptLog("every row of this page is damaged; ask for a larger page")


def read_cursor(cursor: str, columns: Mapping[str, Column[Any]]) -> list[Any]:
    """The values of a cursor, one for each column. Raises InvalidRequest for a value that its column cannot
    hold.
    """
    try:
        values = orjson.loads(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
    except (binascii.Error, ValueError):
        raise unknown_cursor() from None
    if not (isinstance(values, list) and _fit(columns, values)):
        raise unknown_cursor()
    return values


def unknown_cursor(purpose: str = "") -> InvalidRequest:
    """The refusal of a cursor that this server cannot have issued; ``purpose`` says what it is used for."""
    return InvalidRequest(f"this server did not issue the cursor{purpose}", "/cursor", "cursor")


def _fit(columns: Mapping[str, Column[Any]], values: Sequence[Any]) -> bool:
    return len(values) == len(columns) and all(map(_fits, columns.values(), values))


def _fits(column: Column[Any], value: object) -> bool:
    if isinstance(column.type, Integer):
        most = 2**53 if isinstance(column.type, BigInteger) else 2**31
        return type(value) is int and 0 <= value < most
    return isinstance(value, str) and value.isascii() and "\0" not in value
