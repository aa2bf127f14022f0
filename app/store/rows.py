"""Rows of which a column holds what it cannot: SQLite keeps any value in any column."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Boolean, Float, Integer, Table

from app.store.json_column import JsonColumn
from engine.errors import CorruptLog
from engine.profile import TEAM_SIZES
from engine.terms import Ending, Side

__all__ = ["LAST_MS", "STATUSES", "check_row", "is_moment", "is_readable"]

LAST_MS: Final = 253_402_300_799_999
"""The last moment that a date can be written of: year 9999, UTC, ms."""

STATUSES: Final = frozenset({"created", "running", "finished", "cancelled", "failed"})
"""Of games."""

_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "status": STATUSES,
    "drive": frozenset({"auto", "manual"}),
    "winner": frozenset(Side),
    "ending": frozenset(Ending),
}
"""What columns of ``games`` hold."""


def check_row(table: Table, row: Mapping[Any, Any]) -> None:
    """Raises CorruptLog, which names row and column and quotes nothing, for a plain value of the wrong
    kind. JSON is not looked at: it reads as ``Damaged``.
    """
    for name, nullable, fits in _checks(table):
        value = row[name]
        if not (nullable if value is None else fits(value)):
            first = next(iter(table.primary_key)).name
            which = row[first] if name != first and _is_text(row[first]) else "without a name"
            raise CorruptLog(f"the row {which} of {table.name} does not read ({name})")


def is_readable(table: Table, row: Mapping[Any, Any]) -> bool:
    """Whether ``check_row`` has nothing to say of it."""
    try:
        check_row(table, row)
    except CorruptLog:
        return False
    return True


def _is_text(value: object) -> bool:
    # Bytes that are no UTF-8 arrive as lone surrogates.
    return type(value) is str and value.isprintable()


def is_moment(value: object) -> bool:
    """Whether it is a time as we store it: UTC, ms since 1970."""
    return type(value) is int and 0 <= value <= LAST_MS


@cache
def _checks(table: Table) -> tuple[tuple[str, bool, Callable[[Any], bool]], ...]:
    return tuple(
        (column.name, bool(column.nullable), _check(table.name, column.name, column.type))
        for column in table.columns
        if not isinstance(column.type, JsonColumn)
    )


def _check(table: str, name: str, kind: object) -> Callable[[Any], bool]:
    if table == "games" and name in _WORDS:
        return _WORDS[name].__contains__
    if name == "at" or name.endswith("_at"):
        return is_moment
    if table == "games" and name == "players":
        return lambda value: type(value) is int and value in TEAM_SIZES
    if isinstance(kind, Boolean):
        return lambda value: type(value) is bool
    if isinstance(kind, Integer):
        return lambda value: type(value) is int
    if isinstance(kind, Float):
        return lambda value: type(value) in (int, float)
    return lambda value: type(value) is str and _is_utf8(value)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
