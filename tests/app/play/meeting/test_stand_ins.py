"""A seat whose bot is absent is played by a stand-in, and the game is not rated."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select

from app.base.errors import TooLate
from app.play.meeting import service as meeting_module
from app.protocol.messages import Answer
from app.seats.seats import Refused
from app.store.inbox import no_answer
from app.store.tables import game_players, games, inbox
from tests.app.calling import Caller, calling, problem
from tests.app.play.meeting.seekers import seek, shown
from tests.app.seated import SHORT, choose

KINDS = ("propose_team", "speak", "reconsider", "vote", "card", "summarise", "assassinate")
AT_ONCE = dict.fromkeys(KINDS, 0.1)


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url) as one:
        yield one


async def played(caller: Caller, **wish: Any) -> tuple[str, list[dict[str, Any]], Any]:
    """A game in which seat 1 never answers: its id, its events, and its row."""
    seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
    _, [game] = await caller.played(seats=seats, deadlines_s=AT_ONCE, rules=SHORT, **wish)
    database = caller.services.database
    [row] = await database.mappings(select(games).where(games.c.game_id == game))
    return game, await caller.lines(f"/games/{game}/events"), row


async def test_after_some_missed_deadlines_in_a_row_a_stand_in_plays(caller: Caller) -> None:
    game, events, row = await played(caller, stand_in_after=2)
    assert [event["cause"] for event in events if event["type"] == "action_defaulted"] == ["deadline"] * 2
    seated = [event["agents"]["1"]["agent"] for event in events if event["type"] == "agents_seated"]
    assert seated == ["remote", "scripted"]
    assert (row["status"], row["seats"][0]["agent"]) == ("finished", "scripted")
    # Its last request was closed before the stand-in answered it: no answer of the bot could get lost.
    query = select(inbox.c.cause).where(inbox.c.game_id == game).order_by(inbox.c.at, inbox.c.request_id)
    assert await caller.services.database.column(query) == ["deadline", "deadline", "absent"]
    exported = await caller.lines(f"/batches/{row['batch_id']}/export", view="full")
    assert exported[0]["type"] == "provenance"


async def test_a_bot_that_comes_back_too_late_gets_no_acknowledgement(caller: Caller) -> None:
    seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
    _, [game] = await caller.create(seats=seats, drive="manual", rules=SHORT)
    problem(await caller.post(f"/games/{game}/step", json={"until": "end"}), 409, "not-answered")
    [asked] = (await caller.get(f"/games/{game}/requests", params={"viewer": "seat:1"})).json()["requests"]
    services = caller.services
    # A connection knows the seat as it was, until it hears that a stand-in has taken it.
    view = await services.seats.view(await services.games.row(game), 1)
    assert view is not None
    view.may_be_absent = True
    absent = no_answer(1, "absent")
    assert (await services.inbox.settle(game, "1.9.vote.1", absent)).receipt == absent.receipt
    answer = Answer(action=choose(asked, random.Random(1)))
    taken = await services.seats.act(view, asked["request_id"], answer, via="http")
    assert isinstance(taken, Refused)
    assert isinstance(taken.error, TooLate)
    assert "a stand-in plays it now" in str(taken.error)
    assert await services.inbox.outcome(game, asked["request_id"]) is None
    # It is looked at where there are stand-ins.
    wish = {"seats": seats, "deadlines_s": dict.fromkeys(KINDS, 3600), "stand_in_after": 1}
    _, [game] = await caller.create(**wish)
    view = await services.seats.view(await services.games.row(game), 1)
    assert view is not None
    assert view.may_be_absent


async def test_without_the_option_defaults_are_played_on(caller: Caller) -> None:
    _, events, row = await played(caller)
    assert len([event for event in events if event["type"] == "action_defaulted"]) > 2
    assert row["seats"][0]["agent"] == "remote"


async def test_the_token_of_an_absent_bot_ends_and_the_game_is_not_rated(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(meeting_module.PACES, "fast", 0.1)
    services = caller.services
    lay = services.meeting._lay
    # From its first moment: its deadlines pass so soon that no later change would be sure to be in time.
    monkeypatch.setattr(services.meeting, "_lay", lambda *terms, **_: lay(*terms, rated=True, unrated=None))
    one = await seek(caller, "owl", pace="fast", wait_s=1)
    one = await shown(caller, one, wait_s=30)
    view = (await caller.get(f"/games/{one['game_id']}")).json()
    await caller.over(view["batch_id"])
    [row] = await services.database.mappings(select(games).where(games.c.game_id == one["game_id"]))
    assert (row["rated"], row["unrated"]) == (False, "a stand-in played for an absent bot")
    absent = await services.database.column(select(game_players.c.absent_at))
    assert [at is not None for at in absent] == [True]
    headers = {"authorization": f"Bearer {one['game']['token']}"}
    problem(await caller.get(f"/games/{one['game_id']}", headers=headers), 401, "unauthenticated")
    ended = await shown(caller, one)
    assert (ended["game"], ended["game_status"]) == (None, "finished")
    assert ended["unrated"] == "a stand-in played for an absent bot"
