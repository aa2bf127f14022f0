"""The authors' run folders on disk, and their games in the store."""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import orjson
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.audit import who_runs
from app.cli.database import on_database
from app.cli.export import export_lines
from app.evaluations.rater_work import judgements_from
from app.files.replays import FileFault, NotJson, PassedOver, documents, log_line, parse
from app.settings import Settings
from app.store.audit import Audit
from app.store.games import NewGame, new_id, still_there
from app.store.rows import BatchRow, JudgementRow, typed_row
from app.store.tables import judgements as judgement_table
from engine.events import Event, payload, type_name
from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.run import Files, wanted
from evaluators.authors.taking import VARIANT, TakenAnswer
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement

if TYPE_CHECKING:
    from app.main import Composition

__all__ = [
    "FORMAT",
    "StoredGames",
    "answer_lines",
    "changes",
    "judgement_lines",
    "judgements_in_store",
    "log_lines",
    "logs_in_files",
    "logs_in_store",
    "read_folder",
    "read_judgements",
    "store_answers",
    "store_games",
    "write_folder",
]

FORMAT: Final = "interintent-run"
"""The format that ``imported_from`` names for a game from a run folder."""

CHUNK: Final = 50
"""Games stored in one transaction."""


# --- folders ----------------------------------------------------------------------------------------


def read_folder(folder: Path) -> dict[str, bytes]:
    """The authors' files of a run folder, by path. Raises InvalidRun for a folder that cannot be read."""
    if not folder.is_dir():
        raise InvalidRun(
            f"expected a run folder, found {'a file' if folder.exists() else 'nothing'}: {folder}"
        )
    files = {}
    try:
        for directory, folders, names in os.walk(folder, onerror=_unread):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(directory, name)
                path = file.relative_to(folder).as_posix()
                if wanted(path):
                    files[path] = file.read_bytes()
    except OSError as fault:
        raise InvalidRun(f"{fault.filename}: cannot be read: {fault.strerror}") from None
    return files


def _unread(fault: OSError) -> None:
    raise fault


def changes(folder: Path, files: Files) -> dict[Path, bytes]:
    """The content of each file of the folder that is missing or differs. Raises OSError."""
    places = {folder.joinpath(*PurePosixPath(path).parts): content for path, content in files.items()}
    return {
        file: content
        for file, content in places.items()
        if not file.is_file() or file.read_bytes() != content
    }


def write_folder(folder: Path, files: Files) -> int:
    """Writes the files that are missing or differ, and returns how many it wrote. Raises OSError."""
    changed = changes(folder, files)
    for file, content in changed.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return len(changed)


# --- NDJSON -----------------------------------------------------------------------------------------


def log_lines(game_id: str, log: Iterable[Event]) -> bytes:
    """The events as NDJSON, in the form of ``simulate --out``."""
    return b"".join(
        orjson.dumps({"seq": seq, "type": type_name(event), "game": game_id, **payload(event)}) + b"\n"
        for seq, event in enumerate(log, 1)
    )


def judgement_lines(judgements: Iterable[Judgement]) -> bytes:
    return b"".join(orjson.dumps(judgement) + b"\n" for judgement in judgements)


def answer_lines(answers: Iterable[TakenAnswer]) -> bytes:
    """The answers as NDJSON, in the form of ``report --answers``."""
    return b"".join(
        orjson.dumps(
            {
                "item_id": answer.item_id,
                "rater": answer.rater,
                "intentions": answer.intentions,
                "variant": VARIANT,
            }
        )
        + b"\n"
        for answer in answers
    )


def read_judgements(file: Path) -> tuple[Judgement, ...]:
    """The judgements in a file that ``judgement_lines`` wrote. Raises InvalidRun, naming the line."""
    judgements = []
    try:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    judgements.append(Judgement(**orjson.loads(line)))
                except (orjson.JSONDecodeError, TypeError, ValueError) as fault:
                    raise InvalidRun(f"{file}: line {number}: expected a judgement, found {fault}") from None
    except OSError as fault:
        raise InvalidRun(f"{file}: cannot be read: {fault.strerror}") from None
    return tuple(judgements)


