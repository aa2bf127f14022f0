"""Finds what other processes wrote: at once when PostgreSQL passes on their hints, or when it comes over a
link; besides by a look every few tenths of a second, in a few queries, however many wait.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from app.base.tasks import end_tasks, keep_going
from app.store.db import answering
from app.store.games import OPEN, GameStore
from app.store.inbox import InboxStore
from app.store.log import LogLine, LogReader
from app.stream.feed import MAX_LINES, Feed, held_name
from app.stream.links import Links
from app.stream.live import Live
from app.stream.shared import Shared
from engine.terms import FULL

__all__ = ["Bell", "News", "Pulse"]

log = structlog.get_logger()

POLL_S: Final = 0.1
"""Seconds between two polls, whether or not a hint came."""

HEARING_S: Final = 0.5
"""The same while PostgreSQL's notifications come in: then polls find only what nobody told."""

_SILENCE_S: Final = 15.0
"""Seconds without any notification, one's own included, after which they may be lost. Every process sends
some of the live layer every ten seconds.
"""

CHANNEL: Final = "interintent_hints"
LIVE_CHANNEL: Final = "interintent_live"

_POLLED: Final = ("g_", "b_")
"""Beginnings of the names that are looked up; those who wait for others look for themselves."""

_MAX_NOTES: Final = 200
"""Notes that wait for the connection at most; older ones are dropped."""

_MAX_PAYLOAD: Final = 7_900
"""The most bytes of one notification; PostgreSQL takes fewer than 8,000."""

_LINKED_S: Final = 0.05
"""Seconds for which news of events is gathered when a link brings them to another process of this machine. It
only tells others, who do not follow the game yet, or not from this machine, that there are events.
"""

_AGAIN_S: Final = 2.0
"""A lost connection is replaced after this long; until then only the poll finds news."""


