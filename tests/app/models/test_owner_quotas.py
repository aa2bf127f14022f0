"""What owners may spend on models in a day, and how they take turns at an endpoint."""

import asyncio

import pytest

from agents.model.limits import AdaptiveLimit, Parallel
from app.base.clock import DAY_MS, now_ms
from app.edge import quotas
from app.store.quotas import QuotaStore
from tests.app.calling import Caller, problem
from tests.app.modelling import DIRECT, calling_with, faking


async def _quota(caller: Caller, **limits: float | None) -> None:
    """Gives callers without a key these quotas."""
    await QuotaStore(caller.services.database).change("keyless", limits, frozenset())
    await caller.services.quotas.read()


async def test_a_spent_quota_suspends_the_batch_and_loses_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "SPENT_S", 0.0)  # a whole game of the fake model takes less than a second
    async with faking() as fake, calling_with(fake, database_url) as caller:
        await _quota(caller, model_tokens_a_day=1)
        batch, (game,) = await caller.create(seats=DIRECT, seeds={"from": 1})
        view = await caller.over(batch)
        assert view["status"] == "suspended", view
        assert view["suspended"]["cause"] == "owner_quota"
        assert "model_tokens_a_day" in view["suspended"]["words"]
        # What was in flight is stored, and counts.
        await caller.services.models.landed(game)
        store = QuotaStore(caller.services.database)
        spent = await store.spent("keyless", now_ms() // DAY_MS)
        tokens, cost = await caller.services.models.calls.spent(batch)
        assert (spent.tokens, round(spent.cost, 9)) == (tokens, round(cost, 9))
        assert tokens > 0
        told = problem(await caller.post("/games", json={"seats": DIRECT}), 429, "quota-exceeded")
        assert told["quota"] == "model_tokens_a_day"
        for again in ("resume", "retry"):
            told = problem(await caller.post(f"/batches/{batch}/{again}", json={}), 429, "quota-exceeded")
            assert told["quota"] == "model_tokens_a_day"
        assert (await caller.get(f"/batches/{batch}")).json()["status"] == "suspended"
        # Games without models go on.
        assert (await caller.post("/games", json={})).status_code == 201
        await _quota(caller, model_tokens_a_day=None)
        assert (await caller.post(f"/batches/{batch}/resume", json={})).status_code == 200
        assert (await caller.over(batch))["status"] == "done"
        lines = await caller.lines(f"/batches/{batch}/export", view="full")
        assert not [line for line in lines if line.get("type") == "action_defaulted"]
        spent = await store.spent("keyless", now_ms() // DAY_MS)
        assert spent.tokens == (await caller.services.models.calls.spent(batch))[0] > tokens


async def test_owners_take_turns_at_an_endpoint_however_many_batches_each_has() -> None:
    slots = AdaptiveLimit(Parallel.read(1)).calls
    order: list[str] = []

    async def call(owner: str, group: str) -> None:
        async with slots.turn(group, owner):
            order.append(f"{owner}{group}")

    async with slots.turn("", ""):
        many = [asyncio.create_task(call("a", group)) for group in "xxyyzz"]
        await asyncio.sleep(0)
        few = [asyncio.create_task(call("b", "u")) for _ in range(2)]
        await asyncio.sleep(0)
        many[0].cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*many, *few, return_exceptions=True)
    assert order == ["ax", "bu", "ay", "bu", "az", "ay", "az"]
    assert (slots.used, slots.waiting) == (0, 0)
