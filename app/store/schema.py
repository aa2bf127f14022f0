"""The schema of the database: which one there is, whether this program can use it, and migrating it.

A migration first only adds (expand), so that programs of the release before go on beside it; what they no
longer need goes one release later (contract). The database lists the programs that its schema still serves,
so that an older program can tell whether it may use a schema that it does not know.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, delete, insert, inspect, select, text

from app.store.rows import METADATA
from app.store.tables import schema_programs

__all__ = [
    "BY_HAND",
    "ChangedByHand",
    "Revision",
    "SchemaState",
    "UnknownSchema",
    "migrate",
    "newest",
    "revisions",
    "schema_state",
]

MIGRATION_LOCK: Final = 4_931_007_221
"""The advisory lock that makes processes which start together migrate one after the other."""

LOCK_WITHIN_S: Final = 5
"""Seconds that a migration waits for a table of PostgreSQL. Everybody else who needs the table waits behind
it, so it had better fail and be tried again.
"""


BY_HAND: Final = "restore a backup: somebody has changed the tables by hand"


class UnknownSchema(Exception):
    """The database has a schema that this program cannot use; the message says what to do."""


class ChangedByHand(UnknownSchema):
    """Tables of the newest schema are missing."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One migration."""

    name: str
    below: str | None
    """The revision that it builds on; None for the first."""
    oldest_program: str | None
    """Programs that do not know this revision cannot use the schema any more. None: no program is lost."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database, as this program sees it."""

    found: str | None
    """The database's revision; None for a database without tables of ours."""
    newest: str
    """The newest revision that this program knows."""
    behind: int
    """Migrations that this program would run."""

    @property
    def is_ahead(self) -> bool:
        """Whether a newer program has migrated the database, and left it usable for this one."""
        return self.behind == 0 and self.found != self.newest


_ASSIGNED: Final = re.compile(r"^(revision|down_revision|oldest_program) = \"(\w+)\"", re.MULTILINE)


@cache
def revisions() -> tuple[Revision, ...]:
    """All migrations, the first one first.

    They are read from the text of their files. Where there is nothing to migrate, Alembic is not imported:
    that takes longer than the rest of the start.
    """
    above: dict[str | None, Revision] = {}
    for file in Path(str(files("migrations") / "versions")).glob("*.py"):
        assigned = dict(_ASSIGNED.findall(file.read_text("utf-8")))
        below = assigned.get("down_revision")
        if below in above:
            raise ValueError(f"two migrations build on {below}: {above[below].name}, {assigned['revision']}")
        above[below] = Revision(assigned["revision"], below, assigned.get("oldest_program"))
    chain: list[Revision] = []
    while (following := above.get(chain[-1].name if chain else None)) is not None:
        chain.append(following)
    return tuple(chain)


def newest() -> str:
    """The newest revision, on which no other revision builds."""
    return revisions()[-1].name


def _served() -> list[str]:
    """The revisions of the programs that the newest schema serves."""
    known = [revision.name for revision in revisions()]
    oldest = [revision.oldest_program for revision in revisions() if revision.oldest_program is not None]
    # A program from before there was such a list refuses every schema that it does not know.
    return known[max(known.index(name) for name in oldest) :]


def schema_state(connection: Connection) -> SchemaState:
    """The schema of the database. Raises UnknownSchema for one that this program cannot use."""
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" not in tables:
        if tables & {"games", "events"}:
            raise UnknownSchema(
                "the database has tables of ours, but no revision of its schema: restore a backup, or name "
                "another database"
            )
        return SchemaState(None, newest(), len(revisions()))
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    known = [revision.name for revision in revisions()]
    if found == [newest()] and (missing := METADATA.tables.keys() - tables):
        word = "table is" if len(missing) == 1 else "tables are"
        raise ChangedByHand(f"the database's {word} missing: {', '.join(sorted(missing))}; {BY_HAND}")
    if len(found) == 1 and found[0] in known:
        return SchemaState(found[0], newest(), len(known) - 1 - known.index(found[0]))
    if len(found) == 1 and schema_programs.name in tables:
        served = connection.execute(select(schema_programs.c.revision)).scalars().all()
        if newest() in served:
            return SchemaState(found[0], newest(), 0)
    raise UnknownSchema(
        f"the database has the schema {' '.join(found) or '(none)'}, which InterIntent Server "
        f"{version('interintent-server')} (schema {newest()}) cannot use: a newer release has migrated it. "
        "Run that release, or restore a backup from before the migration"
    )


def migrate(connection: Connection, to: str = "head") -> SchemaState:
    """Migrates the database, in the caller's transaction, and returns its schema as it was before. Safe when
    many processes start at once. Raises UnknownSchema.
    """
    if connection.dialect.name == "postgresql":
        # Held until the transaction ends: the other processes wait, then find nothing to do.
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WITHIN_S}s'"))
    before = schema_state(connection)
    if not before.behind:
        return before
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
    if to == "head":
        connection.execute(delete(schema_programs))
        connection.execute(insert(schema_programs), [{"revision": revision} for revision in _served()])
    return before
