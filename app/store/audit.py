"""Who did what: a list that only grows."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.db import Database
from app.store.rows import Damaged, is_readable
from app.store.tables import audit
from engine.errors import AvalonError

__all__ = ["Audit", "Deed", "Doer"]


class Deed(NamedTuple):
    """Something that somebody did."""

    at: int
    """ms"""
    by: str
    """The credential's public name, or the user of the operating system."""
    owner: str
    """The owner of what that credential makes."""
    action: str
    object: str
    """The id of what it was done to."""
    detail: Mapping[str, Any]


class Doer(Protocol):
    """A credential."""

    @property
    def name(self) -> str: ...

    @property
    def owner(self) -> str: ...


class Audit:
    """The list in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, by: Doer, action: str, object_: str, **detail: Any) -> int:
        """Adds a deed, and returns its number. Details that are None are left out."""

        async def work(connection: AsyncConnection) -> int:
            return await self.add(connection, by, action, object_, **detail)

        return await self._database.writer.run(work)

    @asynccontextmanager
    async def noted(
        self, by: Doer, action: str, object_: str, **detail: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Adds a deed before the block does it, so that no crash leaves a deed without its line. What the
        block puts into the mapping is added to the details. If the deed is refused, its line is removed
        again, unless the mapping holds something: then a part of the deed may be done.
        """
        number = await self.note(by, action, object_, **detail)
        more: dict[str, Any] = {}
        this = audit.c.number == number
        refused = False
        try:
            yield more
        except AvalonError:
            refused = True
            raise
        finally:
            if more:
                amended = update(audit).where(this).values(detail=_given(detail | more))
                await self._database.writer.execute(amended)
            elif refused:
                await self._database.writer.execute(delete(audit).where(this))

    async def add(
        self, connection: AsyncConnection, by: Doer, action: str, object_: str, **detail: Any
    ) -> int:
        """Adds a deed in the transaction in which it is done, and returns its number."""
        at = self._database.writer.stamp()
        values = {
            "at": at,
            "by": by.name,
            "owner": by.owner,
            "action": action,
            "object": object_,
            "detail": _given(detail),
        }
        added = await connection.execute(insert(audit).values(values).returning(audit.c.number))
        return int(added.scalar_one())

    async def deeds(
        self,
        *,
        by: Sequence[str] = (),
        actions: Sequence[str] = (),
        objects: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
    ) -> tuple[list[Deed], int]:
        """The last deeds, the oldest first, and how many rows cannot be read. ``by``: by these credentials,
        or of these owners; ``objects``: to these ids. Empty: all.
        """
        query = select(audit)
        if by:
            query = query.where(or_(audit.c.by.in_(by), audit.c.owner.in_(by)))
        if actions:
            query = query.where(audit.c.action.in_(actions))
        if objects:
            query = query.where(audit.c.object.in_(objects))
        if since is not None:
            query = query.where(audit.c.at >= since)
        if until is not None:
            query = query.where(audit.c.at < until)
        rows = await self._database.mappings(query.order_by(audit.c.number.desc()).limit(limit))
        readable = [row for row in rows if is_readable(audit, row)]
        deeds = [
            Deed(row["at"], row["by"], row["owner"], row["action"], row["object"], _shown(row["detail"]))
            for row in reversed(readable)
        ]
        return deeds, len(rows) - len(readable)


def _given(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if value is not None}


def _shown(detail: Any) -> Mapping[str, Any]:
    return {"damaged": True} if isinstance(detail, Damaged) else detail
