"""Jobs on PostgreSQL: one driver a game, whoever else thinks that it drives it; fair turns; waits that take
no place.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import asyncpg
import pytest
from pgqueuer.ports.repository import EntrypointExecutionParameter
from sqlalchemy import text

from agents.model.model import PLAIN_SAMPLING
from app.base import metrics
from app.base.clock import Clock, timestamp, use_clock
from app.base.errors import NotSuspended
from app.base.metrics import REGISTRY
from app.edge.auth import OPERATOR
from app.edge.auth import Caller as Checked
from app.games import service
from app.games.schemas import NewGames
from app.instruments.fake_model import FakeOptions, read_fault, read_latency
from app.models.stops import BatchStops, GameFails, GameParks, GameStops
from app.runner import queued
from app.runner.queued import Queued
from app.store import jobs
from app.store.db import PASSING, Conflict
from app.store.games import Suspension
from app.store.jobs import ARRANGE, FIRST, GAME, LAYOUT, end_silent_sessions, game_of, queries_on
from app.store.log import GameLog
from app.store.outages import OutageStore
from app.store.postgres import APPLICATION
from app.store.rows import Outage
from app.store.tables import games
from engine.rules import cancel
from tests.app.calling import WITHIN_S, Caller, calling, until
from tests.app.modelling import DIRECT, LLM, calling_with, endpoints, faking
from tests.app.seated import SHORT, remote_game
from tests.app.seats.test_seats_http import TEAM, answer, asked
from tests.postgres import PostgresServer, fresh_database

pytestmark = pytest.mark.anyio

RANDOM = [{"agent": "random"}]


@pytest.fixture
def url(postgres: PostgresServer, laid_out_postgres: str) -> Iterator[str]:
    with fresh_database(postgres, laid_out_postgres) as one:
        yield one


async def _pick(
    caller: Caller, most: int, stale_s: float = 1000.0, kinds: Sequence[str] = (FIRST, GAME)
) -> list[Any]:
    """Picks jobs as a process does."""
    async with caller.services.database.read_engine.connect() as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        return await queries_on(raw).dequeue(
            most,
            {kind: EntrypointExecutionParameter(0) for kind in kinds},  # type: ignore[misc]
            uuid.uuid4(),  # type: ignore[arg-type]
            None,
            timedelta(seconds=stale_s),
        )


async def _job(caller: Caller, game: str) -> tuple[int | None, int | None]:
    row = await caller.services.store.game(game)
    assert row is not None
    return row.job, row.driver


async def _jobs(caller: Caller) -> list[tuple[str, str]]:
    """Entrypoint and status of every job in the queue."""
    rows = await caller.services.database.rows(text("SELECT entrypoint, status FROM pgqueuer ORDER BY id"))
    return [tuple(row) for row in rows]


async def _priorities(caller: Caller) -> dict[str, int]:
    query = text("SELECT game_id, priority FROM games JOIN pgqueuer ON pgqueuer.id = games.job")
    return dict(await caller.services.database.rows(query))


async def _queue_more(caller: Caller, batch: str, count: int) -> None:
    """Adds so many games to the end of a batch, as copies of its last one, and has them queued."""
    others = {"game_id": "'g_more' || n", "position": "position + n", "job": "NULL", "driver": "NULL"}
    names = [column.name for column in games.columns]
    async with caller.services.database.write_engine.begin() as connection:
        await connection.execute(
            text(
                f"INSERT INTO games ({', '.join(names)}) "
                f"SELECT {', '.join(others.get(name, name) for name in names)} FROM games, "
                "generate_series(1, :count) AS n WHERE batch_id = :batch AND position = 19"
            ),
            {"count": count, "batch": batch},
        )
    assert caller.services.store.jobs is not None
    while await caller.services.store.jobs.sweep(None):
        pass
    assert len(await _jobs(caller)) >= count


async def _games_in_order(caller: Caller) -> list[str]:
    return [job.payload.decode() for job in await _pick(caller, 100)]


async def test_only_the_job_that_drives_a_game_appends_to_its_log(url: str) -> None:
    async with calling(url, runner=False) as caller:
        _, [game] = await caller.create(seats=RANDOM)
        jobs = caller.services.store.jobs
        assert jobs is not None
        [first] = await _pick(caller, 1)
        assert [begun.game_id for begun in await jobs.begin([first.id])] == [game]
        head = len(await caller.lines(f"/games/{game}/events"))
        silent = GameLog(caller.services.database, game, head, job=first.id)
        # Its process falls silent, and another one picks the same job again.
        [again] = await _pick(caller, 1, stale_s=0.0)
        assert again.id == first.id
        assert await jobs.begin([again.id]) == []
        await jobs.hand_back(again)
        with pytest.raises(Conflict):
            await silent.append(cancel("by a process that woke up"))
        [second] = await _pick(caller, 1)
        assert second.id != first.id
        assert [begun.job for begun in await jobs.begin([second.id])] == [second.id]
        assert await jobs.kept([first.id, second.id]) == {second.id}
        with pytest.raises(Conflict):
            await silent.append(cancel("by a process that woke up"))
        # What it settles belatedly changes nothing either.
        await jobs.hand_back(first)
        await caller.services.store.mark_failed(game, "by a process that woke up", 0, first.id)
        assert await _job(caller, game) == (second.id, second.id)
        assert len(await caller.lines(f"/games/{game}/events")) == head
        await GameLog(caller.services.database, game, head, job=second.id).append(cancel("by its driver"))
        assert await _job(caller, game) == (None, None)


async def test_a_process_that_woke_up_ends_no_game_and_suspends_no_batch_that_others_drive(url: str) -> None:
    async with calling(url, runner=False) as caller:
        batch, [game] = await caller.create(seats=RANDOM)
        jobs, runner, store = caller.services.store.jobs, caller.services.runner, caller.services.store
        assert jobs is not None
        [first] = await _pick(caller, 1)
        await jobs.begin([first.id])
        await jobs.hand_back((await _pick(caller, 1, stale_s=0.0))[0])
        [second] = await _pick(caller, 1)
        assert [begun.game_id for begun in await jobs.begin([second.id])] == [game]
        before = await _rows(caller, batch)
        # What it was told while it still drove the game, by a provider that knows it under another key now.
        stops = (
            BatchStops("small", "status_401", "an old key"),
            GameStops("small", "no_answer", "a question without an answer"),
            GameFails("small", "context_length", "a context that is too long"),
        )
        runner._jobs[game] = first.id
        for stop in stops:
            assert not await runner._stop_game(game, stop)
        assert not await store.stand_in(game, 1, 0, first.id)
        assert await _rows(caller, batch) == before
        runner._jobs[game] = second.id
        assert not await runner._stop_game(game, stops[0])
        row = await store.batch(batch)
        assert row is not None
        assert row.suspended is not None


async def test_a_process_that_woke_up_moves_no_answer_that_others_have_used(url: str) -> None:
    async with faking() as fake, calling_with(fake, url) as caller:
        batch, [game] = await caller.create(seats=LLM, rules={"max_rejections": 1})
        await caller.over(batch)
        calls = caller.services.models.calls
        stored = await calls.of_game(game)
        # It finds that none of the answers to a question could be used, and asks nobody who drives the game.
        row, others = await caller.services.store.game(game), await caller.services.store.batch(batch)
        assert row is not None
        assert others is not None
        seats = await caller.services.models.seats(row, others, job=1)
        session: Any = seats.session("fake", PLAIN_SAMPLING)
        session._sessions.on_unusable = "suspend"
        key = next(iter(stored))
        session._unusable[key.request_id] = [key]
        with pytest.raises(BatchStops):
            await session.unanswered(key.request_id)
        assert await calls.of_game(game) == stored


async def _rows(caller: Caller, batch: str) -> list[str]:
    """The batch and its games, whole."""
    query = text(
        "SELECT CAST(batches AS text) FROM batches WHERE batch_id = :batch "
        "UNION ALL SELECT CAST(games AS text) FROM games WHERE batch_id = :batch"
    )
    return [row[0] for row in await caller.services.database.rows(query, {"batch": batch})]


async def test_a_job_that_is_handed_back_begins_at_once_or_when_its_wait_is_over(url: str) -> None:
    async with calling(url, runner=False) as caller:
        _, [game] = await caller.create(seats=RANDOM)
        jobs = caller.services.store.jobs
        assert jobs is not None

        async def begun() -> Any:
            [job] = await _pick(caller, 1)
            assert [one.game_id for one in await jobs.begin([job.id])] == [game]
            return job

        await jobs.hand_back(await begun())
        await jobs.hand_back(await begun(), after_s=1000.0, endpoint="away")
        assert await _pick(caller, 1) == []
        assert await jobs.parked("away") == 1
        await jobs.wake("elsewhere")
        assert await _pick(caller, 1) == []
        await jobs.wake("away")
        await jobs.hand_back(await begun(), after_s=1000.0)
        assert await _pick(caller, 1) == []
        assert await jobs.parked("away") == 0


async def test_one_parked_game_is_woken_whose_owner_batch_and_game_come_first(url: str) -> None:
    async with calling(url, runner=False) as caller:
        batches = [(await caller.create(seats=RANDOM, count=2))[0] for _ in range(2)]
        jobs = caller.services.store.jobs
        assert jobs is not None
        for job in await _pick(caller, 4):
            await jobs.begin([job.id])
            await jobs.hand_back(job, after_s=1000.0, endpoint="away")

        def rank(asker: Sequence[str]) -> list[int]:
            return [0, int(asker[1] == batches[0])]

        for batch in (batches[1], batches[1], batches[0]):
            await jobs.wake("away", rank)
            [job] = await _pick(caller, 4)
            [begun] = await jobs.begin([job.id])
            assert begun.batch_id == batch
        assert await jobs.parked("away") == 1
        await jobs.wake("elsewhere", rank)
        assert await jobs.parked("away") == 1


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_owners_have_equal_shares_of_the_places_of_all_processes(url: str) -> None:
    """However many games each has waiting: within a fifth, as soon as there are enough to tell."""
    async with faking(FakeOptions(latency=read_latency("0.02"))) as fake:
        async with calling_with(fake, url, runner=False) as caller:
            for owner, count in (("anna", 40), ("bert", 14), ("carl", 14)):
                wish = {"seats": DIRECT, "count": count, "rules": {"max_rejections": 1}}
                await caller.services.games.create(
                    NewGames.model_validate(wish), by=Checked("test", owner=owner)
                )
        async with (
            calling_with(fake, url, parallel_games=6) as one,
            calling_with(fake, url, parallel_games=6),
        ):
            begun = text(
                "SELECT owner, count(*) FILTER (WHERE driver IS NOT NULL OR finished_at IS NOT NULL) "
                "FROM games JOIN batches ON batches.batch_id = games.batch_id GROUP BY owner"
            )
            looks = 0
            async with asyncio.timeout(2 * WITHIN_S):
                while True:
                    counts = dict(await one.services.database.rows(begun))
                    total = sum(counts.values())
                    if max(counts["bert"], counts["carl"]) > 11:
                        break  # soon one of them has none left
                    if total >= 15:
                        looks += 1
                        assert all(abs(count - total / 3) <= 0.2 * total / 3 for count in counts.values()), (
                            counts
                        )
                    await asyncio.sleep(0.05)
            assert looks


async def test_calls_are_broken_off_wherever_the_game_is_driven_that_is_cancelled(url: str) -> None:
    async with faking(FakeOptions(faults=(read_fault("silence"),))) as fake:
        silent = endpoints(fake, timeout_s=3600, total_s=3600)
        async with (
            calling_with(fake, url, models=silent),
            calling_with(fake, url, models=silent, runner=False) as other,
        ):
            batch, [first, _] = await other.create(seats=DIRECT, count=2)
            await until(lambda: fake.counts.in_flight == 2)
            assert (await other.post(f"/games/{first}/cancel")).status_code == 202
            await until(lambda: fake.counts.in_flight == 1)
            assert (await other.post(f"/batches/{batch}/cancel")).status_code == 202
            await until(lambda: fake.counts.in_flight == 0)


@pytest.mark.parametrize("many", [1000, 3])
async def test_owners_take_turns_and_so_do_an_owners_batches(
    url: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MANY_WAIT", many)
    monkeypatch.setattr(jobs, "ARRANGE_S", 0.0)
    async with calling(url, runner=False, api_key="k" * 40) as caller:
        store = caller.services.store

        async def post(owner: str, count: int) -> list[str]:
            wish = NewGames.model_validate({"seats": RANDOM, "count": count})
            made = await caller.services.games.create(wish, by=Checked("test", owner=owner))
            return await store.ids(made.batch_id)

        large = await post("anna", 12)
        before = await _priorities(caller)
        later = await post("anna", 4)
        bert = await post("bert", 6)
        if many == 3:
            # Nobody's place has changed yet: that many games are put in order a moment later, and only once.
            now = await _priorities(caller)
            assert {game: now[game] for game in large} == before
            assert [now[game] for game in later] == [before[game] for game in large[:4]]
            assert store.jobs is not None
            for job in await _pick(caller, 10, kinds=[ARRANGE]):
                await store.jobs.arrange(job)
            assert not [kind for kind, _ in await _jobs(caller) if kind == ARRANGE]
        names = {**dict.fromkeys(large, "A"), **dict.fromkeys(later, "a"), **dict.fromkeys(bert, "b")}
        order = "".join(names[game] for game in await _games_in_order(caller))
    # Anna gets every other game while Bert has any, and her two batches take turns meanwhile.
    assert order[:12].count("b") == 6
    assert [order[:12].count("A"), order[:12].count("a")] == [3, 3]
    assert all(order[:n].count("b") in (n // 2, (n + 1) // 2) for n in range(1, 13)), order
    assert len(order) == 22


async def test_later_games_of_a_large_batch_come_after_its_earlier_ones_and_lower_batches_last(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MANY_WAIT", 3)
    async with calling(url, runner=False) as caller:
        store = caller.services.store
        batch, _ = await caller.create(seats=RANDOM, count=60)  # of which fifty are created at once
        await caller.services.games.lay_out(batch)
        low, _ = await caller.create(seats=RANDOM, count=2, priority=-1)
        expected = await store.ids(batch) + await store.ids(low)
        assert await _games_in_order(caller) == expected
        # Whoever works on the database puts them in order.
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(text("UPDATE pgqueuer SET execute_after = now(), status = 'queued'"))
    async with calling(url) as worker:
        assert (await worker.over(low))["games"]["finished"] == 2
        await worker.over(batch)
        await until(lambda: not worker.services.pickup.busy)
        assert await _jobs(worker) == []


@pytest.mark.parametrize("count", [20, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_small_batch_starts_beside_a_large_one_that_takes_all_it_can_get(
    url: str, count: int
) -> None:
    slow = FakeOptions(latency=read_latency("100"))
    async with faking(slow) as fake, calling_with(fake, url, parallel_games=8, drain_s=0) as caller:
        large, _ = await caller.create(seats=DIRECT, count=20)
        await until(lambda: fake.counts.in_flight >= 7)
        await _queue_more(caller, large, count - 20)
        small, _ = await caller.create(seats=RANDOM)
        assert (await caller.over(small))["games"]["finished"] == 1
        # Its place was kept: of the large batch seven games have begun, and none has got anywhere.
        assert (await caller.get(f"/batches/{large}")).json()["games"]["finished"] == 0
        assert fake.counts.calls < 20
        assert (await caller.post(f"/batches/{large}/cancel")).status_code == 202


async def _until_some_are_driven(caller: Caller, games: Sequence[str], count: int, besides: set[int]) -> None:
    """Until so many of the games have a driver, besides those jobs. Games that never began have none."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            drivers = [(await _job(caller, game))[1] for game in games]
            if len({driver for driver in drivers if driver is not None} - besides) == count:
                return
            await asyncio.sleep(0.05)


