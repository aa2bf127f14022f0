"""Remote seats over the socket: whole games, disconnections, takeovers and refusals."""

import asyncio
import random
from typing import Any

import jsonschema
import pytest

from app.seats.seats import Seats
from app.store.inbox import Arrival
from tests.app.calling import calling
from tests.app.real_server import Served
from tests.app.seated import SHORT, Balancer, Bot, choose, http_to, in_log, remote_game, rough_line
from tests.app.watcher import Watcher, projection, watching


async def new_game(served: Served, **wish: Any) -> tuple[str, dict[int, str]]:
    async with http_to(served.url) as client:
        return await remote_game(client, **wish)


async def test_five_bots_play_a_whole_game_though_their_connections_are_cut(served: Served) -> None:
    chance = random.Random(7)
    game, tokens = await new_game(served, rules={"summaries": False})
    backend = served.url.removeprefix("http://")
    async with Balancer([backend], rough_line(chance)) as balancer:
        bots = [Bot(lambda: balancer.ws_url, game, tokens[seat], seat) for seat in range(1, 6)]
        await asyncio.gather(*(bot.play() for bot in bots))
        assert balancer.cuts >= 20
    row = await served.services.store.game(game)
    assert row is not None
    assert row.status == "finished"
    for bot in bots:
        assert bot.items == await projection(served.services, game, bot.seat)
        assert not bot.errors
    # A speech with a menu came with its intentions: ground truth, seen by nobody else.
    full = await projection(served.services, game, -1)
    chosen = [event for event in full if event["type"] == "intentions_selected"]
    assert len(chosen) == len([e for e in full if e["type"] == "utterance_made" and e["phase"] == "discuss"])
    assert not [event for event in full if event["type"] in ("action_defaulted", "action_refused")]
    seen_by_2 = [event for event in bots[1].items if event["type"] == "intentions_selected"]
    assert seen_by_2
    assert {event["seat"] for event in seen_by_2} == {2}


async def test_bots_sit_beside_scripts_and_every_ack_is_in_the_log_once(served: Served) -> None:
    seats = [{"agent": "remote"}, {"agent": "scripted"}, {"agent": "remote"}, {"agent": "random"}, {}]
    game, tokens = await new_game(served, rules=SHORT, seats=seats)
    assert set(tokens) == {1, 3}
    bots = [Bot(lambda: served.ws_url, game, tokens[seat], seat) for seat in tokens]
    await asyncio.gather(*(bot.play() for bot in bots))
    for bot in bots:
        assert bot.acked
        assert in_log(bot.items, bot.seat) == {request: [action] for request, action in bot.acked.items()}


# --- one seat by hand ---------------------------------------------------------------------------


class Table:
    """A game whose seat 1 is asked for a team, with the test in that seat."""

    def __init__(self, served: Served, game: str, tokens: dict[int, str]) -> None:
        self.served = served
        self.game = game
        self.tokens = tokens

    async def sat(self, one: Watcher, seat: int = 1, **more: Any) -> Watcher:
        """The connection, when it holds the seat and has heard all there was."""
        welcome = await one.identify(self.game, token=self.tokens[seat], **more)
        while not one.items or one.items[-1]["seq"] < welcome["head"]:
            await one.next()
        one.frames.clear()
        return one


@pytest.fixture
async def table(served: Served) -> Table:
    return Table(served, *await new_game(served, rules=SHORT))


async def act(one: Watcher, request: str, action: Any, id_: str = "a", **more: Any) -> dict[str, Any]:
    await one.send(t="act", id=id_, request_id=request, action=action, **more)
    while True:
        frame = await one.next()
        if frame["t"] in ("ack", "error"):
            return frame


TEAM = "1.1.propose_team.1"


