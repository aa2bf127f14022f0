"""What a client may do wrong on a socket: each fault gets its code, and others are served."""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from uvicorn.protocols.utils import ClientDisconnected
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from app.base.allowance import Allowance
from app.base.clock import now_ms
from app.play import socket as socket_module
from app.protocol.messages import MAX_IDENTIFY, MAX_MESSAGE
from app.seats import wire
from app.seats.limits import BURST, Strikes
from app.serving import server as server_module
from app.serving.socket_limits import _READ_AT_ONCE, FRAMES, SocketProtocol
from app.store.games import NewGame, new_id
from app.store.rows import BatchRow
from engine.chance import draw
from engine.events import UtteranceMade
from engine.profile import make_profile
from engine.rules import create
from tests.app.play.test_socket import new_game, nothing_is_left_over
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import Watcher, watching

WITHIN_S = 60.0
"""Hangs alone take so long, however slow the machine."""


@contextlib.asynccontextmanager
async def abused(tmp_path: Any, **more: Any) -> AsyncIterator[Served]:
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}", **more)
    async with running_server(settings) as server:
        yield server
        await nothing_is_left_over(server)


@pytest.fixture
async def served(tmp_path: Any) -> AsyncIterator[Served]:
    async with abused(tmp_path, identify_within_s=WITHIN_S) as server:
        yield server
        await still_serves(server)


@pytest.fixture
async def hasty(tmp_path: Any) -> AsyncIterator[Served]:
    """One that waits a second for identify: for those who mean to let it pass."""
    async with abused(tmp_path, identify_within_s=1) as server:
        yield server


async def still_serves(server: Served) -> None:
    game = await new_game(server, drive="manual")
    async with watching(server.ws_url) as one:
        welcome = await one.identify(game)
        await one.until_seq(welcome["head"])


def identify(**more: Any) -> dict[str, Any]:
    return {"t": "identify", "v": 1, "game": "g_none", **more}


# --- before welcome --------------------------------------------------------------------------

DEEP = "[" * 5000 + "]" * 5000

FIRST_MESSAGES: dict[str, tuple[str | bytes, int]] = {
    "binary": (b"\x00\x01", 1003),
    "binary identify": (json.dumps(identify()).encode(), 1003),
    "empty": ("", 4400),
    "no JSON": ("hello?", 4400),
    "not an object": ("[1]", 4400),
    "null": ("null", 4400),
    "NaN": ('{"t":"identify","v":1,"game":"g","after":NaN}', 4400),
    "a key twice": ('{"t":"identify","v":1,"game":"g","game":"h"}', 4400),
    "U+0000": (json.dumps(identify(game="g\0")), 4400),
    "a lone surrogate": ('{"t":"identify","v":1,"game":"\\ud800"}', 4400),
    "a control character": (json.dumps(identify(client="a\x07")), 4400),
    "too deep": ('{"t":' * 17 + "1" + "}" * 17, 4400),
    "much too deep": (DEEP[:4096], 4400),
    "unknown t": ('{"t":"subscribe"}', 4400),
    "t that is a list": ('{"t":["identify"]}', 4400),
    "ping first": ('{"t":"ping","id":"1"}', 4400),
    "act first": ('{"t":"act","id":"1","request_id":"1.1.vote.1","action":{}}', 4400),
    "unknown field": (json.dumps(identify(mode="fast")), 4400),
    "no version": ('{"t":"identify","game":"g"}', 4400),
    "version as text": (json.dumps(identify(v="1")), 4400),
    "version 2": (json.dumps(identify(v=2, mode="fast")), 4426),
    "version 0": (json.dumps(identify(v=0)), 4426),
    "no game": ('{"t":"identify","v":1}', 4400),
    "game of another type": (json.dumps(identify(game=7)), 4400),
    "negative after": (json.dumps(identify(after=-1)), 4400),
    "after as text": (json.dumps(identify(after="17")), 4400),
    "after as truth": (json.dumps(identify(after=True)), 4400),
    "after with a fraction": (json.dumps(identify(after=1.5)), 4400),
    "a number of many digits": ('{"t":"identify","v":1,"game":"g","after":' + "9" * 3000 + "}", 4400),
    "long id": (json.dumps(identify(id="x" * 65)), 4400),
    "more than 4 KiB": (json.dumps(identify(client="x" * MAX_IDENTIFY)), 1009),
    "more than a message takes": ("x" * (MAX_MESSAGE + 1), 1009),
}


