"""Rows of bots: how many answers a second five bots in each game give, beside the least that a server does.

``python -m bench.bots`` prints them for SQLite; ``--database-url postgresql://…`` uses that empty database,
with one process and with two (``--processes``), with the bots' sockets spread over both at random. The
servers run in processes of their own, the bots in this one; everything stays on 127.0.0.1.

A bot answers every request at once, approves every team, and otherwise takes the default. The bots of a round
connect first and hold their answers until all are connected; then the clock starts. It stops when the last
game is over.
"""

import argparse
import contextlib
import json
import os
import random
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import orjson
import psutil

from bench.errands import Helper, port_in
from bench.onlookers import masked
from bench.row import Row
from bench.watchers import percentile

__all__ = ["Servers", "bot_rows"]

SEATS: Final = 5
WITHIN_S: Final = 120.0
"""Seconds; no round takes longer."""

ROUNDS: Final = {1: 12, 10: 3, 100: 1}
"""By number of games at once: how many rounds are played, one after the other."""

BARE_ANSWERS: Final = 140
"""Answers of each bot in a game of the bare server: enough that the cost of connecting hardly counts."""

_TEXT, _CLOSE, _PING = 0x1, 0x8, 0x9


class Bot:
    """One seat's program: a socket that reads requests and answers them."""

    def __init__(self, port: int, path: str, greeting: bytes) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._greeting = greeting
        self._unread = b""
        self._upgraded = False
        self._held: bytes | None = None
        self._sent_at = 0.0
        self.holds = True
        self.is_in = False
        """Whether it has been welcomed."""
        self.open = True
        self.clock: Callable[[], float] = time.monotonic
        self.waits: list[float] = []
        """Seconds of the clock from each answer to its acknowledgement."""
        self.asked_at: float | None = None
        """When the last request came that was answered at once."""
        self.sock.send(
            (
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            ).encode()
        )

    def go(self) -> None:
        """Sends the answer that was held, and from now on every answer at once."""
        self.holds = False
        if self._held is not None:
            self._answer(self._held)

    def read(self) -> None:
        """Takes what there is to read. Raises RuntimeError for a refusal, or an early close."""
        data = self._unread + self.sock.recv(1 << 18)
        if not self._upgraded:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._unread = head
                return
            if not head.startswith(b"HTTP/1.1 101"):
                raise RuntimeError(f"not upgraded: {head[:80]!r}")
            self._upgraded = True
            self.sock.send(self._greeting)
        at, size = 0, len(data)
        while at + 2 <= size:
            length, body = data[at + 1], at + 2
            if length >= 126:
                body += 2 if length == 126 else 8
                length = int.from_bytes(data[at + 2 : body], "big")
            if body + length > size:
                break
            self._take(data[at] & 0xF, data[body : body + length])
            at = body + length
        self._unread = data[at:]

    def _take(self, opcode: int, body: bytes) -> None:
        if opcode == _PING:
            self.sock.send(masked(0xA, body))
        elif opcode == _CLOSE:
            if body[:2] != (1000).to_bytes(2, "big"):
                raise RuntimeError(f"closed: {body!r}")
            self.open = False
        elif body.startswith(b'{"t":"ack"'):
            self.waits.append(self.clock() - self._sent_at)
        elif body.startswith(b'{"t":"request"'):
            self._answer(answer_to(orjson.loads(body)))
        elif body.startswith(b'{"t":"welcome"'):
            self.is_in = True
        elif body.startswith(b'{"t":"error"'):
            raise RuntimeError(f"refused: {body!r}")

    def _answer(self, act: bytes) -> None:
        if self.holds:
            self._held = act
            return
        self._sent_at = self.asked_at = self.clock()
        self.sock.send(masked(_TEXT, act))


