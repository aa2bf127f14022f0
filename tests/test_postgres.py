import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from tests.postgres import Databases, PostgresServer, fresh_database


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    engine = create_async_engine(url)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


async def test_the_server_is_a_postgresql(postgres: PostgresServer) -> None:
    async with connected(postgres.url("postgres")) as connection:
        version = await connection.scalar(text("SELECT version()"))
    assert version.startswith("PostgreSQL ")


async def test_it_never_runs_as_root(postgres: PostgresServer) -> None:
    async with connected(postgres.url("postgres")) as connection:
        pid = await connection.scalar(text("SELECT pg_backend_pid()"))
        assert psutil.Process(pid).uids().effective != 0


async def test_two_databases_are_separate(postgres: PostgresServer) -> None:
    with fresh_database(postgres) as one, fresh_database(postgres) as other:
        async with connected(one) as connection:
            await connection.execute(text("CREATE TABLE only_here (seat int)"))
        async with connected(other) as connection:
            assert await connection.scalar(text("SELECT to_regclass('only_here')")) is None


async def test_a_fresh_database_may_still_be_in_use_when_it_goes(postgres: PostgresServer) -> None:
    engine = create_async_engine(postgres.create_database())
    async with engine.connect() as connection:
        assert await connection.scalar(text("SELECT 1")) == 1
        postgres.drop_database(engine.url.render_as_string())
        await connection.invalidate()
    await engine.dispose()


@pytest.fixture(scope="module")
def lent(postgres: PostgresServer) -> Databases:
    like = postgres.create_database()
    run(
        like,
        "CREATE TABLE kept (name text)",
        "INSERT INTO kept VALUES ('one')",
        "CREATE TABLE filled (id serial PRIMARY KEY)",
        "CREATE TABLE pointing (id int REFERENCES filled)",
    )
    return Databases(postgres, like)


def run(url: str, *statements: str) -> object:
    """What the last of these statements gives, if it gives anything."""

    async def results() -> object:
        async with connected(url) as connection:
            done = [await connection.execute(text(one)) for one in statements]
            return done[-1].scalar() if done[-1].returns_rows else None

    return asyncio.run(results())


def test_a_database_that_is_lent_again_is_as_it_was_made(lent: Databases) -> None:
    with lent.lend() as first:
        run(first, *["INSERT INTO filled DEFAULT VALUES"] * 3, "INSERT INTO pointing VALUES (2)")
    with lent.lend() as again:
        assert again == first
        assert run(again, "SELECT count(*) FROM pointing") == 0
        assert run(again, "INSERT INTO filled DEFAULT VALUES RETURNING id") == 1
        assert run(again, "SELECT count(*) FROM filled") == 1


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE filled ADD COLUMN more int",
        "ALTER TABLE pointing DROP CONSTRAINT pointing_id_fkey",
        "CREATE TABLE added (id int)",
        "CREATE INDEX filled_again ON filled (id)",
        "DROP TABLE pointing",
        "INSERT INTO kept VALUES ('two')",
        "UPDATE kept SET name = 'other'",
        "DELETE FROM kept",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 9000', current_database()); END $$",
        "INSERT INTO filled SELECT n FROM generate_series(1, 300000) AS n",
    ],
)
def test_a_database_that_was_changed_more_than_by_new_rows_is_not_lent_again(
    lent: Databases, change: str
) -> None:
    with lent.lend() as changed:
        run(changed, change)
    with lent.lend() as next_one:
        assert next_one != changed


def test_a_database_is_lent_again_though_its_last_user_still_holds_it(lent: Databases) -> None:
    async def hold(url: str) -> Any:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        await connection.execute("BEGIN; INSERT INTO filled DEFAULT VALUES")
        return connection

    with asyncio.Runner() as runner:
        with lent.lend() as first:
            held = runner.run(hold(first))
        with lent.lend() as again:
            assert again == first
            assert run(again, "SELECT count(*) FROM filled") == 0
        runner.get_loop().call_soon(held.terminate)
        runner.run(asyncio.sleep(0.01))


def alive(process: psutil.Process) -> bool:
    """A zombie is dead: an orphan's may stay until the first process of a container ends."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One to be stopped and started, so that no other test's connections break."""
    with PostgresServer() as server:
        yield server


async def test_what_was_committed_survives_a_crash(own_server: PostgresServer) -> None:
    url = own_server.create_database()
    async with connected(url) as connection:
        await connection.execute(text("CREATE TABLE votes AS SELECT 3 AS seat"))
    own_server.stop("immediate")
    with pytest.raises(ConnectionRefusedError):
        async with connected(url):
            pass
    own_server.start()
    async with connected(url) as connection:
        assert await connection.scalar(text("SELECT seat FROM votes")) == 3


def test_nothing_stays_when_its_owner_is_killed() -> None:
    program = """
from tests.postgres import PostgresServer
with PostgresServer() as server:
    print(server._root, server.port, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        root = Path(owner.stdout.readline().split()[0])
        postmaster = psutil.Process(int((root / "data" / "postmaster.pid").read_text().split()[0]))
        owner.kill()
    give_up = time.monotonic() + 200
    while (alive(postmaster) or root.exists()) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not alive(postmaster)
    assert not root.exists()


async def test_each_kind_of_database_comes_empty(database_url: str) -> None:
    async with connected(database_url) as connection:
        await connection.execute(text("CREATE TABLE seats (seat int)"))
        assert await connection.scalar(text("SELECT count(*) FROM seats")) == 0
