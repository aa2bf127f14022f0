"""Keeps the views of seats whose games another process drives, for a moment after each use, so that a seat's
next call over HTTP reads only what is new.
"""

import asyncio
from contextlib import ExitStack
from typing import Final

from app.seats.remote_seat import RemoteSeat
from app.store.games import OPEN
from app.store.rows import GameRow
from app.stream.feed import Tails
from engine.terms import Seat

__all__ = ["FollowedGames"]

KEPT_S: Final = 60.0
"""Seconds for which a game is kept after its seats were last viewed."""


class FollowedGames:
    """The kept games of this process."""

    def __init__(self, tails: Tails) -> None:
        self._tails = tails
        self._seats: dict[str, dict[Seat, RemoteSeat]] = {}
        self._keeping: dict[str, tuple[asyncio.TimerHandle, ExitStack]] = {}

    def seats(self, row: GameRow) -> dict[Seat, RemoteSeat]:
        """The game's views, to which others may be added. A game that is over is not kept."""
        game_id = row.game_id
        if row.status not in OPEN:
            self.forget(game_id)
            return {}
        timer, kept = self._keeping.get(game_id, (None, ExitStack()))
        if timer is None:
            kept.enter_context(self._tails.keep(game_id))
            self._tails.begin(game_id, row.head)
        else:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._keeping[game_id] = loop.call_later(KEPT_S, self.forget, game_id), kept
        return self._seats.setdefault(game_id, {})

    def forget(self, game_id: str) -> None:
        """Gives the game's memory back, if it is kept."""
        self._seats.pop(game_id, None)
        if found := self._keeping.pop(game_id, None):
            timer, kept = found
            timer.cancel()
            kept.close()
