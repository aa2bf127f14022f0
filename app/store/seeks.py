"""Seeks, games with open seats, and who plays in games that were made of them.

Whoever pairs seeks holds the lock of their pool to the end of its transaction, so two processes never pair
the same seek; and a seek is only ever paired in the transaction that stores its game.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, bindparam, delete, func, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Update

from app.base.clock import SET_BACK_MS
from app.store.db import Conflict, Database
from app.store.games import OPEN
from app.store.rows import (
    GameRow,
    OpenGameRow,
    PlayerRow,
    SeekRow,
    has_form,
    is_readable,
    is_whole,
    read_row,
    typed_row,
    values_of,
)
from app.store.tables import game_players, games, holders, open_games, seeks

__all__ = ["LOBBY", "OPEN_GAME", "Paired", "Pool", "SeatPlayed", "SeekStore", "lock_owner"]

OPEN_GAME: Final = "open:"
"""With the id of a game with open seats, the name of the pool in which those wait that have claimed one."""

LOBBY: Final = "l_"
"""What the name begins with under which a bot's own socket is held in ``holders``, in place of a game."""

_LOCK: Final = text("SELECT pg_advisory_xact_lock(:key)").bindparams(bindparam("key", type_=BigInteger))

_s: Final = seeks.c
_o: Final = open_games.c
_p: Final = game_players.c
_OPEN: Final = _s.status == "open"


class Pool(NamedTuple):
    """Open seeks that wait for one another."""

    name: str
    waiting: int
    starts_by: int
    """The first moment at which one of them starts with those who are there, or ends; ms."""


class Paired(NamedTuple):
    """A seek, and the seat that it is given."""

    seek: SeekRow
    seat: int


class SeatPlayed(NamedTuple):
    """A seat that a bot has in a game."""

    player: PlayerRow
    game: GameRow


async def lock_owner(connection: AsyncConnection, owner: str) -> None:
    """Keeps others from counting what this owner has, to the end of the caller's transaction. Taken after the
    pool's lock, if that is taken, and before the owner's counts of the day.
    """
    await _lock(connection, f"of {owner}")


async def _lock(connection: AsyncConnection, name: str) -> None:
    # SQLite has one writer anyway.
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(f"pool {name}".encode()).digest()[:8], "big", signed=True)
        await connection.execute(_LOCK, {"key": key})


