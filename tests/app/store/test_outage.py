"""A database that goes away for a while costs only time."""

import asyncio

import pytest

from app.main import Composition
from engine.events import Event
from tests.app.calling import WITHIN_S, calling
from tests.app.store.test_schema import run
from tests.postgres import Mode, PostgresServer

pytestmark = pytest.mark.long


async def logs(services: Composition, batch: str) -> list[list[Event]]:
    return [await services.reader.events(game) for game in await services.store.ids(batch)]


async def finished(services: Composition, batch: str, count: int) -> None:
    """Returns when so many games of the batch have finished; fails when one has failed."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            status = (await services.store.tally(batch)).status
            assert not status.get("failed")
            if status.get("finished", 0) >= count:
                return
            await asyncio.sleep(0.02)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_games_go_on_when_the_database_comes_back(mode: Mode) -> None:
    wish = {"count": 40, "seeds": {"from": 77}}
    with PostgresServer() as server:
        async with calling(server.create_database()) as caller:
            services = caller.services
            batch, _ = await caller.create(**wish)
            for outage in range(2):
                await finished(services, batch, 5 + 10 * outage)
                await asyncio.to_thread(server.stop, mode)
                await asyncio.sleep(0.7)
                await asyncio.to_thread(server.start)
            await finished(services, batch, 40)
            again, _ = await caller.create(**wish)
            await finished(services, again, 40)
            assert await logs(services, batch) == await logs(services, again)


@pytest.mark.parametrize(
    ("takes", "gives_back"),
    [
        ("REVOKE INSERT, UPDATE ON events FROM svc", "GRANT INSERT, UPDATE ON events TO svc"),
        ("ALTER TABLE events RENAME TO gone", "ALTER TABLE gone RENAME TO events"),
    ],
)
async def test_a_right_or_a_table_that_is_missing_for_a_moment_fails_no_game(
    takes: str, gives_back: str
) -> None:
    with PostgresServer() as server:
        url = server.create_database()
        async with calling(url):
            pass  # the schema is there
        await run(url, "CREATE ROLE svc LOGIN", "GRANT ALL ON SCHEMA public TO svc")
        await run(
            url, *(f"GRANT ALL ON ALL {what} IN SCHEMA public TO svc" for what in ("TABLES", "SEQUENCES"))
        )
        async with calling(url.replace("postgres@", "svc@")) as caller:
            batch, _ = await caller.create(count=40, seeds={"from": 77})
            await finished(caller.services, batch, 5)
            await run(url, takes)
            await asyncio.sleep(1)
            assert (await caller.post("/games", json={})).status_code == 503
            await run(url, gives_back)
            await finished(caller.services, batch, 40)


async def test_a_database_that_was_read_only_for_a_moment_is_written_to_again() -> None:
    with PostgresServer() as server:
        url = server.create_database()
        async with calling(url) as caller:
            batch, _ = await caller.create(count=40, seeds={"from": 77})
            await finished(caller.services, batch, 5)
            name = url.rpartition("/")[2].partition("?")[0]
            setting = f"""ALTER DATABASE "{name}" %s default_transaction_read_only"""
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            await run(url, setting % "SET" + " = on", f"{end} AND datname = '{name}'")
            for _ in range(20):  # every session of the pool begins anew
                await asyncio.gather(*(caller.get("/games") for _ in range(12)))
            assert (await caller.post("/games", json={})).status_code == 503
            await run(server.url("postgres"), setting % "RESET")
            await finished(caller.services, batch, 40)
            for _ in range(30):
                assert (await caller.post("/games", json={})).status_code == 201
