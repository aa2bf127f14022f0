"""The command ``bot-check``."""

import asyncio
import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Final, get_args

import typer

from app.cli.terminal import echo, fail, fail_reading, note
from app.instruments.bot_check.findings import Findings, Outcome
from app.instruments.bot_check.run import check_bot
from app.instruments.bot_check.session import Patience

__all__ = ["commands"]

commands = typer.Typer()

NO_BOT: Final = 2
"""Exit status if no bot connected."""


@commands.command("bot-check")
def bot_check_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND…]",
            help="The command that starts your bot; {ws}, {url}, {game} and {token} are filled in. Without a "
            "command, start the bot yourself when asked to: fewer endings are then tried.",
            show_default=False,
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="Where the bot connects; port 0 takes a free one.")] = (
        "127.0.0.1:8765"
    ),
    patience: Annotated[float, typer.Option(help="Seconds that the bot may take for an answer.")] = 60.0,
    back: Annotated[float, typer.Option(help="Seconds that the bot may take to come back.")] = 35.0,
    quiet: Annotated[float, typer.Option(help="Seconds after which a bot counts as gone.")] = 4.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Test a bot against everything that can happen on the wire, and report what it gets wrong.

    Serves a mock game, over WebSocket and over HTTP: replays, duplicate delivery, refused and late answers,
    connections dropped in the middle of a request, unknown fields and types, slowness, and every close code.

        interintent bot-check -- python my_bot.py {ws} {game} {token}

    Exit status: 0 if the bot passed every check that was tried, 1 if it failed one or more, 2 if no bot
    connected or the mock game could not be served, 130 after Ctrl-C.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        fail(f"--listen takes an address and a port such as 127.0.0.1:8765, got {listen!r}")
    waits = Patience(answer=patience, back=back, quiet=quiet)
    try:
        findings = asyncio.run(
            check_bot(command or [], host=host.strip("[]"), port=int(port), patience=waits, notify=note)
        )
    except OSError as fault:
        fail_reading(fault)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    wrong = _print_findings(findings, as_json=as_json)
    if findings.way is None:
        raise typer.Exit(NO_BOT)
    raise typer.Exit(1 if wrong else 0)


def _print_findings(findings: Findings, *, as_json: bool) -> int:
    """Prints every check, and returns how many checks the bot failed."""
    checks = findings.all()
    outcomes = Counter(check.outcome for check in checks)
    counts = {name.replace(" ", "_"): outcomes[name] for name in get_args(Outcome)}
    if as_json:
        typer.echo(json.dumps({**counts, "way": findings.way, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            echo(f"{check.outcome:<12}{check.name}: {check.expected}")
            for line in "\n".join(check.why).splitlines():
                echo(f"{'':<12}  {line}")
        typer.echo(f"{counts['ok']} ok, {counts['wrong']} wrong, {counts['not_reached']} not reached")
    return counts["wrong"]
