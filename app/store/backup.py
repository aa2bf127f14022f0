"""Backups: the whole database in one file, taken while the service runs, and put back.

A backup is a ZIP file. An SQLite database is one member, a copy that SQLite opens as it is. Of PostgreSQL
each table is a member in the text form of COPY, all read in one transaction; no client tools are needed. The
last member, ``backup.json``, says what is in the others: schema, rows, and the SHA-256 of each.
"""

import asyncio
import errno
import hashlib
import os
import sqlite3
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import asyncpg  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms, timestamp
from app.base.zips import DamagedZip, unpacking
from app.store.db import Database
from app.store.rows import METADATA
from app.store.schema import ChangedByHand, migrate, revisions, schema_state
from app.store.sqlite import alone, faults_of_file, is_damage, open_cut_off, sqlite_file
from app.store.trouble import trouble_of

__all__ = ["BackupManifest", "CannotRestore", "back_up", "read_backup", "restore"]

_FORMAT: Final = "interintent-backup"
_ABOUT: Final = "backup.json"
_SQLITE: Final = "games.sqlite"
_QUEUE: Final = "pgqueuer"
"""Tables of the queue are not backed up: it is filled again from the games that are not over."""

_PIECE: Final = 1 << 20
_PAGES: Final = 2_000
"""Pages of SQLite that are copied between two reports of progress."""

Progress = Callable[[int, int], None]
"""Takes the bytes done, and the bytes expected in all."""


class _Meter:
    """Adds up the bytes that are done."""

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._done = 0
        self.expected = 0

    def advance(self, size: int) -> None:
        self._done += size
        self._tell(self._done, max(self.expected, self._done))


class CannotRestore(Exception):
    """The backup cannot be read, or not be put there; the message says why, and what to do."""


class BackupPart(BaseModel):
    """One member of a backup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    bytes: int


class BackupManifest(BaseModel):
    """What is in a backup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = _FORMAT
    database: str
    """``sqlite`` or ``postgresql``."""
    program: str
    """The version that made it."""
    revision: str
    """The schema's revision."""
    made_at: str
    rows: dict[str, int]
    """By table; without tables of SQLite that are too damaged to be counted."""
    columns: dict[str, list[str]]
    """By table; empty for SQLite."""
    parts: dict[str, BackupPart]
    """By member."""
    faults: list[str]
    """What SQLite's own check found wrong with the database."""


# --- backing up ---------------------------------------------------------------------------------


async def back_up(database: Database, out: Path, tell: Progress) -> BackupManifest:
    """Writes a backup to ``out``, whole or not at all; an existing file is replaced. Raises UnknownSchema,
    and OSError for a file that cannot be written.
    """
    meter = _Meter(tell)
    state = await database.schema()
    assert state.found is not None
    with _written(out) as (members, part):
        if database.is_sqlite:
            made = await asyncio.to_thread(_back_up_sqlite, database, members, part, meter)
        else:
            made = await _back_up_postgres(database, members, meter)
        manifest = BackupManifest(
            database="sqlite" if database.is_sqlite else "postgresql",
            program=version("interintent-server"),
            made_at=timestamp(now_ms()),
            **made,
        )
        members.writestr(_ABOUT, manifest.model_dump_json(indent=2))
    return manifest


