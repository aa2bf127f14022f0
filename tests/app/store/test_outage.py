"""A database that goes away for a while costs only time."""

import asyncio

import pytest

from app.main import Composition
from engine.events import Event
from tests.app.calling import WITHIN_S, calling
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
