"""The command ``fake-model``."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer

from app.cli.terminal import fail, fail_reading, note
from app.instruments.fake_model.behaviours import BEHAVIOURS
from app.instruments.fake_model.brains import BRAINS
from app.instruments.fake_model.faults import FAULTS, read_fault
from app.instruments.fake_model.latency import read_latency
from app.instruments.fake_model.server import FakeModel, FakeOptions

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("fake-model")
def fake_model_command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8001,
    brain: Annotated[
        str,
        typer.Option(help=f"Kind of answers: {', '.join(BRAINS)}. noise: random JSON that fits the schema."),
    ] = "noise",
    latency: Annotated[
        str,
        typer.Option(help="Seconds: 1.0, uniform:0.5,2, exponential:1, lognormal:1.0,0.5 (median, sigma)."),
    ] = "0",
    fault: Annotated[
        list[str] | None,
        typer.Option(help="NAME, NAME:RATE or NAME:RATE:TIMES. Repeatable; --list-faults lists them."),
    ] = None,
    behave: Annotated[
        str | None,
        typer.Option(help=f"Imitate a provider, its refusals and its form: {', '.join(BEHAVIOURS)}."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of answers, latencies and faults.")] = 0,
    model: Annotated[str, typer.Option(help="The model's name.")] = "fake",
    count_file: Annotated[
        Path | None, typer.Option(help="Append a line of JSON to this file for every request.")
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Print every fault and stop.")] = False,
) -> None:
    """Serve a fake model over the OpenAI chat-completions protocol. A TEST INSTRUMENT, not a model.

    Use it to play games with language models without a key, and to see what they would cost: it counts calls
    and tokens (GET /stats), can be slow, and can imitate the faults of real servers, all from a seed.

    Example: interintent fake-model --latency lognormal:1.0,0.5 --fault status_429_seconds:0.1
    """
    if list_faults:
        for name, effect in FAULTS.items():
            typer.echo(f"{name:24} {effect}")
        return
    if brain not in BRAINS:
        fail(f"no such brain: {brain!r}; there are {', '.join(BRAINS)}")
    try:
        options = FakeOptions(
            brain=BRAINS[brain](seed),
            latency=read_latency(latency),
            faults=tuple(read_fault(text) for text in fault or []),
            seed=seed,
            model=model,
            behave=behave,
            count_file=count_file,
        )
        asyncio.run(_serve(FakeModel(options), host, port))
    except OSError as error:
        fail_reading(error)
    except ValueError as error:
        fail(str(error))


async def _serve(server: FakeModel, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    async with server.serving(host, port):
        note(f"fake model, a test instrument, on {server.url}/v1   {server.url}/stats")
        await stop.wait()
