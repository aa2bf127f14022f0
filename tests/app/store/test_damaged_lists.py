"""Whoever waits, sets with their entries, what owners have used: a damaged row keeps nothing from others."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.base.clock import now_ms
from app.store.games import GameStore
from app.store.inbox import Arrival, InboxStore
from app.store.model_calls import CallStore
from app.store.quotas import QuotaStore, SpentToday
from app.store.tables import (
    model_spending,
    open_games,
    owner_spending,
    seeks,
    set_answers,
    set_entries,
    set_items,
    sets,
    tasks,
)
from tests.app.calling import WITHIN_S, Caller, calling, problem
from tests.app.evaluations.test_judging import SENSIBLE, judging, over
from tests.app.modelling import calling_with, faking
from tests.app.store.one_of_each import add, row
from tests.app.typed import interintent

CANARY = "canary5b0c"

WAITING = (
    # What damages the row of one who waits, on both databases.
    ("seeks", "pool", f"'{CANARY}'"),
    ("seeks", "pool", "'interintent/5'"),
    ("seeks", "status", f"'{CANARY}'"),
    ("seeks", "game_id", f"'{CANARY}'"),
    ("seeks", "starts_by", str(9 * 10**18)),
    ("seeks", "terms", "'[]'"),
    ("open_games", "spec", "'{}'"),
    ("open_games", "spec", f"""'{{"seats"\\: "{CANARY}", "profile"\\: []}}'"""),
    ("open_games", "seats", "'null'"),
    ("open_games", "starts_by", str(9 * 10**18)),
)
SQLITE_WAITING = (
    ("seeks", "pool", "x'ff00'"),
    ("seeks", "starts_by", f"'{CANARY}'"),
    ("seeks", "terms", f"'{CANARY}'"),
    ("open_games", "starts_by", f"'{CANARY}'"),
    ("open_games", "spec", f"'{CANARY}'"),
)


async def execute(caller: Caller, statement: str, **values: Any) -> None:
    async with caller.services.database.write_engine.begin() as connection:
        await connection.execute(text(statement), values)


async def test_who_waits_is_shown_and_paired_beside_damaged_rows(
    database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    damages = WAITING + (SQLITE_WAITING if database_url.startswith("sqlite") else ())
    spec = {"profile": "interintent", "seats": [{"agent": "remote"}] * 5}
    at = {"created_at": now_ms(), "starts_by": now_ms() + 3_600_000, "status": "open", "owner": "keyless"}
    sought = {**at, "pool": "interintent/9/slow/casual", "seen_at": now_ms(), "game_id": None, "seat": None}
    rows = []
    for number in range(len(damages) + 1):
        key = f"q_{number:020}"
        rows.append((seeks, row(seeks, number, **sought, seek_id=key, terms={"at_least": 9})))
        rows.append((open_games, row(open_games, number, **at, spec=spec, seats=[1, 2])))
    await add(database_url, rows)
    async with calling(database_url) as caller:
        for number, (table, column, value) in enumerate(damages):
            key = f"seek_id = 'q_{number:020}'" if table == "seeks" else f"game_id = 'g_{number}'"
            await execute(caller, f"UPDATE {table} SET {column} = {value} WHERE {key}")
        lobby = (await caller.get("/seeks")).json()
        hurt = [table for table, _, _ in damages]
        assert len(lobby["seeks"]) == len(damages) + 1 - hurt.count("seeks")
        assert len(lobby["games"]) == len(damages) + 1 - hurt.count("open_games")
        for number, (table, _, _) in enumerate(damages):
            answer = await caller.get(f"/seeks/q_{number:020}")
            assert answer.status_code == (404 if table == "seeks" else 200), (number, answer.text)
        # What looks for pools whose time is up goes on to them.
        waits = (await caller.post("/seeks", json={"bot": "owl", "wait_s": 1})).json()
        async with asyncio.timeout(WITHIN_S):
            while (await caller.get(f"/seeks/{waits['seek_id']}?wait_s=5")).json()["status"] == "open":
                pass
    assert CANARY not in "".join(capfd.readouterr())


async def test_terms_that_make_no_sense_keep_nobody_of_the_pool_waiting(database_url: str) -> None:
    async with calling(database_url) as caller:
        for number in range(5):
            made = await caller.post("/seeks", json={"bot": f"b{number}"})
            assert made.status_code == 201, made.text
            await execute(caller, """UPDATE seeks SET terms = '{"at_least"\\: "x"}' WHERE bot = 'b0'""")
        assert made.json()["status"] == "paired"


async def test_a_damaged_set_or_entry_hides_no_other(database_url: str) -> None:
    past = {"closes_at": 1, "opened_at": 2, "withdrawn_at": None, "withdrawn": None, "excluded": None}
    made = []
    for number, scored_at in enumerate((3, 3, None)):
        made.append((sets, row(sets, number, **past, dimension="guessing", scored_at=scored_at)))
    answers = [{"item_id": "g_0/guessing/1.1.speak.1/mixed/-", "sample": 1, "intentions": []}]
    for number in range(4):
        place = {"set_id": f"s_{0 if number < 2 else 2}", "owner": f"o{number}", "result": None}
        made.append((set_entries, row(set_entries, number, **place)))
        made.append((set_answers, row(set_answers, number, given=answers)))
    await add(database_url, made)
    async with calling(database_url) as caller:
        await execute(
            caller, """UPDATE evaluation_sets SET variant = '{"options"\\: 7}' WHERE set_id = 's_1'"""
        )
        await execute(caller, """UPDATE set_entries SET result = '{"totals"\\: 7}' WHERE entry_id = 'r_1'""")
        await execute(
            caller, """UPDATE set_answers SET given = '[{"item_id"\\: 7}]' WHERE entry_id = 'r_3'"""
        )
        listed = (await caller.get("/evaluations/sets")).json()
        assert {one["set_id"] for one in listed["sets"]} == {"s_0", "s_2"}
        for path in ("s_1", "s_1/items", "s_1/gold", "s_1/entries/r_0"):
            answer = await caller.get(f"/evaluations/sets/{path}")
            assert (answer.status_code, answer.json()["code"]) == (500, "corrupt-log"), path
        board = (await caller.get("/evaluations/sets/s_0")).json()["leaderboard"]
        assert [one["entry_id"] for one in board] == ["r_0"]
        answer = await caller.get("/evaluations/sets/s_0/entries/r_1")
        assert "r_1" in problem(answer, 500, "damaged-entry")["detail"]
        # One whose answers cannot be read keeps the others from no score, and is given none.
        async with asyncio.timeout(WITHIN_S):
            view: dict[str, Any] = {}
            while view.get("status") != "open":  # no event for it
                await asyncio.sleep(0.02)
                view = (await caller.get("/evaluations/sets/s_2")).json()
        assert {one["entry_id"]: one["totals"] is None for one in view["leaderboard"]} == {
            "r_2": False,
            "r_3": True,
        }
        answer = await caller.get("/evaluations/sets/s_2/entries/r_3")
        assert "r_3" in problem(answer, 500, "damaged-entry")["detail"]


@pytest.mark.parametrize(("turn", "named"), [(CANARY, 0), ("9.9.speak.1", 1)])
async def test_a_damaged_task_keeps_no_other_from_its_rater(turn: str, named: int, database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await caller.played(count=2)
        path = f"/annotations/tasks?batch={batch}&rater=ann&limit=4"
        tasks = {(task["game_id"], task["request_id"]) for task in (await caller.get(path)).json()["tasks"]}
        hurt = min(tasks)
        await execute(
            caller,
            "UPDATE annotation_tasks SET request_id = :turn WHERE game_id = :game AND request_id = :request",
            turn=turn,
            game=hurt[0],
            request=hurt[1],
        )
        page = (await caller.get(path)).json()
        left = {(task["game_id"], task["request_id"]) for task in page["tasks"]}
        assert left >= {task for task in tasks if task[0] != hurt[0]}
        assert [one["game_id"] for one in page["without_tasks"]] == [hurt[0]] * named


async def test_a_game_that_cannot_be_read_keeps_no_set_from_its_other_games(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [hurt, whole] = await caller.played(count=2)
        path = f"/evaluations/items?batch={batch}&dimension=guessing&limit=200"
        items = {item["game_id"]: item for item in (await caller.get(path)).json()["items"]}
        past = {"closes_at": 1, "opened_at": 2, "scored_at": 3, "withdrawn_at": None, "withdrawn": None}
        one = row(sets, 0, **past, excluded=None, dimension="guessing", owner="keyless")
        made = [(sets, one)]
        for position, game in enumerate(sorted(items)):
            item = {"item_id": items[game]["id"], "game_id": game, "position": position, "seat": 1}
            made.append((set_items, row(set_items, position, **item, origin=game)))
        await add(database_url, made)
        await execute(caller, "UPDATE games SET created_at = -1 WHERE game_id = :game", game=hurt)
        answer = await caller.get("/evaluations/sets/s_0/gold")
        assert answer.status_code == 200, answer.text
        assert {item["item_id"].partition("/")[0] for item in answer.json()["items"]} == {hurt, whole}


async def test_a_process_whose_only_secret_is_damaged_makes_another(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(seats=[{"agent": "remote"}] * 5)
        await execute(caller, "UPDATE token_secrets SET secret = ''")
        await caller.services.keys.refresh()
        answer = await caller.post(f"/games/{game}/tokens", json={"viewer": "public"})
        assert answer.status_code == 201, answer.text
        bearer = {"authorization": f"Bearer {answer.json()['token']}"}
        assert (await caller.get(f"/games/{game}?viewer=public", headers=bearer)).status_code == 200


async def test_a_damaged_item_of_a_set_is_left_out_and_not_quoted(database_url: str) -> None:
    past = {"closes_at": 1, "opened_at": 2, "scored_at": 3, "withdrawn_at": None, "withdrawn": None}
    one = row(sets, 0, **past, excluded=None, dimension="guessing")
    await add(database_url, [(sets, one), *((set_items, row(set_items, number)) for number in (0, 1))])
    async with calling(database_url) as caller:
        await execute(caller, f"UPDATE set_items SET item_id = '{CANARY}' WHERE position = 1")
        answer = await caller.get("/evaluations/sets/s_0/gold")
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["items"]) == 1


@pytest.mark.parametrize("cost", ["'NaN'", "'Infinity'", "'-Infinity'"])
async def test_a_cost_that_is_no_number_counts_as_the_most(cost: str, postgres_url: str) -> None:
    async with calling(postgres_url) as caller:
        spending = [row(owner_spending, 0, owner="ann", day=1), row(model_spending, 0, batch_id="b_1")]
        await add(postgres_url, list(zip((owner_spending, model_spending), spending, strict=True)))
        for table in ("owner_spending", "model_spending"):
            await execute(caller, f"UPDATE {table} SET cost = {cost}")
        assert (await QuotaStore(caller.services.database).spent("ann", 1)).cost > 10**300
        assert (await CallStore(caller.services.database).spent("b_1"))[1] > 10**300


async def test_the_largest_numbers_keep_nobody_from_creating_games(database_url: str) -> None:
    async with calling(database_url) as caller:
        hurt, _ = await caller.create(drive="manual")
        await execute(caller, "UPDATE games SET position = 2147483647")
        await execute(caller, "UPDATE quota_use SET amount = 9223372036854775807")
        await caller.create(drive="manual")
        database = caller.services.database
        assert hurt not in await GameStore(database).unlaid_batches()
        await execute(caller, "INSERT INTO holders VALUES ('g_1', 1, 'c_0', -9223372036854775807)")
        await InboxStore(database).hold("g_1", 1, Arrival("d_1", now_ms()))
        assert await InboxStore(database).holders([("g_1", 1)]) == {("g_1", 1): "d_1"}


async def test_what_cannot_be_summed_counts_as_the_most(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        url = str(caller.services.database.url)
        await add(url, [(owner_spending, row(owner_spending, 0, owner="ann", day=1, account="g_1"))])
        await add(url, [(tasks, row(tasks, 0, game_id="g_1"))])
        await execute(caller, "UPDATE owner_spending SET tokens = 9e999, cost = 9e999")
        spent = await QuotaStore(caller.services.database).spent("ann", 1)
        assert min(spent.tokens, spent.cost) > 10**300
        assert await QuotaStore(caller.services.database).spent("bob", 1) == SpentToday()
        assert await CallStore(caller.services.database).spent("b_1") == (0, 0.0)
        await execute(caller, "INSERT INTO quota_use VALUES ('ann', 1, 'games_a_day', 'x')")
        assert await QuotaStore(caller.services.database).used("ann", 1) == {}
        await execute(
            caller, """INSERT INTO quotas VALUES ('ann', '{"open_games"\\: "x", "requests"\\: 5}')"""
        )
        assert await QuotaStore(caller.services.database).limits() == {"ann": {"requests": 5}}
        await execute(caller, "UPDATE annotation_tasks SET rater = x'ff00'")
        assert await caller.services.evaluations.store.dealt_to(["g_1"]) == {}


@pytest.mark.parametrize("change", ["expires_at = 'x'", "game_id = x'ff'", "seat = 'x'"])
async def test_a_damaged_claim_code_is_known_as_such(change: str, tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, [game] = await caller.create(seats=[{"agent": "remote"}] * 5)
        code = (await caller.post(f"/games/{game}/seats/1/claim-code", json={})).json()["code"]
        await execute(caller, f"UPDATE claim_codes SET {change}")
        answer = await caller.post("/claims", json={"code": code})
        assert (answer.status_code, answer.json()["code"]) == (500, "corrupt-log"), answer.text


@pytest.mark.parametrize("column", ["game_id", "batch_id"])
@pytest.mark.parametrize("value", ["x'ff00'", f"CAST(x'ff' || '{CANARY}' AS TEXT)"])
async def test_a_game_without_a_readable_id_hides_no_other(
    column: str, value: str, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, games = await caller.played(count=3, seeds={"from": 40})
        found = (
            await caller.get("/evaluations/items", params={"batch": batch, "dimension": "guessing"})
        ).json()
        answers = [{"item_id": item["id"], "intentions": []} for item in found["items"]]
        body = {"dimension": "guessing", "rater": {"name": "r", "kind": "program"}, "answers": answers}
        scored = (await caller.post("/evaluations", json=body)).json()["evaluation_id"]
        with contextlib.closing(sqlite3.connect(tmp_path / "games.sqlite")) as damaging, damaging:
            # As a disk does it: without a look at foreign keys.
            damaging.execute(f"UPDATE games SET {column} = {value} WHERE game_id = ?", (games[1],))
        others = {games[0], games[2]}
        page = (await caller.get("/games")).json()
        assert {game["game_id"] for game in page["games"]} == others
        lines = await caller.lines(f"/batches/{batch}/export", view="full", partial=True)
        named = [line["game"] for line in lines if line.get("t") == "export.damaged"]
        assert {line["game"] for line in lines if "seq" in line} == others
        if column == "game_id":  # of a batch that cannot be read nothing says that it is this one
            assert page["damaged"] == named == [""]
            assert lines[-1]["damaged"] == 1
        for path in (
            *(f"/batches/{batch}", f"/batches/{batch}/events", f"/annotations?batch={batch}"),
            *(f"/reports?batch={batch}", f"/evaluations/items?batch={batch}&dimension=selection"),
            *(f"/annotations/tasks?rater=a&batch={batch}", f"/annotations/progress?batch={batch}"),
            *(f"/evaluations/{scored}", f"/evaluations/{scored}?per_item=true"),
        ):
            answer = await caller.get(path)
            assert answer.status_code == 200, (path, answer.text)
        items = answer.json()["per_item"]
        assert {item["item_id"].partition("/")[0] for item in items} >= {games[0]}
        assert (await caller.played())[1]
    assert CANARY not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "value",
    [
        *("'7'", "'\"x\"'", "'{}'", "'[]'", "'[7]'", "'null'"),
        # PostgreSQL stores such texts, and cannot take them out.
        *("""'[{"agent"\\: "\\u0000"}]'""", """'{"arm"\\: "\\u0000"}'""", """'[{"agent"\\: "\\ud83d"}]'"""),
    ],
)
async def test_seats_and_labels_of_other_kinds_end_no_search(value: str, database_url: str) -> None:
    async with calling(database_url) as caller:
        hurt, [game] = await caller.create(drive="manual", labels={"arm": "a"})
        whole, [other] = await caller.create(drive="manual", labels={"arm": "a"})
        await execute(caller, f"UPDATE games SET seats = {value} WHERE game_id = :game", game=game)
        await execute(caller, f"UPDATE batches SET labels = {value} WHERE batch_id = :batch", batch=hurt)
        for query in ("agent=scripted", "find=scripted", "label=arm=a", "find=a"):
            answer = await caller.get(f"/games?{query}")
            assert answer.status_code == 200, (query, answer.text)
            assert other in {one["game_id"] for one in answer.json()["games"]}, query
        assert (await caller.get("/games?model=x")).json()["games"] == []
        listed = (await caller.get("/batches?label=arm=a")).json()["batches"]
        assert [one["batch_id"] for one in listed] == [whole]


@pytest.mark.parametrize(
    "change",
    [
        """labels = '{"arm"\\: null}'""",
        """labels = '{"arm"\\: []}'""",
        """spec = '{"seats"\\: [7]}'""",
        """suspended = '{}'""",
        """suspended = '[]'""",
        """suspended = '{"at"\\: [], "endpoint"\\: 7, "cause"\\: {}, "words"\\: 7}'""",
        # What Python's reader of JSON refuses, in the driver too.
        pytest.param(f"""spec = '{{"seats"\\: {"[" * 3000 + "]" * 3000}}}'""", id="a deep spec"),
        pytest.param(f"""spec = '{{"count"\\: {"9" * 5000}}}'""", id="a huge number"),
    ],
)
async def test_a_damaged_batch_is_known_as_such(change: str, database_url: str) -> None:
    async with calling(database_url) as caller:
        hurt, _ = await caller.played(labels={"arm": "a"})
        whole, _ = await caller.played()
        await execute(caller, f"UPDATE batches SET {change} WHERE batch_id = :batch", batch=hurt)
        for path in ("", "/events", "/events?follow=true"):
            answer = await caller.get(f"/batches/{hurt}{path}")
            assert (answer.status_code, answer.json()["code"]) == (500, "corrupt-log"), answer.text
        assert (await caller.get(f"/batches/{whole}")).status_code == 200
        page = (await caller.get("/batches")).json()
        assert {one["batch_id"] for one in page["batches"]} | set(page["damaged"]) == {hurt, whole}


@pytest.mark.parametrize(
    "damage", [{"agent": []}, {"agent": None}, {"model": 7}, {"agent": "llm", "mechanism": 7}]
)
async def test_a_seat_that_makes_no_sense_hides_no_other_games_defaults(
    damage: dict[str, Any], database_url: str
) -> None:
    async with calling(database_url) as caller:
        batch, [hurt, _] = await caller.played(count=2)
        seats = json.dumps([{"agent": "scripted", **damage}] * 5)
        await execute(
            caller,
            "UPDATE games SET seats = CAST(:seats AS JSON) WHERE game_id = :game".replace(
                "CAST(:seats AS JSON)",
                ":seats" if database_url.startswith("sqlite") else "CAST(:seats AS JSON)",
            ),
            seats=seats,
            game=hurt,
        )
        answer = await caller.get(f"/batches/{batch}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["defaults"]["games"] == 1


async def test_a_game_without_names_ends_neither_an_export_nor_a_report(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [hurt, whole] = await caller.played(count=2)
        change = (
            "UPDATE events SET payload = json_set(payload, '$.names', NULL)"
            if database_url.startswith("sqlite")
            else "UPDATE events SET payload = (CAST(payload AS jsonb) || CAST(:change AS jsonb))"
        )
        more = {} if database_url.startswith("sqlite") else {"change": '{"names": null}'}
        await execute(caller, f"{change} WHERE game_id = :game AND type = 'game_created'", game=hurt, **more)
        for view in ("full", "public"):
            lines = (await caller.get(f"/batches/{batch}/export?view={view}")).text.splitlines()
            assert json.loads(lines[-1])["damaged"] == 1
            assert {json.loads(line).get("game") for line in lines[:-1]} == {hurt, whole}
        report = await caller.get(f"/reports?batch={batch}&wait_s=30")
        assert report.status_code == 200, report.text


@pytest.mark.parametrize("unusable", ["null", "7", '[{"item_id": 7}]'])
async def test_a_judges_damaged_result_is_known_as_such(unusable: str, tmp_path: Any) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, _ = await caller.played(seats=[{"agent": "llm", "model": "fake"}])
        evaluation = (await judging(caller, "selection", batch=batch)).json()["evaluation_id"]
        await over(caller, evaluation)
        change = "UPDATE evaluations SET result = json_set(result, '$.unusable', json(:unusable))"
        await execute(caller, change, unusable=unusable)
        answer = await caller.get(f"/evaluations/{evaluation}?per_item=true")
        assert (answer.status_code, answer.json()["code"]) == (500, "corrupt-log"), answer.text


async def test_a_batch_whose_game_is_gone_is_over_and_says_how_many_it_lost(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await caller.played(count=3, seats=[{"agent": "random"}])
        await execute(caller, "DELETE FROM games WHERE game_id = :game", game=games[1])
        await is_over_and_says_what_it_lost(caller, batch, games[0])


async def test_a_batch_whose_game_no_longer_names_it_is_over_and_says_how_many_it_lost(
    tmp_path: Path,
) -> None:
    file = tmp_path / "games.sqlite"
    async with calling(f"sqlite:///{file}") as caller:
        batch, games = await caller.played(count=3, seats=[{"agent": "random"}])
        with contextlib.closing(sqlite3.connect(file)) as damaging, damaging:
            # As a disk does it: without a look at foreign keys.
            damaging.execute("UPDATE games SET batch_id = x'ff00' WHERE game_id = ?", (games[1],))
        await is_over_and_says_what_it_lost(caller, batch, games[0])


async def is_over_and_says_what_it_lost(caller: Caller, batch: str, left: str) -> None:
    view = (await caller.get(f"/batches/{batch}")).json()
    assert (view["status"], view["count"], view["games"]["damaged"]) == ("done", 3, 1)
    assert (await caller.get("/batches")).json()["batches"][0]["status"] == "done"
    # Whoever waits for the end of the batch learns of it, and its games are not made anew.
    async with asyncio.timeout(WITHIN_S):
        [line] = await caller.lines(f"/batches/{batch}/events", follow=True)
    assert line["games"]["damaged"] == 1
    await caller.services.games.lay_out(batch)
    lines = await caller.lines(f"/batches/{batch}/export", view="full")
    assert [one["game"] for one in lines if one.get("t") == "export.damaged"] == [""]
    assert (lines[-1]["games"], lines[-1]["damaged"]) == (2, 1)
    done = await asyncio.to_thread(
        interintent, "doctor", "--database-url", caller.services.settings.database_url
    )
    assert f"batch: {batch}: it has 2 games and says 3" in done.stdout
    assert (await caller.delete(f"/games/{left}")).status_code == 200
    assert (await caller.get(f"/batches/{batch}")).json()["games"]["damaged"] == 1
    assert (await caller.delete(f"/batches/{batch}")).status_code == 200
    assert (await caller.get(f"/batches/{batch}")).status_code == 404
    await caller.services.games.lay_out(batch)  # as a job of its queue may, which comes too late
