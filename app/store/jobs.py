"""Jobs on PostgreSQL: which process drives which game. The queue is pgqueuer's, its tables beside ours.

A game that somebody has to drive has one job; its row names the job. A process that picks the job writes the
job into the row's ``driver``, and every append to the log requires that it still stands there. The queue
itself goes by the job's id alone: a job whose process falls silent is picked again under the same id. Whoever
picks a job that has begun already gives the game a new one, so that nothing of the silent process counts any
more.

A game that waits for long has a job too, which begins when the wait is over at the latest.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import structlog
from sqlalchemy import bindparam, func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import SET_BACK_MS
from app.store.db import Database
from app.store.postgres import APPLICATION
from app.store.tables import batches, games, inbox
from app.store.trouble import trouble_of

if TYPE_CHECKING:
    from pgqueuer.adapters.persistence.queries import Queries
    from pgqueuer.models import Job
    from pgqueuer.types import QueueManagerId

__all__ = [
    "ARRANGE",
    "FIRST",
    "GAME",
    "LAYOUT",
    "LOCK_GAME",
    "STOPS",
    "WAKE",
    "Begun",
    "JobStore",
    "end_silent_sessions",
    "game_of",
    "give_back_unheard",
    "pick_abandoned",
    "queries_on",
]

log = structlog.get_logger()

GAME: Final = "game"
"""The entrypoint of jobs that drive a game."""

FIRST: Final = "first"
"""The same for the first game of a batch: some places are kept for these."""

LAYOUT: Final = "batch"
"""The entrypoint of jobs that create the rest of a batch's games, or cancel them all."""

STOPS: Final = "interintent_stops"
"""Notifications on this channel say that a game or batch was stopped: who drives it looks at once."""

ARRANGE: Final = "arrange"
"""The entrypoint of jobs that put an owner's waiting games in order."""

MANY_WAIT: Final = 1_000
"""If an owner has more waiting games than these, new ones get their places at once, and all of them are put
in order a moment later, however many were added by then.
"""

ARRANGE_S: Final = 5.0
"""Seconds until then."""

AHEAD: Final = 2_000_000_000
"""The queue's priority of a game that has begun already: it goes on before another one begins."""

ENDPOINT: Final = "endpoint"
"""The header that names the endpoint for which a job's game waits."""

ABANDONED: Final = "abandoned"
"""The header of jobs of games that lost their process: it stopped, fell silent or gave them up."""

FREE_PLACE_S: Final = 1.0
"""Seconds in which processes with a free place may take such a game before others do."""

_ORDER: Final = 4_931_007_222
"""The advisory lock under which jobs are put in order, or removed."""

_SWEEP: Final = 4_931_007_223
"""The advisory lock under which lost jobs are looked for."""

_SOME: Final = 500
"""Games that get their jobs in one transaction."""


class Begun(NamedTuple):
    """A game that this process drives from now on."""

    job: int
    game_id: str
    batch_id: str
    owner: str


_TAKE: Final = text(
    "UPDATE games SET driver = games.job FROM batches "
    "WHERE batches.batch_id = games.batch_id AND games.job = ANY(:jobs) AND games.driver IS NULL "
    "AND games.status IN ('created', 'running') AND games.drive = 'auto' "
    "AND batches.suspended IS NULL AND NOT batches.cancelled "
    "RETURNING games.job, games.game_id, games.batch_id, batches.owner"
)
_KEPT: Final = text(
    "SELECT games.job FROM games JOIN batches ON batches.batch_id = games.batch_id "
    "WHERE games.job = ANY(:jobs) AND games.driver = games.job "
    "AND games.status IN ('created', 'running') AND batches.suspended IS NULL AND NOT batches.cancelled"
)
_GIVE: Final = text(
    "UPDATE games SET job = given.job, driver = NULL "
    "FROM unnest(CAST(:games AS text[]), CAST(:jobs AS bigint[])) AS given(game_id, job) "
    "WHERE games.game_id = given.game_id"
)
_SERVED: Final = text(
    "SELECT COALESCE("
    "(SELECT max(-priority) FROM pgqueuer WHERE queue_manager_id IS NOT NULL AND status = 'picked' "
    " AND entrypoint IN ('game', 'first') AND priority < :ahead), "
    "(SELECT min(-head.priority) FROM (VALUES ('game'), ('first')) AS kinds(kind), LATERAL ("
    "  SELECT priority FROM pgqueuer WHERE status = 'queued' AND entrypoint = kind AND priority < :ahead "
    "  ORDER BY priority DESC LIMIT 1) AS head), 0)"
)
"""The virtual time: the tag of the last job that was picked."""

