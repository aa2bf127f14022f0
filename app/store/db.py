"""Engines and the one writer.

SQLite takes one writer at a time, so everything that writes goes through one queue, and many games'
appends share a commit. PostgreSQL profits from the grouping as well; the code is the same.
"""

import asyncio
import os
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
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import asyncpg  # type: ignore[import-untyped]
import structlog
from sqlalchemy import Connection, Dialect, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InvalidatePoolError,
    ProgrammingError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry, NullPool, PoolProxiedConnection

from app.base.clock import now_ms
from app.settings import Settings

__all__ = ["Append", "Conflict", "Database", "Writer", "now_ms", "sqlite_exists"]

log = structlog.get_logger()

T = TypeVar("T")

GROUP: Final = 50
"""Appends that share a commit at most (RECIPES: 10 to 17 times more appends than one by one)."""

ASK_AFTER_S: Final = 30.0
"""A connection that lay idle for longer may be one that something on the way has forgotten."""

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
                self.url, pool_size=5, max_overflow=4, hide_parameters=True
            )
            _watch(self.write_engine.sync_engine)
            # A read is one statement as a rule: without a transaction it takes half the round trips.
            self.read_engine = self.write_engine.execution_options(isolation_level="AUTOCOMMIT")
        commits = _SqliteThread(self.url, settings) if self.is_sqlite else _PostgresLine(self.write_engine)
        self.writer = Writer(self.write_engine, commits)

    async def start(self) -> None:
        """Migrates to the newest schema and starts the writer. Safe when many start at once."""
        async with self.write_engine.begin() as connection:
            await connection.run_sync(_upgrade)
        self.writer.start()

    async def answers(self) -> bool:
        """Whether a query comes back."""
        try:
            async with self.read_engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except Exception:
            return False
        return True

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
        # A read is one statement as a rule, and each step goes to the connection's thread and back.
        skip_autocommit_rollback=not writes,
        isolation_level=None if writes else "AUTOCOMMIT",
    )
    _prepare(engine.sync_engine, settings, writes=writes)
    return engine