def logs_in_files(paths: Sequence[str]) -> Iterator[tuple[str, list[Event]]]:
    """(game, log) of NDJSON files of our logs. Raises InvalidRun, CorruptLog or FileNotFoundError."""
    for game, lines in groupby(_log_lines_in(paths), key=itemgetter(0)):
        yield game, [event for _, event in lines]


def _log_lines_in(paths: Sequence[str]) -> Iterator[tuple[str, Event]]:
    for document in documents(paths):
        if isinstance(document, FileFault):
            raise InvalidRun(f"{document.place}: expected {document.expected}, found {document.found}")
        if isinstance(document, PassedOver):
            raise InvalidRun(f"{document.place}: {document.reason}")
        try:
            line = log_line(parse(document.text))
        except NotJson as fault:
            raise InvalidRun(f"{document.place}: expected JSON, found {fault}") from None
        if line is not None:
            yield line


# --- the store --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredGames:
    """The result of storing the games of a run."""

    batch: str | None
    """The batch of the new games; None if there were none."""
    new: tuple[str, ...]
    known: tuple[str, ...]
    """The ids of games that were stored before and are left unchanged."""
    judgements: int
    """Rows of judgements that were written; selection and following have separate rows."""
    judged_before: int
    """Rows of judgements that were stored before."""


async def store_games(settings: Settings, taken: Sequence[ConvertedGame]) -> StoredGames:
    """Stores the games that are not stored yet as one batch of finished games, and their judgements.

    A game's id is a digest of its log, so the same files never make a second game. Judgements are stored for
    the caller ``import`` and their rater; a changed judgement is stored as its next grade. Raises NotFound if
    the database cannot be reached.
    """
    async with on_database(settings, writes=True, makes=True) as parts:
        try:
            return await _store(parts, taken)
        except IntegrityError:
            # Another process has stored the same games meanwhile.
            return await _store(parts, taken)


async def _store(parts: "Composition", taken: Sequence[ConvertedGame]) -> StoredGames:
    writer = parts.database.writer
    batch, at = new_id("b"), writer.stamp()
    new: list[ConvertedGame] = []
    rows: list[JudgementRow] = []
    judged = [
        row for game in taken for judgement in game.judgements for row in _judgement_rows(judgement, at)
    ]

    async def write(connection: AsyncConnection) -> None:
        ids = [game.game_id for game in taken]
        known = await still_there(connection, ids)
        new[:] = [game for game in taken if game.game_id not in known]
        if new:
            row = BatchRow(batch, at, len(new), "0", {"origin": "import"})
            await parts.store.insert_batch(connection, row)
            await Audit(parts.database).add(connection, who_runs(), "import", batch, games=len(new))
        for first in range(0, len(new), CHUNK):
            chunk = [_new_game(game, first + index) for index, game in enumerate(new[first : first + CHUNK])]
            await parts.store.insert_games(connection, batch, chunk, at)
        rows[:] = await _not_stored(connection, ids, judged)
        await parts.evaluations.store.insert_judgements(connection, rows, by=who_runs())

    await writer.run(write)
    stored = tuple(game.game_id for game in new)
    return StoredGames(
        batch if new else None,
        stored,
        tuple(game.game_id for game in taken if game.game_id not in stored),
        len(rows),
        len(judged) - len(rows),
    )


