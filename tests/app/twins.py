"""Twin games over the wire: what a viewer is sent must be equal byte for byte.

The engine's twins (tests/engine/twins.py) fix what happens in both games. Here two services store the two
games, and everything that one viewer can get over sockets and HTTP is compared as it arrives: frames,
bodies, headers, chunks, close codes. Time, ids and traces are fixed, and no field is left out.

``python -m tests.app.twins --sets 300`` compares this many sets of six-player games for seven viewers.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar
from unittest import mock

from app.base import clock
from app.edge.auth import hash_of
from app.edge.tokens import Grant
from app.runner.drive import TellingJournal
from app.store.games import NewGame
from app.store.keys import KeyStore
from app.store.log import GameLog
from app.store.rows import ApiKey, BatchRow
from engine import rules, state
from engine.actions import Assassinate, CastVote
from engine.events import Event
from engine.rules import Request
from engine.state import State
from engine.terms import PUBLIC, Viewer
from engine.view import project
from tests.app.real_server import Served, local_settings, running_server
from tests.engine.games import new_game, random_profile
from tests.engine.twins import KINDS, Course, Script, _plan, _swap_cards, permuted

PLAYERS = 6
VIEWERS: tuple[Viewer, ...] = (PUBLIC, *range(1, PLAYERS + 1))

NOW_MS = 1_800_000_000_000
SECRET = "s" * 64
READER = "ik_" + "r" * 43
"""A key that may list games and read batches, and sees only what is public."""

SINGLE, TOGETHER = 8, 16
"""How many successive steps of a game are appended one by one, and how many of the others at a time."""

WITHIN_S = 200.0
"""Seconds to wait for what must arrive; a healthy service needs milliseconds."""


class Still(clock.Clock):
    """A clock in which no time passes. Its random bits depend on the request alone, so both twins get the
    same.
    """

    turn = 0
    """The request that both services are answering."""

    def now_ms(self) -> int:
        return NOW_MS

    def random_bits(self, count: int) -> int:
        return (0x5EED + (self.turn << 16)) % (1 << count)


# --- the two games ---------------------------------------------------------------------------


@dataclass
class Pair:
    """Two games that one viewer cannot tell apart, as lists of appends."""

    first: tuple[Sequence[Event], Sequence[Event]]
    steps: list[tuple[Sequence[Event], Sequence[Event]]] = field(default_factory=list)
    ends: bool = False
    """Whether both were played to an end, and the ends look equal."""

    def coarser(self, rng: Random) -> None:
        """The same games with most steps appended together: appends take time, and a few single ones are
        enough.
        """
        # The last ones always: a vote that is compared up to the reveal is the last step.
        start = rng.randrange(len(self.steps) + 1)
        single = range(start, start + SINGLE)
        merged: list[tuple[Sequence[Event], Sequence[Event]]] = []
        together = 0
        for place, (one, other) in enumerate(self.steps):
            if 0 < together < TOGETHER and place not in single and place < len(self.steps) - 2:
                merged[-1] = ([*merged[-1][0], *one], [*merged[-1][1], *other])
                together += 1
            else:
                merged.append((one, other))
                together = 0 if place in single else 1
        self.steps = merged


def pair_of(kind: str, number: int, viewer: Viewer) -> Pair | None:
    """The pair of this set for this viewer; None if no other deal looks the same to the viewer."""
    rng = Random(f"{kind}/{number}")
    profile = random_profile(rng, players=PLAYERS)
    deal = new_game(profile, number).roles
    assert deal is not None
    twin = permuted(rng, deal, viewer) if kind == "roles" else deal
    if twin is None:
        return None
    think = number + 1 if kind in ("roles", "behaviour") else number
    courses = (Course(deal, number), Course(twin, think))
    games = [new_game(profile, number, deal=course.deal) for course in courses]
    scripts = [Script(number, viewer, course.think) for course in courses]
    pair = Pair((list(games[0].log), list(games[1].log)))
    public = Random(number * 1000 + viewer)
    while requests := rules.pending(games[0]):
        if games[0].table.phase == "assassinate" and profile.assassination != "after_any_quest":
            return pair  # the shot tells who shoots
        answers = _answers(kind, public, games, scripts, viewer, requests)
        if answers is None:
            return pair  # others are asked: the comparison so far must have shown why
        flipped = kind == "vote" and games[0].table.phase == "vote" and public.random() < 0.4
        if flipped:
            other = public.choice([seat for seat, _ in answers[1] if seat != viewer])
            answers[1] = [
                (s, CastVote(not a.approve, a.thoughts) if s == other else a) for s, a in answers[0]
            ]
            some = {other, *public.sample([seat for seat, _ in answers[0]], len(answers[0]) - 2)}
            answers = [[one for one in given if one[0] in some] for given in answers]
        written = [rules.decide(game, given) for game, given in zip(games, answers, strict=True)]
        for game, events in zip(games, written, strict=True):
            state.apply(game, events)
        if not rules.pending(games[0]) and kind == "roles" and profile.reveal != "none":
            return pair  # the end tells the roles
        pair.steps.append((written[0], written[1]))
        if flipped:
            return pair  # equal up to the reveal
    pair.ends = True
    return pair


def _answers(
    kind: str,
    public: Random,
    games: list[State],
    scripts: list[Script],
    viewer: Viewer,
    requests: Sequence[Request],
) -> list[list[tuple[int, Any]]] | None:
    asked = [rules.pending(game) for game in games]
    if games[0].table.phase == "assassinate":
        return [[(found[0].seat, Assassinate(None))] for found in asked]
    if [r.id for r in asked[0]] != [r.id for r in asked[1]]:
        return None
    plan = _plan(public, games[0], games[1], viewer, requests)
    answers = [
        [(r.seat, script.with_thoughts(game, r, plan[i][r.seat])) for r in requests]
        for i, (game, script) in enumerate(zip(games, scripts, strict=True))
    ]
    if kind == "card" and games[0].table.phase == "quest":
        answers[1] = _swap_cards(public, games[0], viewer, answers[0])
    return answers


# --- connections that keep every byte ---------------------------------------------------------


Turn = tuple[str | None, tuple[int, ...]]
"""The kind of the request, and the seats that are asked; None when the game is over."""


class Wire:
    """A TCP connection; ``taken`` is everything that was received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.taken = bytearray()

    @classmethod
    async def to(cls, url: str) -> Self:
        host, port = url.removeprefix("http://").split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def line(self) -> bytes:
        found = await self._reader.readuntil(b"\r\n")
        self.taken += found
        return found

    async def exactly(self, count: int) -> bytes:
        found = await self._reader.readexactly(count)
        self.taken += found
        return found

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def headers(self) -> dict[bytes, bytes]:
        """The status line, under an empty name, and the headers."""
        found = {b"": (await self.line()).strip()}
        while (line := (await self.line()).strip()) != b"":
            name, _, value = line.partition(b": ")
            found[name.lower()] = value
        return found

    def socket(self) -> Any:
        """The connection's own socket."""
        return self._writer.get_extra_info("socket")

    def abort(self) -> None:
        """Drops the connection at once."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


W = TypeVar("W", bound=Wire)


@dataclass(frozen=True)
class Ask:
    """One HTTP request."""

    path: str
    method: str = "GET"
    headers: tuple[str, ...] = ()
    body: str | None = None

    def text(self, credential: str) -> bytes:
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            "host: localhost",
            f"authorization: Bearer {credential}",
        ]
        lines += self.headers
        if self.body is not None:
            lines += ["content-type: application/json", f"content-length: {len(self.body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n" + (self.body or "")).encode()


class HttpWire(Wire):
    """Requests on one connection, one after another."""

    async def ask(self, ask: Ask, credential: str) -> bytes:
        """The whole answer as it was received: status, headers, chunks."""
        start = len(self.taken)
        self.send(ask.text(credential))
        headers = await self.headers()
        if headers.get(b"transfer-encoding") == b"chunked":
            await self.chunks()
        elif b" 304 " not in headers[b""]:
            await self.exactly(int(headers.get(b"content-length", b"0")))
        return bytes(self.taken[start:])

    async def chunks(self) -> None:
        while size := int((await self.line()).strip(), 16):
            await self.exactly(size + 2)
        await self.exactly(2)


class FollowWire(Wire):
    """One stream of `events?follow=true`."""

    lines = 0

    async def begin(self, ask: Ask, credential: str) -> None:
        self.send(ask.text(credential))
        assert (await self.headers())[b"transfer-encoding"] == b"chunked"

    async def until(self, lines: int) -> None:
        """Reads until this many lines have been received, or the stream has ended."""
        while self.lines < lines:
            size = int((await self.line()).strip(), 16)
            self.lines += (await self.exactly(size + 2)).count(b"\n") - (1 if size else 0)
            if size == 0:
                return

    async def to_the_end(self) -> None:
        await self.until(sys.maxsize)


class SocketWire(Wire):
    """A WebSocket, without a library's own randomness: fixed key, mask of zeros."""

    seq = 0
    closed = False
    asked: str | None = None
    """The request that was sent last."""
    turn: Turn = (None, ())
    """Whose turn it was last said to be."""
    told = False
    """Whether it has been told how many watch."""

    async def open(self) -> None:
        """Connects, and reads the hello."""
        lines = ["GET /ws HTTP/1.1", "host: localhost", "upgrade: websocket", "connection: Upgrade"]
        lines += ["sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "sec-websocket-version: 13"]
        self.send(("\r\n".join([*lines, "sec-websocket-protocol: avalon.v1"]) + "\r\n\r\n").encode())
        await self.headers()
        await self.frame()

    async def begin(self, game: str, credential: str, **more: Any) -> None:
        await self.open()
        self.say({"t": "identify", "v": 1, "token": credential, "game": game, **more})

    def say(self, message: Any) -> None:
        data = json.dumps(message).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
        self.send(b"\x81" + size + b"\0\0\0\0" + data)

    async def frame(self) -> dict[str, Any]:
        """The next frame, parsed; for a close frame, its code."""
        head = await self.exactly(2)
        size = head[1]
        if size == 126:
            size = struct.unpack(">H", await self.exactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", await self.exactly(8))[0]
        data = await self.exactly(size)
        if head[0] & 0x0F == 8:
            self.closed = True
            return {"t": "close", "code": struct.unpack(">H", data[:2])[0]}
        if head[0] & 0x0F == 9:
            # Whoever takes long is asked whether it still lives.
            self.send(b"\x8a" + bytes([0x80 | size]) + b"\0\0\0\0" + data)
            return await self.frame()
        frame: dict[str, Any] = json.loads(data)
        if frame["t"] == "events":
            self.seq += len(frame["items"])
        elif frame["t"] == "request":
            self.asked = frame["request_id"]
        elif frame["t"] == "turn":
            self.turn = (frame["kind"], tuple(frame["seats"]))
        elif frame["t"] == "watchers":
            self.told = True
        return frame

    async def until(self, seq: int, asked: str | None = None, turn: Turn | None = None) -> None:
        """Reads until this many events have been received, and this request and this turn, if there are
        any; with a turn also how many watch.
        """
        while not self.closed and (
            self.seq < seq
            or asked not in (None, self.asked)
            or (turn is not None and (turn != self.turn or not self.told))
        ):
            await self.frame()

    async def answered(self) -> None:
        """Reads until the last message has its answer."""
        while not self.closed and (await self.frame())["t"] not in ("ack", "error"):
            pass

    async def to_the_end(self) -> None:
        while not self.closed:
            await self.frame()


# --- comparing -------------------------------------------------------------------------------


class Difference(Exception):
    """A difference by which the viewer could tell the two games apart, and its place."""


def _compare(what: str, one: bytes, other: bytes) -> None:
    if one != other:
        place = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), -1)
        start = max(place - 60, 0)
        raise Difference(f"{what}: {one[start : place + 100]!r} against {other[start : place + 100]!r}")


