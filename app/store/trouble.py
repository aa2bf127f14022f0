"""What keeps a database from working, in one plain sentence: a full disk, a lock, a server that is away."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import asyncpg  # type: ignore[import-untyped]
import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.store.schema import UnknownSchema

__all__ = ["DatabaseAway", "DatabaseHealth", "DatabaseTrouble", "trouble_of"]

log = structlog.get_logger()

LATE_S: Final = 5.0
"""Seconds after which a write that still waits counts as trouble."""

Cause = Literal["full", "locked", "away", "schema", "refused", "damaged", "slow"]


class DatabaseAway(ConnectionError):
    """No connection to the database could be opened."""


class DatabaseTrouble(NamedTuple):
    """Why the database cannot be used."""

    cause: Cause
    words: str
    """A sentence without a full stop: what is the case, and what to do."""


_WORDS: Final[dict[Cause, str]] = {
    "full": "the disk of the database is full: make room (interintent prune); games wait and go on then",
    "locked": "another program holds the lock of the database: end it; writing waits and goes on then",
    "away": "the database does not answer: see that it runs and can be reached; games wait and go on then",
    "refused": "the database refuses us: check the user, the password and the name in DATABASE_URL",
    "damaged": "the database is damaged: interintent doctor says where; restore a backup",
}

_SQLITE: Final[dict[int, Cause]] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_IOERR: "away",
    sqlite3.SQLITE_CANTOPEN: "away",
    sqlite3.SQLITE_READONLY: "refused",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
}

_POSTGRES: Final[dict[str, Cause]] = {
    "53100": "full",
    "53200": "away",
    "53300": "away",
    "40P01": "locked",
    "55P03": "locked",
    "25006": "refused",
    "28000": "refused",
    "28P01": "refused",
    "3D000": "refused",
    "42501": "refused",
    "57P01": "away",
    "57P02": "away",
    "57P03": "away",
    "58030": "away",
    "XX001": "damaged",
    "XX002": "damaged",
}
"""By SQLSTATE: no room, no memory, too many connections, a deadlock, a lock, read-only, who may not, shutting
down, starting, input or output, damage.
"""


def trouble_of(fault: BaseException) -> DatabaseTrouble | None:
    """What the fault says of the database; None for a fault that is ours, or not the database's."""
    if isinstance(fault, UnknownSchema):
        return DatabaseTrouble("schema", str(fault))
    cause = _cause(fault)
    return None if cause is None else DatabaseTrouble(cause, _WORDS[cause])


def _cause(fault: BaseException) -> Cause | None:
    raw: Any = fault.orig if isinstance(fault, DBAPIError) else fault
    if isinstance(raw, sqlite3.Error):
        return _SQLITE.get((getattr(raw, "sqlite_errorcode", None) or 0) & 0xFF)
    state = getattr(raw, "sqlstate", None) or ""
    if state in _POSTGRES:
        return _POSTGRES[state]
    # 08: connection exceptions.
    if state.startswith("08") or (isinstance(fault, DBAPIError) and fault.connection_invalidated):
        return "away"
    if isinstance(raw, DatabaseAway | PoolTimeout | TimeoutError | ConnectionError):
        return "away"
    if isinstance(raw, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return "away"  # asyncpg says so of a connection that broke under it
    # SQLAlchemy's form of asyncpg's errors keeps only their names.
    if isinstance(fault, DBAPIError) and "InterfaceError" in type(raw).__name__:
        return "away"
    return None


class DatabaseHealth:
    """Whether the database worked when it was used last. Tells the log when that changes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[str, DatabaseTrouble] = {}
        """By what was tried: ``reading``, ``writing`` or ``schema``."""
        self._writing_since: float | None = None

    @property
    def trouble(self) -> DatabaseTrouble | None:
        """Why the database cannot be used; None if it can."""
        for what in ("schema", "writing", "reading"):
            if what in self._found:
                return self._found[what]
        if self._writing_since is not None and (waited := self._clock() - self._writing_since) >= LATE_S:
            words = (
                f"a write has been waiting for {waited:.0f} s: another program may hold the lock of the "
                "database, or its disk is very slow"
            )
            return DatabaseTrouble("slow", words)
        return None

    def begins_to_write(self) -> None:
        self._writing_since = self._clock()

    def stops_writing(self) -> None:
        self._writing_since = None

    def failed(self, what: str, fault: BaseException) -> DatabaseTrouble | None:
        """Notes what the fault says of the database, and returns it; None if it says nothing."""
        trouble = trouble_of(fault)
        if trouble is not None:
            known = {found.cause for found in self._found.values()}
            self._found[what] = trouble
            if trouble.cause not in known:
                log.error(trouble.words, cause=trouble.cause, fault=type(fault).__name__)
        return trouble

    def worked(self, what: str, *, tried: bool = False) -> None:
        """Notes that it worked. ``tried``: it was tried whether there is room for more; on a full disk little
        writes may succeed between others that fail.
        """
        if not self._found or what not in self._found:
            return
        before = self._found[what]
        if before.cause != "full" or tried:
            del self._found[what]
            if not self._found:
                log.warning("the database works again", after=before.cause)
