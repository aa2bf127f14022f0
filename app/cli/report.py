"""The commands ``report`` and ``compare``: the figures of finished games and of raters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, get_args

import typer
from rich import box
from rich.table import Table

from app.cli.arguments import (
    Answers,
    Batches,
    DatabaseUrl,
    GroupBy,
    Jobs,
    Judgements,
    RatersOf,
    Sources,
    Where,
)
from app.cli.database import finished_games, on_database, read_settings, run_or_fail
from app.cli.tables import print_table
from app.cli.terminal import (
    byte_bar,
    echo,
    fail,
    fail_reading,
    install_command,
    note,
    print_json,
    reason,
    refuse_input,
    writing,
)
from app.files.games import NO_GOLD, bundles
from app.files.judgements import UnreadableFile, read_answers, read_judgements
from app.files.replays import sizes
from app.files.reporting import ReportWork, counted
from evaluators.ground.items import Options, Variant
from evaluators.measures.defaults import EXCLUDE_ABOVE
from evaluators.report.builder import DAMAGED, ReportBuilder, SeatUse
from evaluators.report.columns import (
    Contrast,
    Split,
    UnknownColumn,
    column_name,
    no_column,
    read_conditions,
    read_contrasts,
)
from evaluators.report.contrasts import CONTRASTS, FOUND_BELOW
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, ReportTable
from evaluators.report.tables import as_csv as as_csv_text
from evaluators.statistics.figures import Figure
from evaluators.study.notes import notes_of

__all__ = ["commands", "fail_without_games", "first_names", "note_games", "questions_of", "read_split"]

commands = typer.Typer()

_FORMATS: Final = {".html": "html", ".json": "json", ".csv": "csv", ".tex": "latex"}
"""The format of a report, by the ending of its file's name."""

ExcludeAbove = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Exclude games whose models defaulted a larger share of their decisions. 1: exclude none.",
    ),
]


