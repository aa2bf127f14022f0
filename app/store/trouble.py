"""What keeps a database from working, in one plain sentence: a full disk, a lock, a server that is away."""

import re
import shlex
import sqlite3
from typing import Any, Final, Literal, NamedTuple

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.store.schema import UnknownSchema

__all__ = ["READ_ONLY", "DatabaseAway", "DatabaseTrouble", "Pooled", "is_worth_repeating", "trouble_of"]

Cause = Literal[
    "full",
    "locked",
    "away",
    "failing",
    "crowded",
    "pooled",
    "schema",
    "refused",
    "damaged",
    "unreadable",
    "slow",
    "broken off",
]


class DatabaseAway(ConnectionError):
    """No connection to the database could be opened."""


class Pooled(DatabaseAway):
    """A pooler answers in the place of PostgreSQL."""


class DatabaseTrouble(NamedTuple):
    """Why the database cannot be used."""

    cause: Cause
    advice: str
    """A sentence without a full stop: what is the case, and what to do."""
    meanwhile: str = ""
    """What a service does until then; empty: nothing is known of that."""
    said: str = ""
    """What the database itself said, for the log; empty: the advice says it all."""

    @property
    def words(self) -> str:
        """As a service says it."""
        return f"{self.advice}; {self.meanwhile}" if self.meanwhile else self.advice


_WAITING: Final = "games wait and go on then"

_TROUBLES: Final[dict[Cause, DatabaseTrouble]] = {
    trouble.cause: trouble
    for trouble in (
        DatabaseTrouble(
            "full",
            "the disk of the database is full: free space on its volume first; deleting games (interintent "
            "prune) needs some itself",
            _WAITING,
        ),
        DatabaseTrouble(
            "locked",
            "another program holds the lock of the database: end that program",
            "writing waits and goes on then",
        ),
        DatabaseTrouble(
            "away", "the database does not answer: see that it runs and can be reached", _WAITING
        ),
        DatabaseTrouble(
            "failing",
            "the disk of the database cannot be read or written: see what the log of the machine says of it, "
            "and that it has room",
            _WAITING,
        ),
        DatabaseTrouble(
            "crowded",
            "the database takes no more connections: raise its max_connections, or run fewer processes",
            _WAITING,
        ),
        DatabaseTrouble(
            "pooled",
            "a pooler such as PgBouncer stands before the database, and none is supported: put the address "
            "of PostgreSQL itself into DATABASE_URL",
            _WAITING,
        ),
        DatabaseTrouble(
            "broken off",
            "the database breaks our statements off: somebody cancels them, or its statement_timeout is too "
            "short; set that to 0 for our user",
            _WAITING,
        ),
        DatabaseTrouble(
            "refused",
            "the database refuses us: check the user, its rights, the password and the name in DATABASE_URL, "
            "and that it is not read-only; or, of an SQLite file, that it and its folder are there and can "
            "be written",
        ),
        DatabaseTrouble(
            "schema",
            "a table or a column is missing in the database: a newer release has migrated it, or somebody "
            "has changed it by hand; interintent doctor says what to do",
        ),
        DatabaseTrouble(
            "damaged",
            "the database is damaged: interintent doctor names what cannot be read, and says what to do",
        ),
        DatabaseTrouble(
            "unreadable",
            "the file is damaged from its first page on, or no SQLite database: restore a backup, or name "
            "another file",
        ),
    )
}

DEADLOCK: Final = asyncpg.DeadlockDetectedError.sqlstate
"""What PostgreSQL answers to one of two transactions that wait for each other."""

READ_ONLY: Final = asyncpg.ReadOnlySQLTransactionError.sqlstate
"""What PostgreSQL answers to a write in a session that may only read."""

_NAMED: Final = re.compile(r'database "([^"\s]+)"')
"""How PostgreSQL names the database that it does not have."""

_SQLITE: Final[dict[int, Cause]] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_IOERR: "failing",
    sqlite3.SQLITE_CANTOPEN: "refused",
    sqlite3.SQLITE_READONLY: "refused",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "unreadable",
}

_POSTGRES: Final[dict[str, Cause]] = {
    "53100": "full",
    "53200": "away",
    "53300": "crowded",
    DEADLOCK: "locked",
    "55P03": "locked",
    READ_ONLY: "refused",
    "26000": "pooled",
    "28000": "refused",
    "28P01": "refused",
    "3D000": "refused",
    "3F000": "refused",
    "42501": "refused",
    "42703": "schema",
    "42P01": "schema",
    "42P05": "pooled",
    "57014": "broken off",
    "57P01": "away",
    "57P02": "away",
    "57P03": "away",
    "58030": "failing",
    "XX001": "damaged",
    "XX002": "damaged",
}
"""By SQLSTATE: no room, no memory, too many connections, a deadlock, a lock, read-only, a prepared
statement that is in another session, who may not, what is missing, a prepared statement of another's, a
statement that was cancelled or took too long, shutting down, starting, input or output, damage.
"""

_UNSUPPORTED: Final = "unsupported startup parameter"
"""What PgBouncer says of the settings with which we connect. PostgreSQL takes them."""

_LACKS: Final = re.compile(r"no such (table|column): |table \S+ has no column named ")
"""How SQLite, which has no code for that, says what it lacks."""


def trouble_of(fault: BaseException) -> DatabaseTrouble | None:
    """What the fault says of the database; None for a fault that is ours, or not the database's."""
    if isinstance(fault, UnknownSchema):
        return DatabaseTrouble("schema", str(fault))
    cause = _cause(fault)
    if cause is None:
        return None
    raw = _raw(fault)
    if getattr(raw, "sqlstate", None) == asyncpg.InvalidCatalogNameError.sqlstate:
        found = _NAMED.search(str(raw))
        name = shlex.quote(found[1]) if found else "NAME"
        return DatabaseTrouble(
            cause,
            f"the server has no such database: make it first (createdb {name}), or correct DATABASE_URL",
        )
    if cause in ("refused", "schema"):
        return _TROUBLES[cause]._replace(said=" ".join(str(raw).split()))
    return _TROUBLES[cause]


def is_worth_repeating(fault: BaseException) -> bool:
    """Whether PostgreSQL undid this transaction, and may well execute it a moment later: it and another one
    waited for each other, or its session began while the database was read-only.
    """
    return getattr(_raw(fault), "sqlstate", None) in (DEADLOCK, READ_ONLY)


def _raw(fault: BaseException) -> Any:
    """The driver's own error."""
    return fault.orig if isinstance(fault, DBAPIError) else fault


def _cause(fault: BaseException) -> Cause | None:
    raw = _raw(fault)
    if isinstance(raw, sqlite3.Error):
        code = getattr(raw, "sqlite_errorcode", None) or 0
        if code == sqlite3.SQLITE_ERROR and _LACKS.match(str(raw)):
            return "schema"
        # On a full disk not even readers find room for the file through which they share SQLite's log.
        return "full" if code == sqlite3.SQLITE_IOERR_SHMSIZE else _SQLITE.get(code & 0xFF)
    state = getattr(raw, "sqlstate", None) or ""
    if state in _POSTGRES:
        return _POSTGRES[state]
    if isinstance(raw, Pooled) or (
        state == asyncpg.ProtocolViolationError.sqlstate and _UNSUPPORTED in str(raw)
    ):
        return "pooled"
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
