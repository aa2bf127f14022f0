"""The command ``work``."""

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from typing import Annotated

import typer

from app.cli.arguments import DatabaseUrl
from app.cli.database import read_settings, run_or_fail
from app.cli.terminal import fail, note
from app.main import Composition
from app.runner.beats import end_process
from app.runner.claims import FileClaims
from app.serving.probes import answering_probes
from app.serving.server import CannotServe, new_loop, tune_interpreter
from app.settings import Settings
from app.store.db import PASSING

__all__ = ["commands"]

commands = typer.Typer()

LOOK_S = 0.5
"""Seconds between checks whether there is work left."""


@commands.command()
def work(
    database_url: DatabaseUrl = None,
    max_games: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Games driven concurrently.  [INTERINTENT_PARALLEL_GAMES, 64]"),
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End once no game is left that could go on now.")
    ] = False,
    drain: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Seconds that calls to models in flight may take after SIGTERM or Ctrl-C.  "
            "[INTERINTENT_DRAIN_S, else as long as their own time-outs]",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Answer /livez, /readyz and /metrics on this port of INTERINTENT_HOST, without credentials.",
        ),
    ] = None,
) -> None:
    """Drive the games and run the judges that other processes on the same database accept; serve nothing.

    Start as many as you like on PostgreSQL; they share all games. When stopped, it hands its games over
    within a second; games with a call to a model in flight follow when the call is answered. A second stop
    ends it at once.
    """
    options: dict[str, object] = {}
    if max_games is not None:
        options["parallel_games"] = max_games
    if drain is not None:
        options["drain_s"] = drain
    settings = read_settings(database_url, runner=True, **options)
    if "drain_s" not in settings.model_fields_set:
        longest_s = max((one.total_s for one in settings.endpoints().values()), default=settings.drain_s)
        settings = settings.model_copy(update={"drain_s": longest_s})
    tune_interpreter()
    try:
        run_or_fail(_work(settings, metrics_port, until_empty=until_empty), new_loop)
    except CannotServe as fault:
        fail(str(fault))


async def _work(settings: Settings, port: int | None, *, until_empty: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked(received: signal.Signals) -> None:
        stop.set()
        # The next one ends the process as if nobody had asked before.
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)
        note(f"{received.name}: handing over; calls in flight may take up to {settings.drain_s:g} s")

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, asked, one)
    parts = Composition(settings, end_process)
    async with AsyncExitStack() as stack:
        if port is not None:
            probes = answering_probes(settings.host, port, parts.lifecycle, parts.database)
            await stack.enter_async_context(probes)
        stack.push_async_callback(parts.stop)
        await parts.start()
        while not (parts.lifecycle.ready or await _is_asked(stop)):
            pass
        if parts.lifecycle.fault is not None:
            raise parts.lifecycle.fault
        if stop.is_set():
            return
        if isinstance(parts.claims, FileClaims) and not parts.claims.held:
            fail(
                "another process drives the games of this SQLite file, and only one can: stop it, or move to "
                "PostgreSQL (DATABASE_URL=postgresql://…), on which any number of processes share the games"
            )
        note(f"driving up to {settings.parallel_games} games at a time")
        while not await _is_asked(stop):
            if until_empty and await _is_idle(parts):
                note("no game is left that could go on now")
                break


async def _is_asked(stop: asyncio.Event) -> bool:
    """Whether the process was asked to stop; waits a moment for that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            await stop.wait()
    return stop.is_set()


async def _is_idle(parts: Composition) -> bool:
    try:
        return await parts.is_idle()
    except PASSING:
        return False
