"""Seeks are paired once, each with a game, however often the processes are killed."""

import random
from pathlib import Path

import pytest

from tests.app.play.meeting.pairing import paired
from tests.postgres import PostgresServer, fresh_database

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


async def test_two_processes_that_are_killed_lose_no_seek(tmp_path: Path, postgres: PostgresServer) -> None:
    seed = random.randrange(1 << 30)
    with fresh_database(postgres) as url:
        found = await paired(url, tmp_path, processes=2, count=100, kills=4, seed=seed)
    assert not found.violated, (seed, found)
    assert found.seeks == 100
    assert found.kills >= 1  # a fast machine is done before the last one


async def test_a_process_on_sqlite_that_is_killed_loses_no_seek(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    found = await paired(url, tmp_path, processes=1, count=60, kills=2, seed=seed)
    assert not found.violated, (seed, found)
    assert found.seeks == 60
    assert found.kills >= 1
