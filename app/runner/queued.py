"""Drives games by jobs (PostgreSQL): any number of processes share all games of all batches.

Each process picks jobs for as many games as it has places, and beats for them. What becomes of a game is
settled in one transaction with its job (`app/store/jobs.py`). A game that waits for long, for a person or for
an endpoint, gives its job back and gets one that begins later.
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from app.base import metrics
from app.base.tasks import end_tasks, keep_going
from app.models.registry import ModelRegistry
from app.models.stops import GameParks
from app.runner.beats import Beats, end_process
from app.runner.claims import JobClaims
from app.runner.local import Ended, LocalRunner
from app.seats.inboxes import GameWaits
from app.store.db import PASSING, Database, answering, is_ours
from app.store.games import GameStore
from app.store.jobs import (
    ARRANGE,
    FIRST,
    GAME,
    LAYOUT,
    STOPS,
    Begun,
    JobStore,
    game_of,
    give_back_unheard,
    pick_abandoned,
    queries_on,
)

if TYPE_CHECKING:
    from pgqueuer.adapters.persistence.queries import Queries
    from pgqueuer.models import Job
    from pgqueuer.ports.repository import EntrypointExecutionParameter
    from pgqueuer.types import QueueEntrypoint, QueueManagerId

__all__ = ["LayOut", "Queued"]

log = structlog.get_logger()

LOOK_S: Final = 0.5
"""Seconds between searches for jobs, unless the queue says that there is a new one."""

GATHER_S: Final = 0.01
"""Seconds in which places that become free are gathered, so that one look serves several."""

TOGETHER: Final = 8
"""The most jobs that a process picks at once, before other processes get their turn."""

KEPT: Final = 8
"""One place in so many is kept for the first games of batches."""

LAYOUTS: Final = 2
"""The most batches that a process lays out at once, beside its games."""

WATCH_S: Final = 1.0
"""Seconds between checks whether this process's games may go on, unless it hears that some may not."""

SURE_S: Final = 0.5
"""The share of the time until a job counts as abandoned for which such a check holds."""

SWEEP_S: Final = 30.0
"""Seconds between two searches for games without a job, or parked by a process that is gone."""

THOROUGH: Final = 20
"""One search in so many is thorough."""

PARKED_S: Final = 900.0
"""Seconds until a game tries an endpoint that nobody found answering again."""

TRIES_AFTER_S: Final = 1.0
"""Seconds in which a game that is woken to try an endpoint has to begin, before another one is woken."""

AGAIN_S: Final = 1.0
"""Seconds until a game goes on to which somebody else wrote."""

AWAY_S: Final = 1.0
"""Seconds until the next attempt at a database that does not answer."""

CHANNEL: Final = "ch_pgqueuer"
"""The queue's own notifications."""

LOG_S: Final = 3600.0
"""Seconds for which the queue's own log is kept."""

LayOut = Callable[[str], Awaitable[None]]
"""Takes a batch id; creates the rest of its games, or cancels all of them if the batch is cancelled."""


