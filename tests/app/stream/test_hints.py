"""No hint is lost: whoever watches is woken by what others learn, whatever order they learn it in."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from app.store.games import GameStore
from app.store.inbox import InboxStore, Key
from app.stream.feed import Feed
from app.stream.pulse import News, Pulse


async def test_who_waits_is_woken_by_a_newcomer_that_knows_of_more_events() -> None:
    feed = Feed()
    with feed.watch("g_a") as watch, feed.tails.keep("g_a"):
        feed.tails.begin("g_a", 9)
        assert watch.rung_by("g_a")
        for known in (9, 4):
            feed.tails.begin("g_a", known)
            assert not watch.rung_by("g_a"), known
        feed.tails.begin("g_a", 10)
        assert watch.rung_by("g_a")


class Answered(InboxStore):
    """An inbox in which every request has its answer."""

    def __init__(self) -> None:
        pass

    async def settled(self, keys: Sequence[Key]) -> set[Key]:
        return set(keys)


async def test_a_look_is_for_all_who_watch_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GameStore, "heads", nothing)
    feed = Feed()
    asks, may_tell = asyncio.Event(), asyncio.Event()

    async def version() -> int:
        asks.set()
        await may_tell.wait()
        return 7  # the only commit has been made, and there is no other

    pulse = Pulse(feed, GameStore.__new__(GameStore), Answered(), News.__new__(News), version)
    pulse.start()
    try:
        with feed.watch("g_a/1.1.vote.1"):
            await asks.wait()
            with feed.watch("g_a/1.1.vote.2") as late:
                may_tell.set()
                async with asyncio.timeout(60):
                    assert await late.wait(None)
    finally:
        await pulse.stop()


async def nothing(store: GameStore, names: Sequence[str]) -> dict[str, Any]:
    return {}