class News:
    """Takes what other processes append to the games that are watched here, over links or read once for all
    who watch.
    """

    def __init__(self, feed: Feed, reader: LogReader, links: Links) -> None:
        self._feed = feed
        self._reader = reader
        self._links = links
        links.on_lines = self._take
        links.on_lost = self.tell
        self._reading: Shared[str, None] = Shared(self._read, "news")
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, name: str) -> None:
        """Wakes the watchers of this name: another process has hinted that there is more to read."""
        if self._feed.tails.end(name) is None:
            self._feed.ring(name)
            return
        task = asyncio.create_task(self._reading.get(name), name="news")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell_head(self, game_id: str, head: int) -> None:
        """As ``tell``, when a process has told that a game's log has ``head`` events. Where a link brings
        them, they are here or on their way.
        """
        if not self._links.brings(game_id) and not self._feed.tails.reaches(game_id, head):
            self.tell(game_id)

    def look(self, game_id: str, head: int, before: int | None, *, is_open: bool, changed: bool) -> None:
        """As ``tell``, when a game's log is found to have ``head`` events in the database.

        ``before``: how many it had at the last look; None: this is the first. ``is_open``: whether the game
        goes on. ``changed``: whether there is anything new since the last look.
        """
        tails = self._feed.tails
        if tails.reaches(game_id, head):
            # A game can also end without an event.
            changed &= not is_open and tails.end(game_id) is not None
        elif self._links.brings(game_id):
            # What was there at the last look should have come over the link by now.
            changed = before is not None and not tails.reaches(game_id, before)
        if changed:
            self.tell(game_id)

    def _take(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """Takes events that came over a link."""
        end = self._feed.tails.end(game_id)
        fresh = [line for line in lines if line.seq > (end or 0)]
        if fresh and end is not None and fresh[0].seq != end + 1:
            self.tell(game_id)
        elif fresh:
            self._feed.learned(game_id, fresh)

    async def _read(self, game_id: str) -> None:
        end = self._feed.tails.end(game_id)
        try:
            lines = [] if end is None else await self._reader.lines(game_id, FULL, end, MAX_LINES)
        except Exception:
            lines = []  # each watcher meets the fault itself
        if lines and lines[0].seq - 1 == self._feed.tails.end(game_id):
            self._feed.learned(game_id, lines)
        else:
            self._feed.ring(game_id)


class Pulse:
    """Wakes waiters when somebody else has written what they wait for. Polls only while somebody waits,
    and skips a poll if the database says that nobody else has written.

    ``version``: gives a number that changes with every commit by somebody else; None: unknown.
    """

    def __init__(
        self,
        feed: Feed,
        games: GameStore,
        inbox: InboxStore,
        news: News,
        version: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._feed = feed
        self._games = games
        self._inbox = inbox
        self._news = news
        self._version = version
        self.hears: Callable[[], bool] = lambda: False
        """Whether others' notifications come in."""
        self._looked_at: int | None = None
        self._heads: dict[str, tuple[int, str, str]] = {}
        self._holders: dict[tuple[str, int], str] = {}
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        feed.on_watch = self._awake.set

    def start(self) -> None:
        self._task = keep_going(self._run, "pulse")

    async def stop(self) -> None:
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await self._awake.wait()
            await asyncio.sleep(HEARING_S if self.hears() else POLL_S)
            if not self._feed.names:
                self._awake.clear()
                self._heads.clear()
                self._holders.clear()
                continue
            try:
                version = await self._version()
                if version is None or version != self._looked_at:
                    # For all who watch now: what they read may be older than this version.
                    await self._look(self._feed.names)
                    self._looked_at = version
            except Exception as fault:
                # The database is away; waiters read again when it is back.
                log.warning(
                    "cannot look for what other processes wrote: watchers here wait for it",
                    cause=type(fault).__name__,
                )
                await asyncio.sleep(_AGAIN_S)

    async def _look(self, names: Iterable[str]) -> None:
        games, requests, seats = [], [], []
        for name in names:
            game, slash, rest = name.partition("/")
            if not slash:
                if name.startswith(_POLLED):
                    games.append(name)
            elif rest.startswith("seat:"):
                seats.append((game, int(rest[5:])))
            else:
                requests.append((game, rest))
        if requests:
            for game, request in await self._inbox.settled(requests):
                self._feed.ring(f"{game}/{request}")
        await self._look_at_games(games)
        await self._look_at_seats(seats)

    async def _look_at_games(self, names: list[str]) -> None:
        for name in names:
            if name.startswith("b_"):
                self._feed.ring(name)  # a batch's progress is counted, not stored
        heads = await self._games.heads([name for name in names if not name.startswith("b_")])
        for name, head in heads.items():
            before = self._heads.get(name)
            # Also at the first look: the head may have moved since the watcher's own read.
            self._news.look(
                name,
                head[0],
                before and before[0],
                is_open=head[1] in OPEN,
                changed=before is None or before[:2] != head[:2],
            )
            if before and before[2] != head[2]:
                self._feed.ring_seats(name)  # a seat's tokens were revoked
        self._heads = heads

    async def _look_at_seats(self, seats: list[tuple[str, int]]) -> None:
        holders = dict(await self._inbox.holders(seats)) if seats else {}
        for (game, seat), conn in holders.items():
            if self._holders.get((game, seat)) != conn:
                self._feed.ring(held_name(game, seat))
        self._holders = holders


class Bell:
    """Passes hints between processes as PostgreSQL notifications, and notes of the live layer. It uses a
    connection of its own and never an append's transaction, since that would make all commits wait for each
    other. Processes that cannot be linked learn of events in this way alone.
    """

    def __init__(
        self, engine: Callable[[], AsyncEngine], feed: Feed, news: News, live: Live, links: Links
    ) -> None:
        """``engine``: makes one for its connection."""
        self._engine = engine
        self._feed = feed
        self._news = news
        self._live = live
        self._links = links
        self._notes: deque[str] = deque(maxlen=_MAX_NOTES)
        self._own = links.name
        self._names: dict[str, int] = {}
        """What is to be told: names, each with the length of the game's log, or 0 where other things have
        changed, too.
        """
        self._linked: dict[str, int] = {}
        """The lengths of the logs that links bring to others; they are told a little later."""
        self._more = asyncio.Event()
        self._heard_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    def hears(self) -> bool:
        """Whether notifications come in, as far as is known."""
        return time.monotonic() - self._heard_at < _SILENCE_S

    async def start(self) -> None:
        await self._links.start()
        self._feed.on_hint = self._tell
        self._feed.on_commit = self._links.show
        self._feed.on_head = self._tell_head
        self._live.on_note = self._pass_on
        self._task = keep_going(self._run, "bell")

    async def stop(self) -> None:
        self._feed.on_hint = lambda name: None
        self._feed.on_commit = lambda game_id, lines: None
        self._feed.on_head = lambda game_id, head: None
        self._live.on_note = None
        await end_tasks(self._task)
        await self._links.stop()

    def _tell(self, name: str) -> None:
        self._names[name] = 0
        self._more.set()

    def _tell_head(self, game_id: str, head: int) -> None:
        if self._links.shows(game_id):
            if not self._linked:
                asyncio.get_running_loop().call_later(_LINKED_S, self._tell_linked)
            self._linked[game_id] = head
            return
        self._names[game_id] = head if self._names.get(game_id, 1) else 0
        self._more.set()

    def _tell_linked(self) -> None:
        linked, self._linked = self._linked, {}
        for game_id, head in linked.items():
            self._names[game_id] = head if self._names.get(game_id, 1) else 0
        self._more.set()

    def _pass_on(self, note: str) -> None:
        if len(payload := f"{self._own} {note}") * 4 <= _MAX_PAYLOAD or len(payload.encode()) <= _MAX_PAYLOAD:
            self._notes.append(payload)
            self._more.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as fault:
                log.warning(
                    "cannot tell other processes what is new: their watchers wait for it",
                    cause=type(fault).__name__,
                )
            await asyncio.sleep(_AGAIN_S)

    async def _listen(self) -> None:
        """Passes hints in both directions until the connection breaks."""
        engine = self._engine()
        try:
            async with engine.connect() as connection:
                raw: Any = (await connection.get_raw_connection()).driver_connection
                async with answering():
                    await raw.add_listener(CHANNEL, self._on_notification)
                    await raw.add_listener(LIVE_CHANNEL, self._on_note)
                # The live layer has something to tell every few seconds, so silence is noticed.
                while True:
                    await self._more.wait()
                    # Hints that come meanwhile are sent together.
                    for payload in self._payloads():
                        async with answering():
                            await raw.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
                    while self._notes:
                        async with answering():
                            await raw.execute("SELECT pg_notify($1, $2)", LIVE_CHANNEL, self._notes.popleft())
        finally:
            self._heard_at = -math.inf
            await engine.dispose()

    def _payloads(self) -> list[str]:
        """The payloads of the gathered hints, which it clears."""
        names, self._names = self._names, {}
        self._more.clear()
        if not names:
            return []
        payloads = [self._own]
        for name, head in names.items():
            part = f" {name} {head}" if head else f" {name}"
            if len(payloads[-1]) + len(part) > _MAX_PAYLOAD:
                payloads.append(self._own)
            payloads[-1] += part
        return payloads

    def _on_notification(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        self._heard_at = time.monotonic()
        sender, *words = payload.split(" ")
        if sender == self._own:
            return
        for name, head in _names(words):
            if head:
                self._links.follow(name, sender)
                self._news.tell_head(name, head)
                continue
            self._news.tell(name)
            game, _, rest = name.partition("/")
            if rest.startswith("seat:") and self._links.drives(game):
                # Somebody sits down in another process, which so learns who drives the game.
                self._tell_head(game, self._feed.tails.end(game) or 0)

    def _on_note(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        self._heard_at = time.monotonic()
        sender, _, note = payload.partition(" ")
        if sender != self._own:
            self._live.take(sender, note)


def _names(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The names of a notification, each with the length of the game's log that follows it, or 0."""
    for name, after in zip(words, [*words[1:], ""], strict=True):
        if not name.isdecimal():
            yield name, int(after) if after.isdecimal() else 0
