"""The commands ``annotations sheet`` and ``take``: sheets for people who judge, and what they filled in."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.errors import AlreadyJudged, InvalidRequest, NotFound
from app.cli.arguments import Batches, DatabaseUrl, Sources
from app.cli.audit import who_runs
from app.cli.database import DELETED, finished_games, on_database, read_settings, run_or_fail
from app.cli.report import fail_without_games, note_games
from app.cli.terminal import (
    byte_bar,
    count_bar,
    echo,
    fail,
    fail_reading,
    install_command,
    note,
    reason,
    refuse_existing,
    refuse_input,
    writing,
)
from app.evaluations.schemas import JudgementView
from app.evaluations.sheet import FIELDS, read_sheet, write_sheet
from app.evaluations.tasks import Prepared, judgement_row, overlaid
from app.files.games import Unusable, bundles, games_in
from app.files.judgements import UnreadableFile, read_judgements
from app.files.label_studio import CONFIG, label_studio_tasks, read_label_studio
from app.files.rater_rows import Filled, RaterRow, rater_rows
from app.files.rater_sheets import csv_sheet, read_csv, read_xlsx, xlsx_sheet
from app.files.replays import sizes
from app.settings import Settings
from app.store.rows import JudgementRow
from engine.errors import AvalonError, CorruptLog
from evaluators.ground.drawing import Candidate, Drawing, DrawnTurn, candidates, why_nothing
from evaluators.ground.turns import Game
from evaluators.report.columns import agent_names

__all__ = ["CALLER", "sheets_app"]

CALLER: Final = "operator"
"""The caller under which judgements are stored: the operator."""

_STEP: Final = 50
"""The progress bar moves each time this many judgements have been checked."""

sheets_app = typer.Typer()

_WRITERS: Final[Mapping[str, Callable[[Iterable[Sequence[RaterRow]], str], bytes]]] = {
    ".csv": csv_sheet,
    ".xlsx": xlsx_sheet,
    ".json": label_studio_tasks,
}
_READERS: Final[Mapping[str, Callable[[Path, str | None, str, list[str]], Iterator[Filled]]]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".xlsx": read_xlsx,
    ".json": read_label_studio,
}

Turns = Collection[tuple[str, str]]
"""Speaking turns, as (game, request)."""


# --- sheet ------------------------------------------------------------------------------------------


@sheets_app.command("sheet")
def sheet_command(
    sources: Sources = None,
    batch: Batches = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="sheet.xlsx, sheet.csv, or sheet.json for Label Studio (its labelling configuration is "
            "written beside it, as .xml)."
        ),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Speaking turns for each rater.")] = 20,
    shared: Annotated[
        int, typer.Option(min=0, help="How many of them go to every rater, to measure agreement.")
    ] = 5,
    rater: Annotated[
        list[str] | None,
        typer.Option(help="A rater's name. Repeatable: each gets a file of its own, named after it."),
    ] = None,
    calibrate: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Draw this many of the turns that models judged, alike over models and roles; every rater "
            "gets all of them. They correct the judges' figures in a report.",
        ),
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="For --calibrate: only turns that this judge judged. Repeatable.")
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(help="For --calibrate with files: what models judged, as interintent report takes it."),
    ] = None,
    seed: Annotated[str, typer.Option(help="The seed that draws the turns.")] = "0",
    overwrite: Annotated[
        bool, typer.Option(help="Replace sheets that exist, and what raters filled into them.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Write blank sheets for people who judge: a row for each chosen intention, with all that is needed.

    Turns are drawn over conditions (labels of batches; files), games, models and roles alike. A larger
    --tasks or --calibrate with the same seed begins with the same turns. Games without a turn to judge are
    named, with the reason. annotations take reads the sheets back.

    Example: interintent annotations sheet --batch b_… --rater ann --rater bob --out sheet.xlsx

    The exit status is 0 on success, 2 if nothing was written.
    """
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    if out is None or out.suffix not in _WRITERS:
        fail(f"--out ends in {', '.join(_WRITERS)}" + ("" if out is None else f", got {out}"))
    _need_openpyxl(out)
    if (judge or judgements) and calibrate is None:
        fail("--judge and --judgements go with --calibrate")
    raters = list(dict.fromkeys(rater or ()))
    for name in raters:
        if _NAME.fullmatch(name) is None:
            fail(f"a rater's name begins with a letter or digit, got {name!r}")
    sheets = [out]
    if len(raters) > 1:
        sheets = [out.with_name(f"{out.stem}-{_file_name(name)}{out.suffix}") for name in raters]
    if len(set(sheets)) < len(sheets):
        fail("two raters' names give one file name: change one of them")
    labelling = [out.with_suffix(".xml")] if out.suffix == ".json" else []
    for file in (*sheets, *labelling):
        refuse_existing(file, overwrite=overwrite)
        refuse_input(file, *(sources or ()), judgements)
    deal = _Deal(tasks, min(shared, tasks), len(raters) or 1)
    if calibrate is not None:
        deal = _Deal(calibrate, calibrate, 1)
    if sources:
        if "-" in sources:
            fail("sheet reads the games twice: name files, not -")
        rows = _of_files(sources, seed, deal, _judged_in(judgements, judge) if calibrate else None)
    else:
        assert batch
        if judgements is not None:
            fail("a batch brings its judgements; --judgements is for files")
        calibrated = None if calibrate is None else judge or []
        rows = run_or_fail(_of_batches(batch, seed, deal, calibrated, read_settings(database_url)))
    parts = _dealt(rows, deal)
    for place, (sheet, name) in enumerate(zip(sheets, raters or [""], strict=True)):
        part = parts[place % len(parts)]
        with writing(sheet) as written:
            written.write(_WRITERS[out.suffix](part, name))
        intentions = sum(map(len, part))
        echo(f"{len(part)} turns with {intentions} intentions to judge in {sheet}")
    for file in labelling:
        with writing(file) as written:
            written.write(CONFIG.encode())
        echo(f"the labelling configuration for Label Studio in {file}")
    short = deal.turns - len(rows)
    if short > 0:
        note(f"only {len(rows)} turns can be judged, {deal.turns} were asked for")


