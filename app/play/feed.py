"""Tells those who watch a game or a batch that there is more to read. The log is the truth; this
is only a hint, sent after the commit.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["Feed", "Watch"]

POLL_S: Final = 0.1
"""How often a watcher reads on without a hint, where another process may write."""


class Watch:
    """One watcher's bell."""

    __slots__ = ("_bell", "_poll")

    def __init__(self, poll: bool) -> None:
        self._bell = asyncio.Event()
        self._poll = poll

    def ring(self) -> None:
        self._bell.set()

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # a bound on silence, not on work
        """Returns at the next hint or after ``timeout`` seconds; True when it is worth reading on.

        A hint that came since the last wait counts: read, then wait, and nothing is missed.
        """
        try:
            await asyncio.wait_for(self._bell.wait(), min(timeout, POLL_S) if self._poll else timeout)
        except TimeoutError:
            return self._poll
        self._bell.clear()
        return True


class Feed:
    """Who watches what, in this process. ``poll``: other processes write to the same database."""

    def __init__(self, *, poll: bool) -> None:
        self._poll = poll
        self._watches: dict[str, set[Watch]] = {}

    @contextmanager
    def watch(self, name: str) -> Iterator[Watch]:
        """Rings for every hint about this game or batch while the block lasts."""
        one = Watch(self._poll)
        self._watches.setdefault(name, set()).add(one)
        try:
            yield one
        finally:
            rest = self._watches[name]
            rest.discard(one)
            if not rest:
                del self._watches[name]

    def hint(self, name: str) -> None:
        """There is more to read about this game or batch."""
        for one in self._watches.get(name, ()):
            one.ring()

    def hint_all(self) -> None:
        """Wakes every watcher: the service is stopping."""
        for watches in self._watches.values():
            for one in watches:
                one.ring()
