"""``Seat.act`` ends, whatever the server does: against the service, and against one that misbehaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from interintent_client import (
    GameOver,
    Refused,
    Replaced,
    Request,
    Seat,
    Server,
    Unacknowledged,
    Unreachable,
    backoff,
    stream,
)
from websockets.asyncio.server import ServerConnection, serve

from tests.app.real_server import Served
from tests.ports import steady_port

Frame = dict[str, Any]

SEATS = [{"agent": "remote"}, *[{"agent": "random"}] * 4]
AT: Frame = {"at": "2026-03-01T12:00:00.000Z", "game": "g"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interintent_client.backoff.FIRST_S", 0.02)
    monkeypatch.setattr("interintent_client.backoff.LONGEST_S", 0.2)
    monkeypatch.setattr("interintent_client.seat.LATE_S", 0.2)
    monkeypatch.setattr("interintent_client.seat.SETTLING_S", 1.0)


# --- a server that misbehaves -----------------------------------------------------------------------


def asked(request_id: str, ttl_ms: int | None = None) -> Frame:
    return {"t": "request", "request_id": request_id, "kind": "vote", "attempts_left": 3, "ttl_ms": ttl_ms}


def happened(seq: int, type_: str, **more: Any) -> Frame:
    return {"t": "events", "items": [{"seq": seq, "type": type_, **AT, **more}]}


Acts = Callable[[ServerConnection, Frame], Awaitable[object]]


def talking(on_act: Acts, first: Frame) -> Callable[[ServerConnection], Awaitable[None]]:
    """Says ``first`` after welcome, then does with each act whatever it likes."""

    async def talk(socket: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            await socket.recv()
            await socket.send(
                json.dumps({"t": "welcome", "game": "g", "viewer": "seat:1", "head": 0, "after": 0})
            )
            await socket.send(json.dumps(first))
            async for text in socket:
                await on_act(socket, json.loads(text))

    return talk


@contextlib.asynccontextmanager
async def misbehaving(on_act: Acts, first: Frame) -> AsyncIterator[Seat]:
    """A seat of a server that talks so. It knows no HTTP."""
    async with (
        serve(talking(on_act, first), "127.0.0.1", 0) as server,
        Server(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", tries=2) as client,
        client.game("g").seat(1, token="t") as seat,
    ):
        yield seat


async def first_of(seat: Seat) -> Request:
    async with asyncio.timeout(200):
        return await anext(aiter(seat))


async def says(socket: ServerConnection, *frames: Frame) -> None:
    for frame in frames:
        await socket.send(json.dumps(frame))


async def nothing(socket: ServerConnection, act: Frame) -> None:
    """Reads, and never says a word."""


def saying(*frames: Frame) -> Acts:
    return lambda socket, act: says(socket, *frames)


ENDS: dict[str, tuple[Acts, Frame, type[Exception]]] = {
    "says nothing until the deadline": (nothing, asked("1.1.vote.1", 100), Unacknowledged),
    "asks for something else": (saying(asked("1.1.card.1")), asked("1.1.vote.1"), Unacknowledged),
    "asks for something else in an error of another": (
        saying({"t": "error", "re": "other", "code": "too-late", "request": asked("1.1.card.1")}),
        asked("1.1.vote.1"),
        Unacknowledged,
    ),
    "plays the default": (
        saying(happened(1, "action_defaulted", seat=1, request_id="1.1.vote.1", cause="deadline")),
        asked("1.1.vote.1"),
        Unacknowledged,
    ),
    "ends the game and stays": (saying(happened(1, "game_ended")), asked("1.1.vote.1"), GameOver),
    "cancels the game and stays": (saying(happened(1, "game_cancelled")), asked("1.1.vote.1"), GameOver),
    "ends the game": (lambda socket, act: socket.close(1000), asked("1.1.vote.1"), GameOver),
    "gives the seat away": (lambda socket, act: socket.close(4409), asked("1.1.vote.1"), Replaced),
    "says an error without re": (
        saying({"t": "error", "code": "unparsable", "detail": "no JSON"}),
        asked("1.1.vote.1"),
        Refused,
    ),
    "says an error whose re is null": (
        saying({"t": "error", "re": None, "code": "invalid-request", "detail": "?"}),
        asked("1.1.vote.1"),
        Refused,
    ),
    "acknowledges something else": (
        saying(
            {"t": "ack", "re": "other", "request_id": "1.1.vote.1", "status": "accepted", "duplicate": False}
        ),
        asked("1.1.vote.1", 100),
        Unacknowledged,
    ),
    "says it is too fast, and no more": (
        saying({"t": "error", "re": None, "code": "rate-limited", "detail": "too many"}),
        asked("1.1.vote.1", 100),
        Unacknowledged,
    ),
    "cuts, and again": (lambda socket, act: socket.close(1012), asked("1.1.vote.1", 400), Unacknowledged),
    "says what is no JSON": (lambda socket, act: socket.send("?"), asked("1.1.vote.1"), ValueError),
}


@pytest.mark.parametrize("case", ENDS)
async def test_an_answer_settles_whatever_the_server_does(case: str) -> None:
    on_act, first, error = ENDS[case]
    async with misbehaving(on_act, first) as seat:
        request = await first_of(seat)
        with pytest.raises(error):
            async with asyncio.timeout(200):
                await seat.act(request, {"approve": True})


async def test_a_request_that_closed_without_a_word_is_asked_for_over_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ack = {
        "request_id": "1.1.vote.1",
        "duplicate": True,
        "thoughts_refused": [{"pointer": "/thoughts/0", "message": "x"}],
    }

    async def post(*given: Any, **more: Any) -> Frame:
        return ack

    monkeypatch.setattr("interintent_client.http.Http.post", post)
    async with misbehaving(saying(asked("1.1.card.1")), asked("1.1.vote.1")) as seat:
        request = await first_of(seat)
        async with asyncio.timeout(200):
            found = await seat.act(request, {"approve": True})
            assert (found.duplicate, list(found.thoughts_refused)) == (True, ack["thoughts_refused"])
            # And so is an answer to what had closed before.
            assert (await seat.act(request, {"approve": True})).duplicate


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each wait for a server that is gone, as the failures before it; it takes no time."""
    found: list[int] = []

    def no_wait(failures: int) -> float:
        found.append(failures)
        return 0.0

    monkeypatch.setattr(stream, "wait_s", no_wait)
    return found


