"""The command ``report``. The main command line registers it."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.cli_arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements
from app.game_files import NO_GOLD, bundles
from app.judgement_files import UnreadableFile, read_answers, read_judgements
from app.replays import OnRead, sizes
from engine.errors import AvalonError
from evaluators.items import Variant
from evaluators.report import ReportBuilder

__all__ = [
    "errors",
    "give_up",
    "of_batches",
    "of_files",
    "reading",
    "report_command",
    "tell_passed_over",
]

errors = Console(stderr=True, highlight=False)

_OF_SEATS: Final = ("agent", "model", "mechanism", "timing", "profile", "players")
"""As ``app.evaluations.reports.GROUPS``, whose import takes a second."""

_FORMATS: Final = (".html", ".json", ".csv")


def give_up(message: str) -> NoReturn:
    """Says why, and ends with status 2."""
    errors.print(f"[bold]interintent:[/] {message}", soft_wrap=True)
    raise typer.Exit(2)


@contextmanager
def reading(title: str, paths: list[str]) -> Iterator[OnRead]:
    """A bar on a terminal, over the bytes of the paths; nothing elsewhere."""
    with Progress(
        TextColumn(title),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        task = progress.add_task(title, total=sizes(paths))
        yield lambda size: progress.advance(task, size)


def report_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE…",
            help="Games as NDJSON of simulate --out or of a full export, avalon-replay records, directories "
            "or .tar.gz archives of these, - for standard input.",
            show_default=False,
        ),
    ] = None,
    batch: Batches = None,
    out: Annotated[
        Path | None,
        typer.Option(help="report.html, report.json or report.csv. Left out: JSON on standard output."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The report's heading.")] = None,
    judgements: Judgements = None,
    answers: Answers = None,
    options: Annotated[
        str, typer.Option(help="Options of the guessing items that are counted: impactful or roles.")
    ] = "impactful",
    group_by: Annotated[
        str | None,
        typer.Option(
            help="Groups side by side: file, profile, players, agents (games of the same ones) or agent "
            "(seats of each). With --batch: batch, agent, model, mechanism, timing, profile or players."
        ),
    ] = None,
    agents: Annotated[
        str | None, typer.Option(help="Who sat where in the files' games, as given to simulate --agents.")
    ] = None,
    rotate: Annotated[bool, typer.Option(help="The agents moved one seat on from game to game.")] = False,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Report on finished games: the paper's tables beside its figures, and ours, with counts and intervals.

    Two commands give one's own paper:

      interintent simulate -n 200 --seed 1 --out games.ndjson

      interintent report games.ndjson --out report.html

    The dimensions that raters judge need --judgements, guessing and summarisation --answers (interintent
    items writes what is asked); what seats believed while playing is scored without either. Exit status 2:
    there was no game to report on.
    """
    form = ".json" if out is None else out.suffix
    if form not in _FORMATS:
        give_up(f"--out ends in {', '.join(_FORMATS)}, got {out}")
    if bool(sources) == bool(batch):
        give_up("name files with games, or a batch with --batch")
    known = ("batch", *_OF_SEATS) if batch else ("file", "profile", "players", "agents", "agent")
    if group_by is not None and group_by not in known:
        give_up(f"--group-by takes {', '.join(known)} here, got {group_by}")
    variant = _variant(options)
    if sources:
        builder = of_files(
            sources,
            _title(title, sources),
            judgements,
            answers,
            variant,
            group_by,
            agents,
            rotate=rotate,
            jobs=jobs,
        )
    else:
        assert batch
        if judgements or answers or agents:
            give_up(
                "a batch brings its judgements, answers and agents; --judgements and the like are for files"
            )
        builder = of_batches(batch, _title(title, batch), group_by, database_url)
    tell_passed_over(builder)
    if not builder.games:
        raise typer.Exit(2)
    _write(builder, out, form)


