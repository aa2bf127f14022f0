"""Rows of what one owner notices while another one floods the service.

``python -m bench.neighbours`` prints them. One key has 200 connections open, over which it sends 500 requests
a second: it creates games, lists them, reads them, and asks for what is not there. Another key makes games of
five bots, one after the other, and answers every request at once. Service, flood and bots are processes of
their own.
"""

import argparse
import asyncio
import json
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from bench.bots import Servers
from bench.row import Row
from bench.watchers import percentile

__all__ = ["neighbour_rows"]

CONNECTIONS: Final = 200
RATE: Final = 500.0
SECONDS: Final = 30.0

MIX: Final[Sequence[tuple[str, str, Any]]] = (
    ("POST", "/games", {}),
    ("GET", "/games?limit=100", None),
    ("GET", "/games/{game}", None),
    ("GET", "/games/{game}/events", None),
    ("POST", "/games", {"count": 20, "seats": [{"agent": "random"}]}),
    ("GET", "/games/g_nothere", None),
    ("POST", "/games", {"players": 99}),
    ("GET", "/batches?limit=100", None),
)


async def _connection(port: int, key: str, number: int, until: float, statuses: Counter[str]) -> None:
    """Sends its share of the requests over one connection, which is opened again if the service closes it."""
    rnd = random.Random(number)
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    game = "g_nothere"
    loop = asyncio.get_running_loop()
    due = loop.time() + rnd.random() * CONNECTIONS / RATE
    while max(due, loop.time()) < until:
        await asyncio.sleep(due - loop.time())
        # What comes late makes nothing after it later: a connection that waited catches up.
        due += CONNECTIONS / RATE
        method, path, order = rnd.choice(MIX)
        body = b"" if order is None else json.dumps(order).encode()
        head = (
            f"{method} {path.format(game=game)} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            status, answer = await _answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            statuses["broken"] += 1
            reader = writer = None
            continue
        statuses[status] += 1
        if status == "201":
            with suppress(ValueError, KeyError, IndexError):
                game = json.loads(answer)["games"][0]["game_id"]
    if writer is not None:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, headers = head.split(" ", 2)[1], head.lower()
    if "content-length: " in headers:
        return status, await reader.readexactly(int(headers.split("content-length: ")[1].split("\r\n")[0]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, body


async def flood(port: int, key: str, seconds: float) -> Counter[str]:
    """Floods the service. Returns how many requests got which status."""
    statuses: Counter[str] = Counter()
    until = asyncio.get_running_loop().time() + seconds
    async with asyncio.TaskGroup() as group:
        for number in range(CONNECTIONS):
            group.create_task(_connection(port, key, number, until, statuses))
    return statuses


def _played(servers: Servers, seconds: float, clock: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Plays games of five bots for so long. Returns the seconds of the clock from each game's creation to its
    first request, and those from each answer to its acknowledgement.
    """
    starts, waits = [], []
    until = time.monotonic() + seconds
    over_http = False
    while time.monotonic() < until:
        over_http = not over_http
        began = clock()
        bots: dict[int, Any] = {bot.sock.fileno(): bot for bot in servers.bots(1, http=over_http)}
        everyone = list(bots.values())
        with select.epoll() as poll:
            for number, bot in bots.items():
                bot.holds = False
                bot.clock = clock
                poll.register(number, select.EPOLLIN)
            started = None
            while bots:
                for number, _ in poll.poll(1.0):
                    bot = bots[number]
                    bot.read()
                    if started is None and bot.asked_at is not None:
                        started = bot.asked_at - began
                    if not bot.open:
                        poll.unregister(number)
                        bot.sock.close()
                        del bots[number]
        assert started is not None
        starts.append(started)
        waits += [wait for bot in everyone for wait in bot.waits]
    return starts, waits


def _key(url: str, name: str, *more: str) -> str:
    scopes = "games:create,games:read,eval:read"
    command = [sys.executable, "-m", "app.cli", "keys", "create", "--name", name, "--scope", scopes]
    made = subprocess.run([*command, "--database-url", url, "--json", *more], check=True, capture_output=True)
    return str(json.loads(made.stdout)["key"])


def neighbour_rows(scale: float, *, database_url: str | None = None) -> list[Row]:
    """Starts of games and waits of bots, with and without the flood."""
    seconds = max(6.0, SECONDS * scale)
    with tempfile.TemporaryDirectory() as folder:
        url = database_url or f"sqlite:///{folder}/bench.db"
        # Its bots never think: with the usual quota they would wait for it, not for the service.
        flooding, quiet = _key(url, "flooding"), _key(url, "quiet", "--quota", "requests=none")
        servers = Servers(url, 1, quiet)
        try:
            _played(servers, 1.0, time.monotonic)
            alone = _played(servers, seconds / 3, time.monotonic)
            command = [sys.executable, "-m", "bench.neighbours", "--flood", str(servers.ports[0])]
            command += ["--seconds", str(seconds + 2)]
            used = servers.cpu_s()
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{flooding}\n")
                process.stdin.flush()
                process.stdout.readline()
                beside = _played(servers, seconds / 2, time.monotonic)
                of_loop = _played(servers, seconds / 2, servers.loop_s)
                counts = json.loads(process.stdout.readline())
            cpu = (servers.cpu_s() - used) / seconds
        finally:
            servers.stop()
    rate = sum(counts.values()) / (seconds + 2)
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    return [
        Row(
            f"a game's start while another key sends {rate:.0f} requests/s, longest",
            1000 * max(beside[0]),
            "ms",
            f"alone {1000 * max(alone[0]):.0f}",
            None,
            "1,000 ms",
        ),
        Row(
            "    its bots' answers until the acknowledgement, p99",
            1000 * percentile(beside[1], 0.99),
            "ms",
            f"alone {1000 * percentile(alone[1], 0.99):.0f}",
            None,
            "250 ms",
        ),
        Row(
            "    the same by the clock of the service's event loop, which other programs do not slow down",
            1000 * percentile(of_loop[1], 0.99),
            "ms",
            f"longest start {1000 * max(of_loop[0]):.0f}",
            None,
            "250 ms",
        ),
        Row("    p50", 1000 * percentile(beside[1], 0.5), "ms", f"{len(beside[1]):,} answers"),
        Row("    CPU of the service", cpu, "cores", statuses),
    ]


def main() -> None:
    from bench.__main__ import show

    parser = argparse.ArgumentParser(
        prog="bench.neighbours", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument("--database-url", help="an empty PostgreSQL database; left out: an SQLite file")
    parser.add_argument("--flood", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood is not None:
        key = sys.stdin.readline().strip()
        print("ready", flush=True)
        print(json.dumps(asyncio.run(flood(arguments.flood, key, arguments.seconds))))
        return
    show(neighbour_rows(0.1 if arguments.quick else 1.0, database_url=arguments.database_url))


if __name__ == "__main__":
    main()