class HttpBot:
    """One seat's program over HTTP: waits for its request, answers it, and waits for the next one."""

    def __init__(self, port: int, game: str, token: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._path = f"/games/{game}/requests"
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        self._unread = b""
        self._sent_at: float | None = None
        self._held: dict[str, Any] | None = None
        self.holds = True
        self.is_in = False
        """Whether its first request has been answered: with a request, or with none after a second."""
        self.open = True
        self.clock: Callable[[], float] = time.monotonic
        self.waits: list[float] = []
        self.asked_at: float | None = None
        self._ask(1)

    def _ask(self, wait_s: int) -> None:
        self.sock.send(f"GET {self._path}?wait_s={wait_s} HTTP/1.1\r\n{self._head}\r\n".encode())

    def go(self) -> None:
        """Sends the answer that was held, and from now on every answer at once."""
        self.holds = False
        self._answer(self._held)

    def read(self) -> None:
        """Takes what there is to read. Raises RuntimeError for a refusal."""
        data = self._unread + self.sock.recv(1 << 18)
        head, found, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) if found else 0
        if not found or len(body) < length:
            self._unread = data
            return
        self._unread = b""
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"refused: {body!r}")
        view = orjson.loads(body)
        if self._sent_at is not None:
            self.waits.append(self.clock() - self._sent_at)
            self._sent_at = None
            self._ask(60)
        elif view["status"] not in ("created", "running"):
            self.open = False
        else:
            self._held = view["requests"][0] if view["requests"] else None
            self.is_in = True
            if not self.holds:
                self._answer(self._held)

    def _answer(self, asked: dict[str, Any] | None) -> None:
        if asked is None:
            self._ask(60)
            return
        body = orjson.dumps({"action": action_for(asked)})
        path = f"{self._path}/{asked['request_id']}/action"
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
        self._sent_at = self.asked_at = self.clock()
        self.sock.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def action_for(asked: dict[str, Any]) -> dict[str, Any]:
    """The action that answers a request."""
    action: dict[str, Any] = {"approve": True} if asked["kind"] == "vote" else asked["default"]
    return action


def answer_to(asked: dict[str, Any]) -> bytes:
    """The ``act`` that answers a request."""
    request_id = asked["request_id"]
    return orjson.dumps({"t": "act", "id": request_id, "request_id": request_id, "action": action_for(asked)})


@dataclass
class Round:
    """The time and the CPU that the answers of some rounds took."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the servers."""
    waits: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return len(self.waits) / self.seconds

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu_s / len(self.waits)


class Servers:
    """Processes that serve, on one database."""

    def __init__(self, database_url: str, processes: int, key: str | None = None) -> None:
        """``key``: with which the bots' games are made. None: the service needs none."""
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._command = [
            *(sys.executable, "-m", "app.cli", "serve", "--port", "0", "--database-url", database_url)
        ]
        self._processes: list[subprocess.Popen[bytes]] = []
        self.ports: list[int] = []
        for _ in range(processes):
            self._start()

    def _start(self) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("INTERINTENT_")}
        process = subprocess.Popen(self._command, stderr=subprocess.PIPE, env=env)
        assert process.stderr is not None
        self.ports.append(port_in(process.stderr))
        self._processes.append(process)

    def cpu_s(self) -> float:
        """CPU-seconds of all processes so far."""
        used = [psutil.Process(process.pid).cpu_times() for process in self._processes]
        return sum(one.user + one.system for one in used)

    def loop_s(self) -> float:
        """CPU-seconds of the first process's event loop so far."""
        text = Path(f"/proc/{self._processes[0].pid}/schedstat").read_text()
        return int(text.split()[0]) / 1e9

    def rss(self) -> int:
        """Bytes in memory of all processes."""
        return sum(int(psutil.Process(process.pid).memory_info().rss) for process in self._processes)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)

    def games(self, count: int) -> list[dict[str, Any]]:
        """New games whose seats are all remote."""
        laid_out: list[dict[str, Any]] = []
        while len(laid_out) < count:
            order = {"count": min(50, count - len(laid_out)), "seats": [{"agent": "remote"}]}
            connection = HTTPConnection("127.0.0.1", self.ports[0], timeout=60)
            connection.request("POST", "/games", json.dumps(order | {"profile": "official"}), self._headers)
            response = connection.getresponse()
            text = response.read()
            connection.close()
            assert response.status < 300, text
            laid_out += json.loads(text)["games"]
        return laid_out

    def bots(self, games: int, *, http: bool = False) -> list[Bot] | list[HttpBot]:
        """The bots of new games, each at a process drawn at random."""
        rnd = random.Random(games)
        if http:
            return [
                HttpBot(rnd.choice(self.ports), game["game_id"], seat["token"])
                for game in self.games(games)
                for seat in game["seats"]
            ]
        return [
            Bot(rnd.choice(self.ports), "/ws", _identify(game["game_id"], seat["token"]))
            for game in self.games(games)
            for seat in game["seats"]
        ]


def _identify(game: str, token: str) -> bytes:
    message = {"t": "identify", "v": 1, "token": token, "game": game, "after": 0}
    return masked(_TEXT, json.dumps(message).encode())


class Bare(Helper):
    """The bare server."""

    def bots(self, games: int, *, http: bool = False) -> list[Bot]:
        """The bots of this many groups, over sockets."""
        greeting = masked(_TEXT, str(BARE_ANSWERS).encode())
        return [Bot(self.port, f"/{game}", greeting) for game in range(games) for _ in range(SEATS)]


