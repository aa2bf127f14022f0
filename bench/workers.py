"""Processes that share batches: how much faster several end one, and how two owners share the places.

Games differ in length, and the last ones leave places empty: what waiting alone takes is told beside each
time, and with it how many times as fast so many processes could be at most.

``python -m bench.workers --database-url postgresql://…`` needs a PostgreSQL database of its own, and fills
it. The games are of `direct` seats of a fake model that takes a second an answer: waiting is the limit, not
this machine.
"""

import argparse
import asyncio
import contextlib
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import psutil
from sqlalchemy import text

from app.edge.auth import Caller
from app.games.schemas import NewGames
from app.instruments.fake_model import FakeModel, FakeOptions, read_latency
from app.main import Composition
from app.runner.queued import KEPT
from app.settings import Settings
from bench.errands import read_on
from bench.row import Row

__all__ = ["worker_rows"]

DIRECT = [{"agent": "llm", "model": "fake", "mechanism": "direct"}]


@contextlib.asynccontextmanager
async def _workers(url: str, models: str, processes: int, places: int) -> AsyncIterator[list[psutil.Process]]:
    """So many processes that drive games, all of them ready."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "INTERINTENT_MODELS": models}
        command = [sys.executable, "-m", "app.cli", "work", "--database-url", url]
        command += ["--max-games", str(places), "--drain", "0"]
        started = [_start(command, directory, environment) for _ in range(processes)]
        try:
            for one in started:
                await asyncio.to_thread(_until_ready, one)
            yield [psutil.Process(one.pid) for one in started]
        finally:
            for one in started:
                one.terminate()
            for one in started:
                await asyncio.to_thread(one.wait)


def _start(command: Sequence[str], directory: str, environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, cwd=directory, env=environment, stderr=subprocess.PIPE, text=True)


def _until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "driving up to" in line:
            read_on(process.stderr)
            return
    raise RuntimeError(f"a worker did not start:\n{''.join(lines)}")


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    """The CPU time that they have used together."""
    used = [one.cpu_times() for one in processes]
    return float(sum(one.user + one.system for one in used))


async def _post(parts: Composition, games: int, owner: str) -> str:
    order = {"seats": DIRECT, "count": games, "seeds": {"from": 1}, "rules": {"max_rejections": 1}}
    new = NewGames.model_validate(order)
    made = await parts.games.create(new, by=Caller("test", owner=owner))
    await parts.games.lay_out(made.batch_id)
    return made.batch_id


async def _statuses(parts: Composition, batches: Sequence[str]) -> Counter[tuple[str, str]]:
    """How many games of each batch have each status."""
    query = text("SELECT batch_id, status, count(*) FROM games WHERE batch_id = ANY(:batches) GROUP BY 1, 2")
    rows = await parts.database.rows(query.bindparams(batches=list(batches)))
    return Counter({(batch, status): count for batch, status, count in rows})


async def _ends(parts: Composition, batch: str, games: int) -> None:
    while (await _statuses(parts, [batch]))[batch, "finished"] < games:  # noqa: ASYNC110  # others end them
        await asyncio.sleep(0.2)


async def _waits(parts: Composition, batch: str) -> list[int]:
    """For how many answers each game waits one after the other, by its place in the batch."""
    query = text(
        "SELECT position, request_id FROM model_calls JOIN games ON games.game_id = model_calls.game_id "
        "WHERE batch_id = :batch"
    )
    waits: dict[int, set[str]] = {}
    for position, request_id in await parts.database.rows(query.bindparams(batch=batch)):
        phase, kind, _ = request_id.rsplit(".", 2)
        together = kind in ("vote", "card", "summarise")  # all seats are asked at once
        waits.setdefault(position, set()).add(f"{phase}.{kind}" if together else request_id)
    return [len(waits[position]) for position in sorted(waits)]


def _waiting_alone(waits: Sequence[int], places: int) -> int:
    """For how many answers, one after the other, a batch waits that has so many places and loses no time."""
    ends = [0] * places
    for count in waits:
        heapq.heapreplace(ends, ends[0] + count)
    return max(ends)


async def _share(parts: Composition, batches: Sequence[str], games: int) -> float:
    """The smaller share of the games that begin from now on, until half of all have."""
    before = [0 for _ in batches]
    while True:
        counted = await _statuses(parts, batches)
        begun = [games - counted[batch, "created"] for batch in batches]
        before = before if any(before) else begun
        if sum(begun) >= games:
            new = [now - then for now, then in zip(begun, before, strict=True)]
            if not any(new):
                raise RuntimeError("all games began at once: shares need more games than places")
            return min(new) / sum(new)
        await asyncio.sleep(0.1)


async def worker_rows(
    url: str, games: int, places: int, processes: Sequence[int], answer_s: float
) -> list[Row]:
    """Measures one batch with each number of processes, then two owners' batches with two processes."""
    rows: list[Row] = []
    fake = FakeModel(FakeOptions(latency=read_latency(f"{answer_s}")))
    async with fake.serving():
        endpoints = {"fake": {"base_url": f"{fake.url}/v1", "model": "fake", "parallel": 1000}}
        models = json.dumps(endpoints)
        parts = Composition(Settings(DATABASE_URL=url, models=endpoints, runner=False))
        await parts.database.start()
        try:
            alone_s = 0.0
            for count in processes:
                async with _workers(url, models, count, places) as workers:
                    began, used_s = time.perf_counter(), _cpu_s(workers)
                    batch = await _post(parts, games, "anna")
                    await _ends(parts, batch, games)
                    took_s, used_s = time.perf_counter() - began, _cpu_s(workers) - used_s
                alone_s = alone_s or took_s
                waits = await _waits(parts, batch)
                of_games = places - places // KEPT
                least_s = _waiting_alone(waits, of_games * count) * answer_s
                most = _waiting_alone(waits, of_games * processes[0]) * answer_s / least_s
                what = f"{games} games, {places} places a process, {count} processes"
                aim = {2: "1.8", 4: "3"}.get(count, "")
                rows.append(Row(what, took_s, "s", "one process", alone_s / took_s, aim))
                # Waiting is the limit only while each of them is idle for most of the time.
                busy = Row(f"CPU of a process, {count} processes", used_s / count / took_s, "", "one core")
                rows += [busy, Row(f"CPU a game, {count} processes", used_s / games, "s")]
                rows.append(Row(f"waiting alone, {count} processes", least_s, "s", "it", took_s / least_s))
                print(
                    f"{what}: {took_s:.1f} s, {alone_s / took_s:.2f} times as fast "
                    f"({most:.2f} if it took {least_s:.0f} s, what waiting takes); "
                    f"{used_s / games:.2f} s of CPU a game, {busy.value:.0%} of a core each",
                    file=sys.stderr,
                )
            async with _workers(url, models, 2, places):
                batches = [await _post(parts, games, owner) for owner in ("anna", "bert")]
                share = await _share(parts, batches, games)
                rows.append(Row("share of the smaller of two owners", share, "", "0.5", share / 0.5, "0.8"))
                for batch in batches:
                    await parts.games.pause(batch, by=Caller("the bench"))
        finally:
            await parts.stop()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--places", type=int, default=25)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--answer-s", type=float, default=1.0)
    given = parser.parse_args()
    processes = [int(count) for count in given.processes.split(",")]
    work = worker_rows(given.database_url, given.games, given.places, processes, given.answer_s)
    for row in asyncio.run(work):
        ratio = f"{row.ratio or 0:.2f} of {row.baseline}"
        print(f"{row.what:60} {row.value:8.2f} {row.unit:3} {ratio:20} aim {row.aim}")


if __name__ == "__main__":
    main()
