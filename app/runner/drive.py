"""Drives one game from the end of its log to the end of the game."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final

from agents.errors import InvalidAgent
from agents.table import play
from app.base import metrics
from app.base.clock import now_ms
from app.base.errors import BudgetSpent
from app.models.registry import ModelRegistry
from app.models.stops import SETTINGS, BatchStops
from app.runner.metering import GameMeter
from app.seats.inboxes import Inboxes, SeatAbsent
from app.seats.seating import REMOTE, has_models, has_only_scripts, remote_seats, seat_agents, seated
from app.store.call import BUDGET_SPENT
from app.store.db import Append, Conflict, Database, Write
from app.store.games import OPEN, GameStore
from app.store.log import GameLog, LogLine, LogReader
from app.store.rows import GameRow
from app.stream.feed import Feed, held_name
from app.stream.metrics import stand_ins
from engine.events import AgentsSeated, Event, GameCancelled, GameCreated, GameEnded
from engine.rules import cancel
from evaluators.measures.defaults import DecisionCounter

__all__ = ["TellingJournal", "drive"]

STEPS_TOGETHER: Final = 64
"""Steps of a game of scripts that are appended together; most games have fewer."""

STEPS_A_TURN: Final = 16
"""Steps of a game of scripts after which everything else has a turn; they take 3 ms."""


class TellingJournal:
    """Appends events to a game's log and, after the commit, notifies the watchers of the game, even if the
    game has been let go of meanwhile.
    """

    def __init__(
        self,
        log: GameLog,
        feed: Feed,
        game_id: str,
        batch_id: str,
        taken: Callable[[], Sequence[Append]] = tuple,
        meter: GameMeter | None = None,
    ) -> None:
        self._log = log
        self._meter = meter
        self._taken = taken
        """Gives the appends on which the next step builds."""
        self._feed = feed
        self._game_id = game_id
        self._batch_id = batch_id

    async def append(self, events: Sequence[Event], also: Sequence[Write] = ()) -> None:
        await self._log.append(events, self._taken(), partial(self._tell, events), also)

    def _tell(self, events: Sequence[Event], lines: Sequence[LogLine]) -> None:
        metrics.events_written.labels("played").inc(len(events))
        self._feed.committed(self._game_id, lines)
        if self._meter is not None:
            self._meter.count(events, lines[-1].at)
        last = events[-1]
        if isinstance(last, GameEnded):
            metrics.games_ended.labels("finished", last.winner.value).inc()
            self._feed.hint(self._batch_id)
        elif isinstance(last, GameCancelled):
            metrics.games_ended.labels("cancelled", "").inc()
            self._feed.hint(self._batch_id)


class GatheringJournal:
    """Appends many steps together, as fits a game whose seats answer at once: each append waits for its
    commit, which takes as long as ten steps. After a few steps the game waits for its turn to go on.
    """

    def __init__(self, journal: TellingJournal, turn: Callable[[], Awaitable[None]]) -> None:
        self._journal = journal
        self._turn = turn
        self._gathered: list[Event] = []
        self._steps = 0

    async def append(self, events: Sequence[Event]) -> None:
        self._gathered += events
        self._steps += 1
        if self._steps % STEPS_TOGETHER == 0 or isinstance(events[-1], GameEnded):
            gathered, self._gathered = self._gathered, []
            await self._journal.append(gathered)
        if self._steps % STEPS_A_TURN == 0:
            await self._turn()


async def _at_once() -> None:
    return None


async def drive(
    database: Database,
    store: GameStore,
    reader: LogReader,
    feed: Feed,
    models: ModelRegistry,
    inboxes: Inboxes,
    game_id: str,
    on_wait: Callable[[], None] = lambda: None,
    job: int | None = None,
    turn: Callable[[], Awaitable[None]] = _at_once,
) -> None:
    """Plays the game to its end. Returns at once for a game that is over or manual.

    A game whose budget no longer pays for a model's answer is cancelled for that reason. ``on_wait`` is
    called each time the game waits for a remote seat, or for an endpoint that does not answer. ``job``: of
    the queue; nothing is appended unless it drives the game. None: there is no queue. ``turn``: waits until
    a game of scripts may compute its next steps, which takes a few milliseconds.

    Raises Conflict when somebody else drives the game too, GameWaits when a remote seat takes long, Unfounded
    when an answer that an agent took was not committed, SeatAbsent when a stand-in has taken a seat over and
    the game goes on from its log, Stop where a model stops the game, and every error of an agent.
    """
    # With a queue, others may have driven it since.
    row = (reader.new_row(game_id) if job is None else None) or await store.game(game_id)
    if row is None or row.status not in OPEN or row.drive != "auto":
        return
    log = await reader.to_drive(game_id, row.head)
    seats = row.seats
    paid, remote = has_models(seats), bool(remote_seats(seats))
    batch = await store.batch(row.batch_id) if paid or remote else None
    inbox = inboxes.of(row, batch, on_wait) if batch is not None and remote else None
    game_log = GameLog(database, game_id, len(log), DecisionCounter(log), job)
    taken = tuple if inbox is None else inbox.taken
    meter = GameMeter(row, timed=not has_only_scripts(seats))
    meter.begin(len(log))
    journal = TellingJournal(game_log, feed, game_id, row.batch_id, taken, meter)
    asked = await models.seats(row, batch, on_wait, job) if batch is not None and paid else None
    try:
        agents = seat_agents(seats, row.seed, asked, inbox)
    except InvalidAgent as fault:
        raise _lacks(fault) from None
    if (agents_now := _stand_ins(row, log)) is not None:
        await journal.append([agents_now])
        log.append(agents_now)
    with nullcontext() if inbox is None else inboxes.driving(inbox, len(log)):
        try:
            if has_only_scripts(seats):
                await turn()
                await play(log, agents, GatheringJournal(journal, turn))
            else:
                await play(log, agents, journal)
        except BudgetSpent:
            await journal.append(cancel(BUDGET_SPENT))
        except InvalidAgent as fault:
            raise _lacks(fault) from None  # its endpoint was taken out while it waited there
        except SeatAbsent as absent:
            if not await store.stand_in(game_id, absent.seat, now_ms(), job):
                raise Conflict("the game is not driven here any more") from None
            stand_ins.inc()
            feed.hint(held_name(game_id, absent.seat))
            raise


def _lacks(fault: InvalidAgent) -> BatchStops:
    """The seats could be made when the game was created: something has changed, or is different here."""
    words = f"{fault} ({fault.pointer}); put the settings of every process right and resume the batch"
    return BatchStops("", SETTINGS, words)


def _stand_ins(row: GameRow, log: Sequence[Event]) -> AgentsSeated | None:
    """The agents that play from here on, if the log does not tell yet that a stand-in is among them."""
    last = next((event for event in reversed(log) if isinstance(event, AgentsSeated)), None)
    if last is None or all(
        agent.agent != REMOTE or spec["agent"] == REMOTE
        for agent, spec in zip(last.agents, row.seats, strict=True)
    ):
        return None
    created = log[0]
    assert isinstance(created, GameCreated)
    now = seated(row.seats, row.seed, created.profile)
    return AgentsSeated(
        tuple(
            fresh if before.agent == REMOTE else before
            for before, fresh in zip(last.agents, now, strict=True)
        )
    )
