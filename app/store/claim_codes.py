"""One-time codes that are exchanged for the token of a seat. Only their hashes are stored."""

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.audit import Audit, Doer
from app.store.db import Database
from app.store.games import locked_game, random_signs
from app.store.keys import KeyStore
from app.store.rows import GameRow, check_row, whole
from app.store.tables import claim_codes

__all__ = ["CLAIMED", "OFFERED", "ClaimCodes", "Claimed"]

OFFERED: Final = ""
CLAIMED: Final = "claimed"
"""Whose a seat is that a code is out for, and one that somebody without a key has taken by a code
(``GameRow.taken``)."""

_SIGNS: Final = 26


class Claimed(NamedTuple):
    """The seat that a code stands for."""

    game_id: str
    seat: int
    epoch: int
    expires_at: int
    """ms"""
    used_at: int | None
    """When it was used before; None: never."""
    by: str | None
    """The public name of the credential that made it; None: unknown."""


class ClaimCodes:
    """The codes in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys = KeyStore(database)
        self._audit = Audit(database)

    async def make(
        self,
        game_id: str,
        seat: int,
        expires_at: int,
        *,
        by: str,
        epoch: Callable[[GameRow | None], int | None],
    ) -> str:
        """A new code of 130 random bits; it replaces an earlier unused one. ``by``: the public name of the
        credential that makes it. ``epoch``: gets the game's row, locked, or None for no such game, and
        gives the epoch of the seat's tokens, or None if they are to be revoked and the seat is to be whose
        code it is. It raises what refuses the code.
        """
        code = random_signs(_SIGNS)

        async def work(connection: AsyncConnection) -> None:
            now = epoch(await locked_game(connection, game_id))
            if now is None:
                now = await self._keys.raise_epoch_in(connection, game_id, seat, OFFERED)
            await connection.execute(
                delete(claim_codes).where(
                    claim_codes.c.game_id == game_id,
                    claim_codes.c.seat == seat,
                    claim_codes.c.used_at.is_(None),
                )
            )
            await connection.execute(
                insert(claim_codes).values(
                    code=_hash(code), game_id=game_id, seat=seat, epoch=now, expires_at=expires_at, by=by
                )
            )

        await self._database.writer.run(work)
        return code

    async def use(
        self, code: str, now: int, by: Doer, owner: str | None, check: Callable[[Claimed, GameRow], None]
    ) -> Claimed | None:
        """Uses the code up. A seat that changes hands loses its earlier tokens. What the code stands for,
        with the epoch of the seat's new tokens; None for an unknown code. ``by``: who uses it. ``owner``:
        whose the seat is from then on, and who is remembered to have had it; None: nobody's in particular, so
        that only a seat that was offered changes hands. ``check``: raises what is wrong with
        the code. Raises CorruptLog for a code whose row cannot be read.
        """
        this = claim_codes.c.code == _hash(code)
        c = claim_codes.c
        query = select(c.game_id, c.seat, c.epoch, c.expires_at, c.used_at, c.by).where(this)

        async def found(connection: AsyncConnection) -> Claimed | None:
            row = (await connection.execute(query)).first()
            if row is None:
                return None
            check_row(claim_codes, {"code": _hash(code), **row._mapping})
            return Claimed(*row)

        async def work(connection: AsyncConnection) -> Claimed | None:
            claimed = await found(connection)
            game = None if claimed is None else await locked_game(connection, claimed.game_id)
            # Codes change under the lock of their game: what was read before may have changed.
            claimed = None if game is None else await found(connection)
            if game is None or claimed is None:
                return None
            check(claimed, game)
            await connection.execute(update(claim_codes).where(this).values(used_at=now, used_by=owner))
            before = (whole(game.taken) or {}).get(str(claimed.seat))
            if before == OFFERED or (before is None and owner is not None):
                taker = CLAIMED if owner is None else owner
                epoch = await self._keys.raise_epoch_in(connection, claimed.game_id, claimed.seat, taker)
                claimed = claimed._replace(epoch=epoch)
            await self._audit.add(
                connection, by, "claim", claimed.game_id, seat=claimed.seat, code_by=claimed.by
            )
            return claimed

        return await self._database.writer.run(work)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
