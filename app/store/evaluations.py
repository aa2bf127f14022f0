"""Evaluations in the database: answers, judgements, dealt tasks, and who was shown what."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    Table,
    func,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.off_loop import off_loop
from app.store.audit import Audit, Doer
from app.store.cursors import newest_first, next_cursor, read_cursor
from app.store.db import Database, in_parts
from app.store.games import still_there
from app.store.keys import KEY
from app.store.rows import (
    AnswerRow,
    Damaged,
    EvaluationRow,
    JudgementRow,
    StatementsRow,
    is_readable,
    is_text,
    is_whole,
    row_name,
    table_of,
    typed_row,
    values_of,
)
from app.store.tables import answers, evaluations, games, judgements, model_calls, seen, statements, tasks
from engine.errors import CorruptLog

__all__ = ["DamagedRow", "EvaluationStore", "Rows", "Whose"]

log = structlog.get_logger()

_FEW: Final = 500
"""The most rows that are read in the event loop, and not in a thread: this takes a few milliseconds."""

_PLACE: Final = {"created_at": evaluations.c.created_at, "evaluation_id": evaluations.c.evaluation_id}
"""What a cursor of a page of evaluations holds."""

_SPEECH: Final = {name: statements.c[name] for name in ("game_id", "request_id", "turn")}
"""What a cursor of a page of judged speeches holds."""

R = TypeVar("R")


class DamagedRow(NamedTuple):
    """A row that cannot be read."""

    table: str
    game_id: str
    """Empty for a row that is not about a game."""
    name: str


class Whose(NamedTuple):
    """Whose judgements and answers are read."""

    names: frozenset[str]
    """The public names of their credentials."""
    machine: bool = False
    """Also what was handed in without a key of the database: by the operator, by commands, and on a service
    without keys."""

    @classmethod
    def one(cls, name: str) -> "Whose":
        """The work of this credential alone."""
        return cls(frozenset({name}))

    def reads(self, name: str) -> bool:
        """Whether the work of this credential is read."""
        return name in self.names or (self.machine and not name.startswith(KEY))


def _of(whose: Whose | None, table: Table) -> ColumnElement[bool]:
    """Whether a row is of one of those; None: of anybody."""
    if whose is None:
        return true()
    named = table.c.caller.in_(sorted(whose.names))
    return or_(named, ~table.c.caller.startswith(KEY, autoescape=True)) if whose.machine else named


class UnfinishedJudging(NamedTuple):
    """An evaluation whose judge is at work."""

    evaluation_id: str
    status: str
    spec: Mapping[str, Any] | Damaged


class Rows(list[R]):
    """The rows that can be read."""

    def __init__(self, rows: Iterable[R] = (), damaged: Iterable[DamagedRow] = ()) -> None:
        super().__init__(rows)
        self.damaged = list(damaged)
        """The rows that cannot be read."""


class EvaluationStore:
    """Everything about evaluations except their inputs, which are the games' logs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)

    # --- evaluations and answers ------------------------------------------------------------

    async def insert(self, connection: AsyncConnection, row: EvaluationRow) -> None:
        """Writes an evaluation's row, in the caller's transaction."""
        await connection.execute(insert(evaluations), [values_of(row)])

    async def insert_answers(self, connection: AsyncConnection, rows: Sequence[AnswerRow]) -> None:
        """Writes answers, in the caller's transaction. An answer that was graded before violates the key."""
        if rows:
            await connection.execute(insert(answers), [values_of(row) for row in rows])

    async def evaluation(self, evaluation_id: str) -> EvaluationRow | None:
        """The evaluation's row; None for an unknown id. Raises CorruptLog for a row that cannot be read."""
        query = select(evaluations).where(evaluations.c.evaluation_id == evaluation_id)
        rows = await _readable(EvaluationRow, await self._database.mappings(query))
        if rows.damaged:
            raise CorruptLog(f"{rows.damaged[0].name} cannot be read")
        return rows[0] if rows else None

    async def judging(self) -> list[UnfinishedJudging]:
        """Evaluations whose judge has not finished, and cancelled ones that are not scored yet; oldest
        first.
        """
        c = evaluations.c
        query = (
            select(c.evaluation_id, c.status, c.spec.label("spec"))
            .where(c.status.in_(("judging", "cancelled")), c.finished_at.is_(None))
            .order_by(c.created_at, c.evaluation_id)
        )
        return [UnfinishedJudging(**row) for row in await self._database.mappings(query)]

    async def cancel(self, evaluation_id: str) -> bool:
        """Cancels a judge's work; its judgements so far are scored. Returns False if the work had ended."""
        cancelled = await self._database.writer.execute(
            update(evaluations)
            .where(evaluations.c.evaluation_id == evaluation_id, evaluations.c.status == "judging")
            .values(status="cancelled")
        )
        return bool(cancelled)

    async def judging_in(
        self, connection: AsyncConnection, caller: str, rater: str, dimension: str, games: Collection[str]
    ) -> str | None:
        """The unfinished evaluation in which this judge judges one of these games; None if there is none."""
        c = evaluations.c
        rows = await connection.execute(
            select(c.evaluation_id, c.spec).where(
                c.caller == caller, c.rater == rater, c.dimension == dimension, c.status == "judging"
            )
        )
        for evaluation_id, spec in rows:
            # An evaluation with a damaged spec fails when it is next looked at.
            if not (isinstance(spec, Damaged) or set(games).isdisjoint(spec["games"])):
                return str(evaluation_id)
        return None

    async def judged_before(
        self, connection: AsyncConnection, caller: str, rater: str, dimension: str, games: Collection[str]
    ) -> bool:
        """Whether judgements of this judge in one of these games are stored."""
        table = statements if dimension == "statements" else judgements
        j = table.c
        for some in in_parts(games):
            query = select(j.game_id).where(j.game_id.in_(some), j.caller == caller, j.rater == rater)
            if table is judgements:
                query = query.where(j.dimension == dimension)
            if (await connection.execute(query.limit(1))).first() is not None:
                return True
        return False

    async def lock_rater(self, connection: AsyncConnection, caller: str, rater: str) -> None:
        """Makes other transactions of the same rater wait until this one ends. On SQLite they wait anyway."""
        if not self._database.is_sqlite:
            await connection.execute(
                select(func.pg_advisory_xact_lock(func.hashtextextended(f"{caller}/{rater}", 0)))
            )

    async def advance(
        self, connection: AsyncConnection, evaluation_id: str, done: int, result: Mapping[str, Any]
    ) -> bool:
        """Writes a judge's progress after ``done`` games, in the caller's transaction. False: it was
        cancelled in the meantime, or another process has judged on.
        """
        this = (evaluations.c.evaluation_id == evaluation_id, evaluations.c.status == "judging")
        query = select(evaluations.c.result).where(*this).with_for_update()
        stored = (await connection.execute(query)).one_or_none()
        if stored is None or ((stored[0] or {}).get("progress") or {}).get("games_done", 0) != done:
            return False
        await connection.execute(update(evaluations).where(*this).values(result=dict(result)))
        return True

    async def judged_by(self, evaluation_id: str, games: Collection[str]) -> Rows[JudgementRow]:
        """The judgements of this evaluation's judge in these games."""
        c = judgements.c
        query = (
            select(judgements)
            .where(c.evaluation_id == evaluation_id)
            .order_by(c.game_id, c.request_id, c.stage)
        )
        return await _readable(JudgementRow, await self._where_in(query, c.game_id, games))

    async def finish(self, evaluation_id: str, status: str, result: Mapping[str, Any], at: int) -> None:
        """Writes the result of an evaluation, unless it has finished already."""
        await self._database.writer.execute(
            update(evaluations)
            .where(
                evaluations.c.evaluation_id == evaluation_id,
                evaluations.c.status.in_(("judging", status)),
                evaluations.c.finished_at.is_(None),
            )
            .values(status=status, result=dict(result), finished_at=at)
        )

    async def page(
        self,
        *,
        owner: str | None,
        dimensions: Sequence[str],
        raters: Sequence[str],
        limit: int,
        cursor: str | None,
    ) -> tuple[Rows[EvaluationRow], str | None]:
        """Evaluations, newest first, and the cursor of the next page. ``owner`` None: everybody's. Without
        dimensions or raters, those of any dimension or rater.
        """
        query = select(evaluations)
        if owner is not None:
            # A program of an earlier release writes no owner.
            written = func.coalesce(func.nullif(evaluations.c.owner, ""), evaluations.c.caller)
            query = query.where(written == owner)
        if dimensions:
            query = query.where(evaluations.c.dimension.in_(dimensions))
        if raters:
            query = query.where(evaluations.c.rater.in_(raters))
        page, following = await newest_first(self._database, query, _PLACE, limit, cursor)
        return await _readable(EvaluationRow, page), following

    async def answers_of(self, evaluation_id: str) -> Rows[AnswerRow]:
        """The answers of one evaluation, by item and sample."""
        query = (
            select(answers)
            .where(answers.c.evaluation_id == evaluation_id)
            .order_by(answers.c.item_id, answers.c.sample)
        )
        return await _readable(AnswerRow, await self._database.mappings(query))

    async def games_of(self, evaluation_ids: Collection[str]) -> dict[str, dict[str, int]]:
        """By evaluation, the games that its stored answers are about, each with how many are; empty for
        evaluations without answers.
        """
        found: dict[str, dict[str, int]] = {evaluation_id: {} for evaluation_id in evaluation_ids}
        c = answers.c
        query = select(c.evaluation_id, c.game_id, func.count()).group_by(c.evaluation_id, c.game_id)
        for some in in_parts(evaluation_ids):
            for evaluation_id, game_id, count in await self._database.rows(
                query.where(c.evaluation_id.in_(some))
            ):
                found[evaluation_id][game_id] = count
        return found

    async def last_grade(
        self, connection: AsyncConnection, caller: str, rater: str, items: Collection[str]
    ) -> int:
        """The highest grade of the rater's answers to these items, as the caller's transaction sees it; 0
        without any.
        """
        c = answers.c
        last = 0
        for some in in_parts(items):
            query = select(func.coalesce(func.max(c.grade), 0)).where(
                c.caller == caller, c.rater == rater, c.item_id.in_(some)
            )
            last = max(last, (await connection.execute(query)).scalar_one())
        return last

    async def answered(self, caller: str, rater: str, items: Collection[str]) -> set[str]:
        """Those of these items that the rater has answered."""
        c = answers.c
        query = select(c.item_id).where(c.caller == caller, c.rater == rater)
        return {row["item_id"] for row in await self._where_in(query, c.item_id, items)}

    async def answers_about(
        self,
        games: Collection[str],
        dimension: str,
        whose: Whose | None,
        variants: Callable[[Collection[str]], Awaitable[Mapping[str, Hashable]]],
    ) -> Rows[AnswerRow]:
        """The valid answers about items of these games: all samples that a rater last handed in to an item of
        one variant. A damaged one is not replaced by an earlier one. ``whose``: None for anybody's;
        ``variants``: those of evaluations, by id.
        """
        c = answers.c
        query = select(answers).where(c.dimension == dimension, _of(whose, answers))
        query = query.order_by(c.grade, c.evaluation_id, c.item_id, c.sample)
        rows = await self._where_in(query, c.game_id, games)
        variant = await variants({row["evaluation_id"] for row in rows})
        last: dict[tuple[Hashable, ...], list[RowMapping]] = {}
        for row in rows:
            key = (row["caller"], row["rater"], row["item_id"], variant[row["evaluation_id"]])
            given = last.setdefault(key, [])
            if given and given[0]["evaluation_id"] != row["evaluation_id"]:
                given.clear()
            given.append(row)
        return await _readable(AnswerRow, [row for given in last.values() for row in given])

    # --- judgements -------------------------------------------------------------------------

    async def insert_judgements(
        self, connection: AsyncConnection, rows: Sequence[JudgementRow], *, by: Doer | None
    ) -> None:
        """Writes judgements, in the caller's transaction. A rater's second one of a grade violates the
        key. ``by``: who stores them, for the audit; None: a judge, whose evaluation has its line already.
        """
        if rows:
            await connection.execute(insert(judgements), [values_of(row) for row in rows])
        if by is not None:
            for rater, count in sorted(Counter(row.rater for row in rows).items()):
                await self._audit.add(connection, by, "annotate", rater, judgements=count)

    async def grades(
        self, connection: AsyncConnection, caller: str, rater: str, games: Collection[str]
    ) -> dict[tuple[str, str, str, str, str], int]:
        """The rater's last grade by (game, request, stage, intention, dimension), as the caller's
        transaction sees it.
        """
        c = judgements.c
        grades: dict[tuple[str, str, str, str, str], int] = {}
        for some in in_parts(games):
            query = (
                select(c.game_id, c.request_id, c.stage, c.intention, c.dimension, func.max(c.grade))
                .where(c.caller == caller, c.rater == rater, c.game_id.in_(some))
                .group_by(c.game_id, c.request_id, c.stage, c.intention, c.dimension)
            )
            for *key, grade in (await connection.execute(query)).all():
                grades[tuple(key)] = grade
        return grades

    async def judgements_of(
        self,
        games: Collection[str],
        *,
        whose: Whose | None = None,
        raters: Sequence[str] = (),
        kind: str | None = None,
        dimension: str | None = None,
    ) -> Rows[JudgementRow]:
        """The valid judgements about these games: the last grade of each. Without raters, those of any
        rater; ``whose``: None for anybody's.
        """
        query = select(judgements).where(_of(whose, judgements))
        if raters:
            query = query.where(judgements.c.rater.in_(raters))
        for column, value in (("kind", kind), ("dimension", dimension)):
            if value is not None:
                query = query.where(judgements.c[column] == value)
        key = ("game_id", "request_id", "stage", "intention", "dimension", "caller", "rater")
        return await self._last(JudgementRow, query, games, key)

    # --- statements -------------------------------------------------------------------------

    async def insert_statements(self, connection: AsyncConnection, rows: Sequence[StatementsRow]) -> None:
        """Writes judgements of speeches, in the caller's transaction. A rater's second one of a grade
        violates the key.
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
        """This evaluation's judgements of the speeches of these games."""
        c = statements.c
        query = (
            select(statements)
            .where(c.evaluation_id == evaluation_id)
            .order_by(c.game_id, c.request_id, c.turn)
        )
        return await _readable(StatementsRow, await self._where_in(query, c.game_id, games))

    async def statement_page(
        self, evaluation_id: str, limit: int, cursor: str | None
    ) -> tuple[Rows[StatementsRow], str | None]:
        """The judgements of one evaluation, speech by speech and without control speeches, and the cursor of
        the next page.
        """
        c = statements.c
        place = _SPEECH.values()
        query = select(statements).where(c.evaluation_id == evaluation_id, c.turn >= 0)
        if cursor is not None:
            query = query.where(tuple_(*place) > tuple_(*read_cursor(cursor, _SPEECH)))
        rows = await self._database.mappings(query.order_by(*place).limit(limit + 1))
        shown = await _readable(StatementsRow, rows[:limit])
        return shown, next_cursor(rows[:limit], _SPEECH) if len(rows) > limit else None

    async def statements_of(self, games: Collection[str], whose: Whose | None = None) -> Rows[StatementsRow]:
        """The valid judgements of the speeches of these games: the last grade of each. ``whose``: None for
        anybody's.
        """
        query = select(statements).where(_of(whose, statements))
        key = ("game_id", "request_id", "turn", "caller", "rater")
        return await self._last(StatementsRow, query, games, key)

    async def given(self, batch_id: str, whose: Whose | None = None) -> tuple[int, int]:
        """How many judgements (those of statements included) and how many answers are stored about the
        batch's games. Neither number ever falls. ``whose``: None for anybody's.
        """
        counts = []
        for table in (judgements, statements, answers):
            query = (
                select(func.count())
                .select_from(table.join(games, games.c.game_id == table.c.game_id))
                .where(games.c.batch_id == batch_id, _of(whose, table))
            )
            counts += await self._database.column(query)
        return counts[0] + counts[1], counts[2]

    async def shared_names(self, games: Collection[str], whose: Whose | None = None) -> frozenset[str]:
        """The raters' names that several of these credentials use for judgements of or answers about these
        games.
        """
        callers: dict[str, set[str]] = {}
        for table in (judgements, statements, answers):
            query = select(table.c.rater, table.c.caller).where(_of(whose, table)).distinct()
            for row in await self._where_in(query, table.c.game_id, games):
                # A damaged row gives nobody else another name.
                if is_text(row["rater"]) and is_text(row["caller"]):
                    callers.setdefault(row["rater"], set()).add(row["caller"])
        return frozenset(name for name, callers_of in callers.items() if len(callers_of) > 1)

    # --- tasks, and who has seen what -------------------------------------------------------

    async def is_with(
        self,
        connection: AsyncConnection,
        turn: tuple[str, str],
        callers: Collection[str],
        besides: tuple[str, str],
        overlap: int,
    ) -> bool:
        """Whether at least ``overlap`` raters of these callers, other than the rater ``besides``, as (caller,
        name), were dealt the turn or have judged it. However many others there are, few rows are read.
        """
        raters: set[tuple[str, str]] = set()
        for names in in_parts(callers):
            for table in (tasks, judgements):
                c = table.c
                query = (
                    select(c.caller, c.rater)
                    .where(c.game_id == turn[0], c.request_id == turn[1], c.caller.in_(names))
                    .where(or_(c.caller != besides[0], c.rater != besides[1]))
                    .distinct()
                    .limit(overlap)
                )
                raters |= {(caller, rater) for caller, rater in (await connection.execute(query)).all()}
                if len(raters) >= overlap:
                    return True
        return False

    async def deal(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes dealt tasks, in the caller's transaction; a task that was dealt before stays as it is. Those
        of deleted games are left out.
        """
        await self._insert_new(connection, tasks, rows)

    async def tasks_of(self, caller: str, rater: str, games: Collection[str]) -> list[tuple[str, str]]:
        """The turns of these games that the rater was dealt, as (game, request), without rows that cannot be
        read.
        """
        c = tasks.c
        query = select(tasks).where(c.caller == caller, c.rater == rater)
        rows = await self._where_in(query, c.game_id, games)
        return [(row["game_id"], row["request_id"]) for row in rows if is_readable(tasks, row)]

    async def dealt_to(
        self, games: Collection[str], whose: Whose | None = None
    ) -> dict[tuple[str, str], set[tuple[str, str]]]:
        """By rater, as (caller, name): the turns of these games that it was dealt, as (game, request),
        without rows that cannot be read. ``whose``: None for anybody's.
        """
        c = tasks.c
        query = select(c.caller, c.rater, c.game_id, c.request_id).where(_of(whose, tasks))
        dealt: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for row in await self._where_in(query, c.game_id, games):
            if is_readable(tasks, row):
                dealt.setdefault((row["caller"], row["rater"]), set()).add(
                    (row["game_id"], row["request_id"])
                )
        return dealt

    async def mark_seen(self, owner: str, turns: Iterable[tuple[str, str]]) -> None:
        """Records that the owner has seen what was chosen in these turns. Deleted games are left out."""
        rows = [
            {"caller": owner, "game_id": game, "request_id": request} for game, request in sorted(set(turns))
        ]
        if rows:
            await self._database.writer.run(lambda connection: self._insert_new(connection, seen, rows))

    async def forget_calls(self, connection: AsyncConnection, evaluation_id: str, game_id: str) -> None:
        """Removes what a judge was asked and answered about this game, in the caller's transaction."""
        c = model_calls.c
        of_game = c.about.startswith(f"{game_id}/", autoescape=True)
        await connection.execute(
            update(model_calls)
            .where(c.game_id == evaluation_id, of_game)
            .values(messages=None, text=None, value=None, reasoning=None)
        )

    async def seen_by(self, owner: str, turns: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of these turns whose choices the owner has seen."""
        turn = tuple_(seen.c.game_id, seen.c.request_id)
        query = select(seen.c.game_id, seen.c.request_id).where(seen.c.caller == owner)
        rows = await self._where_in(query, turn, turns)
        return {(row["game_id"], row["request_id"]) for row in rows}

    async def _insert_new(
        self, connection: AsyncConnection, table: Any, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        there = await still_there(connection, {row["game_id"] for row in rows})
        new = [dict(row) for row in rows if row["game_id"] in there]
        if new:
            dialect = sqlite if self._database.is_sqlite else postgresql
            await connection.execute(dialect.insert(table).on_conflict_do_nothing(), new)

    async def _where_in(self, query: Select[Any], column: Any, values: Collection[Any]) -> list[RowMapping]:
        """The rows of the query in which the column (or the tuple of columns) has one of these values."""
        rows: list[RowMapping] = []
        for some in in_parts(values):
            rows += await self._database.mappings(query.where(column.in_(some)))
        return rows

    async def _last(
        self, kind: type[R], query: Select[Any], games: Collection[str], key: Sequence[str]
    ) -> Rows[R]:
        """The rows of the query about these games: of each ``key``, the one with the last grade. If that row
        is damaged, an earlier one does not take its place.
        """
        c = table_of(kind).c
        query = query.order_by(*(c[name] for name in key), c.grade)
        rows = await self._where_in(query, c.game_id, games)
        return await _readable(kind, {tuple(row[name] for name in key): row for row in rows}.values())


async def _readable(kind: type[R], rows: Collection[RowMapping]) -> Rows[R]:
    """The rows that can be read. Names the damaged ones, and logs them."""
    return _read(kind, rows) if len(rows) <= _FEW else await off_loop(_read, kind, rows)


def _read(kind: type[R], rows: Iterable[RowMapping]) -> Rows[R]:
    table = table_of(kind)
    whole: list[R] = []
    damaged = []
    for row in rows:
        fits = _FITS.get(table.name)
        if is_whole(table, row) and (fits is None or fits(row)):
            whole.append(typed_row(kind, row))
        else:
            name = row_name(table, row)
            # The query chose rows about games by their games, so this id is one of those asked for.
            damaged.append(DamagedRow(table.name, row.get("game_id", ""), name))
    if damaged:
        log.error("damaged rows are left out", table=table.name, rows=len(damaged), first=damaged[0].name)
    return Rows(whole, damaged)


def _spec_fits(row: RowMapping) -> bool:
    """Whether the spec of an evaluation has the form in which it was written."""
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
    """Whether a judge's statements have the form in which they were written."""
    control_speeches = row["control_speeches"] or {}
    return all(
        all(type(statement.get(name)) is kind for name, kind in _STATEMENT.items())
        and statement["verdict"] in ("supported", "refuted", "uncheckable")
        for statement in row["statements"]
    ) and all(span.count("/") == 1 and type(n) is int for span, n in control_speeches.items())


_STATEMENT: Final = {"start": int, "end": int, "quote": str, "verdict": str, "record": str, "reason": str}

_FITS: Final[Mapping[str, Callable[[RowMapping], bool]]] = {
    "evaluations": _spec_fits,
    "statement_judgements": _statements_fit,
}
