"""The application: routes, errors, the door, and what lives as long as it does."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import metrics, pages, problems, reference
from app.deps import known_query
from app.door import Door
from app.evaluations.routes import router as evaluations_router
from app.games.routes import router as games_router
from app.games.tokens import router as tokens_router
from app.headers import SecurityHeaders
from app.play.routes import router as seats_router
from app.play.socket import router as socket_router
from app.services import Services
from app.settings import Settings

__all__ = ["create_app"]

DESCRIPTION = """\
Plays Avalon with intentions, stores every game as a log of events, and shows each viewer what it may
see. `POST /games` with `{}` is a whole game. Errors are problems (RFC 9457). A query parameter is one that
the route names here, and is given once; where it takes several values, commas separate them.

Seats can be played over HTTP or over the socket at `/ws`, whose messages `/asyncapi.json` describes;
`/docs/bots.md` tells how to write a bot.
"""


class Service(FastAPI):
    """FastAPI with its document, and two more layers around its own outermost one, which answers what
    broke with 500.
    """

    def build_middleware_stack(self) -> ASGIApp:
        return SecurityHeaders(Timed(super().build_middleware_stack()))

    def openapi(self) -> dict[str, Any]:
        """What routes and models say, made once."""
        if self.openapi_schema is None:
            problems.define(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """The name of an operation in the document and in clients made from it: its function's."""
    return route.name


def create_app(settings: Settings | None = None) -> FastAPI:
    """One service. Without settings: those of the environment."""
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services = Services(settings)
        app.state.services = services
        await services.start()
        try:
            yield
        finally:
            await services.stop()

    app = Service(
        title="InterIntent Server",
        version=version("interintent-server"),
        description=DESCRIPTION,
        lifespan=lifespan,
        # Served by routes below, whose queries are checked like any other's.
        openapi_url=None,
        dependencies=[Depends(known_query)],
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        responses=problems.documented(),
    )
    problems.install(app)
    app.include_router(games_router, tags=["games"])
    app.include_router(tokens_router, tags=["tokens"])
    app.include_router(evaluations_router, tags=["evaluations"])
    app.include_router(seats_router, tags=["seats"])
    app.include_router(reference.router, tags=["reference"])
    app.include_router(pages.router, tags=["pages"])
    app.include_router(socket_router, tags=["seats"])
    app.add_middleware(Door, keyless=lambda: not app.state.services.keys.configured, origins=settings.origins)
    return app


class Timed:
    """Observes how long a response took to begin, by route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "-")
                method = metrics.method_label(scope["method"])
                metrics.requests.labels(method, route, str(message["status"])).observe(
                    time.perf_counter() - started
                )
            await send(message)

        await self._app(scope, receive, observed)
