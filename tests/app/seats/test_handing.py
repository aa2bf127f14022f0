"""The driving process takes an answer before its commit. One that is never committed has no effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.seats import inboxes
from app.seats.inboxes import GameInbox
from app.seats.remote_seat import MAX_ALLOWANCE_S
from app.settings import Settings
from app.store.db import Append, Database
from app.store.inbox import InboxStore, RequestOutcome, StoredRefusal, answer_outcome
from app.stream.feed import request_name
from engine.rules import Request
from tests.app.calling import until
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import SHORT, http_to, remote_game
from tests.app.watcher import Watcher, watching

TEAM = "1.1.propose_team.1"
OURS = {"team": [1, 2]}
THEIRS = {"team": [1, 3]}


@pytest.fixture
async def settings(database_url: str) -> Settings:
    return local_settings(database_url)


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[Served]:
    async with running_server(settings) as server:
        # It hears of other processes' answers when it looks, and not before.
        await server.services.pulse.stop()
        if server.services.bell is not None:
            await server.services.bell.stop()
        yield server


@asynccontextmanager
async def elsewhere(settings: Settings) -> AsyncIterator[InboxStore]:
    """The inbox as another process has it."""
    database = Database(settings)
    await database.start()
    try:
        yield InboxStore(database)
    finally:
        await database.stop()


async def asked(served: Served, one: Watcher) -> str:
    """A new game whose first seat has been asked for a team."""
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    await one.identify(game, token=tokens[1])
    await until_asked(one, TEAM)
    # The request is sent as soon as it is stored; only then does the game come to wait for its answer.
    driven = served.services.seats._driven
    await until(lambda: game in driven and TEAM in driven[game]._waiting)
    return game


async def until_asked(one: Watcher, request: str) -> None:
    while (await one.next()).get("request_id") != request:
        pass


async def says(one: Watcher, action: dict[str, Any]) -> dict[str, Any]:
    await one.send(t="act", id="a", request_id=TEAM, action=action)
    while (frame := await one.next())["t"] not in ("ack", "error"):
        pass
    return frame


async def types(served: Served, game: str) -> list[str]:
    log = await served.services.reader.events(game)
    return [type(event).__name__ for event in log]


async def test_an_answer_that_was_accepted_elsewhere_stands_and_the_game_goes_on_with_it(
    served: Served, settings: Settings
) -> None:
    async with watching(served.ws_url) as one, elsewhere(settings) as inbox:
        game = await asked(served, one)
        await inbox.settle(game, TEAM, answer_outcome(1, '{"team":[1,3]}', [], [], "http"))
        seen = one.items[-1]["seq"]
        assert (await says(one, OURS))["code"] == "already-answered"
        await one.until_seq(seen + 1)
    [proposed] = [item for item in one.items if item["type"] == "team_proposed"]
    assert proposed["team"] == THEIRS["team"]


async def test_an_answer_that_was_refused_elsewhere_is_in_the_log_before_the_one_that_counts(
    served: Served, settings: Settings
) -> None:
    async with watching(served.ws_url) as one, elsewhere(settings) as inbox:
        game = await asked(served, one)
        refusal = StoredRefusal("illegal-action", "a team of one", "/team")
        await inbox.refuse(game, TEAM, 1, refusal, answer={}, message=None, attempts=3)
        seen = one.items[-1]["seq"]
        assert (await says(one, OURS))["t"] == "ack"
        await one.until_seq(seen + 1)
    names = await types(served, game)
    assert names.index("ActionRefused") < names.index("TeamProposed")
    assert names.count("TeamProposed") == 1


async def test_an_acknowledged_answer_is_stored_once_and_its_step_is_in_the_log_once(served: Served) -> None:
    async with watching(served.ws_url) as one:
        game = await asked(served, one)
        assert not (await says(one, OURS))["duplicate"]
        assert (await says(one, OURS))["duplicate"]
        assert (await says(one, THEIRS))["code"] == "already-answered"
    stored = await served.services.inbox.outcome(game, TEAM)
    assert stored is not None
    assert stored.action == '{"team":[1,2]}'
    assert (await types(served, game)).count("TeamProposed") == 1


NEVER_S = 1e6


async def vote(served: Served, voted: asyncio.Event, **rules: Any) -> None:
    """Plays a game until everybody has voted and the first card is asked. ``voted``: set once seat 2 has."""
    async with watching(served.ws_url) as one, http_to(served.url) as client, asyncio.timeout(100):
        game, tokens = await remote_game(client, rules=SHORT, deadlines_s={"vote": MAX_ALLOWANCE_S}, **rules)
        await one.identify(game, token=tokens[1])
        await until_asked(one, TEAM)
        await says(one, OURS)
        await until_asked(one, "1.1.vote.1")
        for seat, token in tokens.items():
            answer = await client.post(
                f"/games/{game}/requests/1.1.vote.{seat}/action",
                json={"action": {"approve": True}},
                headers={"Authorization": f"Bearer {token}"},
            )
            assert answer.status_code == 200, answer.text
            if seat == 2:
                voted.set()
        await until_asked(one, "1.1.card.1")


async def test_a_game_goes_on_with_an_answer_that_came_while_it_looked_whether_the_seat_is_there(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, voted = InboxStore.missed, asyncio.Event()

    async def slowly(inbox: InboxStore, game_id: str, seat: int, most: int) -> int:
        if seat == 2:
            await voted.wait()
        return await look(inbox, game_id, seat, most)

    monkeypatch.setattr(InboxStore, "missed", slowly)
    monkeypatch.setattr(inboxes, "SILENCE_S", NEVER_S)
    monkeypatch.setattr(inboxes, "FIRST_SILENCE_S", NEVER_S)
    await vote(served, voted, stand_in_after=3)


async def test_a_game_goes_on_with_an_answer_that_came_before_it_waited(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, voted = GameInbox._waited, asyncio.Event()

    async def late(inbox: GameInbox, request: Request, *given: Any, **more: Any) -> Any:
        if request.id == "1.1.vote.2":
            await voted.wait()
        return await wait(inbox, request, *given, **more)

    monkeypatch.setattr(GameInbox, "_waited", late)
    monkeypatch.setattr(inboxes, "SILENCE_S", NEVER_S)
    monkeypatch.setattr(inboxes, "FIRST_SILENCE_S", 0.1)
    await vote(served, voted)


async def test_whoever_drives_the_game_by_now_is_told_of_an_answer_that_its_former_driver_took(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, feed, driven = GameInbox.hand, served.services.feed, served.services.seats._driven

    def handed(inbox: GameInbox, request: str, answer: RequestOutcome) -> Append | None:
        append = hand(inbox, request, answer)
        assert append is not None

        def let_go(done: object) -> None:
            """The game has another driver now, which may have looked before the commit."""
            watch.rung_by(name)
            asyncio.get_running_loop().call_soon(driven.__setitem__, game, inbox)
            driven[game] = GameInbox.__new__(GameInbox)

        append.done.add_done_callback(let_go)
        return append

    async with watching(served.ws_url) as one:
        game = await asked(served, one)
        name = request_name(game, TEAM)
        with feed.watch(name) as watch:
            monkeypatch.setattr(GameInbox, "hand", handed)
            assert (await says(one, OURS))["t"] == "ack"
            assert watch.rung_by(name)
