"""Engines and the one writer.

SQLite takes one writer at a time, so everything that writes goes through one queue, and many games'
appends share a commit. PostgreSQL profits from the grouping as well; the code is the same.
"""

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool, PoolProxiedConnection

from app.outside import now_ms
from app.settings import Settings

__all__ = ["Append", "Conflict", "Database", "Writer", "now_ms", "sqlite_exists"]

log = structlog.get_logger()

T = TypeVar("T")

GROUP: Final = 50
"""Appends that share a commit at most (RECIPES: 10 to 17 times more appends than one by one)."""

PREPARED: Final = 100
"""Statements that are kept compiled. There are a handful, and each is the same object at every commit."""

MIGRATION_LOCK: Final = 4_931_007_221
"""The advisory lock under which replicas that start together migrate one after the other."""


def sqlite_exists(url: str) -> bool:
    """Whether the file that an SQLite URL names is there."""
    file = make_url(url).database
    return bool(file) and Path(str(file)).exists()


class Conflict(Exception):
    """Somebody else has written there: this writer's picture of the game is old."""


class Append:
    """One game's step, waiting for its commit: what to write, given the commit time."""

    __slots__ = ("done", "write")

    def __init__(self, write: Callable[[int], Sequence[tuple[Any, Any]]], done: asyncio.Future[int]) -> None:
        self.write = write
        """Commit time → (statement, list of parameter sets), in order. Equal statements of a group
        are executed together, so they must be the same object."""
        self.done = done


