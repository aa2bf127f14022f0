"""API keys and the secrets that tokens are signed with, in the database."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.db import Database
from app.store.rows import ApiKey, TokenSecret, is_readable, is_whole, typed_row, values_of
from app.store.tables import api_keys, games, token_secrets

__all__ = ["KeyStore"]


class KeyStore:
    """Everything the database knows of credentials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keys(self) -> list[ApiKey]:
        """Every key there ever was, oldest first, without those whose row cannot be read."""
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.key_id)
        return [
            typed_row(ApiKey, {**row, "scopes": tuple(row["scopes"])})
            for row in await self._database.mappings(query)
            if is_whole(api_keys, row)
        ]

    async def damaged_keys(self) -> list[str]:
        """Ids of keys whose row cannot be read: they give no access."""
        ids = await self._database.column(select(api_keys.c.key_id))
        known = {key.key_id for key in await self.keys()}
        return [str(key_id) for key_id in ids if key_id not in known]

    async def has_keys(self) -> bool:
        """Whether there ever was a key. False where the schema is older than keys, or does not exist yet.

        Raises the database's error if it cannot be reached.
        """
        async with self._database.reading() as connection:
            try:
                count = await connection.execute(select(func.count()).select_from(api_keys))
            except DBAPIError:
                return False
            return bool(count.scalar_one())

    async def add(self, key: ApiKey) -> None:
        await self._database.writer.execute(insert(api_keys).values(values_of(key)))

    async def revoke(self, key_id: str, at: int) -> bool:
        """Revokes a key. False if there is no key with this id, or it was revoked before."""
        revoked = await self._database.writer.execute(
            update(api_keys)
            .where(api_keys.c.key_id == key_id, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=at)
        )
        return revoked == 1

    async def mark_used(self, used: Mapping[str, int]) -> None:
        """Writes the hour of the last use of each key."""

        async def work(connection: AsyncConnection) -> None:
            for key_id, hour in used.items():
                await connection.execute(
                    update(api_keys).where(api_keys.c.key_id == key_id).values(used_at=hour)
                )

        await self._database.writer.run(work)

    async def secrets(self) -> list[TokenSecret]:
        """The secrets that tokens are signed with, newest first, without damaged ones."""
        query = select(token_secrets).order_by(token_secrets.c.number.desc())
        rows = await self._database.mappings(query)
        return [typed_row(TokenSecret, row) for row in rows if is_readable(token_secrets, row)]

    async def last_secret(self) -> int:
        """The highest number of a secret, readable or not; 0 if there is none."""
        query = select(func.coalesce(func.max(token_secrets.c.number), 0))
        return int((await self._database.column(query))[0])

    async def add_secret(self, secret: TokenSecret) -> bool:
        """Stores a secret under its number. False if another process was faster: read again."""
        try:
            await self._database.writer.execute(insert(token_secrets).values(values_of(secret)))
        except IntegrityError:
            return False
        return True

    async def drop_secrets(self, numbers: Sequence[int]) -> None:
        """Deletes secrets. Tokens that they signed are no longer valid."""
        await self._database.writer.execute(delete(token_secrets).where(token_secrets.c.number.in_(numbers)))

    async def raise_epoch(self, game_id: str, seat: int) -> int:
        """Raises a seat's epoch by one, which revokes the seat's older tokens, and returns the new epoch."""

        async def work(connection: AsyncConnection) -> int:
            # SQLite leaves out FOR UPDATE: it has one writer anyway.
            query = select(games.c.epochs).where(games.c.game_id == game_id).with_for_update()
            epochs = dict((await connection.execute(query)).scalar_one() or {})
            epochs[str(seat)] = epochs.get(str(seat), 1) + 1
            await connection.execute(update(games).where(games.c.game_id == game_id).values(epochs=epochs))
            return int(epochs[str(seat)])

        return await self._database.writer.run(work)
