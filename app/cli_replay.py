"""The commands ``replay check``, ``replay show`` and ``metrics``. The main command line registers them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.replays import (
    Document,
    Fault,
    NotJson,
    OnRead,
    PassedOver,
    Replayed,
    documents,
    log_line,
    parse,
    replayed,
    sizes,
)
from app.tables import print_metrics
from engine.errors import AvalonError, InvalidInput
from engine.events import Event, GameCreated
from engine.playthrough import playthrough
from engine.terms import FULL, Viewer
from engine.view import read_viewer
from evaluators.play import PlayMetrics

__all__ = ["metrics_command", "replay_app"]

NOTHING_FOUND: Final = 2
"""Exit status where there was nothing to judge: no such path, no record."""

_SHOWN: Final = 200
"""Characters of a value in a line of the report."""

replay_app = typer.Typer(
    help="Check recorded games against the rules, and read games as text.", no_args_is_help=True
)

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH…",
        help="avalon-replay files (.json), NDJSON (.ndjson, .jsonl), archives (.tar.gz, .tgz), "
        "directories of these, or - for NDJSON on standard input.",
        show_default=False,
    ),
]


@replay_app.command("check")
def check(
    paths: Paths,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Replay recorded games through the rules and compare everything they recorded.

    Prints one line per failure (file, move number, rule, expected, found) and closes with
    "N passed, M failed". What a directory or an archive holds beside records is passed over and
    counted. Exit status: 0 when nothing failed, 1 when something did, 2 when there was no record.
    """
    passed = passed_over = 0
    failures: list[Fault] = []
    failed = 0
    for outcome in _outcomes(paths):
        if isinstance(outcome, Replayed):
            passed += 1
        elif isinstance(outcome, PassedOver):
            passed_over += 1
        else:
            failed += 1
            if as_json:
                failures.append(outcome)
            else:
                _say(_line(outcome))
    if as_json:
        report = {"passed": passed, "failed": failed, "passed_over": passed_over}
        _say(json.dumps({**report, "failures": [_fault_json(fault) for fault in failures]}))
    else:
        _note_passed_over(passed_over)
        _say(f"{passed} passed, {failed} failed")
    _end(passed, failed, paths)


def metrics_command(
    paths: Paths,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print numerators, denominators and rates as JSON.")
    ] = False,
    skip_failed: Annotated[
        bool, typer.Option("--skip-failed", help="Exit with 0 although records failed and were left out.")
    ] = False,
) -> None:
    """Game metrics of recorded games, pooled, beside the published figures.

    Only games that follow the rules are counted; the others are listed on standard error. A rate is
    null where nothing could be counted. Exit status: 0, 1 when a record failed (unless
    --skip-failed), 2 when there was no record.
    """
    metrics = PlayMetrics()
    failed = passed_over = 0
    for outcome in _outcomes(paths):
        if isinstance(outcome, Replayed):
            metrics.add(outcome.state)
        elif isinstance(outcome, PassedOver):
            passed_over += 1
        else:
            failed += 1
            _say(_line(outcome), err=True)
    _note_passed_over(passed_over)
    if failed:
        _say(f"{failed} failed and are not counted", err=True)
    if as_json:
        _say(json.dumps(metrics.as_json(), indent=1))
    else:
        games = "1 game" if metrics.games == 1 else f"{metrics.games} games"
        print_metrics(metrics, games)
    _end(metrics.games, 0 if skip_failed else failed, paths, found=metrics.games + failed)


@replay_app.command("show")
def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="An avalon-replay file, or NDJSON of records or of our own logs; - for standard input.",
            show_default=False,
        ),
    ],
    game: Annotated[
        str | None, typer.Option("--game", help="Which game, where the file holds more than one.")
    ] = None,
    viewer: Annotated[
        str, typer.Option("--viewer", help="Whose eyes: full, public, or a seat, e.g. seat:3.")
    ] = "full",
    thoughts: Annotated[
        bool, typer.Option("--thoughts/--no-thoughts", help="Whether private thoughts are told.")
    ] = True,
) -> None:
    """Print one game as text that reads like a game.

    A record keeps its own numbering of seats, from 0; our logs count from 1.
    """
    try:
        log, first_seat = _game(file, game)
        text = playthrough(log, _viewer(viewer, log, first_seat), thoughts=thoughts, first_seat=first_seat)
    except (OSError, AvalonError) as fault:
        _give_up(str(fault))
    typer.echo(_printable(text.rstrip("\n"), sys.stdout.encoding))


# --- reading ----------------------------------------------------------------------------------------


