"""The command ``report``."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from app.base.errors import NotFound
from app.cli.arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements, Sources
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import byte_bar, echo, fail, note, writing
from app.files.games import NO_GOLD, bundles
from app.files.judgements import UnreadableFile, read_answers, read_judgements
from app.files.replays import sizes
from app.files.reporting import ReportWork, counted
from evaluators.ground.items import Variant
from evaluators.report.builder import DAMAGED, ReportBuilder
from evaluators.report.sections import make_report

__all__ = [
    "NAMED",
    "commands",
    "named",
    "note_passed_over",
    "of_batches",
    "of_files",
]

commands = typer.Typer()

_OF_SEATS: Final = ("agent", "model", "mechanism", "timing", "profile", "players")
"""As ``app.evaluations.reports.GROUPS``, whose import takes a second."""

_FORMATS: Final = (".html", ".json", ".csv")


@commands.command("report")
def report_command(
    sources: Sources = None,
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
    note_passed_over(builder)
    if not builder.games:
        raise typer.Exit(2)
    _write(builder, out, form)


def _variant(options: str) -> Variant:
    """How items are made with these options. Ends the command for unknown ones."""
    if options not in ("impactful", "roles"):
        fail(f"--options takes impactful or roles, got {options}")
    return Variant(options="roles" if options == "roles" else "impactful")


def _title(title: str | None, named: list[str]) -> str:
    if title is not None:
        return title
    names = [Path(name).name for name in named]
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
    try:
        judged = None if judgements is None else read_judgements(judgements)
        work = ReportWork(
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
        with byte_bar("counting", sizes(sources)) as on_read:
            for part in counted(bundles(sources, on_read), work, jobs=jobs or os.cpu_count() or 1):
                builder.merge(part)
    except UnreadableFile as fault:
        fail(str(fault))
    except FileNotFoundError as fault:
        fail(f"no such file or directory: {fault.filename or fault}")
    except (OSError, UnicodeDecodeError) as fault:
        fail(str(fault))
    return builder


def _agents(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    return names * 5 if len(names) == 1 else names


def of_batches(
    batches: list[str], title: str, group_by: str | None, database_url: str | None
) -> ReportBuilder:
    """The counts of these batches of the database. Ends the command where there is none."""

    async def count() -> ReportBuilder:
        builder = ReportBuilder(title)
        async with on_database(read_settings(database_url)) as parts:
            for batch in batches:
                if await parts.store.batch(batch) is None:
                    raise NotFound(f"there is no batch {batch}")
                ids = await parts.store.ids(batch, status=("finished",))
                await parts.evaluations.reports.count(builder, batch, ids, group_by)  # type: ignore[arg-type]
        return builder

    return run_or_fail(count())


def note_passed_over(builder: ReportBuilder) -> None:
    """Prints on standard error which games are left out, and why none is left where that is so."""
    reasons: Counter[str] = Counter(builder.excluded.get("games", {}))
    for reason, n in reasons.most_common(5):
        names = [name for name, why in builder.left_out if why == reason]
        note(f"passed over: {n} × {reason}{named(names, n)}")
    lost = sum(held.get(DAMAGED, 0) for about, held in builder.excluded.items() if about != "games")
    if lost:
        ending = f" is {DAMAGED}"
        rows = [why.removesuffix(ending) for _, why in builder.left_out if why.endswith(ending)]
        note(f"left out: {lost} × judgement or answer {DAMAGED}{named(rows, lost)}")
    if not builder.games:
        hint = ""
        if reasons.get(NO_GOLD):
            hint = ": what seats were and thought is only in a full export"
        note(f"interintent: no finished game to report on{hint}")


def named(names: Sequence[str], count: int) -> str:
    """The first of ``count`` names, in brackets."""
    shown = ", ".join(names[:NAMED])
    return f" ({shown}{', …' if count > NAMED else ''})" if shown else ""


NAMED: Final = 5
"""Games and files that are named for each reason."""


def _write(builder: ReportBuilder, out: Path | None, form: str) -> None:
    import orjson

    report = make_report(builder)
    if form == ".html":
        from evaluators.report.page import as_html

        text = as_html(report).encode()
    elif form == ".csv":
        from evaluators.report.tables import as_csv

        text = as_csv(report).encode()
    else:
        text = orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2) + b"\n"
    with writing(out) as file:
        file.write(text)
    if out is None:
        return
    games = "1 game" if builder.games == 1 else f"{builder.games} games"
    echo(f"{games} in {out}")
