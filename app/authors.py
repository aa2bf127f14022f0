"""The authors' run folders on disk, and their games in the store."""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFound
from app.evaluations.judged import judgements_from
from app.exporting import export_lines, needs_database
from app.replays import Fault, NotJson, documents, log_line, parse
from app.services import Services
from app.settings import Settings
from app.store.evaluation_tables import judgements as judgement_table
from app.store.games import NewGame, new_id
from app.store.tables import games as game_table
from engine.events import Event, payload, type_name
from evaluators.authors.run import Files, wanted
from evaluators.authors.taking import Taken
from evaluators.errors import InvalidRun
from evaluators.judgements import Judgement

__all__ = [
    "FORMAT",
    "Stored",
    "judgement_lines",
    "judgements_in_store",
    "log_lines",
    "logs_in_files",
    "logs_in_store",
    "read_folder",
    "read_judgements",
    "store_games",
    "write_folder",
]

FORMAT: Final = "interintent-run"
"""What ``imported_from`` of such a game names beside its folder."""

CHUNK: Final = 50
"""Games stored in one transaction."""


# --- folders ----------------------------------------------------------------------------------------


def read_folder(folder: Path) -> dict[str, bytes]:
    """What of a run folder is theirs, by path. Raises InvalidRun for a folder that cannot be read."""
    if not folder.is_dir():
        raise InvalidRun(
            f"expected a run folder, found {'a file' if folder.exists() else 'nothing'}: {folder}"
        )
    found = {}
    try:
        for place, folders, names in os.walk(folder, onerror=_unread):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(place, name)
                path = file.relative_to(folder).as_posix()
                if wanted(path):
                    found[path] = file.read_bytes()
    except OSError as fault:
        raise InvalidRun(f"{fault.filename}: cannot be read: {fault.strerror}") from None
    return found


def _unread(fault: OSError) -> None:
    raise fault


def write_folder(folder: Path, files: Files) -> int:
    """Writes what is not there yet as it is; returns how many files were written. Raises OSError."""
    written = 0
    for path, content in files.items():
        file = folder.joinpath(*PurePosixPath(path).parts)
        if file.is_file() and file.read_bytes() == content:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        written += 1
    return written


# --- NDJSON -----------------------------------------------------------------------------------------


def log_lines(game_id: str, log: Iterable[Event]) -> bytes:
    """One event a line, as ``simulate --out`` writes them."""
    return b"".join(
        orjson.dumps({"seq": seq, "type": type_name(event), "game": game_id, **payload(event)}) + b"\n"
        for seq, event in enumerate(log, 1)
    )


def judgement_lines(judgements: Iterable[Judgement]) -> bytes:
    return b"".join(orjson.dumps(one) + b"\n" for one in judgements)


def read_judgements(file: Path) -> tuple[Judgement, ...]:
    """What ``judgement_lines`` wrote. Raises InvalidRun, naming the line."""
    found = []
    try:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    found.append(Judgement(**orjson.loads(line)))
                except (orjson.JSONDecodeError, TypeError, ValueError) as fault:
                    raise InvalidRun(f"{file}: line {number}: expected a judgement, found {fault}") from None
    except OSError as fault:
        raise InvalidRun(f"{file}: cannot be read: {fault.strerror}") from None
    return tuple(found)


def logs_in_files(paths: Sequence[str]) -> Iterator[tuple[str, list[Event]]]:
    """(game, log) of NDJSON files of our logs. Raises InvalidRun, CorruptLog or FileNotFoundError."""
    game: str | None = None
    log: list[Event] = []
    for document in documents(paths):
        if isinstance(document, Fault):
            raise InvalidRun(f"{document.place}: expected {document.expected}, found {document.found}")
        try:
            line = log_line(parse(document.text))
        except NotJson as fault:
            raise InvalidRun(f"{document.place}: expected JSON, found {fault}") from None
        if line is None:
            continue
        if line[0] != game:
            if game is not None:
                yield game, log
            game, log = line[0], []
        log.append(line[1])
    if game is not None:
        yield game, log


# --- the store --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of the games of a run."""

    batch: str | None
    """Of the new games; None: there were none."""
    new: tuple[str, ...]
    known: tuple[str, ...]
    """Ids of games that were stored before; nothing was changed."""
    judgements: int
    """Rows of judgements that were written: of selection and of following each its own."""
    judged_before: int
    """Rows that were stored before, as they are."""


