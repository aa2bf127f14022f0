"""One-time codes that are exchanged for the token of a seat. Only their hashes are stored."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.audit import Audit, Doer
from app.store.db import Database
from app.store.games import random_signs
from app.store.keys import KeyStore
from app.store.rows import Damaged, check_row
from app.store.tables import claim_codes, games

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
    epochs: Mapping[str, int] | Damaged | None = None
    """Of the valid tokens of the game's seats."""


class ClaimCodes:
    """The codes in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys = KeyStore(database)
        self._audit = Audit(database)

    async def make(
        self, game_id: str, seat: int, epoch: int, expires_at: int, *, by: str, offers: bool = False
    ) -> str:
        """A new code of 130 random bits; it replaces an earlier unused one. ``by``: the public name of the
        credential that makes it. ``offers``: the seat no longer belongs to the owner, and its tokens are
        revoked.
        """
        code = random_signs(_SIGNS)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                delete(claim_codes).where(
                    claim_codes.c.game_id == game_id,
                    claim_codes.c.seat == seat,
                    claim_codes.c.used_at.is_(None),
                )
            )
            now = await self._keys.give_seat(connection, game_id, seat, OFFERED) if offers else epoch
            await connection.execute(
                insert(claim_codes).values(
                    code=_hash(code), game_id=game_id, seat=seat, epoch=now, expires_at=expires_at, by=by
                )
            )

        await self._database.writer.run(work)
        return code

    async def use(
        self, code: str, now: int, by: Doer, owner: str | None, is_good: Callable[[Claimed], bool]
    ) -> Claimed | None:
        """Uses the code up if it is good. What it stands for, as it was before; None for an unknown code.
        ``by``: who uses it. ``owner``: whose the seat is from then on, and who is remembered to have had
        it; None: nobody's in particular, so that only a seat that was offered changes. Raises CorruptLog for
        a code whose row cannot be read.
        """
        this = claim_codes.c.code == _hash(code)

        async def work(connection: AsyncConnection) -> Claimed | None:
            row = (
                await connection.execute(
                    select(
                        claim_codes.c.game_id,
                        claim_codes.c.seat,
                        claim_codes.c.epoch,
                        claim_codes.c.expires_at,
                        claim_codes.c.used_at,
                        claim_codes.c.by,
                    )
                    .where(this)
                    .with_for_update()
                )
            ).first()
            if row is None:
                return None
            check_row(claim_codes, {"code": _hash(code), **row._mapping})
            found = Claimed(*row)
            game = games.c.game_id == found.game_id
            held = (
                await connection.execute(select(games.c.epochs, games.c.taken).where(game).with_for_update())
            ).first()
            if held is None:
                return None
            found = found._replace(epochs=held.epochs)
            if is_good(found):
                await connection.execute(update(claim_codes).where(this).values(used_at=now, used_by=owner))
                taken, seat = held.taken or {}, str(found.seat)
                before = taken.get(seat)
                if before == OFFERED or (before is None and owner is not None):
                    taken = {**taken, seat: CLAIMED if owner is None else owner}
                    await connection.execute(update(games).where(game).values(taken=taken))
                await self._audit.add(
                    connection, by, "claim", found.game_id, seat=found.seat, code_by=found.by
                )
            return found

        return await self._database.writer.run(work)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
