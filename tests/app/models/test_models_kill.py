"""A process that dies costs the answers that were on their way to it, and no other.

``KILL_GAMES=40`` plays more games, with a kill for every two of them.
"""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.instruments.fake_model import FakeModel, FakeOptions, read_fault, read_latency
from app.models.account import Budget
from app.models.recording import Recording
from app.runner.simulate import Plan
from app.runner.simulating_models import ModelRun
from app.settings import EndpointSettings
from engine.profile import make_profile
from tests.app.calling import WITHIN_S, Process, fetch, read_ndjson, until, without_times
from tests.app.modelling import COMPACT, DIRECT, EAGER, faking, settings_file, stored_calls

pytestmark = pytest.mark.long

GAMES = int(os.environ.get("KILL_GAMES", "6"))
PARALLEL = 8
RULES = {"max_rejections": 1}
"""One attempt a round: the kills come early, and the rest of a game only shows that it goes on."""
SEED = 50

SEATS = {
    # Two seats whose answers hold two questions.
    "joined": ([*DIRECT * 3, *COMPACT * 2], GAMES),
    # Every seat asks ahead of its turn, so a kill finds answers stored that no event tells of. A game of it
    # asks six times as much.
    "eager": (EAGER * 5, max(2, GAMES // 4)),
}
"""Who plays, and how many games."""


@contextlib.contextmanager
def gone_in_the_end(process: Process) -> Iterator[None]:
    try:
        yield
    finally:
        if process.process.poll() is None:
            process.kill()


async def _killed_when(process: Process, fake: FakeModel, calls: int) -> None:
    give_up = time.monotonic() + WITHIN_S
    while fake.counts.calls < calls:
        assert time.monotonic() < give_up, process.said
        await asyncio.sleep(0.001)
    await asyncio.to_thread(process.kill)
    await until(lambda: not fake.counts.in_flight)


@pytest.mark.parametrize("who", SEATS)
@pytest.mark.timeout(120 + 15 * GAMES)
async def test_no_stored_answer_is_asked_for_again_however_often_the_service_is_killed(
    empty_database_url: str, who: str, tmp_path: Path
) -> None:
    chance = random.Random()
    seats, games = SEATS[who]
    kills = GAMES // 2
    async with faking(FakeOptions(latency=read_latency("uniform:0.005,0.05"))) as fake:
        settings_file(tmp_path, fake, parallel=PARALLEL, attempts=1)
        extra = 0
        batch = ""
        for kill in range(kills + 1):
            process = await asyncio.to_thread(Process, empty_database_url, tmp_path)
            with gone_in_the_end(process):
                if not batch:
                    wish = {"seats": seats, "count": games, "seeds": {"from": SEED}, "rules": RULES}
                    async with httpx.AsyncClient(timeout=WITHIN_S) as client:
                        answer = await client.post(f"{process.url}/games", json=wish)
                    batch = answer.json()["batch_id"]
                if kill < kills:
                    await _killed_when(process, fake, fake.counts.calls + chance.randint(1, 60))
                    lost = fake.counts.calls - await stored_calls(empty_database_url)
                    # Lost are those in flight at this kill. Had a stored one been asked for again, or
                    # one been asked for twice at once, there would be more.
                    assert 0 <= lost - extra <= PARALLEL
                    extra = lost
                else:
                    lines = await asyncio.to_thread(fetch, process, f"/batches/{batch}/events", follow=True)
                    assert read_ndjson(lines.content)[-1]["status"] == "done"
                    view = (await asyncio.to_thread(fetch, process, f"/batches/{batch}")).json()
                    export = await asyncio.to_thread(fetch, process, f"/batches/{batch}/export", view="full")
        stored = await stored_calls(empty_database_url)
        assert fake.counts.calls - stored == extra
        # What died with a process is not counted; all that was used is.
        assert view["models"][0]["calls"] == stored
        assert view["games"]["finished"] == games
        logs = _by_game(export.content)
        expected = await asyncio.to_thread(_undisturbed, fake, seats, games)
        assert logs == expected


@pytest.mark.timeout(120 + 15 * GAMES)
async def test_games_end_as_if_neither_outage_nor_empty_account_nor_kill_had_been(
    empty_database_url: str, tmp_path: Path
) -> None:
    chance = random.Random()
    seats, games = SEATS["joined"]
    troubles = ["outage", "quota", "kill", "quota and kill", "outage and kill"]
    chance.shuffle(troubles)
    async with (
        faking(FakeOptions(latency=read_latency("uniform:0.005,0.05"))) as fake,
        httpx.AsyncClient(timeout=WITHIN_S) as client,
    ):
        settings_file(tmp_path, fake, parallel=PARALLEL, attempts=1)
        process = await asyncio.to_thread(Process, empty_database_url, tmp_path)
        try:
            wish = {"seats": seats, "count": games, "seeds": {"from": SEED}, "rules": RULES}
            batch = (await client.post(f"{process.url}/games", json=wish)).json()["batch_id"]

            async def view() -> Any:
                return (await client.get(f"{process.url}/batches/{batch}")).json()

            async def becomes(shown: Callable[[Any], bool]) -> None:
                async with asyncio.timeout(WITHIN_S):
                    while True:
                        if shown(await view()):
                            return
                        await asyncio.sleep(0.05)

            for trouble in troubles:
                await until(lambda past=fake.counts.answered: fake.counts.answered > past + 20)  # type: ignore[misc]
                if "quota" in trouble:
                    fake.faults = (read_fault("quota"),)
                    await becomes(lambda view: view["status"] == "suspended")
                elif "outage" in trouble:
                    fake.faults = (read_fault("status_503"),)
                    await becomes(lambda view: view["waiting"] != [])
                if "kill" in trouble:
                    await asyncio.to_thread(process.kill)
                    process = await asyncio.to_thread(Process, empty_database_url, tmp_path)
                fake.faults = ()
                if "quota" in trouble:
                    answer = await client.post(f"{process.url}/batches/{batch}/resume", json={})
                    assert answer.status_code == 200, answer.text
            await becomes(lambda view: view["status"] == "done")
            export = await asyncio.to_thread(fetch, process, f"/batches/{batch}/export", view="full")
        finally:
            process.kill()
        logs = _by_game(export.content)
        assert logs == await asyncio.to_thread(_undisturbed, fake, seats, games)
        assert not [line for log in logs for line in log if line["type"] == "action_defaulted"]


def _by_game(export: bytes) -> list[list[dict[str, Any]]]:
    games: dict[str, list[dict[str, Any]]] = {}
    for line in read_ndjson(export):
        if "seq" in line:
            games.setdefault(line["game"], []).append(line)
    return [without_times(lines) for lines in games.values()]


def _undisturbed(
    fake: FakeModel, seats: Sequence[Mapping[str, Any]], games: int
) -> list[list[dict[str, Any]]]:
    """The same games in this process, without a service. The fake model answers equal questions alike."""
    plan = Plan(make_profile("interintent", 5, rules=RULES).settings(), [dict(seat) for seat in seats], SEED)
    endpoint = EndpointSettings(base_url=f"{fake.url}/v1", model="fake", parallel=32)
    run = ModelRun(plan, ("fake", endpoint), Recording(), Budget(), 16)
    return _by_game(b"".join(result.lines for result in run.run(games, keep=True)))
