"""A batch that somebody pauses stands still until somebody resumes it, and asks nothing twice."""

import asyncio

import pytest

from app.instruments.fake_model import FakeOptions, read_latency
from tests.app.calling import Caller, calling, problem, until
from tests.app.modelling import DIRECT, calling_with, faking, stored_calls
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio


async def _events(caller: Caller) -> int:
    return (await caller.rows())["events"]


async def test_a_paused_batch_stands_still_until_it_is_resumed(database_url: str) -> None:
    async with faking(FakeOptions(latency=read_latency("0.02"))) as fake:
        async with calling_with(fake, database_url, parallel_games=3) as caller:
            batch, _ = await caller.create(seats=DIRECT, count=2, rules={"max_rejections": 1})
            await until(lambda: fake.counts.answered >= 10)
            assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
            assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
            view = (await caller.get(f"/batches/{batch}")).json()
            assert (view["status"], view["suspended"]["cause"]) == ("suspended", "paused")
            assert view["suspended"]["words"] == "paused by keyless"
            await until(lambda: not caller.services.pickup.busy and fake.counts.in_flight == 0)
            before = (await _events(caller), fake.counts.calls)
            await asyncio.sleep(0.3)
            assert (await _events(caller), fake.counts.calls) == before
            assert (await caller.post(f"/batches/{batch}/resume", json={})).status_code == 200
            assert (await caller.over(batch))["games"]["finished"] == 2
            problem(await caller.post(f"/batches/{batch}/pause"), 409, "already-over")
        assert fake.counts.calls == await stored_calls(database_url)


async def test_a_pause_and_a_cancel_reach_the_process_that_drives(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            faking(FakeOptions(latency=read_latency("0.02"))) as fake,
            calling_with(fake, url) as driving,
            calling_with(fake, url, runner=False) as other,
        ):
            batch, _ = await other.create(seats=DIRECT, count=2)
            await until(lambda: fake.counts.answered >= 10)
            assert (await other.post(f"/batches/{batch}/pause")).status_code == 202
            await until(lambda: not driving.services.pickup.busy and fake.counts.in_flight == 0)
            calls = fake.counts.calls
            assert (await other.post(f"/batches/{batch}/resume", json={})).status_code == 200
            await until(lambda: fake.counts.answered >= calls + 10)
            assert (await other.post(f"/batches/{batch}/cancel")).status_code == 202
            await until(lambda: not driving.services.pickup.busy and fake.counts.in_flight == 0)
            view = await other.over(batch)
            assert (view["status"], view["games"]["cancelled"]) == ("cancelled", 2)


async def test_games_of_a_batch_with_a_higher_priority_begin_first(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with calling(url, runner=False) as caller:
            usual, _ = await caller.create(count=3)
            urgent, _ = await caller.create(count=3, priority=5)
        async with calling(url, parallel_games=1) as caller:
            for batch in (urgent, usual):
                await caller.over(batch)
            ended = {
                batch: [
                    game["finished_at"]
                    for game in (await caller.get(f"/games?batch={batch}")).json()["games"]
                ]
                for batch in (urgent, usual)
            }
            assert max(ended[urgent]) <= min(ended[usual])
