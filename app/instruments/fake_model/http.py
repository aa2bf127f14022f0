"""A small HTTP/1.1 server over bare sockets. It can misbehave, since it writes every byte itself."""

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from app.base.listening import stop_listening
from app.base.tasks import end_tasks

__all__ = ["HttpConnection", "HttpRequest", "HttpServer", "Response", "encode"]

MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 16 * 1024 * 1024

_ATTEMPTS: Final = 100

_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
                   411: "Length Required", 413: "Content Too Large", 429: "Too Many Requests",
                   500: "Internal Server Error"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """One response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def encode(response: Response, *, length: bool = True) -> tuple[bytes, bytes]:
    """Head and body as bytes. Without ``length``, the end of the connection ends the body."""
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Error')}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}" if length else "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), response.body


Handler = Callable[[HttpRequest, "HttpConnection"], Awaitable[None]]


class _UnreadableRequest(Exception):
    """An invalid request; the status says why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class HttpConnection(asyncio.Protocol):
    """One client's connection. Its handler is cancelled when the client disconnects."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._reader = asyncio.StreamReader(MAX_HEAD)
        self._transport: asyncio.Transport | None = None
        self._serving: asyncio.Task[None] | None = None
        self.stale = False
        """Whether the next request is answered by closing the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._reader.set_transport(transport)
        self._server.connections.add(self)
        if self._server.refusing:
            self.reset()  # accepted in the same iteration of the loop in which listening stopped
            return
        self._serving = asyncio.create_task(self._serve(), name="fake-model-connection")

    def data_received(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._serving is not None:
            self._serving.cancel()

    def write(self, data: bytes) -> None:
        """Sends the data, unless the client has disconnected."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def send(self, response: Response) -> None:
        """Sends a whole response; the connection stays open."""
        self.write(b"".join(encode(response)))

    def close(self) -> None:
        """Closes the connection after all data has been sent."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Resets the connection immediately, which is an error for the client."""
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    async def finished(self) -> None:
        """Waits until the handler has ended."""
        if self._serving is not None and self._serving is not asyncio.current_task():
            await asyncio.wait({self._serving})

    async def _serve(self) -> None:
        try:
            while True:
                request = await self._read()
                if self.stale:
                    self.close()
                    return
                await self._server.handler(request, self)
        except _UnreadableRequest as fault:
            self.send(Response(fault.status, b"", headers=(("Connection", "close"),)))
            self.close()

    async def _read(self) -> HttpRequest:
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _UnreadableRequest(413) from None
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3:
            raise _UnreadableRequest(400)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if "transfer-encoding" in headers:
            raise _UnreadableRequest(411)
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError:
            raise _UnreadableRequest(400) from None
        if not 0 <= length <= MAX_BODY:
            raise _UnreadableRequest(413)
        if headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._reader.readexactly(length)
        url = urlsplit(parts[1])
        return HttpRequest(parts[0], url.path, dict(parse_qsl(url.query)), headers, body)


class HttpServer:
    """Listens, and passes all requests to one handler; those of one connection come one after another."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: set[HttpConnection] = set()
        self.refusing = False
        """Whether new connections are refused."""
        self._listening: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._address = ("", 0)

    async def start(self, host: str, port: int) -> str:
        """Begins to listen; port 0 takes a free one. Returns the address. Raises OSError."""
        self.refusing = False
        self._listening = await self._listen(host=host, port=port)
        bound = self._listening.sockets[0].getsockname()
        self._address = (host, bound[1])
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound[1]}"

    async def _listen(self, **address: Any) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: HttpConnection(self), **address, backlog=1024)

    def refuse_for(self, seconds: float) -> None:
        """Resets all connections, and refuses new ones for this many seconds."""
        if not self.refusing:
            self.refusing = True
            self._opening = asyncio.create_task(self._refuse(seconds), name="fake-model-refusing")

    async def _refuse(self, seconds: float) -> None:
        await self._close()
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(await _bound(self._address))
            await asyncio.sleep(seconds)
            self.refusing = False
            self._listening = await self._listen(sock=sock)
            stack.pop_all()

    async def _close(self) -> None:
        self.refusing = True
        if self._listening is not None:
            await stop_listening(self._listening)
            self._listening = None
        for connection in list(self.connections):
            connection.reset()

    async def stop(self) -> None:
        """Stops listening and ends every connection."""
        await end_tasks(self._opening)
        connections = list(self.connections)
        await self._close()
        for connection in connections:
            await connection.finished()


async def _bound(address: tuple[str, int]) -> socket.socket:
    """A socket that reserves the address; nobody can connect to it before it listens."""
    sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for attempt in itertools.count(1):
        try:
            sock.bind(address)
            break
        except OSError:
            # The event loop may close the former socket a little later than it reports.
            if attempt == _ATTEMPTS:
                sock.close()
                raise
            await asyncio.sleep(0.001)
    return sock
