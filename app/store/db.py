"""One service's database: its engines for reading and writing, its schema, and whether it works."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import structlog
from sqlalchemy import ColumnElement, Executable, RowMapping, Text, cast, event, func, or_, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import NullPool, QueuePool

from app.base.clock import agree, now_ms, settled_ms
from app.base.off_loop import SharedPlaces
from app.base.tasks import end_tasks, keep_going
from app.settings import Settings
from app.store.postgres import ANSWER_WITHIN_S, PostgresCommits, Sessions, postgres_engine
from app.store.schema import SchemaState, UnknownSchema, migrate, schema_state
from app.store.sqlite import READERS, SqliteCommits, SqliteReads, open_cut_off, sqlite_engine, sqlite_exists
from app.store.trouble import DatabaseAway, DatabaseTrouble, trouble_of
from app.store.writer import (
    Append,
    Conflict,
    DatabaseHealth,
    Unfounded,
    Write,
    Writer,
    answering,
    working,
    working_alone,
)

__all__ = [
    "PASSING",
    "Append",
    "Conflict",
    "Database",
    "Unfounded",
    "Write",
    "answering",
    "has_texts",
    "in_parts",
    "is_ours",
    "passes",
    "postgres_engine",
    "sqlite_exists",
]

log = structlog.get_logger()

IN_LIST: Final = 500
"""The most values in one ``IN``."""

MIGRATION_TRIES: Final = 10
"""How often a migration is tried on PostgreSQL that waits for a lock in vain, or in a circle with others."""

AGAIN_S: Final = 0.5
"""Seconds until then, on average."""

SILENT_S: Final = 15.0
"""Seconds between looks whether PostgreSQL still works on a migration; after two in vain it is given up."""

BACK_WITHIN_S: Final = 2.0
"""Seconds that a stop waits for connections that somebody is giving back."""

PROBE_S: Final = 1.0
"""Seconds between two tries whether a database that did not work works again."""

SOON_S: Final = 0.2
"""Seconds between two looks for silent connections while the process stops."""

KEPT: Final = 5
MORE: Final = 4
"""Connections to PostgreSQL that are kept, and those that are opened beside them when many are busy."""

BESIDE: Final = 3
"""Of these, those that no read has: the writer's two, and the one for leases."""

TURN_WITHIN_S: Final = 30.0
"""Seconds that a read waits for its turn."""

FIRST_ANSWER_S: Final = 5.0
"""Seconds within which a database answers for the first time, which opens a connection."""

LOOK_S: Final = 30.0
"""Seconds between checks whether a newer release has taken the schema away."""


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
    """Whether the fault is ours, so that trying again is useless. Rights and tables that are missing are not:
    somebody gives them back.
    """
    ours = isinstance(fault, IntegrityError | DataError | ProgrammingError | NotSupportedError)
    return ours and trouble_of(fault) is None


def passes(fault: BaseException | None) -> bool:
    """Whether the fault comes from a database that is away, so that trying again helps."""
    return isinstance(fault, PASSING) and not is_ours(fault)


def in_parts(values: Collection[Any]) -> Iterator[list[Any]]:
    """The values, sorted, in lists for one IN: SQLite takes some thousands, PostgreSQL plans each alone."""
    every = sorted(values)
    for first in range(0, len(every), IN_LIST):
        yield every[first : first + IN_LIST]


def has_texts(column: ColumnElement[Any], database: "Database") -> ColumnElement[bool]:
    """Whether the database can take texts out of this JSON. Anything else would end the whole query."""
    if database.is_sqlite:
        valid: ColumnElement[bool] = func.json_valid(column)
        return valid
    stored = cast(column, Text)
    return or_(func.strpos(stored, r"\u") == 0, stored.regexp_match(_TEXTS))


class LateTurn(DatabaseAway):
    """A read that waited too long for others of its owner."""