class SeekStore:
    """The tables ``seeks``, ``open_games`` and ``game_players``. Lists leave out rows that cannot be read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- seeks ------------------------------------------------------------------------------

    async def lock(self, connection: AsyncConnection, pool: str) -> None:
        """Keeps all others from adding to this pool and from pairing it, to the end of the transaction."""
        await _lock(connection, pool)

    async def add(self, connection: AsyncConnection, seek: SeekRow) -> SeekRow:
        """Stores a seek in the caller's transaction, which holds the pool's lock. If the bot waits there
        already, that seek is returned instead, as in ``seen``.
        """
        mine = (_s.owner == seek.owner, _s.bot == seek.bot, _s.pool == seek.pool, _OPEN)
        row = (await connection.execute(select(seeks).where(*mine))).mappings().first()
        if row is None:
            await connection.execute(insert(seeks), [values_of(seek)])
            return seek
        await connection.execute(_seen(seek.owner, seek.bot, seek.caller, seek.seen_at))
        return read_row(SeekRow, row)

    async def seek(self, seek_id: str) -> SeekRow | None:
        return next(iter(await self._seeks(_s.seek_id == seek_id)), None)

    async def open_of(self, owner: str, bot: str | None = None) -> list[SeekRow]:
        """The open seeks of an owner, or of one bot of it, oldest first."""
        return await self._seeks(_OPEN, _s.owner == owner, *([] if bot is None else [_s.bot == bot]))

    async def _seeks(self, *where: Any) -> list[SeekRow]:
        rows = await self._database.mappings(select(seeks).where(*where).order_by(_s.created_at, _s.seek_id))
        return [typed_row(SeekRow, row) for row in rows if is_whole(seeks, row)]

    async def pools(self) -> list[Pool]:
        """The pools in which somebody waits."""
        query = (
            select(_s.pool, func.count(), func.min(_s.starts_by))
            .where(_OPEN)
            .group_by(_s.pool)
            .order_by(_s.pool)
        )
        return [
            Pool(name, waiting, starts_by)
            for name, waiting, starts_by in await self._database.rows(query)
            if has_form("pool", name) and type(starts_by) is int
        ]

    async def present(self, since: int) -> dict[str, int]:
        """By pool, how many wait there that were seen since this moment (ms)."""
        query = select(_s.pool, func.count()).where(_OPEN, _s.seen_at >= since).group_by(_s.pool)
        return {name: count for name, count in await self._database.rows(query) if has_form("pool", name)}

    async def waiting(self, connection: AsyncConnection, pool: str) -> list[SeekRow]:
        """The open seeks of a pool, oldest first, in the caller's transaction, which holds its lock."""
        return await self._open_in(connection, _s.pool == pool)

    async def waiting_of(self, connection: AsyncConnection, owner: str) -> list[SeekRow]:
        """As ``open_of``, in the caller's transaction."""
        return await self._open_in(connection, _s.owner == owner)

    async def _open_in(self, connection: AsyncConnection, where: ColumnElement[bool]) -> list[SeekRow]:
        query = select(seeks).where(_OPEN, where).order_by(_s.created_at, _s.seek_id)
        rows = (await connection.execute(query)).mappings().all()
        return [typed_row(SeekRow, row) for row in rows if is_whole(seeks, row)]

    async def pair(
        self, connection: AsyncConnection, game_id: str, owner: str, paired: Sequence[Paired], at: int
    ) -> None:
        """Gives these seeks their seats in a game of this owner, which the caller has stored in the same
        transaction. Raises Conflict if one of them is not open any more.
        """
        taken = {str(seat): seek.owner for seek, seat in paired if seek.owner != owner}
        await connection.execute(update(games).where(games.c.game_id == game_id).values(taken=taken or None))
        for seek, seat in paired:
            changed = await connection.execute(
                update(seeks)
                .where(_s.seek_id == seek.seek_id, _OPEN)
                .values(status="paired", closed_at=at, game_id=game_id, seat=seat)
            )
            if changed.rowcount != 1:
                raise Conflict(f"{seek.seek_id} is not open any more")
        await connection.execute(
            insert(game_players),
            [
                values_of(
                    PlayerRow(
                        game_id=game_id,
                        seat=seat,
                        owner=seek.owner,
                        caller=seek.caller,
                        bot=seek.bot,
                        version=seek.version,
                        seek_id=seek.seek_id,
                    )
                )
                for seek, seat in paired
            ],
        )

    async def expire(self, connection: AsyncConnection, seek_ids: Iterable[str], at: int) -> None:
        """Ends open seeks that found nobody, in the caller's transaction."""
        await connection.execute(
            update(seeks).where(_s.seek_id.in_(list(seek_ids)), _OPEN).values(status="expired", closed_at=at)
        )

    async def withdraw(self, seek_id: str, at: int) -> bool:
        """Ends a seek. False if it is not open: it may have been paired at this moment."""
        withdrawn = update(seeks).where(_s.seek_id == seek_id, _OPEN)
        return await self._database.writer.execute(withdrawn.values(status="withdrawn", closed_at=at)) == 1

    async def seen(self, owner: str, bot: str, caller: str, at: int) -> None:
        """Notes that a bot was there at this moment, as this caller says. A caller whose own seeks were left
        (see ``SeekRow.seen_at``) says it of others' alone.
        """
        await self._database.writer.execute(_seen(owner, bot, caller, at))

    async def put_right(self, now: int) -> None:
        """Moves what waits since a time in the future, from before the clock was set back, as if it had come
        now (ms). A bot that was seen in the future is away until it is seen again.
        """
        later = now + SET_BACK_MS

        async def work(connection: AsyncConnection) -> None:
            for table in (seeks, open_games):
                c = table.c
                moved = {"created_at": now, "starts_by": c.starts_by - c.created_at + now}
                await connection.execute(
                    update(table).where(c.status == "open", c.created_at > later).values(moved)
                )
            await connection.execute(update(seeks).where(_OPEN, _s.seen_at > later).values(seen_at=1))

        await self._database.writer.run(work)

    async def forget(self, before: int) -> None:
        """Deletes seeks that ended without a game, games that never began, and who held the sockets of bots,
        from before this moment. A socket that is open that long stays so: nobody else holds it.
        """

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                delete(seeks).where(_s.status.in_(("withdrawn", "expired")), _s.closed_at < before)
            )
            await connection.execute(
                delete(open_games).where(_o.status.in_(("withdrawn", "expired")), _o.starts_by < before)
            )
            lobbies = holders.c.game_id.startswith(LOBBY, autoescape=True)
            await connection.execute(delete(holders).where(lobbies, holders.c.at < before))

        await self._database.writer.run(work)

    # --- games with open seats --------------------------------------------------------------

    async def add_game(self, connection: AsyncConnection, game: OpenGameRow) -> None:
        """Stores a game with open seats in the caller's transaction."""
        await connection.execute(insert(open_games).values(values_of(game)))

    async def open_game(self, game_id: str) -> OpenGameRow | None:
        rows = await self._database.mappings(select(open_games).where(_o.game_id == game_id))
        return read_row(OpenGameRow, rows[0]) if rows else None

    async def waiting_games(self) -> list[OpenGameRow]:
        """Games that wait for players, oldest first."""
        query = select(open_games).where(_o.status == "open").order_by(_o.created_at, _o.game_id)
        rows = await self._database.mappings(query)
        return [typed_row(OpenGameRow, row) for row in rows if is_whole(open_games, row)]

    async def locked_game(self, connection: AsyncConnection, game_id: str) -> OpenGameRow | None:
        """As ``open_game``, in the caller's transaction, which holds the pool's lock."""
        query = select(open_games).where(_o.game_id == game_id)
        row = (await connection.execute(query)).mappings().first()
        return None if row is None else read_row(OpenGameRow, row)

    async def close_game(self, connection: AsyncConnection, game_id: str, status: str) -> bool:
        """Ends the waiting of a game with open seats, in the caller's transaction. False if it has ended."""
        changed = await connection.execute(
            update(open_games).where(_o.game_id == game_id, _o.status == "open").values(status=status)
        )
        return changed.rowcount == 1

    # --- who plays --------------------------------------------------------------------------

    async def running(self, owner: str, bot: str) -> list[SeatPlayed]:
        """The bot's seats in games that are not over, without those that a stand-in has, oldest first."""
        mine = (_p.owner == owner, _p.bot == bot, _p.absent_at.is_(None))
        query = (
            select(game_players, games)
            .join(games, games.c.game_id == _p.game_id)
            .where(*mine, games.c.status.in_(OPEN))
            .order_by(games.c.created_at, _p.game_id)
        )
        return [
            SeatPlayed(typed_row(PlayerRow, player), typed_row(GameRow, game))
            for player, game in _split(await self._database.rows(query))
            if is_readable(game_players, player) and is_whole(games, game)
        ]

    async def players(self, game_id: str) -> list[PlayerRow]:
        """Who plays in this game, in the order of seats; empty for a game that nobody was paired for."""
        query = select(game_players).where(_p.game_id == game_id).order_by(_p.seat)
        rows = await self._database.mappings(query)
        return [typed_row(PlayerRow, row) for row in rows if is_readable(game_players, row)]


def _seen(owner: str, bot: str, caller: str, at: int) -> Update:
    # A process may take a key for valid for a moment after its end.
    knows = or_(_s.seen_at > 0, _s.caller != caller)
    return update(seeks).where(_OPEN, _s.owner == owner, _s.bot == bot, knows).values(seen_at=at)


def _split(rows: Iterable[Sequence[Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Rows of players with their games, apart again."""
    mine, theirs = list(_p.keys()), list(games.c.keys())
    return [
        (dict(zip(mine, row[: len(mine)], strict=True)), dict(zip(theirs, row[len(mine) :], strict=True)))
        for row in rows
    ]