def _variant(options: str) -> Variant:
    """How items are made with these options. Ends the command for other words."""
    if options not in ("impactful", "roles"):
        give_up(f"--options takes impactful or roles, got {options}")
    return Variant(options="roles" if options == "roles" else "impactful")


def _title(title: str | None, named: list[str]) -> str:
    if title is not None:
        return title
    names = [Path(one).name for one in named]
    return f"Report of {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def of_files(
    sources: list[str],
    title: str,
    judgements: Path | None,
    answers: Path | None,
    variant: Variant,
    group_by: str | None,
    agents: str | None,
    *,
    rotate: bool,
    jobs: int,
) -> ReportBuilder:
    """The counts of the games in these files, with what raters say of them. Ends the command where
    something does not read.
    """
    from app.reporting import Work, counted

    try:
        judged = None if judgements is None else read_judgements(judgements)
        work = Work(
            title,
            variant,
            {} if judged is None else judged.by_game,
            frozenset() if judged is None else judged.judges,
            {} if answers is None else read_answers(answers),
            None if agents is None else _agents(agents),
            rotate,
            group_by,  # type: ignore[arg-type]
        )
        builder = ReportBuilder(title, variant=variant)
        with reading("counting", sources) as on_read:
            for one in counted(bundles(sources, on_read), work, jobs=jobs or os.cpu_count() or 1):
                builder.merge(one)
    except UnreadableFile as fault:
        give_up(str(fault))
    except FileNotFoundError as fault:
        give_up(f"no such file or directory: {fault.filename or fault}")
    except (OSError, UnicodeDecodeError) as fault:
        give_up(str(fault))
    return builder


def _agents(given: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(","))
    return names * 5 if len(names) == 1 else names


def of_batches(
    batches: list[str], title: str, group_by: str | None, database_url: str | None
) -> ReportBuilder:
    """The counts of these batches of the database. Ends the command where there is none."""
    from app.errors import NotFound
    from app.exporting import needs_database
    from app.services import Services
    from app.settings import Settings

    async def count() -> ReportBuilder:
        settings = Settings(**({} if database_url is None else {"DATABASE_URL": database_url}))  # type: ignore[arg-type]
        needs_database(settings)
        services = Services(settings)
        builder = ReportBuilder(title)
        try:
            for batch in batches:
                if await services.store.batch(batch) is None:
                    raise NotFound(f"there is no batch {batch}")
                ids = await services.store.ids(batch, status=("finished",))
                await services.evaluations.reports.count(builder, batch, ids, group_by)  # type: ignore[arg-type]
        finally:
            await services.database.stop()
        return builder

    try:
        return asyncio.run(count())
    except AvalonError as fault:
        give_up(str(fault))
    except ValidationError as fault:
        give_up("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))
    except OSError as fault:
        give_up(f"the database cannot be read: {fault}")


def tell_passed_over(builder: ReportBuilder) -> None:
    """Says on standard error which games do not count, and where none does."""
    reasons: Counter[str] = Counter(builder.excluded.get("games", {}))
    for reason, n in reasons.most_common(5):
        errors.print(f"passed over: {n} × {reason}", markup=False, soft_wrap=True)
    if not builder.games:
        hint = ""
        if reasons.get(NO_GOLD):
            hint = ": what seats were and thought is only in a full export"
        errors.print(f"[bold]interintent:[/] no finished game to report on{hint}", soft_wrap=True)


def _write(builder: ReportBuilder, out: Path | None, form: str) -> None:
    import orjson

    report = builder.report()
    if form == ".html":
        from evaluators.report_page import as_html

        text = as_html(report).encode()
    elif form == ".csv":
        from evaluators.report_csv import as_csv

        text = as_csv(report).encode()
    else:
        text = orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2) + b"\n"
    if out is None:
        sys.stdout.buffer.write(text)
        return
    try:
        out.write_bytes(text)
    except OSError as fault:
        give_up(f"cannot write {out}: {fault.strerror}")
    games = "1 game" if builder.games == 1 else f"{builder.games} games"
    typer.echo(f"{games} in {out}")