OPEN = "0.0.open.0"
"""A placeholder for the seat's latest request."""

SAID: tuple[dict[str, Any], ...] = (
    {"t": "act", "id": "e", "request_id": OPEN, "action": {"team": [1, 1]}},
    {"t": "act", "id": "f", "request_id": OPEN, "action": {"text": 7}},
    {"t": "act", "id": "g", "request_id": OPEN, "action": {"target": 99}},
    {"t": "ping", "id": "p"},
    {"t": "act", "id": "a", "request_id": "1.1.vote.1", "action": {"approve": True}},
    {"t": "act", "id": "b", "request_id": "1.1.propose_team.1", "action": {"team": [1, 2], "text": ""}},
    {"t": "act", "id": "c", "request_id": "9.9.speak.9", "action": {"text": "so"}},
    {"t": "jump", "id": "d"},
)
"""Messages that a viewer tries on its socket; too few to end the connection."""


class Side:
    """One of the two services."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def lay(self, game_id: str, batch_id: str, log: Sequence[Event]) -> TellingJournal:
        """A new game with this beginning, and its journal."""
        services = self.served.services
        # Played from outside, so that requests are sent; and driven by nobody but the comparison.
        seats = [{"agent": "remote", "options": {}}] * PLAYERS
        game = NewGame(game_id, 0, "auto", "0", seats, log)
        batch = BatchRow(batch_id, NOW_MS, 1, "0", {})

        async def work(connection: Any) -> None:
            await services.store.insert_batch(connection, batch)
            await services.store.insert_games(connection, batch_id, [game], NOW_MS)

        await services.database.writer.run(work)
        inner = GameLog(services.database, game_id, len(log))
        return TellingJournal(inner, services.feed, game_id, batch_id)


class Twins:
    """Two services and the comparisons made on them."""

    def __init__(self, one: Served, other: Served, still: Still) -> None:
        self.sides = (Side(one), Side(other))
        self._still = still
        self._numbers = itertools.count()
        self.pairs = self.requests = self.compared = 0
        """The numbers of pairs of games, HTTP requests and bytes that were equal."""

    async def compare(self, kind: str, number: int, viewer: Viewer, *, thorough: float) -> str | None:
        """The difference by which this viewer could tell the pair of this set apart; None if there is none,
        or no pair.

        ``thorough``: the share of steps after which answers over HTTP are compared, too.
        """
        pair = pair_of(kind, number, viewer)
        if pair is None:
            return None
        pair.coarser(Random(number))
        name = f"{next(self._numbers):06d}".translate(str.maketrans("01", "ab"))
        try:
            async with asyncio.timeout(WITHIN_S + 3 * len(pair.steps)):
                await self._compare(pair, viewer, f"g_{name}", f"b_{name}", Random(number), thorough)
        except Difference as found:
            return str(found)
        except TimeoutError:
            return "something did not come that must have"
        self.pairs += 1
        return None

    async def _compare(
        self, pair: Pair, viewer: Viewer, game: str, batch: str, rng: Random, thorough: float
    ) -> None:
        journals = [
            await side.lay(game, batch, log) for side, log in zip(self.sides, pair.first, strict=True)
        ]
        logs = [list(log) for log in pair.first]
        expires = NOW_MS // 1000 + 3600
        grant = (
            Grant.to_watch(expires, game=game)
            if viewer == PUBLIC
            else Grant.for_seat(game, viewer, 1, expires)
        )
        credential = self.sides[0].served.services.keys.mint(grant)
        async with contextlib.AsyncExitStack() as stack:
            sockets = [await self._wire(stack, SocketWire, side) for side in self.sides]
            follows = [await self._wire(stack, FollowWire, side) for side in self.sides]
            for socket, follow in zip(sockets, follows, strict=True):
                await socket.begin(game, credential, live=True)
                await follow.begin(Ask(f"/games/{game}/events?follow=true"), credential)
            left_to_say = list(SAID)
            games = [state.fold(log) for log in pair.first]
            for step in range(len(pair.steps) + 1):
                seen = len(project(logs[0], viewer))
                asked = None
                for socket, one in zip(sockets, games, strict=True):
                    # Each by its own log: that both are asked the same is for the comparison to find.
                    asked = next((r.id for r in rules.pending(one) if r.seat == viewer), None)
                    turn = rules.turn_of(state.fold(project(one.log, PUBLIC)).table)
                    await socket.until(seen, asked, turn)
                for follow in follows:
                    await follow.until(seen)
                # Not into the end of a game: whether the close or the answer is first is nobody's secret.
                ends = pair.ends and step == len(pair.steps)
                if left_to_say and rng.random() < 0.3 and not ends:
                    message = left_to_say.pop(rng.randrange(len(left_to_say)))
                    if message.get("request_id") == OPEN:
                        message = {**message, "request_id": asked or OPEN}
                    for socket in sockets:
                        socket.say(message)
                        await socket.answered()
                for what, wires in (("the socket", sockets), ("the stream", follows)):
                    _compare(f"{what} at step {step}", bytes(wires[0].taken), bytes(wires[1].taken))
                last = step == len(pair.steps)
                if last or rng.random() < thorough:
                    await self._ask_all(rng, game, batch, viewer, seen, credential, everything=last)
                if not last:
                    for journal, log, events in zip(journals, logs, pair.steps[step], strict=True):
                        await journal.append(events)
                        log += events
                    for one, events in zip(games, pair.steps[step], strict=True):
                        state.apply(one, events)
            if pair.ends:
                for wire in (*sockets, *follows):
                    await wire.to_the_end()
            for what, wires in (("the socket", sockets), ("the stream", follows)):
                _compare(f"{what} at the end", bytes(wires[0].taken), bytes(wires[1].taken))
                self.compared += len(wires[0].taken)
            await self._refused_sockets(stack, game, viewer, credential, len(project(logs[0], viewer)))

    async def _wire(self, stack: contextlib.AsyncExitStack, kind: type[W], side: Side) -> W:
        wire = await kind.to(side.served.url)
        stack.push_async_callback(wire.close)
        return wire

    async def _refused_sockets(
        self, stack: contextlib.AsyncExitStack, game: str, viewer: Viewer, credential: str, head: int
    ) -> None:
        """Opens connections that are closed at once, to compare the close frames."""
        other = f"seat:{viewer % PLAYERS + 1}"
        attempts: list[dict[str, Any]] = [{"viewer": "full"}, {"viewer": other}]
        for more in (*attempts, {"after": head + 1}, {"after": max(head - 3, 0)}):
            taken = []
            for side in self.sides:
                wire = await self._wire(stack, SocketWire, side)
                await wire.begin(game, credential, **more)
                await (
                    wire.until(min(head, 3))
                    if "after" in more and more["after"] < head
                    else wire.to_the_end()
                )
                taken.append(bytes(wire.taken))
            _compare(f"identify with {more}", *taken)
            self.compared += len(taken[0])

    async def _ask_all(
        self,
        rng: Random,
        game: str,
        batch: str,
        viewer: Viewer,
        seen: int,
        credential: str,
        *,
        everything: bool,
    ) -> None:
        own = asks_of_a_game(game, viewer, seen, rng.randrange(seen))
        listed = asks_of_a_batch(game, batch)
        if not everything:
            own = [own[0], *rng.sample(own[1:], 2)]
            listed = rng.sample(listed, 1)
        asks = [(one, credential) for one in own] + [(one, READER) for one in listed if viewer == PUBLIC]
        async with contextlib.AsyncExitStack() as stack:
            # Not kept from one time to the next: the server closes what is idle.
            wires = [await self._wire(stack, HttpWire, side) for side in self.sides]
            for ask, bearer in asks:
                self._still.turn += 1
                answers = [await wire.ask(ask, bearer) for wire in wires]
                self.requests += 1
                self.compared += len(answers[0])
                _compare(f"{ask.method} {ask.path} at {seen}", *answers)
                if answers[0].startswith(b"HTTP/1.1 5"):
                    raise Difference(f"{ask.method} {ask.path} at {seen} broke: {answers[0][-300:]!r}")


def asks_of_a_game(game: str, viewer: Viewer, seen: int, after: int) -> list[Ask]:
    """Requests of a seat or a watcher about its game, allowed and forbidden ones."""
    path = f"/games/{game}"
    other = viewer % PLAYERS + 1
    own = "public" if viewer == PUBLIC else f"seat:{viewer}"
    return [
        Ask(path),
        Ask(path, headers=("if-none-match: *",)),
        Ask(path, headers=(f'if-none-match: "{own}.{seen}.running"',)),
        Ask(f"{path}?viewer=public"),
        Ask(f"{path}?viewer=full"),
        Ask(f"{path}?viewer=seat:{other}"),
        Ask(f"{path}?viewer=seat:9"),
        Ask(f"{path}/events"),
        Ask(f"{path}/events?after={after}&limit=3"),
        Ask(f"{path}/events?viewer=public"),
        Ask(f"{path}/events?after={seen + 1}"),
        Ask(f"{path}/events?viewer=seat:{other}"),
        Ask(f"{path}/requests"),
        Ask(f"{path}/requests/1.1.vote.{other}/action", "POST", body='{"action": {"approve": true}}'),
        Ask(f"{path}/step", "POST", body="{}"),
        Ask(f"{path}/fork", "POST", body='{"after": {"round": 1, "attempt": 1, "phase": "vote"}}'),
        Ask(f"{path}/tokens", "POST", body='{"viewer": "seat:1"}'),
        Ask(f"{path}/seats/{other}/claim-code", "POST", body="{}"),
        Ask(f"{path}/cancel", "POST"),
    ]


def asks_of_a_batch(game: str, batch: str) -> list[Ask]:
    """Further requests, for a reader who sees only what is public."""
    path = f"/batches/{batch}"
    return [
        Ask(path),
        Ask(f"{path}/events"),
        Ask(f"{path}/export?partial=true"),
        Ask(f"{path}/export?partial=true&after=5"),
        Ask(f"{path}/export"),
        Ask(f"{path}/export?view=full&partial=true"),
        Ask(f"/games?batch={batch}"),
        Ask("/games?limit=3"),
        Ask("/games?sort=-finished&winner=loyal,evil&limit=3"),
        Ask("/batches?limit=3"),
        Ask(f"/games/{game}"),
        Ask(f"/games/{game}/events"),
        Ask(f"/games/{game}/fork", "POST", body='{"after": {"round": 1, "attempt": 1, "phase": "vote"}}'),
    ]


@contextlib.asynccontextmanager
async def twins() -> AsyncIterator[Twins]:
    """Two services that differ only in their games; time and random bits are fixed."""
    with contextlib.ExitStack() as stack:
        still = Still()
        stack.enter_context(clock.use_clock(still))
        # The HTTP server's own clock, and its random pings.
        stack.enter_context(mock.patch("uvicorn.server.formatdate", return_value="still"))
        stack.enter_context(mock.patch("app.serving.server.PING_S", 3600.0))
        # A connection may rest while other pairs are compared, on a busy machine for long.
        stack.enter_context(mock.patch("app.serving.server.KEEP_ALIVE_S", 3600))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = [
            local_settings(
                f"sqlite:///{directory / name}",
                api_key="ik_" + "o" * 43,
                token_secrets=SECRET,
                runner=False,  # the games are played here, step by step on both sides
                idle_s=3600,
                follow_blank_s=3600,
            )
            for name in ("one", "other")
        ]
        async with running_server(made[0]) as one, running_server(made[1]) as other:
            for served in (one, other):
                key = ApiKey(
                    "k_reader", "reader", hash_of(READER), ("games:create:any", "games:read:any"), NOW_MS
                )
                await KeyStore(served.services.database).add(key)
            yield Twins(one, other, still)


async def faults_of(
    sets: Sequence[tuple[str, int]], thorough: float, tell: Callable[[str], object] = lambda line: None
) -> tuple[Twins, list[str]]:
    """Compares sets of twins. Returns the counts and every difference; calls ``tell`` after each set."""
    faults: list[str] = []
    async with twins() as found:
        for kind, number in sets:
            tell(f"{kind} {number}: {len(faults)} differences so far")
            for viewer in VIEWERS:
                if fault := await found.compare(kind, number, viewer, thorough=thorough):
                    faults.append(f"{kind} set {number}, viewer {viewer}: {fault}")
                    tell(faults[-1])
    return found, faults


def all_sets(count: int) -> Iterator[tuple[str, int]]:
    """This many sets, of the four kinds in turn."""
    for index in range(count):
        yield KINDS[index % len(KINDS)], index // len(KINDS)


async def _tell_planted(sets: int) -> int:
    """Prints the share of comparisons that found each leak, by kind. Returns 1 if a leak was missed."""
    from tests.app.planted_leaks import LEAKS, planted

    table: dict[str, dict[str, float]] = {}
    async with twins() as found:
        for leak in ("none", *LEAKS):
            with planted(leak) if leak in LEAKS else contextlib.nullcontext():
                for kind in KINDS:
                    cases = [(number, viewer) for number in range(sets) for viewer in VIEWERS]
                    flagged = [await found.compare(kind, *case, thorough=0.0) is not None for case in cases]
                    table.setdefault(leak, {})[kind] = round(sum(flagged) / len(flagged), 3)
    sys.stdout.write(json.dumps(table, indent=2) + "\n")
    missed = [leak for leak, (kind, _) in LEAKS.items() if not table[leak][kind]]
    return 1 if missed or any(table["none"].values()) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.app.twins", description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="Leave out so many sets.")
    parser.add_argument(
        "--thorough", type=float, default=0.2, help="Share of steps after which HTTP is asked."
    )
    parser.add_argument("--planted", action="store_true", help="Tell which kinds of twins find which leak.")
    given = parser.parse_args(arguments)
    if given.planted:
        return asyncio.run(_tell_planted(given.sets))
    started = time.monotonic()
    sets = list(itertools.islice(all_sets(given.sets), given.first, None))
    found, faults = asyncio.run(faults_of(sets, given.thorough, lambda line: sys.stderr.write(f"{line}\n")))
    report = {
        "sets": len(sets),
        "viewers": len(VIEWERS),
        "pairs": found.pairs,
        "requests": found.requests,
        "bytes": found.compared,
        "differences": faults,
        "seconds": round(time.monotonic() - started, 1),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