def _prepare(engine: Engine, settings: Settings, *, writes: bool) -> None:
    @event.listens_for(engine, "do_connect")
    def _before_connect(_dialect: Any, _record: Any, arguments: Sequence[Any], _options: Any) -> None:
        _create_private(str(arguments[0]))

    @event.listens_for(engine, "connect")
    def _on_connect(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # SQLAlchemy's own BEGIN below, not the driver's late one
        # The driver's fault over bytes that are no UTF-8 quotes the row, and ends every other one's reading.
        (raw.driver_connection if hasattr(raw, "driver_connection") else raw).text_factory = _text
        cursor = raw.cursor()
        cursor.execute("PRAGMA busy_timeout = 30000")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {'FULL' if settings.synchronous_full else 'NORMAL'}")
        cursor.execute("PRAGMA foreign_keys = ON")
        if not writes:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    if writes:

        @event.listens_for(engine, "begin")
        def _on_begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _create_private(database: str) -> None:
    """Creates the file that SQLite is about to open, unless it exists, for its owner alone: it holds roles,
    keys' hashes and the secret that tokens are signed with. SQLite gives ``-wal`` and ``-shm`` the same mode.
    """
    path = unquote(urlsplit(database).path) if database.startswith("file:") else database
    if path in ("", ":memory:"):
        return
    # An existing file is not even opened: closing it would drop the locks this process holds on it. What
    # forbids making one is SQLite's to report.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _watch(engine: Engine) -> None:
    """Hands out no connection that is known to be lost, and asks only those that were idle for long.

    SQLAlchemy's ``pool_pre_ping`` asks every time, which is three round trips before the one that counts;
    when a server goes, the socket's end tells.
    """

    @event.listens_for(engine, "checkin")
    def _on_checkin(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _on_checkout(raw: Any, record: ConnectionPoolEntry, _: Any) -> None:
        if raw.driver_connection.is_closed():
            raise InvalidatePoolError
        now = time.monotonic()
        if now - record.info.get("used", now) < ASK_AFTER_S:
            return
        try:
            engine.dialect.do_ping(raw)
        except engine.dialect.loaded_dbapi.Error as fault:
            raise InvalidatePoolError from fault


Statements = Sequence[tuple[Any, list[Any]]]
"""What is executed in one transaction: each statement with its parameter sets."""


class _Commits(Protocol):
    """What executes the writer's grouped commits, one after the other."""

    def start(self) -> None: ...

    async def commit(self, statements: Statements) -> None:
        """Returns when all of it is committed. Raises what the database raised, as SQLAlchemy tells it; then
        nothing of it is, unless the database went away over the commit itself.
        """

    async def stop(self) -> None: ...


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


class _Statements:
    """Statements that were met before, prepared."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}

    def prepare(self, statements: Statements) -> list[tuple[_Prepared, list[Any]]]:
        """Each with its parameter sets."""
        return [(self._one(statement, rows[0]), rows) for statement, rows in statements]

    def _one(self, statement: Any, row: Mapping[str, Any]) -> _Prepared:
        # Of an INSERT the columns are those of its rows.
        columns = tuple(row) if statement.is_insert else None
        key = (statement, columns)
        found = self._prepared.get(key)
        if found is None:
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            found = self._prepared[key] = _Prepared(statement, columns, self._dialect)
        return found


class _PostgresLine:
    """Commits to PostgreSQL over a connection of its own.

    SQLAlchemy compiles the statements, once, and the driver executes them: through SQLAlchemy each commit
    takes three times as long and four times the processor's time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._statements = _Statements(engine.dialect)
        self._connection: AsyncConnection | None = None
        self._driver: Any = None
        """What is below it: a connection of asyncpg's."""

    def start(self) -> None:
        """Nothing to do: the connection is made for the first commit."""

    async def commit(self, statements: Statements) -> None:
        prepared = self._statements.prepare(statements)
        driver = await self._connected()
        try:
            async with driver.transaction():
                for one, rows in prepared:
                    await driver.executemany(one.text, [one.values(row) for row in rows])
        except asyncpg.IntegrityConstraintViolationError as fault:
            raise _told(fault) from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            await self._drop()
            raise _told(fault) from None
        except BaseException:
            await self._drop()
            raise

    async def _connected(self) -> Any:
        if self._driver is not None and self._driver.is_closed():
            await self._drop()
        if self._connection is None:
            self._connection = await self._engine.connect()
        if self._driver is None:
            self._driver = (await self._connection.get_raw_connection()).driver_connection
        return self._driver

    async def _drop(self) -> None:
        """Gives up the connection, whatever state it is in."""
        connection, driver = self._connection, self._driver
        self._connection = self._driver = None
        if driver is not None:
            driver.terminate()  # a goodbye may be as impossible as what was tried
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def stop(self) -> None:
        connection, self._connection, self._driver = self._connection, None, None
        if connection is not None:
            await connection.close()


_TOLD: Final[tuple[tuple[type[Exception], type[DBAPIError]], ...]] = (
    (asyncpg.IntegrityConstraintViolationError, IntegrityError),
    (asyncpg.DataError, DataError),
    (asyncpg.SyntaxOrAccessError, ProgrammingError),
    (asyncpg.InterfaceError, InterfaceError),
)


def _told(fault: Exception) -> DBAPIError:
    """The fault of PostgreSQL's driver as SQLAlchemy tells it, without what was to be written: the server's
    details quote rows, and the driver's word on a value of the wrong kind quotes that.
    """
    said = ("a value does not fit its column",) if isinstance(fault, asyncpg.DataError) else fault.args[:1]
    kind = next((ours for theirs, ours in _TOLD if isinstance(fault, theirs)), DBAPIError)
    return kind(None, None, type(fault)(*said), hide_parameters=True)


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
        self._statements = _Statements(self._engine.dialect)
        # An executor's futures, one of each kind a commit, cost as much again as handing over does.
        self._waiting: SimpleQueue[tuple[Statements, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sqlite commits", daemon=True)
        self._thread.start()

    async def commit(self, statements: Statements) -> None:
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
        prepared = self._statements.prepare(statements)
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

    def __init__(self, engine: AsyncEngine, commits: _Commits) -> None:
        self._engine = engine
        self._commits = commits
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
            self._commits.start()
            self._task = asyncio.create_task(self._run(), name="writer")

    async def stop(self) -> None:
        """Returns when everything that was handed in before has been committed."""
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task
            self._task = None
            await self._commits.stop()

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
        await self._commits.commit(list(together.values()))
        return at


def _settle(done: "asyncio.Future[T]", result: T) -> None:
    if not done.done():  # its waiter may have been cancelled; the commit stands all the same
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", fault: Exception) -> None:
    if not done.done():
        done.set_exception(fault)
