"""Pages of games and batches: filtered and sorted by the database, each from where the last one ended."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    RowMapping,
    String,
    and_,
    case,
    column,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    type_coerce,
)

from app.base.schemas import GameStatus
from app.store.cursors import newest_first, next_cursor, read_cursor
from app.store.db import Database, has_texts
from app.store.games import ENDED
from app.store.rows import BatchRow, RepeatedJsonColumn, is_readable, is_text, read_row
from app.store.tables import batches, games
from engine.errors import CorruptLog
from engine.terms import Ending, Side

__all__ = ["GAME_ORDERS", "GameFilter", "GameLine", "Listing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GameFilter:
    """Which games to list. An empty part leaves nothing out."""

    statuses: Sequence[str] = ()
    batches: Sequence[str] = ()
    profiles: Sequence[str] = ()
    winners: Sequence[str] = ()
    label: tuple[str, str] | None = None
    """A name and a value that the batch's labels hold."""
    agents: Sequence[str] = ()
    """Games with a seat of one of these kinds of agent."""
    models: Sequence[str] = ()
    """Games with a seat that names one of these models."""
    owner: str | None = None
    """Only games of this owner. None: everybody's."""
    shared: bool = True
    """False: without games that have not ended and have remote seats that are not their owner's."""
    since: int | None = None
    until: int | None = None
    """Created at or after, and before these moments, ms."""
    words: Sequence[str] = ()
    """Each of them is a part of something that the list shows of the game, in large or small letters."""
    in_labels: bool = True
    """Whether words are looked for in the labels of batches."""
    in_seats: str | None = ""
    """Whose games' seats words are looked for in. None: everybody's; empty: nobody's."""
    in_shared_seats: bool = True
    """False: not in the seats of games that ``shared`` leaves out."""


class GameLine(NamedTuple):
    """What a list shows of a game."""

    game_id: str
    """Empty: the id itself is damaged."""
    readable: bool
    """False: the row is damaged, and only the id and ``forked_from`` can be used."""
    values: RowMapping
    """The columns of ``_SHOWN``; ``seats`` only where they were asked for; ``labels`` and ``owner`` of the
    batch.
    """

    @property
    def forked_from(self) -> Any:
        """As it is stored; None: not forked off another game."""
        return self.values["forked_from"]


_SHOWN: Final = (
    "game_id",
    "batch_id",
    "position",
    "created_at",
    "finished_at",
    "status",
    "profile",
    "players",
    "winner",
    "ending",
)

_SEATS: Final = type_coerce(games.c.seats, RepeatedJsonColumn(list, dict)).label("seats")
_LABELS: Final = type_coerce(batches.c.labels, RepeatedJsonColumn(dict)).label("labels")

GAME_ORDERS: Final[Mapping[str, Column[Any] | None]] = {
    "created": None,
    "finished": games.c.finished_at,
    "status": games.c.status,
    "profile": games.c.profile,
    "players": games.c.players,
    "winner": games.c.winner,
}
"""The columns by which games can be sorted. None: by the age of the batch, and in the batch's own order."""

_NEWEST: Final = {
    "batch_at": batches.c.created_at,
    "batch_id": games.c.batch_id,
    "position": games.c.position,
}
"""What a cursor of a page of games holds; before it, the value that the page is sorted by."""

_BATCH_PLACE: Final = {"created_at": batches.c.created_at, "batch_id": batches.c.batch_id}


_NOT_SHARED: Final = or_(games.c.taken.is_(None), games.c.status.in_(ENDED))

_ID: Final = re.compile("[gb]_[2-9a-z]{20}")

_IN_WORDS: Final[Mapping[Column[Any], Mapping[str, str]]] = {
    games.c.status: {status: status for status in get_args(GameStatus)},
    games.c.winner: {side.value: f"{side.value} wins" for side in Side},
    games.c.ending: {ending.value: ending.value.replace("_", " ") for ending in Ending},
}
"""What columns with few values say to people, by value, in small letters."""

COMMON: Final = 500
"""A status that so many games have is a common one."""


