"""One effect per idempotency key: the answer is stored in the transaction of the effect."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms
from app.base.errors import KeyReused
from app.store.db import Database
from app.store.rows import Damaged, check_row
from app.store.tables import idempotency
from engine.errors import CorruptLog

__all__ = ["KEPT_MS", "RequestKey", "keep", "kept"]

KEPT_MS: Final = 24 * 3600 * 1000
"""How long an answer is kept."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A client's key, scoped to its credential and the route, with a hash of the body it came with."""

    caller: str
    route: str
    key: str
    body_hash: str

    @classmethod
    def of(cls, caller: str, route: str, key: str, body: bytes) -> "RequestKey":
        return cls(caller, route, key, hashlib.sha256(body).hexdigest())


async def kept(database: Database, key: RequestKey) -> tuple[int, Any] | None:
    """The stored status and answer; None where this key is new. Raises KeyReused for another body,
    CorruptLog where it does not read.
    """
    query = select(idempotency).where(
        idempotency.c.caller == key.caller,
        idempotency.c.route == key.route,
        idempotency.c.key == key.key,
        idempotency.c.created_at >= now_ms() - KEPT_MS,
    )
    async with database.read_engine.connect() as connection:
        row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    check_row(idempotency, row)
    if isinstance(row["answer"], Damaged) or not 200 <= row["status"] < 300:
        raise CorruptLog("an answer that was kept for this Idempotency-Key does not read")
    if row["body_hash"] != key.body_hash:
        raise KeyReused("this Idempotency-Key came with another body before; take a new key")
    return row["status"], row["answer"]


async def keep(connection: AsyncConnection, key: RequestKey | None, status: int, answer: BaseModel) -> None:
    """Stores the answer in the effect's own transaction, and drops those that are too old.

    A second effect under the same key breaks the primary key, and with it its whole transaction.
    """
    if key is None:
        return
    at = now_ms()
    await connection.execute(delete(idempotency).where(idempotency.c.created_at < at - KEPT_MS))
    await connection.execute(
        insert(idempotency),
        [
            {
                "caller": key.caller,
                "route": key.route,
                "key": key.key,
                "body_hash": key.body_hash,
                "created_at": at,
                "status": status,
                "answer": answer.model_dump(mode="json"),
            }
        ],
    )
