"""Steps games by hand: those that no runner drives, when a caller asks for it."""

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from weakref import WeakValueDictionary

from agents.model.model import ModelUnavailable
from agents.table import step
from app.base.errors import AlreadyOver, BudgetSpent, DrivenAutomatically, MissingAnswer, NotAnswered, Stale
from app.base.pace import Pace
from app.edge.auth import Caller, Keys
from app.games.access import known_batch, known_game, sight_of
from app.games.cancelling import Canceller
from app.models.registry import ModelRegistry
from app.models.stops import Stop
from app.runner.drive import TellingJournal
from app.seats.inboxes import Inboxes
from app.seats.seating import ModelSeats, has_models, remote_seats, seat_agents
from app.store.call import BUDGET_SPENT
from app.store.db import Conflict, Database
from app.store.games import OPEN, GameStore
from app.store.log import GameLog, LogReader
from app.store.rows import GameRow
from app.stream.feed import Feed
from engine.events import Event
from engine.rules import Request, cancel, pending
from engine.state import State, apply, fold
from engine.terms import FULL, Seat, Viewer
from engine.view import project
from evaluators.measures.defaults import DecisionCounter

__all__ = ["Stepper", "Steps"]


class Steps(NamedTuple):
    """What was appended to a game, and the game after it."""

    viewer: Viewer
    """Through whose eyes."""
    events: list[tuple[int, int, Event]]
    """Position in the viewer's own numbering, commit time (ms), and event; only what the viewer sees."""
    state: State
    row: GameRow


class Stepper:
    """Moves manual games on, one caller at a time."""

    def __init__(
        self,
        database: Database,
        store: GameStore,
        reader: LogReader,
        feed: Feed,
        models: ModelRegistry,
        inboxes: Inboxes,
        pace: Pace,
        keys: Keys,
        canceller: Canceller,
    ) -> None:
        self._database = database
        self._store = store
        self._reader = reader
        self._feed = feed
        self._models = models
        self._inboxes = inboxes
        self._pace = pace
        self._keys = keys
        self._cancelling = canceller.under_way
        # A lock lives as long as somebody steps its game or waits to step it.
        self._stepping: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def step(
        self,
        game_id: str,
        until: str,
        caller: Caller,
        head: Callable[[Viewer], int] | None = None,
    ) -> Steps:
        """Steps a manual game. ``head``: the length that a viewer's stream must have, else Stale is raised;
        None: any. A caller that may see less after a wait, since others have come to the table, gets what it
        sees then. It hears only of requests of seats that it sees: who else is asked can be a secret. Raises
        NotAnswered if a remote seat holds up the first action, DrivenAutomatically, AlreadyOver,
        ModelUnavailable, Stale if somebody else wrote to the log or cancels the game, and Unauthenticated if
        the caller's credential ends; events that were appended before that stay.
        """
        lock = self._stepping.setdefault(game_id, asyncio.Lock())
        async with lock:
            return await self._step(game_id, until, caller, head)

    async def _step(
        self, game_id: str, until: str, caller: Caller, head: Callable[[Viewer], int] | None
    ) -> Steps:
        self._keys.check(caller)
        row = known_game(await self._store.game(game_id))
        if row.drive != "manual":
            raise DrivenAutomatically("the service drives this game; create it with drive manual to step it")
        if row.status not in OPEN:
            raise AlreadyOver(f"this game is {row.status}; there is nothing left to step")
        batch = known_batch(await self._store.batch(row.batch_id))
        sight = sight_of(caller, row, batch.owner)
        viewer = sight.viewer
        events = await self._reader.events(game_id)
        seen = len(project(events, viewer))
        if head is not None and head(viewer) != seen:
            raise Stale(f"the stream has {seen} events, If-Match names {head(viewer)}")
        state = fold(events)
        if state.table.over:
            raise AlreadyOver("this game has just ended; there is nothing left to step")
        models: ModelSeats | None = None
        if has_models(row.seats):
            models = await self._models.seats(row, batch)
        agents = seat_agents(row.seats, row.seed, models, self._inboxes.of(row, batch))
        journal = TellingJournal(
            GameLog(self._database, game_id, len(events), DecisionCounter(events)),
            self._feed,
            game_id,
            row.batch_id,
        )
        start = (state.table.round, state.table.attempt, state.table.phase)
        only_scripts = models is None and not remote_seats(row.seats)
        while requests := pending(state):
            self._keys.check(caller)
            if only_scripts:  # which never wait by themselves
                await self._pace.turn(batch.owner)
            if game_id in self._cancelling:
                raise Stale("this game is being cancelled")
            # In seat order, as everywhere: a seat that has not answered holds up the seats after it.
            if missing := await self._missing(row, requests[:1] if until == "action" else requests):
                if len(state.log) == len(events):
                    raise NotAnswered(f"not answered yet: {_named(missing, sight.seats)}")
                break
            try:
                await step(state, agents, journal, alone=until == "action")
            except Stop as stop:
                # Which endpoint was asked tells which seat was.
                _, viewer = await self._seen_now(row, viewer, caller, batch.owner)
                words = str(stop) if viewer == FULL else "a seat's model does not answer"
                raise ModelUnavailable(words, stop.cause) from None
            except MissingAnswer:
                _, viewer = await self._seen_now(row, viewer, caller, batch.owner)
                if viewer == FULL:
                    raise
                raise MissingAnswer("the recording has no answer to a seat's question") from None
            except BudgetSpent:
                broken_off = cancel(BUDGET_SPENT)
                await journal.append(broken_off)
                apply(state, broken_off)
                break
            except Conflict:
                raise Stale("somebody else has moved this game on; read it again") from None
            here = (state.table.round, state.table.attempt, state.table.phase)
            if until == "action" or (until == "phase" and here != start):
                break
            if until == "round" and here[0] != start[0]:
                break
        # Read after the last event: whoever comes to the table later has played nothing of these.
        row, viewer = await self._seen_now(row, viewer, caller, batch.owner)
        new = await self._reader.lines(game_id, viewer, len(events), len(state.log) - len(events))
        if viewer != sight.viewer:
            seen = len(project(events, viewer))
        appended = [(seq, line.at, state.log[line.seq - 1]) for seq, line in enumerate(new, seen + 1)]
        return Steps(viewer, appended, state, row)

    async def _seen_now(
        self, row: GameRow, viewer: Viewer, caller: Caller, owner: str
    ) -> tuple[GameRow, Viewer]:
        """The game of ``owner`` as it is now; and the viewer if the caller may still use it, else its own."""
        row = known_game(await self._store.game(row.game_id))
        sight = sight_of(caller, row, owner)
        return row, viewer if sight.shows(viewer) else sight.viewer

    async def _missing(self, row: GameRow, requests: Sequence[Request]) -> list[Request]:
        """The requests that remote seats have not answered yet."""
        remote = remote_seats(row.seats)
        asked = [request for request in requests if request.seat in remote]
        settled = await self._inboxes.store.settled([(row.game_id, request.id) for request in asked])
        return [request for request in asked if (row.game_id, request.id) not in settled]


def _named(requests: Sequence[Request], seats: AbstractSet[Seat]) -> str:
    """The ids of these seats' requests, and how many others there are."""
    words = [request.id for request in requests if request.seat in seats]
    if others := len(requests) - len(words):
        words.append(f"{others} {'other ' if words else ''}{'seat' if others == 1 else 'seats'}")
    return ", ".join(words)
