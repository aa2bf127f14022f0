"""Deletes games with everything that was stored about them, or says what still needs them.

A deleted game leaves one row of ``deletions``, and the scores of evaluations that used it, without any text;
a fork also who held which seat, as seats of its source. Sets keep of which origins they had games.
A game is deleted only when its batch is over and nothing open needs it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from sqlalchemy import (
    BigInteger,
    LargeBinary,
    Select,
    Table,
    cast,
    delete,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement, literal_column

from app.base.clock import timestamp
from app.base.errors import StillNeeded
from app.store.db import Database
from app.store.games import LOST, OPEN, laid_of, lines_of, parent_of, still_there
from app.store.keys import KEY, PROJECT
from app.store.rows import Damaged
from app.store.sets import who_held
from app.store.tables import (
    answers,
    batches,
    claim_codes,
    deletions,
    evaluations,
    events,
    game_players,
    games,
    holders,
    inbox,
    judgements,
    model_calls,
    model_spending,
    open_games,
    refusals,
    seeks,
    seen,
    seen_views,
    set_answers,
    set_items,
    set_origins,
    sets,
    statements,
    tasks,
    tokens,
)

__all__ = ["OF_GAMES", "Deleted", "Deleting", "size_of"]

log = structlog.get_logger()

OF_GAMES: Final[tuple[Table, ...]] = (
    events,
    model_spending,
    model_calls,  # after their account: see CallStore.keep
    inbox,
    refusals,
    holders,
    claim_codes,
    seeks,
    open_games,
    game_players,
    tokens,
    tasks,
    seen,
    seen_views,
    answers,
    judgements,
    statements,
    set_items,
    set_answers,
)
"""The tables whose rows belong to a game: they go with it."""

FROM_RATERS: Final = (answers, judgements, statements, set_answers)
"""Of these, what raters said of a game."""

_OF_CALLERS: Final = (tasks, answers, judgements, statements)
"""Of these, what everybody may do with a game whose log is public."""

_FOR_OWNERS: Final = (events, *_OF_CALLERS)
"""What an owner of a game learns the size of. Other rows may hold what its guests or strangers left: their
names, refused answers, what they have read of it, and what they answered in sealed sets.
"""

TOGETHER: Final = 20
"""Games deleted in one transaction: few enough that no other writer waits long."""

AT_ONCE: Final = 2_000
"""The most rows of one table that everybody may add to that are deleted in one transaction."""


@dataclass(slots=True)
class Deleted:
    """What was deleted, or would be."""

    games: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    """By table."""
    sizes: Counter[str] = field(default_factory=Counter)
    """By table, the bytes of those rows, without indexes."""

    def add(self, other: "Deleted") -> None:
        self.games += other.games
        self.rows += other.rows
        self.sizes += other.sizes

    @property
    def for_owner(self) -> "Deleted":
        """As an owner is told, ``_FOR_OWNERS`` alone."""
        shown = {table.name for table in _FOR_OWNERS}
        return Deleted(
            self.games,
            Counter({name: count for name, count in self.rows.items() if name in shown}),
            Counter({name: size for name, size in self.sizes.items() if name in shown}),
        )

    @property
    def bytes(self) -> int:
        return self.sizes.total()

    @property
    def events(self) -> int:
        return self.rows[events.name]

    @property
    def from_raters(self) -> int:
        """Answers and judgements of raters."""
        return sum(self.rows[table.name] for table in FROM_RATERS)


class Deleting:
    """Deletes games of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def games_of(self, batch_id: str) -> list[str]:
        """The batch's games, those whose rows are damaged included."""
        query = select(games.c.game_id).where(games.c.batch_id == batch_id).order_by(games.c.position)
        return await self._database.column(query)

    async def batches_before(self, at: int, label: tuple[str, str] | None) -> list[str]:
        """Batches in which nothing has happened since that moment (ms), the oldest first; ``label``: only
        those with this name and value. Their games may be open all the same.
        """
        c = batches.c
        later = select(games.c.game_id).where(
            games.c.batch_id == c.batch_id,
            func.coalesce(games.c.finished_at, games.c.created_at) >= at,
        )
        query = (
            select(c.batch_id, c.labels)
            .where(c.created_at < at, ~later.exists())
            .order_by(c.created_at, c.batch_id)
        )
        found = await self._database.rows(query)
        return [
            batch_id
            for batch_id, labels in found
            if label is None or (not isinstance(labels, Damaged) and labels.get(label[0]) == label[1])
        ]

    async def check(self, game_ids: Sequence[str]) -> None:
        """Raises StillNeeded if one of these games cannot be deleted now."""
        async with self._database.reading() as connection:
            await self._check(connection, game_ids)

    async def measure(self, game_ids: Sequence[str]) -> Deleted:
        """What deleting these games would delete."""
        deleted = Deleted(len(game_ids))
        for some in _parts(game_ids):
            async with self._database.reading() as connection:
                for table in (games, *OF_GAMES):
                    deleted.sizes[table.name] += await _bytes(connection, table, some)
        return deleted

    async def delete(
        self, game_ids: Sequence[str], by: str, told_of: Collection[str] | None = None
    ) -> AsyncIterator[Deleted]:
        """Deletes games of one batch, and the batch with the last of them. Gives what each transaction has
        deleted. Raises StillNeeded, and then leaves all games that are left as they are; but of what raters
        said of them, if that is much, a part may be gone.

        ``by``: who deletes them, for the record. ``told_of``: the public names of the credentials whose
        judgements, answers and tasks are counted; None: everybody's.
        """
        await self.check(game_ids)
        await self._forget_texts(game_ids)
        for some in _parts(game_ids):
            async for deleted in self._thin_out(some, told_of):
                yield deleted

            async def work(connection: AsyncConnection, some: Sequence[str] = some) -> Deleted:
                return await self._delete(connection, some, by, told_of)

            deleted = await self._database.writer.run(work)
            for game_id in some:
                log.warning("a game was deleted", game=game_id, by=by)
            yield deleted

    async def _thin_out(
        self, game_ids: Sequence[str], told_of: Collection[str] | None
    ) -> AsyncIterator[Deleted]:
        """Deletes of the rows that anybody may add as many of as its quota allows all but ``AT_ONCE`` a
        table, so many in each transaction. Gives what each has deleted. Raises StillNeeded.
        """
        for table in (*_OF_CALLERS, set_answers):
            of_games = table.c.game_id.in_(game_ids)
            counted = [] if told_of is None or table not in _OF_CALLERS else [table.c.caller.in_(told_of)]

            async def work(
                connection: AsyncConnection,
                table: Table = table,
                of_games: Any = of_games,
                counted: Any = counted,
            ) -> Deleted:
                await self._check(connection, game_ids)
                key = table.primary_key.columns
                some = tuple_(*key).in_(select(*key).where(of_games).order_by(*key).limit(AT_ONCE))
                sizes = select(func.count(), size_of(table, connection.dialect.name)).select_from(table)
                count, size = (await connection.execute(sizes.where(some, *counted))).one()
                await connection.execute(delete(table).where(some))
                return Deleted(0, Counter({str(table.name): count}), Counter({table.name: int(size or 0)}))

            more = select(table.c.game_id).where(of_games).offset(AT_ONCE).limit(1)
            while await self._database.column(more):
                yield await self._database.writer.run(work)

    async def _delete(
        self, connection: AsyncConnection, game_ids: Sequence[str], by: str, told_of: Collection[str] | None
    ) -> Deleted:
        of_games = select(games.c.batch_id).where(games.c.game_id.in_(game_ids))
        # Before its games, as everybody does who changes both.
        await connection.execute(
            select(batches.c.batch_id).where(batches.c.batch_id.in_(of_games)).with_for_update()
        )
        found = (
            await connection.execute(
                select(games.c.game_id, games.c.batch_id, games.c.head, games.c.forked_from)
                .where(games.c.game_id.in_(game_ids))
                .order_by(games.c.game_id)
                .with_for_update()
            )
        ).all()
        await self._check(connection, game_ids)
        await self._pass_on(connection, {row.game_id: row.forked_from for row in found})
        await self._keep_origins(connection, game_ids)
        deleted = Deleted(len(found))
        for table in (*OF_GAMES, games):
            if told_of is not None and table in _OF_CALLERS:
                of_others = (table.c.game_id.in_(game_ids), table.c.caller.not_in(told_of))
                await connection.execute(delete(table).where(*of_others))
            deleted.sizes[table.name] += await _bytes(connection, table, game_ids)
            gone = await connection.execute(delete(table).where(table.c.game_id.in_(game_ids)))
            if gone.rowcount:
                # JSON takes no names of SQLAlchemy's own kind.
                deleted.rows[str(table.name)] = gone.rowcount
        for batch_id in {row.batch_id for row in found}:
            of_batch = sum(row.batch_id == batch_id for row in found)
            this = batches.c.batch_id == batch_id
            await connection.execute(update(batches).where(this).values(count=batches.c.count - of_batch))
            left = select(games.c.game_id).where(games.c.batch_id == batch_id).limit(1)
            if (await connection.execute(left)).first() is None:
                # Tokens of the whole batch.
                await connection.execute(delete(tokens).where(tokens.c.batch_id == batch_id))
                await connection.execute(delete(batches).where(this))
        if found:
            at = self._database.writer.stamp()
            await connection.execute(
                insert(deletions),
                [
                    {"game_id": row.game_id, "batch_id": row.batch_id, "at": at, "by": by, "events": row.head}
                    for row in found
                ],
            )
        return deleted

    async def _check(self, connection: AsyncConnection, game_ids: Sequence[str]) -> None:
        wanted = set(game_ids)
        for some in _parts(list(game_ids)):
            running = (
                select(games.c.game_id, games.c.status)
                .where(games.c.game_id.in_(some), games.c.status.in_(OPEN))
                .limit(1)
            )
            for game_id, status in (await connection.execute(running)).all():
                raise StillNeeded(f"{game_id} is {status}: cancel it first, or wait for its end")
            of = select(games.c.batch_id).where(games.c.game_id.in_(some))
            for batch_id in (await connection.execute(of.distinct())).scalars().all():
                await _check_batch(connection, batch_id)
        owners: dict[str, str] = {}
        for some in _parts(list(game_ids)):
            of = select(games.c.game_id, batches.c.owner).join(
                batches, batches.c.batch_id == games.c.batch_id
            )
            for game_id, owner in await connection.execute(of.where(games.c.game_id.in_(some))):
                owners[game_id] = owner
        judging = select(evaluations.c.evaluation_id, evaluations.c.spec, evaluations.c.owner).where(
            evaluations.c.finished_at.is_(None), evaluations.c.status.in_(("judging", "cancelled"))
        )
        for evaluation_id, spec, owner in (await connection.execute(judging)).all():
            # A stranger who judges a public game does not keep it, nor is anybody told of it.
            if needed := {g for g in _judged(spec) & wanted if not _are_strangers(owner, owners.get(g))}:
                first = min(needed)
                raise StillNeeded(
                    f"the evaluation {evaluation_id} is judging {first}: cancel it first, or wait for its end"
                )
        # Who played or read the past of a set's fork is known from the rows of all that it was forked off.
        unscored = select(set_items.c.game_id).where(
            sets.c.set_id == set_items.c.set_id, sets.c.scored_at.is_(None), sets.c.withdrawn_at.is_(None)
        )
        line = lines_of(unscored, self._database)
        for some in _parts(list(game_ids)):
            for needed_game, of_item, what in (
                (set_items.c.game_id, true(), ""),
                (line.c.source, line.c.fork == set_items.c.game_id, "a fork of "),
            ):
                in_sets = (
                    unscored.with_only_columns(needed_game, sets.c.set_id, sets.c.closes_at, sets.c.opened_at)
                    .where(of_item, needed_game.in_(some))
                    .limit(1)
                )
                for game_id, set_id, closes_at, opened_at in (await connection.execute(in_sets)).all():
                    until = (
                        f"is sealed until {timestamp(closes_at)}" if opened_at is None else "is being scored"
                    )
                    raise StillNeeded(
                        f"{what}{game_id} is in the set {set_id}, which {until}: look at the set after that"
                    )
        forks = (
            select(games.c.game_id, batches.c.spec)
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(games.c.status.in_(OPEN), games.c.forked_from.is_not(None))
        )
        for fork, spec in (await connection.execute(forks)).all():
            repeats = [] if isinstance(spec, Damaged) else spec.get("repeats") or ()
            if needed := set(repeats) & wanted:
                raise StillNeeded(
                    f"{fork}, a fork of {min(needed)} that repeats its model's answers, is not over"
                )

    async def _pass_on(self, connection: AsyncConnection, gone: Mapping[str, Any]) -> None:
        """Makes the forks of forks that are to be deleted forks of their sources, since who sees them depends
        on whether those may go on; and has whoever held a seat of such a fork hold it in the source, since
        sealed sets take both for one. ``gone``: what each game to delete was forked off, by its id.
        """
        sources = {game_id: source for game_id, source in gone.items() if _is_origin(source)}
        if not sources:
            return
        await self._pass_on_seats(connection, {fork: of["game_id"] for fork, of in sources.items()})
        c = games.c
        forks = select(c.game_id, c.forked_from).where(
            c.forked_from.is_not(None),
            parent_of(c.forked_from, self._database).in_(sources),
        )
        for fork, origin in (await connection.execute(forks)).all():
            if _is_origin(origin):
                source = sources[origin["game_id"]]
                passed = {**source, "events": min(origin["events"], source["events"])}
                if origin.get(LOST) or passed["events"] < origin["events"]:
                    passed[LOST] = True
                await connection.execute(update(games).where(c.game_id == fork).values(forked_from=passed))

    async def _pass_on_seats(self, connection: AsyncConnection, sources: Mapping[str, str]) -> None:
        there = await still_there(connection, set(sources.values()))
        c = who_held().c
        held = select(c.holder, c.game_id, c.seat).where(c.game_id.in_(sources), c.holder.is_not(None))
        rows = {(holder, sources[fork], seat) for holder, fork, seat in await connection.execute(held)}
        values = [
            {"owner": holder, "game_id": source, "seat": seat, "held": True}
            for holder, source, seat in rows
            if source in there
        ]
        if values:
            dialect = sqlite if self._database.is_sqlite else postgresql
            new = dialect.insert(seen_views)
            await connection.execute(
                new.on_conflict_do_update(index_elements=seen_views.primary_key, set_={"held": True}), values
            )

    async def _keep_origins(self, connection: AsyncConnection, game_ids: Sequence[str]) -> None:
        """Keeps of which origins these games were in which sets: the gold of an open set stays known, so that
        no later set may have another game of the origin.
        """
        had = select(set_items.c.origin, set_items.c.set_id).where(set_items.c.game_id.in_(game_ids))
        dialect = sqlite if self._database.is_sqlite else postgresql
        new = dialect.insert(set_origins).from_select(["origin", "set_id"], had.distinct())
        await connection.execute(new.on_conflict_do_nothing())

    async def _forget_texts(self, game_ids: Sequence[str]) -> None:
        """Removes what judges were asked and answered about these games; scores, tokens and costs stay."""
        gone = set(game_ids)
        c = evaluations.c
        found = await self._database.rows(select(c.evaluation_id, c.spec, c.result))
        for evaluation_id, spec, result in found:
            judged = _judged(spec)
            if not judged & gone:
                continue

            calls = model_calls.c
            query = select(calls.about).where(calls.game_id == evaluation_id).distinct()
            about = await self._database.column(query)
            of_gone = [one for one in about if one.partition("/")[0] in gone]
            for some in _parts(of_gone):
                await self._database.writer.execute(
                    update(model_calls)
                    .where(calls.game_id == evaluation_id, calls.about.in_(some))
                    .values(messages=None, text=None, value=None, reasoning=None)
                )
            kept = _without(result, gone)
            if kept is not None:
                await self._database.writer.execute(
                    update(evaluations).where(c.evaluation_id == evaluation_id).values(result=kept)
                )


