"""Links between processes of one machine: they bring events and answers, and nothing is lost without them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from unittest.mock import Mock

import pytest

from app.store.db import Append, Conflict
from app.store.inbox import RequestOutcome, answer_outcome
from app.store.log import LogLine
from app.stream import links as links_module
from app.stream.feed import Feed
from app.stream.links import Links
from app.stream.live import Live
from app.stream.pulse import Bell, News
from engine.terms import Viewer
from tests.app.calling import until
from tests.app.stream.test_pages import said

GAME, REQUEST = "g", "1.1.vote.2"

ANSWER = answer_outcome(2, '{"approve":true}', [{"type": "note", "text": "ü\n"}], [{"pointer": "/x"}], "c_1")

pytestmark = pytest.mark.skipif(not Links(Feed().tails, enabled=True)._enabled, reason="links need Linux")


class Driven:
    """A game that is driven: takes one answer, and commits it when it is told to."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, RequestOutcome]] = []
        self.waits = True
        """Whether an agent waits for the answer."""
        self.append = Append(lambda at: [])

    def hand(self, request_id: str, answer: RequestOutcome) -> Append | None:
        self.taken.append((request_id, answer))
        return self.append if self.waits else None


class One:
    """What one process has of a game. ``log``: the database."""

    def __init__(self, log: list[LogLine], *, enabled: bool = True) -> None:
        self.log = log
        self.feed = Feed()
        self.links = Links(self.feed.tails, enabled=enabled)
        self.news = News(self.feed, self, self.links)  # type: ignore[arg-type]
        self.reads = 0
        self.feed.on_commit = self.links.show

    async def lines(self, game_id: str, viewer: Viewer, after: int, limit: int) -> list[LogLine]:
        """The log, as a reader of the database."""
        self.reads += 1
        return [line for line in self.log if line.seq > after][:limit]

    def commit(self, *lines: LogLine) -> None:
        self.log += lines
        self.feed.committed(GAME, lines)

    @property
    def end(self) -> int:
        return self.feed.tails.end(GAME) or 0

    @contextlib.contextmanager
    def follows(self, head: int = 0) -> Iterator[None]:
        """Somebody here looks at the game, which has ``head`` events."""
        with self.feed.tails.keep(GAME):
            self.feed.tails.begin(GAME, head)
            yield


@contextlib.asynccontextmanager
async def two(*, enabled: bool = True) -> AsyncIterator[tuple[One, One]]:
    """The process that drives, and one that follows."""
    log: list[LogLine] = []
    both = One(log, enabled=enabled), One(log, enabled=enabled)
    for one in both:
        await one.links.start()
    try:
        yield both
    finally:
        for one in both:
            await one.links.stop()


@pytest.fixture
async def pair(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[One, One, Driven]]:
    """The same, linked, with the game. However slow the machine, neither takes the other for silent."""
    monkeypatch.setattr(links_module, "ANSWERS_WITHIN_S", 200.0)
    async with two() as (driving, following):
        game = Driven()
        driving.links.driven = {GAME: game}
        with driving.follows(), following.follows():
            following.links.follow(GAME, driving.links.name)
            await until(lambda: following.links.brings(GAME))
            yield driving, following, game


Pair = tuple[One, One, Driven]


async def test_events_come_as_they_are_committed_and_nobody_reads_them(pair: Pair) -> None:
    driving, following, _ = pair
    with following.feed.watch(GAME) as watch:
        for seq in range(1, 30):
            driving.commit(said(seq, size=9_000))
            following.news.tell_head(GAME, seq)
            assert await watch.wait(60)
            await until(lambda seq=seq: following.end == seq)  # type: ignore[misc]
    assert following.feed.tails.after(GAME, 1) == driving.feed.tails.after(GAME, 1)
    await asyncio.sleep(0.1)  # news of events that are known is looked into a little later
    assert following.reads == 0


