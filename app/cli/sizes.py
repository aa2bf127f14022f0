"""The command ``database``."""

from typing import Any

import typer
from rich.table import Column, Table
from sqlalchemy import func, select
from sqlalchemy import table as named

from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.tables import print_table
from app.cli.terminal import print_json
from app.store.sizes import table_bytes

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("database")
def database(
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show the schema of the database, and the rows and bytes of each table, with its indexes."""
    settings = read_settings(database_url)

    async def run() -> dict[str, Any]:
        async with on_tables(settings) as there:
            state = await there.schema()
            tables = [
                {
                    "table": name,
                    "rows": (await there.column(select(func.count()).select_from(named(name))))[0],
                    "bytes": size,
                }
                for name, size in (await table_bytes(there)).items()
                if not name.startswith("sqlite_")
            ]
            return {"schema": state.found, "newest": state.newest, "tables": tables}

    found = run_or_fail(run())
    if as_json:
        print_json(found)
        return
    shown = Table(
        Column("table"), Column("rows", justify="right"), Column("bytes", justify="right"), box=None
    )
    for one in found["tables"]:
        shown.add_row(one["table"], f"{one['rows']:,}", f"{one['bytes']:,}")
    shown.add_row("in all", "", f"{sum(one['bytes'] for one in found['tables']):,}")
    print_table(shown)
    typer.echo(f"schema {found['schema']}, newest {found['newest']}")
