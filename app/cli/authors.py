"""The commands ``import``, ``authors check`` and ``authors export``."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.arguments import DatabaseUrl
from app.cli.database import read_settings, run_or_fail
from app.cli.run_folders import (
    answer_lines,
    changes,
    judgement_lines,
    judgements_in_store,
    log_lines,
    logs_in_files,
    logs_in_store,
    read_folder,
    read_judgements,
    store_answers,
    store_games,
    write_folder,
)
from app.cli.terminal import count_bar, echo, fail, note, reason, refuse_input
from engine.errors import AvalonError
from engine.events import Event
from evaluators.authors import (
    Compared,
    ConvertedGame,
    Run,
    answers_of,
    compare,
    convert,
    figures,
    judgements_of,
    read_run,
    write_game,
)
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement

__all__ = ["commands"]

UNREADABLE: Final = 2
"""Exit status if there is nothing to check: no such folder, or no game that can be read."""

authors_app = typer.Typer(
    help="Run folders of the InterIntent authors' program: check their figures, write their layout.",
    no_args_is_help=True,
)
commands = typer.Typer()
commands.add_typer(authors_app, name="authors")


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
    try:
        return read_run(read_folder(folder))
    except InvalidRun as fault:
        fail(str(fault))


def _taken(run: Run) -> tuple[list[ConvertedGame], dict[str, InvalidRun]]:
    """The games of a run that can be imported, and the faults of the others."""
    taken: list[ConvertedGame] = []
    broken = dict(run.broken)
    with count_bar("games", len(run.games)) as show:
        for done, game in enumerate(run.games, 1):
            try:
                taken.append(convert(run, game))
            except InvalidRun as fault:
                broken[game.name] = fault
            show(done, len(run.games))
    for name, why in broken.items():
        note(f"{name} is left out: {why}")
    return taken, broken


@commands.command("import")
def import_command(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the games to this file as NDJSON instead of storing them."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(help="Also write the raters' judgements to this file, one per line."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Also write the guesses and summaries to this file, for interintent report --answers."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace the files of --out, --judgements and --answers.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Import the games of a run folder of the InterIntent authors' program, with thoughts and judgements.

    They become finished games in the database (no server needs to be running); guesses and summaries become
    evaluations of them. A game's id is a digest of its log, so importing the same folder again changes
    nothing. Oddities of the files are listed. The exit status
    is 0 on success, 1 if a game was left out, 2 if there was no game to import.
    """
    for file in (out, judgements, answers):
        refuse_input(file, folder)
    run = _read(folder)
    taken, broken = _taken(run)
    if not taken:
        fail("no game could be imported")
    report: dict[str, Any] = {
        "games": [_summary(game) for game in taken],
        "left_out": {name: str(fault) for name, fault in broken.items()},
        "odd": [odd for game in taken for odd in game.odd],
    }
    given, left_out = answers_of(run, taken)
    report["odd"] += left_out
    results = []
    if out is not None:
        content = b"".join(log_lines(game.game_id, game.state.log) for game in taken)
        results.append(_write(out, content, overwrite, f"{len(taken)} games"))
        report["out"] = str(out)
    else:
        stored = run_or_fail(store_games(read_settings(database_url), taken))
        report |= {
            "batch": stored.batch,
            "new": list(stored.new),
            "known": list(stored.known),
            "judgements_stored": stored.judgements,
            "judgements_known": stored.judged_before,
        }
        if stored.batch is not None:
            results.append(f"{len(stored.new)} games stored as batch {stored.batch}")
        if stored.known:
            results.append(f"{len(stored.known)} games were stored before; nothing changed for them")
        if stored.judgements:
            results.append(f"{stored.judgements} judgements of selection and following stored")
        if stored.judged_before:
            results.append(f"{stored.judged_before} judgements were stored before; nothing changed for them")
        if given:
            new, known = run_or_fail(store_answers(read_settings(database_url), given))
            report |= {"answers_stored": new, "answers_known": known}
            if new:
                results.append(f"{new} guesses and summaries stored")
            if known:
                results.append(f"{known} guesses and summaries were stored before; nothing changed for them")
    if answers is not None:
        what = f"{len(given)} guesses and summaries"
        results.append(_write(answers, answer_lines(given), overwrite, what))
        report["answers"] = str(answers)
    rated = judgements_of(taken)
    if judgements is not None:
        results.append(_write(judgements, judgement_lines(rated), overwrite, f"{len(rated)} judgements"))
        report["judgements"] = str(judgements)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _print_taken(taken)
        for line in (*(f"odd: {odd}" for odd in report["odd"]), *results):
            echo(line)
    if broken:
        raise typer.Exit(1)


