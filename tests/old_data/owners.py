"""What owners and strangers store: keys and projects, tokens, bots and their rated games, seeks, quotas, and
sets: one that is sealed, one that is open, one that was withdrawn. Every table has a row in the end.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from sqlalchemy import func, select, update

from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from app.store.quotas import QuotaStore
from app.store.rows import LAST_MS, METADATA
from app.store.tables import games, sets
from engine.events import BeliefsFormed, ChoiceExplained, Event, ReadingsImagined, SpeechDrafted
from engine.profile import make_profile
from engine.rules import create
from tests.app.calling import WITHIN_S, Caller
from tests.app.edge.test_keys import bearer, make_key, store_of
from tests.app.evaluations.sealing import add_keys, handed_in, items_in, lay_games, new_set, opened, told
from tests.app.evaluations.test_ratings_api import paired
from tests.app.play.meeting.seekers import checked_bot, owner, seek, shown
from tests.app.seated import choose, thoughts_for
from tests.app.store.one_of_each import row

__all__ = ["NO_PROVIDER", "fill_with_owners"]

NO_PROVIDER = "gone"
"""An endpoint that was away, and that no settings name any more."""

TEN = make_profile("interintent", 10, reveal="roles")
"""Many speeches in few games: four of them are enough for a set."""

LONG = (BeliefsFormed, ChoiceExplained, ReadingsImagined, SpeechDrafted)
"""Thoughts that take up most of the room, and that no set asks for."""


async def fill_with_owners(caller: Caller) -> dict[str, Any]:
    """Stores it all, and says what a later version must find. From then on nobody calls without a key."""
    await add_keys(caller)
    _, key = await make_key(store_of(caller), project="owner")
    caller.headers.update(bearer(key))
    kept = {
        "key": key,
        "sets": await _sets(caller),
        "rated": await _rated(caller),
        "deleted": await _deleted(caller),
        "spent": await _spent(caller),
    }
    await QuotaStore(caller.services.database).change("project:ann", {"submissions_a_day": 50}, frozenset())
    await _fill_what_is_empty(caller)
    return kept


async def _sets(caller: Caller) -> dict[str, Any]:
    """Ann and Bob answer three sets: of one the date is over, of one it never comes, and one is withdrawn."""
    first, second = "b_first", "b_second"
    for batch, seed in ((first, 4000), (second, 4100)):
        await lay_games(caller, [await _spoken(seed + place) for place in range(4)], batch=batch)
    body = new_set(batches=[second])
    made = {
        "open": await told(caller, "owner", "/evaluations/sets", new_set(batches=[first])),
        "sealed": await told(caller, "owner", "/evaluations/sets", body),
        "withdrawn": await told(caller, "owner", "/evaluations/sets", body),
    }
    ids = {name: str(one["set_id"]) for name, one in made.items()}
    receipts: dict[str, dict[str, Any]] = {}
    for name, set_id in ids.items():
        receipts[name] = {}
        for who, named in (("ann", "convince_leader"), ("bob", "defend_self")):
            found = await items_in(caller, who, set_id)
            given = handed_in({item["id"]: [named] for item in found}, who)
            receipts[name][who] = await told(caller, who, f"/evaluations/sets/{set_id}/answers", given)
    why = {"reason": "its games were known"}
    await told(caller, "owner", f"/evaluations/sets/{ids['withdrawn']}/withdraw", why)
    # Later than any test, where the service itself allows 400 days.
    await _close(caller, ids["sealed"], LAST_MS)
    await _close(caller, ids["open"], 1)
    await opened(caller, "ann", ids["open"])
    views = {name: await told(caller, "ann", f"/evaluations/sets/{set_id}") for name, set_id in ids.items()}
    return {"ids": ids, "views": views, "receipts": receipts}


async def _spoken(seed: int) -> Sequence[Event]:
    """A finished game of ten without its longest thoughts."""
    agents = {seat: ScriptedAgent(Setup(seat, f"{seed} {seat}")) for seat in range(1, 11)}
    log = (await play(create(TEN, seed), agents, MemoryJournal())).log
    return [event for event in log if type(event) not in LONG]


async def _close(caller: Caller, set_id: str, date_ms: int) -> None:
    query = update(sets).where(sets.c.set_id == set_id).values(closes_at=date_ms)
    await caller.services.database.writer.execute(query)


async def _rated(caller: Caller) -> dict[str, Any]:
    """Rated games that are over, one that two strangers are playing, and what waits for players."""
    services = caller.services
    headers = {name: await owner(services) for name in ("owl", "fox")}
    for name, of_bot in headers.items():
        await checked_bot(caller, services, of_bot, name)
    for game in await paired(services, [("key:k_a", "owl"), ("key:k_b", "fox")], 3):
        table = (await services.games.state(game)).table
        assert table.winner is not None
        won = update(games).where(games.c.game_id == game).values(winner=table.winner.value)
        await services.database.writer.execute(won)
    wish = {"version": "1", "rated": True, "at_least": 2, "wait_s": 1, "profile": "official", "pace": "slow"}
    found = {name: await seek(caller, name, of_bot, **wish) for name, of_bot in headers.items()}
    played = {}
    for name, of_bot in headers.items():
        played[name] = (await shown(caller, found[name], of_bot, wait_s=30))["game"]
    await _answer_some(caller, list(played.values()))
    waiting = await seek(caller, "owl", headers["owl"], players=9, at_least=9, wait_s=3600)
    opening = {"seats": [{"agent": "open"}] * 2 + [{}] * 3, "wait_s": 24 * 3600}
    await told(caller, "owner", "/games/open", opening)
    ladder = (await caller.get("/ratings")).json()
    return {"keys": headers, "played": played, "waiting": waiting["seek_id"], "ladder": ladder}


async def _answer_some(caller: Caller, seats: Sequence[dict[str, Any]]) -> None:
    """Each of the seats answers once at least, and is refused once."""
    left = {one["seat"]: one for one in seats}
    chance = Random(1)
    async with asyncio.timeout(WITHIN_S):
        while left:
            for seat in seats:
                headers, game = bearer(seat["token"]), seat["game"]
                asked = (await caller.get(f"/games/{game}/requests", headers=headers)).json()
                for request in asked["requests"]:
                    path = f"/games/{game}/requests/{request['request_id']}/action"
                    refused = await caller.post(path, headers=headers, json={"action": {"approve": "so"}})
                    assert refused.status_code == 422, refused.text
                    body = {"action": choose(request, chance), "thoughts": thoughts_for(request)}
                    taken = await caller.post(path, headers=headers, json=body)
                    assert taken.status_code == 200, taken.text
                    left.pop(seat["seat"], None)
            await asyncio.sleep(0.02)


async def _deleted(caller: Caller) -> str:
    """A game that was created under a key for repeating, given out as a token and a code, and deleted."""
    wish = {"seats": [{"agent": "remote"}, *[{"agent": "scripted"}] * 4], "drive": "manual"}
    headers = {"idempotency-key": "once"}
    made = [await caller.post("/games", json=wish, headers=repeated) for repeated in (headers, {})]
    kept, gone = (one.json()["games"][0]["game_id"] for one in made)
    for game in (kept, gone):
        for path, body in (("tokens", {"viewer": "public"}), ("seats/1/claim-code", {})):
            answer = await caller.post(f"/games/{game}/{path}", json=body)
            assert answer.status_code == 201, answer.text
    await caller.post(f"/games/{kept}/cancel")
    await caller.post(f"/games/{gone}/cancel")
    answer = await caller.delete(f"/games/{gone}")
    assert answer.status_code < 300, answer.text
    return str(gone)


async def _spent(caller: Caller) -> dict[str, Any]:
    """What a batch of models with a budget has used of it. A rater has been shown one of its turns."""
    seats = [{"agent": "llm", "model": "fake", "mechanism": "direct"}, *[{"agent": "scripted"}] * 4]
    batch, _ = await caller.played(seats=seats, seeds={"from": 4200}, budget={"max_tokens": 10_000_000})
    await told(caller, "reader", f"/annotations/tasks?rater=ben&batch={batch}&limit=1")
    view = (await caller.get(f"/batches/{batch}")).json()
    return {"batch": batch, "tokens": view["tokens"], "cost": view["cost"]}


async def _fill_what_is_empty(caller: Caller) -> None:
    """Sockets, endpoints that are away, and processes that share an endpoint leave rows as well."""
    async with caller.services.database.read_engine.connect() as connection:
        empty = [
            table
            for table in METADATA.sorted_tables
            if not (await connection.execute(select(func.count()).select_from(table))).scalar_one()
        ]
    game = (await caller.get("/games", params={"limit": 1})).json()["games"][0]["game_id"]
    given = {"game_id": game, "seat": 1, "endpoint": NO_PROVIDER, "name": NO_PROVIDER}
    names = {table.name for table in empty}
    assert names <= {"holders", "model_outages", "model_leases", "model_limits"}, names
    for table in empty:
        await caller.services.database.writer.execute(table.insert().values(row(table, 1, **given)))
