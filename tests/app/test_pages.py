import asyncio
import json
from typing import Any

import pytest

from app.play.pages import MAX_EVENTS, MAX_PAGE, Page, Pages, Spot
from app.store.log import Line
from engine.terms import PUBLIC


class Stored:
    """A store and a reader in one: a log in a list, reads that can be held up."""

    def __init__(self, lines: list[Line], status: str = "running") -> None:
        self.log = lines
        self.status = status
        self.reads = 0
        self.begun = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    async def game(self, game_id: str) -> dict[str, Any]:
        return {"status": self.status}

    async def lines(self, game_id: str, viewer: int, after_place: int, limit: int) -> list[Line]:
        self.reads += 1
        self.begun.set()
        found = [line for line in self.log if line.seq > after_place][:limit]
        await self.answering.wait()
        return found


def said(seq: int, size: int = 10) -> Line:
    return Line(seq, 0, PUBLIC, "utterance_made", json.dumps({"text": "x" * size}))


def start(stored: Stored) -> tuple[Pages, Spot]:
    return Pages(stored, stored), Spot("g", PUBLIC, 0, 0)  # type: ignore[arg-type]


def items(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(page.frame)["items"]
    return found


async def test_who_waits_at_the_same_spot_shares_one_read_and_one_frame() -> None:
    stored = Stored([said(1)])
    pages, spot = start(stored)
    found = await asyncio.gather(*(pages.after(spot) for _ in range(50)))
    assert stored.reads == 1
    assert all(page is found[0] for page in found)


async def test_a_read_that_has_begun_is_not_joined_for_it_may_miss_the_last_commit() -> None:
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


async def test_one_who_leaves_does_not_take_the_page_from_the_others() -> None:
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


async def test_an_event_that_is_too_large_for_a_page_goes_alone() -> None:
    pages, spot = start(Stored([said(1), said(2, MAX_PAGE), said(3)]))
    counts = []
    while (page := await pages.after(spot)).count:
        counts.append(page.count)
        spot = page.end
    assert counts == [1, 1, 1]
