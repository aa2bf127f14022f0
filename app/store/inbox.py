"""What remote seats sent: one outcome for each request, refusals, and which connection holds a seat.

An accepted answer and a deadline race for one primary key. Every writer then uses the row that is stored,
never its own, which may have been too late.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import orjson
import rfc8785
from pydantic import JsonValue
from sqlalchemy import and_, bindparam, case, delete, exists, func, insert, null, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import random_name
from app.store.db import Append, Conflict, Database, Write
from app.store.jobs import LOCK_GAME, WAKE
from app.store.tables import holders, inbox, refusals
from engine.errors import InvalidAction
from engine.events import Cause
from engine.terms import Seat

__all__ = [
    "MISSED",
    "PROCESS",
    "Arrival",
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

NoAnswer = Cause | Literal["absent"]
"""Why a request has no answer: the cause of its default, or that a stand-in answers it."""

MISSED: Final = ("deadline", "absent")
"""The causes that are the seat's own: it was not there."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of a request to a remote seat: an answer, or the reason why there is none."""

    seat: Seat
    cause: NoAnswer | None
    """Why the default is played: deadline, attempts or cancelled; absent: a stand-in plays the seat from here
    on. None: an answer was accepted.
    """
    action: str | None
    """Canonical JSON (RFC 8785) of the accepted action as it was sent, lines ending with LF."""
    thoughts: str | None
    """JSON list of the thoughts that are kept, as they were sent. None: there are none."""
    thoughts_refused: str | None
    """JSON list of what was wrong with the other thoughts: pointer and message. None: nothing."""
    via: str
    """The name of the socket's connection, ``http``, or ``service``."""
    receipt: str
    """Random: whoever wrote the row recognises it by this."""
    at: int = 0
    """Commit time, UTC, milliseconds since 1970; 0 before the commit."""


@dataclass(frozen=True, slots=True)
class StoredRefusal:
    """One answer that was refused."""

    code: str
    detail: str
    pointer: str


PROCESS: Final = 16
"""Characters of a connection's name that identify its process."""

LATE_MS: Final = 120_000
"""The longest that a connection's write may take, in ms. A larger difference shows that a clock was set back.
"""


