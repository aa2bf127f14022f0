"""A claim has one holder at a time and ends with the process or session that holds it."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.runner.claims import Claims, FileClaims, SessionClaims, _key, claims_of
from tests.app.calling import until
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio


async def test_on_sqlite_one_process_holds_every_claim_until_it_stops(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    one, other = claims_of(url), claims_of(url)
    assert isinstance(one, FileClaims)
    await one.start()
    await other.start()
    assert await one.take(["b_1", "b_2"]) == ["b_1", "b_2"]
    assert await other.take(["b_3"]) == []
    await one.give_back("b_1")
    assert await other.take(["b_1"]) == []
    await one.stop()
    assert await other.take(["b_1", "b_3"]) == ["b_1", "b_3"]
    await other.stop()


async def test_a_database_in_memory_needs_no_lock() -> None:
    one, other = claims_of("sqlite+aiosqlite://"), claims_of("sqlite+aiosqlite:///:memory:")
    assert await one.take(["b_1"]) == await other.take(["b_1"]) == ["b_1"]


async def test_on_postgresql_claims_are_distinguished_and_given_back(postgres: PostgresServer) -> None:
    with fresh_database(postgres) as url:
        one, other = claims_of(url), claims_of(url)
        assert isinstance(one, SessionClaims)
        await asyncio.gather(one.start(), other.start())
        assert await one.take(["b_1", "b_2", "b_3"]) == ["b_1", "b_2", "b_3"]
        assert await other.take(["b_0", "b_2", "b_4"]) == ["b_0", "b_4"]
        assert await other.take([]) == []
        await one.give_back("b_2")
        await one.give_back("b_never")
        assert await other.take(["b_2", "b_1"]) == ["b_2"]
        await one.stop()
        assert await other.take(["b_1", "b_3"]) == ["b_1", "b_3"]
        await other.stop()


async def test_each_name_is_claimed_by_exactly_one_of_many(postgres: PostgresServer) -> None:
    names = [f"b_{number}" for number in range(200)]
    with fresh_database(postgres) as url:
        everybody: list[Claims] = [SessionClaims(url) for _ in range(6)]
        await asyncio.gather(*(one.start() for one in everybody))
        taken = await asyncio.gather(*(one.take(names) for one in everybody))
        assert sorted(name for part in taken for name in part) == sorted(names)
        await asyncio.gather(*(one.stop() for one in everybody))


async def test_a_broken_session_gets_its_claims_back_or_says_which_are_lost(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runner.claims.BEAT_S", 0.2)
    with fresh_database(postgres) as url:
        one, other = SessionClaims(url), SessionClaims(url)
        lost: list[str] = []
        one.on_lost.append(lost.append)
        await one.start()
        await one.take(["b_1", "b_2"])
        await other.start()
        # What somebody else gets before the session is made anew is lost.
        async with one._turn:
            await _cut(url, "b_1")
            assert await other.take(["b_2"]) == ["b_2"]
        await until(lambda: bool(lost))
        assert lost == ["b_2"]
        assert await other.take(["b_1"]) == []
        # And one whom nobody meets loses nothing.
        broken = one._connection
        await _cut(url, "b_1")
        await until(lambda: one._connection not in (None, broken))
        async with one._turn:
            pass  # and has its claims back
        assert await other.take(["b_1"]) == []
        assert lost == ["b_2"]
        await one.stop()
        await other.stop()


async def test_while_the_database_is_away_nothing_is_taken(tmp_path: Path) -> None:
    with PostgresServer() as own:
        url = own.create_database()
        one = SessionClaims(url)
        await one.start()
        assert await one.take(["b_1"]) == ["b_1"]
        own.stop("immediate")
        assert await one.take(["b_2"]) == []
        own.start()
        await until(lambda: one._connection is not None)
        assert await one.take(["b_2"]) == ["b_2"]
        other = SessionClaims(url)
        await other.start()
        assert await other.take(["b_1", "b_2"]) == []
        await one.stop()
        await other.stop()


async def _cut(url: str, name: str) -> None:
    """Ends the session that holds this claim, as a server's restart or a cut line does."""
    key = _key(name)
    engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        found = await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks "
                "WHERE locktype = 'advisory' AND objid::bigint = :low AND classid::bigint = :high"
            ),
            {"low": key & 0xFFFFFFFF, "high": (key >> 32) & 0xFFFFFFFF},
        )
        assert found.scalars().all() == [True]
    await engine.dispose()
