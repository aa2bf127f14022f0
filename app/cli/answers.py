"""The command ``answers export``."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.arguments import DatabaseUrl
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import end_with_damaged, note, writing
from app.models.recording import Signature, line_of
from app.settings import Settings

__all__ = ["commands"]

commands = typer.Typer()
answers_app = typer.Typer(
    help="Recorded answers of models, with which a run is repeated.", no_args_is_help=True
)
commands.add_typer(answers_app, name="answers")


@answers_app.command("export")
def export_answers(
    batch: Annotated[str, typer.Argument(help="A batch (b_…).")],
    out: Annotated[Path, typer.Option(help="Write to this file.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Write every answer that a batch's models gave, straight from the database; no server need run.

    With the file, the batch's settings and its seeds, the batch is repeated without a model: by
    `interintent simulate --agents llm --answers FILE`, or on a server with an endpoint `recorded`. Exit
    status: 0, 1 if a damaged row was left out (it is named), 2 if nothing was written.
    """
    count, damaged = run_or_fail(_write(read_settings(database_url), batch, out))
    note(f"{count} answers in {out}")
    end_with_damaged(damaged)


async def _write(settings: Settings, batch: str, out: Path) -> tuple[int, list[str]]:
    """The number of answers that were written, and the names of damaged rows."""
    signature = Signature()
    damaged = []
    async with on_database(settings) as parts:
        await parts.games.batch_row(batch)
        with writing(out) as file:
            async for game, call in parts.models.calls.of_batch(batch):
                if isinstance(call, str):
                    damaged.append(call)
                    continue
                about = {"game": game.game_id, "position": game.position}
                file.write(signature.add(line_of(game.seed, call, about)))
            file.write(signature.line())
    return signature.count, damaged
