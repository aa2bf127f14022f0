"""Makes a request with an Idempotency-Key take effect only once. The answer is stored in the transaction of
the effect, and a repeated request with the same key gets the stored answer.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import ColumnElement, and_, delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms
from app.base.errors import KeyInUse, KeyReused
from app.store.db import Database
from app.store.rows import Damaged, check_row
from app.store.tables import idempotency
from engine.errors import UNREADABLE, AvalonError, CorruptLog

__all__ = ["KEPT_MS", "KeptAnswer", "Repeats", "RequestKey"]

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

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

    async def check_new(self, connection: AsyncConnection) -> None:
        """Raises KeyInUse if an answer is kept for the key by now; ``Repeats.once`` then gives that answer.
        For what may have waited for a request with the same key.
        """
        kept = select(idempotency.c.key).where(self.is_kept())
        if (await connection.execute(kept)).first() is not None:
            raise _in_use()

    def is_kept(self) -> ColumnElement[bool]:
        """Whether a row of ``idempotency`` is the answer that is kept for the key."""
        return and_(
            idempotency.c.caller == self.caller,
            idempotency.c.route == self.route,
            idempotency.c.key == self.key,
            idempotency.c.created_at >= now_ms() - KEPT_MS,
        )

    async def keep(self, connection: AsyncConnection, status: int, answer: BaseModel) -> None:
        """Stores the answer in the transaction of the effect, and drops answers that are too old.

        A second effect with the same key would violate the primary key, so its whole transaction fails.
        """
        at = now_ms()
        await connection.execute(delete(idempotency).where(idempotency.c.created_at < at - KEPT_MS))
        kept = {"created_at": at, "status": status, "answer": answer.model_dump(mode="json")}
        await connection.execute(insert(idempotency), [{**asdict(self), **kept}])


def _in_use() -> KeyInUse:
    return KeyInUse("another request was faster, perhaps with this key; send this one again")


def _damaged() -> CorruptLog:
    return CorruptLog("the answer kept for this Idempotency-Key cannot be read")


class KeptAnswer(NamedTuple):
    """The answer to the first request."""

    status: int
    body: Any

    def read(self, model: type[M]) -> M:
        """The answer as a value. Raises CorruptLog if it cannot be read."""
        try:
            return model.model_validate(self.body)
        except UNREADABLE:
            raise _damaged() from None

    def response(self, location: str = "", **headers: str) -> JSONResponse:
        """The answer as it is sent again. ``location``: the address of what was made, with names of the
        answer's fields in braces. Raises CorruptLog if the answer has no such field.
        """
        try:
            named = {"Location": location.format_map(self.body)} if location else {}
        except UNREADABLE:
            raise _damaged() from None
        return JSONResponse(self.body, self.status, {"Idempotent-Replayed": "true", **named, **headers})


class Repeats:
    """Gives repeated requests the stored answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def once(self, key: RequestKey, do: Callable[[], Awaitable[T]]) -> T | KeptAnswer:
        """What ``do`` returns; or the stored answer, if a request with this key was made before, or took
        effect by the time that ``do`` raises.

        ``do`` stores its answer with ``RequestKey.keep``. Raises what ``do`` raises, KeyReused if the key
        came with another body before, CorruptLog if the answer cannot be read, and KeyInUse if a request that
        was faster has left no answer.
        """
        if (kept := await self._find(key)) is not None:
            return kept
        try:
            return await do()
        except (IntegrityError, AvalonError) as fault:
            # What is refused here, such as a seat, may have gone to the same request sent a moment earlier.
            if (kept := await self._find(key)) is not None:
                return kept
            if isinstance(fault, AvalonError):
                raise
            raise _in_use() from None

    async def _find(self, key: RequestKey) -> KeptAnswer | None:
        """The stored answer; None if the key is new. Raises KeyReused, CorruptLog."""
        for row in await self._database.mappings(select(idempotency).where(key.is_kept())):
            check_row(idempotency, row)
            if isinstance(row["answer"], Damaged) or not 200 <= row["status"] < 300:
                raise _damaged()
            if row["body_hash"] != key.body_hash:
                raise KeyReused("this Idempotency-Key was used with another body before; use a new key")
            return KeptAnswer(row["status"], row["answer"])
        return None