@contextmanager
def _written(out: Path) -> Iterator[tuple[zipfile.ZipFile, Path]]:
    """A backup that gets its name when it is complete, and the name that it has until then."""
    out = Path(os.path.realpath(out))  # of a symbolic link, the file that it leads to is replaced
    number, name = tempfile.mkstemp(prefix=".interintent-", suffix=".part", dir=out.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:
                yield members, part
            file.flush()
            os.fsync(file.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


class _Member:
    """A member that is being written: counts and hashes what goes through."""

    def __init__(self, file: IO[bytes], meter: _Meter) -> None:
        self._file = file
        self._meter = meter
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.lines = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.bytes += len(data)
        self.lines += data.count(b"\n")
        self._meter.advance(len(data))

    @property
    def part(self) -> BackupPart:
        return BackupPart(sha256=self._hash.hexdigest(), bytes=self.bytes)


def _back_up_sqlite(
    database: Database,
    members: zipfile.ZipFile,
    part: Path,
    meter: _Meter,
) -> dict[str, Any]:
    source = sqlite_file(database.url)
    copy = part.with_suffix(".sqlite")
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(source)) as theirs, closing(sqlite3.connect(copy)) as ours:
            theirs.isolation_level = None
            cut_off = open_cut_off(theirs)
            # One transaction over the whole copy: what others commit meanwhile is not in it, and does not
            # make SQLite begin again.
            theirs.execute("BEGIN")
            pages, size = (
                theirs.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
            meter.expected = 2 * pages * size
            done = 0

            def report(_: int, left: int, of: int) -> None:
                nonlocal done
                meter.advance((of - left - done) * size)
                done = of - left

            try:
                theirs.backup(ours, pages=_PAGES, progress=report, sleep=0.01)
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode == sqlite3.SQLITE_FULL:  # nothing is written to theirs
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
                raise
            theirs.execute("ROLLBACK")
            ours.execute("PRAGMA journal_mode = DELETE")
            faults = [*cut_off, *faults_of_file(ours, "quick_check")]
            (revision,) = ours.execute("SELECT version_num FROM alembic_version").fetchone()
            rows = _sqlite_rows(ours)
        with members.open(_SQLITE, "w", force_zip64=True) as file, copy.open("rb") as whole:
            member = _Member(file, meter)
            while data := whole.read(_PIECE):
                member.write(data)
    finally:
        _remove(copy)
    return {
        "revision": revision,
        "rows": rows,
        "columns": {},
        "parts": {_SQLITE: member.part},
        "faults": faults,
    }


def _remove(copy: Path) -> None:
    """Removes a file of SQLite, and the journal that it leaves where there was no room for its pages."""
    for rest in ("", "-journal", "-wal", "-shm"):
        copy.with_name(copy.name + rest).unlink(missing_ok=True)


def _sqlite_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """The rows of every table whose rows can be counted: not of one that is damaged."""
    names = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        if not name.startswith("sqlite_")
    ]
    rows = {}
    for name in names:
        try:
            (rows[name],) = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
        except sqlite3.DatabaseError as fault:
            if not is_damage(fault):
                raise
    return rows


async def _back_up_postgres(database: Database, members: zipfile.ZipFile, meter: _Meter) -> dict[str, Any]:
    engine = database.write_engine.execution_options(
        isolation_level="REPEATABLE READ", postgresql_readonly=True
    )
    # One transaction from the first look on.
    async with engine.connect() as connection:
        driver = await _driver(connection)
        revision = await driver.fetchval("SELECT version_num FROM alembic_version")
        tables = await connection.run_sync(_columns)
        if revision in {known.name for known in revisions()}:  # else the schema is a newer program's
            known = _schema_of(revision)
            tables = {
                table: [column for column in columns if column in known[table]]
                for table, columns in tables.items()
                if table in known
            }
        # Else COPY rounds where the database is set so.
        await driver.execute("SET LOCAL extra_float_digits = 1")
        for table in tables:
            meter.expected += await driver.fetchval("SELECT pg_table_size($1::regclass)", f'"{table}"')
        rows, parts = {}, {}
        for table, columns in tables.items():
            with members.open(f"{table}.copy", "w", force_zip64=True) as file:
                member = _Member(file, meter)

                async def take(data: bytes, member: _Member = member) -> None:
                    member.write(data)

                await driver.copy_from_table(table, columns=columns, output=take)
            # COPY escapes the newlines of texts, so a line is a row.
            rows[table], parts[f"{table}.copy"] = member.lines, member.part
    return {"revision": revision, "rows": rows, "columns": tables, "parts": parts, "faults": []}


async def _driver(connection: AsyncConnection) -> Any:
    """asyncpg's own connection below it."""
    return (await connection.get_raw_connection()).driver_connection


def _columns(connection: Connection) -> dict[str, list[str]]:
    """The columns of every table but the queue's, those first that others refer to."""
    look = inspect(connection)
    found = [name for name in look.get_table_names() if _is_stored(name)]
    order = [table.name for table in METADATA.sorted_tables]
    found.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: [column["name"] for column in look.get_columns(name)] for name in found}


def _is_stored(table: str) -> bool:
    return table != "alembic_version" and not table.startswith(_QUEUE)


# --- putting back -------------------------------------------------------------------------------


@contextmanager
def _opened(file: Path) -> Iterator[tuple[zipfile.ZipFile, BackupManifest]]:
    try:
        with unpacking(), zipfile.ZipFile(file) as members:
            manifest = BackupManifest.model_validate_json(members.read(_ABOUT))
    except DamagedZip as fault:
        raise CannotRestore(f"{file} is no backup, or was cut off ({fault}): take another one") from None
    _refuse_unknown_schema(manifest)
    _refuse_strange_names(manifest)
    # Opened again: what goes wrong from here on need not be a fault of the archive.
    with zipfile.ZipFile(file) as members:
        yield members, manifest


