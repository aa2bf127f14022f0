"""The command ``prune``."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.base.clock import now_ms
from app.base.errors import StillNeeded
from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.terminal import count_bar, fail, note, print_json
from app.store.audit import Audit
from app.store.db import Database
from app.store.deleting import Deleted, Deleting
from app.store.jobs import JobStore
from app.store.sqlite import sqlite_file
from app.store.trouble import trouble_of

__all__ = ["commands"]

commands = typer.Typer()

VACUUM_WITHIN_S: Final = 60.0
"""Seconds that giving room back waits for those who use the file."""

_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@commands.command("prune")
def prune(
    older_than: Annotated[
        str, typer.Option(help="Batches in which nothing has happened for this long: 12h, 90d, 52w; 0h: all.")
    ],
    label: Annotated[
        str | None, typer.Option(help="Only batches with this label, as name=value.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; say what would go.")] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum",
            help="SQLite: shrink the file. Meanwhile nothing can be written, and the disk needs room for a "
            "second copy.",
        ),
    ] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete old batches with their games for good, and say how many bytes that frees.

    It keeps and names batches that are not over, or that a judge or an open fork needs. Scores of evaluations
    stay, without texts. Take a backup first (interintent backup).
    """
    span = re.fullmatch(r"(\d{1,5})([hdw])", older_than)
    if span is None:
        fail(
            "--older-than takes a whole number of hours, days or weeks, as 12h, 90d or 52w (0h: every "
            f"batch that is over); got {older_than!r}"
        )
    age_ms = int(span[1]) * _UNITS[span[2]]
    name, equals, value = (label or "").partition("=")
    if label is not None and not (name and equals):
        fail(f"--label takes name=value; got {label!r}")
    settings = read_settings(database_url)

    async def run() -> dict[str, Any]:
        async with on_tables(settings, writes=not dry_run) as database:
            before = now_ms() - age_ms
            return await _prune(database, before, (name, value) if label else None, dry_run=dry_run)

    found = run_or_fail(run())
    is_file = settings.database_url.startswith("sqlite") and not dry_run
    if as_json:
        print_json(found)
    else:
        for batch_id, why in found["kept"].items():
            note(f"{batch_id} is kept: {why}")
        would = "would delete" if dry_run else "deleted"
        note(
            f"{would} batches {found['batches']:,}, games {found['games']:,}, "
            f"bytes {found['bytes']:,} (without indexes)"
        )
        if is_file and not vacuum and found["games"]:
            note("the file keeps its size, and new games use the room; prune --vacuum shrinks it")
    if is_file and vacuum:
        _shrink(sqlite_file(settings.database_url))


def _shrink(file: Path) -> None:
    """Gives the free room of an SQLite file back to the disk. Ends the command if that cannot be done."""
    try:
        with closing(sqlite3.connect(file, timeout=VACUUM_WITHIN_S)) as connection:
            connection.execute("VACUUM")
    except sqlite3.Error as fault:
        trouble = trouble_of(fault)
        why = str(fault) if trouble is None else trouble.advice
        fail(f"{file} keeps its size, and new games use the room: {why}")


async def _prune(
    database: Database, before: int, label: tuple[str, str] | None, *, dry_run: bool
) -> dict[str, Any]:
    deleting, by = Deleting(database), who_runs()
    total, batches, kept = Deleted(), 0, {}
    found = await deleting.batches_before(before, label)
    with count_bar("pruning") as tell:
        for done, batch_id in enumerate(found):
            tell(done, len(found))
            game_ids = await deleting.games_of(batch_id)
            try:
                if dry_run:
                    await deleting.check(game_ids)
                    total.add(await deleting.measure(game_ids))
                else:
                    await deleting.check(game_ids)
                    async with Audit(database).noted(by, "delete", batch_id) as deed:
                        deed["broke_off"] = True  # what was deleted before that stays deleted
                        async for deleted in deleting.delete(game_ids, by.name):
                            total.add(deleted)
                        del deed["broke_off"]
                        deed["games"] = len(game_ids)
            except StillNeeded as fault:
                kept[batch_id] = str(fault)
            else:
                batches += 1
    if not dry_run and not database.is_sqlite:
        await JobStore(database).prune(0.0)
    return {"batches": batches, "games": total.games, "bytes": total.bytes, "rows": total.rows, "kept": kept}
