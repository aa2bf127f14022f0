"""Exports games and batches: a viewer's events as lines of JSON, each game with its provenance."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
import structlog

from app.base.errors import Forbidden, NotFound, Unfinished
from app.base.off_loop import off_loop
from app.edge.auth import Caller
from app.games.access import known_batch, known_game, sight_of
from app.games.schemas import OVER
from app.games.status import batch_status, lost_games
from app.models.registry import ModelRegistry
from app.store.games import GameStore
from app.store.log import EXPORT_DAMAGED, SHORT_LOG, LogReader, export_texts
from app.store.rows import BatchRow, is_text
from engine.errors import CorruptLog
from engine.terms import FULL, Viewer
from evaluators.ground.provenance import (
    catalogue_digest,
    package_version,
    provenance_of,
    public_provenance,
)

__all__ = ["Exporter"]

log = structlog.get_logger()

SENT_AT_ONCE: Final = 500
"""Lines sent in one write: each write to a connection costs as much as 10 lines."""


class Exporter:
    """Writes games as exports have them."""

    def __init__(self, store: GameStore, reader: LogReader, models: ModelRegistry) -> None:
        self._store = store
        self._reader = reader
        self._models = models

    async def batch(
        self, caller: Caller, batch_id: str, viewer: Viewer, after: int, *, partial: bool
    ) -> AsyncIterator[list[bytes]]:
        """Yields the batch's events in lists of lines, games in their order, without the first ``after``
        lines; the last line holds their number and their hash. Each game opens with its provenance. A game
        that cannot be read gives one line that names it, without a name if its id is damaged or it is lost;
        one that is deleted meanwhile gives none. Raises Unfinished before it yields anything, and Forbidden
        as ``game`` does.
        """
        # In this order: a game that is deleted in between does not look lost.
        tallied = await self._store.tally(batch_id)
        row = known_batch(await self._store.batch(batch_id))
        if not partial and batch_status(row, tallied) not in OVER:
            raise Unfinished(
                "the batch still runs: wait for its end, or export what there is (partial=true, --partial)"
            )
        digest = hashlib.sha256()
        line_count = games = events = 0
        damaged: list[str] = []
        lost = [None] * lost_games(row, tallied)  # at the end: nothing tells their places
        for game_id in [*await self._store.ids_as_stored(batch_id), *lost]:
            try:
                if not is_text(game_id):
                    raise CorruptLog("the row of a game cannot be read (game_id)")
                texts = await self.game(caller, game_id, row, viewer)
                games += 1
                events += len(texts) - 1
            except (CorruptLog, NotFound) as fault:
                name = game_id if is_text(game_id) else ""
                if name and not await self._store.batches_of([name]):
                    continue
                log.error("a game is left out of an export", game=name, cause=str(fault))
                damaged.append(name)
                texts = [orjson.dumps({"t": EXPORT_DAMAGED, "game": name}) + b"\n"]
            for text in texts:
                digest.update(text)
            rest = texts[max(0, after - line_count) :]
            line_count += len(texts)
            for first in range(0, len(rest), SENT_AT_ONCE):
                yield rest[first : first + SENT_AT_ONCE]
        end: dict[str, Any] = {"t": "export.end", "games": games, "events": events}
        if damaged:
            end["damaged"] = len(damaged)
        yield [orjson.dumps({**end, "sha256": digest.hexdigest()}) + b"\n"]

    async def game(self, caller: Caller, game_id: str, batch: BatchRow, viewer: Viewer) -> list[bytes]:
        """One game as an export has it: its provenance, then the viewer's events so far. Raises CorruptLog
        unless all of its log can be read, and Forbidden for a full view that the caller may not have.
        """
        lines, events = await self._reader.whole_log(game_id)
        if len(lines) <= SHORT_LOG:
            texts = export_texts(game_id, lines, events, viewer)
        else:
            texts = await off_loop(export_texts, game_id, lines, events, viewer)
        if viewer != FULL:
            return [public_provenance(game_id, events, package_version()).line(full=False), *texts]
        if caller.key_id is not None:
            # Read after the log: whoever comes to the table later has played nothing that is in it.
            row = known_game(await self._store.game(game_id))
            if not sight_of(caller, row, batch.owner).shows(FULL):
                raise Forbidden(f"others sit at the table of {game_id}: this key may not see it in full")
        try:
            provenance = await self._models.provenance(
                known_game(await self._store.game(game_id)), batch, events
            )
        except CorruptLog as fault:
            log.error("the provenance of a game is that of its log alone", game=game_id, cause=str(fault))
            provenance = provenance_of(
                game_id,
                events,
                server=package_version(),
                batch_id=batch.batch_id,
                catalogue=catalogue_digest(),
            )
        return [provenance.line(full=True), *texts]
