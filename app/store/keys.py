"""API keys and the secrets that tokens are signed with, in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.db import Database
from app.store.json_column import Damaged
from app.store.row_checks import is_readable
from app.store.tables import api_keys, games, token_secrets

__all__ = ["ApiKey", "KeyStore", "TokenSecret"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: what it may do, never the key itself. Times are UTC, ms since 1970."""

    key_id: str
    name: str
    hash: str
    """SHA-256 of the key, hexadecimal."""
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    used_at: int | None = None
    """The hour of the last use."""
    revoked_at: int | None = None

    def state(self, now_ms: int) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now_ms else "active"


@dataclass(frozen=True, slots=True)
class TokenSecret:
    """A secret of the service's own making; the one with the highest number signs."""

    number: int
    secret: str
    created_at: int


_KEY_COLUMNS: Final = tuple(api_keys.c[name] for name in ApiKey.__slots__)


class KeyStore:
    """Everything the database knows of credentials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keys(self) -> list[ApiKey]:
        """Every key there ever was, oldest first, but for those whose row does not read."""
        query = select(*_KEY_COLUMNS).order_by(api_keys.c.created_at, api_keys.c.key_id)
        async with self._database.read_engine.connect() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [
            ApiKey(**{**row, "scopes": tuple(row["scopes"])})
            for row in rows
            if is_readable(api_keys, row) and not isinstance(row["scopes"], Damaged)
        ]

    async def damaged_keys(self) -> list[str]:
        """Ids of keys whose row does not read: they open nothing."""
        async with self._database.read_engine.connect() as connection:
            ids = (await connection.execute(select(api_keys.c.key_id))).scalars().all()
        known = {key.key_id for key in await self.keys()}
        return [str(key_id) for key_id in ids if key_id not in known]

    async def has_keys(self) -> bool:
        """Whether there ever was a key. False where the schema is older than keys, or not there yet.

        Raises what a database raises that cannot be reached.
        """
        async with self._database.read_engine.connect() as connection:
            try:
                found = await connection.execute(select(func.count()).select_from(api_keys))
            except DBAPIError:
                return False
            return bool(found.scalar_one())

    async def add(self, key: ApiKey) -> None:
        values = {name: getattr(key, name) for name in ApiKey.__slots__}

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(insert(api_keys), [{**values, "scopes": list(key.scopes)}])

        await self._database.writer.run(work)

    async def revoke(self, key_id: str, at: int) -> bool:
        """Ends a key. False when there is none of this id that was not ended before."""

        async def work(connection: AsyncConnection) -> bool:
            done = await connection.execute(
                update(api_keys)
                .where(api_keys.c.key_id == key_id, api_keys.c.revoked_at.is_(None))
                .values(revoked_at=at)
            )
            return done.rowcount == 1

        return await self._database.writer.run(work)

    async def mark_used(self, used: Mapping[str, int]) -> None:
        """Writes the hour of the last use, by key."""

        async def work(connection: AsyncConnection) -> None:
            for key_id, hour in used.items():
                await connection.execute(
                    update(api_keys).where(api_keys.c.key_id == key_id).values(used_at=hour)
                )

        await self._database.writer.run(work)

    async def secrets(self) -> list[TokenSecret]:
        """The secrets of tokens that read, newest first."""
        query = select(token_secrets).order_by(token_secrets.c.number.desc())
        async with self._database.read_engine.connect() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [TokenSecret(**row) for row in rows if is_readable(token_secrets, row)]

    async def last_secret(self) -> int:
        """The highest number of a secret, readable or not; 0 where there is none."""
        query = select(func.coalesce(func.max(token_secrets.c.number), 0))
        async with self._database.read_engine.connect() as connection:
            return int((await connection.execute(query)).scalar_one())

    async def add_secret(self, secret: TokenSecret) -> bool:
        """Stores a secret under its number. False when another process was faster: read again."""

        async def work(connection: AsyncConnection) -> None:
            values = {name: getattr(secret, name) for name in TokenSecret.__slots__}
            await connection.execute(insert(token_secrets), [values])

        try:
            await self._database.writer.run(work)
        except IntegrityError:
            return False
        return True

    async def drop_secrets(self, numbers: Sequence[int]) -> None:
        """Forgets secrets: what they signed is void."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(token_secrets).where(token_secrets.c.number.in_(numbers)))

        await self._database.writer.run(work)

    async def raise_epoch(self, game_id: str, seat: int) -> int:
        """Counts a seat's epoch up by one and returns the new one; older tokens of the seat are void."""

        async def work(connection: AsyncConnection) -> int:
            # FOR UPDATE, which SQLite leaves out: it has one writer anyway.
            query = select(games.c.epochs).where(games.c.game_id == game_id).with_for_update()
            epochs = dict((await connection.execute(query)).scalar_one() or {})
            epochs[str(seat)] = epochs.get(str(seat), 1) + 1
            await connection.execute(update(games).where(games.c.game_id == game_id).values(epochs=epochs))
            return int(epochs[str(seat)])

        return await self._database.writer.run(work)
