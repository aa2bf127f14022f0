"""A backup holds what was committed when it began, and games go on from it."""

import asyncio
import hashlib
import json
import os
import resource
import sqlite3
import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from app.cli.study_pack import archive
from app.instruments.fake_model import read_fault
from app.models import health
from app.store.audit import Audit
from app.store.backup import CannotRestore, read_backup, restore
from app.store.db import Database
from app.store.schema import migrate, newest, revisions
from app.store.tables import owner_spending
from tests.app.altering import altered
from tests.app.calling import WITHIN_S, Caller, calling, until
from tests.app.games.test_deleting import everything
from tests.app.modelling import DIRECT, calling_with, faking
from tests.app.real_server import local_settings
from tests.app.store.one_of_each import TABLES, add, row
from tests.app.store.test_schema import run
from tests.app.typed import interintent
from tests.postgres import PostgresServer, fresh_database


async def typed(*words: object) -> str:
    """What a command says that succeeds."""
    result = await asyncio.to_thread(interintent, *words)
    assert result.exit_code == 0, result.output
    return result.stderr


async def refused(*words: object) -> str:
    result = await asyncio.to_thread(interintent, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def other_url(database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of the same kind."""
    if database_url.startswith("sqlite"):
        return f"sqlite+aiosqlite:///{tmp_path / 'other.sqlite'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


async def logs_of(caller: Caller, batch: str) -> dict[str, list[object]]:
    """Each game's events without their times, by its place in the batch."""
    found = {}
    for game in await caller.services.store.ids(batch):
        found[game] = list(await caller.services.reader.events(game))
    return found


async def some(caller: Caller, batch: str, count: int) -> None:
    """Returns when so many games of the batch have finished."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (await caller.services.store.tally(batch)).status.get("finished", 0) >= count:
                return
            await asyncio.sleep(0.01)


async def test_a_backup_is_the_database_and_comes_back_as_it_was(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "games.zip"
    hostile = "Robert'); DROP TABLE games;-- \\N \\. \\\t👩‍👩‍👧‍👦"
    async with calling(database_url) as caller:
        batch, _ = await caller.played(count=2, labels={"name": hostile})
        said = await typed("backup", file, "--database-url", database_url)
    assert "batches 1, games 2" in said
    assert file.stat().st_mode & 0o077 == 0
    before = await everything(database_url)
    assert any("Robert" in row for row in before["batches"])
    assert "checked" in await typed("restore", "--check", file, "--database-url", database_url)
    assert "restored" in await typed("restore", file, "--database-url", other_url)
    assert await everything(other_url) == before
    async with calling(other_url) as caller:
        assert (await caller.get(f"/batches/{batch}")).json()["labels"] == {"name": hostile}
        await caller.played(count=1)


async def test_numbers_come_back_exactly_however_the_database_shows_them(
    postgres_url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    file, other = tmp_path / "games.zip", postgres.create_database()
    async with calling(postgres_url):
        pass  # the schema is there
    spent = owner_spending.insert().values(account="g_1", day=1, owner="ann", tokens=1, cost=0.1 + 0.2)
    name = postgres_url.rpartition("/")[2]
    engine = create_async_engine(postgres_url)
    async with engine.begin() as connection:
        await connection.execute(spent)
        await connection.execute(sa.text(f'ALTER DATABASE "{name}" SET extra_float_digits = 0'))
    await engine.dispose()
    await typed("backup", file, "--database-url", postgres_url)
    await typed("restore", file, "--database-url", other)
    engine = create_async_engine(other)
    async with engine.connect() as connection:
        assert (await connection.execute(sa.select(owner_spending.c.cost))).scalar_one() == 0.1 + 0.2
    await engine.dispose()


async def test_no_table_is_left_out(database_url: str, other_url: str, tmp_path: Path) -> None:
    file = tmp_path / "games.zip"
    async with calling(database_url) as caller:
        await caller.played(count=1, seats=[{"agent": "random"}])
    await add(database_url, [(table, row(table, 0)) for table in TABLES])
    before = await everything(database_url)
    assert all(before.values())
    await typed("backup", file, "--database-url", database_url)
    await typed("restore", file, "--database-url", other_url)
    assert await everything(other_url) == before
    # Numbers that the database gives go on after those that came with the backup.
    async with calling(other_url) as caller:
        await Audit(caller.services.database).note(SimpleNamespace(name="a", owner="a"), "test", "nothing")
    assert len((await everything(other_url))["audit"]) == len(before["audit"]) + 1


async def test_nothing_is_overwritten_unasked(database_url: str, other_url: str, tmp_path: Path) -> None:
    file = tmp_path / "games.zip"
    async with calling(database_url) as caller:
        await caller.played(count=1)
    await typed("backup", file, "--database-url", database_url)
    first = file.read_bytes()
    assert "--replace" in await refused("backup", file, "--database-url", database_url)
    assert file.read_bytes() == first
    await typed("backup", file, "--replace", "--database-url", database_url)
    before = await everything(database_url)
    async with calling(database_url) as caller:
        await caller.played(count=2)
        after = await everything(database_url)
        assert "--replace" in await refused("restore", file, "--database-url", database_url)
        # Not even then, while somebody uses it.
        words = ("restore", file, "--replace", "--database-url", database_url)
        assert "in use" in await refused(*words)
        assert await everything(database_url) == after
    await typed(*words)
    assert await everything(database_url) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.fixture
async def shared(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[SimpleNamespace]:
    """A database whose tables belong to a role without further rights, with another role that may log in."""
    with fresh_database(postgres) as url:
        name = url.rpartition("/")[2]
        ours, other = f"svc_{name}", f"analyst_{name}"
        await run(url, *(f"CREATE ROLE {role} LOGIN" for role in (ours, other)))
        await run(url, f"GRANT ALL ON SCHEMA public TO {ours}")
        url = url.replace("postgres@", f"{ours}@")
        async with calling(url) as caller:
            await caller.played(count=1)
        file = tmp_path / "games.zip"
        await typed("backup", file, "--database-url", url)
        words = ("restore", file, "--replace", "--database-url", url)
        yield SimpleNamespace(url=url, ours=ours, other=other, words=words)
        admin = url.replace(f"{ours}@", "postgres@")
        await run(admin, f"DROP OWNED BY {other}", f"DROP OWNED BY {ours}", f"DROP ROLE {ours}, {other}")


async def test_what_others_have_beside_our_tables_survives_a_restore(shared: SimpleNamespace) -> None:
    await run(
        shared.url,
        f"GRANT SELECT ON games TO {shared.other} WITH GRANT OPTION",
        "GRANT SELECT ON events TO PUBLIC",
        # What others would be granted of every new table.
        f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {shared.other}",
        f"ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO {shared.other}",
        "CREATE VIEW notes AS SELECT 1 AS note",
        "CREATE VIEW finished AS SELECT count(*) AS n FROM games",
    )
    before = await everything(shared.url)
    assert "view finished depends on table games" in await refused(*shared.words)
    await run(shared.url, "DROP VIEW finished", "ALTER TABLE games ENABLE ROW LEVEL SECURITY")
    assert "only some rows of games" in await refused(*shared.words)
    await run(shared.url, "ALTER TABLE games DISABLE ROW LEVEL SECURITY")
    assert await everything(shared.url) == before
    await typed(*shared.words)
    assert await everything(shared.url) == before
    engine = create_async_engine(shared.url)
    async with engine.connect() as connection:
        rights = sa.text(
            """SELECT relname, acl.privilege_type, acl.is_grantable, grantee = 0
            FROM pg_class, aclexplode(relacl) AS acl
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S') AND grantee <> relowner"""
        )
        assert sorted(tuple(row) for row in await connection.execute(rights)) == [
            ("events", "SELECT", False, True),
            ("games", "SELECT", True, False),
        ]
        assert (await connection.execute(sa.text("SELECT note FROM notes"))).scalar_one() == 1
    await engine.dispose()


async def test_no_database_is_replaced_that_another_role_uses(shared: SimpleNamespace) -> None:
    before = await everything(shared.url)
    engine = create_async_engine(shared.url.replace(f"{shared.ours}@", f"{shared.other}@"))
    async with engine.connect():
        assert "in use by 1 session:" in await refused(*shared.words)
    await engine.dispose()
    assert await everything(shared.url) == before


async def test_a_restore_by_who_may_not_drop_the_tables_is_refused_in_a_sentence(
    shared: SimpleNamespace,
) -> None:
    words = [str(word).replace(f"{shared.ours}@", f"{shared.other}@") for word in shared.words]
    await run(shared.url, f"GRANT SELECT ON alembic_version TO {shared.other}")
    said = await refused(*words)
    assert "must be owner of table" in said
    assert "the database refuses us" in said


async def test_a_database_that_a_newer_release_has_migrated_is_not_replaced(shared: SimpleNamespace) -> None:
    await run(
        shared.url, "CREATE TABLE next_release (n INTEGER)", "UPDATE alembic_version SET version_num = 'f'"
    )
    said = await refused(*shared.words)
    assert "a newer release has migrated it" in said
    assert "restore into an empty database" in said


async def test_the_file_that_a_link_leads_to_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    file, link = tmp_path / "there" / "games.sqlite", tmp_path / "link.sqlite"
    backup, to_backup = tmp_path / "there" / "games.zip", tmp_path / "link.zip"
    file.parent.mkdir()
    link.symlink_to(file)
    to_backup.symlink_to(backup)
    url = f"sqlite+aiosqlite:///{file}"
    async with calling(url) as caller:
        await caller.played(count=1)
    before = await everything(url)
    for _ in range(2):  # once to a file that is not there yet
        await typed("backup", to_backup, "--replace", "--database-url", f"sqlite:///{link}")
        assert (to_backup.is_symlink(), backup.exists()) == (True, True)
    async with calling(url) as caller:
        await caller.played(count=1)
    await typed("restore", backup, "--replace", "--database-url", f"sqlite:///{link}")
    assert link.is_symlink()
    assert await everything(url) == before
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["pack.tar.gz", "pack.zip"])
def test_the_pack_that_a_link_leads_to_is_replaced_and_not_the_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "SHA256SUMS").write_text("")
    link, there = tmp_path / name, tmp_path / "there"
    there.write_text("earlier")
    link.symlink_to(there)
    archive(tmp_path / "folder", link)
    assert link.is_symlink()
    assert there.read_bytes()[:2] in (b"PK", b"\x1f\x8b")


