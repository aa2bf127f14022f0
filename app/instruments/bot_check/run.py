"""Runs a check: serves, starts the bot again for each ending, and watches the time."""

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from app.instruments.bot_check.calls import serve_call
from app.instruments.bot_check.cutting import Listener
from app.instruments.bot_check.findings import STOPPING, Findings
from app.instruments.bot_check.session import Patience, Session
from app.instruments.bot_check.sockets import serve_socket
from app.serving.socket_limits import SocketProtocol

__all__ = ["Address", "Checked", "check_bot"]

STARTS: Final = 12
"""How often a bot that breaks off is started again within one session."""

BY_HAND_S: Final = 600.0
"""How long a bot that somebody starts by hand is waited for, each time."""

LAST_WORDS: Final = 300
"""Bytes kept of what a bot writes to its standard error."""

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a bot connects and as whom: the values of ``{url}``, ``{ws}``, ``{game}`` and ``{token}``."""

    url: str
    game: str
    token: str

    @property
    def ws(self) -> str:
        return self.url.replace("http://", "ws://") + "/ws"

    def fill(self, words: Sequence[str]) -> list[str]:
        """The words of a command with these values filled in."""
        values = {"{url}": self.url, "{ws}": self.ws, "{game}": self.game, "{token}": self.token}
        filled = []
        for word in words:
            for name, value in values.items():
                word = word.replace(name, value)
            filled.append(word)
        return filled


@dataclass(frozen=True, slots=True)
class Checked:
    """The end of a check."""

    findings: Findings
    came: bool
    """Whether a bot came at all."""


class _Bot:
    """The bot's process. Without a command, somebody else starts the bot."""

    def __init__(self, command: Sequence[str], say: Say) -> None:
        self._command = command
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._words = bytearray()
        self._reader: asyncio.Task[None] | None = None

    @property
    def ours(self) -> bool:
        return bool(self._command)

    async def start(self, address: Address, *, again: bool = False) -> None:
        """Raises OSError where the command cannot be run."""
        if not self._command:
            word = "start your bot again" if again else "start your bot"
            self._say(
                f"{word}: {address.ws} (or {address.url}), game {address.game}, token {address.token}\n"
                f"  (waiting for {BY_HAND_S:g} s; Ctrl-C ends)"
            )
            return
        self._words.clear()
        self._process = await asyncio.create_subprocess_exec(
            *address.fill(self._command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = asyncio.create_task(self._listen(self._process), name="bot's words")

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(4096):
            self._words += data
            del self._words[:-LAST_WORDS]

    @property
    def status(self) -> int | None:
        """Its exit status, once it has ended."""
        return None if self._process is None else self._process.returncode

    def last_words(self) -> str:
        """The last line it wrote to its standard error, to be put behind a colon."""
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1].strip()}" if lines else ""

    async def stop(self) -> None:
        """Ends it and whatever it started."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)


class _Acted:
    """The server that the bot connects to; ``session`` is the one that it meets."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.session: Session | None = None
        self.listener: Listener | None = None
        self.came = asyncio.Event()

    async def socket(self, websocket: WebSocket) -> None:
        self._arrived("socket")
        assert self.session is not None
        await serve_socket(websocket, self.session)

    async def call(self, request: Request) -> Response:
        self._arrived("http")
        assert self.session is not None
        return await serve_call(self.session, request)

    def _arrived(self, way: str) -> None:
        # The first way counts: a bot on the socket may look something up over HTTP as well.
        if self.findings.way is None:
            self.findings.way = "socket" if way == "socket" else "http"
        self.came.set()


