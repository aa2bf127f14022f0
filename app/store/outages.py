"""Outages of model endpoints in the database: all processes know of them, and one at a time tries again."""

from dataclasses import replace
from typing import Any, Final

import structlog
from sqlalchemy import case, delete, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from app.base.clock import SET_BACK_MS, now_ms
from app.store.db import PASSING, Database
from app.store.rows import Outage, is_readable, typed_row, values_of
from app.store.tables import model_outages

__all__ = ["OutageStore"]

log = structlog.get_logger()

LATEST_MS: Final = 25 * 3600 * 1000
"""Nobody puts the next try off for this long: a server may ask for a day, and clocks may differ by an hour. A
row that does is damaged, and its next try is due; and so is one whose outage begins in the future: it is from
before the clock was set back.
"""

_c = model_outages.c

_NO_GAME_WAITS: Final = text(
    "NOT EXISTS (SELECT 1 FROM pgqueuer JOIN games ON games.job = pgqueuer.id "
    "WHERE pgqueuer.headers ->> 'endpoint' = model_outages.endpoint)"
)
"""No game is parked at the endpoint, or was and has been woken to try it."""


class OutageStore:
    """The table ``model_outages``. While the database is away, each process relies on its own knowledge."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect: Any = sqlite if database.is_sqlite else postgresql
        added = dialect.insert(model_outages)
        self._put = added.on_conflict_do_update(
            index_elements=[_c.endpoint],
            set_={"cause": added.excluded.cause, "try_at": added.excluded.try_at},
        )

    async def all(self) -> dict[str, Outage] | None:
        """The outages by endpoint. None: the database is away."""
        try:
            rows = await self._database.mappings(select(model_outages))
        except PASSING:
            return None
        read = [typed_row(Outage, row) for row in rows if is_readable(model_outages, row)]
        now = now_ms()
        return {
            outage.endpoint: replace(outage, since=min(outage.since, now), try_at=now)
            if outage.try_at > now + LATEST_MS or outage.since > now + SET_BACK_MS
            else outage
            for outage in read
        }

    async def put(self, outage: Outage) -> None:
        """Stores an outage, or changes its cause and ``try_at``."""
        await self._execute(self._put.values(values_of(outage)))

    async def claim(self, endpoint: str, now: int, until: int) -> bool:
        """Whether the caller may try now. If so, nobody else may try before ``until``. Times are in ms."""
        is_set_back = _c.since > now + SET_BACK_MS
        due = or_(_c.try_at <= now, _c.try_at > now + LATEST_MS, is_set_back)
        since = case((is_set_back, now), else_=_c.since)
        claimed = update(model_outages).where(_c.endpoint == endpoint, due).values(try_at=until, since=since)
        return await self._execute(claimed) != 0

    async def end(self, endpoint: str) -> None:
        await self._execute(delete(model_outages).where(_c.endpoint == endpoint))

    async def end_unwanted(self, endpoint: str, before: int) -> None:
        """Ends an outage whose next try was due before ``before``, unless games wait for the endpoint in the
        queue (PostgreSQL).
        """
        ended = delete(model_outages).where(_c.endpoint == endpoint, _c.try_at < before)
        if not self._database.is_sqlite:
            ended = ended.where(_NO_GAME_WAITS)
        await self._execute(ended)

    async def _execute(self, statement: Any) -> int | None:
        """How many rows were changed. None: the database is away."""
        try:
            return await self._database.writer.execute(statement)
        except PASSING as fault:
            log.warning(
                "cannot store what is known of a model's outage: only this process knows it",
                cause=type(fault).__name__,
            )
            return None
