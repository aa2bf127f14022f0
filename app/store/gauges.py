"""Metrics that are read from the database and its pool when somebody asks for them."""

import asyncio
from typing import Any, Final, cast

import structlog
from sqlalchemy import String, func, literal_column, select
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

_status: Final = literal_column(
    "CASE WHEN games.status = 'created' AND (games.drive <> 'auto' OR batches.suspended IS NOT NULL) "
    f"THEN '{HELD}' ELSE games.status END",
    String,
).label("shown")

_OPEN_GAMES: Final = (
    select(_status, func.count(), func.min(games.c.created_at))
    .select_from(games.outerjoin(batches, batches.c.batch_id == games.c.batch_id))
    .where(IS_OPEN)
    .group_by("shown")
)


def count_connections(database: Database) -> None:
    """Brings the gauge of this process's connections up to date."""
    # The pools of both databases are queues, which have these two numbers.
    pool = cast(Any, database.write_engine.pool)
    metrics.database_connections.labels("in_use").set(pool.checkedout())
    metrics.database_connections.labels("idle").set(pool.checkedin())


class DatabaseGauges:
    """How many games wait, and for how long; how many connections are in use."""

    def __init__(self, database: Database) -> None:
        self._database = database
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
                    rows = await self._database.rows(_OPEN_GAMES)
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

    async def _size(self) -> None:
        metrics.database_bytes.clear()
        try:
            async with asyncio.timeout(WITHIN_S):
                sizes = await table_bytes(self._database)
        except (DBAPIError, *PASSING, TimeoutError) as fault:
            log.warning("metrics leave out the sizes of tables", cause=type(fault).__name__)
            return
        for table, size in sizes.items():
            metrics.database_bytes.labels(table).set(size)
