"""Hints to waiters that there is more to read about a game, a batch, a request or a held seat, and the events
that this process has just committed. Only the database is authoritative; a hint is given after the commit.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from app.store.log import LogLine, is_last
from engine.profile import TEAM_SIZES
from engine.terms import PUBLIC

__all__ = ["ANY_SEAT", "MAX_LINES", "Feed", "Tails", "Watch", "held_name", "over_name", "request_name"]

MAX_LINES: Final = 512
"""Events kept of one game, including hidden ones."""


def request_name(game_id: str, request_id: str) -> str:
    """The name of hints about the outcome of a request. Hints about a game or a batch go by its id."""
    return f"{game_id}/{request_id}"


def over_name(batch_id: str) -> str:
    """The name of hints that this process has driven all games of a batch to their ends."""
    return f"{batch_id}/over"


ANY_SEAT: Final = 0
"""In ``held_name``: any seat of the game, whose owner may have changed."""


def held_name(game_id: str, seat: int) -> str:
    """The name of hints about a seat: another connection holds it, or its tokens were revoked."""
    return f"{game_id}/seat:{seat}"


class Watch:
    """One watcher, which sleeps until a hint wakes it."""

    __slots__ = ("_has_rung", "_rung", "_waiting")

    def __init__(self) -> None:
        self._rung: set[str] = set()
        self._has_rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self, name: str = "") -> None:
        """Wakes the watcher. ``name``: what the hint is about."""
        self._rung.add(name)
        self._has_rung = True
        if self._waiting is not None:
            _let_go(self._waiting)

    def rung_by(self, name: str) -> bool:
        """Whether a hint of this name has come since the last call for the name."""
        if name in self._rung:
            self._rung.discard(name)
            return True
        return False

    async def wait(self, timeout: float | None) -> bool:  # noqa: ASYNC109  # a bound on silence, not on work
        """Waits for the next hint, or for ``timeout`` seconds (None: for ever). Returns whether a hint came.

        A hint that came since the last wait counts: whoever reads, and then waits, misses nothing. Only one
        task waits at a time.
        """
        if not self._has_rung:
            # An event within asyncio's timeout takes three times as long.
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = None if timeout is None else loop.call_later(timeout, _let_go, self._waiting)
            try:
                await self._waiting
            finally:
                self._waiting = None
                if timer is not None:
                    timer.cancel()
        has_rung, self._has_rung = self._has_rung, False
        return has_rung


def _let_go(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class Feed:
    """The watchers of this process, by the names of hints."""

    def __init__(self) -> None:
        self._watches: dict[str, set[Watch]] = {}
        self._everybody: set[Watch] = set()
        self.tails = Tails()
        self.tails.on_begin = self.ring
        self.on_hint: Callable[[str], None] = lambda name: None
        """Called with the name of each hint of this process: other processes may have watchers, too."""
        self.on_commit: Callable[[str, Sequence[LogLine]], None] = lambda game_id, lines: None
        """Called with events that this process has committed."""
        self.on_head: Callable[[str, int], None] = lambda game_id, head: None
        """Called with the length of a game's log that this process has written, or writes from now on,
        instead of a hint by the game's id.
        """
        self.on_watch: Callable[[], None] = lambda: None
        """Called when somebody begins to watch names."""

    @property
    def names(self) -> list[str]:
        """The names that are watched."""
        return list(self._watches)

    @contextmanager
    def watch(self, *names: str) -> Iterator[Watch]:
        """A watch that rings for hints of these names, and for hints to everybody, while the block lasts."""
        watch = Watch()
        self._everybody.add(watch)
        for name in names:
            self._watches.setdefault(name, set()).add(watch)
        if names:
            self.on_watch()
        try:
            yield watch
        finally:
            self._everybody.discard(watch)
            for name in names:
                watches = self._watches[name]
                watches.discard(watch)
                if not watches:
                    del self._watches[name]

    def committed(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """As ``learned``, for events that this process has just committed; other processes are told, too."""
        self.learned(game_id, lines)
        self.on_commit(game_id, lines)
        self.on_head(game_id, lines[-1].seq)

    def learned(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """Keeps new events of a game, and wakes the game's watchers. They need no hint by the game's name,
        since they find the events in the tail.
        """
        self.tails.add(game_id, lines)
        for watch in self._watches.get(game_id, ()):
            watch.ring()

    def hint(self, name: str) -> None:
        """Hints that there is more to read about this name, here and in other processes."""
        self.ring(name)
        self.on_hint(name)

    def ring(self, name: str) -> None:
        """Wakes the watchers of this name in this process."""
        for watch in self._watches.get(name, ()):
            watch.ring(name)

    def ring_seats(self, game_id: str) -> None:
        """Wakes the watchers of all seats of this game in this process."""
        for seat in range(ANY_SEAT, max(TEAM_SIZES) + 1):
            self.ring(held_name(game_id, seat))

    def ring_all(self) -> None:
        """Wakes everybody: the service is stopping, or a credential may have ended."""
        for watch in self._everybody:
            watch.ring()


class Tails:
    """The last events of the games that are watched here, as this process committed them. With them, live
    spectators cost the database nothing.

    The log stays authoritative: a tail holds only committed events, and readers turn to the log for all
    others. Events that another process wrote are a gap, and a tail never spans a gap.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[LogLine]] = {}
        self._keepers: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        """A length that the log of each game has had, for the games where one is known."""
        self.on_drop: Callable[[str], None] = lambda game_id: None
        """Called when nobody keeps a game's tail any more."""
        self.on_begin: Callable[[str], None] = lambda game_id: None
        """Called when ``begin`` tells of events that were not known: who waits has not heard of them."""

    def keeps(self, game_id: str) -> bool:
        """Whether the game's tail is kept."""
        return game_id in self._kept

    @contextmanager
    def keep(self, game_id: str) -> Iterator[None]:
        """Keeps the game's tail from its next append on, while the block lasts."""
        self._keepers[game_id] = self._keepers.get(game_id, 0) + 1
        self._kept.setdefault(game_id, [])
        try:
            yield
        finally:
            self._keepers[game_id] -= 1
            if not self._keepers[game_id]:
                del self._keepers[game_id], self._kept[game_id]
                self._begun.pop(game_id, None)
                self.on_drop(game_id)

    def begin(self, game_id: str, head: int) -> None:
        """Notes that the log has ``head`` events, and that the next ones are added when this process commits
        them or hears of them. The game's tail is kept.
        """
        is_news = not self.reaches(game_id, head)
        kept = self._kept[game_id]
        if kept and kept[-1].seq < head:
            kept.clear()
        self._begun[game_id] = max(head, self._begun.get(game_id, 0))
        if is_news:
            self.on_begin(game_id)

    def add(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """Adds events that have just been committed."""
        kept = self._kept.get(game_id)
        if kept is None or lines[0].seq <= (self.end(game_id) or 0):
            return
        if kept and lines[0].seq != kept[-1].seq + 1:
            kept.clear()
        kept += lines
        del kept[:-MAX_LINES]

    def end(self, game_id: str) -> int | None:
        """The place of the last event, as far as this process knows; None: it does not know, or the event
        ends the game.
        """
        if kept := self._kept.get(game_id):
            return None if is_last(kept[-1]) else kept[-1].seq
        return self._begun.get(game_id)

    def reaches(self, game_id: str, place: int) -> bool:
        """Whether this process knows of everything up to this place in the log."""
        kept = self._kept.get(game_id)
        return (kept[-1].seq if kept else self._begun.get(game_id, 0)) >= place

    def opened_at(self, game_id: str) -> int | None:
        """Commit time (ms) of the last public event that is kept; None: none is kept."""
        return next(
            (line.at for line in reversed(self._kept.get(game_id, ())) if line.audience == PUBLIC), None
        )

    def after(self, game_id: str, place: int) -> Sequence[LogLine]:
        """All events after a place in the full log; none where the tail does not hold the next event."""
        kept = self._kept.get(game_id)
        if not kept or not kept[0].seq <= place + 1 <= kept[-1].seq:
            return ()
        return kept[place + 1 - kept[0].seq :]
