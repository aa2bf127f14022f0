"""Logs in the database: appending a step, reading events, counting a viewer's positions."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Integer, and_, bindparam, case, func, insert, null, select, update
from sqlalchemy.exc import DBAPIError

from app.base.clock import timestamp
from app.base.off_loop import off_loop
from app.store.db import Append, Database, Write
from app.store.rows import LAST_MS, GameRow
from app.store.tables import events, games
from app.store.trouble import trouble_of
from engine.errors import CorruptLog
from engine.events import Event, GameCancelled, GameEnded, audience, payload, read_event, type_name
from engine.profile import TEAM_SIZES
from engine.terms import FULL, PUBLIC, Viewer
from evaluators.ground.thought_places import ThoughtPlace, thought_places
from evaluators.measures.defaults import DecisionCounter

__all__ = [
    "EXPORT_DAMAGED",
    "INSERT_EVENTS",
    "SHORT_LOG",
    "GameLog",
    "LogLine",
    "LogReader",
    "corrupt_if_damaged",
    "event_rows",
    "export_texts",
    "is_last",
    "is_seen",
    "line_text",
]


class LogLine(NamedTuple):
    """One stored event; its payload is still the JSON text that was stored."""

    seq: int
    """Place in the full log."""
    at: int
    audience: int
    type: str
    payload: str


NEW_GAMES: Final = 1_000
"""The most new games whose first events are kept: 0.3 KiB each with five seats, 2.3 with ten."""

SHORT_LOG: Final = 1_000
"""The most events that are read on the event loop; this takes 10 ms. A played game has hundreds of events, an
imported one up to 12,000.
"""

_LAST: Final = frozenset({"game_ended", "game_cancelled"})

INSERT_EVENTS: Final = insert(events)

_FENCED: Final = case(
    (games.c.driver == bindparam("its_job"), bindparam("new_head", type_=Integer)), else_=null()
)
"""The log's new length, provided that this job drives the game. Otherwise it violates a constraint, and so
undoes the transaction: whoever was silent for so long that another process took the game over writes nothing
any more.
"""

_MOVE_HEAD: Final = (
    update(games)
    .where(games.c.game_id == bindparam("game"))
    .values(head=bindparam("new_head"), status="running")
)
_MOVE_HEAD_FENCED: Final = (
    update(games).where(games.c.game_id == bindparam("game")).values(head=_FENCED, status="running")
)
_END_GAME: Final = (
    update(games)
    .where(games.c.game_id == bindparam("game"))
    .values(
        head=bindparam("new_head"),
        status=bindparam("new_status"),
        winner=bindparam("new_winner"),
        ending=bindparam("new_ending"),
        finished_at=bindparam("new_finished_at"),
        defaults=bindparam("new_defaults"),
        job=None,
        driver=None,
    )
)
_END_GAME_FENCED: Final = _END_GAME.values(head=_FENCED)


def event_rows(game_id: str, first: int, written: Sequence[Event], at: int) -> list[dict[str, Any]]:
    """The rows of consecutive events, the first at position ``first``."""
    return [
        {
            "game_id": game_id,
            "seq": seq,
            "at": at,
            "audience": audience(event),
            "type": type_name(event),
            "payload": orjson.dumps(payload(event)).decode(),
        }
        for seq, event in enumerate(written, first)
    ]


class GameLog:
    """The journal of one game: appends a step and its index columns in one transaction."""

    def __init__(
        self,
        database: Database,
        game_id: str,
        head: int,
        decisions: DecisionCounter | None = None,
        job: int | None = None,
    ) -> None:
        self._database = database
        self._game_id = game_id
        self.head = head
        self._decisions = decisions
        """Of the events so far; stored when the game ends. None: they cannot be counted."""
        self._job = job
        """The job that has to drive the game when something is appended. None: whoever appends may."""

    async def append(
        self,
        written: Sequence[Event],
        after: Sequence[Append] = (),
        tell: Callable[[list[LogLine]], None] = lambda lines: None,
        also: Sequence[Write] = (),
    ) -> None:
        """Commits the events. Raises Conflict if another writer was first, if the job does not drive the game
        any more, or if one of ``after``, on which they build, failed. ``tell``: called with the events as
        they are stored, even if this task is cancelled while it waits for the commit. ``also``: what is
        committed together with them, or not at all.
        """
        first = self.head + 1
        head = self.head + len(written)
        last = written[-1]
        if self._decisions is not None:
            self._decisions.add(written)
        moves = (
            (_END_GAME if self._job is None else _END_GAME_FENCED)
            if isinstance(last, GameEnded | GameCancelled)
            else (_MOVE_HEAD if self._job is None else _MOVE_HEAD_FENCED)
        )
        # Encoded here, in the game's own task, so that the writer only has to bind.
        rows = event_rows(self._game_id, first, written, 0)

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            for row in rows:
                row["at"] = at
            if isinstance(last, GameEnded):
                index = self._ended(head, "finished", at, last.winner.value, last.ending.value)
            elif isinstance(last, GameCancelled):
                index = self._ended(head, "cancelled", at, None, None)
            else:
                index = {"game": self._game_id, "new_head": head}
            if self._job is not None:
                index["its_job"] = self._job
            together = [statement for other in also for statement in other(at)]
            return [*together, (INSERT_EVENTS, rows), (moves, [index])]

        def committed() -> None:
            self.head = head
            tell(
                [LogLine(row["seq"], row["at"], row["audience"], row["type"], row["payload"]) for row in rows]
            )

        await self._database.writer.append(write, after, committed)

    def _ended(
        self, head: int, status: str, at: int, winner: str | None, ending: str | None
    ) -> dict[str, Any]:
        return {
            "game": self._game_id,
            "new_head": head,
            "new_status": status,
            "new_winner": winner,
            "new_ending": ending,
            "new_finished_at": at,
            "new_defaults": None if self._decisions is None else self._decisions.as_json(),
        }


def is_seen(line: LogLine, viewer: Viewer) -> bool:
    """Whether the viewer may see this event."""
    return viewer == FULL or line.audience in (PUBLIC, viewer)


@cache
def _seen_by(viewer: Viewer) -> tuple[Any, ...]:
    """Conditions for the viewer's events."""
    if viewer == FULL:
        return ()
    return (events.c.audience.in_([PUBLIC] if viewer == PUBLIC else [PUBLIC, viewer]),)


