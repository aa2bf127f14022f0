"""What remote seats must survive, at any size: kills of the service, races with deadlines, cut streams.

    python -m tests.app.seat_faults kills --games 40 --kills 50
    python -m tests.app.seat_faults kills --games 40 --kills 50 --postgresql
    python -m tests.app.seat_faults races --count 500
    python -m tests.app.seat_faults cuts --clients 100 --cuts 20

Each prints its figures as JSON and exits with 1 where one is violated. The tests run them small.
"""

import argparse
import asyncio
import contextlib
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.app.calling import Process, read_ndjson
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import SHORT, Balancer, Bot, Frame, http_to, in_log, remote_game, rough_line
from tests.app.watcher import projection
from tests.postgres import PostgresServer, fresh_database

SEATS: list[Frame] = [{"agent": "remote"}, {"agent": "random"}, {"agent": "remote"}, {"agent": "random"}, {}]

PATIENT = dict.fromkeys(("propose_team", "vote", "card", "assassinate"), 3600)
"""Deadlines for the kills: longer than the service takes to start again."""

WAVE_S = 1200.0
"""The longest that a wave of games may take on any machine, kills included."""

RACED_S = 1.5
"""The deadline against which answers race, in seconds."""

MAX_RACED_S = 50
"""The longest one, for slow machines."""


WITHIN_MS = 250
"""How long after its deadline a default may be committed."""


# --- kills ------------------------------------------------------------------------------------------


@dataclass
class Kills:
    """The figures after kills of the service."""

    games: int = 0
    kills: int = 0
    acks: int = 0
    repeated_acks: int = 0
    lost: int = 0
    doubled: int = 0
    holes: int = 0
    unfinished: int = 0
    wrong_streams: int = 0
    defaults: int = 0

    @property
    def violated(self) -> bool:
        return bool(
            self.lost
            or self.doubled
            or self.holes
            or self.unfinished
            or self.wrong_streams
            or self.defaults
            or not self.acks
        )


class Hesitant(Bot):
    """A bot that waits a moment before it answers, so that kills hit every stage."""

    async def _answer(self, socket: Any, request: Frame) -> None:
        await asyncio.sleep(self._chance.uniform(0, 0.1))
        await super()._answer(socket, request)


