"""Two laboratories on one server: what one is, has and does makes no difference to the other.

A world is a service with two owners. Ours does everything that it can, to its own games and to theirs, whose
ids it knows, with its key and with every credential that any answer holds. Everything that it is answered is
kept. Worlds differ in nothing but what is theirs; time and randomness are fixed. So what we are answered must
be the same, byte for byte.

What everybody may see of a game is the same in all worlds: theirs are twins (tests/engine/twins.py), with
other roles, thoughts, agents, labels, costs, evaluations and tokens behind the same public record.

``python -m tests.app.two_laboratories`` compares more worlds.
"""

import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

import click
import httpx

from app.base import clock
from app.edge.auth import SCOPES, hash_of
from app.store.games import NewGame
from app.store.keys import KeyStore
from app.store.rows import ApiKey, BatchRow
from engine import rules, state
from engine.events import Event
from engine.profile import make_profile
from engine.state import State
from engine.terms import PUBLIC
from tests.app.cage import Cage, play_on
from tests.app.calling import Caller
from tests.app.reach import Explorer, Laboratory, Sample
from tests.app.real_server import Served, local_settings, running_server
from tests.app.twins import pair_of

__all__ = ["WORLDS", "Answer", "World", "differences", "heard"]

NOW_MS: Final = 1_800_000_000_000
OURS, THEIRS, OPERATOR = ("ik_" + letter * 43 for letter in "uto")
SECRET: Final = "s" * 64

THEIR_GAMES: Final = (
    ("their running", "g_their00000000000000a", "b_their00000000000000a"),
    ("their finished", "g_their00000000000000b", "b_their00000000000000b"),
)


INVITING: Final = frozenset(
    {
        "POST /evaluations/sets",
        "POST /evaluations/sets/{set_id}/withdraw",
        "POST /bots",
        "POST /bots/{bot_id}/check",
        "POST /seeks",
        "DELETE /seeks/{seek_id}",
        "POST /games/open",
    }
)
"""What others see by design: bots are listed, and whoever seeks a game is counted."""


HEALTH: Final = frozenset({"GET /readyz"})
"""What depends on how busy the machine is."""


class Turning(clock.Clock):
    """A clock that moves only from one request to the next, and random bits that follow from the request."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, turn: int) -> None:
        """The turn of the next request."""
        self.turn = turn
        self._random = Random(turn)

    def now_ms(self) -> int:
        return NOW_MS + 10 * self.turn

    def random_bits(self, count: int) -> int:
        return self._random.getrandbits(count)


@dataclass(frozen=True)
class Answer:
    """What one was told."""

    where: str
    """The request."""
    told: str
    """Status, body and headers, or all frames of a socket."""


class TurningCaller(Caller):
    """Every request is a turn."""

    turning: Turning

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        self.turning.begin(self.turning.turn + 1)
        return await super().send(request, **options)


@dataclass
class Recording(Explorer):
    """An explorer that keeps every answer."""

    answers: list[Answer] = field(default_factory=list)

    def _read(self, where: str, answer: httpx.Response, target: Any) -> None:
        headers = sorted(answer.headers.items())
        text = answer.text
        if where.startswith("GET /me"):
            # Sockets of our own that are just being closed count until they are.
            text = re.sub(r'("counted":"process","limit":[^,]*),"used":[^,]*,"left":[^,]*', r"\1", text)
            headers = [(name, value) for name, value in headers if name != "content-length"]
        self.answers.append(Answer(where, f"{answer.status_code} {text} {headers}"))
        super()._read(where, answer, target)

    async def _socket(self, credential: str, target: Any) -> None:
        before = len(self.answers)
        await super()._socket(credential, target)
        assert len(self.answers) > before

    def _learn(self, where: str, text: str, values: list[Any], target: Any) -> None:
        if where.startswith("the socket"):
            self.answers.append(Answer(where, text))
        super()._learn(where, text, values, target)


# --- a world ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What is theirs."""

    name: str
    twin: int
    """Which of two twin games each of theirs is, 0 or 1."""
    busy: bool = False
    """Whether they have evaluated, labelled and minted, and have more games than those we know of."""
    hostile: bool = False
    """Whether they have tried everything on our games before."""


