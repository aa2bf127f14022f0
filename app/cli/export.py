"""The commands ``export`` and ``answers export``: games, batches and recorded answers from a database."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from app.base.errors import InvalidRequest
from app.cli.arguments import DatabaseUrl
from app.cli.audit import note_export
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import end_with_damaged, note, writing
from app.edge.auth import OPERATOR
from app.models.recording import Signature, line_of
from app.settings import Settings
from engine.terms import FULL, PUBLIC
from engine.view import read_viewer

__all__ = ["EXPORT_DAMAGED", "commands", "export_lines"]

commands = typer.Typer()
answers_app = typer.Typer(
    help="Models' recorded answers, with which a run can be repeated.", no_args_is_help=True
)
commands.add_typer(answers_app, name="answers")

EXPORT_DAMAGED: Final = b'{"t":"export.damaged"'
"""The beginning of an export's line that names a damaged game."""


@commands.command()
def export(
    what: Annotated[str, typer.Argument(help="A batch (b_…) or a game (g_…).")],
    view: Annotated[str, typer.Option(help="The viewer: public, full, or seat:n for a game.")] = "full",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    partial: Annotated[bool, typer.Option(help="Export a batch even if it is still running.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Write a stored batch or game as NDJSON, straight from the database; no server needs to be running.

    Each game opens with a line that says where it comes from; for `full` with its agents, models, prompts
    and parameters, its labels and its seed. The last line of a batch counts and signs the others, as in
    `GET /batches/{b}/export`. The exit status is 0 on success, 1 if a damaged game was left out (it is
    named), 2 if nothing was written.
    """
    settings = read_settings(database_url)
    damaged: list[str] = []

    async def write() -> int:
        lines = 0
        with writing(out) as file:
            async with aclosing(export_lines(settings, what, view, partial=partial)) as found:
                async for line in found:
                    file.write(line)
                    lines += 1
                    if line.startswith(EXPORT_DAMAGED):
                        damaged.append(orjson.loads(line)["game"])
        return lines

    lines = run_or_fail(write())
    if out is not None:
        note(f"{lines} lines in {out}")
    end_with_damaged(damaged)


async def export_lines(
    settings: Settings, what: str, view: str, *, partial: bool
) -> AsyncGenerator[bytes, None]:
    """The lines of a batch or a game. Raises NotFound, InvalidInput or Unfinished."""
    async with on_database(settings) as parts:
        if what.startswith("b_"):
            if view not in ("public", "full"):
                raise InvalidRequest(f"a batch is exported for public or full, got {view!r}", "/view")
            viewer = FULL if view == "full" else PUBLIC
            exported = parts.games.exporter.batch(OPERATOR, what, viewer, 0, partial=partial)
            first = await anext(exported)  # a refusal has no line in the audit
            await note_export(parts.database, what, view=view)
            for line in first:
                yield line
            async for lines in exported:
                for line in lines:
                    yield line
        elif what.startswith("g_"):
            row = await parts.games.row(what)
            viewer = read_viewer(view, row.players)
            batch = await parts.games.batch_row(row.batch_id)
            texts = await parts.games.exporter.game(OPERATOR, what, batch, viewer)
            await note_export(parts.database, what, view=view)
            for text in texts:
                yield text
        else:
            raise InvalidRequest(f"a batch's id starts with b_, a game's with g_; got {what!r}")


@answers_app.command("export")
def export_answers(
    batch: Annotated[str, typer.Argument(help="A batch (b_…).")],
    out: Annotated[Path, typer.Option(help="Write to this file.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Write every answer of a batch's models, straight from the database; no server needs to be running.

    Answers that were paid for but not used have a negative `attempt`: tries during an outage, answers that
    were put aside, those of a game that was played anew. With this file, its settings and its seeds, a batch
    can be repeated without a model: by `interintent simulate --agents llm --answers FILE`, or on a server
    with an endpoint `recorded`. The exit status is 0 on success, 1 if a damaged row was left out (it is
    named), 2 if nothing was written.
    """
    count, unused, damaged = run_or_fail(_write_answers(read_settings(database_url), batch, out))
    note(f"{count} answers in {out}" + (f", and {unused} calls that no game uses" if unused else ""))
    end_with_damaged(damaged)


async def _write_answers(settings: Settings, batch: str, out: Path) -> tuple[int, int, list[str]]:
    """The number of answers that were written, that of calls that no game uses, and the names of damaged
    rows.
    """
    signature, unused = Signature(), 0
    damaged = []
    async with on_database(settings) as parts:
        await parts.games.batch_row(batch)
        with writing(out) as file:
            await note_export(parts.database, batch, what="answers")
            async for game, call in parts.models.calls.of_batch(batch):
                if isinstance(call, str):
                    damaged.append(call)
                    continue
                unused += call.key.attempt < 0
                about = {"game": game.game_id, "position": game.position}
                file.write(signature.add(line_of(game.seed, call, about)))
            file.write(signature.line())
    return signature.count - unused, unused, damaged