def _refuse_unknown_schema(manifest: BackupManifest) -> None:
    if manifest.revision not in {revision.name for revision in revisions()}:
        raise CannotRestore(
            f"the backup has the schema {manifest.revision}, which this release does not know: "
            f"{manifest.program} made it; restore it with that release"
        )


def _refuse_strange_names(manifest: BackupManifest) -> None:
    """Raises CannotRestore unless all tables and columns are of the backup's schema, each table with its rows
    and its member: anybody can write a manifest, and its names become part of statements.
    """
    is_sqlite = manifest.database == "sqlite"
    known = {} if is_sqlite else _schema_of(manifest.revision)
    strange = [
        table
        for table, columns in manifest.columns.items()
        if table not in known or table not in manifest.rows or not known[table].issuperset(columns)
    ]
    parts = {_SQLITE} if is_sqlite else {f"{table}.copy" for table in manifest.columns}
    if strange := sorted({*strange, *(parts ^ manifest.parts.keys())}):
        raise CannotRestore(
            f"the backup does not fit its schema ({', '.join(strange[:5])}): somebody has altered it, or an "
            "earlier version took tables of others along; take another backup"
        )


def _schema_of(revision: str) -> dict[str, set[str]]:
    """The columns of every table of ours at this revision; they are the same on SQLite and PostgreSQL."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        migrate(connection, revision)
        found = _columns(connection)
    engine.dispose()
    return {table: set(columns) for table, columns in found.items()}


class _Checked:
    """A member that is being read. Its last piece is refused unless the whole is what the manifest says."""

    def __init__(self, members: zipfile.ZipFile, name: str, part: BackupPart, meter: _Meter) -> None:
        self._name = f"{members.filename}: {name}"
        self._part = part
        self._meter = meter
        with self._damage():
            self._file = members.open(name)

    def __iter__(self) -> Iterator[bytes]:
        found, size = hashlib.sha256(), 0
        with self._file:
            while data := self._read():
                found.update(data)
                size += len(data)
                self._meter.advance(len(data))
                yield data
        if (found.hexdigest(), size) != (self._part.sha256, self._part.bytes):
            self._refuse()

    def _read(self) -> bytes:
        with self._damage():
            return self._file.read(_PIECE)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            with unpacking():
                yield
        except DamagedZip:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise CannotRestore(f"{self._name} in the backup is damaged: take another backup") from None


def read_backup(file: Path, tell: Progress) -> BackupManifest:
    """What is in a backup, after reading and checking all of it, one of SQLite in a temporary file. Raises
    CannotRestore.
    """
    meter = _Meter(tell)
    with _opened(file) as (members, manifest):
        meter.expected = sum(part.bytes for part in manifest.parts.values())
        if manifest.database == "sqlite":
            with (
                tempfile.TemporaryDirectory() as folder,
                _unpacked(members, manifest, meter, Path(folder) / _SQLITE),
            ):
                return manifest
        for name, part in manifest.parts.items():
            for _ in _Checked(members, name, part, meter):
                pass
    return manifest


async def restore(database: Database, file: Path, tell: Progress, *, replace: bool) -> BackupManifest:
    """Puts a backup into a database, whole or not at all, and migrates it to the newest schema.

    ``replace``: what the service has in the database is dropped. Raises CannotRestore.
    """
    with _opened(file) as (members, manifest):
        kind = "sqlite" if database.is_sqlite else "postgresql"
        if manifest.database != kind:
            raise CannotRestore(f"this is a backup of {manifest.database}, the database is {kind}")
        meter = _Meter(tell)
        meter.expected = sum(part.bytes for part in manifest.parts.values())
        if database.is_sqlite:
            await asyncio.to_thread(_restore_sqlite, database, members, manifest, meter, replace=replace)
        else:
            async with database.write_engine.begin() as connection:
                await _restore_postgres(connection, members, manifest, meter, replace=replace)
    return manifest


def _restore_sqlite(
    database: Database, members: zipfile.ZipFile, manifest: BackupManifest, meter: _Meter, *, replace: bool
) -> None:
    target = sqlite_file(database.url)
    with _writing(target):
        _check_free(target, replace=replace)
    with _unpacked(members, manifest, meter, target) as part, _writing(target):
        # Again: reading a large backup takes minutes, in which somebody may have started a service there.
        _check_free(target, replace=replace)
        for rest in ("-wal", "-shm"):
            target.with_name(target.name + rest).unlink(missing_ok=True)
        part.replace(target)


@contextmanager
def _unpacked(
    members: zipfile.ZipFile, manifest: BackupManifest, meter: _Meter, target: Path
) -> Iterator[Path]:
    """The database of a backup of SQLite, checked and migrated, in a file beside ``target`` that is removed
    afterwards. Raises CannotRestore.
    """
    with _writing(target):
        number, name = tempfile.mkstemp(prefix=".interintent-", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        # Without a buffer: closing the file would try once more to write what had no room.
        with os.fdopen(number, "wb", buffering=0) as out:
            for data in _Checked(members, _SQLITE, manifest.parts[_SQLITE], meter):
                with _writing(target):
                    left = memoryview(data)
                    while left:
                        left = left[out.write(left) :]
            with _writing(target):
                os.fsync(out.fileno())
        with closing(sqlite3.connect(part)) as copy:
            try:
                rows = _sqlite_rows(copy)
                found = copy.execute("SELECT version_num FROM alembic_version").fetchall()
            except sqlite3.DatabaseError:
                rows, found = {}, []
        if (rows, found) != (manifest.rows, [(manifest.revision,)]):
            raise CannotRestore(
                "the backup has not the rows or the schema that it says it has: take another backup"
            )
        with _writing(target):
            _migrate_sqlite(part)
        yield part
    finally:
        _remove(part)


def _migrate_sqlite(part: Path) -> None:
    """Migrates the file, and checks its schema as a start does. Raises CannotRestore, and OSError for a full
    disk.
    """
    try:
        with alone(part) as connection:
            migrate(connection)
            schema_state(connection)
    except (ChangedByHand, DBAPIError, sqlite3.DatabaseError) as fault:
        if (trouble := trouble_of(fault)) and trouble.cause == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        why = str(getattr(fault, "orig", None) or fault).partition(";")[0]
        raise CannotRestore(f"the backup cannot be used ({why}): take another backup") from None


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """A fault in this block is one of the database, and not of the backup that is read."""
    try:
        yield
    except OSError as fault:
        raise CannotRestore(f"cannot write {target}: {fault.strerror}") from None


def _check_free(target: Path, *, replace: bool) -> None:
    """Raises CannotRestore if there is an SQLite file that may not be replaced, or that anybody has open."""
    if not (target.exists() and target.stat().st_size > 0):
        return
    if not replace:
        raise CannotRestore(f"{target} exists: name another database, or replace it with --replace")
    try:
        with closing(sqlite3.connect(target, timeout=1)) as there:
            (mode,) = there.execute("PRAGMA journal_mode = DELETE").fetchone()
            in_use = mode != "delete"
    except sqlite3.OperationalError:
        in_use = True
    except sqlite3.DatabaseError:
        in_use = False  # it is damaged: that is why it is replaced
    if in_use:
        raise CannotRestore(f"{target} is in use: stop the service first")


async def _restore_postgres(
    connection: AsyncConnection,
    members: zipfile.ZipFile,
    manifest: BackupManifest,
    meter: _Meter,
    *,
    replace: bool,
) -> None:
    rights = await _rights(connection)
    await _make_room(connection, replace=replace)
    await connection.run_sync(migrate, manifest.revision)
    driver = await _driver(connection)
    for table, columns in manifest.columns.items():
        await driver.execute(f'TRUNCATE "{table}" CASCADE')
        part = _Checked(members, f"{table}.copy", manifest.parts[f"{table}.copy"], meter)
        copied = await driver.copy_to_table(table, source=_pieces(part), columns=columns)
        if copied != f"COPY {manifest.rows[table]}":
            raise CannotRestore(f"{table} has not the rows that the backup says it has: take another backup")
    await driver.execute(_SEQUENCES)
    await connection.run_sync(migrate)
    await _give_back(connection, rights)
    # The queue is empty: jobs and drivers of then mean nothing here, and the next service gives new ones.
    await driver.execute("UPDATE games SET job = NULL, driver = NULL WHERE job IS NOT NULL")


async def _pieces(part: _Checked) -> AsyncIterator[bytes]:
    for data in part:
        yield data


_SEQUENCES: Final = """
DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT table_name, column_name,
      pg_get_serial_sequence(quote_ident(table_name), column_name) AS sequence
    FROM information_schema.columns WHERE table_schema = current_schema()
      AND pg_get_serial_sequence(quote_ident(table_name), column_name) IS NOT NULL
  LOOP
    EXECUTE format('SELECT setval(%L, coalesce((SELECT max(%I) FROM %I), 0) + 1, false)',
      one.sequence, one.column_name, one.table_name);
  END LOOP;
