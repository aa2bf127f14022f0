"""The commands ``annotations export`` and ``import``: judgements as CSV, without a service.

``sheet`` and ``take`` are in ``app.cli.rater_sheets``.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.errors import AlreadyJudged, InvalidRequest
from app.cli.arguments import DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.rater_sheets import CALLER, sheets_app
from app.cli.terminal import count_bar, end_with_damaged, fail, reason
from app.edge.queries import listed
from app.evaluations.schemas import JudgementView, Stored
from app.evaluations.sheet import FIELDS, SheetLine, read_sheet, write_sheet
from app.evaluations.tasks import Prepared
from app.settings import Settings
from engine.errors import AvalonError

__all__ = ["commands"]

_STEP: Final = 50
"""The progress bar moves each time this many judgements have been checked."""

commands = typer.Typer()
annotations_app = typer.Typer(
    help="Raters' judgements of selection and following: sheets to fill in, and CSV.", no_args_is_help=True
)
annotations_app.add_typer(sheets_app)
commands.add_typer(annotations_app, name="annotations")


@annotations_app.command("export")
def export(
    batch: Annotated[str | None, typer.Option(help="Export the finished games of this batch.")] = None,
    game: Annotated[str | None, typer.Option(help="Export this game.")] = None,
    rater: Annotated[str | None, typer.Option(help="Export this rater only.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write the latest judgement of every rater as CSV to standard output, straight from the database.

    The columns are those of `GET /annotations?format=csv`; `annotations import` reads them back. The exit
    status is 0 on success, 1 if a damaged row was left out (it is named), 2 if nothing was written.
    """
    work = _exported(read_settings(database_url), game=game, batch=batch, rater=rater)
    text, damaged = run_or_fail(work)
    # As bytes: the lines end as in CSV, on every system.
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
    end_with_damaged(damaged)


@annotations_app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV in UTF-8 with the header of `annotations export`, or - for standard input.",
            show_default=False,
        ),
    ],
    rater: Annotated[
        str | None, typer.Option(help="The rater of every line. If omitted: the column rater.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="human, model or program, for every line. If omitted: the column kind, or human."),
    ] = None,
    revise: Annotated[
        bool,
        typer.Option("--revise", help="Replace earlier judgements of the same raters, which stay stored."),
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Store the judgements of a CSV file: all of them or, when one line is wrong, none.

    The checks are those of `POST /annotations`; faults are named by line and column. Lines without a
    judgement are ignored. The exit status is 0 on success, 2 if nothing was stored.
    """
    settings = read_settings(database_url)
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as fault:
        fail(f"cannot read {file}: {reason(fault)}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content[: fault.start].count(b"\n") + 1
        fail(f"line {line}: {file} is not UTF-8; save it as CSV UTF-8")
    with count_bar("judgements") as show:
        try:
            stored = asyncio.run(_imported(settings, text, rater=rater, kind=kind, revise=revise, show=show))
        except AvalonError as fault:
            fail(f"{fault}; nothing was stored")
    typer.echo(f"{stored.stored} judgements stored, {stored.revised} of them replace earlier ones")


async def _exported(
    settings: Settings, *, game: str | None, batch: str | None, rater: str | None
) -> tuple[str, list[str]]:
    """Every rater's latest judgements as CSV, and the names of damaged rows. Raises NotFound, InvalidRequest,
    Unfinished.
    """
    async with on_database(settings) as parts:
        games = await parts.evaluations.chosen(listed(game, "game"), listed(batch, "batch"), invalid=True)
        rows = await parts.evaluations.store.judgements_of(games, raters=listed(rater, "rater"))
        views = (JudgementView(**{name: getattr(row, name) for name in FIELDS}) for row in rows)
        return write_sheet(views), [damaged.name for damaged in rows.damaged]


async def _imported(
    settings: Settings,
    text: str,
    *,
    rater: str | None,
    kind: str | None,
    revise: bool,
    show: Callable[[int, int], None],
) -> Stored:
    """Stores all judgements of a sheet, or none. Raises InvalidRequest and AlreadyJudged with the line."""
    lines = list(read_sheet(text, rater=rater, kind=kind))
    if not lines:
        raise InvalidRequest("the file holds no judgement")
    async with on_database(settings, writes=True) as parts:
        tasks = parts.evaluations.tasks
        prepared = Prepared(CALLER)
        for index, line in enumerate(lines):
            try:
                await tasks.prepare(prepared, line.rater, line.judgement)
            except InvalidRequest as fault:
                raise _with_line(fault, line) from None
            if index % _STEP == 0:
                show(index, len(lines))
        show(len(lines), len(lines))

        async def write(connection: AsyncConnection) -> int:
            return await tasks.write(connection, prepared, revise=revise, by=who_runs())

        try:
            revised = await parts.database.writer.run(write)
        except AlreadyJudged as fault:
            line = lines[int(fault.pointer.rpartition("/")[2])]
            raise AlreadyJudged(
                f"line {line.number}: {line.rater.name} has judged this already; --revise replaces it", ""
            ) from None
        except IntegrityError:
            raise AlreadyJudged("the same raters' judgements are being stored; try again", "") from None
        return Stored(stored=len(lines), revised=revised)


_COLUMNS: Final = {"item_id": "game_id, request_id, stage", "intention": "intention"}


def _with_line(fault: InvalidRequest, line: SheetLine) -> InvalidRequest:
    column = _COLUMNS.get(fault.pointer.rpartition("/")[2], "")
    place = f"line {line.number}" + (f", {column}" if column else "")
    return InvalidRequest(f"{place}: {fault}", f"/{line.number}")
