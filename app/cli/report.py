"""The command ``report``."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn, get_args

import typer

from app.cli.arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements, Sources
from app.cli.database import finished_games, on_database, read_settings, run_or_fail
from app.cli.terminal import byte_bar, echo, fail, note, writing
from app.files.games import NO_GOLD, bundles
from app.files.judgements import UnreadableFile, read_answers, read_judgements
from app.files.replays import sizes
from app.files.reporting import ReportWork, counted
from evaluators.ground.items import Options, Variant
from evaluators.report.builder import DAMAGED, ReportBuilder
from evaluators.report.sections import make_report

__all__ = ["commands", "fail_without_games", "note_games", "note_passed_over", "of_batches", "of_files"]

commands = typer.Typer()

_OF_SEATS: Final = ("agent", "model", "mechanism", "timing", "profile", "players")
"""The same as ``app.evaluations.reports.GROUPS``, whose import takes a second."""

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
        str, typer.Option(help="The options of the guesses that are counted: impactful or roles.")
    ] = "impactful",
    group_by: Annotated[
        str | None,
        typer.Option(
            help="Compare groups: file, profile, players, agents (games with the same agents) or agent (its "
            "seats). With --batch: batch, agent, model, mechanism, timing, profile or players."
        ),
    ] = None,
    agents: Annotated[
        str | None, typer.Option(help="The agents in the files' games, as given to simulate --agents.")
    ] = None,
    rotate: Annotated[bool, typer.Option(help="The agents moved by one seat after each game.")] = False,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Report on finished games: the paper's tables beside its figures, and ours, with counts and intervals.

    Two commands make the paper's tables for your own games:

      interintent simulate -n 200 --seed 1 --out games.ndjson

      interintent report games.ndjson --out report.html

    Selection and following need --judgements of raters, guessing and summarisation --answers (interintent
    items writes the questions); the beliefs of seats during play are scored without either. Exit status 2:
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
    if options not in get_args(Options):
        fail(f"--options takes {' or '.join(get_args(Options))}, got {options}")
    if sources:
        builder = of_files(
            sources,
            _title(title, sources),
            judgements,
            answers,
            Variant(options=options),  # type: ignore[arg-type]
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
    _write(builder, out, form)


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
    """The counts of the games in these files, with the raters' judgements and answers. Ends the command if a
    file cannot be read.
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
    """The counts of these batches of the database. Ends the command for an unknown batch."""

    async def count() -> ReportBuilder:
        builder = ReportBuilder(title)
        async with on_database(read_settings(database_url)) as parts:
            for batch in batches:
                ids = await finished_games(parts, batch)
                await parts.evaluations.reports.count(builder, batch, ids, group_by)  # type: ignore[arg-type]
        return builder

    return run_or_fail(count())


def note_passed_over(builder: ReportBuilder) -> None:
    """Names the games and rows that are left out on standard error. Ends the command if no game is left."""
    reasons: Counter[str] = Counter(builder.excluded.get("games", {}))
    names: dict[str, list[str]] = {}
    for name, why in builder.left_out:
        names.setdefault(why, []).append(name)
    note_games(reasons, names)
    lost = sum(held.get(DAMAGED, 0) for about, held in builder.excluded.items() if about != "games")
    if lost:
        ending = f" is {DAMAGED}"
        rows = [why.removesuffix(ending) for _, why in builder.left_out if why.endswith(ending)]
        note(f"left out: {lost} × judgement or answer {DAMAGED}{_first_names(rows, lost)}")
    if not builder.games:
        fail_without_games("report on", reasons)


def note_games(reasons: Counter[str], names: Mapping[str, Sequence[str]]) -> None:
    """Prints the most common reasons for which games were left out, each with the first names."""
    for reason, count in reasons.most_common(5):
        note(f"passed over: {count} × {reason}{_first_names(names.get(reason, ()), count)}")


def fail_without_games(purpose: str, reasons: Mapping[str, int]) -> NoReturn:
    """Ends the command that has found no finished game for its purpose."""
    hint = ": roles and thoughts are only in a full export" if reasons.get(NO_GOLD) else ""
    fail(f"no finished game to {purpose}{hint}")


def _first_names(names: Sequence[str], count: int) -> str:
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
    if out is not None:
        echo(f"{'1 game' if builder.games == 1 else f'{builder.games} games'} in {out}")