def play(server: Servers | Bare, games: int, rounds: int, *, http: bool = False) -> Round:
    """Plays this many rounds of games, one after the other. Returns what they took."""
    took = Round()
    for _ in range(rounds):
        poll = select.epoll()
        bots: dict[int, Any] = {bot.sock.fileno(): bot for bot in server.bots(games, http=http)}
        for number in bots:
            poll.register(number, select.EPOLLIN)
        give_up = time.monotonic() + WITHIN_S

        def turn(bots: dict[int, Any] = bots, poll: select.epoll = poll, give_up: float = give_up) -> None:
            for number, _ in poll.poll(1.0):
                bot = bots[number]
                bot.read()
                if not bot.open:
                    poll.unregister(number)
                    bot.sock.close()
                    del bots[number]
            if time.monotonic() > give_up:
                raise TimeoutError(f"{len(bots)} bots not done after {WITHIN_S:g} s")

        everyone = list(bots.values())
        while not all(bot.is_in for bot in everyone):
            turn()
        quiet = time.monotonic() + 0.3
        while time.monotonic() < quiet:
            for number, _ in poll.poll(0.05):
                bots[number].read()
        used, started = server.cpu_s(), time.monotonic()
        for bot in everyone:
            bot.go()
        while bots:
            turn()
        took.seconds += time.monotonic() - started
        took.cpu_s += server.cpu_s() - used
        for bot in everyone:
            took.waits += bot.waits
        poll.close()
    return took


@contextlib.contextmanager
def serving(database_url: str | None, processes: int) -> Iterator[Servers]:
    """The service while the block lasts, on an empty SQLite file unless a database is given."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(database_url or f"sqlite:///{folder}/bench.db", processes)
        try:
            yield servers
        finally:
            servers.stop()


def bot_rows(
    scale: float, most: int = 10_000, *, database_url: str | None = None, processes: int = 2
) -> list[Row]:
    """Answers a second, CPU an answer and waits for acknowledgements, at each number of games at once that
    needs ``most`` sockets at most: over sockets and over HTTP, with PostgreSQL also with several
    ``processes``.
    """
    rows: list[Row] = []
    at_once = {games: rounds for games, rounds in ROUNDS.items() if games * SEATS <= most}
    alone: dict[int, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Bare("bench.bare", [f"{folder}/bare.db"]) as bare,
    ):
        with serving(database_url, 1) as servers:
            where = "" if database_url is None else ", PostgreSQL"
            play(servers, 1, 1)
            for games, rounds in at_once.items():
                rounds = max(1, round(rounds * scale))
                ours, theirs = play(servers, games, rounds), play(bare, games, rounds)
                alone[games] = ours.speed
                beside = (
                    f"bare {theirs.speed:,.0f}",
                    ours.speed / theirs.speed,
                    "1/8" if not where else "1/16",
                )
                rows += _rows(games, where, ours, beside, theirs)
            for games, rounds in at_once.items():
                ours = play(servers, games, max(1, round(rounds * scale / 3)), http=True)
                beside = f"sockets {alone[games]:,.0f}", ours.speed / alone[games], ""
                rows += _rows(games, f"{where}, over HTTP", ours, beside)
        if database_url is not None:
            with serving(database_url, processes) as servers:
                play(servers, 1, 1)
                for games, rounds in at_once.items():
                    ours = play(servers, games, max(1, round(rounds * scale)))
                    beside = f"one {alone[games]:,.0f}", ours.speed / alone[games], "0.8"
                    rows += _rows(games, f"{where}, {processes} processes", ours, beside)
    return rows


def _rows(
    games: int, where: str, took: Round, beside: tuple[str, float, str], bare: Round | None = None
) -> list[Row]:
    """``bare``: the same on the bare server, where it was measured: its bots wait for their turn, too."""
    what = f"answers of five bots in {'one game' if games == 1 else f'{games} games'}{where}"
    waits = [
        (
            1000 * percentile(took.waits, share),
            "ms",
            "" if bare is None else f"bare {1000 * percentile(bare.waits, share):.1f}",
            None,
        )
        for share in (0.5, 0.99)
    ]
    aims = ("2 ms", "5 ms" if games == 10 else "", "40 ms") if not where else ("", "", "")
    return [
        Row(what, took.speed, "answers/s", *beside),
        Row("    server CPU an answer", took.cpu_ms, "ms", "", None, aims[0]),
        Row("    until the acknowledgement, p50", *waits[0], aims[1]),
        Row("    p99", *waits[1], aims[2]),
    ]


def main() -> None:
    from bench.__main__ import show

    parser = argparse.ArgumentParser(
        prog="bench.bots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument("--database-url", help="an empty PostgreSQL database; left out: an SQLite file")
    parser.add_argument(
        "--processes", type=int, default=2, help="processes that share it, after a run with one (2)"
    )
    arguments = parser.parse_args()
    show(
        bot_rows(
            0.1 if arguments.quick else 1.0,
            database_url=arguments.database_url,
            processes=arguments.processes,
        )
    )


if __name__ == "__main__":
    main()
