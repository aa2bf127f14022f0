"""The commands ``replay check``, ``replay show`` and ``metrics``."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer

from app.cli.tables import metrics_csv, print_metrics
from app.cli.terminal import byte_bar, clean, echo, fail, fail_reading
from app.files.games import Bundle, Unusable, bundles, games_in, is_ours
from app.files.replays import (
    Document,
    FileFault,
    NotJson,
    PassedOver,
    Place,
    Replayed,
    documents,
    log_line,
    parse,
    replayed,
    sizes,
)
from engine.errors import AvalonError, InvalidInput
from engine.events import Event, GameCreated
from engine.playthrough import playthrough
from engine.terms import FULL, Viewer
from engine.view import read_viewer
from evaluators.ground.anew import SPARE, KnownGames
from evaluators.ground.turns import Game, read_game
from evaluators.measures.defaults import EXCLUDE_ABOVE, DecisionCounter
from evaluators.measures.play import PlayFigures
from evaluators.report.columns import UnknownColumn, column_name, columns_of, no_column, pooled, rule_set

__all__ = ["commands"]

_NAMED: Final = 20
"""How many of the skipped files are named; the others are only counted."""

_SHOWN: Final = 200
"""The most characters of a value in a line of the report."""

replay_app = typer.Typer(
    help="Check recorded games against the rules, and read games as text.", no_args_is_help=True
)
commands = typer.Typer()
commands.add_typer(replay_app, name="replay")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH…",
        help="avalon-replay records as JSON, a JSON list or NDJSON, packed or not (.gz, .zip, .tar.gz), "
        "directories of these, or - for standard input. Nothing is read if a path does not exist.",
        show_default=False,
    ),
]


@replay_app.command("check")
def check(
    paths: Paths,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Replay recorded games through the rules and compare everything they recorded.

    Prints one line per failure (file, record, quest, attempt, move, rule, expected, found) and, last,
    "N passed, M failed". In directories and archives, JSON that is no record and members that are packed once
    more are passed over and named; files with other endings are not looked at. One core replays 800 to 1,000
    records a second, reading their JSON included. Exit status: 0 if nothing failed, 1 if a record failed, 2
    if there was no record or a path does not exist.
    """
    passed = 0
    passed_over: list[PassedOver] = []
    failures: list[FileFault] = []
    failed = 0
    for outcome in _outcomes(paths):
        if isinstance(outcome, Replayed):
            passed += 1
        elif isinstance(outcome, PassedOver):
            passed_over.append(outcome)
        else:
            failed += 1
            if as_json:
                failures.append(outcome)
            else:
                echo(_line(outcome))
    if as_json:
        files = _each_once(passed_over)
        report: dict[str, Any] = {"passed": passed, "failed": failed, "passed_over": len(files)}
        if files:
            report["passed_over_files"] = [{"file": file, "reason": reason} for file, reason in files]
        echo(json.dumps({**report, "failures": [_fault_json(fault) for fault in failures]}))
    else:
        _note_passed_over(passed_over)
        echo(f"{passed} passed, {failed} failed")
    _end(passed + failed, failed, paths)


