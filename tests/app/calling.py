"""Ways to call the service: inside this process, or as a process of its own; with readers of the answers."""

import asyncio
import contextlib
import json
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import httpx
import orjson
from fastapi import FastAPI
from sqlalchemy import func, select

from agents.table import MemoryJournal, play
from app.main import Composition
from app.seats.seating import seat_agents, seated
from app.store.tables import batches, events, games, idempotency
from engine.events import Event, payload, read_event, type_name
from engine.profile import make_profile
from engine.rules import create
from evaluators.ground.thought_places import PLACED, ThoughtPlace
from tests import forked
from tests.app.contract import check_answer
from tests.app.real_server import application, local_settings
from tests.laying_out import lay_out

PROJECT = Path(__file__).parents[2]

WITHIN_S = 500.0
"""The longest that a test waits for a game that makes progress."""

NAMES = {
    "game_id": "g_abc",
    "batch_id": "b_abc",
    "evaluation_id": "e_abc",
    "other": "e_abd",
    "token_id": "t_abc",
    "bot_id": "p_abc",
    "set_id": "s_abc",
    "entry_id": "r_abc",
    "seek_id": "s_abc",
    "request_id": "1.1.vote.1",
    "code": "stale",
    "seat": "1",
    "path": "index.html",
    "name": "Act",
}
"""A value for each path parameter. No such game, batch or evaluation exists."""

Line = dict[str, Any]


class Caller(httpx.AsyncClient):
    """Calls one application in this process, with all its middleware. Each answer is as documented, or the
    test fails.
    """

    def __init__(self, app: FastAPI, **options: Any) -> None:
        # As a server does: a broken request is a 500, not an exception in the caller.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        super().__init__(transport=transport, base_url="http://localhost", timeout=WITHIN_S, **options)
        self.app = app

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        answer = await super().send(request, **options)
        if not options.get("stream"):
            check_answer(answer)
        return answer

    @property
    def services(self) -> Composition:
        services: Composition = self.app.state.composition
        return services

    async def create(self, **wish: Any) -> tuple[str, list[str]]:
        """The batch and those of its games that the answer names."""
        answer = await self.post("/games", json=wish)
        assert answer.status_code in (201, 202), answer.text
        body = answer.json()
        return body["batch_id"], [game["game_id"] for game in body["games"]]

    async def played(self, **wish: Any) -> tuple[str, list[str]]:
        """As ``create``, but waits until every game is over."""
        batch, found = await self.create(**wish)
        await self.over(batch)
        return batch, found

    async def over(self, batch: str) -> Line:
        """Waits until the batch is over, and returns it."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                view: Line = (await self.get(f"/batches/{batch}")).json()
                if view["status"] not in ("queued", "running"):
                    return view
                await asyncio.sleep(0.02)

    async def lines(self, path: str, **query: Any) -> list[Line]:
        """An NDJSON answer."""
        answer = await self.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return read_ndjson(answer.content)

    async def rows(self) -> dict[str, int]:
        """How many rows each table holds: equal before and after means that nothing was written."""
        async with self.services.database.read_engine.connect() as connection:
            return {
                table.name: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
                for table in (batches, games, events, idempotency)
            }


@contextlib.asynccontextmanager
async def calling(database_url: str, *, laid_out: bool = True, **settings: Any) -> AsyncIterator[Caller]:
    """A started application and its caller; stopped at the end as a server stops it. ``laid_out``: whether a
    new SQLite file gets its schema beforehand, which is quicker than by the service.
    """
    if laid_out:
        lay_out(database_url)
    app = application(local_settings(database_url, **settings))
    async with app.router.lifespan_context(app), Caller(app) as caller:
        yield caller


def fetch(process: "Process", path: str, **query: Any) -> httpx.Response:
    """What a serving process answers; it must be a success."""
    answer = httpx.get(process.url + path, params=query, timeout=WITHIN_S)
    assert answer.status_code == 200, answer.text
    return answer


async def new_batch(process: "Process", **wish: Any) -> str:
    """Creates a batch at a serving process, and returns its id."""
    async with httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client:
        answer = await client.post("/games", json=wish)
    assert answer.status_code in (201, 202), answer.text
    batch: str = answer.json()["batch_id"]
    return batch


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds, when there is no event to wait for."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.01)


def read_ndjson(content: bytes) -> list[Line]:
    """The values of an NDJSON body; blank lines are no values."""
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def without_times(lines: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Event lines without commit times and game ids, which always differ between two runs."""
    return [{name: value for name, value in line.items() if name not in ("at", "game")} for line in lines]


def without_place(line: Mapping[str, Any]) -> Line:
    """An exported event as its game's own stream has it."""
    added = ThoughtPlace._fields if line["type"] in PLACED else ()
    return {name: value for name, value in line.items() if name not in added}


def read_log(lines: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Events of the full viewer's lines."""
    outer = ("seq", "at", "game", "type")
    return [
        read_event(one["type"], {k: v for k, v in without_place(one).items() if k not in outer})
        for one in lines
    ]


def written(log: Sequence[Event]) -> list[Line]:
    """A log as the lines that the full viewer gets, without times and ids."""
    return [
        {"seq": seq, "type": type_name(event), **orjson.loads(orjson.dumps(payload(event)))}
        for seq, event in enumerate(log, 1)
    ]


async def undisturbed(
    seed: int, *, profile: str = "interintent", players: int = 5, agent: str = "scripted"
) -> list[Line]:
    """The log of one game that is played in this process, without any service."""
    seats = [{"agent": agent}] * players
    rules = make_profile(profile, players)
    log = create(rules, seed, agents=seated(seats, str(seed), rules))
    return written((await play(log, seat_agents(seats, str(seed)), MemoryJournal())).log)


def problem(answer: httpx.Response, status: int, code: str, pointer: str | None = None) -> Line:
    """The problem in an answer, after checking what all problems have in common."""
    assert answer.status_code == status, (answer.status_code, answer.text[:600])
    assert answer.headers["content-type"] == "application/problem+json"
    body: Line = answer.json()
    assert body["code"] == code, body
    assert body["status"] == status
    assert body["type"] == f"/problems/{code}"
    assert body["title"]
    assert body["detail"]
    assert re.fullmatch("[0-9a-f]{16}", body["trace_id"])
    if pointer is not None:
        assert [one["pointer"] for one in body["errors"]] == [pointer], body
    return body


class Process:
    """``interintent serve`` as an operator starts it."""

    def __init__(self, database_url: str, directory: Path, *arguments: str) -> None:
        self.process = forked.start(
            ["serve", "--port", "0", "--database-url", database_url, *arguments], cwd=directory
        )
        self.said: list[str] = []
        self._bound = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            assert self._bound.wait(WITHIN_S), self.said
            assert self.url, self.said
        except BaseException:
            self.process.kill()
            raise

    def _read(self) -> None:
        stream: IO[str] | None = self.process.stderr
        assert stream is not None
        for line in stream:
            self.said.append(line)
            if found := re.search(r"http://[\d.]+:\d+", line):
                self.url = found[0]
                self._bound.set()
        self._bound.set()

    def kill(self) -> None:
        """Kills the process (SIGKILL)."""
        self.process.kill()
        self.wait()

    def terminate(self) -> int:
        """Stops the process (SIGTERM), and returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        status = self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@contextlib.contextmanager
def serving_process(database_url: str, directory: Path, *arguments: str) -> Iterator[Process]:
    """A serving process, which is killed at the end in any case."""
    one = Process(database_url, directory, *arguments)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.kill()
