"""Mints the tokens that come with new games, and tokens on demand. No token is ever stored."""

import time
from typing import Final

from app.base.clock import now_ms, timestamp
from app.base.errors import CodeSpent, InvalidRequest, NotFound
from app.edge.auth import Keys, epoch_of
from app.edge.tokens import MAX_WATCH_S, SEAT_S, Grant
from app.games.schemas import (
    BatchCreated,
    ClaimCodeView,
    ClaimedSeat,
    NewGameToken,
    SeatView,
    TokenView,
)
from app.seats.limits import Guesses
from app.seats.seating import remote_seats
from app.store.claim_codes import ClaimCodes
from app.store.games import GameStore
from app.store.rows import GameRow
from app.stream.feed import Feed, held_name
from engine.errors import CorruptLog, InvalidInput
from engine.terms import PUBLIC, Seat
from engine.view import read_viewer, viewer_name

__all__ = ["NO_STORE", "SeatTokens"]

NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of answers that hold tokens."""


class SeatTokens:
    """Mints tokens for seats and for spectators."""

    def __init__(self, keys: Keys, store: GameStore, feed: Feed, codes: ClaimCodes) -> None:
        self._keys = keys
        self._store = store
        self._feed = feed
        self._codes = codes
        self._guesses = Guesses()

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

    def of_player(self, row: GameRow, seat: Seat, caller: str) -> str:
        """A new token for the seat of a game that the seat's player was paired for. ``caller``: the public
        name of the credential that sought it.
        """
        return self._keys.mint(
            Grant.for_seat(row.game_id, seat, epoch_of(row.epochs, seat), _now_s() + SEAT_S)
        )

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

    async def claim_code(self, row: GameRow, seat: Seat, ttl_s: int) -> ClaimCodeView:
        """A new code for the seat; an earlier one that nobody has used is no longer good. Raises
        InvalidRequest for a seat that is not played from outside.
        """
        if seat not in remote_seats(row.seats):
            raise InvalidRequest(f"seat {seat} of this game is not a remote seat", "/seat", "not_remote")
        expires = now_ms() + ttl_s * 1000
        code = await self._codes.make(row.game_id, seat, epoch_of(row.epochs, seat), expires)
        return ClaimCodeView(
            game_id=row.game_id,
            seat=seat,
            code=code,
            link=f"/ui/#/claim/{code}",
            expires_at=timestamp(expires),
        )

    async def claim(self, code: str, address: str) -> ClaimedSeat:
        """Exchanges a code for the token of its seat, once. ``address``: who asks; it may be wrong only so
        often. Raises RateLimited, NotFound for an unknown code, and CodeSpent.
        """
        began = time.monotonic()
        self._guesses.check(address, began)
        now = now_ms()
        claimed = await self._codes.use(code, now)
        row = None if claimed is None else await self._store.game(claimed.game_id)
        if claimed is None or row is None:
            self._guesses.wrong(address, began)
            raise NotFound("no seat has this code; perhaps a newer code has replaced it")
        if claimed.used_at is not None:
            raise CodeSpent("this code was used before; it is good for one browser, once")
        if claimed.expires_at <= now:
            raise CodeSpent("this code has expired")
        epoch = epoch_of(row.epochs, claimed.seat)
        if epoch != claimed.epoch:
            raise CodeSpent("the seat's tokens were revoked, and this code with them")
        expires = _now_s() + SEAT_S
        token = self._keys.mint(Grant.for_seat(claimed.game_id, claimed.seat, epoch, expires))
        return ClaimedSeat(
            game_id=claimed.game_id, seat=claimed.seat, token=token, expires_at=timestamp(expires * 1000)
        )

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
