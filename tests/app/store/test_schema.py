"""The schema: what an older program does beside a newer one, and what migrations may do."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg
import pytest
import sqlalchemy as sa
from alembic.config import CommandLine
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import create_async_engine

from app.store import db, schema
from app.store.db import PASSING, Database
from app.store.schema import SchemaState, UnknownSchema, migrate, newest, revisions
from tests.app.calling import PROJECT, calling
from tests.app.real_server import local_settings
from tests.app.seated import Balancer
from tests.app.typed import interintent
from tests.postgres import PostgresServer, fresh_database


async def run(url: str, *statements: str) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))
    await engine.dispose()


async def be_migrated_by_a_newer_program(url: str, *, serves_this: bool) -> None:
    """What the next release leaves: further columns and a table, and the list of programs that it serves."""
    await run(
        url,
        "ALTER TABLE games ADD COLUMN next_release INTEGER",
        "ALTER TABLE batches ADD COLUMN next_release INTEGER NOT NULL DEFAULT 7",
        "CREATE TABLE of_the_next_release (a INTEGER)",
        "UPDATE alembic_version SET version_num = 'ffffffffffff'",
        "DELETE FROM schema_programs",
        "INSERT INTO schema_programs VALUES ('ffffffffffff')",
        *([f"INSERT INTO schema_programs VALUES ('{newest()}')"] if serves_this else []),
    )


NEXT: Final = """
import sqlalchemy as sa
from alembic import op

revision = "fffffffffff0"
down_revision = "{newest}"


def upgrade() -> None:
    op.add_column("games", sa.Column("next_release", sa.Integer()))
    op.add_column("events", sa.Column("next_release", sa.Integer(), nullable=False, server_default="7"))
    op.add_column("batches", sa.Column("next_release", sa.Integer(), nullable=False, server_default="7"))
    op.create_index("ix_of_the_next_release", "games", ["next_release"])
    op.create_table("of_the_next_release", sa.Column("a", sa.Integer()))