WORLDS: Final = (
    World("quiet", 0),
    World("with other secrets", 1),
    World("busy", 1, busy=True),
    World("hostile", 0, hostile=True),
)


def twin_games(seed: int) -> list[tuple[Sequence[Event], Sequence[Event]]]:
    """A running and a finished game, each twice: the same for everybody, but for what is hidden."""
    found: dict[bool, tuple[Sequence[Event], Sequence[Event]]] = {}
    number = seed
    while len(found) < 2:
        number += 1
        pair = pair_of("roles", number, PUBLIC)
        if pair is None or (pair.ends in found) or len(pair.steps) < 12:
            continue
        steps = pair.steps if pair.ends else pair.steps[:12]
        logs = [[*pair.first[side], *(event for step in steps for event in step[side])] for side in (0, 1)]
        if pair.ends != state.fold(logs[0]).table.over:
            continue
        found[pair.ends] = (logs[0], logs[1])
    return [found[False], found[True]]


async def _lay(served: Served, seed: int, world: World, laboratory: Laboratory) -> None:
    """Our games, which are the same in all worlds, and theirs."""
    rng = Random(seed)
    for name, steps, reveal in (("running", 12, "roles"), ("told", None, "roles"), ("untold", None, "none")):
        cage = Cage(rng)
        past = rules.create(make_profile("interintent", 5, reveal=reveal), rng.getrandbits(60))  # type: ignore[arg-type]
        log = play_on(cage, state.fold(past), rng, steps, lambda: rng.random() < 0.3)
        letter = "abc"[len(laboratory.samples)]
        ids = (f"g_ours000000000000000{letter}", f"b_ours000000000000000{letter}")
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        await _insert(served, laboratory, name, ids, log, reveal, "project:ours", seats, {"arm": "ours"})
    for (name, *ids), logs in zip(THEIR_GAMES, twin_games(seed), strict=True):
        log = state.fold(logs[world.twin])
        kinds = ("llm", "scripted") if world.twin else ("random", "remote")
        seats = [{"agent": "remote"}, *[{"agent": kind} for kind in (*kinds, *kinds, kinds[0])]]
        labels = {"arm": "treatment", "study": "secret"} if world.busy else {}
        reveal = str(log.log[0].profile.reveal)  # type: ignore[attr-defined]
        await _insert(
            served, laboratory, name, (ids[0], ids[1]), log, reveal, "project:theirs", seats, labels
        )
        # What we submit about their games must not depend on what they hide.
        laboratory.samples[name] = replace(laboratory.samples[name], log=state.fold(logs[0]))


async def _insert(
    served: Served,
    laboratory: Laboratory,
    name: str,
    ids: tuple[str, str],
    log: State,
    reveal: str,
    owner: str,
    seats: list[dict[str, Any]],
    labels: dict[str, str],
) -> None:
    game_id, batch_id = ids
    game = NewGame(
        game_id,
        0,
        "manual",
        "0",
        [{"options": {}, **seat} for seat in seats],
        log.log,
        status="finished" if log.table.over else "running",
        winner=log.table.winner.value if log.table.winner else None,
        ending=log.table.ending.value if log.table.ending else None,
    )
    batch = BatchRow(batch_id, NOW_MS, 1, "0", {"drive": "manual"}, labels, owner=owner)
    store = served.services.store

    async def work(connection: Any) -> None:
        await store.insert_batch(connection, batch)
        await store.insert_games(connection, batch_id, [game], NOW_MS)

    await served.services.database.writer.run(work)
    laboratory.samples[name] = Sample(name, game_id, batch_id, log, reveal, name)


