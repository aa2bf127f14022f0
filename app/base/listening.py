"""Stops a listening server without asyncio's race, which leaves connections half set up."""

import asyncio
from typing import Final

__all__ = ["stop_listening"]

_TURNS: Final = 3
"""After this many iterations of the loop, every accepted connection has its protocol and its handler."""


async def stop_listening(server: asyncio.Server) -> None:
    """Stops accepting connections; open ones continue. Does nothing if the server was stopped before.

    ``close`` alone breaks a connection that the loop accepted in the same iteration: asyncio finds the server
    closed when it attaches the connection, and drops the connection half set up, with a ResourceWarning at
    some later garbage collection (seen with Python 3.11; uvloop serves the connection).
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
