"""Rows of a database full of games: how long a process takes to start on it, a page of its games, and the
search for open work. ``python -m bench.crowd`` prints them.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import psutil

from app.games.schemas import NewGames
from app.main import create_app
from app.settings import Settings
from app.store.db import Database
from app.store.games import GameStore
from app.store.sizes import table_bytes
from bench.row import Row

__all__ = ["crowd_rows"]

GAMES = 10_000
A_BATCH = 500
PAGES = 40
LOOKS = 50

REMOTE = [{"agent": "remote"}, *[{"agent": "random"}] * 4]
"""A game of these waits for an answer that nobody gives."""


async def _lay(url: str, count: int) -> None:
    app = create_app(Settings(_env_file=None, DATABASE_URL=url, runner=False))
    async with app.router.lifespan_context(app):
        for first in range(0, count, A_BATCH):
            order = {"count": min(A_BATCH, count - first), "seats": REMOTE}
            await app.state.games.create(NewGames.model_validate(order))
            while (made := await app.state.composition.store.unlaid_batches()) and made:
                await app.state.games.lay_out(made[0])


async def _looked(url: str) -> float:
    """Milliseconds of a search for open work."""
    database = Database(Settings(_env_file=None, DATABASE_URL=url))
    store = GameStore(database)
    await store.open_batches()
    started = time.process_time()
    for _ in range(LOOKS):
        assert await store.open_batches()
    took = time.process_time() - started
    sizes = await table_bytes(database)
    assert sizes["games"] > 0
    await database.stop()
    return took / LOOKS * 1000


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def _served(url: str) -> tuple[float, float]:
    """CPU-seconds from the start of a process until it is ready, and CPU-milliseconds of a page of 100."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--database-url", url, "--no-runner"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            address = next(line for line in service.stderr if "http://" in line).partition("http://")[2]
            host, _, port = address.split()[0].partition(":")
            process = psutil.Process(service.pid)

            def get(path: str) -> bytes:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == 200, body
                return body

            connection = HTTPConnection(host, int(port))
            get("/readyz")
            ready = _cpu(process)
            for _ in range(5):
                get("/games?limit=100")
            before = _cpu(process)
            for _ in range(PAGES):
                assert len(json.loads(get("/games?limit=100"))["games"]) == 100
            page = (_cpu(process) - before) / PAGES * 1000
            connection.close()
        finally:
            with suppress(ProcessLookupError):
                service.terminate()
    return ready, page


def crowd_rows(scale: float) -> list[Row]:
    """The rows, with a database of ten thousand unfinished games at full scale."""
    count = max(500, int(GAMES * scale))
    with tempfile.TemporaryDirectory() as folder:
        many, few = (f"sqlite:///{Path(folder, name)}" for name in ("many.sqlite", "few.sqlite"))
        asyncio.run(_lay(many, count))
        asyncio.run(_lay(few, count // 10))
        ready, page = _served(many)
        look, look_few = asyncio.run(_looked(many)), asyncio.run(_looked(few))
    return [
        Row(f"start to /readyz, {count:,} unfinished games", ready, "CPU-s", aim="≤ 3"),
        Row(f"a page of 100 of {count:,} games", page, "CPU-ms", aim="≤ 5"),
        Row(
            f"search for open work, {count:,} games",
            look,
            "CPU-ms",
            baseline=f"{look_few:.2f} CPU-ms with a tenth of them",
            ratio=look / look_few,
        ),
    ]


def main() -> None:
    from bench.__main__ import show

    parser = argparse.ArgumentParser(
        prog="bench.crowd", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=GAMES, help=f"unfinished games, 500 or more ({GAMES:,})")
    show(crowd_rows(parser.parse_args().games / GAMES))


if __name__ == "__main__":
    main()
