"""Seeks, open seats and rematches over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import and_, insert, select, text, update

from agents.errors import InvalidAgent
from app.base.clock import now_ms, timestamp, use_clock
from app.edge.auth import SCOPES
from app.edge.auth import Caller as Credential
from app.main import Composition
from app.play.meeting import service as meeting_module
from app.play.meeting.matching import AWAY_MS
from app.play.meeting.schemas import NewSeek
from app.play.meeting.service import Meeting
from app.store import db
from app.store.audit import Audit
from app.store.bots import BotStore
from app.store.games import ABSENT
from app.store.keys import KeyStore
from app.store.rows import PlayerRow, values_of
from app.store.tables import bots as bot_rows
from app.store.tables import events, game_players, games, idempotency, seeks
from tests.app.calling import Caller, calling, problem
from tests.app.evaluations.sealing import Sliding, after_a_jump
from tests.app.play.meeting.seekers import checked_bot, owner, seek, shown, time_is_up
from tests.app.seated import SHORT, HttpBot

OPERATOR = "o" * 40


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url) as one:
        yield one


@pytest.fixture
async def guarded(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url, api_key=OPERATOR) as one:
        yield one


async def agents(caller: Caller, game: str) -> list[str]:
    row = await caller.services.store.game(game)
    assert row is not None
    return [spec["agent"] for spec in row.seats]


async def test_five_seekers_get_the_seats_of_one_game_at_once(caller: Caller) -> None:
    first = [await seek(caller, f"bot{number}") for number in range(4)]
    assert {one["status"] for one in first} == {"open"}
    lobby = (await caller.get("/seeks")).json()
    assert [(pool["waiting"], pool["rated"]) for pool in lobby["pools"]] == [(4, False)]
    last = await seek(caller, "bot4")
    everybody = [*[await shown(caller, one) for one in first], last]
    assert {one["status"] for one in everybody} == {"paired"}
    assert len({one["game_id"] for one in everybody}) == 1
    assert sorted(one["game"]["seat"] for one in everybody) == [1, 2, 3, 4, 5]
    # Each token is its seat's own.
    for one in everybody:
        headers = {"authorization": f"Bearer {one['game']['token']}"}
        view = (await caller.get(f"/games/{one['game_id']}", headers=headers)).json()
        assert view["viewer"] == f"seat:{one['game']['seat']}"
    assert (await caller.get("/seeks")).json()["pools"] == []
    batch = (await caller.get(f"/batches/{view['batch_id']}")).json()
    assert batch["labels"] == {"meeting": "casual"}


async def test_bots_meet_by_the_clock_even_if_it_was_ahead_for_a_moment(database_url: str) -> None:
    async with after_a_jump(database_url, 3_600_000) as caller:
        wish = {"seats": [{"agent": "open"}, *[{"agent": "scripted"}] * 4], "wait_s": 60}
        hosted = (await caller.post("/games/open", json=wish)).json()
        soon = timestamp(now_ms() + 61_000)
        assert hosted["starts_by"] <= soon
        first = [await seek(caller, f"bot{number}", wait_s=60) for number in range(4)]
        assert all(one["starts_by"] <= soon for one in first)
        assert {(await shown(caller, one))["status"] for one in first} == {"open"}  # marks them as present
        assert (await seek(caller, "bot4"))["status"] == "paired"
        assert {(await shown(caller, one))["status"] for one in first} == {"paired"}


class Settable(Sliding):
    """A machine's clock that can be set, while the steady time goes on."""

    set_by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_by_ms

    def set_by(self, services: Composition, ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sets the clock that counts: on PostgreSQL the database's, which goes as fast as this one."""
        if services.database.is_sqlite:
            self.set_by_ms = ms
        else:
            theirs = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
            monkeypatch.setattr(db, "_THEIR_CLOCK", text(f"SELECT {theirs} + {ms + self.ahead_ms}"))


async def waiting_for_little_company(caller: Caller) -> tuple[str, list[Any]]:
    """A game with three open seats, and two seeks and two claims that wait for 100 s with it."""
    wish = {"seats": [{"agent": "open"}] * 3 + [{}] * 2, "wait_s": 100}
    game = (await caller.post("/games/open", json=wish)).json()["game_id"]
    path = f"/games/{game}/seats/open/claim"
    claims = [(await caller.post(path, json={"bot": bot})).json() for bot in ("fox", "cat")]
    return game, [*[await seek(caller, bot, wait_s=100) for bot in ("owl", "elk")], *claims]


async def seen_again(caller: Caller, sought: list[Any]) -> None:
    """Lets the service look for whom to pair, while the bots ask whether they play."""
    for _ in range(2):
        await caller.services.meeting._look()
        for one in sought:
            assert (await shown(caller, one))["status"] == "open"


@pytest.mark.parametrize("set_by_ms", [7_200_000, -7_200_000])
@pytest.mark.parametrize("noticed", [True, False])  # before the service looks for whom to pair
async def test_those_who_still_ask_after_the_clock_was_set_play_once_their_time_is_up(
    database_url: str, set_by_ms: int, noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with use_clock(time := Settable()):
        async with calling(database_url) as caller:
            services = caller.services
            await services.meeting.stop()
            game, sought = await waiting_for_little_company(caller)
            ghost = await seek(caller, "ghost", wait_s=3600)
            await seen_again(caller, sought)
            time.set_by(services, set_by_ms, monkeypatch)
            if noticed:
                await services.database.agree_on_time()
            await seen_again(caller, sought)
            time.ahead_ms += 2 * AWAY_MS
            time.set_by(services, set_by_ms, monkeypatch)
            for one in sought:
                await shown(caller, one)
            time.ahead_ms += 20_000
            time.set_by(services, set_by_ms, monkeypatch)
            await services.meeting._look()
            paired = [await shown(caller, one) for one in sought]
            assert {one["status"] for one in paired} == {"paired"}
            assert paired[0]["game_id"] == paired[1]["game_id"]
            assert {one["game_id"] for one in paired[2:]} == {game}
            assert sorted(await agents(caller, game)) == ["remote"] * 2 + ["scripted"] * 3
            assert sorted(await agents(caller, paired[0]["game_id"])) == ["remote"] * 2 + ["scripted"] * 3
            assert (await shown(caller, ghost))["status"] == ("open" if set_by_ms < 0 else "expired")


async def test_a_seek_that_is_sent_again_is_the_same_and_can_be_withdrawn(caller: Caller) -> None:
    one = await seek(caller, "owl")
    assert (await seek(caller, "owl"))["seek_id"] == one["seek_id"]
    assert (await seek(caller, "owl", players=6))["seek_id"] != one["seek_id"]
    # What another version plays would count for this one.
    other = await caller.post("/seeks", json={"bot": "owl", "version": "2"})
    assert problem(other, 422, "invalid-request")["errors"][0]["code"] == "other_version"
    ended = (await caller.delete(f"/seeks/{one['seek_id']}")).json()
    assert ended["status"] == "withdrawn"
    assert (await caller.delete(f"/seeks/{one['seek_id']}")).json() == ended
    assert (await seek(caller, "owl"))["seek_id"] != one["seek_id"]
    problem(await caller.get("/seeks/s_nobody"), 404, "not-found")
    problem(await caller.post("/seeks", json={"players": 5, "at_least": 6}), 422, "invalid-request")


async def test_a_process_that_stops_answers_those_who_wait_for_a_game(caller: Caller) -> None:
    one = await seek(caller, "owl")
    watched = asyncio.Event()
    caller.services.feed.on_watch = watched.set
    waits = asyncio.create_task(shown(caller, one, wait_s=30))
    await watched.wait()
    began = time.monotonic()
    caller.services.lifecycle.drain()
    assert (await waits)["status"] == "open"
    assert time.monotonic() - began < 25


async def test_a_request_for_a_seat_that_is_repeated_with_its_key_gives_the_same_seat(caller: Caller) -> None:
    seats = [{"agent": "open"}, *[{"agent": "scripted"}] * 4]
    hosted = (await caller.post("/games/open", json={"seats": seats})).json()
    claims = f"/games/{hosted['game_id']}/seats/open/claim"
    for path, wish in (("/seeks", {"bot": "owl", "wait_s": 1}), (claims, {"bot": "owl"})):
        headers = {"idempotency-key": "k1"}
        first = (await caller.post(path, json=wish, headers=headers)).json()
        assert (await shown(caller, first, wait_s=30))["status"] == "paired"
        again = await caller.post(path, json=wish, headers=headers)
        assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
        assert again.headers["cache-control"] == "no-store"
        assert again.json()["seek_id"] == first["seek_id"]
        assert again.json()["game"]["token"]
        problem(await caller.post(path, json={"bot": "fox"}, headers=headers), 422, "idempotency-key-reused")
    assert len(await caller.services.database.rows(select(seeks.c.seek_id))) == 2


async def test_each_repeat_of_an_open_seek_with_another_key_counts_as_one_of_the_day(caller: Caller) -> None:
    seats: list[dict[str, str]] = [{"agent": "open"}] * 2
    hosted = (await caller.post("/games/open", json={"seats": [*seats, {}, {}, {}]})).json()
    claims = f"/games/{hosted['game_id']}/seats/open/claim"
    # A seek and a claim, each with one repeat.
    await allow(caller, games_a_day=4)
    for path in ("/seeks", claims):
        answers = [
            await caller.post(
                path, json={"bot": "owl"}, headers={} if key is None else {"idempotency-key": key}
            )
            for key in (None, "k1", "k1", None)
        ]
        assert [answer.status_code for answer in answers] == [201] * 4
        assert len({answer.json()["seek_id"] for answer in answers}) == 1
    for path in ("/seeks", claims):
        refused = await caller.post(path, json={"bot": "owl"}, headers={"idempotency-key": "k2"})
        assert "games_a_day" in problem(refused, 429, "quota-exceeded")["detail"]
        # Without a key nothing is kept of it, and what was kept before is still the answer.
        assert (await caller.post(path, json={"bot": "owl"})).status_code == 201
        again = await caller.post(path, json={"bot": "owl"}, headers={"idempotency-key": "k1"})
        assert again.headers["idempotent-replayed"] == "true"
    assert len(await caller.services.database.rows(select(idempotency.c.key))) == 2


async def repeated_at_once(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> list[dict[str, Any]]:
    """The answers to a request that is sent twice with one key. Neither finds the other's answer before both
    have reached this method of the meeting's, and there the second one waits for the first.
    """
    both, turn, work = asyncio.Barrier(2), asyncio.Lock(), getattr(Meeting, method)

    async def in_turn(*arguments: Any, **more: Any) -> Any:
        async with asyncio.timeout(30):
            await both.wait()
        async with turn:
            return await work(*arguments, **more)

    monkeypatch.setattr(Meeting, method, in_turn)
    headers = {"idempotency-key": "k1"}
    answers = await asyncio.gather(
        *(caller.post(path, json={"bot": "owl"}, headers=headers) for _ in range(2))
    )
    assert [answer.status_code for answer in answers] == [201, 201], [answer.text for answer in answers]
    replayed = [answer.headers.get("idempotent-replayed") for answer in answers]
    assert sorted(replayed, key=str) == [None, "true"]
    return [answer.json() for answer in answers]


async def test_a_claim_waits_until_the_very_time_at_which_its_game_begins(caller: Caller) -> None:
    open_seats: list[dict[str, str]] = [{"agent": "open"}] * 2
    hosted = (await caller.post("/games/open", json={"seats": [*open_seats, {}, {}, {}]})).json()
    path = f"/games/{hosted['game_id']}/seats/open/claim"
    # One that waited for less would begin the game with the seats that are claimed by then.
    assert (await caller.post(path, json={"bot": "owl"})).json()["starts_by"] == hosted["starts_by"]


@pytest.mark.parametrize("method", ["claim", "_add"])
async def test_a_claim_sent_twice_at_once_gets_its_seat_in_both_answers(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    hosted = (await caller.post("/games/open", json={"seats": [{"agent": "open"}, {}, {}, {}, {}]})).json()
    path = f"/games/{hosted['game_id']}/seats/open/claim"
    first, second = await repeated_at_once(caller, monkeypatch, method, path)
    assert first["seek_id"] == second["seek_id"]
    assert first["game"]["seat"] == second["game"]["seat"]
    # Without the key, nothing is left to claim.
    monkeypatch.undo()
    problem(await caller.post(path, json={"bot": "owl"}), 409, "already-over")


async def test_a_seek_sent_twice_at_once_is_not_refused_for_what_its_twin_used_up(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await allow(caller, games_a_day=5)
    for bot in "abcd":
        await seek(caller, bot)
    first, second = await repeated_at_once(caller, monkeypatch, "_add", "/seeks")
    assert (first["status"], first["seek_id"]) == ("paired", second["seek_id"])
    monkeypatch.undo()
    problem(await caller.post("/seeks", json={"bot": "owl"}), 429, "quota-exceeded")


async def test_at_its_time_a_game_begins_with_scripted_players_under_new_names(caller: Caller) -> None:
    one, other = await seek(caller, "owl", wait_s=1), await seek(caller, "fox", pace="fast", wait_s=1)
    started = await asyncio.gather(shown(caller, one, wait_s=30), shown(caller, other, wait_s=30))
    for seeker in started:
        assert seeker["status"] == "paired"
        view = (await caller.get(f"/games/{seeker['game_id']}")).json()
        assert (await agents(caller, seeker["game_id"])).count("scripted") == 4
        assert not {"owl", "fox"} & set(view["names"].values())
    names = [(await caller.get(f"/games/{seeker['game_id']}")).json()["names"] for seeker in started]
    assert names[0] != names[1]


async def test_who_wants_company_and_finds_none_is_told(caller: Caller) -> None:
    one = await seek(caller, "owl", wait_s=1, at_least=2)
    ended = await shown(caller, one, wait_s=30)
    assert (ended["status"], ended["game"], ended["game_id"]) == ("expired", None, None)


async def test_two_strangers_play_a_rated_game_of_the_server(guarded: Caller) -> None:
    services = guarded.services
    mine, theirs = await owner(services), await owner(services)
    bots = [
        await checked_bot(guarded, services, headers, name)
        for headers, name in ((mine, "owl"), (theirs, "fox"))
    ]
    wish: dict[str, Any] = {"version": "1", "rated": True, "at_least": 2}
    a, b = await seek(guarded, "owl", mine, **wish), await seek(guarded, "fox", theirs, **wish)
    await time_is_up(services)
    a, b = await shown(guarded, a, mine, wait_s=30), await shown(guarded, b, theirs, wait_s=30)
    assert a["game_id"] == b["game_id"]
    assert a["game"]["rated"] is b["game"]["rated"] is True
    [row] = await services.database.mappings(select(games).where(games.c.game_id == a["game_id"]))
    assert (row["rated"], row["unrated"]) == (True, None)
    batch = await services.store.batch(row["batch_id"])
    assert batch is not None
    assert batch.owner == "server"
    b_, p = bot_rows.c, game_players.c
    same = and_(b_.owner == p.owner, b_.name == p.bot, b_.version == p.version)
    seated = await services.database.rows(select(p.seat, b_.bot_id).join(bot_rows, same))
    assert dict(seated) == {a["game"]["seat"]: bots[0], b["game"]["seat"]: bots[1]}
    # What the one has, the other has not.
    problem(await guarded.get(f"/seeks/{a['seek_id']}", headers=theirs), 404, "not-found")
    assert (await guarded.get("/seeks", headers=theirs)).json()["seeks"] == []


async def test_a_seek_says_why_its_game_is_not_rated_once_that_is_over(guarded: Caller) -> None:
    services = guarded.services
    sides = [await owner(services) for _ in range(2)]
    sought = []
    for name, headers in zip(("owl", "fox"), sides, strict=True):
        await checked_bot(guarded, services, headers, name)
        sought.append(await seek(guarded, name, headers, version="1", rated=True, at_least=2))
    await time_is_up(services)
    game = (await shown(guarded, sought[0], sides[0], wait_s=30))["game_id"]
    assert (await shown(guarded, sought[0], sides[0]))["unrated"] is None
    operator = {"authorization": f"Bearer {OPERATOR}"}
    assert (await guarded.post(f"/games/{game}/cancel", headers=operator)).status_code < 300
    async with asyncio.timeout(60):
        while (ended := await shown(guarded, sought[0], sides[0]))["game_status"] != "cancelled":
            pass
    assert ended["unrated"] == "the game was cancelled"
    for status, why in (("failed", "the game failed"), ("finished", None)):
        changed = update(games).where(games.c.game_id == game).values(status=status)
        await services.database.writer.execute(changed)
        assert (await shown(guarded, sought[0], sides[0]))["unrated"] == why
    mark = await guarded.post(f"/games/{game}/invalidate", json={"reason": "a fault"}, headers=operator)
    assert mark.status_code == 200, mark.text
    assert (await shown(guarded, sought[0], sides[0]))["unrated"] == "marked as invalid"


async def test_a_rated_game_needs_checked_bots_of_several_owners(guarded: Caller) -> None:
    services = guarded.services
    mine = await owner(services)
    wish = {"bot": "owl", "version": "1", "rated": True}
    refused = problem(await guarded.post("/seeks", json=wish, headers=mine), 422, "invalid-request")
    assert refused["errors"][0]["code"] == "not_registered"
    await guarded.post("/bots", json={"name": "owl", "version": "1"}, headers=mine)
    refused = problem(await guarded.post("/seeks", json=wish, headers=mine), 422, "invalid-request")
    assert refused["errors"][0]["code"] == "not_checked"
    await checked_bot(guarded, services, mine, "owl")
    await checked_bot(guarded, services, mine, "fox")
    # Two bots of one owner never meet in a rated game, and a game against scripts alone is not rated.
    a = await seek(guarded, "owl", mine, version="1", rated=True, wait_s=1)
    b = await seek(guarded, "fox", mine, version="1", rated=True, wait_s=1)
    a, b = await shown(guarded, a, mine, wait_s=30), await shown(guarded, b, mine, wait_s=30)
    assert a["game_id"] != b["game_id"]
    rows = await services.database.rows(select(games.c.rated, games.c.unrated))
    assert rows == [(False, "nobody else came")] * 2


async def test_an_owner_brings_only_so_many_new_versions_to_the_ladder(
    guarded: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting_module, "MOST_NEW", 2)
    services = guarded.services
    mine, theirs = await owner(services), await owner(services)
    for name in ("owl", "fox", "cat"):
        await checked_bot(guarded, services, mine, name)
    await checked_bot(guarded, services, theirs, "dog")
    wish: dict[str, Any] = {"version": "1", "rated": True, "wait_s": 60}

    async def is_refused() -> bool:
        answer = await guarded.post("/seeks", json={"bot": "cat", **wish, "players": 9}, headers=mine)
        if answer.status_code == 201:
            await guarded.delete(f"/seeks/{answer.json()['seek_id']}", headers=mine)
            return False
        return bool(problem(answer, 422, "invalid-request")["errors"][0]["code"] == "too_many_new")

    # One that waits for its first rated game counts; one that has played such games may always play more.
    a = await seek(guarded, "owl", mine, **wish | {"wait_s": 1, "at_least": 2})
    assert not await is_refused()
    await seek(guarded, "dog", theirs, **wish)
    assert (await shown(guarded, a, mine, wait_s=30))["status"] == "paired"
    await seek(guarded, "fox", mine, **wish)
    assert await is_refused()
    await seek(guarded, "owl", mine, **wish)
    long_ago = now_ms() - meeting_module.NEW_DAYS * 24 * 3_600_000
    await services.database.writer.execute(update(games).values(created_at=long_ago))
    assert not await is_refused()


async def test_new_versions_that_seek_rated_games_at_once_are_no_more_than_one_after_another(
    guarded: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting_module, "MOST_NEW", 2)
    mine = await owner(guarded.services)
    names = ["owl", "fox", "cat", "dog"]
    for name in names:
        await checked_bot(guarded, guarded.services, mine, name)
    everybody = asyncio.Barrier(len(names))
    add = Meeting._add

    async def together(*arguments: Any) -> Any:
        async with asyncio.timeout(30):
            await everybody.wait()
        return await add(*arguments)

    monkeypatch.setattr(Meeting, "_add", together)
    wish = {"version": "1", "rated": True, "wait_s": 60}
    answers = await asyncio.gather(
        *[
            guarded.post("/seeks", json={"bot": name, "players": players, **wish}, headers=mine)
            for players, name in enumerate(names, 5)
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [201, 201, 422, 422]
    refused = [answer.json()["errors"][0]["code"] for answer in answers if answer.status_code == 422]
    assert refused == ["too_many_new"] * 2


async def test_a_bot_that_has_left_three_rated_games_is_checked_again_before_it_plays_more(
    guarded: Caller,
) -> None:
    services, mine = guarded.services, await owner(guarded.services)
    writer, store = services.database.writer, BotStore(services.database)
    guarded.headers["authorization"] = f"Bearer {OPERATOR}"
    bot = await store.bot(await checked_bot(guarded, services, mine, "owl"))
    assert bot is not None

    async def leave(unrated: str | None) -> None:
        _, [game] = await guarded.played(seats=[{"agent": "random"}])
        seat = {"game_id": game, "seat": 1, "owner": bot.owner, "caller": "c", "bot": "owl", "version": "1"}
        row = PlayerRow(**seat, seek_id="q_1", absent_at=now_ms() + 1)
        await writer.execute(insert(game_players).values(values_of(row)))
        await writer.execute(update(games).where(games.c.game_id == game).values(unrated=unrated))

    for unrated in (ABSENT, ABSENT, None):  # the last one was a casual game
        await leave(unrated)
    wish = {"bot": "owl", "version": "1", "rated": True}
    taken = await guarded.post("/seeks", json=wish, headers=mine)
    assert taken.status_code == 201
    await guarded.delete(f"/seeks/{taken.json()['seek_id']}", headers=mine)
    waits = await guarded.post("/seeks", json={**wish, "players": 6}, headers=mine)
    await leave(ABSENT)
    # What it sought before begins no game with others either.
    for _ in range(5):
        other = await owner(services)
        await checked_bot(guarded, services, other, "fox")
        last = await guarded.post(
            "/seeks", json={"bot": "fox", "version": "1", "rated": True, "players": 6}, headers=other
        )
    assert last.json()["status"] == "open"
    assert (await shown(guarded, waits.json(), headers=mine))["status"] == "expired"
    refused = problem(await guarded.post("/seeks", json=wish, headers=mine), 422, "invalid-request")
    assert (refused["errors"][0]["code"], refused["errors"][0]["pointer"]) == ("deserted", "/bot")
    assert (await guarded.post("/seeks", json={**wish, "rated": False}, headers=mine)).status_code == 201
    await store.pass_check(bot.bot_id, now_ms() + 10)
    assert (await guarded.post("/seeks", json=wish, headers=mine)).status_code == 201


@pytest.mark.parametrize("ending", ["invalid", "cancelled", "failed", "suspended"])
async def test_a_bot_is_not_blamed_for_having_left_games_that_count_for_nobody(
    guarded: Caller, ending: str
) -> None:
    services, mine = guarded.services, await owner(guarded.services)
    guarded.headers["authorization"] = f"Bearer {OPERATOR}"
    bot = await BotStore(services.database).bot(await checked_bot(guarded, services, mine, "owl"))
    assert bot is not None
    writer, left = services.database.writer, []
    for _ in range(meeting_module.MOST_DESERTED):
        _, [game] = await guarded.played(seats=[{"agent": "random"}])
        seat = {"game_id": game, "seat": 1, "owner": bot.owner, "caller": "c", "bot": "owl", "version": "1"}
        row = PlayerRow(**seat, seek_id="q_1", absent_at=now_ms() + 1)
        await writer.execute(insert(game_players).values(values_of(row)))
        await writer.execute(update(games).where(games.c.game_id == game).values(unrated=ABSENT))
        left.append(game)
    wish = {"bot": "owl", "version": "1", "rated": True}
    problem(await guarded.post("/seeks", json=wish, headers=mine), 422, "invalid-request")
    mark = f"/games/{left[0]}/invalidate"
    if ending == "invalid":
        assert (await guarded.post(mark, json={"reason": "the server was at fault"})).status_code == 200
    else:
        await writer.execute(update(games).where(games.c.game_id == left[0]).values(status=ending))
    answer = await guarded.post("/seeks", json=wish, headers=mine)
    # A game that is not over counts, so that a bot is stopped early.
    assert answer.status_code == (422 if ending == "suspended" else 201), answer.text
    if ending == "invalid":
        await guarded.delete(f"/seeks/{answer.json()['seek_id']}", headers=mine)
        await guarded.delete(mark)
        problem(await guarded.post("/seeks", json=wish, headers=mine), 422, "invalid-request")


async def test_without_keys_nothing_is_rated(caller: Caller) -> None:
    refused = problem(
        await caller.post("/seeks", json={"version": "1", "rated": True}), 422, "invalid-request"
    )
    assert refused["errors"][0]["code"] == "keyless"


async def test_a_key_without_the_scope_neither_seeks_nor_looks(guarded: Caller) -> None:
    reader = await owner(guarded.services, "games:read")
    for method, path in (("POST", "/seeks"), ("GET", "/seeks"), ("POST", "/games/g_x/seats/open/claim")):
        problem(await guarded.request(method, path, headers=reader, json={}), 403, "forbidden")


async def test_open_seats_are_claimed_and_then_the_game_begins(caller: Caller) -> None:
    wish = {"seats": [{"agent": "open"}, {"agent": "random"}, {"agent": "open"}, {}, {}], "rules": SHORT}
    made = await caller.post("/games/open", json=wish)
    assert made.status_code == 201, made.text
    game = made.json()["game_id"]
    assert (made.json()["seats"], made.json()["yours"]) == ([1, 3], True)
    problem(await caller.get(f"/games/{game}"), 404, "not-found")
    path = f"/games/{game}/seats/open/claim"
    first = (await caller.post(path, json={"bot": "owl"})).json()
    assert (await caller.post(path, json={"bot": "owl"})).json()["seek_id"] == first["seek_id"]
    assert [one["claimed"] for one in (await caller.get("/seeks")).json()["games"]] == [1]
    second = (await caller.post(path, json={"bot": "fox"})).json()
    first = await shown(caller, first)
    assert {first["game_id"], second["game_id"]} == {game}
    assert {first["game"]["seat"], second["game"]["seat"]} == {1, 3}
    problem(await caller.post(path, json={"bot": "cat"}), 409, "already-over")
    begun = (await caller.delete(f"/games/{game}/seats/open")).json()
    assert (begun["status"], begun["claimed"]) == ("begun", 2)
    bots = [HttpBot(caller, game, one["game"]["token"], one["game"]["seat"]) for one in (first, second)]
    await asyncio.gather(*(bot.play() for bot in bots))
    assert (await caller.get(f"/games/{game}")).json()["status"] == "finished"


@pytest.mark.parametrize("ending", ["begun", "withdrawn"])
async def test_a_claim_that_comes_too_late_for_its_game_is_refused_and_leaves_no_seek(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    wish = {"seats": [{"agent": "open"}, {}, {}, {}, {}]}
    game = (await caller.post("/games/open", json=wish)).json()["game_id"]
    path = f"/games/{game}/seats/open/claim"
    store = caller.services.meeting._store
    looks = store.open_game

    async def slow(game_id: str) -> Any:
        """The game ends after it was looked at."""
        found = await looks(game_id)
        monkeypatch.undo()
        if ending == "begun":
            assert (await caller.post(path, json={"bot": "owl"})).json()["status"] == "paired"
        else:
            assert (await caller.delete(f"/games/{game}/seats/open")).status_code == 200
        return found

    monkeypatch.setattr(store, "open_game", slow)
    problem(await caller.post(path, json={"bot": "fox"}), 409, "already-over")
    rows = await caller.services.database.rows(select(seeks.c.bot))
    assert [bot for (bot,) in rows] == (["owl"] if ending == "begun" else [])


async def test_seats_that_were_claimed_by_bots_that_went_away_can_be_claimed(guarded: Caller) -> None:
    host, gone, guest = [await owner(guarded.services, "games:create", "bots:play") for _ in range(3)]
    wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3, "wait_s": 3600}
    game = (await guarded.post("/games/open", json=wish, headers=host)).json()["game_id"]
    path = f"/games/{game}/seats/open/claim"
    await guarded.post(path, json={"bot": "owl"}, headers=gone)
    away = update(seeks).values(seen_at=now_ms() - AWAY_MS - 1)
    await guarded.services.database.writer.execute(away)
    assert [one["claimed"] for one in (await guarded.get("/seeks", headers=host)).json()["games"]] == [0]
    for bot in ("fox", "cat"):
        answer = await guarded.post(path, json={"bot": bot}, headers=guest)
        assert answer.status_code == 201, answer.text
    assert answer.json()["game_id"] == game
    assert (await guarded.get("/seeks", headers=gone)).json()["seeks"] == []


@pytest.mark.parametrize("compromised", [True, False])
async def test_what_waits_for_players_is_withdrawn_with_a_key_that_somebody_else_may_have(
    guarded: Caller, compromised: bool
) -> None:
    mine, other = [await owner(guarded.services, "bots:play", "games:create") for _ in range(2)]
    wish = {"seats": [{"agent": "open"}, {"agent": "random"}, {}, {}, {}], "rules": SHORT}
    hosted = (await guarded.post("/games/open", json=wish, headers=mine)).json()["game_id"]
    sought = [await seek(guarded, "owl", headers=who) for who in (mine, other)]
    key = (await guarded.services.keys.caller(mine["authorization"][7:])).key_id
    assert await KeyStore(guarded.services.database).revoke(str(key), now_ms(), compromised=compromised)
    claim = await guarded.post(f"/games/{hosted}/seats/open/claim", json={"bot": "fox"}, headers=other)
    lobby = (await guarded.get("/seeks", headers=other)).json()
    assert [one["seek_id"] for one in lobby["seeks"]] == [sought[1]["seek_id"]]
    if compromised:
        problem(claim, 409, "already-over")
        assert (lobby["games"], [pool["waiting"] for pool in lobby["pools"]]) == ([], [1])
    else:
        assert claim.json()["status"] == "paired"
        assert [pool["waiting"] for pool in lobby["pools"]] == [1]


@pytest.mark.parametrize("ends", ["revoked", "expired", "narrowed"])
async def test_a_seek_whose_key_has_ended_is_left_until_another_key_of_its_owner_asks(
    guarded: Caller, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, keys = guarded.services, KeyStore(guarded.services.database)
    expires_at = now_ms() + 3_600_000 if ends == "expired" else None
    mine = await owner(services, project="owls", expires_at=expires_at)
    other = await owner(services, project="owls")
    stranger = await owner(services)
    sought = await seek(guarded, "owl", mine, wait_s=3600)
    credential = await services.keys.caller(mine["authorization"][7:])
    assert credential.key_id is not None

    async def waiting() -> list[int]:
        return [pool["waiting"] for pool in (await guarded.get("/seeks", headers=stranger)).json()["pools"]]

    assert await waiting() == [1]
    if expires_at is not None:
        monkeypatch.setattr(meeting_module, "now_ms", lambda: expires_at)
    elif ends == "revoked":
        assert await keys.revoke(credential.key_id, now_ms())
    else:
        assert await keys.change(credential.key_id, ["games:read"])
    assert await waiting() == []
    # A process that has not noticed it yet.
    await services.meeting.seen(credential, "owl")
    await services.meeting.seek(NewSeek(bot="owl"), credential)
    assert await waiting() == []
    alone = await seek(guarded, "fox", stranger)
    await services.database.writer.execute(
        update(seeks).where(seeks.c.bot == "fox").values(starts_by=meeting_module.now_ms())
    )
    game = (await shown(guarded, alone, stranger, wait_s=30))["game_id"]
    assert sorted(await agents(guarded, game)) == ["remote", *["scripted"] * 4]
    assert (await shown(guarded, sought, other))["status"] == "open"
    assert await waiting() == [1]


async def test_a_key_that_may_seek_again_can_say_that_its_bot_is_there(guarded: Caller) -> None:
    services, keys = guarded.services, KeyStore(guarded.services.database)
    mine = await owner(services)
    await seek(guarded, "owl", mine)
    credential = await services.keys.caller(mine["authorization"][7:])
    for scopes in (["games:read"], ["games:read", "bots:play"]):
        assert await keys.change(str(credential.key_id), scopes)
        assert await services.meeting._store.present(now_ms() - AWAY_MS) == {}
    await services.meeting.seen(credential, "owl")
    assert len(await services.meeting._store.present(now_ms() - AWAY_MS)) == 1


async def test_a_token_of_a_paired_seat_dies_with_the_key_that_was_given_it(guarded: Caller) -> None:
    services = guarded.services
    one, other = [await owner(services, project="owls") for _ in range(2)]
    await seek(guarded, "owl", one)
    [sought] = (await guarded.get("/seeks", headers=other)).json()["seeks"]
    await time_is_up(services)
    sought = await shown(guarded, sought, one, wait_s=30)
    given = {"one": sought["game"], "other": (await shown(guarded, sought, other))["game"]}
    [started] = await services.meeting.started(await services.keys.caller(other["authorization"][7:]), "owl")
    given["lobby"] = started.model_dump()
    # The project's second key is stolen: what it was given ends with it, and the first goes on.
    stolen = (await services.keys.caller(other["authorization"][7:])).key_id
    assert await KeyStore(services.database).revoke(str(stolen), now_ms(), compromised=True)
    await services.keys.refresh()
    path = f"/games/{sought['game_id']}"
    for name, game in given.items():
        answer = await guarded.get(path, headers={"authorization": f"Bearer {game['token']}"})
        assert answer.status_code == (200 if name == "one" else 401), name


@pytest.mark.parametrize("by", ["host", "operator"])
async def test_a_bot_gets_no_token_of_a_seat_that_was_given_away(guarded: Caller, by: str) -> None:
    services = guarded.services
    host, guest, friend = [await owner(services, *sorted(SCOPES)) for _ in range(3)]
    wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3, "wait_s": 3600}
    game = (await guarded.post("/games/open", json=wish, headers=host)).json()["game_id"]
    claim = f"/games/{game}/seats/open/claim"
    sought = {}
    for who, bot in ((host, "owl"), (guest, "fox")):
        sought[bot] = (await guarded.post(claim, json={"bot": bot}, headers=who)).json()
    bot, holder, giver = {
        "host": ("owl", host, host),
        "operator": ("fox", guest, {"authorization": f"Bearer {OPERATOR}"}),
    }[by]
    caller = await services.keys.caller(holder["authorization"][7:])
    before = (await shown(guarded, sought[bot], holder))["game"]
    assert [one.game for one in await services.meeting.started(caller, bot)] == [game]
    made = await guarded.post(f"/games/{game}/seats/{before['seat']}/claim-code", headers=giver)

    async def has_none() -> None:
        told = await shown(guarded, sought[bot], holder)
        assert (told["status"], told["game"], told["game_id"]) == ("paired", None, game)
        assert await services.meeting.started(caller, bot) == []

    await has_none()
    code = {"code": made.json()["code"]}
    assert (await guarded.post("/claims", json=code, headers=friend)).status_code == 200
    await has_none()


async def test_open_seats_that_nobody_claims_are_played_by_scripts_or_the_game_does_not_begin(
    caller: Caller,
) -> None:
    wish = {"seats": [{"agent": "open"}, {"agent": "open"}, {}, {}, {}]}
    lonely, half = [(await caller.post("/games/open", json=wish)).json()["game_id"] for _ in range(2)]
    claimed = (await caller.post(f"/games/{half}/seats/open/claim", json={})).json()
    await time_is_up(caller.services)
    claimed = await shown(caller, claimed, wait_s=30)
    assert claimed["game_id"] == half
    assert (await agents(caller, half)).count("remote") == 1
    async with asyncio.timeout(200):
        while (await caller.get("/seeks")).json()["games"]:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.05)
    problem(await caller.get(f"/games/{lonely}"), 404, "not-found")
    problem(await caller.post(f"/games/{lonely}/seats/open/claim", json={}), 409, "already-over")


async def test_a_game_with_open_seats_can_be_given_up_by_its_owner_alone(guarded: Caller) -> None:
    host, guest = await owner(guarded.services, "games:create", "bots:play"), await owner(guarded.services)
    wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3}
    game = (await guarded.post("/games/open", json=wish, headers=host)).json()["game_id"]
    assert (await guarded.get("/seeks", headers=guest)).json()["games"][0]["yours"] is False
    path = f"/games/{game}/seats/open"
    claim = (await guarded.post(f"{path}/claim", json={}, headers=guest)).json()
    other = await owner(guarded.services, "games:create")
    problem(await guarded.delete(path, headers=other), 404, "not-found")
    assert (await guarded.delete(path, headers=host)).json()["status"] == "withdrawn"
    assert (await shown(guarded, claim, guest))["status"] == "expired"
    deeds, _ = await Audit(guarded.services.database).deeds(objects=[game])
    hosts, guests = [
        (await guarded.services.keys.caller(one["authorization"][7:])).name for one in (host, guest)
    ]
    assert [(deed.action, deed.by) for deed in deeds] == [
        ("create", hosts),
        ("claim", guests),
        ("withdraw", hosts),
    ]
    for wrong in ({"seats": [{}] * 5}, {"seats": [{"agent": "remote"}] + [{"agent": "open"}] * 4}):
        problem(await guarded.post("/games/open", json=wrong, headers=host), 422, "invalid-request")
    # A host that deals would play against guests whose roles it knows.
    roles = ["merlin", "percival", "morgana", "assassin", "servant"]
    for field, known in (
        ("deal", {str(seat): role for seat, role in enumerate(roles, 1)}),
        ("seeds", {"from": 7}),
        # One game, which the server drives.
        ("count", 2),
        ("drive", "manual"),
        ("rotate", True),
    ):
        wrong = {**wish, field: known, "guessable_seeds": True}
        problem(
            await guarded.post("/games/open", json=wrong, headers=host), 422, "invalid-request", f"/{field}"
        )
    unknown = {"seats": [{"agent": "open"}] + [{"agent": "nobody"}] * 4}
    problem(await guarded.post("/games/open", json=unknown, headers=host), 422, "invalid-agent")


async def test_a_host_does_not_learn_the_deal_of_its_game_with_open_seats_before_its_end(
    guarded: Caller,
) -> None:
    host, guest = await owner(guarded.services, *sorted(SCOPES)), await owner(guarded.services)
    wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3, "wait_s": 3600}
    game = (await guarded.post("/games/open", json=wish, headers=host)).json()["game_id"]
    claim = f"/games/{game}/seats/open/claim"
    for who, bot in ((guest, "owl"), (guest, "fox")):
        # Before it begins there is nothing to be seen, and nothing has been dealt.
        problem(await guarded.get(f"/games/{game}", headers=host), 404, "not-found")
        assert (await guarded.post(claim, json={"bot": bot}, headers=who)).status_code == 201
    seen = (await guarded.get(f"/games/{game}", headers=host)).json()
    assert (seen["status"] in ("created", "running"), seen["viewer"]) == (True, "public")
    tried = [
        await guarded.get(f"/games/{game}?viewer=full", headers=host),
        await guarded.get(f"/games/{game}?viewer=seat:1", headers=host),
        await guarded.get(f"/games/{game}/events?viewer=full", headers=host),
        await guarded.get(f"/games/{game}/requests?viewer=seat:1", headers=host),
        await guarded.post(f"/games/{game}/tokens", json={"viewer": "seat:1"}, headers=host),
        await guarded.post(f"/games/{game}/seats/1/claim-code", json={}, headers=host),
        await guarded.get(f"/batches/{seen['batch_id']}/export?view=full", headers=host),
    ]
    assert [answer.status_code for answer in tried] == [403] * len(tried), [one.text for one in tried]
    listed = (await guarded.get(f"/games?batch={seen['batch_id']}", headers=host)).text
    for role in ("merlin", "morgana", "assassin", "percival"):
        assert role not in listed


async def test_those_who_played_together_can_have_a_rematch(caller: Caller) -> None:
    wish = {"profile": "official", "pace": "slow"}
    owl, fox = [await seek(caller, bot, **wish) for bot in ("owl", "fox")]
    await time_is_up(caller.services)
    game = (await shown(caller, owl, wait_s=30))["game_id"]
    assert (await shown(caller, fox, wait_s=30))["game_id"] == game
    problem(await caller.post("/seeks", json={"bot": "owl", "rematch_of": game}), 422, "invalid-request")
    await caller.post(f"/games/{game}/cancel")
    problem(await caller.post("/seeks", json={"bot": "cat", "rematch_of": game}), 404, "not-found")
    wish = {"bot": "owl", "rematch_of": game, "at_least": 3}
    problem(await caller.post("/seeks", json=wish), 422, "invalid-request", "/at_least")
    first = await seek(caller, "owl", rematch_of=game)
    second = await seek(caller, "fox", rematch_of=game)
    first = await shown(caller, first)
    assert first["game_id"] == second["game_id"] != game
    view = (await caller.get(f"/games/{first['game_id']}")).json()
    assert view["profile"]["name"] == "official"
    assert (await caller.get(f"/batches/{view['batch_id']}")).json()["labels"] == {"meeting": "rematch"}


async def test_what_a_host_set_up_is_not_played_again_at_the_servers_cost(caller: Caller) -> None:
    wish = {"seats": [{"agent": "open"}] + [{}] * 4, "priority": 9}
    game = (await caller.post("/games/open", json=wish)).json()["game_id"]
    again = {"bot": "owl", "rematch_of": game}
    problem(await caller.post("/seeks", json=again), 404, "not-found")  # it has not begun
    await caller.post(f"/games/{game}/seats/open/claim", json={"bot": "owl"})
    await caller.post(f"/games/{game}/cancel")
    refused = problem(await caller.post("/seeks", json=again), 422, "invalid-request", "/rematch_of")
    assert refused["errors"][0]["code"] == "not_paired"
    assert (await caller.get("/seeks")).json()["seeks"] == []


async def test_what_came_to_nothing_is_forgotten_after_a_week(
    caller: Caller,
) -> None:
    gone, waits = await seek(caller, "a"), await seek(caller, "b", players=6)
    await caller.delete(f"/seeks/{gone['seek_id']}")
    meeting = caller.services.meeting
    await meeting._store.forget(now_ms() - meeting_module.KEPT_MS)
    assert (await shown(caller, gone))["status"] == "withdrawn"
    await meeting._store.forget(now_ms() + 1)
    problem(await caller.get(f"/seeks/{gone['seek_id']}"), 404, "not-found")
    assert (await shown(caller, waits))["status"] == "open"


async def allow(caller: Caller, **limits: float) -> None:
    """Sets quotas of whoever calls without a key."""
    await caller.services.quotas._store.change("keyless", limits, frozenset())
    await caller.services.quotas.read()


async def test_a_host_whose_models_may_ask_no_more_today_opens_no_game_with_models(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {"base_url": "http://127.0.0.1:9/v1", "model": "never-asked"}
    async with calling(database_url, models={"small": model}) as caller:
        quotas = caller.services.quotas

        async def check_models(owner: str) -> None:
            raise quotas._exceeded("model_tokens_a_day", 1.0)

        monkeypatch.setattr(quotas, "check_models", check_models)
        direct = {"agent": "llm", "model": "small", "mechanism": "direct"}
        seats: list[Any] = [{"agent": "open"}, direct, {}, {}, {}]
        refused = await caller.post("/games/open", json={"seats": seats})
        assert "model_tokens_a_day" in problem(refused, 429, "quota-exceeded")["detail"]
        seats[1] = {"agent": "scripted"}
        assert (await caller.post("/games/open", json={"seats": seats})).status_code == 201


async def test_an_owner_has_only_so_many_open_seeks(caller: Caller) -> None:
    await allow(caller, open_seeks=2)
    one = await seek(caller, "a", players=10)
    await seek(caller, "b", players=10)
    refused = await caller.post("/seeks", json={"bot": "c", "players": 10})
    assert "open_seeks" in problem(refused, 429, "quota-exceeded")["detail"]
    assert refused.headers["retry-after"] == "10"
    assert (await seek(caller, "a", players=10))["seek_id"] == one["seek_id"]
    quotas = {quota["name"]: quota for quota in (await caller.get("/me")).json()["quotas"]}
    assert [quotas["open_seeks"][what] for what in ("limit", "used", "left")] == [2, 2, 0]


async def test_an_owner_gets_no_more_seeks_and_games_by_asking_for_many_at_once(caller: Caller) -> None:
    await allow(caller, open_seeks=2, waiting_games=2)
    # Of several pools: each is locked apart.
    wishes = [{"bot": f"b{number}", "players": 6 + number % 5} for number in range(12)]
    hosted = {"seats": [{"agent": "open"}] + [{}] * 4}
    sent = [caller.post("/seeks", json=wish) for wish in wishes]
    sent += [caller.post("/games/open", json=hosted) for _ in range(12)]
    statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert sorted(statuses[:12]) == sorted(statuses[12:]) == [201] * 2 + [429] * 10
    lobby = (await caller.get("/seeks")).json()
    assert (len(lobby["seeks"]), len(lobby["games"])) == (2, 2)
    quotas = {quota["name"]: quota for quota in (await caller.get("/me")).json()["quotas"]}
    assert [quotas[name]["left"] for name in ("open_seeks", "waiting_games")] == [0, 0]


async def test_a_game_that_cannot_be_stored_leaves_its_seeks_open(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = caller.services.meeting
    insert = meeting._service.insert

    async def broken(*arguments: Any) -> None:
        await insert(*arguments)
        raise RuntimeError("the machine broke")

    someone = Credential("keyless", frozenset({"bots:play"}), "keyless")
    seeks = [await meeting.seek(NewSeek(bot=f"b{number}"), someone) for number in range(4)]
    monkeypatch.setattr(meeting._service, "insert", broken)
    with pytest.raises(RuntimeError, match="the machine broke"):
        await meeting.seek(NewSeek(bot="b4"), someone)
    database = caller.services.database
    assert await database.rows(select(games.c.game_id)) == []
    assert await database.rows(select(game_players.c.seat)) == []
    assert await database.rows(select(events.c.seq)) == []
    monkeypatch.undo()
    # The next look pairs them, those of before and the last.
    found = await asyncio.gather(*(meeting.show(one.seek_id, someone, 30) for one in seeks))
    assert {one.status for one in found} == {"paired"}
    assert len(await database.rows(select(game_players.c.seat))) == 5


async def test_a_host_leaves_room_for_the_servers_label(caller: Caller) -> None:
    labels = {f"l{number}": "x" for number in range(32)}
    wish = {"seats": [{"agent": "open"}] + [{}] * 4, "labels": labels}
    problem(await caller.post("/games/open", json=wish), 422, "invalid-request", "/labels")
    del labels["l0"]
    game = (await caller.post("/games/open", json=wish)).json()["game_id"]
    claimed = (await caller.post(f"/games/{game}/seats/open/claim", json={})).json()
    assert claimed["game_id"] == game
    batch = (await caller.get(f"/games/{game}")).json()["batch_id"]
    assert (await caller.get(f"/batches/{batch}")).json()["labels"] == {**labels, "meeting": "open"}


async def test_a_pool_that_cannot_be_paired_does_not_keep_the_others_waiting(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = caller.services.meeting
    pair = meeting.pair

    async def broken(pool: str, *, late: bool = False) -> None:
        task = asyncio.current_task()
        # Not when the seek comes in; and from the first moment, however long it takes to come in.
        if pool.startswith("interintent/") and task is not None and task.get_name() == "pairing":
            raise RuntimeError("this pool is broken")
        await pair(pool, late=late)

    monkeypatch.setattr(meeting, "pair", broken)
    # Pools are looked through in the order of their names.
    stuck = await seek(caller, "owl", profile="interintent", wait_s=1)
    waits = await seek(caller, "fox", profile="official", wait_s=1)
    assert (await shown(caller, waits, wait_s=30))["status"] == "paired"
    assert (await shown(caller, stuck))["status"] == "open"


async def test_a_game_with_open_seats_that_can_never_begin_is_closed(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = {"seats": [{"agent": "open"}] * 2 + [{}] * 3}
    game = (await caller.post("/games/open", json=wish)).json()["game_id"]
    path = f"/games/{game}/seats/open/claim"
    first = (await caller.post(path, json={"bot": "owl"})).json()

    def removed(*_: Any, **__: Any) -> None:
        raise InvalidAgent("no such endpoint any more")

    monkeypatch.setattr(caller.services.games, "lay", removed)
    last = await caller.post(path, json={"bot": "fox"})
    assert (last.status_code, last.json()["status"]) == (201, "expired")
    assert (await shown(caller, first))["status"] == "expired"
    assert (await caller.get("/seeks")).json()["games"] == []
    problem(await caller.post(path, json={"bot": "cat"}), 409, "already-over")


async def test_one_spec_of_an_open_seat_opens_every_seat(caller: Caller) -> None:
    for more, players in (({}, 5), ({"players": 6}, 6)):
        game = await caller.post("/games/open", json={"seats": [{"agent": "open"}], **more})
        assert game.status_code == 201, game.text
        assert (game.json()["players"], game.json()["seats"]) == (players, list(range(1, players + 1)))
