"""Rows of reports: finished games → items, scores and a report in one pass.

``python -m bench.reports 10000`` runs it alone over as many games as one likes; the games are played
first, by as many processes as there are cores, and are not part of the figure.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from app.files.games import bundles
from app.files.reporting import ReportWork, counted
from app.runner.simulate import Plan, run
from bench.row import Row
from engine.profile import make_profile
from evaluators.report.builder import ReportBuilder
from evaluators.report.page import as_html
from evaluators.report.sections import make_report

__all__ = ["one_pass", "report_rows"]


def _report(file: str) -> None:
    """Makes the report of an export, and prints what it took."""
    started = time.process_time()
    builder = ReportBuilder("bench")
    for part in counted(bundles([file], lambda size: None), ReportWork("bench")):
        builder.merge(part)
    counted_in = time.process_time() - started
    report = make_report(builder)
    made_in = time.process_time() - started - counted_in
    as_html(report, drawn=False)
    # Not getrusage: its peak begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    print(builder.games, sum(builder.items.values()), counted_in, made_in, peak)


def one_pass(count: int) -> tuple[float, float, float]:
    """Games per CPU-second through reading, items, scores and counts; CPU-seconds of the report's own
    intervals; peak MiB of the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "games.ndjson")
        plan = Plan(make_profile("interintent", 5).settings(), [{"agent": "scripted", "options": {}}] * 5, 1)
        with file.open("wb") as out:
            for result in run(plan, count, jobs=os.cpu_count() or 1, keep=True):
                out.write(result.lines)
        # A process of its own: its peak is this work's alone.
        done = subprocess.run(
            [sys.executable, "-m", "bench.reports", str(file)], stdout=subprocess.PIPE, text=True, check=True
        )
    games, items, counted_in, made_in, peak = map(float, done.stdout.split())
    assert games == count
    assert items > games
    return games / counted_in, made_in, peak


def report_rows(scale: float) -> list[Row]:
    count = max(50, int(1_000 * scale))
    speed, made_in, peak = one_pass(count)
    few = one_pass(max(25, count // 4))[2]
    return [
        Row("finished games to items, scores and a report, in one pass", speed, "games/CPU-s"),
        Row(f"the report of {count:,} games, its intervals", made_in, "CPU-s"),
        Row(
            f"peak memory of that pass, {count:,} games",
            peak,
            "MiB",
            f"{max(25, count // 4):,} games {few:.0f} MiB",
            peak / few,
        ),
    ]


def main() -> None:
    argument = sys.argv[1] if len(sys.argv) > 1 else "1000"
    if not argument.isdecimal():
        _report(argument)
        return
    started = time.monotonic()
    speed, made_in, peak = one_pass(int(argument))
    print(
        f"{speed:.1f} games/CPU-s, the report {made_in:.1f} CPU-s, peak {peak:.0f} MiB "
        f"({time.monotonic() - started:.0f} s in all, playing included)"
    )


if __name__ == "__main__":
    main()
