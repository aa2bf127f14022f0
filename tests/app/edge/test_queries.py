"""Every route refuses unknown and repeated query parameters and reads lists with commas."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.app.calling import NAMES, Caller, calling, problem
from tests.app.real_server import local_settings, running_server
from tests.app.watcher import watching

KEY = "ik_" + "k" * 43


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=KEY) as one:
        yield one


def operations(caller: Caller) -> list[tuple[str, str, list[str]]]:
    """Method, address and query parameters of every route, the pages that OpenAPI leaves out included."""
    found = [("GET", "/openapi.json", []), ("GET", "/docs", [])]
    for path, methods in caller.app.openapi()["paths"].items():
        for method, operation in methods.items():
            taken = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            found.append((method.upper(), path.format(**NAMES), taken))
    return found


def fault(answer: httpx.Response) -> tuple[str, str]:
    """Pointer and code of the only thing that a 422 names."""
    problem(answer, 422, "invalid-request")
    (one,) = answer.json()["errors"]
    return one["pointer"], one["code"]


async def test_every_route_refuses_what_it_does_not_know(caller: Caller) -> None:
    before = await caller.rows()
    routes = operations(caller)
    assert len(routes) >= 35
    for method, path, taken in routes:
        body: Any = {} if method == "POST" else None
        for query, name in (
            ("surplus=1", "surplus"),
            ("surplus=", "surplus"),
            ("surplus", "surplus"),
            ("Limit=3", "Limit"),
            ("a%2Fb~c=1", "a~1b~0c"),
            ("=1", ""),
            ("_=1764000000", "_"),
        ):
            answer = await caller.request(method, f"{path}?{query}", json=body)
            assert fault(answer) == (f"/{name}", "unknown"), (method, path, query)
            detail = answer.json()["detail"]
            assert all(one in detail for one in taken) if taken else "none" in detail, (path, detail)
    assert await caller.rows() == before


async def test_every_route_refuses_what_is_repeated(caller: Caller) -> None:
    checked = 0
    for method, path, taken in operations(caller):
        for name in taken:
            for values in (("1", "1"), ("", ""), ("b_a", "b_b")):
                query = "&".join(f"{name}={value}" for value in values)
                answer = await caller.request(
                    method, f"{path}?{query}", json={} if method == "POST" else None
                )
                assert fault(answer) == (f"/{name}", "repeated"), (method, path, query)
                checked += 1
    assert checked >= 100


async def test_unknown_callers_get_the_same_answer_for_every_query(keyed: Caller) -> None:
    batch = (await keyed.post("/games", json={}, headers={"authorization": f"Bearer {KEY}"})).json()
    real = batch["games"][0]["game_id"]
    for game in (real, "g_nothing"):
        for query in ("", "?surplus=1", "?viewer=public&viewer=public"):
            for headers in ({}, {"authorization": f"Bearer ik_{'x' * 43}"}):
                answer = await keyed.get(f"/games/{game}{query}", headers=headers)
                problem(answer, 401, "unauthenticated")
    # To a credential that does not reach the game it is as if there were none, whatever the query.
    other = (await keyed.post("/games", json={}, headers={"authorization": f"Bearer {KEY}"})).json()
    key = {"authorization": f"Bearer {KEY}"}
    wish = {"viewer": "public"}
    token = (await keyed.post(f"/games/{other['games'][0]['game_id']}/tokens", json=wish, headers=key)).json()
    watching_other = {"authorization": f"Bearer {token['token']}"}
    for query in ("", "?surplus=1", "?viewer=public&viewer=public", "?viewer=seat:1"):
        said = []
        for game in (real, "g_nothing"):
            answer = await keyed.get(f"/games/{game}{query}", headers=watching_other)
            said.append({**answer.json(), "trace_id": ""})
        assert said[0] == said[1], query


async def test_a_socket_takes_no_query(tmp_path: Path) -> None:
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}")
    async with running_server(settings) as served:
        for query in ("game=g_1", "after=0&after=1", "x"):
            with pytest.raises(InvalidStatus) as refused:
                async with watching(f"{served.ws_url}?{query}"):
                    pass
            assert refused.value.response.status_code == 422


async def finished(caller: Caller, **wish: Any) -> str:
    batch, _ = await caller.played(**wish)
    return batch


async def test_a_report_is_of_all_the_batches_that_are_named(caller: Caller) -> None:
    first = await finished(caller, count=2, seeds={"from": 1})
    second = await finished(caller, count=3, seeds={"from": 7})
    games = []
    for named in (first, second, f"{first},{second}", f"{first}%2C{second}"):
        report = (await caller.get(f"/reports?batch={named}")).json()
        games.append(report["made_of"]["games"])
    assert games == [2, 3, 5, 5]
    page = await caller.get(f"/reports?batch={first},{second}&format=html")
    assert first in page.text
    assert second in page.text
    problem(await caller.get(f"/reports?batch={first},b_nothing"), 404, "not-found")


async def test_listings_take_lists(caller: Caller) -> None:
    first = await finished(caller, count=2)
    second = await finished(caller, count=1)
    (await caller.post("/games", json={"drive": "manual", "count": 4})).raise_for_status()

    async def counted(query: str) -> int:
        return len((await caller.get(f"/games?{query}")).json()["games"])

    assert await counted(f"batch={first},{second}") == 3
    assert await counted("status=finished,created") == 7
    assert await counted("status=finished") == 3
    assert await counted(f"status=finished,running&batch={second}") == 1
    page = (await caller.get("/games?status=finished,created&limit=3")).headers["link"]
    following = page.split(";")[0].strip("<>")
    assert len((await caller.get(following)).json()["games"]) == 3


async def test_items_are_of_all_the_games_and_batches_that_are_named(caller: Caller) -> None:
    first, games = await caller.played(count=2, seats=[{"agent": "scripted"}])
    second, more = await caller.played(count=1, seats=[{"agent": "scripted"}])

    async def ids(query: str) -> list[str]:
        answer = await caller.get(f"/evaluations/items?dimension=guessing&format=ndjson&{query}")
        assert answer.status_code == 200, answer.text
        return [json.loads(line)["id"] for line in answer.text.splitlines()]

    apart = [*await ids(f"batch={first}"), *await ids(f"batch={second}")]
    assert apart
    assert await ids(f"batch={first},{second}") == apart
    assert await ids("game=" + ",".join((*games, *more))) == apart
    paged: list[str] = []
    address = f"/evaluations/items?dimension=guessing&batch={first},{second}&limit=7"
    while address:
        answer = await caller.get(address)
        paged += [one["id"] for one in answer.json()["items"]]
        address = answer.headers.get("link", "").split(";")[0].strip("<>")
    assert paged == apart


LISTS = [
    ("/games", "status", "finished", "running"),
    ("/games", "batch", "b_a", "b_b"),
    ("/reports", "batch", "b_a", "b_b"),
    ("/evaluations/items?dimension=guessing", "batch", "b_a", "b_b"),
    ("/evaluations/items?dimension=guessing", "game", "g_a", "g_b"),
    ("/evaluations/compare?dimension=guessing&first=a&second=b", "batch", "b_a", "b_b"),
    ("/evaluations/compare?dimension=guessing&first=a&second=b", "game", "g_a", "g_b"),
    ("/evaluations", "dimension", "guessing", "statements"),
    ("/evaluations", "rater", "ann", "bob"),
    ("/annotations/tasks?rater=ann", "batch", "b_a", "b_b"),
    ("/annotations/tasks?rater=ann", "game", "g_a", "g_b"),
    ("/annotations?batch=b_a", "rater", "ann", "bob"),
    ("/annotations", "batch", "b_a", "b_b"),
    ("/annotations", "game", "g_a", "g_b"),
]


@pytest.mark.parametrize(("path", "name", "first", "second"), LISTS)
async def test_a_list_is_whole_and_names_each_once(
    caller: Caller, path: str, name: str, first: str, second: str
) -> None:
    between = "&" if "?" in path else "?"
    for value in ("", ",", f"{first},", f",{first}", f"{first},,{second}", f"{first};{second}", f"{first}, "):
        answer = await caller.get(f"{path}{between}{name}={quote(value)}")
        assert fault(answer) == (f"/{name}", "string_pattern_mismatch"), value
    many = ",".join(f"{first}{n}" for n in range(21)) if name != "status" else ",".join([first] * 21)
    assert fault(await caller.get(f"{path}{between}{name}={many}"))[0] == f"/{name}"
    assert fault(await caller.get(f"{path}{between}{name}={first},{second},{first}")) == (
        f"/{name}",
        "repeated",
    )
    described = next(
        one
        for one in caller.app.openapi()["paths"][path.partition("?")[0]]["get"]["parameters"]
        if one["name"] == name
    )
    assert "commas" in described["description"]
