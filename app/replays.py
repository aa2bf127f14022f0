"""Where records and logs are read from: files, directories, archives, standard input.

Everything is read as a stream and nothing is unpacked to disk, so that an archive of a million
records takes the memory of its largest one. Whatever cannot be read becomes a ``Fault`` with its
place; only a path that is not there is raised.
"""

import gzip
import json
import os
import stat
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from engine.errors import AvalonError, IllegalRecord, InvalidRecord
from engine.events import Event, read_event
from engine.record import SCHEMA
from engine.replay import read_record, replay
from engine.state import State

__all__ = [
    "MAX_DOCUMENT",
    "Document",
    "Fault",
    "NotJson",
    "PassedOver",
    "Place",
    "Replayed",
    "documents",
    "log_line",
    "parse",
    "replayed",
    "sizes",
]

MAX_DOCUMENT: Final = 64 << 20
"""Bytes of one record, whether a file, a line or an archive's member; a real one has 50,000."""

MAX_HEADER: Final = 1 << 20
"""Bytes of an archive's extended header: tarfile reads it whole."""

_LINES: Final = (".ndjson", ".jsonl")
_ARCHIVES: Final = (".tar.gz", ".tgz")
_SCANNED: Final = (".json", *_LINES, *_ARCHIVES)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands."""

    file: str
    """As given or found; ``-`` for standard input."""
    member: str | None = None
    """Its name within an archive."""
    line: int | None = None
    """From 1, in NDJSON."""

    def __str__(self) -> str:
        member = "" if self.member is None else f"!{self.member}"
        line = "" if self.line is None else f":{self.line}"
        return f"{self.file}{member}{line}"


@dataclass(frozen=True, slots=True)
class Document:
    """The bytes of what should be one record."""

    place: Place
    text: bytes
    found: bool
    """It was come upon in a directory or an archive, not named: it may be something else."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no game: one line of ``replay check``."""

    place: Place
    rule: str
    expected: str
    found: str
    move: int | None = None
    """From 1; None where no single move is to blame."""
    record: str | None = None
    """Its id, where it has one that can be read."""
    quest: int | None = None
    """That the game had reached; None where the set-up is at fault, or nothing can be read."""
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Something found in a directory or an archive that is plainly not a record."""

    place: Place


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record that follows the rules, as a finished game."""

    place: Place
    id: str
    state: State


# --- from paths to documents ------------------------------------------------------------------------

OnRead = Callable[[int], None]
"""Told how many more bytes of the paths have been read, for a progress bar."""


def _ignored(_: int) -> None:
    return None


def sizes(paths: Iterable[str]) -> int | None:
    """Bytes that ``documents`` will report as read; None with standard input among the paths.

    Raises OSError for a path that is not there and for a directory that cannot be listed.
    """
    total: int | None = 0
    for path in paths:
        if path == "-":
            total = None
            continue
        for file in _files(path):
            total = None if total is None else total + file.stat().st_size
    return total


def documents(paths: Iterable[str], on_read: OnRead = _ignored) -> Iterator[Document | Fault]:
    """Everything that the paths hold, in the order given; directories in the order of their names.

    A directory gives its ``.json``, ``.ndjson``, ``.jsonl``, ``.tar.gz`` and ``.tgz`` files, whatever
    their depth; hidden files and links to directories are left out. An archive gives its members by
    the same endings. A file that is named is read as JSON unless its ending says otherwise; ``-`` is
    NDJSON from standard input. Raises FileNotFoundError for a path that is not there.
    """
    for path in paths:
        if path == "-":
            yield from _lines(sys.stdin.buffer, Place("-"), False, on_read)
            continue
        found = Path(path).is_dir()
        for file in _files(path):
            yield from _file(file, found, on_read)


def _files(path: str) -> Iterator[Path]:
    named = Path(path)
    if not named.exists():
        raise FileNotFoundError(path)
    if not named.is_dir():
        yield named
        return
    for folder, folders, names in os.walk(named, onerror=_unread):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and name.endswith(_SCANNED) and stat.S_ISREG(_mode(file)):
                yield file


def _unread(fault: OSError) -> NoReturn:
    # os.walk would leave the directory out without a word.
    raise fault


def _mode(file: Path) -> int:
    try:
        return file.stat().st_mode
    except OSError:  # a link to nowhere
        return 0


def _file(file: Path, found: bool, on_read: OnRead) -> Iterator[Document | Fault]:
    place = Place(str(file))
    try:
        with file.open("rb") as source:
            if file.name.endswith(_ARCHIVES):
                yield from _archive(source, place, on_read)
            elif file.name.endswith(_LINES):
                yield from _lines(source, place, found, on_read)
            else:
                yield _whole(source, place, found, on_read)
    except OSError as fault:
        yield Fault(place, "reading", "a readable file", fault.strerror or type(fault).__name__)


def _whole(source: IO[bytes], place: Place, found: bool, on_read: OnRead) -> Document | Fault:
    text = source.read(MAX_DOCUMENT + 1)
    on_read(len(text))
    if len(text) > MAX_DOCUMENT:
        return _too_large(place)
    return Document(place, text, found)


def _lines(source: IO[bytes], place: Place, found: bool, on_read: OnRead) -> Iterator[Document | Fault]:
    number = 0
    while line := source.readline(MAX_DOCUMENT + 1):
        number += 1
        on_read(len(line))
        here = Place(place.file, place.member, number)
        if len(line) > MAX_DOCUMENT:
            yield _too_large(here)
            while line and not line.endswith(b"\n"):
                line = source.readline(MAX_DOCUMENT)
                on_read(len(line))
        elif line.strip():
            yield Document(here, line, found)