async def test_after_welcome_a_seat_hears_what_it_is_asked(table: Table) -> None:
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        request = await one.next()
    assert request["t"] == "request"
    assert request["request_id"] == TEAM
    assert (request["kind"], request["team_size"], request["menu"]) == ("propose_team", 2, None)
    assert request["attempts_left"] == 3
    assert request["default"] == {"team": [1, 2]}
    assert len(request["legal"]) == 10
    assert 110_000 < request["ttl_ms"] <= 120_000
    validator = jsonschema.Draft202012Validator(request["schema"])
    for action in [*request["legal"], request["default"]]:
        validator.validate(action)
    for wrong in ({}, {"team": [1]}, {"team": [1, 1]}, {"team": [1, 6]}, {"team": [1, 2], "approve": True}):
        assert not validator.is_valid(wrong)


async def test_an_answer_is_acknowledged_once_and_again_wherever_it_is_repeated(table: Table) -> None:
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        assert await act(one, TEAM, {"team": [1, 3]}, "a1") == {
            "t": "ack", "re": "a1", "request_id": TEAM, "status": "accepted", "duplicate": False
        }  # fmt: skip
        again = await act(one, TEAM, {"team": [1, 3]}, "a2")
        assert (again["t"], again["duplicate"]) == ("ack", True)
    async with watching(table.served.ws_url) as other:
        await table.sat(other)
        again = await act(other, TEAM, {"team": [1.0, 3]}, "a1")
        assert (again["t"], again["duplicate"]) == ("ack", True)
        other_answer = await act(other, TEAM, {"team": [1, 2]}, "a9")
        assert (other_answer["t"], other_answer["code"]) == ("error", "already-answered")
    async with http_to(table.served.url) as client:
        over_http = await client.post(
            f"/games/{table.game}/requests/{TEAM}/action",
            json={"action": {"team": [1, 3]}},
            headers={"Authorization": f"Bearer {table.tokens[1]}"},
        )
        assert over_http.json() == {
            "t": "ack", "re": None, "request_id": TEAM, "status": "accepted", "duplicate": True
        }  # fmt: skip
    events = await projection(table.served.services, table.game, 0)
    assert [e["team"] for e in events if e["type"] == "team_proposed"] == [[1, 3]]


