"""Rows of which a column holds what it cannot: SQLite keeps any value in any column."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from math import isfinite
from typing import Any, Final

from sqlalchemy import Boolean, Float, Integer, Table

from app.store.json_column import Damaged, JsonColumn, YesNo
from engine.errors import CorruptLog
from engine.intentions import BY_ID
from engine.profile import TEAM_SIZES
from engine.terms import Ending, Role, Side

__all__ = ["LAST_MS", "STATUSES", "check_row", "is_moment", "is_readable", "is_whole", "row_name"]

LAST_MS: Final = 253_402_300_799_999
"""The last moment that a date can be written of: year 9999, UTC, ms."""

STATUSES: Final = frozenset({"created", "running", "finished", "cancelled", "failed"})
"""Of games."""

_KINDS: Final = frozenset({"model", "human", "program"})
_SCORES: Final = frozenset(range(1, 6))

_VALUES: Final[Mapping[str, Mapping[str, Collection[Any]]]] = {
    "games": {
        "status": STATUSES,
        "drive": frozenset({"auto", "manual"}),
        "winner": frozenset(Side),
        "ending": frozenset(Ending),
        "players": frozenset(TEAM_SIZES),
    },
    "evaluations": {
        "dimension": frozenset({"selection", "following", "summarisation", "guessing", "statements"}),
        "kind": _KINDS,
        "status": frozenset({"scored", "judging", "cancelled", "failed"}),
    },
    "answers": {
        "dimension": frozenset({"summarisation", "guessing"}),
        "sample": _SCORES,
        "role": frozenset(Role),
        "confidence": frozenset(range(6)),
    },
    "judgements": {
        "stage": frozenset({"first", "final"}),
        "intention": frozenset(BY_ID),
        "dimension": frozenset({"selection", "following"}),
        "kind": _KINDS,
        "think": _SCORES,
        "speak": _SCORES,
    },
    "statement_judgements": {"kind": _KINDS},
}
"""All that a column may hold, where that can be listed; by table."""

_REQUEST: Final = r"[0-9]{1,2}\.[0-9]{1,2}\.[a-z_]{1,20}\.[0-9]{1,2}"

_IDS: Final[Mapping[str, re.Pattern[str]]] = {
    "game_id": re.compile(r"[ge]_[a-z0-9]{1,38}"),  # a judge's calls stand under its evaluation
    "evaluation_id": re.compile(r"e_[a-z0-9]{1,38}"),
    "request_id": re.compile(_REQUEST),
    "step": re.compile(r"[a-z_]{1,40}"),
    "item_id": re.compile(rf"g_[a-z0-9]{{1,38}}/[a-z]{{1,16}}/{_REQUEST}/[a-z]{{1,8}}/(-|[0-9]{{1,2}})"),
}
"""What ids look like: nothing that a player says."""

_SAID: Final = frozenset({"answers", "judgements", "statement_judgements"})
"""Tables of which every id has its form."""


def check_row(table: Table, row: Mapping[Any, Any]) -> None:
    """Raises CorruptLog, which names row and column and quotes nothing, for a plain value of the wrong
    kind. JSON is not looked at: it reads as ``Damaged``.
    """
    for name, nullable, fits in _checks(table):
        value = row[name]
        if not (nullable if value is None else fits(value)):
            raise CorruptLog(f"{row_name(table, row, but=name)} does not read ({name})")


def is_readable(table: Table, row: Mapping[Any, Any]) -> bool:
    """Whether ``check_row`` has nothing to say of it."""
    try:
        check_row(table, row)
    except CorruptLog:
        return False
    return True


def is_whole(table: Table, row: Mapping[Any, Any]) -> bool:
    """Whether everything in it reads, its JSON too."""
    return is_readable(table, row) and not any(isinstance(value, Damaged) for value in row.values())


def row_name(table: Table, row: Mapping[Any, Any], *, but: str = "") -> str:
    """How the row is told from others, by the parts of its key that can be nothing but ids, numbers and words
    of ours. ``but``: the column that is damaged.
    """
    first = next(iter(table.primary_key)).name
    parts = [
        str(row[column.name])
        for column in table.primary_key
        if column.name != but and _tells(table, column.name, row[column.name], first=column.name == first)
    ]
    return f"the row {' '.join(parts) or 'without a name'} of {table.name}"


def _tells(table: Table, name: str, value: object, *, first: bool) -> bool:
    if name in _IDS:
        return type(value) is str and _IDS[name].fullmatch(value) is not None
    if name in _VALUES.get(table.name, {}):
        return _fits(_VALUES[table.name][name], value)
    if name == "caller":
        return False
    # Bytes that are no UTF-8 arrive as lone surrogates.
    return first and type(value) is str and value.isprintable()


def _fits(known: Collection[Any], value: object) -> bool:
    return type(value) in (int, str) and value in known


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
    if known := _VALUES.get(table, {}).get(name):
        return lambda value: _fits(known, value)
    if table in _SAID and (form := _IDS.get(name)):
        return lambda value: type(value) is str and form.fullmatch(value) is not None
    if name == "at" or name.endswith("_at"):
        return is_moment
    if isinstance(kind, Boolean | YesNo):
        return lambda value: type(value) is bool
    if isinstance(kind, Integer):
        return lambda value: type(value) is int
    if isinstance(kind, Float):
        return lambda value: type(value) in (int, float) and isfinite(value)
    return lambda value: type(value) is str and _is_utf8(value)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
