"""What came from outside for remote seats: one outcome a request, refusals, and who holds a seat.

An accepted answer and a deadline race for one primary key. Whoever writes uses the row that is stored
afterwards, never its own: it may have been the slower one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import rfc8785
from pydantic import JsonValue
from sqlalchemy import func, insert, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import random_name
from app.store.db import Database
from app.store.tables import holders, inbox, refusals
from engine.errors import InvalidAction
from engine.events import Cause
from engine.terms import Seat

__all__ = [
    "PROCESS",
    "InboxStore",
    "Key",
    "RequestOutcome",
    "RequestState",
    "StoredRefusal",
    "answer_outcome",
    "canonical",
    "no_answer",
]

Key = tuple[str, str]
"""Game and request."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What a request to a remote seat came to: an answer, or why there is none."""

    seat: Seat
    cause: Cause | None
    """Why the default is played; None: an answer was accepted."""
    action: str | None
    """Canonical JSON of the accepted action."""
    thoughts: str | None
    """JSON of those that are kept."""
    thoughts_refused: str | None
    """JSON of what was wrong with the others."""
    via: str
    """The connection it came by, ``http``, or ``service``."""
    receipt: str
    at: int = 0
    """Commit time, ms; 0 before."""


@dataclass(frozen=True, slots=True)
class StoredRefusal:
    """One answer that was refused."""

    code: str
    detail: str
    pointer: str


PROCESS: Final = 16
"""Signs of a holder's name that name its process."""


@dataclass(frozen=True, slots=True)
class RequestState:
    """How a request stands."""

    outcome: RequestOutcome | None
    refused: int
    """Attempts used up."""


def canonical(action: JsonValue) -> str:
    """The action in the form of RFC 8785. Raises InvalidAction for numbers that have none."""
    try:
        return rfc8785.dumps(action).decode()
    except rfc8785.CanonicalizationError:
        raise InvalidAction("a number beyond what JSON readers agree on") from None


def answer_outcome(
    seat: Seat,
    action: str,
    thoughts: Sequence[JsonValue],
    refused: Sequence[Mapping[str, str]],
    via: str,
) -> RequestOutcome:
    """An answer to be accepted; ``action`` is canonical, ``refused`` what was wrong with other thoughts."""
    return RequestOutcome(seat, None, action, _listed(thoughts), _listed(refused), via, random_name())


def _listed(values: Sequence[Any]) -> str | None:
    return orjson.dumps(list(values)).decode() if values else None


def no_answer(seat: Seat, cause: Cause) -> RequestOutcome:
    """The default is to be played."""
    return RequestOutcome(seat, cause, None, None, None, "service", random_name())


_COLUMNS: Final = (
    inbox.c.seat,
    inbox.c.cause,
    inbox.c.action,
    inbox.c.thoughts,
    inbox.c.thoughts_refused,
    inbox.c.via,
    inbox.c.receipt,
    inbox.c.at,
)


