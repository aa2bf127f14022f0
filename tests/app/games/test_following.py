"""How a batch is followed."""

import asyncio
import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from app.games.following import BETWEEN_S, Following
from app.stream.feed import Feed

pytestmark = pytest.mark.anyio

LOOKS = 4


async def test_however_fast_the_games_of_a_batch_end_it_is_looked_at_in_measured_steps() -> None:
    feed, looked = Feed(), list[float]()
    always: Any = SimpleNamespace(is_valid=lambda caller: True, draining=False)
    none: Any = None
    following = Following(none, none, none, none, feed, always, always, blank_s=200.0)

    async def view() -> Any:
        looked.append(time.monotonic())
        feed.hint("b_one")  # the next game has ended meanwhile
        status = "done" if len(looked) == LOOKS else "running"
        return SimpleNamespace(
            status=status, games=len(looked), waiting=None, model_dump_json=lambda: f'"{status}"'
        )

    async with asyncio.timeout(200):
        lines = [line async for line in await following.progress(none, "b_one", view, follow=True)]
    assert lines == [b'"running"\n'] * (LOOKS - 1) + [b'"done"\n']
    # The clock of the loop may be a millisecond behind.
    assert all(after - before >= BETWEEN_S - 0.002 for before, after in itertools.pairwise(looked))