class Arrival(NamedTuple):
    """A connection that may hold a seat."""

    conn: str
    """Its first ``PROCESS`` characters name the process, the rest the order in which connections came."""
    at: int
    """When it came, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class RequestState:
    """The state of a request."""

    outcome: RequestOutcome | None
    refused: int
    """Attempts used up."""


def canonical(action: JsonValue) -> str:
    """The action in the form of RFC 8785. Raises InvalidAction for numbers that have no such form."""
    try:
        return rfc8785.dumps(action).decode()
    except rfc8785.CanonicalizationError:
        raise InvalidAction("the action has a number that JSON parsers read differently") from None


def answer_outcome(
    seat: Seat,
    action: str,
    thoughts: Sequence[JsonValue],
    refused: Sequence[Mapping[str, str]],
    via: str,
) -> RequestOutcome:
    """The outcome that accepts an answer. ``action`` is canonical; ``refused`` says what was wrong with
    thoughts that are not among ``thoughts``.
    """
    return RequestOutcome(seat, None, action, _json(thoughts), _json(refused), via, random_name())


def _json(values: Sequence[Any]) -> str | None:
    return orjson.dumps(list(values)).decode() if values else None


def no_answer(seat: Seat, cause: NoAnswer) -> RequestOutcome:
    """The outcome that plays the default, or leaves the seat to its stand-in."""
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


_this: Final = (inbox.c.game_id == bindparam("game")) & (inbox.c.request_id == bindparam("request"))

_OUTCOME: Final = select(*_COLUMNS).where(_this)

_REFUSED: Final = select(func.count()).where(
    refusals.c.game_id == bindparam("game"), refusals.c.request_id == bindparam("request")
)

_refused_count: Final = _REFUSED.subquery()

_STATE: Final = select(*_refused_count.c, inbox.c.game_id, *_COLUMNS).select_from(
    _refused_count.outerjoin(inbox, _this)
)

_SETTLED: Final = select(inbox.c.game_id, inbox.c.request_id).where(
    tuple_(inbox.c.game_id, inbox.c.request_id).in_(bindparam("keys", expanding=True))
)

_HELD: Final = select(holders.c.game_id, holders.c.seat, holders.c.conn).where(
    tuple_(holders.c.game_id, holders.c.seat).in_(bindparam("seats", expanding=True))
)

_LET_GO: Final = delete(holders).where(
    holders.c.game_id == bindparam("game"),
    holders.c.seat == bindparam("seat"),
    holders.c.conn == bindparam("conn"),
)

_SETTLE: Final = insert(inbox)

_SETTLE_UNREFUSED: Final = insert(inbox).values(
    receipt=case(
        (
            exists().where(
                refusals.c.game_id == bindparam("its_game"), refusals.c.request_id == bindparam("its_request")
            ),
            null(),
        ),
        else_=bindparam("its_receipt"),
    )
)
"""Violates a constraint, and so undoes the transaction, where an answer to the request was refused: another
process may have done that.
"""


_earlier: Final = inbox.alias()

_UNLESS_ABSENT: Final = (
    update(inbox)
    .where(
        _this,
        exists().where(
            _earlier.c.game_id == inbox.c.game_id,
            _earlier.c.seat == inbox.c.seat,
            _earlier.c.cause == "absent",
        ),
    )
    .values(receipt=None)
)
"""As above, where a stand-in has taken the seat: its own answers do not come through the inbox."""


class InboxStore:
    """The tables ``inbox``, ``refusals`` and ``holders``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakes = not database.is_sqlite
        """Whether a game may wait with nobody driving it, so that its answer has to wake it."""
        dialect: Any = sqlite if database.is_sqlite else postgresql
        self._settle = dialect.insert(inbox).on_conflict_do_nothing()
        hold = dialect.insert(holders)
        of_one = func.substr(holders.c.conn, 1, PROCESS) == func.substr(hold.excluded.conn, 1, PROCESS)
        # On SQLite the other process has ended.
        came_later = holders.c.at.between(hold.excluded.at + 1, hold.excluded.at + LATE_MS)
        self._hold = hold.on_conflict_do_update(
            index_elements=[holders.c.game_id, holders.c.seat],
            set_={"conn": hold.excluded.conn, "at": hold.excluded.at},
            # The newest connection holds the seat, even if an older one, which its bot may have left, writes
            # after it.
            where=or_(
                and_(of_one, holders.c.conn < hold.excluded.conn),
                ~of_one if database.is_sqlite else and_(~of_one, ~came_later),
            ),
        )

    # --- outcomes ---------------------------------------------------------------------------

    async def missed(self, game_id: str, seat: Seat, most: int) -> int:
        """How many requests in a row, up to the seat's last, it has left unanswered; at most ``most``."""
        query = (
            select(inbox.c.cause)
            .where(inbox.c.game_id == game_id, inbox.c.seat == seat)
            .order_by(inbox.c.at.desc(), inbox.c.request_id.desc())
            .limit(most)
        )
        causes = await self._database.column(query)
        return next((place for place, cause in enumerate(causes) if cause not in MISSED), len(causes))

    async def outcome(self, game_id: str, request_id: str) -> RequestOutcome | None:
        """The request's outcome; None while it is open."""
        rows = await self._database.rows(_OUTCOME, _named(game_id, request_id))
        return RequestOutcome(*rows[0]) if rows else None

    async def state(self, game_id: str, request_id: str) -> RequestState:
        """The request's outcome, and the number of its answers that were refused."""
        [(count, settled, *outcome)] = await self._database.rows(_STATE, _named(game_id, request_id))
        return RequestState(None if settled is None else RequestOutcome(*outcome), count)

    async def settled(self, keys: Sequence[Key]) -> set[Key]:
        """The requests among these that have an outcome."""
        settled: set[Key] = set()
        # SQLite binds 32,766 values at most, and planning for thousands of pairs is slow.
        for first in range(0, len(keys), 500):
            named = {"keys": keys[first : first + 500]}
            settled.update((game, request) for game, request in await self._database.rows(_SETTLED, named))
        return settled

    async def settle(
        self, game_id: str, request_id: str, outcome: RequestOutcome, *, unless_absent: bool = False
    ) -> RequestOutcome:
        """Commits the outcome unless the request has one, and returns the outcome that is stored.
        ``unless_absent``: an answer of a seat that a stand-in plays now is not stored, and what is returned
        says that the seat is absent.
        """
        row = _row(game_id, request_id, outcome)
        key = {"game": game_id, "request": request_id}

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            wake = (
                [(statement, [{"game": game_id}]) for statement in (LOCK_GAME, WAKE)] if self._wakes else []
            )
            check = [(_UNLESS_ABSENT, [key])] if unless_absent else []
            return [(_SETTLE, [{**row, "at": at}]), *check, *wake]

        try:
            return replace(outcome, at=await self._database.writer.append(write))
        except Conflict:
            stored = await self.outcome(game_id, request_id)
        if stored is None and unless_absent:
            return no_answer(outcome.seat, "absent")
        assert stored is not None
        return stored

    def settling(self, game_id: str, request_id: str, outcome: RequestOutcome) -> Write:
        """Settles the request as part of another append, which fails with Conflict if it has an outcome."""
        row = _row(game_id, request_id, outcome)
        return lambda at: [(_SETTLE, [{**row, "at": at}])]

    def settle_unrefused(self, game_id: str, request_id: str, outcome: RequestOutcome, owner: str) -> Append:
        """Queues the outcome of a request, provided that no answer to the request was refused. Fails with
        Conflict if one was, or if the request already has an outcome. ``owner``: the game's, whoever answers.
        """
        row = _row(game_id, request_id, outcome)
        row |= {"its_game": game_id, "its_request": request_id, "its_receipt": row.pop("receipt")}

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            row["at"] = at
            return [(_SETTLE_UNREFUSED, [row])]

        return self._database.writer.submit(write, owner=owner)

    async def settle_and_tell(
        self, game_id: str, request_id: str, outcome: RequestOutcome
    ) -> tuple[RequestOutcome, list[StoredRefusal]]:
        """As ``settle``, but also returns the refused answers. It must be quick, since a deadline is over."""
        await self.settle(game_id, request_id, outcome)
        stored = await self.outcome_and_refusals(game_id, request_id)
        assert stored is not None
        return stored

    async def outcome_and_refusals(
        self, game_id: str, request_id: str
    ) -> tuple[RequestOutcome, list[StoredRefusal]] | None:
        """The request's outcome, and the answers that were refused before it, oldest first. None while the
        request is open.
        """
        query = (
            select(*_COLUMNS, refusals.c.code, refusals.c.detail, refusals.c.pointer)
            .outerjoin(
                refusals,
                (refusals.c.game_id == inbox.c.game_id) & (refusals.c.request_id == inbox.c.request_id),
            )
            .where(inbox.c.game_id == game_id, inbox.c.request_id == request_id)
            .order_by(refusals.c.attempt)
        )
        rows = await self._database.rows(query)
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
        """Counts a refused answer, and settles the request after the last of ``attempts``.

        A message that is sent again (the same id and the same answer) is not counted again. Once the request
        has an outcome, nothing is counted.
        """
        # Not orjson: a refused answer may hold a number of any length.
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
                if self._wakes:
                    await connection.execute(LOCK_GAME, {"game": game_id})
                    await connection.execute(WAKE, {"game": game_id})
            return RequestState(await _outcome(connection, game_id, request_id), refused + 1)

        for _ in range(attempts):
            try:
                return await self._database.writer.run(work)
            except IntegrityError:
                continue  # another replica refused another answer at the same time
        return await self.state(game_id, request_id)

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

    async def hold(self, game_id: str, seat: Seat, arrival: Arrival) -> None:
        """Gives the seat to this connection, unless a newer one holds it. Returns after the commit."""
        row = {"game_id": game_id, "seat": seat, **arrival._asdict()}

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            return [(self._hold, [row])]

        await self._database.writer.append(write)

    async def let_go(self, game_id: str, seat: Seat, conn: str) -> None:
        """Forgets that this connection holds the seat, if it does."""

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            return [(_LET_GO, [{"game": game_id, "seat": seat, "conn": conn}])]

        await self._database.writer.append(write)

    async def holders(self, seats: Sequence[tuple[str, Seat]]) -> Mapping[tuple[str, Seat], str]:
        """The connections that hold these seats."""
        held: dict[tuple[str, Seat], str] = {}
        for first in range(0, len(seats), 500):
            named = {"seats": seats[first : first + 500]}
            held.update(((game, seat), conn) for game, seat, conn in await self._database.rows(_HELD, named))
        return held


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


def _named(game_id: str, request_id: str) -> dict[str, str]:
    return {"game": game_id, "request": request_id}


async def _outcome(connection: AsyncConnection, game_id: str, request_id: str) -> RequestOutcome | None:
    row = (await connection.execute(_OUTCOME, _named(game_id, request_id))).one_or_none()
    return None if row is None else RequestOutcome(*row)


async def _refused(connection: AsyncConnection, game_id: str, request_id: str) -> int:
    return int((await connection.execute(_REFUSED, _named(game_id, request_id))).scalar_one())
