"""How many of our files each journey walks through: ``python -m bench.walks`` (``--files`` names them).

A real service plays real games on SQLite in this process, and a profile hook notes every Python function that
is entered while a journey is under way, on any thread. A file of ``engine``, ``agents``, ``evaluators`` or
``app`` counts when one of its functions was entered in every repetition of the journey; ``sometimes`` also
counts the files of some repetitions only.

Not counted: imports; functions that were entered before the journey began and only continue (the middleware
that waits for its route); tasks that look around by the clock, whatever happens (``CLOCKED``); classes whose
methods are all generated (dataclasses); the other end of the wire (client, model). A journey that begins at a
route's handler leaves out what the edge does before it (headers, credential, body); ``with the edge`` counts
from the sending of the request.
"""

import argparse
import asyncio
import contextlib
import inspect
import json
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect

from agents.llm.agent import LlmAgent
from app.evaluations.routes import create_evaluation
from app.main import Composition, create_app
from app.play.routes import answer_request
from app.play.socket import Connection
from app.runner.drive import TellingJournal
from app.serving.server import Server, listen, new_loop
from app.settings import Settings
from app.store.log import GameLog
from bench.models import _fake_model
from bench.steps import steps
from engine.events import visible
from engine.terms import PUBLIC, Kind

__all__ = ["Journey", "measure"]

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("engine", "agents", "evaluators", "app")
REPEATS: Final = 5
"""Walks of each journey. The first imports modules and fills caches, so it is left out."""
WITHIN_S: Final = 60.0

CLOCKED: Final = frozenset(
    {
        "bell",
        "claims",
        "clock",
        "database health",
        "judges",
        "keys",
        "leases",
        "limits",
        "loop lag",
        "outages",
    }
    | {"pairing", "pickup", "pulse", "quotas"}
)
"""Names of tasks that belong to no journey: they wake up by the clock."""

NO_FUNCTIONS: Final = frozenset({"<module>", "<listcomp>", "<setcomp>", "<dictcomp>"})
"""Python 3.11 reports a comprehension as a call; later versions, rightly, as part of its function."""


@dataclass(frozen=True, slots=True)
class Journey:
    """One journey and the files of ours that it walked through."""

    name: str
    aim: int
    """The most files that are wanted."""
    files: frozenset[str]
    """Entered in every repetition."""
    sometimes: frozenset[str]
    """Entered in at least one."""
    with_edge: frozenset[str] | None = None
    """Entered in every repetition, counted from the sending of the request."""


class Walk(NamedTuple):
    """The files that one repetition of a journey entered."""

    entered: frozenset[str]
    with_edge: frozenset[str]
    """Also those before the journey's beginning."""


class Tracer:
    """Notes the files whose functions run between the beginning and the end of a walk."""

    def __init__(self) -> None:
        self.starts_at: CodeType | None = None
        """The function at which the journey itself begins; None: it begins with the walk."""
        self._under_way = False
        self._before: set[str] = set()
        self._entered: set[str] | None = None
        self.walks: list[Walk] = []
        """Since the last journey."""

    @contextlib.contextmanager
    def installed(self) -> Any:
        """Traces this thread and every thread that starts meanwhile."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._under_way or event != "call" or not _starts(frame):
            return
        code = frame.f_code
        if code is self.starts_at and self._entered is None:
            self._entered = set()
        entered = self._before if self._entered is None else self._entered
        if (
            code.co_name not in NO_FUNCTIONS
            and code.co_filename not in entered
            and _task_name() not in CLOCKED
        ):
            entered.add(code.co_filename)

    def begin(self) -> None:
        self._before = set()
        self._entered = None if self.starts_at else set()
        self._under_way = True

    def end(self) -> None:
        """Ends the walk, if one is under way and has reached the journey's beginning."""
        if self._under_way and self._entered is not None:
            self._under_way = False
            self.walks.append(Walk(_ours(self._entered), _ours(self._entered | self._before)))

    def journey(self, name: str, aim: int) -> Journey:
        """The journey of the walks since the last one; its first walk is left out."""
        walks, self.walks = self.walks[1:], []
        files = frozenset.intersection(*(walk.entered for walk in walks))
        sometimes = frozenset.union(*(walk.entered for walk in walks))
        with_edge = frozenset.intersection(*(walk.with_edge for walk in walks)) if self.starts_at else None
        return Journey(name, aim, files, sometimes, with_edge)


def _starts(frame: FrameType) -> bool:
    """Whether the function begins here. A coroutine or generator that continues is reported as a call too;
    the argument of its RESUME instruction tells the two apart.
    """
    return frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti + 1] & 3 == 0


def _task_name() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ""  # a thread without a loop
    return "" if task is None else task.get_name()