@pytest.mark.parametrize("case", FIRST_MESSAGES)
async def test_a_first_message_other_than_identify_ends_the_connection(served: Served, case: str) -> None:
    message, code = FIRST_MESSAGES[case]
    async with watching(served.ws_url) as one:
        await one.connection.send(message)
        assert await one.until_closed() == code
    errors = [frame for frame in one.frames if frame["t"] == "error"]
    assert len(errors) == (1 if code == 4400 else 0)


@pytest.mark.parametrize(
    "viewer", ["", "researcher", "seat:0", "seat:6", "seat:01", "seat:+1", "seat:\u0661"]
)
async def test_a_viewer_that_the_table_does_not_have_is_refused(served: Served, viewer: str) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        await one.send(t="identify", v=1, game=game, viewer=viewer, id="i1")
        assert await one.until_closed() == 4400
    assert (one.frames[0]["t"], one.frames[0]["re"]) == ("error", "i1")


async def test_a_client_that_never_identifies_is_closed_with_4408(hasty: Served) -> None:
    async with watching(hasty.ws_url) as one:
        assert one.hello["identify_within_ms"] == 1000
        assert await one.until_closed() == 4408


async def test_pings_of_the_transport_do_not_put_off_the_time_to_identify(hasty: Served) -> None:
    async with watching(hasty.ws_url) as one:
        with contextlib.suppress(ConnectionClosed):
            async with asyncio.timeout(WITHIN_S):
                while True:
                    await one.connection.ping()
                    await asyncio.sleep(0.2)
        assert await one.until_closed() == 4408


# --- after welcome ---------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def welcomed(served: Served, **options: Any) -> AsyncIterator[Watcher]:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url, **options) as one:
        welcome = await one.identify(game)
        await one.until_seq(welcome["head"])
        one.frames.clear()
        yield one


