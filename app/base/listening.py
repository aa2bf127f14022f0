"""How to stop listening: asyncio's own way leaves connections half made."""

import asyncio
from typing import Final

__all__ = ["stop_listening"]

_TURNS: Final = 3
"""Of the loop, until what was accepted is a connection, known to its protocol, its handler begun."""


async def stop_listening(server: asyncio.Server) -> None:
    """Takes no more connections; those that were taken go on. Does nothing where that was so already.

    ``close`` alone breaks a connection that the loop accepted in the same turn: asyncio is about to attach
    it to the server, finds that closed, and drops it half made, with a ResourceWarning whenever the garbage
    is collected (seen with Python 3.11; uvloop serves it).
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
