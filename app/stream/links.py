"""Direct connections between processes of one machine that share a database. The process that drives a game
shows the others its events as it commits them, and takes the answers that come in there.

Links only save time: what they do not bring is told by notifications and found in the database. Only
processes of the same user are spoken to.
"""

import asyncio
import itertools
import os
import secrets
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import orjson
import structlog

from app.store.db import Append
from app.store.inbox import RequestOutcome
from app.store.log import LogLine
from app.stream.feed import Tails

__all__ = ["Links"]

log = structlog.get_logger()

ANSWERS_WITHIN_S: Final = 2.0
"""Seconds until an answer that was handed over goes by the database instead."""

MAX_UNSENT: Final = 4 << 20
"""Bytes that may wait for a process that does not read; then its link is cut."""

MAX_FAR: Final = 1_000
"""Processes of other machines to remember."""

_ADDRESS: Final = "\0interintent-link-2-"
"""Beginning of a process's address. The number is that of the messages: processes that speak others do not
meet. The address is no file: nothing is left of it when the process has died.
"""

_CREDENTIALS: Final = struct.Struct("iII")


def our_user() -> int:
    """The user as whom this process runs."""
    return os.geteuid()


class Driven(Protocol):
    """A game that this process drives."""

    def hand(self, request_id: str, answer: RequestOutcome) -> Append | None:
        """Takes the answer and queues its commit. None: nobody waits for it here."""
        ...