async def _do_business(caller: Caller, theirs: Sequence[tuple[str, str, str]]) -> None:
    """What a laboratory does in a week, by its own key."""
    bearer = {"authorization": f"Bearer {THEIRS}"}

    async def does(method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await caller.request(method, path, json=body, headers=bearer)
        assert answer.is_success, (method, path, answer.text)
        return answer

    (_, running, batch), (_, finished, judged) = theirs
    for count in (1, 3):
        await does("POST", "/games", {"drive": "manual", "count": count, "labels": {"a": "b"}})
    await does("POST", f"/games/{running}/tokens", {"viewer": "seat:1"})
    await does("POST", f"/batches/{batch}/tokens", {})
    await does("POST", f"/games/{running}/seats/1/claim-code", {})
    await does(
        "POST", "/evaluations", {"dimension": "statements", "judge": {"kind": "rule"}, "batch": judged}
    )
    fork = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual", "seats": [{"agent": "remote"}]}
    await does("POST", f"/games/{finished}/fork", fork)


@contextlib.asynccontextmanager
async def _running(
    world: World, seed: int, folder: Path
) -> AsyncIterator[tuple[Served, Laboratory, Turning]]:
    turning = Turning()
    with clock.use_clock(turning), mock.patch("uvicorn.server.formatdate", return_value="still"):
        name = re.sub(r"\W", "-", world.name)
        settings = local_settings(
            f"sqlite:///{folder / name}.sqlite", api_key=OPERATOR, token_secrets=SECRET, runner=False
        )
        async with running_server(settings) as served:
            store = KeyStore(served.services.database)
            for number, (text, owner) in enumerate(((OURS, "ours"), (THEIRS, "theirs"))):
                scopes = tuple(sorted(SCOPES - {"metrics:read"}))
                await store.add(ApiKey(f"k_{number}", owner, hash_of(text), scopes, NOW_MS, project=owner))
            laboratory = Laboratory(served)
            await _lay(served, seed, world, laboratory)
            yield served, laboratory, turning


async def heard(world: World, seed: int, folder: Path) -> list[Answer]:
    """Everything that we are answered in this world."""
    async with contextlib.AsyncExitStack() as stack:
        served, laboratory, turning = await stack.enter_async_context(_running(world, seed, folder))
        caller = await stack.enter_async_context(TurningCaller(served.app))
        caller.turning = turning
        if world.busy:
            turning.begin(100_000)
            await _do_business(caller, THEIR_GAMES)
        if world.hostile:
            turning.begin(200_000)
            ours = Laboratory(served)
            ours.samples = {name: one for name, one in laboratory.samples.items() if "their" not in name}
            await _explored(ours, caller, THEIRS, INVITING | HEALTH)
        turning.begin(900_000)
        return (await _explored(laboratory, caller, OURS, HEALTH)).answers


async def _explored(
    laboratory: Laboratory, caller: Caller, key: str, leaves_out: frozenset[str] = frozenset()
) -> Recording:
    explorer = Recording(laboratory, caller, SCOPES, leaves_out=leaves_out)
    await explorer.explore(key)
    return explorer


def differences(one: Sequence[Answer], other: Sequence[Answer]) -> Iterator[str]:
    """By what two worlds can be told apart, in words."""
    for first, second in zip(one, other, strict=False):
        if first.where != second.where:
            yield f"then we ask {first.where}, there {second.where}"
            return
        if first.told != second.told:
            place = next(
                (i for i, (a, b) in enumerate(zip(first.told, second.told, strict=False)) if a != b),
                min(len(first.told), len(second.told)),
            )
            start = max(place - 80, 0)
            told = (one[start : place + 80] for one in (first.told, second.told))
            yield f"{first.where}: {' against '.join(map(repr, told))}"
    if len(one) != len(other):
        yield f"{len(one)} answers against {len(other)}"


async def _main() -> None:
    for seed in range(1, 6):
        with tempfile.TemporaryDirectory() as folder:
            quiet = await heard(WORLDS[0], seed, Path(folder))
            for world in WORLDS[1:]:
                found = list(differences(quiet, await heard(world, seed, Path(folder))))
                click.echo(
                    json.dumps(
                        {"seed": seed, "world": world.name, "answers": len(quiet), "found": found[:20]}
                    )
                )


if __name__ == "__main__":
    asyncio.run(_main())
