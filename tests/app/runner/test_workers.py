"""Processes that only drive games: whatever befalls them or their database, nothing is lost or repeated."""

import asyncio
import contextlib
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.instruments.fake_model import FakeOptions, read_latency
from app.runner.beats import Beats
from app.store.deleting import OF_GAMES
from app.store.schema import MIGRATION_LOCK
from app.store.tables import games
from tests import forked
from tests.app.calling import WITHIN_S, Process, calling, new_batch, read_ndjson, serving_process, until
from tests.app.modelling import DIRECT, faking, settings_file, stored_calls
from tests.app.store.test_schema import run
from tests.ports import steady_port
from tests.postgres import PostgresServer, fresh_database

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

STALE_S = 6
"""Long enough for a busy machine, so that nobody but the victims loses a game."""

PLACES = 6
"""Games that one process drives at a time; each has one call in flight, or five where all vote."""

RULES = {"max_rejections": 1}

QUICK = {**RULES, "discussion": "none", "summaries": False}

TAKEOVERS = 5
"""How often a process is frozen and wakes up to games that others have ended."""


class Worker:
    """``interintent work`` as an operator starts it."""

    def __init__(
        self,
        database_url: str,
        directory: Path,
        *arguments: str,
        command: Sequence[str] = ("work", "--max-games", str(PLACES)),
    ) -> None:
        self.process = forked.start([*command, "--database-url", database_url, *arguments], cwd=directory)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def drives(self) -> None:
        await until(lambda: any("driving up to" in line for line in self.said) or self._is_over())
        assert not self._is_over(), self.said

    def _is_over(self) -> bool:
        return self.process.poll() is not None

    async def end(self, number: int = signal.SIGKILL) -> int:
        """Sends the signal, and returns the exit status."""
        self.send(number)
        return await self.wait()

    async def wait(self) -> int:
        return await asyncio.to_thread(self.close)

    def close(self) -> int:
        status = self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@contextlib.contextmanager
def workers() -> Iterator[list[Worker]]:
    """A list of workers, which are killed at the end in any case."""
    all_of_them: list[Worker] = []
    try:
        yield all_of_them
    finally:
        for worker in all_of_them:
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGKILL)
            worker.close()


async def _over(process: Process, batch: str) -> dict[str, Any]:
    """The batch once all of its games are over; its server may be cut off in between."""
    async with (
        asyncio.timeout(3 * WITHIN_S),
        httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client,
    ):
        while True:
            answer = await client.get(f"/batches/{batch}")
            if answer.status_code == 200:
                view: dict[str, Any] = answer.json()
                if view["status"] not in ("queued", "running"):
                    return view
            await asyncio.sleep(0.2)


