"""Tells those who wait that there is more to read: of a game, a batch, a request, a held seat. The
database is the truth; this is only a hint, given after the commit.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app.store.log import LogLine
from app.stream.tail import Tails

__all__ = ["Feed", "Watch", "held_name", "request_name"]


def request_name(game_id: str, request_id: str) -> str:
    """What hints about the outcome of a request go by. Those about a game or a batch go by its id."""
    return f"{game_id}/{request_id}"


def held_name(game_id: str, seat: int) -> str:
    """What hints about a seat go by: that another connection holds it, or that its tokens were revoked."""
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
        """Whether a hint by this name has come since this was last asked."""
        if name in self._rung:
            self._rung.discard(name)
            return True
        return False

    async def wait(self, timeout: float | None) -> bool:  # noqa: ASYNC109  # a bound on silence, not on work
        """Returns at the next hint or after ``timeout`` seconds (None: never); True when it is worth reading
        on.

        A hint that came since the last wait counts: read, then wait, and nothing is missed.
        """
        try:
            # Not wait_for: where the bell rings in the same moment, Python 3.11's swallows a cancellation.
            async with asyncio.timeout(timeout):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return True


class Feed:
    """Who waits for what, in this process."""

    def __init__(self) -> None:
        self._watches: dict[str, set[Watch]] = {}
        self._everybody: set[Watch] = set()
        self.tails = Tails()
        self.on_hint: Callable[[str], None] = lambda name: None
        """Told of every hint of this process: others may have watchers, too."""
        self.on_watch: Callable[[], None] = lambda: None
        """Told when somebody begins to wait."""

    @property
    def names(self) -> list[str]:
        """What is waited for."""
        return list(self._watches)

    @contextmanager
    def watch(self, *names: str) -> Iterator[Watch]:
        """Rings for every hint by these names, and for what concerns everybody, while the block lasts."""
        one = Watch()
        self._everybody.add(one)
        for name in names:
            self._watches.setdefault(name, set()).add(one)
        if names:
            self.on_watch()
        try:
            yield one
        finally:
            self._everybody.discard(one)
            for name in names:
                rest = self._watches[name]
                rest.discard(one)
                if not rest:
                    del self._watches[name]

    def committed(self, game_id: str, lines: Sequence[LogLine]) -> None:
        """These events of a game have just been committed by this process. Its watchers are woken, but not
        rung by the game's name: the tail holds what is new.
        """
        self.tails.add(game_id, lines)
        for watch in self._watches.get(game_id, ()):
            watch.ring()
        self.on_hint(game_id)

    def hint(self, name: str) -> None:
        """There is more to read about this, here and in other processes."""
        self.ring(name)
        self.on_hint(name)

    def ring(self, name: str) -> None:
        """Wakes those in this process who wait for this."""
        for watch in self._watches.get(name, ()):
            watch.ring(name)

    def ring_all(self) -> None:
        """Wakes everybody: the service is stopping, or a credential may have ended."""
        for watch in self._everybody:
            watch.ring()
