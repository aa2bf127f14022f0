"""Metrics that are read from the database and its pool when somebody asks for them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import orjson
import structlog
from sqlalchemy import ColumnElement, Select, String, and_, bindparam, case, column, func, or_, select, table
from sqlalchemy.exc import DBAPIError

from app.base import metrics
from app.base.clock import now_ms
from app.store.db import PASSING, Database
from app.store.games import IS_OPEN, OPEN
from app.store.sizes import table_bytes
from app.store.tables import batches, games

__all__ = ["DatabaseGauges", "count_connections"]

log = structlog.get_logger()

SIZES_FRESH_S: Final = 600.0
"""The same for the sizes of tables, since SQLite looks at every page of its file for them."""

FRESH_S: Final = 2.0
"""The database is asked again after this many seconds at the earliest, however often the metrics are read."""

WITHIN_S: Final = 3.0
"""Seconds after which the metrics go without what the database does not say."""

HELD: Final = "held"
"""The status that metrics give to games that have not begun and that nobody is to begin now: of suspended
batches, or stepped by their owner. They are not the queue.
"""

_jobs: Final = table("pgqueuer", column("id"), column("execute_after"))

_HAS_JOB_BEGUN: Final = or_(games.c.driver.is_not(None), _jobs.c.execute_after > func.now())
"""Whether a process drives the game, or it waits without one, for people or for an endpoint."""

_HAS_BEGUN_HERE: Final = games.c.game_id.in_(
    select(func.json_each(bindparam("begun", type_=String)).table_valued("value").c.value)
)


def _open_games(has_begun: ColumnElement[bool], *, jobs: bool) -> Select[str, int, int]:
    """Counts games that are not over by the status that metrics give them. A game has the status ``created``
    in its row until its first step, which people and models may take long for: the queue are those that
    nobody has begun.
    """
    is_created = games.c.status == "created"
    nobody_is_to_begin = or_(games.c.drive != "auto", batches.c.suspended.is_not(None))
    status = case(
        (and_(is_created, nobody_is_to_begin), HELD),
        (and_(is_created, has_begun), "running"),
        else_=games.c.status,
    ).label("shown")
    of = games.outerjoin(batches, batches.c.batch_id == games.c.batch_id)
    if jobs:
        of = of.outerjoin(_jobs, _jobs.c.id == games.c.job)
    query = select(status, func.count(), func.min(games.c.created_at)).select_from(of)
    return query.where(IS_OPEN).group_by("shown")


def count_connections(database: Database) -> None:
    """Brings the gauge of this process's connections up to date."""
    # The pools of both databases are queues, which have these two numbers.
    pool = cast(Any, database.write_engine.pool)
    metrics.database_connections.labels("in_use").set(pool.checkedout())
    metrics.database_connections.labels("idle").set(pool.checkedin())


class DatabaseGauges:
    """How many games wait, and for how long; how many connections are in use."""

    def __init__(self, database: Database, begun: Callable[[], Iterable[str]]) -> None:
        """``begun``: gives the games that this process has begun. On PostgreSQL the queue knows."""
        self._database = database
        self._begun = begun
        self._read_at: float | None = None
        self._sized_at: float | None = None
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Brings the gauges up to date. While the database is away, those of games are missing."""
        count_connections(self._database)
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if self._read_at is not None and now - self._read_at < FRESH_S:
                return
            self._read_at = now
            if self._sized_at is None or now - self._sized_at >= SIZES_FRESH_S:
                self._sized_at = now
                await self._size()
            try:
                async with asyncio.timeout(WITHIN_S):
                    rows = await self._database.rows(self._open_games())
            except (*PASSING, TimeoutError) as fault:
                log.warning("metrics leave out what is counted in the database", cause=type(fault).__name__)
                metrics.games_open.clear()
                metrics.games_oldest.clear()
                return
            found = {status: (count, oldest) for status, count, oldest in rows}
            for status in (*OPEN, HELD):
                count, oldest = found.get(status, (0, None))
                metrics.games_open.labels(status).set(count)
                age_ms = 0 if type(oldest) is not int else max(0, now_ms() - oldest)
                metrics.games_oldest.labels(status).set(age_ms / 1000)

    def _open_games(self) -> Select[str, int, int]:
        if not self._database.is_sqlite:
            return _open_games(_HAS_JOB_BEGUN, jobs=True)
        begun = orjson.dumps(list(self._begun())).decode()
        return _open_games(_HAS_BEGUN_HERE, jobs=False).params(begun=begun)

    async def _size(self) -> None:
        metrics.database_bytes.clear()
        try:
            async with asyncio.timeout(WITHIN_S):
                sizes = await table_bytes(self._database)
        except (DBAPIError, *PASSING, TimeoutError) as fault:
            log.warning("metrics leave out the sizes of tables", cause=type(fault).__name__)
            return
        for name, size in sizes.items():
            metrics.database_bytes.labels(name).set(size)
