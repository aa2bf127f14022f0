"""One remote seat as it sees its game: what it is asked, how long it may take, and what it may answer."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import orjson

from agents.table import ATTEMPTS
from app.base.clock import now_ms, timestamp
from app.protocol.actions import (
    Action,
    ThoughtsRead,
    action_schema,
    engine_action,
    legal_actions,
    read_thoughts,
    shown_action,
    thoughts_schema,
)
from app.protocol.messages import Asked
from app.store.log import LogLine, LogReader, is_seen
from app.store.rows import BatchRow, GameRow
from app.stream.feed import Tails
from app.stream.shared import unbroken
from engine.errors import UNREADABLE, CorruptLog
from engine.events import Event, Thought, read_event
from engine.rules import Request, asked, check, check_note, default, offered
from engine.state import State, apply
from engine.terms import PUBLIC, Kind, Seat

__all__ = [
    "ALLOWANCE_S",
    "MAX_ALLOWANCE_S",
    "MIN_ALLOWANCE_S",
    "Openings",
    "RemoteSeat",
    "allowances",
    "deadline_ms",
]

_PAGE: Final = 500
"""Events read from the database at a time."""

ALLOWANCE_S: Final[Mapping[Kind, float]] = {
    Kind.PROPOSE_TEAM: 120.0,
    Kind.SPEAK: 120.0,
    Kind.RECONSIDER: 120.0,
    Kind.VOTE: 60.0,
    Kind.CARD: 60.0,
    Kind.SUMMARISE: 120.0,
    Kind.ASSASSINATE: 120.0,
}
"""Seconds by kind of request, unless the batch sets its own: enough for a person to type a speech, or for a
program to ask a slow model."""

MIN_ALLOWANCE_S: Final = 0.1
MAX_ALLOWANCE_S: Final = 7 * 24 * 3600.0

_MOST_OPENINGS: Final = 100_000


def allowances(game: GameRow, batch: BatchRow) -> Mapping[Kind, float] | None:
    """Seconds by kind of request in this game; None: the game is stepped by hand and has no deadlines."""
    if game.drive != "auto":
        return None
    given = batch.spec.get("deadlines_s") or {}
    return {kind: float(given.get(kind.value, seconds)) for kind, seconds in ALLOWANCE_S.items()}


def deadline_ms(allowed: Mapping[Kind, float] | None, kind: Kind, opened_at: int) -> int | None:
    """When the default is played, in ms since 1970: the allowance after the request opened; None: never."""
    return None if allowed is None else opened_at + round(allowed[kind] * 1000)


class Openings:
    """When requests opened, from which their deadlines count. The times of a log stay ahead of a clock that
    was set back: then a request counts as opened when this process first looks at it, so that its deadline
    is never farther away than the allowance. Whoever asks in this process gets the same answer.
    """

    def __init__(self) -> None:
        self._looked_at: dict[tuple[str, str], int] = {}
        """By game and request, the first look at one whose event is from the future; the oldest first."""

    def opened_at(self, game_id: str, request_id: str, logged_at: int) -> int:
        """In ms since 1970, never later than now. ``logged_at``: its time according to the log."""
        key, now = (game_id, request_id), now_ms()
        looked_at = self._looked_at.get(key, logged_at)
        if looked_at > now:
            looked_at = self._looked_at[key] = now
            if len(self._looked_at) > _MOST_OPENINGS:
                del self._looked_at[next(iter(self._looked_at))]
        return looked_at


@lru_cache(1024)
def _event(type_: str, payload: str) -> Event:
    """The event of a stored line, read once for all seats that see it."""
    return read_event(type_, orjson.loads(payload))


class RemoteSeat:
    """One remote seat as it sees its game: the state folded from its own event stream, read on demand."""

    def __init__(
        self,
        reader: LogReader,
        tails: Tails,
        game_id: str,
        seat: Seat,
        allowed: Mapping[Kind, float] | None,
        openings: Openings,
    ) -> None:
        self.game_id = game_id
        self.seat = seat
        self.is_over = False
        """Whether the game was over when this view was last requested."""
        self.may_be_absent = False
        """Whether a stand-in may have taken the seat."""
        self.labels: frozenset[str] = frozenset()
        """The names of its batch's labels."""
        self._reader = reader
        self._tails = tails
        self._allowed = allowed
        self._openings = openings
        self._state = State()
        self._place = 0
        self._read_to = 0
        """The place in the full log up to which it has read everything that it may see."""
        self._opened_at = 0
        self.request: Request | None = None
        """The seat's open request by the log; only the inbox knows whether it has been answered."""
        self._just_opened: str | None = None
        self._reading = asyncio.Lock()

    async def advance(self) -> None:
        """Reads on to the end of the seat's stream."""
        await unbroken(self._locked_advance())

    async def _locked_advance(self) -> None:
        async with self._reading:
            await self._advance()

    async def _advance(self) -> None:
        while lines := await self._reader.lines(self.game_id, self.seat, self._read_to, _PAGE):
            self._take(lines, lines[-1].seq)

    async def catch_up(self, place: int = 0) -> None:
        """Reads all of the log that this process knows, and at least up to ``place``."""
        if not self.catch_up_at_once(place):
            await self.advance()

    def catch_up_at_once(self, place: int = 0) -> bool:
        """As ``catch_up``, from memory. False: memory does not reach as far."""
        if self._reading.locked() or not self._read_to:
            return False
        if fresh := self._tails.after(self.game_id, self._read_to):
            before = self.request
            seen = [line for line in fresh if is_seen(line, self.seat)]
            self._take(seen, fresh[-1].seq)
            if (request := self.request) is not None and request != before:
                self._just_opened = request.id
            return True
        return self._read_to >= place and self._tails.end(self.game_id) == self._read_to

    def _take(self, lines: Sequence[LogLine], read_to: int) -> None:
        self._read_to = read_to
        if not lines:
            return
        try:
            apply(self._state, [_event(line.type, line.payload) for line in lines])
            self.request = asked(self._state.table, self._state.hand(self.seat))
        except UNREADABLE as fault:
            # Some of the events may have been applied: the next read starts from the beginning.
            self._state, self._place, self._read_to, self.request = State(), 0, 0, None
            cause = type(fault).__name__
            raise CorruptLog(f"the log of {self.game_id} does not fold: {cause}") from None
        # Only public events open a request; a seat's own events only close one.
        self._opened_at = next(
            (line.at for line in reversed(lines) if line.audience == PUBLIC), self._opened_at
        )
        self._place = lines[-1].seq

    @property
    def place(self) -> int:
        """The place in the full log of the last event that it has read."""
        return self._place

    def is_running(self) -> bool:
        """Whether this process knows from memory that the game is not over."""
        return self.catch_up_at_once() and not self._state.table.over

    def is_asked(self, request_id: str) -> bool:
        """Whether this is the open request, according to what the seat has read."""
        return self.request is not None and self.request.id == request_id

    def take_just_opened(self, request: Request) -> bool:
        """Whether this process has just committed what opened the request, so that nobody can have answered
        it. True only once: whoever asks later has to look in the inbox.
        """
        just_opened, self._just_opened = self._just_opened, None
        return request.id == just_opened

    @property
    def opened_at(self) -> int:
        """Commit time of the event that opened the current request, in ms since 1970. After the clock was set
        back it may be in the future, as the log's times are.
        """
        return self._opened_at

    def deadline(self, request: Request) -> int | None:
        """When the request's default is played, in ms since 1970; None: never."""
        opened_at = self._openings.opened_at(self.game_id, request.id, self._opened_at)
        return deadline_ms(self._allowed, request.kind, opened_at)

    def is_late(self, request: Request) -> bool:
        """Whether the request's deadline has passed."""
        deadline = self.deadline(request)
        return deadline is not None and now_ms() >= deadline

    def check(self, action: Action) -> None:
        """Raises IllegalAction for an action that the rules forbid, judged by what the seat itself sees."""
        check(self._state.table, self._state.hand(self.seat), engine_action(action))

    def read_thoughts(self, request: Request, thoughts: object) -> ThoughtsRead:
        """Reads the thoughts of a legal answer: which are kept, and what is wrong with the others."""
        table, hand = self._state.table, self._state.hand(self.seat)

        def check_one(thought: Thought, pointer: str) -> None:
            check_note(table, hand, thought, pointer)

        return read_thoughts(request, thoughts, check_one)

    def shown(self, request: Request, refused: int) -> Asked:
        """The request as its seat receives it. ``refused``: the attempts it has used up."""
        table, hand = self._state.table, self._state.hand(self.seat)
        menu = offered(table, hand, request.kind)
        deadline = self.deadline(request)
        return Asked(
            request_id=request.id,
            kind=request.kind,
            team_size=request.team_size,
            menu=None if menu is None else list(menu),
            deadline=None if deadline is None else timestamp(deadline),
            ttl_ms=None if deadline is None else max(deadline - now_ms(), 0),
            schema_=action_schema(table, hand, request),
            thoughts_schema=thoughts_schema(table, hand, request),
            legal=legal_actions(table, hand),
            default=shown_action(default(table, request)),
            attempts_left=ATTEMPTS - refused,
        )
