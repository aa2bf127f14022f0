"""Evaluations in the database: answers, judgements, dealt tasks, and who has seen what."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from sqlalchemy import RowMapping, Select, and_, func, insert, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.cursors import next_cursor, read_cursor, unknown_cursor
from app.store.db import Database
from app.store.evaluation_tables import answers, evaluations, judgements, seen, statements, tasks
from app.store.json_column import Damaged
from app.store.row_checks import is_whole, row_name
from app.store.rows import (
    AnswerRow,
    EvaluationRow,
    JudgementRow,
    StatementsRow,
    UnfinishedJudging,
    table_of,
    typed_row,
    values_of,
)
from app.store.tables import games
from engine.errors import CorruptLog

__all__ = ["EvaluationStore", "Lost", "Rows"]

log = structlog.get_logger()

_IN: Final = 500
"""Values in one IN list: SQLite takes some thousands, PostgreSQL plans them one by one."""


R = TypeVar("R")


class Lost(NamedTuple):
    """A row that does not read."""

    table: str
    game_id: str
    """Empty where it is about none."""
    name: str


class Rows(list[R]):
    """The rows that read."""

    def __init__(self, rows: Iterable[R] = (), damaged: Iterable[Lost] = ()) -> None:
        super().__init__(rows)
        self.damaged = list(damaged)
        """The others."""


class EvaluationStore:
    """Everything about evaluations but their inputs, which are the games' logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- evaluations and answers ------------------------------------------------------------

    async def insert(self, connection: AsyncConnection, row: EvaluationRow) -> None:
        """Writes an evaluation's row, in the caller's transaction."""
        await connection.execute(insert(evaluations), [values_of(row)])

    async def insert_answers(self, connection: AsyncConnection, rows: Sequence[AnswerRow]) -> None:
        """Writes answers, in the caller's transaction. One that was graded before breaks the key."""
        if rows:
            await connection.execute(insert(answers), [values_of(row) for row in rows])

    async def evaluation(self, evaluation_id: str) -> EvaluationRow | None:
        """The evaluation's row. Raises CorruptLog for one that does not read."""
        query = select(evaluations).where(evaluations.c.evaluation_id == evaluation_id)
        rows = _readable(EvaluationRow, await self._rows(query))
        if rows.damaged:
            raise CorruptLog(f"{rows.damaged[0].name} does not read")
        return rows[0] if rows else None

    async def judging(self) -> list[UnfinishedJudging]:
        """Evaluations whose judge has not finished, or that were cancelled and are not scored yet, oldest
        first.
        """
        c = evaluations.c
        query = (
            select(c.evaluation_id, c.status, c.spec.label("spec"))
            .where(c.status.in_(("judging", "cancelled")), c.finished_at.is_(None))
            .order_by(c.created_at, c.evaluation_id)
        )
        return [UnfinishedJudging(**row) for row in await self._rows(query)]

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
            select(c.spec).where(
                c.caller == caller, c.rater == rater, c.dimension == dimension, c.status == "judging"
            )
        )
        # One whose spec is damaged is ended as failed when it is next looked at.
        if any(not (isinstance(spec, Damaged) or set(games).isdisjoint(spec["games"])) for (spec,) in rows):
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

    async def judged_by(self, evaluation_id: str, games: Collection[str]) -> Rows[JudgementRow]:
        """What the judge of this evaluation said in these games."""
        rows: list[RowMapping] = []
        for some in _parts(games):
            rows += await self._rows(
                select(judgements)
                .where(judgements.c.game_id.in_(some), judgements.c.evaluation_id == evaluation_id)
                .order_by(judgements.c.game_id, judgements.c.request_id, judgements.c.stage)
            )
        return _readable(JudgementRow, rows)

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
    ) -> tuple[Rows[EvaluationRow], str | None]:
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
        shown = _readable(EvaluationRow, rows[:limit])
        if len(rows) <= limit:
            return shown, None
        return shown, next_cursor(rows[:limit], ("created_at", "evaluation_id"), _read_cursor)

    async def answers_of(self, evaluation_id: str) -> Rows[AnswerRow]:
        """What was handed in with one evaluation, by item and sample."""
        query = (
            select(answers)
            .where(answers.c.evaluation_id == evaluation_id)
            .order_by(answers.c.item_id, answers.c.sample)
        )
        return _readable(AnswerRow, await self._rows(query))

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

    async def answers_about(self, games: Collection[str], dimension: str) -> Rows[AnswerRow]:
        """The answers about items of these games that stand: of each its last grade."""
        rows: list[RowMapping] = []
        for some in _parts(games):
            query = select(answers).where(answers.c.game_id.in_(some), answers.c.dimension == dimension)
            rows += await self._rows(
                query.order_by(
                    answers.c.caller, answers.c.rater, answers.c.item_id, answers.c.sample, answers.c.grade
                )
            )
        return _last(AnswerRow, rows, ("caller", "rater", "item_id", "sample"))

    # --- judgements -------------------------------------------------------------------------

    async def insert_judgements(self, connection: AsyncConnection, rows: Sequence[JudgementRow]) -> None:
        """Writes judgements, in the caller's transaction. A second one of a rater breaks the key."""
        if rows:
            await connection.execute(insert(judgements), [values_of(row) for row in rows])

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
    ) -> Rows[JudgementRow]:
        """The judgements about these games that stand: of each its last grade. Without raters: of all."""
        c = judgements.c
        rows: list[RowMapping] = []
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
        key = ("game_id", "request_id", "stage", "intention", "dimension", "caller", "rater")
        return _last(JudgementRow, rows, key)

    # --- statements -------------------------------------------------------------------------

    async def insert_statements(self, connection: AsyncConnection, rows: Sequence[StatementsRow]) -> None:
        """Writes what a judge says of speeches, in the caller's transaction. A second word of a rater
        breaks the key.
        """
        if rows:
            await connection.execute(insert(statements), [values_of(row) for row in rows])

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

    async def statements_by(self, evaluation_id: str, games: Collection[str]) -> Rows[StatementsRow]:
        """What the judge of this evaluation said of the speeches of these games."""
        rows: list[RowMapping] = []
        c = statements.c
        for some in _parts(games):
            rows += await self._rows(
                select(statements)
                .where(c.game_id.in_(some), c.evaluation_id == evaluation_id)
                .order_by(c.game_id, c.request_id, c.turn)
            )
        return _readable(StatementsRow, rows)

    async def statement_page(
        self, evaluation_id: str, limit: int, cursor: str | None
    ) -> tuple[Rows[StatementsRow], str | None]:
        """The judgements of one evaluation, speech by speech and without control speeches, and the cursor of
        the next page.
        """
        c = statements.c
        place = (c.game_id, c.request_id, c.turn)
        query = select(statements).where(c.evaluation_id == evaluation_id, c.turn >= 0)
        if cursor is not None:
            query = query.where(tuple_(*place) > tuple_(*_read_place(cursor)))
        rows = await self._rows(query.order_by(*place).limit(limit + 1))
        shown = _readable(StatementsRow, rows[:limit])
        if len(rows) <= limit:
            return shown, None
        return shown, next_cursor(rows[:limit], ("game_id", "request_id", "turn"), _read_place)

    async def statements_of(
        self, games: Collection[str], *, caller: str | None = None
    ) -> Rows[StatementsRow]:
        """The judgements of the speeches of these games that stand: of each its last grade."""
        rows: list[RowMapping] = []
        c = statements.c
        for some in _parts(games):
            query = select(statements).where(c.game_id.in_(some))
            if caller is not None:
                query = query.where(c.caller == caller)
            rows += await self._rows(
                query.order_by(c.game_id, c.request_id, c.turn, c.caller, c.rater, c.grade)
            )
        return _last(StatementsRow, rows, ("game_id", "request_id", "turn", "caller", "rater"))

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

    async def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        async with self._database.read_engine.connect() as connection:
            rows: Sequence[RowMapping] = (await connection.execute(query)).mappings().all()
        return rows


