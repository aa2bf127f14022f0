"""Who may call a service without keys: this machine under its own names, but no page of another site."""

import asyncio
from pathlib import Path

import httpx
import pytest

from app.base.errors import Forbidden
from app.edge.callers import check_caller
from tests.app.calling import Caller, calling, problem
from tests.app.real_server import Served

EVIL = "https://evil.example"

BENT = (
    *(
        "testserver",
        "evil.example",
        "evil.example:8000",
        "",
        " ",
        ":",
        ":8000",
        "@",
        "*",
        "0.0.0.0",
        "0",
        "[::]",
    ),
    *("evil@127.0.0.1", "evil@localhost", "localhost@evil.example", "evil:pw@127.0.0.1:8000", "@localhost"),
    *("127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost", "xlocalhost", "a.localhost"),
    *(
        "localhost.",
        "localhost.:8000",
        "127.0.0.1.",
        "localhost:",
        "localhost:x",
        "localhost:-1",
        "localhost:+1",
    ),
    *(
        "localhost:123456",
        "localhost:65536",
        "localhost:80:80",
        "localhost:８０",
        "localhost:8000@evil.example",
    ),
    *("[::1]:80@evil.example", "[::1", "::1", "::1]", "[::1]x", "[::1%lo]", "[::1].evil.example", "[0:0::1]"),
    *(
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "127.0.0.2",
    ),
    *(
        "localhost evil.example",
        "localhost,evil.example",
        "evil.example,localhost",
        "localhost/",
        "localhost/x",
    ),
    *(
        "localhost#",
        "localhost?",
        "localhost\\",
        "http://localhost",
        "//localhost",
        "localhost\t",
        "\tlocalhost",
    ),
    *("localhost%00", "localhos%74", "loc\u00e4lhost", "LOCALHOST.EVIL.EXAMPLE", "localhost;", "127.0.0.1 "),
)
OURS = (
    "localhost",
    "LocalHost",
    "localhost:1",
    "localhost:65535",
    "127.0.0.1",
    "127.0.0.1:8000",
    "[::1]",
    "[::1]:80",
)

FOREIGN = (
    *(
        "null",
        "",
        " ",
        EVIL,
        "http://localhost.evil.example",
        "http://localhost:9999",
        "http://[evil",
        "localhost",
    ),
    *(
        "http://evil@localhost",
        "http://localhost/",
        "http://localhost.",
        "javascript://localhost",
        "//localhost",
    ),
    *("file://", "file://localhost", "http://", "://localhost", "http://localhost http://evil.example", "*"),
)


def refused(*headers: tuple[str, str], keyless: bool = True, origins: tuple[str, ...] = ()) -> bool:
    raw = [(name.lower().encode(), value.encode("utf-8")) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/games", "headers": raw}
    try:
        check_caller(scope, keyless=keyless, origins=frozenset(origins))
    except Forbidden:
        return True
    return False


@pytest.mark.parametrize("host", BENT)
def test_a_foreign_host_name_is_refused(host: str) -> None:
    assert refused(("Host", host))
    assert not refused(("Host", host), keyless=False)


@pytest.mark.parametrize("host", OURS)
def test_this_machines_own_names_are_taken(host: str) -> None:
    assert not refused(("Host", host))


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_what_came_through_a_proxy_needs_a_key(name: str) -> None:
    assert refused(("Host", "localhost"), (name, "127.0.0.1"))
    assert refused(("Host", "localhost"), (name, ""))
    assert not refused(("Host", "games.example"), (name, "10.1.2.3"), keyless=False)


def test_a_request_names_one_host() -> None:
    assert refused()
    assert refused(("Host", "localhost"), ("Host", "localhost"))
    assert refused(("Host", "evil.example"), ("Host", "localhost"))
    assert refused(("Host", "localhost"), ("Host", "evil.example"))


@pytest.mark.parametrize("keyless", [True, False])
@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_origin_is_refused(origin: str, keyless: bool) -> None:
    assert refused(("Host", "localhost"), ("Origin", origin), keyless=keyless)
    # What is compared must not be nothing with nothing.
    for host in ("", " ", "null"):
        assert refused(("Host", host), ("Origin", origin), keyless=keyless)
    assert refused(("Origin", origin), keyless=keyless)


def test_one_good_origin_does_not_open_for_another() -> None:
    ours = ("Origin", "http://localhost")
    assert not refused(("Host", "localhost"), ours)
    assert refused(("Host", "localhost"), ours, ("Origin", EVIL))
    assert refused(("Host", "localhost"), ("Origin", EVIL), ours)


def test_the_origin_null_is_refused_even_if_listed() -> None:
    listed = ("https://ours.example", "null")
    assert refused(("Host", "localhost"), ("Origin", "null"), origins=listed)
    assert not refused(
        ("Host", "localhost"),
        ("Origin", "https://ours.example"),
        ("Sec-Fetch-Site", "cross-site"),
        origins=listed,
    )


# --- without Origin --------------------------------------------------------------------------

LINKED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "CROSS-SITE", "something new"])
async def test_requests_from_other_sites_pages_are_refused(caller: Caller, site: str) -> None:
    before = await caller.rows()
    for mode, dest in (
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("navigate", "iframe"),
        ("cors", "empty"),
    ):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        for path in ("/games", "/", "/docs", "/docs/bots.md", "/metrics", "/openapi.json", "/nothing", "/ws"):
            problem(await caller.get(path, headers=headers), 403, "forbidden")
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
            headers["content-type"] = content_type
            problem(await caller.post("/games", content="{}", headers=headers), 403, "forbidden")
    assert await caller.rows() == before