class Queued:
    """The jobs of one process. In a process that drives no games it is never started."""

    def __init__(
        self,
        database: Database,
        jobs: JobStore,
        store: GameStore,
        runner: LocalRunner,
        models: ModelRegistry,
        *,
        places: int,
        stale_s: float,
        drain_s: float,
        on_hung: Callable[[], None] = end_process,
    ) -> None:
        """``places``: games driven at the same time. ``stale_s``: seconds without a beat after which another
        process takes a job. ``drain_s``: seconds that calls in flight may take when the process stops.
        """
        self._database = database
        self._jobs = jobs
        self._store = store
        self._runner = runner
        self._models = models
        self._places = places
        self._kept = places // KEPT
        self._stale = timedelta(seconds=stale_s)
        self._drain_s = drain_s
        self._own = cast("QueueManagerId", uuid.uuid4())
        self._held: dict[int, Job] = {}
        """The jobs that this process works on, by id."""
        self._driven: dict[str, Begun] = {}
        """What it drives, by game."""
        self._ended: list[Job] = []
        """Jobs whose games are over, which have to leave the queue."""
        self._more = asyncio.Event()
        self._look_again = asyncio.Event()
        self._poked = False
        """Whether something was offered since the last look that found nothing."""
        self._tasks: list[asyncio.Task[None]] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._laying: set[asyncio.Task[None]] = set()
        self._unparking: dict[str, asyncio.Task[None]] = {}
        self._just_parked: set[str] = set()
        """Endpoints at which a game was parked since ``_unpark`` last began to look."""
        self.claims = JobClaims(jobs, self._own, stale_s)
        """What this process judges."""
        self._beats = Beats(
            database.url, lambda: [*self._held, *self.claims.held], stale_s, on_hung, self._on_silence
        )
        self._lay_out: LayOut | None = None
        self._stopping = asyncio.Event()
        self._drained_at = math.inf
        """When this process waits for no call any more."""
        self._checked_at = time.monotonic()
        """When the latest check began whose losses have been let go."""
        self._checked = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether this process works on a job that could go on now, or has not looked yet since something was
        offered.
        """
        return bool(self._poked or self._ended or len(self._held) > self.standing)

    @property
    def standing(self) -> int:
        """How many of its jobs drive games that wait for an endpoint, to try it again."""
        return sum(self._runner.waits(game_id, math.inf) for game_id in self._driven)

    async def start(self, lay_out: LayOut) -> int:
        """Drives games from now on. Returns how many had lost their job."""
        self._lay_out = lay_out
        found = await self._jobs.sweep(await self._store.unlaid_batches())
        self._checked_at = time.monotonic()
        self._beats.start()
        for work, name in ((self._feed, "queue"), (self._watch, "watch"), (self._sweep, "sweep")):
            self._tasks.append(keep_going(work, name))
        return found

    async def stop(self) -> None:
        """Stops driving between two steps and gives the games back: those that wait for no call at once, the
        others as soon as their calls have landed, or after ``drain_s`` seconds.
        """
        self._stopping.set()
        self._drained_at = time.monotonic() + self._drain_s
        await end_tasks(*self._tasks, *self._laying, *self._unparking.values())
        self._checked.set()
        if self._lay_out is None:
            return
        await asyncio.gather(*(self._runner.release(game_id) for game_id in list(self._driven)))
        # The futures of released games call back in the loop's next turn.
        await asyncio.sleep(0)
        while self._settling:
            await asyncio.wait(self._settling)
        try:
            async with self._session() as queries:
                await self._clear(queries)
                # Also what it was picking, or laying out.
                await give_back_unheard(queries, self._own, ())
        except PASSING as fault:
            log.warning(
                "stopped without telling the queue which games are over; it finds out by itself",
                cause=type(fault).__name__,
            )

    async def close(self) -> None:
        """Gives the judges back to the queue, and stops beating for jobs."""
        try:
            await self.claims.stop()
        except PASSING as fault:
            log.warning(
                "stopped without giving back the judges; other processes take them over",
                cause=type(fault).__name__,
            )
        await self._beats.stop()

    async def offer(self, batch_id: str, game_ids: Sequence[str] | None) -> None:
        """Looks for jobs at once, if this process drives games."""
        if self._lay_out is not None and not self._stopping.is_set():
            self._poked = True
            self._more.set()

    def let_go(self, batch_id: str) -> None:
        """Stops driving the games of a batch between two steps."""
        for begun in list(self._driven.values()):
            if begun.batch_id == batch_id:
                self._drop(begun)

    async def surely_ours(self) -> None:
        """Returns at once if what this process drives was its own a moment ago; otherwise once it has let go
        of what others took over. A process that stood still must not pay for answers that others have.
        """
        while (
            self._lay_out is not None
            and not self._stopping.is_set()
            and time.monotonic() - self._checked_at > SURE_S * self._stale.total_seconds()
        ):
            self._look_again.set()
            await self._checked.wait()

    # --- picking ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncIterator["Queries"]:
        """A connection of its own for picking and for what the queue tells."""
        engine = self._database.engine_beside()
        try:
            async with engine.connect() as connection:
                raw: Any = (await connection.get_raw_connection()).driver_connection
                async with answering():
                    await raw.add_listener(CHANNEL, self._on_change)
                    await raw.add_listener(STOPS, self._on_stop)
                yield queries_on(raw)
        finally:
            await engine.dispose()

    def _on_change(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if '"insert"' in payload:
            self._more.set()

    def _on_stop(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        self._look_again.set()

    async def _feed(self) -> None:
        while True:
            try:
                async with self._session() as queries:
                    async with answering():
                        await give_back_unheard(queries, self._own, list(self._held))
                    while True:
                        await self._look(queries)
            except PASSING as fault:
                if is_ours(fault):
                    log.exception(
                        "cannot read the queue: no further games begin in this process; it tries again"
                    )
                else:
                    log.warning(
                        "cannot read the queue: no further games begin in this process; it tries again",
                        cause=type(fault).__name__,
                    )
            await asyncio.sleep(AWAY_S)

    async def _look(self, queries: "Queries") -> None:
        """Picks jobs as long as there are both jobs and places, then waits for more."""
        self._more.clear()
        while await self._pick(queries):
            pass
        await self._take_over(queries)
        if not self._more.is_set():
            self._poked = False
        try:
            async with asyncio.timeout(LOOK_S):
                await self._more.wait()
        except TimeoutError:
            return
        await asyncio.sleep(GATHER_S)

    async def _pick(self, queries: "Queries") -> bool:
        """Picks some jobs and begins them. Returns whether there may be more that would find a place."""
        await self._clear(queries)
        taken = self._runner.taken
        kinds = [LAYOUT, ARRANGE] if len(self._laying) < LAYOUTS else []
        room = self._places - self._kept - taken
        if room > 0:
            kinds += [FIRST, GAME]
        elif (room := self._places - taken) > 0:
            kinds.append(FIRST)
        if not kinds:
            return False
        most = max(1, min(room, TOGETHER))
        async with answering():
            picked = await queries.dequeue(most, _without_limit(kinds), self._own, None, self._stale)
        await self._begin_all(picked)
        return len(picked) == most and room > most

    async def _take_over(self, queries: "Queries") -> None:
        """Without a free place for them, takes games beyond its places that lost their process, up to as many
        as it has places.
        """
        room = self._places - self._runner.beyond
        if room <= 0 or self._runner.taken < self._places - self._kept:
            return
        async with answering():
            picked = await pick_abandoned(queries, self._own, min(room, TOGETHER), self._stale)
        await self._begin_all(picked, beyond=True)

    async def _begin_all(self, picked: "Sequence[Job]", *, beyond: bool = False) -> None:
        """Begins picked jobs. ``beyond``: their games do not count among the places."""
        # A late beat lets this process pick again what it still works on.
        new = [job for job in picked if job.id not in self._held]
        games = [job for job in new if job.entrypoint not in (LAYOUT, ARRANGE)]
        for job in new:
            if job.entrypoint == LAYOUT:
                self._begin_beside(job, self._laid_out(job), f"batch {game_of(job)}")
            elif job.entrypoint == ARRANGE:
                self._begin_beside(job, self._arranged(job), ARRANGE)
        if games:
            try:
                begun = {one.job: one for one in await self._jobs.begin([job.id for job in games])}
                known = {one.batch_id for one in self._driven.values()}
                if any(one.batch_id not in known for one in begun.values()):
                    # Somebody may have mended them while the batch stood still.
                    await self._models.endpoints.read_again()
            except BaseException:
                # Forgotten, they would belong to this process until they count as abandoned.
                for job in games:
                    self._return(job)
                raise
            for job in games:
                if job.id in begun:
                    self._begin(job, begun[job.id], beyond=beyond)
                else:
                    # It has begun before, and its process fell silent; or it must not go on.
                    self._return(job)

    def _return(self, job: "Job") -> None:
        """Gives back a picked job of a game that this process does not drive."""
        self._held[job.id] = job
        self._spawn(self._settle(job, False, again=True))

    async def _clear(self, queries: "Queries") -> None:
        """Removes the jobs of games that are over from the queue."""
        if self._ended:
            ended, self._ended = self._ended, []
            try:
                async with answering():
                    await queries.log_jobs([(job, "successful", None) for job in ended])
            except BaseException:
                self._ended += ended
                raise
            for job in ended:
                self._held.pop(job.id, None)

    def _begin(self, job: "Job", begun: Begun, *, beyond: bool) -> None:
        self._held[job.id] = job
        self._driven[begun.game_id] = begun
        self._count()
        jobs = {begun.game_id: begun.job}
        future = self._runner.submit([begun.game_id], jobs, begun.owner, beyond=beyond)[begun.game_id]
        future.add_done_callback(lambda ended: self._done(job, begun, ended))

    def _begin_beside(self, job: "Job", work: Coroutine[Any, Any, None], name: str) -> None:
        """Begins a job that drives no game."""
        self._held[job.id] = job
        task = asyncio.create_task(work, name=name)
        self._laying.add(task)
        task.add_done_callback(self._laying.discard)

    async def _arranged(self, job: "Job") -> None:
        try:
            await self._jobs.arrange(job)
        except Exception as fault:
            # Without a beat, another process picks it again.
            log.warning(
                "cannot put an owner's waiting games in order; another process tries again",
                cause=type(fault).__name__,
            )
        finally:
            self._held.pop(job.id, None)

    async def _laid_out(self, job: "Job") -> None:
        assert self._lay_out is not None
        batch_id = game_of(job)
        try:
            while True:
                try:
                    await self._lay_out(batch_id)
                except PASSING as fault:
                    if is_ours(fault):
                        raise
                    log.warning("the database is away", batch=batch_id, cause=type(fault).__name__)
                    await asyncio.sleep(AWAY_S)
                    continue
                break
        except Exception:
            log.exception("cannot create the rest of a batch; it is tried again later", batch=batch_id)
        self._ended.append(job)
        self._more.set()

    # --- what becomes of a game --------------------------------------------------------------

    def _done(self, job: "Job", begun: Begun, future: "asyncio.Future[Ended]") -> None:
        if self._driven.get(begun.game_id) is begun:
            del self._driven[begun.game_id]
        self._count()
        ended = False if future.cancelled() else future.result()
        if ended is True:
            self._ended.append(job)
            self._more.set()
        else:
            self._spawn(self._settle(job, ended))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name="settling")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, job: "Job", ended: Ended, *, again: bool = False) -> None:
        """Ends the job of a game that is not over, and has the game go on when it can. ``again``: it was
        picked again.
        """
        game_id = game_of(job)
        with suppress(*PASSING):
            if await self._store.is_being_cancelled(game_id):
                self._models.hang_up(game_id)
        # Other calls in flight are paid for: nobody else may ask the same meanwhile.
        await self._land(game_id)
        try:
            while True:
                try:
                    await self._hand_back(job, ended, again=again)
                except PASSING as fault:
                    if is_ours(fault) or self._stopping.is_set():
                        raise
                    log.debug("the database is away", game=game_id, cause=type(fault).__name__)
                    await asyncio.sleep(AWAY_S)
                    continue
                break
        except Exception as fault:
            # Without a beat, another process picks it again.
            log.warning(
                "cannot tell the queue what became of a game; another process takes it up",
                game=game_id,
                cause=type(fault).__name__,
            )
        finally:
            self._held.pop(job.id, None)
            self._more.set()

    async def _land(self, game_id: str) -> None:
        """Waits until the game's calls in flight are stored, at most until ``drain_s`` seconds after the
        process began to stop.
        """
        landing = asyncio.create_task(self._models.landed(game_id), name=f"land {game_id}")
        stopping = asyncio.create_task(self._stopping.wait(), name=f"land {game_id}: stopping")
        await asyncio.wait((landing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not landing.done():
            await asyncio.wait((landing,), timeout=max(0.0, self._drained_at - time.monotonic()))
        await end_tasks(landing, stopping)

    async def _hand_back(self, job: "Job", ended: Ended, *, again: bool) -> None:
        if isinstance(ended, GameParks):
            await self._jobs.hand_back(job, after_s=PARKED_S, endpoint=ended.endpoint)
            await self._park(ended.endpoint)
        elif isinstance(ended, GameWaits):
            left_s = max(0.0, ended.until - time.monotonic())
            await self._jobs.hand_back(job, after_s=left_s, waits_for=ended.requests)
        else:
            # Who has written to it meanwhile, or cancels it, gets time to finish.
            at_once = again or self._stopping.is_set()
            await self._jobs.hand_back(job, after_s=0.0 if at_once else AGAIN_S, abandoned=True)

    def _on_silence(self) -> None:
        if not self._stopping.is_set():
            self._spawn(self._drop_silent())

    async def _drop_silent(self) -> None:
        """Has the games wait no longer for connections that are as silent as that of the beats."""
        with suppress(*PASSING):  # the beats say so
            await self._database.drop_silent()

    def _drop(self, begun: Begun) -> asyncio.Task[None]:
        return self._spawn(self._runner.release(begun.game_id))

    def _count(self) -> None:
        metrics.batches_driven.set(len({begun.batch_id for begun in self._driven.values()}))

    # --- games that wait for an endpoint ------------------------------------------------------

    async def _adopt_parked(self) -> None:
        """Sees to the games that wait for an endpoint of this process: whoever parked them may be gone."""
        endpoints = self._models.endpoints
        await endpoints.look()
        parked = await self._jobs.parked_at()
        for endpoint in endpoints.settings:
            if endpoint not in parked:
                # They may have been cancelled or suspended, or woken by another process.
                metrics.games_parked.labels(endpoint).set(0)
            elif endpoint not in self._unparking:
                await self._park(endpoint)

    async def _park(self, endpoint: str) -> None:
        self._just_parked.add(endpoint)
        if endpoint not in self._unparking and not self._stopping.is_set():
            task = keep_going(partial(self._unpark, endpoint), f"parked at {endpoint}")
            self._unparking[endpoint] = task
        metrics.games_parked.labels(endpoint).set(await self._jobs.parked(endpoint))

    async def _unpark(self, endpoint: str) -> None:
        """Wakes the games that wait for this endpoint: all of them once it answers, and one whenever no other
        game would try whether it does.
        """
        while True:
            endpoints = self._models.endpoints
            gone = endpoint not in endpoints.settings
            health = None if gone else endpoints.source(endpoint).health
            answers = health is None or await health.back()
            self._just_parked.discard(endpoint)
            try:
                first = None if health is None or answers else health.rank
                await self._jobs.wake(endpoint, first)
                left = await self._jobs.parked(endpoint)
            except PASSING as fault:
                log.warning(
                    "cannot wake the games that wait for an endpoint; it is tried again",
                    endpoint=endpoint,
                    cause=type(fault).__name__,
                )
                await asyncio.sleep(AWAY_S)
                continue
            self._more.set()
            metrics.games_parked.labels(endpoint).set(left)
            if (answers or not left) and endpoint not in self._just_parked:
                # At once, not in a callback: a game parked in between would find nobody to wake it.
                del self._unparking[endpoint]
                return
            await asyncio.sleep(TRIES_AFTER_S)

    # --- care -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Lets go of games that another process has taken over, and of those that must not go on."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._look_again.wait()
            self._look_again.clear()
            began = time.monotonic()
            driven = list(self._driven.values())
            try:
                await self.claims.look()
                kept = await self._jobs.kept([begun.job for begun in driven]) if driven else set()
            except PASSING as fault:
                log.warning(
                    "cannot see which games were stopped or taken over; it is tried again",
                    cause=type(fault).__name__,
                )
                continue
            lost = [begun for begun in driven if begun.job not in kept]
            if lost:
                # A game that has just ended is no longer driven either: it gets time to say so.
                await asyncio.sleep(GATHER_S)
            dropped = [self._drop(begun) for begun in lost if self._driven.get(begun.game_id) is begun]
            if dropped:
                await asyncio.wait(dropped, timeout=WATCH_S)
            self._checked_at = began
            self._checked.set()
            self._checked.clear()

    async def _sweep(self) -> None:
        for turn in count():
            thorough = turn % THOROUGH == 0 and turn > 0
            found = 0
            try:
                if turn:  # `start` has just done this
                    found = await self._jobs.sweep(await self._store.unlaid_batches() if thorough else None)
                if thorough:
                    await self._jobs.prune(LOG_S)
                await self._adopt_parked()
            except PASSING as fault:
                log.warning(
                    "cannot look for games that are missing or parked in the queue; it is tried again",
                    cause=type(fault).__name__,
                )
            if found:
                log.warning("games were missing in the queue and are in it again", games=found)
            await asyncio.sleep(SWEEP_S)


def _without_limit(kinds: Sequence[str]) -> "dict[QueueEntrypoint, EntrypointExecutionParameter]":
    from pgqueuer.ports.repository import EntrypointExecutionParameter
    from pgqueuer.types import QueueEntrypoint

    return {QueueEntrypoint(kind): EntrypointExecutionParameter(concurrency_limit=0) for kind in kinds}
