"""Serves the application: the listening sockets, and the server on them."""

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request, Response
from websockets.typing import StatusLike

from app.headers import HEADERS
from app.listening import stop_listening
from app.play.messages import MAX_MESSAGE
from app.play.wire import PUSH
from app.settings import Settings, is_loopback
from app.store.db import Database, sqlite_exists
from app.store.keys import KeyStore

__all__ = ["PING_S", "CannotServe", "Server", "check_exposure", "listen", "new_loop", "run", "serve"]

PING_S: Final = 20.0
"""A socket is pinged so often, and dropped when it has not answered for as long."""

UNREAD_S: Final = 15.0
"""A connection whose peer has taken nothing for so long is dropped by the kernel, with all that
waited to be sent. uvicorn alone still held such sockets at 100 s (RELIABILITY 6)."""

KEEP_ALIVE_S: Final = 75
"""An HTTP connection may rest so long: longer than the 60 s of usual balancers, which would otherwise
send a request just when it is closed here."""

HEAD_S: Final = 60.0
"""The head of a request has to be whole after so long."""

UNREAD_BODY: Final = 16 << 20
UNREAD_BODY_S: Final = 5.0
"""What is passed over of a body that was answered before it had come, and for how long: who is refused can
read why before the connection is closed."""

MAX_CHUNKS: Final = 8_192
"""Chunks of a body: each costs as much to read as a kilobyte."""

AFTER_CLOSE: Final = 1 << 18
"""Bytes that may still come from a peer after our close."""

_BACKLOG: Final = 2048


class CannotServe(Exception):
    """The service refuses to start, or cannot; the message says why and what to do."""


async def check_exposure(settings: Settings) -> None:
    """Raises CannotServe when others than this machine could call without a credential."""
    if settings.api_key is None and not is_loopback(settings.host) and not await _has_keys(settings):
        raise CannotServe(
            f"{settings.host} can be reached from other machines, and no API key is configured: "
            "anybody could read every game. Make one (interintent keys create), set INTERINTENT_API_KEY, or "
            "listen on 127.0.0.1."
        )


async def _has_keys(settings: Settings) -> bool:
    # SQLite would make a file that is not there.
    if settings.database_url.startswith("sqlite") and not sqlite_exists(settings.database_url):
        return False
    database = Database(settings)
    try:
        return await KeyStore(database).has_keys()
    except (OSError, SQLAlchemyError) as fault:
        raise CannotServe(f"the database cannot be asked for keys: {type(fault).__name__}") from None
    finally:
        await database.stop()


def listen(host: str, port: int) -> list[socket.socket]:
    """Bound sockets, one for each of the host's addresses, all on one port; port 0 takes a free one.

    Raises CannotServe when the first address cannot be had. A machine without IPv6 still serves localhost.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as fault:
        raise CannotServe(f"{host!r} is no address to listen on: {fault}") from None
    # IPv4 first: that is the one every machine has.
    addresses: list[tuple[int, Any]] = sorted(
        {(family, where) for family, _, _, _, where in found}, key=lambda one: one[0]
    )
    bound: list[socket.socket] = []
    try:
        for family, where in addresses:
            if bound:
                where = (where[0], bound[0].getsockname()[1], *where[2:])
            try:
                bound.append(_bound(family, where))
            except OSError as fault:
                if bound and fault.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                raise CannotServe(f"cannot listen on {where[0]} port {where[1]}: {fault.strerror}") from None
    except BaseException:
        for one in bound:
            one.close()
        raise
    return bound


def _bound(family: int, where: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Not on Windows, where it lets two servers share a port.
        if hasattr(socket, "TCP_USER_TIMEOUT") or not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted connections inherit it.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
        sock.bind(where)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Parser(h11.Connection):
    """h11's parser, which refuses bodies of two lengths, and bodies in crumbs: each chunk costs as much as a
    kilobyte in one piece.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._chunks = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                # A proxy before us may have gone by the other.
                raise h11.RemoteProtocolError("a body has one length")
        elif isinstance(event, h11.Data) and event.chunk_end:
            self._chunks += 1
            if self._chunks > MAX_CHUNKS:
                raise h11.RemoteProtocolError(f"a body comes in at most {MAX_CHUNKS} chunks")
        return event


