"""Finished games as evaluators read them."""

import asyncio
from collections import OrderedDict
from typing import Final

from app.errors import NotFound, Unfinished
from app.store.games import GameStore, Row
from app.store.log import LogReader
from engine.errors import UNREADABLE, CorruptLog
from evaluators.errors import Unmeasurable
from evaluators.turns import Game, read_game

__all__ = ["FinishedGames"]

_KEPT: Final = 128
"""Games kept read: a page of items, its annotation and its scoring ask for the same ones. A finished
game never changes."""


class FinishedGames:
    """Reads finished games out of the store."""

    def __init__(self, store: GameStore, reader: LogReader) -> None:
        self._store = store
        self._reader = reader
        self._kept: OrderedDict[str, Game] = OrderedDict()

    async def game(self, row: Row) -> Game:
        """The game of this row. Raises Unfinished for one that is not over, and for one that cannot be
        measured: a cancelled game, a record without its deal.
        """
        game_id = row["game_id"]
        if row["status"] != "finished":
            raise Unfinished(f"items come of finished games only, this one is {row['status']}")
        kept = self._kept.get(game_id)
        if kept is None:
            log = await self._reader.events(game_id)
            try:
                kept = await asyncio.to_thread(read_game, game_id, log)
            except Unmeasurable as reason:
                raise Unfinished(str(reason)) from None
            except UNREADABLE as fault:
                raise CorruptLog(f"{game_id} cannot be read: {type(fault).__name__}") from None
            self._kept[game_id] = kept
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(game_id)
        return kept

    async def by_id(self, game_id: str) -> Game:
        """As ``game``; raises NotFound where there is none."""
        row = await self._store.game(game_id)
        if row is None:
            raise NotFound("no such game for this caller")
        return await self.game(row)

    async def finished(self, batch_id: str) -> list[str]:
        """The batch's finished games, in their order."""
        return await self._store.ids(batch_id, status=("finished",))
