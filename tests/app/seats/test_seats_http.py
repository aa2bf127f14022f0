"""Remote seats over HTTP, their deadlines, and the effects of stepping, cancelling and restarting."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from app.base.clock import timestamp, use_clock
from app.seats import seats as seats_module
from app.seats.limits import BURST, RATE
from app.store.inbox import InboxStore, RequestState
from app.store.tables import games
from tests.app.calling import Caller, calling, problem, until
from tests.app.evaluations.sealing import Sliding, after_a_jump, set_clock
from tests.app.seated import SHORT, HttpBot, in_log, remote_game

TEAM = "1.1.propose_team.1"


async def answer(
    caller: Caller, game: str, token: str, request: str, action: Any, **more: Any
) -> httpx.Response:
    return await caller.post(
        f"/games/{game}/requests/{request}/action",
        json={"action": action, **more},
        headers={"Authorization": f"Bearer {token}"},
    )


async def asked(caller: Caller, game: str, token: str, wait_s: float = 20) -> Any:
    """The one open request of the seat."""
    found = await caller.get(
        f"/games/{game}/requests", params={"wait_s": wait_s}, headers={"Authorization": f"Bearer {token}"}
    )
    assert found.status_code == 200, found.text
    (request,) = found.json()["requests"]
    return request


async def test_bots_that_speak_http_only_play_a_game_with_scripts(database_url: str) -> None:
    async with calling(database_url) as caller:
        seats = [{"agent": "remote"}, {"agent": "scripted"}, {"agent": "remote"}, {}, {}]
        game, tokens = await remote_game(caller, seats=seats, rules=SHORT)
        bots = [HttpBot(caller, game, token, seat) for seat, token in tokens.items()]
        await asyncio.gather(*(bot.play() for bot in bots))
        full = await caller.lines(f"/games/{game}/events")
        for bot, seat in zip(bots, tokens, strict=True):
            assert bot.acked
            assert in_log(full, seat) == {request: [action] for request, action in bot.acked.items()}
        metrics = (await caller.get("/metrics")).text
        assert 'interintent_remote_answers_total{outcome="accepted"}' in metrics
        assert "interintent_remote_answer_seconds_count" in metrics


async def test_the_same_answer_is_accepted_again_and_another_is_refused(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    first = await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})
    assert first.json() == {
        "t": "ack", "re": None, "request_id": TEAM, "status": "accepted", "duplicate": False
    }  # fmt: skip
    again = await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    problem(await answer(caller, game, tokens[1], TEAM, {"team": [1, 3]}), 409, "already-answered")
    problem(await answer(caller, game, tokens[1], TEAM, {"team": "x"}), 409, "already-answered")


async def test_eight_answers_at_once_have_one_effect(database_url: str) -> None:
    async with calling(database_url) as caller:
        game, tokens = await remote_game(caller, rules=SHORT)
        teams = [[1, 2], [1, 3], [1, 4], [1, 5]] * 2
        answers = await asyncio.gather(
            *(answer(caller, game, tokens[1], TEAM, {"team": team}) for team in teams)
        )
        taken = [one.json() for one in answers if one.status_code == 200]
        assert sorted(one["duplicate"] for one in taken) == [False, True]
        assert {one.status_code for one in answers} == {200, 409}
        assert (await asked(caller, game, tokens[1]))["request_id"] == "1.1.vote.1"
        proposed = [e for e in await caller.lines(f"/games/{game}/events") if e["type"] == "team_proposed"]
        assert len(proposed) == 1


async def test_refusals_say_where_how_often_still_and_what_is_open(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    said = problem(await answer(caller, game, tokens[1], TEAM, {"team": [1, 2, 3]}), 409, "illegal-action")
    assert [one["pointer"] for one in said["errors"]] == ["/team"]
    assert (said["attempts_left"], said["request"]["request_id"]) == (2, TEAM)
    said = problem(await answer(caller, game, tokens[1], TEAM, {"teams": [1]}), 422, "invalid-action")
    assert (said["attempts_left"], said["request"]["attempts_left"]) == (1, 1)
    said = problem(await answer(caller, game, tokens[1], "1.1.vote.2", {}), 404, "unknown-request")
    assert said["request"]["request_id"] == TEAM
    problem(await answer(caller, game, tokens[1], TEAM, {"team": [10**30]}), 422, "invalid-action")
    problem(await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]}), 410, "too-late")
    log = await caller.lines(f"/games/{game}/events")
    kinds = [event["type"] for event in log[-5:]]
    assert kinds == ["action_refused"] * 3 + ["action_defaulted", "team_proposed"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"action":{"team":[1,2]},"note":1}', 422, "invalid-request"),
        (b'{"action":[1,2]}', 422, "invalid-request"),
        (b"{}", 422, "invalid-request"),
        (b"", 422, "invalid-request"),
        (b'{"action":' + b'{"a":' * 16 + b"1" + b"}" * 17, 400, "unparsable"),
        (b'{"action":{"text":"' + b"x" * 33_000 + b'"}}', 413, "too-large"),
    ],
)
async def test_an_unreadable_answer_uses_up_no_attempt(
    caller: Caller, body: bytes, status: int, code: str
) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    headers = {"Authorization": f"Bearer {tokens[1]}"}
    said = await caller.post(f"/games/{game}/requests/{TEAM}/action", content=body, headers=headers)
    found = problem(said, status, code)
    request = await asked(caller, game, tokens[1])
    assert request["attempts_left"] == 3
    if code == "invalid-request":
        assert (found["attempts_left"], found["request"]["request_id"]) == (3, TEAM)


async def test_a_speech_of_more_than_4000_characters_is_refused(caller: Caller) -> None:
    game, tokens = await remote_game(caller)
    said = await answer(caller, game, tokens[1], TEAM, {"team": [1, 2], "text": "x" * 4001})
    assert problem(said, 422, "invalid-action", "/text")["attempts_left"] == 2
    said = await answer(caller, game, tokens[1], TEAM, {"team": [1, 2], "text": "ä" * 4000})
    assert said.status_code == 200


async def test_answers_that_come_too_fast_are_told_to_wait(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(seats_module, "time", clock)
    game, tokens = await remote_game(caller, rules=SHORT, drive="manual")
    for _ in range(BURST):
        said = await answer(caller, game, tokens[2], "1.1.vote.2", {})
        assert said.status_code != 429
    for _ in range(3):
        said = await answer(caller, game, tokens[2], "1.1.vote.2", {})
        problem(said, 429, "rate-limited")
        assert said.headers["retry-after"] == "2"
    # Another seat is another allowance.
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
    # A tenth of a second earns one answer, and two seconds no more than the burst.
    clock.now += 1.01 / RATE
    assert (await answer(caller, game, tokens[2], "1.1.vote.2", {})).status_code != 429
    assert (await answer(caller, game, tokens[2], "1.1.vote.2", {})).status_code == 429
    clock.now += 3600
    codes = [(await answer(caller, game, tokens[2], "1.1.vote.2", {})).status_code for _ in range(BURST + 1)]
    assert 429 not in codes[:-1]
    assert codes[-1] == 429


class Clock:
    """Stands still between two looks, however slow the machine."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


