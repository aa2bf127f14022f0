"""Finished games from files: exports of our own logs, and foreign records.

Files are read as a stream, a few games at a time, so memory does not grow with the number of games.
``bundles`` only finds the lines of each game, by its id; ``games_in`` parses these lines in the process that
counts the game, which may be another one. A game that is given twice is found once; different games with one
id, as two runs of a model on the same deals once had, get names of their own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
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
from engine.events import Event, GameCancelled, GameEnded, RolesDealt
from evaluators.errors import Unmeasurable
from evaluators.ground.provenance import PROVENANCE, Provenance
from evaluators.ground.turns import Game, read_game

__all__ = ["NOT_OVER", "Bundle", "Unusable", "bundles", "games_in", "is_ours"]

GAMES: Final = 25
"""Games in a bundle."""

NO_GOLD: Final = "no deal in it: not a full export (export --view full, ?view=full)"
NOT_OVER: Final = "not finished"
CANCELLED: Final = "cancelled"
DAMAGED: Final = "damaged where it was stored"
INCOMPLETE: Final = "a line of its log cannot be read"
TWICE: Final = "given twice"


@dataclass(slots=True)
class Bundle:
    """Some whole games, each as the lines of its file."""

    file: str
    lines: list[Document | FileFault | PassedOver] = field(default_factory=list)
    games: int = 0
    name: str | None = None
    """What its only game is called, since its id is that of another game; None: each has its id."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a game of a file cannot be used."""

    what: str
    reason: str


_END: Final = b'{"t":"export.end"'
"""The beginning of an export's last line."""

_GAME: Final = re.compile(rb'"game":\s*"([^"\\]+)"')
_TYPE: Final = re.compile(rb'"type":\s*"([^"\\]+)"')
_OPENING: Final = PROVENANCE.encode()
"""The type of a game's first line, which says where it comes from."""

_BEGINNING: Final = 400
"""Bytes of a line in which its game and its type stand."""

_Lines = list[Document | FileFault | PassedOver]


def bundles(paths: list[str], on_read: OnRead, size: int = GAMES) -> Iterator[Bundle]:
    """The content of the paths, in their order; no game is divided between bundles. Raises OSError for a path
    that does not exist.
    """
    bundle = Bundle("")
    known: dict[bytes, list[bytes]] = {}
    for game, lines in _games(documents(paths, on_read)):
        file, name = lines[0].place.file, None
        if (content := _content(lines)) is not None:
            before = known.setdefault(game or content, [])
            if content in before:
                lines = [PassedOver(lines[0].place, TWICE)]
            else:
                before.append(content)
                if len(before) > 1:
                    name = f"{game.decode()} ({len(before)})"
        if bundle.lines and (bundle.games >= size or file != bundle.file or bundle.name or name):
            yield bundle
            bundle = Bundle(file)
        bundle.file, bundle.name = file, name
        bundle.games += 1
        bundle.lines += lines
    if bundle.lines:
        yield bundle


def _games(found: Iterator[Document | FileFault | PassedOver]) -> Iterator[tuple[bytes, _Lines]]:
    """The lines of each game of ours with its id; each foreign record, and all else, with b""."""
    game, lines, has_events = b"", _Lines(), False
    for document in found:
        of = type_ = b""
        if isinstance(document, Document):
            if document.text.startswith(_END):
                continue
            if not _is_record(document):
                of = _in_beginning(_GAME, document)
                type_ = _in_beginning(_TYPE, document)
        if of:
            goes_on = of == game and not (type_ in (_OPENING, b"game_created") and has_events)
        else:
            # A line that cannot be read is one of the game around it.
            goes_on = bool(game) and not _is_record(document)
        if not goes_on or not lines or _file_of(document) != _file_of(lines[0]):
            if lines:
                yield game, lines
            game, lines, has_events = of, [], False
        has_events |= bool(of) and type_ != _OPENING
        lines.append(document)
    if lines:
        yield game, lines


def _file_of(found: Document | FileFault | PassedOver) -> tuple[str, str | None]:
    return found.place.file, found.place.member


def _in_beginning(pattern: re.Pattern[bytes], document: Document) -> bytes:
    match = pattern.search(document.text, 0, _BEGINNING)
    return b"" if match is None else match[1]


def _content(lines: _Lines) -> bytes | None:
    """What tells a whole game from others: a hash of its events or of its record. None: no whole game."""
    digest, types = blake2b(digest_size=16), set()
    for document in lines:
        if not isinstance(document, Document):
            continue
        type_ = b"" if _is_record(document) else _in_beginning(_TYPE, document)
        if type_ != _OPENING:
            types.add(type_)
            digest.update(document.text)
    whole = {b"roles_dealt", b"game_ended"} <= types or (len(lines) == 1 and _is_record(lines[0]))
    return digest.digest() if whole else None


def _is_record(document: Document | FileFault | PassedOver) -> bool:
    """Whether this is a foreign record."""
    return isinstance(document, Document) and b'"schema"' in document.text[:_BEGINNING]


def is_ours(document: Document) -> bool:
    """Whether a document is a line of a game of ours, and no foreign record."""
    return _GAME.search(document.text, 0, _BEGINNING) is not None and not _is_record(document)


def games_in(bundle: Bundle) -> Iterator[Game | Unusable]:
    """The finished games of a bundle; in place of anything else in the bundle, the reason why it cannot be
    used.
    """
    log: list[Event] = []
    game_id = ""
    provenance: Provenance | None = None
    torn = incomplete = False  # an unreadable line came last; the game lacks a line

    def finished() -> Game | Unusable:
        name = bundle.name or game_id
        return Unusable(name, INCOMPLETE) if incomplete else _game(game_id, log, provenance, name)

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


def _game(
    game_id: str, log: list[Event], provenance: Provenance | None = None, name: str | None = None
) -> Game | Unusable:
    name = name or game_id
    if not any(isinstance(event, GameEnded) for event in log):
        is_cancelled = any(isinstance(event, GameCancelled) for event in log)
        return Unusable(name, CANCELLED if is_cancelled else NOT_OVER)
    if not any(isinstance(event, RolesDealt) for event in log):
        return Unusable(name, NO_GOLD)
    try:
        # A line without seats is a public one, which says no more than the log.
        known = provenance is not None and provenance.game_id == game_id and provenance.catalogue is not None
        return read_game(name, log, provenance if known else None)
    except Unmeasurable as reason:
        return Unusable(name, _first(str(reason)))
    except (AvalonError, *UNREADABLE):
        return Unusable(name, "its log cannot be read")
