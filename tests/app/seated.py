"""Bots for tests: they play remote seats over raw sockets or plain HTTP, and remember every ack."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from app.base.listening import stop_listening
from tests.app.frames import Frames
from tests.app.watcher import SUBPROTOCOL

Frame = dict[str, Any]

SHORT: Frame = {"summaries": False, "reconsideration": False, "discussion": "none"}
"""The rules of a short game: only teams, votes, cards and the shot."""

COME_BACK = {1001, 1006, 1011, 1012, 1013, 4408, 4413}

PLAY_WITHIN_S = 200.0


def choose(request: Frame, chance: random.Random) -> Frame:
    """A legal answer, chosen from the request alone."""
    if request["legal"]:
        action: Frame = chance.choice(request["legal"])
        return action
    if request["kind"] == "speak":
        return {"text": f"I am undecided, {chance.randrange(1000)}."}
    return {"answers": {"leader": "as always", "result": "we shall see"}}


def thoughts_for(request: Frame) -> list[Frame]:
    """The thoughts that a careful bot adds to a speech."""
    if request["menu"] is None:
        return []
    chosen = [{"id": intention} for intention in request["menu"][:2]]
    return [{"type": "intentions_selected", "stage": "final", "intentions": chosen}]


class Bot:
    """One seat's program over the socket. It reconnects whenever it is cut off, until the game is over."""

    def __init__(
        self, url: Callable[[], str], game: str, token: str | None, seat: int, seed: int = 0
    ) -> None:
        self._url = url
        self._identify = {"t": "identify", "v": 1, "game": game, "client": "test/1"}
        if token is None:
            self._identify |= {"viewer": f"seat:{seat}", "sit": True}
        else:
            self._identify["token"] = token
        self.seat = seat
        self._chance = random.Random(f"{seed}/{seat}")
        self.items: list[Frame] = []
        self.acked: dict[str, Frame] = {}
        """Every acknowledged action, by request."""
        self.duplicates = 0
        self.connections = 0
        self.errors: list[Frame] = []
        self.late: set[str] = set()
        self._unacked: Frame | None = None
        self._answers: dict[str, Frame] = {}

    async def play(self, within_s: float = PLAY_WITHIN_S) -> "Bot":
        """Plays until the server closes with 1000. Raises if it closes with another code that forbids a
        return.
        """
        async with asyncio.timeout(within_s):
            while True:
                try:
                    async with connect(
                        self._url(),
                        subprotocols=[SUBPROTOCOL],
                        proxy=None,
                        open_timeout=None,
                        close_timeout=1,  # type: ignore[list-item]
                    ) as socket:
                        self.connections += 1
                        await self._sit(socket)
                except ConnectionClosed as closed:
                    code = closed.rcvd.code if closed.rcvd else 1006
                    if code == 1000:
                        self._look_for_last()
                        return self
                    if code == 4429 and closed.rcvd:
                        # Cut off very often: it may come back when it is told.
                        wait_ms = int(closed.rcvd.reason.removeprefix("retry_after_ms="))
                        await asyncio.sleep(wait_ms / 1000)
                    elif code not in COME_BACK:
                        raise
                except (OSError, InvalidHandshake, EOFError):
                    pass  # cut off, or the server is not there yet
                await asyncio.sleep(self._chance.uniform(0, 0.05))

    def _look_for_last(self) -> None:
        """Takes its last answer for acknowledged if the ack was cut off, the game was over when it came back,
        and the events show the answer.
        """
        if self.connections > 1 and self._unacked is not None:
            request = self._unacked["request_id"]
            if in_log(self.items, self.seat).get(request) == [self._answers[request]]:
                self.acked[request] = self._answers[request]

    async def _sit(self, socket: ClientConnection) -> None:
        last = self.items[-1]["seq"] if self.items else 0
        self._frames = Frames()
        await self._send(socket, {**self._identify, "after": last})
        if self._unacked is not None:
            await self._send(socket, self._unacked)
        while True:
            frame = json.loads(await socket.recv())
            self._frames.received(frame)
            await self._heard(socket, frame)

    async def _send(self, socket: ClientConnection, message: Frame) -> None:
        self._frames.sent(message)
        await socket.send(json.dumps(message))

    async def _heard(self, socket: ClientConnection, frame: Frame) -> None:
        if frame["t"] == "events":
            for item in frame["items"]:
                assert item["seq"] == len(self.items) + 1, "a gap or a repeat"
                self.items.append(item)
        elif frame["t"] == "request":
            await self._answer(socket, frame)
        elif frame["t"] == "ack":
            request = frame["request_id"]
            self.acked[request] = self._answers[request]
            self.duplicates += frame["duplicate"]
            if self._unacked is not None and self._unacked["request_id"] == request:
                self._unacked = None
        elif frame["t"] == "error":
            self.errors.append(frame)
            if frame["code"] == "too-late":
                self.late.add(frame["re"])
            self._unacked = None
            if frame.get("request") is not None:
                await self._answer(socket, frame["request"])

    async def _answer(self, socket: ClientConnection, request: Frame) -> None:
        # The same answer after every reconnect: it may have arrived.
        action = self._answers.setdefault(request["request_id"], choose(request, self._chance))
        self._unacked = {
            "t": "act",
            "id": request["request_id"],
            "request_id": request["request_id"],
            "action": action,
            "thoughts": thoughts_for(request),
        }
        # Closed meanwhile: what was sent to us before is still to be read.
        with contextlib.suppress(ConnectionClosed):
            await self._send(socket, self._unacked)


