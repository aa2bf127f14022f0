"""A message is sent at once or not at all, using only ASGI."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocket

from app.play.socket import Connection
from app.serving import server as server_module
from app.stream.pages import Page, Spot
from app.stream.writer import send_at_once
from engine.terms import PUBLIC
from tests.app.calling import until
from tests.app.play.test_socket import new_game, post
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import watching


class Peer:
    """ASGI's send of a server that waits until its peer reads, as uvicorn's does."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.sent: list[str] = []

    async def send(self, text: str) -> None:
        await self.reads.wait()
        self.sent.append(text)


async def test_a_peer_that_reads_is_sent_the_message_at_once() -> None:
    peer = Peer()
    peer.reads.set()
    assert send_at_once(peer.send("a"))
    assert peer.sent == ["a"]


async def test_a_peer_that_does_not_read_is_sent_nothing_then_or_later() -> None:
    peer = Peer()
    assert not send_at_once(peer.send("a"))
    peer.reads.set()
    await asyncio.sleep(0)
    assert send_at_once(peer.send("b"))
    assert peer.sent == ["b"]


async def test_errors_of_send_are_raised() -> None:
    async def gone() -> None:
        raise OSError("the peer has gone")

    with pytest.raises(OSError, match="gone"):
        send_at_once(gone())


@contextlib.asynccontextmanager
async def stock_server(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """The service on uvicorn's own WebSockets, without our limits."""
    monkeypatch.setattr(server_module, "SocketProtocol", "websockets-sansio")
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}")
    async with running_server(settings) as served:
        yield served


def _at_relays(served: Served) -> int:
    """How many watchers have caught up, and wait at a relay."""
    return sum(len(relay.spectators) for relay in served.services.relays._relays.values())


async def test_events_are_relayed_on_uvicorns_own_websockets(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[bool] = []
    push = Connection.push

    def counted(self: Connection, page: Page, now: float) -> bool:
        pushed.append(push(self, page, now))
        return pushed[-1]

    monkeypatch.setattr(Connection, "push", counted)
    async with stock_server(tmp_path, monkeypatch) as served:
        game = await new_game(served, drive="manual")
        async with watching(served.ws_url) as one, watching(served.ws_url) as other:
            head = (await one.identify(game))["head"]
            await other.identify(game)
            for watcher in (one, other):
                await watcher.until_seq(head)
            await until(lambda: _at_relays(served) == 2)
            stepped = await post(served, f"/games/{game}/step", {"until": "action"})
            for watcher in (one, other):
                await watcher.until_seq(head + len(stepped["events"]))
    assert pushed
    assert all(pushed)


async def test_a_peer_that_the_relay_finds_gone_is_closed_without_an_error() -> None:
    gone = False

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        if gone:
            raise OSError("the peer has gone")

    websocket = WebSocket({"type": "websocket"}, receive, send)
    await websocket.accept()
    gone = True
    sockets: Any = SimpleNamespace(
        seats=SimpleNamespace(arrive=lambda: None), keys=SimpleNamespace(is_valid=lambda caller: True)
    )
    connection = Connection(websocket, sockets)
    connection._viewed_by = None  # type: ignore[assignment]
    end = Spot("g", PUBLIC, 1, 1)
    page = Page("{}", 1, end, more=False, over=False)
    assert not connection.push(page, 0.0)
    assert not connection.push(page, 0.0)  # Starlette says so differently the second time.
    await connection._close(1000, "the game is over")
