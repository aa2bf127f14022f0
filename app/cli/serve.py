"""The command ``serve``."""

from typing import Annotated

import typer

from app.cli.arguments import DatabaseUrl
from app.cli.database import read_settings
from app.cli.terminal import fail, note
from app.main import create_app
from app.runner.beats import end_process
from app.serving.server import CannotServe, run

__all__ = ["commands"]

commands = typer.Typer()


@commands.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [INTERINTENT_HOST, 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.  [INTERINTENT_PORT, 8000]")
    ] = None,
    database_url: DatabaseUrl = None,
    no_runner: Annotated[
        bool, typer.Option("--no-runner", help="Serve only; another process drives games.")
    ] = False,
    parallel_games: Annotated[
        int | None, typer.Option(help="Games driven concurrently.  [INTERINTENT_PARALLEL_GAMES, 64]")
    ] = None,
) -> None:
    """Serve games over HTTP and WebSocket until stopped (Ctrl-C, SIGTERM).

    On start-up, creates or migrates the database and, unless --no-runner is given, resumes games that an
    earlier process left unfinished. Without an API key (interintent keys create, or INTERINTENT_API_KEY) it
    serves this machine only (it refuses to start on any other address), and every caller may do everything.
    The documentation of the routes is at /docs.
    """
    options = {"host": host, "port": port, "parallel_games": parallel_games}
    if no_runner:
        options["runner"] = False
    settings = read_settings(
        database_url, **{name: value for name, value in options.items() if value is not None}
    )
    try:
        run(
            create_app(settings, end_process),
            settings,
            lambda url: note(f"InterIntent Server on {url}   docs: {url}/docs   metrics: {url}/metrics"),
        )
    except CannotServe as fault:
        fail(str(fault))