def _outcomes(paths: list[str]) -> Iterator[Replayed | Fault | PassedOver]:
    try:
        total = sizes(paths)
        with _progress(total) as on_read:
            for document in documents(paths, on_read):
                yield document if isinstance(document, Fault) else replayed(document)
    except FileNotFoundError as fault:
        _give_up(f"no such file or directory: {fault.filename or fault}")
    except OSError as fault:
        _give_up(str(fault))


@contextmanager
def _progress(total: int | None) -> Iterator[OnRead]:
    """A bar on a terminal, over the bytes of the paths; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("replaying"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # A line for a pipe must not end up on the terminal, nor one for the terminal in the bar.
        redirect_stdout=sys.stdout.isatty(),
    )
    with progress:
        task = progress.add_task("replaying", total=total)
        yield lambda size: progress.advance(task, size)


def _game(file: str, wanted: str | None) -> tuple[list[Event], int]:
    """The log of one game in a file and the number of its first seat."""
    others = 0
    log: list[Event] = []
    chosen = wanted
    for document in documents([file]):
        if isinstance(document, Fault):
            _give_up(_line(document))
        value = _value(document)
        if isinstance(value, dict) and "schema" in value:
            outcome = replayed(document)
            if isinstance(outcome, Fault):
                # A record that is not asked for may be as broken as it likes.
                if wanted is None or value.get("id") == wanted:
                    _give_up(_line(outcome))
            elif isinstance(outcome, Replayed) and wanted in (None, outcome.id):
                return outcome.state.log, 0
            continue
        line = log_line(value)
        if line is None:
            continue
        chosen = line[0] if chosen is None else chosen
        if line[0] == chosen:
            log.append(line[1])
        elif log:
            others += 1
            break
    if not log:
        _give_up(f"no game {wanted} in {file}" if wanted is not None else f"no game in {file}")
    if others and wanted is None:
        _say(f"showing game {chosen}, the first of several; --game names another", err=True)
    return log, 1


def _value(document: Document) -> Any:
    try:
        return parse(document.text)
    except NotJson as fault:
        _give_up(f"{document.place}: expected JSON, found {fault}")


def _viewer(name: str, log: list[Event], first_seat: int) -> Viewer:
    created = log[0]
    if name == "full" or type(created) is not GameCreated:
        return FULL
    players = created.profile.players
    shift = 1 - first_seat
    if shift and name.startswith("seat:"):
        if name.removeprefix("seat:") not in map(str, range(players)):
            raise InvalidInput(
                f"a viewer of a record is public, full or seat:0 to seat:{players - 1}, got {name!r}"
            )
        return int(name.removeprefix("seat:")) + shift
    return read_viewer(name, players)


# --- saying -----------------------------------------------------------------------------------------


def _line(fault: Fault) -> str:
    parts = [_clean(str(fault.place))]
    if fault.record is not None:
        parts.append(_cut(fault.record))
    if fault.quest is not None:
        parts.append(f"quest {fault.quest}, attempt {fault.attempt}")
    if fault.move is not None:
        parts.append(f"move {fault.move}")
    expected, found = _cut(fault.expected), _cut(fault.found)
    return f"{': '.join(parts)}: {_cut(fault.rule)}: expected {expected}, found {found}"


def _fault_json(fault: Fault) -> dict[str, Any]:
    place = fault.place
    return {
        "file": _clean(place.file),
        "member": None if place.member is None else _clean(place.member),
        "line": place.line,
        "record": None if fault.record is None else _cut(fault.record),
        "quest": fault.quest,
        "attempt": fault.attempt,
        "move": fault.move,
        "rule": _cut(fault.rule),
        "expected": _cut(fault.expected),
        "found": _cut(fault.found),
    }


def _note_passed_over(count: int) -> None:
    if count:
        what = "file" if count == 1 else "files"
        _say(f"{count} {what} passed over: not avalon-replay records", err=True)


def _end(passed: int, failed: int, paths: list[str], found: int | None = None) -> None:
    if not (passed + failed if found is None else found):
        _give_up(f"no records found in {', '.join(paths)}")
    if failed:
        raise typer.Exit(1)


def _give_up(reason: str) -> NoReturn:
    _say(reason, err=True)
    raise typer.Exit(NOTHING_FOUND)


def _say(line: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    typer.echo(_printable(line, stream.encoding), err=err)


def _cut(text: str) -> str:
    return _clean(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _clean(text: str) -> str:
    """On one line, and with nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _printable(text: str, encoding: str | None = None) -> str:
    """What the stream can carry, where the terminal is no UTF-8."""
    into = encoding or "utf-8"
    return text.encode(into, "backslashreplace").decode(into)
