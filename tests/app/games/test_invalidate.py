"""A game marked as invalid is kept but counts nowhere."""

import asyncio
import json
from pathlib import Path

from app.cli.database import operator
from tests.app.calling import calling, problem
from tests.app.evaluations.test_reports_api import figure, report_of
from tests.app.typed import interintent

ASKED = {"dimension": "guessing", "limit": 200}


async def test_an_invalid_game_is_kept_shown_and_left_out_of_reports_and_items(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [wrong, other] = await caller.played(count=2, profile="interintent")
        before = await caller.lines(f"/batches/{batch}/export", view="full")
        seen = await caller.get(f"/games/{wrong}")
        assert seen.json()["invalid"] is None
        first = (await report_of(caller, batch)).json()

        answer = await caller.post(f"/games/{wrong}/invalidate", json={"reason": "the wrong key"})
        assert answer.status_code == 200
        mark = answer.json()
        assert (mark["by"], mark["reason"]) == ("keyless", "the wrong key")
        again = await caller.get(f"/games/{wrong}", headers={"If-None-Match": seen.headers["etag"]})
        assert (again.status_code, again.json()["invalid"]) == (200, mark)
        assert (await caller.get(f"/games/{wrong}", params={"viewer": "public"})).json()["invalid"] is None
        exported = await caller.lines(f"/batches/{batch}/export", view="full")
        assert exported[0].pop("invalid") == mark
        assert before[0].pop("invalid") is None
        assert exported[:-1] == before[:-1]

        report = (await report_of(caller, batch)).json()
        assert report["made_of"]["games"] == 1
        [excluded] = report["made_of"]["excluded"]
        assert excluded == {
            "game": wrong,
            "reason": f"marked as invalid {mark['at']} by keyless: the wrong key",
        }
        won = figure(report, "results", "win rate", "loyal", column="ours")
        assert (won["den"], won["with_excluded"]["den"]) == (1, 2)

        page = (await caller.get("/evaluations/items", params={"batch": batch, **ASKED})).json()
        assert {item["game_id"] for item in page["items"]} == {other}
        refused = await caller.get("/evaluations/items", params={"game": wrong, **ASKED})
        problem(refused, 409, "unfinished")
        judged = await caller.post(
            "/evaluations", json={"dimension": "selection", "batch": batch, "judge": {"kind": "rule"}}
        )
        assert judged.status_code == 201, judged.text
        assert judged.json()["left_out"] == [{"game_id": wrong, "reason": "it was marked as invalid"}]
        # What raters said stays, and is exported.
        for what in ({"batch": batch}, {"game": wrong}):
            assert (await caller.get("/annotations", params=what)).status_code == 200

        for _ in range(2):
            assert (await caller.delete(f"/games/{wrong}/invalidate")).status_code == 200
        assert (await caller.get(f"/games/{wrong}")).json()["invalid"] is None
        assert (await report_of(caller, batch)).json() == first


async def test_only_a_reason_marks_a_game_and_only_one_that_exists(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.played()
        path = f"/games/{game}/invalidate"
        for body in ({}, {"reason": ""}, {"reason": "x" * 501}, {"reason": 1}):
            refused = await caller.post(path, json=body)
            problem(refused, 422, "invalid-request", "/reason")
        refused = await caller.post("/games/g_22222222222222222222/invalidate", json={"reason": "x"})
        problem(refused, 404, "not-found")


async def test_a_game_that_is_stepped_takes_the_tag_of_its_mark(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        await caller.post(f"/games/{game}/invalidate", json={"reason": "x"})
        tag = (await caller.get(f"/games/{game}")).headers["etag"]
        answer = await caller.post(f"/games/{game}/step", json={"until": "action"}, headers={"If-Match": tag})
        assert answer.status_code == 200


async def test_the_command_marks_a_game_by_the_user_and_takes_the_mark_away(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/games.db"
    async with calling(url) as caller:
        batch, games = await caller.played(count=2, profile="interintent")
        invalid = ("game", "invalidate", games[0], "--database-url", url)

    def told() -> tuple[int, str]:
        done = interintent("report", "--batch", batch, "--database-url", url)
        return json.loads(done.stdout)["made_of"]["games"], done.stderr

    done = await asyncio.to_thread(interintent, *invalid, "--reason", "the wrong key")
    assert (done.exit_code, done.output) == (0, f"{games[0]} is excluded from reports and items\n")
    number, notes = await asyncio.to_thread(told)
    assert (number, "excluded: 1 of 2 games (1 × marked as invalid)" in notes) == (1, True)
    items = await asyncio.to_thread(
        interintent, "items", "--batch", batch, "--dimension", "guessing", "--database-url", url
    )
    assert {json.loads(line)["game_id"] for line in items.stdout.splitlines()} == {games[1]}
    async with calling(url) as caller:
        mark = (await caller.get(f"/games/{games[0]}")).json()["invalid"]
        assert (mark["by"], mark["reason"]) == (operator(), "the wrong key")
    done = await asyncio.to_thread(interintent, *invalid, "--undo")
    assert (done.exit_code, done.output) == (0, f"{games[0]} counts again\n")
    number, notes = await asyncio.to_thread(told)
    assert (number, "excluded" in notes) == (2, False)


def test_the_command_takes_a_reason_or_undo_and_a_game_that_exists(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/games.db"
    for words in ((), ("--reason", "x", "--undo"), ("--reason", "x" * 501), ("--reason", "x")):
        done = interintent("game", "invalidate", "g_22222222222222222222", *words, "--database-url", url)
        assert done.exit_code == 2, done.output
