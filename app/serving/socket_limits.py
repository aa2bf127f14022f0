"""Limits of WebSockets for which uvicorn has no settings: the frames of one message, the frames that the
application never sees, the bytes from a peer that reads nothing, the bytes after our close, and the writes of
one turn of the loop.

This module depends on uvicorn's private ``WebSocketsSansIOProtocol``: an application sees only whole
messages, and such peers never finish one (ADR 0023). Sending does not depend on that class: events go out
through ASGI's ``send``.
"""

import asyncio
import math
import time
from typing import Any, Final, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Response
from websockets.typing import StatusLike

from app.base.allowance import Allowance
from app.edge.headers import HEADERS
from app.protocol.close_codes import Code

__all__ = ["Gathering", "SocketProtocol"]

AFTER_CLOSE: Final = 1 << 18
"""The most bytes that a peer may send after our close."""

MAX_FRAMES: Final = 256
"""The most frames of one message; each costs as much to read as a kilobyte, and an empty frame does not count
towards the size limit."""

FRAMES: Final = 300
FRAMES_A_SECOND: Final = 5.0
"""Pings, pongs and continuations from one peer: ``FRAMES`` at once, and so many a second in the long run. A
buffer of the system holds 40,000 of them, which take a second to read. A client that pings every second sends
about one a second. At most ``FRAMES`` messages wait for the application."""

_READ_AT_ONCE: Final = 1_024
"""This many bytes are parsed before their frames are handled, so that little is parsed after a frame that
ends the connection."""


GATHERED: Final = 1 << 16
"""The most bytes that wait for the end of a turn."""


class Gathering:
    """A transport that writes all that is sent in one turn of the loop at once, such as an ack and the events
    of its commit: each write is a call of the system, which costs as much as all else of a frame.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._gathered: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes at the end of the turn, or at once if much waits: the transport then says so."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)
        self._size += len(data)
        if self._size > GATHERED:
            self._flush()

    def close(self) -> None:
        """Writes what waits, and closes the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        gathered, self._gathered, self._size = self._gathered, [], 0
        if gathered and not self._transport.is_closing():
            self._transport.write(b"".join(gathered))


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol, which also stops reading from a peer that does not read, closes the
    connection of one that sends too many frames, and drops a peer that keeps sending after our close.

    Pongs are sent without asking the application: without these limits, a peer that sends pings and reads
    nothing makes the service buffer 13 MB a second (measured).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._bytes_after_close = 0
        self._frames = Allowance(FRAMES_A_SECOND, FRAMES, time.monotonic())
        self._reject = self.conn.reject
        self.conn.reject = self._rejection  # type: ignore[method-assign]

    def _rejection(self, status: StatusLike, text: str) -> Response:
        """The answer to a handshake that never reaches the application."""
        response = self._reject(status, text)
        response.headers.update(HEADERS)
        return response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, Gathering(self.transport, self.loop))

    def data_received(self, data: bytes) -> None:
        if self.close_sent:
            # A peer may send a little before our close reaches it. All frames of a peer that goes on would be
            # parsed until the close times out.
            self._bytes_after_close += len(data)
            if self._bytes_after_close > AFTER_CLOSE:
                self.transport.abort()
                return
        for start in range(0, len(data), _READ_AT_ONCE):
            super().data_received(data[start : start + _READ_AT_ONCE])
            if self.transport.is_closing():
                break
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # The head is invalid; uvicorn alone would neither send the answer nor close the connection.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        try:
            await super().send(message)
        except RuntimeError:
            if not self.close_sent:
                raise
            # This class closed the connection for an invalid frame; the application does not know yet.
            raise ClientDisconnected from None
        if self.initial_response is not None and self.close_sent:
            # Treat a refusal as the end of the handshake; otherwise uvicorn logs that it was never completed.
            self.handshake_complete = True

    def handle_ping(self) -> None:
        if self._may_send():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        if self._may_send():
            super().handle_pong(event)

    def handle_cont(self, event: Frame) -> None:
        if not self._may_send() or self.close_sent:
            return
        if len(self.frames) < MAX_FRAMES:
            super().handle_cont(event)
            return
        self.frames = []
        self._fail(CloseCode.MESSAGE_TOO_BIG, f"a message comes in at most {MAX_FRAMES} frames")

    def send_receive_event_to_app(self) -> None:
        if self.close_sent:
            self._may_send()
        elif self.queue.qsize() >= FRAMES:
            self._too_many()
        else:
            super().send_receive_event_to_app()

    def _may_send(self) -> bool:
        """Whether the peer may send the frame that has just come; otherwise ends the connection."""
        if self._frames.spend(time.monotonic()):
            return True
        self._too_many()
        return False

    def _too_many(self) -> None:
        if self.close_sent:
            self.transport.abort()
        else:
            wait_s = self._frames.wait_s(time.monotonic())
            self._fail(Code.RATE, f"retry_after_ms={math.ceil(wait_s * 1000)}")

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await super().receive()  # resumes reading, even while writing is blocked
        if not self.writable.is_set():
            self._stop_reading()
        return message

    def _stop_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()