BAD_MESSAGES: dict[str, tuple[str, str | None]] = {
    "no JSON": ("}{", None),
    "unknown t": ('{"t":"subscribe","id":"m"}', "m"),
    "unknown field": ('{"t":"ping","id":"m","volume":11}', "m"),
    "ping without id": ('{"t":"ping"}', None),
    "id of another type": ('{"t":"ping","id":7}', None),
    "empty id": ('{"t":"ping","id":""}', None),
    "act without action": ('{"t":"act","id":"m","request_id":"1.1.vote.1"}', "m"),
    "second identify": (json.dumps(identify(id="m")), "m"),
    "too deep": ('{"t":"act","id":"m","request_id":"r","action":' + '{"a":' * 16 + "1" + "}" * 17, None),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
async def test_the_third_message_that_cannot_be_read_ends_the_connection(served: Served, case: str) -> None:
    message, re = BAD_MESSAGES[case]
    async with welcomed(served) as one:
        for _ in range(2):
            await one.connection.send(message)
            frame = await one.next()
            assert (frame["t"], frame.get("re")) == ("error", re)
            assert frame["code"] in ("invalid-request", "unparsable")
        await one.send(t="ping", id="fine")
        assert await one.next() == {"t": "ack", "re": "fine"}
        await one.connection.send(message)
        assert await one.until_closed() == 4400


async def test_an_error_never_repeats_what_was_sent(served: Served) -> None:
    async with welcomed(served) as one:
        await one.connection.send('{"t":"swordfish"}')
        await one.connection.send('{"t":"ping","id":["swordfish"]}')
        await one.next()
        await one.next()
    assert len(one.frames) == 2
    assert "swordfish" not in json.dumps(one.frames)


async def test_a_binary_message_closes_with_1003(served: Served) -> None:
    async with welcomed(served) as one:
        await one.connection.send(b'{"t":"ping","id":"p"}')
        assert await one.until_closed() == 1003


async def test_broken_utf_8_closes_with_1007(served: Served) -> None:
    async with welcomed(served) as one:
        await one.connection.send(b'{"t":"\xff\xfe"}', text=True)
        assert await one.until_closed() == 1007


async def test_a_message_of_exactly_the_limit_is_read_and_one_byte_more_is_not(served: Served) -> None:
    async with welcomed(served) as one:
        fits = '{"t":"ping","id":"p"}'
        await one.connection.send(fits + " " * (MAX_MESSAGE - len(fits)))
        assert await one.next() == {"t": "ack", "re": "p"}
        await one.connection.send(fits + " " * (MAX_MESSAGE - len(fits) + 1))
        assert await one.until_closed() == 1009


async def test_fragments_do_not_get_around_the_limit(served: Served) -> None:
    async with welcomed(served) as one:
        # The server may close before the last fragment has left.
        with contextlib.suppress(Exception):
            await one.connection.send(["x" * 10_000] * 10)
        assert await one.until_closed() == 1009


async def test_a_message_in_fragments_is_one_message(served: Served) -> None:
    async with welcomed(served) as one:
        await one.connection.send(['{"t":', '"ping"', ',"id":"p"}'])
        assert await one.next() == {"t": "ack", "re": "p"}


async def test_a_message_comes_in_at_most_256_frames(served: Served) -> None:
    def ping(frames: int) -> list[str]:
        # The client adds an empty frame, which ends the message.
        return ['{"t":', *[" "] * (frames - 4), '"ping"', ',"id":"p"}']

    async with welcomed(served) as one:
        await one.connection.send(ping(256))
        assert await one.next() == {"t": "ack", "re": "p"}
    async with welcomed(served) as one:
        # The server may close before the last frame has left.
        with contextlib.suppress(Exception):
            await one.connection.send(ping(257))
        assert await one.until_closed() == 1009


async def test_a_flood_closes_with_4429_and_says_when_to_come_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock stands still: however slow the machine, no allowance comes back meanwhile.
    now = time.monotonic()
    for module in (socket_module, wire):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    async with welcomed(served) as one:
        for n in range(100):
            await one.send(t="ping", id=str(n))
        assert await one.until_closed() == 4429
        assert one.connection.close_reason == "retry_after_ms=2000"
    acks = [frame["re"] for frame in one.frames if frame["t"] == "ack"]
    # Identify took one of the twenty.
    assert acks == [str(n) for n in range(BURST - 1)]
    assert one.frames[-1]["retry_after_ms"] == 2000


async def test_transport_pings_within_the_allowance_are_answered(served: Served) -> None:
    async with welcomed(served) as one:
        for _ in range(FRAMES // 2):
            await one.connection.ping()
        await one.send(t="ping", id="still here")
        assert await one.next() == {"t": "ack", "re": "still here"}


# --- bytes below messages ----------------------------------------------------------------------


def frame(opcode: Opcode, data: bytes, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=mask, extensions=[])


async def handshaken(served: Served, receive_buffer: int | None = None) -> socket.socket:
    """A raw socket past the upgrade and the hello; what follows on it is up to the test."""
    sock = socket.socket()
    sock.setblocking(False)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    host, port = served.url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (host, int(port)))
    await loop.sock_sendall(
        sock,
        f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode(),
    )
    answer = b""
    async with asyncio.timeout(WITHIN_S):
        while b'"hello"' not in answer:
            answer += await loop.sock_recv(sock, 1)
    while (await loop.sock_recv(sock, 1)) != b"}":
        continue
    return sock


async def rest(sock: socket.socket) -> bytes:
    """What comes until the other side closes."""
    loop = asyncio.get_running_loop()
    found = b""
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionError):
            while part := await loop.sock_recv(sock, 65536):
                found += part
    return found


