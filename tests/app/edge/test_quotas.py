"""Quotas of owners: what is refused, how it is said, and that several processes count together."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from websockets.exceptions import ConnectionClosed

from agents.llm.session import CallKey
from agents.model.model import Form, Message, Reply, Usage
from app.base.clock import DAY_MS, now_ms
from app.base.errors import QuotaExceeded
from app.base.off_loop import whose
from app.base.pace import Pace
from app.edge import quotas as module
from app.edge.auth import Caller as Checked
from app.edge.auth import hash_of, new_key
from app.edge.quotas import QUOTAS
from app.evaluations import tasks
from app.games.schemas import NewGames
from app.runner.line import Line
from app.settings import InvalidQuotas, read_quotas
from app.store import db, tables
from app.store.call import StoredQuestion, answered
from app.store.db import Append
from app.store.model_calls import CallStore
from app.store.quotas import QuotaStore
from app.store.tables import judgements, owner_spending
from app.store.writer import Write, Writer
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import OPERATOR, bearer, make_key, store_of
from tests.app.evaluations.sealing import after_a_jump
from tests.app.real_server import local_settings, running_server
from tests.app.seated import SHORT, Bot, HttpBot
from tests.app.typed import interintent
from tests.app.watcher import watching
from tests.records import load

GAME = {"drive": "manual", "seats": [{"agent": "random"}]}


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url, api_key=OPERATOR) as one:
        yield one


async def limited(caller: Caller, **limits: float | None) -> tuple[str, dict[str, str]]:
    """A key with these quotas: its owner, and its header."""
    key_id, key = await make_key(store_of(caller))
    quotas = caller.services.quotas
    await QuotaStore(caller.services.database).change(f"key:{key_id}", limits, frozenset())
    await quotas.read()
    return f"key:{key_id}", bearer(key)


def over(answer: httpx.Response, name: str) -> dict[str, Any]:
    """The problem of an answer beyond this quota."""
    told = problem(answer, 429, "quota-exceeded")
    assert told["quota"] == name
    assert name in told["detail"]
    assert 1 <= int(answer.headers["retry-after"]) <= DAY_MS // 1000
    return told


async def mine(caller: Caller, headers: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The quotas that GET /me shows, by name."""
    answer = await caller.get("/me", headers=headers)
    assert answer.status_code == 200
    return {quota["name"]: quota for quota in answer.json()["quotas"]}


async def test_each_quota_of_games_is_refused_by_name_and_nothing_is_written(caller: Caller) -> None:
    _, headers = await limited(caller, games_a_day=5, open_games=3, batch_size=3)

    async def post(count: int) -> httpx.Response:
        return await caller.post("/games", json={**GAME, "count": count}, headers=headers)

    over(await post(4), "batch_size")
    assert (await post(3)).status_code == 201
    before = await caller.rows()
    over(await post(1), "open_games")
    assert await caller.rows() == before
    shown = (await mine(caller, headers))["open_games"]
    assert (shown["limit"], shown["used"], shown["left"]) == (3, 3, 0)
    batch = (await caller.get("/batches", headers=headers)).json()["batches"][0]["batch_id"]
    assert (await caller.post(f"/batches/{batch}/cancel", headers=headers)).status_code == 202
    async with asyncio.timeout(60):
        while (await mine(caller, headers))["open_games"]["used"]:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.02)
    # What is over is not open any more, but was created today.
    assert (await post(2)).status_code == 201
    told = over(await post(1), "games_a_day")
    assert told["limit"] == 5
    assert (await mine(caller, headers))["games_a_day"]["left"] == 0


async def test_a_record_is_no_open_game_but_a_game_of_the_day(caller: Caller) -> None:
    owner, headers = await limited(caller, games_a_day=3, open_games=1)
    assert (await caller.post("/games", json=GAME, headers=headers)).status_code == 201
    # The owner has more open games than it may have from now on: it may still bring what is over.
    await QuotaStore(caller.services.database).change(owner, {"open_games": 0}, frozenset())
    await caller.services.quotas.read()
    over(await caller.post("/games", json=GAME, headers=headers), "open_games")
    brought = [
        await caller.post("/games/import", json=load("forced-team"), headers=headers) for _ in range(3)
    ]
    assert [answer.status_code for answer in brought[:2]] == [201, 201]
    over(brought[2], "games_a_day")
    assert (await mine(caller, headers))["open_games"]["used"] == 1


