import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.serving import server
from app.serving.server import UNREAD_S, CannotServe, check_exposure, listen, serve
from tests.app.calling import WITHIN_S
from tests.app.real_server import local_settings, running_server
from tests.app.watcher import watching

ROOT = Path(__file__).parents[3]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def url_of(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"


def test_a_busy_loop_keeps_no_thread_waiting_and_seldom_collects_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, thresholds, seen = sys.getswitchinterval(), gc.get_threshold(), []

    async def serving(*_: object) -> None:
        seen.append((sys.getswitchinterval(), gc.get_threshold()))

    monkeypatch.setattr(server, "serve", serving)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    try:
        server.run(create_app(local_settings("sqlite:///unused.db")), local_settings("sqlite:///unused.db"))
    finally:
        sys.setswitchinterval(usual)
        gc.set_threshold(*thresholds)
    assert seen == [(pytest.approx(server.SWITCH_S), (server.GARBAGE, *thresholds[1:]))]
    assert usual > server.SWITCH_S
    assert thresholds[0] < server.GARBAGE


# --- exposure --------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
async def test_without_a_key_other_machines_are_not_served(host: str) -> None:
    with pytest.raises(CannotServe, match="INTERINTENT_API_KEY"):
        await check_exposure(local_settings("sqlite:///unused.db", host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
async def test_without_a_key_this_machine_is_served(host: str) -> None:
    await check_exposure(local_settings("sqlite:///unused.db", host=host))


async def test_with_a_key_every_address_may_be_served() -> None:
    await check_exposure(local_settings("sqlite:///unused.db", host="0.0.0.0", api_key="ik_x"))


@pytest.mark.parametrize(
    ("host", "key", "warned"),
    [("0.0.0.0", "s" * 31, True), ("0.0.0.0", "s" * 32, False), ("127.0.0.1", "s", False)],
)
async def test_a_short_operators_key_that_others_can_try_is_warned_of(
    host: str, key: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    await check_exposure(local_settings("sqlite:///unused.db", host=host, api_key=key))
    said = capsys.readouterr().out
    assert ("fewer than 32 characters" in said) == warned
    assert "sss" not in said


async def test_a_refused_start_touches_nothing(tmp_path: Path) -> None:
    settings = local_settings(url_of(tmp_path), host="0.0.0.0")
    with pytest.raises(CannotServe):
        await serve(create_app(settings), settings)
    assert list(tmp_path.iterdir()) == []


# --- listening -------------------------------------------------------------------------------


def test_port_0_takes_a_free_port() -> None:
    (sock,) = listen("127.0.0.1", 0)
    with sock:
        assert sock.getsockname()[1] > 0


def test_a_taken_port_is_named() -> None:
    (sock,) = listen("127.0.0.1", 0)
    with sock:
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(CannotServe, match=f"127.0.0.1 port {port}"):
            listen("127.0.0.1", port)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(CannotServe, match=r"no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this platform has no TCP_USER_TIMEOUT")
def test_connections_inherit_the_time_a_peer_may_leave_unread() -> None:
    (sock,) = listen("127.0.0.1", 0)
    with sock:
        sock.listen()
        with socket.create_connection(sock.getsockname()):
            sock.setblocking(True)
            accepted, _ = sock.accept()
            with accepted:
                held = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert held == UNREAD_S * 1000 == 15_000


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_ipv6_loopback_is_served(tmp_path: Path) -> None:
    async with running_server(local_settings(url_of(tmp_path), host="::1")) as served:
        assert served.url.startswith("http://[::1]:")
        async with httpx.AsyncClient(trust_env=False, timeout=WITHIN_S) as client:
            assert (await client.get(f"{served.url}/livez")).status_code == 200
        async with watching(served.ws_url) as one:
            assert one.hello["t"] == "hello"


async def test_localhost_is_served_on_every_loopback_address_it_has(tmp_path: Path) -> None:
    async with running_server(local_settings(url_of(tmp_path), host="localhost")) as served:
        port = served.url.rpartition(":")[2]
        found = {one[4][0] for one in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
        async with httpx.AsyncClient(trust_env=False, timeout=WITHIN_S) as client:
            for address in found if has_ipv6() else {"127.0.0.1"}:
                host = f"[{address}]" if ":" in address else address
                assert (await client.get(f"http://{host}:{port}/livez")).status_code == 200


# --- starting and stopping -------------------------------------------------------------------

SERVES = """
import asyncio, sys
from app.main import create_app
from app.serving.server import serve
from app.settings import Settings
settings = Settings(_env_file=None, DATABASE_URL=sys.argv[1], port=0, drain_s=30)
asyncio.run(serve(create_app(settings), settings, lambda url: print(url, flush=True)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_watchers_go_with_1012_and_ends_the_process(
    tmp_path: Path, sent: signal.Signals
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVES, url_of(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = ""
        while not url.startswith("http"):  # the log comes this way, too
            line = await asyncio.wait_for(process.stdout.readline(), 200)
            assert line, "it ended before it served"
            url = line.decode().strip()
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=WITHIN_S) as client:
            batch: dict[str, Any] = (await client.post("/games", json={"drive": "manual"})).json()
            game = batch["games"][0]["game_id"]
            # An NDJSON stream that would stay open until the game's end must not hold up the stop.
            async with (
                client.stream("GET", f"/games/{game}/events?follow=true") as following,
                watching(f"{url.replace('http', 'ws')}/ws") as one,
            ):
                await one.identify(game)
                process.send_signal(sent)
                assert await one.until_closed() == 1012
                lines = [line async for line in following.aiter_lines()]
                assert lines
        await asyncio.wait_for(process.wait(), 200)  # for hangs alone
        assert process.returncode in (-sent, 0, 128 + sent)
    finally:
        if process.returncode is None:
            process.kill()
        _, stderr = await process.communicate()
    # uvicorn says so when it had to cut an open request off.
    assert b"exceeded" not in stderr, stderr.decode()
