"""Connections that arrive while the service stops listening are served or refused, never dropped halfway."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from app.base.listening import stop_listening
from app.instruments.fake_model.http import HttpConnection, HttpRequest, HttpServer, Response

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
TURNS = range(8)
"""Of the loop, between the connection's arrival and the closing."""


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        found = cast(asyncio.Transport, transport)
        found.write(b"hello")
        found.close()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def heard(client: socket.socket) -> bytes | None:
    """What arrived; None: the connection was reset. Empty bytes would be an end without a word."""
    client.settimeout(100)
    with contextlib.suppress(ConnectionResetError):
        return client.recv(100)
    return None


@LOOPS
def test_a_connection_is_served_or_refused(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def closing(after: int) -> bytes | None:
        server = await asyncio.get_running_loop().create_server(Greeting, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            await turns(after)
            await stop_listening(server)
            await turns(2)
            gc.collect()
            return heard(client)

    with asyncio.Runner(loop_factory=loop) as runner:
        found = [runner.run(closing(after)) for after in TURNS]
    assert set(found) <= {None, b"hello"}, found
    assert found[-1] == b"hello"


@LOOPS
def test_a_refusing_fake_model_resets_open_connections_and_accepts_again_later(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def answer(request: HttpRequest, connection: HttpConnection) -> None:
        connection.send(Response(200, b"well"))

    async def refusing(after: int) -> None:
        server = HttpServer(answer)
        port = int((await server.start("127.0.0.1", 0)).rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            await turns(after)
            server.refuse_for(0.3)
            server.refuse_for(0.3)
            await turns(5)
            gc.collect()
            assert heard(client) is None, after
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
        while server.refusing or server._listening is None:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await server.stop()
        writer.transport.abort()
        await turns(3)
        assert not server.connections

    with asyncio.Runner(loop_factory=loop) as runner:
        for after in TURNS:
            runner.run(refusing(after))