async def test_bytes_of_yesterday_do_not_count_today(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, _ = await limited(caller, bytes_a_day=300)
    counting = caller.services.quotas
    now = now_ms()
    monkeypatch.setattr(module, "now_ms", lambda: now)
    counting.receive(owner, 300)
    await counting._store_received()
    with pytest.raises(QuotaExceeded, match="bytes_a_day"):
        counting.receive(owner, 1)
    now += DAY_MS
    counting.receive(owner, 300)
    with pytest.raises(QuotaExceeded, match="bytes_a_day"):
        counting.receive(owner, 1)


async def test_seeks_and_games_with_open_seats_count_as_games_of_the_day(caller: Caller) -> None:
    _, headers = await limited(caller, games_a_day=2)
    opened = {"seats": [{"agent": "open"}] * 2 + [{}] * 3}
    assert (await caller.post("/games/open", json=opened, headers=headers)).status_code == 201
    for _ in range(2):  # the same seek counts once
        assert (await caller.post("/seeks", json={"bot": "owl"}, headers=headers)).status_code == 201
    assert (await mine(caller, headers))["games_a_day"]["used"] == 2
    over(await caller.post("/seeks", json={"bot": "fox"}, headers=headers), "games_a_day")
    over(await caller.post("/games/open", json=opened, headers=headers), "games_a_day")
    lobby = (await caller.get("/seeks", headers=headers)).json()
    assert (len(lobby["seeks"]), len(lobby["games"])) == (1, 1)


async def test_what_waits_for_players_and_what_was_paired_is_open_too(caller: Caller) -> None:
    _, headers = await limited(caller, open_games=2)

    async def used() -> float:
        return float((await mine(caller, headers))["open_games"]["used"])

    async def post(path: str, body: dict[str, Any]) -> httpx.Response:
        return await caller.post(path, json=body, headers=headers)

    opened = {"seats": [{"agent": "open"}] * 2 + [{}] * 3}
    hosted = (await post("/games/open", opened)).json()["game_id"]
    # A claim of one's own game is not another game.
    claim = await post(f"/games/{hosted}/seats/open/claim", {"bot": "owl"})
    assert (claim.status_code, await used()) == (201, 1)
    sought = (await post("/seeks", {"bot": "fox", "players": 10})).json()["seek_id"]
    assert await used() == 2
    over(await post("/seeks", {"bot": "cat", "players": 10}), "open_games")
    over(await post("/games/open", opened), "open_games")
    over(await post("/games", GAME), "open_games")
    await caller.delete(f"/seeks/{sought}", headers=headers)
    await caller.delete(f"/games/{hosted}/seats/open", headers=headers)
    assert await used() == 0
    # The server's game counts as one until it is over, whoever else plays in it.
    _, others = await limited(caller)
    for number in range(4):
        await caller.post("/seeks", json={"bot": f"bot{number}"}, headers=others)
    paired = (await post("/seeks", {"bot": "owl"})).json()
    assert (paired["status"], await used()) == ("paired", 1)
    assert (await mine(caller, others))["open_games"]["used"] == 1
    assert (await post("/games", GAME)).status_code == 201
    over(await post("/seeks", {"bot": "owl"}), "open_games")
    await caller.post(f"/games/{paired['game_id']}/cancel", headers=bearer(OPERATOR))
    assert (await post("/seeks", {"bot": "owl"})).status_code == 201


async def test_a_host_that_pauses_its_game_keeps_no_place_of_its_guests(caller: Caller) -> None:
    _, host = await limited(caller)
    _, guest = await limited(caller, open_games=1)
    opened = {"seats": [{"agent": "open"}, *[{}] * 4]}
    hosted = (await caller.post("/games/open", json=opened, headers=host)).json()["game_id"]
    await caller.post(f"/games/{hosted}/seats/open/claim", json={"bot": "owl"}, headers=guest)
    batch = (await caller.get(f"/games/{hosted}", headers=guest)).json()["batch_id"]
    over(await caller.post("/seeks", json={"bot": "owl"}, headers=guest), "open_games")
    assert (await caller.post(f"/batches/{batch}/pause", headers=host)).status_code == 202
    async with asyncio.timeout(60):
        while (await caller.get(f"/batches/{batch}", headers=host)).json()["status"] != "suspended":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (await mine(caller, host))["open_games"]["used"] == 1
    assert (await caller.post("/seeks", json={"bot": "owl"}, headers=guest)).status_code == 201


async def test_games_that_are_played_anew_are_open_games(caller: Caller) -> None:
    _, headers = await limited(caller, open_games=1)
    scripts = {"seats": [{"agent": "scripted"}]}
    made = (await caller.post("/games", json=scripts, headers=headers)).json()
    batch, [game] = made["batch_id"], made["games"]
    lines = await caller.get(f"/batches/{batch}/events?follow=true", headers=headers)
    assert json.loads(lines.content.splitlines()[-1])["status"] == "done"
    marked = f"/games/{game['game_id']}/invalidate"
    assert (await caller.post(marked, json={"reason": "odd"}, headers=headers)).status_code == 200
    waits = (await caller.post("/games", json=GAME, headers=headers)).json()["games"][0]["game_id"]
    before = await caller.rows()
    over(await caller.post(f"/batches/{batch}/retry", json={}, headers=headers), "open_games")
    assert await caller.rows() == before
    assert (await mine(caller, headers))["games_a_day"]["used"] == 2
    await caller.post(f"/games/{waits}/cancel", headers=headers)
    assert (await caller.post(f"/batches/{batch}/retry", json={}, headers=headers)).status_code == 200


async def test_two_processes_never_exceed_a_quota_together(database_url: str) -> None:
    async with (
        calling(database_url, api_key=OPERATOR) as one,
        calling(database_url, laid_out=False, api_key=OPERATOR, runner=False) as other,
    ):
        _, headers = await limited(one, games_a_day=7)
        await other.services.quotas.read()
        asked = [
            process.post("/games", json=GAME, headers=headers) for process in (one, other) for _ in range(8)
        ]
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert sorted(statuses) == [201] * 7 + [429] * 9
        assert (await mine(other, headers))["games_a_day"]["used"] == 7


async def test_open_games_of_two_processes_count_together(database_url: str) -> None:
    async with (
        calling(database_url, api_key=OPERATOR) as one,
        calling(database_url, laid_out=False, api_key=OPERATOR, runner=False) as other,
    ):
        _, headers = await limited(one, open_games=3)
        await other.services.quotas.read()
        asked = [
            process.post("/games", json=GAME, headers=headers) for process in (one, other) for _ in range(4)
        ]
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert sorted(statuses) == [201] * 3 + [429] * 5


async def test_open_games_count_together_while_the_day_changes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        calling(postgres_url, api_key=OPERATOR) as one,
        calling(postgres_url, laid_out=False, api_key=OPERATOR, runner=False) as other,
    ):
        _, headers = await limited(one, open_games=3)
        await other.services.quotas.read()
        for days, process in enumerate((one, other)):
            store = process.services.quotas._store

            async def add(
                connection: Any, owner: str, day: int, *more: Any, add: Any = store.add, ahead: int = days
            ) -> int:
                return int(await add(connection, owner, day + ahead, *more))

            async def count(*of: Any, count: Any = store.open_games) -> int:
                counted = int(await count(*of))
                await asyncio.sleep(0.1)  # so that the other process counts at the same time, if it may
                return counted

            monkeypatch.setattr(store, "add", add)
            monkeypatch.setattr(store, "open_games", count)
        asked = [
            process.post("/games", json=GAME, headers=headers) for process in (one, other) for _ in range(4)
        ]
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert sorted(statuses) == [201] * 3 + [429] * 5


