"""PostgreSQL: connections that notice a silent server, and the commits of the writer."""

import asyncio
import math
import socket
import time
from collections.abc import Collection
from contextlib import nullcontext
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import asyncpg  # type: ignore[import-untyped]
import structlog
from sqlalchemy import Engine, ExceptionContext, event
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InvalidatePoolError,
    ProgrammingError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry
from sqlalchemy.util import await_only
from sqlalchemy.util.queue import Empty

from app.store.trouble import READ_ONLY, DatabaseAway, Pooled, trouble_of
from app.store.writer import LOCK_WITHIN_S, PreparedStatements, Statements, Work, answering, working

__all__ = ["ANSWER_WITHIN_S", "APPLICATION", "PostgresCommits", "Sessions", "postgres_engine"]

log = structlog.get_logger()

ASK_AFTER_S: Final = 30.0
"""A connection that was idle for more seconds than this is tested, since it may be dead without our knowing.
"""

CONNECTS_WITHIN_S: Final = 1.0
"""Seconds that a cancelled task still waits for the connection to PostgreSQL that it was opening."""

FROZEN_S: Final = 30
"""Seconds after which PostgreSQL ends a transaction whose process stands still: others wait for its locks."""

APPLICATION: Final = "interintent"
"""What PostgreSQL shows as the application of our sessions."""

CLOSES_WITHIN_S: Final = 2.0
"""Seconds that PostgreSQL may take to say farewell."""

UNHEARD_S: Final = 20
"""Seconds after which the kernel drops a connection to PostgreSQL whose other side acknowledges nothing."""

ANSWER_WITHIN_S: Final = 2.0
"""Seconds within which a healthy database answers the smallest question."""

CONNECT_WITHIN_S: Final = 10.0
"""Seconds that opening a connection to PostgreSQL may take."""

_SETTINGS: Final = (
    "SELECT current_setting('lock_timeout') AS lock_timeout, "
    "current_setting('idle_in_transaction_session_timeout') AS idle_in_transaction_session_timeout"
)
"""Settings with which we connect, as the session has them."""