async def test_a_full_process_takes_over_as_many_games_of_a_silent_one_as_it_has_places(url: str) -> None:
    async with faking(FakeOptions(latency=read_latency("100"))) as fake:
        async with calling_with(fake, url, runner=False) as caller:
            _, lost = await caller.create(seats=DIRECT, count=3)
            jobs = caller.services.store.jobs
            assert jobs is not None
            silent = {one.job for one in await jobs.begin([job.id for job in await _pick(caller, 3)])}
            assert len(silent) == 3
            async with caller.services.database.write_engine.begin() as connection:
                await connection.execute(text("UPDATE pgqueuer SET heartbeat = now() - interval '1 hour'"))
            _, new = await caller.create(seats=DIRECT, count=2)
        async with calling_with(fake, url, parallel_games=1, drain_s=0) as caller:
            await _until_some_are_driven(caller, lost, 2, silent)
            runner = caller.services.runner
            assert (runner.taken, runner.beyond) == (1, 1)
            # The third one waits, but goes before those that have never begun.
            driven = next(iter(runner._beyond))
            assert (await caller.post(f"/games/{driven}/cancel")).status_code == 202
            await _until_some_are_driven(caller, [*{*lost} - {driven}], 2, silent)
            assert [(await _job(caller, game))[1] for game in new] == [None, None]