RAW: dict[str, tuple[bytes, int | None]] = {
    "not masked": (frame(Opcode.TEXT, b"{}", mask=False), 1002),
    "compressed, though we agreed on none": (b"\xc1" + frame(Opcode.TEXT, b"\xaa\x00")[1:], 1002),
    "a continuation of nothing": (frame(Opcode.CONT, b"{}"), 1002),
    "a new message inside another": (frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.TEXT, b"}"), 1002),
    "a length that is announced and too large": (
        b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"\0" * 4,
        1009,
    ),
    "an unknown opcode": (b"\x83\x80\0\0\0\0", 1002),
    "a close with half a code": (frame(Opcode.CLOSE, b"\x03"), 1002),
    "a close code nobody may send": (frame(Opcode.CLOSE, (1005).to_bytes(2, "big")), 1002),
    "noise": (b"\xf1\x9c" * 50, 1002),
    "a message in crumbs": (
        frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.CONT, b"x", fin=False) * 300,
        1009,
    ),
    # They add nothing to the size of the message, which alone would never end it.
    "a message in empty frames": (
        frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.CONT, b"", fin=False) * 300,
        1009,
    ),
    "nothing but the end": (b"", None),
}


@pytest.mark.parametrize("case", RAW)
async def test_bytes_other_than_websocket_frames_end_the_connection(served: Served, case: str) -> None:
    sent, code = RAW[case]
    sock = await handshaken(served)
    with sock:
        await asyncio.get_running_loop().sock_sendall(sock, sent)
        if code is None:
            sock.shutdown(socket.SHUT_WR)
        found = await rest(sock)
    if code is not None:
        assert found[:1] == b"\x88"
        assert int.from_bytes(found[2:4], "big") == code


FLOODS: dict[str, bytes] = {
    "pings": frame(Opcode.PING, b""),
    "pongs": frame(Opcode.PONG, b""),
    "pings of 125 bytes": frame(Opcode.PING, b"x" * 125),
    "a message in two frames, over and over": frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b""),
    "empty messages": frame(Opcode.TEXT, b""),
}


@pytest.mark.parametrize("is_identified", [False, True], ids=["before identify", "after welcome"])
@pytest.mark.parametrize("case", FLOODS)
async def test_a_flood_of_frames_ends_its_own_connection_and_is_not_read_to_its_end(
    served: Served, monkeypatch: pytest.MonkeyPatch, case: str, is_identified: bool
) -> None:
    read = 0
    events_received = ServerProtocol.events_received

    def counting(self: ServerProtocol) -> list[Any]:
        nonlocal read
        events = events_received(self)
        read += len(events)
        return events

    sock = await handshaken(served)
    loop = asyncio.get_running_loop()
    with sock:
        if is_identified:
            game = await new_game(served, drive="manual")
            message = json.dumps({"t": "identify", "v": 1, "game": game}).encode()
            await loop.sock_sendall(sock, frame(Opcode.TEXT, message))
            async with asyncio.timeout(WITHIN_S):
                answer = b""
                while b'"welcome"' not in answer:
                    answer += await loop.sock_recv(sock, 65536)
        monkeypatch.setattr(ServerProtocol, "events_received", counting)
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(sock, FLOODS[case] * 20_000)
        await rest(sock)
    # The last frames come in one part of a buffer with those that ended the connection.
    assert FRAMES < read < 3 * FRAMES + _READ_AT_ONCE // 6


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG])
async def test_a_flood_of_control_frames_closes_with_4429(served: Served, opcode: Opcode) -> None:
    sock = await handshaken(served)
    with sock:
        # So few that all of them are read: what comes after the close would reset the connection.
        await asyncio.get_running_loop().sock_sendall(sock, frame(opcode, b"") * (FRAMES + 1))
        found = await rest(sock)
    close = found[found.index(b"\x88") :]
    assert int.from_bytes(close[2:4], "big") == 4429
    assert close[4:].startswith(b"retry_after_ms=")


