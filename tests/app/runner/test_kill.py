"""A process that dies costs only time: the next one finishes what was accepted."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.runner.simulate import Plan, run
from app.store.db import Database
from app.store.games import GameStore
from engine.profile import make_profile
from tests.app.calling import WITHIN_S, Line, Process, fetch, read_ndjson, serving_process, without_times
from tests.app.real_server import local_settings

pytestmark = pytest.mark.long

SEED = 1000
COUNT = 200


@pytest.fixture(scope="module")
def undisturbed_logs() -> list[list[Line]]:
    """The logs of the seeds from 1000 on, played in this process without any service."""
    plan = Plan(make_profile("interintent", 5).settings(), [{"agent": "scripted", "options": {}}] * 5, SEED)
    return _by_game(b"".join(result.lines for result in run(plan, COUNT, keep=True)))


def _by_game(export: bytes) -> list[list[Line]]:
    games: dict[str, list[Line]] = {}
    for line in read_ndjson(export):
        if "seq" in line:
            games.setdefault(line["game"], []).append(line)
    return [without_times(lines) for lines in games.values()]


def _finished(process: Process, batch: str) -> int:
    count: int = fetch(process, f"/batches/{batch}").json()["games"]["finished"]
    return count


def _post(process: Process, **wish: Any) -> str:
    answer = httpx.post(f"{process.url}/games", json=wish, timeout=WITHIN_S)
    assert answer.status_code in (201, 202), answer.text
    batch: str = answer.json()["batch_id"]
    return batch


async def _laid_out(database_url: str, batch: str) -> int:
    """How many games of the batch are stored."""
    database = Database(local_settings(database_url))
    try:
        return len(await GameStore(database).ids(batch))
    finally:
        await database.stop()


def _until_done(process: Process, batch: str) -> None:
    lines = read_ndjson(fetch(process, f"/batches/{batch}/events", follow=True).content)
    assert lines[-1]["status"] == "done"
    assert lines[-1]["games"]["finished"] == lines[-1]["count"]


def _until_some_are_finished(process: Process, batch: str, some: int) -> None:
    until = time.monotonic() + WITHIN_S
    while _finished(process, batch) < some:
        assert time.monotonic() < until
        time.sleep(0.01)


def _check(process: Process, batch: str, count: int, undisturbed_logs: list[list[Line]]) -> None:
    logs = _by_game(fetch(process, f"/batches/{batch}/export", view="full").content)
    assert len(logs) == count
    for position, (log, expected) in enumerate(zip(logs, undisturbed_logs[:count], strict=True)):
        assert log == expected, f"seed {SEED + position}"


def test_a_batch_finishes_the_same_after_any_number_of_kills(
    empty_database_url: str, tmp_path: Path, undisturbed_logs: list[list[Line]]
) -> None:
    chance = random.Random()
    count = COUNT if "sqlite" in empty_database_url else COUNT // 2
    with serving_process(empty_database_url, tmp_path) as process:
        batch = _post(process, count=count, seeds={"from": SEED})
        time.sleep(chance.uniform(0, 0.5))
        process.kill()
    seen = [0]
    for part in (0.1, 0.4, 0.8):
        with serving_process(empty_database_url, tmp_path) as process:
            # What was finished stays so, whenever the process died.
            assert _finished(process, batch) >= seen[-1]
            _until_some_are_finished(process, batch, int(part * count))
            time.sleep(chance.uniform(0, 0.2))
            seen.append(_finished(process, batch))
            process.kill()
    assert seen[1] < count, "the first kill came after the end: it proves nothing"
    with serving_process(empty_database_url, tmp_path) as process:
        _until_done(process, batch)
        _check(process, batch, count, undisturbed_logs)


def test_a_service_stops_soon_when_asked_and_continues_after_a_restart(
    tmp_path: Path, undisturbed_logs: list[list[Line]]
) -> None:
    url, count = f"sqlite:///{tmp_path / 'games.sqlite'}", COUNT
    with serving_process(url, tmp_path) as process:
        batch = _post(process, count=count, seeds={"from": SEED})
        # Somebody follows: a stream must not hold up the end.
        with httpx.stream(
            "GET", f"{process.url}/batches/{batch}/events", params={"follow": True}, timeout=WITHIN_S
        ) as stream:
            lines = stream.iter_lines()
            # Told by the stream itself: another look would take so long that a fast service could be done.
            while json.loads(next(lines) or "{}").get("games", {}).get("finished", 0) < 5:
                pass
            status = process.terminate()
            for _ in lines:
                pass
        assert status in (0, -15)
        # What uvicorn says when it had to cut off a request that would not end by itself.
        assert not [line for line in process.said if "exceeded" in line]
        assert not [line for line in process.said if "Traceback" in line or '"level": "error"' in line]
    with serving_process(url, tmp_path) as process:
        before = _finished(process, batch)
        assert 5 <= before < count
        _until_done(process, batch)
        _check(process, batch, count, undisturbed_logs)


def test_the_next_process_finishes_laying_out_a_batch(empty_database_url: str, tmp_path: Path) -> None:
    count = 2000
    wish = {"count": count, "seeds": {"from": SEED}, "seats": [{"agent": "random"}], "drive": "manual"}
    with serving_process(empty_database_url, tmp_path) as process:
        batch = _post(process, **wish)
        process.kill()
    laid = []
    for _ in range(2):
        with serving_process(empty_database_url, tmp_path) as process:
            assert fetch(process, f"/batches/{batch}").json()["games"]["created"] == count
            process.kill()
        laid.append(asyncio.run(_laid_out(empty_database_url, batch)))
    assert 200 <= laid[0] < count, "the kill came after the end: it proves nothing"
    assert laid == sorted(laid)
    with serving_process(empty_database_url, tmp_path) as process:
        until = time.monotonic() + WITHIN_S
        while asyncio.run(_laid_out(empty_database_url, batch)) < count:
            assert time.monotonic() < until
            time.sleep(0.05)
        export = read_ndjson(fetch(process, f"/batches/{batch}/export", view="full", partial=True).content)
        assert export[-1]["games"] == count
        seeds = [line["seed"] for line in export if line.get("type") == "roles_dealt"]
        assert seeds == [str(SEED + position) for position in range(count)]
        assert len({line["game"] for line in export[:-1]}) == count
