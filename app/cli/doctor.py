"""The command ``doctor``."""

import logging
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from app.base.logs import configure
from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.terminal import clean, count_bar, echo, note, print_json
from app.store.examining import DatabaseFinding, examine

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("doctor")
def doctor(
    mend: Annotated[
        bool,
        typer.Option(
            "--mend",
            help="Rewrite what follows from the logs, and delete what belongs to no game. Take a backup "
            "first.",
        ),
    ] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Check the whole database: the file, every log, every row, and references between rows.

    It looks for damage in the file, changed tables, holes in logs, logs that cannot be played through,
    columns that disagree with their log, rows that cannot be read, and rows that belong to nothing, and says
    what to do about each. In a damaged file it reads what it can, and mends nothing. Exits with 1 if
    something is wrong and was not mended. A service may run meanwhile.
    """
    settings = read_settings(database_url)
    configure(logging.CRITICAL)  # what the log would say of the database are findings

    async def run() -> list[DatabaseFinding]:
        async with on_tables(settings, looks=False) as database:
            database.read_what_is_left()
            if mend:
                await database.agree_on_time()  # for the audit
                database.writer.start()
            with count_bar("games") as tell:
                return [
                    finding async for finding in examine(database, tell, mend=who_runs() if mend else None)
                ]

    found = run_or_fail(run())
    left = [finding for finding in found if not finding.mended]
    if as_json:
        print_json({"findings": [asdict(finding) for finding in found], "left": len(left)})
    else:
        for finding in found:
            todo = "mended" if finding.mended else finding.todo
            echo(clean(f"{finding.kind}: {finding.where}: {finding.what}. {todo}"))
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(f.kind for f in found).items()))
        note(f"findings {len(found)} ({kinds})" if found else "nothing is wrong")
    if left:
        raise typer.Exit(1)