@commands.command("metrics")
def metrics_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH…",
            help="avalon-replay records as JSON, a JSON list or NDJSON, or games of ours (simulate --out, "
            "full exports), packed or not (.gz, .zip, .tar.gz), directories of these, or - for standard "
            "input. Nothing is read if a path does not exist.",
            show_default=False,
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every figure with its counts as JSON.")
    ] = False,
    as_csv: Annotated[
        bool,
        typer.Option("--csv", help="Print every figure with its counts and interval as CSV."),
    ] = False,
    intervals: Annotated[
        bool, typer.Option(help="With --json: each figure with its 95 % interval and design effect, too.")
    ] = True,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="One table for each value of a column: of games profile, rules, players, file, seed and "
            "labels; of seats agent, model, preset, role, side and others (see interintent report --help)."
        ),
    ] = None,
    skip_failed: Annotated[
        bool, typer.Option("--skip-failed", help="Exit with 0 even if records failed and were left out.")
    ] = False,
) -> None:
    """Game metrics of recorded games, pooled, beside the published figures.

    With --group-by, each group of games or seats has a table, too. Groups of seats show what their seats did,
    not who won. If games of several rule sets are pooled, the rule sets are named.

    Of records, only games that follow the rules are counted; the others are listed on standard error. Of
    games of ours, those that reports do not count are left out: marked as invalid, with more than 5 % of the
    models' decisions played by default, or played anew in place of a game that counts. A rate is null if
    nothing could be counted. The exit status is 0 on success, 1 if a record failed (unless --skip-failed),
    2 if there was no game.
    """
    if as_json and as_csv:
        fail("--json or --csv, not both")
    column = None if group_by is None else _column(group_by)
    figures = PlayFigures()
    metrics = figures.metrics
    groups: dict[str, PlayFigures] = {}
    rule_sets: Counter[str] = Counter()
    failed = 0
    passed_over: list[PassedOver] = []
    left_out: Counter[str] = Counter()
    known = KnownGames()
    forks: list[tuple[str, Game]] = []

    def count(file: str, game: Game) -> None:
        name = f"{file} {game.id}"
        columns = columns_of(game, file=file)
        figures.add(name, game.log, trial=columns.trial)
        rule_sets[rule_set(game.profile)] += 1
        for group, seats in {} if column is None else columns.seats(column).items():
            whole = len(seats) == columns.players
            counted = groups.setdefault(group, PlayFigures())
            counted.add(name, game.log, None if whole else seats, columns.trial)

    for found in _games_and_faults(paths):
        if isinstance(found, PassedOver):
            passed_over.append(found)
        elif isinstance(found, FileFault):
            failed += 1
            echo(_line(found), err=True)
        elif isinstance(found.game, Unusable):
            left_out[found.game.reason] += 1
        else:
            why = _excluded(found.game)
            is_fork = known.read(found.game, excluded=bool(why))
            if why:
                left_out[why] += 1
            elif is_fork:
                forks.append((found.file, found.game))
            else:
                count(found.file, found.game)
    for file, game in forks:
        if known.is_spare(game.id):
            left_out[SPARE] += 1
        else:
            count(file, game)
    _note_passed_over(passed_over)
    for reason, n in left_out.most_common():
        echo(f"{n} {'game' if n == 1 else 'games'} left out: {reason}", err=True)
    if failed:
        echo(f"{failed} failed and are not counted", err=True)
    if column is not None and metrics.games and not groups:
        fail(no_column(column))
    if as_json:
        answer = _metrics_json(figures, intervals=intervals)
        if len(rule_sets) > 1:
            answer["rule_sets"] = dict(sorted(rule_sets.items()))
        if groups:
            answer["groups"] = {
                group: _metrics_json(one, intervals=intervals) for group, one in sorted(groups.items())
            }
        echo(json.dumps(answer, indent=1))
    elif as_csv:
        echo(metrics_csv([("all", figures), *sorted(groups.items())]).rstrip("\n"))
    else:
        games = "1 game" if metrics.games == 1 else f"{metrics.games} games"
        print_metrics(figures, games)
        for group, one in sorted(groups.items()):
            echo("")
            print_metrics(one, f"{group}: {one.games} of {games}")
    if len(rule_sets) > 1 and column not in ("rules", "profile", "players"):
        pools = (
            f"{len(rule_sets)} rule sets are pooled (set apart with --group-by rules): {pooled(rule_sets)}"
        )
        echo(pools, err=True)
    _end(metrics.games + failed, 0 if skip_failed else failed, paths)


class _Found(NamedTuple):
    """A game of a file, or why it cannot be used."""

    file: str
    game: Game | Unusable


def _games_and_faults(paths: list[str]) -> Iterator[_Found | FileFault | PassedOver]:
    """The games of the paths: records that follow the rules, and games of ours."""
    try:
        with byte_bar("reading", sizes(paths)) as on_read:
            for bundle in bundles(paths, on_read):
                ours = Bundle(bundle.file, name=bundle.name)
                for document in bundle.lines:
                    if isinstance(document, Document) and is_ours(document):
                        ours.lines.append(document)
                        continue
                    outcome = replayed(document) if isinstance(document, Document) else document
                    if isinstance(outcome, Replayed):
                        game = read_game(outcome.id, outcome.state.log)
                        yield _Found(f"{outcome.place}", game)
                    else:
                        yield outcome
                for read in games_in(ours):
                    yield _Found(bundle.file, read)
    except OSError as fault:
        fail_reading(fault)


def _excluded(game: Game) -> str:
    """Why reports exclude the game; empty if they do not."""
    known = game.provenance
    if known is not None and known.invalid is not None:
        return "marked as invalid"
    if known is None:
        return ""
    share = DecisionCounter(game.log).of_models(known.models or None).rate
    if share is None or share <= EXCLUDE_ABOVE:
        return ""
    return f"models defaulted more than {100 * EXCLUDE_ABOVE:g} % of their decisions"


def _column(name: str) -> str:
    try:
        return column_name(name)
    except UnknownColumn as fault:
        fail(str(fault))


def _metrics_json(figures: PlayFigures, *, intervals: bool) -> dict[str, Any]:
    added = {"intervals": figures.intervals_as_json()} if intervals else {}
    return {**figures.metrics.as_json(), **added}