def _parts(values: Collection[Any]) -> Iterable[list[Any]]:
    every = sorted(values)
    for first in range(0, len(every), _IN):
        yield every[first : first + _IN]


def _last(kind: type[R], rows: Iterable[RowMapping], key: Sequence[str]) -> Rows[R]:
    """Of rows in the order of ``key`` and grade, the last of each key. Where that one is damaged, no earlier
    word stands in its place.
    """
    last: dict[tuple[Any, ...], RowMapping] = {}
    for row in rows:
        last[tuple(row[name] for name in key)] = row
    return _readable(kind, last.values())


def _readable(kind: type[R], rows: Iterable[RowMapping]) -> Rows[R]:
    """These rows without those that are damaged, which are named, in the service's own log too."""
    table = table_of(kind)
    whole: list[R] = []
    damaged = []
    for row in rows:
        if is_whole(table, row) and _FITS.get(table.name, _fits)(row):
            whole.append(typed_row(kind, row))
        else:
            name = row_name(table, row)
            # Rows about games are asked for by their games.
            damaged.append(Lost(table.name, row.get("game_id", ""), name))
    # A command has no log: it says itself what it leaves out.
    if damaged and structlog.is_configured():
        log.error("damaged rows are left out", table=table.name, rows=len(damaged), first=damaged[0].name)
    return Rows(whole, damaged)


def _fits(row: RowMapping) -> bool:
    return True


def _spec_fits(row: RowMapping) -> bool:
    """Whether an evaluation tells what it was made of."""
    spec = row["spec"]
    if "judge" not in spec:
        return isinstance(spec.get("variant"), dict)
    games = spec.get("games")
    return (
        isinstance(spec["judge"], dict)
        and isinstance(games, list)
        and all(isinstance(game, str) for game in games)
    )


def _statements_fit(row: RowMapping) -> bool:
    """Whether a judge's word on a speech has the form in which it was written."""
    control_speeches = row["control_speeches"] or {}
    return all(
        all(type(one.get(name)) is kind for name, kind in _STATEMENT.items())
        and one["verdict"] in ("supported", "refuted", "uncheckable")
        for one in row["statements"]
    ) and all(span.count("/") == 1 and type(n) is int for span, n in control_speeches.items())


_STATEMENT: Final = {"start": int, "end": int, "quote": str, "verdict": str, "record": str, "reason": str}

_FITS: Final[Mapping[str, Callable[[RowMapping], bool]]] = {
    "evaluations": _spec_fits,
    "statement_judgements": _statements_fit,
}


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
