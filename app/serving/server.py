"""Serves the application: the listening sockets, and the server on them."""

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from uvicorn.loops.auto import auto_loop_factory

from app.base.listening import stop_listening
from app.protocol.messages import MAX_MESSAGE
from app.serving.http_limits import HttpProtocol
from app.serving.socket_limits import SocketProtocol
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
        self._app.state.lifecycle.drain()
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
