"""The commands ``batch show``, ``pause``, ``resume``, ``retry`` and ``limits``."""

from typing import Annotated

import typer

from app.base.schemas import OnUnusable
from app.cli.arguments import DatabaseUrl, MaxCost, MaxTokens
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import fail, note, print_json
from app.games.schemas import BatchView, NewBudget, PlayedAnew
from app.games.views import batch_view
from evaluators.measures.defaults import EXCLUDE_ABOVE

__all__ = ["commands"]

batch_app = typer.Typer(
    help="Look at batches, pause and resume them, change the limits of running ones.", no_args_is_help=True
)
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
            tallied = await parts.games.tally(batch)
            await parts.models.endpoints.look()
            spending = await parts.games.spending(row, tallied)
            defaults = await parts.games.defaults(row, tallied)
            return batch_view(row, tallied, spending, defaults, sees_all=True)

    print_json(run_or_fail(read()).model_dump(mode="json"))


OnUnusableOption = Annotated[
    OnUnusable | None,
    typer.Option(help="What happens from now on where no answer of a model can be used.", show_default=False),
]


@batch_app.command()
def pause(batch: BatchArgument, database_url: DatabaseUrl = None) -> None:
    """Stop the games of a batch between two steps until `resume`.

    A running server follows within a second. Calls to models that are in flight end, and are used later.
    """
    settings = read_settings(database_url)

    async def write() -> None:
        async with on_database(settings, writes=True) as parts:
            await parts.games.pause(batch, by=who_runs())

    run_or_fail(write())
    note(f"{batch} is paused")


@batch_app.command()
def resume(
    batch: BatchArgument, on_unusable: OnUnusableOption = None, database_url: DatabaseUrl = None
) -> None:
    """Let a paused or suspended batch go on after its last stored event, with the answers paid for so far.

    A running server goes on within a second, and reads its models file and key files again. A key in an
    environment variable stays as it was when the server started.
    """
    settings = read_settings(database_url)

    async def write() -> None:
        async with on_database(settings, writes=True) as parts:
            await parts.games.resume(batch, on_unusable, by=who_runs())

    run_or_fail(write())
    _goes_on(batch)


AnewAbove = Annotated[
    float,
    typer.Option(
        "--exclude-above",
        min=0,
        max=1,
        help="Play games anew whose models defaulted a larger share of their decisions.",
    ),
]


@batch_app.command()
def retry(
    batch: BatchArgument,
    on_unusable: OnUnusableOption = None,
    exclude_above: AnewAbove = EXCLUDE_ABOVE,
    database_url: DatabaseUrl = None,
) -> None:
    """Resume a batch, continue its failed games, and play its excluded games anew, once each.

    A finished game is excluded if it is marked as invalid, or if its models defaulted too many decisions.
    It is played anew as a further game of the batch, with the same deal and agents: a marked one from its
    deal, any other from the first default of a model on. The excluded game stays, and stays excluded.
    """
    settings = read_settings(database_url)

    async def write() -> list[PlayedAnew]:
        async with on_database(settings, writes=True) as parts:
            return await parts.games.retry(batch, on_unusable, exclude_above=exclude_above, by=who_runs())

    for game in run_or_fail(write()):
        note(f"{game.game_id} is played instead of {game.instead_of}, which stays excluded")
    _goes_on(batch)


def _goes_on(batch: str) -> None:
    note(f"{batch} goes on as soon as a server drives games on this database")


@batch_app.command()
def limits(
    batch: BatchArgument,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Calls in flight at once.", show_default=False)
    ] = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Change the limits of a batch, even while it runs: a running server follows within two seconds.

    Limits that are not named stay as they are.
    """
    named = {"max_parallel": max_parallel, "max_tokens": max_tokens, "max_cost": max_cost}
    changed = {name: limit for name, limit in named.items() if limit is not None}
    if not changed:
        fail("name a limit: --max-parallel, --max-tokens or --max-cost")
    settings = read_settings(database_url)

    async def write() -> None:
        async with on_database(settings, writes=True) as parts:
            await parts.games.limit(batch, NewBudget.model_validate(changed), by=who_runs())

    run_or_fail(write())
    note(f"{batch}: {', '.join(f'{name} {limit}' for name, limit in changed.items())}")
