"""How quick the pages are: ``python -m bench.pages``.

A site of one game of ten seats and at least 1,500 events is opened from its folder in a Chromium, and its
slider is moved once a frame, from the beginning to the end. Reported: the time to the first paint, what a
frame costs while moving (scripts alone, then all work of the page's thread), and the bytes that a browser
loads. Costs are processor time: a thread that waits for its core while others use it costs nothing. The
Chromium is the one of the tests (`tests/chromium.py`), unless ``--chromium`` names another.

Then the list of a service with 10,000 games is sorted, and searched for words, by the clock, from the input
to the first row that fits; of a search, 200 ms are the pause in which more letters may come.
"""

import argparse
import asyncio
import gzip
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from app.files.replays import log_line
from app.files.site import LoggedGame, SiteWriter
from app.games.schemas import NewGames
from app.main import create_app
from app.runner.simulate import Plan, run
from app.serving.server import Server, listen
from app.settings import Settings
from app.store.tables import games as game_rows
from bench.row import Row
from engine.events import Event
from engine.profile import make_profile

EVENTS = 1_500
FRAMES = 300
RUNS = 5
GAMES = 10_000
A_BATCH = 500

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


async def ticks(every_s: float) -> AsyncIterator[None]:
    """One tick after another, for ever."""
    while True:
        yield
        await asyncio.sleep(every_s)


_CHOOSE = """([label, value]) => new Promise(resolve => {
    const begun = performance.now();
    const first = () => document.querySelector('.vrow')?.textContent;
    const before = first();
    const select = [...document.querySelectorAll('select')].find(one =>
        one.closest('label').textContent.includes(label));
    select.value = value;
    select.dispatchEvent(new Event('change', {bubbles: true}));
    const look = () =>
        first() && first() !== before ? resolve(performance.now() - begun) : requestAnimationFrame(look);
    look();
})"""

_FIND = """words => new Promise(resolve => {
    const begun = performance.now();
    const field = document.querySelector('input[type=search]');
    field.focus();
    field.value = words;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    const look = () => {
        const count = document.querySelector('.count').textContent;
        // Every game was looked at, and one fits.
        if (count === '1 game') resolve(performance.now() - begun); else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""


async def list_rows(folder: Path, launching: Mapping[str, Any], count: int) -> list[Row]:
    """Measures the list of a service that holds so many games."""
    from playwright.async_api import async_playwright

    settings = Settings(
        _env_file=None, DATABASE_URL=f"sqlite:///{folder / 'games.sqlite'}", port=0, drain_s=1
    )
    app = create_app(settings)
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = Server(app, settings, bound.set_result)
    serving = asyncio.create_task(server.serve(listen(settings.host, settings.port)))
    url = await bound
    games = app.state.games
    for first in range(0, count, A_BATCH):
        order = {"count": A_BATCH, "drive": "manual", "players": 5 + first // A_BATCH % 6}
        await games.create(NewGames.model_validate(order))
    # The service lays the games out beside this.
    async for _ in ticks(0.1):
        if not await app.state.composition.store.unlaid_batches():
            break
    (last,) = await app.state.composition.database.column(
        select(func.min(game_rows.c.game_id)).where(game_rows.c.position == 0)
    )
    times: dict[str, list[float]] = {}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launching)
        for _ in range(RUNS):
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            await page.goto(f"{url}/ui/")
            await page.locator(".vrow").first.wait_for()
            for what, choice in (
                ("sorted by seats", ["Order", "-players"]),
                ("the oldest first", ["Order", "created"]),
            ):
                times.setdefault(what, []).append(await page.evaluate(_CHOOSE, choice))
            times.setdefault("searched for a word", []).append(await page.evaluate(_FIND, last[2:]))
            await page.close()
        await browser.close()
    server.stop()
    await serving
    return [
        Row(f"a list of {count:,} games, {what}", statistics.median(all_), "ms", aim="at most 1,000")
        for what, all_ in times.items()
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
        rows += asyncio.run(list_rows(Path(scratch), launching, GAMES))
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
