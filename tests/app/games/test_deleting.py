"""Deleted games are gone with everything that was stored about them, and nothing else is."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from interintent_client import ApiError, Server
from sqlalchemy.ext.asyncio import create_async_engine

from app.base.clock import DAY_MS, now_ms
from app.cli.database import finished_games
from app.cli.rater_sheets import _Silent
from app.store import deleting as module
from app.store.deleting import OF_GAMES, Deleting
from app.store.examining import examine
from app.store.quotas import QuotaStore
from app.store.rows import METADATA
from app.store.tables import games, judgements, tasks
from evaluators.ground.drawing import Drawing
from evaluators.ground.items import items
from evaluators.ground.turns import Game, Unmeasurable, read_game
from tests.app.calling import WITHIN_S, Caller, calling, problem
from tests.app.edge.test_keys import bearer, make_key, store_of
from tests.app.evaluations.sealing import ask, lay_games, scripted_log, with_games
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.evaluations.test_judging import MODEL, judging, over
from tests.app.evaluations.test_judging_robust import SLOW
from tests.app.modelling import DIRECT, calling_with, faking
from tests.app.real_server import local_settings, running_server
from tests.app.store.one_of_each import TABLES, add, row
from tests.app.typed import interintent

LOG = scripted_log(70)


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url) as one:
        yield one


async def everything(url: str) -> dict[str, list[str]]:
    """Every row of every table as text."""
    engine = create_async_engine(url)
    found = {}
    async with engine.connect() as connection:
        for table in METADATA.sorted_tables:
            rows = (await connection.execute(sa.text(f'SELECT * FROM "{table.name}"'))).all()
            found[table.name] = sorted(str(tuple(row)) for row in rows)
    await engine.dispose()
    return found


def named(rows: dict[str, list[str]], name: str) -> set[str]:
    return {table for table, texts in rows.items() if any(name in text for text in texts)}


async def test_a_deleted_game_leaves_one_row_and_its_batch_goes_on_without_it(
    caller: Caller, database_url: str
) -> None:
    batch, [first, gone, last] = await caller.played(count=3)
    others = [await caller.lines(f"/games/{game}/events") for game in (first, last)]
    body = {"rater": {"name": "eve", "kind": "human"}, "dimension": "guessing"}
    page = await caller.get(
        "/evaluations/items", params={"batch": batch, "dimension": "guessing", "limit": 200}
    )
    answers = [
        {"item_id": item["id"], "intentions": [item["options"][0]["id"]]} for item in page.json()["items"]
    ]
    scored = (await caller.post("/evaluations", json={**body, "answers": answers})).json()
    ruled = await caller.post(
        "/evaluations", json={"dimension": "selection", "batch": batch, "judge": {"kind": "rule"}}
    )
    events = len(await caller.lines(f"/games/{gone}/events"))

    deleted = (await caller.delete(f"/games/{gone}")).json()
    assert deleted["status"] == "deleted"
    of_gone = sum(answer["item_id"].startswith(gone) for answer in answers)
    assert (deleted["games"], deleted["events"], deleted["said"]) == (1, events, of_gone)
    assert deleted["bytes"] > 10_000
    rows = await everything(database_url)
    # The judge's request still names what it was about.
    assert named(rows, gone) == {"audit", "deletions", "evaluations"}
    assert rows["deletions"][0].startswith(f"('{gone}', '{batch}', ")
    assert "'keyless'" in rows["deletions"][0]

    problem(await caller.get(f"/games/{gone}"), 404, "not-found")
    problem(await caller.delete(f"/games/{gone}"), 404, "not-found")
    view = (await caller.get(f"/batches/{batch}")).json()
    assert (view["status"], view["count"], view["games"]["finished"]) == ("done", 2, 2)
    assert [await caller.lines(f"/games/{game}/events") for game in (first, last)] == others
    export = await caller.lines(f"/batches/{batch}/export")
    assert export[-1]["games"] == 2
    # Scores stay, and what is left of the evaluation can be looked at and compared.
    shown = (await caller.get(f"/evaluations/{scored['evaluation_id']}", params={"per_item": True})).json()
    assert shown["totals"] == scored["totals"]
    assert len(shown["per_item"]) == len(answers) - of_gone
    again = (await caller.get(f"/evaluations/{ruled.json()['evaluation_id']}")).json()
    assert again["totals"] == ruled.json()["totals"]
    path = f"/evaluations/{again['evaluation_id']}/compare/{again['evaluation_id']}"
    assert (await caller.get(path)).status_code in (200, 409)
    # Games that are played anew take places that are free.
    await caller.post(f"/games/{last}/invalidate", json={"reason": "x"})
    anew = await caller.post(f"/batches/{batch}/retry", json={})
    assert anew.status_code == 200, anew.text
    assert (await caller.over(batch))["games"]["finished"] == 3


async def test_a_batch_goes_with_all_its_games_and_leaves_no_row(caller: Caller, database_url: str) -> None:
    kept, _ = await caller.played(count=2)
    headers = {"idempotency-key": "once"}
    wish = {"count": 45, "seats": [{"agent": "random"}]}
    made = (await caller.post("/games", json=wish, headers=headers)).json()
    batch = made["batch_id"]
    await caller.over(batch)
    before = await everything(database_url)
    deleted = (await caller.delete(f"/batches/{batch}")).json()
    assert deleted["games"] == 45
    after = await everything(database_url)
    assert named(after, batch) == {"audit", "deletions", "idempotency"}
    assert len(before["events"]) - len(after["events"]) == deleted["events"]
    for table in OF_GAMES:
        assert not any(game["game_id"] in row for row in after[table.name] for game in made["games"])
    problem(await caller.get(f"/batches/{batch}"), 404, "not-found")
    problem(await caller.delete(f"/batches/{batch}"), 404, "not-found")
    assert (await caller.get(f"/batches/{kept}")).json()["games"]["finished"] == 2
    assert {game["batch_id"] for game in (await caller.get("/games")).json()["games"]} == {kept}
    # A repeated request is still answered, and makes nothing.
    repeated = await caller.post("/games", json=wish, headers=headers)
    assert (repeated.status_code, repeated.json()["batch_id"]) == (201, batch)
    assert named(await everything(database_url), batch) == {"audit", "deletions", "idempotency"}


async def test_games_that_are_deleted_while_they_are_exported_are_not_in_the_export(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, [first, gone, between, last] = await caller.played(count=4)
    service = caller.services.games
    deleting, whole_log = Deleting(caller.services.database), service._reader.whole_log

    async def read(game: str) -> Any:
        if game == gone:
            [_ async for _ in deleting.delete([gone], "test")]
        found = await whole_log(game)
        if game == between:  # its events are read, and nothing else yet
            [_ async for _ in deleting.delete([between], "test")]
        return found

    monkeypatch.setattr(service._reader, "whole_log", read)
    lines = await caller.lines(f"/batches/{batch}/export", view="full")
    assert {line["game"] for line in lines[:-1]} == {first, last}
    assert (lines[-1]["games"], "damaged" in lines[-1]) == (2, False)


async def test_every_row_of_a_game_goes_with_it_and_those_of_no_other(
    caller: Caller, database_url: str
) -> None:
    await caller.services.meeting.stop()  # it forgets seeks of long ago, which these are
    wish = {"seats": [{"agent": "random"}]}
    (_, [kept]), (batch, [gone]) = [await caller.played(**wish) for _ in range(2)]
    assert (await caller.post(f"/batches/{batch}/tokens", json={})).status_code == 201
    above = [table for table in TABLES if table.name in ("evaluations", "evaluation_sets")]
    of_games = [table for table in OF_GAMES if table.name != "events"]
    await add(database_url, [(table, row(table, 0, scored_at=1, finished_at=1)) for table in above])
    for number, game in enumerate((kept, gone)):
        of_game = {"game_id": game, "origin": game}
        await add(database_url, [(table, row(table, number, **of_game)) for table in of_games])
    before = await everything(database_url)
    sizes = Deleting(caller.services.database)
    expected = (await sizes.measure([gone])).for_owner.bytes
    assert (await caller.delete(f"/games/{gone}")).json()["bytes"] == expected > 0
    after = await everything(database_url)
    # Sets keep of which origins they had games.
    assert named(after, gone) == {"audit", "deletions", "set_origins"}
    # It was the last of its batch.
    assert "tokens" not in named(after, batch)
    for table in OF_GAMES:
        assert [one for one in before[table.name] if kept in one] == after[table.name], table.name


async def test_nothing_is_deleted_that_is_not_over_or_that_a_fork_needs(caller: Caller) -> None:
    batch, [one, other] = await caller.create(count=2, drive="manual", seats=[{"agent": "random"}])
    before = await caller.rows()
    refused = problem(await caller.delete(f"/games/{one}"), 409, "still-needed")
    assert f"{one} is created: cancel it first" in refused["detail"]
    await caller.post(f"/games/{one}/step", json={"until": "end"})
    refused = problem(await caller.delete(f"/games/{one}"), 409, "still-needed")
    assert f"its batch {batch} is not over" in refused["detail"]
    problem(await caller.delete(f"/batches/{batch}"), 409, "still-needed")
    fork = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
    forked = (await caller.post(f"/games/{one}/fork", json=fork)).json()
    await caller.post(f"/games/{other}/cancel")
    refused = problem(await caller.delete(f"/batches/{batch}"), 409, "still-needed")
    assert f"{forked['game_id']}, a fork of {one}" in refused["detail"]
    assert (await caller.rows())["games"] == before["games"] + 1
    await caller.post(f"/games/{forked['game_id']}/cancel")
    assert (await caller.delete(f"/batches/{batch}")).json()["games"] == 2
    # The fork stays as it is.
    assert (await caller.get(f"/games/{forked['game_id']}")).json()["status"] == "cancelled"


async def test_a_strangers_fork_of_a_public_game_does_not_keep_it(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        scopes = ("games:create", "games:read", "games:step", "admin")
        owner, stranger = [bearer((await make_key(store_of(caller), *scopes))[1]) for _ in range(2)]
        caller.headers.update(owner)
        batch, [game] = await caller.played(reveal="all", seats=[{"agent": "random"}])
        fork = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        forked = await caller.post(f"/games/{game}/fork", json=fork, headers=stranger)
        assert forked.status_code == 201, forked.text
        deleted = await caller.delete(f"/batches/{batch}")
        assert deleted.status_code == 200, deleted.text
        # The fork can be played on.
        path = f"/games/{forked.json()['game_id']}"
        stepped = await caller.post(f"{path}/step", json={"until": "end"}, headers=stranger)
        assert stepped.status_code == 200, stepped.text
        assert (await caller.get(path, headers=stranger)).json()["status"] == "finished"


async def test_games_that_are_judged_are_kept_until_the_judge_is_done_and_then_its_words_go(
    database_url: str,
) -> None:
    async with faking(SLOW) as fake, calling_with(fake, database_url) as caller:
        batch, [gone, _] = await games_of(caller, 2)
        evaluation = (await judging(caller, "selection", batch=batch)).json()["evaluation_id"]
        for path in (f"/games/{gone}", f"/batches/{batch}"):
            refused = problem(await caller.delete(path), 409, "still-needed")
            assert f"the evaluation {evaluation} is judging" in refused["detail"]
        view = await over(caller, evaluation)
        words = "“"
        rows = await everything(database_url)
        assert any(words in row and gone in row for row in rows["judgements"])
        deleted = (await caller.delete(f"/games/{gone}")).json()
        assert deleted["said"] > 0
        rows = await everything(database_url)
        assert named(rows, gone) == {"audit", "deletions", "evaluations", "model_calls"}
        calls = [row for row in rows["model_calls"] if gone in row]
        assert calls
        assert not any("reasonable" in call for call in calls)
        assert any("reasonable" in call for call in rows["model_calls"])
        assert (await caller.get(f"/evaluations/{evaluation}")).json()["totals"] == view["totals"]


async def test_a_stranger_who_judges_a_public_game_does_not_keep_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with faking(SLOW) as fake, calling_with(fake, url) as caller:
        scopes = ("games:create", "games:read", "games:step", "admin", "eval:read", "eval:submit", "annotate")
        owner, stranger = [bearer((await make_key(store_of(caller), *scopes))[1]) for _ in range(2)]
        caller.headers.update(owner)
        batch, [game] = await caller.played(reveal="all", seats=[{"agent": "scripted"}])
        asked = {"dimension": "statements", "judge": MODEL, "game": game}
        begun = await caller.post("/evaluations", json=asked, headers=stranger)
        assert begun.status_code == 202, begun.text
        deleted = await caller.delete(f"/batches/{batch}")
        assert deleted.status_code == 200, deleted.text
        view = await over(caller, begun.json()["evaluation_id"], stranger)
        assert [one["game_id"] for one in view["left_out"]] == [game]
        rows = await everything(url.replace("sqlite:", "sqlite+aiosqlite:"))
        assert named(rows, game) <= {"audit", "deletions", "evaluations", "model_calls"}
        calls = [row for row in rows["model_calls"] if game in row]
        assert calls
        assert not any('"statements"' in call for call in calls)


async def test_an_owner_is_not_told_how_much_strangers_said_of_its_public_games(tmp_path: Path) -> None:
    database_url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(database_url) as caller:
        scopes = ("games:create", "games:read", "games:step", "admin", "eval:read", "eval:submit", "annotate")
        owner, fellow, stranger = [
            bearer((await make_key(store_of(caller), *scopes, project=project))[1])
            for project in ("lab", "lab", "other")
        ]
        operator = bearer((await make_key(store_of(caller), "admin", "admin:any"))[1])
        caller.headers.update(owner)
        deleted = []
        raters: Any = ((), (stranger,), (fellow,), (fellow, stranger), (fellow, stranger))
        for place, by in enumerate(raters):
            made = {"reveal": "all", "seats": [{"agent": "scripted"}], "seeds": {"from": 5}}
            batch, [game] = await caller.played(**made)
            for headers in by:
                asked = f"?game={game}&rater=ann&limit=50"  # every turn
                assert (await caller.get(f"/annotations/tasks{asked}", headers=headers)).json()["tasks"]
                items = f"/evaluations/items?game={game}&limit=1&dimension="
                item = (await caller.get(f"{items}selection", headers=headers)).json()["items"][0]
                judged = {"item_id": item["id"], "intention": item["asked"][0]["id"], "reasonable": False}
                body = {"rater": {"name": "ann", "kind": "human"}, "judgements": [judged]}
                answer = await caller.post("/annotations", json=body, headers=headers)
                assert answer.status_code == 201, answer.text
                item = (await caller.get(f"{items}guessing", headers=headers)).json()["items"][0]
                body = {"dimension": "guessing", "rater": {"name": "bob", "kind": "human"}}
                answers = [{"item_id": item["id"], "intentions": []}]
                answer = await caller.post("/evaluations", json={**body, "answers": answers}, headers=headers)
                assert answer.status_code == 201, answer.text
            path = f"/games/{game}" if place % 2 else f"/batches/{batch}"
            gone = await caller.delete(path, headers=operator if place == 4 else owner)
            assert gone.status_code == 200, gone.text
            deleted.append(gone.json())
            assert not named(await everything(database_url), game) & {"answers", "judgements"}
        assert [one["said"] for one in deleted] == [0, 0, 2, 2, 4]
        assert deleted[0] == deleted[1]
        assert deleted[2] == deleted[3]
        assert deleted[1]["bytes"] < deleted[2]["bytes"] < deleted[4]["bytes"]


async def test_an_owner_is_not_told_how_much_its_guests_left(caller: Caller, database_url: str) -> None:
    await caller.services.meeting.stop()  # it forgets seeks of long ago, which these are
    scopes = ("games:create", "games:read", "admin")
    caller.headers.update(bearer((await make_key(store_of(caller), *scopes))[1]))
    batch, [game] = await caller.played(seats=[{"agent": "scripted"}])
    events = (await Deleting(caller.services.database).measure([game])).sizes["events"]
    above = [table for table in TABLES if table.name in ("evaluations", "evaluation_sets")]
    await add(database_url, [(table, row(table, 0, scored_at=1, finished_at=1)) for table in above])
    # Rows of raters are those of strangers.
    others = [
        (table, row(table, 0, game_id=game, origin=game)) for table in OF_GAMES if table.name != "events"
    ]
    await add(database_url, others)
    taken = sa.update(games).where(games.c.game_id == game).values(taken={"1": "project:" + "b" * 40})
    await caller.services.database.writer.execute(taken)
    receipt = (await caller.delete(f"/batches/{batch}")).json()
    assert (receipt["said"], receipt["bytes"]) == (0, events)


async def test_what_raters_said_goes_in_pieces_and_a_deletion_that_broke_off_is_finished_by_the_next(
    caller: Caller, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, [game, other] = await caller.played(count=2, seats=[{"agent": "random"}])
    said = {judgements: 35, tasks: 24}
    rows = [
        (table, row(table, number, game_id=one, caller="ann" if number % 5 else "eve"))
        for one in (game, other)
        for table, count in said.items()
        for number in range(count)
    ]
    await add(database_url, rows)
    deleting = Deleting(caller.services.database)
    measured = await deleting.measure([game])
    events = len(await caller.lines(f"/games/{game}/events"))
    monkeypatch.setattr(module, "AT_ONCE", 10)

    first = await anext(deleting.delete([game], "test", ["ann"]))
    assert 0 < first.rows.total() < 10  # without those that it is not told of
    assert len(await caller.lines(f"/games/{game}/events")) == events
    left = await deleting.measure([game])
    assert left.sizes["judgements"] + left.sizes["annotation_tasks"] < measured.bytes

    total, pieces = first, 1
    async for piece in deleting.delete([game], "test", ["ann"]):
        assert all(piece.rows[table.name] <= 10 for table in said)
        total.add(piece)
        pieces += 1
    assert pieces == 6  # three pieces, two pieces, and the game with the rest
    assert total.games == 1
    assert total.rows["judgements"] == 28
    assert game not in str((await everything(database_url))["judgements"])
    assert (await caller.get(f"/batches/{batch}")).json()["count"] == 1
    gone = (await caller.delete(f"/batches/{batch}")).json()
    assert (gone["games"], gone["said"]) == (1, 35)
    found = [one async for one in examine(caller.services.database, lambda done, of: None)]
    assert found == []


async def test_an_answer_that_comes_after_its_game_was_deleted_is_paid_for_and_not_kept(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faking() as fake, calling_with(fake, database_url, api_key="ik_" + "o" * 43) as caller:
        ann = await make_key(store_of(caller), "games:create", "games:cancel", "admin")
        caller.headers.update(bearer(ann[1]))
        calls, asked, deleted = caller.services.models.calls, asyncio.Event(), asyncio.Event()
        keep = calls.keep

        async def late(*given: Any) -> Any:
            asked.set()
            await deleted.wait()
            return await keep(*given)

        monkeypatch.setattr(calls, "keep", late)
        batch, [game] = await caller.create(seats=DIRECT)
        await asked.wait()
        await caller.post(f"/batches/{batch}/cancel")
        async with asyncio.timeout(WITHIN_S):
            while (await caller.delete(f"/batches/{batch}")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        deleted.set()
        await caller.services.models.landed(game)
        rows = await everything(database_url)
        assert named(rows, game) == {"deletions", "owner_spending"}
        day = now_ms() // DAY_MS
        spent = await QuotaStore(caller.services.database).spent(f"key:{ann[0]}", day)
        assert spent.tokens > 0
        found = [one async for one in examine(caller.services.database, lambda done, of: None)]
        assert found == []


async def read_tasks(caller: Caller, game: str) -> Any:
    return await ask(caller, "reader", f"/annotations/tasks?game={game}&rater=eve&limit=50")


async def read_items(caller: Caller, game: str) -> Any:
    return await ask(caller, "reader", f"/evaluations/items?game={game}&dimension=selection")


async def judge_an_item(caller: Caller, game: str) -> Any:
    item = next(items(await caller.services.evaluations.games.by_id(game), "selection"))
    judgement = {"item_id": item.id, "intention": item.asked[0].id, "reasonable": True, "comment": "why"}
    body = {"rater": {"name": "eve", "kind": "human"}, "judgements": [judgement]}
    return await ask(caller, "reader", "/annotations", body)


async def judge_by_rules(caller: Caller, game: str) -> Any:
    body = {"dimension": "selection", "game": game, "judge": {"kind": "rule"}}
    return await ask(caller, "reader", "/evaluations", body)


async def answer_an_item(caller: Caller, game: str) -> Any:
    item = next(items(await caller.services.evaluations.games.by_id(game), "guessing"))
    answer = {"item_id": item.id, "intentions": []}
    body = {"dimension": "guessing", "rater": {"name": "eve", "kind": "human"}, "answers": [answer]}
    return await ask(caller, "owner", "/evaluations", body)


async def mint_a_watcher(caller: Caller, game: str) -> Any:
    _, key = await make_key(store_of(caller), "tokens:mint:any")
    return await caller.post(f"/games/{game}/tokens", json={"viewer": "public"}, headers=bearer(key))


asking: ContextVar[bool] = ContextVar("asking", default=False)
"""Whether the request under test runs in this task."""


@pytest.mark.parametrize(
    ("request_about", "status"),
    [
        (read_tasks, 404),
        (read_items, 200),
        (judge_an_item, 422),
        (judge_by_rules, 201),
        (answer_an_item, 422),
        (mint_a_watcher, 404),
    ],
)
async def test_a_game_that_is_deleted_before_what_is_said_of_it_is_written_leaves_none_of_that(
    request_about: Callable[[Caller, str], Awaitable[Any]],
    status: int,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with with_games(database_url, []) as caller:
        database = caller.services.database
        run, deleting, told = database.writer.run, Deleting(database), []
        # The game goes before the first of the request's transactions, then another before the second, ...
        for place in range(9):
            (game,) = await lay_games(caller, [LOG], batch=f"b_gone{place}")
            left = place

            async def delayed(work: Any, game: str = game) -> Any:
                nonlocal left
                left -= asking.get()  # not what the service writes of itself meanwhile
                if left == -1:
                    [_ async for _ in deleting.delete([game], "test")]
                return await run(work)

            monkeypatch.setattr(database.writer, "run", delayed)
            mark = asking.set(True)
            answer = await request_about(caller, game)
            asking.reset(mark)
            monkeypatch.setattr(database.writer, "run", run)
            if left >= 0:
                break
            told.append(answer.status_code)
            assert [one async for one in examine(database, lambda done, of: None)] == [], place
        assert told[0] == status


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dataset", ("dataset", "{}/data")),
        ("items", ("items", "--dimension", "guessing", "--out", "{}/items.jsonl")),
    ],
)
async def test_a_game_that_is_deleted_while_a_command_reads_its_batch_is_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "games.sqlite"
    url = f"sqlite:///{file}"
    async with calling(url) as caller:
        batch, games = await games_of(caller, 3)

    def delete(game: str) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            for table in ("events", "games"):
                connection.execute(f"delete from {table} where game_id = ?", [game])

    async def listed(*args: Any, **options: Any) -> list[str]:
        ids = await finished_games(*args, **options)
        delete(games[0])
        return ids

    monkeypatch.setattr(f"app.cli.{name}.finished_games", listed)
    given = [word.format(tmp_path) for word in words]
    done = await asyncio.to_thread(interintent, *given, "--batch", batch, "--database-url", url)
    assert done.exit_code == 0, done.output
    assert f"passed over: 1 × deleted meanwhile ({games[0]})" in " ".join(done.stderr.split())
    written = [path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".jsonl")]
    assert any(games[1].encode() in path.read_bytes() for path in written)


async def test_a_game_that_cannot_be_measured_does_not_keep_the_items_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/games.sqlite"
    async with calling(url) as caller:
        batch, [first, other] = await games_of(caller, 2)

    def measured(game_id: str, log: Any) -> Game:
        if game_id == first:
            raise Unmeasurable("its roles are not known")
        return read_game(game_id, log)

    monkeypatch.setattr("app.evaluations.items.read_game", measured)
    words = ("items", "--batch", batch, "--dimension", "guessing", "--database-url", url)
    done = await asyncio.to_thread(interintent, *words)
    assert done.exit_code == 0, done.output
    assert f"1 × its roles are not known ({first})" in " ".join(done.stderr.split())
    assert other in done.stdout


@pytest.mark.parametrize("step", [Drawing, _Silent.tell])
async def test_a_game_that_is_deleted_while_turns_are_drawn_is_not_in_the_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[..., Any]
) -> None:
    file = tmp_path / "games.sqlite"
    async with calling(f"sqlite:///{file}") as caller:
        batch, games = await games_of(caller, 2)

    def deletes(*args: Any) -> Any:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("delete from games where game_id = ?", [games[0]])
        return step(*args)

    monkeypatch.setattr(f"app.cli.rater_sheets.{step.__qualname__}", deletes)
    words = ("annotations", "sheet", "--tasks", "40", "--out", f"{tmp_path}/sheet.csv", "--batch", batch)
    done = await asyncio.to_thread(interintent, *words, "--database-url", f"sqlite:///{file}")
    assert done.exit_code == 0, done.output
    sheet = (tmp_path / "sheet.csv").read_text()
    assert (games[0] in sheet, games[1] in sheet) == (False, True)
    assert (f"1 × deleted meanwhile ({games[0]})" in " ".join(done.stderr.split())) is (step is Drawing)


async def test_the_client_deletes(database_url: str) -> None:
    async with running_server(local_settings(database_url)) as served, Server(served.url) as server:
        batch = await server.create_games(count=2, seats=[{"agent": "random"}])
        await batch.done()
        assert (await batch.games[0].delete())["games"] == 1
        with pytest.raises(ApiError) as refused:
            await batch.games[0].delete()
        assert refused.value.code == "not-found"
        assert (await batch.delete())["events"] > 0


def test_every_table_with_rows_of_games_is_cleared() -> None:
    of_games = {table.name for table in METADATA.sorted_tables if "game_id" in table.columns}
    assert {table.name for table in OF_GAMES} == of_games - {"games", "deletions"}
