"""Seats at a process that does not drive their game, on the same machine as the one that does."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import text

from app.seats import followed
from app.store.postgres import postgres_engine
from app.stream import links as links_module
from app.stream import pulse as pulse_module
from app.stream.links import Links
from tests.app.calling import until
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import SHORT, Bot, HttpBot, http_to, in_log, remote_game
from tests.app.watcher import watching

Pair = tuple[Served, Served]


@pytest.fixture
async def pair(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """The process that drives, and one that only serves. However slow the machine, neither takes the other
    for silent.
    """
    monkeypatch.setattr(links_module, "ANSWERS_WITHIN_S", 200.0)
    async with AsyncExitStack() as both:
        driving = await both.enter_async_context(running_server(local_settings(postgres_url)))
        serving = await both.enter_async_context(running_server(local_settings(postgres_url, runner=False)))
        await hears(serving, driving)
        await hears(driving, serving)
        yield driving, serving


async def hears(one: Served, other: Served) -> None:
    """Returns when the first process gets notifications of the other."""
    with one.services.feed.watch("l_test") as watch:
        while not await watch.wait(0.1):
            other.services.feed.hint("l_test")


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The outcomes of answers that go over links."""
    outcomes: list[int | None] = []
    hand = Links.hand

    async def noted(self: Links, *answer: Any) -> int | None:
        outcomes.append(await hand(self, *answer))
        return outcomes[-1]

    monkeypatch.setattr(Links, "hand", noted)
    return outcomes


async def test_a_game_is_played_at_both_processes_and_its_answers_go_over_the_link(
    pair: Pair, handed: list[int | None]
) -> None:
    driving, serving = pair
    async with http_to(driving.url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    await until(lambda: game in driving.services.seats._driven)
    bots = [
        Bot(lambda at=at: at.ws_url, game, tokens[seat], seat)  # type: ignore[misc]
        for seat, at in zip(range(1, 6), itertools.cycle([serving, driving]), strict=False)
    ]
    await asyncio.gather(*(bot.play() for bot in bots))
    for bot in bots:
        assert bot.items[-1]["type"] == "game_ended"
        assert in_log(bot.items, bot.seat) == {request: [action] for request, action in bot.acked.items()}
        assert not bot.duplicates
    # Perhaps not the first ones: the link has to be opened.
    over_it = sum(at is not None for at in handed)
    assert over_it > sum(len(bot.acked) for bot in bots[::2]) / 2
    await until(lambda: not driving.services.feed.tails._kept and not serving.services.feed.tails._kept)


async def test_an_answer_is_acknowledged_before_its_bot_is_told_of_what_follows(pair: Pair) -> None:
    driving, serving = pair
    for side in pair:
        async with http_to(driving.url) as client:
            game, tokens = await remote_game(client, rules=SHORT)
        await until(lambda game=game: game in driving.services.seats._driven)  # type: ignore[misc]
        async with watching(side.ws_url) as one:
            await one.identify(game, token=tokens[1])
            while (request := await one.next())["t"] != "request":
                pass
            if side is serving:
                await until(lambda game=game: serving.services.seats._links.brings(game))  # type: ignore[misc]
            await one.send(t="act", id="a", request_id=request["request_id"], action={"team": [1, 2]})
            assert (await one.next())["t"] == "ack"


async def test_an_answer_whose_reply_is_lost_counts_once_and_is_no_repetition(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    driving, serving = pair
    async with http_to(driving.url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    await until(lambda: game in driving.services.seats._driven)
    hand = Links.hand

    async def lost(self: Links, *answer: Any) -> None:
        assert await hand(self, *answer) is not None

    monkeypatch.setattr(Links, "hand", lost)
    async with watching(serving.ws_url) as one:
        await one.identify(game, token=tokens[1])
        while (request := await one.next())["t"] != "request":
            pass
        await until(lambda: serving.services.seats._links.brings(game))
        await one.send(t="act", id="a", request_id=request["request_id"], action={"team": [1, 2]})
        while (frame := await one.next())["t"] != "ack":
            pass
        assert frame["duplicate"] is False
        await one.send(t="act", id="b", request_id=request["request_id"], action={"team": [1, 2]})
        while (frame := await one.next())["t"] != "ack":
            pass
        assert frame["duplicate"] is True
    log = await serving.services.reader.events(game)
    assert [type(event).__name__ for event in log].count("TeamProposed") == 1


async def test_seats_over_http_play_at_the_other_process(pair: Pair, handed: list[int | None]) -> None:
    driving, serving = pair
    async with http_to(driving.url) as at_home, http_to(serving.url) as abroad:
        game, tokens = await remote_game(at_home, rules=SHORT)
        clients = itertools.cycle([abroad, at_home])
        bots = [
            HttpBot(client, game, tokens[seat], seat) for seat, client in zip(tokens, clients, strict=False)
        ]
        await asyncio.gather(*(bot.play() for bot in bots))
    assert any(handed)
    assert not serving.services.seats._followed._seats
    await until(lambda: not driving.services.feed.tails._kept and not serving.services.feed.tails._kept)
    log = await serving.services.reader.events(game)
    assert type(log[-1]).__name__ == "GameEnded"


async def test_a_seat_that_is_gone_from_the_other_process_leaves_nothing_behind(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "KEPT_S", 0.05)
    driving, serving = pair
    async with http_to(serving.url) as abroad:
        game, tokens = await remote_game(abroad, rules=SHORT)
        headers = {"Authorization": f"Bearer {tokens[1]}"}
        answer = await abroad.get(f"/games/{game}/requests", params={"wait_s": 20}, headers=headers)
        assert answer.json()["requests"], answer.text
    await until(lambda: not serving.services.feed.tails._kept)
    await until(lambda: not driving.services.seats._links._shown)
    assert not serving.services.seats._followed._seats


async def test_a_process_looks_less_often_only_while_notifications_come_in(
    pair: Pair, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "_AGAIN_S", 60.0)
    _, serving = pair
    hears = serving.services.pulse.hears
    assert hears()
    engine = postgres_engine(postgres_url)
    async with engine.connect() as connection:
        await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    await engine.dispose()
    serving.services.feed.hint("l_test")
    await until(lambda: not hears())
