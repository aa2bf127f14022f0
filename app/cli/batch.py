"""The commands ``batch show`` and ``batch resume``."""

from typing import Annotated

import typer

from app.base.schemas import OnUnusable
from app.cli.arguments import DatabaseUrl
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import note, print_json
from app.games.schemas import BatchView
from app.games.views import batch_view

__all__ = ["commands"]

batch_app = typer.Typer(help="Look at batches, and resume suspended ones.", no_args_is_help=True)
commands = typer.Typer()
commands.add_typer(batch_app, name="batch")

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Its id (b_…).", show_default=False)]


@batch_app.command()
def show(batch: BatchArgument, database_url: DatabaseUrl = None) -> None:
    """Print a batch as `GET /batches/{b}` shows it, straight from the database."""
    settings = read_settings(database_url)

    async def read() -> BatchView:
        async with on_database(settings) as parts:
            row = await parts.games.batch_row(batch)
            spending = await parts.games.spending(row)
            defaults = await parts.games.defaults(batch)
            return batch_view(row, await parts.games.tally(batch), spending, defaults, sees_all=True)

    print_json(run_or_fail(read()).model_dump(mode="json"))


@batch_app.command()
def resume(
    batch: BatchArgument,
    on_unusable: Annotated[
        OnUnusable | None,
        typer.Option(
            help="What happens from now on where no answer of a model can be used.", show_default=False
        ),
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a suspended batch go on after its last stored event. What was answered and paid for is used again.

    A running server goes on within a second, and reads its models file and key files anew. A key in an
    environment variable stays as it was when the server started.
    """
    settings = read_settings(database_url)

    async def write() -> None:
        async with on_database(settings, writes=True) as parts:
            await parts.games.resume(batch, on_unusable)

    run_or_fail(write())
    note(f"{batch} goes on as soon as a server drives games on this database")
