"""What a worker tells those who look after it: whether it lives, whether it can work, and its metrics. It
answers in the loop that drives the games, so a loop that hangs does not answer.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.base.errors import NotFound, NotReady
from app.base.lifecycle import Lifecycle
from app.base.metrics import REGISTRY
from app.base.problems import problem_response
from app.serving.http_limits import HttpProtocol
from app.serving.server import listen
from app.store.db import Database
from app.store.gauges import count_connections

__all__ = ["answering_probes"]


class _Probes:
    """The application behind the port."""

    def __init__(self, lifecycle: Lifecycle, database: Database) -> None:
        self._lifecycle = lifecycle
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope["path"])
        await answer(scope, receive, send)

    async def _answer(self, path: str) -> Response:
        if path == "/livez":
            return JSONResponse({"status": "alive"})
        if path == "/readyz":
            if not self._lifecycle.ready:
                return problem_response(NotReady(self._lifecycle.reason))
            if (trouble := await self._database.trouble()) is not None:
                return problem_response(NotReady(trouble.words))
            return JSONResponse({"status": "ready"})
        if path == "/metrics":
            count_connections(self._database)
            return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
        return problem_response(NotFound("a worker has /livez, /readyz and /metrics"))


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def answering_probes(
    host: str, port: int, lifecycle: Lifecycle, database: Database
) -> AsyncIterator[None]:
    """Answers ``/livez``, ``/readyz`` and ``/metrics`` while the block lasts, to everybody who reaches the
    port. Raises CannotServe.
    """
    sockets: list[socket.socket] = listen(host, port)
    server = _Server(
        uvicorn.Config(
            _Probes(lifecycle, database),
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            http=HttpProtocol,
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )
    serving = asyncio.create_task(server.serve(sockets), name="probes")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
        for sock in sockets:
            sock.close()
