"""Which games and batches a caller reaches. An unknown id and one out of reach get the same answer after
the same work.
"""

from app.base.errors import NotFound
from app.edge.auth import Caller
from app.store.games import GameStore
from app.store.rows import BatchRow, GameRow

__all__ = ["Access", "needs_or_watches"]


def needs_or_watches(scope: str, caller: Caller) -> None:
    """Raises Forbidden for a key without the scope, and for a token that does not cover a whole batch."""
    if caller.grant is None or caller.grant.batch is None:
        caller.needs(scope)


class Access:
    """Finds games and batches for callers."""

    def __init__(self, store: GameStore) -> None:
        self._store = store

    async def reaches(self, caller: Caller, game: GameRow) -> bool:
        """Whether the credential covers this game. A key without ``export:full`` does not cover a fork that
        would tell more about its source's past than the source does, as long as the source still runs.
        """
        if caller.grant is not None or caller.sees_all or game.forked_from is None:
            return caller.reaches(game)
        return not await self._store.ahead([game.game_id])

    async def game(self, caller: Caller, game_id: str) -> GameRow:
        """The row of a game within the credential's reach. Raises NotFound."""
        row = caller.row
        if row is None or row.game_id != game_id:
            row = await self._store.game(game_id)
        if row is None or not await self.reaches(caller, row):
            raise NotFound("no such game for this caller")
        return row

    async def batch(self, caller: Caller, batch_id: str, scope: str = "games:read") -> BatchRow:
        """The row of a batch within the credential's reach. Raises Forbidden or NotFound."""
        needs_or_watches(scope, caller)
        row = await self._store.batch(batch_id)
        if row is None or not caller.reaches_batch(batch_id) or await self._is_hidden(caller, row):
            raise NotFound("no such batch for this caller")
        return row

    async def _is_hidden(self, caller: Caller, batch: BatchRow) -> bool:
        return caller.grant is None and not caller.sees_all and await self._store.is_ahead(batch)