@commands.command("report")
def report_command(
    sources: Sources = None,
    batch: Batches = None,
    out: Annotated[
        Path | None,
        typer.Option(help="report.html, .json, .csv or .tex. If omitted: standard output."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html, json, csv or latex (the paper's tables). If omitted: by --out's ending, else json.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="A directory to write every plot to, as SVG and as PDF.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The report's heading.")] = None,
    judgements: Judgements = None,
    answers: Answers = None,
    options: Annotated[
        str, typer.Option(help="The options of the guesses that are counted: impactful or roles.")
    ] = "impactful",
    group_by: GroupBy = None,
    where: Where = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help="Test a difference between values of any column: preset=paper,direct. Or whether that "
            "difference differs by another column: 'preset=paper,direct x model=a,b'. Repeatable: p is "
            "adjusted for all contrasts."
        ),
    ] = None,
    agents: Annotated[
        str | None, typer.Option(help="The agents in the files' games, as given to simulate --agents.")
    ] = None,
    rotate: Annotated[
        bool, typer.Option(help="For --agents: they moved by one seat after each game.")
    ] = False,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
    study: Annotated[
        Path | None,
        typer.Option(help="The study.json of a packed study: when it was frozen, deviations, early looks."),
    ] = None,
    raters_of: RatersOf = None,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Report on finished games: the paper's tables beside its figures, and ours, with counts and intervals.

    Two commands make the paper's tables for your own games:

      interintent simulate -n 200 --seed 1 --out games.ndjson

      interintent report games.ndjson --out report.html

    Selection and following need --judgements of raters, guessing and summarisation --answers (interintent
    items writes the questions); the beliefs of seats during play are scored without either. The exit
    status is 2 if there was no game to report on.

    Games in which models defaulted more than --exclude-above of their decisions are excluded, and so are
    games that were marked as invalid. If that changes a figure, a second figure includes them.

    Columns, for --group-by, --where and --contrast: of games profile, players, batch, file, agents, seating,
    seed and every label of their batch; of seats agent, model, served, preset, steps, prompts, memory,
    timing, role and side.
    """
    if form is None:
        if out is not None and out.suffix not in _FORMATS:
            fail(f"--out ends in {', '.join(_FORMATS)}, or --format says what it is; got {out}")
        form = "json" if out is None else _FORMATS[out.suffix]
    if form not in _FORMATS.values():
        fail(f"--format takes {', '.join(_FORMATS.values())}, got {form}")
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    refuse_input(out, *(sources or ()), judgements, answers, study)
    split = read_split(group_by, where, contrast)
    described = None if study is None else _study(study)
    level = FOUND_BELOW
    if described is not None:
        split = split._replace(contrasts=(*questions_of(described), *split.contrasts))
        level = next(
            (one["level"] for one in described.get("levels", ()) if one["games"] == described["games"]), level
        )
    if options not in get_args(Options):
        fail(f"--options takes {' or '.join(get_args(Options))}, got {options}")
    if sources:
        builder = _of_files(
            sources,
            _title(title, sources),
            judgements,
            answers,
            Variant(options=options),  # type: ignore[arg-type]
            split,
            agents,
            rotate=rotate,
            exclude_above=exclude_above,
            jobs=jobs,
            level=level,
            uses=() if described is None else _uses(described),
        )
    else:
        assert batch
        if judgements or answers or agents:
            fail("a batch brings its judgements, answers and agents; --judgements and the like are for files")
        builder = _of_batches(
            batch, _title(title, batch), split, exclude_above, database_url, raters_of or ()
        )
    _note_passed_over(builder)
    _check_contrasts(builder, of_study=described is not None)
    if split.group_by is not None and builder.games and not builder.groups:
        fail(no_column(split.group_by))
    _write(builder, out, form, figures, described)


def read_split(
    group_by: str | None, where: Sequence[str] | None, contrast: Sequence[str] | None = None
) -> Split:
    """The options as read. Ends the command for one that cannot be read, or that needs what is missing."""
    try:
        split = Split(
            None if group_by is None else column_name(group_by),
            read_conditions(where or ()),
            read_contrasts(contrast or ()),
        )
    except UnknownColumn as fault:
        fail(str(fault))
    if split.contrasts and find_spec("scipy") is None:
        fail(f"contrasts need the extra `reports`: {install_command('reports')}")
    return split


def _title(title: str | None, named: list[str]) -> str:
    if title is not None:
        return title
    names = [Path(name).name for name in named]
    return f"Report of {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _of_files(
    sources: list[str],
    title: str,
    judgements: Path | None,
    answers: Path | None,
    variant: Variant,
    split: Split,
    agents: str | None,
    *,
    rotate: bool,
    exclude_above: float,
    jobs: int,
    level: float = FOUND_BELOW,
    uses: Sequence[SeatUse] = (),
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
            split.group_by,
            exclude_above,
            split.where,
            split.contrasts,
            level,
            {} if judged is None else judged.statements,
        )
        builder = work.builder()
        builder.uses += uses
        with byte_bar("counting", sizes(sources)) as on_read:
            for part in counted(bundles(sources, on_read), work, jobs=jobs):
                builder.merge(part)
    except UnreadableFile as fault:
        fail(str(fault))
    except OSError as fault:
        fail_reading(fault)
    except UnicodeDecodeError as fault:
        fail(str(fault))
    builder = builder.settled()
    if judged is not None and judged.by_game and not builder.judgements:
        note(f"no judgement in {judgements} counts: none is of a game that is counted")
    return builder


def _agents(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    return names * 5 if len(names) == 1 else names


def _of_batches(
    batches: list[str],
    title: str,
    split: Split,
    exclude_above: float,
    database_url: str | None,
    raters_of: Sequence[str] = (),
) -> ReportBuilder:
    """The counts of these batches of the database. Ends the command for an unknown batch."""

    async def count() -> ReportBuilder:
        builder = ReportBuilder(
            title, exclude_above=exclude_above, where=split.where, contrasts=split.contrasts
        )
        async with on_database(read_settings(database_url)) as parts:
            for batch in batches:
                ids = await finished_games(parts, batch)
                await parts.evaluations.reports.count(builder, batch, ids, split.group_by, raters_of)
        return builder.settled()

    return run_or_fail(count())


def _note_passed_over(builder: ReportBuilder) -> None:
    """Names on standard error the games and rows that are left out. Ends the command if no game is left."""
    reasons: Counter[str] = Counter(builder.excluded.get("games", {}))
    names: dict[str, list[str]] = {}
    for name, why in builder.left_out:
        names.setdefault(why, []).append(name)
    note_games(reasons, names)
    lost = sum(held.get(DAMAGED, 0) for about, held in builder.excluded.items() if about != "games")
    if lost:
        ending = f" is {DAMAGED}"
        rows = [why.removesuffix(ending) for _, why in builder.left_out if why.endswith(ending)]
        note(f"left out: {lost} × judgement or answer {DAMAGED}{first_names(rows, lost)}")
    if excluded := builder.exclusion_words():
        note(f"excluded: {excluded}")
    elif not builder.games:
        fail_without_games("report on", reasons)


def _check_contrasts(builder: ReportBuilder, *, of_study: bool = False) -> None:
    """Names on standard error the levels of contrasts that no game has. Ends the command for a column that no
    game has, unless a study asks: its games may be still to play.
    """
    builders = [builder] if builder.set_aside is None else [builder, builder.set_aside]
    found = {pair for one in builders for counts in one.contrasts for pair in counts.found}
    asked = dict.fromkeys(pair for counts in builder.contrasts for pair in counts.asked.levels.items())
    if not of_study:
        for column, _ in asked:
            if (column, "") not in found:
                fail(no_column(column, "contrast"))
    for column, level in dict.fromkeys((column, level) for column, levels in asked for level in levels):
        if (column, level) not in found:
            note(f"no game has {column.removeprefix('label:')}={level}: its contrasts are left out")


def note_games(reasons: Counter[str], names: Mapping[str, Sequence[str]]) -> None:
    """Prints the most common reasons why games were left out, each with the names of the first games."""
    for why, count in reasons.most_common(5):
        note(f"passed over: {count} × {why}{first_names(names.get(why, ()), count)}")


def fail_without_games(purpose: str, reasons: Mapping[str, int]) -> NoReturn:
    """Ends a command that has found no finished game for its purpose."""
    hint = ": roles and thoughts are only in a full export" if reasons.get(NO_GOLD) else ""
    fail(f"no finished game to {purpose}{hint}")


def first_names(names: Sequence[str], count: int) -> str:
    """The first of ``count`` names, in brackets."""
    shown = ", ".join(names[:NAMED])
    return f" ({shown}{', …' if count > NAMED else ''})" if shown else ""


NAMED: Final = 5
"""The most games or rows that are named for each reason."""


def _study(file: Path) -> dict[str, Any]:
    """What a study's pack tells of the study. Ends the command for another file."""
    import orjson

    try:
        described = orjson.loads(file.read_bytes())
        notes_of(described)
        _uses(described)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        fail(f"{file} is not the study.json of a packed study")
    return dict(described)


