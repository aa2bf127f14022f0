"""Calls to models in the database: stored once, never changed."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy import (
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from agents.llm.session import CallKey
from agents.model.model import Usage
from app.base.clock import DAY_MS, now_ms
from app.store.call import BUDGET_SPENT, Call, Use, UseKey
from app.store.db import Conflict, Database
from app.store.rows import finite, is_readable, is_text, row_name
from app.store.tables import deletions, events, games, model_calls, model_spending
from engine.errors import CorruptLog
from engine.terms import Seat

__all__ = ["CallStore", "CalledGame"]

log = structlog.get_logger()

_INSERT: Final = insert(model_calls)
_c: Final = model_calls.c

_SPEND: Final = (
    update(model_spending)
    .where(model_spending.c.game_id == bindparam("of_game"))
    .values(
        tokens=model_spending.c.tokens + bindparam("more_tokens"),
        cost=model_spending.c.cost + bindparam("more_cost"),
    )
)
"""Adds a call to what its game, or its judge, has spent."""

_SPEND_TODAY: Final = text(
    "INSERT INTO owner_spending (account, day, owner, tokens, cost) VALUES ("
    "CAST(:of_game AS varchar), CAST(:today AS integer), CAST(:owner AS varchar), "
    "CAST(:more_tokens AS bigint), CAST(:more_cost AS double precision)) "
    "ON CONFLICT (account, day) DO UPDATE SET tokens = owner_spending.tokens + excluded.tokens, "
    "cost = owner_spending.cost + excluded.cost"
)
"""Adds a call to what its owner has spent today. The row is the game's own: no two processes wait for it."""

_FORGET: Final = delete(model_calls).where(
    _c.game_id == bindparam("of_game"),
    exists(select(deletions.c.game_id).where(deletions.c.game_id == bindparam("of_game"))),
)
"""Of a game that was deleted while a model was answering, nothing is kept. Whoever deletes a game begins with
its account, in which each call is noted first: so one of the two sees what the other has written."""

_PAGE: Final = 500
"""The number of calls to read at once when there may be very many."""


class CalledGame(NamedTuple):
    """The game that calls were made for."""

    game_id: str
    position: int
    seed: str


def _spent(game: str, call: Call) -> dict[str, Any]:
    tokens = call.usage.prompt + call.usage.completion
    return {"of_game": game, "more_tokens": tokens, "more_cost": call.cost}


