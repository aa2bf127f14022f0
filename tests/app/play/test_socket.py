import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.stream.pages import MAX_EVENTS
from engine.events import EVENT_TYPES
from engine.terms import FULL, PUBLIC
from tests.app.calling import WITHIN_S, until
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import projection, watched_to_the_end, watching
from tests.tiers import postgres_in_long_tier

PUBLIC_TYPES = {name for name, kind in EVENT_TYPES.items() if kind.seen_by == "public"}
VIEWERS = {"public": PUBLIC, "full": FULL, "seat:1": 1, "seat:4": 4}


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with running_server(local_settings(database_url)) as server:
        yield server
        await nothing_is_left_over(server)


OURS = {"socket in", "socket out", "page", "row", "places", "relay"}
"""Names of tasks that a connection has."""


async def nothing_is_left_over(server: Served) -> None:
    """Every connection has ended, so no task and no watch of one may be there."""

    def left() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() in OURS]

    try:
        await until(lambda: not left() and not server.services.feed._watches)
    except TimeoutError:
        pytest.fail(f"left over: {left()}, {server.services.feed._watches}")


async def post(server: Served, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=server.url, timeout=WITHIN_S, trust_env=False) as client:
        answer = await client.post(path, json=body)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def new_game(server: Served, **wish: Any) -> str:
    batch = await post(server, "/games", wish)
    game: str = batch["games"][0]["game_id"]
    return game


async def finished_game(server: Served, **wish: Any) -> str:
    game = await new_game(server, **wish)
    async with asyncio.timeout(WITHIN_S):
        # Another process's database has no event to wait on.
        while (await server.services.store.game(game)).status != "finished":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return game


# --- the stream -----------------------------------------------------------------------------


@pytest.mark.parametrize("viewer", VIEWERS)
async def test_after_the_end_a_viewer_gets_exactly_its_projection(served: Served, viewer: str) -> None:
    game = await finished_game(served)
    seen = await watched_to_the_end(served.ws_url, game, viewer=viewer)
    expected = await projection(served.services, game, VIEWERS[viewer])
    assert seen.items == expected
    assert seen.welcome == {
        "t": "welcome", "game": game, "viewer": viewer, "head": len(expected), "after": 0
    }  # fmt: skip


async def test_a_public_viewer_is_sent_public_events_only(served: Served) -> None:
    game = await finished_game(served)
    seen = await watched_to_the_end(served.ws_url, game, viewer="public")
    assert {item["type"] for item in seen.items} <= PUBLIC_TYPES
    public = await projection(served.services, game, PUBLIC)
    hidden = [e for e in await projection(served.services, game, FULL) if e["type"] not in PUBLIC_TYPES]
    # A draft that was spoken is no secret; nor is a word that anybody might use.
    said = json.dumps(public, ensure_ascii=False)
    secrets = [text for text in texts_in(hidden) if len(text) > 20 and text not in said]
    assert secrets  # otherwise the next line proves nothing
    sent = json.dumps(seen.frames, ensure_ascii=False)
    assert not [secret for secret in secrets if secret in sent]


