"""Language-model seats: what a game asks for, and how much longer it takes than its calls.

``python -m bench`` measures the time briefly. ``python -m bench.models`` does so in full: a fake model that
takes one second an answer, one game by itself and fifty at once in one process.
"""

import argparse
import asyncio
import contextlib
import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agents.agent import Agent, Setup
from agents.llm.agent import LlmAgent
from agents.llm.prefix import PrefixMeter
from agents.llm.session import CallKey
from agents.model.model import Form, Message, Reply, Usage
from agents.table import MemoryJournal, play
from app.instruments.fake_model.sensible import answer
from app.models.account import Budget
from app.models.recording import Recording
from app.runner.simulate import Plan
from app.runner.simulating_models import ModelRun
from app.settings import EndpointSettings
from app.store.call import total
from bench.asked import AUTHORS_CALLS, AUTHORS_PROMPT, GAMES, games_rows
from bench.row import Row
from engine.chance import secret
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Kind, Seat

__all__ = ["critical_path", "model_rows"]

FAILED: Final[Mapping[int, frozenset[int]]] = {3: frozenset(), 4: frozenset({2}), 5: frozenset({2, 4})}
"""The quests that fail in a game of this many rounds, so that it ends with the assassination."""

_CHARACTERS: Final = 4
"""Characters of a token, roughly."""

_AT_ONCE: Final = frozenset({Kind.VOTE.value, Kind.CARD.value, Kind.SUMMARISE.value})


def critical_path(calls: Iterable[CallKey]) -> int:
    """The number of calls in the longest chain in which each waits for the one before, with timing ``exact``.

    Seats that are asked at once wait for the slowest of them, a turn for the slowest of its questions about
    others; the steps of a turn and the attempts of a step are a chain.
    """
    attempts: dict[tuple[str, str], Counter[str]] = {}
    for key in calls:
        attempts.setdefault((key.request_id, key.step), Counter())[key.about] += 1
    turns: Counter[str] = Counter()
    for (request, _), abouts in attempts.items():
        turns[request] += max(abouts.values())
    steps: dict[str, int] = {}
    for request, deep in turns.items():
        together, _, _ = request.rpartition(".")
        step = together if together.rpartition(".")[2] in _AT_ONCE else request
        steps[step] = max(steps.get(step, 0), deep)
    return sum(steps.values())


# --- what a game asks for ---------------------------------------------------------------------------------


class _Waves:
    """Answers all who wait, together; the number of waves is the depth of the longest chain of calls."""

    def __init__(self) -> None:
        self.waves = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._ticker: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        if len(self._waiting) == 1:
            self._ticker = asyncio.create_task(self._tick())
        await mine

    async def _tick(self) -> None:
        # Long enough for everybody who can ask to have asked.
        for _ in range(50):
            await asyncio.sleep(0)
        self.waves += 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.set_result(None)


@dataclass
class _Meter:
    """A session that answers from the prompt, agrees with every team and lets quests end as wished."""

    waves: _Waves
    failed: frozenset[int]
    """Quests that fail; unless it is empty, an evil seat is on every team."""
    prefix: PrefixMeter = field(default_factory=PrefixMeter)
    answered: dict[CallKey, Reply] = field(default_factory=dict)
    completion: int = 0

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        self.prefix.add(messages)
        await self.waves.wait()
        plain = [{"role": one.role, "content": one.content} for one in messages]
        value = json.loads(answer(plain, dict(form.schema), 1))
        fails = int(key.request_id.partition(".")[0]) in self.failed
        properties = form.schema["properties"]
        for part in (value, value.get("then", {})):
            part |= {"vote": "agree"} if "vote" in part else {}
        if "card" in value:
            value["card"] = "failure" if fails and "failure" in properties["card"]["enum"] else "success"
        if self.failed and "enum" in properties.get("team", {}):
            value["team"] = next(team for team in properties["team"]["enum"] if _EVIL in team.split())
        text = json.dumps(value, ensure_ascii=False)
        self.completion += len(text) // _CHARACTERS
        self.answered[key] = Reply(text, value, Usage(0, 0, 0, False), 0.0, 0.0, "bench", "stop", 1)
        return self.answered[key]

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return self.answered.get(key)

    async def linger(self, seat: Seat) -> None:
        pass

    def read(self, key: CallKey, *, usable: bool) -> None:
        pass

    async def unanswered(self, request_id: str) -> None:
        pass


_SEED: Final = 3
_EVIL: Final = "2"
"""An evil seat in the deal of that seed."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The calls and tokens of a game of five without a rejection."""

    calls: int
    deep: int
    prompt: int
    """Tokens, roughly; so are the other counts of tokens."""
    fresh: int
    """Prompt tokens that do not repeat the beginning of an earlier prompt of the seat."""
    completion: int


def _asked(mechanism: str, rounds: int = 3, timing: str = "exact") -> _Asked:
    waves = _Waves()
    meters = {seat: _Meter(waves, FAILED[rounds]) for seat in range(1, 6)}
    options = {"mechanism": mechanism, "timing": timing}
    agents: Mapping[Seat, Agent] = {
        seat: LlmAgent(Setup(seat, secret("1", seat), options), meter) for seat, meter in meters.items()
    }
    state = asyncio.run(play(create(make_profile("interintent", 5), _SEED), agents, MemoryJournal()))
    assert len(state.table.quests) == len(state.table.tallies) == rounds, f"not a game of {rounds} rounds"
    keys = [key for meter in meters.values() for key in meter.answered]
    sent = sum(meter.prefix.sent for meter in meters.values())
    repeated = sum(meter.prefix.repeated for meter in meters.values())
    return _Asked(
        len(keys),
        waves.waves,
        sent // _CHARACTERS,
        (sent - repeated) // _CHARACTERS,
        sum(meter.completion for meter in meters.values()),
    )


