"""The last events of the games that are watched here, as this process committed them. With them, live
spectators cost the database nothing.

The log stays authoritative: a tail holds only committed events, and readers turn to the log for all others.
Events that another process wrote are a gap, and a tail never spans a gap.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from app.store.log import LogLine, is_last
from engine.terms import PUBLIC

__all__ = ["MAX_LINES", "Tails"]

MAX_LINES: Final = 512
"""Events kept of one game, including hidden ones."""


class Tails:
    """The end of each game's log, without gaps."""

    def __init__(self) -> None:
        self._kept: dict[str, list[LogLine]] = {}
        self._keepers: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        """The length that the log of each game had at some moment, where it is known."""

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

    def begin(self, game_id: str, head: int) -> None:
        """Notes that the log has ``head`` events, and that the next ones are added when this process commits
        them or hears of them. The game's tail is kept.
        """
        kept = self._kept[game_id]
        if kept and kept[-1].seq < head:
            kept.clear()
        self._begun[game_id] = max(head, self._begun.get(game_id, 0))

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
