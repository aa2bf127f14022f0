"""SQLite: the file and its engines, reads on threads, and the commits of the writer."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, CursorResult, Engine, Executable, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool, PoolProxiedConnection, QueuePool

from app.base.off_loop import SharedThreads, tell
from app.settings import Settings
from app.store.writer import LOCK_WITHIN_S, PreparedStatements, Statements, Work

__all__ = [
    "SqliteCommits",
    "SqliteReads",
    "alone",
    "faults_of_file",
    "is_damage",
    "open_cut_off",
    "sqlite_engine",
    "sqlite_exists",
    "sqlite_file",
]

T = TypeVar("T")

READERS: Final = 4
"""The most queries that an SQLite file answers at a time."""

SMALL: Final = 100
"""The most rows of a commit that the event loop executes itself: about a millisecond."""

TURNS: Final = 100
"""Of so many commits the first two are the thread's, however small: in the first, SQLite moves what was
committed into the file; in the second, it waits for the disk once more.
"""

CHECKPOINT: Final = 4_000
"""Pages of the write-ahead log, 16 MB, from which on SQLite moves them into the file. Everybody who writes
waits for that, 10 to 20 ms; with SQLite's own 1,000, three times a second beside fifty bots.
"""

SLOW_S: Final = 0.01
"""Seconds after which a commit on the loop was slow: the disk is busy, or bad."""

SLOW_TURNS: Final = 1_000
"""After a slow commit on the loop, this many are the thread's."""


def sqlite_exists(url: str) -> bool:
    """Whether the file that an SQLite URL names exists."""
    return sqlite_file(url).exists()


def sqlite_file(url: str) -> Path:
    """The file that SQLite opens for its URL: where symbolic links lead, whether or not it exists. SQLite
    names ``-wal`` after it, so whatever else lies beside a database or replaces it is named after it, too.
    """
    return _followed(str(make_url(url).database))


def _followed(database: str) -> Path:
    """``database``: a path or a URI, as SQLite takes it."""
    path = unquote(urlsplit(database).path) if database.startswith("file:") else database
    return Path(os.path.realpath(path))