async def test_a_file_that_is_made_while_a_backup_is_read_is_not_replaced(tmp_path: Path) -> None:
    file, target = tmp_path / "games.zip", tmp_path / "other.sqlite"
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        await caller.played(count=1)
    await typed("backup", file, "--database-url", url)

    def begin(*_: int) -> None:
        with closing(sqlite3.connect(target)) as other:
            other.execute("CREATE TABLE IF NOT EXISTS begun (game TEXT)")

    other = Database(local_settings(f"sqlite+aiosqlite:///{target}"))
    with pytest.raises(CannotRestore, match="--replace"):
        await restore(other, file, begin, replace=False)
    await other.stop()
    with closing(sqlite3.connect(target)) as there:
        assert there.execute("SELECT name FROM sqlite_master").fetchall() == [("begun",)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_what_is_no_whole_backup_changes_nothing(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "games.zip"
    async with calling(database_url) as caller:
        await caller.played(count=2)
    await typed("backup", file, "--database-url", database_url)
    whole = file.read_bytes()

    async def is_refused(why: str) -> None:
        for more in ((), ("--check",)):
            assert why in await refused("restore", file, *more, "--database-url", other_url)
        if other_url.startswith("sqlite"):
            assert not Path(other_url.rpartition("///")[2]).exists()
        else:
            engine = create_async_engine(other_url)
            async with engine.connect() as connection:
                assert not await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
            await engine.dispose()

    file.write_bytes(whole[: len(whole) // 2])
    await is_refused("is no backup, or was cut off")
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("something else", "")
    await is_refused("is no backup")
    # Whole for ZIP, but not what was backed up.
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as _:
        pass
    (tmp_path / "whole.zip").write_bytes(whole)
    with zipfile.ZipFile(tmp_path / "whole.zip") as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data if name == "backup.json" else data[:-1] + b"?")
    await is_refused("in the backup is damaged")
    with zipfile.ZipFile(tmp_path / "whole.zip") as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(newest().encode(), b"ffffffffffff"))
    for check in ([], ["--check"]):
        said = await refused("restore", file, *check, "--database-url", other_url)
        assert "this release does not know" in said


async def test_whatever_bytes_of_a_backup_are_altered_it_is_refused_in_a_sentence(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "games.zip"
    await typed("migrate", "--database-url", database_url)
    await typed("backup", file, "--database-url", database_url)
    refused: Counter[bool] = Counter()
    for content in altered(file.read_bytes(), 400):
        file.write_bytes(content)
        try:
            read_backup(file, lambda *_: None)
        except CannotRestore as fault:
            refused["take another" in str(fault) or "this release does not know" in str(fault)] += 1
            if refused[True] < 20:
                with pytest.raises(CannotRestore):
                    await restored(file, other_url)
    assert refused[True] > 200
    assert not refused[False]


async def restored(file: Path, url: str) -> None:
    database = Database(local_settings(url))
    try:
        await restore(database, file, lambda *_: None, replace=False)
    finally:
        await database.stop()


@pytest.mark.parametrize("column", [None, 'id" int, x"'])
async def test_names_in_a_backup_that_its_schema_does_not_have_become_no_statement(
    database_url: str, other_url: str, tmp_path: Path, column: str | None
) -> None:
    whole, file = tmp_path / "whole.zip", tmp_path / "games.zip"
    await typed("migrate", "--database-url", database_url)
    await typed("backup", whole, "--database-url", database_url)
    name = "games" if column else 'games" CASCADE; CREATE TABLE stranger (x int); --'
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(file, "w") as new:
        about = json.loads(old.read("backup.json"))
        for member in old.namelist()[:-1]:
            new.writestr(member, old.read(member))
        about["columns"] = {name: [column] if column else [], **about["columns"]}
        if column:
            about["columns"][name] = [column]
        else:
            about["rows"][name] = 0
            about["parts"][f"{name}.copy"] = {"sha256": hashlib.sha256(b"").hexdigest(), "bytes": 0}
            new.writestr(f"{name}.copy", b"")
        new.writestr("backup.json", json.dumps(about))
    for check in ([], ["--check"]):
        said = await refused("restore", file, *check, "--database-url", other_url)
        assert "does not fit its schema" in said
        assert "take another backup" in said


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP TABLE set_origins", "missing: set_origins"),
        ("ALTER TABLE quotas RENAME TO other", "missing: quotas"),
        ("UPDATE alembic_version SET version_num = 'f'", "or the schema that it says"),
        ("DELETE FROM alembic_version", "or the schema that it says"),
        ("DROP TABLE alembic_version", "or the schema that it says"),
        # Its manifest says the same; but what a migration is to make is there.
        (f"UPDATE alembic_version SET version_num = '{revisions()[3].name}'", "already exists"),
    ],
)
async def test_a_database_is_not_replaced_by_one_that_cannot_be_used(
    tmp_path: Path, statement: str, why: str
) -> None:
    url, mine = (f"sqlite:///{tmp_path / name}" for name in ("theirs.sqlite", "mine.sqlite"))
    for one in (url, mine):
        await typed("migrate", "--database-url", one)
    await typed("backup", tmp_path / "whole.zip", "--database-url", url)
    with zipfile.ZipFile(tmp_path / "whole.zip") as old:
        about = json.loads(old.read("backup.json"))
        (tmp_path / "copy").write_bytes(old.read("games.sqlite"))
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        copy.execute(statement)
        copy.commit()
        tables = [name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        about["rows"] = {
            name: copy.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in tables
            if not name.startswith("sqlite_")
        }
    if "already" in why:
        about["revision"] = revisions()[3].name
    data = (tmp_path / "copy").read_bytes()
    about["parts"]["games.sqlite"] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as new:
        new.writestr("games.sqlite", data)
        new.writestr("backup.json", json.dumps(about))
    before = (tmp_path / "mine.sqlite").stat().st_ino
    for word in ("--check", "--replace"):
        said = await refused("restore", tmp_path / "b.zip", word, "--database-url", mine)
        assert why in said
        assert "take another backup" in said
    assert (tmp_path / "mine.sqlite").stat().st_ino == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_a_migration_without_room_leaves_the_old_database_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, mine, file = tmp_path / "old.sqlite", tmp_path / "mine.sqlite", tmp_path / "b.zip"
    engine = sa.create_engine(f"sqlite:///{old}")
    with engine.begin() as connection:
        migrate(connection, revisions()[-3].name)
    engine.dispose()
    await typed("backup", file, "--database-url", f"sqlite:///{old}")
    await typed("migrate", "--database-url", f"sqlite:///{mine}")
    before, connect = mine.stat().st_ino, sqlite3.connect

    def on_a_full_disk(file: object, *others: Any, **more: Any) -> sqlite3.Connection:
        made = connect(file, *others, **more)  # type: ignore[arg-type]
        if ".interintent-" in str(file):
            made.execute("PRAGMA max_page_count = 2")
        return made

    words = ("restore", file, "--replace", "--database-url", f"sqlite:///{mine}")
    with monkeypatch.context() as full:
        full.setattr(sqlite3, "connect", on_a_full_disk)
        assert await refused(*words) == f"interintent: cannot write {mine}: No space left on device\n"
    assert mine.stat().st_ino == before
    await typed("restore", file, "--check")
    assert mine.stat().st_ino == before
    await typed(*words)
    assert mine.stat().st_ino != before
    assert f"newest, {newest()}" in await typed("migrate", "--check", "--database-url", f"sqlite:///{mine}")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_tables_and_columns_of_others_hinder_no_restoring(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "games.zip"
    await typed("migrate", "--database-url", database_url)
    database = Database(local_settings(database_url))
    async with database.write_engine.begin() as connection:
        await connection.execute(sa.text("CREATE TABLE theirs (x int)"))
        await connection.execute(sa.text("ALTER TABLE games ADD COLUMN mine int"))
    await database.stop()
    await typed("backup", file, "--database-url", database_url)
    await typed("restore", file, "--check", "--database-url", other_url)
    await typed("restore", file, "--database-url", other_url)


async def test_a_backup_of_an_earlier_schema_is_migrated(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "games.zip"
    await typed("backup", file, "--database-url", database_url)
    with zipfile.ZipFile(file) as members:
        assert newest().encode() in members.read("backup.json")
    await typed("restore", file, "--database-url", other_url)
    assert f"newest, {newest()}" in await typed("migrate", "--check", "--database-url", other_url)
    assert len(revisions()) > 10


async def test_a_damaged_database_is_backed_up_and_said_to_be_damaged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        await caller.played(count=3)
    with closing(sqlite3.connect(tmp_path / "games.sqlite")) as there:
        there.execute("PRAGMA writable_schema = ON")
        there.execute(
            "DELETE FROM sqlite_master WHERE name = 'ix_games_status'"
        )  # its pages belong to nothing
        there.commit()
    done = await asyncio.to_thread(interintent, "backup", tmp_path / "b.zip", "--database-url", url)
    assert done.exit_code == 1
    assert "the database is damaged" in done.stderr
    assert (tmp_path / "b.zip").exists()


async def test_a_disk_without_room_for_the_backup_is_told_and_not_blamed_on_the_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        await caller.played(count=1)
    connect = sqlite3.connect

    def with_little_room(file: object, *others: Any, **more: Any) -> sqlite3.Connection:
        made = connect(file, *others, **more)  # type: ignore[arg-type]
        if ".interintent-" in str(file):
            made.execute("PRAGMA max_page_count = 2")
        return made

    monkeypatch.setattr(sqlite3, "connect", with_little_room)
    out = tmp_path / "made" / "b.zip"
    out.parent.mkdir()
    said = await refused("backup", out, "--database-url", url)
    assert said == f"interintent: cannot write {out}: No space left on device\n"
    assert list(out.parent.iterdir()) == []


async def test_a_disk_that_becomes_full_leaves_nothing_of_the_backup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        await caller.played(count=1)
    with closing(sqlite3.connect(tmp_path / "games.sqlite")) as there:
        there.execute("CREATE TABLE more AS SELECT zeroblob(4000000)")  # more than SQLite holds in memory
        there.commit()
    connect, limits, seen = sqlite3.connect, resource.getrlimit(resource.RLIMIT_FSIZE), set()

    class Copy(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            seen.update(file.suffix for file in out.parent.iterdir())

    def on_a_full_disk(file: object, *others: Any, **more: Any) -> sqlite3.Connection:
        if ".interintent-" not in str(file):
            return connect(file, *others, **more)  # type: ignore[arg-type]
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        return connect(file, *others, factory=Copy, **more)  # type: ignore[arg-type]

    out = tmp_path / "made" / "b.zip"
    out.parent.mkdir()
    with closing(connect(tmp_path / "games.sqlite")) as reader:
        # The file that readers share must not need more room, either.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM games").fetchone()
        monkeypatch.setattr(sqlite3, "connect", on_a_full_disk)
        try:
            done = await asyncio.to_thread(interintent, "backup", out, "--database-url", url)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.exit_code != 0
    assert ".sqlite-journal" in seen
    assert list(out.parent.iterdir()) == []


async def test_a_restore_names_the_file_that_cannot_be_written_or_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, file = f"sqlite:///{tmp_path / 'games.sqlite'}", tmp_path / "b.zip"
    await typed("migrate", "--database-url", url)
    await typed("backup", file, "--database-url", url)
    nowhere = tmp_path / "nowhere" / "games.sqlite"
    said = await refused("restore", file, "--database-url", f"sqlite:///{nowhere}")
    assert said == f"interintent: cannot write {nowhere}: No such file or directory\n"
    said = await refused("restore", nowhere, "--database-url", url)
    assert said == f"interintent: {nowhere}: No such file or directory\n"
    # A disk without room.
    fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda number, mode, **_: on_full_device(number, fdopen, mode))
    target = tmp_path / "made" / "games.sqlite"
    target.parent.mkdir()
    said = await refused("restore", file, "--database-url", f"sqlite:///{target}")
    assert said == f"interintent: cannot write {target}: No space left on device\n"
    assert list(target.parent.iterdir()) == []


def on_full_device(number: int, fdopen: Any, mode: str) -> Any:
    """A file on a full device instead of this one."""
    os.close(number)
    return fdopen(os.open("/dev/full", os.O_WRONLY), mode, buffering=0)


async def test_the_kinds_of_databases_are_not_mixed_up(postgres: PostgresServer, tmp_path: Path) -> None:
    here = f"sqlite:///{tmp_path / 'games.sqlite'}"
    await typed("migrate", "--database-url", here)
    await typed("backup", tmp_path / "b.zip", "--database-url", here)
    there = postgres.create_database()
    words = ("restore", tmp_path / "b.zip", "--database-url", there)
    assert "a backup of sqlite, the database is postgresql" in await refused(*words)
    assert "there is no database" in await refused(
        "backup", tmp_path / "c.zip", "--database-url", "sqlite:////nowhere/games.sqlite"
    )


@pytest.mark.long
async def test_a_backup_taken_under_load_restores_to_games_that_all_go_on(
    database_url: str, other_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted games, games of a model, games that people step, and a lobby, at every stage at once."""
    file = tmp_path / "games.zip"
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    async with faking() as fake:
        async with calling_with(fake, database_url, parallel_games=24) as caller:
            scripted, _ = await caller.create(count=120, seeds={"from": 1000})
            asked, _ = await caller.create(count=12, seats=DIRECT, seeds={"from": 5000})
            stepped, by_hand = await caller.create(count=4, drive="manual", seats=[{"agent": "random"}])
            for where, game in zip(("action", "phase", "round"), by_hand, strict=False):
                await caller.post(f"/games/{game}/step", json={"until": where})
            await until(lambda: fake.counts.answered >= 20)
            fake.faults = (read_fault("status_503"),)  # however fast this machine is, none of them is over
            await some(caller, scripted, 20)
            wish = {"seats": [{"agent": "open"}] + [{"agent": "random"}] * 4}
            waits = (await caller.post("/games/open", json=wish)).json()["game_id"]
            await typed("backup", file, "--database-url", database_url)
            fake.faults = ()
            backed_up = caller.services.store
            tally = (await backed_up.tally(scripted)).status
            for batch in (scripted, asked):
                await caller.over(batch)
            originals = {batch: await logs_of(caller, batch) for batch in (scripted, asked)}
        await typed("restore", file, "--database-url", other_url)
        rows = await everything(other_url)
        open_games = sum("'running'" in row or "'created'" in row for row in rows["games"])
        assert open_games > 10, tally  # it was taken under load
        async with calling_with(fake, other_url) as caller:
            for batch in (scripted, asked):
                view = await caller.over(batch)
                assert (view["status"], view["games"]["finished"]) == ("done", view["count"])
            for game in by_hand:
                answer = await caller.post(f"/games/{game}/step", json={"until": "end"})
                assert answer.status_code == 200, answer.text
            assert (await caller.get(f"/batches/{stepped}")).json()["status"] == "done"
            claimed = await caller.post(f"/games/{waits}/seats/open/claim", json={})
            assert claimed.status_code == 201, claimed.text
            assert (await caller.get(f"/games/{waits}")).json()["status"] in ("created", "running")
            # Played on from the backup, each game of a seed ends as the original did.
            assert await logs_of(caller, scripted) == originals[scripted]
            assert [len(log) > 20 for log in (await logs_of(caller, asked)).values()] == [True] * 12
