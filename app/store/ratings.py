"""What ratings are made of: finished games that were made by pairing, and who played them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import func, select

from app.store.db import Database, in_parts
from app.store.rows import Damaged, PlayerRow, is_readable, typed_row
from app.store.tables import events, game_players, games
from engine.errors import UNREADABLE, CorruptLog
from engine.events import Event, read_event
from engine.terms import Seat

__all__ = ["PairedGame", "PairedState", "RatingStore"]

_SHOWN: Final = ("game_created", "roles_dealt")
"""The events that tell a game's rules and its deal."""

_PAIRED: Final = select(game_players.c.game_id).where(game_players.c.game_id == games.c.game_id).exists()
_FINISHED: Final = games.c.status == "finished"


class PairedState(NamedTuple):
    """When one of these changes, so may the ratings."""

    finished: int
    last: int | None
    rated: int
    invalid: frozenset[str]
    """Which: the mark may be taken from one game and given to another."""


@dataclass(frozen=True, slots=True)
class PairedGame:
    """A finished game that was made by pairing."""

    game_id: str
    rated: bool
    unrated: str | None
    """Why it is not rated, if its players sought a rated one."""
    winner: str
    seats: Sequence[Mapping[str, Any]] | Damaged
    defaults: Mapping[str, Any] | Damaged | None
    is_invalid: bool
    players: Mapping[Seat, PlayerRow]
    """The seats that bots play. The others are played by agents of the service."""
    opening: Sequence[Event]
    """Its rules and its deal; empty: they cannot be read."""


class RatingStore:
    """Reads games for ratings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def state(self) -> PairedState:
        """How much there is to rate."""
        query = select(
            func.count(),
            func.max(games.c.finished_at),
            func.count().filter(games.c.rated),
        ).where(_FINISHED, _PAIRED)
        finished, last, rated = (await self._database.rows(query))[0]
        marked = select(games.c.game_id).where(_FINISHED, _PAIRED, games.c.invalid.is_not(None))
        return PairedState(finished, last, rated, frozenset(await self._database.column(marked)))

    async def paired(self) -> list[PairedGame]:
        """Every finished game that was made by pairing, in the order of their ids."""
        columns = (
            games.c.game_id,
            games.c.rated,
            games.c.unrated,
            games.c.winner,
            games.c.seats,
            games.c.defaults,
            games.c.invalid.is_not(None).label("is_invalid"),
        )
        query = select(*columns).where(_FINISHED, _PAIRED).order_by(games.c.game_id)
        rows = await self._database.mappings(query)
        ids = [row["game_id"] for row in rows]
        players, openings = await self._players(ids), await self._openings(ids)
        return [
            PairedGame(
                row["game_id"],
                row["rated"] is True,
                row["unrated"],
                str(row["winner"]),
                row["seats"],
                row["defaults"],
                bool(row["is_invalid"]),
                players.get(row["game_id"], {}),
                openings.get(row["game_id"], ()),
            )
            for row in rows
        ]

    async def _players(self, ids: Sequence[str]) -> dict[str, dict[Seat, PlayerRow]]:
        found: dict[str, dict[Seat, PlayerRow]] = {}
        for some in in_parts(ids):
            query = select(game_players).where(game_players.c.game_id.in_(some))
            for row in await self._database.mappings(query):
                if is_readable(game_players, row):
                    found.setdefault(row["game_id"], {})[row["seat"]] = typed_row(PlayerRow, row)
        return found

    async def _openings(self, ids: Sequence[str]) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        c = events.c
        for some in in_parts(ids):
            query = (
                select(c.game_id, c.type, c.payload)
                .where(c.game_id.in_(some), c.type.in_(_SHOWN))
                .order_by(c.game_id, c.seq)
            )
            for game_id, type_, text in await self._database.rows(query):
                try:
                    found.setdefault(game_id, []).append(read_event(type_, orjson.loads(text)))
                except (CorruptLog, *UNREADABLE):
                    continue
        return found