def _asked_rows() -> Iterator[Row]:
    rounds = 3
    theirs = AUTHORS_CALLS[rounds]
    for name in ("paper", "two_pass", "one_pass"):
        game = _asked(name)
        beside = f"authors {theirs / rounds:.0f}, all in a row"
        yield Row(f"{name}, calls a round", game.calls / rounds, "calls", beside, game.calls / theirs)
        deep = f"authors {theirs / rounds:.0f}"
        yield Row(f"{name}, of them in a row", game.deep / rounds, "calls", deep, game.deep / theirs)
        yield Row(
            f"{name}, prompt tokens a round",
            game.prompt / rounds,
            "tokens",
            f"authors {AUTHORS_PROMPT[rounds] / rounds:,.0f}, as reconstructed",
            game.prompt / AUTHORS_PROMPT[rounds],
            "1" if name == "paper" else "",
        )
        share = 1 - game.fresh / game.prompt
        yield Row(
            f"{name}, of them in no prefix sent before",
            game.fresh / rounds,
            "tokens",
            "in a prefix: authors 63.5 %",
            share,
        )
        yield Row(f"{name}, completion tokens a round", game.completion / rounds, "tokens")
    yield from _deep_rows()


def _deep_rows() -> Iterator[Row]:
    """How many calls wait for each other in a game that ends with the assassination."""
    for rounds, theirs in AUTHORS_CALLS.items():
        # The authors' counts are without the shot, which they ask for in a call of its own.
        all_in_a_row = theirs + 1
        for timing, aim in (("exact", "62 % at 4 rounds"), ("eager", "45 % at 4 rounds")):
            deep = _asked("paper", rounds, timing).deep
            yield Row(
                f"paper in {timing}, {rounds} rounds, calls in a row",
                deep,
                "calls",
                f"authors {all_in_a_row}",
                deep / all_in_a_row,
                aim if rounds == 4 else "",
            )


# --- how long it takes ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _fake_model(latency_s: float) -> Iterator[str]:
    """The address of a fake model in a process of its own."""
    command = [sys.executable, "-m", "app.cli", "fake-model", "--port", "0", "--latency", str(latency_s)]
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://[\d.:]+\d", line):
                yield found[0]
                break
    finally:
        process.terminate()
        process.communicate(timeout=30)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Games against a model of a fixed latency."""

    seconds: float
    path_s: float
    """The longest of the games' critical paths."""
    calls: int
    cpu_s: float


def timed(latency_s: float, games: int) -> _Timed:
    """Plays this many games of five ``paper`` seats at once in this process, over HTTP."""
    seats = [{"agent": "llm", "model": "fake", "options": {"mechanism": "paper"}}] * 5
    plan = Plan(make_profile("interintent", 5).settings(), seats, 5)
    recording = Recording()
    with _fake_model(latency_s) as url:
        endpoint = EndpointSettings(base_url=f"{url}/v1", model="fake", parallel=10_000)
        # Importing the client is no part of a game.
        for _ in ModelRun(plan, ("fake", endpoint), Recording(), Budget(), 1).run(0):
            pass
        run = ModelRun(plan, ("fake", endpoint), recording, Budget(), games)
        import agents.model.wire  # noqa: F401

        started, cpu = time.perf_counter(), time.process_time()
        for _ in run.run(games):
            pass
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    paths = [critical_path(recording.calls(str(plan.seed + index))) for index in range(games)]
    return _Timed(seconds, max(paths) * latency_s, total(run.uses.values()).calls, cpu)


def timed_row(latency_s: float, games: int, aim: str) -> Row:
    """The wall time of games with models, and its ratio to the critical path."""
    found = timed(latency_s, games)
    at_once = "one paper game" if games == 1 else f"{games} paper games at once"
    return Row(
        f"{at_once}, a model of {latency_s:g} s: wall time",
        found.seconds,
        "s",
        f"critical path {found.path_s:.0f} s; {1000 * found.cpu_s / found.calls:.1f} ms of CPU per call",
        found.seconds / found.path_s,
        aim,
    )


def model_rows(scale: float) -> list[Row]:
    """The rows for ``python -m bench``: one game alone, on a model that takes at most a fifth of a second."""
    games = max(6, round(GAMES * min(1.0, scale)))
    return [*_asked_rows(), *games_rows(games), timed_row(0.2 * min(1.0, scale), 1, "1.05")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.models", description=__doc__)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that every answer takes (1)")
    parser.add_argument(
        "--games", type=int, nargs="*", default=[1, 50], help="how many to play at once (1 50)"
    )
    arguments = parser.parse_args()
    from bench.__main__ import show

    rows = [*_asked_rows(), *games_rows()]
    rows += [
        timed_row(arguments.latency, games, "1.05" if games == 1 else "1.15") for games in arguments.games
    ]
    show(rows)
    if any(not math.isfinite(row.value) for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