async def store_answers(settings: Settings, answers: Sequence[TakenAnswer]) -> tuple[int, int]:
    """Stores the answers that are not stored yet, with their scores, as evaluations of the caller ``import``.
    Returns how many are new, and how many were stored before, which stay as they are. Raises NotFound if the
    database cannot be reached.
    """
    # Imported here, since the import takes a second.
    from app.edge.auth import OPERATOR
    from app.evaluations.schemas import NewEvaluation

    caller = replace(OPERATOR, name=CALLER)
    by_rater: dict[tuple[str, str], list[TakenAnswer]] = {}
    for answer in answers:
        by_rater.setdefault((answer.rater, answer.dimension), []).append(answer)
    new = 0
    async with on_database(settings, writes=True) as parts:
        evaluations = parts.evaluations
        for (rater, dimension), given in by_rater.items():
            ids = [answer.item_id for answer in given]
            known = await evaluations.store.answered(CALLER, rater, ids)
            fresh = [answer for answer in given if answer.item_id not in known]
            for first in range(0, len(fresh), _ANSWERS):
                body = {
                    "dimension": dimension,
                    "rater": {"name": rater, "kind": "program"},
                    "variant": VARIANT,
                    "answers": [
                        {"item_id": answer.item_id, "intentions": list(answer.intentions)}
                        for answer in fresh[first : first + _ANSWERS]
                    ],
                }
                await evaluations.submit(NewEvaluation.model_validate(body), caller, by=who_runs())
            new += len(fresh)
    return new, len(answers) - new


_ANSWERS: Final = 1000
"""Answers in one evaluation."""

CALLER: Final = "import"
"""The caller under which a run's judgements are stored, together with the rater's own name."""


def _judgement_rows(judgement: Judgement, at: int) -> list[JudgementRow]:
    """A row for selection and a row for following, if the judgement has them."""
    row = JudgementRow(
        game_id=judgement.game_id,
        request_id=judgement.request_id,
        stage=judgement.stage,
        intention=judgement.intention,
        dimension="selection",
        caller=CALLER,
        rater=judgement.rater[:80],
        kind="human",
        at=at,
    )
    rows = []
    if judgement.reasonable is not None:
        rows.append(replace(row, reasonable=judgement.reasonable))
    if judgement.think is not None or judgement.speak is not None:
        rows.append(replace(row, dimension="following", think=judgement.think, speak=judgement.speak))
    return rows


async def _not_stored(
    connection: AsyncConnection, games: Sequence[str], judged: Sequence[JudgementRow]
) -> list[JudgementRow]:
    """The rows that are new or changed, each with its next grade."""
    table = judgement_table
    query = select(table).where(table.c.game_id.in_(games), table.c.caller == CALLER).order_by(table.c.grade)
    stored = [typed_row(JudgementRow, row) for row in (await connection.execute(query)).mappings()]
    last = {(row.rater, *row.key): row for row in stored}
    fresh = []
    for row in judged:
        before = last.get((row.rater, *row.key))
        if before is None:
            fresh.append(row)
        elif (before.reasonable, before.think, before.speak) != (row.reasonable, row.think, row.speak):
            fresh.append(replace(row, grade=before.grade + 1))
    return fresh


def _new_game(game: ConvertedGame, position: int) -> NewGame:
    table = game.state.table
    assert table.winner is not None
    assert table.ending is not None
    return NewGame(
        game.game_id,
        position,
        "manual",
        "0",
        [],
        game.state.log,
        imported_from={"format": FORMAT, "id": game.name},
        status="finished",
        winner=table.winner.value,
        ending=table.ending.value,
    )


async def judgements_in_store(settings: Settings, game_id: str) -> list[Judgement]:
    """The judgements of a stored game. Raises NotFound if the database cannot be read."""
    async with on_database(settings) as parts:
        return judgements_from(await parts.evaluations.store.judgements_of([game_id]))


async def logs_in_store(settings: Settings, what: str) -> AsyncIterator[tuple[str, list[Event]]]:
    """(game, log) of a stored batch or game; a damaged game of a batch has an empty log. Raises NotFound,
    InvalidInput, Unfinished, or CorruptLog for a single game.
    """
    game: str | None = None
    log: list[Event] = []
    async with aclosing(export_lines(settings, what, "full", partial=False)) as texts:
        async for text in texts:
            value = orjson.loads(text)
            if value.get("t") == "export.damaged":
                yield value["game"], []
                continue
            line = log_line(value)
            if line is None:
                continue
            if line[0] != game:
                if game is not None:
                    yield game, log
                game, log = line[0], []
            log.append(line[1])
    if game is not None:
        yield game, log
