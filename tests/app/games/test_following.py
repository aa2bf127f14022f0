"""How a batch is followed, and how logs are read line by line."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from interintent_client import Server

from app.edge.lines import Lines
from app.games import following
from app.games.following import BETWEEN_S, Following
from app.store.trouble import DatabaseAway
from app.stream.feed import Feed
from tests.app.calling import WITHIN_S, calling
from tests.app.real_server import local_settings, running_server
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio

LOOKS = 4


async def test_however_fast_the_games_of_a_batch_end_it_is_looked_at_in_measured_steps() -> None:
    feed, looked = Feed(), list[float]()
    always: Any = SimpleNamespace(is_valid=lambda caller: True, draining=False)
    none: Any = None
    following = Following(none, none, none, none, feed, always, always, blank_s=200.0)

    async def view() -> Any:
        looked.append(time.monotonic())
        feed.hint("b_one")  # the next game has ended meanwhile
        status = "done" if len(looked) == LOOKS else "running"
        return SimpleNamespace(
            status=status, games=len(looked), waiting=None, model_dump_json=lambda: f'"{status}"'
        )

    async with asyncio.timeout(200):
        lines = [line async for line in await following.progress(none, "b_one", view, follow=True)]
    assert lines == [b'"running"\n'] * (LOOKS - 1) + [b'"done"\n']
    # The clock of the loop may be a millisecond behind.
    assert all(after - before >= BETWEEN_S - 0.002 for before, after in itertools.pairwise(looked))


async def test_lines_that_cannot_all_be_read_break_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No reader takes those that came for all that there are."""
    away = iter([True, True])

    async def lines(after: int) -> AsyncIterator[bytes]:
        for seq in range(after + 1, 3):
            yield b'{"seq":%d,"at":"2026-11-27T12:00:00Z","type":"note","game":"g_1"}\n' % seq
            if next(away, False):
                raise DatabaseAway("gone")

    async def answer(after: int = 0) -> Lines:
        return Lines(lines(after))

    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
        served.app.add_api_route("/games/g_1/events", answer, methods=["GET"])
        served.app.router.routes.insert(0, served.app.router.routes.pop())
        async with httpx.AsyncClient(base_url=served.url) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/games/g_1/events")
        async with Server(served.url) as server:
            seqs = [event.seq async for event in server.game("g_1").log()]
    assert seqs == [1, 2]  # it went on where the first two answers broke off
    said = capsys.readouterr()
    assert (said.out + said.err).count("an answer of many lines breaks off") == 2
    assert "Traceback" not in said.out + said.err


async def test_no_log_is_empty_because_its_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with PostgresServer() as own:
        settings = local_settings(own.create_database())
        async with running_server(settings) as served, Server(served.url) as server:
            batch = await server.create_games(seats=[{"agent": "random"}])
            await batch.done()
            [game] = batch.games
            stored = [event.raw async for event in game.log()]
            reader, read = served.services.reader, served.services.reader.lines

            async def then_crash(*which: Any) -> Any:
                lines = await read(*which)
                monkeypatch.setattr(reader, "lines", read)
                await asyncio.to_thread(own.stop, "immediate")
                return lines

            monkeypatch.setattr(reader, "lines", then_crash)
            async with httpx.AsyncClient(base_url=served.url) as client:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get(f"/games/{game.id}/events")
            await asyncio.to_thread(own.start)
            assert [event.raw async for event in game.log()] == stored


async def test_the_end_of_a_batch_is_told_however_long_the_next_look_would_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOKING", 1_000_000)
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, _ = await caller.create(count=200, seats=[{"agent": "random"}])
        async with asyncio.timeout(WITHIN_S):
            lines = await caller.lines(f"/batches/{batch}/events", follow=True)
    assert lines[-1]["status"] == "done"