async def test_the_keys_of_a_project_share_its_quotas(caller: Caller) -> None:
    made = [await _key_of(caller, "lab") for _ in range(2)]
    await QuotaStore(caller.services.database).change("project:lab", {"games_a_day": 1}, frozenset())
    await caller.services.quotas.read()
    first, second = map(bearer, made)
    assert (await caller.post("/games", json=GAME, headers=first)).status_code == 201
    over(await caller.post("/games", json=GAME, headers=second), "games_a_day")


async def _key_of(caller: Caller, project: str) -> str:
    """A key of this project."""
    key_id, _ = await make_key(store_of(caller))
    (old,) = [key for key in await store_of(caller).keys() if key.key_id == key_id]
    text = new_key()
    await store_of(caller).add(replace(old, key_id=f"{key_id}x", hash=hash_of(text), project=project))
    return text


async def test_requests_beyond_the_quota_are_refused_and_others_are_not(caller: Caller) -> None:
    _, headers = await limited(caller, requests=5)
    _, others = await limited(caller)
    # However slow the machine: of so many at once some are too many.
    answers = await asyncio.gather(*(caller.get("/me", headers=headers) for _ in range(200)))
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(answers) - len(refused) >= 5
    for answer in refused[:3]:
        assert over(answer, "requests")["limit"] == 5
    assert len(refused) > 100
    assert (await caller.get("/games", headers=others)).status_code == 200


