"""Owners take turns at the threads that do what takes long."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from app.base.off_loop import SharedPlaces, SharedThreads, whose

WITHIN_S = 200.0


async def for_owner(threads: SharedThreads, owner: str, do: Callable[[], object]) -> object:
    whose.set(owner)
    return await threads.run(do)


async def test_however_much_of_one_owner_waits_anothers_work_is_done() -> None:
    threads, goes_on = SharedThreads(3, "test"), threading.Event()
    begun: list[str] = []

    def held() -> bool:
        begun.append("a")
        return goes_on.wait(WITHIN_S)

    many = [asyncio.create_task(for_owner(threads, "a", held)) for _ in range(20)]
    try:
        async with asyncio.timeout(WITHIN_S):
            while len(begun) < 2:  # noqa: ASYNC110  # a thread tells nobody
                await asyncio.sleep(0.01)
            # Ten times, one after the other: what the one waits for holds up none of it.
            for number in range(10):
                assert await for_owner(threads, "b", lambda number=number: number) == number  # type: ignore[misc]
            assert begun == ["a"] * 2
    finally:
        goes_on.set()
    assert await asyncio.gather(*many) == [True] * 20
    threads.stop()


async def test_owners_take_turns_and_one_that_is_alone_has_its_work_in_order() -> None:
    threads, goes_on, order = SharedThreads(2, "test"), threading.Event(), list[str]()
    first = asyncio.create_task(for_owner(threads, "a", lambda: goes_on.wait(WITHIN_S)))
    other = asyncio.create_task(for_owner(threads, "b", lambda: goes_on.wait(WITHIN_S)))
    await asyncio.sleep(0)
    waits = [
        asyncio.create_task(for_owner(threads, owner, lambda name=f"{owner}{n}": order.append(name)))  # type: ignore[misc]
        for owner in ("a", "b")
        for n in range(4)
    ]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.wait([waits[1]])
    goes_on.set()
    await asyncio.gather(first, other, *waits, return_exceptions=True)
    assert [name for name in order if name[0] == "a"] == ["a0", "a2", "a3"]
    assert [name for name in order if name[0] == "b"] == ["b0", "b1", "b2", "b3"]
    threads.stop()


async def test_a_fault_is_raised_where_the_work_was_asked_for_and_ends_no_thread() -> None:
    threads = SharedThreads(2, "test")
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
    assert await threads.run(int, "7") == 7
    threads.stop()


async def test_places_are_handed_out_in_turn_and_no_owner_has_them_all() -> None:
    places, order = SharedPlaces(3), list[str]()

    async def has_place(owner: str, name: str, until: asyncio.Event) -> None:
        whose.set(owner)
        place = await places.take()
        order.append(name)
        try:
            await until.wait()
        finally:
            places.leave(place)

    goes_on, over = asyncio.Event(), asyncio.Event()
    over.set()
    many = [asyncio.create_task(has_place("a", f"a{n}", goes_on)) for n in range(5)]
    await asyncio.sleep(0)
    assert order == ["a0", "a1"]
    # However many of one owner wait, one place is another's: ten times, one after the other.
    for n in range(10):
        await has_place("b", f"b{n}", over)
    # Who goes away while it waits, or is given its place at this very moment, keeps none.
    waits = [asyncio.create_task(has_place(owner, f"{owner} gone", goes_on)) for owner in ("c", "d")]
    await asyncio.sleep(0)
    waits[0].cancel()
    waits[1].cancel()
    await asyncio.wait(waits)
    await has_place("b", "b", over)
    many[2].cancel()
    await asyncio.wait([many[2]])
    later = asyncio.create_task(has_place("b", "later", goes_on))
    await asyncio.sleep(0)
    goes_on.set()
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*many, later, return_exceptions=True)
    assert order == ["a0", "a1", *(f"b{n}" for n in range(10)), "c gone", "b", "later", "a3", "a4"]
    # All are free again.
    async with asyncio.timeout(WITHIN_S):
        for owner in ("a", "a", "b"):
            whose.set(owner)
            await places.take()
