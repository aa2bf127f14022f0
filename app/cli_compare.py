"""The command ``compare``. The main command line registers it."""

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import orjson
import typer
from rich import box
from rich.console import Console
from rich.table import Table as Printed

from app.cli_arguments import Answers, Batches, DatabaseUrl, Jobs, Judgements, Sources
from app.cli_report import (
    of_batches,
    of_files,
    tell_passed_over,
)
from app.terminal import fail, note
from evaluators.figures import Figure
from evaluators.items import Variant
from evaluators.report_tables import Row, Table

__all__ = ["compare_command"]


def compare_command(
    sources: Sources = None,
    batch: Batches = None,
    answers: Answers = None,
    judgements: Judgements = None,
    rater: Annotated[
        list[str] | None,
        typer.Option(help="Pairs with this rater alone; twice: this pair. Left out: every pair."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, all digits.")] = False,
    jobs: Jobs = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Compare raters pair by pair on the items of both: who guesses, summarises or judges better.

    Each row has both raters' figures, their difference with its 95 % interval over games, the p value of
    a permutation test that exchanges the two within whole games, the same adjusted for the number of pairs
    (Holm), and how many items one of them alone has. The table is that of interintent report.

    Exit status 2: there was no game, or no two raters said anything about the same item.
    """
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    if sources:
        if answers is None and judgements is None:
            fail("raters say what they say in --answers or --judgements; a batch brings its own")
        builder = of_files(
            sources, "compare", judgements, answers, Variant(), None, None, rotate=False, jobs=jobs
        )
    else:
        assert batch
        if judgements or answers:
            fail("a batch brings its judgements and answers; --judgements and --answers are for files")
        builder = of_batches(batch, "compare", None, database_url)
    tell_passed_over(builder)
    if not builder.games:
        raise typer.Exit(2)
    table = builder.report().table("raters")
    rows = tuple(row for row in table.rows if set(rater or ()) <= set(row.labels[1:]))
    if not rows:
        known = sorted({name for row in table.rows for name in row.labels[1:]})
        fail(
            f"no such pair; compared are {', '.join(known)}"
            if known
            else "no two raters answered or judged the same item"
        )
    if as_json:
        told = Table(table.name, table.section, table.title, table.caption, table.heads, table.columns, rows)
        sys.stdout.buffer.write(orjson.dumps(told.as_json(), option=orjson.OPT_INDENT_2) + b"\n")
        return
    _print(table, rows)


_SHARES: Final = ("first", "second", "difference")


def _print(table: Table, rows: Iterable[Row]) -> None:
    # As wide as it is where nobody looks: a program that reads it must not find it cut.
    out = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)
    printed = Printed(box=box.SIMPLE_HEAD, caption=table.caption, caption_justify="left", pad_edge=False)
    for head in (*table.heads, *(f"{name} %" for name in _SHARES), "p", "p, Holm", "items", "games", "alone"):
        printed.add_column(head, justify="left" if head in table.heads else "right")
    for row in rows:
        one = row.figures["difference"]
        alone = " · ".join(_count(row.figures[name]) for name in ("first only", "second only"))
        printed.add_row(
            *row.labels,
            *(_share(row.figures[name], signed=name == "difference") for name in _SHARES),
            *(_p(row.figures[name]) for name in ("p", "p, Holm")),
            "" if one.items is None else f"{one.items:,}",
            "" if one.games is None else f"{one.games:,}",
            alone,
        )
        if one.value is None:
            note(f"{' | '.join(row.labels)}: {one.note}")
    out.print(printed)


def _share(one: Figure, *, signed: bool) -> str:
    if one.value is None:
        return "—"
    shown = f"{100 * one.value:+.1f}" if signed else f"{100 * one.value:.1f}"
    if one.low is None or one.high is None:
        return shown
    return f"{shown} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _p(one: Figure) -> str:
    return "—" if one.value is None else f"{one.value:.3f}" if one.value >= 0.001 else "<0.001"


def _count(one: Figure) -> str:
    return f"{one.value or 0:,.0f}"
