"""Whoever reads an answer of many lines gets no more of it than a new request would show."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.base.clock import now_ms
from app.games import following
from engine.events import Event
from tests.app.edge.test_keys import bearer, make_key, store_of, until_status
from tests.app.evaluations.sealing import BATCH, GAMES, add_keys, key_of, lay_games, scripted_log, sealed
from tests.app.real_server import WITHIN_S, Served, local_settings, running_server

pytestmark = pytest.mark.anyio

OPERATOR = "ik_" + "o" * 43
REMOTE = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with running_server(local_settings(database_url, api_key=OPERATOR)) as server:
        yield server


@pytest.fixture
def logs() -> list[tuple[Event, ...]]:
    return [scripted_log(seed) for seed in range(GAMES)]


@asynccontextmanager
async def calling_as(served: Served, key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=served.url, headers=bearer(key), trust_env=False, timeout=WITHIN_S
    ) as client:
        yield client


class Gate:
    """Holds the second of some calls up, as a client holds up its answer that stops reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, passing: int = 1) -> None:
        self._work: Callable[..., Any] = getattr(owner, name)
        self._left = passing
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(owner, name, self._held)

    async def _held(self, *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            self.reached.set()
            await self.open.wait()
        return await self._work(*arguments, **named)


async def broken_off(client: httpx.AsyncClient, path: str, gate: Gate, meanwhile: Callable[[], Any]) -> bytes:
    """What comes of an answer that breaks off because of what happens while it is held up."""

    async def act() -> None:
        await gate.reached.wait()
        await meanwhile()
        gate.open.set()

    got = b""
    acting = asyncio.create_task(act())
    try:
        async with asyncio.timeout(WITHIN_S), client.stream("GET", path) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for piece in answer.aiter_bytes():
                got += piece
    except httpx.RemoteProtocolError:
        await acting
        return got
    raise AssertionError(f"the answer came to its end: {len(got)} bytes")


async def revoked(served: Served, client: httpx.AsyncClient, key_id: str) -> None:
    assert await store_of(served).revoke(key_id, now_ms())
    await until_status(client, "/me", 401)


async def test_an_export_in_full_ends_before_a_game_to_whose_table_others_have_come(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, key = await make_key(store_of(served), "games:create", "games:read", "export:full", "tokens:mint")
    async with calling_as(served, key) as host:
        made = (await host.post("/games", json={"count": 2, "seats": REMOTE})).json()
        first, last = (game["game_id"] for game in made["games"])
        export = f"/batches/{made['batch_id']}/export?partial=true&view="

        async def give_away() -> None:
            code = await host.post(f"/games/{last}/seats/1/claim-code")
            assert code.status_code == 201, code.text
            assert (await host.get(f"{export}full")).status_code == 403

        gate = Gate(monkeypatch, served.services.reader, "whole_log")
        got = await broken_off(host, f"{export}full", gate, give_away)
        assert first.encode() in got
        assert last.encode() not in got
        assert b"export.end" not in got
        # Everybody's view of the batch, and the game that is the host's alone, are as before.
        public = (await host.get(f"{export}public")).content
        assert last.encode() in public
        assert b"export.end" in public
        assert (await host.get(f"/games/{first}?viewer=full")).status_code == 200


@pytest.mark.parametrize("follow", ["true", "false"])
async def test_a_log_is_read_on_page_by_page_only_as_long_as_its_reader_may(
    served: Served, monkeypatch: pytest.MonkeyPatch, follow: str
) -> None:
    monkeypatch.setattr(following, "PAGE", 3)
    _, key = await make_key(store_of(served), "games:create", "games:read", "export:full", "tokens:mint")
    async with calling_as(served, key) as host:
        made = (await host.post("/games", json={"seats": REMOTE})).json()
        game = made["games"][0]["game_id"]

        async def give_away() -> None:
            code = await host.post(f"/games/{game}/seats/1/claim-code")
            assert code.status_code == 201, code.text

        gate = Gate(monkeypatch, served.services.reader, "lines")
        path = f"/games/{game}/events?follow={follow}&viewer=full"
        if follow == "false":
            got = await broken_off(host, path, gate, give_away)
        else:
            got = b""
            async with asyncio.timeout(WITHIN_S), host.stream("GET", path) as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
                    await gate.reached.wait()
                    await give_away()
                    gate.open.set()
    assert got.count(b"\n") == 3


async def test_a_log_is_not_read_on_with_a_seats_token_that_was_replaced(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE", 3)
    async with calling_as(served, OPERATOR) as host:
        [made] = (await host.post("/games", json={"seats": REMOTE})).json()["games"]
        game = made["game_id"]

        async def replace() -> None:
            answer = await host.post(f"/games/{game}/tokens", json={"viewer": "seat:1", "raise_epoch": True})
            assert answer.status_code == 201, answer.text

        gate = Gate(monkeypatch, served.services.reader, "lines")
        async with calling_as(served, made["seats"][0]["token"]) as player:
            got = await broken_off(player, f"/games/{game}/events", gate, replace)
    assert got.count(b"\n") == 3


async def test_no_export_goes_on_after_its_key_was_revoked(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id, key = await make_key(store_of(served), "games:create", "games:read")
    async with calling_as(served, key) as client:
        made = (await client.post("/games", json={"count": 3, "seats": REMOTE})).json()
        gate = Gate(monkeypatch, served.services.reader, "whole_log")
        path = f"/batches/{made['batch_id']}/export?partial=true"
        got = await broken_off(client, path, gate, lambda: revoked(served, client, key_id))
    assert [game["game_id"].encode() in got for game in made["games"]] == [True, False, False]


async def test_items_end_with_their_key(
    logs: list[tuple[Event, ...]], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = await lay_games(served, logs[:6])
    await add_keys(served)
    async with calling_as(served, key_of("owner")) as client:
        path = f"/evaluations/items?batch={BATCH}&dimension=guessing&reader=all&format=ndjson"
        gate = Gate(monkeypatch, served.services.evaluations.gold, "show", passing=1)
        got = await broken_off(client, path, gate, lambda: revoked(served, client, "k_owner"))
    assert games[0].encode() in got
    assert games[-1].encode() not in got


async def test_the_items_of_a_set_end_with_their_key(
    logs: list[tuple[Event, ...]], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lay_games(served, logs)
    await add_keys(served)
    async with calling_as(served, key_of("ann")) as client:
        caller: Any = client
        set_id = await sealed(caller)
        gate = Gate(monkeypatch, served.services.evaluations.sets, "items", passing=2)
        path = f"/evaluations/sets/{set_id}/items?format=ndjson"
        got = await broken_off(client, path, gate, lambda: revoked(served, client, "k_ann"))
    assert 0 < got.count(b"\n") <= 50
