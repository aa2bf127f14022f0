"""Requests that come a second time with their Idempotency-Key: the kept answer, once more."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request
from fastapi.responses import JSONResponse

from app.store.db import Database
from app.store.idempotency import RequestKey, kept

__all__ = ["KeptAnswer", "Repeats", "RepeatsDep"]


class KeptAnswer(NamedTuple):
    """What the first request was answered with."""

    status: int
    body: Any

    def response(self, headers: Mapping[str, str]) -> JSONResponse:
        """The answer as it goes out again."""
        return JSONResponse(self.body, self.status, {"Idempotent-Replayed": "true", **headers})


class Repeats:
    """Looks for kept answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key: RequestKey | None) -> KeptAnswer | None:
        """None for a key that is new, and for none at all. Raises KeyReused, CorruptLog."""
        answer = None if key is None else await kept(self._database, key)
        return None if answer is None else KeptAnswer(*answer)


def _repeats(request: Request) -> Repeats:
    repeats: Repeats = request.app.state.repeats
    return repeats


RepeatsDep = Annotated[Repeats, Depends(_repeats)]