_COLUMNS: Final = (events.c.seq, events.c.at, events.c.audience, events.c.type, events.c.payload)


def _event(game_id: str, seq: Any, seen_by: Any, type_: Any, text: Any) -> Event:
    """The event of a stored row. Raises CorruptLog, which names the place and quotes nothing."""
    if type(seq) is not int:
        raise CorruptLog(f"the log of {game_id} has a row without its place")
    fault = ""
    try:
        # It is sent to viewers exactly as it is stored, so it must be on one line.
        if type(text) is str and text[:1] == "{" and "\n" not in text and "\r" not in text:
            event = read_event(type_, orjson.loads(text))
            if audience(event) == seen_by:
                return event
            # The stored audience would show the event to somebody who may not see it.
            fault = " (audience)"
    except orjson.JSONDecodeError:
        fault = " (invalid JSON)"
    except CorruptLog as reason:
        fault = f" ({reason})"
    raise CorruptLog(f"the log of {game_id} cannot be read at event {seq}{fault}") from None


def _events(game_id: str, rows: Sequence[Any]) -> list[Event]:
    return [_event(game_id, *row[:4]) for row in rows]


def _line(game_id: str, row: Any) -> LogLine:
    """The line of a stored row. Raises CorruptLog for a row that cannot be read."""
    return _line_and_event(game_id, row)[0]


def _line_and_event(game_id: str, row: Any) -> tuple[LogLine, Event]:
    seq, at, seen_by, type_, text = row
    event = _event(game_id, seq, seen_by, type_, text)
    if type(at) is not int or not 0 <= at <= LAST_MS:
        raise CorruptLog(f"the log of {game_id} cannot be read at event {seq} (time)")
    return LogLine(seq, at, seen_by, type_, text), event


def _lines_and_events(game_id: str, rows: Sequence[Any]) -> tuple[list[LogLine], list[Event]]:
    lines, log = [], []
    for row in rows:
        line, event = _line_and_event(game_id, row)
        lines.append(line)
        log.append(event)
    return lines, log


def _follow_on(lines: Sequence[LogLine], after: int, last: int) -> bool:
    """Whether these are all the events after ``after`` up to ``last``."""
    return len(lines) == last - after and all(line.seq == seq for seq, line in enumerate(lines, after + 1))


async def _check_between(database: Database, game_id: str, after: int, last: int) -> None:
    """Raises CorruptLog unless every place after ``after`` up to ``last`` has an event with a valid audience.
    A viewer's own events cannot show a gap: the missing event might have been somebody else's.
    """
    query = select(func.count()).where(
        events.c.game_id == game_id,
        events.c.seq > after,
        events.c.seq <= last,
        events.c.audience.between(FULL, max(TEAM_SIZES)),
    )
    if await database.column(query) != [last - after]:
        raise CorruptLog(f"the log of {game_id} has holes")