"""


@contextmanager
def next_release(directory: Path) -> Iterator[None]:
    """While the block lasts, this process is the next release, which has a further migration."""
    # Other processes may be writing bytecode there at this moment.
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "migrations", directory / "migrations", ignore=unneeded)
    (directory / "migrations" / "versions" / "next.py").write_text(NEXT.format(newest=newest()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "files", lambda name: directory / name)
        revisions.cache_clear()
        try:
            yield
        finally:
            revisions.cache_clear()


async def migrated(url: str) -> None:
    """Migrates as the command does."""
    database = Database(local_settings(url))
    try:
        assert (await database.migrate()).behind == 1
        assert (await database.schema()).behind == 0
    finally:
        await database.stop()


async def test_a_migration_waits_for_those_who_are_writing(
    postgres: PostgresServer, laid_out_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_WITHIN_S", 1)
    with fresh_database(postgres, laid_out_postgres) as url, next_release(tmp_path):
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.execute(sa.text("LOCK TABLE games IN ROW EXCLUSIVE MODE"))
            migrating = asyncio.create_task(migrated(url))
            waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            for count in (1, 0, 1):  # it waits, gives up, and tries again
                while (await connection.execute(waits)).scalar_one() != count:
                    assert not migrating.done()
                    await asyncio.sleep(0.01)
        await migrating
        await engine.dispose()


async def test_a_migration_ends_when_nothing_comes_back_any_more_and_not_because_it_takes_long(
    postgres: PostgresServer, laid_out_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "SILENT_S", 0.1)
    with fresh_database(postgres, laid_out_postgres) as url, next_release(tmp_path):
        async with Balancer([f"127.0.0.1:{postgres.port}"]) as between:

            def slow(connection: sa.Connection) -> SchemaState:
                connection.execute(sa.text("SELECT pg_sleep(2)"))
                return schema.migrate(connection)

            def silent(connection: sa.Connection) -> SchemaState:
                between.swallow()
                return schema.migrate(connection)

            database = Database(local_settings(url.replace(f"127.0.0.1:{postgres.port}", between.url)))
            monkeypatch.setattr(db, "migrate", silent)
            with pytest.raises(PASSING):
                await database.migrate()
            # Whoever is cut off between two messages of a statement counts as silent, too.
            halfway = await asyncpg.connect(url.replace("+asyncpg", ""))
            await halfway.prepare("SELECT 1")
            works = db._WORKS.bindparams(pids=[halfway.get_server_pid()], silent_s=0.0)
            assert await database.column(works) == []
            await halfway.close()
            monkeypatch.setattr(db, "migrate", slow)
            # A busy machine also takes a moment from one statement to the next.
            monkeypatch.setattr(db, "SILENT_S", 0.4)
            assert (await database.migrate()).behind == 1
            await database.stop()


async def test_this_program_plays_on_beside_the_next_release(database_url: str) -> None:
    async with calling(database_url) as caller:
        before, _ = await caller.played(count=2)
        await be_migrated_by_a_newer_program(database_url, serves_this=True)
        during, _ = await caller.played(count=2)  # it was running when the schema changed
    async with calling(database_url) as caller:  # and it may start again
        after, _ = await caller.played(count=2)
        for batch in (before, during, after):
            assert (await caller.get(f"/batches/{batch}")).json()["status"] == "done"
            assert (await caller.get(f"/batches/{batch}/export")).status_code == 200
    said = await asyncio.to_thread(interintent, "migrate", "--database-url", database_url)
    assert "a newer release has migrated" in said.stderr


async def test_a_schema_that_serves_this_program_no_longer_is_told_in_a_sentence(database_url: str) -> None:
    await be_migrated_by_a_newer_program(database_url, serves_this=False)
    database = Database(local_settings(database_url))
    with pytest.raises(UnknownSchema, match=r"ffffffffffff.*a newer release.*Run that release, or restore"):
        await database.start()
    await database.stop()
    for words in (["migrate"], ["migrate", "--check"], ["keys", "list"], ["export", "b_1"], ["audit"]):
        refused = await asyncio.to_thread(interintent, *words, "--database-url", database_url)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.count("\n") == 1
        assert "a newer release has migrated it" in refused.stderr


async def test_tables_without_a_revision_are_not_taken_for_an_empty_database(database_url: str) -> None:
    await run(database_url, "DROP TABLE alembic_version")
    database = Database(local_settings(database_url))
    with pytest.raises(UnknownSchema, match="no revision of its schema"):
        await database.start()
    await database.stop()


def test_the_command_migrates_what_is_behind_and_says_so(empty_database_url: str) -> None:
    url = ["--database-url", empty_database_url]
    if not empty_database_url.startswith("sqlite"):
        behind = interintent("migrate", "--check", *url)
        assert behind.exit_code == 1
        assert f"{len(revisions())} migrations to run" in behind.stderr
    done = interintent("migrate", *url)
    assert (done.exit_code, "migrated from nothing to" in done.stderr) == (0, True)
    again = interintent("migrate", "--check", *url)
    assert (again.exit_code, f"the newest, {newest()}" in again.stderr) == (0, True)
    missing = interintent("migrate", "--check", "--database-url", "sqlite:////nowhere/games.sqlite")
    assert missing.exit_code == 2


Columns = dict[str, dict[str, sa.engine.interfaces.ReflectedColumn]]


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[list[tuple[str, Columns]]]:
    """Each revision that an older program may meet, with the tables and columns that it leaves."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'steps.sqlite'}")
    with engine.begin() as connection:
        chain = [revision.name for revision in revisions()]
        first = chain.index("b7d2f04c91ae")
        found = []
        for revision in chain[first:]:
            migrate(connection, revision)
            look = sa.inspect(connection)
            found.append(
                (
                    revision,
                    {
                        table: {column["name"]: column for column in look.get_columns(table)}
                        for table in look.get_table_names()
                    },
                )
            )
        yield found
    engine.dispose()


def test_a_migration_only_adds_unless_it_says_which_programs_it_ends(
    steps: list[tuple[str, Columns]],
) -> None:
    ends = {revision.name for revision in revisions() if revision.oldest_program is not None}
    (_, before), *later = steps
    for name, after in later:
        if name not in ends:
            assert before.keys() <= after.keys(), name
            for table, columns in before.items():
                assert columns.keys() <= after[table].keys(), (name, table)
                for column in after[table].keys() - columns.keys():
                    new = after[table][column]
                    # The INSERTs of the release before do not name it.
                    assert new["nullable"] or new["default"] is not None, (name, table, column)
        before = after


def test_what_a_migration_ends_is_known(steps: list[tuple[str, Columns]]) -> None:
    known = [revision.name for revision in revisions()]
    for place, revision in enumerate(revisions()):
        if revision.oldest_program is not None:
            assert known.index(revision.oldest_program) <= place


def test_nothing_is_downgraded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    monkeypatch.setenv("DATABASE_URL", url)
    interintent("migrate", "--database-url", url)
    with pytest.raises((CommandError, SystemExit)):
        CommandLine().main(["-c", str(PROJECT / "alembic.ini"), "--raiseerr", "downgrade", "-1"])
    with sa.create_engine(url).connect() as connection:
        assert sa.inspect(connection).has_table("games")
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
    assert found == newest()
