"""Several processes drive games: each batch has one driver, and another takes over when it dies."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.instruments.fake_model import FakeOptions, read_latency
from app.instruments.fake_model.brains import BRAINS
from tests.app.calling import WITHIN_S, Process, new_batch, read_ndjson, serving_process, until
from tests.app.modelling import DIRECT, faking, settings_file, stored_calls
from tests.postgres import PostgresServer, fresh_database

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240), pytest.mark.long]

PARALLEL = 8
"""Calls that one process has in flight at most."""

RULES = {"max_rejections": 1}


async def _done(process: Process, batch: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client:
        followed = await client.get(f"/batches/{batch}/events", params={"follow": True})
    last: dict[str, Any] = read_ndjson(followed.content)[-1]
    assert last["status"] == "done", last
    return last


async def _drives_nothing(process: Process) -> None:
    """Waits until the process has let go of the last batch."""
    async with asyncio.timeout(WITHIN_S), httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client:
        idle = "\ninterintent_batches_driven 0.0\n"
        while idle not in (await client.get("/metrics")).text:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.05)


async def test_a_process_that_dies_is_followed_by_another_and_nothing_is_paid_twice(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    chance = random.Random(7)
    with fresh_database(postgres) as url:
        async with faking(FakeOptions(latency=read_latency("uniform:0.005,0.05"))) as fake:
            settings_file(tmp_path, fake, parallel=PARALLEL, attempts=1)
            processes = [await asyncio.to_thread(Process, url, tmp_path) for _ in range(3)]
            try:
                batches = [
                    await new_batch(process, seats=DIRECT, count=2, rules=RULES, seeds={"from": 10 * number})
                    for number in range(4)
                    for process in processes[:2]
                ]
                allowed = 0
                for victim in (0, 1):
                    until_calls = fake.counts.calls + chance.randint(20, 40)
                    await until(lambda n=until_calls: fake.counts.calls >= n)  # type: ignore[misc]
                    await asyncio.to_thread(processes[victim].kill)
                    allowed += PARALLEL
                for batch in batches:
                    assert (await _done(processes[2], batch))["games"]["finished"] == 2
                await _drives_nothing(processes[2])
            finally:
                for process in processes:
                    if process.process.poll() is None:
                        await asyncio.to_thread(process.kill)
            # Two drivers of one game would ask twice; only what was in flight at a kill is asked again.
            assert 0 <= fake.counts.calls - await stored_calls(url) <= allowed


async def test_a_judge_is_followed_too_and_pays_nothing_twice(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    sensible = FakeOptions(brain=BRAINS["sensible"](0), latency=read_latency("uniform:0.01,0.03"))
    with fresh_database(postgres) as url:
        async with faking(sensible) as fake:
            settings_file(tmp_path, fake, parallel=PARALLEL, attempts=1)
            with serving_process(url, tmp_path) as first, serving_process(url, tmp_path) as second:
                batch = await new_batch(first, count=2, seeds={"from": 40})
                await _done(first, batch)
                body = {"dimension": "following", "judge": {"kind": "model", "model": "fake"}, "batch": batch}
                async with httpx.AsyncClient(timeout=WITHIN_S) as client:
                    made = (await client.post(f"{first.url}/evaluations", json=body)).json()
                    await until(lambda: fake.counts.calls >= 25)
                    await asyncio.to_thread(first.kill)
                    path = f"{second.url}/evaluations/{made['evaluation_id']}"
                    async with asyncio.timeout(WITHIN_S):
                        while True:
                            view = (await client.get(path)).json()
                            if view["status"] != "judging":
                                break
                            await asyncio.sleep(0.05)
            assert view["status"] == "scored", view
            items = view["progress"]["items"]
            assert view["progress"]["judged"] == items > 50
            assert items <= fake.counts.calls <= items + PARALLEL


async def test_a_process_that_stops_hands_over_at_once(postgres: PostgresServer, tmp_path: Path) -> None:
    with fresh_database(postgres) as url, serving_process(url, tmp_path) as first:
        batch = await new_batch(first, count=120)
        with serving_process(url, tmp_path) as second:
            first.terminate()
            assert (await _done(second, batch))["games"]["finished"] == 120


async def test_what_a_process_that_only_serves_accepts_is_driven_by_another(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with (
        fresh_database(postgres) as url,
        serving_process(url, tmp_path, "--no-runner") as serving,
        serving_process(url, tmp_path) as driving,
    ):
        batch = await new_batch(serving, count=210, seats=[{"agent": "random"}])
        assert (await _done(serving, batch))["games"]["finished"] == 210
        async with httpx.AsyncClient(base_url=serving.url, timeout=WITHIN_S) as client:
            assert 'interintent_events_total{origin="played"} 0.0' in (await client.get("/metrics")).text
        await _drives_nothing(driving)


async def test_on_sqlite_a_second_process_waits_for_the_first_to_go(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    with serving_process(url, tmp_path) as first, serving_process(url, tmp_path) as second:
        batch = await new_batch(second, count=60, seats=[{"agent": "scripted"}])
        await until(lambda: any("another process drives the games" in line for line in second.said))
        await until(lambda: first.process.poll() is None)
        await asyncio.to_thread(first.kill)
        assert (await _done(second, batch))["games"]["finished"] == 60
