"""Logs in the database: appending a step, reading on, counting a viewer's positions."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import and_, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.off_loop import off_loop
from app.store.db import Database
from app.store.row_checks import LAST_MS
from app.store.tables import events, games
from engine.errors import CorruptLog
from engine.events import Event, GameCancelled, GameEnded, audience, payload, read_event, type_name
from engine.profile import TEAM_SIZES
from engine.terms import FULL, PUBLIC, Viewer

__all__ = [
    "EXPORT_DAMAGED",
    "INSERT_EVENTS",
    "GameLog",
    "LogLine",
    "LogReader",
    "event_rows",
    "game_texts",
    "is_last",
    "is_seen",
    "line_text",
    "timestamp",
]


class LogLine(NamedTuple):
    """One stored event as it is carried: its payload stays the JSON text it was stored as."""

    seq: int
    """Place in the full log."""
    at: int
    audience: int
    type: str
    payload: str


_SHORT_LOG: Final = 1_000
"""Events that are read on the loop: at most 10 ms. A played game has hundreds, an import up to 12,000."""

_LAST: Final = frozenset({"game_ended", "game_cancelled"})

INSERT_EVENTS: Final = insert(events)

_MOVE_HEAD: Final = (
    update(games)
    .where(games.c.game_id == bindparam("game"))
    .values(head=bindparam("new_head"), status="running")
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
    )
)


def event_rows(game_id: str, first: int, written: Sequence[Event], at: int) -> list[dict[str, Any]]:
    """The rows of consecutive events, the first at position ``first``."""
    return [
        {
            "game_id": game_id,
            "seq": seq,
            "at": at,
            "audience": audience(one),
            "type": type_name(one),
            "payload": orjson.dumps(payload(one)).decode(),
        }
        for seq, one in enumerate(written, first)
    ]


class GameLog:
    """The journal of one game: appends a step and its index columns in one transaction."""

    def __init__(self, database: Database, game_id: str, head: int) -> None:
        self._database = database
        self._game_id = game_id
        self.head = head

    async def append(self, written: Sequence[Event]) -> list[LogLine]:
        """Returns the events as they are stored, once they are committed. Raises Conflict when others were
        written there.
        """
        first = self.head + 1
        head = self.head + len(written)
        last = written[-1]
        # Encoded here, in the game's own turn, so that the writer only has to bind.
        rows = event_rows(self._game_id, first, written, 0)

        def write(at: int) -> list[tuple[Any, list[Any]]]:
            for row in rows:
                row["at"] = at
            if isinstance(last, GameEnded):
                index = (_END_GAME, [self._ended(head, "finished", at, last.winner.value, last.ending.value)])
            elif isinstance(last, GameCancelled):
                index = (_END_GAME, [self._ended(head, "cancelled", at, None, None)])
            else:
                index = (_MOVE_HEAD, [{"game": self._game_id, "new_head": head}])
            return [(INSERT_EVENTS, rows), index]

        await self._database.writer.append(write)
        self.head = head
        return [LogLine(row["seq"], row["at"], row["audience"], row["type"], row["payload"]) for row in rows]

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
        }


def is_seen(line: LogLine, viewer: Viewer) -> bool:
    """Whether the viewer is shown this event."""
    return viewer == FULL or line.audience in (PUBLIC, viewer)


def _seen_by(viewer: Viewer) -> list[Any]:
    if viewer == FULL:
        return []
    return [events.c.audience.in_([PUBLIC] if viewer == PUBLIC else [PUBLIC, viewer])]


_COLUMNS: Final = (events.c.seq, events.c.at, events.c.audience, events.c.type, events.c.payload)


def _event(game_id: str, seq: Any, seen_by: Any, type_: Any, text: Any) -> Event:
    """The event of a stored row. Raises CorruptLog, which names the place and quotes nothing."""
    if type(seq) is not int:
        raise CorruptLog(f"the log of {game_id} has a row without its place")
    fault = ""
    try:
        # As it is written: it is carried to viewers as it stands, on one line.
        if type(text) is str and text[:1] == "{" and "\n" not in text and "\r" not in text:
            event = read_event(type_, orjson.loads(text))
            if audience(event) == seen_by:
                return event
            # Sent to whom it names, it would tell them what they may not see.
            fault = " (audience)"
    except orjson.JSONDecodeError:
        fault = " (no JSON)"
    except CorruptLog as reason:
        fault = f" ({reason})"
    raise CorruptLog(f"the log of {game_id} does not read at event {seq}{fault}") from None


def _events(game_id: str, rows: Sequence[Any]) -> list[Event]:
    return [_event(game_id, *row[:4]) for row in rows]


def _line(game_id: str, row: Any) -> LogLine:
    """A stored row as it is carried, when it reads. Raises CorruptLog."""
    seq, at, seen_by, type_, text = row
    _event(game_id, seq, seen_by, type_, text)
    if type(at) is not int or not 0 <= at <= LAST_MS:
        raise CorruptLog(f"the log of {game_id} does not read at event {seq} (time)")
    return LogLine(seq, at, seen_by, type_, text)


def _follow_on(lines: Sequence[LogLine], after: int, last: int) -> bool:
    """Whether these are all the events between the two places."""
    return len(lines) == last - after and all(line.seq == seq for seq, line in enumerate(lines, after + 1))


async def _check_between(connection: AsyncConnection, game_id: str, after: int, last: int) -> None:
    """Raises CorruptLog unless every place between the two, the last included, has an event that says who
    sees it: a viewer cannot tell by its own events, and would not miss what is not there.
    """
    query = select(func.count()).where(
        events.c.game_id == game_id,
        events.c.seq > after,
        events.c.seq <= last,
        events.c.audience.between(FULL, max(TEAM_SIZES)),
    )
    if (await connection.execute(query)).scalar_one() != last - after:
        raise CorruptLog(f"the log of {game_id} has holes")


class LogReader:
    """Reads one database's logs. What does not read is a CorruptLog, which quotes nothing."""

    def __init__(self, database: Database) -> None:
        self._engine = database.read_engine

    async def events(self, game_id: str) -> list[Event]:
        """The whole log. Raises CorruptLog when it does not read or has holes."""
        async with self._engine.connect() as connection:
            rows = (
                await connection.execute(
                    select(events.c.seq, events.c.audience, events.c.type, events.c.payload, games.c.head)
                    .join(games, games.c.game_id == events.c.game_id)
                    .where(events.c.game_id == game_id)
                    .order_by(events.c.seq)
                )
            ).all()
        head = rows[0].head if rows else 0
        if not rows or head != len(rows) or any(row[0] != seq for seq, row in enumerate(rows, 1)):
            raise CorruptLog(f"the log of {game_id} has holes")
        if len(rows) <= _SHORT_LOG:
            return _events(game_id, rows)
        return await off_loop(_events, game_id, rows)

    async def whole(self, game_id: str) -> bool:
        """Whether all the events are there, each once."""
        query = (
            select(games.c.head, func.count(events.c.seq), func.min(events.c.seq), func.max(events.c.seq))
            .select_from(games.join(events, events.c.game_id == games.c.game_id))
            .where(games.c.game_id == game_id)
            .group_by(games.c.head)
        )
        async with self._engine.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
        return row is not None and row[2] == 1 and row[0] == row[1] == row[3]

    async def stored(self, game_ids: Collection[str]) -> dict[str, list[tuple[str, bytes | str]]]:
        """Whole logs of these games as they are stored: type and payload of every event, in order.

        A log with holes is cut before the first: whoever reads it finds that it has no end.
        """
        found: dict[str, list[tuple[str, bytes | str]]] = {game_id: [] for game_id in game_ids}
        query = (
            select(events.c.game_id, events.c.seq, events.c.type, events.c.payload)
            .where(events.c.game_id.in_(list(found)))
            .order_by(events.c.game_id, events.c.seq)
        )
        async with self._engine.connect() as connection:
            for game_id, seq, type_, text in (await connection.execute(query)).all():
                if seq == len(found[game_id]) + 1:
                    found[game_id].append((type_, text))
        return found

    async def places(self, game_id: str, viewer: Viewer, after_place: int) -> list[int]:
        """Where in the full log the viewer's events after a place stand."""
        query = (
            select(events.c.seq)
            .where(events.c.game_id == game_id, events.c.seq > after_place, *_seen_by(viewer))
            .order_by(events.c.seq)
        )
        async with self._engine.connect() as connection:
            places = list((await connection.execute(query)).scalars())
            if any(type(place) is not int for place in places):
                raise CorruptLog(f"the log of {game_id} has a row without its place")
            if places:
                await _check_between(connection, game_id, after_place, places[-1])
        return places

    async def follow(
        self, game_id: str, viewer: Viewer, after_place: int, limit: int
    ) -> tuple[str | None, list[LogLine]]:
        """The game's status and the viewer's next events after a place, of the same moment; None for a game
        that there is not. Raises CorruptLog for a hole up to the last of them, and to the head where nothing
        follows on them.
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
        async with self._engine.connect() as connection:
            rows = (await connection.execute(query)).all()
            if not rows:
                return None, []
            status, head, seq, *_ = rows[0]
            lines = [] if seq is None else [_line(game_id, row[2:]) for row in rows]
            if type(head) is not int:
                raise CorruptLog(f"the row of {game_id} does not read (head)")
            last = lines[-1].seq if len(lines) == limit else head
            if not (viewer == FULL and _follow_on(lines, after_place, last)):
                await _check_between(connection, game_id, after_place, last)
        return status, lines

    async def opened_at(self, game_id: str) -> int:
        """Commit time (ms) of the latest public event: it opened whatever is open now."""
        query = (
            select(events.c.at)
            .where(events.c.game_id == game_id, events.c.audience == PUBLIC)
            .order_by(events.c.seq.desc())
            .limit(1)
        )
        async with self._engine.connect() as connection:
            at = (await connection.execute(query)).scalar_one_or_none()
        if type(at) is not int:
            raise CorruptLog(f"the log of {game_id} does not tell when its last event was")
        return at

    async def lines(self, game_id: str, viewer: Viewer, after_place: int, limit: int) -> list[LogLine]:
        """The viewer's next events after a place in the full log, at most ``limit``. Raises CorruptLog for a
        hole up to the last of them.
        """
        async with self._engine.connect() as connection:
            query = (
                select(*_COLUMNS)
                .where(events.c.game_id == game_id, events.c.seq > after_place, *_seen_by(viewer))
                .order_by(events.c.seq)
                .limit(limit)
            )
            lines = [_line(game_id, row) for row in (await connection.execute(query)).all()]
            if lines and not (viewer == FULL and _follow_on(lines, after_place, lines[-1].seq)):
                await _check_between(connection, game_id, after_place, lines[-1].seq)
        return lines


EXPORT_DAMAGED: Final = "export.damaged"
"""``t`` of the line of an export that names a game which does not read."""


async def game_texts(reader: LogReader, game_id: str, viewer: Viewer, page: int = 500) -> list[bytes]:
    """All the viewer's events so far, one a line. Raises CorruptLog for a game that does not read whole."""
    if not await reader.whole(game_id):
        raise CorruptLog(f"the log of {game_id} has holes")
    texts: list[bytes] = []
    place = 0
    # All of it, whoever looks: a row whose audience is damaged would be missing without a word.
    while lines := await reader.lines(game_id, FULL, place, page):
        for line in lines:
            if is_seen(line, viewer):
                texts.append(line_text(game_id, len(texts) + 1, line).encode() + b"\n")
        place = lines[-1].seq
    return texts


# All of a commit, and what hundreds of viewers are told of it, have one time.
@lru_cache(256)
def timestamp(ms: int) -> str:
    """RFC 3339, UTC, milliseconds."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def is_last(line: LogLine) -> bool:
    """Whether the event ends its game, so that nothing can follow."""
    return line.type in _LAST


def line_text(game_id: str, seq: int, line: LogLine) -> str:
    """One event as a viewer gets it: ``seq`` is the viewer's own position."""
    head = f'{{"seq":{seq},"at":"{timestamp(line.at)}","type":"{line.type}","game":"{game_id}"'
    return head + ("}" if line.payload == "{}" else "," + line.payload[1:])
