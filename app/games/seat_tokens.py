"""Mints the tokens that come with new games, and tokens on demand. No token is ever stored; of those on
demand there is a row, by which they are listed and revoked.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms, timestamp
from app.base.errors import AlreadyOver, CodeSpent, Forbidden, InvalidRequest, NotFound
from app.edge.auth import ANYBODY, TRUSTED, Caller, Keys, epoch_of
from app.edge.quotas import Quotas
from app.edge.tokens import MAX_WATCH_S, SEAT_S, Grant
from app.games.access import known_game, own_seats, sight_of
from app.games.schemas import (
    BatchCreated,
    ClaimCodeView,
    ClaimedSeat,
    MintedToken,
    NewGameToken,
    SeatView,
    TokenPage,
    TokenView,
)
from app.seats.limits import Guesses
from app.seats.seating import remote_seats
from app.store.audit import Audit
from app.store.claim_codes import OFFERED, ClaimCodes, Claimed
from app.store.db import Database
from app.store.games import ENDED, GameStore, locked_game, new_id
from app.store.keys import KeyStore
from app.store.rows import GameRow, whole
from app.store.tokens import StoredToken, TokenStore
from app.stream.feed import ANY_SEAT, Feed, held_name
from engine.errors import CorruptLog, InvalidInput
from engine.terms import PUBLIC, Seat
from engine.view import read_viewer, viewer_name

__all__ = ["NO_STORE", "SeatTokens"]

_OF_OTHERS: Final = (
    "seat {seat} is somebody else's until the game ends: only a key with tokens:mint:any has tokens of it"
)

NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of answers that hold tokens."""


