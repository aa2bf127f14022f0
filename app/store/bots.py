"""Bots in the database: who owns which version, which seats they play, and whether they passed a check."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Executable, and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.cursors import next_cursor, read_cursor
from app.store.db import Database
from app.store.rows import BotRow, is_readable, typed_row, values_of
from app.store.tables import bot_seats, bots, inbox, refusals
from engine.terms import Seat

__all__ = ["BotStore", "PlayedCheck"]

_PLACE: Final = {"created_at": bots.c.created_at, "bot_id": bots.c.bot_id}
"""What a cursor of a page of bots holds."""


@dataclass(frozen=True, slots=True)
class PlayedCheck:
    """What remote seats did in a game that the log does not tell."""

    answered: Sequence[str]
    """Requests that were answered."""
    refused: Sequence[tuple[str, str]]
    """Requests with a refused answer, and what was wrong with it."""
    left_out: Sequence[str]
    """Requests with an answer of which thoughts were left out."""


class BotStore:
    """The tables ``bots`` and ``bot_seats``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, bot: BotRow) -> bool:
        """Stores a new bot. False if its owner has this name and version already."""
        try:
            await self._database.writer.execute(insert(bots).values(values_of(bot)))
        except IntegrityError:
            return False
        return True

    async def count(self, owner: str) -> int:
        """How many names and versions this owner has."""
        query = select(func.count()).select_from(bots).where(bots.c.owner == owner)
        return int((await self._database.column(query))[0])

    async def bot(self, bot_id: str) -> BotRow | None:
        return (await self.bots_of([bot_id])).get(bot_id)

    async def named(self, owner: str, name: str, version: str) -> BotRow | None:
        c = bots.c
        query = select(bots).where(c.owner == owner, c.name == name, c.version == version)
        return next(iter(await self._read(query)), None)

    async def bots_of(self, bot_ids: Iterable[str]) -> dict[str, BotRow]:
        """These bots by id; unknown ones, and those that cannot be read, are missing."""
        found = await self._read(select(bots).where(bots.c.bot_id.in_(list(bot_ids))))
        return {bot.bot_id: bot for bot in found}

    async def page(
        self, *, owner: str | None, limit: int, cursor: str | None
    ) -> tuple[list[BotRow], str | None]:
        """A page of bots, newest first, and the cursor of the next page; None after the last one."""
        query = select(bots)
        if owner is not None:
            query = query.where(bots.c.owner == owner)
        if cursor is not None:
            at, bot_id = read_cursor(cursor, _PLACE)
            older = and_(bots.c.created_at == at, bots.c.bot_id < bot_id)
            query = query.where(or_(bots.c.created_at < at, older))
        query = query.order_by(bots.c.created_at.desc(), bots.c.bot_id.desc()).limit(limit + 1)
        rows = await self._database.mappings(query)
        page = rows[:limit]
        readable = [typed_row(BotRow, row) for row in page if is_readable(bots, row)]
        return readable, next_cursor(page, _PLACE) if len(rows) > limit else None

    async def seat(self, connection: AsyncConnection, game_id: str, seats: Mapping[Seat, str]) -> None:
        """Notes which bot plays which seats of a game, in the caller's transaction."""
        rows = [{"game_id": game_id, "seat": seat, "bot_id": bot_id} for seat, bot_id in seats.items()]
        await connection.execute(insert(bot_seats), rows)

    async def seats_of(self, game_ids: Sequence[str]) -> dict[str, dict[Seat, str]]:
        """By game and seat, the bots that play it. Games without bots are missing."""
        c = bot_seats.c
        found: dict[str, dict[Seat, str]] = {}
        for first in range(0, len(game_ids), _IN):
            some = game_ids[first : first + _IN]
            query = select(c.game_id, c.seat, c.bot_id).where(c.game_id.in_(some)).order_by(c.game_id, c.seat)
            for game_id, seat, bot_id in await self._database.rows(query):
                found.setdefault(game_id, {})[seat] = bot_id
        return found

    async def begin_check(self, bot_id: str, game_id: str, seats: Iterable[Seat]) -> None:
        """Notes that a game is the bot's check: it plays all of these seats."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(update(bots).where(bots.c.bot_id == bot_id).values(check_game=game_id))
            await self.seat(connection, game_id, dict.fromkeys(seats, bot_id))

        await self._database.writer.run(work)

    async def is_check(self, game_id: str) -> bool:
        """Whether the game is the latest check of a bot."""
        query = (
            select(bots.c.bot_id)
            .join(bot_seats, bot_seats.c.bot_id == bots.c.bot_id)
            .where(bot_seats.c.game_id == game_id, bot_seats.c.seat == 1, bots.c.check_game == game_id)
        )
        return bool(await self._database.column(query))

    async def pass_check(self, bot_id: str, at: int) -> None:
        """Notes when the bot passed a check, unless it has passed one before."""
        await self._database.writer.execute(
            update(bots).where(bots.c.bot_id == bot_id, bots.c.checked_at.is_(None)).values(checked_at=at)
        )

    async def played(self, game_id: str) -> PlayedCheck:
        """What went wrong at the seats of a game, beyond what its log tells."""
        refused = await self._database.rows(
            select(refusals.c.request_id, refusals.c.detail)
            .where(refusals.c.game_id == game_id)
            .order_by(refusals.c.at, refusals.c.request_id, refusals.c.attempt)
        )
        answers = await self._database.rows(
            select(inbox.c.request_id, inbox.c.thoughts_refused)
            .where(inbox.c.game_id == game_id, inbox.c.cause.is_(None))
            .order_by(inbox.c.at, inbox.c.request_id)
        )
        return PlayedCheck(
            [request for request, _ in answers],
            [(request, detail) for request, detail in refused],
            [request for request, left_out in answers if left_out is not None],
        )

    async def _read(self, query: Executable) -> list[BotRow]:
        rows = await self._database.mappings(query)
        return [typed_row(BotRow, row) for row in rows if is_readable(bots, row)]


_IN: Final = 500
"""Values in one IN list."""
