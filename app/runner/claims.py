"""Claims: one process at a time works on a judging, and another takes it over when that process dies.

On PostgreSQL a claim is a row of the queue that its process beats for; on SQLite, where it also stands for
all games, it is a lock on a file beside the database. Claims only save money: if two processes judge the
same, only one can store each step.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Protocol
from uuid import UUID

import structlog

from app.store.jobs import JobStore
from app.store.sqlite import sqlite_file

if sys.platform != "win32":
    import fcntl

__all__ = ["Claims", "FileClaims", "JobClaims"]

log = structlog.get_logger()


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


class FileClaims:
    """All or nothing: the process that locks the file drives every game of the database."""

    sole = True

    @classmethod
    def of(cls, url: str) -> "FileClaims":
        """The claims of a process on the SQLite database at this URL."""
        return cls(Path(f"{sqlite_file(url)}.driver"))

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._warned = False
        self.on_lost: list[Callable[[str], None]] = []

    @property
    def held(self) -> bool:
        """Whether this process is the one."""
        return self._file is not None or sys.platform == "win32"

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
        if self.held:
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


class JobClaims:
    """Claims in the queue of a PostgreSQL database. Whoever made them beats for ``held``, and calls ``look``
    now and then.
    """

    sole = False

    def __init__(self, jobs: JobStore, own: UUID, stale_s: float) -> None:
        """``own``: names this process. ``stale_s``: seconds without a beat after which anybody may take a
        claim over.
        """
        self._jobs = jobs
        self._own = own
        self._stale_s = stale_s
        self._held: dict[str, int] = {}
        """The row of each name that is claimed."""
        self.on_lost: list[Callable[[str], None]] = []

    @property
    def held(self) -> list[int]:
        """The rows of this process's claims."""
        return list(self._held.values())

    async def start(self) -> None:
        """Does nothing: rows need no session."""

    async def stop(self) -> None:
        for name in list(self._held):
            await self.give_back(name)

    async def take(self, names: Sequence[str]) -> list[str]:
        taken = await self._jobs.claim(names, self._own, self._stale_s) if names else {}
        self._held.update(taken)
        return list(taken)

    async def give_back(self, name: str) -> None:
        row = self._held.pop(name, None)
        if row is not None:
            await self._jobs.unclaim(row, self._own)

    async def look(self) -> None:
        """Finds out which claims another process has taken over."""
        if not self._held:
            return
        asked = dict(self._held)
        kept = await self._jobs.claimed(list(asked.values()), self._own)
        for name, row in asked.items():
            if row not in kept and self._held.get(name) == row:
                del self._held[name]
                for tell in self.on_lost:
                    tell(name)
