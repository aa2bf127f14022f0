"""The command ``migrate``."""

from typing import Annotated

import typer

from app.cli.arguments import DatabaseUrl
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.terminal import note
from app.store.schema import SchemaState

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("migrate")
def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if the schema is not the newest.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring the database to the newest schema. Creates an SQLite file; for PostgreSQL, run createdb first.

    Programs of the previous release keep running on the new schema. serve migrates by itself when it starts.
    The only way back is a backup (interintent backup).
    """
    settings = read_settings(database_url)

    async def run() -> SchemaState:
        async with on_tables(settings, makes=not check) as database:
            return await (database.schema() if check else database.migrate())

    state = run_or_fail(run())
    note(_in_words(state, done=not check))
    if check and state.behind:
        raise typer.Exit(1)


def _in_words(state: SchemaState, *, done: bool) -> str:
    if state.is_ahead:
        return f"a newer release has migrated the database to {state.found}; this one can use it as it is"
    if not state.behind:
        return f"the schema is the newest, {state.newest}"
    count = f"{state.behind} migration{'s' * (state.behind != 1)}"
    if done:
        return f"migrated from {state.found or 'nothing'} to {state.newest} ({count})"
    return f"the schema is {state.found or 'missing'}; the newest is {state.newest} ({count} to run)"