@contextmanager
def corrupt_if_damaged(game_id: str) -> Iterator[None]:
    """Raises CorruptLog where the file of the database is damaged in what the block reads of the game."""
    try:
        yield
    except DBAPIError as fault:
        trouble = trouble_of(fault)
        if trouble is None or trouble.cause != "damaged":
            raise
        raise CorruptLog(f"the log of {game_id} cannot be read: {trouble.advice}") from fault


class LogReader:
    """Reads logs. Raises CorruptLog, which quotes nothing, for what cannot be read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._new: dict[str, tuple[Sequence[Event], GameRow | None]] = {}
        """The logs of games that this process has just stored, oldest first, and their rows."""

    def stored_now(self, game_id: str, log: Sequence[Event], row: GameRow | None = None) -> None:
        """Keeps the log of a game that was just stored, since somebody will soon drive it, and its row."""
        self._new[game_id] = log, row
        if len(self._new) > NEW_GAMES:
            del self._new[next(iter(self._new))]

    def new_row(self, game_id: str) -> GameRow | None:
        """The row of a game as it was stored here, unless the game has been driven since. Somebody else may
        have changed it: then nothing can be appended to the log as it was.
        """
        return self._new.get(game_id, ((), None))[1]

    async def to_drive(self, game_id: str, head: int) -> list[Event]:
        """As ``events``, of a game with ``head`` events. Reads nothing if the game was just stored here, and
        has not been driven since.
        """
        log, _ = self._new.pop(game_id, ((), None))
        return list(log) if len(log) == head else await self.events(game_id)

    async def events(self, game_id: str) -> list[Event]:
        """The whole log. Raises CorruptLog if it cannot be read, has holes or is empty."""
        head, log = await self.counted(game_id)
        if head != len(log):
            raise CorruptLog(f"the log of {game_id} has holes")
        return log

    async def counted(self, game_id: str) -> tuple[int, list[Event]]:
        """How many events the game's row counts, and those that are stored, whose places follow on each
        other. Raises CorruptLog if they cannot be read, have holes, or are none.
        """
        rows = await self._database.rows(
            select(events.c.seq, events.c.audience, events.c.type, events.c.payload, games.c.head)
            .join(games, games.c.game_id == events.c.game_id)
            .where(events.c.game_id == game_id)
            .order_by(events.c.seq)
        )
        if not rows or any(row[0] != seq for seq, row in enumerate(rows, 1)):
            raise CorruptLog(f"the log of {game_id} has holes")
        head = rows[0].head
        if len(rows) <= SHORT_LOG:
            return head, _events(game_id, rows)
        return head, await off_loop(_events, game_id, rows)

    async def whole(self, game_id: str) -> bool:
        """Whether all events are stored, each once."""
        query = (
            select(games.c.head, func.count(events.c.seq), func.min(events.c.seq), func.max(events.c.seq))
            .select_from(games.join(events, events.c.game_id == games.c.game_id))
            .where(games.c.game_id == game_id)
            .group_by(games.c.head)
        )
        rows = await self._database.rows(query)
        return bool(rows) and rows[0][2] == 1 and rows[0][0] == rows[0][1] == rows[0][3]

    async def stored(self, game_ids: Collection[str]) -> dict[str, list[tuple[str, bytes | str]]]:
        """The logs of these games as they are stored: type and payload of every event, in order.

        A log with holes is cut before the first hole: its reader finds that the game has no end. Where the
        file of the database is damaged, a log is one event that nobody can read.
        """
        with suppress(CorruptLog), corrupt_if_damaged(", ".join(game_ids)):
            return await self._stored(game_ids)
        logs: dict[str, list[tuple[str, bytes | str]]] = {}
        for game_id in game_ids:  # each by itself, so that the others are read
            logs[game_id] = [("", "")]
            with suppress(CorruptLog), corrupt_if_damaged(game_id):
                logs |= await self._stored([game_id])
        return logs

    async def _stored(self, game_ids: Collection[str]) -> dict[str, list[tuple[str, bytes | str]]]:
        logs: dict[str, list[tuple[str, bytes | str]]] = {game_id: [] for game_id in game_ids}
        query = (
            select(events.c.game_id, events.c.seq, events.c.type, events.c.payload)
            .where(events.c.game_id.in_(list(logs)))
            .order_by(events.c.game_id, events.c.seq)
        )
        for game_id, seq, type_, text in await self._database.rows(query):
            if seq == len(logs[game_id]) + 1:
                logs[game_id].append((type_, text))
        return logs

    async def seqs(self, game_id: str, viewer: Viewer, after_place: int) -> list[int]:
        """The places in the full log of the viewer's events after a place."""
        query = (
            select(events.c.seq)
            .where(events.c.game_id == game_id, events.c.seq > after_place, *_seen_by(viewer))
            .order_by(events.c.seq)
        )
        seqs = await self._database.column(query)
        if any(type(place) is not int for place in seqs):
            raise CorruptLog(f"the log of {game_id} has a row without its place")
        if seqs:
            await _check_between(self._database, game_id, after_place, seqs[-1])
        return seqs

    async def follow(
        self, game_id: str, viewer: Viewer, after_place: int, limit: int
    ) -> tuple[str | None, list[LogLine]]:
        """The game's status, None if there is no such game, and the viewer's next events after a place, both
        at the same moment. Raises CorruptLog for a hole before the last of these events, or before the head
        if these are the last ones.
        """
        joined = games.outerjoin(
            events, and_(events.c.game_id == games.c.game_id, events.c.seq > after_place, *_seen_by(viewer))
        )
        query = (
            select(games.c.status, games.c.head, *_COLUMNS)
            .select_from(joined)
            .where(games.c.game_id == game_id)
            .order_by(events.c.seq)
            .limit(limit)
        )
        rows = await self._database.rows(query)
        if not rows:
            return None, []
        status, head, seq, *_ = rows[0]
        lines = [] if seq is None else [_line(game_id, row[2:]) for row in rows]
        if type(head) is not int:
            raise CorruptLog(f"the row of {game_id} cannot be read (head)")
        last = lines[-1].seq if len(lines) == limit else head
        if not (viewer == FULL and _follow_on(lines, after_place, last)):
            await _check_between(self._database, game_id, after_place, last)
        return status, lines

    async def opened_at(self, game_id: str) -> int:
        """Commit time (ms) of the latest public event. It opened the requests that are open now."""
        query = (
            select(events.c.at)
            .where(events.c.game_id == game_id, events.c.audience == PUBLIC)
            .order_by(events.c.seq.desc())
            .limit(1)
        )
        times = await self._database.column(query)
        if not times or type(times[0]) is not int:
            raise CorruptLog(f"the log of {game_id} does not say when its last public event was")
        return times[0]

    async def lines(self, game_id: str, viewer: Viewer, after_place: int, limit: int) -> list[LogLine]:
        """The viewer's next events after a place in the full log, at most ``limit``. Raises CorruptLog for a
        hole before the last of them.
        """
        query = (
            select(*_COLUMNS)
            .where(events.c.game_id == game_id, events.c.seq > after_place, *_seen_by(viewer))
            .order_by(events.c.seq)
            .limit(limit)
        )
        lines = [_line(game_id, row) for row in await self._database.rows(query)]
        if lines and not (viewer == FULL and _follow_on(lines, after_place, lines[-1].seq)):
            await _check_between(self._database, game_id, after_place, lines[-1].seq)
        return lines

    async def whole_log(self, game_id: str) -> tuple[list[LogLine], list[Event]]:
        """All lines so far and their events. Raises CorruptLog unless all of the log can be read, also for a
        database whose file is damaged there.
        """
        with corrupt_if_damaged(game_id):
            if not await self.whole(game_id):
                raise CorruptLog(f"the log of {game_id} has holes")
            rows = await self._database.rows(
                select(*_COLUMNS).where(events.c.game_id == game_id).order_by(events.c.seq)
            )
        lines, log = (
            _lines_and_events(game_id, rows)
            if len(rows) <= SHORT_LOG
            else await off_loop(_lines_and_events, game_id, rows)
        )
        if not _follow_on(lines, 0, len(lines)):
            raise CorruptLog(f"the log of {game_id} has holes")
        return lines, log


EXPORT_DAMAGED: Final = "export.damaged"
"""The ``t`` of an export's line that names a game whose log cannot be read."""


def export_texts(game_id: str, lines: Sequence[LogLine], log: Sequence[Event], viewer: Viewer) -> list[bytes]:
    """The viewer's events of a whole log as lines of an export, thoughts with their places."""
    placed = {} if viewer == PUBLIC else thought_places(log)
    texts: list[bytes] = []
    for index, line in enumerate(lines):
        if is_seen(line, viewer):
            texts.append(line_text(game_id, len(texts) + 1, line, placed.get(index)).encode() + b"\n")
    return texts


def is_last(line: LogLine) -> bool:
    """Whether the event ends its game."""
    return line.type in _LAST


def line_text(game_id: str, seq: int, line: LogLine, place: ThoughtPlace | None = None) -> str:
    """One event as a viewer gets it; ``seq`` is the viewer's own position. ``place``: of a thought, in an
    export.
    """
    head = f'{{"seq":{seq},"at":"{timestamp(line.at)}","type":"{line.type}","game":"{game_id}"'
    if place is not None:
        head += f",{orjson.dumps(place._asdict()).decode()[1:-1]}"
    return head + ("}" if line.payload == "{}" else "," + line.payload[1:])
