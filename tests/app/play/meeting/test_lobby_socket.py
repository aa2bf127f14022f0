"""A bot's own socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, select
from websockets import ConnectionClosed

from app.base.clock import now_ms
from app.play.meeting import socket as socket_module
from app.store.tables import holders
from tests.app.cli.test_doctor import doctor
from tests.app.play.meeting.seekers import owner, seek
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import Watcher, watching


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with running_server(local_settings(database_url)) as one:
        yield one


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as one:
        yield one


def lobby(served: Served) -> Any:
    return watching(f"{served.ws_url}/lobby")


async def identified(line: Watcher, bot: str, **more: Any) -> dict[str, Any]:
    await line.connection.send(json.dumps({"t": "identify", "v": 1, "bot": bot, **more}))
    frame: dict[str, Any] = json.loads(await line.connection.recv())
    return frame


async def frame_of(line: Watcher, kind: str) -> dict[str, Any]:
    """The next frame of this kind; others are left out."""
    async with asyncio.timeout(60):
        while True:
            frame: dict[str, Any] = json.loads(await line.connection.recv())
            if frame["t"] == kind:
                return frame


async def test_a_bot_hears_of_its_game_and_of_nobody_elses(served: Served, client: httpx.AsyncClient) -> None:
    async with lobby(served) as owl, lobby(served) as fox:
        assert owl.hello["idle_ms"] == 10_000
        first = await identified(owl, "owl")
        assert first == {"t": "snapshot", "bot": "owl", "seeks": [], "games": []}
        await identified(fox, "fox")
        one = await seek(client, "owl", wait_s=1)
        started = await frame_of(owl, "game_started")
        assert started["seek"] == one["seek_id"]
        # The token is the seat's own.
        async with watching(served.ws_url) as line:
            welcome = await line.identify(started["game"], token=started["token"])
            assert welcome["viewer"] == f"seat:{started['seat']}"
        await fox.connection.send(json.dumps({"t": "ping", "id": "p"}))
        assert json.loads(await fox.connection.recv()) == {"t": "ack", "re": "p"}


async def test_a_snapshot_holds_what_happened_without_a_connection(
    served: Served, client: httpx.AsyncClient
) -> None:
    waits = await seek(client, "owl", players=9)
    for number in range(5):
        await seek(client, "owl" if number == 0 else f"b{number}")
    async with lobby(served) as line:
        snapshot = await identified(line, "owl")
        assert [one["seek"] for one in snapshot["seeks"]] == [waits["seek_id"]]
        [game] = snapshot["games"]
        assert (game["rated"], game["t"]) == (False, "game_started")
        await client.delete(f"/seeks/{waits['seek_id']}")
        closed = await frame_of(line, "seek_closed")
        assert closed == {"t": "seek_closed", "seek": waits["seek_id"], "status": "withdrawn"}
        view = (await client.get(f"/games/{game['game']}")).json()
        await client.post(f"/batches/{view['batch_id']}/cancel")
        async with asyncio.timeout(200):
            status = ""
            while status != "cancelled":
                status = (await client.get(f"/games/{game['game']}")).json()["status"]
    async with lobby(served) as line:
        assert (await identified(line, "owl"))["games"] == []


async def test_a_newer_connection_of_the_same_bot_takes_over(served: Served) -> None:
    async with lobby(served) as first, lobby(served) as second:
        await identified(first, "owl")
        await identified(second, "owl")
        assert await first.until_closed() == 4409
        async with lobby(served) as other:
            await identified(other, "fox")
            await second.connection.send(json.dumps({"t": "ping", "id": "p"}))
            assert (await frame_of(second, "ack"))["re"] == "p"


async def test_nothing_is_stored_of_a_bot_whose_socket_has_ended(served: Served) -> None:
    async def until_held(sockets: int) -> None:
        database = served.services.database
        async with asyncio.timeout(60):
            while len(await database.column(select(holders.c.conn))) != sockets:  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.01)

    async with lobby(served) as first:
        await identified(first, "owl")
        async with lobby(served) as newer:
            await identified(newer, "owl")
            assert await first.until_closed() == 4409
            async with lobby(served) as other:
                await identified(other, "fox")
                await until_held(2)
            await until_held(1)  # the newer one's, which the older one has left alone
            await newer.connection.send(json.dumps({"t": "ping", "id": "p"}))
            assert (await frame_of(newer, "ack"))["re"] == "p"
        await until_held(0)


async def test_the_socket_of_a_bot_is_no_orphan_and_stays_open_when_its_row_is_forgotten(
    served: Served, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_module, "LOBBY_BEAT_S", 0.2)
    database = served.services.database
    await database.writer.execute(insert(holders).values(game_id="g_gone", seat=1, conn="c", at=7))
    async with lobby(served) as line:
        await identified(line, "owl")
        [orphan] = await doctor(database_url, status=1)
        assert (orphan["kind"], orphan["where"]) == ("orphan", "g_gone")
        await doctor(database_url, "--mend")
        assert await doctor(database_url) == []
        [name] = await database.column(select(holders.c.game_id))
        store = served.services.meeting._store
        await store.forget(now_ms() - 60_000)
        assert await database.column(select(holders.c.game_id)) == [name]
        await store.forget(now_ms() + 1)
        assert await database.column(select(holders.c.game_id)) == []
        for _ in range(3):
            await frame_of(line, "beat")  # at each it looks again who holds it
        async with lobby(served) as newer:
            await identified(newer, "owl")
            with pytest.raises(ConnectionClosed) as closed:
                await frame_of(line, "no more frames but beats")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4409
    assert await doctor(database_url) == []


async def test_beats_come_and_keep_a_bot_present(
    served: Served, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_module, "LOBBY_BEAT_S", 0.2)
    async with lobby(served) as line:
        await identified(line, "owl")
        one = await seek(client, "owl", players=9)
        store = served.services.meeting._store
        while (await frame_of(line, "beat"))["seeks"] != 1:
            pass
        first = await store.seek(one["seek_id"])
        assert first is not None
        seen = first.seen_at
        async with asyncio.timeout(60):
            while seen == first.seen_at:
                await frame_of(line, "beat")
                later = await store.seek(one["seek_id"])
                assert later is not None
                seen = later.seen_at
        assert seen > first.seen_at


@pytest.mark.long
async def test_a_process_that_stops_does_not_close_the_socket_that_a_bot_has_at_another(
    postgres_url: str,
) -> None:
    settings = local_settings(postgres_url)
    async with (
        running_server(settings) as stopping,
        running_server(settings) as other,
        lobby(other) as kept,
        lobby(stopping) as late,
    ):
        await identified(kept, "owl")
        stopping.services.lifecycle.drain()
        await late.connection.send(json.dumps({"t": "identify", "v": 1, "bot": "owl"}))
        assert await late.until_closed() == 1012
        assert (await frame_of(kept, "beat"))["games"] == 0  # it has looked again who holds it


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"t": "ping", "id": "p"}, 4400),
        ({"t": "identify", "v": 1, "bot": "a b"}, 4400),
        ({"t": "identify", "v": 1, "game": "g_1"}, 4400),
        ({"t": "identify", "v": 2}, 4426),
        ({"t": "identify", "v": 1, "token": "ik_wrong"}, 4401),
    ],
)
async def test_who_cannot_be_read_or_known_is_closed(
    served: Served, message: dict[str, Any], code: int
) -> None:
    async with lobby(served) as line:
        await line.connection.send(json.dumps(message))
        assert await line.until_closed() == code


async def test_a_key_without_the_scope_is_refused_and_a_stop_says_so(tmp_path: Any) -> None:
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}", api_key="o" * 40)
    async with running_server(settings) as served:
        for scope, code in (("games:read", 4403), ("bots:play", 1012)):
            token = (await owner(served.services, scope))["authorization"].removeprefix("Bearer ")
            async with lobby(served) as line:
                await line.connection.send(json.dumps({"t": "identify", "v": 1, "token": token}))
                if code == 1012:
                    await frame_of(line, "snapshot")
                    served.server.stop()
                assert await line.until_closed() in (code, 1001 if code == 1012 else code)
