"""One command, one table: ``python -m bench`` (``make bench``).

Speeds are medians of five runs on one core; what can be compared stands beside a baseline measured in
the same run, since figures from two machines, or from two hours, cannot be compared.
"""

import argparse
import gc
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from app.runner.simulate import Plan, run
from bench.bots import bot_rows
from bench.crowd import crowd_rows
from bench.errands import port_in
from bench.floor import random_game
from bench.models import model_rows
from bench.reports import report_rows
from bench.row import Row
from bench.watchers import TooFewFiles, watcher_rows
from engine.actions import Action, Assassinate, ProposeTeam, SeatAction
from engine.foreign.record import read_record
from engine.foreign.replay import replay
from engine.profile import Profile, make_profile, without_talk
from engine.rules import create, decide, default, legal, pending
from engine.state import apply, fold
from engine.terms import Kind, Phase, Side

REPEATS = 5
REPLAYS = (Path("../shared/replays"), Path("tests/records"))


def per_cpu_second(work: Callable[[int], None], count: int) -> float:
    """Items a CPU-second, the median of five runs; the garbage collector stays on, as in real use."""
    speeds = []
    for _ in range(REPEATS):
        gc.collect()
        started = time.process_time()
        work(count)
        speeds.append(count / (time.process_time() - started))
    return statistics.median(speeds)


def engine_games(profile: Profile) -> Callable[[int], None]:
    """Plays random games by create, pending, decide and apply, which keep every viewer's stream."""
    seats = range(1, profile.players + 1)
    vote, card, propose, evil = Kind.VOTE, Kind.CARD, Kind.PROPOSE_TEAM, Side.EVIL
    approve, reject = options_of(profile, Phase.VOTE)
    success, fail = options_of(profile, Phase.QUEST)
    proposals = [[ProposeTeam(team) for team in teams] for teams in profile.teams]
    ballots = [((seat, reject), (seat, approve)) for seat in seats]
    succeeds = [(seat, success) for seat in range(profile.players + 1)]
    fails = [(seat, fail) for seat in range(profile.players + 1)]
    others = profile.players - 1

    def play(count: int) -> None:
        rnd = random.Random(1).random
        for seed in range(count):
            state = fold(create(profile, seed))
            table, hands = state.table, state.hands
            while requests := pending(state):
                first = requests[0]
                kind = first.kind
                answers: list[tuple[int, Action]]
                if kind is vote:
                    answers = [pair[rnd() < 0.5] for pair in ballots]
                elif kind is propose:
                    teams = proposals[table.round - 1]
                    answers = [(first.seat, teams[int(rnd() * len(teams))])]
                elif kind is card:
                    answers = [
                        fails[seat] if hands[seat - 1].side is evil and rnd() < 0.5 else succeeds[seat]
                        for seat in table.team
                    ]
                else:
                    target = int(rnd() * others) + 1
                    answers = [(first.seat, Assassinate(target + (target >= first.seat)))]
                apply(state, decide(state, answers))

    return play


def options_of(profile: Profile, phase: Phase) -> tuple[SeatAction, ...]:
    """The actions that ``legal`` offers an evil seat in this phase."""
    state = fold(create(profile, 0))
    table = state.table
    table.phase = phase
    table.opening += 1
    table.team = tuple(range(1, profile.players + 1))
    options = legal(table, next(hand for hand in state.hands if hand.side is Side.EVIL))
    assert options
    return options


def floor_games(profile: Profile) -> Callable[[int], None]:
    def play(count: int) -> None:
        rnd = random.Random(1).random
        for _ in range(count):
            random_game(profile, rnd)

    return play


def engine_rows(scale: float) -> list[Row]:
    rows = []
    for players, aim in ((5, "1/7; 1/5 is the record to take, 1/12 the least"), (10, "")):
        profile = without_talk(make_profile("official", players))
        floor = per_cpu_second(floor_games(profile), int(20_000 * scale))
        ours = per_cpu_second(engine_games(profile), int(4_000 * scale))
        rows.append(
            Row(
                f"random official games, rules alone, {players} players",
                ours,
                "games/CPU-s",
                f"bare loop {floor:,.0f}",
                ours / floor,
                aim,
            )
        )
        rows.append(
            Row(
                f"the same with talk (before every proposal), {players} players",
                per_cpu_second(talking_games(make_profile("official", players)), int(1_000 * scale)),
                "games/CPU-s",
            )
        )
    return rows


def talking_games(profile: Profile) -> Callable[[int], None]:
    """As ``engine_games``, but every seat is also asked to speak, and says nothing."""

    def play(count: int) -> None:
        rnd = random.Random(1).random
        for seed in range(count):
            state = fold(create(profile, seed))
            while requests := pending(state):
                answers: list[tuple[int, Action]] = []
                for one in requests:
                    options = legal(state.table, state.hands[one.seat - 1])
                    action = options[int(rnd() * len(options))] if options else default(state.table, one)
                    answers.append((one.seat, action))
                apply(state, decide(state, answers))

    return play


