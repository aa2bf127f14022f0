"""Claims: a batch or a judging has one driver at a time, and gets another one when the driver dies.

A claim ends at once with the process that holds it, without a timeout: on PostgreSQL it is an advisory lock
of the session, on SQLite a lock on a file beside the database. Claims save money, not correctness: two
drivers of one game would write one log, since its positions are unique, but pay its models twice.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Protocol

import structlog
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from app.base.tasks import end_tasks
from app.store.db import postgres_engine

if sys.platform != "win32":
    import fcntl

__all__ = ["Claims", "FileClaims", "SessionClaims", "claims_of"]

log = structlog.get_logger()

BEAT_S: Final = 5.0
"""Seconds between two checks that the session with the claims is alive."""

_PATIENCE_S: Final = 5.0
"""Seconds without an answer after which a session counts as broken."""

_AGAIN_S: Final = 0.5

_KEEPALIVES: Final = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
)
"""With these, a server drops the session of a vanished machine after 25 s instead of two hours."""

_TAKE: Final = text(
    "SELECT key FROM unnest(CAST(:keys AS bigint[])) WITH ORDINALITY AS wanted(key, place) "
    "WHERE pg_try_advisory_lock(key) ORDER BY place"
)
_GIVE_BACK: Final = text("SELECT pg_advisory_unlock(:key)")


class Claims(Protocol):
    """The claims of one process."""

    sole: bool
    """Whether no other process can hold any claim while this process holds one."""
    on_lost: list[Callable[[str], None]]
    """Called with the name of each claim that another process got while this one had no session."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Gives everything back."""
        ...

    async def take(self, names: Sequence[str]) -> list[str]:
        """Claims the names and returns those that it got; this process must not hold any of them yet.

        Empty while the database is away, or another process holds them all.
        """
        ...

    async def give_back(self, name: str) -> None: ...


def claims_of(url: str) -> Claims:
    """The claims of a process on this database."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return SessionClaims(url)
    held = parsed.database
    return FileClaims(Path(held + ".driver") if held and held != ":memory:" else None)


class FileClaims:
    """All or nothing: the process that locks the file drives every game of the database.

    ``path``: None for a database that no other process can open.
    """

    sole = True

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._warned = False
        self.on_lost: list[Callable[[str], None]] = []

    @property
    def held(self) -> bool:
        """Whether this process is the one."""
        return self._path is None or self._file is not None or sys.platform == "win32"

    async def start(self) -> None:
        self._lock()

    async def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    async def take(self, names: Sequence[str]) -> list[str]:
        return list(names) if self._lock() else []

    async def give_back(self, name: str) -> None:
        """Does nothing: the file stays locked as long as the process lives."""

    def _lock(self) -> bool:
        if self.held or self._path is None:
            return True
        # Another user who could lock the file would keep every game of the database from being driven.
        file = open(self._path, "ab", opener=partial(os.open, mode=0o600))  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            if not self._warned:
                log.warning(
                    "another process drives the games of this database: on SQLite only one can, and this one "
                    "takes over when it ends. On PostgreSQL any number of processes share the games",
                    lock=self._path.name,
                )
                self._warned = True
            return False
        self._file = file
        return True


class SessionClaims:
    """Advisory locks of one PostgreSQL session, which does nothing else.

    A broken session loses its locks, while its games go on. The process that gets a lock once the database
    is back goes on alone; the other process learns of the loss by ``on_lost``.
    """

    sole = False

    def __init__(self, url: str) -> None:
        self._engine = postgres_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._connection: AsyncConnection | None = None
        self._held: set[str] = set()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.on_lost: list[Callable[[str], None]] = []

    async def start(self) -> None:
        async with self._turn:
            await self._look()
        self._task = asyncio.create_task(self._keep(), name="claims")

    async def stop(self) -> None:
        await end_tasks(self._task)
        async with self._turn:
            await self._drop()
        self._held.clear()
        await self._engine.dispose()

    async def take(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        async with self._turn:
            taken = await self._try(names)
            self._held.update(taken)
        return taken

    async def give_back(self, name: str) -> None:
        async with self._turn:
            if name in self._held:
                self._held.discard(name)
                with suppress(_Broken):
                    await self._run(_GIVE_BACK, {"key": _key(name)})

    async def _keep(self) -> None:
        """Checks the session now and then, and takes a broken session's claims again."""
        while True:
            await asyncio.sleep(BEAT_S if self._connection is not None else _AGAIN_S)
            async with self._turn:
                await self._look()

    async def _look(self) -> None:
        if self._connection is not None:
            with suppress(_Broken):
                await self._run(text("SELECT 1"), {})
        if self._connection is None:
            held = sorted(self._held)
            try:
                self._connection = await self._open()
            except Exception as fault:
                log.warning("no session to hold claims", cause=type(fault).__name__, held=len(held))
                return
            regained = set(await self._try(held)) if held else set()
            if self._connection is None:
                return
            for name in held:
                if name not in regained:
                    self._held.discard(name)
                    for tell in self.on_lost:
                        tell(name)

    async def _try(self, names: Sequence[str]) -> list[str]:
        by_key = {_key(name): name for name in names}
        try:
            rows = await self._run(_TAKE, {"keys": list(by_key)})
        except _Broken:
            return []
        return [by_key[row[0]] for row in rows]

    async def _open(self) -> AsyncConnection:
        async with asyncio.timeout(_PATIENCE_S):
            connection = await self._engine.connect()
            try:
                for setting in _KEEPALIVES:
                    await connection.execute(text(setting))
            except BaseException:
                await connection.close()
                raise
        return connection

    async def _run(self, statement: Any, values: dict[str, Any]) -> list[Any]:
        if self._connection is None:
            raise _Broken
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return list((await self._connection.execute(statement, values)).all())
        except asyncio.CancelledError:
            await self._drop()
            raise
        except Exception as fault:
            log.warning("the session that holds claims is gone", cause=type(fault).__name__)
            await self._drop()
            raise _Broken from fault

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.invalidate()
            with suppress(Exception):
                await connection.close()


class _Broken(Exception):
    """The session is broken."""


def _key(name: str) -> int:
    """The lock's number: 64 bits of a hash, so that two names practically never share it."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
