"""How much an expensive message costs the server, over a real connection."""

import struct
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from app.play import socket
from app.protocol.messages import MAX_MESSAGE, read_text
from app.seats.wire import STRIKES
from engine.errors import AvalonError
from tests.app.abuses import Target, target
from tests.app.edge.test_bodies import SMALL, TIMES, cpu, loads, read, rounds, shapes
from tests.app.real_server import local_settings, running_server
from tests.app.twins import SocketWire

TEXTS = (
    "surrogate pairs in an object",
    "surrogate pairs, then a lone one",
    "surrogate pairs, then a control character",
    "keys with surrogate pairs",
    "two bytes a letter, then a control character",
    "escaped letters, then a control character",
    "escaped quotes, then a control character",
    "escaped backslashes before u0001",
    "line ends, then a surrogate",
    "tiny strings, a control character at the end",
    "objects, a surrogate at the end",
    "long keys in each other, a fault at the end",
    "one key, again and again",
    "quotes",
)

SIZE = 26_000
"""Bytes of a value; the message with it is a little shorter than it may be."""


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Target]:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "o" * 43)
    async with running_server(settings) as served:
        yield await target(served)


def messages() -> dict[str, bytes]:
    """Messages of a client, each with a nasty value in a member that a ping does not have."""
    values = shapes(SIZE)
    return {name: b'{"t":"ping","id":"p","x":' + values[name] + b"}" for name in TEXTS}


HARMLESS = b'{"t":"ping","id":"p","x":"' + b"x" * SIZE + b'"}'


def frame(message: bytes) -> bytes:
    return b"\x81\xfe" + struct.pack(">H", len(message)) + b"\0\0\0\0" + message


class Bot:
    """A spectator whose messages cannot be read: the third ends a connection, so it makes new ones."""

    def __init__(self, at: Target) -> None:
        self._at = at
        self._wire: SocketWire | None = None
        self._left = 0

    async def send(self, message: bytes) -> float:
        """Seconds of CPU that the message cost from its first byte to its refusal, at both ends."""
        if not self._left:
            await self._connect()
        assert self._wire is not None
        self._left -= 1
        data = frame(message)
        began = time.process_time()
        self._wire.send(data)
        while (said := await self._wire.frame())["t"] != "error":
            pass
        spent = time.process_time() - began
        assert said["code"] in ("invalid-request", "unparsable"), said
        return spent

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def _connect(self) -> None:
        await self.close()
        self._wire = await SocketWire.to(self._at.served.url)
        await self._wire.begin(self._at.game, self._at.watch())
        await self._wire.until(1)
        self._left = STRIKES - 1


@pytest.fixture
async def bot(at: Target) -> AsyncIterator[Bot]:
    one = Bot(at)
    yield one
    await one.close()


def suppressed(text: str) -> None:
    with suppress(AvalonError):
        read_text(text)


@pytest.mark.timeout(300)
async def test_a_message_over_a_connection_costs_little_more_than_json_does(
    bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both readers are timed where the connection calls ours, in turns: in another thread, or after something
    # else, either takes longer. So is all that a message costs: beside it stands a connection that reads JSON
    # so many times. What is added are the calls that any message costs.
    spent: dict[str, list[float]] = {}

    def timed(text: str) -> object:
        both = {"reader": partial(suppressed, text), "json": partial(loads, text.encode())}
        for name, work in [*both.items()] * 3:
            began = time.thread_time()
            work()
            spent.setdefault(name, []).append(time.thread_time() - began)
        return read_text(text)

    def so_many_times(text: str) -> object:
        for _ in range(TIMES):
            loads(text.encode())
        return read_text(harmless)

    harmless = HARMLESS.decode()
    for name, message in messages().items():
        for least in rounds():
            with monkeypatch.context() as patch:
                patch.setattr(socket, "read_text", timed)
                await bot.send(HARMLESS)  # a connection, made anew after every two, keeps its reader
                spent.clear()
                await bot.send(message)
                patch.setattr(socket, "read_text", so_many_times)
                await bot.send(HARMLESS)
                least.add("bound", await bot.send(message))
            for work, times in spent.items():
                least.add(work, min(times))
            least.add("any body", cpu(partial(read, SMALL), TIMES))
            least.add("any", await bot.send(HARMLESS))
            least.add("ours", await bot.send(message))
            if (
                least["reader"] <= TIMES * least["json"] + least["any body"]
                and least["ours"] <= least["bound"] + 2 * least["any"]
            ):
                break
        else:
            told = ", ".join(f"{what} {seconds * 1e3:.2f} ms" for what, seconds in least)
            pytest.fail(f"{name}: {told}")


async def test_a_message_over_a_connection_takes_at_most_48_bytes_a_byte(bot: Bot) -> None:
    for name, message in messages().items():
        await bot.send(HARMLESS)  # so that the connection is there
        tracemalloc.start()
        await bot.send(message)
        room = tracemalloc.get_traced_memory()[1] / len(message)
        tracemalloc.stop()
        assert room <= 48, (name, room)
        await bot.send(HARMLESS)


def test_the_messages_are_as_long_as_they_may_be() -> None:
    for name, message in messages().items():
        assert MAX_MESSAGE * 2 // 3 < len(message) <= MAX_MESSAGE, (name, len(message))