async def test_only_the_seat_and_who_may_mint_its_token_answer(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    other, others = await remote_game(caller, rules=SHORT)
    path = f"/games/{game}/requests/{TEAM}/action"
    problem(await answer(caller, game, others[1], TEAM, {"team": [1, 2]}), 404, "not-found")
    problem(await answer(caller, game, tokens[2], TEAM, {"team": [1, 2]}), 404, "unknown-request")
    wish = {"action": {"team": [1, 2]}}
    problem(await caller.post(path, json=wish), 422, "invalid-request", "/viewer")
    problem(await caller.post(path, params={"viewer": "public"}, json=wish), 403, "forbidden")
    taken = await caller.post(path, params={"viewer": "seat:1"}, json=wish)
    assert taken.status_code == 200
    assert other != game


async def test_nobody_learns_by_an_answer_what_another_seat_has_answered(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
    ballot = (await asked(caller, game, tokens[2]))["request_id"]
    assert (await answer(caller, game, tokens[2], ballot, {"approve": True})).status_code == 200
    for approve in (True, False):
        said = problem(
            await answer(caller, game, tokens[1], ballot, {"approve": approve}), 404, "unknown-request"
        )
        assert said["request"]["request_id"] == "1.1.vote.1"
    problem(await answer(caller, game, tokens[2], TEAM, {"team": [1, 2]}), 404, "unknown-request")


async def test_a_game_that_has_failed_takes_no_answer(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    await asked(caller, game, tokens[1])
    this = games.c.game_id == game
    await caller.services.database.writer.execute(update(games).where(this).values(status="failed"))
    problem(await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]}), 410, "too-late")


