"""A service under games and viewers that come and go: nothing grows, nothing is left over.

``python -m tests.app.soak --seconds 300`` prints what was done, the memory over time, and the sockets,
tasks, files and database connections before and after. The first third is for warming up. The command fails
if memory grows by 5 % or more after that, or if anything is left over.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
from interintent_client import Server

from app.stream.metrics import sockets_open
from tests.app.abuses import settled
from tests.app.real_server import Served, local_settings, running_server

__all__ = ["soaked", "violated"]

PROJECT: Final = Path(__file__).parents[2]

GROWTH: Final = 0.05

SAMPLES: Final = 60
"""How many times the memory is measured during a run."""


def _held(served: Served) -> dict[str, int]:
    """What the service holds now."""
    database = served.services.database
    pools = {database.write_engine.pool, database.read_engine.pool}
    process = psutil.Process()
    # Each of the few threads that read SQLite opens it when it first has something to read: no growth.
    of_database = sum(file.path.partition(".sqlite")[1] != "" for file in process.open_files())
    return {
        "files": process.num_fds() - of_database,
        "sockets": int(sockets_open._value.get()),
        "tasks": len(asyncio.all_tasks()),
        "connections": sum(pool.checkedout() for pool in pools),  # type: ignore[attr-defined]
    }


async def _soak(served: Served, seconds: float, at_once: int) -> dict[str, int]:
    command = ["-m", "tests.app.soaking", served.url, str(seconds), str(at_once)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=PROJECT, stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, "those who play have failed"
    told: dict[str, int] = json.loads(said)
    return told


async def _fill(served: Served, games: int) -> None:
    # A service keeps the last 128 games that were evaluated as they were read: 50 MiB that are no growth.
    async with Server(served.url) as server:
        batch = await server.create_games(count=games)
        await batch.done()
        async for _ in batch.items("guessing", page=200):
            pass


async def soaked(
    seconds: float, at_once: int = 6, database_url: str | None = None, *, kept_games: int = 140
) -> dict[str, Any]:
    """Soaks a service and returns the figures. ``kept_games``: how many games are evaluated before."""
    with tempfile.TemporaryDirectory() as directory:
        url = database_url or f"sqlite:///{Path(directory) / 'games.sqlite'}"
        async with running_server(local_settings(url)) as served:
            if kept_games:
                await _fill(served, kept_games)
            await _soak(served, 1, at_once)
            await settled(served)
            before = _held(served)
            memory: list[float] = []
            soaking = asyncio.create_task(_soak(served, seconds, at_once))
            while not soaking.done():
                await asyncio.wait({soaking}, timeout=seconds / SAMPLES)
                memory.append(psutil.Process().memory_info().rss / 2**20)
            told = await soaking
            await settled(served)
            gc.collect()
            after = _held(served)
            async with asyncio.timeout(200):
                # What idle HTTP connections of those who left hold goes with them, a moment later.
                while any(after[name] > before[name] for name in after):
                    await asyncio.sleep(0.1)
                    after = _held(served)
    third = len(memory) // 3
    warm, end = median(memory[third : third + max(1, third // 2)]), median(memory[-max(1, third // 2) :])
    return {
        "seconds": seconds,
        "at_once": at_once,
        **told,
        "before": before,
        "after": after,
        "memory_mib": [round(one, 1) for one in memory[:: max(1, len(memory) // 12)]],
        "growth": round(end / warm - 1, 4),
    }


def violated(found: dict[str, Any]) -> list[str]:
    """The figures that are not as they must be."""
    wrong = [name for name, count in found["after"].items() if count > found["before"][name]]
    return wrong + ["growth"] * (found["growth"] >= GROWTH) + ["games"] * (not found["games"])


def main() -> int:
    """The command. Exits with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Games and viewers that come and go.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--at-once", type=int, default=6, help="Games at once. [6]")
    parser.add_argument("--database-url", help="Left out: a SQLite file that is gone afterwards.")
    given = parser.parse_args()
    found = asyncio.run(soaked(given.seconds, given.at_once, given.database_url))
    json.dump({**found, "violated": violated(found)}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if violated(found) else 0


if __name__ == "__main__":
    sys.exit(main())