def _uses(described: Mapping[str, Any]) -> list[SeatUse]:
    """What the study's models were asked, as far as its pack tells."""
    return [SeatUse(**use) for use in described.get("uses", ())]


def questions_of(described: Mapping[str, Any]) -> list[Contrast]:
    """The questions of a study as contrasts, each with its words and the figure that decides it. Ends the
    command for one that cannot be read.
    """
    try:
        return [
            contrast._replace(question=asked["text"], measure=asked.get("measure") or "")
            for asked in described.get("questions", ())
            for contrast in read_contrasts(
                [asked["contrast"] + (f" where {asked['where']}" if asked.get("where") else "")]
            )
        ]
    except UnknownColumn as fault:
        fail(f"a question of the study cannot be read: {fault}")


def _write(
    builder: ReportBuilder, out: Path | None, form: str, figures: Path | None, study: dict[str, Any] | None
) -> None:
    report = make_report(builder)
    if study is not None:
        notes = (*notes_of(study), *report.notes)
        report = replace(report, notes=notes, made_of={**report.made_of, "study": study})
    content = _content(report, form)
    # The figures first, so that nobody finds a finished report beside missing figures.
    names = [] if figures is None else _write_figures(report, figures)
    with writing(out) as file:
        file.write(content)
    if out is not None:
        echo(f"{'1 game' if builder.games == 1 else f'{builder.games} games'} in {out}")
    if form == "html" and find_spec("vl_convert") is None:
        note(f"the page has no plots: they need the extra `reports`: {install_command('reports')}")
    if figures is not None:
        note(f"{len(names)} plots in {figures}, each as SVG and PDF")


def _content(report: Report, form: str) -> bytes:
    if form == "html":
        from evaluators.report.page import as_html

        return as_html(report).encode()
    if form == "csv":
        return as_csv_text(report).encode()
    if form == "latex":
        from evaluators.report.latex import as_latex

        return as_latex(report).encode()
    import orjson

    return orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2) + b"\n"


def _write_figures(report: Report, directory: Path) -> list[str]:
    """Writes every plot, and returns their names. Ends the command if they cannot be drawn or written."""
    names = []
    try:
        from evaluators.report.plots import plot_files

        directory.mkdir(parents=True, exist_ok=True)
        for plot in plot_files(report):
            for ending, content in (("svg", plot.svg.encode()), ("pdf", plot.pdf)):
                with writing(directory / f"{plot.name}.{ending}") as file:
                    file.write(content)
            names.append(plot.name)
    except ImportError:
        fail(f"--figures: plots need the extra `reports`: {install_command('reports')}")
    except OSError as fault:
        fail(f"--figures: cannot write {directory}: {reason(fault)}")
    return names


# --- compare ------------------------------------------------------------------------------------


