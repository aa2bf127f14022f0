"""Options and arguments of several commands."""

from math import inf
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Answers",
    "ApiKeyEnv",
    "AsJson",
    "BaseUrl",
    "Batches",
    "DatabaseUrl",
    "GroupBy",
    "Jobs",
    "Judgements",
    "MaxCost",
    "MaxTokens",
    "RatersOf",
    "Sources",
    "Where",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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
        help="Games as NDJSON (from simulate --out or a full export) or avalon-replay records, packed or not "
        "(.gz, .zip, .tar.gz); directories of these; - for standard input. Nothing is read if a path does "
        "not exist.",
        show_default=False,
    ),
]


def _each_once(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if (names or []).count(name) > 1:
            raise typer.BadParameter(f"{name} is named more than once: name it once")
    return names


Batches = Annotated[
    list[str] | None,
    typer.Option(
        "--batch", callback=_each_once, help="A batch in the database, instead of files. Repeatable."
    ),
]
GroupBy = Annotated[
    str | None,
    typer.Option(help="Set groups side by side: the values of a column, such as preset, model or side."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Count only what has these values: role=merlin,percival. Repeatable: all must hold."),
]
RatersOf = Annotated[
    list[str] | None,
    typer.Option(
        callback=_each_once,
        help="For --batch: also what this owner's raters handed in, as project:NAME or key:k_…. Repeatable. "
        "Left "
        "out: the batch's owner's, and those of whoever may rate everybody's games.",
    ),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        help="A file of guesses and summaries, one per line: bodies of POST /evaluations, or answers with a "
        "rater."
    ),
]
Judgements = Annotated[
    Path | None,
    typer.Option(
        help="A file of raters' judgements: CSV or JSON from GET /annotations. A batch brings its own."
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        max=1024,
        help="Number of worker processes, at most one per core; 0: as many. It does not affect the results.",
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="A server that speaks the OpenAI protocol, e.g. http://127.0.0.1:8080/v1.")
]
ApiKeyEnv = Annotated[
    str | None, typer.Option(help="The name of the environment variable that holds the server's key.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**15, help="Make no more calls once this many tokens are used, prompts included."
    ),
]


def _is_cost(cost: float | None) -> float | None:
    if cost is not None and not 0 < cost < inf:
        raise typer.BadParameter(f"{cost:g} is not more than 0")
    return cost


MaxCost = Annotated[
    float | None,
    typer.Option(
        callback=_is_cost,
        help="Make no more calls once they have cost this much, by the endpoint's configured prices.",
    ),
]
