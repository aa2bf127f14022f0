"""A seat played by the client: on a live service over a bad line, and against the acted server."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from interintent_client import Event, Refused, Replaced, Request, Server, TokenRefused

from tests.app.real_server import Served
from tests.app.watcher import projection
from tests.client.cutting import cutting

SEATS = [{"agent": "remote"}, *[{"agent": "random"}] * 4]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interintent_client.backoff.FIRST_S", 0.02)
    monkeypatch.setattr("interintent_client.backoff.LONGEST_S", 0.2)


def choose(request: Request, events: Sequence[Event]) -> Any:
    return random.Random(len(events)).choice(request.legal) if request.legal else request.default


@pytest.mark.parametrize("seed", range(2))
async def test_a_seat_is_played_to_the_end_over_a_line_that_is_cut(served: Served, seed: int) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        game = (await direct.create_games(seats=SEATS)).games[0]
        proxy.cut_at_random(10, 4_000, seed)
        async with server.game(game.id, tokens=game.tokens).seat(1) as seat:
            asked = []
            async for request in seat:
                asked.append(request.request_id)
                ack = await seat.act(request, choose(request, seat.events))
                assert ack.request_id == request.request_id
        assert proxy.cuts >= 4
        assert len(asked) == len(set(asked)) >= 6
        # All that it saw, each event once, and nothing was played in its place.
        assert [event.raw for event in seat.events] == await projection(served.services, game.id, 1)
        assert seat.events[-1].type == "game_ended"
        assert not [one for one in seat.events if one.type in ("action_defaulted", "action_refused")]


async def test_a_refused_answer_is_asked_for_again_and_thoughts_are_kept(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with game.seat(1) as seat:
            requests = aiter(seat)
            first = await anext(requests)
            assert first.kind == "propose_team"
            with pytest.raises(Refused) as refused:
                await seat.act(first, {"team": [1, 1]})
            assert (refused.value.code, refused.value.attempts_left) == ("illegal-action", 2)
            again = await anext(requests)
            assert (again.request_id, again.attempts_left) == (first.request_id, 2)
            chosen = {"type": "intentions_selected", "stage": "final", "intentions": [{"id": again.menu[0]}]}  # type: ignore[index]
            assert not (await seat.act(again, {"team": [1, 2], "text": "Us."}, [chosen])).duplicate
            # The same once more is the same ack; something else is refused.
            assert (await seat.act(again, {"team": [1, 2], "text": "Us."})).duplicate
            with pytest.raises(Refused, match="already-answered"):
                await seat.act(again, {"team": [1, 3]})
            events = await seat.play(choose)
        assert "intentions_selected" in [event.type for event in events]


async def test_the_longest_text_fits_and_what_is_too_large_does_not_cost_the_seat(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with game.seat(1) as seat:
            first = await anext(aiter(seat))
            with pytest.raises(
                ValueError, match="an answer with its thoughts has at most 32,768 bytes, got 40,"
            ):
                await seat.act(first, {"team": [1, 2], "text": "x" * 40_000})
            with pytest.raises(Refused, match="lone surrogate"):
                await seat.act(first, {"team": [1, 2], "text": "\ud800"})
            text = "\U0001f600" * 4_000
            await seat.act(first, {"team": [1, 2], "text": text})
            events = await seat.play(choose)
        assert text in [event.raw.get("text") for event in events]


async def test_play_goes_on_after_refusals_and_to_the_end(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        refusals: list[Refused] = []

        async def clumsy(request: Request, events: Sequence[Event]) -> Any:
            return (
                {"team": []} if request.kind == "propose_team" and not refusals else choose(request, events)
            )

        async with game.seat(1) as seat:
            events = await seat.play(clumsy, refusals.append)
        assert len(refusals) == 1
        assert events[-1].type == "game_ended"


async def test_the_newer_connection_takes_the_seat_and_the_older_stays_away(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with game.seat(1) as older, game.seat(1) as newer:
            asked = aiter(older)
            await anext(asked)
            playing = asyncio.create_task(newer.play(choose))
            with pytest.raises(Replaced):
                await anext(asked)
            assert (await asyncio.wait_for(playing, 60))[-1].type == "game_ended"


async def test_a_void_token_is_minted_anew(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        old = game.tokens[1]
        assert old is not None
        fresh = await game.mint_token("seat:1", raise_epoch=True)
        async with game.seat(1, token=old) as seat:
            with pytest.raises(TokenRefused):
                await anext(aiter(seat))
        tokens = iter([old, fresh])

        async def mint() -> str:
            return next(tokens)

        async with game.seat(1, token=mint) as seat:
            assert (await seat.play(choose))[-1].type == "game_ended"


async def test_the_researcher_sits_down_without_a_token(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with server.game(game.id).seat(1) as seat:
            assert (await seat.play(choose))[-1].type == "game_ended"
