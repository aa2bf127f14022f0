"""Bots: one of each name and version, and a check that is read from what the bot did."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from app.games import bots as bots_module
from tests.app.calling import Caller, calling, problem
from tests.app.play.meeting.seekers import owner
from tests.app.real_server import local_settings, running_server
from tests.app.seated import Bot, HttpBot, http_to, remote_game

KEY = "ik_" + "b" * 43
BEARER = {"authorization": f"Bearer {KEY}"}


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url) as one:
        yield one


async def registered(caller: Caller, name: str = "owl", version: str = "1.0") -> dict[str, Any]:
    answer = await caller.post("/bots", json={"name": name, "version": version})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/bots/{body['bot_id']}"
    return body


async def begun(caller: Caller, bot: str, **wish: Any) -> dict[str, Any]:
    answer = await caller.post(f"/bots/{bot}/check", json=wish)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body: dict[str, Any] = answer.json()
    return body


async def played(caller: Caller, check: dict[str, Any]) -> None:
    seats = [HttpBot(caller, check["game_id"], one["token"], one["seat"]) for one in check["seats"]]
    await asyncio.gather(*(seat.play() for seat in seats))


async def test_each_name_and_version_is_one_bot(caller: Caller) -> None:
    first = await registered(caller)
    again = await caller.post("/bots", json={"name": "owl", "version": "1.0"})
    assert (again.status_code, again.json()) == (200, first)
    other = await registered(caller, version="1.1")
    assert other["bot_id"] != first["bot_id"]
    assert (first["owner"], first["checked_at"], first["check"]) == ("keyless", None, None)
    page = (await caller.get("/bots", params={"limit": 1})).json()
    rest = (await caller.get("/bots", params={"limit": 1, "cursor": page["next"]})).json()
    assert {one["bot_id"] for one in page["bots"] + rest["bots"]} == {first["bot_id"], other["bot_id"]}
    assert rest["next"] is None
    assert (await caller.get("/bots", params={"owner": "key:k_x"})).json()["bots"] == []
    problem(await caller.post("/bots", json={"name": "o\u202ewl", "version": "1"}), 422, "invalid-request")


async def test_an_owner_has_no_more_bots_however_many_it_registers_at_once(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bots_module, "MOST_BOTS", 3)
    answers = await asyncio.gather(
        *(caller.post("/bots", json={"name": "owl", "version": str(number % 6)}) for number in range(24))
    )
    assert {answer.status_code for answer in answers} <= {200, 201, 403}
    assert [answer.status_code for answer in answers].count(201) == 3
    page = (await caller.get("/bots")).json()
    assert len(page["bots"]) == 3
    problem(await caller.post("/bots", json={"name": "owl", "version": "7"}), 403, "forbidden")
    known = {"name": "owl", "version": page["bots"][0]["version"]}
    assert (await caller.post("/bots", json=known)).status_code == 200


async def test_a_bot_whose_row_is_damaged_is_told_as_that(caller: Caller) -> None:
    await registered(caller)
    async with caller.services.database.write_engine.begin() as connection:
        await connection.execute(text("UPDATE bots SET created_at = -5"))
    async with asyncio.timeout(60):
        answer = await caller.post("/bots", json={"name": "owl", "version": "1.0"})
    problem(answer, 500, "corrupt-log")


async def test_a_bot_that_plays_against_itself_without_fault_is_checked(caller: Caller) -> None:
    bot = (await registered(caller))["bot_id"]
    check = await begun(caller, bot, profile="official")
    assert [one["seat"] for one in check["seats"]] == [1, 2, 3, 4, 5]
    before = (await caller.get(f"/bots/{bot}")).json()
    assert (before["check"]["outcome"], before["checked_at"]) == ("running", None)
    await played(caller, check)
    after = (await caller.get(f"/bots/{bot}")).json()
    assert (after["check"]["outcome"], after["check"]["why"]) == ("passed", [])
    assert after["checked_at"] is not None
    assert after["check"]["answered"] > 20
    assert "reconsider" in after["check"]["not_asked"]
    # A later check that fails takes nothing away.
    await begun(caller, bot)
    later = (await caller.get(f"/bots/{bot}")).json()
    assert (later["check"]["outcome"], later["checked_at"]) == ("running", after["checked_at"])


async def test_a_refused_answer_fails_the_check_and_a_cancelled_game_says_nothing(caller: Caller) -> None:
    bot = (await registered(caller))["bot_id"]
    check = await begun(caller, bot)
    for seat in check["seats"]:
        headers = {"authorization": f"Bearer {seat['token']}"}
        asked = await caller.get(f"/games/{check['game_id']}/requests", headers=headers)
        for request in asked.json()["requests"]:
            path = f"/games/{check['game_id']}/requests/{request['request_id']}/action"
            refused = await caller.post(path, json={"action": {"team": [99]}}, headers=headers)
            assert refused.status_code == 422
    shown = (await caller.get(f"/bots/{bot}")).json()
    assert (shown["check"]["outcome"], shown["checked_at"]) == ("failed", None)
    assert "legal: the answer to 1.1.propose_team." in shown["check"]["why"][0]
    other = await begun(caller, bot)
    assert (await caller.post(f"/games/{other['game_id']}/cancel")).status_code == 202
    shown = (await caller.get(f"/bots/{bot}")).json()
    assert shown["check"]["game_id"] == other["game_id"]
    assert (shown["check"]["outcome"], shown["checked_at"]) == ("void", None)


async def test_a_check_cuts_each_socket_once_and_the_bot_comes_back(database_url: str) -> None:
    async with running_server(local_settings(database_url)) as served, http_to(served.url) as client:
        bot = (await client.post("/bots", json={"name": "owl", "version": "1"})).json()["bot_id"]
        check = (await client.post(f"/bots/{bot}/check", json={"profile": "official"})).json()
        seats = [
            Bot(lambda: served.ws_url, check["game_id"], one["token"], one["seat"]) for one in check["seats"]
        ]
        await asyncio.gather(*(seat.play() for seat in seats))
        assert [seat.connections for seat in seats] == [2] * 5
        shown = (await client.get(f"/bots/{bot}")).json()
        assert (shown["check"]["outcome"], shown["check"]["why"]) == ("passed", [])
        # Nobody else is cut.
        game, tokens = await remote_game(client, profile="official")
        others = [Bot(lambda: served.ws_url, game, token, seat) for seat, token in tokens.items()]
        await asyncio.gather(*(other.play() for other in others))
        assert [other.connections for other in others] == [1] * 5


async def test_nobody_checks_anothers_bot(database_url: str) -> None:
    async with calling(database_url) as open_:
        bot = (await registered(open_))["bot_id"]
    async with calling(database_url, api_key=KEY) as keyed:
        problem(await keyed.post(f"/bots/{bot}/check", json={}, headers=BEARER), 404, "not-found")
        assert (await keyed.get(f"/bots/{bot}", headers=BEARER)).json()["owner"] == "keyless"


async def test_nobody_is_told_of_the_check_of_anothers_bot(database_url: str) -> None:
    async with calling(database_url, api_key=KEY) as caller:
        ours, theirs = [await owner(caller.services) for _ in range(2)]
        bot = (await caller.post("/bots", json={"name": "owl", "version": "1"}, headers=ours)).json()[
            "bot_id"
        ]
        check = (await caller.post(f"/bots/{bot}/check", json={}, headers=ours)).json()
        seat = {"authorization": f"Bearer {check['seats'][0]['token']}"}
        # Nor is whoever was handed a seat by the owner.
        for headers in (theirs, seat):
            for path in ("/bots", f"/bots/{bot}"):
                answer = await caller.get(path, headers=headers)
                assert answer.status_code == 200
                assert check["game_id"] not in answer.text
        for headers in (ours, BEARER):
            shown = (await caller.get(f"/bots/{bot}", headers=headers)).json()
            assert shown["check"]["game_id"] == check["game_id"]