GIVEN_BACK_S: Final = 10.0
"""Seconds that a caller waits for a connection of somebody else's, if no further one can be opened."""


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that is closed within the time for it. asyncpg waits for ever for the end of a query that
    was given up, if nothing comes over the connection any more.
    """

    opened = -math.inf
    """When opening it began (``time.monotonic``)."""

    taken = -math.inf
    """When somebody last took it from a pool (``time.monotonic``)."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # asyncpg's own
        """``timeout``: None for as long as a farewell may take, after which the connection is just cut."""
        try:
            async with asyncio.timeout(CLOSES_WITHIN_S if timeout is None else timeout):
                await super().close(timeout=timeout)
        except TimeoutError:
            self.on_silence()
            if timeout is not None:
                raise

    async def _do_execute(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super()._do_execute(*arguments, **options)
        except AttributeError:
            # asyncpg 0.32 uses what is no longer there if it is terminated between preparing and executing.
            if self.is_closed():
                raise asyncpg.InterfaceError("the connection was ended meanwhile") from None
            raise

    async def ask(self) -> None:
        """Raises an error unless the other side answers soon."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await self.fetchval("SELECT 1")

    def on_silence(self) -> None:
        """Called when the other side is silent; replaced by the connection's engine."""

    def on_read_only(self) -> None:
        """Called when the session may only read; replaced by the connection's engine."""


def postgres_engine(url: str, sessions: "Sessions | None" = None, **options: Any) -> AsyncEngine:
    """SQLAlchemy's engine for PostgreSQL, whose errors do not quote what players say and hold, and whose pool
    hands out no lost connection. ``sessions``: those that are cut together; None: no others.
    """
    sessions = sessions or Sessions()
    options = {"poolclass": _Pool, **options}
    engine = create_async_engine(
        url,
        hide_parameters=True,
        # JsonColumn reads the text: a value that the driver cannot read would end the whole result.
        json_deserializer=str,
        connect_args={"async_creator_fn": partial(_connect, sessions)},
        **options,
    )
    _watch(engine.sync_engine, sessions)
    return engine


class _Pool(AsyncAdaptedQueuePool):
    """A pool whose callers wait for each other's connections while PostgreSQL begins no further session: on a
    full disk it cannot, and it has a limit. With the sessions that there are it goes on.
    """

    def _do_get(self) -> ConnectionPoolEntry:
        try:
            return super()._do_get()
        except Exception as fault:
            trouble = trouble_of(fault)
            if trouble is None or trouble.cause not in ("full", "crowded"):
                raise
            try:
                return self._pool.get(True, GIVEN_BACK_S)
            except Empty:
                raise fault from None


class Sessions:
    """The open connections of engines that share them."""

    def __init__(self) -> None:
        self.silent_at = -math.inf
        """When one of them was found to be silent. The others may be as silent."""
        self.read_only_at = -math.inf
        """When one of them was found to be read-only. It stays so if the database was when it began;
        those that began before may be, too.
        """
        self._open: WeakSet[_Connection] = WeakSet()
        self._ends: asyncio.Future[None] | None = None

    def note_silence(self) -> None:
        self.silent_at = time.monotonic()

    def note_read_only(self) -> None:
        self.read_only_at = time.monotonic()

    def add(self, connection: Any) -> None:
        self._open.add(connection)
        connection.on_silence = self.note_silence
        connection.on_read_only = self.note_read_only

    @property
    def ends(self) -> "asyncio.Future[None]":
        """Done once no connection is opened any more."""
        if self._ends is None:
            self._ends = asyncio.get_running_loop().create_future()
        return self._ends

    @property
    def pids(self) -> list[int]:
        """Those of the server's processes that serve the open connections."""
        return [connection.get_server_pid() for connection in self._open if not connection.is_closed()]

    def end(self, pids: Collection[int], since: float) -> None:
        """Ends the connections that these processes of the server serve, but for those that somebody has
        taken from a pool since then (by ``time.monotonic``).
        """
        for connection in list(self._open):
            if (
                not connection.is_closed()
                and connection.get_server_pid() in pids
                and connection.taken <= since
            ):
                connection.terminate()

    def cut(self) -> None:
        """Ends every connection, and opens no more: whoever waits for an answer gets an error at once."""
        if not self.ends.done():
            self.ends.set_result(None)
        self.end(self.pids, math.inf)


async def _connect(sessions: Sessions, *arguments: Any, **options: Any) -> Any:
    """Opens a connection of asyncpg. A task that is cancelled meanwhile still waits a moment for it: if
    asyncpg 0.32 is cancelled during its first bytes, it leaves behind an error that nobody can catch.
    """
    settings = {
        "application_name": APPLICATION,
        "lock_timeout": f"{LOCK_WITHIN_S}s",
        "idle_in_transaction_session_timeout": f"{FROZEN_S}s",
        # The server, too, drops a client that is gone without a word: its locks would stay for two hours.
        "tcp_keepalives_idle": str(UNHEARD_S // 2),
        "tcp_keepalives_interval": str(UNHEARD_S // 4),
        "tcp_keepalives_count": "2",
        **options.pop("server_settings", {}),
    }
    if sessions.ends.done():
        raise DatabaseAway("this process opens no more connections")
    options = {"timeout": CONNECT_WITHIN_S, "connection_class": _Connection, **options}
    began = time.monotonic()
    connecting = asyncio.create_task(_open(*arguments, **options, server_settings=settings))
    try:
        await asyncio.wait({connecting, sessions.ends}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        connecting.add_done_callback(_terminate)
        await asyncio.wait({connecting}, timeout=CONNECTS_WITHIN_S)
        raise
    if not connecting.done():
        connecting.add_done_callback(_terminate)
        raise DatabaseAway("this process opens no more connections")
    try:
        connection = connecting.result()
    except Pooled:
        raise
    except (OSError, ValueError) as fault:
        # uvloop's socket of a connection that the server has cut already says ValueError.
        raise DatabaseAway(str(fault) or type(fault).__name__) from fault
    connection.opened = began
    sessions.add(connection)
    return connection


async def _open(*arguments: Any, server_settings: dict[str, str], **options: Any) -> Any:
    """Opens a connection to PostgreSQL itself. Raises Pooled if its session lacks the settings that we asked
    for: a pooler drops them, and lends out sessions of its own.
    """
    connection = _watched(await asyncpg.connect(*arguments, **options, server_settings=server_settings))
    try:
        shown = await connection.fetchrow(_SETTINGS, timeout=CONNECT_WITHIN_S)
        if not dict(shown).items() <= server_settings.items():
            raise Pooled("its sessions lack our settings")
    except BaseException:
        connection.terminate()
        raise
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


def _watch(engine: Engine, sessions: Sessions) -> None:
    """Makes the pool hand out no lost connection, and test only connections that were idle for long, or since
    another one was found to be silent.

    SQLAlchemy's ``pool_pre_ping`` tests a connection at every use, which takes three round trips before the
    one that counts. When a server goes away, its sockets close.
    """

    @event.listens_for(engine, "checkin")
    def _on_checkin(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine, "handle_error")
    def _on_error(context: ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
            sessions.note_read_only()

    @event.listens_for(engine, "checkout")
    def _on_checkout(raw: Any, record: ConnectionPoolEntry, _: Any) -> None:
        driver = raw.driver_connection
        is_new = "used" not in record.info
        if driver.is_closed() or (driver.opened <= sessions.read_only_at and not is_new):
            raise InvalidatePoolError
        driver.taken = now = time.monotonic()
        used = now if is_new else record.info["used"]
        if used > sessions.silent_at and now - used < ASK_AFTER_S:
            return
        try:
            await_only(driver.ask())
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            raise InvalidatePoolError from fault


class PostgresCommits:
    """Commits to PostgreSQL over a connection of its own.

    SQLAlchemy compiles each statement once, and the driver executes it: through SQLAlchemy a commit takes
    three times as long and four times the processor time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._statements = PreparedStatements(engine.dialect)
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
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.InsufficientResourcesError) as fault:
            # The connection is as good as before. On a full disk no other one could be opened.
            raise _sqlalchemy_error(fault) from None
        except DatabaseAway:
            driver.on_silence()
            await self._drop()
            raise
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            await self._drop()
            if getattr(fault, "sqlstate", None) == READ_ONLY:
                driver.on_read_only()
            raise _sqlalchemy_error(fault) from None
        except BaseException:
            await self._drop()
            raise

    async def alone(self, work: Work) -> Any:
        result, is_committed = None, False
        try:
            async with working(), self._engine.connect() as connection:
                result = await work(connection)
                await connection.commit()
                is_committed = True
        except Exception as fault:
            if not is_committed:
                raise
            # Only the connection could not be returned.
            log.warning("a write's connection broke", cause=type(fault).__name__)
        return result

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
