"""The service behind deploy/nginx, as docs/exposing.md says: what reaches it, and what nginx keeps away."""

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from app.base.metrics import REGISTRY
from tests.app.calling import WITHIN_S
from tests.app.edge.test_keys import OPERATOR
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import watching
from tests.cluster import nginx_files, program
from tests.ports import steady_port

pytestmark = pytest.mark.long

SHORT = {
    "client_header_timeout 10s": "client_header_timeout 5s",
    "client_body_timeout 15s": "client_body_timeout 5s",
    "interintent_requests 100": "interintent_requests 3",
    "interintent_sockets 1000": "interintent_sockets 2",
}
"""Limits of the file, and those of the tests that reach them."""


class Exposed:
    """A service behind nginx."""

    def __init__(self, served: Served, folder: Path, https: int, http: int) -> None:
        self.served = served
        self.folder = folder
        self.https, self.http = https, http
        self.tls = ssl.create_default_context(cafile=str(folder / "fullchain.pem"))
        self.url = f"https://localhost:{https}"

    def client(self, address: str = "127.0.0.1") -> httpx.AsyncClient:
        """A caller from this address of this machine."""
        transport = httpx.AsyncHTTPTransport(verify=self.tls, local_address=address)
        return httpx.AsyncClient(transport=transport, base_url=self.url, timeout=WITHIN_S)

    async def raw(self, sent: bytes) -> bytes:
        """Everything that nginx answers to these bytes until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.https, ssl=self.tls)
        writer.write(sent)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await asyncio.wait_for(reader.read(), WITHIN_S)
        writer.close()
        return answer


@contextlib.asynccontextmanager
async def exposed(
    folder: Path, *, changes: Mapping[str, str] = MappingProxyType({}), **settings: Any
) -> AsyncIterator[Exposed]:
    """``changes``: other text in the file, by the text that is there."""
    settings = {"api_key": OPERATOR, "proxies": "127.0.0.1", **settings}
    async with running_server(local_settings(f"sqlite:///{folder / 'games.sqlite'}", **settings)) as served:
        api = served.url.removeprefix("http://")
        https, http = steady_port(), steady_port()
        main = nginx_files(folder, [api, api], https, http)
        # As in the main file of many systems: what the file does not turn off is logged, whole requests too.
        main.write_text(main.read_text().replace("access_log off;", f"access_log {folder / 'theirs.log'};"))
        conf = folder / "interintent.conf"
        text = conf.read_text()
        for line, other in changes.items():
            assert line in text, line
            text = text.replace(line, other, 1)
        conf.write_text(text)
        nginx = await asyncio.create_subprocess_exec(
            *(program("nginx"), "-p", str(folder), "-c", str(main)), stderr=asyncio.subprocess.PIPE
        )
        try:
            found = Exposed(served, folder, https, http)
            async with asyncio.timeout(WITHIN_S):
                while True:
                    assert nginx.returncode is None, nginx.stderr and (await nginx.stderr.read()).decode()
                    with contextlib.suppress(OSError):
                        _, writer = await asyncio.open_connection("127.0.0.1", https)
                        writer.close()
                        break
                    await asyncio.sleep(0.02)
            yield found
        finally:
            if nginx.returncode is None:
                nginx.terminate()
            await nginx.wait()


async def test_what_passes_and_what_does_not(tmp_path: Path) -> None:
    bearer = {"authorization": f"Bearer {OPERATOR}"}
    async with exposed(tmp_path) as one, one.client() as caller:
        async with httpx.AsyncClient(timeout=WITHIN_S) as plain:
            answer = await plain.get(f"http://localhost:{one.http}/games")
            assert (answer.status_code, answer.headers["location"]) == (308, f"{one.url}/games")
        answer = await caller.get("/games", headers=bearer)
        assert answer.status_code == 200
        assert "max-age" in answer.headers["strict-transport-security"]
        assert (await caller.get("/games")).status_code == 401
        assert (await caller.get("/metrics", headers=bearer)).status_code == 404
        record = (Path(__file__).parents[1] / "records" / "forced-team.json").read_bytes()
        large = record.rstrip()[:-1] + b"," + b'"notes":"' + b"x" * 2_000_000 + b'"}'
        answer = await caller.post("/games/import", content=large, headers=bearer)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code != 413, "nginx takes as large a record as the service"
        # From another's page, and with another's name, nothing.
        assert (
            await caller.get("/games", headers={**bearer, "origin": "https://evil.example"})
        ).status_code == 403
        game = (await caller.post("/games", json={"seats": [{"agent": "random"}]}, headers=bearer)).json()
        wss = one.url.replace("https", "wss")
        async with watching(f"{wss}/ws", ssl=one.tls) as socket:
            await socket.identify(game["games"][0]["game_id"], token=OPERATOR)
            assert await socket.until_closed() == 1000
        channels = (await caller.get("/asyncapi.json", headers=bearer)).json()["channels"].values()
        assert {channel["address"] for channel in channels} == {"/ws", "/ws/lobby"}
        for channel in channels:
            async with watching(wss + channel["address"], ssl=one.tls) as socket:
                assert socket.hello["t"] == "hello"


async def test_slow_and_many_are_kept_away(tmp_path: Path) -> None:
    async with exposed(tmp_path, changes=SHORT) as one:
        # Half a head, and half a body: nginx closes, and no route ever sees the first.
        requests = {"method": "GET", "route": "-", "status": "404"}
        before = REGISTRY.get_sample_value("interintent_http_seconds_count", requests)
        head = f"POST /games HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        halves = ("GET /slowly HTTP/1.1\r\nHost: localhost\r\n", head)
        for answer in await asyncio.gather(*(one.raw(half.encode()) for half in halves)):
            assert answer[:12] in (b"", b"HTTP/1.1 408")
        assert REGISTRY.get_sample_value("interintent_http_seconds_count", requests) == before
        async with one.client() as caller, one.client("127.0.0.2") as other:
            bearer = {"authorization": f"Bearer {OPERATOR}"}
            made = await caller.post("/games", json={"drive": "manual"}, headers=bearer)
            path = f"/games/{made.json()['games'][0]['game_id']}/events"
            async with contextlib.AsyncExitStack() as stack:
                lines = []
                for _ in range(3):
                    follow = caller.stream("GET", f"{path}?follow=true", headers=bearer)
                    answer = await stack.enter_async_context(follow)
                    assert answer.status_code == 200
                    lines.append(answer.aiter_lines())  # given up, it would close its stream
                    await anext(lines[-1])
                refused = await caller.get(path, headers=bearer)
                assert refused.status_code == 429
                assert refused.headers["content-type"] == "application/problem+json"
                assert refused.headers["retry-after"] == "1"
                assert refused.json()["code"] == "rate-limited"
                # Another address has its own.
                assert (await other.get(path, headers=bearer)).status_code == 200


async def test_wrong_codes_of_one_caller_are_not_counted_for_another(tmp_path: Path) -> None:
    async with exposed(tmp_path) as one, one.client() as caller, one.client("127.0.0.2") as other:
        told: set[int] = set()
        while 429 not in told:
            # What a caller says of its own address is not believed.
            forged = {"x-forwarded-for": f"10.0.0.{len(told)}"}
            answer = await caller.post("/claims", json={"code": "nobodys"}, headers=forged)
            told.add(answer.status_code)
        assert told == {404, 429}
        assert (await other.post("/claims", json={"code": "nobodys"})).status_code == 404


async def test_what_nginx_logs_and_whom_it_counts_as_one_caller(tmp_path: Path) -> None:
    key, token = f"ik_{'k' * 43}", "eyJhbGci.eyJhIjox.c2ln"
    port = steady_port()
    shown = f"""
        server {{
            listen 127.0.0.1:{port};
            location / {{ return 200 $interintent_caller; }}
        }}
    """
    # Callers of many addresses: a header stands for the address.
    changes = {
        "map $remote_addr": "map $http_x_address",
        "server {\n    listen": f"{shown}\nserver {{\n    listen",
    }
    async with exposed(tmp_path, changes=changes) as one, one.client() as caller:
        async with httpx.AsyncClient(timeout=WITHIN_S, base_url=f"http://127.0.0.1:{port}") as counted:

            async def counted_as(address: str) -> str:
                return (await counted.get("/", headers={"x-address": address})).text

            for network in (
                "2a01:4f8:1:2",
                "2a01:4f8:1:0",
                "2a01:4f8:0:2",
                "2a01:4f8:0:0",
                "2a01:0:0:2",
                "2a01:0:0:0",
            ):
                for rest in (
                    "0:0:0:1",
                    "1:2:3:4",
                    "1:0:0:0",
                    "0:2:0:0",
                    "0:0:3:0",
                    "1:0:0:4",
                    "0:0:0:0",
                    "1:2:0:0",
                ):
                    address = str(IPv6Address(f"{network}:{rest}"))
                    assert await counted_as(address) == network, address
        async with httpx.AsyncClient(timeout=WITHIN_S) as plain:
            await plain.get(f"http://localhost:{one.http}/games?key={key}")
        for path in (f"/games/{key}", f"/watch/{token}", f"/games?key={key}", "/games/g_1"):
            await caller.get(path)
    logged = (tmp_path / "access.log").read_text()
    paths = [json.loads(line)["path"] for line in logged.splitlines()]
    assert paths == ["(a credential)", "(a credential)", "/games", "/games/g_1"]
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert key.encode() not in written


async def test_without_a_key_nobody_gets_through_a_proxy(tmp_path: Path) -> None:
    async with exposed(tmp_path, api_key=None) as one, one.client() as caller:
        # Even if the proxy hides the name by which it was called.
        conf = (one.folder / "interintent.conf").read_text()
        assert "proxy_set_header Host $http_host;" in conf
        for headers in ({}, {"host": "127.0.0.1"}, {"host": "localhost"}):
            answer = await caller.get("/games", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_the_page_has_the_limits_of_the_file() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "exposing.md").read_text("utf-8")
    conf = (root / "deploy" / "nginx" / "interintent.conf.template").read_text("utf-8")
    said = dict(re.findall(r"^\| `([a-z_ ]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    assert len(said) >= 8
    for directive, value in said.items():
        assert re.search(rf"^\s*{directive}\s+{re.escape(value)};", conf, re.MULTILINE), directive
    assert json.loads(re.findall(r"return 429 '(.*)';", conf)[0].replace("$request_id", ""))["status"] == 429
