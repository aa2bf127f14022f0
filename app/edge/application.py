"""The application around its routes: FastAPI with our document, an id and a time for each request, and what
it answers before the service has started, or while the database is away.
"""

import re
import secrets
import time
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import structlog
from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.routing import APIRoute
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.base import metrics, problems
from app.base.errors import NotReady
from app.base.lifecycle import Lifecycle
from app.base.problems import problem_response
from app.edge.headers import SecurityHeaders
from app.store.trouble import DatabaseAway, trouble_of

__all__ = ["DATABASE_ERRORS", "Service", "on_database_error", "operation_id"]

log = structlog.get_logger()

OUR_ID: Final = re.compile(r"[a-z]_[a-z0-9]{20}")
"""The id of a game, a batch, an evaluation or a bot."""

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9-]{8,64}")
"""An id of a request that is taken over from a proxy."""

DATABASE_ERRORS: Final = (
    DBAPIError,
    PoolTimeout,
    DatabaseAway,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class Service(FastAPI):
    """FastAPI with our OpenAPI document, and with two layers around its own outermost one, which answers
    unexpected errors with 500.
    """

    access_log = False
    """Whether a line is logged for each request."""

    def build_middleware_stack(self) -> ASGIApp:
        stack = NotBefore(super().build_middleware_stack(), self.state)
        return SecurityHeaders(Timed(stack, access_log=self.access_log))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of routes and models, made once."""
        if self.openapi_schema is None:
            problems.define(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """The operation's name in the document and in generated clients: that of its function."""
    return route.name


class Timed:
    """Records the time to the first byte of each response, by route. Gives each request an id, which is in
    every line that is logged for it: the one that a proxy sends as X-Request-Id, or a new one.
    """

    def __init__(self, app: ASGIApp, *, access_log: bool) -> None:
        self._app = app
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "-")
                method = metrics.method_label(scope["method"])
                seconds = time.perf_counter() - started
                # Whoever tries all methods on all routes makes no more series than one method does.
                taken = "other" if message["status"] == 405 else method
                metrics.requests.labels(taken, route, str(message["status"])).observe(seconds)
                if self._access_log:
                    # The route's template and our ids: a path may hold anything, a credential included.
                    ids = {
                        name.removesuffix("_id"): value
                        for name, value in scope.get("path_params", {}).items()
                        if OUR_ID.fullmatch(str(value))
                    }
                    log.info(
                        "request",
                        method=method,
                        route=route,
                        status=message["status"],
                        seconds=round(seconds, 4),
                        **ids,
                    )
            await send(message)

        with structlog.contextvars.bound_contextvars(request=_request_id(scope)):
            await self._app(scope, receive, observed)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return secrets.token_hex(8)


class NotBefore:
    """Answers 503 with the reason until the service has started, but always answers ``/livez`` and
    ``/readyz``.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lifecycle: Lifecycle | None = getattr(self._state, "lifecycle", None)
        waits = lifecycle is not None and not (lifecycle.ready or lifecycle.draining)
        if not waits or scope["type"] == "lifespan" or scope["path"] in ("/livez", "/readyz"):
            await self._app(scope, receive, send)
            return
        assert lifecycle is not None
        refusal = problem_response(NotReady(lifecycle.reason))
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(refusal)
        else:
            await refusal(scope, receive, send)


async def on_database_error(request: Request, error: Exception) -> Response:
    """The answer when the database could not be used. Raises an error that is ours."""
    trouble = trouble_of(error)
    if trouble is None:
        raise error
    return problem_response(NotReady(trouble.words))