END $$
"""
"""COPY stores rows with the numbers that they had; this makes new rows count on from the highest."""


async def _make_room(connection: AsyncConnection, *, replace: bool) -> None:
    """Empties the database. Raises CannotRestore if it may not."""
    tables = set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))
    if not tables:
        return
    if not replace:
        raise CannotRestore(
            "the database has tables already: name an empty one, or replace it with --replace"
        )
    if strange := sorted(name for name in tables if _is_stored(name) and name not in METADATA.tables):
        await _refuse_newer(connection, tables)
        raise CannotRestore(
            f"the database has tables of another program ({', '.join(strange[:5])}): name a database that "
            "this service has to itself"
        )
    guarded = (await connection.execute(text(_GUARDED))).scalars().all()
    if guarded := sorted(tables.intersection(guarded)):
        raise CannotRestore(
            f"others may see only some rows of {', '.join(guarded)} (row security), which would be lost: "
            "name an empty database, or drop the policies first"
        )
    if count := (await connection.execute(text(_OTHERS))).scalar_one():
        sessions = "1 session" if count == 1 else f"{count} sessions"
        raise CannotRestore(f"the database is in use by {sessions}: stop the services first")
    await _drop(connection, tables)


_OTHERS: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usesysid IS NOT NULL
  AND coalesce(backend_type, 'client backend') = 'client backend' AND pid <> pg_backend_pid()
"""
"""Sessions of others. Of another role's, we may not be shown more than that it is there."""