_ARRANGE: Final = text(
    "WITH mine AS ("
    " SELECT queued.id, batches.priority AS rank, batches.created_at, "
    "  row_number() OVER (PARTITION BY games.batch_id ORDER BY games.position) AS place "
    " FROM pgqueuer AS queued JOIN games ON games.job = queued.id "
    " JOIN batches ON batches.batch_id = games.batch_id "
    " WHERE queued.status = 'queued' AND queued.entrypoint IN ('game', 'first') AND queued.priority < :ahead "
    " AND batches.owner = :owner), "
    "last AS ("
    " SELECT max(-picked.priority) + 1 AS tag FROM pgqueuer AS picked JOIN games ON games.job = picked.id "
    " JOIN batches ON batches.batch_id = games.batch_id "
    " WHERE picked.queue_manager_id IS NOT NULL AND picked.status = 'picked' "
    " AND picked.entrypoint IN ('game', 'first') AND picked.priority < :ahead AND batches.owner = :owner), "
    "tagged AS ("
    " SELECT mine.id, GREATEST(CAST(:served AS bigint), COALESCE((SELECT tag FROM last), 0)) - 1 "
    "  + row_number() OVER (ORDER BY mine.rank DESC, mine.place, mine.created_at, mine.id) AS tag FROM mine) "
    "UPDATE pgqueuer SET priority = -tagged.tag FROM tagged "
    "WHERE pgqueuer.id = tagged.id AND pgqueuer.status = 'queued' AND pgqueuer.priority <> -tagged.tag"
)
"""Puts the waiting games of an owner in order: by the batches' priorities, in turn from each batch of one
priority. Each takes the next tag from the virtual time on, so that owners take turns, however much each has
waiting (start-time fair queueing).
"""

_WAIT: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM batches JOIN games ON games.batch_id = batches.batch_id "
    " AND games.status IN ('created', 'running', 'suspended') "
    " WHERE batches.owner = :owner AND games.job IS NOT NULL AND games.driver IS NULL "
    " LIMIT {most}) AS waiting"
)
"""How many games of an owner wait, counted no further than to a number that has to be seen by the planner."""
_IS_LATER: Final = text(
    "SELECT EXISTS (SELECT 1 FROM batches WHERE owner = :owner AND priority > :rank AND EXISTS ("
    " SELECT 1 FROM games WHERE games.batch_id = batches.batch_id "
    " AND games.status IN ('created', 'running', 'suspended')))"
)
"""Whether the owner has a batch of higher priority."""

_BEFORE: Final = text(
    "SELECT COALESCE((SELECT 1 - priority FROM pgqueuer WHERE priority < :ahead AND id = ("
    " SELECT before.job FROM games AS this JOIN games AS before ON before.batch_id = this.batch_id "
    "  AND before.position < this.position AND before.job IS NOT NULL "
    " WHERE this.game_id = :game ORDER BY before.position DESC LIMIT 1)), 0)"
)
"""The tag after that of the game before this one in its batch; 0 if none waits."""

_ARRANGE_SOON: Final = text(
    "INSERT INTO pgqueuer (priority, status, entrypoint, dedupe_key, payload, execute_after) "
    "VALUES (:ahead, 'queued', 'arrange', :name, convert_to(:owner, 'UTF8'), "
    " now() + make_interval(secs => :after)) "
    "ON CONFLICT (dedupe_key) WHERE status IN ('queued', 'picked') AND dedupe_key IS NOT NULL DO NOTHING"
)

