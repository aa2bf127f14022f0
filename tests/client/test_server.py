"""The client against a live service: games, batches, exports, streams, over connections that break."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from interintent_client import ApiError, ExportBroken, NoSuchGame, Server, TokenRefused, Unreachable

from engine.terms import FULL, PUBLIC
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import projection
from tests.client.cutting import cutting
from tests.ports import steady_port


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jitter as it is, with less of it."""
    monkeypatch.setattr("interintent_client.backoff.FIRST_S", 0.02)
    monkeypatch.setattr("interintent_client.backoff.LONGEST_S", 0.2)


async def test_a_game_is_created_watched_and_looked_at(served: Served) -> None:
    async with Server(served.url) as server:
        batch = await server.create_games(drive="manual", seats=[{"agent": "random"}])
        assert (batch.count, len(batch.games)) == (1, 1)
        game = batch.games[0]
        assert (await game.view())["viewer"] == "full"
        assert (await game.view("seat:2"))["hand"]["seat"] == 2
        watching = asyncio.create_task(_all_of(game.events(viewer="seat:2")))
        await game.step("round")
        await game.step("end")
        events = await asyncio.wait_for(watching, 200)
        assert [event.raw for event in events] == await projection(served.services, game.id, 2)
        assert events[-1].type == "game_ended"
        assert events[-1]["winner"] in ("loyal", "evil")
        assert [event.seq for event in await _all_of(game.events(after=5))][:2] == [6, 7]


