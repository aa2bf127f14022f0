"""Drives the games of one process as asyncio tasks. `pickup` finds these games, or `queued` on PostgreSQL."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import structlog

from app.base import metrics
from app.base.clock import now_ms, random_name
from app.base.off_loop import whose
from app.base.pace import Pace
from app.base.tasks import end_tasks, keep_going
from app.models.registry import ModelRegistry
from app.models.stops import UNUSABLE, BatchStops, GameParks, GameStops, Stop
from app.runner.drive import drive
from app.runner.line import Line
from app.seats.inboxes import GameWaits, Inboxes, SeatAbsent
from app.store.db import PASSING, Conflict, Database, Unfounded, is_ours
from app.store.games import GameStore, Suspension
from app.store.log import LogReader
from app.stream.feed import Feed
from app.stream.shared import unbroken

__all__ = ["Ended", "LocalRunner"]

log = structlog.get_logger()


RETRY_FIRST_S: Final = 0.5
RETRY_LAST_S: Final = 15.0

TRIES_AFTER_S: Final = 1.0
"""Seconds in which a game that is queued to try an endpoint has to begin, before another one is queued."""

MOST_FAILED: Final = 0.05
"""The share of a batch's games that may fail before the batch is suspended."""


Ended = bool | GameParks | GameWaits
"""How a process has finished with a game: True: the game is over; False: it was left to another process,
released or suspended; otherwise it goes on once that wait is over.
"""