def _need_openpyxl(file: Path) -> None:
    if file.suffix.lower() == ".xlsx" and find_spec("openpyxl") is None:
        fail(f"{file}: XLSX needs openpyxl: {install_command('datasets')}; or take a .csv")


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:@/+-]{0,79}")


def _file_name(rater: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", rater)


class _Deal(NamedTuple):
    """How many turns each rater gets."""

    each: int
    shared: int
    raters: int

    @property
    def turns(self) -> int:
        return self.shared + self.raters * (self.each - self.shared)


def _dealt(rows: Sequence[Sequence[RaterRow]], deal: _Deal) -> list[list[Sequence[RaterRow]]]:
    """The turns of each rater. The shared ones come first in the draw; then each rater gets a run of it,
    since every run of a draw is balanced.
    """
    own = rows[deal.shared :]
    size = min(deal.each - deal.shared, len(own) // deal.raters)
    return [[*rows[: deal.shared], *own[size * place : size * (place + 1)]] for place in range(deal.raters)]


def _judged_in(judgements: Path | None, judges: Sequence[str] | None) -> Turns:
    """The turns that models judged in a file."""
    if judgements is None:
        fail("--calibrate with files needs --judgements: a file with what models judged")
    try:
        read = read_judgements(judgements)
    except (UnreadableFile, OSError) as fault:
        fail(str(fault))
    found = {
        (judgement.game_id, judgement.request_id)
        for of_game in read.by_game.values()
        for judgement in of_game
        if judgement.rater in (judges or read.judges)
    }
    if not found:
        known = ", ".join(sorted(read.judges)) or "none"
        fail(f"no model judged anything in {judgements}; known judges: {known}")
    return found


def _of_files(sources: list[str], seed: str, deal: _Deal, only: Turns | None) -> list[Sequence[RaterRow]]:
    """The rows of each drawn turn of the games in these files, in the order of the draw."""
    held: dict[str, list[Candidate]] = {}
    conditions: dict[str, str] = {}
    silent = _Silent()
    for file, game in _games(sources, "drawing"):
        if isinstance(game, Unusable):
            silent.take(game.what, game.reason)
            continue
        agents, labels = _played_by(game)
        held[game.id] = _wanted(game.id, candidates(game, agents), only)
        conditions[game.id] = ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or file
        if not held[game.id]:
            silent.take(game.id, _why(game, only))
    drawn: list[DrawnTurn] = []
    drawing = Drawing(conditions, seed)
    while len(drawn) < deal.turns and (game_id := drawing.game) is not None:
        if not drawing.knows(game_id):
            drawing.hold(game_id, held[game_id])
        if (turn := drawing.draw()) is not None:
            drawn.append(turn)
    silent.tell(drawn)
    rows: dict[DrawnTurn, Sequence[RaterRow]] = {}
    by_game = {game_id: list(turns) for game_id, turns in groupby(sorted(drawn), key=lambda turn: turn[0])}
    for _, game in _games(sources, "writing"):
        if not isinstance(game, Unusable):
            for turn in by_game.get(game.id, ()):
                rows[turn] = list(rater_rows(game, turn.request_id))
    return [rows[turn] for turn in drawn]


def _played_by(game: Game) -> tuple[list[str] | None, Mapping[str, str]]:
    """The agent of each seat, as far as the game's file says, and the labels of its batch."""
    known = game.provenance
    if known is None or len(known.agents) != len(game.roles):
        return None, {} if known is None else known.labels
    return [agent.name for agent in known.agents], known.labels


def _games(sources: list[str], title: str) -> Iterator[tuple[str, Game | Unusable]]:
    """Every game of the files, with the name of its file."""
    try:
        with byte_bar(title, sizes(sources)) as on_read:
            for bundle in bundles(sources, on_read):
                for game in games_in(bundle):
                    yield bundle.file, game
    except FileNotFoundError as fault:
        fail_reading(fault)


def _wanted(game_id: str, turns: Iterable[Candidate], only: Turns | None) -> list[Candidate]:
    return [turn for turn in turns if only is None or (game_id, turn.request_id) in only]


def _why(game: Game, only: Turns | None) -> str:
    return "no model judged a turn of it" if only is not None and candidates(game) else why_nothing(game)


class _Silent:
    """Games that give no turn, with the reasons."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self._names: dict[str, list[str]] = {}

    def take(self, game_id: str, why: str) -> None:
        self._reasons[why] += 1
        self._names.setdefault(why, []).append(game_id)

    def tell(self, drawn: Sequence[DrawnTurn]) -> None:
        """Names the games on standard error. Ends the command if there is no turn at all."""
        note_games(self._reasons, self._names)
        if not drawn:
            fail_without_games("draw turns from", self._reasons)


async def _of_batches(
    batches: list[str], seed: str, deal: _Deal, judges: Sequence[str] | None, settings: Settings
) -> list[Sequence[RaterRow]]:
    """``_of_files``, for the finished games of batches in the database. ``judges``: only turns that one of
    these models judged, or any model if it is empty; None: every turn.
    """
    # Imported here, since the import takes a second.
    from app.models.provenance import stored_agents
    from app.store.rows import whole

    rows: list[Sequence[RaterRow]] = []
    async with on_database(settings) as parts:
        games = [game for name in batches for game in await finished_games(parts, name, invalid=False)]
        evaluations = parts.evaluations
        only: Turns | None = None
        if judges is not None:
            whose = await evaluations.gold.raters_on(games)
            judged = await evaluations.store.judgements_of(games, whose=whose, kind="model", raters=judges)
            only = {(row.game_id, row.request_id) for row in judged}
            if not only:
                fail("no model has judged these games" + (f" as {', '.join(judges)}" if judges else ""))
        drawing = Drawing(await evaluations.tasks.conditions(games), seed)
        drawn: list[DrawnTurn] = []
        silent = _Silent()
        with count_bar("turns", deal.turns) as show:
            while len(drawn) < deal.turns and (game_id := drawing.game) is not None:
                if not drawing.knows(game_id):
                    try:
                        game = await evaluations.games.by_id(game_id)
                        row = (await parts.store.games_of([game_id]))[game_id]
                        known = agent_names(game, stored_agents(whole(row.seats)))
                    except (CorruptLog, KeyError):
                        drawing.hold(game_id, ())
                        silent.take(game_id, "damaged where it was stored")
                        continue
                    except NotFound:
                        drawing.hold(game_id, ())
                        silent.take(game_id, DELETED)
                        continue
                    held = _wanted(game_id, candidates(game, known), only)
                    drawing.hold(game_id, held)
                    if not held:
                        silent.take(game_id, _why(game, only))
                if (turn := drawing.draw()) is not None:
                    drawn.append(turn)
                    show(len(drawn), deal.turns)
        silent.tell(drawn)
        for game_id, request_id in drawn:
            with suppress(NotFound):  # it was deleted since it was drawn
                rows.append(list(rater_rows(await evaluations.games.by_id(game_id), request_id)))
    return rows


# --- take -------------------------------------------------------------------------------------------


@sheets_app.command("take")
def take_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Filled sheets: .csv, .xlsx, or Label Studio's export (JSON).",
            show_default=False,
        ),
    ],
    rater: Annotated[
        str | None,
        typer.Option(
            help="The rater of every row. If omitted: the column rater, or Label Studio's annotator."
        ),
    ] = None,
    kind: Annotated[str, typer.Option(help="human, model or program.")] = "human",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Put the judgements into this CSV, which interintent report --judgements reads, instead of "
            "the database. What it holds already stays."
        ),
    ] = None,
    revise: Annotated[
        bool,
        typer.Option("--revise", help="Let a score replace another one that the same rater gave before."),
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Take in what raters filled into sheets: all of it or, when one cell is wrong, nothing.

    Errors name file, row and column. Taking a sheet twice changes nothing; a sheet that was filled further
    adds what is new, and an empty cell takes nothing back. The exit status is 0 on success, 2 if nothing was
    taken.
    """
    refuse_input(out, *files)
    mute: list[str] = []
    try:
        filled = [one for file in files for one in _read(file, rater, kind, mute)]
        if not filled:
            fail("nothing is filled in; nothing was taken")
        _refuse_twice(filled)
        if out is None:
            settings = read_settings(database_url)
            with count_bar("judgements") as show:
                new, same = asyncio.run(_stored(settings, filled, revise=revise, show=show))
        else:
            new, same = _written(out, filled, revise=revise)
    except AvalonError as fault:
        fail(f"{fault}; nothing was taken")
    raters = sorted({one.rater.name for one in filled})
    echo(f"{new} judgements taken, {same} were there already; raters: {', '.join(raters)}")
    if mute:
        note(f"not taken: {len(mute)} comments without a judgement ({', '.join(mute[:5])})")


def _read(file: Path, rater: str | None, kind: str, mute: list[str]) -> Iterator[Filled]:
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        fail(f"sheets end in {', '.join(_READERS)}, got {file}")
    _need_openpyxl(file)
    try:
        yield from reader(file, rater, kind, mute)
    except OSError as fault:
        fail(f"cannot read {file}: {reason(fault)}")


def _refuse_twice(filled: Sequence[Filled]) -> None:
    seen: dict[tuple[str, ...], Filled] = {}
    for one in filled:
        row = judgement_row(CALLER, one.rater, one.judgement)
        before = seen.setdefault((row.rater, *row.key), one)
        if before is not one:
            raise InvalidRequest(
                f"{one.place}, key: {row.rater} has judged this in {before.place} too; remove one of the two",
                "",
            )


async def _stored(
    settings: Settings, filled: Sequence[Filled], *, revise: bool, show: Callable[[int, int], None]
) -> tuple[int, int]:
    """Stores the judgements, and returns how many are new or changed, and how many were stored before."""
    async with on_database(settings, writes=True) as parts:
        tasks = parts.evaluations.tasks
        prepared = Prepared(CALLER)
        for index, one in enumerate(filled):
            try:
                await tasks.prepare(prepared, one.rater, one.judgement)
            except InvalidRequest as fault:
                column = "key" if fault.pointer.rpartition("/")[2] == "intention" else f"key, {one.column}"
                raise InvalidRequest(f"{one.place}, {column}: {fault}", "") from None
            if index % _STEP == 0:
                show(index, len(filled))
        show(len(filled), len(filled))
        changes = await tasks.changes(prepared)
        if changes.contrary and not revise:
            raise _contrary(filled[changes.contrary[0]])
        changed = Prepared(CALLER, rows=changes.rows)

        async def write(connection: AsyncConnection) -> int:
            return await tasks.write(connection, changed, revise=True, by=who_runs())

        try:
            await parts.database.writer.run(write)
        except IntegrityError:
            raise AlreadyJudged("the same raters' judgements are being stored; try again", "") from None
        return len(changes.rows), changes.same


def _contrary(one: Filled) -> AlreadyJudged:
    return AlreadyJudged(
        f"{one.place}, {one.column}: {one.rater.name} has given another score before; --revise replaces it",
        "",
    )


def _written(out: Path, filled: Sequence[Filled], *, revise: bool) -> tuple[int, int]:
    """Puts the judgements into a file, and returns how many are new or changed, and how many it held."""
    held: list[JudgementRow] = []
    if out.exists():
        try:
            text = out.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as fault:
            fail(f"cannot read {out}: {fault}")
        try:
            held = [judgement_row(CALLER, line.rater, line.judgement) for line in read_sheet(text)]
        except InvalidRequest as fault:
            raise InvalidRequest(f"{out}: {fault}", "") from None
    given = [judgement_row(CALLER, one.rater, one.judgement) for one in filled]
    changes = overlaid(held, given)
    if changes.contrary and not revise:
        raise _contrary(filled[changes.contrary[0]])
    every = {(row.rater, *row.key): row for row in (*held, *changes.rows)}
    views = (
        JudgementView(**{name: getattr(every[key], name) for name in FIELDS})
        for key in sorted(every, key=lambda key: (key[1:], key[0]))
    )
    with writing(out) as file:
        file.write(write_sheet(views).encode())
    return len(changes.rows), changes.same
