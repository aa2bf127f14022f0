"""Bodies that never come, come slowly or are not wanted do not keep a connection open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from app.serving import http_limits
from app.serving.http_limits import MAX_CHUNKS, UNREAD_BODY
from tests.app.real_server import Served, local_settings, running_server

KEY = "ik_" + "k" * 43
WITHIN_S = 100.0


@asynccontextmanager
async def serving(tmp_path: Path, **settings: object) -> AsyncIterator[Served]:
    given = {"body_idle_s": 0.2, "body_within_s": 0.6, **settings}
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", **given)) as served:
        yield served


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, said: bytes) -> None:
        self._writer.write(said)
        await self._writer.drain()

    async def head(self) -> bytes:
        """The status line and headers of the next answer; its body is read too."""
        async with asyncio.timeout(WITHIN_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await self._reader.readexactly(int(line[15:]))
            return head

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        async with asyncio.timeout(WITHIN_S):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""


@asynccontextmanager
async def raw(served: Served) -> AsyncIterator[Raw]:
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def post(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("headers", "begun"),
    [
        (["Content-Length: 100"], b""),
        (["Content-Length: 100"], b'{"count":'),
        (["Transfer-Encoding: chunked"], b""),
        (["Transfer-Encoding: chunked"], b"2\r\n{}\r\n"),
        (["Content-Length: 100", "Expect: 100-continue"], b""),
    ],
)
async def test_a_body_of_which_nothing_comes_is_given_up(
    tmp_path: Path, headers: list[str], begun: bytes
) -> None:
    async with serving(tmp_path, body_within_s=2 * WITHIN_S) as served, raw(served) as one:
        await one.say(post("/games", *headers) + begun)
        said = await one.rest()
        if "Expect: 100-continue" in headers:
            assert said.startswith(b"HTTP/1.1 100 ")
            said = said.partition(b"\r\n\r\n")[2]
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in said.lower()
        assert b'"too-slow"' in said


async def test_a_body_that_drips_is_given_up_though_it_never_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What drips in after the answer is passed over, so that the answer is not lost in the close.
    monkeypatch.setattr(http_limits, "UNREAD_BODY_S", 2 * WITHIN_S)
    async with serving(tmp_path, body_idle_s=2 * WITHIN_S) as served, raw(served) as one:
        await one.say(post("/games", "Content-Length: 1000000"))
        drops = 0

        async def drip() -> None:
            nonlocal drops
            while True:
                await one.say(b" ")
                drops += 1
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        head = await one.head()
        assert not dripping.done(), "it dripped to the end, and was answered all the same"
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        assert head.startswith(b"HTTP/1.1 408 ")
        assert drops


async def test_a_slow_body_that_does_come_is_taken(tmp_path: Path) -> None:
    async with serving(tmp_path, body_idle_s=WITHIN_S, body_within_s=WITHIN_S) as served, raw(served) as one:
        await one.say(post("/games", "Content-Length: 18"))
        for piece in (b'{"drive":', b'"man', b'ual"}'):
            await asyncio.sleep(0.05)
            await one.say(piece)
        assert (await one.head()).startswith(b"HTTP/1.1 201 ")


async def test_the_body_of_a_refused_caller_is_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path, api_key=KEY) as served, raw(served) as one:
        await one.say(post("/games", "Content-Length: 100", "Expect: 100-continue"))
        assert (await one.head()).startswith(b"HTTP/1.1 401 ")


async def test_a_small_unwanted_body_keeps_the_connection_open(tmp_path: Path) -> None:
    async with serving(tmp_path, api_key=KEY) as served, raw(served) as one:
        for _ in range(3):
            await one.say(post("/games", "Content-Length: 1000") + b" " * 400)
            assert (await one.head()).startswith(b"HTTP/1.1 401 ")
            await one.say(b" " * 600)
        await one.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await one.head()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("headers", [["Content-Length: 1000000000"], ["Transfer-Encoding: chunked"]])
async def test_an_unwanted_body_is_skipped_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: list[str]
) -> None:
    async with serving(tmp_path, api_key=KEY) as served:
        async with raw(served) as one:
            await one.say(post("/games", *headers))
            assert (await one.head()).startswith(b"HTTP/1.1 401 ")
            piece = b" " * 65_536 if "Content" in headers[0] else b"10000\r\n" + b" " * 65_536 + b"\r\n"
            sent = 0
            with suppress(ConnectionError):
                while sent < UNREAD_BODY + (64 << 20):
                    await one.say(piece)
                    sent += len(piece)
            # What the kernels of both sides hold beside it is not ours to say.
            assert sent < UNREAD_BODY + (32 << 20)
        monkeypatch.setattr(http_limits, "UNREAD_BODY_S", 0.2)
        async with raw(served) as one:
            await one.say(post("/games", *headers))
            assert (await one.head()).startswith(b"HTTP/1.1 401 ")
            assert await one.rest() == b""


async def test_a_body_in_crumbs_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, body_idle_s=WITHIN_S, body_within_s=WITHIN_S) as served:
        async with raw(served) as one:
            await one.say(post("/games", "Transfer-Encoding: chunked"))
            await one.say(b"1\r\n \r\n" * (MAX_CHUNKS + 1))
            assert (await one.rest()).startswith(b"HTTP/1.1 400 ")
        async with raw(served) as one:
            await one.say(post("/games", "Transfer-Encoding: chunked"))
            body = b'{"drive":"manual"}'.ljust(MAX_CHUNKS - 1)
            await one.say(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
            assert (await one.head()).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("body", [b"ZZ\r\n", b"1\r\n{\r\nZZ\r\n", b"0\r\nbad trailer\r\n\r\n"])
@pytest.mark.parametrize("key", [KEY, None])
async def test_a_body_in_malformed_chunks_is_refused_and_is_no_error_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: bytes, key: str | None
) -> None:
    who = [] if key is None else [f"Authorization: Bearer {key}"]
    async with serving(tmp_path, api_key=KEY) as served, raw(served) as one:
        await one.say(post("/games", "Transfer-Encoding: chunked", *who) + body)
        assert (await one.rest()).startswith(b"HTTP/1.1 400 ")
        async with raw(served) as other:
            await other.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await other.head()).startswith(b"HTTP/1.1 200 ")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_crumbs_after_the_answer_end_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, api_key=KEY) as served, raw(served) as one:
        await one.say(post("/games", "Transfer-Encoding: chunked"))
        assert (await one.head()).startswith(b"HTTP/1.1 401 ")
        await one.say(b"1\r\n \r\n" * (MAX_CHUNKS + 1))
        assert await one.rest() == b""


@pytest.mark.parametrize("begun", [b"", b"GET /livez HTTP/1.1\r\nHost: local"])
async def test_a_request_whose_head_does_not_come_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(http_limits, "HEAD_S", 0.2)
    async with serving(tmp_path) as served:
        async with raw(served) as one:
            await one.say(begun)
            assert await one.rest() == b""
        async with raw(served) as one:
            await one.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await one.head()).startswith(b"HTTP/1.1 200 ")
            await one.say(b"GET /livez")
            assert await one.rest() == b""


async def test_a_length_that_lies_costs_nobody_else_anything(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, raw(served) as one:
        await one.say(post("/games", "Content-Length: 2") + b"{}\x00no request\r\n\r\n")
        assert (await one.head()).startswith(b"HTTP/1.1 201 ")
        assert (await one.head()).startswith(b"HTTP/1.1 400 ")
        assert await one.rest() is not None


HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")


async def test_a_request_for_a_socket_that_is_no_valid_handshake_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        async with raw(served) as one:
            await one.say(post("/games", *HANDSHAKE, "Content-Length: 18") + b'{"drive":"manual"}')
            assert (await one.head()).startswith(b"HTTP/1.1 201 ")
            await one.say(post("/ws", *HANDSHAKE, "Content-Length: 2").replace(b"POST", b"GET") + b"{}")
            assert (await one.head()).startswith(b"HTTP/1.1 426 ")
        async with raw(served) as one:
            long = f"X-Long: {'x' * 9_000}"
            await one.say(post("/ws", *HANDSHAKE, long).replace(b"POST", b"GET"))
            assert (await one.rest()).startswith(b"HTTP/1.1 431 ")


async def test_a_body_of_two_lengths_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, raw(served) as one:
        two = post("/games", "Content-Length: 2", "Transfer-Encoding: chunked")
        await one.say(two + b'12\r\n{"drive":"manual"}\r\n0\r\n\r\n')
        assert (await one.rest()).startswith(b"HTTP/1.1 400 ")
