"""Foreign records become finished games for every route, or a problem that says what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import IllegalRecord
from engine.foreign.record import read_record
from engine.foreign.replay import replay
from engine.state import fold
from engine.terms import PUBLIC
from engine.view import project
from tests.app.calling import PROJECT, calling, problem, read_log, without_place, without_times, written
from tests.records.breaking import BREAKS

OURS = sorted((PROJECT / "tests" / "records").glob("*.json"))
SHARED = PROJECT.parent / "shared" / "replays"
REAL = [
    path for path in sorted(SHARED.glob("*.json")) if json.loads(path.read_text("utf-8")).keys() >= {"moves"}
]

needs_real = pytest.mark.skipif(
    not REAL, reason="the real records lie outside the repository, in ../shared/replays"
)


@pytest.mark.parametrize(
    "path",
    [
        *OURS,
        *([pytest.param(path, marks=needs_real) for path in REAL] or [pytest.param(None, marks=needs_real)]),
    ],
    ids=lambda path: path.stem if path else "real records",
)
async def test_a_record_becomes_a_finished_game_for_every_route(database_url: str, path: Path) -> None:
    record = json.loads(path.read_text("utf-8"))
    expected = replay(read_record(record))
    async with calling(database_url) as caller:
        answer = await caller.post("/games/import", content=path.read_bytes())
        assert answer.status_code == 201, answer.text
        imported = answer.json()
        game, batch = imported["game_id"], imported["batch_id"]
        assert answer.headers["location"] == f"/games/{game}"
        assert imported["winner"] == record["outcome"]["winner"] == expected.table.winner
        assert imported["events"] == len(expected.log)
        lines = await caller.lines(f"/games/{game}/events")
        assert without_times(lines) == written(expected.log)
        public = await caller.lines(f"/games/{game}/events", viewer="public")
        assert without_times(public) == written(project(expected.log, PUBLIC))
        view = (await caller.get(f"/games/{game}", params={"viewer": "public"})).json()
        assert (view["status"], view["phase"], view["winner"]) == ("finished", "over", imported["winner"])
        assert view["imported_from"] == {"format": record["schema"], "id": record["id"]}
        results = [quest["succeeded"] for quest in view["quests"]]
        assert results == [result == "success" for result in record["outcome"]["quest_results"]]
        full = (await caller.get(f"/games/{game}")).json()
        assert full["agents"] == []
        assert full["requests"] == []
        assert full["roles"] == {str(seat): role for seat, role in enumerate(record["roles"], 1)}
        counts = (await caller.get(f"/batches/{batch}")).json()
        assert (counts["status"], counts["winners"]) == ("done", {imported["winner"]: 1})
        export = await caller.lines(f"/batches/{batch}/export", view="full")
        assert export[0]["imported_from"] == view["imported_from"]
        assert [*map(without_place, export[1:-1])] == lines
        [listed] = (await caller.get("/games", params={"status": "finished"})).json()["games"]
        assert listed["game_id"] == game
        assert fold(read_log(lines)).table.winner == expected.table.winner
        problem(await caller.post(f"/games/{game}/step", json={}), 409, "already-over")
        problem(await caller.post(f"/games/{game}/cancel"), 409, "already-over")


@pytest.mark.parametrize("path", OURS[::3], ids=lambda path: path.stem)
async def test_an_imported_game_goes_on_as_a_fork(database_url: str, path: Path) -> None:
    async with calling(database_url) as caller:
        game = (await caller.post("/games/import", content=path.read_bytes())).json()["game_id"]
        origin = without_times(await caller.lines(f"/games/{game}/events"))
        leader = (await caller.get(f"/games/{game}")).json()["proposals"][0]["leader"]
        wish = {"after": {"request": f"1.1.propose_team.{leader}"}, "seats": [{"agent": "random"}]}
        answer = await caller.post(f"/games/{game}/fork", json=wish)
        assert answer.status_code == 201, answer.text
        forked = answer.json()
        assert (await caller.over(forked["batch_id"]))["status"] == "done"
        taken = forked["forked_from"]["events"]
        assert (
            without_times(await caller.lines(f"/games/{forked['game_id']}/events"))[:taken] == origin[:taken]
        )


async def test_a_record_that_breaks_a_rule_is_refused_with_the_move_and_the_rule(database_url: str) -> None:
    async with calling(database_url) as caller:
        before = await caller.rows()
        refused = 0
        for path in OURS[::4]:
            record = json.loads(path.read_text("utf-8"))
            for a_break in BREAKS:
                done, broken, moves = next(iter(a_break(record)), (None, None, set()))
                if broken is None:
                    continue
                answer = await caller.post("/games/import", json=broken)
                assert answer.status_code == 422, (path.stem, done, answer.status_code)
                body = answer.json()
                problem(answer, 422, body["code"])
                if body["code"] == "illegal-record":
                    assert body["move"] in moves, (path.stem, done, body)
                    with pytest.raises(IllegalRecord) as ours:
                        replay(read_record(broken))
                    assert (body["rule"], body["expected"], body["found"]) == (
                        ours.value.rule,
                        ours.value.expected,
                        ours.value.found,
                    )
                    assert body["rule"] in body["detail"]
                else:
                    assert body["code"] == "invalid-record"
                    assert body["errors"][0]["message"]
                refused += 1
        assert refused > 20
        assert await caller.rows() == before


@pytest.mark.parametrize(
    ("names", "pointer"),
    [
        ({0: "a\u200bb"}, "/players/0/name"),
        ({1: "\u202eevil"}, "/players/1/name"),
        ({2: "\u0410nna"}, "/players/2/name"),
        ({0: ""}, "/players/0/name"),
        ({0: "x" * 41}, "/players/0/name"),
        ({3: "C1eo"}, "/players/3/name"),
    ],
)
async def test_a_name_that_misleads_comes_in_with_no_record(
    names: dict[int, str], pointer: str, tmp_path: Path
) -> None:
    record = json.loads(OURS[0].read_text("utf-8"))
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        for at, name in names.items():
            record["players"][at]["name"] = name
        problem(await caller.post("/games/import", json=record), 422, "invalid-record", pointer)
        record = json.loads(OURS[0].read_text("utf-8")) | {"id": "a\u202eb"}
        problem(await caller.post("/games/import", json=record), 422, "invalid-record", "/id")
        assert (await caller.get("/games")).json()["games"] == []


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"schema": "avalon-replay/1"},
        {"schema": "something else"},
        [],
        None,
        "record",
        7,
        {"schema": "avalon-replay/1", "moves": [[]] * 1000},
        {"schema": ["avalon-replay/1"]},
    ],
    ids=repr,
)
async def test_invalid_records_are_refused(tmp_path: Path, record: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        before = await caller.rows()
        answer = await caller.post("/games/import", content=json.dumps(record))
        assert answer.status_code == 422
        problem(answer, 422, "invalid-record")
        assert await caller.rows() == before


async def test_any_value_anywhere_in_a_record_is_taken_or_refused(tmp_path: Path) -> None:
    # Each place of a real record in turn holds something it should not: never more than a refusal.
    strange: list[Any] = [None, True, -1, 10**30, 1.5, "", "\u2028", [], {}, [[]], {"a": 1}]
    record = json.loads((PROJECT / "tests" / "records" / "shot-missed-and-goes-on.json").read_text("utf-8"))
    places: list[list[Any]] = []

    def walk(value: Any, path: list[Any]) -> None:
        places.append(path)
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for name, one in inner:
            walk(one, [*path, name])

    walk(record, [])
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        for number, path in enumerate(places[1::3]):
            broken = json.loads(json.dumps(record))
            here = broken
            for part in path[:-1]:
                here = here[part]
            here[path[-1]] = strange[number % len(strange)]
            answer = await caller.post("/games/import", content=json.dumps(broken))
            assert answer.status_code in (201, 400, 422), (path, here[path[-1]], answer.text)
            if answer.status_code != 201:
                problem(answer, answer.status_code, answer.json()["code"])
