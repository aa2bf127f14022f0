"""The commands ``backup`` and ``restore``."""

from pathlib import Path
from typing import Annotated

import typer

from app.base.errors import NotFound
from app.cli.arguments import DatabaseUrl
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.terminal import fail, note, reason, refuse_link, share_bar
from app.store.backup import BackupManifest, CannotRestore, back_up, read_backup, restore

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("backup")
def backup(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, e.g. games.zip.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing file.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Write the whole database to one file, while the service runs.

    The file holds everything that was committed when the command began, and nothing later. The file holds
    roles, hashes of keys and the secrets of tokens: only its owner may read it. Exits with 1 if SQLite finds
    the database damaged; the backup is written all the same, and as damaged as the database.
    """
    refuse_link(out)
    if out.exists() and not replace:
        fail(f"{out} exists: name another file, or replace it with --replace")
    settings = read_settings(database_url)

    async def run() -> BackupManifest:
        async with on_tables(settings) as database:
            if (await database.schema()).found is None:
                raise NotFound("the database has no tables: there is nothing to back up")
            with share_bar("backup") as tell:
                return await back_up(database, out, tell)

    try:
        manifest = run_or_fail(run())
    except OSError as fault:
        fail(f"cannot write {out}: {reason(fault)}")
    note(f"wrote {out}: {_in_words(manifest)}, {out.stat().st_size:,} bytes")
    for found in manifest.faults:
        note(f"the database is damaged: {found}")
    if manifest.faults:
        note(
            "the backup is as damaged as the database: keep earlier ones; interintent doctor names the games "
            "and says what to do"
        )
        raise typer.Exit(1)


@commands.command("restore")
def put_back(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that backup wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Only read the backup and check it.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop what the database holds. No service may be using it.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Put a backup into a database that is empty or missing.

    All of it is checked before the database changes: sums, rows, schema. A backup of an earlier release is
    migrated. Games that were not over go on when a service starts on the database.
    """
    settings = read_settings(database_url)

    async def run() -> BackupManifest:
        with share_bar("check" if check else "restore") as tell:
            if check:
                return read_backup(file, tell)
            async with on_tables(settings, makes=True) as database:
                return await restore(database, file, tell, replace=replace)

    try:
        manifest = run_or_fail(run())
    except CannotRestore as fault:
        fail(str(fault))
    except OSError as fault:
        fail(f"{file}: {reason(fault)}")
    done = "checked" if check else "restored"
    note(f"{done} {file} of {manifest.made_at}: {_in_words(manifest)}")


def _in_words(manifest: BackupManifest) -> str:
    rows = manifest.rows
    counts = ", ".join(f"{name} {rows[name]:,}" for name in ("batches", "games", "events") if name in rows)
    return f"{manifest.database}, schema {manifest.revision}, {counts}"