async def _all_of(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


@pytest.mark.parametrize("seed", range(2))
async def test_a_stream_that_is_cut_at_random_bytes_comes_whole(served: Served, seed: int) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await direct.create_games(seats=[{"agent": "scripted"}])
        await batch.done()
        game = server.game(batch.games[0].id)
        proxy.cut_at_random(12, 20_000, seed)
        events = await asyncio.wait_for(_all_of(game.events()), 60)
        assert [event.raw for event in events] == await projection(served.services, game.id, FULL)
        assert proxy.cuts >= 3


async def test_a_restart_of_the_service_shows_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the patience that a stream has by itself, however long the service takes to come back.
    monkeypatch.setattr("interintent_client.backoff.LONGEST_S", 2.0)
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    settings = local_settings(url, port=steady_port())
    async with running_server(settings) as first:
        async with Server(first.url) as server:
            game = (await server.create_games(drive="manual", seats=[{"agent": "random"}])).games[0]
            await game.step("round")
            stream = game.events(viewer="public")
            begun = [await anext(stream)]
        watching = asyncio.create_task(_all_of(stream))
        await asyncio.sleep(0.2)
    async with running_server(settings) as second:
        async with Server(second.url) as server:
            await server.game(game.id).step("end")
        begun += await asyncio.wait_for(watching, 60)
        assert [event.raw for event in begun] == await projection(second.services, game.id, PUBLIC)


async def test_a_batch_tells_its_progress_and_is_exported_whole(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(url) as server:
        batch = await server.create_games(count=6, seats=[{"agent": "random"}], labels={"of": "test"})
        done = await batch.done()
        assert done["status"] == "done"
        assert done["games"]["finished"] == 6
        assert [one["batch_id"] async for one in batch.all_games()] == [batch.id] * 6
        kept: list[bytes] = []
        whole = await _all_of(batch.export("full", on_line=kept.append))
        assert json.loads(kept[-1])["events"] == len(whole)
        proxy.cut()
        proxy.cut_at_random(5, 60_000, 1)
        cut = await _all_of(batch.export("full"))
        assert cut == whole
        assert proxy.cuts >= 3
        assert len(await _all_of(batch.export())) < len(whole)


async def test_creating_again_after_a_lost_answer_creates_once(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(url) as server:
        # The answer is cut off after its first bytes, when the batch is there.
        proxy.cut_at_random(2, 40, 1)
        batch = await server.create_games(seats=[{"agent": "random"}])
        assert proxy.cuts == 2
        async with Server(served.url) as direct:
            page = await direct._http.get("/games")
        assert [one["batch_id"] for one in page["games"]] == [batch.id]


@contextlib.asynccontextmanager
async def answering(status: str, body: bytes) -> AsyncIterator[str]:
    """The address of something that gives every call this answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(body)) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_an_export_that_lacks_lines_is_found() -> None:
    line = b'{"seq":1,"at":"2026-03-01T12:00:00.000Z","type":"game_created","game":"g_1"}'
    end = b'{"t":"export.end","games":1,"events":2,"sha256":"00"}'
    async with answering("200 OK", line + b"\n" + end + b"\n") as url, Server(url) as server:
        with pytest.raises(ExportBroken, match="last line says events 2, but 1 was read"):
            await _all_of(server.batch("b_1").export())


async def test_problems_are_errors_with_their_code(served: Served) -> None:
    async with Server(served.url) as server:
        with pytest.raises(ApiError) as refused:
            await server.create_games(players=11)
        assert (refused.value.status, refused.value.code) == (422, "invalid-request")
        assert refused.value.errors[0]["pointer"] == "/players"
        with pytest.raises(ApiError, match="404 not-found"):
            await server.game("g_nowhere").view()
        with pytest.raises(NoSuchGame):
            await _all_of(server.game("g_nowhere").events())


async def test_an_address_at_which_something_else_answers_is_named() -> None:
    async with answering("200 OK", b"<html>") as url, Server(url) as server:
        with pytest.raises(Unreachable, match=f"^GET {url}/intentions: the answer is not JSON"):
            await server.intentions()
        with pytest.raises(Unreachable, match=f"^POST {url}/games: the answer is not JSON"):
            await server.create_games()


@pytest.mark.parametrize("errors", [None, 7, {"players": ["too many"]}, ["too many"], [{"field": "players"}]])
async def test_problems_of_another_form_are_errors_too(errors: Any) -> None:
    problem = json.dumps({"code": "odd", "errors": errors}).encode()
    async with answering("422 Odd", problem) as url, Server(url) as server:
        with pytest.raises(ApiError, match="422 odd: Odd") as refused:
            await server.create_games()
    assert refused.value.pointer is None


async def test_a_wrong_key_is_refused_once_and_for_all(tmp_path: Path) -> None:
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'k.sqlite'}", api_key="ik_" + "k" * 43)
    async with running_server(settings) as served, Server(served.url, "ik_" + "w" * 43) as server:
        with pytest.raises(ApiError, match="401 unauthenticated"):
            await server.create_games()
        with pytest.raises(TokenRefused):
            await _all_of(server.game("g_1").events())


async def test_nobody_there_is_said_after_the_tries() -> None:
    async with Server("http://127.0.0.1:1", tries=3) as server:
        with pytest.raises(Unreachable, match="GET /intentions"):
            await server.intentions()
        with pytest.raises(
            Unreachable, match=r"^ws://127\.0\.0\.1:1/ws: gave up after 3 failures in a row"
        ) as gone:
            await _all_of(server.game("g_1").events(patience=3))
        assert "patience=None" in str(gone.value)


async def test_the_live_layer_comes_between_the_events(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(drive="manual", seats=[{"agent": "random"}])).games[0]
        watching = asyncio.create_task(_all_of(game.live(viewer="public")))
        await game.step("end")
        found = await asyncio.wait_for(watching, 60)
        frames = [one for one in found if isinstance(one, dict)]
        assert [one.raw for one in found if not isinstance(one, dict)] == await projection(
            served.services, game.id, PUBLIC
        )
        assert {frame["t"] for frame in frames} <= {"turn", "watchers"}
        assert frames[-1] in ({"t": "turn", "kind": None, "seats": []}, {"t": "watchers", "n": 1})


async def test_seats_are_found_in_one_game_and_a_cancelled_wait_leaves_no_seek(served: Served) -> None:
    async with Server(served.url) as server:
        waiting = asyncio.create_task(server.find_seat("cat", players=9))
        while not (lobby := await server.lobby())["pools"]:
            pass
        assert [pool["waiting"] for pool in lobby["pools"]] == [1]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await server.lobby())["seeks"] == []
        assert await server.find_seat("owl", wait_s=1, at_least=2) is None
        found = await asyncio.gather(
            *(server.find_seat(f"bot{number}", profile="official") for number in range(5))
        )
        seats = [seat for seat in found if seat is not None]
        assert len(seats) == 5
        await asyncio.gather(*(seat.play(lambda request, events: request.default) for seat in seats))
        assert len({seat.events[0].game for seat in seats}) == 1
        assert {seat.events[-1].type for seat in seats} == {"game_ended"}
