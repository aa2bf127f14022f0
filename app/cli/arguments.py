"""Options and arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Answers", "Batches", "DatabaseUrl", "Jobs", "Judgements", "Sources"]

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE…",
        help="Games as NDJSON of simulate --out or of a full export, or avalon-replay records, packed or not "
        "(.gz, .zip, .tar.gz), directories of these, - for standard input. If one path is not there, "
        "nothing is read.",
        show_default=False,
    ),
]
Batches = Annotated[
    list[str] | None,
    typer.Option("--batch", help="A batch of the database instead of files. Repeatable."),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        help="Guesses and summaries: bodies of POST /evaluations, or answers with a rater, one a line."
    ),
]
Judgements = Annotated[
    Path | None,
    typer.Option(
        help="What raters judged: CSV or JSON of GET /annotations. A report on a batch uses the batch's own."
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one a core. The figures are the same.")
]
