"""The command ``report``. The main command line registers it."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import ValidationError
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.cli_arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements
from app.game_files import NO_GOLD, bundles
from app.judgement_files import UnreadableFile, read_answers, read_judgements
from app.replays import OnRead, sizes
from app.terminal import echo, errors, fail, note, writing
from engine.errors import AvalonError
from evaluators.items import Variant
from evaluators.report import ReportBuilder

__all__ = [
    "NAMED",
    "named",
    "of_batches",
    "of_files",
    "reading",
    "report_command",
    "tell_passed_over",
]


_OF_SEATS: Final = ("agent", "model", "mechanism", "timing", "profile", "players")
"""As ``app.evaluations.reports.GROUPS``, whose import takes a second."""

_FORMATS: Final = (".html", ".json", ".csv")


@contextmanager
def reading(title: str, paths: list[str]) -> Iterator[OnRead]:
    """A bar on a terminal, over the bytes of the paths; nothing elsewhere."""
    with Progress(
        TextColumn(title, markup=False),
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
        fail(f"--out ends in {', '.join(_FORMATS)}, got {out}")
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    known = ("batch", *_OF_SEATS) if batch else ("file", "profile", "players", "agents", "agent")
    if group_by is not None and group_by not in known:
        fail(f"--group-by takes {', '.join(known)} here, got {group_by}")
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
            fail("a batch brings its judgements, answers and agents; --judgements and the like are for files")
        builder = of_batches(batch, _title(title, batch), group_by, database_url)
    tell_passed_over(builder)
    if not builder.games:
        raise typer.Exit(2)
    _write(builder, out, form)


def _variant(options: str) -> Variant:
    """How items are made with these options. Ends the command for other words."""
    if options not in ("impactful", "roles"):
        fail(f"--options takes impactful or roles, got {options}")
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
        fail(str(fault))
    except FileNotFoundError as fault:
        fail(f"no such file or directory: {fault.filename or fault}")
    except (OSError, UnicodeDecodeError) as fault:
        fail(str(fault))
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
        fail(str(fault))
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))
    except OSError as fault:
        fail(f"the database cannot be read: {fault}")


def tell_passed_over(builder: ReportBuilder) -> None:
    """Says on standard error which games do not count, and where none does."""
    reasons: Counter[str] = Counter(builder.excluded.get("games", {}))
    for reason, n in reasons.most_common(5):
        names = [name for name, why in builder.left_out if why == reason]
        note(f"passed over: {n} × {reason}{named(names, n)}")
    if not builder.games:
        hint = ""
        if reasons.get(NO_GOLD):
            hint = ": what seats were and thought is only in a full export"
        note(f"interintent: no finished game to report on{hint}")


def named(names: Sequence[str], count: int) -> str:
    """The first of so many names, in brackets."""
    shown = ", ".join(names[:NAMED])
    return f" ({shown}{', …' if count > NAMED else ''})" if shown else ""


NAMED: Final = 5
"""Games and files that are named for a reason."""


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
    with writing(out) as file:
        file.write(text)
    if out is None:
        return
    games = "1 game" if builder.games == 1 else f"{builder.games} games"
    echo(f"{games} in {out}")
