"""Waits that are fair, exact, and safe to cancel."""

import asyncio

import pytest

from agents.model.limits import AdaptiveLimit, Bucket, Parallel, RateLimits
from tests.jumping import JumpingLoop


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": JumpingLoop}


def now() -> float:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    return loop.now


async def test_a_bucket_serves_in_the_order_of_asking() -> None:
    bucket = Bucket(6000)  # 100 a second, 500 at once
    served: list[tuple[int, float]] = []

    async def take(number: int, amount: float) -> None:
        await bucket.take(amount)
        served.append((number, now() - before))

    before = now()
    # The second asks for much and the third for little: the third waits all the same.
    await asyncio.gather(take(1, 500), take(2, 30), take(3, 1))
    assert [number for number, _ in served] == [1, 2, 3]
    assert [at for _, at in served] == pytest.approx([0, 0.3, 0.31])


async def test_who_asks_for_more_than_a_bucket_holds_is_served_and_paid_for_by_the_next() -> None:
    bucket = Bucket(60)  # 1 a second, 5 at once
    before = now()
    await bucket.take(25)
    assert now() == before
    await bucket.take(1)
    assert now() - before == pytest.approx(21)


async def test_a_bucket_fills_to_its_brim_and_no_further() -> None:
    bucket = Bucket(60)
    await bucket.take(5)
    await asyncio.sleep(3600)
    bucket.give(100)
    before = now()
    for _ in range(5):
        await bucket.take(1)
    assert now() == before
    await bucket.take(1)
    assert now() - before == pytest.approx(1)


async def test_a_wait_that_is_cancelled_takes_nothing() -> None:
    bucket = Bucket(60)
    await bucket.take(5)
    before = now()
    waiting = asyncio.create_task(bucket.take(5))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await asyncio.wait({waiting})
    await bucket.take(1)
    assert now() - before == pytest.approx(1)


async def test_a_slot_is_free_again_after_an_error() -> None:
    limits = RateLimits(AdaptiveLimit(Parallel.read(1)), tokens=6000)
    before = now()
    for _ in range(3):
        try:
            async with limits.slot(500) as slot:
                slot.used = 0
                raise LookupError
        except LookupError:
            pass
    async with asyncio.timeout(60), limits.slot(500):
        assert now() == before


async def test_a_pause_ends() -> None:
    limits = RateLimits(AdaptiveLimit(Parallel.read(1)))
    assert limits.paused_s() == 0
    limits.pause(5)
    limits.pause(1)
    assert limits.paused_s() == pytest.approx(5)
    await asyncio.sleep(2)
    assert limits.paused_s() == pytest.approx(3)
    await asyncio.sleep(3)
    assert limits.paused_s() == pytest.approx(0)


@pytest.mark.parametrize("text", ["", "4-20", "20-4-100", "0-1-2", "4-20-100-1", "-1", "x", "4--5"])
def test_what_is_no_range_of_requests_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="parallel"):
        Parallel.read(text)


def test_a_single_number_is_the_most_and_the_first() -> None:
    assert Parallel.read(16) == Parallel.read("16") == Parallel(1, 16, 16)
    assert Parallel.read("4-20-100") == Parallel(4, 20, 100)


async def test_the_limit_rises_by_ones_and_falls_by_half_within_its_bounds() -> None:
    limits = RateLimits(AdaptiveLimit(Parallel.read("4-20-22")))
    loop = asyncio.get_running_loop()
    for _ in range(20):
        limits.parallel.answered()
    assert limits.parallel.now == 21
    for _ in range(100):
        limits.parallel.answered()
    assert limits.parallel.now == 22
    sent_at = loop.time()
    limits.parallel.turned_away(sent_at)
    assert limits.parallel.now == 11
    await asyncio.sleep(0.002)
    limits.parallel.turned_away(sent_at)  # one of the same crowd
    assert limits.parallel.now == 11
    for expected in (5, 4, 4):
        await asyncio.sleep(0.002)
        limits.parallel.turned_away(loop.time())
        assert limits.parallel.now == expected


async def test_a_slot_that_nobody_waits_for_any_more_is_not_lost() -> None:
    limits = RateLimits(AdaptiveLimit(Parallel.read(1)))

    async def hold(seconds: float) -> None:
        async with limits.slot(1):
            await asyncio.sleep(seconds)

    first = asyncio.create_task(hold(0.01))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(hold(0.0)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await first
    waiting[1].cancel()
    await asyncio.wait(waiting)
    async with asyncio.timeout(100):
        await hold(0.0)