async def test_a_server_that_is_gone_for_good_ends_an_answer_without_a_deadline(failures: list[int]) -> None:
    async with serve(talking(nothing, asked("1.1.vote.1")), "127.0.0.1", 0) as server:
        url = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Server(f"http://{url}") as client, client.game("g").seat(1, token="t") as seat:
            request = await first_of(seat)
            acting = asyncio.create_task(seat.act(request, {"approve": True}))
            server.close()
            await server.wait_closed()
            told = rf"^ws://{url}/ws: gave up after {backoff.PATIENCE} failures in a row, .*patience=None"
            for waiting in (acting, anext(aiter(seat)), seat.act(request, {"approve": True})):
                with pytest.raises(Unreachable, match=told):
                    await asyncio.wait_for(waiting, 60)
    assert failures == list(range(backoff.PATIENCE - 1))


def test_the_patience_that_one_has_by_itself_is_about_ten_minutes() -> None:
    longest = [min(30.0, 0.5 * 2**failures) for failures in range(backoff.PATIENCE - 1)]
    assert 540 < sum(longest) / 2 < 660  # a wait is half its longest on average


async def test_without_an_end_of_patience_a_server_may_be_gone_for_as_long_as_it_likes(
    failures: list[int],
) -> None:
    async def acknowledged(socket: ServerConnection, act: Frame) -> None:
        await says(
            socket, {"t": "ack", "re": act["id"], "request_id": act["request_id"], "status": "accepted"}
        )

    port = steady_port()
    async with serve(talking(nothing, asked("1.1.vote.1")), "127.0.0.1", port):
        client = Server(f"http://127.0.0.1:{port}")
        seat = client.game("g").seat(1, token="t", patience=None)
        request = await first_of(seat)
        acting = asyncio.create_task(seat.act(request, {"approve": True}))
    async with client, seat, asyncio.timeout(60):
        while len(failures) <= 2 * backoff.PATIENCE:  # noqa: ASYNC110
            await asyncio.sleep(0)
        async with serve(talking(acknowledged, asked("1.1.vote.1")), "127.0.0.1", port):
            assert not (await acting).duplicate


