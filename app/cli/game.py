"""The command ``game invalidate``."""

from typing import Annotated

import typer

from app.base.names import check_note
from app.cli.arguments import DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import checked, fail, note

__all__ = ["commands"]

game_app = typer.Typer(
    help="Exclude a game from reports and items, or take it in again.", no_args_is_help=True
)
commands = typer.Typer()
commands.add_typer(game_app, name="game")


@game_app.callback()
def _group() -> None:
    pass


@game_app.command()
def invalidate(
    game: Annotated[str, typer.Argument(metavar="GAME", help="Its id (g_…).", show_default=False)],
    reason: Annotated[
        str | None,
        typer.Option(help="What makes the game worthless; reports name it.", show_default=False),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take an excluded game in again.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Exclude a game from reports and items. The game and its log stay, also in exports; a mark says when, by
    whom and why it was excluded. Like every excluded game, it counts only in the second figures of reports.
    """
    if bool(reason) is undo:
        fail("give either a --reason or --undo")
    if reason is not None and len(reason) > 500:
        fail(f"--reason has at most 500 characters, got {len(reason)}")
    checked("--reason", reason or "", check_note)
    settings = read_settings(database_url)

    async def write() -> None:
        async with on_database(settings, writes=True) as parts:
            await parts.games.invalidate(game, reason, by=who_runs())

    run_or_fail(write())
    note(f"{game} {'counts again' if undo else 'is excluded from reports and items'}")
