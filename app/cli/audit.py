"""The command ``audit``."""

from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from app.base.clock import timestamp
from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.database import CANNOT_BE_USED, on_tables, operator, read_settings, run_or_fail
from app.cli.tables import print_table
from app.cli.terminal import clean, fail, note, print_json
from app.store.audit import Audit, Deed
from app.store.db import Database

__all__ = ["commands", "note_export", "who_runs"]

commands = typer.Typer()


class _User(NamedTuple):
    """A user of the operating system."""

    name: str
    owner: str = ""


def who_runs() -> _User:
    """Who runs the command, for the audit."""
    return _User(operator())


async def note_export(database: Database, of: str, **detail: Any) -> None:
    """Adds an export to the audit, before the command writes its first line. A database that cannot be
    written to, such as a damaged one, is exported without a line; then the command says so.
    """
    database.writer.start()
    try:
        await Audit(database).note(who_runs(), "export", of, **detail)
    except CANNOT_BE_USED as fault:
        note(f"the audit has no line of this export: {getattr(fault, 'orig', None) or fault}")


@commands.command("audit")
def audit(
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Only by this credential or owner, as key:k_…, project:NAME, operator, keyless; repeatable.",
            show_default=False,
        ),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this: mint, fork, cancel, export, evaluate, …; repeatable.", show_default=False
        ),
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--of",
            help="Only to this game, batch, evaluation, set, token or key, by id; repeatable.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from then on: a day or a time in UTC.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only before then.", show_default=False)] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Show only this many entries, the latest.")
    ] = 100,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show who did what and when, the oldest first.

    It covers games, batches, tokens, codes, evaluations, judgements, sets and keys, whether they were changed
    over HTTP or by a command. Of reads, it lists only exports.

    Example: interintent audit --action export --since 2030-01-31
    """
    settings = read_settings(database_url)

    async def run() -> tuple[list[Deed], int]:
        async with on_tables(settings) as database:
            return await Audit(database).deeds(
                by=by or (),
                actions=action or (),
                objects=of or (),
                since=_moment("--since", since),
                until=_moment("--until", until),
                limit=limit,
            )

    deeds, damaged = run_or_fail(run())
    if damaged:
        note(f"{damaged} rows of the audit cannot be read: interintent doctor names them")
    if as_json:
        print_json([{**deed._asdict(), "at": timestamp(deed.at)} for deed in deeds])
        return
    table = Table("at", "by", "owner", "action", "of", "detail", box=None, pad_edge=False)
    for deed in deeds:
        detail = ", ".join(f"{name} {value}" for name, value in deed.detail.items())
        table.add_row(
            timestamp(deed.at), *map(clean, (deed.by, deed.owner, deed.action, deed.object, detail))
        )
    print_table(table)


def _moment(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option} takes a day or a time like 2030-01-31 or 2030-01-31T12:00Z; got {text!r}")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
