"""Sums over large batches are made no more often than they are worth, and are right once a batch is over."""

import asyncio

from app.base.sums import KEPT, SMALL, Sums


async def test_a_sum_is_kept_for_twenty_times_as_long_as_it_took_and_made_anew_at_the_end() -> None:
    now, made = [0.0], []

    async def make(batch: str) -> int:
        made.append(batch)
        await asyncio.sleep(0)
        now[0] += 0.5
        return len(made)

    sums = Sums(make, lambda: now[0])
    # Whoever asks at the same time gets the same sum.
    assert await asyncio.gather(*(sums.get("b", 1000, over=False) for _ in range(3))) == [1, 1, 1]
    now[0] += 9.9
    assert await sums.get("b", 1000, over=False) == 1
    now[0] += 0.2
    assert await sums.get("b", 1000, over=False) == 2
    assert await sums.get("b", 1000, over=True) == 3
    assert await sums.get("b", 1000, over=True) == 3
    # It was resumed.
    assert await sums.get("b", 1000, over=False) == 4
    # A small batch is summed up whenever somebody asks.
    assert [await sums.get("small", SMALL, over=False) for _ in range(2)] == [5, 6]


async def test_of_many_batches_the_sums_that_were_asked_for_last_are_kept() -> None:
    made = []

    async def make(batch: str) -> None:
        made.append(batch)

    sums = Sums(make, lambda: 0.0)
    for batch in range(KEPT):
        await sums.get(str(batch), 1000, over=True)
    await sums.get("0", 1000, over=True)
    await sums.get("one more", 1000, over=True)
    await sums.get("0", 1000, over=True)
    assert made.count("0") == 1
    await sums.get("1", 1000, over=True)
    assert made.count("1") == 2
