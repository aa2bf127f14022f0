"""HTTP through the ``openai`` client. The import takes half a second: only games with models need it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import openai

from agents.model.answer import Failed, HttpAnswer
from agents.model.completion import CompletionReader, TooMuch
from agents.model.hosts import is_loopback
from agents.model.model import Endpoint

__all__ = ["Wire", "nap_s"]

_CONNECT_S: Final = 10.0
_KEEPALIVE_S: Final = 30.0

_AFTER_FINISH_S: Final = 5.0
"""Seconds to wait for the counts that follow the end of an answer."""

_AFTER_END_S: Final = 0.25

_SESSION: Final = "X-Session-Id"

_NAP: Final = 0.05
"""The time between checks for pieces of an answer, as a share of the time since its request was sent."""

_LONGEST_NAP_S: Final = 0.25

_TICK_S: Final = 0.05
"""Naps end at multiples of this, so that the calls of one event loop wake up together."""


@dataclass(slots=True)
class _Transfer:
    """The status and the number of bytes of the response that this task has received so far."""

    status: int | None = None
    received: int = 0
    first_s: float | None = None
    """See ``HttpAnswer``."""


_progress: ContextVar[_Transfer] = ContextVar("progress")


class _BoundedClient(httpx2.AsyncClient):
    """Lends every request a connection, until the response is closed.

    Each request in flight uses a client with a single connection. A client with many connections checks all
    of them for every request: with hundreds in flight, this check would take most of a request's time.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        tls = httpx2.create_ssl_context()
        connect = min(_CONNECT_S, endpoint.timeout_s)
        super().__init__(verify=tls, timeout=httpx2.Timeout(None, connect=connect), trust_env=False)
        self._tls = tls
        self._max_bytes = endpoint.max_bytes
        # What is installed decides which compressed bodies can be read; each request offers these.
        self._readable = {"identity", *self.headers["accept-encoding"].replace(" ", "").split(",")}
        # Loopback addresses do not go through the environment's proxy.
        self._use_proxy = not is_loopback(urlsplit(endpoint.base_url).hostname or "")
        self._connections: list[httpx2.AsyncClient] = []
        self._free: list[httpx2.AsyncClient] = []

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """The response. The body of an error has been read; that of an answer is read as it comes. Redirects
        are not followed. Raises _UnreadableCoding for an answer in a compression that no request offers.
        """
        # Take the most recently used connection, so that idle ones expire.
        connection = self._free.pop() if self._free else self._new_connection()
        try:
            response = await connection.send(request, stream=True, follow_redirects=False)
        except BaseException:
            self._free.append(connection)
            raise
        _progress.get().status = response.status_code
        coding = self._unreadable(response.headers)
        if coding and response.status_code < 300:
            await response.aclose()
            self._free.append(connection)
            raise _UnreadableCoding(coding)
        lent = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_LentStream(response, lambda: self._free.append(connection)),
            request=response.request,
        )
        return lent if response.status_code < 300 else await self._read(lent)

    def _unreadable(self, headers: httpx2.Headers) -> str:
        """The compression of a body that cannot be read here; empty if it can be."""
        codings = headers.get("content-encoding", "").lower().replace(" ", "").split(",")
        return ", ".join(coding for coding in codings if coding and coding not in self._readable)

    async def aclose(self) -> None:
        for connection in self._connections:
            await connection.aclose()
        await super().aclose()

    def _new_connection(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=1, keepalive_expiry=_KEEPALIVE_S
        )
        connection = httpx2.AsyncClient(verify=self._tls, limits=limits, trust_env=self._use_proxy)
        self._connections.append(connection)
        return connection

    async def _read(self, response: httpx2.Response) -> httpx2.Response:
        """The response with the beginning of its body, up to ``max_bytes``."""
        coding = self._unreadable(response.headers)
        body = bytearray()
        try:
            async for block in response.aiter_bytes():
                body += block
                _progress.get().received = len(body)
                if len(body) > self._max_bytes:
                    break
        finally:
            await response.aclose()
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        content = bytes(body[: self._max_bytes]) if not coding else str(_UnreadableCoding(coding)).encode()
        return httpx2.Response(
            response.status_code, headers=headers, content=content, request=response.request
        )


_DECODERS: Final = {"br": "brotli", "zstd": "backports.zstd"}
"""The packages that read a compression, by its name."""


class _UnreadableCoding(httpx2.DecodingError):
    """A body came compressed in a way that no request offers. ``Wire`` always catches it."""

    def __init__(self, coding: str) -> None:
        package = f", or install the Python package {_DECODERS[coding]}" if coding in _DECODERS else ""
        super().__init__(
            f"the server compressed its response with {coding}, which was not asked for and cannot be read "
            f"here: let the server, or the proxy before it, send plain text or gzip{package}"
        )


class _LentStream(httpx2.AsyncByteStream):
    """The body of a response. Once the body is closed, its connection is free again."""

    def __init__(self, response: httpx2.Response, give_back: Callable[[], None]) -> None:
        self._response = response
        self._give_back: Callable[[], None] | None = give_back

    def __aiter__(self) -> AsyncIterator[bytes]:
        # Not the response's own iterator: each that stands between costs as much again for every piece.
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)
        return self._response.stream.__aiter__()

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            if self._give_back is not None:
                self._give_back()
                self._give_back = None