async def test_a_full_process_takes_over_what_a_process_gives_back_when_it_stops(url: str) -> None:
    async with (
        faking(FakeOptions(latency=read_latency("100"))) as fake,
        calling_with(fake, url, parallel_games=1, drain_s=0) as other,
    ):
        await other.create(seats=DIRECT)
        await until(lambda: fake.counts.in_flight == 1)
        async with calling_with(fake, url, parallel_games=1, drain_s=0) as stopping:
            _, [game, *new] = await stopping.create(seats=DIRECT, count=3)
            await until(lambda: fake.counts.in_flight == 2)
            first, driver = await _job(other, game)
            assert first == driver is not None
        await _until_some_are_driven(other, [game], 1, {first})
        assert game in other.services.runner._beyond
        assert [(await _job(other, game))[1] for game in new] == [None, None]


async def test_what_was_picked_while_the_database_did_not_answer_is_driven_soon(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(url, stale_s=3600) as caller:
        jobs = caller.services.store.jobs
        assert jobs is not None
        begin, lost = jobs.begin, []

        async def begun(ids: Any) -> Any:
            if not lost:
                lost.append(ids)
                raise OSError("the database is away")
            return await begin(ids)

        monkeypatch.setattr(jobs, "begin", begun)
        batch, _ = await caller.create(seats=[{"agent": "random"}])
        assert (await caller.over(batch))["games"]["finished"] == 1
        assert lost


async def test_what_was_picked_by_a_question_whose_answer_was_lost_is_driven_soon(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Any] = []

    def losing(driver: Any) -> Any:
        queries = queries_on(driver)
        dequeue = queries.dequeue

        async def asking(*values: Any) -> Any:
            picked = await dequeue(*values)
            if picked and not lost:
                lost.extend(picked)
                raise OSError("the connection is gone")
            return picked

        queries.dequeue = asking  # type: ignore[method-assign]
        return queries

    monkeypatch.setattr(queued, "queries_on", losing)
    async with calling(url, stale_s=3600) as caller:
        batch, _ = await caller.create(seats=RANDOM, count=3)
        assert (await caller.over(batch))["games"]["finished"] == 3
        assert lost


@asynccontextmanager
async def _holding(url: str, locks: str, *values: Any) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Holds what the statement locks while the block lasts. Gives what waits until somebody, or so many,
    wait for it."""
    address = url.replace("+asyncpg", "")
    holder, looker = await asyncpg.connect(address), await asyncpg.connect(address)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    async def tried(by: int = 1) -> None:
        async with asyncio.timeout(WITHIN_S):
            while await looker.fetchval(waiting) < by:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.01)

    try:
        async with holder.transaction():
            await holder.execute(locks, *values)
            yield tried
    finally:
        await holder.close()
        await looker.close()


def _held_up(url: str, game: str) -> AbstractAsyncContextManager[Callable[..., Awaitable[None]]]:
    """Lets nobody change the game's row while the block lasts. Gives what waits until somebody tries to."""
    return _holding(url, "SELECT 1 FROM games WHERE game_id = $1 FOR SHARE", game)


async def test_a_game_whose_row_somebody_holds_keeps_no_other_from_going_on(url: str) -> None:
    async with calling(url, runner=False) as caller:
        _, [held, other] = await caller.create(seats=RANDOM, count=2)
        database, jobs = caller.services.database, caller.services.store.jobs
        assert jobs is not None
        [job] = [job for job in await _pick(caller, 2) if game_of(job) == held]
        head = len(await caller.lines(f"/games/{other}/events"))
        async with _held_up(url, held) as tried:
            handed_back = asyncio.create_task(jobs.hand_back(job))
            await tried()
            await GameLog(database, other, head).append(cancel("by its owner"))
            with pytest.raises(PASSING):
                await handed_back
            assert await database.trouble() is None
        assert await _job(caller, held) == (job.id, None)


async def test_a_pause_holds_no_job_for_which_somebody_waits_who_puts_jobs_in_order(url: str) -> None:
    # Each finds the jobs in an order of its own: two of them would wait for each other for ever.
    async with calling(url, runner=False) as caller:
        batch, _ = await caller.create(seats=RANDOM, count=3)
        async with _holding(url, "SELECT pg_advisory_xact_lock($1)", jobs._ORDER) as tried:
            paused = asyncio.create_task(caller.post(f"/batches/{batch}/pause"))
            await tried()
            free = text("SELECT id FROM pgqueuer FOR UPDATE SKIP LOCKED")
            assert len(await caller.services.database.rows(free)) == 3
        assert (await paused).status_code == 202
        assert await _jobs(caller) == []


async def test_who_deletes_a_batch_and_who_retries_it_do_not_wait_for_each_other_for_ever(url: str) -> None:
    async with calling(url, runner=False) as caller, calling(url, runner=False) as other:
        batch, [game] = await caller.create(seats=RANDOM)
        store = caller.services.store
        await store.mark_failed(game, "", 0, suspends=lambda *_: Suspension(0, "", "games_failed", ""))
        async with _holding(url, "SELECT 1 FROM events WHERE game_id = $1 FOR SHARE", game) as tried:
            deleted = asyncio.create_task(caller.services.games.delete_batch(batch, by=OPERATOR))
            await tried()
            retried = asyncio.create_task(other.services.games.retry(batch, by=OPERATOR))
            await tried(2)
        assert (await deleted).games == 1
        with pytest.raises(NotSuspended):
            await retried


async def test_what_a_process_was_about_to_do_when_it_stopped_waits_for_no_silence(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked = asyncio.Event()

    def losing(driver: Any) -> Any:
        queries = queries_on(driver)
        dequeue = queries.dequeue

        async def asking(*values: Any) -> Any:
            if await dequeue(*values):
                picked.set()
                await asyncio.Event().wait()
            return []

        queries.dequeue = asking  # type: ignore[method-assign]
        return queries

    async with calling(url, runner=False) as caller:
        await caller.create(seats=RANDOM, count=3)
        monkeypatch.setattr(queued, "queries_on", losing)
        async with calling(url, stale_s=3600):
            await picked.wait()
        assert {status for _, status in await _jobs(caller)} == {"queued"}


async def test_what_a_process_was_laying_out_when_it_stopped_waits_for_no_silence(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def forever(games: service.Games, batch_id: str) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(service, "CHUNK", 1)
    monkeypatch.setattr(service.Games, "lay_out", forever)
    async with calling(url, runner=False) as caller:
        await caller.create(seats=RANDOM, count=2, drive="manual")
        async with calling(url, stale_s=3600):
            await began.wait()
        assert await _jobs(caller) == [(LAYOUT, "queued")]


async def test_a_game_that_parks_while_the_others_are_woken_is_woken_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(url, runner=False) as caller:
        await caller.create(seats=RANDOM, count=2)
        pickup, jobs = caller.services.pickup, caller.services.store.jobs
        assert isinstance(pickup, Queued)
        assert jobs is not None
        parked, looked, answered = jobs.parked, asyncio.Event(), asyncio.Event()

        async def late(endpoint: str) -> int:
            left = await parked(endpoint)
            if asyncio.current_task() is pickup._unparking.get(endpoint):
                looked.set()
                await answered.wait()
            return left

        monkeypatch.setattr(jobs, "parked", late)
        one, other = await _pick(caller, 2)
        assert len(await jobs.begin([one.id, other.id])) == 2
        gone = GameParks("gone", "status_503", "it does not answer")
        await pickup._hand_back(one, gone, again=False)
        await looked.wait()
        await pickup._hand_back(other, gone, again=False)
        answered.set()
        await until(lambda: not pickup._unparking)
        assert await parked("gone") == 0


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("known_away", [True, False])
async def test_games_that_were_parked_by_a_process_that_is_gone_are_woken(
    url: str, monkeypatch: pytest.MonkeyPatch, at_start: bool, known_away: bool
) -> None:
    monkeypatch.setattr("app.models.health.UNTRIED_S", 0.0)
    monkeypatch.setattr(queued, "SWEEP_S", 0.05)
    parked_at, at = jobs.JobStore.parked_at, count(1 if at_start else 0)

    async def seen(store: jobs.JobStore) -> list[str]:
        return await parked_at(store) if next(at) else []

    async with faking() as fake:
        async with calling_with(fake, url, runner=False) as gone:
            batch, _ = await gone.create(seats=DIRECT, count=3)
            store = gone.services.store.jobs
            assert store is not None
            if known_away:
                await OutageStore(gone.services.database).put(Outage("fake", 0, "status_503", 0))
            for job in await _pick(gone, 3):
                await store.begin([job.id])
                await store.hand_back(job, after_s=queued.PARKED_S, endpoint="fake")
            assert await store.parked_at() == ["fake"]
        monkeypatch.setattr(jobs.JobStore, "parked_at", seen)
        async with calling_with(fake, url) as caller:
            assert (await caller.over(batch))["games"]["finished"] == 3


async def test_an_outage_does_not_end_while_a_game_waits_for_its_endpoint(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.endpoints.LOOK_S", 3600.0)
    async with faking() as fake, calling_with(fake, url, runner=False) as caller:
        outages, store = OutageStore(caller.services.database), caller.services.store.jobs
        assert store is not None
        await outages.put(Outage("fake", 0, "status_503", 0))
        batch, _ = await caller.create(seats=DIRECT)
        [job] = await _pick(caller, 1)
        await store.begin([job.id])
        await store.hand_back(job, after_s=queued.PARKED_S, endpoint="fake")
        for wake in (False, True):
            if wake:
                await store.wake("fake", lambda _: [])
                assert await store.parked("fake") == 0
            await caller.services.models.endpoints.look()
            assert "fake" in (await outages.all() or {})
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        await caller.over(batch)
        # A process that has seen it parked looks again.
        metrics.games_parked.labels("fake").set(1)
        pickup = caller.services.pickup
        assert isinstance(pickup, Queued)
        await pickup._adopt_parked()
        assert REGISTRY.get_sample_value("interintent_games_parked", {"endpoint": "fake"}) == 0
        await caller.services.models.endpoints.look()
        assert await outages.all() == {}


async def test_a_game_that_fails_suspends_its_batch_although_its_process_lets_go_of_it_meanwhile(
    url: str,
) -> None:
    # As a process does that finds the game over before it has heard of its own commit.
    faults = FakeOptions(faults=(read_fault("context_length:1:1"),), latency=read_latency("0.5"))
    async with faking(faults) as fake, calling_with(fake, url, parallel_games=1) as caller:
        batch, [game, _] = await caller.create(seats=DIRECT, count=2)
        await until(lambda: fake.counts.calls > 0)
        async with _held_up(url, game) as tried:
            await tried()
            released = asyncio.create_task(caller.services.runner.release(game))
            await asyncio.sleep(0)
        await released
        view = await caller.over(batch)
        assert (view["status"], view["games"]["failed"]) == ("suspended", 1)
        assert view["suspended"]["cause"] == "games_failed"


async def test_a_process_that_stood_still_asks_no_model_for_what_another_one_drives(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued, "WATCH_S", 1000.0)
    async with (
        faking(FakeOptions(latency=read_latency("1"))) as fake,
        calling_with(fake, url, parallel_games=1) as caller,
    ):
        _, [game] = await caller.create(seats=LLM)
        await until(lambda: fake.counts.in_flight == 1)
        pickup, jobs = caller.services.pickup, caller.services.store.jobs
        assert isinstance(pickup, Queued)
        assert jobs is not None
        # Another process takes it over while this one stands still.
        [silent] = await _pick(caller, 1, stale_s=0.0)
        await jobs.hand_back(silent)
        [job] = await _pick(caller, 1)
        assert [begun.game_id for begun in await jobs.begin([job.id])] == [game]
        pickup._checked_at = float("-inf")
        asked = fake.counts.calls + (fake.counts.in_flight == 0)
        await until(lambda: game not in pickup._driven)
        assert fake.counts.calls <= asked
        assert await _job(caller, game) == (job.id, job.id)


async def _silent_session(url: str, game: str, *, amid_statement: bool, **settings: str) -> Any:
    """A session as a process leaves it that stands still: it holds the game's row and an advisory lock."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""), server_settings=settings)
    await connection.execute("BEGIN")
    await connection.execute("SELECT pg_advisory_xact_lock(1)")
    await connection.execute(f"SELECT 1 FROM games WHERE game_id = '{game}' FOR UPDATE")
    if amid_statement:
        await connection.prepare("SELECT 1")  # what the server answers at once, before the statement's end
    return connection


@pytest.mark.parametrize("amid_statement", [False, True])
async def test_a_process_that_falls_silent_in_a_transaction_keeps_no_game_from_being_taken_over(
    url: str, amid_statement: bool
) -> None:
    async with calling(url, runner=False) as caller:
        batch, [game] = await caller.create(seats=RANDOM)
        jobs = caller.services.store.jobs
        assert jobs is not None
        [begun] = await jobs.begin([job.id for job in await _pick(caller, 1)])
        silent = await _silent_session(
            url, begun.game_id, amid_statement=amid_statement, application_name=APPLICATION
        )
        try:
            # PostgreSQL itself would end the session never, or after half a minute as `FROZEN_S` says.
            async with calling(url, stale_s=2) as other:
                assert (await other.over(batch))["games"]["finished"] == 1
            assert game == begun.game_id
            assert silent.is_closed()
        finally:
            silent.terminate()


async def test_sessions_of_others_and_those_that_were_heard_of_are_not_ended(url: str) -> None:
    async with calling(url, runner=False) as caller:
        _, [game, other] = await caller.create(seats=RANDOM, count=2)
        mine = await _silent_session(url, game, amid_statement=True, application_name=APPLICATION)
        await mine.execute("ROLLBACK")
        await mine.execute("BEGIN; SELECT txid_current()")
        theirs = await _silent_session(url, other, amid_statement=True, application_name="psql")
        reads = await asyncpg.connect(
            url.replace("+asyncpg", ""), server_settings={"application_name": APPLICATION}
        )
        await reads.execute("BEGIN; SELECT count(*) FROM games")
        try:
            async with caller.services.database.read_engine.connect() as connection:
                queries = queries_on((await connection.get_raw_connection()).driver_connection)
                await end_silent_sessions(queries, timedelta(hours=1))
                assert await mine.fetchval("SELECT 1") == 1
                await end_silent_sessions(queries, timedelta(0))
            await until(mine.is_closed)
            assert await theirs.fetchval("SELECT 1") == await reads.fetchval("SELECT 1") == 1
        finally:
            for session in (mine, theirs, reads):
                session.terminate()


async def test_games_without_a_job_get_one(url: str) -> None:
    async with calling(url, runner=False) as caller:
        batch, games = await caller.create(seats=RANDOM, count=3)
        _, [manual] = await caller.create(seats=RANDOM, drive="manual")
        # As an earlier version left one, and as a queue that was emptied leaves the others.
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(
                text("UPDATE games SET job = NULL WHERE game_id = :game"), {"game": games[0]}
            )
            await connection.execute(text("TRUNCATE pgqueuer"))
    async with calling(url) as caller:
        assert (await caller.over(batch))["games"]["finished"] == 3
        assert await _job(caller, manual) == (None, None)
        await until(lambda: not caller.services.pickup.busy)
        assert await _jobs(caller) == []


async def test_a_game_that_waits_for_a_person_takes_no_memory_and_goes_on_with_the_answer(url: str) -> None:
    async with calling(url, patience_s=0.1) as caller, calling(url, runner=False) as other:
        game, tokens = await remote_game(caller, rules=SHORT)
        await asked(caller, game, tokens[1])
        services = caller.services
        await until(lambda: game not in services.runner._over and not services.pickup.busy)
        job, driver = await _job(caller, game)
        assert (job is None, driver) == (False, None)
        # Another process accepts the answer, and the game goes on.
        assert (await answer(other, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
        vote = await asked(caller, game, tokens[4])
        assert vote["request_id"] == "1.1.vote.4"


async def test_deadlines_go_by_the_databases_clock(url: str) -> None:
    class HourAhead(Clock):
        def now_ms(self) -> int:
            return super().now_ms() + 3_600_000

    with use_clock(HourAhead()):
        async with calling(url) as caller:
            game, tokens = await remote_game(caller, rules=SHORT, deadlines_s={"propose_team": 600})
            asked_for = await asked(caller, game, tokens[1])
            [now] = await caller.services.database.column(text("SELECT extract(epoch FROM now()) * 1000"))
    # By its own clock, that process would have written events of the next hour, and missed others' deadlines.
    assert asked_for["ttl_ms"] <= 600_000
    assert asked_for["deadline"] < timestamp(int(now) + 600_000)


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_meanwhile_moves_no_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    shown = time.time_ns
    with use_clock(Clock()):
        async with calling(url) as caller:
            game, tokens = await remote_game(caller, rules=SHORT, deadlines_s={"propose_team": 600})
            await asked(caller, game, tokens[1])
            monkeypatch.setattr(time, "time_ns", lambda: shown() + hours * 3_600_000_000_000)
            assert (await answer(caller, game, tokens[1], TEAM, {"team": [2, 3]})).status_code == 200
            vote = await asked(caller, game, tokens[4])
            log = await caller.lines(f"/games/{game}/events")
            [now] = await caller.services.database.column(text("SELECT extract(epoch FROM now()) * 1000"))
    assert vote["request_id"] == "1.1.vote.4"
    assert 0 < vote["ttl_ms"] <= 60_000
    times = [line["at"] for line in log]
    assert times == sorted(times)
    assert timestamp(int(now) - 600_000) < times[-1] <= timestamp(int(now) + 1000)
    assert not [line for line in log if line["type"] == "action_defaulted"]


async def _set_back(caller: Caller, seconds: int) -> None:
    """Leaves the queue as it is after the database's clock was set back by so much."""
    columns = ("created", "updated", "heartbeat", "execute_after")
    later = ", ".join(f"{column} = {column} + interval '{seconds} seconds'" for column in columns)
    async with caller.services.database.write_engine.begin() as connection:
        await connection.execute(text(f"UPDATE pgqueuer SET {later}"))


async def test_queued_games_go_on_after_the_databases_clock_was_set_back(url: str) -> None:
    async with calling(url, runner=False) as caller:
        batch, _ = await caller.create(seats=RANDOM, count=3)
        await _set_back(caller, 3600)
        store = caller.services.store.jobs
        assert store is not None
        # `work --until-empty` does not end.
        assert await store.waiting() == 3
        async with calling(url) as worker:
            assert (await worker.over(batch))["games"]["finished"] == 3


@pytest.mark.parametrize("by", ["an answer", "its endpoint", "a try"])
async def test_a_game_that_was_just_woken_goes_on_after_the_databases_clock_was_set_back(
    url: str, by: str
) -> None:
    async with calling(url, runner=False) as caller:
        _, [game] = await caller.create(seats=RANDOM)
        store = caller.services.store.jobs
        assert store is not None
        [job] = await _pick(caller, 1)
        await store.begin([job.id])
        await store.hand_back(job, after_s=900.0, endpoint="fake")
        async with caller.services.database.write_engine.begin() as connection:
            ago = ", ".join(
                f"{column} = now() - interval '1 day'" for column in ("created", "updated", "heartbeat")
            )
            await connection.execute(text(f"UPDATE pgqueuer SET {ago}"))
            if by == "an answer":
                await connection.execute(jobs.WAKE, {"game": game})
        if by != "an answer":
            await store.wake("fake", None if by == "its endpoint" else lambda _: [])
        await _set_back(caller, 3600)
        await store.sweep()
        assert len(await _pick(caller, 1)) == 1


async def test_a_wait_is_as_long_as_it_was_to_be_after_the_databases_clock_was_set_back(url: str) -> None:
    async with calling(url, runner=False) as caller:
        await caller.create(seats=RANDOM)
        store = caller.services.store.jobs
        assert store is not None
        [job] = await _pick(caller, 1)
        await store.begin([job.id])
        await store.hand_back(job, after_s=900.0, endpoint="fake")
        await _set_back(caller, 86_400)
        for _ in range(2):
            await store.sweep()
            query = text("SELECT extract(epoch FROM execute_after - now()) FROM pgqueuer")
            [left_s] = await caller.services.database.column(query)
            assert 800 < left_s <= 900
        assert await store.waiting() == 0


async def test_games_and_judgings_of_a_dead_process_are_taken_over_after_the_clock_was_set_back(
    url: str,
) -> None:
    async with calling(url, runner=False) as caller:
        batch, _ = await caller.create(seats=RANDOM, count=3)
        store = caller.services.store.jobs
        assert store is not None
        assert len(await store.begin([job.id for job in await _pick(caller, 3)])) == 3
        assert len(await store.claim(["e_1"], uuid.uuid4(), 1.0)) == 1
        await _set_back(caller, 86_400)
        async with calling(url, stale_s=2) as worker:
            assert (await worker.over(batch))["games"]["finished"] == 3
        assert len(await store.claim(["e_1"], uuid.uuid4(), 1.0)) == 1


async def test_a_deadline_passes_although_nobody_drives_the_game(url: str) -> None:
    async with calling(url, patience_s=0.1) as caller:
        game, tokens = await remote_game(caller, rules=SHORT, deadlines_s={"propose_team": 1.0, "vote": 500})
        vote = await asked(caller, game, tokens[4])
        assert vote["request_id"] == "1.1.vote.4"
        log = await caller.lines(f"/games/{game}/events")
        assert [line["cause"] for line in log if line["type"] == "action_defaulted"] == ["deadline"]
