"""API keys and the secrets that tokens are signed with, in the database."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Table, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Update

from app.store.db import Database
from app.store.rows import ApiKey, Damaged, TokenSecret, is_readable, is_whole, typed_row, values_of
from app.store.tables import api_keys, games, open_games, seeks, token_secrets, tokens

__all__ = ["KEY", "PROJECT", "SEES_ALL", "KeyStore"]

KEY: Final = "key:"
"""What the public name of a key begins with; its id follows. A key without a project is an owner of this
name."""

PROJECT: Final = "project:"
"""What the name of a project begins with, as an owner."""

SEES_ALL: Final = "export:full:any"
"""The scope with which a key reads everybody's games in full."""

PLAYS: Final = frozenset({"bots:play", "bots:play:any"})
"""The scopes with which a key seeks games."""


class KeyStore:
    """Everything the database knows of credentials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keys(self, owners: Collection[str] | None = None) -> list[ApiKey]:
        """Every key there ever was, oldest first, without those whose row cannot be read. ``owners``: only
        theirs.
        """
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.key_id)
        if owners is not None:
            projects = [one.removeprefix(PROJECT) for one in owners if one.startswith(PROJECT)]
            alone = [one.removeprefix(KEY) for one in owners if one.startswith(KEY)]
            c = api_keys.c
            query = query.where(c.project.in_(projects) | (c.project.is_(None) & c.key_id.in_(alone)))
        return [
            typed_row(ApiKey, {**row, "scopes": tuple(row["scopes"])})
            for row in await self._database.mappings(query)
            if is_whole(api_keys, row)
        ]

    async def names(self, owner: str) -> frozenset[str]:
        """The public names of every key that this owner ever had."""
        return frozenset(f"{KEY}{key.key_id}" for key in await self.keys([owner]))

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

    async def change(self, key_id: str, scopes: Sequence[str]) -> bool:
        """Changes a key's scopes, and remembers when it loses ``SEES_ALL``. Without ``bots:play`` its seeks
        are left, until it has that again. False if there is no key with this id.
        """
        this = api_keys.c.key_id == key_id
        at = self._database.writer.stamp()

        async def work(connection: AsyncConnection) -> bool:
            query = select(api_keys.c.scopes).where(this).with_for_update()
            before = (await connection.execute(query)).first()
            if before is None:
                return False
            changed: dict[str, Any] = {"scopes": scopes}
            if SEES_ALL not in scopes and (isinstance(before[0], Damaged) or SEES_ALL in before[0]):
                changed["saw_all_until"] = at
            await connection.execute(update(api_keys).where(this).values(changed))
            if PLAYS.isdisjoint(scopes):
                await connection.execute(_waiting(seeks, key_id).values(seen_at=0))
            else:
                await connection.execute(
                    _waiting(seeks, key_id).where(seeks.c.seen_at == 0).values(seen_at=1)
                )
            return True

        return await self._database.writer.run(work)

    async def revoke(self, key_id: str, at: int, *, compromised: bool = False) -> bool:
        """Revokes a key, and leaves its seeks. ``compromised``: with every token that came from it, and with
        what it has waiting for players, also if the key was revoked before. False if there is no key with
        this id, or nothing to revoke.
        """
        state = api_keys.c.compromised_at if compromised else api_keys.c.revoked_at
        values = {"revoked_at": func.coalesce(api_keys.c.revoked_at, at)}
        revoke = (
            update(api_keys)
            .where(api_keys.c.key_id == key_id, state.is_(None))
            .values({**values, "compromised_at": at} if compromised else values)
        )

        async def work(connection: AsyncConnection) -> bool:
            revoked = await connection.execute(revoke)
            if revoked.rowcount and compromised:
                withdrawn = {"status": "withdrawn"}
                await connection.execute(_waiting(seeks, key_id).values({**withdrawn, "closed_at": at}))
                await connection.execute(_waiting(open_games, key_id).values(withdrawn))
            elif revoked.rowcount:
                await connection.execute(_waiting(seeks, key_id).values(seen_at=0))
            return bool(revoked.rowcount)

        return await self._database.writer.run(work)

    async def mark_used(self, used: Mapping[str, int]) -> None:
        """Writes the hour of the last use of each key."""

        async def work(connection: AsyncConnection) -> None:
            for key_id, hour in used.items():
                await connection.execute(
                    update(api_keys).where(api_keys.c.key_id == key_id).values(used_at=hour)
                )

        await self._database.writer.run(work)

    async def revoked_tokens(self, now: int) -> frozenset[str]:
        """The ids of tokens that were revoked one by one, and have not expired."""
        query = select(tokens.c.token_id).where(tokens.c.revoked_at.is_not(None), tokens.c.expires_at > now)
        return frozenset(await self._database.column(query))

    async def secrets(self) -> list[TokenSecret]:
        """The secrets that tokens are signed with, newest first, without damaged ones."""
        query = select(token_secrets).order_by(token_secrets.c.number.desc())
        rows = await self._database.mappings(query)
        return [
            typed_row(TokenSecret, row) for row in rows if row["secret"] and is_readable(token_secrets, row)
        ]

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
            return await self.raise_epoch_in(connection, game_id, seat)

        return await self._database.writer.run(work)

    async def raise_epoch_in(
        self, connection: AsyncConnection, game_id: str, seat: int, owner: str | None = None
    ) -> int:
        """As ``raise_epoch``, in the caller's transaction. ``owner``: whose the seat is from then on, empty
        for whoever has its code; None: that stays as it is.
        """
        # SQLite leaves out FOR UPDATE: it has one writer anyway.
        query = select(games.c.epochs, games.c.taken).where(games.c.game_id == game_id).with_for_update()
        row = (await connection.execute(query)).one()
        epochs = dict(row.epochs or {})
        epochs[str(seat)] = epochs.get(str(seat), 1) + 1
        changed: dict[str, Any] = {"epochs": epochs}
        if owner is not None:
            changed["taken"] = {**(row.taken or {}), str(seat): owner}
        await connection.execute(update(games).where(games.c.game_id == game_id).values(changed))
        replaced = (tokens.c.game_id == game_id, tokens.c.seat == seat, tokens.c.revoked_at.is_(None))
        at = self._database.writer.stamp()
        await connection.execute(update(tokens).where(*replaced).values(revoked_at=at))
        return int(epochs[str(seat)])


def _waiting(table: Table, key_id: str) -> Update:
    """Changes what this key has waiting for players."""
    return update(table).where(table.c.caller == f"{KEY}{key_id}", table.c.status == "open")
