"""Batches and games in the database: creating, finding and counting them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, TypeVar, get_args

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    false,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from app.base.clock import random_bits, timestamp
from app.base.schemas import GameStatus
from app.store.db import Database, has_texts, in_parts
from app.store.jobs import JobStore
from app.store.log import INSERT_EVENTS, event_rows
from app.store.rows import BatchRow, Damaged, GameRow, is_moment, is_text, read_row, values_of, whole
from app.store.tables import batches, game_players, games
from engine.errors import UNREADABLE, CorruptLog
from engine.events import Event
from engine.terms import Ending, Side
from evaluators.measures.defaults import DecisionCounter

__all__ = [
    "ABSENT",
    "DRIVEN",
    "IS_OPEN",
    "LAID",
    "LOST",
    "OPEN",
    "GameStore",
    "Invalidation",
    "NewGame",
    "Suspension",
    "Tallied",
    "laid_of",
    "lines_of",
    "locked_game",
    "new_id",
    "parent_of",
    "random_signs",
    "row_of",
    "still_there",
]

R = TypeVar("R")

LOST: Final = "lost"
"""Beside ``game_id`` and ``events`` in ``forked_from``: whether the game carries turns that were first played
in a fork which was deleted, between that game and this one.
"""

DRIVEN: Final = ("created", "running")
"""The statuses of games that go on as soon as somebody drives them."""

OPEN: Final = (*DRIVEN, "suspended")
"""The statuses of games that are not over."""

LAID: Final[ColumnElement[int]] = func.coalesce(func.max(games.c.position) + literal(1, BigInteger), 0)
"""How many games a batch was given, since positions follow one another. A bigint: after the largest integer,
which a damaged row may hold, a next one would end the query.
"""

ENDED: Final = ("finished", "cancelled")
"""The statuses of games that never go on. One that failed may."""

# As the index has it: a bound value would not be known to be one of those that it holds.
IS_OPEN: Final = literal_column("games.status IN ('created', 'running', 'suspended')", Boolean)

_IS_DRIVEN: Final = literal_column("games.drive = 'auto' AND games.status IN ('created', 'running')", Boolean)


def _batches_with_open_games() -> CTE:
    """Each batch with an open game, found by leaps from one to the next in the index of open games."""
    first = select(func.min(games.c.batch_id).label("batch_id")).where(IS_OPEN)
    leaps = first.cte("open_batches", recursive=True)
    following = (
        select(func.min(games.c.batch_id))
        .where(IS_OPEN, games.c.batch_id > leaps.c.batch_id)
        .correlate(leaps)
        .scalar_subquery()
    )
    return leaps.union_all(select(following).where(leaps.c.batch_id.is_not(None)))


_BATCHES_WITH_OPEN_GAMES: Final = _batches_with_open_games()

_ALPHABET: Final = "23456789abcdefghijkmnpqrstuvwxyz"  # 32 signs, none to be taken for another


def random_signs(count: int) -> str:
    """A text with 5 random bits in each sign."""
    bits = random_bits(5 * count)
    return "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(0, 5 * count, 5))


def new_id(prefix: str) -> str:
    """An id of 100 random bits, e.g. ``g_k3…``."""
    return f"{prefix}_{random_signs(20)}"


@dataclass(frozen=True, slots=True)
class Suspension:
    """Why a batch waits until somebody resumes it."""

    at: int
    """ms"""
    endpoint: str
    """The endpoint that the batch waits for; empty if it waits for none."""
    cause: str
    """A short word."""
    words: str
    """What the provider said, or what is wrong."""


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Why a game is excluded from every report."""

    at: int
    """ms"""
    by: str
    """The key's name, or the user of the operating system."""
    reason: str


def in_words(invalid: Any) -> str:
    """The fields of an ``Invalidation`` in one line."""
    try:
        return f"marked as invalid {timestamp(invalid['at'])} by {invalid['by']}: {invalid['reason']}"
    except (CorruptLog, *UNREADABLE):
        return "marked as invalid; the mark cannot be read"


