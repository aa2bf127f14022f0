"""Each idempotency key has one effect, although the service is killed during the requests.

``python -m tests.app.once --keys 100`` prints what happened as JSON, and fails if a key had two effects or
two answers. Each key is sent eight times at once. The service is killed at a random moment and started again,
and every request without an answer is sent again.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.app.calling import PROJECT, Process

AT_ONCE = 8
TOGETHER = 5
"""The number of keys between two kills."""

RECORD = (PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes()
WISH = json.dumps({"drive": "manual", "count": 3}).encode()


@dataclass
class Outcome:
    """What happened to the keys."""

    keys: int
    kills: int = 0
    unheard: int = 0
    """Requests that the kill left without an answer."""
    faults: list[str] = field(default_factory=list)


class Service:
    """A process that is killed and started again; its address changes."""

    def __init__(self, database_url: str, directory: Path) -> None:
        self._arguments = (database_url, directory)
        self.process = Process(*self._arguments, "--no-runner")

    def kill(self) -> None:
        self.process.kill()
        self.process = Process(*self._arguments, "--no-runner")

    def stop(self) -> None:
        self.process.terminate()


def _request(number: int) -> tuple[str, bytes]:
    return ("/games/import", RECORD) if number % 4 == 3 else ("/games", WISH)


async def _heard(url: str, number: int, outcome: Outcome) -> Any | None:
    path, body = _request(number)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            answer = await client.post(path, content=body, headers={"idempotency-key": f"key {number}"})
    except httpx.TransportError:
        outcome.unheard += 1
        return None
    if answer.status_code != 201:
        outcome.faults.append(f"key {number}: {answer.status_code} {answer.text[:200]}")
        return None
    return answer.json()


async def one_effect_a_key(database_url: str, directory: Path, keys: int, seed: int) -> Outcome:
    """Sends every key, kills the service in between, and counts the effects at the end."""
    rng = random.Random(seed)
    outcome = Outcome(keys)
    answers: dict[int, set[str]] = {number: set() for number in range(keys)}
    service = await asyncio.to_thread(Service, database_url, directory)
    try:
        for start in range(0, keys, TOGETHER):
            numbers = range(start, min(start + TOGETHER, keys))
            sent = [
                asyncio.create_task(_heard(service.process.url, number, outcome))
                for number in numbers
                for _ in range(AT_ONCE)
            ]
            # At any moment: before the first answer, between two, and when nearly all have come.
            heard = rng.randrange(len(sent))
            for answer in itertools.islice(asyncio.as_completed(sent), heard):
                await answer
            await asyncio.sleep(rng.uniform(0, 0.02))
            await asyncio.to_thread(service.kill)
            outcome.kills += 1
            first = await asyncio.gather(*sent)
            again = await asyncio.gather(*(_heard(service.process.url, n, outcome) for n in numbers))
            for number, answer in zip([n for n in numbers for _ in range(AT_ONCE)], first, strict=True):
                answers[number] |= {json.dumps(answer, sort_keys=True)} if answer else set()
            for number, answer in zip(numbers, again, strict=True):
                answers[number].add(json.dumps(answer, sort_keys=True))
        await _check(service.process.url, answers, outcome)
    finally:
        await asyncio.to_thread(service.stop)
    return outcome


async def _check(url: str, answers: dict[int, set[str]], outcome: Outcome) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        games: list[dict[str, Any]] = []
        path: str | None = "/games?limit=200"
        while path:
            page = (await client.get(path)).json()
            games += page["games"]
            path = f"/games?limit=200&cursor={page['next']}" if page["next"] else None
    by_batch: dict[str, int] = {}
    for game in games:
        by_batch[game["batch_id"]] = by_batch.get(game["batch_id"], 0) + 1
    for number, heard in answers.items():
        if len(heard) != 1:
            outcome.faults.append(f"key {number} was answered in {len(heard)} ways")
            continue
        batch = json.loads(next(iter(heard)))["batch_id"]
        expected = 1 if _request(number)[0] == "/games/import" else 3
        if by_batch.pop(batch, 0) != expected:
            outcome.faults.append(f"key {number}: its batch has not its {expected} games")
    if by_batch:
        outcome.faults.append(f"{len(by_batch)} batches that nobody was told of: {sorted(by_batch)[:5]}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.app.once", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database-url", help="Left out: SQLite in a temporary directory.")
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = given.database_url or f"sqlite:///{directory / 'games.sqlite'}"
        outcome = asyncio.run(one_effect_a_key(url, directory, given.keys, given.seed))
    sys.stdout.write(json.dumps(vars(outcome), indent=2) + "\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
