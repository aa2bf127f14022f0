"""Every answer carries headers that forbid browsers to misuse it."""

import asyncio
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from app.edge.headers import DATA_POLICY, HEADERS, REPORT_POLICY
from app.store.listing import Listing
from tests.app.calling import Caller
from tests.app.edge.test_callers import HANDSHAKE, said
from tests.app.real_server import Served

ALWAYS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def check(headers: httpx.Headers) -> None:
    for name, value in ALWAYS.items():
        assert headers.get_list(name) == [value], (name, headers)
    (policy,) = headers.get_list("content-security-policy")
    directives = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for name in ("frame-ancestors", "base-uri", "form-action"):
        assert directives[name] == "'none'", policy
    assert "'unsafe-inline'" not in directives.get("script-src", ""), policy
    assert "'unsafe-eval'" not in policy
    assert "server" not in headers
    assert "x-powered-by" not in headers


async def test_the_headers_have_the_intended_values() -> None:
    assert {name.lower(): value for name, value in HEADERS.items()} == {
        **ALWAYS,
        "content-security-policy": DATA_POLICY,
    }


async def test_every_route_answers_with_them(caller: Caller) -> None:
    batch, [game] = await caller.played(seats=[{"agent": "random"}])
    names = {"game_id": game, "batch_id": batch, "name": "bots.md", "code": "stale"}
    document = (await caller.get("/openapi.json")).json()
    seen: set[int] = set()
    for template, methods in document["paths"].items():
        path = template
        for name, value in names.items():
            path = path.replace(f"{{{name}}}", value)
        for method in methods:
            answer = await caller.request(method.upper(), path)
            check(answer.headers)
            seen.add(answer.status_code)
            # A browser that goes back to a page shows what it stored, also to whoever has no key.
            shown = await caller.request(method.upper(), path, headers={"authorization": "Bearer x"})
            assert shown.headers.get_list("cache-control") == ["no-store"], path
    assert {200, 404, 422, 426} <= seen


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("INVENTED", "/games", {}, 405),
        ("GET", "/games", {"headers": {"host": "evil.example"}}, 403),
        ("GET", "/games", {"headers": {"authorization": "Bearer ik_" + "x" * 43}}, 401),
        ("POST", "/games", {"content": "{"}, 400),
        ("POST", "/games", {"content": "[]"}, 422),
        ("POST", "/games", {"content": b" " * (5 << 20)}, 413),
        ("POST", "/games", {"content": "x", "headers": {"content-type": "image/png"}}, 415),
        ("GET", "/games?token=ik_" + "x" * 43, {}, 400),
    ],
)
async def test_refusals_have_them(
    caller: Caller, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    answer = await caller.request(method, path, **options)
    assert answer.status_code == status
    check(answer.headers)


async def test_internal_errors_have_them_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Listing, "games", breaks)
    with capture_logs():
        answer = await caller.get("/games")
    assert answer.status_code == 500
    check(answer.headers)


async def test_streams_have_them(caller: Caller) -> None:
    batch, [game] = await caller.played(seats=[{"agent": "random"}])
    for path in (f"/games/{game}/events?follow=true", f"/batches/{batch}/export"):
        async with caller.stream("GET", path) as answer:
            assert answer.status_code == 200
            assert "content-length" not in answer.headers
            check(answer.headers)


async def test_a_report_keeps_its_styles_and_has_no_script(caller: Caller) -> None:
    batch, _ = await caller.played(seats=[{"agent": "random"}])
    answer = await caller.get("/reports", params={"batch": batch, "format": "html", "wait_s": 300})
    assert answer.status_code == 200
    check(answer.headers)
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert "<style>" in answer.text
    assert "<svg" in answer.text
    for loading in ("<script", "<link", "<img", "<iframe", "@import", "url(", " onload="):
        assert loading not in answer.text, loading
    for other in ("json", "csv"):
        answer = await caller.get("/reports", params={"batch": batch, "format": other, "wait_s": 300})
        assert answer.headers["content-security-policy"] == DATA_POLICY


# --- on the wire -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        ("NONSENSE\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nContent-Length: x\r\nHost: localhost\r\n\r\n", 400),
        (f"GET /ws HTTP/1.1\r\nHost: evil.example\r\n{HANDSHAKE}", 403),
        (f"GET /socket HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}", 404),
        ("GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 426),
        # Refused below the application: no key, and a version that nobody speaks.
        ("GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
        (f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE.replace('13', '99')}", 400),
    ],
)
async def test_the_server_underneath_answers_with_them(served: Served, request_: str, status: int) -> None:
    head = (await said(served, request_.encode())).partition(b"\r\n\r\n")[0].decode()
    line, *lines = head.split("\r\n")
    assert line.startswith(f"HTTP/1.1 {status} "), head
    check(httpx.Headers([tuple(one.split(": ", 1)) for one in lines]))  # type: ignore[misc]


async def test_a_refused_handshake_is_not_logged_as_an_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    request = f"GET /socket HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}".encode()
    await asyncio.gather(*(said(served, request) for _ in range(5)))
    # Anybody could fill the log with it.
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
