"""Finished games as evaluators read them."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from app.base.errors import NotFound, Unfinished
from app.store.games import GameStore
from app.store.log import LogReader
from app.store.rows import GameRow
from engine.errors import UNREADABLE, CorruptLog
from evaluators.errors import Unmeasurable
from evaluators.ground.turns import Game, read_game

__all__ = ["FinishedGames", "Turn"]

Turn = tuple[str, str]
"""A game and the request of a speaking turn in it."""

_KEPT: Final = 128
"""Games kept read: a page of items, its annotation and its scoring ask for the same ones. A finished
game never changes."""


class FinishedGames:
    """Reads finished games out of the store."""

    def __init__(self, store: GameStore, reader: LogReader) -> None:
        self._store = store
        self._reader = reader
        self._kept: OrderedDict[str, Game] = OrderedDict()

    async def game(self, row: GameRow) -> Game:
        """The game of this row. Raises Unfinished for one that is not over, and for one that cannot be
        measured: a cancelled game, a record without its deal.
        """
        game_id = row.game_id
        if row.status != "finished":
            raise Unfinished(f"items come of finished games only, this one is {row.status}")
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

    async def by_id(self, game_id: str, *, sees_all: bool = True) -> Game:
        """As ``game``; raises NotFound where there is none, and for who does not see all where it is a fork
        of a game that still runs.
        """
        row = await self._store.game(game_id)
        if row is None or (not sees_all and row.forked_from and await self._store.ahead([game_id])):
            raise NotFound("no such game for this caller")
        return await self.game(row)

    async def first_played(self, turns: Collection[Turn]) -> dict[Turn, Turn]:
        """Each turn, named by the game in which it was played: a fork shares its past with its source."""
        found = {turn: turn for turn in turns}
        for game_id in {game_id for game_id, _ in turns}:
            if sources := await self._sources(game_id):
                for turn in (await self.by_id(game_id)).turns:
                    owner = game_id
                    for source, events in sources:
                        if turn.utterance >= events:
                            break
                        owner = source
                    if (game_id, turn.request_id) in found:
                        found[game_id, turn.request_id] = owner, turn.request_id
        return found

    async def _sources(self, game_id: str) -> list[tuple[str, int]]:
        """The games whose past it carries, nearest first, each with how many of its events."""
        found: list[tuple[str, int]] = []
        while (row := await self._store.game(game_id)) is not None and (origin := row.forked_from):
            game_id = origin["game_id"]
            found.append((game_id, origin["events"]))
        return found

    async def finished(self, batch_id: str) -> list[str]:
        """The batch's finished games, in their order."""
        return await self._store.ids(batch_id, status=("finished",))
