"""A flood of messages from many sockets while games are played.

``python -m tests.app.flood --seconds 60`` prints what the flood sent, how its connections ended, and what a
bot and a watcher of the same service noticed: it should be nothing. It fails if a stream differs, a default
was played, the service has died, or something is left over.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from interintent_client import Game, Server

from engine.terms import PUBLIC
from tests.app.abuses import settled
from tests.app.calling import WITHIN_S
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import projection

__all__ = ["flooded"]

PROJECT: Final = Path(__file__).parents[2]

SEATS: Final = [{"agent": "remote"}, *[{"agent": "random"}] * 4]


@dataclass
class Seen:
    """What the bot and the watcher saw."""

    games: int = 0
    wrong_streams: int = 0
    defaults: int = 0
    waits_ms: list[float] = field(default_factory=list)


async def _watched(game: Game) -> list[Any]:
    return [event.raw async for event in game.events(viewer="public")]


async def _play(served: Served, server: Server, seen: Seen) -> None:
    game = (await server.create_games(seats=SEATS)).games[0]
    watching = asyncio.create_task(_watched(game))
    async with game.seat(1) as seat:
        async for request in seat:
            began = time.monotonic()
            await seat.act(request, request.legal[0] if request.legal else request.default)
            seen.waits_ms.append(1000 * (time.monotonic() - began))
    watched = await asyncio.wait_for(watching, 200)
    seen.games += 1
    seen.defaults += sum(event.type in ("action_defaulted", "action_refused") for event in seat.events)
    seen.wrong_streams += [event.raw for event in seat.events] != await projection(
        served.services, game.id, 1
    )
    seen.wrong_streams += watched != await projection(served.services, game.id, PUBLIC)


async def flooded(seconds: float, sockets: int = 60) -> dict[str, Any]:
    """Floods a service while games are played on it. Returns the figures."""
    me = psutil.Process()
    with tempfile.TemporaryDirectory() as directory:
        settings = local_settings(f"sqlite:///{Path(directory) / 'games.sqlite'}", identify_within_s=100)
        async with running_server(settings) as served, Server(served.url) as server:
            quiet = Seen()
            for _ in range(2):
                await _play(served, server, quiet)
            target = (await server.create_games(seats=[{"agent": "scripted"}])).games[0]
            await server.batch((await target.view())["batch_id"]).done()
            files, memory = me.num_fds(), me.memory_info().rss
            command = ["-m", "tests.app.flooding", served.ws_url, target.id, str(seconds), str(sockets)]
            flood = await asyncio.create_subprocess_exec(
                sys.executable, *command, cwd=PROJECT, stdout=asyncio.subprocess.PIPE
            )
            said = asyncio.create_task(flood.communicate())
            try:
                seen = Seen()
                while not said.done():
                    await _play(served, server, seen)
                told = json.loads((await said)[0])
            finally:
                with contextlib.suppress(ProcessLookupError):
                    flood.kill()
            left = await settled(served)
            async with httpx.AsyncClient(timeout=WITHIN_S) as client:
                serves = (await client.get(f"{served.url}/livez")).status_code == 200
            return {
                "seconds": seconds,
                "sockets": sockets,
                "messages": told.pop("messages", 0),
                "connections": told.pop("connections", 0),
                "ended": told,
                "games": seen.games,
                "wrong_streams": seen.wrong_streams,
                "defaults": seen.defaults,
                "answer_ms": _spread(seen.waits_ms),
                "answer_ms_before": _spread(quiet.waits_ms),
                "left_over": left,
                "more_open_files": me.num_fds() - files,
                "memory_mib": [round(memory / 2**20), round(me.memory_info().rss / 2**20)],
                "still_serves": serves,
                "exit": flood.returncode,
            }


def _spread(waits: list[float]) -> dict[str, float]:
    ranks = statistics.quantiles(waits, n=100) if len(waits) > 1 else [*waits] * 99
    return {"p50": round(ranks[49], 1), "p99": round(ranks[98], 1), "most": round(max(waits), 1)}


def violated(found: dict[str, Any]) -> list[str]:
    """The figures that break a bound."""
    none = ("wrong_streams", "defaults", "left_over", "exit")
    wrong = [name for name in none if found[name]]
    wrong += [name for name in ("games", "still_serves", "messages") if not found[name]]
    return wrong + ["more_open_files"] * (found["more_open_files"] >= 20)


def main() -> int:
    """The command. Exits with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="A flood from many sockets.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--sockets", type=int, default=60)
    given = parser.parse_args()
    found = asyncio.run(flooded(given.seconds, given.sockets))
    json.dump({**found, "violated": violated(found)}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if violated(found) else 0


if __name__ == "__main__":
    sys.exit(main())
