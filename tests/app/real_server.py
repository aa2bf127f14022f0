"""The real server on a real port, in the test's own event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from app.main import Composition, create_app
from app.serving.server import Server, listen
from app.settings import Settings

WITHIN_S = 30.0
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
    """Settings for a test: no ``.env`` file, and a free port."""
    return Settings(_env_file=None, DATABASE_URL=database_url, **{"port": 0, "drain_s": 1, **more})


@contextlib.asynccontextmanager
async def running_server(settings: Settings) -> AsyncIterator[Served]:
    """Serves while the block lasts. If the server fails, its error is raised at the end of the block."""
    app = create_app(settings)
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
