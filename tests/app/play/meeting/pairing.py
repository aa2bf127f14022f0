"""Seekers at one or two processes that are killed again and again: is each seek paired once, with a game?

``python -m tests.app.play.meeting.pairing --seeks 1000 --kills 20`` runs it on PostgreSQL with two processes.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select

from app.base.clock import now_ms
from app.edge.auth import hash_of, new_key
from app.store.db import Database
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from app.store.tables import events, game_players, games, seeks
from tests.app.calling import Process
from tests.app.real_server import local_settings
from tests.laying_out import lay_out
from tests.postgres import PostgresServer, fresh_database

OWNERS = 20


@dataclass
class Pairings:
    """What came of it."""

    seeks: int = 0
    """Acknowledged."""
    games: int = 0
    kills: int = 0
    retries: int = 0
    """Requests that a kill cut off, or that met a process on its way up."""
    seconds: float = 0.0
    longest_s: float = 0.0
    """From a seek to its game, at most."""
    lost: int = 0
    """Acknowledged seeks that are not stored, or never came to be paired."""
    without_game: int = 0
    """Paired seeks whose game, first events or seat is not stored."""
    twice: int = 0
    """Seats or seeks that were given away more than once."""
    orphans: int = 0
    """Games of pairing that no seek knows of."""

    @property
    def violated(self) -> bool:
        return bool(self.lost or self.without_game or self.twice or self.orphans)


class Service:
    """Processes on one database, of which some may be dead at the moment."""

    def __init__(self, url: str, directory: Path, processes: int) -> None:
        self._url = url
        self._directory = directory
        self._processes: list[Process | None] = [None] * processes

    async def start(self, number: int) -> None:
        self._processes[number] = await asyncio.to_thread(Process, self._url, self._directory)

    async def kill(self, number: int) -> None:
        process, self._processes[number] = self._processes[number], None
        if process is not None:
            await asyncio.to_thread(process.kill)

    async def stop(self) -> None:
        for number in range(len(self._processes)):
            await self.kill(number)

    def some_url(self, chance: random.Random) -> str | None:
        up = [process.url for process in self._processes if process is not None]
        return chance.choice(up) if up else None

    def __len__(self) -> int:
        return len(self._processes)


async def paired(url: str, directory: Path, *, processes: int, count: int, kills: int, seed: int) -> Pairings:
    """``count`` seeks, by bots that seek one game after the other."""
    lay_out(url)
    chance, found = random.Random(seed), Pairings()
    database = Database(local_settings(url))
    await database.start()
    service = Service(url, directory, processes)
    try:
        keys = [new_key() for _ in range(OWNERS)]
        for key in keys:
            stored = ApiKey(new_id("k"), "seeker", hash_of(key), ("bots:play",), now_ms())
            await KeyStore(database).add(stored)
        await asyncio.gather(*(service.start(number) for number in range(processes)))
        began = time.monotonic()
        left, told = iter(range(count)), dict[str, str]()
        async with httpx.AsyncClient(timeout=200, trust_env=False) as client:
            bots = [
                _seek_on(client, service, chance, {"authorization": f"Bearer {key}"}, left, told, found)
                for key in keys
            ]
            playing = asyncio.gather(*bots)
            while not playing.done():
                await asyncio.wait([playing], timeout=chance.uniform(0.05, 0.3))
                # Spread over the run, and never two processes at once.
                if found.kills < kills and len(told) >= count * found.kills / max(kills, 1):
                    number = found.kills % processes
                    await service.kill(number)
                    found.kills += 1
                    await asyncio.sleep(chance.uniform(0, 1))
                    await service.start(number)
            await playing
        found.seconds = round(time.monotonic() - began, 1)
        await _examine(database, told, found)
    finally:
        await service.stop()
        await database.stop()
    return found


async def _seek_on(
    client: httpx.AsyncClient,
    service: Service,
    chance: random.Random,
    headers: Mapping[str, str],
    left: Any,
    told: dict[str, str],
    found: Pairings,
) -> None:
    """One bot: it seeks, waits for its game, notes it, and seeks again, as long as seeks are left."""
    # An answer that a kill cut off may leave a seek more than was noted: the last ones do not wait for ever.
    wish = {"bot": "seeker", "pace": "slow", "wait_s": 60}

    async def asked(method: str, path: str, **more: Any) -> Any:
        while True:
            url = service.some_url(chance)
            if url is not None:
                try:
                    answer = await client.request(method, f"{url}{path}", headers=headers, **more)
                    if answer.status_code < 500:
                        assert answer.status_code in (200, 201), answer.text
                        return answer.json()
                except httpx.TransportError:
                    pass
            found.retries += 1
            await asyncio.sleep(0.1)

    for _ in left:
        began = time.monotonic()
        seek = await asked("POST", "/seeks", json=wish)
        told[seek["seek_id"]] = ""
        while seek["status"] == "open":
            seek = await asked("GET", f"/seeks/{seek['seek_id']}", params={"wait_s": 5})
        told[seek["seek_id"]] = seek["game_id"] or ""
        found.longest_s = round(max(found.longest_s, time.monotonic() - began), 1)


async def _examine(database: Database, told: Mapping[str, str], found: Pairings) -> None:
    rows = {row["seek_id"]: row for row in await database.mappings(select(seeks))}
    players = await database.mappings(select(game_players))
    # In one statement: the last games are still played.
    length = select(func.count()).where(events.c.game_id == games.c.game_id).scalar_subquery()
    whole = {
        game_id: head == count
        for game_id, head, count in await database.rows(select(games.c.game_id, games.c.head, length))
    }
    found.seeks, found.games = len(told), len(whole)
    seats = {(row["game_id"], row["seat"]): row["seek_id"] for row in players}
    found.twice = len(players) - len({row["seek_id"] for row in players})
    for seek_id, game_id in told.items():
        row = rows.get(seek_id)
        if row is None or row["status"] != "paired" or row["game_id"] != game_id:
            found.lost += 1
        elif not whole.get(game_id) or seats.get((game_id, row["seat"])) != seek_id:
            found.without_game += 1
    # A seek whose answer was cut off is not among those that were told, and has its game all the same.
    known = {row["game_id"] for row in rows.values()}
    found.orphans = sum(1 for game_id in whole if game_id not in known)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeks", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(fresh_database(stack.enter_context(PostgresServer())))
        found = asyncio.run(
            paired(url, directory, processes=2, count=options.seeks, kills=options.kills, seed=options.seed)
        )
    sys.stdout.write(f"{asdict(found)}\n")
    return int(found.violated)


if __name__ == "__main__":
    sys.exit(main())