async def _rows_of(url: str, batch: str) -> dict[str, list[str]]:
    """Every row of every table that belongs to the batch's games, by table."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return {
            table.name: [
                row[0]
                for row in await connection.fetch(
                    f"SELECT CAST(this AS text) FROM {table.name} AS this WHERE game_id IN "
                    "(SELECT game_id FROM games WHERE batch_id = $1) ORDER BY 1",
                    batch,
                )
            ]
            for table in (games, *OF_GAMES)
        }
    finally:
        await connection.close()


async def _check_logs(process: Process, batch: str) -> None:
    """Every log is whole, ends once and holds no default."""
    async with httpx.AsyncClient(base_url=process.url, timeout=WITHIN_S) as client:
        exported = await client.get(f"/batches/{batch}/export", params={"view": "full"})
    by_game: dict[str, list[dict[str, Any]]] = {}
    for line in read_ndjson(exported.content):
        if "seq" in line:
            by_game.setdefault(line["game"], []).append(line)
    for log in by_game.values():
        assert [line["seq"] for line in log] == [*range(1, len(log) + 1)]
        assert [line["type"] for line in log].count("game_ended") == 1
        assert log[-1]["type"] == "game_ended"
        assert not [line for line in log if line["type"] == "action_defaulted"]


@pytest.mark.long
async def test_nothing_is_lost_or_repeated_whatever_befalls_the_processes(tmp_path: Path) -> None:
    chance = random.Random(11)
    latency = FakeOptions(latency=read_latency("uniform:0.02,0.2"))
    with PostgresServer() as own, workers() as all_of_them:
        url = own.create_database()
        async with faking(latency) as fake:
            stale = f"INTERINTENT_STALE_S={STALE_S}"
            settings_file(tmp_path, fake, stale, parallel=PLACES, attempts=1)
            with serving_process(url, tmp_path, "--no-runner") as serving:

                def start() -> Worker:
                    all_of_them.append(Worker(url, tmp_path, "--drain", "30"))
                    return all_of_them[-1]

                async def some_calls() -> None:
                    mark = fake.counts.calls + chance.randint(20, 40)
                    await until(lambda: fake.counts.calls >= mark)

                killed, frozen, stopped = start(), start(), start()
                for worker in all_of_them:
                    await worker.drives()
                batch = await new_batch(serving, seats=DIRECT, count=12, rules=RULES, seeds={"from": 5})
                await some_calls()
                await killed.end(signal.SIGKILL)
                start()
                frozen.send(signal.SIGSTOP)
                asked = fake.counts.calls
                await some_calls()
                assert await stopped.end(signal.SIGTERM) == 0
                start()
                await asyncio.sleep(1.5 * STALE_S)  # what the frozen one drove is taken over meanwhile
                frozen.send(signal.SIGCONT)
                await until(lambda: fake.counts.calls > asked + 20)
                own.stop("immediate")
                await asyncio.sleep(0.5)
                own.start()
                view = await _over(serving, batch)
                assert view["games"]["finished"] == 12, view
                await _check_logs(serving, batch)
            # Only what was in flight is asked again: at the kill, the freeze and the cut from the database.
            stored = await stored_calls(url)
            assert 0 <= fake.counts.calls - stored <= PLACES * 5


@pytest.mark.long
async def test_what_a_frozen_process_drove_is_driven_by_another_before_it_wakes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with fresh_database(postgres) as url, workers() as all_of_them:
        async with faking(FakeOptions(latency=read_latency("0.1"))) as fake:
            # It stands still for longer than its calls in flight may take.
            stale = f"INTERINTENT_STALE_S={STALE_S}"
            settings_file(tmp_path, fake, stale, attempts=3, timeout_s=STALE_S / 2)
            frozen = Worker(url, tmp_path)
            all_of_them.append(frozen)
            await frozen.drives()
            with serving_process(url, tmp_path, "--no-runner") as serving:
                for seed in range(TAKEOVERS):
                    asked = fake.counts.calls
                    batch = await new_batch(serving, seats=DIRECT, count=2, rules=QUICK, seeds={"from": seed})
                    await until(lambda mark=asked + 5 + seed: fake.counts.calls >= mark)  # type: ignore[misc]
                    frozen.send(signal.SIGSTOP)
                    all_of_them.append(Worker(url, tmp_path, "--until-empty"))
                    view = await _over(serving, batch)
                    assert view["games"]["finished"] == 2
                    assert await all_of_them[-1].wait() == 0
                    before, answered = await _rows_of(url, batch), fake.counts.answered
                    assert before["model_calls"]
                    frozen.send(signal.SIGCONT)
                    # It goes on with what comes, but writes and asks nothing for what it drove.
                    view = await _over(serving, await new_batch(serving, count=2))
                    assert view["games"]["finished"] == 2
                    await asyncio.sleep(2)  # longer than the pause before a call is repeated
                    assert await _rows_of(url, batch) == before
                    # A request that was being sent when it stood still may arrive, but is broken off.
                    assert fake.counts.answered == answered
                    await _check_logs(serving, batch)
            assert await frozen.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.parametrize("lacking", ["its server", "itself", "our rights"])
async def test_a_process_waits_for_a_database_that_is_not_there_when_it_starts(
    tmp_path: Path, lacking: str
) -> None:
    with PostgresServer() as own, workers() as all_of_them:
        url = own.url("later") if lacking == "itself" else own.create_database()
        if lacking == "its server":
            own.stop()
        elif lacking == "our rights":
            await run(url, "CREATE ROLE svc LOGIN", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
            url = url.replace("postgres@", "svc@")
        worker = Worker(url, tmp_path)
        all_of_them.append(worker)
        words = {"its server": "does not answer", "itself": "createdb later", "our rights": "refuses us"}
        await until(lambda: any(words[lacking] in one for one in worker.said) or worker._is_over())
        assert not worker._is_over(), worker.said
        if lacking == "its server":
            own.start()
        elif lacking == "itself":
            client = await asyncpg.connect(own.url("postgres").replace("+asyncpg", ""))
            await client.execute("CREATE DATABASE later")
            await client.close()
        else:
            await run(url.replace("svc@", "postgres@"), "GRANT ALL ON SCHEMA public TO svc")
        await worker.drives()
        assert await worker.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.parametrize("command", [("work", "--until-empty"), ("serve", "--port", "0")])
async def test_a_process_that_waited_for_a_database_and_then_cannot_start_does_not_end_as_if_all_was_done(
    tmp_path: Path, command: Sequence[str]
) -> None:
    with PostgresServer() as own, workers() as all_of_them:
        url = own.create_database()
        await run(url, "CREATE TABLE bots (of_another_program INTEGER)")
        own.stop()
        worker = Worker(url, tmp_path, command=command)
        all_of_them.append(worker)
        await until(lambda: any("does not answer" in one for one in worker.said) or worker._is_over())
        own.start()
        assert await worker.wait() == 1
        assert any("the service cannot start" in one for one in worker.said)


@pytest.mark.long
async def test_a_process_answers_its_probes_while_it_waits_for_a_migration(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    port = steady_port()
    probes = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=WITHIN_S)
    with fresh_database(postgres) as url, workers() as all_of_them:
        other = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            await other.execute(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
            worker = Worker(url, tmp_path, "--metrics-port", str(port))
            all_of_them.append(worker)
            async with probes, asyncio.timeout(WITHIN_S):
                while True:
                    with contextlib.suppress(httpx.TransportError):
                        assert (await probes.get("/livez")).status_code == 200
                        break
                    await asyncio.sleep(0.05)
                assert "starting" in (await probes.get("/readyz")).json()["detail"]
            assert not any("driving up to" in line for line in worker.said)
        finally:
            await other.close()
        await worker.drives()
        assert await worker.end(signal.SIGTERM) == 0


@pytest.mark.long
async def test_a_process_that_works_until_nothing_is_left_ends_by_itself(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    with workers() as all_of_them:
        with serving_process(url, tmp_path) as serving:
            batch = await new_batch(serving, count=3)
            second = Worker(url, tmp_path, "--until-empty")
            all_of_them.append(second)
            assert await second.wait() == 2
            assert any("move to PostgreSQL" in line for line in second.said), second.said
            await _over(serving, batch)
        async with calling(url, runner=False) as caller:
            batch, _ = await caller.create(count=3)
        alone = Worker(url, tmp_path, "--until-empty")
        all_of_them.append(alone)
        assert await alone.wait() == 0
        async with calling(url, runner=False) as caller:
            assert (await caller.over(batch))["games"]["finished"] == 3


async def test_beats_end_with_a_loop_that_hangs_and_go_on_after_the_whole_process_stood_still() -> None:
    hung = threading.Event()
    # No job is held, so no database is asked.
    beats = Beats("postgresql+asyncpg://nobody@127.0.0.1:1/none", list, 0.6, hung.set)
    assert beats._comes_round()
    beats._came_round = time.monotonic() - 10
    assert not beats._comes_round()
    assert hung.is_set()
    hung.clear()
    beats._came_round = beats._beat_at = time.monotonic() - 10
    assert beats._comes_round()
    assert not hung.is_set()
