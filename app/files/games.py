"""Finished games from files: exports of our own logs, and foreign records.

Files are read as a stream, a few games at a time, so memory does not grow with the number of games.
``bundles`` only finds the lines of each game, by its id; ``games_in`` parses these lines in the process that
counts the game, which may be another one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from app.files.replays import (
    Document,
    FileFault,
    OnRead,
    PassedOver,
    Replayed,
    documents,
    json_fault_of,
    log_line,
    replayed,
)
from engine.errors import UNREADABLE, AvalonError
from engine.events import Event, GameEnded, RolesDealt
from evaluators.errors import Unmeasurable
from evaluators.ground.provenance import PROVENANCE, Provenance
from evaluators.ground.turns import Game, read_game

__all__ = ["Bundle", "Unusable", "bundles", "games_in", "is_ours"]

GAMES: Final = 25
"""Games in a bundle."""

NO_GOLD: Final = "no deal in it: not a full export (export --view full, ?view=full)"
NOT_OVER: Final = "not finished"
DAMAGED: Final = "damaged where it was stored"
INCOMPLETE: Final = "a line of its log cannot be read"


@dataclass(slots=True)
class Bundle:
    """Some whole games, each as the lines of its file."""

    file: str
    lines: list[Document | FileFault | PassedOver] = field(default_factory=list)
    games: int = 0


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a game of a file cannot be used."""

    what: str
    reason: str


_END: Final = b'{"t":"export.end"'
"""The beginning of an export's last line."""

_GAME: Final = re.compile(rb'"game":\s*"([^"\\]+)"')


def bundles(paths: list[str], on_read: OnRead, size: int = GAMES) -> Iterator[Bundle]:
    """The content of the paths, in their order; no game is divided between bundles. Raises OSError for a path
    that does not exist.
    """
    bundle = Bundle("")
    game = b""
    for document in documents(paths, on_read):
        match = _GAME.search(document.text, 0, 400) if isinstance(document, Document) else None
        if match is None and isinstance(document, Document) and document.text.startswith(_END):
            continue
        starts = match is None or match[1] != game
        game = b"" if match is None else match[1]
        file = document.place.file
        if starts and (bundle.games >= size or file != bundle.file):
            if bundle.lines:
                yield bundle
            bundle = Bundle(file)
        bundle.games += starts
        bundle.lines.append(document)
    if bundle.lines:
        yield bundle


def is_ours(document: Document) -> bool:
    """Whether a document is a line of a game of ours, and no foreign record."""
    return _GAME.search(document.text, 0, 400) is not None and b'"schema"' not in document.text[:400]


def games_in(bundle: Bundle) -> Iterator[Game | Unusable]:
    """The finished games of a bundle; in place of anything else in the bundle, the reason why it cannot be
    used.
    """
    log: list[Event] = []
    game_id = ""
    provenance: Provenance | None = None
    torn = incomplete = False  # an unreadable line came last; the game lacks a line

    def finished() -> Game | Unusable:
        return Unusable(game_id, INCOMPLETE) if incomplete else _game(game_id, log, provenance)

    for document in bundle.lines:
        if isinstance(document, FileFault):
            yield Unusable(str(document.place), f"{document.rule}: found {document.found}")
            torn = True
            continue
        if isinstance(document, PassedOver):
            yield Unusable(str(document.place), document.reason)
            continue
        try:
            value = orjson.loads(document.text)
            if isinstance(value, dict) and value.get("t") == "export.damaged":
                yield Unusable(str(value.get("game")), DAMAGED)
                continue
            if isinstance(value, dict) and value.get("type") == PROVENANCE:
                if log:
                    yield finished()
                    log, torn, incomplete = [], False, False
                provenance = Provenance.read(value)
                continue
            line = None if isinstance(value, dict) and "schema" in value else log_line(value)
        except orjson.JSONDecodeError:
            yield Unusable(str(document.place), f"unreadable: {json_fault_of(document.text)}")
            torn = True
            continue
        except AvalonError as fault:
            yield Unusable(str(document.place), f"unreadable: {_first(str(fault))}")
            torn = True
            continue
        if line is None:
            yield _record(document)
            continue
        if line[0] != game_id and log:
            yield finished()
            log, incomplete = [], False
        incomplete |= torn and bool(log)
        torn = False
        game_id = line[0]
        log.append(line[1])
    if log:
        yield finished()


def _first(text: str) -> str:
    return text.partition("\n")[0][:120]


def _record(document: Document) -> Game | Unusable:
    outcome = replayed(document)
    if isinstance(outcome, Replayed):
        return _game(outcome.id, outcome.state.log)
    if isinstance(outcome, PassedOver):
        return Unusable(str(document.place), "neither a game's log nor a record")
    return Unusable(str(outcome.place), f"not a game that the rules allow: {_first(outcome.rule)}")


def _game(game_id: str, log: list[Event], provenance: Provenance | None = None) -> Game | Unusable:
    if not any(isinstance(event, GameEnded) for event in log):
        return Unusable(game_id, NOT_OVER)
    if not any(isinstance(event, RolesDealt) for event in log):
        return Unusable(game_id, NO_GOLD)
    try:
        # A line without seats is a public one, which says no more than the log.
        known = provenance is not None and provenance.game_id == game_id and provenance.catalogue is not None
        return read_game(game_id, log, provenance if known else None)
    except Unmeasurable as reason:
        return Unusable(game_id, _first(str(reason)))
    except (AvalonError, *UNREADABLE):
        return Unusable(game_id, "its log cannot be read")
