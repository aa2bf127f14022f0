"""Items page by page, and what a page tells whom."""

from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace
from typing import Final

import structlog

from app.evaluations.games import FinishedGames
from app.evaluations.judged import judgements_from
from app.store.cursors import read_cursor, unknown_cursor, write_cursor
from app.store.evaluations import EvaluationStore
from app.store.tables import games as game_rows
from engine.errors import CorruptLog
from evaluators.ground.items import Dimension, Excluded, Followed, Item, Variant, items
from evaluators.ground.judgements import follow_scores
from evaluators.ground.turns import Game

__all__ = ["DAMAGED", "SHOWING", "Found", "Items"]

log = structlog.get_logger()

DAMAGED: Final = "damaged"
"""Why a game that does not read has no items; counted once a game."""

SHOWING: Final[frozenset[Dimension]] = frozenset({"selection", "following"})
"""Dimensions whose items show what was chosen: for raters only."""


_PLACE: Final = {"game_id": game_rows.c.game_id, "index": game_rows.c.position}
"""What a cursor of a page of items holds: a game, and the number of the page's first item in it, from 0."""


@dataclass(frozen=True, slots=True)
class Found:
    """A page of items."""

    items: list[Item]
    excluded: Counter[str]
    next: str | None


class Items:
    """Makes items of stored games."""

    def __init__(self, games: FinishedGames, store: EvaluationStore) -> None:
        self._games = games
        self._store = store

    async def variant(self, variant: Variant, games: Collection[str], *, followed: bool) -> Variant:
        """The variant with the filter on what was followed, by the judgements stored about these games."""
        if not followed:
            return variant
        said = judgements_from(await self._store.judgements_of(games))
        return replace(variant, followed=Followed(follow_scores(said)))

    async def page(
        self,
        games: list[str],
        dimension: Dimension,
        variant: Variant,
        *,
        followed: bool,
        limit: int,
        cursor: str | None,
    ) -> Found:
        """The next ``limit`` items of these games, in the order of games and logs."""
        start, skip = (0, 0) if cursor is None else _place(cursor, games)
        found: list[Item] = []
        excluded: Counter[str] = Counter()
        for place in range(start, len(games)):
            try:
                game = await self._games.by_id(games[place])
            except CorruptLog:
                excluded[DAMAGED] += 1
                continue
            filtered = await self.variant(variant, [game.id], followed=followed)
            of_game: Counter[Excluded] = Counter()
            for index, item in enumerate(items(game, dimension, filtered, excluded=of_game)):
                if place == start and index < skip:
                    continue
                if len(found) == limit:
                    return Found(found, excluded, write_cursor(game.id, index))
                found.append(item)
            # With the game's last item: a game that is cut by the page is counted once.
            excluded.update({str(reason): n for reason, n in of_game.items()})
        return Found(found, excluded, None)

    async def all(
        self, games: list[str], dimension: Dimension, variant: Variant, *, followed: bool
    ) -> AsyncIterator[tuple[Game, list[Item]]]:
        """Every item, game by game."""
        for game_id in games:
            try:
                game = await self._games.by_id(game_id)
            except CorruptLog as fault:
                log.error("a game is left out of items", game=game_id, cause=str(fault))
                continue
            filtered = await self.variant(variant, [game_id], followed=followed)
            yield game, list(items(game, dimension, filtered))


def _place(cursor: str, games: list[str]) -> tuple[int, int]:
    """Where a page goes on. By the game's id: games that finish meanwhile move the others' places."""
    game_id, index = read_cursor(cursor, _PLACE)
    if game_id not in games:
        raise unknown_cursor(" for this question")
    return games.index(game_id), index
