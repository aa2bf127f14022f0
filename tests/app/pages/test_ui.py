"""The built pages are served as they are: whole, cached as their names allow, and nothing beside them."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.edge.headers import SCRIPT_POLICY
from app.pages import ui
from tests.app.calling import PROJECT, Caller, problem

BUILD = PROJECT / "app" / "pages" / "ui"
SCRIPT = b"export const table = [1, 2, 3];\n" * 100


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A build with one file of each kind in place of ours."""
    place = tmp_path / "app" / "pages" / "ui"
    (place / "assets").mkdir(parents=True)
    (place / "index.html").write_bytes(b"<!doctype html><title>A page</title>")
    (place / "assets" / "index-B1c2.js").write_bytes(SCRIPT)
    (place / "assets" / "logo-D3e4.png").write_bytes(b"\x89PNG")
    (place / "assets" / "thing.unknown").write_bytes(b"?")
    monkeypatch.setattr(ui, "files", lambda package: tmp_path / package)
    ui.ui_files.cache_clear()
    yield
    ui.ui_files.cache_clear()


async def test_every_file_of_the_build_is_served_as_it_is(caller: Caller) -> None:
    for path in BUILD.rglob("*"):
        if path.is_file():
            answer = await caller.get(f"/ui/{path.relative_to(BUILD).as_posix()}")
            assert (answer.status_code, answer.content) == (200, path.read_bytes()), path
            assert answer.headers["content-security-policy"] == SCRIPT_POLICY
    assert (await caller.get("/ui/")).content == (BUILD / "index.html").read_bytes()


def test_a_browser_loads_at_most_200_kilobytes() -> None:
    files = [
        path.read_bytes() for path in BUILD.rglob("*") if path.suffix in (".html", ".js", ".css", ".svg")
    ]
    assert len(files) >= 4
    assert sum(len(gzip.compress(content, mtime=0)) for content in files) <= 200_000


@pytest.mark.usefixtures("build")
async def test_what_has_its_hash_in_its_name_is_kept_and_the_page_is_asked_for_again(caller: Caller) -> None:
    page = await caller.get("/ui/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    script = await caller.get("/ui/assets/index-B1c2.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await caller.get("/ui/assets/logo-D3e4.png")).headers["content-type"] == "image/png"
    assert (await caller.get("/ui/assets/thing.unknown")).headers[
        "content-type"
    ] == "application/octet-stream"


@pytest.mark.usefixtures("build")
async def test_a_known_file_is_not_sent_again(caller: Caller) -> None:
    first = await caller.get("/ui/")
    again = await caller.get("/ui/", headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["content-security-policy"] == SCRIPT_POLICY
    assert (await caller.get("/ui/", headers={"if-none-match": '"other"'})).status_code == 200


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, br", True), ("br;q=1, GZIP;q=0.5", True), ("gzip;q=0", False), ("identity", False), ("", False)],
)
async def test_texts_are_packed_for_those_who_take_it(caller: Caller, accepted: str, packed: bool) -> None:
    path = "/ui/assets/index-B1c2.js"
    async with caller.stream("GET", path, headers={"accept-encoding": accepted}) as answer:
        raw = b"".join([part async for part in answer.aiter_raw()])
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
    assert (gzip.decompress(raw) if packed else raw) == SCRIPT
    assert answer.headers["etag"].endswith('-gzip"') == packed


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/ui", "ui/"),
        ("/ui/play", "./#/play"),
        ("/ui/play/", "../#/play"),
        ("/ui/games/g_abc", "../#/games/g_abc"),
        ("/ui/assets", "./#/assets"),
    ],
)
async def test_an_address_without_a_hash_leads_to_the_view(caller: Caller, path: str, place: str) -> None:
    answer = await caller.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, place)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/ui/?fbclid=1", "./"),
        ("/ui/index.html?a", "./index.html"),
        ("/ui?a=%0D", "./ui"),
        ("/?utm_source=x", "./"),
        ("/docs?a", "./docs"),
    ],
)
async def test_what_messengers_add_to_a_link_is_taken_off_for_browsers_alone(
    caller: Caller, path: str, place: str
) -> None:
    answer = await caller.get(path, headers={"accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    problem(await caller.get(path), 422, "invalid-request")


@pytest.mark.parametrize(
    "path",
    ["assets/", "nothing.js", "..%2Froutes.py", "%2e%2e%2fui.py", "//evil.example", "/play", "a b", "%00"],
)
async def test_nothing_beside_the_build_is_served_or_led_to(caller: Caller, path: str) -> None:
    answer = await caller.get(f"/ui/{path}")
    if path == "assets/":  # no listing of the directory
        assert answer.headers["location"] == "../#/assets"
    else:
        problem(answer, 404, "not-found")
