"""Pages of streams: read once for all viewers at the same spot, complete, and never too large."""

import asyncio
import json
from typing import Any

import pytest

from app.store.log import LogLine, is_seen
from app.stream.feed import Tails
from app.stream.pages import MAX_EVENTS, MAX_PAGE, Page, Pages, Spot
from app.stream.positions import Positions
from app.stream.shared import unbroken
from engine.errors import CorruptLog
from engine.terms import PUBLIC


class Stored:
    """A store and a reader in one: a log in a list, reads that can be held up."""

    def __init__(self, lines: list[LogLine], status: str = "running") -> None:
        self.log = lines
        self.status = status
        self.reads = 0
        self.begun = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    async def follow(
        self, game_id: str, viewer: int, after_place: int, limit: int
    ) -> tuple[str, list[LogLine]]:
        self.reads += 1
        self.begun.set()
        seen = [line for line in self.log if line.seq > after_place and is_seen(line, viewer)]
        found = seen[:limit]
        await self.answering.wait()
        return self.status, found

    async def seqs(self, game_id: str, viewer: int, after_place: int) -> list[int]:
        return [line.seq for line in self.log if line.seq > after_place]


def said(seq: int, size: int = 10) -> LogLine:
    return LogLine(seq, 0, PUBLIC, "utterance_made", json.dumps({"text": "x" * size}))


def start(stored: Stored) -> tuple[Pages, Spot]:
    return Pages(stored, Tails(), Positions(stored)), Spot("g", PUBLIC, 0, 0)  # type: ignore[arg-type]


