"""Hints to waiters that there is more to read about a game, a batch, a request or a held seat. Only the
database is authoritative; a hint is given after the commit.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app.store.log import LogLine
from app.stream.tail import Tails
from engine.profile import TEAM_SIZES

__all__ = ["Feed", "Watch", "held_name", "request_name"]


def request_name(game_id: str, request_id: str) -> str:
    """The name of hints about the outcome of a request. Hints about a game or a batch go by its id."""
    return f"{game_id}/{request_id}"


def held_name(game_id: str, seat: int) -> str:
    """The name of hints about a seat: another connection holds it, or its tokens were revoked."""
    return f"{game_id}/seat:{seat}"


class Watch:
    """One watcher's bell."""

    __slots__ = ("_bell", "_rung")

    def __init__(self) -> None:
        self._bell = asyncio.Event()
        self._rung: set[str] = set()

    def ring(self, name: str = "") -> None:
        """Wakes the watcher. ``name``: what the hint is about."""
        self._rung.add(name)
        self._bell.set()

    def rung_by(self, name: str) -> bool:
        """Whether a hint of this name has come since the last call for the name."""
        if name in self._rung:
            self._rung.discard(name)
            return True
        return False

    async def wait(self, timeout: float | None) -> bool:  # noqa: ASYNC109  # a bound on silence, not on work
        """Waits for the next hint, or for ``timeout`` seconds (None: for ever). Returns whether a hint came.

        A hint that came since the last wait counts: whoever reads, and then waits, misses nothing.
        """
        try:
            # Not wait_for: Python 3.11's swallows a cancellation when the bell rings at the same moment.
            async with asyncio.timeout(timeout):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return True


class Feed:
    """The watchers of this process, by the names of hints."""

    def __init__(self) -> None:
        self._watches: dict[str, set[Watch]] = {}
        self._everybody: set[Watch] = set()
        self.tails = Tails()
        self.on_hint: Callable[[str], None] = lambda name: None
        """Called with the name of each hint of this process: other processes may have watchers, too."""
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
        """As ``learned``, for events that this process has just committed; other processes get a hint."""
        self.learned(game_id, lines)
        self.on_hint(game_id)

    def learned(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """Keeps new events of a game, and wakes the game's watchers. It does not ring the game's name: the
        tail holds the new events.
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
        for seat in range(1, max(TEAM_SIZES) + 1):
            self.ring(held_name(game_id, seat))

    def ring_all(self) -> None:
        """Wakes everybody: the service is stopping, or a credential may have ended."""
        for watch in self._everybody:
            watch.ring()
