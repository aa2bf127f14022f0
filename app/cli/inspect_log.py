"""The command ``inspect-log``."""

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from app.cli.arguments import Sources
from app.cli.report import fail_without_games, note_games
from app.cli.terminal import byte_bar, echo, fail, fail_reading, install_command, reason, refuse_input
from app.files.games import Unusable, bundles, games_in
from app.files.inspect_logs import write_inspect_log
from app.files.replays import sizes
from evaluators.ground.turns import Game

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("inspect-log")
def inspect_log_command(
    sources: Sources = None,
    out: Annotated[Path, typer.Option(help="The log to write: games.eval, or games.json.")] = Path(
        "games.eval"
    ),
    title: Annotated[str, typer.Option(help="The name of the task in the log.")] = "games",
) -> None:
    """Write games as a log of Inspect, which `inspect view` opens: each game's talk, thoughts and result.

    It needs the extra `inspect`. The exit status is 0 on success, 2 if nothing was written.

    Example: interintent inspect-log games.ndjson --out logs/games.eval, then inspect view --log-dir logs
    """
    if not sources:
        fail("name files with games")
    if out.suffix not in (".eval", ".json"):
        fail(f"--out ends in .eval or .json, got {out}")
    if find_spec("inspect_ai") is None:
        fail(f"this needs Inspect: {install_command('inspect')}")
    refuse_input(out, *sources)
    named: dict[str, list[str]] = {}

    def usable() -> Iterator[Game]:
        with byte_bar("games", sizes(sources)) as on_read:
            for bundle in bundles(sources, on_read):
                for game in games_in(bundle):
                    if isinstance(game, Unusable):
                        named.setdefault(game.reason, []).append(game.what)
                    else:
                        yield game

    try:
        games = list(usable())
    except FileNotFoundError as fault:
        fail_reading(fault)
    reasons = {why: len(names) for why, names in named.items()}
    note_games(Counter(reasons), named)
    if not games:
        fail_without_games("write", reasons)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        written = write_inspect_log(games, out, title)
    except OSError as fault:
        fail(f"cannot write {out}: {reason(fault)}")
    echo(f"{'1 game' if written == 1 else f'{written} games'} in {out}")