async def test_a_scripts_seat_is_asked_for_nothing_from_outside(caller: Caller) -> None:
    _, (game,) = await caller.create(drive="manual")
    found = await caller.get(f"/games/{game}/requests", params={"viewer": "seat:1"})
    assert found.json() == {"status": "created", "requests": []}
    said = await caller.post(
        f"/games/{game}/requests/{TEAM}/action",
        params={"viewer": "seat:1"},
        json={"action": {"team": [1, 2]}},
    )
    problem(said, 404, "unknown-request")


# --- deadlines ------------------------------------------------------------------------------------


async def test_a_missed_deadline_plays_the_default_and_says_so(database_url: str) -> None:
    async with calling(database_url) as caller:
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        deadlines = {"propose_team": 0.4, "vote": 0.3, "card": 0.3, "assassinate": 0.3}
        batch, (game,) = await caller.create(seats=seats, rules=SHORT, deadlines_s=deadlines)
        await caller.over(batch)
        log = await caller.lines(f"/games/{game}/events")
        defaulted = [event for event in log if event["type"] == "action_defaulted"]
        assert {(event["seat"], event["cause"]) for event in defaulted} == {(1, "deadline")}
        done = in_log(log, 1)
        assert set(done) == {event["request_id"] for event in defaulted}
        for request, actions in done.items():
            kind = request.split(".")[2]
            expected = {"vote": {"approve": False}, "card": {"success": True}}
            if kind in expected:
                assert actions == [expected[kind]]
        # Each default came when it was due: so long after the event that opened its request.
        opened = 0
        for event in log:
            if event["type"] == "action_defaulted":
                allowed = deadlines[event["request_id"].split(".")[2]] * 1000
                assert _ms(event["at"]) >= opened + allowed
            elif event["type"] in ("proposal_opened", "team_proposed", "votes_revealed", "quest_resolved"):
                opened = _ms(event["at"])
        late = await caller.post(
            f"/games/{game}/requests/{TEAM}/action",
            params={"viewer": "seat:1"},
            json={"action": {"team": [1, 2]}},
        )
        problem(late, 410, "too-late")


def _ms(at: str) -> int:
    hours, minutes, seconds = at[11:-1].split(":")
    return round(((int(hours) * 60 + int(minutes)) * 60 + float(seconds)) * 1000)


async def test_a_restart_loses_no_answer_and_moves_no_deadline(database_url: str) -> None:
    async with calling(database_url, runner=False) as caller:
        # Nobody drives: what is answered stands in the inbox, and the process ends.
        game, tokens = await remote_game(caller, rules=SHORT)
        before = await asked(caller, game, tokens[1])
        assert (await answer(caller, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
    async with calling(database_url) as caller:
        vote = await asked(caller, game, tokens[4])
        assert vote["request_id"] == "1.1.vote.4"
        log = await caller.lines(f"/games/{game}/events")
        assert [event["team"] for event in log if event["type"] == "team_proposed"] == [[2, 3]]
    assert before["deadline"] is not None
    async with calling(database_url) as caller:
        again = await asked(caller, game, tokens[4])
        assert {**again, "ttl_ms": 0} == {**vote, "ttl_ms": 0}
        problem(await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]}), 409, "already-answered")


async def test_time_runs_through_an_outage(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT, deadlines_s={"propose_team": 0.1}, drive="auto")
    store = caller.services.store
    await caller.services.pickup.stop()
    await asyncio.sleep(0.2)
    # Whether anybody drives or not, the deadline has passed.
    problem(await answer(caller, game, tokens[1], TEAM, {"team": [2, 3]}), 410, "too-late")
    caller.services.runner.submit([game])
    assert (await asked(caller, game, tokens[1]))["request_id"] == "1.1.vote.1"
    row = await store.game(game)
    assert row is not None
    assert row.status == "running"


async def test_deadlines_go_by_the_clock_even_if_it_was_ahead_for_a_moment(database_url: str) -> None:
    async with after_a_jump(database_url, 3_600_000) as caller:
        deadlines = {"propose_team": 0.1, "vote": 500}
        game, tokens = await remote_game(caller, rules=SHORT, deadlines_s=deadlines, drive="auto")
        vote = await asked(caller, game, tokens[1])
        while vote["kind"] != "vote":
            vote = await asked(caller, game, tokens[1])
        assert vote["ttl_ms"] <= 500_000


