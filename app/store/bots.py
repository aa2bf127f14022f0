"""Bots in the database: who owns which version, and whether it passed a check."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Executable, Select, and_, func, insert, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.errors import Forbidden
from app.store.cursors import newest_first
from app.store.db import Database
from app.store.games import ABSENT
from app.store.rows import BotRow, SeekRow, is_readable, read_row, typed_row, values_of
from app.store.tables import bots, game_players, games, inbox, refusals

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


def _deserted(these: Collection[tuple[str, str, str]]) -> Select[Any]:
    """How many games that were to be rated each of these bots, by owner, name and version, has left since it
    passed its last check. None of a bot without such games. As on the ladder, games do not count if they are
    marked as invalid, were cancelled or have failed.
    """
    p, b = game_players.c, bots.c
    same = and_(b.owner == p.owner, b.name == p.bot, b.version == p.version)
    return (
        select(func.count(), p.owner, p.bot, p.version)
        .select_from(game_players.join(games, games.c.game_id == p.game_id).join(bots, same))
        .where(tuple_(p.owner, p.bot, p.version).in_([*these]))
        .where(p.absent_at > func.coalesce(b.checked_at, 0), games.c.unrated == ABSENT)
        .where(games.c.invalid.is_(None), games.c.status.not_in(("cancelled", "failed")))
        .group_by(p.owner, p.bot, p.version)
    )


class BotStore:
    """The table ``bots``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, bot: BotRow, most: int) -> bool:
        """Stores a new bot. False if its owner has this name and version already. Raises Forbidden if it has
        ``most`` others.
        """
        c = bots.c
        this = (c.name == bot.name) & (c.version == bot.version)

        async def work(connection: AsyncConnection) -> bool:
            # Of those that are registered at once, each is counted. SQLite has one writer anyway.
            if not self._database.is_sqlite:
                await connection.execute(
                    select(func.pg_advisory_xact_lock(func.hashtextextended(f"bots/{bot.owner}", 0)))
                )
            query = select(func.count(), func.count().filter(this)).where(c.owner == bot.owner)
            count, known = (await connection.execute(query)).one()
            if known:
                return False
            if count >= most:
                raise Forbidden(
                    f"you have {most} names and versions of bots, the most that one owner may have"
                )
            await connection.execute(insert(bots), [values_of(bot)])
            return True

        return await self._database.writer.run(work)

    async def bot(self, bot_id: str) -> BotRow | None:
        return (await self.bots_of([bot_id])).get(bot_id)

    async def named(self, owner: str, name: str, version: str) -> BotRow | None:
        """The bot with this name and version. Raises CorruptLog if its row cannot be read."""
        c = bots.c
        query = select(bots).where(c.owner == owner, c.name == name, c.version == version)
        rows = await self._database.mappings(query)
        return read_row(BotRow, rows[0]) if rows else None

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
        page, following = await newest_first(self._database, query, _PLACE, limit, cursor)
        return [typed_row(BotRow, row) for row in page if is_readable(bots, row)], following

    async def begin_check(self, bot_id: str, game_id: str) -> None:
        """Notes that a game is the bot's check: it plays all seats."""
        await self._database.writer.execute(
            update(bots).where(bots.c.bot_id == bot_id).values(check_game=game_id)
        )

    async def is_check(self, game_id: str) -> bool:
        """Whether the game is the latest check of a bot."""
        return bool(await self._database.column(select(bots.c.bot_id).where(bots.c.check_game == game_id)))

    async def pass_check(self, bot_id: str, at: int) -> None:
        """Notes when the bot passed a check, unless it has passed a later one."""
        is_news = or_(bots.c.checked_at.is_(None), bots.c.checked_at < at)
        await self._database.writer.execute(
            update(bots).where(bots.c.bot_id == bot_id, is_news).values(checked_at=at)
        )

    async def deserted(self, bot: BotRow) -> int:
        """How many games that were to be rated the bot has left since it passed its last check."""
        return sum(await self._database.column(_deserted([(bot.owner, bot.name, bot.version)])))

    async def deserters(
        self, connection: AsyncConnection, seeking: Iterable[SeekRow], most: int
    ) -> set[tuple[str, str, str]]:
        """Which of these seeks' bots, by owner, name and version, have left ``most`` such games or more."""
        these = {(seek.owner, seek.bot, seek.version) for seek in seeking}
        found = await connection.execute(_deserted(these).having(func.count() >= most))
        return {(owner, name, version) for _, owner, name, version in found}

    async def first_rated(self, connection: AsyncConnection, owner: str) -> dict[tuple[str, str], int]:
        """When each of an owner's bots, by name and version, began its first game to be rated; ms."""
        p = game_players.c
        query = (
            select(p.bot, p.version, func.min(games.c.created_at))
            .select_from(game_players.join(games, games.c.game_id == p.game_id))
            .where(p.owner == owner, or_(games.c.rated, games.c.unrated == ABSENT))
            .group_by(p.bot, p.version)
        )
        return {(bot, version): at for bot, version, at in await connection.execute(query)}

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