class Database:
    """The engines of one service: one for writing, one for reading."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.database_url
        self.is_sqlite = self.url.startswith("sqlite")
        self._reads: SqliteReads | None = None
        self._sessions = Sessions()
        if self.is_sqlite:
            self.write_engine = sqlite_engine(self.url, settings, writes=True)
            self.read_engine = sqlite_engine(self.url, settings, writes=False)
            self._reads = SqliteReads(self.url, settings)
        else:
            self.write_engine = postgres_engine(self.url, self._sessions, pool_size=KEPT, max_overflow=MORE)
            # Most reads are one statement: without a transaction they take half the round trips.
            self.read_engine = self.write_engine.execution_options(isolation_level="AUTOCOMMIT")
        self._places = SharedPlaces(READERS if self.is_sqlite else KEPT + MORE - BESIDE)
        commits = SqliteCommits(self.url, settings) if self.is_sqlite else PostgresCommits(self.write_engine)
        self.health = DatabaseHealth()
        self.writer = Writer(commits, self.health)
        self._watching: asyncio.Task[None] | None = None

    def engine_beside(self) -> AsyncEngine:
        """An engine of the caller's own for PostgreSQL, with a connection for each use: to listen, and for
        what must not wait for the pool.
        """
        return postgres_engine(self.url, self._sessions, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    async def drop_silent(self) -> None:
        """Ends those of our connections on which PostgreSQL has waited for us for a moment: an answer that
        somebody awaits there will never come, so the waiter gets an error. Idle connections are opened anew
        when somebody needs them. Raises TimeoutError if PostgreSQL does not answer at all.
        """
        engine = self.engine_beside()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), engine.connect() as connection:
                asked, pids = time.monotonic(), self._sessions.pids
                working = _WORKS.bindparams(pids=pids, silent_s=ANSWER_WITHIN_S)
                found = (await connection.execute(working)).scalars()
                # Not those that were opened meanwhile.
                self._sessions.end({*pids}.difference(found), asked)
        finally:
            await engine.dispose()

    async def cut_if_silent(self, after_s: float) -> None:
        """Runs until it is cancelled. From ``after_s`` seconds on, nobody waits for a silent PostgreSQL:
        queries without an answer by then, or a moment later, fail.
        """
        await asyncio.sleep(after_s)
        while True:
            try:
                await self.drop_silent()
            except TimeoutError:
                log.warning("the database is silent: this process stops without its answers")
                self._sessions.cut()
                return
            except PASSING:
                pass  # whoever asks it learns at once that it is away
            await asyncio.sleep(SOON_S)

    async def answers(self) -> None:
        """Raises TimeoutError if PostgreSQL is silent: to wait for a connection takes twice as long."""
        if not self.is_sqlite:
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self.rows(_ONE)

    async def start(self) -> None:
        """Migrates to the newest schema, if it is not the newest, and starts the writer. Safe when many start
        at once. Raises UnknownSchema.
        """
        await self.migrate()
        self.health.worked("schema")
        self.writer.start()
        if self._watching is None:
            self._watching = keep_going(self._watch, "database health")

    def read_what_is_left(self) -> None:
        """From now on, what is left of an SQLite file that was cut off can be read, too."""
        if self._reads is not None:
            self._reads.read_what_is_left()
            engine = self.read_engine.sync_engine
            event.listen(engine, "connect", lambda raw, _: open_cut_off(raw), insert=True)

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
                async with self.write_engine.begin() as connection, self._unless_silent(connection):
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
    async def _unless_silent(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """Cuts the connection if the server has stopped working on what the block waits for. That may take as
        long as it likes, so only another connection can tell.
        """
        if self.is_sqlite:
            yield
            return
        raw: Any = (await connection.get_raw_connection()).driver_connection
        works = _WORKS.bindparams(pids=[raw.get_server_pid()], silent_s=SILENT_S)

        async def watch() -> None:
            in_vain = 0
            while in_vain < 2:
                await asyncio.sleep(SILENT_S)
                try:
                    in_vain = 0 if await self.column(works) else in_vain + 1
                except PASSING:
                    in_vain += 1
            raw.terminate()

        watching = asyncio.create_task(watch(), name="migration")
        try:
            yield
        finally:
            await end_tasks(watching)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for a few queries one after the other; owners take turns. Raises LateTurn."""
        try:
            async with asyncio.timeout(TURN_WITHIN_S):
                place = await self._places.take()
        except TimeoutError:
            raise LateTurn("too much else is being read") from None
        try:
            async with working(), self.read_engine.connect() as connection:
                yield connection
        finally:
            self._places.leave(place)

    async def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Everything that a query finds. ``values``: of its bound parameters, by name: building a query again
        takes longer than running it.
        """
        if working_alone.get():
            raise RuntimeError("work in a transaction reads over its own connection")
        try:
            if self._reads is not None:
                found = await self._reads.rows(query, values)
            else:
                async with self.reading() as connection:
                    found = (await connection.execute(query, values)).all()
        except LateTurn:
            raise  # its owner has asked for too much, which says nothing of the database's health
        except Exception as fault:
            self.health.failed("reading", fault)
            raise
        self.health.worked("reading")
        return found

    async def mappings(
        self, query: Executable, values: Mapping[str, Any] | None = None
    ) -> Sequence[RowMapping]:
        """Everything that a query finds, by the names of its columns."""
        return [row._mapping for row in await self.rows(query, values)]

    async def column(self, query: Executable) -> list[Any]:
        """The values of the first column of everything that a query finds."""
        return [row[0] for row in await self.rows(query)]

    async def agree_on_time(self) -> None:
        """Adopts PostgreSQL's clock, which all processes share, so that no deadline depends on a machine's
        wrong clock. On SQLite the machine's clock counts, which is looked at.
        """
        if self.is_sqlite:
            settled_ms()
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
                await self.rows(_ONE)
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
        for engine in (self.write_engine, self.read_engine):
            await _all_back(engine)
            await engine.dispose()


async def _all_back(engine: AsyncEngine) -> None:
    """Waits a moment for connections that are being given back: to dispose of a pool closes no others."""
    pool = engine.pool
    assert isinstance(pool, QueuePool)
    ends = time.monotonic() + BACK_WITHIN_S
    while pool.checkedout() > 0 and time.monotonic() < ends:  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.005)


_TEXTS: Final = r"^([^\\]|\\[^u]|\\u(?!0000|[dD][89a-fA-F])....|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*$"
"""JSON without U+0000 and without half a surrogate pair, which PostgreSQL stores and cannot read."""

_ONE: Final = text("SELECT 1")
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
_WORKS: Final = text(
    "SELECT pid FROM pg_stat_activity WHERE pid = ANY(:pids) "
    "AND (state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' "
    " OR state_change > now() - make_interval(secs => :silent_s))"
)
"""Which of these sessions work, wait for a lock, or have done so within ``silent_s`` seconds: one that waits
for its client in the middle of a statement is active, too.
"""
_THEIR_CLOCK: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")
