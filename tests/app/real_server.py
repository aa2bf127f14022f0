"""The real server on a real port, in the test's own event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute

from app.main import Composition, create_app
from app.serving.server import Server, listen
from app.settings import Settings
from tests.laying_out import lay_out

WITHIN_S = 200.0
"""The longest that a test waits for a healthy server."""


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    app: FastAPI
    server: Server

    @property
    def services(self) -> Composition:
        """The parts of the service, for checks that no client can make."""
        services: Composition = self.app.state.composition
        return services

    @property
    def ws_url(self) -> str:
        return f"{self.url.replace('http://', 'ws://')}/ws"


def local_settings(database_url: str, **more: Any) -> Settings:
    """Settings for a test: no ``.env`` file, a free port, and no quota of requests: machines differ."""
    usual = {"port": 0, "drain_s": 1, "quotas": {"requests": None}}
    return Settings(_env_file=None, DATABASE_URL=database_url, **{**usual, **more})


_routes: dict[int, BaseRoute] = {}
"""What FastAPI made of each of our routers (by its identity) for the first service of this process."""


def application(settings: Settings) -> FastAPI:
    """The service, which shares its routes with all others that this process makes. FastAPI builds them at
    the first request, from nothing but our routers; that takes longer than most tests.
    """
    app = create_app(settings)
    app.router.routes = [
        _routes.setdefault(id(route.original_router), route) if hasattr(route, "original_router") else route
        for route in app.router.routes
    ]
    return app


@contextlib.asynccontextmanager
async def running_server(settings: Settings) -> AsyncIterator[Served]:
    """Serves while the block lasts. If the server fails, its error is raised at the end of the block."""
    lay_out(settings.database_url)
    app = application(settings)
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = Server(app, settings, bound.set_result)
    serving = asyncio.create_task(server.serve(listen(settings.host, settings.port)), name="server")
    try:
        await asyncio.wait({serving, bound}, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield Served(bound.result(), app, server)
    finally:
        server.stop()
        await asyncio.wait_for(serving, WITHIN_S)
