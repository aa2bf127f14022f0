"""Runs the check: serves the mock game, starts the bot once for each ending, and watches the time."""

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from app.base.tasks import end_tasks
from app.instruments.bot_check.calls import serve_call
from app.instruments.bot_check.findings import STOPPING, Findings
from app.instruments.bot_check.proxy import Proxy
from app.instruments.bot_check.session import Patience, Session
from app.instruments.bot_check.sockets import serve_socket
from app.serving.socket_limits import SocketProtocol

__all__ = ["check_bot"]

STARTS: Final = 12
"""The most starts of the bot within one session."""

BY_HAND_S: Final = 600.0
"""Seconds to wait for a bot that a person starts by hand, each time."""

KEPT_ERRORS: Final = 4_000
"""Bytes of the bot's standard error that are kept."""

SHOWN_ERRORS: Final = 10
"""Lines of it that are shown: what went wrong seldom stands in the last one."""

Notify = Callable[[str], object]
"""Takes a line for the person who runs the check."""


@dataclass(frozen=True, slots=True)
class Address:
    """What a bot needs to connect: the values of ``{url}``, ``{ws}``, ``{game}`` and ``{token}``."""

    url: str
    game: str
    token: str

    @property
    def ws(self) -> str:
        return self.url.replace("http://", "ws://") + "/ws"

    def fill(self, words: Sequence[str]) -> list[str]:
        """The words of a command with these values filled in."""
        values = {"{url}": self.url, "{ws}": self.ws, "{game}": self.game, "{token}": self.token}
        filled = list(words)
        for name, value in values.items():
            filled = [word.replace(name, value) for word in filled]
        return filled