def _parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER))


def _is_origin(forked_from: Any) -> bool:
    return (
        isinstance(forked_from, Mapping)
        and type(forked_from.get("events")) is int
        and type(forked_from.get("game_id")) is str
    )


def _judged(spec: Any) -> set[str]:
    """The games that a judge's spec names; empty for answers, and for a spec that cannot be read."""
    named = {} if isinstance(spec, Damaged) else spec
    found = named.get("games")
    return set(found) if isinstance(found, list) else set()


def _without(result: Any, gone: set[str]) -> dict[str, Any] | None:
    """An evaluation's result without the answers about these games that it quotes; None if it quotes none."""
    unusable = None if result is None or isinstance(result, Damaged) else result.get("unusable")
    if not isinstance(unusable, list):
        return None
    kept = [one for one in unusable if str(one.get("item_id", "")).partition("/")[0] not in gone]
    return None if len(kept) == len(unusable) else {**result, "unusable": kept}


def _are_strangers(one: Any, other: Any) -> bool:
    """Whether these are two owners of keys."""
    return one != other and all(str(owner).startswith((KEY, PROJECT)) for owner in (one, other))


async def _check_batch(connection: AsyncConnection, batch_id: str) -> None:
    c = batches.c
    batch = (await connection.execute(select(c.count, c.cancelled).where(c.batch_id == batch_id))).first()
    if batch is None:
        return  # an orphan
    count, cancelled = batch
    this = games.c.batch_id == batch_id
    still = select(func.count()).where(this, games.c.status.in_(OPEN))
    stored = await connection.execute(select(func.count(), func.max(games.c.position)).where(this))
    laid = laid_of(*stored.one())
    if (await connection.execute(still)).scalar_one() or (laid < count and not cancelled):
        # Budgets and progress count all games of a batch, so nothing is taken from one that goes on.
        raise StillNeeded(f"its batch {batch_id} is not over: cancel it first, or wait for its end")


async def _bytes(connection: AsyncConnection, table: Table, game_ids: Sequence[str]) -> int:
    query: Select[Any] = select(size_of(table, connection.dialect.name)).where(table.c.game_id.in_(game_ids))
    return int((await connection.execute(query)).scalar_one() or 0)


def size_of(table: Table, dialect: str) -> ColumnElement[int]:
    """The sum of the sizes of rows, in bytes, without indexes and headers of pages."""
    if dialect == "postgresql":
        return func.sum(func.pg_column_size(literal_column(f'"{table.name}".*')))
    sizes: list[ColumnElement[int]] = [
        func.coalesce(func.length(cast(literal_column(f'"{column.name}"'), LargeBinary)), 0)
        for column in table.columns
    ]
    total: ColumnElement[int] = literal_column("0", BigInteger)
    for size in sizes:
        total = total + size
    return func.sum(total)
