"""What waits for people or for a model's endpoint is neither the queue nor work that is left."""

import asyncio
import time
from pathlib import Path

import pytest

from app.base import metrics
from app.instruments.fake_model import FakeOptions, read_fault, read_latency
from app.models import health
from tests.app.base.test_metrics import scraped
from tests.app.calling import WITHIN_S, Caller, calling
from tests.app.modelling import DIRECT, calling_with, endpoints, faking, settings_file
from tests.app.runner.test_workers import Worker, workers
from tests.app.seated import SHORT, remote_game
from tests.app.seats.test_seats_http import TEAM, answer, asked
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio

PATIENCE_S = 1.0


async def _is_idle(caller: Caller) -> None:
    """Waits until the service has nothing left to do."""
    async with asyncio.timeout(WITHIN_S):
        while not await caller.services.is_idle():  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.01)


async def _shows(caller: Caller, **games: int) -> None:
    """Waits until the metrics show these open games."""
    expected = {"created": 0, "running": 0, "suspended": 0, "held": 0, **games}
    async with asyncio.timeout(WITHIN_S):
        while True:
            caller.app.state.gauges._read_at = None
            samples = (await scraped(caller))["interintent_games_open"].samples
            if {one.labels["status"]: one.value for one in samples} == expected:
                return
            await asyncio.sleep(0.05)


async def test_a_game_that_waits_for_people_is_neither_queued_nor_left_to_do(database_url: str) -> None:
    async with calling(database_url, patience_s=PATIENCE_S) as caller:
        began = time.monotonic()
        game, tokens = await remote_game(caller, rules=SHORT)
        await asked(caller, game, tokens[1])
        await _shows(caller, running=1)
        assert metrics.games_waiting._value.get() == 0
        # A bot that answers at once is waited for.
        await _is_idle(caller)
        assert time.monotonic() - began >= PATIENCE_S
        await _shows(caller, running=1)
        assert (await answer(caller, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
        assert (await asked(caller, game, tokens[4]))["kind"] == "vote"
        assert not await caller.services.is_idle()
        await _is_idle(caller)


async def test_a_game_that_nobody_has_begun_is_queued(database_url: str) -> None:
    async with calling(database_url, parallel_games=1, runner=False) as caller:
        await remote_game(caller)
        batch, _ = await caller.create(count=2)
        assert (await caller.post(f"/batches/{batch}/pause")).status_code == 202
        await _shows(caller, created=1, held=2)


async def test_a_game_that_has_its_answer_waits_in_the_queue_again(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with calling(url, runner=False) as other:
            async with calling(url, patience_s=0.1) as caller:
                game, tokens = await remote_game(caller, rules=SHORT)
                await asked(caller, game, tokens[1])
                await _is_idle(caller)
            await _shows(other, running=1)
            assert (await answer(other, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
            await _shows(other, created=1)


async def test_a_game_with_a_call_in_flight_is_left_to_do_although_people_are_asked_too(
    database_url: str,
) -> None:
    seats = [{"agent": "remote"}, {"agent": "remote"}, *DIRECT * 3]
    async with (
        faking(FakeOptions(latency=read_latency("100"))) as fake,
        calling_with(fake, database_url, patience_s=2 * PATIENCE_S, drain_s=0) as caller,
    ):
        game, tokens = await remote_game(caller, seats=seats, rules=SHORT)
        await asked(caller, game, tokens[1])
        assert (await answer(caller, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
        await asked(caller, game, tokens[2])
        async with asyncio.timeout(WITHIN_S):
            while fake.counts.in_flight < 3:  # noqa: ASYNC110  # there is no event
                await asyncio.sleep(0.02)
        for _ in range(50):  # for longer than its patience
            assert not await caller.services.is_idle()
            await asyncio.sleep(0.05)


async def test_games_that_wait_for_an_endpoint_are_neither_queued_nor_left_to_do(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.3)
    async with (
        faking(FakeOptions(faults=(read_fault("status_503"),))) as fake,
        calling(database_url, models=endpoints(fake, attempts=1), parallel_games=1) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, count=3, rules={"max_rejections": 1})
        await _shows(caller, running=3)
        await _is_idle(caller)
        fake.faults = ()
        assert (await caller.over(batch))["games"]["finished"] == 3
        await _is_idle(caller)
        await _shows(caller)


@pytest.mark.long
@pytest.mark.parametrize("what", ["people", "an endpoint"])
async def test_a_worker_ends_when_all_that_is_left_waits(
    database_url: str, tmp_path: Path, what: str
) -> None:

    async with faking(FakeOptions(faults=(read_fault("status_503"),))) as fake:
        settings_file(tmp_path, fake, f"INTERINTENT_PATIENCE_S={PATIENCE_S}", attempts=1)
        seats = [{"agent": "remote"}] if what == "people" else DIRECT
        async with calling_with(fake, database_url, runner=False) as caller:
            waiting, _ = await caller.create(seats=seats)
            batch, _ = await caller.create(count=3)
        with workers() as all_of_them:
            worker = Worker(database_url, tmp_path, "--until-empty")
            all_of_them.append(worker)
            assert await worker.wait() == 0, worker.said
        async with calling_with(fake, database_url, runner=False) as caller:
            assert (await caller.get(f"/batches/{batch}")).json()["games"]["finished"] == 3
            assert (await caller.get(f"/batches/{waiting}")).json()["games"]["created"] == 1