class InboxStore:
    """The tables ``inbox``, ``refusals`` and ``holders``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect: Any = sqlite if database.is_sqlite else postgresql
        self._settle = dialect.insert(inbox).on_conflict_do_nothing()
        hold = dialect.insert(holders)
        self._hold = hold.on_conflict_do_update(
            index_elements=[holders.c.game_id, holders.c.seat],
            set_={"conn": hold.excluded.conn, "at": hold.excluded.at},
            # Of one process's connections the one that came last: an older one may only have been slower.
            where=or_(
                holders.c.conn < hold.excluded.conn,
                func.substr(holders.c.conn, 1, PROCESS) != func.substr(hold.excluded.conn, 1, PROCESS),
            ),
        )

    # --- outcomes ---------------------------------------------------------------------------

    async def outcome(self, game_id: str, request_id: str) -> RequestOutcome | None:
        """The request's outcome; None while it is open."""
        async with self._database.read_engine.connect() as connection:
            return await _outcome(connection, game_id, request_id)

    async def standing(self, game_id: str, request_id: str) -> RequestState:
        """The request's outcome, and how many answers to it were refused."""
        async with self._database.read_engine.connect() as connection:
            outcome = await _outcome(connection, game_id, request_id)
            return RequestState(outcome, await _refused(connection, game_id, request_id))

    async def settled(self, keys: Sequence[Key]) -> set[Key]:
        """Those of the requests that have an outcome."""
        found: set[Key] = set()
        async with self._database.read_engine.connect() as connection:
            # SQLite binds 32,766 values at most, and a plan for thousands of pairs takes its time.
            for first in range(0, len(keys), 500):
                part = keys[first : first + 500]
                query = select(inbox.c.game_id, inbox.c.request_id).where(
                    tuple_(inbox.c.game_id, inbox.c.request_id).in_(part)
                )
                found.update((game, request) for game, request in await connection.execute(query))
        return found

    async def settle(self, game_id: str, request_id: str, outcome: RequestOutcome) -> RequestOutcome:
        """Commits the outcome unless there is one, and returns the one that is stored."""
        stored, _ = await self.settle_and_tell(game_id, request_id, outcome)
        return stored

    async def settle_and_tell(
        self, game_id: str, request_id: str, outcome: RequestOutcome
    ) -> tuple[RequestOutcome, list[StoredRefusal]]:
        """The same, with the refused answers. Nothing may take long here: a deadline has just passed."""
        row = _row(game_id, request_id, outcome)

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            return [(self._settle, [{**row, "at": at}])]

        await self._database.writer.append(write)
        told = await self.told(game_id, request_id)
        assert told is not None
        return told

    async def told(self, game_id: str, request_id: str) -> tuple[RequestOutcome, list[StoredRefusal]] | None:
        """The request's outcome with the answers that were refused before, oldest first; None: open."""
        query = (
            select(*_COLUMNS, refusals.c.code, refusals.c.detail, refusals.c.pointer)
            .outerjoin(
                refusals,
                (refusals.c.game_id == inbox.c.game_id) & (refusals.c.request_id == inbox.c.request_id),
            )
            .where(inbox.c.game_id == game_id, inbox.c.request_id == request_id)
            .order_by(refusals.c.attempt)
        )
        async with self._database.read_engine.connect() as connection:
            rows = (await connection.execute(query)).all()
        if not rows:
            return None
        width = len(_COLUMNS)
        return RequestOutcome(*rows[0][:width]), [
            StoredRefusal(*row[width:]) for row in rows if row[width] is not None
        ]

    # --- refusals ---------------------------------------------------------------------------

    async def refuse(
        self,
        game_id: str,
        request_id: str,
        seat: Seat,
        refusal: StoredRefusal,
        *,
        answer: JsonValue,
        message: str | None,
        attempts: int,
    ) -> RequestState:
        """Counts a refused answer, and settles the request when it was the last of ``attempts``.

        The same message (its client's id and what it said), sent again, is not counted again. Nothing
        is counted where there is an outcome.
        """
        # Not orjson: what is refused may hold a number of any length.
        digest = hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()

        async def work(connection: AsyncConnection) -> RequestState:
            outcome = await _outcome(connection, game_id, request_id)
            refused = await _refused(connection, game_id, request_id)
            if outcome is not None or await self._repeated(connection, game_id, request_id, message, digest):
                return RequestState(outcome, refused)
            at = self._database.writer.stamp()
            row = {
                "game_id": game_id,
                "request_id": request_id,
                "attempt": refused + 1,
                "at": at,
                "message": message,
                "answer": digest,
                "code": refusal.code,
                "detail": refusal.detail,
                "pointer": refusal.pointer,
            }
            await connection.execute(insert(refusals), [row])
            if refused + 1 >= attempts:
                given_up = _row(game_id, request_id, no_answer(seat, "attempts"))
                await connection.execute(self._settle, [{**given_up, "at": at}])
            return RequestState(await _outcome(connection, game_id, request_id), refused + 1)

        for _ in range(attempts):
            try:
                return await self._database.writer.run(work)
            except IntegrityError:
                continue  # another replica has refused another answer just now
        return await self.standing(game_id, request_id)

    async def _repeated(
        self, connection: AsyncConnection, game_id: str, request_id: str, message: str | None, digest: str
    ) -> bool:
        if message is None:
            return False
        query = select(func.count()).where(
            refusals.c.game_id == game_id,
            refusals.c.request_id == request_id,
            refusals.c.message == message,
            refusals.c.answer == digest,
        )
        return bool((await connection.execute(query)).scalar_one())

    # --- who holds a seat -------------------------------------------------------------------

    async def hold(self, game_id: str, seat: Seat, conn: str) -> None:
        """Makes this connection the seat's, unless one that came to the same process later is. Returns when
        it is committed. ``conn``: the process in its first ``PROCESS`` signs, then the order of coming.
        """

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            return [(self._hold, [{"game_id": game_id, "seat": seat, "conn": conn, "at": at}])]

        await self._database.writer.append(write)

    async def holders(self, seats: Sequence[tuple[str, Seat]]) -> Mapping[tuple[str, Seat], str]:
        """The connections that hold these seats."""
        found: dict[tuple[str, Seat], str] = {}
        async with self._database.read_engine.connect() as connection:
            for first in range(0, len(seats), 500):
                query = select(holders.c.game_id, holders.c.seat, holders.c.conn).where(
                    tuple_(holders.c.game_id, holders.c.seat).in_(seats[first : first + 500])
                )
                found.update(((game, seat), conn) for game, seat, conn in await connection.execute(query))
        return found


def _row(game_id: str, request_id: str, outcome: RequestOutcome) -> dict[str, Any]:
    return {
        "game_id": game_id,
        "request_id": request_id,
        "seat": outcome.seat,
        "cause": outcome.cause,
        "action": outcome.action,
        "thoughts": outcome.thoughts,
        "thoughts_refused": outcome.thoughts_refused,
        "via": outcome.via,
        "receipt": outcome.receipt,
    }


async def _outcome(connection: AsyncConnection, game_id: str, request_id: str) -> RequestOutcome | None:
    query = select(*_COLUMNS).where(inbox.c.game_id == game_id, inbox.c.request_id == request_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else RequestOutcome(*row)


async def _refused(connection: AsyncConnection, game_id: str, request_id: str) -> int:
    query = select(func.count()).where(refusals.c.game_id == game_id, refusals.c.request_id == request_id)
    return int((await connection.execute(query)).scalar_one())
