"""Options and arguments of several commands."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Answers",
    "ApiKeyEnv",
    "BaseUrl",
    "Batches",
    "DatabaseUrl",
    "Jobs",
    "Judgements",
    "MaxCost",
    "MaxTokens",
    "Sources",
]

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
        "(.gz, .zip, .tar.gz), directories of these, - for standard input. Nothing is read if a path does "
        "not exist.",
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
        help="Guesses and summaries, one a line: bodies of POST /evaluations, or answers with a rater."
    ),
]
Judgements = Annotated[
    Path | None,
    typer.Option(help="Judgements of raters: CSV or JSON of GET /annotations. A batch brings its own."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one per core. The results are the same.")
]
BaseUrl = Annotated[
    str | None, typer.Option(help="A server of the OpenAI protocol, e.g. http://127.0.0.1:8080/v1.")
]
ApiKeyEnv = Annotated[str | None, typer.Option(help="The environment variable with the server's key.")]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Make no more calls after so many tokens, prompts included.")
]
MaxCost = Annotated[
    float | None, typer.Option(help="The same for the cost by the endpoint's configured prices.")
]
