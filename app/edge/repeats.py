"""Requests that are repeated with their Idempotency-Key: they get the first answer again."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from fastapi.responses import JSONResponse

from app.edge.deps import service
from app.store.db import Database
from app.store.idempotency import RequestKey, kept

__all__ = ["KeptAnswer", "Repeats", "RepeatsDep"]


class KeptAnswer(NamedTuple):
    """The answer to the first request."""

    status: int
    body: Any

    def response(self, headers: Mapping[str, str]) -> JSONResponse:
        """The answer as it is sent again."""
        return JSONResponse(self.body, self.status, {"Idempotent-Replayed": "true", **headers})


class Repeats:
    """Looks for kept answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key: RequestKey | None) -> KeptAnswer | None:
        """The answer kept for this key; None for a new key and for no key. Raises KeyReused, CorruptLog."""
        answer = None if key is None else await kept(self._database, key)
        return None if answer is None else KeptAnswer(*answer)


RepeatsDep = Annotated[Repeats, service("repeats")]