@replay_app.command("show")
def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Records or our own logs, as JSON, a JSON list or NDJSON, packed or not (.gz, .zip, "
            ".tar.gz); - for standard input.",
            show_default=False,
        ),
    ],
    game: Annotated[
        str | None, typer.Option("--game", help="The game's id, if the file holds several games.")
    ] = None,
    viewer: Annotated[
        str, typer.Option("--viewer", help="The viewer: full, public, or a seat, e.g. seat:3.")
    ] = "full",
    thoughts: Annotated[
        bool, typer.Option("--thoughts/--no-thoughts", help="Print private thoughts.")
    ] = True,
) -> None:
    """Print one game as text for people.

    A record's seats are numbered from 0, as in the record; those of our logs from 1.
    """
    try:
        log, first_seat = _game(file, game)
        text = playthrough(log, _viewer(viewer, log, first_seat), thoughts=thoughts, first_seat=first_seat)
    except OSError as fault:
        fail_reading(fault)
    except AvalonError as fault:
        fail(str(fault))
    echo(text.rstrip("\n"))


# --- reading ----------------------------------------------------------------------------------------


def _outcomes(paths: list[str]) -> Iterator[Replayed | FileFault | PassedOver]:
    try:
        with byte_bar("replaying", sizes(paths)) as on_read:
            for document in documents(paths, on_read):
                if not isinstance(document, Document):
                    yield document
                elif not document.discovered and is_ours(document):
                    fail(
                        f"{clean(str(document.place))}: this is a game of ours; replay check takes only "
                        "avalon-replay records, while replay show, metrics and report take both"
                    )
                else:
                    yield replayed(document)
    except OSError as fault:
        fail_reading(fault)


def _game(file: str, wanted: str | None) -> tuple[list[Event], int]:
    """The log of one game in a file, and the number of its first seat."""
    others = 0
    log: list[Event] = []
    chosen = wanted
    for document in documents([file]):
        if isinstance(document, FileFault):
            fail(_line(document))
        if isinstance(document, PassedOver):
            _note_passed_over([document])
            continue
        value = _value(document)
        if isinstance(value, dict) and "schema" in value:
            outcome = replayed(document)
            if isinstance(outcome, FileFault):
                # An invalid record is a fault only if it is the wanted one.
                if wanted is None or value.get("id") == wanted:
                    fail(_line(outcome))
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
        fail(f"no game {wanted} in {file}" if wanted is not None else f"no game in {file}")
    if others and wanted is None:
        echo(f"showing game {chosen}, the first of several; --game names another", err=True)
    return log, 1


def _value(document: Document) -> Any:
    try:
        return parse(document.text)
    except NotJson as fault:
        fail(f"{document.place}: expected JSON, found {fault}")


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


# --- printing -----------------------------------------------------------------------------------------


def _line(fault: FileFault) -> str:
    parts = [clean(str(fault.place))]
    if fault.record is not None:
        parts.append(_cut(fault.record))
    if fault.quest is not None:
        parts.append(f"quest {fault.quest}, attempt {fault.attempt}")
    if fault.move is not None:
        parts.append(f"move {fault.move}")
    expected, found = _cut(fault.expected), _cut(fault.found)
    return f"{': '.join(parts)}: {_cut(fault.rule)}: expected {expected}, found {found}"


def _fault_json(fault: FileFault) -> dict[str, Any]:
    place = fault.place
    return {
        "file": clean(place.file),
        "member": None if place.member is None else clean(place.member),
        "line": place.line,
        "record": None if fault.record is None else _cut(fault.record),
        "quest": fault.quest,
        "attempt": fault.attempt,
        "move": fault.move,
        "rule": _cut(fault.rule),
        "expected": _cut(fault.expected),
        "found": _cut(fault.found),
    }


def _note_passed_over(passed_over: list[PassedOver]) -> None:
    files = _each_once(passed_over)
    if not files:
        return
    echo(f"{len(files)} {'file' if len(files) == 1 else 'files'} passed over", err=True)
    for file, reason in files[:_NAMED]:
        echo(f"  {file}: {reason}", err=True)
    if len(files) > _NAMED:
        echo(f"  and {len(files) - _NAMED} more", err=True)


def _each_once(passed_over: list[PassedOver]) -> list[tuple[str, str]]:
    """(file, reason) of each file, however many of its lines or items were passed over."""
    places: dict[tuple[Place, str], list[Place]] = {}
    for one in passed_over:
        places.setdefault((Place(one.place.file, one.place.member), one.reason), []).append(one.place)
    return [
        (clean(str(those[0])), reason)
        if len(those) == 1
        else (clean(str(file)), f"{reason} ({len(those):,} times)")
        for (file, reason), those in places.items()
    ]


def _end(records: int, failed: int, paths: list[str]) -> None:
    """Ends the command if there were no records, or if some failed."""
    if not records:
        fail(f"no records found in {', '.join(paths)}", named=False)
    if failed:
        raise typer.Exit(1)


def _cut(text: str) -> str:
    return clean(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
