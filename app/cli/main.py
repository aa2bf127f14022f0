"""The command ``interintent``: all commands, and their modules."""

import logging
import signal
import sys
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Final, NamedTuple

import typer

from app.cli.terminal import fail, guarded

__all__ = ["COMMANDS", "command_line", "main"]


class Command(NamedTuple):
    """A command, or a group of commands."""

    module: str
    """The module of ``app.cli`` whose ``commands`` holds the command."""
    summary: str
    """The command's line in ``interintent --help``."""


COMMANDS: Final = {
    "serve": Command("serve", "Serve games over HTTP and WebSocket until stopped (Ctrl-C, SIGTERM)."),
    "work": Command(
        "work",
        "Drive the games and run the judges that other processes on the same database accept; serve nothing.",
    ),
    "migrate": Command(
        "migrate",
        "Bring the database to the newest schema. Creates an SQLite file; for PostgreSQL, run createdb "
        "first.",
    ),
    "backup": Command("backup", "Write the whole database to one file, while the service runs."),
    "restore": Command("backup", "Put a backup into a database that is empty or missing."),
    "database": Command(
        "sizes",
        "Show the schema of the database, and the rows and bytes of each table, with its indexes.",
    ),
    "prune": Command(
        "prune", "Delete old batches with their games for good, and say how many bytes that frees."
    ),
    "doctor": Command(
        "doctor", "Check the whole database: the file, every log, every row, and references between rows."
    ),
    "simulate": Command(
        "simulate", "Play games in this process, without a server, and print the paper's game metrics."
    ),
    "study": Command("study", "Plan, run, report and pack a study that one file describes."),
    "export": Command(
        "export",
        "Write a stored batch or game as NDJSON, straight from the database; no server needs to be running.",
    ),
    "annotations": Command(
        "annotations", "Raters' judgements of selection and following: sheets to fill in, and CSV."
    ),
    "answers": Command("export", "Models' recorded answers, with which a run can be repeated."),
    "authors": Command(
        "authors",
        "Run folders of the InterIntent authors' program: check their figures, write their layout.",
    ),
    "import": Command(
        "authors",
        "Import the games of a run folder of the InterIntent authors' program, with thoughts and judgements.",
    ),
    "keys": Command(
        "keys",
        "Make and revoke API keys. As soon as there is one, every caller of the service needs a credential.",
    ),
    "audit": Command("audit", "Show who did what and when, the oldest first."),
    "replay": Command("replay", "Check recorded games against the rules, and read games as text."),
    "metrics": Command("replay", "Game metrics of recorded games, pooled, beside the published figures."),
    "batch": Command("batch", "Look at batches, pause and resume them, change the limits of running ones."),
    "game": Command("game", "Exclude a game from reports and items, or take it in again."),
    "bot-check": Command(
        "bot_check",
        "Test a bot against everything that can happen on the wire, and report what it gets wrong.",
    ),
    "dataset": Command(
        "dataset",
        "Write finished games as a data set: Parquet tables with a card that explains every column.",
    ),
    "items": Command(
        "items", "Write items of finished games as JSON lines: what raters and models are asked."
    ),
    "inspect-log": Command(
        "inspect_log",
        "Write games as a log of Inspect, which `inspect view` opens: each game's talk, thoughts and result.",
    ),
    "judge": Command(
        "judge", "Let a model judge finished games, straight on the database; no server needs to be running."
    ),
    "ratings": Command(
        "ratings",
        "Rate players by one statistical fit over all their games, whatever sides they were dealt.",
    ),
    "report": Command(
        "report",
        "Report on finished games: the paper's tables beside its figures, and ours, with counts and "
        "intervals.",
    ),
    "compare": Command(
        "report",
        "Compare raters pair by pair on the items they share: who guesses, summarises or judges better. "
        "With --contrast, compare conditions instead, such as two presets or models.",
    ),
    "view": Command(
        "view",
        "Write games as a site that opens in a browser from its folder, without a server: an index, and a "
        "page a game with the table, the talk and a replay.",
    ),
    "models": Command("models", "Try a model before games are played with it."),
    "fake-model": Command(
        "fake_model",
        "Serve a fake model over the OpenAI chat-completions protocol. A TEST INSTRUMENT, not a model.",
    ),
}
"""The commands by their first word. The summaries repeat those in the modules, since importing all modules
would make ``--help`` take two seconds. A test compares the two.
"""


def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(version("interintent-server"))
        raise typer.Exit
    # Imported here, since the import takes a tenth of a second, which --version and --help do not need.
    from app.base.logs import configure

    # Who runs a command reads its output; the log of a service is read afterwards.
    configure(logging.INFO if context.invoked_subcommand in ("serve", "work") else logging.WARNING)


def command_line(word: str) -> typer.Typer:
    """The command line for this first word; only the module of its command is imported."""
    app = typer.Typer(
        name="interintent",
        help="Play Avalon with intentions, and measure how well the players understand each other.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    if word in COMMANDS:
        app.add_typer(import_module(f"app.cli.{COMMANDS[word].module}").commands)
    else:
        for name, command in COMMANDS.items():
            app.command(name, help=command.summary)(_not_first)
    return app


def _not_first() -> None:
    fail("the command comes first: interintent COMMAND [OPTIONS]")


_OWN_SIGNALS: Final = ("serve", "work", "fake-model")
"""Commands that handle SIGTERM themselves."""

_INTERRUPTED: Final = 128 + signal.SIGINT


def main() -> None:
    """The entry point. SIGTERM stops a command as Ctrl-C does, with status 143 instead of 130."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    stopped = _INTERRUPTED

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = 128 + number
        # Called, not raised: a shell lets its background processes ignore SIGINT.
        on_interrupt = signal.getsignal(signal.SIGINT)
        (on_interrupt if callable(on_interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    if word not in _OWN_SIGNALS:
        signal.signal(signal.SIGTERM, stop)
    try:
        guarded(command_line(word))
    except KeyboardInterrupt:  # while the command's module was imported
        raise SystemExit(stopped) from None
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            raise SystemExit(stopped) from None
        raise
