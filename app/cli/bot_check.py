"""The command ``bot-check``."""

import asyncio
import json
from typing import Annotated, Any, Final

import typer

from app.cli.terminal import echo, fail, note
from app.instruments.bot_check.findings import BotFinding
from app.instruments.bot_check.run import Checked, check_bot
from app.instruments.bot_check.session import Patience

__all__ = ["commands"]

commands = typer.Typer()

NO_BOT: Final = 2
"""Exit status where no bot came."""


@commands.command("bot-check")
def bot_check_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND…]",
            help="How your bot is started; {ws}, {url}, {game} and {token} are filled in. Without it, "
            "start the bot yourself when asked to: fewer endings are then tried.",
            show_default=False,
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="Where the bot connects; port 0 takes a free one.")] = (
        "127.0.0.1:8765"
    ),
    patience: Annotated[float, typer.Option(help="Seconds the bot may take for an answer.")] = 60.0,
    back: Annotated[float, typer.Option(help="Seconds it may take to come back.")] = 35.0,
    quiet: Annotated[float, typer.Option(help="Seconds after which a bot counts as gone.")] = 4.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Play a bot through everything that can happen on the wire, and say what it gets wrong.

    Acts a server, over WebSocket and over HTTP: replays, duplicate delivery, refused and late answers,
    cuts in the middle of a request, unknown fields and types, slowness, and every close code.

        interintent bot-check -- python my_bot.py {ws} {game} {token}

    Exit status: 0 when everything that was tried went well, 1 when something did not, 2 when no bot came.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        fail(f"--listen takes an address and a port such as 127.0.0.1:8765, got {listen!r}")
    waits = Patience(answer=patience, back=back, quiet=quiet)
    try:
        checked = asyncio.run(
            check_bot(
                command or [],
                host=host.strip("[]"),
                port=int(port),
                patience=waits,
                say=note,
            )
        )
    except OSError as fault:
        fail(str(fault))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    _report(checked, as_json=as_json)
    if not checked.came:
        raise typer.Exit(NO_BOT)
    raise typer.Exit(1 if checked.findings.faults else 0)


def _report(checked: Checked, *, as_json: bool) -> None:
    findings = checked.findings.all()
    if as_json:
        typer.echo(
            json.dumps(
                {**_counts(findings), "way": checked.findings.way, "checks": list(map(_row, findings))}
            )
        )
        return
    for finding in findings:
        echo(f"{finding.outcome:<12}{finding.name}: {finding.expected}")
        for why in finding.why:
            echo(f"{'':<12}  {why}")
    counts = _counts(findings)
    typer.echo(f"{counts['ok']} ok, {counts['wrong']} wrong, {counts['not_reached']} not reached")


def _row(finding: BotFinding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "expected": finding.expected,
        "outcome": finding.outcome,
        "why": list(finding.why),
    }


def _counts(findings: list[BotFinding]) -> dict[str, int]:
    return {
        outcome.replace(" ", "_"): sum(finding.outcome == outcome for finding in findings)
        for outcome in ("ok", "wrong", "not reached")
    }