async def test_an_answer_is_taken_as_it_was_sent_and_told_when_it_is_committed(pair: Pair) -> None:
    _, following, game = pair
    handing = asyncio.create_task(following.links.hand(GAME, REQUEST, ANSWER))
    await until(lambda: bool(game.taken))
    assert game.taken == [(REQUEST, ANSWER)]
    assert not handing.done()
    game.append.done.set_result(1234)
    assert await handing == 1234


async def test_an_answer_that_nobody_waits_for_or_that_is_not_committed_is_left_to_the_database(
    pair: Pair,
) -> None:
    _, following, game = pair
    game.waits = False
    assert await following.links.hand(GAME, REQUEST, ANSWER) is None
    game.waits = True
    game.append.fail(Conflict("another was first"))
    assert await following.links.hand(GAME, REQUEST, ANSWER) is None
    assert following.links.brings(GAME)


async def test_an_answer_to_a_process_that_says_nothing_is_left_to_the_database(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    driving, following, game = pair
    monkeypatch.setattr(links_module, "ANSWERS_WITHIN_S", 0.05)
    assert await following.links.hand(GAME, REQUEST, ANSWER) is None
    await until(lambda: not following.links.brings(GAME))
    # It goes on where it was told last, once that process is heard of again.
    following.links.follow(GAME, driving.links.name)
    await until(lambda: following.links.brings(GAME))
    game.append.done.set_result(5)
    monkeypatch.setattr(links_module, "ANSWERS_WITHIN_S", 200.0)
    assert await following.links.hand(GAME, REQUEST, ANSWER) == 5


async def test_when_the_driving_process_ends_answers_under_way_go_by_the_database_at_once(pair: Pair) -> None:
    driving, following, game = pair
    handing = asyncio.create_task(following.links.hand(GAME, REQUEST, ANSWER))
    await until(lambda: bool(game.taken))
    await driving.links.stop()
    assert await handing is None
    assert not following.links.brings(GAME)
    assert await following.links.hand(GAME, REQUEST, ANSWER) is None
    # What that process still told is read from the database.
    following.log.append(said(1))
    following.links.follow(GAME, driving.links.name)
    following.news.tell_head(GAME, 1)
    await until(lambda: following.end == 1)
    assert following.reads == 1


async def test_events_that_a_link_leaves_out_are_read(pair: Pair) -> None:
    driving, following, _ = pair
    following.log += [said(1), said(2)]
    driving.feed.tails.begin(GAME, 2)
    driving.commit(said(3))
    await until(lambda: following.end == 3)
    assert following.feed.tails.after(GAME, 0) == following.log
    # And where nothing comes over it at all, they are found in the database: by the second look, since what
    # the first one finds may be on its way.
    following.log.append(said(4))
    following.news.tell_head(GAME, 4)
    following.news.look(GAME, 4, 3, is_open=True, changed=True)
    await asyncio.sleep(0.1)
    assert following.reads == 1
    following.news.look(GAME, 4, 4, is_open=True, changed=False)
    await until(lambda: following.end == 4)
    assert following.reads == 2


async def test_events_of_which_only_the_news_came_are_read_when_the_link_is_lost(pair: Pair) -> None:
    driving, following, _ = pair
    driving.links.show = lambda game_id, lines: None  # type: ignore[method-assign]
    driving.feed.on_commit = driving.links.show
    driving.commit(said(1))
    following.news.tell_head(GAME, 1)
    await asyncio.sleep(0.1)
    assert following.reads == 0
    await driving.links.stop()
    await until(lambda: following.end == 1)
    assert following.reads == 1


async def test_a_game_that_ends_without_an_event_wakes_those_who_follow_it_over_a_link(pair: Pair) -> None:
    driving, following, _ = pair
    driving.commit(said(1))
    await until(lambda: following.end == 1)
    with following.feed.watch(GAME) as watch:
        following.news.look(GAME, 1, 1, is_open=True, changed=True)
        await asyncio.sleep(0.1)
        assert not watch.rung_by(GAME)
        following.news.look(GAME, 1, 1, is_open=False, changed=True)
        assert await watch.wait(60)
        assert watch.rung_by(GAME)


async def test_a_process_that_does_not_drive_the_game_is_not_relied_on(pair: Pair) -> None:
    _, following, _ = pair
    async with two() as (ending, _):
        # Somebody ends the game elsewhere, and tells so.
        following.links.follow(GAME, ending.links.name)
        following.log += [said(1)]
        following.news.tell_head(GAME, 1)
        await until(lambda: following.end == 1)
        await until(lambda: bool(ending.links._shown))
        assert not following.links.brings(GAME)


async def test_what_a_link_brings_is_told_to_others_together(pair: Pair) -> None:
    driving, _, _ = pair
    bell = Bell(Mock(), driving.feed, driving.news, Live(), driving.links)
    bell._tell_head(GAME, 1)
    bell._tell_head(GAME, 2)
    bell._tell_head("elsewhere", 7)
    assert bell._payloads() == [f"{driving.links.name} elsewhere 7"]
    await asyncio.wait_for(bell._more.wait(), 60)
    assert bell._payloads() == [f"{driving.links.name} {GAME} 2"]


async def test_a_link_that_is_opened_late_brings_what_was_missed() -> None:
    async with two() as (driving, following):
        with driving.follows(), following.follows():
            driving.commit(said(1), said(2))
            following.news._take(GAME, [said(1)])
            driving.commit(said(3))
            following.links.follow(GAME, driving.links.name)
            await until(lambda: following.end == 3)
            assert following.reads == 0


async def test_a_game_that_nobody_follows_any_more_is_shown_no_more_and_nothing_is_kept(pair: Pair) -> None:
    driving, following, _ = pair
    driving.commit(said(1))
    await until(lambda: following.end == 1)
    following.feed.tails._keepers[GAME] -= 1
    with following.feed.tails.keep(GAME):
        pass
    await until(lambda: not driving.links._shown)
    assert not following.links._drivers
    following.feed.tails._keepers[GAME] = 1
    following.feed.tails._kept[GAME] = []


async def test_a_process_that_does_not_read_is_cut_off(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    driving, following, _ = pair
    monkeypatch.setattr(links_module, "MAX_UNSENT", 100_000)
    [link] = following.links._links.values()
    link._transport.pause_reading()
    seq = 0
    while driving.links._callers:
        seq += 1
        driving.commit(said(seq, size=50_000))
        await asyncio.sleep(0)
        assert seq < 1_000, "nobody was cut off"
    assert not driving.links._shown
    link._transport.resume_reading()
    await until(lambda: not following.links._links)


async def test_processes_of_other_users_are_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two() as (driving, following):
        monkeypatch.setattr(links_module, "our_user", lambda: os.geteuid() + 1)
        with following.follows():
            following.links.follow(GAME, driving.links.name)
            await until(lambda: not following.links._links)
            assert not following.links.brings(GAME)
        assert not driving.links._shown


async def test_what_is_no_message_ends_the_link(pair: Pair) -> None:
    driving, following, _ = pair
    [link] = following.links._links.values()
    for text in (b"[1]\n", b"no JSON\n"):
        following.links.follow(GAME, driving.links.name)
        await until(lambda: following.links.brings(GAME))
        [link] = following.links._links.values()
        link._transport.write(text)
        await until(lambda: not following.links._links)


async def test_a_process_of_another_machine_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two() as (_, following):
        tried = 0
        open_link = following.links._open

        def counted(process: str) -> None:
            nonlocal tried
            tried += 1
            open_link(process)

        monkeypatch.setattr(following.links, "_open", counted)
        for _ in range(3):
            with following.follows():
                following.links.follow(GAME, "1-elsewhere")
                assert not following.links.brings(GAME)
                assert await following.links.hand(GAME, REQUEST, ANSWER) is None
        assert tried == 1


async def test_without_links_everything_goes_by_the_database() -> None:
    async with two(enabled=False) as (driving, following):
        with driving.follows(), following.follows():
            driving.commit(said(1))
            following.links.follow(GAME, driving.links.name)
            following.news.tell_head(GAME, 1)
            await until(lambda: following.end == 1)
            assert following.reads == 1
            assert not following.links._links
