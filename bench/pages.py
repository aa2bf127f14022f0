"""How quick the pages are: ``python -m bench.pages``.

A site of one game of ten seats and at least 1,500 events is opened from its folder in a Chromium, and its
slider is moved once a frame, from the beginning to the end. Reported: the time to the first paint, what a
frame costs while moving (scripts alone, then all work of the page's thread), and the bytes that a browser
loads. Costs are processor time: a thread that waits for its core while others use it costs nothing. The
Chromium is the one of the tests (`tests/chromium.py`), unless ``--chromium`` names another.
"""

import argparse
import asyncio
import gzip
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from app.files.replays import log_line
from app.files.site import LoggedGame, SiteWriter
from app.runner.simulate import Plan, run
from bench.row import Row
from engine.events import Event
from engine.profile import make_profile

EVENTS = 1_500
FRAMES = 300
RUNS = 5

_PAINT = """() => new Promise(resolve => {
    const look = () => {
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        if (paint) resolve(paint.startTime); else requestAnimationFrame(look);
    };
    look();
})"""

_SCRUB = """frames => new Promise(resolve => {
    const slider = document.querySelector('input[type=range]');
    const last = Number(slider.max);
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    const costs = [];
    let frame = 0;
    const move = () => {
        const begun = performance.now();
        set.call(slider, String(1 + Math.round((last - 1) * frame / frames)));
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        // The page draws in a microtask; this one of the same frame comes after it.
        queueMicrotask(() => queueMicrotask(() => costs.push(performance.now() - begun)));
        if (++frame <= frames) requestAnimationFrame(move); else resolve(costs);
    };
    requestAnimationFrame(move);
})"""


def long_game() -> list[Event]:
    """A game of ten seats, with thoughts and summaries, of at least ``EVENTS`` events."""
    profile = make_profile("interintent", 10, rules={"max_rejections": 5})
    # Two seats vote by chance, so that teams are rejected and games are long.
    seats = [{"agent": "scripted"}] * 8 + [{"agent": "random"}] * 2
    for seed in range(1, 200):
        plan = Plan(profile.settings(), seats, seed)
        (result,) = run(plan, 1, keep=True)
        lines = (log_line(orjson.loads(line)) for line in result.lines.splitlines() if line)
        log = [line[1] for line in lines if line is not None]
        if len(log) >= EVENTS:
            return log
    sys.exit(f"no game of {EVENTS} events among 200")


async def page_rows(folder: Path, launching: Mapping[str, Any]) -> list[Row]:
    """Measures the only page of the site in ``folder``."""
    from playwright.async_api import async_playwright

    (page_file,) = (folder / "games").glob("*.html")
    paints, scripts, tasks, worst = [], [], [], []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launching)
        for _ in range(RUNS):
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            devtools = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            await page.goto(f"{page_file.as_uri()}#/?at=1")
            await page.get_by_role("slider").wait_for()
            paints.append(await page.evaluate(_PAINT))

            async def spent_ms(devtools: Any = devtools) -> dict[str, float]:
                metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
                return {one["name"]: 1000 * one["value"] for one in metrics}

            before = await spent_ms()
            costs = await page.evaluate(_SCRUB, FRAMES)
            after = await spent_ms()
            scripts.append((after["ScriptDuration"] - before["ScriptDuration"]) / FRAMES)
            tasks.append((after["TaskDuration"] - before["TaskDuration"]) / FRAMES)
            worst.append(sorted(costs)[int(0.95 * len(costs))])
            await page.close()
        await browser.close()
    return [
        Row("first paint of a page of a game", statistics.median(paints), "ms"),
        Row("scripts a frame while scrubbing", statistics.median(scripts), "ms", aim="at most 10"),
        Row("all work of the page's thread a frame", statistics.median(tasks), "ms"),
        Row("scripts by the clock, 95 % of frames within", statistics.median(worst), "ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", type=Path, help="the program; else the one that the tests unpacked")
    chromium = parser.parse_args().chromium
    if chromium is None:
        found = sorted(Path(sys.prefix).glob("node-browser_tools-*/unpacked/chromium"))
        if not found:
            sys.exit("no Chromium yet: run tests/web once, or name one with --chromium")
        chromium = found[-1]
    launching = {"executable_path": chromium, "args": ["--no-sandbox", "--no-zygote", "--disable-gpu"]}
    log = long_game()
    with tempfile.TemporaryDirectory() as scratch:
        site = SiteWriter(Path(scratch) / "site", "bench", "full")
        site.add(LoggedGame("g_bench", log))
        rows = asyncio.run(page_rows(Path(scratch) / "site", launching))
    built = (Path(__file__).parent.parent / "app" / "pages" / "ui" / "assets").iterdir()
    loaded = sum(len(gzip.compress(file.read_bytes(), mtime=0)) for file in built)
    rows.append(Row("all scripts and styles, compressed", loaded / 1000, "kB", aim="at most 200"))
    table = Table(title=f"Pages: a game of 10 seats and {len(log):,} events, median of {RUNS} runs")
    for column in ("what", "value", "unit", "aim"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for row in rows:
        table.add_row(row.what, f"{row.value:,.2f}", row.unit, row.aim)
    Console().print(table)


if __name__ == "__main__":
    main()