class Database:
    """The engines of one service: one to write with, one to read with."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.database_url
        self.is_sqlite = self.url.startswith("sqlite")
        if self.is_sqlite:
            self.write_engine = _sqlite_engine(self.url, settings, writes=True)
            self.read_engine = _sqlite_engine(self.url, settings, writes=False)
        else:
            self.write_engine = create_async_engine(
                self.url, pool_size=4, max_overflow=4, pool_pre_ping=True, hide_parameters=True
            )
            # A read is one statement as a rule: without a transaction it takes half the round trips.
            self.read_engine = self.write_engine.execution_options(isolation_level="AUTOCOMMIT")
        thread = _SqliteThread(self.url, settings) if self.is_sqlite else None
        self.writer = Writer(self.write_engine, thread)

    async def start(self) -> None:
        """Migrates to the newest schema and starts the writer. Safe when many start at once."""
        async with self.write_engine.begin() as connection:
            await connection.run_sync(_upgrade)
        self.writer.start()

    async def stop(self) -> None:
        """Commits what waits, then closes every connection."""
        await self.writer.stop()
        await self.write_engine.dispose()
        await self.read_engine.dispose()


def _sqlite_engine(url: str, settings: Settings, *, writes: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=1 if writes else 4,
        max_overflow=0,
        hide_parameters=True,  # what players say and hold has no place in an error's text
    )
    _prepare(engine.sync_engine, settings, writes=writes)
    return engine


def _prepare(engine: Engine, settings: Settings, *, writes: bool) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # SQLAlchemy's own BEGIN below, not the driver's late one
        cursor = raw.cursor()
        cursor.execute("PRAGMA busy_timeout = 30000")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {'FULL' if settings.synchronous_full else 'NORMAL'}")
        cursor.execute("PRAGMA foreign_keys = ON")
        if not writes:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


Statements = Sequence[tuple[Any, list[Any]]]
"""What is executed in one transaction: each statement with its parameter sets."""


class _Prepared:
    """A statement as the driver takes it: its text, and its values in order of their places."""

    __slots__ = ("_fixed", "_places", "text", "values")

    def __init__(self, statement: Any, columns: Sequence[str] | None, dialect: Any) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        if compiled.prefetch:
            raise TypeError(f"a default of our own cannot be filled in here: {compiled}")
        self.text = str(compiled)
        self._fixed: Mapping[str, Any] = compiled.params
        self._places: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        self.values: Callable[[Mapping[str, Any]], Sequence[Any]] = self._values
        """Of one set of parameters."""
        names = [name for name, _ in self._places]
        plain = len(names) > 1 and not any(one for _, one in self._places)
        if plain and columns is not None and set(names) <= set(columns):
            self.values = itemgetter(*names)

    def _values(self, row: Mapping[str, Any]) -> Sequence[Any]:
        found = [(row[name] if name in row else self._fixed[name], one) for name, one in self._places]
        return [value if one is None else one(value) for value, one in found]


class _SqliteThread:
    """Commits to an SQLite file on a thread of its own, a whole transaction at a time.

    The asyncio driver goes to and fro between its thread and the loop for every statement, which takes longer
    than the commit; and this thread shares the interpreter with the loop, so what SQLAlchemy does at every
    execution counts twice. It compiles the statements, once; the driver executes them.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        file = make_url(url).set(drivername="sqlite+pysqlite")
        self._engine = create_engine(file, poolclass=NullPool, hide_parameters=True)
        _prepare(self._engine, settings, writes=True)
        self._connection: PoolProxiedConnection | None = None
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        # An executor's futures, one of each kind a commit, cost as much again as handing over does.
        self._waiting: SimpleQueue[tuple[Statements, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sqlite commits", daemon=True)
        self._thread.start()

    async def commit(self, statements: Statements) -> None:
        """Returns when all of it is committed. Raises what the database raised; then nothing of it is."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put((statements, done))
        await done

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            statements, done = job
            tell: tuple[Any, ...] = (_settle, done, None)
            try:
                self._commit(statements)
            except Exception as fault:
                tell = (_fail, done, fault)
            # A loop that has been closed meanwhile waits for nothing.
            with suppress(RuntimeError):
                done.get_loop().call_soon_threadsafe(*tell)
        self._close()

    def _commit(self, statements: Statements) -> None:
        prepared = [(self._prepare(statement, rows[0]), rows) for statement, rows in statements]
        if self._connection is None:
            self._connection = self._engine.raw_connection()
        driver: Any = self._connection.driver_connection
        try:
            driver.execute("BEGIN IMMEDIATE")
            for one, rows in prepared:
                driver.executemany(one.text, map(one.values, rows))
            driver.execute("COMMIT")
        except sqlite3.IntegrityError as fault:
            driver.rollback()
            raise self._told(fault) from fault
        except sqlite3.Error as fault:
            self._close()
            raise self._told(fault) from fault
        except BaseException:
            self._close()
            raise

    def _prepare(self, statement: Any, row: Mapping[str, Any]) -> _Prepared:
        # Of an INSERT the columns are those of its rows.
        columns = tuple(row) if statement.is_insert else None
        key = (statement, columns)
        found = self._prepared.get(key)
        if found is None:
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            found = self._prepared[key] = _Prepared(statement, columns, self._engine.dialect)
        return found

    def _told(self, fault: sqlite3.Error) -> BaseException:
        """The fault as SQLAlchemy tells it, without what was to be written."""
        return DBAPIError.instance(
            None, None, fault, sqlite3.Error, hide_parameters=True, dialect=self._engine.dialect
        )

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def stop(self) -> None:
        """Returns when what waited is committed and the file is closed."""
        if self._thread is not None:
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None


def _newest() -> str:
    """The revision that no other builds on, as the migrations' files name them.

    Read from their text: whoever finds nothing to migrate needs no Alembic, whose import takes longer
    than the rest of the start.
    """
    revisions: set[str] = set()
    below: set[str] = set()
    for file in Path(str(files("migrations") / "versions")).glob("*.py"):
        for name, revision in _REVISION.findall(file.read_text("utf-8")):
            (below if name == "down_revision" else revisions).add(revision)
    (newest,) = revisions - below
    return newest


_REVISION: Final = re.compile(r"^(revision|down_revision) = \"(\w+)\"", re.MULTILINE)


def _is_newest(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return list(found) == [_newest()]


def _upgrade(connection: Connection) -> None:
    if _is_newest(connection):
        return
    from alembic import command
    from alembic.config import Config

    if connection.dialect.name == "postgresql":
        # Held to the end of the transaction: the others wait, then find nothing to do.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


class Writer:
    """Takes appends and other writing, one transaction after the other, in order of arrival."""

    def __init__(self, engine: AsyncEngine, thread: _SqliteThread | None = None) -> None:
        self._engine = engine
        self._thread = thread
        self._queue: asyncio.Queue[Append | Callable[[AsyncConnection], Awaitable[None]] | None] = (
            asyncio.Queue()
        )
        self._task: asyncio.Task[None] | None = None
        self._last_ms = 0
        self.on_commit: Callable[[float, int], None] = lambda seconds, appends: None
        """Told after each grouped commit: seconds it took, appends it held."""

    def start(self) -> None:
        """Once; when it runs already, nothing happens."""
        if self._task is None:
            if self._thread is not None:
                self._thread.start()
            self._task = asyncio.create_task(self._run(), name="writer")

    async def stop(self) -> None:
        """Returns when everything that was handed in before has been committed."""
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task
            self._task = None
            if self._thread is not None:
                await self._thread.stop()

    async def append(self, write: Callable[[int], Sequence[tuple[Any, Any]]]) -> int:
        """Commits one append, perhaps with others', and returns the commit time in ms.

        Raises Conflict when its rows are there already; then nothing of it was written.
        """
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Append(write, done))
        return await done

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs ``work`` in a transaction of its own and returns what it returned.

        Raises what it raised; then nothing of it was written.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def job(connection: AsyncConnection) -> None:
            result = await work(connection)
            await connection.commit()
            _settle(done, result)

        async def guarded(connection: AsyncConnection) -> None:
            try:
                await job(connection)
            except Exception as fault:
                _fail(done, fault)
                await connection.rollback()

        self._queue.put_nowait(guarded)
        return await done

    def stamp(self) -> int:
        """Now, in ms, and never earlier than the last one."""
        # A log's times must not run against its order when the clock is set.
        self._last_ms = max(self._last_ms, now_ms())
        return self._last_ms

    async def _run(self) -> None:
        stopping = False
        while not stopping:
            waiting = [await self._queue.get()]
            # One turn of the loop lets every game that is ready hand in its step.
            await asyncio.sleep(0)
            while not self._queue.empty() and len(waiting) < GROUP:
                waiting.append(self._queue.get_nowait())
            group: list[Append] = []
            for one in waiting:
                if isinstance(one, Append):
                    group.append(one)
                    continue
                # Order of arrival counts: what came before is committed before.
                await self._commit(group)
                group = []
                if one is None:
                    stopping = True
                else:
                    await self._alone(one)
            await self._commit(group)

    async def _alone(self, work: Callable[[AsyncConnection], Awaitable[None]]) -> None:
        try:
            async with self._engine.connect() as connection:
                await work(connection)
        except Exception:
            # The work has told its caller; what is left is a connection that could not be returned.
            log.exception("a write's connection broke")

    async def _commit(self, group: Sequence[Append]) -> None:
        if not group:
            return
        started = time.perf_counter()
        try:
            at = await self._write(group)
        except IntegrityError:
            if len(group) == 1:
                _fail(group[0].done, Conflict("somebody else has written there"))
                return
            # One stale game must not cost the others their step.
            for one in group:
                await self._commit([one])
            return
        except Exception as fault:
            for one in group:
                _fail(one.done, fault)
            return
        for one in group:
            _settle(one.done, at)
        self.on_commit(time.perf_counter() - started, len(group))

    async def _write(self, group: Sequence[Append]) -> int:
        at = self.stamp()
        together: dict[int, tuple[Any, list[Any]]] = {}
        for one in group:
            for statement, rows in one.write(at):
                together.setdefault(id(statement), (statement, []))[1].extend(rows)
        if self._thread is not None:
            await self._thread.commit(list(together.values()))
            return at
        async with self._engine.begin() as connection:
            for statement, rows in together.values():
                await connection.execute(statement, rows)
        return at


def _settle(done: "asyncio.Future[T]", result: T) -> None:
    if not done.done():  # its waiter may have been cancelled; the commit stands all the same
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", fault: Exception) -> None:
    if not done.done():
        done.set_exception(fault)