def _ours(names: set[str]) -> frozenset[str]:
    folders = tuple(f"{ROOT / package}/" for package in PACKAGES)
    return frozenset(str(Path(name).relative_to(ROOT)) for name in names if name.startswith(folders))


@dataclass(frozen=True, slots=True)
class Service:
    """A service in this process, on a port."""

    parts: Composition
    port: int

    async def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """The last line of the service's answer, as JSON."""
        return await asyncio.to_thread(self._call, method, path, body, token)

    def _call(self, method: str, path: str, body: Any, token: str | None) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, text
        return json.loads(text.splitlines()[-1])

    async def game(self, **order: Any) -> str:
        """A new game's id."""
        laid_out = await self.call("POST", "/games", order)
        game_id: str = laid_out["games"][0]["game_id"]
        return game_id

    async def finished_game(self, **order: Any) -> str:
        """The id of a game that has been played to its end."""
        game_id = await self.game(**order)
        await self.call("GET", f"/games/{game_id}/events?follow=true")
        return game_id


@contextlib.asynccontextmanager
async def serving(folder: Path, models: dict[str, Any]) -> AsyncIterator[Service]:
    """Serves on a free port while the block lasts."""
    # One game at a time: nobody plays beside the journey.
    settings = Settings(
        _env_file=None,
        DATABASE_URL=f"sqlite:///{folder}/walks.db",
        port=0,
        drain_s=1,
        parallel_games=1,
        models=models,
    )
    app = create_app(settings)
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = Server(app, settings, bound.set_result)
    task = asyncio.create_task(server.serve(listen(settings.host, settings.port)))
    either: list[asyncio.Future[Any]] = [task, bound]
    try:
        await asyncio.wait(either, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        yield Service(app.state.composition, int(bound.result().rpartition(":")[2]))
    finally:
        server.stop()
        await task


@contextlib.contextmanager
def each_commit(service: Service, committed: Callable[[], None]) -> Any:
    """Calls ``committed`` as soon as anything has been committed."""
    writer = service.parts.database.writer
    commits = writer._commits
    commit, run = commits.commit, writer.run

    async def group(*arguments: Any) -> None:
        await commit(*arguments)
        committed()

    async def ran(*arguments: Any) -> Any:
        result = await run(*arguments)
        committed()
        return result

    commits.commit, writer.run = group, ran  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        commits.commit, writer.run = commit, run  # type: ignore[method-assign]


async def vote(service: Service, tracer: Tracer) -> Journey:
    """A remote seat's vote over HTTP with the seat's token, from the route's handler to the committed row of
    the inbox.
    """
    laid_out = await service.call("POST", "/games", {"seats": [{"agent": "remote"}], "profile": "official"})
    [game] = laid_out["games"]
    path = f"/games/{game['game_id']}/requests"
    tracer.starts_at = inspect.unwrap(answer_request).__code__
    votes = 0
    while votes < REPEATS:
        for seat in game["seats"]:
            asked = await service.call("GET", path, token=seat["token"])
            for request in asked["requests"]:
                where = f"{path}/{request['request_id']}/action"
                if request["kind"] != Kind.VOTE:
                    await service.call("POST", where, {"action": request["default"]}, seat["token"])
                    continue
                with each_commit(service, tracer.end):
                    tracer.begin()
                    await service.call("POST", where, {"action": {"approve": True}}, seat["token"])
                votes += 1
    return tracer.journey("a vote over HTTP → its row in the inbox", 14)


async def vote_by_socket(service: Service, tracer: Tracer) -> Journey:
    """As ``vote``, over a socket, from the moment at which the message has been read."""
    tracer.starts_at = inspect.unwrap(Connection._act).__code__
    laid_out = await service.call("POST", "/games", {"seats": [{"agent": "remote"}], "profile": "official"})
    [game] = laid_out["games"]
    votes = 0

    async def play(seat: dict[str, Any]) -> None:
        nonlocal votes
        async with connect(f"ws://127.0.0.1:{service.port}/ws", proxy=None) as socket:
            identify = {"t": "identify", "v": 1, "game": game["game_id"], "viewer": f"seat:{seat['seat']}"}
            await socket.send(json.dumps(identify | {"token": seat["token"], "after": 0}))
            async for text in socket:
                asked = json.loads(text)
                if asked["t"] != "request":
                    continue
                act = {"t": "act", "id": asked["request_id"], "request_id": asked["request_id"]}
                is_vote = asked["kind"] == Kind.VOTE
                async with turn:
                    await asyncio.sleep(0.1)  # until the other seats rest
                    if is_vote:
                        tracer.begin()
                    await socket.send(json.dumps(act | {"action": asked["default"]}))
                    await asyncio.sleep(0.1)
                votes += is_vote
                if votes >= REPEATS:
                    enough.set()

    turn, enough = asyncio.Lock(), asyncio.Event()
    with each_commit(service, tracer.end):
        players = [asyncio.create_task(play(seat)) for seat in game["seats"]]
        await enough.wait()
    for player in players:
        player.cancel()
    await asyncio.gather(*players, return_exceptions=True)
    return tracer.journey("a vote over a socket → its row in the inbox", 14)


async def guess(service: Service, tracer: Tracer) -> Journey:
    """A submitted guess, from the route's handler to its committed score."""
    game_id = await service.finished_game(seeds={"from": 1})
    listing = f"/evaluations/items?dimension=guessing&game={game_id}&limit={REPEATS}"
    items = (await service.call("GET", listing))["items"]
    tracer.starts_at = inspect.unwrap(create_evaluation).__code__
    for item in items:
        answers = [{"item_id": item["id"], "intentions": ["defend_self"]}]
        order = {"dimension": "guessing", "rater": {"name": "walker", "kind": "human"}, "answers": answers}
        with each_commit(service, tracer.end):
            tracer.begin()
            await service.call("POST", "/evaluations", order)
    return tracer.journey("a submitted guess → its stored score", 20)


async def event(service: Service, tracer: Tracer) -> Journey:
    """An event, from its commit to the socket of somebody who watches the game."""
    game_id = await service.game(drive="manual")
    row = await service.parts.store.game(game_id)
    assert row is not None
    log = GameLog(service.parts.database, game_id, row.head)
    journal = TellingJournal(log, service.parts.feed, game_id, row.batch_id)
    tracer.starts_at = None
    watched = [step for step in steps(8 * REPEATS) if any(visible(event, PUBLIC) for event in step)]
    async with connect(f"ws://127.0.0.1:{service.port}/ws", proxy=None) as socket:
        identify = {"t": "identify", "v": 1, "game": game_id, "viewer": "public", "after": 0}
        await socket.send(json.dumps(identify))
        await next_events(socket)
        for step in watched[:REPEATS]:
            with each_commit(service, tracer.begin):
                await journal.append(step)
            await next_events(socket)
            tracer.end()
    return tracer.journey("an event's commit → a watcher's socket", 14)


async def next_events(socket: ClientConnection) -> None:
    """Returns when events have come and their reader has caught up."""
    while json.loads(await socket.recv())["t"] != "events":
        pass
    # Until the connection's own tasks rest again: what they do afterwards belongs to no event.
    await asyncio.sleep(0.05)


async def model_turn(service: Service, tracer: Tracer) -> Journey:
    """A speaking turn of a language model's seat, from the request to the action; every answer is stored."""
    tracer.starts_at = None
    enough = asyncio.Event()
    act = LlmAgent.act

    async def traced(agent: LlmAgent, observation: Any) -> Any:
        if observation.request.kind is not Kind.SPEAK:
            return await act(agent, observation)
        tracer.begin()
        try:
            return await act(agent, observation)
        finally:
            tracer.end()
            if len(tracer.walks) == REPEATS:
                enough.set()

    LlmAgent.act = traced  # type: ignore[method-assign,assignment]
    seats = [{"agent": "llm", "model": "fake"}] + [{"agent": "scripted"}] * 4
    await service.game(seats=seats, count=3)
    try:
        async with asyncio.timeout(WITHIN_S):
            # Nobody calls the service meanwhile: its answers would be counted.
            await enough.wait()
    finally:
        LlmAgent.act = act  # type: ignore[method-assign]
    return tracer.journey("a model's turn: asked → action", 35)


async def _measure() -> list[Journey]:
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder, _fake_model(0.0) as url, tracer.installed():
        models = {"fake": {"base_url": f"{url}/v1", "model": "fake"}}
        async with serving(Path(folder), models) as service:
            return [await walk(service, tracer) for walk in (vote, vote_by_socket, guess, event, model_turn)]


def measure() -> list[Journey]:
    """Walks every journey."""
    # The game behind the steps is played now, in a loop of its own.
    list(steps(1))
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_measure())


def show(journeys: list[Journey], *, files: bool) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("journey")
    for heading in ("files", "asked", "sometimes", "with the edge"):
        table.add_column(heading, justify="right")
    for journey in journeys:
        with_edge = "" if journey.with_edge is None else str(len(journey.with_edge))
        counts = (len(journey.files), journey.aim, len(journey.sometimes))
        table.add_row(journey.name, *map(str, counts), with_edge)
    console = Console(width=100, highlight=False)
    console.print(table)
    for journey in journeys if files else ():
        console.print(f"\n[bold]{journey.name}[/bold]")
        for name in sorted(journey.files):
            print(f"  {name}")
        for name in sorted(journey.sometimes - journey.files):
            print(f"  {name} (sometimes)")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.walks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", action="store_true", help="name the files of each journey")
    show(measure(), files=parser.parse_args().files)


if __name__ == "__main__":
    main()