class LocalRunner:
    """Drives up to ``parallel`` games at the same time; the other games queue, and owners take turns. An
    owner without a driven game does not wait: its first game gets a place beyond these. So does a game that
    was submitted with a place of its own.

    A game that waits for a remote seat gives its place to the next game: people take their time. So does a
    game whose model does not answer, except for one that tries whether it answers again.
    """

    def __init__(
        self,
        database: Database,
        store: GameStore,
        reader: LogReader,
        feed: Feed,
        models: ModelRegistry,
        inboxes: Inboxes,
        parallel: int,
        pace: Pace,
    ) -> None:
        """``pace``: makes games of scripts take turns, so that they do not hold up everything else."""
        self._pace = pace
        self._database = database
        self._store = store
        self._reader = reader
        self._feed = feed
        self._models = models
        self._inboxes = inboxes
        self._line = Line()
        self._owners: dict[str, str] = {}
        """The owners of the games in ``_over``."""
        self._waiting: set[str] = set()
        self._beyond: set[str] = set()
        """Of the games that wait or have a place, those that were submitted with one."""
        self._active: dict[str, asyncio.Task[Ended]] = {}
        self._freed: dict[str, asyncio.Future[None]] = {}
        self._over: dict[str, asyncio.Future[Ended]] = {}
        self._jobs: dict[str, int] = {}
        """The jobs of the games that have one."""
        self._workers: set[asyncio.Task[None]] = set()
        self._parked: dict[str, dict[str, tuple[str, ...]]] = {}
        """By endpoint that does not answer, the games that wait for it without a place, in their order, each
        with whose question waits.
        """
        self._unparking: set[asyncio.Task[None]] = set()
        self._parallel = parallel
        self._stopping = False
        self.on_suspended: Callable[[str], None] = lambda batch_id: None
        """Called with the id of a batch that has been suspended: somebody has to release its games."""

    @property
    def has_room(self) -> bool:
        """Whether a game that is queued now would start soon."""
        return len(self._waiting) < self._parallel

    @property
    def begun(self) -> set[str]:
        """The games that this process has begun: it drives them, or they wait without a place."""
        return self._over.keys() - self._waiting

    def waits(self, game_id: str, patience_s: float) -> bool:
        """Whether the game can go on only once its endpoint answers again, or one of its people does, who has
        been asked for ``patience_s`` seconds.
        """
        if any(game_id in games for games in self._parked.values()):
            return True
        calls = self._models.calls_wait(game_id)
        return all(calls) and (bool(calls) or self._inboxes.waited_s(game_id) >= patience_s)

    @property
    def _has_place(self) -> bool:
        return len(self._freed) < self._places

    @property
    def _places(self) -> int:
        return self._parallel + len(self._beyond)

    @property
    def taken(self) -> int:
        """The places that are taken, or will be at once, without those beyond."""
        return len(self._waiting) + len(self._freed) - len(self._beyond)

    @property
    def beyond(self) -> int:
        """The places that games were submitted with."""
        return len(self._beyond)

    def submit(
        self,
        game_ids: Iterable[str],
        jobs: Mapping[str, int] | None = None,
        owner: str = "",
        *,
        beyond: bool = False,
    ) -> dict[str, asyncio.Future[Ended]]:
        """Queues games. A game that is queued or driven already is not queued twice. ``jobs``: the job of
        each game; nothing is appended to a game that its job does not drive any more. ``owner``: whose they
        are. ``beyond``: each brings a place of its own, until it ends or gives up its place.

        Returns a future for each game, which is done when this process has finished with the game. A game
        without a job is kept while it waits, so that its future gives True, or False after ``release``.
        """
        self._jobs.update(jobs or {})
        over = {}
        new = []
        for game_id in game_ids:
            if game_id not in self._over:
                self._over[game_id] = asyncio.get_running_loop().create_future()
                self._owners[game_id] = owner
                new.append(game_id)
            over[game_id] = self._over[game_id]
        if beyond:
            self._beyond.update(new)
        self._queue(new)
        return over

    def _queue(self, game_ids: Iterable[str]) -> None:
        for game_id in game_ids:
            self._waiting.add(game_id)
            self._line.add(game_id, self._owners.get(game_id, ""))
        metrics.games_waiting.set(len(self._waiting))
        # Workers live while there is work: an idle service holds no tasks.
        while len(self._workers) < min(self._places, len(self._waiting) + len(self._freed)):
            self._workers.add(asyncio.create_task(self._worker(), name="runner"))
        if self._line.is_urgent and not self._has_place:
            self._workers.add(asyncio.create_task(self._worker(), name="runner"))

    async def _worker(self) -> None:
        try:
            await self._work()
        finally:
            # At once, not in a callback: a game queued in between would find no worker.
            self._workers.discard(asyncio.current_task())

    async def _work(self) -> None:
        while not self._stopping and self._line and (self._has_place or self._line.is_urgent):
            game_id, owner = self._line.take()
            if game_id not in self._waiting:
                continue  # released while it was queued
            self._waiting.discard(game_id)
            freed = asyncio.get_running_loop().create_future()
            self._freed[game_id] = freed
            self._line.seat(game_id, owner)
            task = asyncio.create_task(self._guarded(game_id), name=f"drive {game_id}")
            self._active[game_id] = task
            task.add_done_callback(lambda task, game_id=game_id: self._ended(game_id, task))  # type: ignore[misc]
            metrics.games_active.set(len(self._active))
            metrics.games_waiting.set(len(self._waiting))
            await freed

    def _step_aside(self, game_id: str) -> None:
        """Lets the worker of a game that waits for a remote seat go on to the next game."""
        self._line.leave(game_id)
        self._beyond.discard(game_id)
        freed = self._freed.pop(game_id, None)
        if freed is not None and not freed.done():
            freed.set_result(None)

    def _ended(self, game_id: str, task: "asyncio.Task[Ended]") -> None:
        self._active.pop(game_id, None)
        if task.cancelled():
            self._leave(game_id, False)
        elif task.exception() is not None:
            log.error(
                "driving a game broke; it is taken up again from its last event",
                game=game_id,
                exc_info=task.exception(),
            )
            self._leave(game_id, False)
        elif isinstance(ended := task.result(), GameParks) and game_id not in self._jobs:
            self._park(game_id, ended)
        else:
            self._leave(game_id, ended)
        self._step_aside(game_id)
        metrics.games_active.set(len(self._active))
        metrics.games_waiting.set(len(self._waiting))

    def _leave(self, game_id: str, ended: Ended) -> None:
        self._jobs.pop(game_id, None)
        self._owners.pop(game_id, None)
        waited = self._over.pop(game_id, None)
        if waited is not None and not waited.done():
            waited.set_result(ended)

    def _park(self, game_id: str, parks: GameParks) -> None:
        """Keeps the game out of the line until its endpoint answers, if that still exists."""
        endpoint = parks.endpoint
        if endpoint not in self._models.endpoints.settings:
            self._queue([game_id])
            return
        if endpoint not in self._parked:
            self._parked[endpoint] = {}
            task = keep_going(partial(self._unpark, endpoint), f"parked at {endpoint}")
            self._unparking.add(task)
            task.add_done_callback(self._unparking.discard)
        self._parked[endpoint][game_id] = parks.asker
        metrics.games_parked.labels(endpoint).set(len(self._parked[endpoint]))

    async def _unpark(self, endpoint: str) -> None:
        """Queues the games again that are parked at this endpoint: all of them as soon as it answers. Until
        then it queues one at a time, so that somebody tries whether the endpoint answers.
        """
        games = self._parked[endpoint]
        health = self._models.endpoints.source(endpoint).health
        while games:
            answers = await health.back()
            first = sorted(games, key=lambda one: health.rank(games[one]))
            for game_id in first if answers else first[:1]:
                del games[game_id]
                self._queue([game_id])
            metrics.games_parked.labels(endpoint).set(len(games))
            if not answers:
                await asyncio.sleep(TRIES_AFTER_S)
        del self._parked[endpoint]

    async def _guarded(self, game_id: str) -> Ended:
        """Drives the game until it has ended or failed, or somebody else has to do something."""
        # Not the request that happened to start this task's worker.
        structlog.contextvars.clear_contextvars()
        delay_s, owner = RETRY_FIRST_S, self._owners.get(game_id, "")
        whose.set(owner)
        while True:
            try:
                await drive(
                    self._database,
                    self._store,
                    self._reader,
                    self._feed,
                    self._models,
                    self._inboxes,
                    game_id,
                    lambda: self._step_aside(game_id),
                    self._jobs.get(game_id),
                    lambda: self._pace.turn(owner),
                )
            except (GameParks, GameWaits) as wait:
                return wait
            except Stop as stop:
                # Whoever finds that the game is over must not interrupt what follows from that.
                return await unbroken(self._stop_game(game_id, stop))
            except (SeatAbsent, Unfounded):
                continue  # the game goes on from the end of its log
            except Conflict:
                # Another process has appended to the log: this process's state of the game is stale.
                log.warning("another process has written to a game: this one gives it up", game=game_id)
                return False
            except PASSING as fault:
                if is_ours(fault):
                    await self._fail(game_id)
                    return True
                # The database is away, the game is not broken: it goes on from the end of its log.
                cause = type(fault).__name__
                log.debug("the database is away", game=game_id, again_in_s=delay_s, cause=cause)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, RETRY_LAST_S)
                continue
            except Exception:
                await self._fail(game_id)
            return True

    async def _stop_game(self, game_id: str, stop: Stop) -> bool:
        """Stores why the game does not go on. Returns whether it is over."""
        row = await self._store.game(game_id)
        assert row is not None
        if isinstance(stop, BatchStops):
            words = stop.words
            if stop.cause == UNUSABLE:
                words += "; `interintent answers export` writes them all"
            why = Suspension(now_ms(), stop.endpoint, stop.cause, words)
            await self._suspend(row.batch_id, why, self._jobs.get(game_id))
            return False
        if isinstance(stop, GameStops):
            log.warning("a game is suspended", batch=row.batch_id, game=game_id, cause=str(stop))
            await self._store.suspend_game(game_id, str(stop), self._jobs.get(game_id))
            self._feed.hint(game_id)
            self._feed.hint(row.batch_id)
            return False
        log.warning("a game failed", batch=row.batch_id, game=game_id, cause=str(stop))
        return await self._mark_failed(game_id, str(stop))

    async def _suspend(self, batch_id: str, why: Suspension, job: int | None = None) -> None:
        """Suspends the batch, and releases all its games. ``job``: the job of the game that stops it; without
        it, a process that stood still could suspend a batch for an outdated reason.
        """
        if await self._store.suspend(batch_id, why, job):
            self._tell_suspended(batch_id, why)
        self._release_batch(batch_id)

    def _tell_suspended(self, batch_id: str, why: Suspension) -> None:
        log.warning(
            "a batch is suspended until it is resumed",
            batch=batch_id,
            endpoint=why.endpoint,
            cause=why.cause,
            words=why.words,
        )
        metrics.batches_suspended.labels(why.cause).inc()
        self._feed.hint(batch_id)

    def _release_batch(self, batch_id: str) -> None:
        # Not at once: letting go cancels the task that has called this.
        asyncio.get_running_loop().call_soon(self.on_suspended, batch_id)

    async def _fail(self, game_id: str) -> None:
        fault = random_name()
        log.exception("a game failed", game=game_id, trace_id=fault)
        await unbroken(self._mark_failed(game_id, fault))

    async def _mark_failed(self, game_id: str, fault: str) -> bool:
        """Ends the game as failed, and suspends its batch if too many have. Returns whether it did."""

        def suspends(failed: int, count: int) -> Suspension | None:
            if failed <= MOST_FAILED * count:
                return None
            words = f"{failed} of {count} games failed; the last: {fault}"
            return Suspension(now_ms(), "", "games_failed", words)

        job = self._jobs.get(game_id)
        has_failed, too_many = await self._store.mark_failed(game_id, fault, now_ms(), job, suspends)
        if has_failed:
            metrics.games_ended.labels("failed", "").inc()
            self._feed.hint(game_id)
        if too_many is not None:
            batch_id = (await self._store.batches_of([game_id]))[game_id]
            self._tell_suspended(batch_id, too_many)
            self._release_batch(batch_id)
        return has_failed

    async def release(self, game_id: str) -> None:
        """Stops driving this game, and returns when its task has ended."""
        task = self._active.get(game_id)
        if task is not None:
            await end_tasks(task)
            return
        self._waiting.discard(game_id)
        self._beyond.discard(game_id)
        for endpoint, games in self._parked.items():
            if games.pop(game_id, None) is not None:
                metrics.games_parked.labels(endpoint).set(len(games))
        self._leave(game_id, False)

    async def stop(self) -> None:
        """Stops between two steps. The next start continues after the last commit."""
        self._stopping = True
        await end_tasks(*self._unparking, *self._workers)
        await end_tasks(*self._active.values())
        self._waiting.clear()