def _summary(game: ConvertedGame) -> dict[str, Any]:
    table = game.state.table
    assert table.winner is not None
    assert table.ending is not None
    return {
        "folder": game.name,
        "game_id": game.game_id,
        "events": len(game.state.log),
        "winner": table.winner.value,
        "ending": table.ending.value,
        "judgements": dict(sorted(Counter(judgement.rater for judgement in game.judgements).items())),
    }


def _print_taken(taken: list[ConvertedGame]) -> None:
    for game in taken:
        summary = _summary(game)
        raters = ", ".join(f"{rater} {count}" for rater, count in summary["judgements"].items())
        typer.echo(
            f"{summary['folder']}: {summary['game_id']}, {summary['events']} events, {summary['winner']} won "
            f"({summary['ending']}), judgements: {raters or 'none'}"
        )


def _differs(file: Path) -> str:
    return f"{file} exists and holds something else: replace it (--overwrite) or name another"


def _write(file: Path, content: bytes, overwrite: bool, what: str) -> str:
    try:
        if file.exists():
            if file.read_bytes() == content:
                return f"{file} holds these {what} already; nothing changed"
            if not overwrite:
                fail(_differs(file))
        file.write_bytes(content)
    except OSError as fault:
        fail(f"cannot write {file}: {reason(fault)}")
    return f"{what} in {file}"


# --- authors check ----------------------------------------------------------------------------------


