"""Cancels games, wherever they are driven and whatever they wait for."""

from typing import Final

from agents.remote import RemoteAgent
from app.base.errors import AlreadyOver, Stale
from app.games.access import known_batch, known_game
from app.models.registry import ModelRegistry
from app.runner.drive import TellingJournal
from app.runner.local import LocalRunner
from app.runner.metering import GameMeter
from app.seats.inboxes import Inboxes
from app.seats.seating import remote_seats
from app.store.db import Conflict, Database, Write
from app.store.games import OPEN, GameStore
from app.store.inbox import no_answer
from app.store.log import GameLog, LogReader
from app.store.rows import GameRow
from app.stream.feed import Feed, request_name
from engine.actions import Action
from engine.errors import CorruptLog
from engine.events import ActionDefaulted, Event, GameEnded
from engine.rules import Request, cancel, decide, pending
from engine.state import fold
from engine.terms import FULL, Seat
from engine.view import observe
from evaluators.measures.defaults import DecisionCounter

__all__ = ["Canceller"]

TRIES: Final = 20
"""How often a cancellation begins again because a step in flight was committed first."""


class Canceller:
    """Ends games before their time."""

    def __init__(
        self,
        database: Database,
        store: GameStore,
        reader: LogReader,
        feed: Feed,
        inboxes: Inboxes,
        runner: LocalRunner,
        models: ModelRegistry,
    ) -> None:
        self._database = database
        self._store = store
        self._reader = reader
        self._feed = feed
        self._inboxes = inboxes
        self._runner = runner
        self._models = models
        self.under_way: set[str] = set()
        """The games that are being cancelled."""

    async def cancel(self, game_id: str) -> None:
        """Ends a game now. Raises NotFound, and AlreadyOver when it has ended already."""
        # A step until the end would win every race for the next position.
        self.under_way.add(game_id)
        try:
            await self._cancel(game_id)
        finally:
            self.under_way.discard(game_id)

    async def _cancel(self, game_id: str) -> None:
        for _ in range(TRIES):
            row = await self._open_row(game_id)
            await self._runner.release(game_id)
            head, last, open_ = await self._last_words(row)
            # A game that ended before its log was read is refused here; one that ends later is a conflict.
            await self._open_row(game_id)
            if last and isinstance(last[-1], GameEnded):
                over = last  # the answers already accepted have ended it
            else:
                over = [*last, *cancel("cancelled by its owner")]
            game_log = GameLog(self._database, game_id, head, await self._decisions(game_id))
            meter = GameMeter(row, timed=False)
            journal = TellingJournal(game_log, self._feed, game_id, row.batch_id, meter=meter)
            try:
                # With the end, so that a failure leaves the requests open and the game to its driver.
                await journal.append(over, [self._closing(game_id, request) for request in open_])
            except Conflict:
                continue  # a step in flight, or an answer, was committed first
            self._models.hang_up(game_id)
            for request in open_:
                self._feed.hint(request_name(game_id, request.id))
            if over is last:
                raise AlreadyOver("this game has just finished")
            return
        raise Stale("the game moves on faster than it can be cancelled; try again")

    async def _open_row(self, game_id: str) -> GameRow:
        row = known_game(await self._store.game(game_id))
        if row.status not in OPEN:
            raise AlreadyOver(f"this game is {row.status} already")
        return row

    async def _decisions(self, game_id: str) -> DecisionCounter | None:
        """The decisions so far; None for a log that cannot be read, which can be cancelled all the same."""
        try:
            return DecisionCounter(await self._reader.events(game_id))
        except CorruptLog:
            return None

    def _closing(self, game_id: str, request: Request) -> Write:
        return self._inboxes.store.settling(game_id, request.id, no_answer(request.seat, "cancelled"))

    async def _last_words(self, row: GameRow) -> tuple[int, list[Event], list[Request]]:
        """The log's length, the events still to be written, which are the answers already accepted and a
        cancellation for each other request of a remote seat, and those of these requests that are open.
        """
        game_id, remote = row.game_id, remote_seats(row.seats)
        if not remote:
            return len(await self._reader.seqs(game_id, FULL, 0)), [], []
        log = await self._reader.events(game_id)
        state = fold(log)
        inbox = self._inboxes.of(row, known_batch(await self._store.batch(row.batch_id)))
        answers: list[tuple[Seat, Action]] = []
        closed: list[Event] = []
        open_: list[Request] = []
        for request in pending(state):
            if request.seat not in remote:
                continue
            stored = await self._inboxes.store.outcome(game_id, request.id)
            if stored is None:
                open_.append(request)
            if stored is None or stored.cause == "cancelled":
                closed.append(ActionDefaulted(request.seat, request.id, "cancelled"))
            else:
                answers.append((request.seat, await RemoteAgent(inbox).act(observe(state, request))))
        return len(log), [*(decide(state, answers) if answers else ()), *closed], open_