class Phoenix:
    """A service behind one address that is killed and started again."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        self.process: Process | None = None
        self.balancer = Balancer([])

    async def rise(self) -> None:
        self.process = await asyncio.to_thread(Process, self._url, self._directory)
        self.balancer.backends = [self.process.url.removeprefix("http://")]

    async def kill(self) -> None:
        assert self.process is not None
        await asyncio.to_thread(self.process.kill)


@contextlib.asynccontextmanager
async def phoenix(url: str, directory: Path) -> AsyncIterator[Phoenix]:
    """Serves while the block lasts, except while it is killed."""
    one = Phoenix(url, directory)
    async with one.balancer:
        try:
            await one.rise()
            yield one
        finally:
            if one.process is not None and one.process.process.poll() is None:
                await one.kill()


async def kills(
    url: str, directory: Path, *, games: int, kills: int, seed: int, pause_s: float = 1.5, together: int = 8
) -> Kills:
    """Bots play at least ``games`` games, until the service has been killed this often. Then looks for each
    ack in the logs.
    """
    chance = random.Random(seed)
    found = Kills()
    async with phoenix(url, directory) as service:
        while found.games < games or found.kills < kills:
            wave = await _wave(service, chance, min(together, max(games - found.games, 1)))
            # Spread over the games: a service that is only ever killed plays nothing.
            share = min(kills, found.kills + math.ceil(kills * together / games))
            playing = [asyncio.create_task(bot.play(WAVE_S)) for _, bot in wave]
            while not all(task.done() for task in playing):
                await asyncio.wait(playing, timeout=chance.uniform(0.1, pause_s))
                if found.kills < share and not all(task.done() for task in playing):
                    await service.kill()
                    found.kills += 1
                    await service.rise()
            await asyncio.gather(*playing)
            found.games += len({game for game, _ in wave})
            await _check(service, wave, found)
    return found


async def _wave(service: Phoenix, chance: random.Random, count: int) -> list[tuple[str, Bot]]:
    wave: list[tuple[str, Bot]] = []
    async with http_to(f"http://{service.balancer.url}") as client:
        for _ in range(count):
            game, tokens = await remote_game(client, seats=SEATS, rules=SHORT, deadlines_s=PATIENT)
            seed = chance.randrange(1 << 30)
            wave += [
                (game, Hesitant(lambda: service.balancer.ws_url, game, token, seat, seed))
                for seat, token in tokens.items()
            ]
    return wave


async def _check(service: Phoenix, wave: list[tuple[str, Bot]], found: Kills) -> None:
    async with http_to(f"http://{service.balancer.url}") as client:
        logs = {game: await _lines(client, game) for game in {game for game, _ in wave}}
        for log in logs.values():
            found.holes += [event["seq"] for event in log] != list(range(1, len(log) + 1))
            found.unfinished += log[-1]["type"] != "game_ended"
            found.defaults += sum(event["type"] == "action_defaulted" for event in log)
        for game, bot in wave:
            done = in_log(logs[game], bot.seat)
            found.acks += len(bot.acked)
            found.repeated_acks += bot.duplicates
            found.lost += sum(action not in done.get(request, []) for request, action in bot.acked.items())
            found.doubled += sum(len(actions) != 1 for actions in done.values())
            found.wrong_streams += bot.items != await _lines(client, game, viewer=f"seat:{bot.seat}")


async def _lines(client: httpx.AsyncClient, game: str, **query: Any) -> list[Frame]:
    answer = await client.get(f"/games/{game}/events", params=query)
    assert answer.status_code == 200, answer.text
    return read_ndjson(answer.content)


# --- races ------------------------------------------------------------------------------------------


@dataclass
class Races:
    """The figures after answers raced deadlines on two processes."""

    races: int = 0
    answers_won: int = 0
    deadlines_won: int = 0
    two_outcomes: int = 0
    """Races that were acknowledged and defaulted, or neither, or whose log holds another answer."""
    early: int = 0
    off_by_ms: list[int] = field(default_factory=list)
    """For each default, its commit time minus its deadline."""

    @property
    def late(self) -> int:
        return sum(off > WITHIN_MS for off in self.off_by_ms)

    @property
    def violated(self) -> bool:
        return bool(self.two_outcomes or self.early or self.late)

    @property
    def one_each(self) -> bool:
        """Whether every race had exactly one outcome, and no default came before its deadline."""
        return not self.two_outcomes and not self.early and self.races > 0


async def races(driving: str, serving: str, *, count: int, seed: int, together: int = 5) -> Races:
    """Answers at one service (``serving``) race deadlines at another (``driving``), on one database."""
    chance = random.Random(seed)
    found = Races()
    async with http_to(driving) as at_driver, http_to(serving) as at_server:
        left, allowed_s = count, RACED_S
        while left:
            size, before = min(together, left), found.races
            runs = (_race(at_driver, at_server, chance, found, allowed_s) for _ in range(size))
            await asyncio.gather(*runs)
            if found.races == before and allowed_s < MAX_RACED_S:
                allowed_s *= 2  # the machine is so slow that all were over before they began
            else:
                left -= size
    return found


async def _race(
    driver: httpx.AsyncClient,
    server: httpx.AsyncClient,
    chance: random.Random,
    found: Races,
    allowed_s: float,
) -> None:
    wish = {"rules": SHORT, "deadlines_s": {"propose_team": allowed_s}}
    game, tokens = await remote_game(driver, **wish)
    headers = {"Authorization": f"Bearer {tokens[1]}"}
    asked = (await server.get(f"/games/{game}/requests", headers=headers)).json()["requests"]
    if not asked or asked[0]["kind"] != "propose_team":
        return  # the machine is so slow that the race was over before it began
    (request,) = asked
    deadline = _ms(request["deadline"])
    await asyncio.sleep(max(0.0, (deadline + chance.uniform(-300, 30)) / 1000 - time.time()))
    answer = await server.post(
        f"/games/{game}/requests/{request['request_id']}/action",
        json={"action": {"team": [4, 5]}},
        headers=headers,
    )
    kind = "propose_team"
    while kind == "propose_team":
        await asyncio.sleep(0.1)
        query = {"wait_s": 20}
        now = (await driver.get(f"/games/{game}/requests", params=query, headers=headers)).json()
        kind = now["requests"][0]["kind"] if now["requests"] else kind
    log = await _lines(driver, game)
    teams = [event["team"] for event in log if event["type"] == "team_proposed"]
    defaults = [event for event in log if event["type"] == "action_defaulted"]
    found.races += 1
    if answer.status_code == 200:
        found.answers_won += 1
        found.two_outcomes += teams != [[4, 5]] or bool(defaults)
    else:
        assert answer.status_code == 410, answer.text
        found.deadlines_won += 1
        found.two_outcomes += teams != [[1, 2]] or [one["cause"] for one in defaults] != ["deadline"]
    for event in defaults:
        off = _ms(event["at"]) - deadline
        found.early += off < 0
        found.off_by_ms.append(off)
    await driver.post(f"/games/{game}/cancel")


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


# --- cuts -------------------------------------------------------------------------------------------


@dataclass
class Cuts:
    """The figures after the connections of seats were cut at random bytes."""

    clients: int = 0
    cuts: int = 0
    events: int = 0
    wrong_streams: int = 0

    @property
    def violated(self) -> bool:
        return bool(self.wrong_streams or not self.cuts)


async def cuts(served: Served, *, clients: int, cuts: int, seed: int) -> Cuts:
    """Bots play in every seat and are disconnected until each client has been cut off this often."""
    chance = random.Random(seed)
    found = Cuts()
    wish: Frame = {} if clients > 20 else {"rules": SHORT}
    backend = served.url.removeprefix("http://")
    async with (
        Balancer([backend], rough_line(chance)) as balancer,
        http_to(served.url) as client,
    ):
        while found.clients < clients or balancer.cuts < clients * cuts:
            tables = [await remote_game(client, **wish) for _ in range(min(4, clients // 5))]
            bots = [
                (game, Bot(lambda: balancer.ws_url, game, token, seat, chance.randrange(1 << 30)))
                for game, tokens in tables
                for seat, token in tokens.items()
            ]
            await asyncio.gather(*(bot.play(WAVE_S) for _, bot in bots))
            for game, bot in bots:
                found.clients += 1
                found.events += len(bot.items)
                found.wrong_streams += bot.items != await projection(served.services, game, bot.seat)
        found.cuts = balancer.cuts
    return found


# --- the command ------------------------------------------------------------------------------------


async def _run(options: argparse.Namespace) -> Any:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{directory / 'games.sqlite'}"
        if options.what == "races" or options.postgresql:
            url = stack.enter_context(fresh_database(stack.enter_context(PostgresServer())))
        if options.what == "kills":
            return await kills(url, directory, games=options.games, kills=options.kills, seed=options.seed)
        if options.what == "cuts":
            async with running_server(local_settings(url)) as served:
                return await cuts(served, clients=options.clients, cuts=options.cuts, seed=options.seed)
        with two_replicas(url, directory) as (driving, serving):
            return await races(driving.url, serving.url, count=options.count, seed=options.seed)


@contextlib.contextmanager
def two_replicas(url: str, directory: Path) -> Iterator[tuple[Process, Process]]:
    """Two processes on one database: one that drives games, one that only serves."""
    driving = Process(url, directory)
    try:
        serving = Process(url, directory, "--no-runner")
        try:
            yield driving, serving
        finally:
            serving.kill()
    finally:
        driving.kill()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["kills", "races", "cuts"])
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgresql", action="store_true")
    found = asyncio.run(_run(parser.parse_args()))
    figures = asdict(found)
    if off := figures.pop("off_by_ms", None):
        figures |= {
            "off_by_ms_max": max(off),
            "off_by_ms_median": sorted(off)[len(off) // 2],
            "late": found.late,
        }
    sys.stdout.write(json.dumps({**figures, "violated": found.violated}) + "\n")
    return int(found.violated)


if __name__ == "__main__":
    sys.exit(main())
