"""The command ``compare``."""

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from app.cli.arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements, Sources
from app.cli.report import note_passed_over, of_batches, of_files
from app.cli.terminal import fail, note, print_json
from evaluators.ground.items import Variant
from evaluators.report.sections import make_report
from evaluators.report.tables import ReportTable, TableRow
from evaluators.statistics.figures import Figure

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("compare")
def compare_command(
    sources: Sources = None,
    batch: Batches = None,
    answers: Answers = None,
    judgements: Judgements = None,
    rater: Annotated[
        list[str] | None,
        typer.Option(help="Only pairs with this rater; given twice: only this pair. Left out: every pair."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, all digits.")] = False,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Compare raters pair by pair on the items of both: who guesses, summarises or judges better.

    Each row has both raters' figures, their difference with its 95 % interval over games, the p value of
    a permutation test that exchanges the two within whole games, the p value adjusted for the number of pairs
    (Holm), and the numbers of items that only one of them has. The table is that of interintent report.

    Exit status 2: there was no game, or no two raters answered or judged the same item.
    """
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    if sources:
        if answers is None and judgements is None:
            fail("name a file with --answers or --judgements; only a batch brings its own")
        builder = of_files(
            sources, "compare", judgements, answers, Variant(), None, None, rotate=False, jobs=jobs
        )
    else:
        assert batch
        if judgements or answers:
            fail("a batch brings its judgements and answers; --judgements and --answers are for files")
        builder = of_batches(batch, "compare", None, database_url)
    note_passed_over(builder)
    table = make_report(builder).table("raters")
    rows = tuple(row for row in table.rows if set(rater or ()) <= set(row.labels[1:]))
    if not rows:
        known = sorted({name for row in table.rows for name in row.labels[1:]})
        fail(
            f"no such pair; compared are {', '.join(known)}"
            if known
            else "no two raters answered or judged the same item"
        )
    if as_json:
        chosen = ReportTable(
            table.name, table.section, table.title, table.caption, table.heads, table.columns, rows
        )
        print_json(chosen.as_json())
        return
    _print(table, rows)


_SHARES: Final = ("first", "second", "difference")


def _print(table: ReportTable, rows: Iterable[TableRow]) -> None:
    # Wide outside terminals, so that the table is never cut for a program.
    out = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)
    printed = Table(box=box.SIMPLE_HEAD, caption=table.caption, caption_justify="left", pad_edge=False)
    for head in (*table.heads, *(f"{name} %" for name in _SHARES), "p", "p, Holm", "items", "games", "alone"):
        printed.add_column(head, justify="left" if head in table.heads else "right")
    for row in rows:
        difference = row.figures["difference"]
        alone = " · ".join(_count(row.figures[name]) for name in ("first only", "second only"))
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
    out.print(printed)


def _share(figure: Figure, *, signed: bool) -> str:
    if figure.value is None:
        return "—"
    shown = f"{100 * figure.value:+.1f}" if signed else f"{100 * figure.value:.1f}"
    if figure.low is None or figure.high is None:
        return shown
    return f"{shown} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _p(figure: Figure) -> str:
    if figure.value is None:
        return "—"
    return f"{figure.value:.3f}" if figure.value >= 0.001 else "<0.001"


def _count(figure: Figure) -> str:
    return f"{figure.value or 0:,.0f}"
