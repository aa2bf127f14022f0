"""Language-model seats: what a game asks for, and how much longer it takes than its calls.

``python -m bench`` has a short version of the second; ``python -m bench.models`` is the whole: a fake model
of one second, one game by itself and fifty at once in one process.
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
from agents.llm.desk import CallKey
from agents.llm.model import Form, Message, Reply, Usage
from agents.llm.prefix import PrefixMeter
from agents.table import MemoryJournal, play
from app.fake_model.sensible import answer
from app.models.account import Budget, total
from app.models.endpoints import EndpointSettings
from app.models.recording import Recording
from app.models.simulating import ModelRun
from app.simulate import Plan
from bench.row import Row
from engine.chance import secret
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Kind, Seat

__all__ = ["critical_path", "model_rows"]

AUTHORS_CALLS: Final = {3: 160, 4: 219, 5: 278}
"""Of the authors' code in a game of five without a rejection, by rounds, all in a row."""

AUTHORS_DEEP: Final = 220
"""The same at four rounds, as the aims have it."""

_CHARACTERS: Final = 4
"""A token, roughly."""

_AT_ONCE: Final = frozenset({Kind.VOTE.value, Kind.CARD.value, Kind.SUMMARISE.value})


def critical_path(calls: Iterable[CallKey]) -> int:
    """Calls of the longest chain in which each waits for the one before, in timing ``exact``.

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


@dataclass
class _Meter:
    """A desk that answers from the prompt, agrees with every team and lets every quest succeed."""

    prefix: PrefixMeter = field(default_factory=PrefixMeter)
    keys: list[CallKey] = field(default_factory=list)
    completion: int = 0

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        self.keys.append(key)
        self.prefix.add(messages)
        plain = [{"role": one.role, "content": one.content} for one in messages]
        value = json.loads(answer(plain, dict(form.schema), 1))
        value |= {name: word for name, word in (("vote", "agree"), ("card", "success")) if name in value}
        text = json.dumps(value, ensure_ascii=False)
        self.completion += len(text) // _CHARACTERS
        return Reply(text, value, Usage(0, 0, 0, False), 0.0, 0.0, "bench", "stop", 1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A game of five and three rounds, none rejected."""

    calls: int
    deep: int
    prompt: int
    """Tokens, roughly, as all others."""
    outside: int
    """Of the prompts': those that no earlier prompt of the seat began with."""
    completion: int


def _asked(mechanism: str) -> _Asked:
    meters = {seat: _Meter() for seat in range(1, 6)}
    agents: Mapping[Seat, Agent] = {
        seat: LlmAgent(Setup(seat, secret("1", seat), {"mechanism": mechanism}), meter)
        for seat, meter in meters.items()
    }
    state = asyncio.run(play(create(make_profile("interintent", 5), 3), agents, MemoryJournal()))
    assert len(state.table.quests) == len(state.table.tallies) == 3, "no game of three rounds"
    keys = [key for meter in meters.values() for key in meter.keys]
    sent = sum(meter.prefix.sent for meter in meters.values())
    repeated = sum(meter.prefix.repeated for meter in meters.values())
    return _Asked(
        len(keys),
        critical_path(keys),
        sent // _CHARACTERS,
        (sent - repeated) // _CHARACTERS,
        sum(meter.completion for meter in meters.values()),
    )


def _asked_rows() -> Iterator[Row]:
    rounds = 3
    theirs = AUTHORS_CALLS[rounds]
    paper, compact = _asked("paper"), _asked("compact")
    for name, game, aim in (("paper", paper, ""), ("compact", compact, "1/4 of the calls")):
        beside = f"authors {theirs / rounds:.0f}, all in a row"
        yield Row(f"{name}, calls a round", game.calls / rounds, "calls", beside, game.calls / theirs, aim)
        deep = f"authors {theirs / rounds:.0f}"
        aim = "62 %" if name == "paper" else ""
        yield Row(f"{name}, of them in a row", game.deep / rounds, "calls", deep, game.deep / theirs, aim)
        yield Row(
            f"{name}, prompt tokens a round",
            game.prompt / rounds,
            "tokens",
            "" if game is paper else f"paper {paper.prompt / rounds:,.0f}",
            None if game is paper else game.prompt / paper.prompt,
            "" if game is paper else "1/5",
        )
        share = 1 - game.outside / game.prompt
        yield Row(
            f"{name}, of them in no prefix sent before",
            game.outside / rounds,
            "tokens",
            "in a prefix: authors 63.5 %",
            share,
            "0.85 in a prefix",
        )
        yield Row(f"{name}, completion tokens a round", game.completion / rounds, "tokens")


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
    """Plays so many games of five ``paper`` seats at once in this process, over HTTP."""
    seats = [{"agent": "llm", "model": "fake", "options": {"mechanism": "paper"}}] * 5
    plan = Plan(make_profile("interintent", 5).settings(), seats, 5)
    recording = Recording()
    with _fake_model(latency_s) as url:
        endpoint = EndpointSettings(base_url=f"{url}/v1", model="fake", parallel=10_000)
        # Importing the client is no part of a game.
        for _ in ModelRun(plan, ("fake", endpoint), Recording(), Budget(), 1).run(0):
            pass
        run = ModelRun(plan, ("fake", endpoint), recording, Budget(), games)
        import agents.llm.wire  # noqa: F401

        started, cpu = time.perf_counter(), time.process_time()
        for _ in run.run(games):
            pass
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    paths = [critical_path(recording.calls(str(plan.seed + index))) for index in range(games)]
    return _Timed(seconds, max(paths) * latency_s, total(run.uses.values()).calls, cpu)


def timed_row(latency_s: float, games: int, aim: str) -> Row:
    """Wall time over the critical path."""
    found = timed(latency_s, games)
    at_once = "one paper game" if games == 1 else f"{games} paper games at once"
    return Row(
        f"{at_once}, a model of {latency_s:g} s: wall time",
        found.seconds,
        "s",
        f"critical path {found.path_s:.0f} s; {1000 * found.cpu_s / found.calls:.1f} ms of CPU a call",
        found.seconds / found.path_s,
        aim,
    )


def model_rows(scale: float) -> list[Row]:
    """The rows of the whole table: a game by itself, at a fifth of a second."""
    return [*_asked_rows(), timed_row(0.2 * min(1.0, scale), 1, "1.05")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.models", description=__doc__)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of every answer (1)")
    parser.add_argument("--games", type=int, nargs="*", default=[1, 50], help="so many at once (1 50)")
    wish = parser.parse_args()
    from bench.__main__ import show

    rows = list(_asked_rows())
    rows += [timed_row(wish.latency, games, "1.05" if games == 1 else "1.15") for games in wish.games]
    show(rows)
    if any(not math.isfinite(row.value) for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
