"""One relay per game and viewer writes to spectators. They miss nothing between their reads and the relay."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.store.log import LogLine
from app.stream.feed import Feed
from app.stream.pages import Page, Pages, Spot
from app.stream.positions import Positions
from app.stream.relay import Relays
from app.stream.turns import Turns
from engine.terms import FULL, PUBLIC, Viewer
from tests.app.stream.test_pages import Stored, said

GAME = "g"


class Sitting:
    """A spectator without a socket."""

    def __init__(self, seq: int = 0, viewer: Viewer = PUBLIC) -> None:
        self.spot = Spot(GAME, viewer, seq, seq)
        self.got: list[Page] = []
        self.reads = True
        """Whether it takes what is written."""
        self.rung = asyncio.Event()
        self.live = False

    def show_turn(self, frame: str) -> None:
        raise AssertionError("it did not ask for the live layer")

    def push(self, page: Page, now: float) -> bool:
        if self.reads:
            self.got.append(page)
            self.spot = page.end
        return self.reads

    def ring(self) -> None:
        self.rung.set()


class World:
    """A log, its feed, and the relays of both."""

    def __init__(self, events: int = 0) -> None:
        self.stored = Stored([said(seq) for seq in range(1, events + 1)])
        self.feed = Feed()
        self.pages = Pages(self.stored, self.feed.tails, Positions(self.stored))  # type: ignore[arg-type]
        turns = Turns(self.stored, self.feed.tails)  # type: ignore[arg-type]
        self.relays = Relays(self.pages, self.feed, turns)

    def append(self, *lines: LogLine) -> None:
        self.stored.log += lines
        self.feed.committed(GAME, lines)

    def elsewhere(self, *lines: LogLine) -> None:
        """Another process appends; its hint comes later."""
        self.stored.log += lines


@contextlib.asynccontextmanager
async def world(events: int = 0) -> AsyncIterator[World]:
    one = World(events)
    try:
        yield one
    finally:
        await one.relays.stop()
        assert not one.feed._watches
        assert not one.feed.tails._kept


async def until_seq(one: Sitting, seq: int) -> None:
    async with asyncio.timeout(200):
        while one.spot.seq < seq:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)


async def rest() -> None:
    """Lets the relays read what there is, and wait."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_seated_viewers_get_the_same_bytes_from_memory_in_order() -> None:
    async with world(3) as here:
        many = [Sitting(3) for _ in range(600)]  # more than are written to at once
        assert all(here.relays.add(one) for one in many)
        await rest()
        reads = here.stored.reads
        for seq in range(4, 9):
            here.append(said(seq))
            await until_seq(many[-1], seq)
        for one in many:
            await until_seq(one, 8)
            assert [page.end.seq for page in one.got] == [page.end.seq for page in many[0].got]
            assert all(mine.frame is first.frame for mine, first in zip(one.got, many[0].got, strict=True))
        assert here.stored.reads == reads


async def test_commits_between_the_last_read_and_joining_the_relay_are_not_lost() -> None:
    async with world(2) as here:
        one = Sitting(2)
        here.append(said(3))  # nobody watched yet
        assert here.relays.add(one)
        await until_seq(one, 3)


async def test_a_viewer_behind_the_relay_reads_first() -> None:
    async with world(2) as here:
        first, late = Sitting(2), Sitting(2)
        assert here.relays.add(first)
        here.append(said(3))
        await until_seq(first, 3)
        assert not here.relays.add(late)
        assert not late.got
        late.spot = first.spot
        assert here.relays.add(late)
        here.append(said(4))
        await until_seq(late, 4)


async def test_a_viewer_ahead_of_the_relay_gets_nothing_twice() -> None:
    async with world(2) as here:
        slow, ahead = Sitting(2), Sitting(3)
        assert here.relays.add(slow)
        await rest()
        here.elsewhere(said(3))
        assert here.relays.add(ahead)
        here.feed.ring(GAME)
        await until_seq(slow, 3)
        here.append(said(4))
        await until_seq(slow, 4)
        if not ahead.rung.is_set():
            await until_seq(ahead, 4)
        assert [page.count for page in ahead.got] in ([1], [])


async def test_a_viewer_that_does_not_read_is_dropped_at_no_cost_to_the_others() -> None:
    async with world() as here:
        reads, stuck = Sitting(), Sitting()
        stuck.reads = False
        assert here.relays.add(reads)
        assert here.relays.add(stuck)
        here.append(said(1))
        await until_seq(reads, 1)
        await asyncio.wait_for(stuck.rung.wait(), 200)
        here.append(said(2))
        await until_seq(reads, 2)
        assert (stuck.spot.seq, stuck.got) == (0, [])


async def test_events_of_other_processes_are_read_from_the_log() -> None:
    async with world() as here:
        one = Sitting()
        assert here.relays.add(one)
        here.append(said(1))
        await until_seq(one, 1)
        here.elsewhere(said(2))
        here.append(said(3))
        await until_seq(one, 3)
        assert sum(page.count for page in one.got) == 3


async def test_a_viewer_is_written_what_it_may_see_and_nothing_for_the_rest() -> None:
    async with world() as here:
        public, full = Sitting(), Sitting(viewer=FULL)
        assert here.relays.add(public)
        assert here.relays.add(full)
        await rest()  # both have read: what comes now comes from memory
        hidden = LogLine(1, 0, 2, "vote_cast", '{"seat":2,"approve":true}')
        here.append(hidden, said(2))
        here.append(said(3)._replace(audience=FULL))
        here.append(said(4))
        await until_seq(full, 4)
        await until_seq(public, 2)
        text = "".join(page.frame for page in public.got)
        assert "vote_cast" not in text
        assert text.count('"seq"') == 2


@pytest.mark.parametrize("type_", ["game_ended", "game_cancelled"])
async def test_the_end_of_a_game_is_written_and_lets_everybody_go(type_: str) -> None:
    async with world() as here:
        one = Sitting()
        assert here.relays.add(one)
        await rest()
        here.append(said(1), LogLine(2, 0, PUBLIC, type_, "{}"))
        await asyncio.wait_for(one.rung.wait(), 200)
        assert one.spot.seq == 2


async def test_a_read_that_breaks_sends_everybody_to_look_and_the_next_begins_anew() -> None:
    async with world() as here:
        one = Sitting()
        follow = here.stored.follow
        here.stored.follow = None  # type: ignore[assignment,method-assign]
        assert here.relays.add(one)
        await asyncio.wait_for(one.rung.wait(), 200)
        here.stored.follow = follow  # type: ignore[method-assign]
        await asyncio.sleep(0)
        assert here.relays.add(one)
        here.append(said(1))
        await until_seq(one, 1)


async def test_nothing_is_left_over_when_the_last_viewer_leaves() -> None:
    async with world() as here:
        one = Sitting()
        assert here.relays.add(one)
        await rest()
        here.relays.remove(one)
        async with asyncio.timeout(200):
            while "relay" in {task.get_name() for task in asyncio.all_tasks()}:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert not here.feed._watches