async def test_an_action_under_way_is_acknowledged_before_a_game_that_is_over_closes_the_connection(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Seats.act

    async def acknowledged_late(seats: Seats, *args: Any, **more: Any) -> Any:
        outcome = await taken(seats, *args, **more)
        async with http_to(table.served.url) as client:
            assert (await client.post(f"/games/{table.game}/cancel")).status_code == 202
        await asyncio.sleep(0.5)
        return outcome

    monkeypatch.setattr(Seats, "act", acknowledged_late)
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        await one.send(t="act", id="a", request_id=TEAM, action={"team": [1, 3]})
        assert await one.until_closed() == 1000
    assert [frame["re"] for frame in one.frames if frame["t"] == "ack"] == ["a"]


async def test_an_illegal_answer_leaves_the_request_open_and_a_legal_one_follows(table: Table) -> None:
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        error = await act(one, TEAM, {"team": [1, 2, 3]})
        assert (error["code"], error["pointer"], error["attempts_left"]) == ("illegal-action", "/team", 2)
        assert error["request"]["request_id"] == TEAM
        assert error["request"]["attempts_left"] == 2
        error = await act(one, TEAM, {"team": "all"}, "b")
        assert (error["code"], error["pointer"], error["attempts_left"]) == ("invalid-action", "/team", 1)
        # The same message again, as after a cut: no further attempt is used up.
        error = await act(one, TEAM, {"team": "all"}, "b")
        assert error["attempts_left"] == 1
        assert (await act(one, TEAM, {"team": [2, 4]}, "c"))["t"] == "ack"
        while not (one.items and one.items[-1]["type"] == "team_proposed"):
            await one.next()
    refused = [item for item in one.items if item["type"] == "action_refused"]
    assert [item["request_id"] for item in refused] == [TEAM, TEAM]
    assert "3 seats" in refused[0]["cause"] or "[1, 2, 3]" in refused[0]["cause"]


async def test_the_last_attempt_brings_the_default(table: Table) -> None:
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        for left in (2, 1, 0):
            error = await act(one, TEAM, {"team": [9, 9]}, f"try {left}")
            assert (error["attempts_left"], "request" in error) == (left, left > 0)
        late = await act(one, TEAM, {"team": [1, 2]}, "too late")
        assert late["code"] == "too-late"
        while not (one.items and one.items[-1]["type"] == "team_proposed"):
            await one.next()
    told = [item for item in one.items if item["type"].startswith("action_")]
    assert [item["type"] for item in told] == ["action_refused"] * 3 + ["action_defaulted"]
    assert told[-1]["cause"] == "attempts"
    assert one.items[-1]["team"] == [1, 2]


@pytest.mark.parametrize("request_id", ["1.1.vote.2", "1.1.propose_team.2", "9.9.vote.1", "nonsense", "1"])
async def test_an_unknown_request_and_another_seats_are_alike(table: Table, request_id: str) -> None:
    async with watching(table.served.ws_url) as one:
        await table.sat(one)
        error = await act(one, request_id, {"approve": True})
    assert error["code"] == "unknown-request"
    assert error["detail"] == "no such request is open for seat 1"
    assert error["request"]["request_id"] == TEAM


async def test_thoughts_of_others_unknown_ones_and_those_off_the_menu_are_left_out(served: Served) -> None:
    bad: list[tuple[Any, str]] = [
        ({"type": "choice_explained", "seat": 2, "text": "mine"}, "/thoughts/0"),
        ({"type": "vote_cast", "seat": 1, "approve": True}, "/thoughts/0/type"),
        (
            {"type": "intentions_selected", "stage": "final", "intentions": [{"id": "fly"}]},
            "/thoughts/0/intentions/0/id",
        ),
    ]
    for thought, pointer in bad:
        game, tokens = await new_game(served)
        async with watching(served.ws_url) as one:
            await Table(served, game, tokens).sat(one)
            ack = await act(one, TEAM, {"team": [1, 2], "text": "Hello"}, thoughts=[thought])
            assert (ack["t"], [fault["pointer"] for fault in ack["thoughts_refused"]]) == ("ack", [pointer])


async def test_the_reason_of_a_selection_is_stored_as_it_was_sent_and_may_be_left_out(served: Served) -> None:
    game, tokens = await new_game(served)
    async with watching(served.ws_url) as one:
        await Table(served, game, tokens).sat(one)
        menu = (await one.next())["menu"]
        chosen = {"type": "intentions_selected", "intentions": [{"id": menu[0], "reason": "Now."}]}
        thoughts = [
            {**chosen, "stage": "first"},
            {**chosen, "stage": "final", "reason": "None gives me away."},
        ]
        assert (await act(one, TEAM, {"team": [1, 2], "text": "Hello"}, thoughts=thoughts))["t"] == "ack"
        while not any(event["type"] == "utterance_made" for event in one.items):
            await one.next()
    stored = [event for event in one.items if event["type"] == "intentions_selected"]
    assert [(e["stage"], e["reason"]) for e in stored] == [("first", ""), ("final", "None gives me away.")]
    assert {choice["reason"] for e in stored for choice in e["intentions"]} == {"Now."}


async def test_a_newer_connection_takes_the_seat_over(table: Table) -> None:
    async with watching(table.served.ws_url) as older, watching(table.served.ws_url) as newer:
        await table.sat(older)
        await table.sat(newer)
        assert await older.until_closed() == 4409
        assert (await act(newer, TEAM, {"team": [1, 2]}))["t"] == "ack"


async def test_looking_through_a_seats_eyes_neither_takes_it_nor_answers_for_it(table: Table) -> None:
    async with watching(table.served.ws_url) as bot, watching(table.served.ws_url) as researcher:
        await table.sat(bot)
        # No key is configured: whoever shows nothing is the researcher.
        await researcher.identify(table.game, viewer="seat:1")
        frames = [await researcher.next(), await researcher.next()]
        assert [frame["t"] for frame in frames] == ["events", "request"]
        error = await act(researcher, TEAM, {"team": [1, 2]})
        assert error["code"] == "unknown-request"
        assert (await act(bot, TEAM, {"team": [1, 2]}))["t"] == "ack"


async def test_the_researcher_sits_down_by_saying_so(table: Table) -> None:
    async with watching(table.served.ws_url) as one:
        await one.identify(table.game, viewer="seat:1", sit=True)
        assert (await act(one, TEAM, {"team": [1, 2]}))["t"] == "ack"


@pytest.mark.parametrize("viewer", [None, "public"])
async def test_a_viewer_without_a_seat_cannot_sit(table: Table, viewer: str | None) -> None:
    async with watching(table.served.ws_url) as one:
        await one.send(t="identify", v=1, game=table.game, sit=True, viewer=viewer)
        assert await one.until_closed() == 4400
    assert one.frames[-1]["pointer"] == "/sit"


async def test_nobody_sits_on_a_scripts_seat(served: Served) -> None:
    async with http_to(served.url) as client:
        answer = await client.post("/games", json={"drive": "manual"})
    game = answer.json()["games"][0]["game_id"]
    async with watching(served.ws_url) as one:
        await one.send(t="identify", v=1, game=game, viewer="seat:1", sit=True)
        assert await one.until_closed() == 4400


async def test_a_seats_frames_do_not_change_with_others_answers(table: Table) -> None:
    """Four of five have voted; the fifth hears nothing of it until all have."""
    async with watching(table.served.ws_url) as fifth:
        await table.sat(fifth, seat=5)
        async with watching(table.served.ws_url) as first:
            await table.sat(first)
            assert (await act(first, TEAM, {"team": [1, 2]}))["t"] == "ack"
        request = None
        while request is None:
            frame = await fifth.next()
            request = frame if frame["t"] == "request" else None
        assert request["request_id"] == "1.1.vote.5"
        for seat in (1, 2, 3, 4):
            async with watching(table.served.ws_url) as voter:
                await table.sat(voter, seat=seat)
                assert (await act(voter, f"1.1.vote.{seat}", {"approve": True}))["t"] == "ack"
        before = len(fifth.frames)
        await fifth.send(t="ping", id="anything?")
        assert (await fifth.next())["re"] == "anything?"
        assert len(fifth.frames) == before + 1
        assert (await act(fifth, "1.1.vote.5", choose(request, random.Random(1))))["t"] == "ack"
        while not any(item["type"] == "votes_revealed" for item in fifth.items):
            await fifth.next()


async def test_the_newest_of_several_connections_holds_the_seat(database_url: str) -> None:
    # However long the older one took to get there: it may be one that its bot has left already.
    async with calling(database_url) as caller:
        seats = caller.services.seats
        older, newer = (Arrival(seats.arrive().conn, 1_000) for _ in range(2))
        await seats.hold("g_1", 2, newer)
        await seats.hold("g_1", 2, older)
        assert (await seats.holds("g_1", 2, newer), await seats.holds("g_1", 2, older)) == (True, False)
        of_another = Arrival("0123456789abcdef.000000000001", newer.at)
        await seats.hold("g_1", 2, of_another)
        assert await seats.holds("g_1", 2, of_another)
        await seats.hold("g_1", 2, older)
        assert await seats.holds("g_1", 2, older)


@pytest.mark.parametrize(
    ("came_before_ms", "holds"), [(0, True), (50, False), (5000, False), (3_600_000, True)]
)
async def test_the_newest_connection_over_processes_holds_the_seat(
    postgres_url: str, came_before_ms: int, holds: bool
) -> None:
    # Of connections that come at the same moment, the last to write counts as the newest. No connection takes
    # an hour to write: somebody has set the database's clock back.
    async with calling(postgres_url) as caller:
        seats = caller.services.seats
        newer = seats.arrive()
        older = Arrival("0123456789abcdef.000000000001", newer.at - came_before_ms)
        await seats.hold("g_1", 2, newer)
        await seats.hold("g_1", 2, older)
        assert (await seats.holds("g_1", 2, older), await seats.holds("g_1", 2, newer)) == (holds, not holds)
