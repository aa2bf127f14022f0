"""Mints the tokens that come with new games, and tokens on demand. No token is ever stored."""

from typing import Final

from app.base.clock import now_ms, timestamp
from app.base.errors import InvalidRequest
from app.edge.auth import Keys, epoch_of
from app.edge.tokens import MAX_WATCH_S, SEAT_S, Grant
from app.games.schemas import BatchCreated, NewGameToken, SeatView, TokenView
from app.seats.seating import remote_seats
from app.store.games import GameStore
from app.store.rows import GameRow
from app.stream.feed import Feed, held_name
from engine.errors import CorruptLog, InvalidInput
from engine.terms import PUBLIC
from engine.view import read_viewer, viewer_name

__all__ = ["NO_STORE", "SeatTokens"]

NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of answers that hold tokens."""


class SeatTokens:
    """Mints tokens for seats and for spectators."""

    def __init__(self, keys: Keys, store: GameStore, feed: Feed) -> None:
        self._keys = keys
        self._store = store
        self._feed = feed

    async def with_tokens(self, created: BatchCreated) -> BatchCreated:
        """A copy with a new token for each remote seat. Raises CorruptLog for an unreadable game row."""
        rows = await self._store.games_of(game.game_id for game in created.games)
        games = []
        for game in created.games:
            if game.game_id not in rows:
                if await self._store.game(game.game_id) is not None:
                    raise CorruptLog(f"the row of {game.game_id} cannot be read")
                games.append(game)  # deleted since
                continue
            games.append(game.model_copy(update={"seats": self.of_game(rows[game.game_id])}))
        return created.model_copy(update={"games": games})

    def of_game(self, row: GameRow) -> list[SeatView]:
        """Every seat of a game, each remote seat with a new token."""
        expires = _now_s() + SEAT_S
        remote = remote_seats(row.seats)
        return [
            SeatView(
                seat=seat,
                token=self._keys.mint(Grant.for_seat(row.game_id, seat, epoch_of(row.epochs, seat), expires))
                if seat in remote
                else None,
            )
            for seat, _ in enumerate(row.seats, 1)
        ]

    async def for_game(self, row: GameRow, new: NewGameToken) -> TokenView:
        """Mints the requested token. Raises InvalidRequest."""
        game_id = row.game_id
        try:
            viewer = read_viewer(new.viewer, row.players)
        except InvalidInput:
            raise InvalidRequest(
                f"a token is for public or seat:1 to seat:{row.players}", "/viewer"
            ) from None
        if viewer == PUBLIC:
            if new.raise_epoch:
                raise InvalidRequest("only a seat has an epoch; a watch token just expires", "/raise_epoch")
            if new.ttl_s is not None and new.ttl_s > MAX_WATCH_S:
                raise InvalidRequest(f"a watch token lasts {MAX_WATCH_S} s at most", "/ttl_s")
            return self._shown(Grant.to_watch(_now_s() + (new.ttl_s or MAX_WATCH_S), game=game_id))
        if new.raise_epoch:
            epoch = await self._keys.raise_epoch(game_id, viewer)
            # Connections with an older token check it again and close: the seat's holder, and its readers.
            self._feed.hint(held_name(game_id, viewer))
            self._feed.hint(game_id)
        else:
            epoch = epoch_of(row.epochs, viewer)
        return self._shown(Grant.for_seat(game_id, viewer, epoch, _now_s() + (new.ttl_s or SEAT_S)))

    def for_batch(self, batch_id: str, ttl_s: int) -> TokenView:
        """A token that watches every game of the batch."""
        return self._shown(Grant.to_watch(_now_s() + ttl_s, batch=batch_id))

    def _shown(self, grant: Grant) -> TokenView:
        return TokenView(
            viewer=viewer_name(grant.viewer),
            token=self._keys.mint(grant),
            expires_at=timestamp(grant.expires * 1000),
        )


def _now_s() -> int:
    return now_ms() // 1000
