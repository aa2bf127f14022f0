"""The baseline: a bare ASGI application on uvicorn that sends prepared text to every socket.

The same server, loop and settings as the service's, and nothing else: no log, no credentials, no viewers.
``/N`` joins group N. Run by ``bench.watchers``.
"""

import asyncio
import sys
from typing import Any

import uvicorn

from app.serving.server import PING_S, listen, new_loop
from bench.errands import answer, errands
from bench.steps import broadcast_frames

groups: dict[str, set[Any]] = {}


async def application(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "websocket"
    await receive()
    await send({"type": "websocket.accept"})
    group = groups.setdefault(scope["path"], set())
    group.add(send)
    try:
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        group.discard(send)


async def broadcast(group: str, frames: list[str]) -> None:
    for frame in frames:
        for send in tuple(groups.get(group, ())):
            await send({"type": "websocket.send", "text": frame})
        await asyncio.sleep(0)


def bare_config(application: Any) -> uvicorn.Config:
    """The settings of a bare server: our settings for sockets, and nothing else."""
    return uvicorn.Config(
        application,
        lifespan="off",
        access_log=False,
        log_config=None,
        backlog=2048,
        ws="websockets-sansio",
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
    )


async def main(frames: list[str]) -> None:
    config = bare_config(application)
    sockets = listen("127.0.0.1", 0)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets))
    answer(sockets[0].getsockname()[1])
    async for errand in errands():
        await asyncio.gather(
            *(broadcast(f"/{n}", frames[: errand["events"]]) for n in range(errand["groups"]))
        )
        answer("sent")
    server.should_exit = True
    await serving


if __name__ == "__main__":
    prepared = broadcast_frames(int(sys.argv[1]))
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(prepared))
