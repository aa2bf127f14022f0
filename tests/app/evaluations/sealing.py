"""Sealed sets in tests: games of an owner, a set of them, raters, and a clock that can be put forward."""

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from app.base import clock
from app.edge.auth import OPERATOR, hash_of
from app.store import db
from app.store.claim_codes import ClaimCodes
from app.store.games import NewGame
from app.store.rows import ApiKey, BatchRow
from engine.events import Event
from engine.profile import make_profile
from engine.rules import create
from engine.state import fold
from tests.app.calling import Caller, calling
from tests.app.edge.test_keys import bearer, store_of
from tests.app.real_server import Served

GAMES = 20
"""As many games as give a set of 200 items through one seat's eyes each."""

BATCH = "b_sealed"
DATE_MS = 3_600_000
"""How far off the date of a set is."""

SCOPES = {
    "owner": ("games:create", "games:read", "eval:read", "eval:submit", "export:full", "annotate", "admin"),
    "ann": ("games:read", "eval:read", "eval:submit"),
    "bob": ("games:read", "eval:read", "eval:submit"),
    "watcher": ("eval:read:any", "games:read:any"),
    "reader": ("eval:read:any", "eval:submit:any", "annotate:any"),
    "operator": ("eval:read:any", "eval:submit:any", "export:full:any", "annotate:any", "games:read:any"),
}
"""Who is there, with what scopes. Each is a project of its own, and has a second key, such as ``ann2``."""

Line = dict[str, Any]


class Sliding(clock.Clock):
    """A clock of a test, in which as much time passes as it says."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def steady_ms(self) -> int:
        return super().steady_ms() + self.ahead_ms


@contextlib.asynccontextmanager
async def after_a_jump(database_url: str, ahead_ms: int, **settings: Any) -> AsyncIterator[Caller]:
    """A service whose clock was ahead for a moment, and is right again."""
    time = Sliding()
    with clock.use_clock(time):
        async with calling(database_url, **settings) as caller:
            time.ahead_ms = ahead_ms
            caller.services.database.writer.stamp()
            time.ahead_ms = 0
            yield caller


def set_clock(time: Sliding, ahead_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the database's clock, and with it that of a service which has been started under ``time``."""
    theirs = f"SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + {ahead_ms}"
    monkeypatch.setattr(db, "_THEIR_CLOCK", text(theirs))
    time.ahead_ms = ahead_ms


@functools.cache
def scripted_log(seed: int, reveal: str = "roles") -> tuple[Event, ...]:
    """A finished game of scripted seats."""
    agents = {seat: ScriptedAgent(Setup(seat, f"{seed} {seat}")) for seat in range(1, 6)}
    profile = make_profile("interintent", 5, reveal=reveal)  # type: ignore[arg-type]
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        return tuple(loop.run_until_complete(play(create(profile, seed), agents, MemoryJournal())).log)


async def lay_games(
    service: Caller | Served,
    logs: Sequence[Sequence[Event]],
    *,
    batch: str = BATCH,
    owner: str = "project:owner",
    request: Line | None = None,
    **of_games: Any,
) -> list[str]:
    """Stores finished games as this owner's. ``request``: what their batch keeps of the request."""
    services, at = service.services, clock.now_ms()
    games = []
    for place, log in enumerate(logs):
        table = fold(log).table
        assert table.winner is not None
        assert table.ending is not None
        ended = {"status": "finished", "winner": table.winner.value, "ending": table.ending.value}
        name = f"g_{batch.removeprefix('b_')}{place}"
        games.append(NewGame(name, place, "manual", "0", [], log, **ended, **of_games))  # type: ignore[arg-type]

    async def work(connection: Any) -> None:
        row = BatchRow(batch, at, len(logs), "0", request or {}, owner=owner)
        await services.store.insert_batch(connection, row)
        await services.store.insert_games(connection, batch, games, at)

    await services.database.writer.run(work)
    return [game.game_id for game in games]


@contextlib.asynccontextmanager
async def with_games(
    database_url: str, logs: Sequence[Sequence[Event]], time: clock.Clock | None = None
) -> AsyncIterator[Caller]:
    """A service with the owner's games, and keys of everybody in ``SCOPES``."""
    with clock.use_clock(time or Sliding()):
        async with calling(database_url) as caller:
            if logs:
                await lay_games(caller, logs)
            await add_keys(caller)
            yield caller


async def add_keys(service: Caller | Served) -> None:
    """Stores the keys of everybody in ``SCOPES``."""
    for name, scopes in SCOPES.items():
        for key_id in (name, f"{name}2"):
            row = ApiKey(f"k_{key_id}", key_id, hash_of(key_of(key_id)), scopes, clock.now_ms(), project=name)
            await store_of(service).add(row)


async def took(caller: Caller, who: str | None, code: str) -> None:
    """The code was used by one of ``SCOPES``, or by nobody with a key, before its game ended."""
    owner, codes = who and f"project:{who}", ClaimCodes(caller.services.database)
    used = await codes.use(code, clock.now_ms(), OPERATOR, owner, lambda claimed, game: None)
    assert used is not None


def key_of(name: str) -> str:
    return "ik_" + name.ljust(43, "-")


async def ask(caller: Caller, who: str, path: str, body: Any = None, **headers: str) -> Any:
    """GET, or POST with a body, as one of ``SCOPES``."""
    method = "GET" if body is None else "POST"
    return await caller.request(method, path, json=body, headers={**bearer(key_of(who)), **headers})


async def told(caller: Caller, who: str, path: str, body: Any = None) -> Any:
    """The JSON of an answer that must succeed."""
    answer = await ask(caller, who, path, body)
    assert answer.status_code < 300, (path, answer.text)
    return answer.json()


def new_set(dimension: str = "guessing", **more: Any) -> Line:
    date = clock.timestamp(clock.now_ms() + DATE_MS)
    return {"name": "spring", "dimension": dimension, "batches": [BATCH], "closes_at": date, **more}


async def sealed(caller: Caller, dimension: str = "guessing", **more: Any) -> str:
    """The id of a new set of the owner's."""
    made = await told(caller, "owner", "/evaluations/sets", new_set(dimension, **more))
    return str(made["set_id"])


async def items_in(caller: Caller, who: str, set_id: str) -> list[Line]:
    answer = await ask(caller, who, f"/evaluations/sets/{set_id}/items?format=ndjson")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def handed_in(named: Mapping[str, Any], rater: str = "model", **more: Any) -> Line:
    """The body with these answers."""
    answers = [{"item_id": id_, "intentions": sorted(of_item), **more} for id_, of_item in named.items()]
    return {"rater": {"name": rater, "kind": "model"}, "answers": answers}


async def opened(caller: Caller, who: str, set_id: str) -> Line:
    """The set after its date, as soon as it is scored."""
    async with asyncio.timeout(60):
        while True:
            view: Line = await told(caller, who, f"/evaluations/sets/{set_id}")
            if view["status"] == "open":
                return view
            await asyncio.sleep(0.01)
