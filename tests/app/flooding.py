"""Many sockets that send as much as they can: the flood of ``tests.app.flood``, in a process of its own.

``python -m tests.app.flooding URL GAME SECONDS SOCKETS`` prints what was sent and how connections ended.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

__all__ = ["KINDS"]

AT_ONCE: Final = 50
"""Messages that a flooder sends before it checks whether it is still connected."""

PING: Final = '{"t":"ping","id":"x"}'
ACT: Final = '{"t":"act","id":"x","request_id":"1.1.vote.1","action":{"approve":true}}'


class Flooder:
    """One flooder, which reconnects as soon as it is disconnected."""

    def __init__(self, game: str, told: Counter[str]) -> None:
        self._game = game
        self._told = told

    async def pings(self, socket: ClientConnection) -> None:
        """Valid pings, far too many of them."""
        await self._identify(socket)
        await self._say(socket, PING)

    async def acts(self, socket: ClientConnection) -> None:
        """Answers to a request that is not its own."""
        await self._identify(socket)
        await self._say(socket, ACT)

    async def garbage(self, socket: ClientConnection) -> None:
        """Messages that cannot be read."""
        await self._identify(socket)
        await self._say(socket, "{" * 2000)

    async def large(self, socket: ClientConnection) -> None:
        """A message above the size limit."""
        await self._identify(socket)
        await self._say(socket, "x" * 40_000)

    async def strangers(self, socket: ClientConnection) -> None:
        """An unknown token, again and again."""
        await self._identify(socket, token="eyJhbGciOiJIUzI1NiJ9.e30.x")
        await self._say(socket, PING)

    async def idle(self, socket: ClientConnection) -> None:
        """Watches a game from the start, reads nothing, and leaves."""
        await self._identify(socket)
        await asyncio.sleep(0.2)
        socket.transport.abort()

    async def _identify(self, socket: ClientConnection, **more: str) -> None:
        await socket.send(
            json.dumps({"t": "identify", "v": 1, "game": self._game, "viewer": "public", **more})
        )

    async def _say(self, socket: ClientConnection, text: str) -> None:
        while True:
            for _ in range(AT_ONCE):
                await socket.send(text)
                self._told["messages"] += 1
            await asyncio.sleep(0)


KINDS: Final[Mapping[str, Callable[[Flooder, ClientConnection], Awaitable[None]]]] = {
    "pings": Flooder.pings,
    "acts": Flooder.acts,
    "garbage": Flooder.garbage,
    "large": Flooder.large,
    "strangers": Flooder.strangers,
    "idle": Flooder.idle,
}


LISTEN: Final = frozenset({"pings", "garbage", "large", "strangers"})
"""Flooders that read what they are sent; the others do not notice that they were disconnected."""


async def _flood(url: str, flooder: Flooder, kind: str, until: float, told: Counter[str]) -> None:
    # Whoever notices its end comes to it once, however slow the machine.
    is_due = kind in LISTEN
    while is_due or time.monotonic() < until:
        try:
            async with (
                asyncio.timeout(None if is_due else max(0.1, until - time.monotonic())),
                connect(
                    url,
                    max_queue=None if kind in LISTEN else 16,
                    subprotocols=["avalon.v1"],
                    compression=None,
                    close_timeout=1,
                ) as socket,  # type: ignore[list-item]
            ):
                told["connections"] += 1
                try:
                    await KINDS[kind](flooder, socket)
                except ConnectionClosed:
                    pass
                finally:
                    with contextlib.suppress(ConnectionClosed, TimeoutError):
                        await asyncio.wait_for(socket.wait_closed(), 1)
                    told[f"{kind} {socket.close_code}"] += 1
                    is_due = False
        except (OSError, InvalidHandshake, TimeoutError) as refused:
            told[f"{kind} {type(refused).__name__}"] += 1
            await asyncio.sleep(0.02)


async def flood(url: str, game: str, seconds: float, sockets: int) -> Counter[str]:
    """Floods for this many seconds from this many sockets, with every kind of flooder in turn."""
    told: Counter[str] = Counter()
    until = time.monotonic() + seconds
    kinds = list(KINDS)
    await asyncio.gather(
        *(_flood(url, Flooder(game, told), kinds[n % len(kinds)], until, told) for n in range(sockets))
    )
    return told


if __name__ == "__main__":
    found = asyncio.run(flood(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
    json.dump(dict(sorted(found.items())), sys.stdout)