@contextlib.asynccontextmanager
async def _serving(acted: _Acted, host: str, port: int) -> AsyncIterator[str]:
    routes = [
        WebSocketRoute("/ws", acted.socket),
        Route("/{path:path}", acted.call, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
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
    # Ctrl-C is the command line's.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve(), name="acted server")
    while not server.started:  # uvicorn has no event for it
        if serving.done():
            serving.result()
        await asyncio.sleep(0.01)
    listener = acted.listener = Listener(server.servers[0].sockets[0].getsockname()[1])
    try:
        taken = await listener.start(host, port)
        yield f"http://{host}:{taken}"
    finally:
        await listener.stop()
        server.should_exit = True
        await serving


async def check_bot(
    command: Sequence[str],
    *,
    host: str,
    port: int,
    patience: Patience,
    say: Say,
    endings: Sequence[int] | None = None,
) -> Checked:
    """Checks one bot. Without a command it waits for one that somebody else starts.

    ``endings``: the close codes after which a bot is to stay away, each tried with a new start of it;
    None tries all, or only 4409 where the bot is started by hand. Raises OSError where the address
    cannot be listened on, or the command not be run.
    """
    findings = Findings()
    acted = _Acted(findings)
    bot = _Bot(command, say)
    async with _serving(acted, host, port) as url:
        try:
            await _run_session(acted, bot, url, patience, say, None)
            if findings.way == "http":
                tried: Sequence[int] = (404, 401) if endings is None and bot.ours else (404,)
            elif endings is None:
                tried = STOPPING if bot.ours else (4409,)
            else:
                tried = endings
            for code in tried if findings.way is not None else ():
                await _run_session(acted, bot, url, patience, say, code)
        finally:
            await bot.stop()
    return Checked(findings, findings.way is not None)


async def _run_session(
    acted: _Acted, bot: _Bot, url: str, patience: Patience, say: Say, ends_with: int | None
) -> None:
    address = Address(url, f"g_check{secrets.token_hex(3)}", f"check.{secrets.token_hex(12)}")
    assert acted.listener is not None
    session = Session(
        acted.findings,
        acted.listener,
        patience,
        game=address.game,
        token=address.token,
        ends_with=ends_with,
    )
    acted.session = session
    say(
        "a whole game, with everything that happens on the way" if ends_with is None else f"ends: {ends_with}"
    )
    for start in range(STARTS):
        before = len(session.game.items)
        session.start()
        acted.came.clear()
        await bot.start(address, again=start > 0)
        failed = await _watched(session, bot, acted, patience)
        if failed is not None:
            acted.findings.wrong(*failed)
            say(f"  {failed[0]}: {failed[1]}")
        await bot.stop()
        if failed is None or session.ended or len(session.game.items) == before:
            # Where a start led nowhere, another would not either.
            break
        session.skip()
    session.ended = True


async def _watched(session: Session, bot: _Bot, acted: _Acted, patience: Patience) -> tuple[str, str] | None:
    """Watches until the session has ended well (None) or the bot fails: the check, and why."""
    began = moved = time.monotonic()
    seen = len(session.game.items)
    stalled_s = patience.answer + patience.back
    come_s = patience.answer if bot.ours else BY_HAND_S
    while True:
        await asyncio.sleep(0.02)
        now = time.monotonic()
        if not bot.ours and not acted.came.is_set():
            # Nobody is there yet whose time could be running.
            if now - began > come_s:
                return "runs", f"did not connect within {come_s:g} s"
            moved = now
            continue
        if seen != len(session.game.items):
            seen, moved = len(session.game.items), now
        owed = session.owed
        ended = bot.status
        if owed is not None and owed.stays_away:
            if ended is not None or now - owed.since > patience.quiet:
                if owed.check == "over" and ended:
                    session.findings.wrong("runs", f"the bot ended with status {ended}{bot.last_words()}")
                session.findings.ok(owed.check)
                session.kept()
                session.ended = True
                return None
        elif ended is not None:
            # The last message to it may not be recorded yet.
            await asyncio.sleep(0.1)
            if session.owed is not None and session.owed.stays_away:
                continue
            check = session.owed.check if session.owed is not None else session.blamed
            return check, f"the bot ended with status {ended}{bot.last_words()}"
        elif owed is not None and now - moved <= stalled_s:
            if now - owed.since > patience.back:
                return owed.check, f"did not come back within {patience.back:g} s"
        elif now - moved > stalled_s:
            session.away("runs")
            return session.blamed, f"did not get on for {stalled_s:g} s"
        elif not acted.came.is_set():
            if now - began > come_s:
                return "runs", f"did not connect within {come_s:g} s"
        elif session.asked_since is not None and now - session.asked_since > patience.answer:
            request = session.game.request
            asked = "the request" if request is None else request.id
            session.away("runs")
            return session.blamed, f"gave no answer to {asked} within {patience.answer:g} s"
