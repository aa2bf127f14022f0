"""Examines a whole database: the file, the schema, every log, every row, and references between rows."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Table, delete, func, inspect, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.base.off_loop import off_loop
from app.store.audit import Audit, Doer
from app.store.db import Database
from app.store.deleting import OF_GAMES
from app.store.games import OPEN, GameStore, laid_of
from app.store.log import LogReader
from app.store.rows import METADATA, Damaged, GameRow, has_form, is_whole, row_name
from app.store.schema import BY_HAND, ChangedByHand, UnknownSchema
from app.store.seeks import LOBBY
from app.store.sqlite import faults_of_file, is_damage, sqlite_file
from app.store.tables import (
    batches,
    evaluations,
    events,
    games,
    holders,
    model_calls,
    model_spending,
    open_games,
)
from engine.errors import UNREADABLE, CorruptLog
from engine.events import Event, GameCancelled, GameCreated, GameEnded
from engine.state import fold
from evaluators.measures.defaults import DecisionCounter

__all__ = ["DatabaseFinding", "examine"]

_PAGE: Final = 200
"""Rows that are read at a time."""

_NAMED: Final = 20
"""The most orphans of one table that are named."""

_FROM_BACKUP: Final = "restore it from a backup (interintent restore into a database of its own, then export)"
_OF_FILE: Final = (
    "stop the service, keep a copy of the file, and restore a backup; without one, export the batches "
    "(interintent export b_… --partial leaves out and names the games that cannot be read), and begin with a "
    "new file"
)
_BY_MEND: Final = "interintent doctor --mend rewrites it from the log"


@dataclass(frozen=True, slots=True)
class DatabaseFinding:
    """Something that is wrong."""

    kind: str
    """file, schema, row, log, index, orphan or batch."""
    where: str
    """The game, batch or row that it is about."""
    what: str
    todo: str
    """What to do about it."""
    mended: bool = False


Tell = Callable[[int, int], None]
"""Takes how many games have been examined, and how many there are."""


async def examine(
    database: Database, tell: Tell, *, mend: Doer | None = None
) -> AsyncIterator[DatabaseFinding]:
    """Everything that is wrong. A service may run meanwhile. ``mend``: who has what follows from the logs
    rewritten, and rows deleted that belong to nothing; in a damaged file nothing is changed. None: nobody.

    In a damaged file it examines everything that can be read, except references between rows: a row may only
    seem to be missing.
    """
    damage = await _of_file(database)
    for finding in damage:
        yield finding
    mend = None if damage else mend
    try:
        state = await database.schema()
    except ChangedByHand:
        for finding in await _of_schema(database):
            yield finding
        return
    except UnknownSchema as fault:
        yield DatabaseFinding("schema", "the database", str(fault), "run the release that migrated it")
        return
    except DBAPIError:
        if damage:
            return  # nothing else can be read
        raise
    if state.behind:
        what = f"its schema is {state.found or 'missing'}, the newest is {state.newest}"
        yield DatabaseFinding("schema", "the database", what, "interintent migrate")
        return
    if changed := await _of_schema(database):
        for finding in changed:
            yield finding
        return  # what is looked at below may be missing
    async for finding in _readable("games", _of_games(database, tell, mend=mend)):
        yield finding
    for table in METADATA.sorted_tables:
        if table not in (events, games):  # logs and games are examined as a whole
            async for finding in _readable(str(table.name), _of_rows(database, table)):
                yield finding
    if damage:
        return
    for finding in [*await _of_batches(database), *await _of_keys(database)]:
        yield finding
    async for finding in _orphans(database, mend=mend):
        yield finding


async def _of_file(database: Database) -> list[DatabaseFinding]:
    if not database.is_sqlite:
        return []  # PostgreSQL checks its own pages

    def look() -> list[str]:
        with closing(sqlite3.connect(sqlite_file(database.url))) as connection:
            return faults_of_file(connection, "integrity_check")

    return [DatabaseFinding("file", "the file", words, _OF_FILE) for words in await asyncio.to_thread(look)]


async def _readable(where: str, findings: AsyncIterator[DatabaseFinding]) -> AsyncIterator[DatabaseFinding]:
    """The findings, up to where the file is damaged."""
    try:
        async for finding in findings:
            yield finding
    except DBAPIError as fault:
        if not is_damage(fault):
            raise
        what = "from some row on it cannot be read, and was not examined: the file is damaged there"
        yield DatabaseFinding("file", where, what, _OF_FILE)


async def _of_keys(database: Database) -> list[DatabaseFinding]:
    if not database.is_sqlite:
        return []  # PostgreSQL allows none
    return [
        DatabaseFinding(
            "orphan", str(table), f"a row of {table} names a row of {parent} that is not there", _FROM_BACKUP
        )
        for table, _, parent, _ in (await database.rows(text("PRAGMA foreign_key_check")))[:_NAMED]
    ]


async def _of_schema(database: Database) -> list[DatabaseFinding]:
    async with database.read_engine.connect() as connection:
        found = await connection.run_sync(
            lambda sync: {
                name: {column["name"] for column in inspect(sync).get_columns(name)}
                for name in inspect(sync).get_table_names()
            }
        )
    missing = []
    for table in METADATA.sorted_tables:
        if table.name not in found:
            missing.append(DatabaseFinding("schema", table.name, "the table is missing", BY_HAND))
        else:
            missing += [
                DatabaseFinding("schema", table.name, f"the column {column.name} is missing", BY_HAND)
                for column in table.columns
                if column.name not in found[table.name]
            ]
    return missing


# --- games --------------------------------------------------------------------------------------


async def _of_games(database: Database, tell: Tell, *, mend: Doer | None) -> AsyncIterator[DatabaseFinding]:
    store, reader = GameStore(database), LogReader(database)
    ids: list[Any] = []
    damage: DBAPIError | None = None
    async with _in_pieces(database).connect() as connection:
        try:
            query = select(games.c.game_id).order_by(games.c.game_id).execution_options(yield_per=_PAGE)
            async for game_id in (await connection.stream(query)).scalars():
                ids.append(game_id)
        except DBAPIError as fault:  # the games before the damage are examined
            damage = fault
    for done, game_id in enumerate(ids, 1):
        if not has_form("game_id", game_id):
            named = row_name(games, {"game_id": game_id})
            yield DatabaseFinding("row", named, "its id cannot be read", _FROM_BACKUP)
        else:
            for finding in await _of_game(database, store, reader, game_id, mend=mend):
                yield finding
        tell(done, len(ids))
    if damage is not None:
        raise damage


async def _of_game(
    database: Database, store: GameStore, reader: LogReader, game_id: str, *, mend: Doer | None
) -> list[DatabaseFinding]:
    found: list[DatabaseFinding] = []
    end: dict[str, Any] = {}
    head = 0
    # A game that goes on between two reads looks wrong once, and not twice.
    for _ in range(3):
        try:
            row = await store.game(game_id)
            if row is None:
                return []  # it was deleted meanwhile
            head, log = await reader.counted(game_id)
            # Of a game that is not over, either number may be the wrong one: its last events may be lost.
            if head != len(log) and not isinstance(log[-1], GameEnded | GameCancelled):
                raise CorruptLog(f"its log has {len(log)} events, and its row counts {head}")
        except DBAPIError as fault:
            if not is_damage(fault):
                raise
            what = "its rows cannot be read: the file is damaged there"
            return [DatabaseFinding("log", game_id, what, _FROM_BACKUP)]
        except CorruptLog as fault:
            found = [DatabaseFinding("log", game_id, str(fault), _advice(game_id))]
            continue
        if damaged := _damaged(row):
            what = f"what its row has as {', '.join(damaged)} cannot be read"
            found = [DatabaseFinding("row", game_id, what, _advice(game_id))]
            continue
        try:
            end, wrong = await off_loop(_compared, row, log)
        except UNREADABLE as fault:
            what = f"its log cannot be played through: {type(fault).__name__}"
            found = [DatabaseFinding("log", game_id, what, _advice(game_id))]
            continue
        if not wrong:
            return []
        found = [
            DatabaseFinding(
                "index",
                game_id,
                f"{name} is {row_has!r}, the log says {log_has!r}",
                _BY_MEND,
                mend is not None,
            )
            for name, (row_has, log_has) in wrong.items()
        ]
    if mend is not None and found and found[0].kind == "index":
        rewrite = update(games).where(games.c.game_id == game_id, games.c.head == head).values(**end)
        async with Audit(database).noted(mend, "mend", game_id):
            await database.writer.execute(rewrite)
    return found


def _advice(game_id: str) -> str:
    return f"{_FROM_BACKUP}; or delete it (DELETE /games/{game_id}) once its batch is over"


def _damaged(row: GameRow) -> list[str]:
    """The columns that cannot be read, but for those that the log repeats."""
    return [name for name in row.__slots__ if name != "defaults" and isinstance(getattr(row, name), Damaged)]


def _compared(row: GameRow, log: Sequence[Event]) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]]]:
    """The index columns as the log has them, and those that the row has otherwise, with both values."""
    fold(log)
    first, last = log[0], log[-1]
    assert isinstance(first, GameCreated)
    says: dict[str, Any] = {"profile": first.profile.name, "players": first.profile.players}
    if isinstance(last, GameEnded):
        says |= {"status": "finished", "winner": last.winner.value, "ending": last.ending.value}
    elif isinstance(last, GameCancelled):
        says |= {"status": "cancelled", "winner": None, "ending": None}
    else:
        going_on = row.status in (*OPEN, "failed")
        says |= {"status": row.status if going_on else "running", "winner": None, "ending": None}
    over = isinstance(last, GameEnded | GameCancelled)
    if over:
        says["head"] = len(log)
    if over and row.defaults is not None:
        says["defaults"] = DecisionCounter(log).as_json()
    has = {name: getattr(row, name) for name in says}
    if isinstance(has.get("defaults"), Damaged):
        has["defaults"] = "damaged"
    return says, {name: (has[name], says[name]) for name in says if has[name] != says[name]}


# --- rows, batches, orphans ---------------------------------------------------------------------


def _in_pieces(database: Database) -> AsyncEngine:
    """The engine that reads long results."""
    # PostgreSQL reads in pieces only in a transaction, and SQLite's writer would hold up the service.
    return database.read_engine if database.is_sqlite else database.write_engine


async def _of_rows(database: Database, table: Table) -> AsyncIterator[DatabaseFinding]:
    """Rows of the table that cannot be read."""
    async with _in_pieces(database).connect() as connection:
        rows = await connection.stream(select(table).execution_options(yield_per=_PAGE))
        async for row in rows.mappings():
            if not is_whole(table, row):
                yield DatabaseFinding("row", row_name(table, row), "it cannot be read", _FROM_BACKUP)


async def _of_batches(database: Database) -> list[DatabaseFinding]:
    last = func.max(games.c.position).label("last")
    laid = select(games.c.batch_id, func.count().label("n"), last).group_by(games.c.batch_id).subquery()
    query = (
        select(batches.c.batch_id, batches.c.count, batches.c.spec, laid.c.n, laid.c.last)
        .join(laid, laid.c.batch_id == batches.c.batch_id)
        .where(laid.c.n != batches.c.count)
    )
    return [
        DatabaseFinding("batch", batch_id, f"it has {n} games and says {count}", _FROM_BACKUP)
        for batch_id, count, spec, n, last in await database.rows(query)
        if type(count) is int and laid_of(n, last) >= min(count, _asked(spec))
    ]


def _asked(spec: object) -> float:
    """How many games a batch is given by its request; more come only by trying again."""
    if not isinstance(spec, Mapping) or spec.get("origin") == "import":
        return math.inf
    asked = spec.get("count", 1)
    return asked if type(asked) is int else math.inf


async def _orphans(database: Database, *, mend: Doer | None) -> AsyncIterator[DatabaseFinding]:
    todo = "interintent doctor --mend deletes them; a backup may have their game"
    # Damage may have changed a game's id: then what is stored under the old one is all that there is of it.
    log = select(events.c.game_id).where(events.c.game_id == games.c.game_id)
    if await database.rows(select(games.c.game_id).where(~log.exists()).limit(1)):
        mend, todo = None, "a game has lost its log, and this may be it: " + _FROM_BACKUP
    for table in OF_GAMES:
        column = table.c.game_id
        # A seek that waits, and a token of a whole batch, name no game.
        alone = [column.is_not(None), ~select(games.c.game_id).where(games.c.game_id == column).exists()]
        if table in (model_calls, model_spending):  # of a game, or of a judge
            c = evaluations.c
            alone.append(~select(c.evaluation_id).where(c.evaluation_id == column).exists())
        if table is open_games:  # the others have not become games
            alone.append(open_games.c.status == "begun")
        if table is holders:  # of a game, or of a bot's own socket
            alone.append(~column.startswith(LOBBY, autoescape=True))
        query = select(column, func.count()).where(*alone).group_by(column).order_by(column)
        rows = await database.rows(query)
        found: Mapping[str, int] = {one: count for one, count in rows if has_form("game_id", one)}
        if unnamed := sum(count for one, count in rows if not has_form("game_id", one)):
            what = f"{unnamed} rows of {table.name} are of games whose ids cannot be read"
            yield DatabaseFinding("orphan", str(table.name), what, _FROM_BACKUP)
        for game_id, count in list(found.items())[:_NAMED]:
            what = f"{count} rows of {table.name} are of a game that is not there"
            yield DatabaseFinding("orphan", game_id, what, todo, mend is not None)
        if len(found) > _NAMED:
            what = f"{len(found) - _NAMED} more games have rows in {table.name} alone"
            yield DatabaseFinding("orphan", str(table.name), what, todo, mend is not None)
        if mend is not None and found:
            async with Audit(database).noted(mend, "mend", table.name, games=len(found)):
                await database.writer.run(_deletes(table, list(found)))


def _deletes(table: Table, game_ids: Sequence[str]) -> Callable[[AsyncConnection], Any]:
    async def work(connection: AsyncConnection) -> None:
        for first in range(0, len(game_ids), _PAGE):
            some = game_ids[first : first + _PAGE]
            await connection.execute(delete(table).where(table.c.game_id.in_(some)))

    return work
