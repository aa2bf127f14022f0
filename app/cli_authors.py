"""The commands ``import``, ``authors check`` and ``authors export``. The main command line registers them."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.cli_arguments import DatabaseUrl
from app.terminal import echo, errors, fail, note
from engine.errors import AvalonError
from evaluators.authors import (
    Compared,
    Run,
    Taken,
    compare,
    figures,
    judgements_of,
    read_run,
    take,
    write_game,
)
from evaluators.errors import InvalidRun
from evaluators.judgements import Judgement

if TYPE_CHECKING:
    from app.settings import Settings
    from engine.events import Event

__all__ = ["authors_app", "import_command"]

UNREADABLE: Final = 2
"""Exit status where there was nothing to judge: no such folder, no game that reads."""

authors_app = typer.Typer(
    help="Run folders of the InterIntent authors' program: check their figures, write their layout.",
    no_args_is_help=True,
)


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="A run folder: game_…/ with results.json, game_play_data*.json, conversation.csv and "
        "annotation-*.csv; beside them agreement/ and the files of guesses and summaries, if there are any.",
        show_default=False,
    ),
]


def _read(folder: Path) -> Run:
    from app.authors import read_folder

    try:
        return read_run(read_folder(folder))
    except InvalidRun as fault:
        fail(str(fault))


def _taken(run: Run) -> tuple[list[Taken], dict[str, InvalidRun]]:
    """The games of a run, and why others are none."""
    taken: list[Taken] = []
    broken = dict(run.broken)
    with Progress(
        TextColumn("games"),
        BarColumn(),
        MofNCompleteColumn(),
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
    ) as bar:
        for game in bar.track(run.games):
            try:
                taken.append(take(run, game))
            except InvalidRun as fault:
                broken[game.name] = fault
    for name, why in broken.items():
        note(f"{name} is left out: {why}")
    return taken, broken


def import_command(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the games to this file as NDJSON instead of storing them."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(help="Write what the raters say to this file too, one judgement a line."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the files of --out and --judgements.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was taken as JSON.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Take the games of a run folder of the InterIntent authors' program, with thoughts and judgements.

    They become finished games of the store (no server need run). A game's id is a digest of what
    happened in it: taking the same folder again changes nothing. What is unusual in the files is
    listed. Exit status: 0, 1 when a game was left out, 2 when there was none to take.
    """
    run = _read(folder)
    taken, broken = _taken(run)
    if not taken:
        fail("no game could be taken")
    from app.authors import judgement_lines, log_lines

    report: dict[str, Any] = {
        "games": [_told(game) for game in taken],
        "left_out": {name: str(fault) for name, fault in broken.items()},
        "odd": [odd for game in taken for odd in game.odd],
    }
    said = []
    if out is not None:
        content = b"".join(log_lines(game.game_id, game.state.log) for game in taken)
        said.append(_write(out, content, overwrite, f"{len(taken)} games"))
        report["out"] = str(out)
    else:
        stored = _store(database_url, taken)
        report |= {
            "batch": stored.batch,
            "new": list(stored.new),
            "known": list(stored.known),
            "judgements_stored": stored.judgements,
            "judgements_known": stored.judged_before,
        }
        if stored.batch is not None:
            said.append(f"{len(stored.new)} games stored as batch {stored.batch}")
        if stored.known:
            said.append(f"{len(stored.known)} games were stored before; nothing changed for them")
        if stored.judgements:
            said.append(f"{stored.judgements} judgements of selection and following stored")
        if stored.judged_before:
            said.append(f"{stored.judged_before} judgements were stored before; nothing changed for them")
    rated = judgements_of(taken)
    if judgements is not None:
        said.append(_write(judgements, judgement_lines(rated), overwrite, f"{len(rated)} judgements"))
        report["judgements"] = str(judgements)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _print_taken(taken)
        for line in (*(f"odd: {odd}" for odd in report["odd"]), *said):
            echo(line)
    if broken:
        raise typer.Exit(1)