_GUARDED: Final = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
  AND (relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid))
"""


async def _refuse_newer(connection: AsyncConnection, tables: Collection[str]) -> None:
    """Raises CannotRestore if a newer release has migrated the database."""
    if "alembic_version" not in tables:
        return
    found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalars().all()
    if set(found) - {revision.name for revision in revisions()}:
        raise CannotRestore(
            f"the database has the schema {', '.join(found)}, to which a newer release has migrated it, and "
            "this one does not know which tables are ours: restore into an empty database"
        )


async def _drop(connection: AsyncConnection, tables: Collection[str]) -> None:
    """Drops our tables. What others have beside them stays. Raises CannotRestore if that needs them."""
    names = ", ".join(f'"{name}"' for name in tables)
    of_the_queue = f"DROP FUNCTION IF EXISTS fn_{_QUEUE}_changed; DROP TYPE IF EXISTS {_QUEUE}_status"
    try:
        await (await _driver(connection)).execute(f"DROP TABLE {names}; {of_the_queue}")
    except asyncpg.DependentObjectsStillExistError as fault:
        needs = "; ".join((fault.detail or str(fault)).splitlines())
        raise CannotRestore(
            f"others' views, or the like, need our tables ({needs}): drop them first, and make them again "
            "afterwards"
        ) from None


_RIGHTS: Final = """
SELECT relname, format('%s %I', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relname),
  CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
  privilege_type, is_grantable
FROM pg_class LEFT JOIN LATERAL aclexplode(relacl) ON grantee <> relowner
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'S')
"""
"""The rights of others on each table and sequence. Without such rights: one row, without a privilege."""


async def _rights(connection: AsyncConnection) -> Sequence[Any]:
    return (await connection.execute(text(_RIGHTS))).all()


async def _give_back(connection: AsyncConnection, rights: Sequence[Any]) -> None:
    """Gives others the rights that they had, on what there was and still is, and no others."""
    before = {name for name, *_ in rights}
    now = [right for right in await _rights(connection) if right[0] in before]
    driver = await _driver(connection)
    for _, on, grantee, privilege, _ in now:  # by default, new tables may have some
        if privilege is not None:
            await driver.execute(f"REVOKE {privilege} ON {on} FROM {grantee}")
    there = {name for name, *_ in now}
    for name, on, grantee, privilege, may_grant in rights:
        if name in there and privilege is not None:
            option = " WITH GRANT OPTION" if may_grant else ""
            await driver.execute(f"GRANT {privilege} ON {on} TO {grantee}{option}")
