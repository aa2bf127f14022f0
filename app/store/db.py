"""Database engines, and the one writer.

SQLite takes one writer at a time, so all writing goes through one queue, and the appends of many games
share a commit. PostgreSQL gains from the grouping too; the code is the same.
"""

import asyncio
import math
import os
import random
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import asyncpg  # type: ignore[import-untyped]
import structlog
from sqlalchemy import (
    Connection,
    Dialect,
    Engine,
    Executable,
    RowMapping,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InvalidatePoolError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import (
    AsyncAdaptedQueuePool,
    ConnectionPoolEntry,
    NullPool,
    PoolProxiedConnection,
    QueuePool,
)
from sqlalchemy.util import await_only

from app.base import metrics
from app.base.clock import agree, now_ms
from app.base.tasks import end_tasks, keep_going
from app.settings import Settings
from app.store.schema import SchemaState, UnknownSchema, migrate, schema_state
from app.store.trouble import DatabaseAway, DatabaseHealth, DatabaseTrouble, trouble_of

__all__ = [
    "PASSING",
    "Append",
    "Conflict",
    "Database",
    "Unfounded",
    "Write",
    "Writer",
    "answering",
    "is_ours",
    "postgres_engine",
    "sqlite_exists",
]

log = structlog.get_logger()

T = TypeVar("T")

GROUP: Final = 50
"""The most appends that share a commit (RECIPES: 10 to 17 times more appends than one by one)."""

ASK_AFTER_S: Final = 30.0
"""A connection that was idle for more seconds than this is tested, since it may be dead without our knowing.
"""

CONNECTS_WITHIN_S: Final = 1.0
"""Seconds that a cancelled task still waits for the connection to PostgreSQL that it was opening."""

FROZEN_S: Final = 30
"""Seconds after which PostgreSQL ends a transaction whose process stands still: others wait for its locks."""

MIGRATION_TRIES: Final = 10
"""How often a migration is tried on PostgreSQL that waits for a lock in vain, or in a circle with others."""

AGAIN_S: Final = 0.5
"""Seconds until then, on average."""

LOCK_WITHIN_S: Final = 10
"""Seconds that a write waits for a lock of somebody else's, before it fails with words that say so."""

COMMIT_WITHIN_S: Final = 30.0
"""Seconds after which a commit, or a small question, without an answer from PostgreSQL counts as failed."""

WORK_WITHIN_S: Final = 60.0
"""The same for a query, and for other work in a transaction."""

CLOSES_WITHIN_S: Final = 2.0
"""Seconds that PostgreSQL may take to say farewell."""

UNHEARD_S: Final = 20
"""Seconds after which the kernel drops a connection to PostgreSQL whose other side acknowledges nothing."""

PROBE_S: Final = 1.0
"""Seconds between two tries whether a database that did not work works again."""

LOOK_S: Final = 30.0
"""Seconds between two looks whether a newer release has taken the schema away."""

ANSWER_WITHIN_S: Final = 2.0
"""Seconds within which a healthy database answers the smallest question."""

CONNECT_WITHIN_S: Final = 10.0
"""Seconds that opening a connection to PostgreSQL may take."""

READERS: Final = 4
"""The most queries that an SQLite file answers at a time."""

PREPARED: Final = 100
"""The most compiled statements to keep. There are a handful, each the same object at every commit."""


def sqlite_exists(url: str) -> bool:
    """Whether the file that an SQLite URL names exists."""
    file = make_url(url).database
    return bool(file) and Path(str(file)).exists()


PASSING: Final = (
    DBAPIError,
    PoolTimeout,
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Errors of a database that is restarting, or cannot be reached for a while; they come in many forms."""


def is_ours(fault: Exception) -> bool:
    """Whether the fault is ours, so that trying again is useless."""
    return isinstance(fault, IntegrityError | DataError | ProgrammingError | NotSupportedError)


@asynccontextmanager
async def answering(within_s: float | None = None) -> AsyncIterator[None]:
    """Raises DatabaseAway if the block, which asks PostgreSQL, takes longer than this many seconds
    (COMMIT_WITHIN_S): its connection may swallow everything, and say nothing for ever.
    """
    try:
        async with asyncio.timeout(COMMIT_WITHIN_S if within_s is None else within_s):
            yield
    except TimeoutError as fault:
        raise DatabaseAway("no answer in time") from fault


class Conflict(Exception):
    """Another writer was first: this writer's view of the game is out of date."""


class Unfounded(Conflict):
    """An append that this one builds on was not committed."""


Write = Callable[[int], Sequence[tuple[Any, Any]]]
"""Commit time → (statement, list of parameter sets), in order. Equal statements of a group are executed
together, so they must be the same object.
"""


class Append:
    """Rows of one game that are committed together, and the outcome of that commit."""

    __slots__ = ("after", "done", "failed", "write")

    def __init__(self, write: Write, after: Sequence["Append"] = ()) -> None:
        self.write = write
        self.after = after
        """Earlier appends. If one of them fails, this one fails, too."""
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Gives the commit time in ms, or raises why nothing was written."""
        self.failed = False

    def fail(self, fault: Exception) -> None:
        self.failed = True
        _fail(self.done, fault)


class _Alone:
    """Work in a transaction of its own, and its outcome."""

    __slots__ = ("done", "work")

    def __init__(self, work: Callable[[AsyncConnection], Awaitable[Any]]) -> None:
        self.work = work
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, fault: Exception) -> None:
        _fail(self.done, fault)


class Database:
    """The engines of one service: one for writing, one for reading."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.database_url
        self.is_sqlite = self.url.startswith("sqlite")
        self._reads: _SqliteReads | None = None
        if self.is_sqlite:
            self.write_engine = _sqlite_engine(self.url, settings, writes=True)
            self.read_engine = _sqlite_engine(self.url, settings, writes=False)
            self._reads = _SqliteReads(self.url, settings)
        else:
            self.write_engine = postgres_engine(self.url, pool_size=5, max_overflow=4)
            # Most reads are one statement: without a transaction they take half the round trips.
            self.read_engine = self.write_engine.execution_options(isolation_level="AUTOCOMMIT")
        commits = (
            _SqliteCommits(self.url, settings) if self.is_sqlite else _PostgresCommits(self.write_engine)
        )
        self.health = DatabaseHealth()
        self.writer = Writer(self.write_engine, commits, self.health)
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Migrates to the newest schema, if it is not the newest, and starts the writer. Safe when many start
        at once. Raises UnknownSchema.
        """
        await self.migrate()
        self.health.worked("schema")
        self.writer.start()
        if self._watching is None:
            self._watching = keep_going(self._watch, "database health")

    async def schema(self) -> SchemaState:
        """The schema as it is. Raises UnknownSchema for one that this program cannot use."""
        async with self.reading() as connection:
            return await connection.run_sync(schema_state)

    async def migrate(self) -> SchemaState:
        """Migrates to the newest schema, and returns the schema as it was before. Raises UnknownSchema."""
        # A look first: it waits for nobody, while a migration needs the writer's lock.
        before = await self.schema()
        if before.is_ahead:
            log.warning(
                "a newer release has migrated the database; this one works beside it", **asdict(before)
            )
        tries = MIGRATION_TRIES
        while before.behind:
            tries -= 1
            try:
                async with self.write_engine.begin() as connection:
                    return await connection.run_sync(migrate)
            except DBAPIError as fault:
                # It needs tables for itself that games are writing to: a step of theirs may be in the way.
                trouble = trouble_of(fault)
                if trouble is None or trouble.cause != "locked" or self.is_sqlite or not tries:
                    raise
                log.warning("the migration tries again: others write to its tables", tries=tries)
            await asyncio.sleep(random.uniform(0, 2 * AGAIN_S))
        return before

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for a few queries one after the other."""
        async with answering(WORK_WITHIN_S), self.read_engine.connect() as connection:
            yield connection

    async def rows(self, query: Executable) -> Sequence[Any]:
        """Everything that a query finds."""
        try:
            if self._reads is not None:
                found = await self._reads.rows(query)
            else:
                async with self.reading() as connection:
                    found = (await connection.execute(query)).all()
        except Exception as fault:
            self.health.failed("reading", fault)
            raise
        self.health.worked("reading")
        return found

    async def mappings(self, query: Executable) -> Sequence[RowMapping]:
        """Everything that a query finds, by the names of its columns."""
        return [row._mapping for row in await self.rows(query)]

    async def column(self, query: Executable) -> list[Any]:
        """The values of the first column of everything that a query finds."""
        return [row[0] for row in await self.rows(query)]

    async def agree_on_time(self) -> None:
        """Goes by PostgreSQL's clock, which all processes share: no deadline may depend on whose clock is
        wrong.
        """
        if self.is_sqlite:
            return
        before = now_ms()
        [theirs] = await self.column(_THEIR_CLOCK)
        changed = agree(int(theirs), before, now_ms())
        if changed:
            log.warning("the clock of this machine is wrong; the database's counts", off_by_s=changed / 1000)

    async def trouble(self) -> DatabaseTrouble | None:
        """Why the database cannot be used now; None if it answers, and wrote when it wrote last."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self.rows(text("SELECT 1"))
        except Exception as fault:
            return trouble_of(fault) or DatabaseTrouble("away", f"the database fails: {type(fault).__name__}")
        return self.health.trouble

    async def _watch(self) -> None:
        """Tries a database that did not work until it works again, since perhaps nobody else does. Looks from
        time to time whether the schema is still one that this program can use.
        """
        looked = time.monotonic()
        while True:
            await asyncio.sleep(PROBE_S)
            if self.health.trouble is not None:
                with suppress(Exception):  # the health has noted it
                    await self.writer.run(self._probe)
                    self.health.worked("writing", tried=True)
            if time.monotonic() - looked < LOOK_S:
                continue
            looked = time.monotonic()
            try:
                await self.schema()
            except UnknownSchema as fault:
                self.health.failed("schema", fault)
            except Exception as fault:
                self.health.failed("reading", fault)
            else:
                self.health.worked("schema")

    async def _probe(self, connection: AsyncConnection) -> None:
        """Takes room in the database and gives it back."""
        for statement in _PROBE_SQLITE if self.is_sqlite else _PROBE_POSTGRES:
            await connection.execute(statement)

    async def stop(self) -> None:
        """Commits what is waiting, then closes every connection."""
        await end_tasks(self._watching)
        self._watching = None
        await self.writer.stop()
        if self._reads is not None:
            self._reads.stop()
        await self.write_engine.dispose()
        await self.read_engine.dispose()


_PROBE_SQLITE: Final = (
    text("CREATE TABLE interintent_probe (x BLOB)"),
    text("INSERT INTO interintent_probe VALUES (zeroblob(1048576))"),
    text("DROP TABLE interintent_probe"),
)
_PROBE_POSTGRES: Final = (
    text(
        "CREATE TEMPORARY TABLE interintent_probe ON COMMIT DROP AS "
        "SELECT repeat('x', 1000) AS x FROM generate_series(1, 1000)"
    ),
)
_THEIR_CLOCK: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that is closed within the time for it. asyncpg waits for ever for the end of a query that
    was given up, if nothing comes over the connection any more.
    """

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncpg's own
        """``timeout``: None for as long as a farewell may take, after which the connection is just cut."""
        try:
            async with asyncio.timeout(CLOSES_WITHIN_S if timeout is None else timeout):
                await super().close(timeout=timeout)
        except TimeoutError:
            self.on_silence()
            if timeout is not None:
                raise

    async def ask(self) -> None:
        """Raises an error unless the other side answers soon."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await self.fetchval("SELECT 1")

    def on_silence(self) -> None:
        """Called when the other side is silent; replaced by the connection's engine."""


def postgres_engine(url: str, **options: Any) -> AsyncEngine:
    """SQLAlchemy's engine for PostgreSQL, whose errors do not quote what players say and hold, and whose pool
    hands out no lost connection.
    """
    silence = _Silence()
    engine = create_async_engine(
        url, hide_parameters=True, connect_args={"async_creator_fn": partial(_connect, silence)}, **options
    )
    _watch(engine.sync_engine, silence)
    return engine


class _Silence:
    """When a connection of an engine was found to be silent. The others may be as silent."""

    def __init__(self) -> None:
        self.at = -math.inf

    def note(self) -> None:
        self.at = time.monotonic()


async def _connect(silence: _Silence, *arguments: Any, **options: Any) -> Any:
    """Opens a connection of asyncpg. A task that is cancelled meanwhile still waits a moment for it: if
    asyncpg 0.32 is cancelled during its first bytes, it leaves behind an error that nobody can catch.
    """
    settings = {
        "lock_timeout": f"{LOCK_WITHIN_S}s",
        "idle_in_transaction_session_timeout": f"{FROZEN_S}s",
        **options.pop("server_settings", {}),
    }
    options = {"timeout": CONNECT_WITHIN_S, "connection_class": _Connection, **options}
    connecting = asyncio.create_task(asyncpg.connect(*arguments, **options, server_settings=settings))
    try:
        connection = _watched(await asyncio.shield(connecting))
    except OSError as fault:
        raise DatabaseAway(str(fault) or type(fault).__name__) from fault
    except asyncio.CancelledError:
        connecting.add_done_callback(_terminate)
        await asyncio.wait({connecting}, timeout=CONNECTS_WITHIN_S)
        raise
    connection.on_silence = silence.note
    return connection


def _watched(connection: Any) -> Any:
    """The connection, which the kernel drops when the other side is gone without a word."""
    sock = connection._transport.get_extra_info("socket")
    if sock is not None and sock.family != getattr(socket, "AF_UNIX", None):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNHEARD_S * 1000)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, UNHEARD_S // 2)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, UNHEARD_S // 4)
    return connection


def _terminate(connecting: "asyncio.Task[Any]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


def _sqlite_engine(url: str, settings: Settings, *, writes: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=1 if writes else READERS,
        max_overflow=0,
        hide_parameters=True,  # errors must not quote what players say and hold
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
        raw.isolation_level = None  # SQLAlchemy sends BEGIN below; the driver would send it too late
        # For bytes that are no UTF-8 the driver raises an error that quotes the row and hides all others.
        (raw.driver_connection if hasattr(raw, "driver_connection") else raw).text_factory = _text
        cursor = raw.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {LOCK_WITHIN_S * 1000}")
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
    """Creates the file that SQLite is about to open, readable by its owner alone: it holds roles, hashes of
    keys and the secret that signs tokens. An existing file is left alone. SQLite gives ``-wal`` and ``-shm``
    the same mode.
    """
    path = unquote(urlsplit(database).path) if database.startswith("file:") else database
    if path in ("", ":memory:"):
        return
    # An existing file is not even opened: closing it would drop the locks that this process holds on it.
    # If the file cannot be created, SQLite reports why.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _watch(engine: Engine, silence: _Silence) -> None:
    """Makes the pool hand out no lost connection, and test only connections that were idle for long, or since
    another one was found to be silent.

    SQLAlchemy's ``pool_pre_ping`` tests a connection at every use, which takes three round trips before the
    one that counts. When a server goes away, its sockets close.
    """

    @event.listens_for(engine, "checkin")
    def _on_checkin(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _on_checkout(raw: Any, record: ConnectionPoolEntry, _: Any) -> None:
        if raw.driver_connection.is_closed():
            raise InvalidatePoolError
        now = time.monotonic()
        used = record.info.get("used", now)
        if used > silence.at and now - used < ASK_AFTER_S:
            return
        try:
            await_only(raw.driver_connection.ask())
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            raise InvalidatePoolError from fault


Statements = Sequence[tuple[Any, list[Any]]]
"""What is executed in one transaction: each statement with its parameter sets."""


class _Commits(Protocol):
    """Executes the writer's grouped commits, one after the other."""

    async def commit(self, statements: Statements) -> None:
        """Returns when all of it is committed. Raises the database's error in SQLAlchemy's form; then nothing
        is committed, unless the database went away during the commit itself.
        """

    async def version(self) -> int | None:
        """A number that changes with every commit by another process or over another connection.

        None: the database has no such number.
        """

    async def stop(self) -> None: ...


class _Prepared:
    """A statement as the driver takes it: its text, and its values in the order of their placeholders."""

    __slots__ = ("_binders", "_fixed", "text", "values")

    def __init__(self, statement: Any, columns: Sequence[str] | None, dialect: Any) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        if compiled.prefetch:
            raise TypeError(f"defaults from Python cannot be filled in here: {compiled}")
        self.text = str(compiled)
        self._fixed: Mapping[str, Any] = compiled.params
        self._binders: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        self.values: Callable[[Mapping[str, Any]], Sequence[Any]] = self._values
        """The values of one set of parameters."""
        names = [name for name, _ in self._binders]
        plain = len(names) > 1 and not any(bind for _, bind in self._binders)
        if plain and columns is not None and set(names) <= set(columns):
            self.values = itemgetter(*names)

    def _values(self, row: Mapping[str, Any]) -> Sequence[Any]:
        values = [(row[name] if name in row else self._fixed[name], bind) for name, bind in self._binders]
        return [value if bind is None else bind(value) for value, bind in values]


class _PreparedStatements:
    """Prepares statements, and keeps them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}

    def prepare(self, statements: Statements) -> list[tuple[_Prepared, list[Any]]]:
        """Each statement, prepared, with its parameter sets."""
        return [(self._prepare(statement, rows[0]), rows) for statement, rows in statements]

    def _prepare(self, statement: Any, row: Mapping[str, Any]) -> _Prepared:
        # An INSERT has the columns of its rows.
        columns = tuple(row) if statement.is_insert else None
        key = (statement, columns)
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            prepared = self._prepared[key] = _Prepared(statement, columns, self._dialect)
        return prepared


class _PostgresCommits:
    """Commits to PostgreSQL over a connection of its own.

    SQLAlchemy compiles each statement once, and the driver executes it: through SQLAlchemy a commit takes
    three times as long and four times the processor time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._statements = _PreparedStatements(engine.dialect)
        self._connection: AsyncConnection | None = None
        self._driver: Any = None
        """asyncpg's own connection below it."""

    async def commit(self, statements: Statements) -> None:
        prepared = self._statements.prepare(statements)
        driver = await self._connected()
        try:
            # One statement with all its rows is a transaction of its own: one round trip instead of three.
            alone = len(prepared) == 1
            async with answering(), nullcontext() if alone else driver.transaction():
                for statement, rows in prepared:
                    await driver.executemany(statement.text, [statement.values(row) for row in rows])
        except asyncpg.IntegrityConstraintViolationError as fault:
            raise _sqlalchemy_error(fault) from None
        except DatabaseAway:
            driver.on_silence()
            await self._drop()
            raise
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            await self._drop()
            raise _sqlalchemy_error(fault) from None
        except BaseException:
            await self._drop()
            raise

    async def version(self) -> int | None:
        return None

    async def _connected(self) -> Any:
        if self._driver is not None and self._driver.is_closed():
            await self._drop()
        if self._connection is None:
            self._connection = await self._engine.connect()
        if self._driver is None:
            self._driver = (await self._connection.get_raw_connection()).driver_connection
        return self._driver

    async def _drop(self) -> None:
        """Gives up the connection, whatever its state."""
        connection, driver = self._connection, self._driver
        self._connection = self._driver = None
        if driver is not None:
            driver.terminate()  # closing it politely may fail as well
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def stop(self) -> None:
        connection, self._connection, self._driver = self._connection, None, None
        if connection is not None:
            await connection.close()


_ERRORS: Final[tuple[tuple[type[Exception], type[DBAPIError]], ...]] = (
    (asyncpg.IntegrityConstraintViolationError, IntegrityError),
    (asyncpg.DataError, DataError),
    (asyncpg.SyntaxOrAccessError, ProgrammingError),
    (asyncpg.InterfaceError, InterfaceError),
)


def _sqlalchemy_error(fault: Exception) -> DBAPIError:
    """The error of PostgreSQL's driver in SQLAlchemy's form, without the values: the server's details quote
    rows, and the driver quotes a value of the wrong type.
    """
    message = ("a value does not fit its column",) if isinstance(fault, asyncpg.DataError) else fault.args[:1]
    kind = next((ours for theirs, ours in _ERRORS if isinstance(fault, theirs)), DBAPIError)
    return kind(None, None, type(fault)(*message), hide_parameters=True)


class _SqliteReads:
    """Reads from an SQLite file, each query on a thread from its beginning to its last row.

    The asyncio driver changes between its thread and the loop four times a query, which takes longer than the
    query.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._engine = create_engine(
            make_url(url).set(drivername="sqlite+pysqlite"),
            poolclass=QueuePool,
            pool_size=READERS,
            max_overflow=0,
            hide_parameters=True,
            skip_autocommit_rollback=True,
            isolation_level="AUTOCOMMIT",
        )
        _prepare(self._engine, settings, writes=False)
        self._threads = ThreadPoolExecutor(READERS, "sqlite reads")

    async def rows(self, query: Executable) -> Sequence[Any]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._rows, query)

    def _rows(self, query: Executable) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def stop(self) -> None:
        self._threads.shutdown()
        self._engine.dispose()


class _SqliteCommits:
    """Commits to an SQLite file on a thread of its own, a whole transaction at a time.

    The asyncio driver changes between its thread and the loop for every statement, which takes longer than
    the commit. This thread shares the interpreter with the loop, so whatever SQLAlchemy does at every
    execution costs twice: it compiles each statement once, and the driver executes it.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        file = make_url(url).set(drivername="sqlite+pysqlite")
        self._engine = create_engine(file, poolclass=NullPool, hide_parameters=True)
        _prepare(self._engine, settings, writes=True)
        self._connection: PoolProxiedConnection | None = None
        self._opened = 0
        """Connections so far."""
        self._statements = _PreparedStatements(self._engine.dialect)
        # The two futures that an executor makes for each commit would double the cost of handing it over.
        self._waiting: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def commit(self, statements: Statements) -> None:
        await self._on_thread(partial(self._commit, statements))

    async def version(self) -> int | None:
        return await self._on_thread(self._version)

    def _on_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sqlite commits", daemon=True)
            self._thread.start()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put((work, done))
        return done

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            work, done = job
            outcome: tuple[Any, ...]
            try:
                outcome = (_settle, done, work())
            except Exception as fault:
                outcome = (_fail, done, fault)
            # Nobody waits on a loop that was closed in the meantime.
            with suppress(RuntimeError):
                done.get_loop().call_soon_threadsafe(*outcome)
        self._close()

    def _connected(self) -> Any:
        """The driver's connection."""
        if self._connection is None:
            self._connection = self._engine.raw_connection()
            self._opened += 1
        return self._connection.driver_connection

    def _version(self) -> int:
        (version,) = self._connected().execute("PRAGMA data_version").fetchone()
        # SQLite's number counts for one connection alone.
        return (self._opened << 32) + int(version)

    def _commit(self, statements: Statements) -> None:
        prepared = self._statements.prepare(statements)
        driver = self._connected()
        try:
            driver.execute("BEGIN IMMEDIATE")
            for statement, rows in prepared:
                driver.executemany(statement.text, map(statement.values, rows))
            driver.execute("COMMIT")
        except sqlite3.IntegrityError as fault:
            driver.rollback()
            raise self._error(fault) from fault
        except sqlite3.Error as fault:
            self._close()
            raise self._error(fault) from fault
        except BaseException:
            self._close()
            raise

    def _error(self, fault: sqlite3.Error) -> BaseException:
        """The error in SQLAlchemy's form, without the values."""
        return DBAPIError.instance(
            None, None, fault, sqlite3.Error, hide_parameters=True, dialect=self._engine.dialect
        )

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def stop(self) -> None:
        """Commits everything that waits, and closes the file."""
        if self._thread is not None:
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None


class Writer:
    """Executes appends and other writes, one transaction after the other, in the order of arrival."""

    def __init__(self, engine: AsyncEngine, commits: _Commits, health: DatabaseHealth) -> None:
        self._engine = engine
        self._commits = commits
        self._health = health
        self._queue: asyncio.Queue[Append | _Alone | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._last_ms = 0

    def start(self) -> None:
        """Starts the writer, unless it is running."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="writer")

    async def stop(self) -> None:
        """Stops the writer after it has committed everything in its queue."""
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task
            self._task = None
            await self._commits.stop()

    async def append(self, write: Write, after: Sequence[Append] = ()) -> int:
        """Commits one append, perhaps together with others, and returns the commit time in ms.

        Raises Conflict if its rows exist already, and Unfounded if one of ``after`` failed. In both cases
        nothing was written.
        """
        return await self.submit(write, after).done

    def submit(self, write: Write, after: Sequence[Append] = ()) -> Append:
        """Queues an append; its ``done`` gives the outcome."""
        append = Append(write, after)
        self._queue.put_nowait(append)
        return append

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs ``work`` in a transaction of its own and returns its result.

        Raises what ``work`` raises; then nothing was written.
        """
        job = _Alone(work)
        self._queue.put_nowait(job)
        result: T = await job.done
        return result

    async def execute(self, statement: Executable) -> int:
        """Executes one statement in a transaction of its own, and returns how many rows it changed."""

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(statement)).rowcount

        return await self.run(work)

    async def version(self) -> int | None:
        """A number that changes whenever somebody else commits, in another process or past this writer.

        None: the database has no such number.
        """
        return await self._commits.version()

    def stamp(self) -> int:
        """Now, in ms, and never earlier than the last stamp."""
        # When the clock is set back, the times of a log must still follow its order.
        self._last_ms = max(self._last_ms, now_ms())
        return self._last_ms

    async def _run(self) -> None:
        stopping = False
        while not stopping:
            waiting = [await self._queue.get()]
            # One turn of the loop lets every game that is ready submit its step.
            await asyncio.sleep(0)
            while not self._queue.empty() and len(waiting) < GROUP:
                waiting.append(self._queue.get_nowait())
            group: list[Append] = []
            self._health.begins_to_write()
            for job in waiting:
                if isinstance(job, Append):
                    group.append(job)
                    continue
                # The order of arrival counts: what came first is committed first.
                await self._commit(group)
                group = []
                if job is None:
                    stopping = True
                else:
                    await self._run_alone(job)
            await self._commit(group)
            self._health.stops_writing()

    async def _run_alone(self, job: "_Alone") -> None:
        # On SQLite a thread does the work, and nothing ends it.
        within_s = math.inf if self._engine.dialect.name == "sqlite" else WORK_WITHIN_S
        try:
            async with answering(within_s), self._engine.connect() as connection:
                try:
                    result = await job.work(connection)
                    await connection.commit()
                except Exception as fault:
                    self._failed(fault)
                    _fail(job.done, fault)
                    await connection.rollback()
                else:
                    self._health.worked("writing")
                    _settle(job.done, result)
        except Exception as fault:
            if job.done.done():
                # The caller has its result or error; only the connection could not be returned.
                log.warning("a write's connection broke", cause=type(fault).__name__)
                return
            self._failed(fault)
            _fail(job.done, fault)

    def _failed(self, fault: Exception) -> None:
        """Notes the fault. If the database is in trouble, everything that waits fails with it: each would
        wait as long as this one did, one after the other.
        """
        if self._health.failed("writing", fault) is None:
            return
        waiting: list[Append | _Alone | None] = []
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        for job in waiting:
            if job is None:
                self._queue.put_nowait(None)  # it stops after this
            else:
                job.fail(fault)

    async def _commit(self, group: Sequence[Append]) -> None:
        for append in group:
            if any(earlier.failed for earlier in append.after):
                append.fail(Unfounded("an append that it builds on was not committed"))
        group = [append for append in group if not append.failed]
        if not group:
            return
        started = time.perf_counter()
        try:
            at = await self._write(group)
        except IntegrityError:
            if len(group) == 1:
                group[0].fail(Conflict("another writer was first"))
                return
            # One stale game must not cost the others their step.
            for append in group:
                await self._commit([append])
            return
        except Exception as fault:
            for append in group:
                append.fail(fault)
            self._failed(fault)
            return
        self._health.worked("writing")
        for append in group:
            _settle(append.done, at)
        metrics.append_seconds.observe(time.perf_counter() - started)
        metrics.append_group.observe(len(group))

    async def _write(self, group: Sequence[Append]) -> int:
        at = self.stamp()
        together: dict[int, tuple[Any, list[Any]]] = {}
        for append in group:
            for statement, rows in append.write(at):
                together.setdefault(id(statement), (statement, []))[1].extend(rows)
        await self._commits.commit(list(together.values()))
        return at


def _settle(done: "asyncio.Future[T]", result: T) -> None:
    if not done.done():  # whoever waited may have been cancelled; the commit is valid all the same
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", fault: Exception) -> None:
    if not done.done():
        done.set_exception(fault)
