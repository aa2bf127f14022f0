"""Games, viewers and raters that come and go: the clients of ``tests.app.soak``, in a process of their own.

``python -m tests.app.soaking URL SECONDS AT_ONCE`` prints what was done.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter

from interintent_client import Rater, Server

__all__ = ["soak"]

SEATS = [{"agent": "remote"}, *[{"agent": "random"}] * 4]


async def _play(server: Server, chance: random.Random, told: Counter[str]) -> None:
    """One game with a bot, a watcher to the end, one that leaves early, a page of items and a report."""
    batch = await server.create_games(seats=SEATS, labels={"of": "soak"})
    game = batch.games[0]

    async def watch(events: int | None) -> None:
        async for event in game.events(viewer="public"):
            told["events"] += 1
            if events is not None and event.seq >= events:
                return

    watching = [asyncio.create_task(watch(None)), asyncio.create_task(watch(chance.randrange(2, 9)))]
    async with game.seat(1) as seat:
        async for request in seat:
            await seat.act(request, chance.choice(request.legal) if request.legal else request.default)
            told["answers"] += 1
    await asyncio.gather(*watching)
    told["games"] += 1
    if told["games"] % 5 == 0:
        scripted = await server.create_games(count=2)
        await scripted.done()
        items = [item async for item in scripted.items("guessing")]
        await server.submit("guessing", Rater("soak"), [item.answer([item.options[0].id]) for item in items])
        async for _ in scripted.export("full"):
            told["exported"] += 1
        told["games"] += 2


async def soak(url: str, seconds: float, at_once: int) -> Counter[str]:
    """Plays for this many seconds."""
    told: Counter[str] = Counter()
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < until:
            # A connection pool of its own, as another program would have.
            async with Server(url) as server:
                await _play(server, chance, told)

    await asyncio.gather(*(one(number) for number in range(at_once)))
    return told


if __name__ == "__main__":
    found = asyncio.run(soak(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
    json.dump(dict(sorted(found.items())), sys.stdout)
