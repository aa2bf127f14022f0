"""A claim has one holder at a time and ends with its process, or when nobody beats for it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from app.runner.claims import FileClaims, JobClaims
from app.store.db import Database
from app.store.jobs import JobStore
from tests.app.real_server import local_settings
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio


async def test_on_sqlite_one_process_holds_every_claim_until_it_stops(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    one, other = FileClaims.of(url), FileClaims.of(url)
    await one.start()
    await other.start()
    assert await one.take(["b_1", "b_2"]) == ["b_1", "b_2"]
    assert await other.take(["b_3"]) == []
    await one.give_back("b_1")
    assert await other.take(["b_1"]) == []
    await one.stop()
    assert await other.take(["b_1", "b_3"]) == ["b_1", "b_3"]
    await other.stop()


@pytest.mark.parametrize("url", ["sqlite:///{}/link.sqlite", "sqlite:///file:{}/games.sqlite?uri=true"])
async def test_on_sqlite_a_file_has_one_claim_whatever_it_is_called(tmp_path: Path, url: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "there" / "games.sqlite")
    (tmp_path / "games.sqlite").symlink_to("link.sqlite")
    one = FileClaims.of(f"sqlite:///{tmp_path / 'there' / 'games.sqlite'}")
    other = FileClaims.of(url.format(tmp_path))
    await one.start()
    await other.start()
    assert await one.take(["b_1"]) == ["b_1"]
    assert await other.take(["b_2"]) == []
    assert [file.name for file in (tmp_path / "there").iterdir()] == ["games.sqlite.driver"]
    await one.stop()
    await other.stop()


@pytest.fixture
async def jobs(postgres: PostgresServer, laid_out_postgres: str) -> AsyncIterator[JobStore]:
    with fresh_database(postgres, laid_out_postgres) as url:
        database = Database(local_settings(url))
        await database.start()
        yield JobStore(database)
        await database.stop()


async def test_on_postgresql_claims_are_distinguished_and_given_back(jobs: JobStore) -> None:
    one, other = (JobClaims(jobs, uuid4(), 1000.0) for _ in range(2))
    assert sorted(await one.take(["e_1", "e_2", "e_3"])) == ["e_1", "e_2", "e_3"]
    assert sorted(await other.take(["e_0", "e_2", "e_4"])) == ["e_0", "e_4"]
    assert await other.take([]) == []
    await one.give_back("e_2")
    await one.give_back("e_never")
    assert await other.take(["e_2", "e_1"]) == ["e_2"]
    await one.stop()
    assert sorted(await other.take(["e_1", "e_3"])) == ["e_1", "e_3"]


async def test_each_name_is_claimed_by_exactly_one_of_many(jobs: JobStore) -> None:
    names = [f"e_{number}" for number in range(50)]
    everybody = [JobClaims(jobs, uuid4(), 1000.0) for _ in range(6)]
    taken = await asyncio.gather(*(one.take(names) for one in everybody))
    assert sorted(name for part in taken for name in part) == sorted(names)


async def test_a_claim_of_which_its_process_never_heard_is_its_own_at_the_next_try(jobs: JobStore) -> None:
    own = uuid4()
    [row] = (await jobs.claim(["e_1"], own, 1000.0)).values()  # its answer is lost
    claims, other = JobClaims(jobs, own, 1000.0), JobClaims(jobs, uuid4(), 1000.0)
    assert await other.take(["e_1"]) == []
    assert await claims.take(["e_1"]) == ["e_1"]
    assert claims.held == [row]


async def test_a_claim_without_beats_is_taken_over_and_its_holder_learns_of_it(jobs: JobStore) -> None:
    silent, other = JobClaims(jobs, uuid4(), 0.0), JobClaims(jobs, uuid4(), 0.0)
    lost: list[str] = []
    silent.on_lost.append(lost.append)
    assert sorted(await silent.take(["e_1", "e_2"])) == ["e_1", "e_2"]
    assert await other.take(["e_2"]) == ["e_2"]
    await silent.look()
    assert lost == ["e_2"]
    assert len(silent.held) == len(other.held) == 1
    # What it gives back belatedly stays with its new holder.
    await silent.stop()
    await other.look()
    assert len(other.held) == 1