class _Bot:
    """The bot's process. Without a command, a person starts the bot."""

    def __init__(self, command: Sequence[str], notify: Notify) -> None:
        self._command = command
        self._notify = notify
        self._process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()
        self._reader: asyncio.Task[None] | None = None

    @property
    def ours(self) -> bool:
        return bool(self._command)

    async def start(self, address: Address, *, again: bool = False) -> None:
        """Starts the bot, or asks the person to start it. Raises OSError if the command cannot be run."""
        if not self._command:
            call = "start your bot again" if again else "start your bot"
            self._notify(
                f"{call}: {address.ws} (or {address.url}), game {address.game}, token {address.token}\n"
                f"  (waiting for {BY_HAND_S:g} s; Ctrl-C ends)"
            )
            return
        self._errors.clear()
        self._process = await asyncio.create_subprocess_exec(
            *address.fill(self._command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = asyncio.create_task(self._read_errors(self._process), name="errors of the bot")

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(4096):
            self._errors += data
            del self._errors[:-KEPT_ERRORS]

    @property
    def status(self) -> int | None:
        """The process's exit status; None if it has not ended, or if there is no process."""
        return None if self._process is None else self._process.returncode

    @property
    def ending(self) -> str:
        """The exit status of the ended process, with the last lines of its standard error."""
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()[-SHOWN_ERRORS:]
        said = f"the bot ended with status {self.status}"
        if len(lines) > 1:
            said += "; its last lines"
        return "\n  ".join([f"{said}:", *map(str.rstrip, lines)]) if lines else said

    async def stop(self) -> None:
        """Kills the process, and every process that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await end_tasks(self._reader)


class _MockServer:
    """The server that the bot connects to, with the current session."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.session: Session | None = None
        self.proxy: Proxy | None = None
        self.connected = asyncio.Event()

    async def socket(self, websocket: WebSocket) -> None:
        await serve_socket(websocket, self._connected("socket"))

    async def call(self, request: Request) -> Response:
        return await serve_call(self._connected("http"), request)

    def _connected(self, way: Literal["socket", "http"]) -> Session:
        # The bot's first way of playing counts, since a bot on the socket may also make calls over HTTP.
        self.findings.way = self.findings.way or way
        self.connected.set()
        assert self.session is not None
        return self.session


@contextlib.asynccontextmanager
async def _serving(mock: _MockServer, host: str, port: int) -> AsyncIterator[str]:
    routes = [
        WebSocketRoute("/ws", mock.socket),
        Route("/{path:path}", mock.call, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws=SocketProtocol,
        ws_max_size=32_768,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # The command line handles Ctrl-C.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve(), name="mock server")
    while not server.started:  # uvicorn has no event for this
        if serving.done():
            serving.result()
        await asyncio.sleep(0.01)
    mock.proxy = Proxy(server.servers[0].sockets[0].getsockname()[1])
    try:
        yield f"http://{host}:{await mock.proxy.start(host, port)}"
    finally:
        await mock.proxy.stop()
        server.should_exit = True
        await serving


async def check_bot(
    command: Sequence[str],
    *,
    host: str,
    port: int,
    patience: Patience,
    notify: Notify,
    endings: Sequence[int] | None = None,
) -> Findings:
    """Checks one bot. Without a command, waits for a bot that a person starts.

    ``endings``: the close codes after which the bot must stay away, each tried with a new start of the bot;
    None tries all, or only 4409 for a bot that is started by hand. A bot on HTTP must stop after 404 and 401
    instead; only 404 is tried with ``endings``, or by hand. The ``way`` of the findings is None if no bot
    connected. Raises OSError if the address cannot be listened on, or the command cannot be run.
    """
    mock = _MockServer()
    findings = mock.findings
    bot = _Bot(command, notify)
    async with _serving(mock, host, port) as url:
        try:
            await _run_session(mock, bot, url, patience, notify, None)
            if findings.way == "http":
                tried: Sequence[int] = (404, 401) if endings is None and bot.ours else (404,)
            elif endings is None:
                tried = STOPPING if bot.ours else (4409,)
            else:
                tried = endings
            for code in tried if findings.way is not None else ():
                await _run_session(mock, bot, url, patience, notify, code)
        finally:
            await bot.stop()
    return findings


async def _run_session(
    mock: _MockServer, bot: _Bot, url: str, patience: Patience, notify: Notify, ends_with: int | None
) -> None:
    address = Address(url, f"g_check{secrets.token_hex(3)}", f"check.{secrets.token_hex(12)}")
    assert mock.proxy is not None
    session = mock.session = Session(
        mock.findings, mock.proxy, game=address.game, token=address.token, ends_with=ends_with
    )
    notify("a whole game, with all situations" if ends_with is None else f"ends: {ends_with}")
    for start in range(STARTS):
        before = len(session.game.items)
        session.start()
        mock.connected.clear()
        await bot.start(address, again=start > 0)
        failure = await _watch(session, bot, mock, patience)
        if failure is not None:
            mock.findings.wrong(*failure)
            notify(f"  {failure[0]}: {failure[1]}")
        await bot.stop()
        if failure is None or session.ended or len(session.game.items) == before:
            # If one start made no progress, another would not make any either.
            break
        session.skip()
    session.ended = True


async def _watch(
    session: Session, bot: _Bot, mock: _MockServer, patience: Patience
) -> tuple[str, str] | None:
    """Waits until the session ends well or the bot fails. Returns None, or the failed check and why."""
    began = moved = time.monotonic()
    items = len(session.game.items)
    stalled_s = patience.answer + patience.back
    connect_s = patience.answer if bot.ours else BY_HAND_S
    while True:
        await asyncio.sleep(0.02)
        now = time.monotonic()
        if not bot.ours and not mock.connected.is_set():
            # No time counts against a bot that is not started yet.
            if now - began > connect_s:
                return "runs", f"did not connect within {connect_s:g} s"
            moved = now
            continue
        if items != len(session.game.items):
            items, moved = len(session.game.items), now
        due = session.due
        if due is not None and due.stays_away:
            if bot.status is not None or now - due.since > patience.quiet:
                if due.check == "over" and bot.status:
                    session.findings.wrong("runs", bot.ending)
                session.findings.ok(due.check)
                session.pass_expected()
                session.ended = True
                return None
        elif bot.status is not None:
            # The last message to the bot may not be recorded yet.
            await asyncio.sleep(0.1)
            if session.due is not None and session.due.stays_away:
                continue
            return session.failing if session.due is None else session.due.check, bot.ending
        elif due is not None and now - moved <= stalled_s:
            if now - due.since > patience.back:
                return due.check, f"did not come back within {patience.back:g} s"
        elif now - moved > stalled_s:
            session.disconnect("runs")
            return session.failing, f"made no progress for {stalled_s:g} s"
        elif not mock.connected.is_set():
            if now - began > connect_s:
                return "runs", f"did not connect within {connect_s:g} s"
        elif session.asked_since is not None and now - session.asked_since > patience.answer:
            request = session.game.request
            asked = "the request" if request is None else request.id
            session.disconnect("runs")
            return session.failing, f"gave no answer to {asked} within {patience.answer:g} s"