_FORGET: Final = text(
    "WITH gone AS (DELETE FROM pgqueuer USING games WHERE games.batch_id = :batch "
    "AND pgqueuer.id = games.job AND pgqueuer.status = 'queued' RETURNING pgqueuer.id) "
    "UPDATE games SET job = NULL, driver = NULL FROM gone WHERE games.job = gone.id"
)
_WAKE_ALL: Final = text(
    "UPDATE pgqueuer SET execute_after = now(), updated = now() WHERE id IN ("
    "SELECT id FROM pgqueuer WHERE status = 'queued' AND execute_after > now() "
    "AND headers ->> 'endpoint' = :endpoint FOR UPDATE SKIP LOCKED)"
)
_WAKE_ONE: Final = text(
    "UPDATE pgqueuer SET execute_after = now(), updated = now() WHERE id IN (SELECT id FROM pgqueuer "
    "WHERE id = :id AND status = 'queued' AND execute_after > now() FOR UPDATE SKIP LOCKED)"
)
_PARKED_FIRST: Final = text(
    "SELECT DISTINCT ON (games.batch_id) pgqueuer.priority, pgqueuer.id, batches.owner, games.batch_id, "
    "games.game_id "
    "FROM pgqueuer JOIN games ON games.job = pgqueuer.id "
    "JOIN batches ON batches.batch_id = games.batch_id "
    "WHERE pgqueuer.status = 'queued' AND execute_after > now() AND headers ->> 'endpoint' = :endpoint "
    "ORDER BY games.batch_id, pgqueuer.priority DESC, pgqueuer.id"
)
"""Of each batch the game that has waited for the endpoint for longest."""
_PARKED: Final = text(
    "SELECT count(*) FROM pgqueuer WHERE status = 'queued' AND execute_after > now() "
    "AND headers ->> 'endpoint' = :endpoint"
)
_PARKED_AT: Final = text(
    "SELECT DISTINCT headers ->> 'endpoint' FROM pgqueuer WHERE status = 'queued' AND execute_after > now() "
    "AND headers ->> 'endpoint' IS NOT NULL"
)
_LOST: Final = text(
    "SELECT games.game_id, batches.owner FROM games JOIN batches ON batches.batch_id = games.batch_id "
    "WHERE games.job IS NULL AND games.drive = 'auto' AND games.status IN ('created', 'running') "
    "AND batches.suspended IS NULL AND NOT batches.cancelled "
    "ORDER BY batches.created_at, games.batch_id, games.position LIMIT :most FOR UPDATE OF games SKIP LOCKED"
)
_UNLINK: Final = text(
    "UPDATE games SET job = NULL, driver = NULL WHERE job IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM pgqueuer WHERE pgqueuer.id = games.job AND pgqueuer.status <> 'failed')"
)
_LEFT: Final = text(
    "DELETE FROM pgqueuer WHERE entrypoint = 'judge' AND heartbeat < now() - interval '1 hour'"
)
"""Claims of processes that died when they had just judged."""

_PICK_ABANDONED: Final = (
    "WITH silent AS ("
    " SELECT id FROM pgqueuer WHERE status = 'picked' AND entrypoint IN ('game', 'first') "
    " AND heartbeat < now() - CAST($3 AS interval) ORDER BY heartbeat LIMIT $2 FOR UPDATE SKIP LOCKED), "
    "waiting AS ("
    " SELECT id FROM pgqueuer WHERE status = 'queued' AND entrypoint = 'game' AND priority = $4 "
    " AND execute_after < now() - CAST($5 AS interval) AND headers ->> 'abandoned' IS NOT NULL "
    " ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) "
    "UPDATE pgqueuer SET status = 'picked', updated = now(), heartbeat = now(), queue_manager_id = $1 "
    "WHERE id IN (SELECT id FROM silent UNION ALL SELECT id FROM waiting LIMIT $2) RETURNING *"
)

_GIVE_BACK_UNHEARD: Final = (
    "UPDATE pgqueuer SET status = 'queued', updated = now(), queue_manager_id = NULL "
    "WHERE queue_manager_id = $1 AND status = 'picked' AND entrypoint <> 'judge' AND NOT id = ANY($2)"
)

_END_SILENT: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity AS session "
    "WHERE datname = current_database() AND usename = current_user AND application_name = $2 "
    "AND wait_event = 'ClientRead' AND xact_start IS NOT NULL "
    "AND state_change < now() - CAST($1 AS interval) AND query NOT LIKE 'COPY %' "
    "AND (backend_xid IS NOT NULL OR EXISTS (SELECT 1 FROM pg_locks "
    " WHERE pg_locks.pid = session.pid AND locktype = 'advisory'))"
)
"""A session that waits for its client between two messages of one statement is active: no time-out of
PostgreSQL before version 17 ends it. A command that restores a backup sends the rows of a COPY.
"""