class Wire:
    """A long-lived connection to one endpoint. It retries nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        # Omitted, since the client would take them from the environment, where they name an account
        # elsewhere.
        unused: dict[str, Any] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        self._headers: dict[str, Any] = {}
        if not endpoint.api_key:
            self._headers["Authorization"] = openai.Omit()
        self._openai = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=_BoundedClient(endpoint),
            default_headers={**unused, **endpoint.extra_headers},
        )

    async def post(
        self,
        body: Mapping[str, Any],
        reader: CompletionReader,
        silence_s: float,
        total_s: float,
        session: str = "",
    ) -> HttpAnswer | Failed:
        """Sends a chat-completions request, and passes the body of an answer of status 2xx to the reader.

        ``session`` goes into a header by which routers find the engine that knows the prompt's beginning.

        Whatever the server does, returns within ``total_s`` seconds, and as soon as no line of the answer has
        come for ``silence_s`` seconds. An answer that the reader has received whole counts as an answer,
        however the connection ended.
        """
        progress = _Transfer()
        _progress.set(progress)
        try:
            headers = {**self._headers, **({_SESSION: session} if session else {})}
            return await self._post(body, headers, reader, silence_s, total_s, progress)
        except TimeoutError:
            failed = Failed("timeout", progress.status, progress.received, sent=True)
        except TooMuch:
            failed = Failed("too_large", progress.status, progress.received, sent=True)
        except openai.APIStatusError as error:
            return _answer(error.response.status_code, error.response.headers, error.response.content)
        except openai.APIConnectionError as error:
            failed = _failed(error.__cause__, progress)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            failed = _failed(error, progress)
        # If the model has stopped, the missing bytes would not change the answer.
        ended = reader.finished or reader.ended
        return _answer(200, {}, b"", progress.first_s) if ended else failed

    async def _post(
        self,
        body: Mapping[str, Any],
        headers: Mapping[str, Any],
        reader: CompletionReader,
        silence_s: float,
        total_s: float,
        progress: "_Transfer",
    ) -> HttpAnswer:
        loop = asyncio.get_running_loop()
        started = loop.time()
        until = started + total_s
        turn = asyncio.Event()
        turn.set()
        async with (
            asyncio.timeout_at(min(until, started + silence_s)) as clock,
            self._openai.chat.completions.with_streaming_response.create(
                model=body["model"], messages=(), extra_body=body, extra_headers=headers
            ) as response,
            contextlib.aclosing(_blocks(response)) as blocks,
        ):
            async for block in blocks:
                waited = turn.is_set()
                progress.received += len(block)
                if not reader.feed(block):
                    continue
                if reader.cut:
                    break
                if progress.first_s is None and reader.begun:
                    progress.first_s = loop.time() - started
                stopped = reader.finished or reader.ended
                if not (waited or stopped):
                    continue  # received together with the one before
                now = loop.time()
                # Read on after the end, briefly, so that the connection can be used again.
                rest = _AFTER_END_S if reader.ended else _AFTER_FINISH_S if reader.finished else silence_s
                clock.reschedule(min(until, now + rest))
                if reader.begun and not stopped:
                    # Pieces that come during the nap are read together, since waking up costs more than
                    # reading a piece. Pieces that were received with this one follow without another nap.
                    await asyncio.sleep(nap_s(now, now - started, silence_s))
                    turn.clear()
                    loop.call_soon(turn.set)
            return _answer(response.status_code, response.headers, b"", progress.first_s)

    async def aclose(self) -> None:
        """Closes every connection; nothing can be sent afterwards."""
        await self._openai.close()


def _blocks(response: openai.AsyncAPIResponse[Any]) -> AsyncGenerator[bytes, None]:
    """The body as it comes, decoded."""
    stream = response.http_response.stream
    if isinstance(stream, _LentStream) and "content-encoding" not in response.headers:
        return cast(AsyncGenerator[bytes, None], stream.__aiter__())
    return cast(AsyncGenerator[bytes, None], response.iter_bytes())


def nap_s(now: float, elapsed_s: float, silence_s: float) -> float:
    """How long a call may leave the pieces of its answer unread; far shorter than the silence it puts up
    with. ``now``: in the event loop's time.
    """
    least_s = min(_LONGEST_NAP_S, elapsed_s * _NAP)
    return min(least_s + _TICK_S - (now + least_s) % _TICK_S, silence_s / 4)


def _answer(status: int, headers: Mapping[str, str], body: bytes, first_s: float | None = None) -> HttpAnswer:
    return HttpAnswer(status, {name.lower(): value for name, value in headers.items()}, body, first_s)


def _failed(error: BaseException | None, progress: _Transfer) -> Failed:
    if isinstance(error, _UnreadableCoding):
        return Failed("encoding", progress.status, 0, sent=True, words=str(error))
    cause, sent = _cause(error, progress)
    while error is not None and cause == "refused":
        if isinstance(error, ssl.SSLError):
            words = getattr(error, "verify_message", "") or error.reason or "no connection by TLS"
            return Failed("tls", None, 0, sent=False, words=words)
        if isinstance(error, socket.gaierror):
            return Failed("unknown_host", None, 0, sent=False, words=error.strerror or "")
        error = error.__cause__ or error.__context__
    return Failed(cause, progress.status, progress.received, sent)


def _cause(error: BaseException | None, progress: _Transfer) -> tuple[str, bool]:
    """The cause of the failure, and whether the server may have received the request."""
    if isinstance(error, httpx2.ConnectTimeout):
        return "connect_timeout", False
    if isinstance(error, httpx2.ConnectError | httpx2.UnsupportedProtocol | httpx2.ProxyError):
        return "refused", False
    if isinstance(error, httpx2.TimeoutException):
        return "timeout", True
    if progress.status is not None:
        return ("truncated" if isinstance(error, httpx2.RemoteProtocolError) else "reset"), True
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError):
        return "disconnected", True
    return "connection", True