async def test_a_link_leads_to_a_page_and_changes_nothing(caller: Caller) -> None:
    batch, _ = await caller.played(seats=[{"agent": "random"}])
    before = await caller.rows()
    for path in ("/", "/docs", "/docs/bots.md", "/ui/", "/ui/index.html", f"/reports?batch={batch}"):
        assert (await caller.get(path, headers=LINKED)).status_code == 200, path
    # Some of these remember what they have shown, and to whom.
    for path in (
        "/games",
        f"/evaluations/items?batch={batch}&dimension=guessing",
        "/annotation-tasks",
        "/docsx",
    ):
        problem(await caller.get(path, headers=LINKED), 403, "forbidden")
    for method in ("POST", "PUT", "DELETE", "PATCH", "INVENTED"):
        for path in ("/", "/games"):
            problem(await caller.request(method, path, headers=LINKED), 403, "forbidden")
    assert await caller.rows() == before


@pytest.mark.parametrize("site", ["none", "same-origin"])
async def test_typed_addresses_and_our_own_pages_are_served(caller: Caller, site: str) -> None:
    assert (await caller.get("/games", headers={"sec-fetch-site": site})).status_code == 200


async def test_a_second_header_does_not_hide_the_first(caller: Caller) -> None:
    for sites in (("cross-site", "none"), ("none", "cross-site")):
        headers = [("sec-fetch-site", site) for site in sites]
        problem(await caller.get("/games", headers=headers), 403, "forbidden")


async def test_with_keys_a_browser_shows_none_by_itself(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "a" * 43) as caller:
        headers = {"sec-fetch-site": "cross-site", "host": "games.example"}
        assert (await caller.get("/intentions", headers=headers)).status_code == 200
        problem(await caller.get("/games", headers=headers), 401, "unauthenticated")


# --- on the wire -----------------------------------------------------------------------------


async def said(served: Served, request: bytes) -> bytes:
    url = httpx.URL(served.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("target", "hosts", "status"),
    [
        ("/games", ["localhost"], 200),
        ("/games", [], 400),
        ("/games", ["localhost", "localhost"], 400),
        ("/games", ["localhost", "evil.example"], 400),
        ("/games", ["testserver"], 403),
        ("/games", ["evil@127.0.0.1"], 403),
        # Of an absolute target its host counts, and no path of ours begins with one.
        ("http://evil.example/games", ["localhost"], 404),
        ("http://localhost/games", ["evil.example"], 403),
        ("//evil.example/games", ["localhost"], 404),
        ("*", ["localhost"], 404),
    ],
)
async def test_a_host_is_checked_as_it_came(
    served: Served, target: str, hosts: list[str], status: int
) -> None:
    names = "".join(f"Host: {host}\r\n" for host in hosts)
    answer = await said(served, f"GET {target} HTTP/1.1\r\n{names}Connection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer


HANDSHAKE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    "lines",
    [
        "Host: testserver",
        "Host: evil@127.0.0.1",
        "Host: localhost\r\nOrigin: null",
        "Host: localhost\r\nOrigin: https://evil.example",
        "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: websocket",
        "Host: localhost\r\nSec-Fetch-Site: same-site",
        "Host: localhost\r\n" + "\r\n".join(f"{name}: {value}" for name, value in LINKED.items()),
    ],
)
async def test_a_handshake_is_checked_alike(served: Served, lines: str) -> None:
    answer = await said(served, f"GET /ws HTTP/1.1\r\n{lines}\r\n{HANDSHAKE}".encode())
    assert answer.startswith(b"HTTP/1.1 403 "), answer
    assert b'"code":"forbidden"' in answer
