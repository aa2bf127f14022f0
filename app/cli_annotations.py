"""The commands ``annotations export`` and ``annotations import``. The main command line registers them."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.terminal import errors, fail
from engine.errors import AvalonError

if TYPE_CHECKING:
    from app.settings import Settings

__all__ = ["annotations_app"]

annotations_app = typer.Typer(
    help="What raters say of selections and following, as CSV in and out.", no_args_is_help=True
)


DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"),
]


def _settings(database_url: str | None) -> "Settings":
    from app.settings import Settings

    try:
        return Settings(**({} if database_url is None else {"DATABASE_URL": database_url}))  # type: ignore[arg-type]
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))


@annotations_app.command("export")
def export(
    batch: Annotated[str | None, typer.Option(help="Of the finished games of this batch.")] = None,
    game: Annotated[str | None, typer.Option(help="Of this game.")] = None,
    rater: Annotated[str | None, typer.Option(help="Of this rater only.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write the judgements that stand as CSV to standard output, straight from the database.

    The columns are those of `GET /annotations?format=csv`; `annotations import` reads them back.
    """
    from app.annotations import exported

    settings = _settings(database_url)
    try:
        text = asyncio.run(exported(settings, game=game, batch=batch, rater=rater))
    except AvalonError as fault:
        fail(str(fault))
    # Lines end as CSV has them, on every system.
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


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
        str | None, typer.Option(help="Who judged, for every line; else the column rater says.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="human, model or program, for every line; else the column kind, or human."),
    ] = None,
    revise: Annotated[
        bool,
        typer.Option(
            "--revise", help="Judge anew what a rater has judged already; the earlier word stays stored."
        ),
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Store the judgements of a CSV file: all of them or, when one line is wrong, none.

    The checks are those of `POST /annotations`; what is wrong is named by line and column. Lines that
    judge nothing are passed over. Exit status: 0, 2 when nothing was stored.
    """
    from app.annotations import imported

    settings = _settings(database_url)
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as fault:
        fail(f"cannot read {file}: {fault.strerror}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content[: fault.start].count(b"\n") + 1
        fail(f"line {line}: {file} is not UTF-8; save it as CSV UTF-8")
    with Progress(
        TextColumn("judgements", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("judgements", total=None)
        try:
            stored = asyncio.run(
                imported(
                    settings,
                    text,
                    rater=rater,
                    kind=kind,
                    revise=revise,
                    told=lambda done, total: bar.update(task, completed=done, total=total),
                )
            )
        except AvalonError as fault:
            fail(f"{fault}; nothing was stored")
    typer.echo(f"{stored.stored} judgements stored, {stored.revised} of them in place of earlier ones")
