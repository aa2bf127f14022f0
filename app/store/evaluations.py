"""Evaluations in the database: answers, judgements, dealt tasks, and who has seen what."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, func, insert, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.cursors import read_cursor, unknown_cursor, write_cursor
from app.store.db import Database
from app.store.evaluation_tables import answers, evaluations, judgements, seen, statements, tasks
from app.store.games import Row
from app.store.tables import games

__all__ = ["EvaluationStore"]

_IN: Final = 500
"""Values in one IN list: SQLite takes some thousands, PostgreSQL plans them one by one."""


class EvaluationStore:
    """Everything about evaluations but their inputs, which are the games' logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- evaluations and answers ------------------------------------------------------------

    async def insert(self, connection: AsyncConnection, row: Mapping[str, Any]) -> None:
        """Writes an evaluation's row, in the caller's transaction."""
        await connection.execute(insert(evaluations), [dict(row)])

    async def insert_answers(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes answers, in the caller's transaction. One that was graded before breaks the key."""
        if rows:
            await connection.execute(insert(answers), [dict(row) for row in rows])

    async def evaluation(self, evaluation_id: str) -> Row | None:
        query = select(evaluations).where(evaluations.c.evaluation_id == evaluation_id)
        found = await self._rows(query)
        return found[0] if found else None

    async def judging(self) -> list[Row]:
        """Evaluations whose judge has not finished, or that were cancelled and are not scored yet: id,
        status and wish, oldest first.
        """
        c = evaluations.c
        query = (
            select(c.evaluation_id, c.status, c.wish)
            .where(c.status.in_(("judging", "cancelled")), c.finished_at.is_(None))
            .order_by(c.created_at, c.evaluation_id)
        )
        return await self._rows(query)

    async def cancel(self, evaluation_id: str) -> bool:
        """Ends a judge's work; False: it had ended. What it has judged is scored afterwards."""

        async def work(connection: AsyncConnection) -> bool:
            done = await connection.execute(
                update(evaluations)
                .where(evaluations.c.evaluation_id == evaluation_id, evaluations.c.status == "judging")
                .values(status="cancelled")
            )
            return bool(done.rowcount)

        return await self._database.writer.run(work)

    async def judged_before(
        self, connection: AsyncConnection, caller: str, rater: str, dimension: str, games: Collection[str]
    ) -> bool:
        """Whether this judge has judged in one of these games, or is at it."""
        c = evaluations.c
        rows = await connection.execute(
            select(c.wish).where(
                c.caller == caller, c.rater == rater, c.dimension == dimension, c.status == "judging"
            )
        )
        if any(not set(games).isdisjoint(wish["games"]) for (wish,) in rows):
            return True
        table = statements if dimension == "statements" else judgements
        j = table.c
        for some in _parts(games):
            query = select(j.game_id).where(j.game_id.in_(some), j.caller == caller, j.rater == rater)
            if table is judgements:
                query = query.where(j.dimension == dimension)
            if (await connection.execute(query.limit(1))).first() is not None:
                return True
        return False

    async def lock_rater(self, connection: AsyncConnection, caller: str, rater: str) -> None:
        """Holds up other transactions of the same rater until this one ends; SQLite does anyway."""
        if not self._database.is_sqlite:
            await connection.execute(
                select(func.pg_advisory_xact_lock(func.hashtextextended(f"{caller}/{rater}", 0)))
            )

    async def advance(
        self, connection: AsyncConnection, evaluation_id: str, result: Mapping[str, Any]
    ) -> bool:
        """Writes how far a judge is, in the caller's transaction. False: it was ended meanwhile."""
        done = await connection.execute(
            update(evaluations)
            .where(evaluations.c.evaluation_id == evaluation_id, evaluations.c.status == "judging")
            .values(result=dict(result))
        )
        return bool(done.rowcount)

    async def judged_by(self, evaluation_id: str, games: Collection[str]) -> list[Row]:
        """What the judge of this evaluation said in these games."""
        rows: list[Row] = []
        for some in _parts(games):
            rows += await self._rows(
                select(judgements)
                .where(judgements.c.game_id.in_(some), judgements.c.evaluation_id == evaluation_id)
                .order_by(judgements.c.game_id, judgements.c.request_id, judgements.c.stage)
            )
        return rows

    async def finish(self, evaluation_id: str, status: str, result: Mapping[str, Any], at: int) -> None:
        """Writes how an evaluation came out; one that has come out already stays as it is."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                update(evaluations)
                .where(
                    evaluations.c.evaluation_id == evaluation_id,
                    evaluations.c.status.in_(("judging", status)),
                    evaluations.c.finished_at.is_(None),
                )
                .values(status=status, result=dict(result), finished_at=at)
            )

        await self._database.writer.run(work)

    async def page(
        self,
        *,
        caller: str | None,
        dimensions: Sequence[str],
        raters: Sequence[str],
        limit: int,
        cursor: str | None,
    ) -> tuple[list[Row], str | None]:
        """Evaluations, newest first, and the cursor of the next page. ``caller`` None: everybody's; without
        dimensions or raters: of all of them.
        """
        query = select(evaluations)
        if caller is not None:
            query = query.where(evaluations.c.caller == caller)
        if dimensions:
            query = query.where(evaluations.c.dimension.in_(dimensions))
        if raters:
            query = query.where(evaluations.c.rater.in_(raters))
        if cursor is not None:
            at, evaluation_id = _read_cursor(cursor)
            query = query.where(
                or_(
                    evaluations.c.created_at < at,
                    and_(evaluations.c.created_at == at, evaluations.c.evaluation_id < evaluation_id),
                )
            )
        query = query.order_by(evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc()).limit(
            limit + 1
        )
        rows = await self._rows(query)
        if len(rows) <= limit:
            return rows, None
        last = rows[limit - 1]
        return rows[:limit], write_cursor(last["created_at"], last["evaluation_id"])

    async def answers_of(self, evaluation_id: str) -> list[Row]:
        """What was handed in with one evaluation, by item and sample."""
        query = (
            select(answers)
            .where(answers.c.evaluation_id == evaluation_id)
            .order_by(answers.c.item_id, answers.c.sample)
        )
        return await self._rows(query)

    async def graded(
        self, caller: str, rater: str, items: Collection[str], grade: int
    ) -> set[tuple[str, int]]:
        """The (item, sample) of these items that the rater has in this grade or a later one."""
        c = answers.c
        found: set[tuple[str, int]] = set()
        for some in _parts(items):
            query = select(c.item_id, c.sample).where(
                c.caller == caller, c.rater == rater, c.item_id.in_(some), c.grade >= grade
            )
            async with self._database.read_engine.connect() as connection:
                found |= {(item, sample) for item, sample in (await connection.execute(query)).all()}
        return found

    async def answers_about(self, games: Collection[str], dimension: str) -> list[Row]:
        """The answers about items of these games that stand: of each its last grade."""
        rows = []
        for some in _parts(games):
            query = select(answers).where(answers.c.game_id.in_(some), answers.c.dimension == dimension)
            rows += await self._rows(
                query.order_by(
                    answers.c.caller, answers.c.rater, answers.c.item_id, answers.c.sample, answers.c.grade
                )
            )
        return _last(rows, ("caller", "rater", "item_id", "sample"))

    # --- judgements -------------------------------------------------------------------------

    async def insert_judgements(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes judgements, in the caller's transaction. A second one of a rater breaks the key."""
        if rows:
            await connection.execute(insert(judgements), [dict(row) for row in rows])

    async def grades(
        self, connection: AsyncConnection, caller: str, rater: str, games: Collection[str]
    ) -> dict[tuple[str, str, str, str, str], int]:
        """The rater's last grade by (game, request, stage, intention, dimension), as the caller's
        transaction sees it.
        """
        c = judgements.c
        found: dict[tuple[str, str, str, str, str], int] = {}
        for some in _parts(games):
            query = (
                select(c.game_id, c.request_id, c.stage, c.intention, c.dimension, func.max(c.grade))
                .where(c.caller == caller, c.rater == rater, c.game_id.in_(some))
                .group_by(c.game_id, c.request_id, c.stage, c.intention, c.dimension)
            )
            for *key, grade in (await connection.execute(query)).all():
                found[tuple(key)] = grade
        return found

    async def judgements_of(
        self,
        games: Collection[str],
        *,
        caller: str | None = None,
        raters: Sequence[str] = (),
        kind: str | None = None,
        dimension: str | None = None,
    ) -> list[Row]:
        """The judgements about these games that stand: of each its last grade. Without raters: of all."""
        c = judgements.c
        rows = []
        for some in _parts(games):
            query = select(judgements).where(c.game_id.in_(some))
            if raters:
                query = query.where(c.rater.in_(raters))
            for column, value in (("caller", caller), ("kind", kind), ("dimension", dimension)):
                if value is not None:
                    query = query.where(c[column] == value)
            rows += await self._rows(
                query.order_by(
                    c.game_id, c.request_id, c.stage, c.intention, c.dimension, c.caller, c.rater, c.grade
                )
            )
        return _last(rows, ("game_id", "request_id", "stage", "intention", "dimension", "caller", "rater"))

    # --- statements -------------------------------------------------------------------------

    async def insert_statements(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes what a judge says of speeches, in the caller's transaction. A second word of a rater
        breaks the key.
        """
        if rows:
            await connection.execute(insert(statements), [dict(row) for row in rows])

    async def statement_grades(
        self, connection: AsyncConnection, caller: str, rater: str, game_id: str
    ) -> dict[tuple[str, int], int]:
        """The rater's last grade in this game by (request, turn), as the caller's transaction sees it."""
        c = statements.c
        query = (
            select(c.request_id, c.turn, func.max(c.grade))
            .where(c.caller == caller, c.rater == rater, c.game_id == game_id)
            .group_by(c.request_id, c.turn)
        )
        return {(request, turn): grade for request, turn, grade in (await connection.execute(query)).all()}

    async def statements_by(self, evaluation_id: str, games: Collection[str]) -> list[Row]:
        """What the judge of this evaluation said of the speeches of these games."""
        rows: list[Row] = []
        c = statements.c
        for some in _parts(games):
            rows += await self._rows(
                select(statements)
                .where(c.game_id.in_(some), c.evaluation_id == evaluation_id)
                .order_by(c.game_id, c.request_id, c.turn)
            )
        return rows

    async def statement_page(
        self, evaluation_id: str, limit: int, cursor: str | None
    ) -> tuple[list[Row], str | None]:
        """What the judge of this evaluation said, speech by speech, planted ones apart, and the cursor of the
        next page.
        """
        c = statements.c
        place = (c.game_id, c.request_id, c.turn)
        query = select(statements).where(c.evaluation_id == evaluation_id, c.turn >= 0)
        if cursor is not None:
            query = query.where(tuple_(*place) > tuple_(*_read_place(cursor)))
        rows = await self._rows(query.order_by(*place).limit(limit + 1))
        if len(rows) <= limit:
            return rows, None
        last = rows[limit - 1]
        return rows[:limit], write_cursor(last["game_id"], last["request_id"], last["turn"])

    async def statements_of(self, games: Collection[str], *, caller: str | None = None) -> list[Row]:
        """What stands of the speeches of these games: of each rater's words the last grade."""
        rows = []
        c = statements.c
        for some in _parts(games):
            query = select(statements).where(c.game_id.in_(some))
            if caller is not None:
                query = query.where(c.caller == caller)
            rows += await self._rows(
                query.order_by(c.game_id, c.request_id, c.turn, c.caller, c.rater, c.grade)
            )
        return _last(rows, ("game_id", "request_id", "turn", "caller", "rater"))

    async def given(self, batch_id: str) -> tuple[int, int]:
        """Judgements, those of statements included, and answers stored about the batch's games: they are
        added and never changed.
        """
        counts = []
        async with self._database.read_engine.connect() as connection:
            for table in (judgements, statements, answers):
                query = (
                    select(func.count())
                    .select_from(table.join(games, games.c.game_id == table.c.game_id))
                    .where(games.c.batch_id == batch_id)
                )
                counts.append(int((await connection.execute(query)).scalar_one()))
        return counts[0] + counts[1], counts[2]

    async def shared_names(self, games: Collection[str]) -> frozenset[str]:
        """Names that raters of several credentials bear who judged or answered about these games."""
        callers: dict[str, set[str]] = {}
        async with self._database.read_engine.connect() as connection:
            for some in _parts(games):
                for table in (judgements, statements, answers):
                    query = select(table.c.rater, table.c.caller).where(table.c.game_id.in_(some)).distinct()
                    for rater, caller in (await connection.execute(query)).all():
                        callers.setdefault(rater, set()).add(caller)
        return frozenset(name for name, held in callers.items() if len(held) > 1)

    # --- tasks, and who has seen what -------------------------------------------------------

    async def dealt(
        self, connection: AsyncConnection, games: Collection[str]
    ) -> dict[tuple[str, str], set[tuple[str, str]]]:
        """By (game, request) the raters, as (caller, name), who were dealt it or have judged it."""
        found: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for some in _parts(games):
            for table in (tasks, judgements):
                c = table.c
                query = (
                    select(c.game_id, c.request_id, c.caller, c.rater).where(c.game_id.in_(some)).distinct()
                )
                for game_id, request_id, caller, rater in (await connection.execute(query)).all():
                    found.setdefault((game_id, request_id), set()).add((caller, rater))
        return found

    async def deal(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes dealt tasks, in the caller's transaction; one that was dealt before stays as it is."""
        await self._once(connection, tasks, rows)

    async def tasks_of(self, caller: str, rater: str, games: Collection[str]) -> list[tuple[str, str]]:
        """The turns of these games that the rater was dealt, as (game, request)."""
        found: list[tuple[str, str]] = []
        c = tasks.c
        for some in _parts(games):
            query = select(c.game_id, c.request_id).where(
                c.caller == caller, c.rater == rater, c.game_id.in_(some)
            )
            async with self._database.read_engine.connect() as connection:
                found += [(game, request) for game, request in (await connection.execute(query)).all()]
        return found

    async def mark_seen(self, caller: str, turns: Iterable[tuple[str, str]]) -> None:
        """Remembers that the credential was shown what was chosen in these turns."""
        told = sorted(set(turns))
        if told:
            await self._database.writer.run(lambda connection: self.mark_seen_in(connection, caller, told))

    async def mark_seen_in(
        self, connection: AsyncConnection, caller: str, turns: Iterable[tuple[str, str]]
    ) -> None:
        """The same in the caller's transaction."""
        rows = [
            {"caller": caller, "game_id": game, "request_id": request} for game, request in sorted(set(turns))
        ]
        await self._once(connection, seen, rows)

    async def seen_by(self, caller: str, turns: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of these turns whose choices the credential was shown."""
        found: set[tuple[str, str]] = set()
        for some in _parts(turns):
            query = select(seen.c.game_id, seen.c.request_id).where(
                seen.c.caller == caller, tuple_(seen.c.game_id, seen.c.request_id).in_(some)
            )
            async with self._database.read_engine.connect() as connection:
                found |= {(game, request) for game, request in (await connection.execute(query)).all()}
        return found

    async def _once(self, connection: AsyncConnection, table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            dialect = sqlite if self._database.is_sqlite else postgresql
            await connection.execute(
                dialect.insert(table).on_conflict_do_nothing(), [dict(row) for row in rows]
            )

    async def _rows(self, query: Any) -> list[Row]:
        async with self._database.read_engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]


def _parts(values: Collection[Any]) -> Iterable[list[Any]]:
    every = sorted(values)
    for first in range(0, len(every), _IN):
        yield every[first : first + _IN]


def _last(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Of rows in the order of ``key`` and grade, the last of each key."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        found[tuple(row[name] for name in key)] = row
    return list(found.values())


def _read_cursor(cursor: str) -> tuple[int, str]:
    wrong = unknown_cursor()
    at, evaluation_id = read_cursor(cursor, 2)
    if type(at) is not int or not 0 <= at < 2**53:
        raise wrong
    if not isinstance(evaluation_id, str) or not evaluation_id.isascii() or "\0" in evaluation_id:
        raise wrong
    return at, evaluation_id


def _read_place(cursor: str) -> tuple[str, str, int]:
    wrong = unknown_cursor()
    game_id, request_id, turn = read_cursor(cursor, 3)
    for text in (game_id, request_id):
        if not isinstance(text, str) or not text.isascii() or "\0" in text:
            raise wrong
    if type(turn) is not int or not 0 <= turn < 2**31:
        raise wrong
    return game_id, request_id, turn
