"""The pages for people: links, guides and the API to try out, all served by the service itself."""

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest

from app.edge.headers import PAGE_POLICY, SCRIPT_POLICY
from app.pages.routes import LINKS, served_files
from tests.app.calling import PROJECT, Caller, calling, problem
from tests.app.edge.test_callers import HANDSHAKE, said
from tests.app.real_server import Served

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "a" * 43) as one:
        yield one


class Page(HTMLParser):
    """What a page would load, and all that would need an exception in its policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self._scripting = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            self.links.append(given["href"] or "")
        elif tag in ("script", "link", "img", "iframe"):
            self.loads.append(given.get("src") or given.get("href") or "")
        self._scripting = tag == "script"
        if tag in ("style", "base", "object", "embed", "form"):
            self.inline.append(tag)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self._scripting = False

    def handle_data(self, data: str) -> None:
        if self._scripting and data.strip():
            self.inline.append(data)


async def test_the_page_of_links_leads_somewhere(caller: Caller) -> None:
    answer = await caller.get("/docs/index.html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    assert len(page.links) == len(LINKS)
    assert {
        "../ui/",
        "../docs",
        "../docs/bots.md",
        "../openapi.json",
        "../asyncapi.json",
        "../intentions",
        "../profiles",
        "../games",
    } <= set(page.links)
    # Behind a proxy the service may stand under a prefix.
    assert not any(link.startswith(("/", "http")) for link in page.links + page.loads)
    for link in page.links:
        status = (await caller.get(urljoin("/docs/index.html", link))).status_code
        assert status == (401 if link == "../games" else 200), link


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json, text/html", "application/json"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("text/html;q=nonsense", "application/json"),
        ("text/html;q=0, */*", "application/json"),
        ("image/png", "application/json"),
        ("garbage;;;,,,", "application/json"),
        (BROWSER, "text/html"),
        ("text/html", "text/html"),
        ("TEXT/HTML", "text/html"),
        ("text/*", "text/html"),
        ("text/html, application/json;q=0.9", "text/html"),
    ],
)
async def test_programs_get_the_links_as_json_and_browsers_are_led_to_the_pages(
    caller: Caller, accept: str | None, media_type: str
) -> None:
    answer = await caller.get("/", headers={"accept": accept} if accept is not None else {"accept": ""})
    assert answer.headers["vary"] == "Accept"
    if media_type == "text/html":
        assert answer.status_code == 303
        assert answer.headers["location"] == "ui/"  # behind a proxy the service may stand under a prefix
        return
    assert answer.headers["content-type"].partition(";")[0] == media_type
    links = {link["href"]: link for link in answer.json()["links"]}
    assert answer.json()["socket"] == "/ws"
    assert links["/docs/bots.md"]["media_type"] == "text/markdown"
    for href, link in links.items():
        found = await caller.get(href)
        assert found.status_code == (401 if href == "/games" else 200), href
        if found.status_code == 200:
            assert found.headers["content-type"].partition(";")[0] == link["media_type"]


async def test_every_guide_is_served_as_it_is_written(caller: Caller) -> None:
    for path in (PROJECT / "docs").glob("*.md"):
        answer = await caller.get(f"/docs/{path.name}")
        assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
        assert answer.content == path.read_bytes()
    for name in (
        "nothing.md",
        "..%2Fapp%2Fmain.py",
        "%2e%2e",
        "routes.py",
        "adr",
        "links.html.j2",
        "BOTS.md",
    ):
        problem(await caller.get(f"/docs/{name}"), 404, "not-found")


async def test_a_browser_gets_guides_as_pages_whose_links_lead_somewhere(caller: Caller) -> None:
    followed = 0
    for path in (PROJECT / "docs").glob("*.md"):
        address, text = f"/docs/{path.name}", path.read_text("utf-8")
        answer = await caller.get(address, headers={"accept": BROWSER})
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["vary"] == (await caller.get(address)).headers["vary"] == "Accept"
        assert answer.headers["content-security-policy"] == PAGE_POLICY
        assert text.partition("\n")[0].removeprefix("# ") in unescape(answer.text), path.name
        assert answer.text.count("<table>") == len(re.findall(r"^(?=.*\|)[ :|-]*--[ :|-]*$", text, re.M)), (
            path.name
        )
        page = Page(answer.text)
        assert page.inline == []
        assert page.loads == ["favicon-32x32.png", "page.css"], path.name
        for link in page.links:
            if link.startswith("https:"):
                continue
            found, _, place = urljoin(address, link).partition("#")
            shown = await caller.get(found, headers={"accept": BROWSER})
            assert shown.status_code == 200, (path.name, link)
            assert not place or f' id="{place}"' in shown.text, (path.name, link)
            followed += 1
    assert followed > 50


async def test_every_link_of_a_guide_leads_to_what_is_served(caller: Caller) -> None:
    followed = 0
    for path in (PROJECT / "docs").glob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
            found = await caller.get(urljoin(f"/docs/{path.name}", link))
            assert found.status_code == 200, (path.name, link)
            followed += 1
    assert followed > 5


async def test_the_contracts_name_the_guide(caller: Caller) -> None:
    for document in ("/openapi.json", "/asyncapi.json"):
        assert "/docs/bots.md" in (await caller.get(document)).json()["info"]["description"]


@pytest.mark.parametrize("path", ["/docs/index.html", "/docs", "/ui/"])
async def test_a_page_loads_only_what_its_policy_lets_it(caller: Caller, path: str) -> None:
    answer = await caller.get(path, headers={"accept": BROWSER})
    page = Page(answer.text)
    assert page.inline == []
    assert page.loads
    policy = answer.headers["content-security-policy"]
    kinds = {
        "js": ("script-src", "text/javascript"),
        "css": ("style-src", "text/css"),
        "png": ("img-src", "image/png"),
        "svg": ("img-src", "image/svg+xml"),
    }
    for address in page.loads:
        directive, media_type = kinds[address.rpartition(".")[2]]
        assert re.search(rf"{directive} 'self'", policy), address
        found = await caller.get(urljoin(path, address))
        assert found.status_code == 200, address
        assert found.headers["content-type"].partition(";")[0] == media_type
        assert len(found.content) > 50
    assert not re.search(r"https?:|'unsafe|\*", policy)
    assert not re.search(r"https?://|//[a-z]", answer.text)


async def test_swagger_is_whole_and_asks_nobody_else(caller: Caller) -> None:
    assert (await caller.get("/docs")).headers["content-security-policy"] == SCRIPT_POLICY
    bundle, start = (
        served_files()[name].content.decode() for name in ("swagger-ui-bundle.js", "swagger-start.js")
    )
    # The oldest that reads OpenAPI 3.1 is 5.0.
    version = re.search(r'PACKAGE_VERSION:"(\d+)\.', bundle)
    assert version
    assert int(version[1]) >= 5
    assert "SwaggerUIBundle(" in start
    assert "validatorUrl: null" in start
    assert 'url: "openapi.json"' in start
    for gone in ("/docs/oauth2-redirect", "/redoc"):
        problem(await caller.get(gone), 404, "not-found")


# --- the socket's address --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/ws/", "/WS", "/socket", "/games", "/games/g_abc/ws", "/docs", "/%00"]
)
async def test_a_wrong_socket_address_is_answered_with_a_problem(served: Served, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}".encode()
    head, _, body = (await said(served, request)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert b"content-type: application/problem+json" in head
    assert "/ws" in json.loads(body)["detail"]


@pytest.mark.parametrize("address", ["/ws", "/ws/lobby"])
async def test_a_sockets_address_says_what_it_speaks(caller: Caller, address: str) -> None:
    answer = await caller.get(address)
    assert "WebSocket" in problem(answer, 426, "upgrade-required")["detail"]
    assert answer.headers["upgrade"] == "websocket"
    assert answer.headers["connection"] == "Upgrade"
    problem(await caller.post(address, json={}), 405, "method-not-allowed")


async def test_an_address_beside_the_sockets_tells_where_it_is(caller: Caller) -> None:
    assert "/ws" in problem(await caller.get("/ws/"), 404, "not-found")["detail"]
