"""One HTTP request through the ``openai`` client: what came of it, in one of three words."""

import asyncio
import json
import math
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from agents.llm.endpoint import Endpoint

if TYPE_CHECKING:
    pass

__all__ = ["Answered", "Failed", "Wire", "retry_after"]

_CONNECT_S: Final = 10.0
_KEEPALIVE_S: Final = 30.0


@dataclass(slots=True)
class Answered:
    """A whole response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(slots=True)
class Failed:
    """No whole response."""

    cause: str
    """timeout, refused, disconnected, reset, too_large, truncated, connection"""
    status: int | None
    """Of the response that began."""
    received: int
    """Bytes of its body."""
    sent: bool
    """The server may have got the request, and charge for it."""


@dataclass(slots=True)
class _Progress:
    """How far the request of this task came."""

    status: int | None = None
    received: int = 0


class _TooLarge(Exception):
    """The body is longer than it may be."""


_progress: ContextVar[_Progress] = ContextVar("progress")


class Wire:
    """A long-lived client for one endpoint. It retries nothing and follows no redirects."""

    def __init__(self, endpoint: Endpoint) -> None:
        # Half a second of imports, which only those pay who play with models.
        import httpx2
        import openai

        class BoundedClient(httpx2.AsyncClient):
            """Reads every response to its end, or up to ``max_bytes`` after decompression."""

            async def send(
                self, request: httpx2.Request, *, stream: bool = False, **options: Any
            ) -> httpx2.Response:
                progress = _progress.get()
                response = await super().send(request, stream=True, **options)
                progress.status = response.status_code
                body = bytearray()
                try:
                    async for block in response.aiter_bytes():
                        body += block
                        progress.received = len(body)
                        if len(body) > endpoint.max_bytes:
                            raise _TooLarge
                finally:
                    await response.aclose()
                headers = [
                    (name, value)
                    for name, value in response.headers.multi_items()
                    if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
                ]
                return httpx2.Response(
                    response.status_code, headers=headers, content=bytes(body), request=request
                )

        host = urlsplit(endpoint.base_url).hostname or ""
        self._http = BoundedClient(
            timeout=httpx2.Timeout(None, connect=min(_CONNECT_S, endpoint.timeout_s)),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=endpoint.parallel,
                keepalive_expiry=_KEEPALIVE_S,
            ),
            follow_redirects=False,
            # A proxy of the environment is for what lies outside.
            trust_env=not _is_loopback(host),
        )
        unused: dict[str, Any] = {
            # Not ours to tell: these come from the environment and name an account elsewhere.
            "OpenAI-Organization": openai.Omit(),
            "OpenAI-Project": openai.Omit(),
        }
        self._openai = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=self._http,
            default_headers={**unused, **endpoint.extra_headers},
        )
        self._options: dict[str, Any] = {}
        if not endpoint.api_key:
            self._options["headers"] = {"Authorization": openai.Omit()}
        self._response: type[httpx2.Response] = httpx2.Response
        self._connection_error = openai.APIConnectionError
        self._status_error = openai.APIStatusError

    async def post(self, body: dict[str, Any], timeout_s: float) -> Answered | Failed:
        """Sends a chat-completions request. It ends within ``timeout_s``, whatever the server does."""
        progress = _Progress()
        _progress.set(progress)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._openai.post(
                    "/chat/completions",
                    cast_to=self._response,
                    body=body,
                    options=cast(Any, self._options),
                )
        except TimeoutError:
            return Failed("timeout", progress.status, progress.received, sent=True)
        except _TooLarge:
            return Failed("too_large", progress.status, progress.received, sent=True)
        except self._status_error as error:
            response = error.response
        except self._connection_error as error:
            cause, sent = _cause(error.__cause__, progress)
            return Failed(cause, progress.status, progress.received, sent)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answered(response.status_code, headers, response.content)

    async def aclose(self) -> None:
        """Closes every connection; nothing can be sent after."""
        await self._openai.close()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _cause(error: BaseException | None, progress: _Progress) -> tuple[str, bool]:
    """A word for what happened to the connection, and whether the server may have got the request."""
    import httpx2

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


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait: milliseconds, seconds or a date. None: it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "").strip()
        if not said:
            continue
        try:
            seconds = float(said) * unit
        except ValueError:
            try:
                until = parsedate_to_datetime(said)
            except ValueError:
                continue
            if until.tzinfo is None:
                until = until.replace(tzinfo=UTC)
            seconds = (until - (now or datetime.now(UTC))).total_seconds()
        if math.isfinite(seconds):
            return max(0.0, seconds)
        if seconds > 0:
            return seconds
    return None


def body_of(answered: Answered) -> Any:
    """The JSON of an error's body; None where it is none."""
    try:
        return json.loads(answered.body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