async def test_an_error_without_re_is_about_the_oldest_answer() -> None:
    heard: list[str] = []

    async def second_only(socket: ServerConnection, act: Frame) -> None:
        heard.append(act["id"])
        if len(heard) == 2:
            ack = {"t": "ack", "re": heard[1], "request_id": act["request_id"], "status": "accepted"}
            await says(socket, {"t": "error", "code": "unparsable", "detail": "?"}, ack)

    async with misbehaving(second_only, asked("1.1.vote.1")) as seat:
        request = await first_of(seat)
        async with asyncio.timeout(200):
            one, two = await asyncio.gather(
                *(seat.act(request, {"approve": True}) for _ in range(2)), return_exceptions=True
            )
    assert isinstance(one, Refused)
    assert not isinstance(two, BaseException)


async def test_who_leaves_or_is_cancelled_waits_for_nothing() -> None:
    async with misbehaving(nothing, asked("1.1.vote.1")) as seat:
        request = await first_of(seat)
        waiting = [asyncio.create_task(seat.act(request, {"approve": True})) for _ in range(2)]
        await asyncio.sleep(0.1)
        waiting[0].cancel()
        await seat.aclose()
        async with asyncio.timeout(200):
            done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert isinstance(done[1], Unacknowledged)


async def test_what_is_no_json_and_a_name_in_use_are_refused_at_once() -> None:
    async with misbehaving(nothing, asked("1.1.vote.1")) as seat:
        request = await first_of(seat)
        for value in (float("nan"), b"yes"):
            with pytest.raises(ValueError, match="JSON"):
                await seat.act(request, {"approve": value})
        first = asyncio.create_task(seat.act(request, {"approve": True}, message_id="a"))
        await asyncio.sleep(0.1)
        with pytest.raises(ValueError, match="waiting"):
            await seat.act(request, {"approve": True}, message_id="a")
        first.cancel()


# --- the service --------------------------------------------------------------------------------------


async def test_whatever_is_answered_the_service_settles_it(served: Served) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with game.seat(1) as seat, asyncio.timeout(100):
            requests = aiter(seat)
            request = await anext(requests)
            assert request.thoughts_schema["type"] == "array"
            for action, name, code in (
                ({"team": [1, 2], "text": "\0"}, None, "invalid-action"),
                ({"team": [1, 2], "text": "\ud800"}, "a\0", "invalid-action"),
                ([1, 2], None, "invalid-request"),
                ({"team": [1, {"a": [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}]}, None, "unparsable"),
            ):
                with pytest.raises(Refused) as refused:
                    await seat.act(request, action, message_id=name)  # type: ignore[arg-type]
                assert refused.value.code == code
                if code != "unparsable":
                    assert refused.value.request is not None
                    assert refused.value.request.request_id == request.request_id
            thoughts = [{"type": "choice_explained", "text": "Why."}, {"type": "guess"}]
            ack = await seat.act(request, {"team": [1, 2], "text": "a\r\nb"}, thoughts)
            assert [fault["pointer"] for fault in ack.thoughts_refused] == ["/thoughts/1/type"]
            again = await seat.act(request, {"team": [1, 2], "text": "a\nb"})
            assert (again.duplicate, list(again.thoughts_refused)) == (True, list(ack.thoughts_refused))


async def test_the_researcher_without_a_token_learns_over_http_what_became_of_an_answer(
    served: Served,
) -> None:
    async with Server(served.url) as server:
        game = (await server.create_games(seats=SEATS)).games[0]
        async with server.game(game.id).seat(1) as seat, asyncio.timeout(100):
            requests = aiter(seat)
            first = await anext(requests)
            # A lone surrogate, which no UTF-8 can write, is the server's to refuse on both ways.
            thoughts = [{"type": "choice_explained", "text": "\ud800"}]
            ack = await seat.act(first, first.default, thoughts)
            await anext(requests)
            again = await seat.act(first, first.default, thoughts)
            assert again.duplicate
            assert [fault["pointer"] for fault in again.thoughts_refused] == ["/thoughts/0/text"]
            assert again.thoughts_refused == ack.thoughts_refused