def _too_large(place: Place) -> Fault:
    return Fault(place, "size", f"at most {MAX_DOCUMENT >> 20} MiB", "more")


class _Unreadable(Exception):
    """An archive that cannot be read on."""


class _Header(tarfile.TarInfo):
    """An archive's header, refused where tarfile would end the archive without a word."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> "_Header":
        try:
            header = super().frombuf(buf, encoding or "utf-8", errors)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as fault:  # type: ignore[attr-defined]
            raise _Unreadable(str(fault)) from None
        if header.type in _EXTENDED and header.size > MAX_HEADER:
            raise _Unreadable(f"an extended header of {header.size} bytes")
        return header


_EXTENDED: Final = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)


class _Counted:
    """A file that reports how far it has been read."""

    def __init__(self, source: IO[bytes], on_read: OnRead) -> None:
        self._source = source
        self._on_read = on_read

    def read(self, size: int = -1) -> bytes:
        part = self._source.read(size)
        self._on_read(len(part))
        return part


def _archive(source: IO[bytes], place: Place, on_read: OnRead) -> Iterator[Document | Fault]:
    counted: Any = _Counted(source, on_read)
    try:
        with (
            gzip.GzipFile(fileobj=counted) as plain,
            tarfile.open(fileobj=plain, mode="r|", tarinfo=_Header) as archive,
        ):
            for member in archive:
                archive.members = []  # type: ignore[attr-defined]  # else it keeps every header
                base = member.name.rpartition("/")[2]
                if member.isfile() and not base.startswith("."):
                    yield from _member(archive, member, Place(place.file, member.name))
            # The archive ends before the checksum of its compressed whole does.
            while plain.read(1 << 16):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, _Unreadable, ValueError) as fault:
        yield Fault(place, "reading", "a whole .tar.gz archive", str(fault) or type(fault).__name__)


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Place) -> Iterator[Document | Fault]:
    if not member.name.endswith((".json", *_LINES)):
        return
    source = archive.extractfile(member)
    if source is None:
        return
    if member.name.endswith(_LINES):
        yield from _lines(source, place, True, _ignored)
    elif member.size > MAX_DOCUMENT:
        yield _too_large(place)
    else:
        yield _whole(source, place, True, _ignored)


# --- from documents to games ------------------------------------------------------------------------


class NotJson(ValueError):
    """Not JSON, or JSON that two readers would read differently."""


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name}, which is no JSON number")


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise NotJson(f"the key {ascii(twice)[:60]} twice in an object")
    return read


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant)


def parse(text: bytes) -> Any:
    """The JSON value in these bytes. Raises NotJson, whose message says what was found instead.

    Not the service's own reader, which refuses more (control characters, depth) and is slower than
    the replay itself.
    """
    try:
        return _DECODER.decode(text.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise NotJson(f"no UTF-8 at byte {fault.start}") from None
    except json.JSONDecodeError as fault:
        raise NotJson(f"{fault.msg} at line {fault.lineno}, column {fault.colno}") from None
    except RecursionError:
        raise NotJson("values nested too deep") from None
    except NotJson:
        raise
    except ValueError:  # a whole number of thousands of digits
        raise NotJson("a number of too many digits") from None


def replayed(document: Document) -> Replayed | Fault | PassedOver:
    """The game that a document tells, or why there is none."""
    place = document.place
    try:
        value = parse(document.text)
    except NotJson as fault:
        return Fault(place, "JSON", "JSON", str(fault))
    if document.found and _something_else(value):
        return PassedOver(place)
    try:
        record = read_record(value)
        return Replayed(place, record.id, replay(record))
    except InvalidRecord as fault:
        expected, _, found = str(fault).removeprefix("expected ").partition(", found ")
        rule, move = f"form at {fault.pointer or '/'}", _move_of(fault.pointer)
        quest, attempt = (None, None) if move is None else _reached(value["moves"], move)
        return Fault(place, rule, expected, found, move, _id_of(value), quest, attempt)
    except IllegalRecord as fault:
        return Fault(
            place,
            fault.rule,
            fault.expected,
            fault.found,
            fault.move,
            fault.record,
            fault.quest,
            fault.attempt,
        )
    except AvalonError as fault:
        return Fault(place, "rules", "a legal game", str(fault), record=_id_of(value))


def _id_of(value: Any) -> str | None:
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if isinstance(id_, str) else None


def _reached(moves: list[Any], number: int) -> tuple[int, int]:
    """Quest and attempt of a move that does not read, by what it and the moves before it say."""
    quest = attempt = 1
    for move in moves[:number]:
        if not isinstance(move, dict):
            continue
        if move.get("quest") in _PARTS and move["quest"] != quest:
            quest, attempt = int(move["quest"]), 1
        if move.get("attempt") in _PARTS:
            attempt = int(move["attempt"])
    return quest, attempt


_PARTS: Final = (1, 2, 3, 4, 5)


def _something_else(value: Any) -> bool:
    """Neither says that it is a record nor looks like a broken one."""
    if not isinstance(value, dict):
        return True
    schema = value.get("schema")
    named = isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0])
    return not named and "moves" not in value


def _move_of(pointer: str) -> int | None:
    parts = pointer.split("/")
    return int(parts[2]) + 1 if len(parts) > 2 and parts[1] == "moves" else None


# --- our own logs -----------------------------------------------------------------------------------

_ENVELOPE: Final = frozenset({"seq", "at", "type", "game"})


def log_line(value: Any) -> tuple[str, Event] | None:
    """(game, event) of one line of an export; None for a line that is no event (its closing line).

    Raises CorruptLog for a line that says it is an event and is none.
    """
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None
    payload = {key: inner for key, inner in value.items() if key not in _ENVELOPE}
    return str(value.get("game", "")), read_event(value["type"], payload)