class Listing:
    """Reads pages of games and batches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def games(
        self,
        wanted: GameFilter,
        *,
        order: str,
        descending: bool,
        limit: int,
        cursor: str | None,
        with_seats: bool = False,
    ) -> tuple[list[GameLine], str | None]:
        """A page of games, and the cursor of the next page; None after the last one. ``order``: a name of
        ``GAME_ORDERS``; games that are equal in it come newest batch first, and in their order within it.
        """
        shown: list[Any] = [games.c[name] for name in _SHOWN] + ([_SEATS] if with_seats else [])
        walks = order == "created" and await self._is_common(wanted.statuses)
        query = (
            select(
                *shown,
                games.c.forked_from,
                games.c.taken,
                batches.c.created_at.label("batch_at"),
                _LABELS,
                batches.c.owner,
            )
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(*self._conditions(wanted, walks=walks))
        )
        newest_first = descending or order != "created"
        keys: dict[str, Column[Any]] = dict(_NEWEST)
        sorting: list[ColumnElement[Any]] = [
            batches.c.created_at.desc() if newest_first else batches.c.created_at.asc(),
            batches.c.batch_id.desc() if newest_first else batches.c.batch_id.asc(),
            games.c.position.asc(),
        ]
        by, value = GAME_ORDERS[order], None
        if by is not None:
            value = func.coalesce(by, "" if isinstance(by.type, String) else 0)
            query = query.add_columns(value.label("sorted_by"))
            keys = {"sorted_by": by, **keys}
            sorting.insert(0, value.desc() if descending else value.asc())
        elif self._database.is_sqlite:
            # True of every value, even of a damaged one. Without it SQLite begins with the games and sorts.
            every: ColumnElement[Any] = literal_column("x'ff'" if newest_first else "-9e999")
            query = query.where(
                batches.c.created_at <= every if newest_first else batches.c.created_at >= every
            )
        if cursor is not None:
            *first, at, batch_id, position = read_cursor(cursor, keys)
            older: Callable[[Any, Any], ColumnElement[bool]] = (
                (lambda left, right: left < right) if newest_first else (lambda left, right: left > right)
            )
            after = or_(
                older(batches.c.created_at, at),
                and_(
                    batches.c.created_at == at,
                    or_(
                        older(batches.c.batch_id, batch_id),
                        and_(batches.c.batch_id == batch_id, games.c.position > position),
                    ),
                ),
            )
            if value is not None:
                beyond = value < first[0] if descending else value > first[0]
                after = or_(beyond, and_(value == first[0], after))
            else:
                # Says nothing new, but an index begins here.
                at_most = batches.c.created_at <= at if newest_first else batches.c.created_at >= at
                after = and_(at_most, after)
            query = query.where(after)
        rows = await self._database.mappings(query.order_by(*sorting).limit(limit + 1))
        page = rows[:limit]
        lines = [GameLine(_name(row["game_id"]), _is_readable(row), row) for row in page]
        return lines, next_cursor(page, keys) if len(rows) > limit else None

    async def _is_common(self, statuses: Sequence[str]) -> bool:
        """Whether SQLite finds a page of games with these statuses sooner by walking through all games in
        their order than by looking up those with the statuses and sorting them. PostgreSQL knows by itself.
        """
        if not statuses or not self._database.is_sqlite:
            return False
        some = select(games.c.status).where(games.c.status.in_(statuses)).limit(COMMON).subquery()
        return bool((await self._database.column(select(func.count()).select_from(some)))[0] == COMMON)

    def _conditions(self, wanted: GameFilter, *, walks: bool) -> list[ColumnElement[bool]]:
        """``walks``: no index of statuses is used."""
        found: list[ColumnElement[bool]] = []
        status: ColumnElement[Any] = literal_column("+games.status", String) if walks else games.c.status
        for one, values in (
            (status, wanted.statuses),
            (games.c.batch_id, wanted.batches),
            (games.c.profile, wanted.profiles),
            (games.c.winner, wanted.winners),
        ):
            if values:
                found.append(one.in_(values))
        if wanted.owner is not None:
            found.append(batches.c.owner == wanted.owner)
        if not wanted.shared:
            found.append(_NOT_SHARED)
        if wanted.label is not None:
            found.append(self._labelled(*wanted.label))
        for name, values in (("agent", wanted.agents), ("model", wanted.models)):
            if values:
                found.append(self._any_seat(name, _among(values)))
        if wanted.since is not None:
            found.append(games.c.created_at >= wanted.since)
        if wanted.until is not None:
            found.append(games.c.created_at < wanted.until)
        return [*found, *(self._has(word, wanted) for word in wanted.words)]

    def _has(self, word: str, wanted: GameFilter) -> ColumnElement[bool]:
        """Whether the word is a part of something that the list shows of a game. A whole id is found without
        a look at every game.
        """
        if _ID.fullmatch(word):
            return (games.c.game_id if word[0] == "g" else games.c.batch_id) == word
        lower = word.lower()
        found: list[ColumnElement[bool]] = [
            column.in_([value for value, text in texts.items() if lower in text])
            for column, texts in _IN_WORDS.items()
        ]
        # SQLite knows the small letters of ASCII only.
        forms = {word} if word.isascii() else {word, lower, word.upper(), word.title()}

        def part_of(text: ColumnElement[Any]) -> ColumnElement[bool]:
            return or_(*(text.icontains(form, autoescape=True) for form in sorted(forms)))

        found += [part_of(games.c.game_id), part_of(games.c.batch_id), part_of(games.c.profile)]
        if wanted.in_labels:
            found.append(self._any_label(part_of))
        if wanted.in_seats != "":
            seen = [] if wanted.in_seats is None else [batches.c.owner == wanted.in_seats]
            seen += [] if wanted.in_shared_seats else [_NOT_SHARED]
            found.append(and_(*seen, or_(*(self._any_seat(name, part_of) for name in ("agent", "model")))))
        return or_(*found)

    def _labelled(self, name: str, value: str) -> ColumnElement[bool]:
        labelled = batches.c.labels[name].as_string() == value
        return case((has_texts(batches.c.labels, self._database), labelled), else_=false())

    def _any_seat(
        self, name: str, fits: Callable[[ColumnElement[Any]], ColumnElement[bool]]
    ) -> ColumnElement[bool]:
        """Whether what any of a game's seats has under ``name`` fits."""
        if self._database.is_sqlite:
            seats = case((has_texts(games.c.seats, self._database), games.c.seats), else_=literal("[]"))
            seat = func.json_each(seats).table_valued("value", "type")
            # A text among the seats would be read as JSON, and end the whole query.
            is_seat = seat.c.type == "object"
            found = fits(case((is_seat, func.json_extract(seat.c.value, f"$.{name}"))))
        else:
            is_list = has_texts(games.c.seats, self._database) & (func.json_typeof(games.c.seats) == "array")
            seats = case((is_list, games.c.seats), else_=literal_column("'[]'::json"))
            seat = func.json_array_elements(seats).table_valued(column("value", games.c.seats.type))
            found = fits(func.json_extract_path_text(seat.c.value, name))
        return select(1).select_from(seat).where(found).correlate(games).exists()

    def _any_label(self, fits: Callable[[ColumnElement[Any]], ColumnElement[bool]]) -> ColumnElement[bool]:
        """Whether the value of any of the batch's labels fits."""
        if self._database.is_sqlite:
            labels = case(
                (has_texts(batches.c.labels, self._database), batches.c.labels), else_=literal("{}")
            )
            label = func.json_each(labels).table_valued("value")
        else:
            is_object = has_texts(batches.c.labels, self._database) & (
                func.json_typeof(batches.c.labels) == "object"
            )
            labels = case((is_object, batches.c.labels), else_=literal_column("'{}'::json"))
            label = func.json_each_text(labels).table_valued("key", "value")
        return select(1).select_from(label).where(fits(label.c.value)).correlate(batches).exists()

    async def batches(
        self,
        *,
        owner: str | None,
        label: tuple[str, str] | None,
        since: int | None,
        until: int | None,
        limit: int,
        cursor: str | None,
    ) -> tuple[list[BatchRow], list[str], str | None]:
        """A page of batches, newest first; the ids of those that cannot be read; the next page's cursor.
        ``owner``: only this owner's; None: everybody's.
        """
        query = select(batches)
        if owner is not None:
            query = query.where(batches.c.owner == owner)
        if label is not None:
            query = query.where(self._labelled(*label))
        if since is not None:
            query = query.where(batches.c.created_at >= since)
        if until is not None:
            query = query.where(batches.c.created_at < until)
        page, following = await newest_first(self._database, query, _BATCH_PLACE, limit, cursor)
        readable, damaged = [], []
        for row in page:
            try:
                readable.append(read_row(BatchRow, row))
            except CorruptLog:
                damaged.append(_name(row["batch_id"]))
        return readable, damaged, following


def _among(values: Sequence[str]) -> Callable[[ColumnElement[Any]], ColumnElement[bool]]:
    return lambda value: value.in_(values)


def _name(stored: object) -> str:
    """The id; empty for one that is damaged."""
    return str(stored) if is_text(stored) else ""


def _is_readable(row: RowMapping) -> bool:
    return is_readable(games, {name: row[name] for name in _SHOWN})
