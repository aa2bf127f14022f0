"""The server of the application, and its listening sockets."""

import asyncio
import errno
import gc
import math
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from uvicorn.loops.auto import auto_loop_factory

from agents.model.hosts import is_loopback
from app.base.listening import stop_listening
from app.protocol.messages import MAX_MESSAGE
from app.serving.http_limits import HttpProtocol
from app.serving.socket_limits import SocketProtocol
from app.settings import MIN_SECRET, Settings
from app.store.db import Database, sqlite_exists
from app.store.keys import KeyStore
from app.store.trouble import trouble_of

__all__ = [
    "PING_S",
    "CannotServe",
    "Server",
    "check_exposure",
    "listen",
    "new_loop",
    "run",
    "serve",
    "tune_interpreter",
]

log = structlog.get_logger()

PING_S: Final = 20.0
"""Seconds between two pings of a WebSocket, and also until a WebSocket that sends no pong is dropped."""

UNREAD_S: Final = 15.0
"""After this many seconds, the kernel drops a connection whose peer acknowledges nothing, and all its unsent
data. Without this limit, uvicorn still held such sockets after 100 s."""

KEEP_ALIVE_S: Final = 75
"""Seconds that an HTTP connection may be idle: longer than the usual 60 s of load balancers, which would
otherwise send a request just as the connection is closed here."""

SWITCH_S: Final = 0.00005
"""Seconds that the event loop may keep the interpreter from a thread that wants it. The thread that commits
to SQLite wants it a few times in each commit: with 1 ms, a commit beside a busy loop takes about twice as
long, with Python's own 5 ms about 4 ms longer.
"""

GARBAGE: Final = 10_000
"""New objects after which garbage is collected. With Python's own 700, that takes a tenth of the CPU."""


class CannotServe(Exception):
    """The service refuses to start, or cannot start; the message says why, and what to do."""


async def check_exposure(settings: Settings) -> None:
    """Raises CannotServe if other machines could call without a credential. Warns of an operator's key that
    they might guess.
    """
    if is_loopback(settings.host):
        return
    if settings.api_key is not None:
        if len(settings.api_key.get_secret_value()) < MIN_SECRET:
            log.warning(
                f"INTERINTENT_API_KEY has fewer than {MIN_SECRET} characters, and whoever guesses it may do "
                "everything: make a longer one, ik_$(openssl rand -hex 32)",
                host=settings.host,
            )
        return
    if not await _has_keys(settings):
        raise CannotServe(
            f"{settings.host} can be reached from other machines, and no API key is configured: "
            "anybody could read every game. Make one (interintent keys create), set INTERINTENT_API_KEY, or "
            "listen on 127.0.0.1."
        )


async def _has_keys(settings: Settings) -> bool:
    # SQLite would create a missing file.
    if settings.database_url.startswith("sqlite") and not sqlite_exists(settings.database_url):
        return False
    database = Database(settings)
    try:
        await database.answers()
        return await KeyStore(database).has_keys()
    except (OSError, SQLAlchemyError) as fault:
        if trouble_of(fault) is not None:
            # The service waits for its database; on this address it asks for a credential in any case.
            return True
        raise CannotServe(f"the keys in the database cannot be read: {type(fault).__name__}") from None
    finally:
        await database.stop()


def listen(host: str, port: int) -> list[socket.socket]:
    """Bound sockets, one for each of the host's addresses, all on the same port; port 0 takes a free one.

    Raises CannotServe if an address cannot be bound, unless it is a later one that this machine lacks:
    without IPv6, localhost is still served.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as fault:
        raise CannotServe(f"{host!r} is not an address to listen on: {fault}") from None
    # IPv4 first, since every machine has it.
    addresses: list[tuple[int, Any]] = sorted(
        {(family, address) for family, _, _, _, address in infos}, key=lambda pair: pair[0]
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            if sockets:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            try:
                sockets.append(_bound(family, address))
            except OSError as fault:
                if sockets and fault.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                raise CannotServe(
                    f"cannot listen on {address[0]} port {address[1]}: {fault.strerror}"
                ) from None
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _bound(family: int, address: Any) -> socket.socket:
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
        sock.bind(address)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Server(uvicorn.Server):
    """uvicorn with our settings. ``on_bound`` is called with the URL once requests are answered there."""

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
                # Wrong codes and unidentified sockets are counted by address; without the setting, a proxy's.
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=list(settings.proxies),
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(settings.drain_s),
                http=HttpProtocol,
                ws=SocketProtocol,
                ws_max_size=MAX_MESSAGE,
                ws_ping_interval=PING_S,
                ws_ping_timeout=PING_S,
                # Compression would put a seat's secrets and its opponents' texts into one window.
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
        for server in self.servers:
            await stop_listening(server)
        # Ends open streams, which the wait for open requests would otherwise wait for.
        lifecycle = self._app.state.lifecycle
        lifecycle.drain()
        await super().shutdown(sockets)
        if lifecycle.fault is not None:
            raise lifecycle.fault

    def stop(self) -> None:
        """Makes ``serve`` return: WebSockets are closed with 1012, and open requests may finish."""
        self.should_exit = True


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, from uvloop if it is installed."""
    return auto_loop_factory()()


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if sock.family == socket.AF_INET6 else f"http://{host}:{port}"


async def serve(app: FastAPI, settings: Settings, on_bound: Callable[[str], None] = lambda url: None) -> None:
    """Serves until SIGTERM or SIGINT. Raises CannotServe, and what kept the service from starting when it had
    waited for its database.
    """
    await check_exposure(settings)
    sockets = listen(settings.host, settings.port)
    try:
        await Server(app, settings, on_bound).serve(sockets)
    finally:
        for sock in sockets:
            sock.close()


def tune_interpreter() -> None:
    """Sets the interpreter up for a process that drives many games; called when everything is loaded."""
    # Everything that is loaded now lives as long as the process. If each full garbage collection looked at
    # it, all games would stop for a quarter of a second.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    sys.setswitchinterval(SWITCH_S)


def run(app: FastAPI, settings: Settings, on_bound: Callable[[str], None] = lambda url: None) -> None:
    """Runs ``serve`` in a new loop. Raises CannotServe."""
    tune_interpreter()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(app, settings, on_bound))