async def test_submissions_and_bytes_are_counted(caller: Caller) -> None:
    owner, headers = await limited(caller, submissions_a_day=0, bytes_a_day=300)
    made = await caller.post("/games", json={"seats": [{"agent": "scripted"}]}, headers=headers)
    batch = made.json()["batch_id"]
    lines = await caller.get(f"/batches/{batch}/events?follow=true", headers=headers)
    assert json.loads(lines.content.splitlines()[-1])["status"] == "done"
    judge = {"dimension": "selection", "batch": batch, "judge": {"kind": "rule"}}
    over(await caller.post("/evaluations", json=judge, headers=headers), "submissions_a_day")
    answers = [await caller.post("/evaluations", json=judge, headers=headers) for _ in range(8)]
    over(answers[-1], "bytes_a_day")
    used = (await mine(caller, headers))["bytes_a_day"]["used"]
    assert 0 < used <= 300
    # What was counted in memory is in the database when the service has stopped.
    await caller.services.quotas.stop()
    stored = await QuotaStore(caller.services.database).used(owner, now_ms() // DAY_MS)
    assert stored["bytes_a_day"] == used


async def test_what_a_tokens_holder_sends_uses_up_nothing_of_its_owners(caller: Caller) -> None:
    owner, headers = await limited(caller, bytes_a_day=2_000)
    game = {"seats": [{"agent": "remote"}]}
    made = (await caller.post("/games", json=game, headers=headers)).json()["games"][0]
    code = await caller.post(f"/games/{made['game_id']}/seats/1/claim-code", json={}, headers=headers)
    claimed = (await caller.post("/claims", json={"code": code.json()["code"]})).json()
    path, answer = f"/games/{made['game_id']}/requests/1.1.vote.1/action", {"action": {"text": "x" * 900}}
    used = (await mine(caller, headers))["bytes_a_day"]["used"]
    answers = [await caller.post(path, json=answer, headers=bearer(claimed["token"])) for _ in range(4)]
    assert [one.status_code for one in answers[:2]] == [404, 404]
    over(answers[-1], "bytes_a_day")
    assert (await mine(caller, headers))["bytes_a_day"]["used"] == used
    assert (await caller.post("/games", json=game, headers=headers)).status_code == 201
    await caller.services.quotas.stop()
    stored = await QuotaStore(caller.services.database).used(owner, now_ms() // DAY_MS)
    assert stored["token_bytes_a_day"] > 1_800 > stored["bytes_a_day"]


@pytest.mark.parametrize("how", ["replaced", "deleted"])
async def test_the_holder_of_a_seat_token_that_ended_uses_up_nothing_of_its_former_owners_tokens(
    caller: Caller, how: str
) -> None:
    owner, headers = await limited(caller)
    made = [
        await caller.post("/games", json={**GAME, "seats": [{"agent": "remote"}]}, headers=headers)
        for _ in range(2)
    ]
    games = [one.json()["games"][0] for one in made]
    ended, valid = [bearer(one["seats"][0]["token"]) for one in games]
    game = games[0]["game_id"]
    if how == "replaced":
        again = {"viewer": "seat:1", "raise_epoch": True}
        answer = await caller.post(f"/games/{game}/tokens", json=again, headers=headers)
        assert answer.status_code == 201
    else:
        await caller.post(f"/games/{game}/cancel", headers=headers)
        async with asyncio.timeout(60):
            while (await caller.delete(f"/games/{game}", headers=headers)).status_code == 409:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    # Three tokens' requests at once, and then none for long.
    await QuotaStore(caller.services.database).change(owner, {"requests": 1}, frozenset())
    await caller.services.quotas.read()
    for _ in range(100):
        problem(await caller.get("/me", headers=ended), 401, "unauthenticated")
    assert (await caller.get("/me", headers=valid)).status_code == 200


async def test_beyond_a_days_submissions_nothing_is_scored_and_no_judge_begins(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, headers = await limited(caller, submissions_a_day=0)
    made = await caller.post("/games", json={"seats": [{"agent": "scripted"}]}, headers=headers)
    batch = made.json()["batch_id"]
    await caller.get(f"/batches/{batch}/events?follow=true", headers=headers)
    items = await caller.get(f"/evaluations/items?batch={batch}&dimension=guessing", headers=headers)
    answers = [{"item_id": item["id"], "intentions": []} for item in items.json()["items"]]
    evaluations, worked = caller.services.evaluations, list[str]()

    async def work(*given: Any, **more: Any) -> Any:
        worked.append("scored")
        raise AssertionError("a refused submission was worked on")

    monkeypatch.setattr(evaluations.items, "score", work)
    monkeypatch.setattr(evaluations, "_ruled", work)
    guesses = {"dimension": "guessing", "rater": {"name": "m", "kind": "model"}, "answers": answers}
    over(await caller.post("/evaluations", json=guesses, headers=headers), "submissions_a_day")
    judge = {"dimension": "selection", "batch": batch, "judge": {"kind": "rule"}}
    over(await caller.post("/evaluations", json=judge, headers=headers), "submissions_a_day")
    assert not worked


async def test_judgements_and_dealt_tasks_count_as_submissions(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_COUNTED_AS_ONE", 2)
    _, headers = await limited(caller, submissions_a_day=4)
    made = await caller.post("/games", json={"seats": [{"agent": "scripted"}]}, headers=headers)
    batch = made.json()["batch_id"]
    await caller.get(f"/batches/{batch}/events?follow=true", headers=headers)
    items = await caller.get(f"/evaluations/items?batch={batch}&dimension=selection", headers=headers)
    given = [
        {"item_id": item["id"], "intention": item["asked"][0]["id"], "reasonable": True}
        for item in items.json()["items"][:5]
    ]

    async def judge(count: int) -> httpx.Response:
        body = {"rater": {"name": "ann", "kind": "human"}, "judgements": given[:count], "revise": True}
        return await caller.post("/annotations", json=body, headers=headers)

    async def said() -> list[list[Any]]:
        return [
            await caller.services.database.column(select(func.count()).select_from(t))
            for t in (judgements, tables.tasks)
        ]

    async def deal(rater: str) -> httpx.Response:
        asked = {"batch": batch, "rater": rater, "overlap": 20}
        return await caller.get("/annotations/tasks", params=asked, headers=headers)

    dealt = await deal("ann")
    assert dealt.json()["tasks"]
    assert (await deal("ann")).json()["left"]  # the same ones: they were counted before
    assert (await judge(3)).status_code == 201
    assert (await mine(caller, headers))["submissions_a_day"]["used"] == 3
    before = await said()
    over(await judge(3), "submissions_a_day")
    assert (await said()) == before
    assert (await judge(1)).status_code == 201
    before = await said()
    over(await judge(1), "submissions_a_day")
    over(await deal("bob"), "submissions_a_day")
    assert (await said()) == before


async def test_tokens_and_codes_for_seats_are_counted(caller: Caller) -> None:
    _, headers = await limited(caller, tokens_a_day=3)
    made = await caller.post("/games", json={"seats": [{"agent": "remote"}]}, headers=headers)
    batch, game = made.json()["batch_id"], made.json()["games"][0]["game_id"]
    paths = (f"/batches/{batch}/tokens", f"/games/{game}/tokens", f"/games/{game}/seats/1/claim-code")
    bodies: Sequence[dict[str, str]] = ({}, {"viewer": "public"}, {})
    for path, body in zip(paths, bodies, strict=True):
        assert (await caller.post(path, json=body, headers=headers)).status_code == 201
    before = await caller.services.database.column(select(func.count()).select_from(tables.audit))
    for path, body in zip(paths, bodies, strict=True):
        over(await caller.post(path, json=body, headers=headers), "tokens_a_day")
    assert before == await caller.services.database.column(select(func.count()).select_from(tables.audit))
    assert (await mine(caller, headers))["tokens_a_day"]["used"] == 3


async def test_nothing_limits_a_service_without_keys_unless_it_is_set(tmp_path: Path) -> None:
    tight = {"games_a_day": 1, "requests": 1, "batch_size": 1}
    async with calling(f"sqlite:///{tmp_path}/games.sqlite", quotas=tight) as caller:
        for _ in range(3):
            answer = await caller.post("/games", json={**GAME, "count": 2})
            assert answer.status_code == 201
        me = (await caller.get("/me")).json()
        assert me["owner"] == "keyless"
        assert all(quota["limit"] is None for quota in me["quotas"])
        await QuotaStore(caller.services.database).change("keyless", {"batch_size": 1}, frozenset())
        await caller.services.quotas.read()
        over(await caller.post("/games", json={**GAME, "count": 2}), "batch_size")


async def test_me_says_who_is_asking(caller: Caller) -> None:
    owner, headers = await limited(caller, requests=7.5)
    told = (await caller.get("/me", headers=headers)).json()
    assert told["owner"] == told["name"] == owner
    assert [quota["name"] for quota in told["quotas"]] == list(QUOTAS)
    assert {quota["name"]: quota["limit"] for quota in told["quotas"]}["requests"] == 7.5
    made = await caller.post("/games", json={**GAME, "seats": [{"agent": "remote"}]}, headers=headers)
    token = made.json()["games"][0]["seats"][1]["token"]
    told = (await caller.get("/me", headers=bearer(token))).json()
    # Whoever holds a token need not know how much its owner uses.
    assert (told["owner"], told["viewer"], told["quotas"]) == (None, "seat:2", [])
    assert told["game"] == made.json()["games"][0]["game_id"]
    assert (await caller.get("/me")).status_code == 401


async def test_a_socket_beyond_the_quota_is_closed_with_its_name(tmp_path: Path) -> None:
    async with running_server(local_settings(f"sqlite:///{tmp_path}/a.db", api_key=OPERATOR)) as served:
        key_id, key = await make_key(store_of(served))
        await QuotaStore(served.services.database).change(f"key:{key_id}", {"sockets": 1}, frozenset())
        await served.services.quotas.read()
        made = await served.services.games.create(
            NewGames.model_validate(GAME), by=Checked("test", owner=f"key:{key_id}")
        )
        game = made.games[0].game_id
        async with watching(served.ws_url) as first, watching(served.ws_url) as second:
            await first.identify(game, token=key)
            await second.send(t="identify", v=1, game=game, token=key)
            with pytest.raises(ConnectionClosed) as closed:
                await second.receive()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4429
            assert "quota=sockets" in closed.value.rcvd.reason


async def test_each_socket_that_closes_makes_room_for_one(caller: Caller) -> None:
    owner, _ = await limited(caller, sockets=2)
    counting = caller.services.quotas
    with ExitStack() as lasting:
        lasting.enter_context(counting.open(owner))
        with counting.open(owner):
            pass
        lasting.enter_context(counting.open(owner))
        with pytest.raises(QuotaExceeded, match="sockets"):
            lasting.enter_context(counting.open(owner))
        # Those of its tokens are counted apart.
        lasting.enter_context(counting.open(owner, by_token=True))
    assert not counting._open


# --- what models cost ------------------------------------------------------------------------


async def test_what_models_cost_today_counts_and_what_they_cost_yesterday_does_not(caller: Caller) -> None:
    owner, _ = await limited(caller, model_cost_a_day=1.5, model_tokens_a_day=None)
    quotas, today = caller.services.quotas, now_ms() // DAY_MS

    async def spend(account: str, day: int, cost: float) -> None:
        await caller.services.database.writer.execute(
            owner_spending.insert().values(account=account, day=day, owner=owner, tokens=100, cost=cost)
        )

    await spend("g_a", today - 1, 9.0)
    await spend("g_a", today, 1.0)
    await quotas.check_models(owner)
    await spend("g_b", today, 0.5)
    with pytest.raises(QuotaExceeded, match="model_cost_a_day"):
        await quotas.check_models(owner)
    for _ in range(2):
        # However many ask at once, and although what was known is forgotten now and then.
        told = await asyncio.gather(*(quotas.over_quota(owner) for _ in range(5)))
        assert all("model_cost_a_day" in str(words) for words in told)
        await quotas.read()
    assert await quotas.over_quota("operator") is None


async def test_what_models_use_counts_today_even_if_the_clock_was_ahead_for_a_moment(
    database_url: str,
) -> None:
    question = StoredQuestion(
        CallKey("1.1.vote.3", "vote", "", 1), [Message("user", "?")], Form("vote", {}), 0, 50
    )
    reply = Reply("{}", {}, Usage(900, 0, 100, True), 0, 0, "fake", "stop", 1)
    async with after_a_jump(database_url, DAY_MS, api_key=OPERATOR) as caller:
        owner, headers = await limited(caller, model_cost_a_day=None, model_tokens_a_day=1000)
        made = await caller.post("/games", json=GAME, headers=headers)
        store = CallStore(caller.services.database)
        await store.keep(
            made.json()["games"][0]["game_id"], answered(question, "m1", reply, whole=True), owner
        )
        assert (await mine(caller, headers))["model_tokens_a_day"]["used"] == 1000
        with pytest.raises(QuotaExceeded, match="model_tokens_a_day"):
            await caller.services.quotas.check_models(owner)


async def test_what_models_use_beside_others_is_shown_when_the_game_has_ended(caller: Caller) -> None:
    owner, headers = await limited(caller, model_tokens_a_day=1000, model_cost_a_day=None)
    seats = [{"agent": "remote"}] * 2 + [{"agent": "random"}] * 3
    made = await caller.post("/games", json={"drive": "manual", "seats": seats}, headers=headers)
    game, today = made.json()["games"][0]["game_id"], now_ms() // DAY_MS
    for account, tokens in ((game, 1000), ("g_other", 5)):
        await caller.services.database.writer.execute(
            owner_spending.insert().values(
                account=account, day=today, owner=owner, tokens=tokens, cost=tokens
            )
        )

    async def told() -> tuple[Any, ...]:
        shown = await mine(caller, headers)
        tokens = shown["model_tokens_a_day"]
        return tokens["used"], tokens["left"], shown["model_cost_a_day"]["used"]

    assert await told() == (1005, 0, 1005)
    assert (await caller.post(f"/games/{game}/seats/2/claim-code", headers=headers)).status_code == 201
    assert await told() == (5, 995, 5)
    # It counts all the same, and the operator sees it.
    with pytest.raises(QuotaExceeded):
        await caller.services.quotas.check_models(owner)
    used = {one.quota.name: one.used for one in await caller.services.quotas.used(owner)}
    assert used["model_tokens_a_day"] == 1005
    assert (await caller.post(f"/games/{game}/cancel", headers=headers)).status_code == 202
    assert await told() == (1005, 0, 1005)


# --- the pieces ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"games": 1},
        {"open_games": -1},
        {"open_games": 1.5},
        {"requests": 0},
        {"requests": True},
        {"sockets": "9"},
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuotas, match=next(iter(given))):
        read_quotas(given)


def test_the_places_of_games_go_to_the_owner_with_the_fewest() -> None:
    line = Line()
    for number in range(6):
        line.add(f"g_a{number}", "a")
    taken = []
    for _ in range(3):
        game, owner = line.take()
        line.seat(game, owner)
        taken.append(game)
    line.add("g_b0", "b")
    line.add("g_b1", "b")
    assert line.is_urgent
    for _ in range(4):
        game, owner = line.take()
        line.seat(game, owner)
        taken.append(game)
    # b has no place and catches up; then both take turns.
    assert taken == ["g_a0", "g_a1", "g_a2", "g_b0", "g_b1", "g_a3", "g_a4"]
    assert not line.is_urgent
    line.leave("g_a0")
    line.leave("g_unknown")


async def test_owners_take_turns_at_what_takes_the_loop_long() -> None:
    pace, order = Pace(), list[str]()

    async def work(owner: str, number: int) -> None:
        await pace.turn(owner)
        order.append(f"{owner}{number}")

    many = [asyncio.create_task(work("a", number)) for number in range(5)]
    await asyncio.sleep(0)
    many[1].cancel()
    few = [asyncio.create_task(work("b", number)) for number in range(2)]
    await asyncio.gather(*many, *few, return_exceptions=True)
    assert order == ["a0", "b0", "a2", "b1", "a3", "a4"]


async def test_what_a_game_writes_waits_in_its_owners_line(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended, worked = Counter[str](), Counter[str]()

    class Noting(Writer):
        def submit(
            self, write: Write, after: Sequence[Append] = (), owner: str | None = None, **more: Any
        ) -> Append:
            appended[whose.get() if owner is None else owner] += 1
            return super().submit(write, after, owner, **more)

        async def run(self, work: Any) -> Any:
            worked[whose.get()] += 1
            return await super().run(work)

    monkeypatch.setattr(db, "Writer", Noting)
    async with running_server(local_settings(database_url, api_key=OPERATOR)) as served:
        owners = [await make_key(store_of(served)) for _ in range(2)]
        async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
            bots: list[Bot | HttpBot] = []
            for _, key in owners:
                seats = [{"agent": "remote"}, {"agent": "remote"}, *[{"agent": "random"}] * 3]
                order = {"rules": SHORT, "seats": seats}
                made = await client.post("/games", json=order, headers=bearer(key))
                [game] = made.json()["games"]
                tokens = [seat.get("token") for seat in game["seats"]]
                bots.append(Bot(lambda: served.ws_url, game["game_id"], tokens[0], 1))
                bots.append(HttpBot(client, game["game_id"], tokens[1], 2))
            await asyncio.gather(*(bot.play() for bot in bots))
    # Steps of games, answers over sockets and over HTTP, and who holds a seat: none of it is nobody's.
    names = {f"key:{key_id}" for key_id, _ in owners}
    assert set(appended) == names
    assert names <= set(worked)


# --- the commands ----------------------------------------------------------------------------


def test_quotas_are_set_by_commands(tmp_path: Path) -> None:
    url = ["--database-url", f"sqlite:///{tmp_path}/games.sqlite"]
    made = interintent(
        "keys", "create", "--name", "a", "--scope", "games:create", "--quota", "open_games=7", *url, "--json"
    )
    key_id = json.loads(made.stdout)["id"]

    def limits(*changes: str) -> dict[str, float | None]:
        shown = interintent("keys", "quota", key_id, *changes, *url, "--json")
        assert shown.exit_code == 0, shown.output
        return {quota["name"]: quota["limit"] for quota in json.loads(shown.stdout)["quotas"]}

    assert limits()["open_games"] == 7
    changed = limits("open_games=default", "model_cost_a_day=2.5", "requests=none")
    assert changed["open_games"] == limits()["open_games"] != 7
    assert (changed["model_cost_a_day"], changed["requests"]) == (2.5, None)
    # The quotas of a project's key are those of the project.
    made = interintent(
        "keys", "create", "--name", "b", "--project", "lab", "--scope", "games:create", *url, "--json"
    )
    shown = interintent("keys", "quota", json.loads(made.stdout)["id"], *url, "--json")
    assert json.loads(shown.stdout)["owner"] == "project:lab"
    for words, said in (
        ((key_id, "open_games"), "NAME=LIMIT"),
        ((key_id, "open_games=many"), "'many'"),
        ((key_id, "games=1"), "games_a_day"),
        (("k_nothere",), "keys list"),
        (("anna",), "project:NAME"),
    ):
        refused = interintent("keys", "quota", *words, *url)
        assert refused.exit_code == 2
        assert said in refused.output