def simulated(agent: str, profile: str, count: int) -> float:
    plan = Plan(make_profile(profile, 5).settings(), [{"agent": agent, "options": {}}] * 5, 1)

    def play(games: int) -> None:
        for _ in run(plan, games):
            pass

    return per_cpu_second(play, count)


def replayed(count: int) -> Row | None:
    folder = next((path for path in REPLAYS if path.is_dir()), None)
    if folder is None:
        return None
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    records = [one for one in found if str(one.get("schema", "")).startswith("avalon-replay")]

    def work(games: int) -> None:
        for index in range(games):
            replay(read_record(records[index % len(records)]))

    return Row(
        "foreign records replayed, without JSON", per_cpu_second(work, count), "records/CPU-s", aim="1,000"
    )


class Service:
    """A real service on a SQLite file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> "Service":
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "app.cli",
                "serve",
                "--port",
                "0",
                "--database-url",
                f"sqlite:///{self._folder}/bench.db",
            ],
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith("INTERINTENT_")},
        )
        assert self._process.stderr is not None
        self.port = port_in(self._process.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(one for one in status.splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def now_mib(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, text
        return text

    def batch(self, agent: str, profile: str, count: int) -> float:
        """Games a second of wall time, from the POST to the end of the last game."""
        started = time.perf_counter()
        order = {"count": count, "profile": profile, "seats": [{"agent": agent}], "seeds": {"from": 1}}
        batch = json.loads(self.send("POST", "/games", order))["batch_id"]
        last = self.send("GET", f"/batches/{batch}/events?follow=true").splitlines()[-1]
        seconds = time.perf_counter() - started
        assert json.loads(last)["status"] == "done", last
        return count / seconds


def service_rows(scale: float, simulated_random: float, simulated_scripted: float) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder)) as service:
        service.batch("random", "interintent", 20)
        before = service.now_mib()
        for agent, alone, aim in (("random", simulated_random, "60"), ("scripted", simulated_scripted, "")):
            speed = statistics.median(
                service.batch(agent, "interintent", int(120 * scale)) for _ in range(REPEATS)
            )
            rows.append(
                Row(
                    f"{agent} interintent games through POST /games, SQLite",
                    speed,
                    "games/s",
                    f"simulate {alone:,.0f}",
                    speed / alone,
                    aim,
                )
            )
        count = max(20, int(1_000 * scale))
        service.batch("scripted", "interintent", count)
        peak = service.peak_mib()
        rows.append(
            Row(
                f"peak memory of the service, {count:,} more games stored",
                peak,
                "MiB",
                f"before {before:.0f} MiB",
                peak / before,
            )
        )
        size = sum(path.stat().st_size for path in Path(folder).glob("bench.db*")) / 2**20
        stored = 20 + 2 * REPEATS * int(120 * scale) + count
        rows.append(Row("database, a stored game", size / stored * 1024, "KiB"))
    return rows


def measure(scale: float, most: int) -> list[Row]:
    rows = engine_rows(scale)
    speeds = {}
    for agent, profile, count, aim in (
        ("random", "official", 1_000, "2,000"),
        ("random", "interintent", 1_000, "2,000"),
        ("scripted", "official", 100, ""),
        ("scripted", "interintent", 100, "100"),
    ):
        speeds[agent, profile] = simulated(agent, profile, max(10, int(count * scale)))
        rows.append(
            Row(f"{agent} {profile} games through simulate", speeds[agent, profile], "games/CPU-s", aim=aim)
        )
    replays = replayed(int(1_000 * scale))
    if replays is not None:
        rows.append(replays)
    rows += model_rows(scale)
    rows += report_rows(scale)
    rows += crowd_rows(scale)
    rows += service_rows(scale, speeds["random", "interintent"], speeds["scripted", "interintent"])
    return rows + bot_rows(scale, most) + watcher_rows(scale, most=most)


def show(rows: list[Row]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading, justify in (
        ("what", "left"),
        ("figure", "right"),
        ("unit", "left"),
        ("beside", "left"),
        ("ratio", "right"),
        ("aim", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        digits = 0 if row.value >= 100 else 1
        ratio = _ratio(row.ratio)
        table.add_row(row.what, f"{row.value:,.{digits}f}", row.unit, row.baseline, ratio, row.aim)
    Console(width=150).print(table)


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"1/{1 / ratio:.1f}" if 0 < ratio <= 0.5 else f"{ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs")
    parser.add_argument("--most", type=int, default=10_000, help="sockets at once, at most (10,000)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    try:
        rows = measure(0.1 if arguments.quick else 1.0, arguments.most)
    except TooFewFiles as fault:
        sys.exit(f"bench: {fault}")
    if arguments.json:
        print(json.dumps([{name: getattr(row, name) for name in Row.__slots__} for row in rows], indent=1))
    else:
        show(rows)
    if any(not math.isfinite(row.value) for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