async def test_a_message_that_drips_in_does_not_outlive_the_time_to_identify(hasty: Served) -> None:
    sock = await handshaken(hasty)
    loop = asyncio.get_running_loop()
    with sock:
        # As long as identify may be: at this pace it would take minutes.
        text = json.dumps(identify()).encode().ljust(MAX_IDENTIFY)
        whole = asyncio.Event()

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in frame(Opcode.TEXT, text):
                    await loop.sock_sendall(sock, bytes([byte]))
                    await asyncio.sleep(0.1)
                whole.set()

        dripping_in = asyncio.create_task(drip())
        async with asyncio.timeout(WITHIN_S):
            said = await loop.sock_recv(sock, 4)
        assert said == b"\x88" + b"\x15" + (4408).to_bytes(2, "big")
        assert not whole.is_set(), "it was closed for what it said, not for its slowness"
        dripping_in.cancel()


# --- peers that do not read --------------------------------------------------------------------


async def long_game(served: Served, utterances: int) -> str:
    """A stored game with so much talk, 4,000 characters each, that no socket's buffer holds it."""
    profile = make_profile("interintent", 5)
    start = create(profile, draw("a long game"))
    talk = [
        UtteranceMade(seat=1, round=1, attempt=1, turn=n, phase="discuss", text="blah " * 800)
        for n in range(utterances)
    ]
    game = NewGame(new_id("g"), 0, "manual", "1", [], [*start, *talk])
    batch = BatchRow(new_id("b"), now_ms(), 1, "1", {})

    async def work(connection: Any) -> None:
        await served.services.store.insert_batch(connection, batch)
        await served.services.store.insert_games(connection, batch.batch_id, [game], now_ms())

    await served.services.database.writer.run(work)
    return game.game_id


def sockets_of_the_server(served: Served) -> list[Any]:
    port = int(served.url.rpartition(":")[2])
    found = psutil.Process(os.getpid()).net_connections("tcp")
    return [one for one in found if one.laddr.port == port and one.status != psutil.CONN_LISTEN]


