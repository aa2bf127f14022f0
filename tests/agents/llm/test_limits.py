"""Waits that are fair, and safe to cancel."""

import asyncio
import time

import pytest

from agents.llm.limits import Bucket, Limits


async def test_a_bucket_serves_in_the_order_of_asking() -> None:
    bucket = Bucket(6000)  # 100 a second, 500 at once
    order: list[int] = []

    async def take(number: int, amount: float) -> None:
        await bucket.take(amount)
        order.append(number)

    before = time.monotonic()
    # The second asks for much and the third for little: the third waits all the same.
    await asyncio.gather(take(1, 500), take(2, 30), take(3, 1))
    assert order == [1, 2, 3]
    assert 0.25 < time.monotonic() - before < 20


async def test_who_asks_for_more_than_a_bucket_holds_is_served_and_paid_for_by_the_next() -> None:
    bucket = Bucket(60)  # 1 a second, 5 at once
    async with asyncio.timeout(5):
        await bucket.take(25)
    # It would have its 1 in 21 seconds.
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await bucket.take(1)


async def test_a_wait_that_is_cancelled_takes_nothing() -> None:
    bucket = Bucket(60)
    await bucket.take(5)
    waiting = asyncio.create_task(bucket.take(5))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    bucket.give(1)
    async with asyncio.timeout(4):
        await bucket.take(1)


async def test_a_slot_is_free_again_after_an_error() -> None:
    limits = Limits(1, tokens=6000)
    for _ in range(3):
        try:
            async with limits.slot(500) as slot:
                slot.used = 0
                raise LookupError
        except LookupError:
            pass
    async with asyncio.timeout(4), limits.slot(500):
        pass


async def test_a_pause_ends() -> None:
    limits = Limits(1)
    assert limits.paused_s() == 0
    limits.pause(0.05)
    limits.pause(0.01)
    assert 0.02 < limits.paused_s() <= 0.05
    await asyncio.sleep(0.06)
    assert limits.paused_s() == 0
