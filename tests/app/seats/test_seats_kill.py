"""A service that is killed again and again loses no acknowledged answer."""

import random
from pathlib import Path

import pytest

from tests.app.real_server import local_settings, running_server
from tests.app.seat_faults import cuts, kills
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.long


async def test_acknowledged_answers_survive_kills_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    found = await kills(url, tmp_path, games=8, kills=10, seed=random.randrange(1 << 30))
    assert not found.violated, found


@pytest.mark.timeout(3600)  # fifty times, the service has to come up again
async def test_acknowledged_answers_survive_kills_on_postgresql(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with fresh_database(postgres) as url:
        found = await kills(url, tmp_path, games=40, kills=50, seed=random.randrange(1 << 30))
    assert not found.violated, found


async def test_streams_of_seats_that_are_cut_are_whole(tmp_path: Path) -> None:
    async with running_server(local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}")) as served:
        found = await cuts(served, clients=5, cuts=3, seed=random.randrange(1 << 30))
    assert not found.violated, found