def is_damage(fault: DBAPIError | sqlite3.Error) -> bool:
    """Whether SQLite met a damaged page of its file."""
    raw = fault.orig if isinstance(fault, DBAPIError) else fault
    return (getattr(raw, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def open_cut_off(connection: Any) -> list[str]:
    """Lets the connection, which has read nothing yet, read what is left of a file that is shorter than its
    first page says: SQLite refuses it as a whole. Returns what is wrong with such a file; of any
    other, nothing.
    """
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA user_version")
    except sqlite3.DatabaseError as fault:
        if not is_damage(fault):
            return []  # whoever reads meets that again
        cursor.execute("PRAGMA writable_schema = ON")
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        (left,) = cursor.fetchone()
        return [f"its end is missing: about {left:,} bytes are left"]
    finally:
        cursor.close()
    return []


FAULTS: Final = 50
"""The most faults of a file that are told."""


def faults_of_file(
    connection: sqlite3.Connection, check: Literal["integrity_check", "quick_check"]
) -> list[str]:
    """What SQLite's own check finds wrong with the file, at most ``FAULTS`` lines; empty: nothing. Where the
    check of the whole file itself breaks on a damaged page, every table is checked alone.
    """
    if cut_off := open_cut_off(connection):
        return cut_off
    try:
        return _faults(connection, f"{check}({FAULTS})")
    except sqlite3.DatabaseError as fault:
        if not is_damage(fault):
            raise
        whole = str(fault)
    found: list[str] = []
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
    except sqlite3.DatabaseError as fault:
        return [f"the list of its tables cannot be read: {fault}"]
    for (table,) in tables:
        quoted = table.replace('"', '""')
        try:
            found += [f"table {table}: {words}" for words in _faults(connection, f'{check}("{quoted}")')]
        except sqlite3.DatabaseError as fault:
            found.append(f"table {table}: {fault}")
    return found[:FAULTS] or [whole]


def _faults(connection: sqlite3.Connection, pragma: str) -> list[str]:
    return [str(words) for (words,) in connection.execute(f"PRAGMA {pragma}") if words != "ok"]


def sqlite_engine(url: str, settings: Settings, *, writes: bool) -> AsyncEngine:
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
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}" if writes else "PRAGMA query_only = ON")
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
    # An existing file is not even opened: closing it would drop the locks that this process holds on it.
    # If the file cannot be created, SQLite reports why.
    with suppress(OSError):
        os.close(os.open(_followed(database), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


@contextmanager
def alone(file: Path) -> Iterator[Connection]:
    """One transaction over a file that nobody else has open. Afterwards all of it is in that one file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.text_factory = _text
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.execute("PRAGMA foreign_keys = ON")
        engine = create_engine("sqlite://", creator=lambda: raw, poolclass=NullPool, hide_parameters=True)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        with engine.begin() as connection:
            yield connection


class SqliteReads:
    """Reads from an SQLite file, each query on a thread from beginning to end; owners take turns.

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
        self._threads = SharedThreads(READERS, "sqlite reads")

    def read_what_is_left(self) -> None:
        """From now on, what is left of a file that was cut off can be read, too."""
        event.listen(self._engine, "connect", lambda raw, _: open_cut_off(raw), insert=True)

    async def rows(self, query: Executable, values: Mapping[str, Any] | None) -> Sequence[Any]:
        return await self._threads.run(self._rows, query, values)

    def _rows(self, query: Executable, values: Mapping[str, Any] | None) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query, values).all()

    def stop(self) -> None:
        self._threads.stop()
        self._engine.dispose()


class _OnThread:
    """A connection for work that was written for an asynchronous one, and never has to wait on its thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    async def execute(self, *given: Any) -> CursorResult[Any]:
        return self._connection.execute(*given)

    async def run_sync(self, work: Callable[..., T], *given: Any) -> T:
        return work(self._connection, *given)


class SqliteCommits:
    """Commits to an SQLite file, a whole transaction at a time: small ones on the event loop, all others on a
    thread of their own (ADR 0052).

    The asyncio driver changes between its thread and the loop for every statement, which takes longer than
    the commit. The thread here shares the interpreter with the loop, so whatever SQLAlchemy does at every
    execution costs twice: it compiles each statement once, and the driver executes it.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        file = make_url(url).set(drivername="sqlite+pysqlite")
        self._engine = create_engine(
            file,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"check_same_thread": False},
        )
        # A connection of its own, so that ``version`` changes with what is not an append.
        self._others = create_engine(file, poolclass=QueuePool, pool_size=1, hide_parameters=True)
        for engine in (self._engine, self._others):
            _prepare(engine, settings, writes=True)
        self._connection: PoolProxiedConnection | None = None
        self._using = threading.Lock()
        """Held by a commit, or a look at the version, while it uses the connection. The loop never waits."""
        self._opened = 0
        """Connections so far."""
        self._waits = True
        """Whether the connection waits for other writers, and moves what was committed into the file."""
        self._waits_for_disk = settings.synchronous_full
        """Whether every commit waits for the disk."""
        self._turn = 0
        """Of the next commit; those below two are the thread's."""
        self._statements = PreparedStatements(self._engine.dialect)
        # The two futures that an executor makes for each commit would double the cost of handing it over.
        self._waiting: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def commit(self, statements: Statements) -> None:
        turn = self._turn
        self._turn = (turn + 1) % TURNS if turn >= 0 else turn + 1
        is_small = sum(len(rows) for _, rows in statements) <= SMALL
        if turn < 2 or not is_small or self._waits_for_disk or not self._commit_here(statements):
            await self._on_thread(partial(self._commit, statements))

    def _commit_here(self, statements: Statements) -> bool:
        """Commits on the event loop; False if it cannot be done at once."""
        if self._connection is None or not self._using.acquire(blocking=False):
            return False
        started = time.perf_counter()
        try:
            return self._execute(statements, waits=False)
        finally:
            self._using.release()
            if time.perf_counter() - started > SLOW_S:
                self._turn = -SLOW_TURNS

    async def alone(self, work: Work) -> Any:
        return await self._on_thread(partial(copy_context().run, self._alone, work))

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
            tell(done, work)
        self._close()
        self._others.dispose()

    def _connected(self) -> Any:
        """The driver's connection."""
        if self._connection is None:
            self._connection = self._engine.raw_connection()
            self._opened += 1
            self._waits = True
        return self._connection.driver_connection

    def _version(self) -> int:
        with self._using:
            driver = self._connected()
            self._let_wait(driver, waits=True)
            (version,) = driver.execute("PRAGMA data_version").fetchone()
            # SQLite's number counts for one connection alone.
            return (self._opened << 32) + int(version)

    def _let_wait(self, driver: Any, *, waits: bool) -> None:
        if waits != self._waits:
            driver.execute(f"PRAGMA busy_timeout = {LOCK_WITHIN_S * 1000 if waits else 0}")
            driver.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT if waits else 0}")
            self._waits = waits

    def _commit(self, statements: Statements) -> None:
        with self._using:
            self._execute(statements, waits=True)

    def _execute(self, statements: Statements, *, waits: bool) -> bool:
        """False if somebody else is writing, and this does not wait: then nothing is committed."""
        prepared = self._statements.prepare(statements)
        driver = self._connected()
        try:
            self._let_wait(driver, waits=waits)
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as fault:
                if waits or fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return False
            for statement, rows in prepared:
                driver.executemany(statement.text, map(statement.values, rows))
            driver.execute("COMMIT")
            return True
        except sqlite3.IntegrityError as fault:
            driver.rollback()
            raise self._error(fault) from fault
        except sqlite3.Error as fault:
            self._close()
            raise self._error(fault) from fault
        except BaseException:
            self._close()
            raise

    def _alone(self, work: Work) -> Any:
        with self._others.connect() as connection:
            waiting = work(cast(AsyncConnection, _OnThread(connection))).__await__()
            try:
                next(waiting)
            except StopIteration as finished:
                connection.commit()
                return finished.value
            except IntegrityError:
                raise
            except DBAPIError:
                connection.invalidate()  # as after a commit that failed
                raise
            raise RuntimeError(f"{work} waits for something else than its connection")

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
