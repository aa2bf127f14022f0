"""The tokens that were minted on demand: who minted them, for what, and which were revoked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.cursors import newest_first
from app.store.db import Database
from app.store.rows import is_readable
from app.store.tables import tokens

__all__ = ["StoredToken", "TokenStore"]

KEPT_MS: Final = 30 * 24 * 3_600_000
"""How long the row of an expired watch token is kept, in milliseconds. Those of seats stay as long as their
games: who held one may not answer for others' views (``app/evaluations/gold.py``).
"""

_PLACE: Final = {"created_at": tokens.c.created_at, "token_id": tokens.c.token_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """What is stored of a token."""

    token_id: str
    game_id: str | None
    """None: it watches the whole batch."""
    batch_id: str
    seat: int | None
    """None: it only watches."""
    owner: str
    by: str
    """The public name of the credential that it came from."""
    created_at: int
    expires_at: int
    revoked_at: int | None = None

    def state(self, now_ms: int) -> Literal["active", "expired", "revoked"]:
        """What has become of the token, unless the key that it came from was revoked as compromised."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now_ms else "active"


class TokenStore:
    """The rows of tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, connection: AsyncConnection, token: StoredToken) -> None:
        """Stores a token, in the caller's transaction, and drops watch tokens that expired long ago."""
        values = {name: getattr(token, name) for name in StoredToken.__slots__}
        long_ago = tokens.c.expires_at < token.created_at - KEPT_MS
        await connection.execute(delete(tokens).where(long_ago, tokens.c.seat.is_(None)))
        await connection.execute(insert(tokens), [values])

    async def page(
        self, *, owner: str | None, within: Sequence[str], limit: int, cursor: str | None
    ) -> tuple[list[StoredToken], str | None]:
        """A page of tokens, newest first, and the next page's cursor. ``owner``: only this owner's; None:
        everybody's. ``within``: only of these games and batches; empty: of all. Damaged rows are left out.
        """
        query = select(tokens)
        if owner is not None:
            query = query.where(tokens.c.owner == owner)
        if within:
            query = query.where(or_(tokens.c.game_id.in_(within), tokens.c.batch_id.in_(within)))
        page, following = await newest_first(self._database, query, _PLACE, limit, cursor)
        return [_stored(row) for row in page if is_readable(tokens, row)], following

    async def find(self, token_id: str) -> StoredToken | None:
        """The token of this id; None: there is none that can be read."""
        rows = await self._database.mappings(select(tokens).where(tokens.c.token_id == token_id))
        return _stored(rows[0]) if rows and is_readable(tokens, rows[0]) else None

    async def revoke(self, token_id: str, at: int) -> bool:
        """Revokes a token. False if it was revoked before."""
        this = tokens.c.token_id == token_id
        return (
            await self._database.writer.execute(
                update(tokens).where(this, tokens.c.revoked_at.is_(None)).values(revoked_at=at)
            )
            == 1
        )


def _stored(row: Any) -> StoredToken:
    return StoredToken(**{name: row[name] for name in StoredToken.__slots__})