async def store_games(settings: Settings, taken: Sequence[Taken]) -> Stored:
    """Stores the games that are not stored yet as one batch of finished games, and their judgements.

    A game's id is a digest of its log, so the same files never make a second game. Judgements are
    stored under the caller ``import`` and their rater; one that a rater gives otherwise now than
    before is stored as its next grade. Raises NotFound where the database cannot be reached.
    """
    services = Services(settings)
    try:
        await services.database.start()
        return await _store(services, taken)
    except IntegrityError:
        # Another process stores the same games: by now they are there.
        return await _store(services, taken)
    except DBAPIError as fault:
        raise NotFound(f"the database cannot be written: {fault.orig}") from None
    except OSError as fault:
        raise NotFound(f"the database cannot be reached: {fault}") from None
    finally:
        await services.database.stop()


async def _store(services: Services, taken: Sequence[Taken]) -> Stored:
    writer = services.database.writer
    batch, at = new_id("b"), writer.stamp()
    new: list[Taken] = []
    rows: list[dict[str, Any]] = []
    given = [row for game in taken for one in game.judgements for row in _judgement_rows(one, at)]

    async def work(connection: AsyncConnection) -> None:
        ids = [game.game_id for game in taken]
        query = select(game_table.c.game_id).where(game_table.c.game_id.in_(ids))
        known = set((await connection.execute(query)).scalars())
        new[:] = [game for game in taken if game.game_id not in known]
        if new:
            await services.store.insert_batch(connection, _batch_row(batch, at, len(new)))
        for first in range(0, len(new), CHUNK):
            laid = [_new_game(game, first + place) for place, game in enumerate(new[first : first + CHUNK])]
            await services.store.insert_games(connection, batch, laid, at)
        rows[:] = await _not_held(connection, ids, given)
        await services.evaluations.store.insert_judgements(connection, rows)

    await writer.run(work)
    stored = tuple(game.game_id for game in new)
    return Stored(
        batch if new else None,
        stored,
        tuple(one.game_id for one in taken if one.game_id not in stored),
        len(rows),
        len(given) - len(rows),
    )


CALLER: Final = "import"
"""Whose judgements those of a run are, beside the rater's own name."""

_KEY: Final = ("game_id", "request_id", "stage", "intention", "dimension", "rater")
_SAID: Final = ("reasonable", "think", "speak")


def _judgement_rows(one: Judgement, at: int) -> list[dict[str, Any]]:
    """What is said of selection and of following, as far as it is said."""
    row = {
        "game_id": one.game_id,
        "request_id": one.request_id,
        "stage": one.stage,
        "intention": one.intention,
        "caller": CALLER,
        "rater": one.rater[:80],
        "grade": 1,
        "at": at,
        "kind": "human",
        "reasonable": None,
        "think": None,
        "speak": None,
    }
    rows = []
    if one.reasonable is not None:
        rows.append(row | {"dimension": "selection", "reasonable": one.reasonable})
    if one.think is not None or one.speak is not None:
        rows.append(row | {"dimension": "following", "think": one.think, "speak": one.speak})
    return rows


async def _not_held(
    connection: AsyncConnection, games: Sequence[str], given: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of the rows that are not stored as they are; with the grade that comes next."""
    table = judgement_table
    query = select(table).where(table.c.game_id.in_(games), table.c.caller == CALLER).order_by(table.c.grade)
    held = {tuple(row[name] for name in _KEY): row for row in (await connection.execute(query)).mappings()}
    fresh = []
    for row in given:
        before = held.get(tuple(row[name] for name in _KEY))
        if before is None:
            fresh.append(row)
        elif any(before[name] != row[name] for name in _SAID):
            fresh.append(row | {"grade": before["grade"] + 1})
    return fresh


def _batch_row(batch: str, at: int, count: int) -> dict[str, Any]:
    return {
        "batch_id": batch,
        "created_at": at,
        "count": count,
        "seed": "0",
        "spec": {"origin": "import"},
        "labels": {},
        "cancelled": False,
    }


def _new_game(game: Taken, position: int) -> NewGame:
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
    """What raters say of a stored game. Raises NotFound where the database cannot be read."""
    needs_database(settings)
    services = Services(settings)
    try:
        return judgements_from(await services.evaluations.store.judgements_of([game_id]))
    except DBAPIError as fault:
        raise NotFound(f"the database cannot be read: {fault.orig}") from None
    finally:
        await services.database.stop()


async def logs_in_store(settings: Settings, what: str) -> AsyncIterator[tuple[str, list[Event]]]:
    """(game, log) of a stored batch or game; no log of one that does not read. Raises NotFound, InvalidInput,
    Unfinished, or CorruptLog for a single game.
    """
    game: str | None = None
    log: list[Event] = []
    async for text in export_lines(settings, what, "full", partial=False):
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
