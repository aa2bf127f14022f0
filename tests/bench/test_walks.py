"""A walk counts the files whose functions begin in it, and no others."""

import asyncio

import pytest

from app.base.clock import now_ms
from app.stream.shared import unbroken
from bench.walks import Tracer
from engine.chance import unit
from engine.terms import Role, side_of


@pytest.fixture
def tracer() -> Tracer:
    return Tracer()


async def test_a_walk_holds_the_files_whose_functions_were_entered(tracer: Tracer) -> None:
    with tracer.installed():
        side_of(Role.MERLIN)
        for _ in range(2):
            tracer.begin()
            unit(1)
            await asyncio.to_thread(now_ms)
            tracer.end()
    assert tracer.journey("", 0).files == {"engine/chance.py", "app/base/clock.py"}


async def test_a_coroutine_resumed_in_a_walk_does_not_count_as_entered(tracer: Tracer) -> None:
    goes_on = asyncio.Event()
    waiting = asyncio.create_task(unbroken(goes_on.wait()))
    await asyncio.sleep(0.01)
    with tracer.installed():
        tracer.begin()
        goes_on.set()
        await waiting
        tracer.end()
        tracer.begin()
        tracer.end()
    assert tracer.walks[0].entered == frozenset()


async def test_functions_of_only_some_walks_are_counted_separately(tracer: Tracer) -> None:
    with tracer.installed():
        for draws in (False, True, False):
            tracer.begin()
            side_of(Role.MERLIN)
            if draws:
                unit(1)
            tracer.end()
    journey = tracer.journey("", 0)
    assert journey.files == {"engine/terms.py"}
    assert journey.sometimes == {"engine/terms.py", "engine/chance.py"}


async def test_a_task_that_wakes_by_the_clock_belongs_to_no_walk(tracer: Tracer) -> None:
    async def look() -> None:
        unit(1)

    with tracer.installed():
        for _ in range(2):
            tracer.begin()
            await asyncio.create_task(look(), name="pulse")
            tracer.end()
    assert tracer.journey("", 0).sometimes == frozenset()


async def test_a_journey_begins_at_its_function_and_the_edge_is_what_came_before(tracer: Tracer) -> None:
    tracer.starts_at = side_of.__code__
    with tracer.installed():
        for _ in range(2):
            tracer.begin()
            unit(1)
            side_of(Role.MERLIN)
            tracer.end()
    journey = tracer.journey("", 0)
    assert journey.files == {"engine/terms.py"}
    assert journey.with_edge == {"engine/terms.py", "engine/chance.py"}