@dataclass(frozen=True, slots=True)
class NewGame:
    """A game to be stored: its row's own values and its first events."""

    game_id: str
    position: int
    drive: str
    seed: str
    seats: Sequence[Mapping[str, Any]]
    log: Sequence[Event]
    forked_from: Mapping[str, Any] | None = None
    imported_from: Mapping[str, Any] | None = None
    status: str = "created"
    winner: str | None = None
    ending: str | None = None
    rated: bool = False
    unrated: str | None = None
    """As in the row."""
    taken: Mapping[str, str] | None = None
    """By remote seat that is not the game's owner's, whose it is; empty: of whoever claims it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """What more goes on when a batch is retried: its failed games, and games that are played anew."""

    count: int
    """The batch's games before; if there are others now, nothing is changed."""
    anew: Sequence[NewGame]
    at: int
    """ms"""
    allowed: Callable[[AsyncConnection], Awaitable[None]]
    """Raises unless the batch's owner may have more open games, in the transaction that has opened them."""


ABSENT: Final = "a stand-in played for an absent bot"
"""Why a game is not rated any more. Nobody is told before it is over."""

STAND_IN: Final = {"agent": "scripted", "options": {}}
"""The spec of a seat whose bot is absent."""

_EVENTS: Final = 500
"""Events that are written together; between two writes the event loop goes on with other work."""


CANCELS_WITHIN_S: Final = 30.0
"""Seconds until another process cancels what is left of a cancelled batch."""


def _driven_by(job: int | None) -> list[Any]:
    return [] if job is None else [games.c.driver == job]


def _game_row(batch_id: str, game: NewGame, at: int) -> dict[str, Any]:
    profile = game.log[0].profile  # type: ignore[union-attr]
    return {
        "game_id": game.game_id,
        "batch_id": batch_id,
        "position": game.position,
        "created_at": at,
        "finished_at": None if game.status in OPEN else at,
        "status": game.status,
        "drive": game.drive,
        "seed": game.seed,
        "seats": list(game.seats),
        "profile": profile.name,
        "players": profile.players,
        "head": len(game.log),
        "winner": game.winner,
        "ending": game.ending,
        "forked_from": game.forked_from,
        "imported_from": game.imported_from,
        "fault": None,
        "epochs": None,
        "taken": game.taken,
        "defaults": None if game.status in OPEN else DecisionCounter(game.log).as_json(),
        "invalid": None,
        "rated": game.rated,
        "unrated": game.unrated,
    }


def row_of(batch_id: str, game: NewGame, at: int) -> GameRow:
    """The row of a game as it is stored."""
    return GameRow(**_game_row(batch_id, game, at))


def _first_rows(new: Sequence[NewGame], at: int) -> Iterator[dict[str, Any]]:
    for game in new:
        for first in range(0, len(game.log), _EVENTS):
            yield from event_rows(game.game_id, first + 1, game.log[first : first + _EVENTS], at)


_GAME: Final = select(games).where(games.c.game_id == bindparam("game"))


async def locked_game(connection: AsyncConnection, game_id: str) -> GameRow | None:
    """The game's row, which nobody else changes to the end of the caller's transaction; None for an unknown
    id. Raises CorruptLog for a row that cannot be read.
    """
    # SQLite leaves out FOR UPDATE: it has one writer anyway.
    query = _GAME.with_for_update(key_share=True)
    row = (await connection.execute(query, {"game": game_id})).mappings().first()
    return None if row is None else read_row(GameRow, row)


async def still_there(connection: AsyncConnection, game_ids: Collection[str]) -> set[str]:
    """Those of these games that were not deleted; nobody deletes them before the caller's transaction ends.
    Whoever writes rows of games in ``OF_GAMES`` asks this first, or ``locked_game``.
    """
    there: set[str] = set()
    for some in in_parts(game_ids):
        # In their order, as they are deleted: nobody waits for each other in a circle.
        query = select(games.c.game_id).where(games.c.game_id.in_(some)).order_by(games.c.game_id)
        there.update((await connection.execute(query.with_for_update(read=True))).scalars())
    return there


def parent_of(forked_from: ColumnElement[Any], database: Database) -> ColumnElement[Any]:
    """The id of the game that a fork was forked off."""
    parent = forked_from["game_id"].as_string()
    return case((has_texts(forked_from, database), parent), else_=None)


def lines_of(game_ids: Sequence[str] | Select[Any], database: Database) -> CTE:
    """Pairs of ``fork``, one of these games, and ``source``, a game whose past it carries."""
    forks = games.alias()
    parent = parent_of(forks.c.forked_from, database)
    line = (
        select(forks.c.game_id.label("fork"), parent.label("source"))
        .where(forks.c.game_id.in_(game_ids), forks.c.forked_from.is_not(None))
        .cte(recursive=True)
    )
    return line.union(
        select(line.c.fork, parent)
        .join(forks, forks.c.game_id == line.c.source)
        .where(forks.c.forked_from.is_not(None))
    )


