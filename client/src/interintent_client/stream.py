"""One viewer's connection to one game, over as many sockets as it takes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from interintent_client.backoff import COME_BACK, PATIENCE, named_wait_s, wait_s
from interintent_client.errors import Closed, TokenRefused, Unreachable, closed
from interintent_client.records import Event, Json, wire

__all__ = ["Stream", "TokenSource"]

SUBPROTOCOL: Final = "avalon.v1"
VERSION: Final = 1
CLIENT: Final = "interintent-client/0.1"
MAX_MESSAGE: Final = 32_768
MAX_FRAME: Final = 16 * 2**20
"""The most bytes of a frame. A page of events has up to 256 KiB; a larger event comes alone."""

TokenSource = str | Callable[[], Awaitable[str]]
"""A token, or an async function that mints one: called first, and again whenever the server refuses one."""


class Stream:
    """The frames of one viewer. The stream reconnects by itself, and yields every event exactly once."""

    def __init__(
        self,
        url: str,
        game: str,
        *,
        token: TokenSource | None = None,
        viewer: str | None = None,
        sit: bool | None = None,
        live: bool = False,
        after: int = 0,
        patience: int | None = PATIENCE,
    ) -> None:
        """``live``: also yield what happens beside the log. ``patience``: the stream gives up after this many
        failures in a row; None: it never gives up.
        """
        self._url = url.rstrip("/").replace("http", "ws", 1) + "/ws"
        self._game = game
        self._source = token
        self._token = token if isinstance(token, str) else None
        self._viewer = viewer
        self._sit = sit
        self._live = live or None
        self.after = after
        """The position of the last event that was yielded."""
        self.max_message = MAX_MESSAGE
        """The most bytes of a message to the server, as it last said."""
        self._patience = patience
        self._failures = 0
        self._socket: ClientConnection | None = None

    async def frames(self) -> AsyncGenerator[Json, None]:
        """Every frame from each welcome on; events that were yielded before are left out.

        Ends when the game is over and everything has been sent. Raises Closed if reconnecting would not help,
        and Unreachable if the server refuses the connection, or after ``patience`` failures in a row.
        """
        renewed = False
        while True:
            pause = 0.0
            try:
                async with aclosing(self._one_connection()) as frames:
                    async for frame in frames:
                        renewed = renewed and frame["t"] == "welcome"
                        yield frame
                return
            except Closed as end:
                if isinstance(end, TokenRefused) and callable(self._source) and not renewed:
                    # Mint once after a refusal: a second refusal in a row means that minting does not help.
                    renewed, self._token = True, None
                    continue
                if end.code not in COME_BACK:
                    raise
                pause = named_wait_s(end.reason)
                why: Exception = end
            except (OSError, InvalidHandshake, TimeoutError) as fault:
                if isinstance(fault, InvalidStatus) and not _may_pass(fault.response.status_code):
                    raise Unreachable(f"the server refuses the connection: {fault}") from fault
                why = fault
            finally:
                self._socket = None
            self._failures += 1
            if self._patience is not None and self._failures >= self._patience:
                raise Unreachable(
                    f"{self._url}: gave up after {self._failures} failures in a row, the last one {why!r}; "
                    "a larger `patience` makes it try longer, patience=None for ever"
                ) from why
            await asyncio.sleep(max(pause, wait_s(self._failures - 1)))

    async def _one_connection(self) -> AsyncGenerator[Json, None]:
        if self._token is None and callable(self._source):
            self._token = await self._source()
        identify: dict[str, Any] = {
            "t": "identify",
            "v": VERSION,
            "game": self._game,
            "after": self.after,
            "client": CLIENT,
        }
        more = {"token": self._token, "viewer": self._viewer, "sit": self._sit, "live": self._live}
        identify |= {name: value for name, value in more.items() if value is not None}
        # The server offers no compression, so that secrets and other seats' texts never share a window.
        async with connect(
            self._url,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            compression=None,
            max_size=MAX_FRAME,
        ) as socket:
            try:
                await socket.send(json.dumps(identify))
                async for text in socket:
                    frame = json.loads(text)
                    if frame["t"] == "hello":
                        self.max_message = frame.get("max_message", self.max_message)
                        continue
                    if frame["t"] == "events":
                        frame = {**frame, "items": self._new(frame["items"])}
                    elif frame["t"] == "welcome":
                        self._socket = socket
                    elif frame["t"] == "error" and self._socket is None:
                        # The close that follows has a code, which says what to do.
                        continue
                    yield frame
                    # A frame after the welcome shows that the server works.
                    if frame["t"] in ("events", "beat"):
                        self._failures = 0
            except ConnectionClosed:
                pass
            code = socket.close_code if socket.close_code is not None else 1006
            if code != 1000:
                raise closed(code, socket.close_reason or "")

    def _new(self, items: list[Json]) -> list[Event]:
        new_events = []
        for item in items:
            if item["seq"] <= self.after:
                continue
            if item["seq"] != self.after + 1:
                # A gap is a fault of the server or of a proxy: reconnect, and read again from before the gap.
                raise OSError(f"event {self.after + 1} is missing, got {item['seq']}")
            self.after = item["seq"]
            new_events.append(Event.read(item))
        return new_events

    async def send(self, message: Json) -> None:
        """Sends the message if connected. The caller resends unanswered messages at each welcome."""
        if self._socket is not None:
            try:
                await self._socket.send(wire(message))
            except ConnectionClosed:
                return


def _may_pass(status: int) -> bool:
    return status == 429 or status >= 500