@pytest.mark.parametrize("patience_s", [60, 0.1])  # in memory, or in the queue
async def test_a_deadline_that_runs_when_the_clock_is_set_back_comes_all_the_same(
    database_url: str, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with use_clock(time := Sliding()):
        async with calling(database_url, patience_s=patience_s) as caller:
            deadlines = {"propose_team": 1, "vote": 1}
            game, tokens = await remote_game(caller, rules=SHORT, deadlines_s=deadlines)
            await asked(caller, game, tokens[1])
            set_clock(time, -3_600_000, monkeypatch)
            assert (await asked(caller, game, tokens[1]))["ttl_ms"] <= 1000
            # The votes open when the log's times are in the future already.
            vote = await until_asked(caller, game, tokens[2], "vote")
            assert 0 < vote["ttl_ms"] <= 1000
            assert await until_asked(caller, game, tokens[2], "propose_team")
            log = await caller.lines(f"/games/{game}/events")
            late = [line["cause"] for line in log if line["type"] == "action_defaulted"]
            assert set(late) == {"deadline"}


async def until_asked(caller: Caller, game: str, token: str, kind: str) -> Any:
    """The seat's next request of this kind."""
    async with asyncio.timeout(20):
        while True:
            requests = await caller.get(
                f"/games/{game}/requests", params={"wait_s": 1}, headers={"Authorization": f"Bearer {token}"}
            )
            for request in requests.json()["requests"]:
                if request["kind"] == kind:
                    return request


async def test_a_forks_requests_count_from_the_fork(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT, deadlines_s={"vote": 500})
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
    first = await asked(caller, game, tokens[3])
    await asyncio.sleep(0.05)
    forked = await caller.post(f"/games/{game}/fork", json={"after": {"request": TEAM}})
    body = forked.json()
    token = next(one["token"] for one in body["seats"] if one["seat"] == 3)
    again = await asked(caller, body["game_id"], token)
    assert (first["request_id"], again["request_id"]) == ("1.1.vote.3", "1.1.vote.3")
    row = await caller.services.store.game(body["game_id"])
    assert row is not None
    assert again["deadline"] == timestamp(row.created_at + 500_000)
    assert again["deadline"] > first["deadline"]


# --- stepped by hand --------------------------------------------------------------------------------


async def test_a_manual_game_waits_for_its_remote_seats_and_has_no_deadlines(caller: Caller) -> None:
    seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 3, {"agent": "remote"}]
    game, tokens = await remote_game(caller, seats=seats, rules=SHORT, drive="manual")
    request = await asked(caller, game, tokens[1], wait_s=0)
    assert (request["deadline"], request["ttl_ms"]) == (None, None)
    said = problem(await caller.post(f"/games/{game}/step", json={"until": "end"}), 409, "not-answered")
    assert TEAM in said["detail"]
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 5]})).status_code == 200
    # Goes as far as the answers reach: both votes are missing then.
    stepped = (await caller.post(f"/games/{game}/step", json={"until": "end"})).json()
    assert [event["type"] for event in stepped["events"]] == ["team_proposed"]
    said = problem(await caller.post(f"/games/{game}/step", json={"until": "phase"}), 409, "not-answered")
    assert "1.1.vote.1, 1.1.vote.5" in said["detail"]
    assert (await answer(caller, game, tokens[1], "1.1.vote.1", {"approve": True})).status_code == 200
    for _ in range(4):  # one answer at a time, in seat order: 1 to 4
        assert (await caller.post(f"/games/{game}/step", json={})).status_code == 200
    said = problem(await caller.post(f"/games/{game}/step", json={}), 409, "not-answered")
    assert "1.1.vote.5" in said["detail"]


# --- ends ---------------------------------------------------------------------------------------------


async def test_cancelling_closes_requests_and_keeps_what_was_acknowledged(database_url: str) -> None:
    async with calling(database_url) as caller:
        game, tokens = await remote_game(caller, rules=SHORT)
        assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
        await asked(caller, game, tokens[2])
        assert (await answer(caller, game, tokens[2], "1.1.vote.2", {"approve": True})).status_code == 200
        assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
        problem(await answer(caller, game, tokens[3], "1.1.vote.3", {"approve": True}), 410, "too-late")
        log = await caller.lines(f"/games/{game}/events")
        assert in_log(log, 2) == {"1.1.vote.2": [{"approve": True}]}
        closed = [event for event in log if event["type"] == "action_defaulted"]
        assert {(event["seat"], event["cause"]) for event in closed} == {
            (seat, "cancelled") for seat in (1, 3, 4, 5)
        }
        assert log[-1]["type"] == "game_cancelled"
        found = await caller.get(
            f"/games/{game}/requests", headers={"Authorization": f"Bearer {tokens[3]}"}, params={"wait_s": 20}
        )
        assert found.json() == {"status": "cancelled", "requests": []}