class HttpBot:
    """One seat's program over HTTP alone."""

    def __init__(self, client: httpx.AsyncClient, game: str, token: str, seat: int, seed: int = 0) -> None:
        self._client = client
        self._game = game
        self._headers = {"Authorization": f"Bearer {token}"}
        self._chance = random.Random(f"{seed}/{seat}")
        self.acked: dict[str, Frame] = {}

    async def play(self) -> "HttpBot":
        """Plays until the game is over."""
        async with asyncio.timeout(PLAY_WITHIN_S):
            while True:
                answer = await self._client.get(
                    f"/games/{self._game}/requests", params={"wait_s": 20}, headers=self._headers
                )
                assert answer.status_code == 200, answer.text
                asked = answer.json()
                if asked["status"] not in ("created", "running"):
                    return self
                for request in asked["requests"]:
                    action = choose(request, self._chance)
                    taken = await self._client.post(
                        f"/games/{self._game}/requests/{request['request_id']}/action",
                        json={"action": action, "thoughts": thoughts_for(request)},
                        headers=self._headers,
                    )
                    assert taken.status_code == 200, taken.text
                    self.acked[request["request_id"]] = action


def in_log(items: Sequence[Frame], seat: int) -> dict[str, list[Frame]]:
    """The seat's answers in a stream, by request; for games with the short rules. Each list should hold
    one.
    """
    found: dict[str, list[Frame]] = {}
    round_ = attempt = 0
    for item in items:
        kind, action = None, {}
        match item["type"]:
            case "proposal_opened":
                round_, attempt = item["round"], item["attempt"]
            case "team_proposed" if item["leader"] == seat:
                kind, action = "propose_team", {"team": item["team"]}
            case "vote_cast" if item["seat"] == seat:
                kind, action = "vote", {"approve": item["approve"]}
            case "card_played" if item["seat"] == seat:
                kind, action = "card", {"success": item["success"]}
            case "assassination_made" if item["assassin"] == seat:
                kind, action = "assassinate", {"target": item["target"]}
        if kind is not None:
            found.setdefault(f"{round_}.{attempt}.{kind}.{seat}", []).append(action)
    return found


def rough_line(chance: random.Random) -> Callable[[], int]:
    """Draws the number of bytes after which each connection is cut. In the end everything arrives all the
    same.

    About half of the connections end during the handshake, the welcome, the events or the first request; the
    others get a few requests through, each of about 5 kB.
    """

    def cut_after() -> int:
        return chance.randrange(1, 6_000) if chance.random() < 0.5 else chance.randrange(6_000, 40_000)

    return cut_after


class Balancer:
    """A plain TCP balancer: it passes each connection to the next backend, and may cut it after some
    bytes.
    """

    def __init__(self, backends: Sequence[str], cut_after: Callable[[], int | None] = lambda: None) -> None:
        self.backends = list(backends)
        """Addresses as host:port; one that does not answer is skipped."""
        self._cut_after = cut_after
        self._next = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self.cuts = 0
        self.url = ""
        self.deaf = False
        """Whether nothing passes over connections that are made from now on."""

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        self.cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ws_url(self) -> str:
        return f"ws://{self.url}/ws"

    def cut_all(self) -> None:
        """Cuts every connection without a close frame."""
        for writer in self._writers:
            writer.transport.abort()

    def swallow(self) -> None:
        """From now on nothing passes over the connections that there are, and they stay open."""
        self._silent |= self._writers

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            # asyncio's streams complain of a handler that was cancelled.
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._carry(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = await self._backend()
        if back is None:
            return
        from_back, to_back = back
        self._writers |= {writer, to_back}
        if self.deaf:
            self._silent |= {writer, to_back}
        limit = self._cut_after()
        left = [limit if limit is not None else 1 << 62]

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                if sink in self._silent:
                    continue
                part = data[: max(left[0], 0)]
                left[0] -= len(data)
                sink.write(part)
                await sink.drain()
                if left[0] <= 0:
                    self.cuts += 1
                    return

        copies = {asyncio.create_task(copy(reader, to_back)), asyncio.create_task(copy(from_back, writer))}
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in copies:
                one.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            to_back.transport.abort()
            self._writers.discard(to_back)
            self._silent -= {writer, to_back}

    async def _backend(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self.backends:
            host, port = self.backends[self._next % len(self.backends)].split(":")
            self._next += 1
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(host, int(port))
        return None


@contextlib.asynccontextmanager
async def http_to(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A plain client of a server at this address."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        yield client


async def remote_game(client: httpx.AsyncClient, **wish: Any) -> tuple[str, dict[int, str]]:
    """A new game, and the tokens of its remote seats."""
    answer = await client.post("/games", json={"seats": [{"agent": "remote"}], **wish})
    assert answer.status_code == 201, answer.text
    (game,) = answer.json()["games"]
    return game["game_id"], {one["seat"]: one["token"] for one in game["seats"] if one["token"] is not None}