async def within(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        # The system's tables cannot be waited on.
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_peer_that_never_reads_holds_up_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is borne for ever: who goes on does so beside it, and not after it.
    monkeypatch.setattr(wire, "BLOCKED_S", 3600.0)
    game = await long_game(served, 5000)
    sock = await handshaken(served, receive_buffer=4096)
    with sock:
        message = json.dumps({"t": "identify", "v": 1, "game": game}).encode()
        await asyncio.get_running_loop().sock_sendall(sock, frame(Opcode.TEXT, message))
        async with asyncio.timeout(WITHIN_S):
            async with watching(served.ws_url, max_size=None) as other:
                welcome = await other.identify(game)
                await other.until_seq(welcome["head"])
        assert sockets_of_the_server(served)


async def test_a_peer_that_never_reads_is_let_go(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BLOCKED_S", 0.5)
    monkeypatch.setattr(wire, "CLOSING_S", 0.2)
    game = await long_game(served, 5000)
    too_slow = wire.socket_closes.labels("4413")
    before = too_slow._value.get()
    sock = await handshaken(served, receive_buffer=4096)
    with sock:
        message = json.dumps({"t": "identify", "v": 1, "game": game}).encode()
        await asyncio.get_running_loop().sock_sendall(sock, frame(Opcode.TEXT, message))
        await within(lambda: too_slow._value.get() == before + 1)
        # Our part is over; the peer still holds the connection, and reads what had been on its way.
        halves = ("socket in", "socket out")
        await within(lambda: not [task for task in asyncio.all_tasks() if task.get_name() in halves])


async def test_a_peer_that_pings_but_reads_nothing_is_soon_no_longer_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise it would be closed before.
    monkeypatch.setattr("app.serving.socket_limits.FRAMES", 10**9)
    game = await new_game(served, drive="manual")
    sock = await handshaken(served, receive_buffer=4096)
    pings = frame(Opcode.PING, b"x" * 125) * 500
    taken = 0
    with sock:
        message = json.dumps({"t": "identify", "v": 1, "game": game}).encode()
        await asyncio.get_running_loop().sock_sendall(sock, frame(Opcode.TEXT, message))
        # What the kernel's buffers hold on both sides, and not what a server's memory does.
        with contextlib.suppress(TimeoutError):
            while taken < 40_000_000:
                async with asyncio.timeout(1):
                    await asyncio.get_running_loop().sock_sendall(sock, pings)
                taken += len(pings)
    assert taken < 20_000_000


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this platform has no TCP_USER_TIMEOUT")
async def test_the_kernel_drops_what_a_silent_peer_never_took(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "UNREAD_S", 1.0)
    monkeypatch.setattr(wire, "BLOCKED_S", 0.5)
    monkeypatch.setattr(wire, "CLOSING_S", 0.2)
    async with running_server(local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}")) as served:
        game = await long_game(served, 5000)
        sock = await handshaken(served, receive_buffer=4096)
        with sock:
            message = json.dumps({"t": "identify", "v": 1, "game": game}).encode()
            await asyncio.get_running_loop().sock_sendall(sock, frame(Opcode.TEXT, message))
            await within(lambda: len(sockets_of_the_server(served)) == 1)
            await within(lambda: not sockets_of_the_server(served))


async def test_a_peer_that_lags_is_closed_with_4413(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "LAG_S", 0.2)
    game = await long_game(served, 5000)
    async with watching(served.ws_url, max_size=None, max_queue=1) as one:
        await one.identify(game)
        while True:
            await asyncio.sleep(0.02)
            try:
                await one.next()
            except Exception:
                break
        assert one.connection.close_code == 4413
    # What it has is whole as far as it goes, so that it can come back for the rest.
    assert [item["seq"] for item in one.items] == list(range(1, len(one.items) + 1))


async def test_a_storm_of_connections_leaves_nothing_behind(served: Served) -> None:
    async def one(n: int) -> None:
        if n % 2:
            async with connect(served.ws_url, proxy=None, open_timeout=WITHIN_S) as connection:
                connection.transport.abort()
        else:
            sock = await handshaken(served)
            sock.close()

    for _ in range(5):
        await asyncio.gather(*(one(n) for n in range(40)))
    await within(lambda: not sockets_of_the_server(served))
    assert socket_module.sockets_open._value.get() == 0


# --- the counters ------------------------------------------------------------------------------


def test_an_allowance_gives_its_burst_at_once_and_then_its_rate() -> None:
    allowance = Allowance(rate=10, burst=20, now=0)
    assert [allowance.spend(0) for _ in range(21)] == [True] * 20 + [False]
    # After 0.25 s there are 2.5 again.
    assert [allowance.spend(0.25) for _ in range(3)] == [True, True, False]
    # It never saves up more than the burst.
    assert sum(allowance.spend(1000) for _ in range(50)) == 20


def test_only_strikes_within_the_window_count_together() -> None:
    strikes = Strikes(3, window_s=60)
    assert [strikes.out(at) for at in (0, 30, 61, 62)] == [False, False, False, True]


async def test_a_peer_that_talks_on_after_its_close_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.serving.socket_limits.AFTER_CLOSE", 10_000)
    plain = SocketProtocol.__init__

    def patient(self: SocketProtocol, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        # What would end it otherwise.
        self.close_timeout = 600.0

    monkeypatch.setattr(SocketProtocol, "__init__", patient)
    sock = await handshaken(served, receive_buffer=1 << 16)
    loop = asyncio.get_running_loop()
    with sock:
        # A frame that is none: closed with 4400, and the peer does not care.
        await loop.sock_sendall(sock, frame(Opcode.TEXT, b"hello?"))

        async def talk_on() -> None:
            while True:
                await loop.sock_sendall(sock, frame(Opcode.TEXT, b'{"t":"ping","id":"x"}' * 20))
                await asyncio.sleep(0.001)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(talk_on(), WITHIN_S)
        await within(lambda: not sockets_of_the_server(served))


async def test_a_close_that_comes_after_the_servers_own_finds_the_peer_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuses(self: Any, message: Any) -> None:
        raise RuntimeError("after sending 'websocket.close'")

    monkeypatch.setattr(SocketProtocol.__base__, "send", refuses)
    protocol = SocketProtocol.__new__(SocketProtocol)
    protocol.close_sent = True
    with pytest.raises(ClientDisconnected):
        await protocol.send({"type": "websocket.close"})
    protocol.close_sent = False
    with pytest.raises(RuntimeError):
        await protocol.send({"type": "websocket.nonsense"})
