"""What models answered, in the database: stored once, never changed."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sqlalchemy import case, func, insert, select, tuple_
from sqlalchemy.sql.elements import ColumnElement

from agents.llm.desk import CallKey
from agents.llm.model import Usage
from app.models.account import BUDGET_SPENT, Use, UseKey
from app.models.call import Call
from app.store.db import Conflict, Database
from app.store.tables import events, games, model_calls

__all__ = ["CallStore"]

_INSERT: Final = insert(model_calls)
_c: Final = model_calls.c

_PAGE: Final = 500
"""Calls read at once, where there may be very many."""


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
        "cost": call.cost,
        "latency_s": call.latency_s,
        "finish": call.finish,
        "http_calls": call.http_calls,
    }


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
            row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"], row["tokens_known"]
        ),
        cost=row["cost"],
        latency_s=row["latency_s"],
        finish=row["finish"],
        http_calls=row["http_calls"],
    )


class CallStore:
    """The table ``model_calls``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_game(self, game: str) -> dict[CallKey, Call]:
        """What is stored of a game, by key."""
        async with self._database.read_engine.connect() as connection:
            found = await connection.execute(select(model_calls).where(_c.game_id == game))
            return {call.key: call for call in (_call(row) for row in found.mappings())}

    async def one_by_one(self, game: str) -> AsyncIterator[Call]:
        """The same without holding all of them: a judge's calls stand under its evaluation's id."""
        columns = (_c.request_id, _c.step, _c.about, _c.attempt)
        query = select(model_calls).where(_c.game_id == game).order_by(*columns).limit(_PAGE)
        after: CallKey | None = None
        while True:
            beyond = query
            if after is not None:
                last = (after.request_id, after.step, after.about, after.attempt)
                beyond = query.where(tuple_(*columns) > tuple_(*last))
            async with self._database.read_engine.connect() as connection:
                found = [_call(row) for row in (await connection.execute(beyond)).mappings()]
            for call in found:
                yield call
            if len(found) < _PAGE:
                return
            after = found[-1].key

    async def keep(self, game: str, call: Call) -> Call:
        """Commits a call and returns it; or, where there is one under its key, that one."""
        row = _row(game, call)

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            return [(_INSERT, [{**row, "at": at}])]

        try:
            await self._database.writer.append(write)
        except Conflict:
            return await self._stored(game, call.key)
        return call

    async def _stored(self, game: str, key: CallKey) -> Call:
        query = select(model_calls).where(
            _c.game_id == game,
            _c.request_id == key.request_id,
            _c.step == key.step,
            _c.about == key.about,
            _c.attempt == key.attempt,
        )
        async with self._database.read_engine.connect() as connection:
            return _call((await connection.execute(query)).mappings().one())

    async def uses(self, batch_id: str) -> dict[UseKey, Use]:
        """Sums over a batch's calls."""
        query = _SUMS.join(games, games.c.game_id == _c.game_id).where(games.c.batch_id == batch_id)
        return await self._sums(query)

    async def uses_of(self, game: str) -> dict[UseKey, Use]:
        """Sums over the calls of one game, or of one evaluation's judge."""
        return await self._sums(_SUMS.where(_c.game_id == game))

    async def _sums(self, query: Any) -> dict[UseKey, Use]:
        query = query.group_by(_c.endpoint, _c.model, _c.step).order_by(_c.endpoint, _c.model, _c.step)
        async with self._database.read_engine.connect() as connection:
            rows = (await connection.execute(query)).all()
        return {UseKey(*row[:3]): _use(*row[3:]) for row in rows}

    async def stopped_by_budget(self, batch_id: str) -> int:
        """Games of the batch that ended because they could pay no further call."""
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
        async with self._database.read_engine.connect() as connection:
            return int((await connection.execute(query)).scalar_one())

    async def of_batch(self, batch_id: str) -> AsyncIterator[tuple[Mapping[str, Any], Call]]:
        """A batch's calls in a stable order: games as they were laid out, calls by request and key."""
        query = (
            select(games.c.game_id, games.c.position, games.c.seed)
            .where(games.c.batch_id == batch_id)
            .order_by(games.c.position)
        )
        async with self._database.read_engine.connect() as connection:
            rows = [dict(row) for row in (await connection.execute(query)).mappings()]
        for game in rows:
            calls = await self.of_game(game["game_id"])
            for key in sorted(calls, key=lambda one: (one.request_id, one.step, one.about, one.attempt)):
                yield game, calls[key]


def _use(
    calls: int,
    failed: int,
    estimated: int,
    http_calls: int,
    prompt: int,
    cached: int,
    completion: int,
    cost: float,
    waiting_s: float,
) -> Use:
    # PostgreSQL sums whole numbers to decimals.
    return Use(
        calls=calls,
        failed=int(failed),
        estimated=int(estimated),
        http_calls=int(http_calls),
        prompt_tokens=int(prompt),
        cached_tokens=int(cached),
        completion_tokens=int(completion),
        cost=float(cost),
        waiting_s=float(waiting_s),
    )


def _count(condition: ColumnElement[bool]) -> Any:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


_SUMS: Final = select(
    _c.endpoint,
    _c.model,
    _c.step,
    func.count(),
    _count(_c.failure.is_not(None)),
    _count(_c.tokens_known.is_(False)),
    func.sum(_c.http_calls),
    func.sum(_c.prompt_tokens),
    func.sum(_c.cached_tokens),
    func.sum(_c.completion_tokens),
    func.sum(_c.cost),
    func.sum(_c.latency_s),
)