_LAID_OUT: Final = text(
    "SELECT convert_from(payload, 'UTF8') FROM pgqueuer WHERE entrypoint = 'batch' AND status <> 'failed'"
)
_CANCELLED: Final = text(
    "SELECT DISTINCT games.batch_id FROM games JOIN batches ON batches.batch_id = games.batch_id "
    "WHERE games.status IN ('created', 'running', 'suspended') AND batches.cancelled"
)

_CLAIM: Final = text(
    "INSERT INTO pgqueuer (priority, queue_manager_id, status, entrypoint, dedupe_key) "
    "SELECT 0, CAST(:own AS uuid), 'picked', 'judge', name "
    "FROM unnest(CAST(:names AS text[])) AS wanted(name) "
    "ON CONFLICT (dedupe_key) WHERE status IN ('queued', 'picked') AND dedupe_key IS NOT NULL "
    "DO UPDATE SET queue_manager_id = excluded.queue_manager_id, heartbeat = now() "
    "WHERE pgqueuer.heartbeat < now() - make_interval(secs => :stale) "
    "OR pgqueuer.queue_manager_id = excluded.queue_manager_id RETURNING id, dedupe_key"
)
"""Also claims of one's own: the answer to an earlier try was lost."""
_CLAIMED: Final = text("SELECT id FROM pgqueuer WHERE id = ANY(:rows) AND queue_manager_id = :own")
_UNCLAIM: Final = text("DELETE FROM pgqueuer WHERE id = :row AND queue_manager_id = :own")

_TOUCHED: Final = "GREATEST(created, updated, heartbeat)"
"""When a job was made, given a place in time, picked or beaten for last."""
_IS_FROM_LATER: Final = f"{_TOUCHED} > now() + interval '{SET_BACK_MS} milliseconds'"
"""Whether that was before the database's clock was set back."""

_SET_RIGHT: Final = text(
    "UPDATE pgqueuer SET execute_after = execute_after - (later.touched - now()), "
    "created = LEAST(created, now()), updated = LEAST(updated, now()), heartbeat = LEAST(heartbeat, now()) "
    f"FROM (SELECT id, {_TOUCHED} AS touched FROM pgqueuer WHERE {_IS_FROM_LATER} FOR UPDATE SKIP LOCKED) "
    "AS later WHERE pgqueuer.id = later.id"
)
"""As if such jobs had been touched now: what was due is due, what waits does so for as long as it was to, and
the beats of a dead process grow old. Doing it again changes nothing.
"""

_WAITING: Final = text(
    f"SELECT count(*) FROM pgqueuer WHERE status = 'queued' AND (execute_after <= now() OR {_IS_FROM_LATER}) "
    "OR status = 'picked' AND heartbeat > now() - interval '10 minutes'"
)

LOCK_GAME: Final = (
    select(games.c.job).where(games.c.game_id == bindparam("game")).with_for_update(read=True, key_share=True)
)
WAKE: Final = text(
    "UPDATE pgqueuer SET execute_after = now(), updated = now() FROM games WHERE games.game_id = :game "
    "AND pgqueuer.id = games.job AND pgqueuer.status = 'queued' AND pgqueuer.execute_after > now()"
)
"""Lets a game go on that waits for an answer. Goes after ``LOCK_GAME``, in a statement of its own: a job that
was given to the game meanwhile is then seen.
"""


def queries_on(driver: Any) -> "Queries":
    """pgqueuer's statements on a connection of asyncpg."""
    # Imported here: only those who use PostgreSQL need it, and it takes as long as the rest of the start.
    from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
    from pgqueuer.adapters.persistence.queries import Queries

    return Queries(AsyncpgDriver(driver))


async def pick_abandoned(
    queries: "Queries", own: "QueueManagerId", most: int, stale: timedelta
) -> "list[Job]":
    """Picks jobs for a process without a free place, at most ``most``: those whose process is silent, and
    those of games that lost theirs if no process with a free place has taken them yet.
    """
    from pgqueuer.models import Job

    patience = timedelta(seconds=FREE_PLACE_S)
    rows = await queries.driver.fetch(_PICK_ABANDONED, own, most, stale, AHEAD, patience)
    return [Job.model_validate(row) for row in rows]


async def give_back_unheard(queries: "Queries", own: "QueueManagerId", held: Sequence[int]) -> None:
    """Gives back the jobs that the process picked without hearing of it: the answer was lost with its
    connection. ``held``: those that it knows of.
    """
    await queries.driver.execute(_GIVE_BACK_UNHEARD, own, list(held))