def texts_in(value: Any) -> Iterator[str]:
    """Every string among JSON values, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


@pytest.mark.parametrize("viewer", VIEWERS)
async def test_a_viewer_that_joins_in_the_middle_gets_what_was_and_what_comes(
    served: Served, viewer: str
) -> None:
    game = await new_game(served, drive="manual")
    await post(served, f"/games/{game}/step", {"until": "round"})
    async with watching(served.ws_url) as one:
        welcome = await one.identify(game, viewer=viewer)
        await one.until_seq(welcome["head"])
        assert one.items == await projection(served.services, game, VIEWERS[viewer])
        stepping = asyncio.create_task(post(served, f"/games/{game}/step", {"until": "end"}))
        assert await one.until_closed() == 1000
        await stepping
    assert one.items == await projection(served.services, game, VIEWERS[viewer])


async def test_a_step_reaches_a_waiting_viewer_without_a_beat_in_between(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        welcome = await one.identify(game)
        await one.until_seq(welcome["head"])
        for _ in range(10):
            before = one.items[-1]["seq"]
            stepped = await post(served, f"/games/{game}/step", {"until": "action"})
            await one.until_seq(before + len(stepped["events"]))
    assert {frame["t"] for frame in one.frames} == {"events"}
    assert one.items == await projection(served.services, game, FULL)


@pytest.mark.parametrize("after", [1, 17])
async def test_after_resumes_behind_that_event(served: Served, after: int) -> None:
    game = await finished_game(served)
    for viewer, eyes in VIEWERS.items():
        seen = await watched_to_the_end(served.ws_url, game, viewer=viewer, after=after)
        assert seen.items == (await projection(served.services, game, eyes))[after:]
        assert seen.items[0]["seq"] == after + 1


async def test_after_head_of_a_finished_game_is_just_the_end(served: Served) -> None:
    game = await finished_game(served)
    head = len(await projection(served.services, game, PUBLIC))
    seen = await watched_to_the_end(served.ws_url, game, viewer="public", after=head)
    assert seen.frames == []


async def test_after_beyond_head_is_refused(served: Served) -> None:
    game = await finished_game(served)
    head = len(await projection(served.services, game, PUBLIC))
    # The full log is longer: the viewer's own head is what counts.
    for after in (head + 1, 10**40):
        async with watching(served.ws_url) as one:
            await one.send(t="identify", v=1, game=game, viewer="public", after=after)
            assert await one.close_code() == 4416


async def test_a_long_stream_comes_in_full_pages(served: Served) -> None:
    game = await finished_game(served, players=10, seats=[{"agent": "scripted"}])
    seen = await watched_to_the_end(served.ws_url, game)
    sizes = [len(frame["items"]) for frame in seen.frames]
    assert len(sizes) > 1
    assert all(1 <= size <= MAX_EVENTS for size in sizes)
    assert seen.items == await projection(served.services, game, FULL)


async def test_a_cancelled_game_ends_the_stream(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        await one.identify(game, viewer="public")
        await post(served, f"/games/{game}/cancel", {})
        assert await one.until_closed() == 1000
    assert one.items[-1]["type"] == "game_cancelled"


async def test_a_failed_game_ends_the_stream(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        await one.identify(game, viewer="public")
        await served.services.store.mark_failed(game, "0123456789abcdef", 1)
        served.services.feed.hint(game)
        assert await one.until_closed() == 1000
    assert one.items == await projection(served.services, game, PUBLIC)


@postgres_in_long_tier
async def test_many_spectators_of_a_running_game_all_get_its_projection(served: Served) -> None:
    game = await new_game(served, drive="manual")
    watchers = [
        asyncio.create_task(watched_to_the_end(served.ws_url, game, viewer=viewer))
        for viewer in VIEWERS
        for _ in range(10)
    ]
    await asyncio.sleep(0.2)
    for _ in range(5):
        await post(served, f"/games/{game}/step", {"until": "phase"})
    await post(served, f"/games/{game}/step", {"until": "end"})
    for seen in await asyncio.gather(*watchers):
        expected = await projection(served.services, game, VIEWERS[seen.welcome["viewer"]])
        assert seen.items == expected


CLIENTS, CUTS = 20, 20


@postgres_in_long_tier
async def test_streams_cut_at_random_and_resumed_have_no_gap_and_no_repeat(served: Served) -> None:
    """20 clients, each cut 20 times without a goodbye, while the game goes on."""
    game = await new_game(served, drive="manual")
    chance = random.Random(20)

    async def client(viewer: str, chance: random.Random) -> list[dict[str, Any]]:
        had: list[dict[str, Any]] = []
        for _ in range(CUTS):
            async with watching(served.ws_url) as one:
                await one.identify(game, viewer=viewer, after=len(had))
                for _ in range(chance.randrange(3)):
                    try:
                        async with asyncio.timeout(chance.random() * 0.05):
                            await one.next()
                    except (TimeoutError, ConnectionClosed):
                        break
                # What was taken counts; what was on its way is lost with the connection.
                one.connection.transport.abort()
            had += one.items[: chance.randrange(len(one.items) + 1)]
        rest = await watched_to_the_end(served.ws_url, game, viewer=viewer, after=len(had))
        return had + rest.items

    async def play() -> None:
        for _ in range(12):
            await post(served, f"/games/{game}/step", {"until": "phase"})
            await asyncio.sleep(0.1)
        await post(served, f"/games/{game}/step", {"until": "end"})

    playing = asyncio.create_task(play())
    names = [list(VIEWERS)[n % len(VIEWERS)] for n in range(CLIENTS)]
    streams = await asyncio.gather(*(client(name, random.Random(chance.random())) for name in names))
    await playing
    for name, stream in zip(names, streams, strict=True):
        assert stream == await projection(served.services, game, VIEWERS[name])


# --- the conversation -----------------------------------------------------------------------


async def test_hello_says_what_holds(served: Served) -> None:
    async with watching(served.ws_url) as one:
        conn = one.hello.pop("conn")
        assert conn.startswith("c_")
        assert one.hello == {
            "t": "hello", "v": 1, "identify_within_ms": 5000, "max_message": 32768, "idle_ms": 25000
        }  # fmt: skip
        assert one.connection.subprotocol == "avalon.v1"
        assert not one.connection.response.headers.get("Sec-WebSocket-Extensions")


@pytest.mark.parametrize("offered", [None, ["avalon.v9"]])
async def test_a_client_that_does_not_offer_our_subprotocol_gets_none(
    served: Served, offered: list[Any] | None
) -> None:
    async with connect(served.ws_url, subprotocols=offered, proxy=None, open_timeout=WITHIN_S) as connection:
        assert json.loads(await connection.recv())["t"] == "hello"
        assert connection.subprotocol is None


async def test_without_a_key_the_caller_is_the_researcher(served: Served) -> None:
    game = await finished_game(served)
    async with watching(served.ws_url) as one:
        assert (await one.identify(game))["viewer"] == "full"


async def test_a_ping_is_acked(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        welcome = await one.identify(game)
        await one.until_seq(welcome["head"])
        await one.send(t="ping", id="p1")
        assert await one.next() == {"t": "ack", "re": "p1"}


async def test_a_watcher_that_acts_gets_unknown_request(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        welcome = await one.identify(game, viewer="seat:1")
        await one.until_seq(welcome["head"])
        # Well-formed, so not one of the three faults that end a connection.
        for n in range(5):
            await one.send(t="act", id=f"a{n}", request_id="1.1.propose_team.1", action={"team": [1, 2]})
            frame = await one.next()
            assert (frame["t"], frame["re"], frame["code"]) == ("error", f"a{n}", "unknown-request")


async def test_silence_is_broken_by_beats_with_the_viewers_own_head(database_url: str) -> None:
    async with running_server(local_settings(database_url, idle_s=0.3)) as served:
        game = await new_game(served, drive="manual")
        async with watching(served.ws_url) as one:
            welcome = await one.identify(game, viewer="public")
            await one.until_seq(welcome["head"])
            assert one.hello["idle_ms"] == 300
            assert await one.next() == {"t": "beat", "head": welcome["head"]}
            assert await one.next() == {"t": "beat", "head": welcome["head"]}


async def test_no_beat_comes_before_there_was_silence(database_url: str) -> None:
    async with running_server(local_settings(database_url, idle_s=0.3)) as served:
        game = await new_game(served, drive="manual")
        started = asyncio.get_running_loop().time()
        async with watching(served.ws_url) as one:
            welcome = await one.identify(game, viewer="public")
            await one.until_seq(welcome["head"])
            for _ in range(4):
                assert (await one.next())["t"] == "beat"
        # Each after its own silence; a slow machine only makes it more.
        assert asyncio.get_running_loop().time() - started >= 4 * 0.3


async def test_events_a_viewer_may_not_see_do_not_shift_its_beats(database_url: str) -> None:
    async with running_server(local_settings(database_url, idle_s=0.5)) as served:
        game = await new_game(served, drive="manual")
        async with watching(served.ws_url) as one:
            welcome = await one.identify(game, viewer="public")
            await one.until_seq(welcome["head"])
            beat = asyncio.create_task(one.next())
            # Were it put off by each, none would come: one.next() gives up after a minute.
            while not beat.done():
                served.services.feed.hint(game)
                await asyncio.sleep(0.05)
            assert (await beat)["t"] == "beat"


async def test_a_stop_closes_with_1012(database_url: str) -> None:
    async with running_server(local_settings(database_url)) as served:
        game = await new_game(served, drive="manual")
        async with watching(served.ws_url) as one:
            await one.identify(game)
            served.server.stop()
            assert await one.until_closed() == 1012


async def test_a_draining_replica_lets_its_watchers_go_and_takes_no_new_ones(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        await one.identify(game)
        served.services.lifecycle.drain()
        assert await one.until_closed() == 1012
    with pytest.raises(InvalidStatus) as refused:
        await connect(served.ws_url, proxy=None, open_timeout=WITHIN_S)
    assert refused.value.response.status_code == 503
    assert json.loads(refused.value.response.body)["code"] == "draining"


# --- who may ---------------------------------------------------------------------------------


async def test_a_missing_or_wrong_token_is_refused_before_anything_is_looked_up(database_url: str) -> None:
    settings = local_settings(database_url, api_key="ik_right")
    async with running_server(settings) as served:
        for more in ({}, {"token": "ik_wrong"}, {"token": ""}, {"token": "\u00e9" * 40}):
            async with watching(served.ws_url) as one:
                await one.send(t="identify", v=1, game="g_none", **more)
                assert await one.close_code() == 4401
        async with watching(served.ws_url) as one:
            await one.send(t="identify", v=1, game="g_none", token="ik_right")
            assert await one.close_code() == 4403


async def test_an_unknown_game_is_refused(served: Served) -> None:
    for game in ("g_none", "' OR 1=1 --", "g_\N{SNOWMAN}"):
        async with watching(served.ws_url) as one:
            await one.send(t="identify", v=1, game=game)
            assert await one.close_code() == 4403


async def test_another_origin_and_a_bent_host_are_refused_at_the_handshake(served: Served) -> None:
    port = served.url.rpartition(":")[2]
    for uri, options in (
        (served.ws_url, {"origin": "https://evil.example"}),
        (served.ws_url, {"origin": "null"}),
        # A name of somebody else's that leads to this machine.
        (f"ws://rebound.example:{port}/ws", {"host": "127.0.0.1"}),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(uri, proxy=None, open_timeout=WITHIN_S, **options)
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body)["code"] == "forbidden"


async def test_the_services_own_pages_and_listed_origins_may_connect(database_url: str) -> None:
    async with running_server(local_settings(database_url, origins="https://lab.example")) as served:
        for origin in ("https://lab.example", served.url):
            async with watching(served.ws_url, origin=origin) as one:
                assert one.hello["t"] == "hello"


async def test_a_broken_part_closes_with_1011_and_says_nothing_of_what_broke(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = await new_game(served, drive="manual")

    async def broken(*_: object) -> object:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(served.services.reader, "follow", broken)
    async with watching(served.ws_url) as one:
        await one.identify(game)
        assert await one.until_closed() == 1011
        closed = one.connection.close_reason or ""
    assert closed.startswith("trace id ")
    assert "swordfish" not in closed + json.dumps(one.frames)


@pytest.mark.parametrize("viewer", VIEWERS)
@postgres_in_long_tier
async def test_a_hole_that_appears_under_a_watcher_closes_it_and_drops_nothing(
    served: Served, viewer: str
) -> None:
    """What was committed elsewhere and is gone before it is read: by its own numbers nobody would miss it."""
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        welcome = await one.identify(game, viewer=viewer)
        await one.until_seq(welcome["head"])
        # Nothing that this process remembers of its own commits, and nothing that it reads too early.
        await served.services.pulse.stop()
        served.services.feed.committed = lambda game_id, lines: None  # type: ignore[method-assign]
        await post(served, f"/games/{game}/step", {"until": "phase"})
        async with served.services.database.write_engine.begin() as connection:
            place = (
                "SELECT min(seq) FROM events WHERE game_id = :game AND audience = 0 "
                "AND type = 'utterance_made'"
            )
            await connection.execute(
                text(f"DELETE FROM events WHERE game_id = :game AND seq = ({place})"), {"game": game}
            )
        served.services.feed.ring(game)
        assert await one.until_closed() == 1011
        assert len(one.items) == welcome["head"]
    async with watching(served.ws_url) as again:
        await again.identify(game, viewer=viewer)
        assert await again.until_closed() == 1011
    async with httpx.AsyncClient(base_url=served.url, timeout=200, trust_env=False) as client:
        answer = await client.get(f"/games/{game}/events", params={"viewer": viewer})
    assert answer.json()["code"] == "corrupt-log"
