"""Seats read from memory what their own process commits: few queries, and no request twice."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any, NoReturn, cast

import pytest

from app.protocol.close_codes import Code
from app.seats.wire import Closing, SocketTalk
from bench.walks import CLOCKED
from tests.app.calling import until
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import SHORT, Bot, HttpBot, http_to, remote_game
from tests.app.watcher import Watcher, watching


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with running_server(local_settings(database_url)) as server:
        yield server


async def next_of(one: Watcher, kind: str) -> dict[str, Any]:
    """The next frame of this kind."""
    while (frame := await one.next())["t"] != kind:
        pass
    return frame


async def test_an_answer_over_the_socket_reads_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing looks for what other processes wrote, or is counted for it: how often is the machine's affair.
    await served.services.pulse.stop()
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client)
    bots = [Bot(lambda: served.ws_url, game, tokens[seat], seat) for seat in range(1, 6)]
    queries = 0

    database = served.services.database
    rows = database.rows

    async def counted(query: Any, values: Any = None) -> Any:
        nonlocal queries
        task = asyncio.current_task()
        queries += task is None or task.get_name() not in CLOCKED
        return await rows(query, values)

    monkeypatch.setattr(database, "rows", counted)
    await asyncio.gather(*(bot.play() for bot in bots))
    answers = sum(len(bot.acked) for bot in bots)
    # Only the five connections read, each at its beginning.
    assert answers > 30
    assert queries < 20 * len(bots), queries


async def test_a_seat_that_comes_back_is_not_asked_again_what_it_has_answered(served: Served) -> None:
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    identify = {"token": tokens[1]}
    async with watching(served.ws_url) as first:
        await first.identify(game, **identify)
        for kind, action in (("propose_team", {"team": [1, 2]}), ("vote", {"approve": True})):
            request = await next_of(first, "request")
            assert request["kind"] == kind
            await first.send(t="act", id=kind, request_id=request["request_id"], action=action)
            assert (await next_of(first, "ack"))["re"] == kind
        last = first.items[-1]["seq"]
    # The other four have not voted, so the vote is still open.
    for _ in range(3):
        async with watching(served.ws_url) as again:
            await again.identify(game, **identify, after=last)
            await again.send(t="ping", id="p")
            await next_of(again, "ack")
            await asyncio.sleep(0.2)
            await again.send(t="ping", id="q")
            await next_of(again, "ack")
            assert not [frame for frame in again.frames if frame["t"] == "request"]


async def test_nothing_is_kept_of_a_finished_game(served: Served) -> None:
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
        seats = [HttpBot(client, game, tokens[seat], seat).play() for seat in (1, 2)]
        seats += [Bot(lambda: served.ws_url, game, tokens[seat], seat).play() for seat in (3, 4, 5)]
        await asyncio.gather(*seats)
    await until(lambda: game not in served.services.seats._driven)
    await until(lambda: not served.services.feed.tails._kept)


class Held:
    """What a half of a connection holds."""


async def test_what_a_connection_held_is_gone_without_a_collection_of_garbage() -> None:
    async def ends(held: Held) -> NoReturn:
        raise Closing(Code.OVER, "over")

    async def goes_on(held: Held) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    held = [Held(), Held()]
    there = [weakref.ref(one) for one in held]
    gc.disable()
    try:
        with contextlib.suppress(Closing):
            await SocketTalk._both(cast("SocketTalk", None), goes_on(held[0]), ends(held[1]))
        held.clear()
        await asyncio.sleep(0)
        assert [one() for one in there] == [None, None]
    finally:
        gc.enable()
