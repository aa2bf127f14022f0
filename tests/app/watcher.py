"""A client of the socket for tests: it connects, identifies, collects all frames, and checks each against its
schema.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from app.base.clock import timestamp
from app.main import Composition
from engine.events import payload, type_name, visible
from engine.terms import FULL, Viewer
from tests.app.frames import Frames

SUBPROTOCOL = "avalon.v1"


class Watcher:
    """One connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.hello: dict[str, Any] = {}
        self.welcome: dict[str, Any] = {}
        self.items: list[dict[str, Any]] = []
        self.frames: list[dict[str, Any]] = []
        """Every frame after welcome."""
        self._checked = Frames()

    async def receive(self) -> dict[str, Any]:
        """The next frame, parsed. Raises ConnectionClosed, which has the code."""
        async with asyncio.timeout(60):
            frame = json.loads(await self.connection.recv())
        assert isinstance(frame, dict)
        self._checked.received(frame)
        return frame

    async def send(self, **message: Any) -> None:
        self._checked.sent(message)
        await self.connection.send(json.dumps(message))

    async def identify(self, game: str, **more: Any) -> dict[str, Any]:
        """Identifies, and returns the welcome."""
        await self.send(t="identify", v=1, game=game, **more)
        self.welcome = await self.receive()
        assert self.welcome["t"] == "welcome", self.welcome
        return self.welcome

    async def next(self) -> dict[str, Any]:
        """The next frame after welcome; it is also kept."""
        frame = await self.receive()
        self.frames.append(frame)
        if frame["t"] == "events":
            self.items += frame["items"]
        return frame

    async def until_seq(self, seq: int) -> None:
        while not self.items or self.items[-1]["seq"] < seq:
            await self.next()

    async def until_closed(self) -> int:
        """Reads to the end, and returns the close code."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    async def close_code(self) -> int:
        return await self.until_closed()


@contextlib.asynccontextmanager
async def watching(ws_url: str, **options: Any) -> AsyncIterator[Watcher]:
    """A connection that has received its hello."""
    # The library gives up after 10 s, which is no hang on a machine that is busy.
    options = {"open_timeout": 60, **options}
    async with connect(ws_url, subprotocols=[SUBPROTOCOL], proxy=None, **options) as connection:  # type: ignore[list-item]
        one = Watcher(connection)
        one.hello = await one.receive()
        yield one


async def watched_to_the_end(ws_url: str, game: str, **identify: Any) -> Watcher:
    """The whole stream of a game, up to the close, whose code must be 1000."""
    async with watching(ws_url) as one:
        await one.identify(game, **identify)
        assert await one.until_closed() == 1000
        return one


async def projection(services: Composition, game: str, viewer: Viewer) -> list[dict[str, Any]]:
    """What this viewer must have been sent, computed from the log by the engine alone."""
    log = await services.reader.events(game)
    times = [line.at for line in await services.reader.lines(game, FULL, 0, len(log))]
    seen = [(at, event) for at, event in zip(times, log, strict=True) if visible(event, viewer)]
    return [
        {
            "seq": seq,
            "at": timestamp(at),
            "type": type_name(event),
            "game": game,
            **orjson.loads(orjson.dumps(payload(event))),
        }
        for seq, (at, event) in enumerate(seen, 1)
    ]
