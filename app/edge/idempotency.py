"""Makes a request with an Idempotency-Key take effect only once. The answer is stored in the transaction of
the effect, and a repeated request with the same key gets the stored answer.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms
from app.base.errors import KeyInUse, KeyReused
from app.store.db import Database
from app.store.rows import Damaged, check_row
from app.store.tables import idempotency
from engine.errors import CorruptLog

__all__ = ["KEPT_MS", "KeptAnswer", "Repeats", "RepeatsDep", "RequestKey"]

KEPT_MS: Final = 24 * 3600 * 1000
"""How long an answer is kept, in milliseconds."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A client's key, scoped to its credential and the route, with a hash of the body that it came with."""

    caller: str
    route: str
    key: str
    body_hash: str

    @classmethod
    def of(cls, caller: str, route: str, key: str, body: bytes) -> "RequestKey":
        return cls(caller, route, key, hashlib.sha256(body).hexdigest())

    async def keep(self, connection: AsyncConnection, status: int, answer: BaseModel) -> None:
        """Stores the answer in the transaction of the effect, and drops answers that are too old.

        A second effect with the same key would violate the primary key, so its whole transaction fails.
        """
        at = now_ms()
        await connection.execute(delete(idempotency).where(idempotency.c.created_at < at - KEPT_MS))
        kept = {"created_at": at, "status": status, "answer": answer.model_dump(mode="json")}
        await connection.execute(insert(idempotency), [{**asdict(self), **kept}])


class KeptAnswer(NamedTuple):
    """The answer to the first request."""

    status: int
    body: Any

    def response(self, headers: Mapping[str, str]) -> JSONResponse:
        """The answer as it is sent again."""
        return JSONResponse(self.body, self.status, {"Idempotent-Replayed": "true", **headers})


class Repeats:
    """Finds stored answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key: RequestKey) -> KeptAnswer | None:
        """The stored answer; None if the key is new. Raises KeyReused if the key came with another body
        before, and CorruptLog if the answer cannot be read.
        """
        query = select(idempotency).where(
            idempotency.c.caller == key.caller,
            idempotency.c.route == key.route,
            idempotency.c.key == key.key,
            idempotency.c.created_at >= now_ms() - KEPT_MS,
        )
        for row in await self._database.mappings(query):
            check_row(idempotency, row)
            if isinstance(row["answer"], Damaged) or not 200 <= row["status"] < 300:
                raise CorruptLog("the answer kept for this Idempotency-Key cannot be read")
            if row["body_hash"] != key.body_hash:
                raise KeyReused("this Idempotency-Key was used with another body before; use a new key")
            return KeptAnswer(row["status"], row["answer"])
        return None

    async def settled(self, key: RequestKey) -> KeptAnswer:
        """The answer to an earlier request that was faster. Raises KeyInUse if it has none yet."""
        answer = await self.find(key)
        if answer is None:
            raise KeyInUse("a request with this Idempotency-Key is being worked on; ask again")
        return answer


async def _repeats(request: Request) -> Repeats:
    repeats: Repeats = request.app.state.repeats
    return repeats


RepeatsDep = Annotated[Repeats, Depends(_repeats)]
