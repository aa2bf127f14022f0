"""Rows for every table, made from the kinds of its columns, and damage that each column can bear."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer, NullPool, Table, text
from sqlalchemy.ext.asyncio import create_async_engine

from app.store.rows import METADATA, BooleanColumn, JsonColumn

__all__ = ["TABLES", "add", "add_damaged", "damaging", "row"]

TABLES = [table for table in METADATA.sorted_tables if table.name not in ("games", "events", "batches")]
"""All but those that a game of its own makes."""

_IDS = {
    "game_id": "g_{}",
    "evaluation_id": "e_{}",
    "set_id": "s_{}",
    "entry_id": "r_{}",
    "bot_id": "p_{}",
    "seek_id": "s_{}",
    "pool": "interintent/{}/normal/casual",
    "token_id": "t_{}",
    "request_id": "1.1.vote.{}",
    "item_id": "g_0/guessing/1.1.speak.{}/mixed/-",
}
"""The forms of ids that are checked."""


_JSON = {"variant": {"options": "impactful", "history": "all", "unmapped": "count"}}
"""Where an empty list or object would not do."""


def row(table: Table, number: int, **given: Any) -> dict[str, Any]:
    """A row that can be read, by column; other numbers have other keys. ``given``: values of columns."""
    return {column.name: _value(column, number) for column in table.columns} | {
        name: value for name, value in given.items() if name in {column.name for column in table.columns}
    }


def _value(column: Column[Any], number: int) -> Any:
    if column.foreign_keys:
        number = 0
    if isinstance(column.type, JsonColumn):
        return _JSON.get(column.name) or column.type.kind()
    if isinstance(column.type, Boolean | BooleanColumn):
        return False
    if values := column.info.get("values"):
        return sorted(values)[0]
    if isinstance(column.type, Float):
        return 0.5
    if isinstance(column.type, Integer):
        # The service numbers some rows itself, from 1.
        return number + (1000 if column.name == "number" else 1)
    return _IDS.get(column.name, "x{}").format(number)


async def add(url: str, rows: list[tuple[Table, dict[str, Any]]]) -> None:
    """Inserts the rows in this order."""
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        for table, values in rows:
            keyed = {column.key: values[column.name] for column in table.columns}
            await connection.execute(table.insert(), [keyed])


def damaging(url: str, table: Table) -> Iterator[tuple[str, str]]:
    """The columns that can hold what cannot be read, and SQL for such a value. PostgreSQL keeps most kinds
    apart by itself.
    """
    sqlite = url.startswith("sqlite")
    [*keys] = table.primary_key
    for column in table.columns:
        if isinstance(column.type, JsonColumn):
            yield column.name, "'no json'" if sqlite else "'7'"
        elif column.foreign_keys or (
            len(keys) == 1 and column is keys[0] and isinstance(column.type, Integer)
        ):
            continue  # SQLite takes nothing but integers for such a key, too
        elif sqlite:
            yield column.name, "x'ff'"
        elif column.name == "at" or column.name.endswith("_at"):
            yield column.name, str(9 * 10**18)
        elif column.info.get("values") and not isinstance(column.type, Integer):
            yield column.name, "'odd'"


async def add_damaged(url: str) -> Counter[str]:
    """Adds to each table one row that can be read, and for each of its columns one in which that column
    cannot. Returns how many damaged ones each table has.
    """
    damaged: Counter[str] = Counter()
    engine = create_async_engine(url, poolclass=NullPool)
    for table in TABLES:
        columns = list(damaging(url, table))
        rows = [row(table, number) for number in range(len(columns) + 1)]
        await add(url, [(table, one) for one in rows])
        async with engine.begin() as connection:
            for (name, value), one in zip(columns, rows[1:], strict=True):
                this = {key.name: one[key.name] for key in table.primary_key}
                where = " AND ".join(f'"{key}" = :{key}' for key in this)
                await connection.execute(
                    text(f'UPDATE "{table.name}" SET "{name}" = {value} WHERE {where}'), this
                )
        if columns:
            damaged[table.name] = len(columns)
    return damaged