def _told(game: Taken) -> dict[str, Any]:
    table = game.state.table
    assert table.winner is not None
    assert table.ending is not None
    return {
        "folder": game.name,
        "game_id": game.game_id,
        "events": len(game.state.log),
        "winner": table.winner.value,
        "ending": table.ending.value,
        "judgements": dict(sorted(Counter(one.rater for one in game.judgements).items())),
    }


def _print_taken(taken: list[Taken]) -> None:
    for game in taken:
        told = _told(game)
        raters = ", ".join(f"{rater} {count}" for rater, count in told["judgements"].items())
        typer.echo(
            f"{told['folder']}: {told['game_id']}, {told['events']} events, {told['winner']} won "
            f"({told['ending']}), judgements: {raters or 'none'}"
        )


def _write(file: Path, content: bytes, overwrite: bool, what: str) -> str:
    try:
        if file.exists():
            if file.read_bytes() == content:
                return f"{file} holds these {what} already; nothing changed"
            if not overwrite:
                fail(f"{file} exists and holds something else: replace it (--overwrite) or name another")
        file.write_bytes(content)
    except OSError as fault:
        fail(f"cannot write {file}: {fault.strerror}")
    return f"{what} in {file}"


def _settings(database_url: str | None) -> "Settings":
    from app.settings import Settings

    try:
        return Settings(**({} if database_url is None else {"DATABASE_URL": database_url}))  # type: ignore[arg-type]
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))


def _store(database_url: str | None, taken: list[Taken]) -> Any:
    from app.authors import store_games

    try:
        return asyncio.run(store_games(_settings(database_url), taken))
    except AvalonError as fault:
        fail(str(fault))


# --- authors check ----------------------------------------------------------------------------------