class Links:
    """The links of this process."""

    def __init__(self, tails: Tails, *, enabled: bool) -> None:
        self._tails = tails
        self._enabled = enabled and hasattr(socket, "SO_PEERCRED")
        self.name = f"{os.getpid()}-{secrets.token_hex(16)}"
        """This process's name, which nobody can guess. Others know it from its notifications."""
        self.driven: Mapping[str, Driven] = {}
        """The games that this process drives."""
        self.on_lines: Callable[[str, list[LogLine]], None] = lambda game_id, lines: None
        """Called with events that another process has committed."""
        self.on_lost: Callable[[str], None] = lambda game_id: None
        """Called with a game whose events do not come over a link any more: it may have missed some."""
        self._server: asyncio.Server | None = None
        self._drivers: dict[str, str] = {}
        """By game that is followed here: the process that wrote its last events."""
        self._brought: set[str] = set()
        """Those of these games that the process drives and shows."""
        self._links: dict[str, _Link] = {}
        """Those that this process has opened, by the process on the other side."""
        self._far: dict[str, None] = {}
        """Processes that cannot be reached."""
        self._callers: set[_Link] = set()
        """Links that others have opened."""
        self._shown: dict[str, set[_Link]] = {}
        """By game, the links over which its events go out."""
        self._answers: dict[int, asyncio.Future[int | None]] = {}
        """Answers that were handed over, by number."""
        self._numbers = itertools.count(1)
        self._opening: set[asyncio.Task[None]] = set()
        tails.on_drop = self._leave

    async def start(self) -> None:
        """Begins to listen, where links are possible."""
        if not self._enabled or self._server is not None:
            return
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(_ADDRESS + self.name)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._called, sock=listening)
        except OSError as fault:
            listening.close()
            log.warning(
                "no direct connections between processes: answers and events go by the database",
                cause=type(fault).__name__,
            )

    async def stop(self) -> None:
        """Ends all links. Answers that are still under way go by the database."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for link in (*self._links.values(), *self._callers):
            link.cut()
        if self._opening:
            await asyncio.wait(self._opening)

    # --- on the side that follows a game ------------------------------------------------------

    def follow(self, game_id: str, process: str) -> None:
        """Another process writes the log of this game: if the game is followed here, it is asked to show what
        it writes from now on.
        """
        if self._server is None or not self._tails.keeps(game_id) or self._drivers.get(game_id) == process:
            return
        self._leave(game_id)
        self._drivers[game_id] = process
        link = self._links.get(process)
        if link is not None:
            self._watch(link, game_id)
        elif process not in self._far:
            self._open(process)

    def brings(self, game_id: str) -> bool:
        """Whether all events of the game come over a link, and its answers go over it."""
        return game_id in self._brought

    async def hand(self, game_id: str, request_id: str, answer: RequestOutcome) -> int | None:
        """Hands the answer to the process that drives the game, and returns its commit time. None: it is not
        known whether that process has taken it.
        """
        link = self._links.get(self._drivers.get(game_id, ""))
        if link is None or not link.is_open:
            return None
        number = next(self._numbers)
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._answers[number] = done
        link.answers.add(number)
        link.send("answer", number, game_id, request_id, answer)
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                return await done
        except TimeoutError:
            link.cut()
            return None
        finally:
            del self._answers[number]
            link.answers.discard(number)

    def _open(self, process: str) -> None:
        link = _Link(self._on_message, partial(self._on_lost, process))
        calling = socket.socket(socket.AF_UNIX)
        calling.setblocking(False)
        try:
            calling.connect(_ADDRESS + process)
        except OSError:
            calling.close()
            if len(self._far) >= MAX_FAR:
                self._far.clear()
            self._far[process] = None
            return
        self._links[process] = link
        task = asyncio.create_task(self._begin(process, link, calling), name="link")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _begin(self, process: str, link: "_Link", calling: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=calling)
        except OSError:
            calling.close()
            self._on_lost(process, link)
            return
        for game_id, driver in self._drivers.items():
            if driver == process:
                self._watch(link, game_id)

    def _watch(self, link: "_Link", game_id: str) -> None:
        link.send("watch", game_id, self._tails.end(game_id) or 0)

    def _leave(self, game_id: str) -> None:
        self._brought.discard(game_id)
        link = self._links.get(self._drivers.pop(game_id, ""))
        if link is not None:
            link.send("leave", game_id)

    def _on_lost(self, process: str, link: "_Link") -> None:
        for number in link.answers:
            self._settle(number, None)
        if self._links.get(process) is link:
            del self._links[process]
            # The next notification of that process shows that it lives, and the link is opened again.
            self._drivers = {game: driver for game, driver in self._drivers.items() if driver != process}
            lost = self._brought - self._drivers.keys()
            self._brought -= lost
            if self._server is not None:
                for game_id in lost:
                    self.on_lost(game_id)

    def _settle(self, number: int, at: int | None) -> None:
        done = self._answers.get(number)
        if done is not None and not done.done():
            done.set_result(at)

    # --- on the side that drives it -----------------------------------------------------------

    def drives(self, game_id: str) -> bool:
        """Whether this process drives the game, and others may follow it over links."""
        return self._server is not None and game_id in self.driven

    def shows(self, game_id: str) -> bool:
        """Whether another process is shown the game's events over a link."""
        return game_id in self._shown

    def show(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """Shows events that this process has committed to the processes that follow the game."""
        if links := self._shown.get(game_id):
            rows = [tuple(line) for line in lines]
            for link in tuple(links):
                link.send("lines", game_id, rows)

    def _called(self) -> "_Link":
        link = _Link(self._on_message, self._on_gone)
        self._callers.add(link)
        return link

    def _on_gone(self, link: "_Link") -> None:
        self._callers.discard(link)
        for game_id in link.games:
            self._hide(game_id, link)

    def _hide(self, game_id: str, link: "_Link") -> None:
        links = self._shown.get(game_id, set())
        links.discard(link)
        if not links:
            self._shown.pop(game_id, None)

    def _take(
        self, link: "_Link", number: int, game_id: str, request_id: str, answer: RequestOutcome
    ) -> None:
        driven = self.driven.get(game_id)
        append = None if driven is None else driven.hand(request_id, answer)
        if append is None:
            link.send("settled", number, None)
            return

        def settled(done: "asyncio.Future[int]") -> None:
            is_committed = not done.cancelled() and done.exception() is None
            link.send("settled", number, done.result() if is_committed else None)

        append.done.add_done_callback(settled)

    # --- messages -----------------------------------------------------------------------------

    def _on_message(self, link: "_Link", message: list[Any]) -> None:
        match message:
            case ["lines", game_id, rows]:
                self.on_lines(game_id, [LogLine(*row) for row in rows])
            case ["settled", number, at]:
                self._settle(number, at)
            case ["answer", number, game_id, request_id, answer]:
                self._take(link, number, game_id, request_id, RequestOutcome(**answer))
            case ["watch", game_id, place]:
                link.games.add(game_id)
                self._shown.setdefault(game_id, set()).add(link)
                if place and (lines := self._tails.after(game_id, place)):
                    link.send("lines", game_id, [tuple(line) for line in lines])
                if game_id in self.driven:
                    link.send("watched", game_id, self._tails.end(game_id) or 0)
            case ["watched", game_id, end] if self._links.get(self._drivers.get(game_id, "")) is link:
                self._brought.add(game_id)
                if not self._tails.reaches(game_id, end):
                    self.on_lost(game_id)
            case ["watched", _, _]:
                pass  # another process drives it since
            case ["leave", game_id]:
                link.games.discard(game_id)
                self._hide(game_id, link)
            case _:
                raise ValueError("a message of no known kind")


class _Link(asyncio.Protocol):
    """One connection to another process: a line of JSON for each message, in both directions."""

    def __init__(
        self, on_message: Callable[["_Link", list[Any]], None], on_lost: Callable[["_Link"], None]
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._transport: Any = None
        self._unread = b""
        self.answers: set[int] = set()
        """Answers that were handed over here, and are not settled."""
        self.games: set[str] = set()
        """Games that are shown here."""

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, *message: Any) -> None:
        """Sends a message, if the link is open."""
        if self.is_open:
            self._transport.write(orjson.dumps(message) + b"\n")
            if self._transport.get_write_buffer_size() > MAX_UNSENT:
                self.cut()

    def cut(self) -> None:
        """Ends the link."""
        if self._transport is not None:
            self._transport.abort()
            self._on_lost(self)

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        _, user, _ = _CREDENTIALS.unpack(peer)
        if user != our_user():
            log.warning("refused a direct connection to a process of another user", user=user)
            transport.abort()
            return
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                self._on_message(self, orjson.loads(line))
            except Exception as fault:
                log.warning(
                    "a direct connection between processes is cut: answers and events go by the database",
                    cause=type(fault).__name__,
                )
                self.cut()
                return

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self)
