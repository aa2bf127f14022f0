"""HTTP through the ``openai`` client. The import takes half a second: only games with models need it."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import openai

from agents.model.answer import Failed, HttpAnswer
from agents.model.model import Endpoint

__all__ = ["Wire"]

_CONNECT_S: Final = 10.0
_KEEPALIVE_S: Final = 30.0


@dataclass(slots=True)
class _Transfer:
    """How much of the response this task has received."""

    status: int | None = None
    received: int = 0


class _TooLarge(Exception):
    """The body is longer than ``max_bytes``."""


_progress: ContextVar[_Transfer] = ContextVar("progress")


class _BoundedClient(httpx2.AsyncClient):
    """Reads every response to its end, or up to ``max_bytes`` after decompression.

    Each request in flight uses a client with a single connection. A client with many connections checks all
    of them for every request: with hundreds in flight that would be most of a request's cost.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        tls = httpx2.create_ssl_context()
        connect = min(_CONNECT_S, endpoint.timeout_s)
        super().__init__(verify=tls, timeout=httpx2.Timeout(None, connect=connect), trust_env=False)
        self._tls = tls
        self._max_bytes = endpoint.max_bytes
        # The proxy of the environment is not for loopback addresses.
        self._use_proxy = not _is_loopback(urlsplit(endpoint.base_url).hostname or "")
        self._connections: list[httpx2.AsyncClient] = []
        self._free: list[httpx2.AsyncClient] = []

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """The response, body included. Redirects are not followed."""
        # Take the connection used last, so that idle ones expire.
        connection = self._free.pop() if self._free else self._new_connection()
        try:
            return await self._read(await connection.send(request, stream=True, follow_redirects=False))
        finally:
            self._free.append(connection)

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
        progress = _progress.get()
        progress.status = response.status_code
        body = bytearray()
        try:
            async for block in response.aiter_bytes():
                body += block
                progress.received = len(body)
                if len(body) > self._max_bytes:
                    raise _TooLarge
        finally:
            await response.aclose()
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(body), request=response.request
        )


class Wire:
    """A long-lived connection to one endpoint. It retries nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        # The client would take these from the environment, where they name an account elsewhere.
        unused: dict[str, Any] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        self._options: dict[str, Any] = {}
        if not endpoint.api_key:
            self._options["headers"] = {"Authorization": openai.Omit()}
        self._openai = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=_BoundedClient(endpoint),
            default_headers={**unused, **endpoint.extra_headers},
        )

    async def post(self, body: dict[str, Any], timeout_s: float) -> HttpAnswer | Failed:
        """Sends a chat-completions request. Returns within ``timeout_s``, whatever the server does."""
        progress = _Transfer()
        _progress.set(progress)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._openai.post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    body=body,
                    options=cast(Any, self._options),
                )
        except TimeoutError:
            return Failed("timeout", progress.status, progress.received, sent=True)
        except _TooLarge:
            return Failed("too_large", progress.status, progress.received, sent=True)
        except openai.APIStatusError as error:
            response = error.response
        except openai.APIConnectionError as error:
            cause, sent = _cause(error.__cause__, progress)
            return Failed(cause, progress.status, progress.received, sent)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpAnswer(response.status_code, headers, response.content)

    async def aclose(self) -> None:
        """Closes every connection; nothing can be sent afterwards."""
        await self._openai.close()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