@authors_app.command("check")
def check(
    folder: Folder,
    differing: Annotated[
        bool, typer.Option("--differing", help="Print the figures that differ and no others.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Recompute every figure that DIR/expected.json names, and print it beside the expectation.

    The games are taken as by import, and figures are read off the games and judgements of ours; only
    the order of names in proposals, the number of annotation cells and the guesses and summaries
    themselves are read in their files. Closes with "N agree, M differ". A figure that is not known
    differs. Exit status: 0 when nothing differs, 1 when something does, 2 when nothing could be read.
    """
    expected = _expected(folder)
    run = _read(folder)
    taken, broken = _taken(run)
    compared = list(compare(expected, figures(run, taken, _first_two(expected))))
    agree = sum(one.agrees for one in compared)
    differ = len(compared) - agree
    shown = [one for one in compared if not (differing and one.agrees)]
    if as_json:
        report = {
            "agree": agree,
            "differ": differ,
            "left_out": {name: str(fault) for name, fault in broken.items()},
            "figures": [
                {"name": one.name, "expected": one.expected, "found": one.found, "agrees": one.agrees}
                for one in shown
            ],
        }
        typer.echo(json.dumps(report, indent=1))
    else:
        _print_compared(shown)
        typer.echo(f"{agree} agree, {differ} differ")
    if differ:
        raise typer.Exit(1)


def _expected(folder: Path) -> Any:
    file = folder / "expected.json"
    try:
        expected = json.loads(file.read_bytes())
    except FileNotFoundError:
        fail(f"there is no {file}: the figures to compare with stand there")
    except (OSError, ValueError) as fault:
        fail(f"{file} cannot be read: {fault}")
    if not isinstance(expected, dict):
        fail(f"{file}: expected an object of figures")
    return expected


def _first_two(expected: dict[str, Any]) -> list[str]:
    """The files that the expectation says its figures of two games are made of."""
    kappa = expected.get("kappa")
    named = kappa.get("first_two_files_are") if isinstance(kappa, dict) else None
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else []


def _print_compared(compared: list[Compared]) -> None:
    if not compared:
        return
    width = max(len(one.name) for one in compared)
    typer.echo(f"{'figure':<{width}}  {'':6}  expected | found")
    for one in compared:
        says = "agrees" if one.agrees else "DIFFER"
        echo(f"{one.name:<{width}}  {says}  {_figure(one.expected)} | {_figure(one.found)}")


def _figure(value: Any) -> str:
    """A figure on one line: 5/11 = 0.454545, or its numbers by name."""
    if isinstance(value, dict):
        if value.keys() == {"num", "den", "value"}:
            return f"{value['num']}/{value['den']} = {_figure(value['value'])}"
        return " ".join(f"{key} {_figure(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "-" if value is None else str(value)


# --- authors export ---------------------------------------------------------------------------------


@authors_app.command("export")
def export(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT…",
            help="Batches (b_…) and games (g_…) of the store, or NDJSON files of our logs.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to write; made where it is not there.")],
    judgements: Annotated[
        Path | None,
        typer.Option(
            help="Judgements to fill the annotation files with, one a line. Left out: those that are stored "
            "about games of the store."
        ),
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write games in the authors' layout, so that their scripts run on them.

    Only finished games of profile interintent with five seats have a place there; others are left out
    and named. Annotation files without judgements have blank cells, for a rater to fill.
    Exit status: 0, 1 when a game was left out, 2 when none could be written.
    """
    try:
        done = asyncio.run(_export(what, out, judgements, database_url))
    except FileNotFoundError as fault:
        fail(f"no such file: {fault.filename or fault}")
    except OSError as fault:
        fail(f"cannot write {fault.filename}: {fault.strerror}")
    except AvalonError as fault:
        fail(str(fault))
    if not done.written:
        fail("no game could be written")
    echo(f"{done.written} games in {out}, {done.files} files written")
    if done.left_out:
        raise typer.Exit(1)


@dataclass
class _Exported:
    written: int = 0
    left_out: int = 0
    files: int = 0


async def _export(what: list[str], out: Path, judgements: Path | None, database_url: str | None) -> _Exported:
    """Game by game: a batch of thousands takes the memory of one."""
    from app.authors import judgements_in_store, read_judgements, write_folder

    by_game: dict[str, list[Judgement]] = {}
    for one in () if judgements is None else read_judgements(judgements):
        by_game.setdefault(one.game_id, []).append(one)
    done = _Exported()
    names: set[str] = set()
    async for game_id, log, stored in _logs(what, database_url):
        if not log:
            done.left_out += 1
            note(f"{game_id} is left out: its log is damaged")
            continue
        name = _folder_name(game_id, names)
        names.add(name)
        given = by_game.get(game_id, [])
        if stored and judgements is None:
            given = await judgements_in_store(_settings(database_url), game_id)
        try:
            contents = write_game(name, log, given)
        except InvalidRun as fault:
            done.left_out += 1
            note(f"{game_id} is left out: {fault}")
            continue
        done.files += write_folder(out, contents)
        done.written += 1
    return done


def _folder_name(game_id: str, taken: set[str]) -> str:
    """Their scripts name a game by what stands behind the last underscore."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", game_id.removeprefix("g_")).strip("-") or "game"
    name, number = f"game_{stem}", 1
    while name in taken:
        number += 1
        name = f"game_{stem}-{number}"
    return name


async def _logs(what: list[str], database_url: str | None) -> AsyncIterator[tuple[str, "list[Event]", bool]]:
    """Game, log, and whether it comes from the store."""
    from app.authors import logs_in_files, logs_in_store

    for one in what:
        if one.startswith(("b_", "g_")) and not Path(one).exists():  # noqa: ASYNC240  # nobody waits beside it
            async for game, log in logs_in_store(_settings(database_url), one):
                yield game, log, True
        else:
            for game, log in logs_in_files([one]):
                yield game, log, False
