"""Limits of HTTP connections for which uvicorn has no settings: the time for a request's head, the number of
bytes read from an unwanted body, and the number of chunks in a body.

This module depends on uvicorn's private ``H11Protocol``, since only the protocol sees the bytes before there
is a request (ADR 0023).
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from app.edge.headers import HEADERS

__all__ = ["MAX_CHUNKS", "UNREAD_BODY", "HttpProtocol"]

HEAD_S: Final = 60.0
"""Seconds within which the head of a request must arrive."""

UNREAD_BODY: Final = 16 << 20
UNREAD_BODY_S: Final = 5.0
"""How many bytes and for how many seconds the rest of a body is discarded after its request was answered, so
that the client can read a refusal before the connection is closed."""

MAX_CHUNKS: Final = 8_192
"""The most chunks of a body; each costs as much to read as a kilobyte."""


class Parser(h11.Connection):
    """h11's parser, which also refuses bodies with two lengths, and bodies of too many chunks."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._chunks = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                # A proxy in front may have used the other length (request smuggling).
                raise h11.RemoteProtocolError("a body has only one length")
        elif isinstance(event, h11.Data) and event.chunk_end:
            self._chunks += 1
            if self._chunks > MAX_CHUNKS:
                raise h11.RemoteProtocolError(f"a body comes in at most {MAX_CHUNKS} chunks")
        return event


class HttpProtocol(H11Protocol):
    """uvicorn's HTTP protocol with time limits for the head of a request, and for the rest of a body that was
    answered early.

    Without this class, uvicorn reads for as long as a client sends, and waits for ever for a client that
    sends nothing. The parser is h11 even if httptools is installed, since httptools ignores the host of
    ``GET http://host/path``.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = Parser()
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: RequestResponseCycle | None = None
        """A request that was answered while its body was still arriving."""
        self._discarded = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._close_in(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unread is not None:
            self._discarded += len(data)
            if self._discarded > UNREAD_BODY:
                self.transport.close()
                return
        super().data_received(data)
        state = self.conn.their_state
        if self._unread is not None and (self._unread is not self.cycle or state is not h11.SEND_BODY):
            self._unread = None
            self._cancel_deadline()
        if state is h11.IDLE:
            if self._deadline is None:
                self._close_in(HEAD_S)
        elif self._unread is None:
            self._cancel_deadline()

    def _should_upgrade(self) -> bool:
        # A request that is not a handshake gets an ordinary answer; the socket's protocol would give none.
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        return self.scope["method"] == "GET" and not has_body and super()._should_upgrade()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self._unread = self.cycle
            self._discarded = 0
            self._cancel_deadline()
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
            # The invalid bytes came after the answer.
            self.transport.close()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Whatever works at the request finds that its caller has gone: nobody reads another answer.
            cycle.disconnected = True
            cycle.message_event.set()

    def _close_in(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