def _spent_today(game: str, call: Call, owner: str) -> dict[str, Any]:
    # By the clock, as quotas are: stamps of the writer stay ahead of a clock that was set back.
    return {**_spent(game, call), "today": now_ms() // DAY_MS, "owner": owner}


def _row(game: str, call: Call) -> dict[str, Any]:
    key, usage = call.key, call.usage
    return {
        "game_id": game,
        "request_id": key.request_id,
        "step": key.step,
        "about": key.about,
        "attempt": key.attempt,
        "seat": call.seat,
        "endpoint": call.endpoint,
        "model": call.model,
        "messages_sha256": call.messages_sha256,
        "messages": call.messages,
        "asked_temperature": call.asked_temperature,
        "asked_max_tokens": call.asked_max_tokens,
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
        "parameters": call.parameters,
        "text": call.text,
        "value": call.value,
        "failure": call.failure,
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "tokens_known": usage.known,
        "reasoning_tokens": usage.reasoning,
        "cost": call.cost,
        "reported_cost": usage.cost,
        "latency_s": call.latency_s,
        "finish": call.finish,
        "http_calls": call.http_calls,
        "asked": call.asked,
        "provider": call.provider,
        "fingerprint": call.fingerprint,
        "reasoning": call.reasoning,
    }


_JSON: Final[Mapping[str, tuple[type, ...]]] = {
    "messages": (list,),
    "asked": (dict,),
    "parameters": (dict,),
    "reasoning": (str,),
    "text": (str,),
    "value": (object,),
}
"""Columns that hold JSON as a text, and the types of its value."""

_COUNTS: Final = (
    *("http_calls", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"),
    *("cost", "latency_s"),
)
"""Columns whose numbers are 0 or more, where there are any."""


def _reads(row: Mapping[Any, Any]) -> bool:
    """Whether the row is as it was written."""
    if not is_readable(model_calls, row) or any((row[name] or 0) < 0 for name in _COUNTS):
        return False
    try:
        return all(
            isinstance(json.loads(row[name]), kinds) for name, kinds in _JSON.items() if row[name] is not None
        )
    except (ValueError, RecursionError):
        return False


def _readable(row: Mapping[Any, Any]) -> Call | None:
    """The call; None for a damaged row. Whoever needs the call asks again, and gets the error then."""
    if _reads(row):
        return _call(row)
    # A command has no log: it reports what it leaves out itself.
    if structlog.is_configured():
        log.error("a damaged row is left out", row=row_name(model_calls, row))
    return None


def _call(row: Mapping[Any, Any]) -> Call:
    return Call(
        key=CallKey(row["request_id"], row["step"], row["about"], row["attempt"]),
        endpoint=row["endpoint"],
        model=row["model"],
        messages_sha256=row["messages_sha256"],
        messages=row["messages"],
        asked_temperature=row["asked_temperature"],
        asked_max_tokens=row["asked_max_tokens"],
        temperature=row["temperature"],
        max_tokens=row["max_tokens"],
        parameters=row["parameters"],
        text=row["text"],
        value=row["value"],
        failure=row["failure"],
        usage=Usage(
            row["prompt_tokens"],
            row["cached_tokens"],
            row["completion_tokens"],
            row["tokens_known"],
            row["reasoning_tokens"],
            row["reported_cost"],
        ),
        cost=row["cost"],
        latency_s=row["latency_s"],
        finish=row["finish"],
        http_calls=row["http_calls"],
        asked=row["asked"],
        provider=row["provider"],
        fingerprint=row["fingerprint"],
        reasoning=row["reasoning"],
    )


class CallStore:
    """The table ``model_calls``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_game(self, game: str) -> dict[CallKey, Call]:
        """The calls of a game, by key, tries and answers that were put aside included."""
        rows = await self._database.mappings(select(model_calls).where(_c.game_id == game))
        return {call.key: call for row in rows if (call := _readable(row)) is not None}

    async def one_by_one(self, game: str) -> AsyncIterator[Call]:
        """The calls of a game, or of an evaluation's judge, without holding all of them in memory."""
        columns = (_c.request_id, _c.step, _c.about, _c.attempt)
        query = select(model_calls).where(_c.game_id == game).order_by(*columns).limit(_PAGE)
        after: CallKey | None = None
        while True:
            beyond = query
            if after is not None:
                last = (after.request_id, after.step, after.about, after.attempt)
                beyond = query.where(tuple_(*columns) > tuple_(*last))
            rows = await self._database.mappings(beyond)
            for row in rows:
                if (call := _readable(row)) is not None:
                    yield call
            if len(rows) < _PAGE:
                return
            after = CallKey(*(rows[-1][column.name] for column in columns))

    async def keep(self, game: str, call: Call, owner: str = "") -> Call:
        """Commits a call and returns it. If a call is stored under its key already, returns that call. Of a
        game that is deleted, only what ``owner`` has spent today is stored. Raises CorruptLog if the stored
        call is damaged.
        """
        row = _row(game, call)

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            spent = [(_SPEND_TODAY, [_spent_today(game, call, owner)])] if owner else []
            return [
                (_SPEND, [_spent(game, call)]),
                (_INSERT, [{**row, "at": at}]),
                *spent,
                (_FORGET, [{"of_game": game}]),
            ]

        try:
            await self._database.writer.append(write)
        except Conflict:
            return await self._stored(game, call.key)
        return call

    async def key_of_try(self, game: str, key: CallKey, job: int | None = None) -> CallKey | None:
        """The key to keep a try at this question under, see ``Answers``."""
        if job is not None and not await self._database.rows(_driven_by(game, job)):
            return None
        ((lowest,),) = await self._database.rows(_lowest_of(game))
        return replace(key, attempt=min(0, lowest or 0) - 1)

    async def put_aside(self, game: str, keys: Sequence[CallKey], job: int | None = None) -> None:
        """Makes room for new answers to these questions. The old ones stay stored, with negative attempts.
        ``job``: nothing changes unless this job drives the game.
        """

        async def work(connection: AsyncConnection) -> None:
            if job is not None:
                driven = _driven_by(game, job).with_for_update(read=True)
                if (await connection.execute(driven)).first() is None:
                    return
            lowest = (await connection.execute(_lowest_of(game))).scalar_one()
            aside = min(0, lowest or 0)
            for key in keys:
                aside -= 1
                await connection.execute(update(model_calls).where(*_is(game, key)).values(attempt=aside))

        await self._database.writer.run(work)

    async def _stored(self, game: str, key: CallKey) -> Call:
        query = select(model_calls).where(*_is(game, key))
        (row,) = await self._database.mappings(query)
        if not _reads(row):
            raise CorruptLog(f"{row_name(model_calls, row)} cannot be read")
        return _call(row)

    async def open_account(
        self, game: str, batch_id: str, tokens: int, cost: float, owner: str | None = None
    ) -> None:
        """Notes what the game has spent so far, unless more is noted; calls stored from now on are added, and
        to what the owner has spent today. A judge has an account under its evaluation's id, in place of both.

        An earlier version of the program, which may run beside this one, stores calls without adding them.
        """
        dialect: Any = sqlite if self._database.is_sqlite else postgresql
        larger = func.max if self._database.is_sqlite else func.greatest
        put = dialect.insert(model_spending).values(
            game_id=game, batch_id=batch_id, tokens=tokens, cost=cost, owner=owner
        )
        # Not simply set: a call may have been stored since these sums were made.
        changes = {name: larger(model_spending.c[name], put.excluded[name]) for name in ("tokens", "cost")}
        changes["owner"] = func.coalesce(put.excluded.owner, model_spending.c.owner)
        await self._database.writer.execute(
            put.on_conflict_do_update(index_elements=["game_id"], set_=changes)
        )

    async def spent(self, batch_id: str) -> tuple[int, float]:
        """The tokens and the cost of a batch's calls."""
        of = model_spending.c
        query = select(func.sum(of.tokens), func.sum(of.cost)).where(of.batch_id == batch_id)
        ((tokens, cost),) = await self._database.rows(query)
        return int(finite(tokens)), finite(cost)

    async def uses(self, batch_id: str) -> dict[UseKey, Use]:
        """Sums over a batch's calls."""
        return await self._sums(
            _SUMS.join(games, games.c.game_id == _c.game_id).where(games.c.batch_id == batch_id)
        )

    async def uses_of(self, game: str) -> dict[UseKey, Use]:
        """Sums over the calls of one game, or of one evaluation's judge."""
        return await self._sums(_SUMS.where(_c.game_id == game))

    async def uses_by_seat(self, game: str) -> dict[Seat, Use]:
        """Sums over the calls of one game, by seat, in their order. A seat without calls is missing."""
        query = select(_c.seat, *_TOTALS).where(_c.game_id == game, _COUNTED).group_by(_c.seat)
        rows = await self._database.rows(query.order_by(_c.seat))
        return {seat: _use(sums) for seat, *sums in rows if type(seat) is int}

    async def _sums(self, query: Any) -> dict[UseKey, Use]:
        query = (
            query.where(_COUNTED)
            .group_by(_c.endpoint, _c.model, _c.step)
            .order_by(_c.endpoint, _c.model, _c.step)
        )
        uses = {}
        for endpoint, model, step, *sums in await self._database.rows(query):
            if all(map(is_text, (endpoint, model, step))):
                uses[UseKey(endpoint, model, step)] = _use(sums)
        return uses

    async def served(self, game: str) -> dict[Seat, set[str]]:
        """By seat, the models that answered in a game, as their providers name them."""
        query = (
            select(_c.seat, _c.model)
            .where(_c.game_id == game, _c.attempt > 0, _c.text.is_not(None))
            .distinct()
        )
        served: dict[Seat, set[str]] = {}
        for seat, model in await self._database.rows(query):
            if type(seat) is int and is_text(model):
                served.setdefault(seat, set()).add(model)
        return served

    async def stopped_by_budget(self, batch_id: str) -> int:
        """How many games of the batch ended because their budget allowed no further call."""
        reason = f'{{"reason":"{BUDGET_SPENT}"}}'
        query = (
            select(func.count())
            .select_from(
                games.join(events, (events.c.game_id == games.c.game_id) & (events.c.seq == games.c.head))
            )
            .where(
                games.c.batch_id == batch_id,
                games.c.status == "cancelled",
                events.c.type == "game_cancelled",
                events.c.payload == reason,
            )
        )
        return int((await self._database.column(query))[0])

    async def of_batch(self, batch_id: str) -> AsyncIterator[tuple[CalledGame, Call | str]]:
        """A batch's calls in a stable order: games by position, calls by request and key, tries and what was
        put aside last. For a damaged row its name is given instead, after the calls of its game.

        Recorded answers are found by the seed of their game. Of games of one seed, as when one is played anew
        in place of another, the newest answer to each question is therefore given as the answer, and the
        others like tries.
        """
        query = (
            select(games.c.game_id, games.c.position, games.c.seed)
            .where(games.c.batch_id == batch_id)
            .order_by(games.c.position)
        )
        by_seed: dict[str, list[CalledGame]] = {}
        for game in [CalledGame(*row) for row in await self._database.rows(query) if is_text(row[0])]:
            by_seed.setdefault(game.seed, []).append(game)
        for alike in by_seed.values():
            answers: dict[CallKey, tuple[CalledGame, Call]] = {}
            unused: list[tuple[CalledGame, Call]] = []
            damaged: list[tuple[CalledGame, str]] = []
            for game in alike:
                rows = await self._database.mappings(
                    select(model_calls).where(_c.game_id == game.game_id).order_by(_c.attempt.desc())
                )
                for row in rows:
                    if not _reads(row):
                        damaged.append((game, row_name(model_calls, row)))
                        continue
                    call = _call(row)
                    if call.key.attempt < 0:
                        unused.append((game, call))
                        continue
                    if (older := answers.get(call.key)) is not None:
                        unused.append(older)
                    answers[call.key] = (game, call)
            for _, (game, call) in sorted(answers.items(), key=lambda one: astuple(one[0])):
                yield game, call
            for number, (game, call) in enumerate(unused, 1):
                yield game, replace(call, key=replace(call.key, attempt=-number))
            for broken in damaged:
                yield broken


def _driven_by(game: str, job: int) -> Select[Any]:
    """The game, if this job drives it."""
    return select(games.c.game_id).where(games.c.game_id == game, games.c.driver == job)


def _lowest_of(game: str) -> Select[Any]:
    """The lowest attempt of the game's calls, which is negative if a try is stored or one was put aside."""
    return select(func.min(_c.attempt)).where(_c.game_id == game)


def _is(game: str, key: CallKey) -> tuple[ColumnElement[bool], ...]:
    values = {"game_id": game, **asdict(key)}
    return tuple(_c[name] == value for name, value in values.items())


def _count(condition: ColumnElement[bool]) -> Any:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


_MOST: Final = (1 << 31) - 1
"""More than any call takes. A damaged value may be so large that a sum overflows."""

_COUNTED: Final = and_(*(or_(_c[name].is_(None), _c[name].between(0, _MOST)) for name in _COUNTS))
"""A row that can be summed: SQLite keeps any value in any column."""

_TOTALS: Final = (
    func.count(),
    _count(_c.failure.is_not(None)),
    _count(_c.tokens_known.is_(false())),
    func.sum(_c.http_calls),
    func.sum(_c.prompt_tokens),
    func.sum(_c.cached_tokens),
    func.sum(_c.completion_tokens),
    func.sum(_c.reasoning_tokens),
    func.sum(_c.cost),
    func.sum(_c.latency_s),
)
"""The fields of ``Use`` in their order."""

_SUMS: Final = select(_c.endpoint, _c.model, _c.step, *_TOTALS)
"""The key of a use, then its fields."""


def _use(sums: Sequence[Any]) -> Use:
    # PostgreSQL returns the sum of integers as a decimal.
    *counts, reasoning, cost, waiting_s = sums
    use = Use(*map(int, map(finite, counts)))
    use.reasoning_tokens = None if reasoning is None else int(finite(reasoning))
    use.cost, use.waiting_s = finite(cost), finite(waiting_s)
    return use