def items(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(page.frame)["items"]
    return found


async def test_a_cancelled_task_waits_for_the_work_it_has_begun() -> None:
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        began.set()
        await may_end.wait()
        ended.append(True)

    waiting = asyncio.create_task(unbroken(work()))
    await began.wait()
    waiting.cancel()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended


async def test_a_deleted_game_does_not_count_as_finished() -> None:
    class Emptied(Stored):
        async def follow(self, *_: object) -> tuple[Any, list[LogLine]]:
            return None, []

    pages, spot = start(Emptied([]))
    with pytest.raises(CorruptLog, match="game g is no longer in the database"):
        await pages.after(spot)


async def test_readers_at_the_same_spot_share_one_read_and_one_frame() -> None:
    stored = Stored([said(1)])
    pages, spot = start(stored)
    found = await asyncio.gather(*(pages.after(spot) for _ in range(50)))
    assert stored.reads == 1
    assert all(page is found[0] for page in found)


async def test_a_read_under_way_is_not_joined_since_it_may_miss_the_last_commit() -> None:
    stored = Stored([said(1)])
    stored.answering.clear()
    pages, spot = start(stored)
    first = asyncio.create_task(pages.after(spot))
    await stored.begun.wait()
    stored.log.append(said(2))
    second = asyncio.create_task(pages.after(spot))
    await asyncio.sleep(0)
    stored.answering.set()
    assert (await first).count == 1
    assert (await second).count == 2


async def test_a_reader_that_leaves_does_not_take_the_page_from_the_others() -> None:
    stored = Stored([said(1)])
    stored.answering.clear()
    pages, spot = start(stored)
    stays, leaves = (asyncio.create_task(pages.after(spot)) for _ in range(2))
    await stored.begun.wait()
    leaves.cancel()
    stored.answering.set()
    assert (await stays).count == 1
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert "page" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_page_holds_at_most_100_events_and_says_that_there_is_more() -> None:
    stored = Stored([said(n) for n in range(1, 151)], "finished")
    pages, spot = start(stored)
    first = await pages.after(spot)
    assert (first.count, first.more, first.over) == (MAX_EVENTS, True, False)
    second = await pages.after(first.end)
    assert [item["seq"] for item in items(first) + items(second)] == list(range(1, 151))
    assert (second.more, second.over) == (False, True)


async def test_exactly_100_events_are_followed_by_an_empty_page_that_ends_the_stream() -> None:
    pages, spot = start(Stored([said(n) for n in range(1, 101)], "finished"))
    first = await pages.after(spot)
    assert (first.more, first.over) == (True, False)
    second = await pages.after(first.end)
    assert (second.count, second.frame, second.over) == (0, "", True)


async def test_a_page_is_cut_where_its_bytes_would_be_too_many() -> None:
    # 30 events of 20 kB: 13 of them fit into 262,144 bytes.
    stored = Stored([said(n, 20_000) for n in range(1, 31)])
    pages, spot = start(stored)
    seen = []
    while (page := await pages.after(spot)).count:
        assert len(page.frame.encode()) <= MAX_PAGE
        seen += [item["seq"] for item in items(page)]
        spot = page.end
    assert seen == list(range(1, 31))
    assert stored.reads == 4


async def test_an_event_too_large_for_a_page_is_sent_alone() -> None:
    pages, spot = start(Stored([said(1), said(2, MAX_PAGE), said(3)]))
    counts = []
    while (page := await pages.after(spot)).count:
        counts.append(page.count)
        spot = page.end
    assert counts == [1, 1, 1]


async def test_viewers_resume_anywhere_and_share_the_old_events() -> None:
    stored = Stored([said(n) for n in range(1, 451)])
    places = Positions(stored)  # type: ignore[arg-type]
    pages = Pages(stored, Tails(), places)  # type: ignore[arg-type]
    assert list(await places.of("g", PUBLIC)) == list(range(1, 451))
    for after in (0, 1, 57, 99, 100, 230, 399):
        spot = Spot("g", PUBLIC, after, after)
        seen = []
        while (page := await pages.after(spot)).count:
            assert page.count <= MAX_EVENTS
            seen += [item["seq"] for item in items(page)]
            spot = page.end
        assert seen == list(range(after + 1, 451))
        assert spot.place == 450
    # Four whole blocks once, and the rest, then the empty end, for each of the seven.
    assert stored.reads == 4 + 2 * 7


async def test_a_block_that_no_frame_holds_is_cut_as_any_page() -> None:
    stored = Stored([said(n, 20_000) for n in range(1, 101)])
    places = Positions(stored)  # type: ignore[arg-type]
    pages = Pages(stored, Tails(), places)  # type: ignore[arg-type]
    await places.of("g", PUBLIC)
    spot, seen = Spot("g", PUBLIC, 0, 0), []
    while (page := await pages.after(spot)).count:
        assert len(page.frame.encode()) <= MAX_PAGE
        seen += [item["seq"] for item in items(page)]
        spot = page.end
    assert seen == list(range(1, 101))


async def test_old_events_take_no_more_room_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.stream.pages.MAX_BLOCKS", 50_000)
    stored = Stored([said(n) for n in range(1, 2001)])
    places = Positions(stored)  # type: ignore[arg-type]
    pages = Pages(stored, Tails(), places)  # type: ignore[arg-type]
    await places.of("g", PUBLIC)
    spot = Spot("g", PUBLIC, 0, 0)
    while (page := await pages.after(spot)).count:
        spot = page.end
        assert sum(block.size for block in pages._blocks.values()) == pages._blocks_size <= 50_000
    assert spot.seq == 2000


async def test_a_block_whose_place_was_forgotten_meanwhile_is_found_again() -> None:
    stored = Stored([said(n) for n in range(1, 301)])
    places = Positions(stored)  # type: ignore[arg-type]
    pages = Pages(stored, Tails(), places)  # type: ignore[arg-type]
    await places.of("g", PUBLIC)
    reading = asyncio.create_task(pages.after(Spot("g", PUBLIC, 150, 150)))
    await asyncio.sleep(0)
    places._known.clear()
    page = await reading
    assert [item["seq"] for item in items(page)] == list(range(151, 201))


async def test_seats_are_not_served_from_what_is_kept_for_spectators() -> None:
    stored = Stored([said(n) for n in range(1, 201)])
    places = Positions(stored)  # type: ignore[arg-type]
    pages = Pages(stored, Tails(), places)  # type: ignore[arg-type]
    await places.of("g", 2)
    for _ in range(3):
        await pages.after(Spot("g", 2, 0, 0))
    assert stored.reads == 3
