"""Calls over HTTP: problems become exceptions, and failed calls that are safe to repeat are repeated."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Self

import httpx

from interintent_client.backoff import wait_s
from interintent_client.errors import ApiError, Unreachable
from interintent_client.records import Json, wire

__all__ = ["Http"]

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which a call is repeated later."""

LONGEST_WAIT_S: Final = 120.0
"""The longest `Retry-After` that is waited for: a quota of a day is the caller's business."""

WAIT_S: Final = 50.0
"""Seconds for which the service may hold a request while it makes the answer; proxies cut off at a minute."""

JSON: Final = {"Content-Type": "application/json"}

IN_USE: Final = "idempotency-key-in-use"
"""The code for a call whose earlier attempt is still running; a later attempt gets the answer to that one."""


class Http:
    """The HTTP connection to one server."""

    def __init__(self, url: str, key: str | None, *, tries: int, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self._tries = tries
        self._client = httpx.AsyncClient(timeout=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    def _headers(self, token: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
        credential = token or self.key
        bearer = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        return {**bearer, **(more or {})}

    async def get(
        self, path: str, *, token: str | None = None, timeout_s: float | None = None, **query: Any
    ) -> Any:
        """The JSON answer of a GET call. Raises ApiError or Unreachable."""
        return _json(await self._call("GET", path, token=token, query=query, timeout_s=timeout_s))

    async def made(self, path: str, *, timeout_s: float, **query: Any) -> httpx.Response:
        """An answer that takes the service a while to make. As long as the service answers 202, the call is
        repeated after the pause that ``Retry-After`` gives. Raises ApiError, and Unreachable if the answer is
        not ready within ``timeout_s``.
        """
        ends = time.monotonic() + timeout_s
        while True:
            left = max(ends - time.monotonic(), 1.0)
            waiting = {**query, "wait_s": min(WAIT_S, left)}
            answer = await self._call("GET", path, query=waiting, timeout_s=left)
            if answer.status_code != 202:
                return answer
            wait = answer.headers.get("Retry-After", "")
            pause_s = float(wait) if wait.isdigit() else 1.0
            if time.monotonic() + pause_s > ends:
                raise Unreachable(f"GET {path}: not ready within {timeout_s:g} s: {answer.text}")
            await asyncio.sleep(pause_s)

    async def pages(self, path: str, **query: Any) -> AsyncGenerator[Any]:
        """Every page of a listing, in order."""
        cursor: str | None = None
        while True:
            page = await self.get(path, cursor=cursor, **query)
            yield page
            cursor = page.get("next")
            if cursor is None:
                return

    async def post(
        self,
        path: str,
        body: Json,
        *,
        token: str | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        repeat: bool = True,
    ) -> Any:
        """The JSON answer of a POST call. ``repeat``: whether a second call is harmless. Raises ApiError or
        Unreachable.
        """
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        answer = await self._call(
            "POST", path, token=token, query=query, body=body, headers=headers, repeat=repeat
        )
        return _json(answer)

    async def delete(self, path: str) -> Any:
        """The JSON answer of a DELETE call. Raises ApiError or Unreachable."""
        return _json(await self._call("DELETE", path, repeat=False))

    async def _call(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        query: Mapping[str, Any] | None = None,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        params = {name: value for name, value in (query or {}).items() if value is not None}
        content = None if body is None else wire(body).encode()
        sent = {**self._headers(token, headers), **(JSON if content else {})}
        fault: Exception | None = None
        for failures in range(self._tries if repeat else 1):
            if failures:
                await asyncio.sleep(max(wait_s(failures - 1), _asked_wait_s(fault)))
            try:
                answer = await self._client.request(
                    method,
                    f"{self.url}{path}",
                    params=params,
                    content=content,
                    headers=sent,
                    timeout=self._client.timeout if timeout_s is None else timeout_s,
                )
            except httpx.TransportError as broken:
                fault = broken
                continue
            if answer.is_success:
                return answer
            fault = _problem(answer)
            if answer.status_code not in AGAIN and fault.code != IN_USE:
                raise fault
            if _asked_wait_s(fault) > LONGEST_WAIT_S:
                raise fault
        if isinstance(fault, ApiError) and not repeat:
            raise fault
        raise Unreachable(f"{method} {path}: {fault or 'no answer'}") from fault

    async def lines(self, path: str, *, token: str | None = None, **query: Any) -> AsyncGenerator[bytes]:
        """The lines of an NDJSON answer as they come, each without its newline; blank ones are left out.

        Raises ApiError if the answer is a problem, and httpx.TransportError if the connection breaks, since
        only the caller knows where to continue. A last line without its newline is left out.
        """
        params = {name: value for name, value in query.items() if value is not None}
        # A line may take long, but the server sends a blank one every ten seconds.
        timeout = httpx.Timeout(self._client.timeout.connect, read=60.0)
        async with self._client.stream(
            "GET", f"{self.url}{path}", params=params, headers=self._headers(token), timeout=timeout
        ) as answer:
            if not answer.is_success:
                await answer.aread()
                raise _problem(answer)
            rest = b""
            async for part in answer.aiter_bytes():
                *whole, rest = (rest + part).split(b"\n")
                for line in whole:
                    if line:
                        yield line

    async def unbroken(
        self, path: str, query: Callable[[], Mapping[str, Any]], *, to_the_end: bool = False
    ) -> AsyncGenerator[bytes]:
        """The lines of an NDJSON stream, over as many calls as it takes. ``query`` returns the parameters of
        the next call, which say where to continue.

        Whenever an answer ends, another call is made, until the reader leaves. With ``to_the_end``, the first
        complete answer ends the stream. Raises ApiError, and Unreachable after too many failures.
        """
        failures = 0
        while True:
            why: Exception | None = None
            try:
                async with aclosing(self.lines(path, **query())) as lines:
                    async for line in lines:
                        failures = 0
                        yield line
                if to_the_end:
                    return
            except httpx.TransportError as broken:
                why = broken
            except ApiError as refused:
                if refused.status not in AGAIN or _asked_wait_s(refused) > LONGEST_WAIT_S:
                    raise
                why = refused
            failures += 1
            if failures >= self._tries:
                raise Unreachable(f"GET {path}: {why or 'the server keeps ending its answer'}") from why
            await asyncio.sleep(max(wait_s(failures - 1), _asked_wait_s(why)))


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError as fault:
        call = f"{answer.request.method} {answer.request.url}"
        raise Unreachable(f"{call}: the answer is not JSON; is the address that of a server?") from fault


def _problem(answer: httpx.Response) -> ApiError:
    try:
        problem = json.loads(answer.content)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    problem.setdefault("detail", answer.reason_phrase)
    wait = answer.headers.get("Retry-After", "")
    return ApiError(
        answer.status_code, {**problem, **({"retry_after_s": int(wait)} if wait.isdigit() else {})}
    )


def _asked_wait_s(fault: Exception | None) -> float:
    return float(fault.problem.get("retry_after_s", 0)) if isinstance(fault, ApiError) else 0.0
