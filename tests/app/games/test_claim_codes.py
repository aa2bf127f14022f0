"""A code for a seat is exchanged for the seat's token: once, in time, and by nobody who guesses."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from app.base import clock
from app.seats import limits
from app.seats.limits import GUESSES
from app.store.tables import claim_codes
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import bearer, make_key, store_of

KEY = "ik_" + "c" * 43
BEARER = {"authorization": f"Bearer {KEY}"}
REMOTE = [{"agent": "remote"}, {"agent": "remote"}, *[{"agent": "scripted"}] * 3]


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url, api_key=KEY) as one:
        yield one


async def new_game(caller: Caller) -> str:
    answer = await caller.post("/games", json={"seats": REMOTE}, headers=BEARER)
    game: str = answer.json()["games"][0]["game_id"]
    return game


async def code_for(caller: Caller, game: str, seat: int = 1, **wish: Any) -> dict[str, Any]:
    answer = await caller.post(f"/games/{game}/seats/{seat}/claim-code", json=wish, headers=BEARER)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body: dict[str, Any] = answer.json()
    return body


async def claim(caller: Caller, code: str) -> httpx.Response:
    return await caller.post("/claims", json={"code": code})


async def test_a_friend_takes_a_seat_with_a_link(caller: Caller) -> None:
    game = await new_game(caller)
    made = await code_for(caller, game, 2)
    assert made["link"] == f"/ui/#/claim/{made['code']}"
    assert (made["game_id"], made["seat"]) == (game, 2)
    claimed = await claim(caller, made["code"])
    assert claimed.status_code == 200
    assert claimed.headers["cache-control"] == "no-store"
    body = claimed.json()
    assert (body["game_id"], body["seat"]) == (game, 2)
    view = await caller.get(f"/games/{game}", headers={"authorization": f"Bearer {body['token']}"})
    assert view.json()["viewer"] == "seat:2"
    asked = await caller.get(f"/games/{game}/requests", headers={"authorization": f"Bearer {body['token']}"})
    assert asked.status_code == 200


async def test_a_code_works_once_whoever_is_first(caller: Caller) -> None:
    code = (await code_for(caller, await new_game(caller)))["code"]
    answers = await asyncio.gather(*[claim(caller, code) for _ in range(6)])
    assert sorted(answer.status_code for answer in answers) == [200, *[410] * 5]
    problem(await claim(caller, code), 410, "code-spent")


async def test_a_code_that_was_used_is_told_from_an_unknown_one_after_the_next_is_made(
    caller: Caller,
) -> None:
    game = await new_game(caller)
    used = (await code_for(caller, game))["code"]
    assert (await claim(caller, used)).status_code == 200
    await code_for(caller, game)
    assert (await claim(caller, used)).status_code == 410


async def test_nobody_takes_a_seat_of_a_game_that_is_over(caller: Caller) -> None:
    game = await new_game(caller)
    code = (await code_for(caller, game))["code"]
    await caller.services.games.canceller.cancel(game)
    assert "is over" in problem(await claim(caller, code), 410, "code-spent")["detail"]
    made = await caller.post(f"/games/{game}/seats/2/claim-code", json={}, headers=BEARER)
    problem(made, 409, "already-over")


async def test_a_code_expires(caller: Caller) -> None:
    class Still(clock.Clock):
        at = clock.now_ms()

        def now_ms(self) -> int:
            return self.at

    game = await new_game(caller)
    with clock.use_clock(still := Still()):
        early, late = [(await code_for(caller, game, seat, ttl_s=60))["code"] for seat in (1, 2)]
        still.at += 59_999
        assert (await claim(caller, early)).status_code == 200
        still.at += 1
        assert "expired" in problem(await claim(caller, late), 410, "code-spent")["detail"]


async def test_a_newer_code_and_revoked_tokens_end_a_code(caller: Caller) -> None:
    game = await new_game(caller)
    first, other = await code_for(caller, game), await code_for(caller, game, 2)
    second = await code_for(caller, game)
    problem(await claim(caller, first["code"]), 404, "not-found")
    revoke = {"viewer": "seat:1", "raise_epoch": True}
    await caller.post(f"/games/{game}/tokens", json=revoke, headers=BEARER)
    assert "revoked" in problem(await claim(caller, second["code"]), 410, "code-spent")["detail"]
    assert (await claim(caller, other["code"])).status_code == 200


async def test_codes_are_for_remote_seats_of_known_games(caller: Caller) -> None:
    game = await new_game(caller)
    path = f"/games/{game}/seats/{{}}/claim-code"
    problem(await caller.post(path.format(3), headers=BEARER), 422, "invalid-request", "/seat")
    problem(await caller.post(path.format(9), headers=BEARER), 422, "invalid-request")
    problem(await caller.post("/games/g_none/seats/1/claim-code", headers=BEARER), 404, "not-found")
    problem(await caller.post(path.format(1)), 401, "unauthenticated")
    # A seat cannot hand its own place on, let alone another's.
    token = (await claim(caller, (await code_for(caller, game))["code"])).json()["token"]
    seat = {"authorization": f"Bearer {token}"}
    problem(await caller.post(path.format(2), headers=seat), 403, "forbidden")


async def test_guessing_is_slowed_down_and_codes_are_stored_as_hashes(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As many guesses as ever, but none more with time: they may take long here.
    monkeypatch.setattr(limits, "GUESSES_S", 1e6)
    code = (await code_for(caller, await new_game(caller)))["code"]
    assert len(code) == 26
    rows = await caller.services.database.mappings(select(claim_codes))
    assert all(code not in str(dict(row)) for row in rows)
    answers = [await claim(caller, f"{code[:-1]}-{number}") for number in range(GUESSES + 2)]
    assert {answer.status_code for answer in answers[:GUESSES]} == {404}
    refused = answers[-1]
    problem(refused, 429, "rate-limited")
    assert int(refused.headers["retry-after"]) >= 1
    # Also a right code has to wait: an answer would tell guesses apart.
    assert (await claim(caller, code)).status_code == 429


async def test_wrong_codes_that_come_at_once_are_not_more(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GUESSES_S", 1e6)
    sent = await asyncio.gather(*(claim(caller, "wrong") for _ in range(2 * GUESSES)))
    assert Counter(answer.status_code for answer in sent) == {404: GUESSES, 429: GUESSES}


async def test_right_codes_may_come_at_once(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GUESSES", 1)
    game = await new_game(caller)
    codes = [(await code_for(caller, game, seat))["code"] for seat in (1, 2)]
    assert [one.status_code for one in await asyncio.gather(*(claim(caller, code) for code in codes))] == [
        200,
        200,
    ]


async def test_wrong_codes_lock_out_neither_other_owners_nor_whose_token_sends_them(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GUESSES_S", 1e6)
    game = await new_game(caller)
    codes = [(await code_for(caller, game, seat))["code"] for seat in (1, 2)]
    stranger, member, other = [
        bearer((await make_key(store_of(caller), "bots:play", project=project))[1])
        for project in ("stranger", "stranger", "other")
    ]

    async def sent(code: str, headers: dict[str, str]) -> int:
        return (await caller.post("/claims", json={"code": code}, headers=headers)).status_code

    assert {await sent("wrong", stranger) for _ in range(GUESSES)} == {404}
    assert [await sent("wrong", headers) for headers in (stranger, member)] == [429, 429]
    claimed = await caller.post("/claims", json={"code": codes[0]}, headers=other)
    assert claimed.status_code == 200, claimed.text
    # A seat's token guesses as an address, not as the owner whose token it is.
    token = bearer(claimed.json()["token"])
    assert {await sent("wrong", token) for _ in range(GUESSES)} == {404}
    assert [await sent("wrong", headers) for headers in (token, {})] == [429, 429]
    assert await sent(codes[1], BEARER) == 200


async def test_a_code_never_travels_in_an_address(caller: Caller) -> None:
    code = (await code_for(caller, await new_game(caller)))["code"]
    problem(await caller.post(f"/claims?code={code}", json={"code": code}), 422, "invalid-request")
    assert (await caller.get("/claims")).status_code == 405
    assert (await claim(caller, code)).status_code == 200
