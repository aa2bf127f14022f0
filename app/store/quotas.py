"""Quotas of owners in the database: what differs from the settings, and what was used on each day.

A day is one of UTC, counted from 1970. What is counted here is right over several processes, since a count is
raised in the transaction of what it counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

from sqlalchemy import case, delete, false, func, literal, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.db import Database
from app.store.games import ENDED, IS_OPEN, LAID
from app.store.rows import QuotaRow, finite, is_readable, is_whole, typed_row
from app.store.seeks import OPEN_GAME
from app.store.tables import batches, game_players, games, owner_spending, quota_use, quotas, seeks
from app.store.tables import open_games as open_games_

__all__ = ["QuotaStore", "SpentToday"]

KEPT_DAYS: Final = 62
"""Counts older than this many days are dropped."""

_LAID_AT_ONCE: Final = 200
"""The most games that are stored together with their batch; the rest of a larger batch follows."""

_MOST: Final = 10**15
"""More than anybody uses on a day."""

_u: Final = quota_use.c


@dataclass(frozen=True, slots=True)
class SpentToday:
    """What an owner has spent on models."""

    tokens: int = 0
    cost: float = 0.0


class QuotaStore:
    """The tables ``quotas`` and ``quota_use``, and the sums that quotas limit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dialect: Any = sqlite if database.is_sqlite else postgresql

    # --- what differs from the settings -----------------------------------------------------

    async def limits(self) -> dict[str, Mapping[str, float | None]]:
        """By owner, the quotas that differ from the settings; None: no limit. What cannot be read is left
        out.
        """
        rows = await self._database.mappings(select(quotas))
        read = [typed_row(QuotaRow, row) for row in rows if is_whole(quotas, row)]
        return {
            row.owner: {n: limit for n, limit in row.limits.items() if type(limit) in (int, float, NoneType)}
            for row in read
        }

    async def change(self, owner: str, changes: Mapping[str, float | None], drop: frozenset[str]) -> None:
        """Changes these quotas of an owner. ``drop``: names of quotas that go by the settings again."""

        async def work(connection: AsyncConnection) -> None:
            query = select(quotas.c.limits).where(quotas.c.owner == owner).with_for_update()
            before = (await connection.execute(query)).scalar_one_or_none()
            limits = {**(before if isinstance(before, dict) else {}), **changes}
            kept = {name: limit for name, limit in limits.items() if name not in drop}
            if not kept:
                await connection.execute(delete(quotas).where(quotas.c.owner == owner))
                return
            put = self._dialect.insert(quotas).values(owner=owner, limits=kept)
            await connection.execute(
                put.on_conflict_do_update(index_elements=["owner"], set_={"limits": put.excluded.limits})
            )

        await self._database.writer.run(work)

    # --- what was used ----------------------------------------------------------------------

    async def add(self, connection: AsyncConnection, owner: str, day: int, name: str, amount: int) -> int:
        """Raises a day's count in the caller's transaction, and returns it. Until that transaction ends,
        others who raise the same count wait.
        """
        put = self._dialect.insert(quota_use).values(owner=owner, day=day, name=name, amount=amount)
        # What is damaged counts as the most: a sum beyond bigint would end the query.
        before = case((_u.amount.between(0, _MOST), _u.amount), else_=_MOST)
        put = put.on_conflict_do_update(
            index_elements=["owner", "day", "name"], set_={"amount": before + put.excluded.amount}
        ).returning(_u.amount)
        total = int((await connection.execute(put)).scalar_one())
        if total == amount:  # the day's first
            await connection.execute(delete(quota_use).where(_u.owner == owner, _u.day < day - KEPT_DAYS))
        return total

    async def add_all(self, day: int, amounts: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Raises the day's counts of these (owner, name) pairs, and returns them."""

        async def work(connection: AsyncConnection) -> dict[tuple[str, str], int]:
            # Sorted, so that processes never wait for each other in a circle.
            return {
                (owner, name): await self.add(connection, owner, day, name, amount)
                for (owner, name), amount in sorted(amounts.items())
            }

        return await self._database.writer.run(work)

    async def used(self, owner: str, day: int) -> dict[str, int]:
        """The day's counts of an owner, by name, without those that cannot be read."""
        query = select(quota_use).where(_u.owner == owner, _u.day == day)
        rows = await self._database.mappings(query)
        return {row["name"]: row["amount"] for row in rows if is_readable(quota_use, row)}

    async def open_games(self, owner: str, connection: AsyncConnection | None = None) -> int:
        """How many of the owner's games are not over, those that are still to be created included; and the
        games of others in which it was paired for a seat, unless they are suspended, and what it waits for:
        its open seeks and its games with open seats. ``connection``: counts as its transaction sees it.
        """
        stored = (
            select(func.count())
            .select_from(games)
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(batches.c.owner == owner, IS_OPEN)
            .scalar_subquery()
        )
        laid = select(LAID).where(games.c.batch_id == batches.c.batch_id).scalar_subquery()
        unlaid = (
            select(
                func.coalesce(func.sum(case((batches.c.count > laid, batches.c.count - laid), else_=0)), 0)
            )
            .where(
                batches.c.owner == owner,
                batches.c.count > _LAID_AT_ONCE,
                batches.c.cancelled.is_(false()),
            )
            .scalar_subquery()
        )
        plays = select(game_players.c.seat).where(
            game_players.c.game_id == games.c.game_id, game_players.c.owner == owner
        )
        # Else a host that pauses a game for ever would keep a place of each guest.
        halted = or_(games.c.status == "suspended", batches.c.suspended.is_not(None))
        paired = (
            select(func.count())
            .select_from(games)
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(IS_OPEN, ~halted, batches.c.owner != owner, plays.exists())
            .scalar_subquery()
        )
        # Who claims a seat of its own game waits for one game, not for two.
        waits_for = case((seeks.c.pool.startswith(OPEN_GAME), seeks.c.pool), else_=seeks.c.seek_id)
        awaited = (
            select(waits_for.label("what"))
            .where(seeks.c.status == "open", seeks.c.owner == owner)
            .union(
                select(literal(OPEN_GAME) + open_games_.c.game_id).where(
                    open_games_.c.status == "open", open_games_.c.owner == owner
                )
            )
            .subquery()
        )
        waiting = select(func.count()).select_from(awaited).scalar_subquery()
        query = select(stored + unlaid + paired + waiting)
        if connection is not None:
            return int((await connection.execute(query)).scalar_one())
        return int((await self._database.column(query))[0])

    async def waiting(self, owner: str, connection: AsyncConnection | None = None) -> dict[str, int]:
        """How many seeks (``open_seeks``) and games with open seats (``waiting_games``) of the owner wait for
        others. ``connection``: counts as its transaction sees it.
        """
        counts = [
            select(func.count()).select_from(table).where(table.c.status == "open", table.c.owner == owner)
            for table in (seeks, open_games_)
        ]
        query = select(*(count.scalar_subquery() for count in counts))
        if connection is not None:
            found = (await connection.execute(query)).one()
        else:
            (found,) = await self._database.rows(query)
        return dict(zip(("open_seeks", "waiting_games"), map(int, found), strict=True))

    async def spent(self, owner: str, day: int, *, shared: bool = True) -> SpentToday:
        """What the owner's games and judges have spent on models on this day. ``shared``: with the games that
        have not ended in which others have seats.
        """
        of = owner_spending.c
        query = select(func.sum(of.tokens), func.sum(of.cost)).where(of.owner == owner, of.day == day)
        if not shared:
            others_play = select(games.c.game_id).where(
                games.c.game_id == of.account, games.c.taken.is_not(None), games.c.status.not_in(ENDED)
            )
            query = query.where(~others_play.exists())
        ((tokens, cost),) = await self._database.rows(query)
        return SpentToday(int(finite(tokens)), finite(cost))