@commands.command("compare")
def compare_command(
    sources: Sources = None,
    batch: Batches = None,
    answers: Answers = None,
    judgements: Judgements = None,
    rater: Annotated[
        list[str] | None,
        typer.Option(help="Only pairs with this rater; given twice: only this pair. If omitted: every pair."),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare conditions instead of raters, as interintent report does: preset=paper,direct. "
            "Repeatable."
        ),
    ] = None,
    where: Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, all digits.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV, all digits.")] = False,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Compare raters pair by pair on the items they share: who guesses, summarises or judges better. With
    --contrast, compare conditions instead, such as two presets or models.

    Each row has both raters' figures, their difference with its 95 % interval over games, the p value of a
    permutation test that exchanges the two within whole games, the p value adjusted for the number of pairs
    (Holm), and how many items only one of them has. interintent report has the same table.

    The exit status is 2 if there was no game, if no two raters answered or judged the same item, or if no
    game has both levels of a contrast.
    """
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    if as_json and as_csv:
        fail("--json or --csv, not both")
    if contrast and rater:
        fail("--rater is for raters: a contrast compares conditions")
    split = read_split(None, where, contrast)
    if sources:
        if answers is None and judgements is None and not contrast:
            fail("name a file with --answers or --judgements; only a batch brings its own")
        builder = _of_files(
            sources,
            "compare",
            judgements,
            answers,
            Variant(),
            split,
            None,
            rotate=False,
            exclude_above=exclude_above,
            jobs=jobs,
        )
    else:
        assert batch
        if judgements or answers:
            fail("a batch brings its judgements and answers; --judgements and --answers are for files")
        builder = _of_batches(batch, "compare", split, exclude_above, database_url)
    _note_passed_over(builder)
    _check_contrasts(builder)
    report = make_report(builder)
    tables = _contrasts(report) if contrast else [_pairs(report, rater)]
    if as_json:
        shown = [table.as_json() for table in tables]
        print_json(shown if contrast else shown[0])
    elif as_csv:
        echo(as_csv_text(replace(report, tables=tuple(tables))).rstrip("\n"))
    elif contrast:
        _print_contrasts(tables[0])
        for remark in report.notes_on_gold:
            note(remark)
    else:
        _print_pairs(tables[0])


def _pairs(report: Report, rater: list[str] | None) -> ReportTable:
    """The comparison of raters, of those that are named. Ends the command if there is none."""
    table = report.table("raters")
    rows = tuple(row for row in table.rows if set(rater or ()) <= set(row.labels[1:]))
    if not rows:
        known = sorted({name for row in table.rows for name in row.labels[1:]})
        fail(
            f"no such pair; compared are {', '.join(known)}"
            if known
            else "no two raters answered or judged the same item"
        )
    return replace(table, rows=rows)


def _contrasts(report: Report) -> list[ReportTable]:
    """The tables of contrasts, the main figures first. Ends the command if no game has both levels."""
    tables = [table for table in report.tables if table.name.startswith(CONTRASTS.rstrip("s"))]
    if not tables[0].rows:
        fail(tables[0].empty)
    return tables


def _print_contrasts(table: ReportTable) -> None:
    printed = Table(box=box.SIMPLE_HEAD, caption=table.caption, caption_justify="left", pad_edge=False)
    for head in (*table.heads, "difference %", "p, Holm", "first %", "second %", "games"):
        printed.add_column(head, justify="left" if head in table.heads else "right")
    for row in table.rows:
        difference = row.figures["difference"]
        printed.add_row(
            *row.labels,
            _share(difference, signed=True),
            _p(row.figures["p, Holm"]),
            *(_share(row.figures[name], signed=False) for name in ("first", "second")),
            "" if difference.games is None else f"{difference.games:,}",
        )
    print_table(printed)


_SHARES: Final = ("first", "second", "difference")


def _print_pairs(table: ReportTable) -> None:
    printed = Table(box=box.SIMPLE_HEAD, caption=table.caption, caption_justify="left", pad_edge=False)
    for head in (*table.heads, *(f"{name} %" for name in _SHARES), "p", "p, Holm", "items", "games", "alone"):
        printed.add_column(head, justify="left" if head in table.heads else "right")
    for row in table.rows:
        difference = row.figures["difference"]
        alone = " · ".join(_number(row.figures[name]) for name in ("first only", "second only"))
        printed.add_row(
            *row.labels,
            *(_share(row.figures[name], signed=name == "difference") for name in _SHARES),
            *(_p(row.figures[name]) for name in ("p", "p, Holm")),
            "" if difference.items is None else f"{difference.items:,}",
            "" if difference.games is None else f"{difference.games:,}",
            alone,
        )
        if difference.value is None:
            note(f"{' | '.join(row.labels)}: {difference.note}")
    print_table(printed)


def _share(figure: Figure, *, signed: bool) -> str:
    if figure.value is None:
        return "—"
    shown = f"{100 * figure.value:+z.1f}" if signed else f"{100 * figure.value:z.1f}"
    if figure.low is None or figure.high is None:
        return shown
    return f"{shown} [{100 * figure.low:z.1f}, {100 * figure.high:z.1f}]"


def _p(figure: Figure) -> str:
    if figure.value is None:
        return "—"
    return f"{figure.value:.3f}" if figure.value >= 0.001 else "<0.001"


def _number(figure: Figure) -> str:
    return f"{figure.value or 0:,.0f}"