class GameStore:
    """Everything about games and batches except their logs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.jobs = None if database.is_sqlite else JobStore(database)
        """None: a single process drives all games, without a queue."""

    async def insert_batch(self, connection: AsyncConnection, batch: BatchRow) -> None:
        """Writes a batch's row, in the caller's transaction."""
        await connection.execute(insert(batches), [values_of(batch)])

    async def insert_games(
        self, connection: AsyncConnection, batch_id: str, new: Sequence[NewGame], at: int
    ) -> None:
        """Writes games and their first events, in the caller's transaction, with a job for each that has to
        be driven.
        """
        await connection.execute(insert(games), [_game_row(batch_id, game, at) for game in new])
        rows = _first_rows(new, at)
        while some := list(islice(rows, _EVENTS)):
            await connection.execute(INSERT_EVENTS, some)
        if self.jobs is not None:
            driven = [game.game_id for game in new if game.drive == "auto" and game.status in DRIVEN]
            await self.jobs.enqueue(connection, batch_id, driven, first=new[0].position == 0)

    async def batch(self, batch_id: str) -> BatchRow | None:
        """The batch's row; None for an unknown id. Raises CorruptLog for a row that cannot be read."""
        return await self._row(BatchRow, select(batches).where(batches.c.batch_id == batch_id))

    async def game(self, game_id: str) -> GameRow | None:
        """The game's row; None for an unknown id. Raises CorruptLog for a row that cannot be read."""
        return await self._row(GameRow, _GAME, game=game_id)

    async def games_of(self, game_ids: Iterable[str]) -> dict[str, GameRow]:
        """The rows of these games, by id, without damaged ones. For 100 games at most."""
        query = select(games).where(games.c.game_id.in_(list(game_ids)))
        found = {}
        for row in await self._database.mappings(query):
            with suppress(CorruptLog):
                found[row["game_id"]] = read_row(GameRow, row)
        return found

    async def owner(self, batch_id: str) -> str:
        """Whose the batch and its games are; empty: unknown, as for a batch that is not stored."""
        found = await self._database.column(select(batches.c.owner).where(batches.c.batch_id == batch_id))
        return found[0] if found and isinstance(found[0], str) else ""

    async def owners(self, game_ids: Sequence[str]) -> dict[str, str]:
        """Whose each of these games is, in their order; without games that are not stored."""
        of_batch: dict[str, str] = {}
        by_game = await self.batches_of(game_ids)
        for batch_id in set(by_game.values()):
            of_batch[batch_id] = await self.owner(batch_id)
        return {game_id: of_batch[batch_id] for game_id, batch_id in by_game.items()}

    async def batches_of(self, game_ids: Sequence[str]) -> dict[str, str]:
        """The batch of each of these games, in their order; without games that are not stored. Empty: it
        cannot be read.
        """
        batches: dict[str, str] = {}
        for first in range(0, len(game_ids), 1000):
            query = select(games.c.game_id, games.c.batch_id).where(
                games.c.game_id.in_(game_ids[first : first + 1000])
            )
            for game, batch in await self._database.rows(query):
                batches[game] = batch if is_text(batch) else ""
        return {game: batches[game] for game in game_ids if game in batches}

    async def heads(self, game_ids: Sequence[str]) -> dict[str, tuple[int, str, str]]:
        """The length of each game's log, its status, and its seats' epochs and owners."""
        heads: dict[str, tuple[int, str, str]] = {}
        for first in range(0, len(game_ids), 1000):
            c = games.c
            query = select(c.game_id, c.head, c.status, c.epochs, c.taken).where(
                c.game_id.in_(game_ids[first : first + 1000])
            )
            for game, head, status, epochs, taken in await self._database.rows(query):
                heads[game] = (head, status, f"{epochs} {taken}")
        return heads

    async def _row(self, kind: type[R], query: Select[Any], **values: str) -> R | None:
        rows = await self._database.mappings(query, values)
        return read_row(kind, rows[0]) if rows else None

    async def ahead(self, game_ids: Sequence[str]) -> set[str]:
        """Those of these games that were forked, directly or not, off a game that may still go on."""
        if not game_ids:
            return set()
        line = lines_of(game_ids, self._database)
        query = (
            select(line.c.fork)
            .join(games, games.c.game_id == line.c.source)
            .where(games.c.status.not_in(ENDED))
            .distinct()
        )
        return set(await self._database.column(query))

    async def descent(
        self, forks: Select[Any], sources: Collection[str] | None = None
    ) -> list[tuple[str, str]]:
        """Each of these forks that was forked, directly or not, off one of these sources, with that source;
        ``sources`` None: off any game. ``forks``: a query of ids of games, whether they are forks or not.
        """
        line = lines_of(forks, self._database)
        query = select(line.c.fork, line.c.source)
        if sources is not None:
            query = query.where(line.c.source.in_(sources))
        return [(fork, source) for fork, source in await self._database.rows(query)]

    async def is_ahead(self, batch: BatchRow) -> bool:
        """Whether the batch is that of a fork which ``ahead`` names; each fork has a batch of its own."""
        return batch.spec.get("origin") == "fork" and bool(await self.ahead(await self.ids(batch.batch_id)))

    async def shared(self, batch_id: str) -> list[GameRow]:
        """The batch's games with remote seats that are not the owner's, without those that have ended."""
        c = games.c
        query = select(games).where(c.batch_id == batch_id, c.taken.is_not(None), c.status.not_in(ENDED))
        return [read_row(GameRow, row) for row in await self._database.mappings(query)]

    async def laid(self, batch_id: str) -> int:
        """How many games of the batch have been stored, as ``Tallied.laid``."""
        return (await self.tally(batch_id)).laid

    async def free_position(self, batch_id: str) -> int:
        """The first position after those of the batch's games, of which some may have been deleted."""
        query = select(func.max(games.c.position)).where(games.c.batch_id == batch_id)
        last = (await self._database.column(query))[0]
        return 0 if last is None else int(last) + 1

    async def ids(
        self, batch_id: str, status: Sequence[str] | None = None, *, invalid: bool = True
    ) -> list[str]:
        """The batch's games in their order, without those whose ids are damaged. ``invalid``: whether to
        include games marked as invalid.
        """
        return [one for one in await self.ids_as_stored(batch_id, status, invalid=invalid) if is_text(one)]

    async def ids_as_stored(
        self, batch_id: str, status: Sequence[str] | None = None, *, invalid: bool = True
    ) -> list[Any]:
        """As ``ids``, with those that are damaged."""
        query = select(games.c.game_id).where(games.c.batch_id == batch_id).order_by(games.c.position)
        if status is not None:
            query = query.where(games.c.status.in_(status))
        if not invalid:
            query = query.where(games.c.invalid.is_(None))
        return await self._database.column(query)

    async def open_batches(self) -> list[str]:
        """Batches with games that still have to be driven or cancelled; oldest first. It takes a few steps of
        an index for each batch that is not over, however many games there are.
        """
        c = batches.c
        # On SQLite no game has a job, so the index of games without one holds just those.
        known = [games.c.job.is_(None)] if self._database.is_sqlite else []
        driven = select(games.c.game_id).where(games.c.batch_id == c.batch_id, *known, _IS_DRIVEN).exists()
        query = (
            select(c.batch_id)
            .join(_BATCHES_WITH_OPEN_GAMES, _BATCHES_WITH_OPEN_GAMES.c.batch_id == c.batch_id)
            .where(or_(c.cancelled, and_(c.suspended.is_(None), driven)))
            .order_by(c.created_at, c.batch_id)
        )
        return [one for one in await self._database.column(query) if is_text(one)]

    async def to_drive(self, batch_id: str) -> list[str]:
        """The batch's games that are driven automatically and neither over nor suspended, in their order;
        none of a batch that is suspended or cancelled.
        """
        query = (
            select(games.c.game_id)
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(
                games.c.batch_id == batch_id,
                games.c.status.in_(DRIVEN),
                games.c.drive == "auto",
                batches.c.suspended.is_(None),
                batches.c.cancelled.is_(false()),
            )
            .order_by(games.c.position)
        )
        return [one for one in await self._database.column(query) if is_text(one)]

    async def stopped_of(self, batch_ids: Sequence[str]) -> list[tuple[str, bool]]:
        """Those of these batches that are suspended or cancelled, and whether they are cancelled."""
        c = batches.c
        query = select(c.batch_id, c.cancelled).where(
            c.batch_id.in_(batch_ids), or_(c.suspended.is_not(None), c.cancelled)
        )
        return [(batch_id, cancelled is True) for batch_id, cancelled in await self._database.rows(query)]

    async def unlaid_batches(self) -> list[str]:
        """Batches whose games are not all stored yet, and that are neither cancelled nor suspended."""
        laid = select(LAID).where(games.c.batch_id == batches.c.batch_id).scalar_subquery()
        query = (
            select(batches.c.batch_id)
            .where(
                laid < batches.c.count,
                batches.c.cancelled.is_(false()),
                batches.c.suspended.is_(None),
            )
            .order_by(batches.c.created_at)
        )
        return await self._database.column(query)

    async def is_cancelled(self, connection: AsyncConnection, batch_id: str) -> bool:
        """Whether the batch was cancelled, as the caller's transaction sees it. True for an unknown batch."""
        query = select(batches.c.cancelled).where(batches.c.batch_id == batch_id).with_for_update()
        return (await connection.execute(query)).scalar_one_or_none() is not False

    async def is_being_cancelled(self, game_id: str) -> bool:
        """Whether the game was cancelled, or its batch, so that it soon will be."""
        query = (
            select(games.c.game_id)
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(games.c.game_id == game_id, or_(games.c.status == "cancelled", batches.c.cancelled))
        )
        return bool(await self._database.rows(query))

    async def mark_cancelled(self, batch_id: str) -> None:
        """Notes that the batch is cancelled, and stops whoever drives its games."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                update(batches).where(batches.c.batch_id == batch_id).values(cancelled=True)
            )
            if self.jobs is not None:
                await self.jobs.forget(connection, batch_id)
                # Should this process die before it has cancelled all games, another one does.
                await self.jobs.lay_out(connection, batch_id, CANCELS_WITHIN_S)

        await self._database.writer.run(work)

    async def suspend(self, batch_id: str, suspension: Suspension, job: int | None = None) -> bool:
        """Suspends a batch until it is resumed. Returns False for one that is suspended or cancelled
        already. ``job``: only while this job drives a game of the batch.
        """

        async def work(connection: AsyncConnection) -> bool:
            return await self._suspend(connection, batch_id, suspension, job)

        return await self._database.writer.run(work)

    async def _suspend(
        self, connection: AsyncConnection, batch_id: str, suspension: Suspension, job: int | None = None
    ) -> bool:
        open_: list[Any] = [batches.c.suspended.is_(None), batches.c.cancelled.is_(false())]
        if job is not None:
            open_.append(exists().where(games.c.batch_id == batch_id, games.c.driver == job))
        statement = (
            update(batches).where(batches.c.batch_id == batch_id, *open_).values(suspended=asdict(suspension))
        )
        changed = (await connection.execute(statement)).rowcount > 0
        if changed and self.jobs is not None:
            await self.jobs.forget(connection, batch_id)
        return changed

    async def suspend_game(self, game_id: str, why: str, job: int | None = None) -> None:
        """Suspends a single game until its batch is resumed. ``job``: only while this job drives the game."""
        await self._database.writer.execute(
            update(games)
            .where(games.c.game_id == game_id, games.c.status.in_(DRIVEN), *_driven_by(job))
            .values(status="suspended", fault=why, job=None, driver=None)
        )

    async def stand_in(self, game_id: str, seat: int, at: int, job: int | None = None) -> bool:
        """Gives the remote seat of an absent bot to a scripted stand-in: its tokens end, and the game is not
        rated. False, and nothing is changed, if the game is over or ``job`` does not drive it any more.
        """
        this = games.c.game_id == game_id

        async def work(connection: AsyncConnection) -> bool:
            query = (
                select(games.c.seats, games.c.epochs, games.c.rated)
                .where(this, games.c.status.in_(DRIVEN), *_driven_by(job))
                .with_for_update()
            )
            row = (await connection.execute(query)).first()
            if row is None:
                return False
            seats, epochs, rated = list(whole(row.seats)), dict(whole(row.epochs) or {}), row.rated
            seats[seat - 1] = dict(STAND_IN)
            epochs[str(seat)] = epochs.get(str(seat), 1) + 1
            unrated = {"rated": False, "unrated": ABSENT} if rated else {}
            await connection.execute(update(games).where(this).values(seats=seats, epochs=epochs, **unrated))
            await connection.execute(
                update(game_players)
                .where(game_players.c.game_id == game_id, game_players.c.seat == seat)
                .values(absent_at=at)
            )
            return True

        return await self._database.writer.run(work)

    async def to_play_anew(self, batch_id: str) -> list[GameRow]:
        """The finished games of a batch that has all of its games, in their order, without those that were
        played anew. Empty for forks and imports.
        """
        row = await self.batch(batch_id)
        if row is None or "origin" in whole(row.spec) or await self.laid(batch_id) < row.count:
            return []
        ids = await self.ids(batch_id)
        rows: dict[str, GameRow] = {}
        for first in range(0, len(ids), 100):
            rows |= await self.games_of(ids[first : first + 100])
        origins = [game.forked_from for game in rows.values()]
        played = {origin.get("game_id") for origin in origins if isinstance(origin, Mapping)}
        return [
            rows[one] for one in ids if one in rows and rows[one].status == "finished" and one not in played
        ]

    async def resume(self, batch_id: str, changes: Mapping[str, Any], retry: Retry | None = None) -> bool:
        """Lets a batch and its suspended games go on, with ``changes`` to its request; with ``retry``, its
        failed games too, and further games. Returns False, and changes nothing, if there is nothing that
        could go on. Raises what ``retry.allowed`` raises, and then changes nothing either.
        """
        batch = update(batches).where(batches.c.batch_id == batch_id)
        stopped = ("suspended",) if retry is None else ("suspended", "failed")
        anew = () if retry is None else retry.anew
        alone = (
            update(games)
            .where(games.c.batch_id == batch_id, games.c.status.in_(stopped))
            .values(status="running", fault=None, finished_at=None)
        )

        async def work(connection: AsyncConnection) -> bool:
            if retry is not None and anew:
                as_known = batch.where(batches.c.count == retry.count, batches.c.cancelled.is_(false()))
                counted = await connection.execute(as_known.values(count=retry.count + len(anew)))
                if not counted.rowcount:
                    return False  # somebody else has just retried or cancelled it
                await self.insert_games(connection, batch_id, anew, retry.at)
            together = await connection.execute(
                batch.where(batches.c.suspended.is_not(None)).values(suspended=None)
            )
            failed = await connection.execute(
                select(func.count()).where(games.c.batch_id == batch_id, games.c.status == "failed")
            )
            opens = retry is not None and bool(anew or failed.scalar_one())
            single = await connection.execute(alone)
            if not together.rowcount + single.rowcount + len(anew):
                return False
            if changes:
                await _change_spec(connection, batch_id, lambda spec: {**spec, **changes})
            if self.jobs is not None:
                await self.jobs.resume(connection, batch_id)
                await self.jobs.lay_out(connection, batch_id)
            if retry is not None and opens:
                await retry.allowed(connection)
            return True

        return await self._database.writer.run(work)

    async def limit(self, batch_id: str, limits: Mapping[str, Any]) -> None:
        """Changes the named limits of a batch's budget."""

        async def work(connection: AsyncConnection) -> None:
            await _change_spec(
                connection,
                batch_id,
                lambda spec: {**spec, "budget": {**(spec.get("budget") or {}), **limits}},
            )

        await self._database.writer.run(work)

    async def specs(self, batch_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """The requests of these batches, by id, without those that cannot be read. For 100 at most."""
        query = select(batches.c.batch_id, batches.c.spec).where(batches.c.batch_id.in_(batch_ids))
        rows = await self._database.rows(query)
        return {batch_id: spec for batch_id, spec in rows if not isinstance(spec, Damaged)}

    async def mark_failed(
        self,
        game_id: str,
        fault: str,
        at: int,
        job: int | None = None,
        suspends: Callable[[int, int], Suspension | None] = lambda failed, count: None,
    ) -> tuple[bool, Suspension | None]:
        """Ends a game that cannot be driven on. Its log stays as it is. Returns whether it did: nothing is
        changed if the game is over or ``job`` does not drive it any more; and why its batch is suspended, if
        that did it.

        ``suspends``: takes how many games of the batch have failed by now, of how many; says why the batch is
        to be suspended, in the same transaction. None: it is not.
        """
        batch_of_game = select(games.c.batch_id).where(games.c.game_id == game_id).scalar_subquery()

        async def work(connection: AsyncConnection) -> tuple[bool, Suspension | None]:
            # First, so that of two games that fail at the same moment the second counts both.
            query = (
                select(batches.c.batch_id, batches.c.count)
                .where(batches.c.batch_id == batch_of_game)
                .with_for_update(key_share=True)
            )
            batch_id, batch_count = (await connection.execute(query)).one_or_none() or (None, None)
            changed = await connection.execute(
                update(games)
                .where(games.c.game_id == game_id, games.c.status.in_(OPEN), *_driven_by(job))
                .values(status="failed", fault=fault, finished_at=at, job=None, driver=None)
            )
            if not changed.rowcount:
                return False, None
            if batch_id is None or type(batch_count) is not int:
                return True, None  # damaged
            failed = select(func.count()).where(games.c.batch_id == batch_id, games.c.status == "failed")
            why = suspends((await connection.execute(failed)).scalar_one(), batch_count)
            if why is not None and not await self._suspend(connection, batch_id, why):
                why = None
            return True, why

        return await self._database.writer.run(work)

    async def defaults(self, batch_id: str) -> list[tuple[str, str]]:
        """The columns ``seats`` and ``defaults`` of the batch's games that have both, as JSON texts:
        reading many games is faster without parsing each.
        """
        query = select(cast(games.c.seats, Text), cast(games.c.defaults, Text)).where(
            games.c.batch_id == batch_id, games.c.defaults.is_not(None)
        )
        return [(seats, text) for seats, text in await self._database.rows(query)]

    async def invalidate(self, game_id: str, why: Invalidation | None) -> bool:
        """Marks a game as invalid, or removes the mark. Returns False for an unknown id."""
        changed = await self._database.writer.execute(
            update(games)
            .where(games.c.game_id == game_id)
            .values(invalid=None if why is None else asdict(why))
        )
        return changed > 0

    async def invalid(self, batch_id: str) -> dict[str, str]:
        """The batch's invalid games: when, by whom and why."""
        query = (
            select(games.c.game_id, games.c.invalid)
            .where(games.c.batch_id == batch_id, games.c.invalid.is_not(None))
            .order_by(games.c.position)
        )
        return {game_id: in_words(why) for game_id, why in await self._database.rows(query)}

    async def tally(self, batch_id: str) -> "Tallied":
        """Counts over a batch's games."""
        return (await self.tallies([batch_id]))[batch_id]

    async def tallies(self, batch_ids: Sequence[str]) -> "dict[str, Tallied]":
        """Counts over the games of each of these batches, by id. For 200 batches at most."""
        query = (
            select(
                games.c.batch_id,
                games.c.status,
                games.c.winner,
                games.c.ending,
                func.count(),
                func.max(games.c.finished_at),
                func.max(games.c.position),
            )
            .where(games.c.batch_id.in_(batch_ids))
            .group_by(games.c.batch_id, games.c.status, games.c.winner, games.c.ending)
        )
        tallies = {batch_id: Tallied(Counter(), Counter(), Counter()) for batch_id in batch_ids}
        for batch_id, state, winner, ending, count, finished, last in await self._database.rows(query):
            tally = tallies[batch_id]
            tally.last_position = max(tally.last_position, last if type(last) is int else -1)
            # Damaged values are counted, but not shown.
            tally.status[state if state in get_args(GameStatus) else "damaged"] += count
            if winner in list(Side):
                tally.winners[winner] += count
            if ending in list(Ending):
                tally.endings[ending] += count
            if is_moment(finished):
                tally.last_finished = max(tally.last_finished or 0, finished)
        return tallies


@dataclass(slots=True)
class Tallied:
    """Counts over a batch's games."""

    status: Counter[str]
    winners: Counter[str]
    endings: Counter[str]
    last_finished: int | None = None
    last_position: int = -1

    @property
    def laid(self) -> int:
        """How many games have been stored, as ``laid_of``."""
        return laid_of(self.status.total(), self.last_position)


def laid_of(found: int, last: object) -> int:
    """How many games a batch has been given, if so many are found and this is their last position. Positions
    are given one after the other, so the last one also counts games whose rows are lost or name no batch.
    """
    return max(found, last + 1 if type(last) is int else 0)


async def _change_spec(
    connection: AsyncConnection, batch_id: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """Changes the request of a batch, read in the caller's transaction, so that no other change is lost.
    Raises CorruptLog for a request that cannot be read.
    """
    this = batches.c.batch_id == batch_id
    spec = (await connection.execute(select(batches.c.spec).where(this).with_for_update())).scalar_one()
    await connection.execute(update(batches).where(this).values(spec=change(whole(spec))))