async def end_silent_sessions(queries: "Queries", stale: timedelta) -> None:
    """Ends sessions of ours that hold locks in a transaction and whose process has sent nothing for so long:
    it stands still or is cut off, and whoever takes over its games would wait for these locks.
    """
    await queries.driver.execute(_END_SILENT, stale, APPLICATION)


async def _queries(connection: AsyncConnection) -> "Queries":
    """pgqueuer's statements in the caller's transaction, which must have begun."""
    return queries_on((await connection.get_raw_connection()).driver_connection)


class JobStore:
    """The jobs of one PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        # At once, not in a request; and two threads that import it at the same time find half of it.
        import pgqueuer  # noqa: F401

        self._database = database

    # --- giving jobs ------------------------------------------------------------------------

    async def enqueue(
        self, connection: AsyncConnection, batch_id: str, game_ids: Sequence[str], *, first: bool = False
    ) -> None:
        """Gives these games of one batch their jobs, in the caller's transaction, which has written before.

        ``first``: the first of them starts the batch.
        """
        if not game_ids:
            return
        kinds = [FIRST if first else GAME] + [GAME] * (len(game_ids) - 1)
        query = select(batches.c.owner, batches.c.priority).where(batches.c.batch_id == batch_id)
        owner, rank = (await connection.execute(query)).one()
        served = await self._served(connection)
        waiting = await connection.execute(text(_WAIT.format(most=MANY_WAIT + 1)), {"owner": owner})
        if waiting.scalar_one() <= MANY_WAIT:
            await self._enqueue(connection, game_ids, kinds)
            await connection.execute(_ARRANGE, {"ahead": AHEAD, "owner": owner, "served": served})
            return
        # Places after the earlier games of the batch, whatever else waits. Those of a batch of lower priority
        # are the last until all are put in order.
        priorities = [-AHEAD] * len(game_ids)
        if not (await connection.execute(_IS_LATER, {"owner": owner, "rank": rank})).scalar_one():
            before = await connection.execute(_BEFORE, {"game": game_ids[0], "ahead": AHEAD})
            tag = max(served, before.scalar_one())
            priorities = [-(tag + place) for place in range(len(game_ids))]
        await self._enqueue(connection, game_ids, kinds, priorities=priorities)
        soon = {"ahead": AHEAD, "owner": owner, "name": f"{ARRANGE} {owner}", "after": ARRANGE_S}
        await connection.execute(_ARRANGE_SOON, soon)

    async def lay_out(self, connection: AsyncConnection, batch_id: str, after_s: float = 0.0) -> None:
        """Has the rest of a batch created, or cancelled, in the caller's transaction, which has written
        before.
        """
        queries = await _queries(connection)
        after = timedelta(seconds=after_s)
        await queries.enqueue(LAYOUT, batch_id.encode(), AHEAD, execute_after=after)

    async def resume(self, connection: AsyncConnection, batch_id: str) -> None:
        """Gives a job to each game of the batch that lacks one, in the caller's transaction."""
        query = (
            select(games.c.game_id)
            .where(
                games.c.batch_id == batch_id,
                games.c.job.is_(None),
                games.c.status.in_(("created", "running")),
                games.c.drive == "auto",
            )
            .order_by(games.c.position)
            .with_for_update()
        )
        ids = list((await connection.execute(query)).scalars())
        await self.enqueue(connection, batch_id, ids, first=True)

    async def _enqueue(
        self,
        connection: AsyncConnection,
        game_ids: Sequence[str],
        entrypoints: Sequence[str],
        *,
        priorities: Sequence[int] = (),
        after_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        queries = await _queries(connection)
        count = len(game_ids)
        jobs = await queries.enqueue(
            list(entrypoints),
            [game_id.encode() for game_id in game_ids],
            list(priorities) or [-AHEAD] * count,
            execute_after=[timedelta(seconds=after_s)] * count,
            headers=[dict(headers) if headers else None] * count,
        )
        await connection.execute(_GIVE, {"games": list(game_ids), "jobs": list(jobs)})

    async def arrange(self, job: "Job") -> None:
        """Puts an owner's waiting games in order, and ends the job for that: whoever adds games from now on
        makes a new one.
        """
        assert job.payload is not None
        owner = job.payload.decode()

        async def work(connection: AsyncConnection) -> None:
            await self._arrange(connection, owner)
            await (await _queries(connection)).log_jobs([(job, "successful", None)])

        await self._database.writer.run(work)

    async def _arrange(self, connection: AsyncConnection, owner: str) -> None:
        served = await self._served(connection)
        await connection.execute(_ARRANGE, {"ahead": AHEAD, "owner": owner, "served": served})

    async def _served(self, connection: AsyncConnection) -> int:
        """The virtual time; until the transaction ends, nobody else puts jobs in order."""
        await self._order(connection)
        return int((await connection.execute(_SERVED, {"ahead": AHEAD})).scalar_one())

    async def _order(self, connection: AsyncConnection) -> None:
        """Makes those who change many waiting jobs take turns, a transaction each: they find the jobs in
        different orders, and would wait for each other for ever.
        """
        await connection.execute(select(func.pg_advisory_xact_lock(_ORDER)))

    # --- driving ----------------------------------------------------------------------------

    async def begin(self, jobs: Sequence[int]) -> list[Begun]:
        """Those of these picked jobs whose games the caller drives from now on. A job that is left out was
        picked again, is out of date, or must not go on: ``hand_back`` finds out which.
        """

        async def work(connection: AsyncConnection) -> list[Begun]:
            return [Begun(*row) for row in await connection.execute(_TAKE, {"jobs": list(jobs)})]

        return await self._database.writer.run(work)

    async def kept(self, jobs: Sequence[int]) -> set[int]:
        """Those of these jobs that still drive their games, and may go on."""
        return set(await self._database.column(_KEPT.bindparams(jobs=list(jobs))))

    async def hand_back(
        self,
        job: "Job",
        *,
        after_s: float = 0.0,
        endpoint: str | None = None,
        waits_for: Sequence[str] = (),
        abandoned: bool = False,
    ) -> None:
        """Ends a job that drives a game, and gives the game a new one if it is to go on. Raises
        BlockingIOError if somebody else holds the game's row.

        ``after_s``: seconds until the new job begins at the latest. ``endpoint``: it may begin as soon as
        this endpoint answers. ``waits_for``: requests; if one of them has its outcome, the new job begins at
        once. ``abandoned``: ``pick_abandoned`` may pick the new job.
        """
        headers = {} if endpoint is None else {ENDPOINT: endpoint}
        if abandoned:
            headers[ABANDONED] = "yes"
        game_id = game_of(job)
        query = (
            select(
                games.c.job, games.c.status, games.c.drive, batches.c.suspended.is_(None), batches.c.cancelled
            )
            .join(batches, batches.c.batch_id == games.c.batch_id)
            .where(games.c.game_id == game_id)
            .with_for_update(of=games)
        )

        async def work(connection: AsyncConnection) -> None:
            # A process that stands still may hold the row: nothing else must wait for it meanwhile.
            await connection.execute(text("SET LOCAL lock_timeout = '500ms'"))
            try:
                row = (await connection.execute(query)).one_or_none()
            except DBAPIError as fault:
                trouble = trouble_of(fault)
                if trouble is None or trouble.cause != "locked":
                    raise
                # Said like that, it would be trouble of the whole database, and fail everything that waits.
                raise BlockingIOError("somebody else holds the game's row") from fault
            if row is not None and row[0] == job.id:
                _, status, drive, wanted, cancelled = row
                if status in ("created", "running") and drive == "auto" and wanted and not cancelled:
                    settled = select(func.count()).where(
                        inbox.c.game_id == game_id, inbox.c.request_id.in_(waits_for)
                    )
                    at_once = bool(waits_for) and (await connection.execute(settled)).scalar_one() > 0
                    await self._enqueue(
                        connection,
                        [game_id],
                        [GAME],
                        priorities=[AHEAD],
                        after_s=0.0 if at_once else after_s,
                        headers=headers,
                    )
                else:
                    await connection.execute(
                        update(games).where(games.c.game_id == game_id).values(job=None, driver=None)
                    )
            elif row is not None:
                # An answer that this process accepted as if it still drove the game must not be left lying.
                await connection.execute(WAKE, {"game": game_id})
            await (await _queries(connection)).log_jobs([(job, "successful", None)])

        await self._database.writer.run(work)

    async def forget(self, connection: AsyncConnection, batch_id: str) -> None:
        """Removes a batch's waiting jobs, in the caller's transaction, and tells who drives its games."""
        await self._order(connection)
        await connection.execute(_FORGET, {"batch": batch_id})
        await self.tell(connection)

    async def tell(self, connection: AsyncConnection) -> None:
        """Makes every process look whether its games may go on, once the caller's transaction has ended."""
        await connection.execute(select(func.pg_notify(STOPS, "")))

    # --- waking -----------------------------------------------------------------------------

    async def wake(self, endpoint: str, rank: Callable[[Sequence[str]], list[int]] | None = None) -> None:
        """Lets games that wait for this endpoint go on: all, or with ``rank`` one whose owner, batch and game
        have the lowest, if any waits.
        """
        if rank is None:
            await self._database.writer.execute(_WAKE_ALL.bindparams(endpoint=endpoint))
            return
        waiting = await self._database.mappings(_PARKED_FIRST.bindparams(endpoint=endpoint))
        if waiting:
            first = min(
                waiting,
                key=lambda row: (
                    rank((row["owner"], row["batch_id"], row["game_id"])),
                    -row["priority"],
                    row["id"],
                ),
            )
            await self._database.writer.execute(_WAKE_ONE.bindparams(id=first["id"]))

    async def parked(self, endpoint: str) -> int:
        """How many games wait for this endpoint."""
        return int((await self._database.column(_PARKED.bindparams(endpoint=endpoint)))[0])

    async def parked_at(self) -> list[str]:
        """The endpoints for which games wait."""
        return list(await self._database.column(_PARKED_AT))

    # --- claims -----------------------------------------------------------------------------

    async def claim(self, names: Sequence[str], own: UUID, stale_s: float) -> dict[str, int]:
        """Claims names for the process ``own``. Returns the rows of those that it got: nobody else beats for
        them.
        """
        values = {"names": sorted(names), "own": own, "stale": stale_s}

        async def work(connection: AsyncConnection) -> dict[str, int]:
            return {name: row for row, name in await connection.execute(_CLAIM, values)}

        return await self._database.writer.run(work)

    async def claimed(self, rows: Sequence[int], own: UUID) -> set[int]:
        """Those of these rows that are still claims of the process ``own``."""
        return set(await self._database.column(_CLAIMED.bindparams(rows=list(rows), own=own)))

    async def unclaim(self, row: int, own: UUID) -> None:
        await self._database.writer.execute(_UNCLAIM.bindparams(row=row, own=own))

    # --- care -------------------------------------------------------------------------------

    async def sweep(self, unlaid: Sequence[str] | None = None) -> int:
        """Gives jobs to games that nobody drives although somebody should, as an earlier version or a
        restored backup leaves them. Returns how many there were; does nothing while another process does the
        same. Puts the times of all jobs right first if the database's clock was set back.

        ``unlaid``: batches without all of their games, for a thorough search, which also finds jobs that
        vanished from the queue.
        """
        if await self._database.writer.execute(_SET_RIGHT):
            log.warning("the database's clock was set back: jobs from before it are due as if made now")

        async def work(connection: AsyncConnection) -> int:
            alone = await connection.execute(select(func.pg_try_advisory_xact_lock(_SWEEP)))
            if not alone.scalar_one():
                return 0
            if unlaid is not None:
                await connection.execute(_UNLINK)
                await connection.execute(_LEFT)
                known = set((await connection.execute(_LAID_OUT)).scalars())
                cancelled = (await connection.execute(_CANCELLED)).scalars()
                for batch_id in sorted({*unlaid, *cancelled} - known):
                    await self.lay_out(connection, batch_id)
            lost = (await connection.execute(_LOST, {"most": _SOME})).all()
            if lost:
                await self._enqueue(connection, [game_id for game_id, _ in lost], [GAME] * len(lost))
                for owner in sorted({owner for _, owner in lost}):
                    await self._arrange(connection, owner)
            return len(lost)

        found = _SOME
        total = 0
        while found == _SOME:
            found = await self._database.writer.run(work)
            unlaid = None
            total += found
        return total

    async def waiting(self) -> int:
        """Jobs that are due, or that some process works on."""
        return int((await self._database.column(_WAITING))[0])

    async def prune(self, older_s: float) -> None:
        """Empties the queue's own log: every job leaves three rows there."""
        await self._database.writer.execute(
            text("DELETE FROM pgqueuer_log WHERE created < now() - make_interval(secs => :older)").bindparams(
                older=older_s
            )
        )


def game_of(job: "Job") -> str:
    """The game that the job drives, or the batch that it lays out."""
    assert job.payload is not None
    return job.payload.decode()