class SeatTokens:
    """Mints tokens for seats and for spectators."""

    def __init__(self, keys: Keys, store: GameStore, feed: Feed, database: Database, quotas: Quotas) -> None:
        self._keys = keys
        self._store = store
        self._feed = feed
        self._database = database
        self._stored_keys = KeyStore(database)
        self._codes = ClaimCodes(database)
        self._tokens = TokenStore(database)
        self._audit = Audit(database)
        self._guesses = Guesses()
        self._looking = asyncio.Lock()
        self._quotas = quotas

    async def with_tokens(self, created: BatchCreated, caller: Caller) -> BatchCreated:
        """A copy with a new token for each remote seat of the caller's. Raises CorruptLog for an unreadable
        game row.
        """
        rows = await self._store.games_of(game.game_id for game in created.games)
        games = []
        for game in created.games:
            if game.game_id not in rows:
                if await self._store.game(game.game_id) is not None:
                    raise CorruptLog(f"the row of {game.game_id} cannot be read")
                games.append(game)  # deleted since
                continue
            games.append(game.model_copy(update={"seats": self.of_game(rows[game.game_id], caller)}))
        return created.model_copy(update={"games": games})

    def of_game(self, row: GameRow, caller: Caller) -> list[SeatView]:
        """Every seat of the caller's game, each remote seat that is not somebody else's with a new token."""
        own = own_seats(row, caller.owner)
        return [
            SeatView(seat=seat, token=self.of_player(row, seat, caller.name) if seat in own else None)
            for seat, _ in enumerate(row.seats, 1)
        ]

    def of_player(self, row: GameRow, seat: Seat, caller: str) -> str:
        """A new token for the player of this seat. ``caller``: the public name of the credential that gets
        it: the token dies with that.
        """
        expires = _now_s() + SEAT_S
        return self._keys.mint(
            Grant.for_seat(row.game_id, seat, epoch_of(row.epochs, seat), expires, by=caller)
        )

    async def for_game(self, row: GameRow, new: NewGameToken, caller: Caller) -> TokenView:
        """Mints the requested token. Raises InvalidRequest, and Forbidden for a seat of somebody else."""
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
            grant = Grant.to_watch(_now_s() + (new.ttl_s or MAX_WATCH_S), game=row.game_id)
            return await self._minted(grant, row.batch_id, caller)
        # The epoch is read where the token is stored.
        grant = Grant.for_seat(row.game_id, viewer, 0, _now_s() + (new.ttl_s or SEAT_S))
        minted = await self._minted(grant, row.batch_id, caller, raises=new.raise_epoch)
        if new.raise_epoch:
            self._tell(row.game_id, viewer)
        return minted

    async def for_batch(self, batch_id: str, ttl_s: int, caller: Caller) -> TokenView:
        """A token that watches every game of the batch."""
        return await self._minted(Grant.to_watch(_now_s() + ttl_s, batch=batch_id), batch_id, caller)

    async def _minted(
        self, grant: Grant, batch_id: str, caller: Caller, *, raises: bool = False
    ) -> TokenView:
        """Stores the token's row and signs the token. ``raises``: the seat's earlier tokens are revoked.
        Raises Forbidden for a seat of somebody else, and QuotaExceeded.
        """
        seat = None if grant.viewer == PUBLIC else grant.viewer
        token = StoredToken(
            token_id=new_id("t"),
            game_id=grant.game,
            batch_id=batch_id,
            seat=seat,
            owner=caller.owner,
            by=caller.name,
            created_at=self._database.writer.stamp(),
            expires_at=grant.expires * 1000,
        )

        owner = await self._store.owner(batch_id)

        async def work(connection: AsyncConnection) -> int:
            epoch = grant.epoch
            if grant.game is not None:
                row = known_game(await locked_game(connection, grant.game))
                if seat is not None:
                    # Whose the seat is may have changed since the caller looked.
                    _needs_seat(row, seat, caller, owner)
                    epoch = epoch_of(row.epochs, seat)
                    if raises:
                        epoch = await self._stored_keys.raise_epoch_in(connection, grant.game, seat)
            await self._quotas.take(connection, caller.owner, "tokens_a_day")
            await self._tokens.add(connection, token)
            await self._audit.add(
                connection,
                caller,
                "mint",
                grant.game or batch_id,
                viewer=viewer_name(grant.viewer),
                token=token.token_id,
                raise_epoch=raises or None,
            )
            return epoch

        epoch = await self._database.writer.run(work)
        signed = self._keys.mint(replace(grant, epoch=epoch, by=caller.name, id=token.token_id))
        return TokenView(
            token_id=token.token_id,
            viewer=viewer_name(grant.viewer),
            token=signed,
            expires_at=timestamp(token.expires_at),
        )

    def _tell(self, game_id: str, seat: Seat) -> None:
        """Has connections check again whether they may go on: the seat's holder, its readers, and keys that
        see more than the public.
        """
        self._feed.hint(held_name(game_id, seat))
        self._feed.hint(held_name(game_id, ANY_SEAT))
        self._feed.hint(game_id)

    # --- listing and revoking ----------------------------------------------------------------

    async def page(
        self, caller: Caller, within: Sequence[str], *, limit: int, cursor: str | None
    ) -> TokenPage:
        """The caller's tokens, newest first; everybody's with ``tokens:mint:any``."""
        owner = None if caller.has_any("tokens:mint") else caller.owner
        rows, following = await self._tokens.page(owner=owner, within=within, limit=limit, cursor=cursor)
        now = now_ms()
        return TokenPage(
            tokens=[
                MintedToken(
                    token_id=row.token_id,
                    viewer="public" if row.seat is None else f"seat:{row.seat}",
                    game_id=row.game_id,
                    batch_id=row.batch_id,
                    by=row.by,
                    state="revoked" if self._keys.is_compromised(row.by) else row.state(now),
                    created_at=timestamp(row.created_at),
                    expires_at=timestamp(row.expires_at),
                    revoked_at=None if row.revoked_at is None else timestamp(row.revoked_at),
                )
                for row in rows
            ],
            next=following,
        )

    async def revoke(self, token_id: str, caller: Caller) -> None:
        """Revokes a token, also one that has expired. Raises NotFound for one out of the caller's reach."""
        token = await self._tokens.find(token_id)
        if token is None or not caller.may("tokens:mint", token.owner):
            raise NotFound("no such token for this caller")
        if token.revoked_at is None:
            async with self._audit.noted(
                caller, "revoke token", token_id, of=token.game_id or token.batch_id
            ):
                await self._tokens.revoke(token_id, now_ms())
        await self._keys.refresh()

    # --- codes -------------------------------------------------------------------------------

    async def claim_code(self, row: GameRow, seat: Seat, ttl_s: int, caller: Caller) -> ClaimCodeView:
        """A new code for the seat; an earlier one that nobody has used is no longer good. A seat that a key
        has, as the game's owner or by a code, is no longer that key's: its tokens are revoked. Raises
        InvalidRequest for a seat that is not played from outside, Forbidden for one that somebody else has,
        AlreadyOver for a game that has ended, and QuotaExceeded.
        """
        if seat not in remote_seats(row.seats):
            raise InvalidRequest(f"seat {seat} of this game is not a remote seat", "/seat", "not_remote")
        owner = await self._store.owner(row.batch_id)

        def epoch(found: GameRow | None) -> int | None:
            locked = known_game(found)
            if locked.status in ENDED:
                raise AlreadyOver("this game is over: nobody takes a seat of it any more")
            holder = (whole(locked.taken) or {}).get(str(seat))
            if holder != OFFERED:
                _needs_seat(locked, seat, caller, owner)
                if holder is not None or owner not in TRUSTED:
                    return None
            return epoch_of(locked.epochs, seat)

        expires = now_ms() + ttl_s * 1000
        await self._database.writer.run(
            lambda connection: self._quotas.take(connection, caller.owner, "tokens_a_day")
        )
        async with self._audit.noted(caller, "make a code", row.game_id, seat=seat):
            code = await self._codes.make(row.game_id, seat, expires, by=caller.name, epoch=epoch)
        self._tell(row.game_id, seat)
        return ClaimCodeView(
            game_id=row.game_id,
            seat=seat,
            code=code,
            link=f"/ui/#/claim/{code}",
            expires_at=timestamp(expires),
        )

    async def claim(self, code: str, address: str, caller: Caller = ANYBODY) -> ClaimedSeat:
        """Exchanges a code for the token of its seat, once. ``caller``: a key has the seat from then on, as
        one that it has claimed. ``address``: who asks without a key. A key's owner, or else an address, may
        be wrong only so often. Raises RateLimited, NotFound for an unknown code, and CodeSpent.
        """
        # A token's owner is whoever made it, and no owner looks like an address.
        guesser = caller.owner if caller.owner and caller.grant is None else address
        now = now_ms()
        owner = None if caller.key_id is None else caller.owner

        def check(claimed: Claimed, game: GameRow) -> None:
            if (why := self._why_spent(claimed, game, now)) is not None:
                raise CodeSpent(why)

        # One after the other, so that wrong codes that come at once are not more than others.
        async with self._looking:
            began = time.monotonic()
            self._guesses.check(guesser, began)
            claimed = await self._codes.use(code, now, caller, owner, check)
            if claimed is None:
                self._guesses.wrong(guesser, began)
                raise NotFound("no seat has this code; perhaps a newer code has replaced it")
        self._tell(claimed.game_id, claimed.seat)
        expires = _now_s() + SEAT_S
        grant = Grant.for_seat(claimed.game_id, claimed.seat, claimed.epoch, expires, by=claimed.by or "")
        token = self._keys.mint(replace(grant, claimed_by="" if caller.key_id is None else caller.name))
        return ClaimedSeat(
            game_id=claimed.game_id, seat=claimed.seat, token=token, expires_at=timestamp(expires * 1000)
        )

    def _why_spent(self, claimed: Claimed, game: GameRow, now: int) -> str | None:
        """Why the code is good for nothing; None: it is good. Raises CorruptLog."""
        if claimed.used_at is not None:
            return "this code was used before; it is good for one browser, once"
        if claimed.expires_at <= now:
            return "this code has expired"
        if game.status in ENDED:
            return "the game of this code is over"
        if self._keys.is_compromised(claimed.by):
            return "the key that made this code was revoked as compromised"
        if epoch_of(game.epochs, claimed.seat) != claimed.epoch:
            return "the seat's tokens were revoked, and this code with them"
        return None


def _needs_seat(row: GameRow, seat: Seat, caller: Caller, owner: str) -> None:
    """Raises Forbidden for a seat of somebody else than the caller. ``owner``: the game's."""
    if seat not in sight_of(caller, row, owner).answers:
        raise Forbidden(_OF_OTHERS.format(seat=seat))


def _now_s() -> int:
    return now_ms() // 1000