async def test_a_game_that_waits_for_people_does_not_hold_up_others(tmp_path: Any) -> None:
    async with calling(f"sqlite+aiosqlite:///{tmp_path / 'g.sqlite'}", parallel_games=1) as caller:
        waiting = [await remote_game(caller, rules=SHORT) for _ in range(3)]
        await asyncio.wait_for(caller.played(seats=[{"agent": "random"}], rules=SHORT), 90)
        for game, tokens in waiting:
            assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
            assert (await asked(caller, game, tokens[1]))["request_id"] == "1.1.vote.1"


# --- creating -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "code", "pointer"),
    [
        ({"seeds": {"from": 1}}, "invalid-request", "/seeds"),
        ({"deadlines_s": {"vote": 0.01}}, "invalid-request", "/deadlines_s/vote"),
        ({"deadlines_s": {"votes": 10}}, "invalid-request", "/deadlines_s/votes"),
        ({"seats": [{"agent": "remote", "options": {"a": 1}}]}, "invalid-agent", "/seats/0/options"),
        ({"seats": [{"agent": "remote", "model": "m"}]}, "invalid-agent", "/seats/0/model"),
    ],
)
async def test_wishes_that_make_no_remote_game_are_refused(
    caller: Caller, wish: Any, code: str, pointer: str
) -> None:
    before = await caller.rows()
    said = await caller.post("/games", json={"seats": [{"agent": "remote"}], **wish})
    problem(said, 422, code, pointer)
    assert await caller.rows() == before


async def test_guessable_seeds_are_accepted_when_the_request_allows_them(caller: Caller) -> None:
    game, tokens = await remote_game(caller, seeds={"from": 1}, guessable_seeds=True, rules=SHORT)
    assert len(tokens) == 5
    assert (await caller.get(f"/games/{game}")).json()["seed"] == "1"
    for seat, token in tokens.items():
        shown = await caller.get(f"/games/{game}", headers={"Authorization": f"Bearer {token}"})
        assert shown.json()["hand"]["seat"] == seat
        assert shown.json()["agents"] is None


async def test_a_request_that_closes_while_its_state_is_read_is_not_shown(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reading, goes_on = InboxStore.state, asyncio.Event(), asyncio.Event()

    async def slowly(inbox: InboxStore, game_id: str, request_id: str) -> RequestState:
        state = await read(inbox, game_id, request_id)
        if request_id == "1.1.vote.2" and not reading.is_set():
            reading.set()
            await goes_on.wait()
        return state

    game, tokens = await remote_game(caller, rules=SHORT)
    await asked(caller, game, tokens[1])
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 3]})).status_code == 200
    await asked(caller, game, tokens[3])  # all are asked to vote at once
    monkeypatch.setattr(InboxStore, "state", slowly)
    bearer = {"Authorization": f"Bearer {tokens[2]}"}
    slow = asyncio.create_task(caller.get(f"/games/{game}/requests", params={"wait_s": 5}, headers=bearer))
    await reading.wait()
    for seat, token in tokens.items():
        voted = await answer(caller, game, token, f"1.1.vote.{seat}", {"approve": True})
        assert voted.status_code == 200, voted.text
    await asked(caller, game, tokens[1])
    await caller.get(f"/games/{game}/requests", headers=bearer)  # its view is of the quest by now
    goes_on.set()
    shown = await slow
    assert (shown.status_code, shown.json()["requests"]) == (200, [])


async def test_a_token_that_is_replaced_while_it_waits_gets_no_request(caller: Caller) -> None:
    game, tokens = await remote_game(caller, rules=SHORT)
    await asked(caller, game, tokens[1])
    bearer = {"Authorization": f"Bearer {tokens[2]}"}
    waiting = asyncio.create_task(
        caller.get(f"/games/{game}/requests", params={"wait_s": 60}, headers=bearer)
    )
    # The agent of its driver, and this call.
    await until(lambda: len(caller.services.feed._watches.get(game, ())) == 2)
    new = await caller.post(f"/games/{game}/tokens", json={"viewer": "seat:2", "raise_epoch": True})
    assert new.status_code == 201
    assert (await answer(caller, game, tokens[1], TEAM, {"team": [1, 2]})).status_code == 200
    problem(await waiting, 401, "unauthenticated")