@authors_app.command("check")
def check(
    folder: Folder,
    differing: Annotated[
        bool, typer.Option("--differing", help="Print only the figures that differ.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Recompute every figure that DIR/expected.json names, and print it beside the expectation.

    Games are read as `import` reads them, and figures are computed from our games and judgements; only the
    order of names in proposals, the number of annotation cells, and the guesses and summaries themselves come
    from the authors' files. The last line is "N agree, M differ". An unknown figure counts as differing. Exit
    status: 0 if nothing differs, 1 if a figure differs, 2 if nothing could be read.
    """
    expected = _expected(folder)
    run = _read(folder)
    taken, broken = _taken(run)
    compared = list(compare(expected, figures(run, taken, _first_two(expected))))
    agree = sum(figure.agrees for figure in compared)
    differ = len(compared) - agree
    shown = [figure for figure in compared if not (differing and figure.agrees)]
    if as_json:
        report = {
            "agree": agree,
            "differ": differ,
            "left_out": {name: str(fault) for name, fault in broken.items()},
            "figures": [
                {
                    "name": figure.name,
                    "expected": figure.expected,
                    "found": figure.found,
                    "agrees": figure.agrees,
                }
                for figure in shown
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
        fail(f"there is no {file} with the figures to compare")
    except (OSError, ValueError) as fault:
        fail(f"{file} cannot be read: {fault}")
    if not isinstance(expected, dict):
        fail(f"{file}: expected an object of figures")
    return expected


def _first_two(expected: dict[str, Any]) -> list[str]:
    """The annotation files that the expected kappa names (``first_two_files_are``); empty: none."""
    kappa = expected.get("kappa")
    named = kappa.get("first_two_files_are") if isinstance(kappa, dict) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _print_compared(compared: list[Compared]) -> None:
    if not compared:
        return
    width = max(len(figure.name) for figure in compared)
    typer.echo(f"{'figure':<{width}}  {'':6}  expected | found")
    for figure in compared:
        verdict = "agrees" if figure.agrees else "DIFFER"
        echo(f"{figure.name:<{width}}  {verdict}  {_figure(figure.expected)} | {_figure(figure.found)}")


def _figure(value: Any) -> str:
    """A figure on one line, such as ``5/11 = 0.454545``, or its numbers by name."""
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
            help="Batches (b_…) and games (g_…) of the database, or NDJSON files of our logs.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to write; it is created if it does not exist.")],
    judgements: Annotated[
        Path | None,
        typer.Option(
            help="Judgements for the annotation files, one per line. If omitted: those of stored games."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace files that hold something else, such as what a rater filled in.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Write games in the authors' layout, so that their scripts run on them.

    Only finished games of profile interintent with five seats fit this layout; others are left out and named.
    Annotation files without judgements have blank cells, for a rater to fill. The exit status is 0 on
    success, 1 if a game was left out, 2 if no game could be written.
    """
    try:
        counts = asyncio.run(_export(what, out, judgements, database_url, overwrite=overwrite))
    except FileNotFoundError as fault:
        fail(f"no such file: {fault.filename or fault}")
    except OSError as fault:
        fail(f"cannot write {fault.filename or out}: {reason(fault)}")
    except AvalonError as fault:
        fail(str(fault))
    if not counts["games"]:
        fail("no game could be written")
    echo(f"{counts['games']} games in {out}, {counts['files']} files written")
    if counts["left out"]:
        raise typer.Exit(1)


async def _export(
    what: list[str], out: Path, judgements: Path | None, database_url: str | None, *, overwrite: bool
) -> Counter[str]:
    """Exports one game after another, so that a batch takes no more memory than one game.

    Returns the numbers of ``games`` and ``files`` that were written, and of games ``left out``.
    """
    by_game: dict[str, list[Judgement]] = {}
    for judgement in () if judgements is None else read_judgements(judgements):
        by_game.setdefault(judgement.game_id, []).append(judgement)
    counts = Counter[str]()
    names: set[str] = set()
    async for game_id, log, stored in _logs(what, database_url):
        if not log:
            counts["left out"] += 1
            note(f"{game_id} is left out: its log is damaged")
            continue
        name = _folder_name(game_id, names)
        names.add(name)
        of_game = by_game.get(game_id, [])
        if stored and judgements is None:
            of_game = await judgements_in_store(read_settings(database_url), game_id)
        try:
            contents = write_game(name, log, of_game)
        except InvalidRun as fault:
            counts["left out"] += 1
            note(f"{game_id} is left out: {fault}")
            continue
        for file in () if overwrite else changes(out, contents):
            if file.exists():
                fail(_differs(file))
        counts["files"] += write_folder(out, contents)
        counts["games"] += 1
    return counts


def _folder_name(game_id: str, taken: set[str]) -> str:
    """An unused folder name. The authors' scripts name a game by the part after the last underscore."""
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", game_id.removeprefix("g_")).strip("-") or "game"
    name, number = f"game_{stem}", 1
    while name in taken:
        number += 1
        name = f"game_{stem}-{number}"
    return name


async def _logs(what: list[str], database_url: str | None) -> AsyncIterator[tuple[str, "list[Event]", bool]]:
    """The id and the log of each game (empty: damaged), and whether the game is stored."""
    for name in what:
        if name.startswith(("b_", "g_")) and not Path(name).exists():  # noqa: ASYNC240  # nobody waits beside it
            async for game, log in logs_in_store(read_settings(database_url), name):
                yield game, log, True
        else:
            for game, log in logs_in_files([name]):
                yield game, log, False