class HttpProtocol(H11Protocol):
    """uvicorn's HTTP, which waits a while only for the head of a request, and for the rest of a body that was
    answered without it.

    uvicorn alone reads on for as long as somebody sends, and waits for ever for somebody who does not. It is
    h11's, also where httptools is installed: that one passes over the host of ``GET http://host/path``.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = Parser()
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: RequestResponseCycle | None = None
        """Whose answer is out, while the body still comes."""
        self._passed_over = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._close_in(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unread is not None:
            self._passed_over += len(data)
            if self._passed_over > UNREAD_BODY:
                self.transport.close()
                return
        super().data_received(data)
        state = self.conn.their_state
        if self._unread is not None and (self._unread is not self.cycle or state is not h11.SEND_BODY):
            self._unread = None
            self._go_on()
        if state is h11.IDLE:
            if self._deadline is None:
                self._close_in(HEAD_S)
        elif self._unread is None:
            self._go_on()

    def _should_upgrade(self) -> bool:
        # A request that is no handshake is answered like any other; the socket's protocol would say nothing.
        brings = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        return self.scope["method"] == "GET" and not brings and super()._should_upgrade()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self._unread = self.cycle
            self._passed_over = 0
            self._go_on()
            self._close_in(UNREAD_BODY_S)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close", **HEADERS}
            start = h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request")
            for event in (start, h11.Data(data=msg.encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
        else:
            # What is no HTTP came after the answer.
            self.transport.close()

    def _close_in(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _go_on(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's socket, which writes frames that are made already, stops reading from a peer that does not
    read, and drops one that talks on after it was shown the door.

    Pongs are sent without asking the application: without this, a peer that sends pings and reads
    nothing piles up 13 MB a second here (measured).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._said_after_close = 0
        self._reject = self.conn.reject
        self.conn.reject = self._rejection  # type: ignore[method-assign]

    def _rejection(self, status: StatusLike, text: str) -> Response:
        """What is answered to a handshake that never reaches the application."""
        response = self._reject(status, text)
        response.headers.update(HEADERS)
        return response

    def data_received(self, data: bytes) -> None:
        if self.close_sent:
            # It may have said a little before our close reached it. Who goes on is flooding: what it says
            # would be taken apart, frame by frame, until the close has timed out.
            self._said_after_close += len(data)
            if self._said_after_close > AFTER_CLOSE:
                self.transport.abort()
                return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # A head that could not be read; uvicorn would keep the answer, and the connection.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        try:
            await super().send(message)
        except RuntimeError:
            if not self.close_sent:
                raise
            # It was closed here, for a frame that is none, and the application has not heard of it yet.
            raise ClientDisconnected from None
        if self.initial_response is not None and self.close_sent:
            # A refusal ends the handshake; uvicorn would log it as one that the application forgot.
            self.handshake_complete = True

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            # The application's task was made there, and begins in the loop's next turn.
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[PUSH] = self.push

    def push(self, frame: bytes) -> bool:
        """Writes a frame as it stands, if the peer takes it without waiting; False: nothing was written."""
        if (
            not self.handshake_complete
            or self.close_sent
            or not self.writable.is_set()
            or self.transport.is_closing()
        ):
            return False
        self.transport.write(frame)
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await super().receive()  # reads on, whatever waits to be written
        if not self.writable.is_set():
            self._stop_reading()
        return message

    def _stop_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()


class Server(uvicorn.Server):
    """uvicorn as we set it up. ``on_bound`` is told the address once requests are answered there."""

    def __init__(
        self, app: FastAPI, settings: Settings, on_bound: Callable[[str], None] = lambda url: None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                backlog=_BACKLOG,
                # A proxy's word for who calls is not taken: nothing here decides by address.
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(settings.drain_s),
                http=HttpProtocol,
                ws=SocketProtocol,
                ws_max_size=MAX_MESSAGE,
                ws_ping_interval=PING_S,
                ws_ping_timeout=PING_S,
                # It would put a seat's secrets and opponents' text in one compression window.
                ws_per_message_deflate=False,
            )
        )
        self._app = app
        self._on_bound = on_bound

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            self._on_bound(_url(sockets[0]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in self.servers:
            await stop_listening(listening)
        # Before the wait for open requests: those who follow a stream would hold it up to its end.
        self._app.state.services.drain()
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Lets ``serve`` return: sockets are closed with 1012, open requests get their time."""
        self.should_exit = True


def new_loop() -> asyncio.AbstractEventLoop:
    """The loop to serve on: uvloop's where there is one."""
    return auto_loop_factory()()


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if sock.family == socket.AF_INET6 else f"http://{host}:{port}"


async def serve(app: FastAPI, settings: Settings, on_bound: Callable[[str], None] = lambda url: None) -> None:
    """Serves until it is told to stop by SIGTERM or SIGINT. Raises CannotServe."""
    await check_exposure(settings)
    sockets = listen(settings.host, settings.port)
    try:
        await Server(app, settings, on_bound).serve(sockets)
    finally:
        for one in sockets:
            one.close()


def run(app: FastAPI, settings: Settings, on_bound: Callable[[str], None] = lambda url: None) -> None:
    """``serve`` in a loop of its own. Raises CannotServe."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(app, settings, on_bound))
