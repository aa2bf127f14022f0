"""Sealed sets of items in the database: what was drawn, who answered, and who has seen which seat's view.

Answers to a set are in tables of their own: no report, comparison or count of anything else reads them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import RowMapping, Select, Subquery, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.cursors import newest_first
from app.store.db import Database, in_parts
from app.store.games import ENDED, lines_of, still_there
from app.store.rows import (
    SetAnswersRow,
    SetEntryRow,
    SetItemRow,
    SetRow,
    is_whole,
    read_row,
    row_name,
    table_of,
    typed_row,
    values_of,
)
from app.store.tables import (
    batches,
    claim_codes,
    game_players,
    games,
    seen_views,
    set_answers,
    set_entries,
    set_items,
    set_origins,
    sets,
    tokens,
)

__all__ = ["SetStore", "who_held"]

R = TypeVar("R")

log = structlog.get_logger()

_PLACE: Final = {"created_at": sets.c.created_at, "set_id": sets.c.set_id}
"""What a cursor of a page of sets holds."""


class SetStore:
    """Reads and writes sets. Rows that cannot be read are left out and logged; where one row is asked for,
    and for the answers of an entry, CorruptLog is raised.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- sets and their items ---------------------------------------------------------------

    async def insert(self, connection: AsyncConnection, row: SetRow, items: Sequence[SetItemRow]) -> None:
        """Writes a set with its items, in the caller's transaction."""
        await connection.execute(insert(sets), [values_of(row)])
        await connection.execute(insert(set_items), [values_of(item) for item in items])

    async def lock(self, connection: AsyncConnection, name: str) -> None:
        """Makes other transactions that lock the name wait until this one ends; on SQLite they do anyway."""
        if not self._database.is_sqlite:
            await connection.execute(
                select(func.pg_advisory_xact_lock(func.hashtextextended(f"set/{name}", 0)))
            )

    async def find(self, set_id: str) -> SetRow | None:
        """The set's row; None for an unknown id."""
        rows = await self._database.mappings(select(sets).where(sets.c.set_id == set_id))
        return read_row(SetRow, rows[0]) if rows else None

    async def find_in(self, connection: AsyncConnection, set_id: str) -> SetRow | None:
        """As ``find``, in the caller's transaction; until that ends, nobody opens the set."""
        query = select(sets).where(sets.c.set_id == set_id).with_for_update(read=True)
        row = (await connection.execute(query)).mappings().first()
        return None if row is None else read_row(SetRow, row)

    async def page(self, limit: int, cursor: str | None) -> tuple[list[SetRow], str | None]:
        """Sets, newest first, and the cursor of the next page. Damaged rows are left out."""
        page, following = await newest_first(self._database, select(sets), _PLACE, limit, cursor)
        return _readable(SetRow, page), following

    async def items_of(self, set_id: str, *, after: int = -1, limit: int | None = None) -> list[SetItemRow]:
        """The set's items behind this position, in order; ``limit`` None: all."""
        c = set_items.c
        query = select(set_items).where(c.set_id == set_id, c.position > after).order_by(c.position)
        rows = await self._database.mappings(query if limit is None else query.limit(limit))
        found = _readable(SetItemRow, rows)
        if limit is not None and len(found) < len(rows):
            return (await self.items_of(set_id, after=after))[:limit]
        return found

    async def games_of(self, set_id: str) -> int:
        """How many games the set's items are of."""
        query = select(func.count(set_items.c.game_id.distinct())).where(set_items.c.set_id == set_id)
        return int((await self._database.column(query))[0])

    async def sets_with(self, origins: Collection[str]) -> set[tuple[str, str]]:
        """The games of these origins that are in sets, as (set, game)."""
        c = set_items.c
        found: set[tuple[str, str]] = set()
        for some in in_parts(origins):
            query = select(c.set_id, c.game_id).where(c.origin.in_(some)).distinct()
            found |= {(set_id, game) for set_id, game in await self._database.rows(query)}
        return found

    async def sets_with_deleted(self, origins: Collection[str]) -> set[str]:
        """The sets that had a game of one of these origins which was deleted since."""
        c = set_origins.c
        found: set[str] = set()
        for some in in_parts(origins):
            found |= set(await self._database.column(select(c.set_id).where(c.origin.in_(some))))
        return found

    async def dates_of(
        self, origins: Collection[str], connection: AsyncConnection | None = None
    ) -> dict[str, list[tuple[int, int | None]]]:
        """By origin: the date and the opening of each set that has items of its games, or of some that were
        deleted since, and was not withdrawn; with ``connection``, as that transaction sees them.
        """
        found: dict[str, list[tuple[int, int | None]]] = {}
        for some in in_parts(origins):
            has, had = (
                select(c.origin, c.set_id).where(c.origin.in_(some)) for c in (set_items.c, set_origins.c)
            )
            both = has.union(had).subquery()
            query = (
                select(both.c.origin, sets.c.closes_at, sets.c.opened_at)
                .join(sets, sets.c.set_id == both.c.set_id)
                .where(sets.c.withdrawn_at.is_(None))
                .distinct()
            )
            rows = await (connection.execute(query) if connection else self._database.rows(query))
            for origin, closes_at, opened_at in rows:
                found.setdefault(origin, []).append((closes_at, opened_at))
        return found

    async def opened(self, items: Collection[str]) -> dict[str, list[SetRow]]:
        """By item: the opened sets that it is in. Items of no opened set are left out."""
        found: dict[str, list[SetRow]] = {}
        for some in in_parts(items):
            query = (
                select(set_items.c.item_id.label("item_id"), *sets.c)
                .join(sets, sets.c.set_id == set_items.c.set_id)
                .where(
                    set_items.c.item_id.in_(some),
                    # The index is on games.
                    set_items.c.game_id.in_({item.partition("/")[0] for item in some}),
                    sets.c.opened_at.is_not(None),
                )
            )
            for row in await self._database.mappings(query):
                found.setdefault(row["item_id"], []).append(read_row(SetRow, row))
        return found

    async def open_due(self, at: int) -> None:
        """Opens all sets whose date has passed: none of them takes an answer from then on, and which of its
        games are invalid is settled. Together, since sets of one date may have games in common.
        """
        c = sets.c
        due = select(c.set_id).where(c.opened_at.is_(None), c.withdrawn_at.is_(None), c.closes_at <= at)
        marked = select(games.c.game_id).where(games.c.invalid.is_not(None))

        async def work(connection: AsyncConnection) -> None:
            # In their order: nobody waits for each other in a circle.
            found = await connection.execute(due.order_by(c.set_id).with_for_update())
            for set_id in found.scalars().all():
                of_set = select(set_items.c.game_id).where(set_items.c.set_id == set_id)
                invalid = (
                    (await connection.execute(marked.where(games.c.game_id.in_(of_set)))).scalars().all()
                )
                await connection.execute(
                    update(sets).where(c.set_id == set_id).values(opened_at=at, invalid=sorted(invalid))
                )

        await self._database.writer.run(work)

    async def withdraw(self, connection: AsyncConnection, set_id: str, at: int, why: str) -> bool:
        """Withdraws a sealed set whose date has not come, in the caller's transaction. False for another."""
        c = sets.c
        still = (c.opened_at.is_(None), c.withdrawn_at.is_(None), c.closes_at > at)
        changed = await connection.execute(
            update(sets).where(c.set_id == set_id, *still).values(withdrawn_at=at, withdrawn=why)
        )
        return changed.rowcount == 1

    async def finish(self, set_id: str, at: int, excluded: Mapping[str, int]) -> None:
        """Writes that the set's answers are scored, unless that is written."""
        await self._database.writer.execute(
            update(sets)
            .where(sets.c.set_id == set_id, sets.c.scored_at.is_(None))
            .values(scored_at=at, excluded=dict(excluded))
        )

    # --- entries ----------------------------------------------------------------------------

    async def raters_of(self, connection: AsyncConnection, set_id: str, owner: str) -> set[str]:
        """The raters under whose names this owner has answered, as the caller's transaction sees them."""
        c = set_entries.c
        query = select(c.rater).where(c.set_id == set_id, c.owner == owner)
        return set((await connection.execute(query)).scalars())

    async def hand_in(
        self, connection: AsyncConnection, row: SetEntryRow, answers: Sequence[SetAnswersRow]
    ) -> None:
        """Writes an entry in the place of the rater's earlier one, in the caller's transaction."""
        c = set_entries.c
        this = (c.set_id == row.set_id, c.owner == row.owner, c.rater == row.rater)
        earlier = (await connection.execute(select(c.entry_id).where(*this))).scalar_one_or_none()
        if earlier is not None:
            await connection.execute(delete(set_answers).where(set_answers.c.entry_id == earlier))
            await connection.execute(delete(set_entries).where(*this))
        await connection.execute(insert(set_entries), [values_of(row)])
        await connection.execute(insert(set_answers), [values_of(answer) for answer in answers])

    async def entries_of(self, set_id: str, owner: str | None = None) -> list[SetEntryRow]:
        """The set's entries, by owner and rater; with ``owner``, only this owner's."""
        c = set_entries.c
        query = select(set_entries).where(c.set_id == set_id)
        if owner is not None:
            query = query.where(c.owner == owner)
        return _readable(SetEntryRow, await self._database.mappings(query.order_by(c.owner, c.rater)))

    async def entry(self, set_id: str, entry_id: str) -> SetEntryRow | None:
        """One entry; None for an unknown one."""
        c = set_entries.c
        query = select(set_entries).where(c.set_id == set_id, c.entry_id == entry_id)
        rows = await self._database.mappings(query)
        return read_row(SetEntryRow, rows[0]) if rows else None

    async def answers_of(self, entry_id: str) -> list[SetAnswersRow]:
        """The entry's answers, by game."""
        query = select(set_answers).where(set_answers.c.entry_id == entry_id).order_by(set_answers.c.game_id)
        return [read_row(SetAnswersRow, row) for row in await self._database.mappings(query)]

    async def keep_score(self, entry: SetEntryRow, result: Mapping[str, Any]) -> SetEntryRow:
        """Writes an entry's scores, unless they are written. Returns the entry with them."""
        c = set_entries.c
        await self._database.writer.execute(
            update(set_entries)
            .where(c.entry_id == entry.entry_id, c.result.is_(None))
            .values(result=dict(result))
        )
        return replace(entry, result=result)

    # --- who has seen what ------------------------------------------------------------------

    async def mark_views(self, owner: str, views: Iterable[tuple[str, int]]) -> None:
        """Records that the owner was shown the views of these seats, as (game, seat). Deleted games are left
        out.
        """
        shown = set(views)
        known = await self.views_seen(owner, {game for game, _ in shown})
        new = sorted(shown - known)
        if not new:
            return
        dialect = sqlite if self._database.is_sqlite else postgresql

        async def work(connection: AsyncConnection) -> None:
            there = await still_there(connection, {game for game, _ in new})
            rows = [{"owner": owner, "game_id": game, "seat": seat} for game, seat in new if game in there]
            if rows:
                await connection.execute(dialect.insert(seen_views).on_conflict_do_nothing(), rows)

        await self._database.writer.run(work)

    async def views_seen(self, owner: str, games: Collection[str]) -> set[tuple[str, int]]:
        """The views of seats of these games that the owner was shown, as (game, seat)."""
        c = seen_views.c
        found: set[tuple[str, int]] = set()
        for some in in_parts(games):
            query = select(c.game_id, c.seat).where(c.owner == owner, c.game_id.in_(some))
            found |= {(game, seat) for game, seat in await self._database.rows(query)}
        return found

    async def seats_held(
        self, owner: str, keys: Collection[str], game_id: str, *, in_deleted_forks: bool = True
    ) -> set[int]:
        """The seats of this game for which the owner was given a token, whether or not it is valid now, those
        whose codes it used, or made and somebody has used, and those that it sought; also those that it so
        held in a fork that was deleted, unless ``in_deleted_forks`` is false. ``keys``: the public names of
        its keys.
        """
        c = who_held(in_deleted_forks).c
        held = select(c.seat).where(c.holder.in_([owner, *keys]), c.game_id == game_id)
        return set(await self._database.column(held))

    def games_held(self, owner: str, keys: Collection[str], *, still_open: bool = False) -> Select[Any]:
        """A query of the games in which ``seats_held`` finds a seat. ``still_open``: without those that have
        ended, and those of which the owner held a seat in a deleted fork alone: what is deleted had ended.
        """
        c = who_held(in_deleted_forks=not still_open).c
        held = select(c.game_id).where(c.holder.in_([owner, *keys]))
        if not still_open:
            return held
        return select(games.c.game_id).where(games.c.game_id.in_(held), games.c.status.not_in(ENDED))

    async def sources_played(self, owner: str, keys: Collection[str]) -> set[str]:
        """The games, among them deleted ones, of which an open fork is somebody else's, and the owner has, or
        had, a seat in it. ``keys``: the public names of its keys.
        """
        held = self.games_held(owner, keys, still_open=True)
        of_others = held.join(batches, batches.c.batch_id == games.c.batch_id).where(batches.c.owner != owner)
        return set(await self._database.column(select(lines_of(of_others, self._database).c.source)))

    async def deals_played(self, owner: str, keys: Collection[str], game_ids: Collection[str]) -> set[str]:
        """Those of these games that have the deal of an open fork of somebody else's in which the owner has,
        or had, a seat: the end of such a game may tell it who is who in the fork. Without games in which it
        has, or had, a seat itself; a seat of a fork of theirs that was deleted does not count. ``keys``: the
        public names of its keys.
        """
        played = await self.sources_played(owner, keys)
        if not played:
            return set()
        found = played.intersection(game_ids)
        for some in in_parts(game_ids):
            line = lines_of(some, self._database)
            pairs = await self._database.rows(select(line.c.fork, line.c.source))
            found |= {fork for fork, source in pairs if source in played}
        return {
            game for game in found if not await self.seats_held(owner, keys, game, in_deleted_forks=False)
        }


def who_held(in_deleted_forks: bool = True) -> Subquery:
    """Who held which seat of which game, whoever has it now: ``game_id``, ``seat``, and ``holder``, an owner
    or the public name of a key. Null: unknown. ``in_deleted_forks``: also who held it in a fork of the game
    that was deleted.
    """
    token, code, player, view = tokens.c, claim_codes.c, game_players.c, seen_views.c
    minted = select(token.game_id, token.seat, token.owner.label("holder")).where(token.seat.is_not(None))
    used = (
        select(code.game_id, code.seat, holder).where(code.used_at.is_not(None))
        for holder in (code.used_by, code.by)
    )
    sought = select(player.game_id, player.seat, player.owner)
    passed_on = select(view.game_id, view.seat, view.owner).where(view.held)
    return minted.union_all(*used, sought, *([passed_on] if in_deleted_forks else [])).subquery()


def _readable(kind: type[R], rows: Iterable[RowMapping]) -> list[R]:
    table = table_of(kind)
    found = []
    for row in rows:
        if is_whole(table, row):
            found.append(typed_row(kind, row))
        else:
            log.error("a damaged row is left out", row=row_name(table, row))
    return found
