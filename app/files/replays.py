"""Reads records and logs from files, directories, archives and standard input.

Everything is read as a stream and nothing is unpacked to disk, so an archive of a million records takes only
the memory of its largest record. Whatever cannot be read becomes a ``FileFault`` with its place; an exception
is raised only for a path that does not exist.
"""

import codecs
import errno
import gzip
import json
import os
import re
import stat
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, NoReturn, cast

from app.base.zips import DamagedZip, unpacking
from engine.errors import AvalonError, IllegalRecord, InvalidRecord
from engine.events import Event, read_event
from engine.foreign.record import SCHEMA
from engine.foreign.replay import read_record, replay
from engine.state import State
from evaluators.ground.provenance import PROVENANCE
from evaluators.ground.thought_places import without_place
from evaluators.json_faults import json_fault

__all__ = [
    "MAX_DOCUMENT",
    "PACKED",
    "Document",
    "FileFault",
    "NotJson",
    "PassedOver",
    "Place",
    "Replayed",
    "documents",
    "files_in",
    "json_fault_of",
    "log_line",
    "parse",
    "replayed",
    "sizes",
]

MAX_DOCUMENT: Final = 64 << 20
"""The most bytes of a record, whether a file, a line or a member of an archive; a real one has 50,000."""

MAX_HEADER: Final = 1 << 20
"""The most bytes of an archive's extended header, which tarfile reads whole."""

_LINES: Final = (".ndjson", ".jsonl")
_ARCHIVES: Final = (".tar.gz", ".tgz")
_DOCUMENTS: Final = (".json", *_LINES)
_PACKED: Final = (".gz", ".tgz", ".zip", ".tar", ".bz2", ".xz", ".zst", ".7z")
_SCANNED: Final = (*_DOCUMENTS, *(f"{ending}.gz" for ending in _DOCUMENTS), *_ARCHIVES, ".tar", ".zip")


class Place(NamedTuple):
    """Where a record is."""

    file: str
    """The file's path, as given or found; ``-`` for standard input."""
    member: str | None = None
    """The name within an archive."""
    line: int | None = None
    """From 1, in NDJSON."""
    item: int | None = None
    """From 1, in a JSON list."""

    def __str__(self) -> str:
        member = "" if self.member is None else f"!{self.member}"
        line = "" if self.line is None else f":{self.line}"
        item = "" if self.item is None else f"[{self.item}]"
        return f"{self.file}{member}{line}{item}"


class Document(NamedTuple):
    """The bytes of what should be one record."""

    place: Place
    text: bytes
    discovered: bool
    """Whether it comes from a directory or an archive. The user did not name it then, so it may be something
    else.
    """


@dataclass(frozen=True, slots=True)
class FileFault:
    """Why a document gives no game: one line of the output of ``replay check``."""

    place: Place
    rule: str
    expected: str
    found: str
    move: int | None = None
    """The number of the wrong move, from 1; None if no single move is wrong."""
    record: str | None = None
    """The record's id; None if it has no readable id."""
    quest: int | None = None
    """The quest that the game had reached; None if the set-up is wrong, or nothing can be read."""
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A member of a directory or an archive that is plainly not a record."""

    place: Place
    reason: str


PACKED: Final = "packed once more: unpack it first"


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record that follows the rules, as a finished game."""

    place: Place
    id: str
    state: State


# --- from paths to documents ------------------------------------------------------------------------

OnRead = Callable[[int], None]
"""Called with the number of bytes read since the last call, for a progress bar."""


def _ignored(_: int) -> None:
    return None


def sizes(paths: Iterable[str]) -> int | None:
    """Bytes that ``documents`` will report as read; None with standard input among the paths.

    Raises OSError, which names all paths that do not exist, and for a directory that cannot be listed.
    """
    paths = list(paths)
    if missing := [path for path in paths if path != "-" and not os.path.lexists(path)]:
        raise _missing(*missing)
    total: int | None = 0
    for path in paths:
        if path == "-":
            total = None
            continue
        for file in files_in(path):
            total = None if total is None else total + file.stat().st_size
    return total


def documents(
    paths: Iterable[str], on_read: OnRead = _ignored
) -> Iterator[Document | FileFault | PassedOver]:
    """The content of the paths, in the order given; of directories, in the order of their names.

    The bytes of a file decide what it is. gzip, zip and tar are opened, whatever their name. Text is one JSON
    document, a JSON list of documents, or (except in a ``.json``) one document on each line. Its encoding is
    UTF-8 or, with a byte order mark, UTF-16 or UTF-32.

    In a directory, files with the endings of ``_SCANNED`` are read, at any depth; hidden files and links to
    directories are left out. In an archive, members with the endings of ``_DOCUMENTS`` are read; packed
    members are passed over and named. ``-`` is standard input. Raises FileNotFoundError for paths that do not
    exist.
    """
    for path in paths:
        if path == "-":
            yield from _opened(cast(IO[bytes], sys.stdin.buffer), Place("-"), False, on_read)
            continue
        discovered = Path(path).is_dir()
        for file in files_in(path):
            yield from _file(file, discovered, on_read)


def files_in(path: str) -> Iterator[Path]:
    """The path itself or, of a directory, the files that ``documents`` reads in it. Raises OSError."""
    named = Path(path)
    if not named.exists():
        raise _missing(path)
    if not named.is_dir():
        yield named
        return
    for folder, folders, names in os.walk(named, onerror=_unread):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and name.endswith(_SCANNED) and stat.S_ISREG(_mode(file)):
                yield file


def _missing(*paths: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), ", ".join(paths))


def _unread(fault: OSError) -> NoReturn:
    # os.walk would silently leave out the directory.
    raise fault


def _mode(file: Path) -> int:
    try:
        return file.stat().st_mode
    except OSError:  # a link to nowhere
        return 0


def _file(file: Path, discovered: bool, on_read: OnRead) -> Iterator[Document | FileFault | PassedOver]:
    place = Place(str(file))
    try:
        with file.open("rb") as source:
            yield from _opened(source, place, discovered, on_read)
    except OSError as fault:
        yield FileFault(place, "reading", "a readable file", fault.strerror or type(fault).__name__)


class _Started:
    """A source of bytes that shows its beginning without consuming it, and reports how much was read."""

    def __init__(self, source: IO[bytes], on_read: OnRead = _ignored) -> None:
        self._source = source
        self._on_read = on_read
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (part := self._source.read(size - len(self._ahead))):
            self._ahead += part
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        part, self._ahead = (self._ahead, b"") if size < 0 else (self._ahead[:size], self._ahead[size:])
        if size < 0 or len(part) < size:
            part += self._source.read(size if size < 0 else size - len(part))
        self._on_read(len(part))
        return part


_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_AT: Final = 257
_TAR: Final = b"ustar"


def _opened(
    source: IO[bytes], place: Place, discovered: bool, on_read: OnRead
) -> Iterator[Document | FileFault | PassedOver]:
    """The content of a file, packed or not."""
    started = _Started(source, on_read)
    head = started.peek(_TAR_AT + len(_TAR))
    if head.startswith(_ZIP):
        yield from _zip(source, place, on_read)
    elif head.startswith(_GZIP):
        yield from _gzip(started, place, discovered)
    elif head[_TAR_AT:] == _TAR:
        yield from _tar(started, place)
    elif place.file.endswith(_ARCHIVES):
        yield FileFault(place, "reading", "a whole .tar.gz archive", "no gzip")
    else:
        yield from _text(started, place, discovered)


def _gzip(packed: _Started, place: Place, discovered: bool) -> Iterator[Document | FileFault | PassedOver]:
    try:
        with gzip.GzipFile(fileobj=cast(IO[bytes], packed)) as plain:
            inner = _Started(cast(IO[bytes], plain))
            head = inner.peek(_TAR_AT + len(_TAR))
            named = place.file.lower().endswith(_ARCHIVES)
            if head[_TAR_AT:] == _TAR or (named and head.lstrip()[:1] not in (b"{", b"[")):
                whole = True
                for document in _tar(inner, place):
                    whole = whole and not (isinstance(document, FileFault) and document.place == place)
                    yield document
                # The checksum of the compressed file comes after the end of the archive.
                while whole and plain.read(1 << 16):
                    pass
            elif head.startswith((_GZIP, *_ZIP)):
                yield PassedOver(place, PACKED)
            else:
                yield from _text(inner, place, discovered)
    except _PACKING as fault:
        wanted = "a whole .tar.gz archive" if place.file.endswith(_ARCHIVES) else "a whole gzip file"
        yield FileFault(place, "reading", wanted, _why(fault))


_PACKING: Final = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


def _why(fault: BaseException | None) -> str:
    return str(fault) or type(fault).__name__


def _zip(source: IO[bytes], place: Place, on_read: OnRead) -> Iterator[Document | FileFault | PassedOver]:
    try:
        if not source.seekable():
            yield FileFault(
                place, "reading", "a zip archive that is named, not sent through a pipe", "a pipe"
            )
            return
        with unpacking(), zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                on_read(member.compress_size)
                here = Place(place.file, member.filename)
                if not member.filename or member.is_dir():
                    continue
                if _is_packed(member.filename):
                    yield PassedOver(here, PACKED)
                if not _wanted(member.filename):
                    continue
                try:
                    with unpacking(), archive.open(member) as plain:
                        yield from _text(_Started(plain), here, True)
                except DamagedZip as fault:
                    yield FileFault(here, "reading", "a member that can be unpacked", _why(fault.__cause__))
    except DamagedZip as fault:
        yield FileFault(place, "reading", "a whole zip archive", _why(fault.__cause__))


def _wanted(name: str) -> bool:
    return name.endswith(_DOCUMENTS) and not _is_hidden(name)


def _is_packed(name: str) -> bool:
    return name.lower().endswith(_PACKED) and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".")


_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class _Utf8:
    """Converts text in another encoding, or with a byte order mark, to plain UTF-8."""

    def __init__(self, source: _Started, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int = -1) -> bytes:
        # A call may return more than was asked for; ``_Lines`` counts what it takes.
        while part := self._source.read(max(size, 4)):
            if text := self._decoder.decode(part):
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()


class _Lines:
    """Reads lines from a source that cannot be rewound, and can look ahead without consuming anything."""

    def __init__(self, source: "_Started | _Utf8") -> None:
        self._source = source
        self._rest = b""
        self._at = 0
        """The bytes of ``_rest`` that are consumed."""
        self._over = False

    def fill(self, size: int) -> bytes:
        """Reads until at least ``size`` bytes are waiting to be consumed, or the source ends. Returns the
        waiting bytes, without consuming any.
        """
        parts = [self._rest[self._at :]]
        ahead = len(parts[0])
        while ahead < size and not self._over:
            part = self._source.read(_BLOCK)
            self._over = not part
            parts.append(part)
            ahead += len(part)
        self._rest, self._at = b"".join(parts), 0
        return self._rest

    def drop(self, size: int) -> None:
        self._at += size

    def line(self) -> bytes:
        """The next line with its line end; empty at the end. A line of more than ``MAX_DOCUMENT`` bytes is
        cut one byte beyond, so that the caller can see that it is too long.
        """
        size = _BLOCK
        seen = self._at
        while not (end := self._rest.find(b"\n", seen) + 1):
            searched = len(self._rest) - self._at
            ahead = self.fill(size)
            if len(ahead) > MAX_DOCUMENT or self._over:
                end = ahead.find(b"\n", searched) + 1 or len(ahead)
                break
            seen, size = searched, 2 * size
        start = self._at
        self._at = min(end, start + MAX_DOCUMENT + 1)
        return self._rest[start : self._at]


_BLOCK: Final = 1 << 16


def _text(source: _Started, place: Place, discovered: bool) -> Iterator[Document | FileFault]:
    """The documents of a text: a list of documents, one a line, or a single one."""
    head = source.peek(4)
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    lines = _Lines(source if encoding is None else _Utf8(source, encoding))
    try:
        start = lines.fill(_BLOCK)
        name = place.file if place.member is None else place.member
        by_line = place.file == "-" or name.removesuffix(".gz").endswith(_LINES)
        is_json = name.removesuffix(".gz").endswith(".json")
        first, _, rest = start.lstrip().partition(b"\n")
        objects = start.lstrip()[1:].lstrip()[:1] == b"{"
        if first[:1] == b"[" and first[1:].lstrip()[:1] in (b"{", b"") and objects:
            yield from _list(lines, place, discovered)
        elif (by_line and first.strip() != b"{") or (not is_json and rest.strip() and _is_json(first)):
            yield from _by_line(lines, place, discovered)
        else:
            yield _whole(lines, place, discovered)
    except UnicodeDecodeError as fault:
        yield FileFault(place, "JSON", "JSON", f"invalid {fault.encoding}: {fault.reason}")


def _is_json(text: bytes) -> bool:
    if text[:1] != b"{":
        return False
    try:
        parse(text)
    except NotJson:
        return False
    return True


def _whole(lines: _Lines, place: Place, discovered: bool) -> Document | FileFault:
    text = lines.fill(MAX_DOCUMENT + 1)
    if len(text) > MAX_DOCUMENT:
        return _too_large(place)
    lines.drop(len(text))
    return Document(place, text, discovered)


def _by_line(lines: _Lines, place: Place, discovered: bool) -> Iterator[Document | FileFault]:
    number = 0
    while line := lines.line():
        number += 1
        here = Place(place.file, place.member, number)
        if len(line) > MAX_DOCUMENT:
            yield _too_large(here)
            while line and not line.endswith(b"\n"):
                line = lines.line()
        elif line.strip():
            # Files that were joined have a mark at the beginning of each.
            yield Document(here, line.removeprefix(codecs.BOM_UTF8), discovered)


_SPLITTER: Final = json.JSONDecoder()
_BETWEEN: Final = re.compile(rb"\s*,?\s*")


def _list(lines: _Lines, place: Place, discovered: bool) -> Iterator[Document | FileFault]:
    """The elements of a JSON list, each as soon as it has been read."""
    number = 0
    ahead = lines.fill(_BLOCK)
    lines.drop(ahead.index(b"[") + 1)
    while True:
        ahead = lines.fill(_BLOCK)
        lines.drop(len(_BETWEEN.match(ahead)[0]))  # type: ignore[index]
        ahead = lines.fill(1)
        if ahead[:1] == b"]":
            lines.drop(1)
            if lines.fill(_BLOCK).strip():
                yield FileFault(place, "JSON", "the end of the file after its list", "more")
            return
        number += 1
        here = Place(place.file, place.member, item=number)
        size = _BLOCK
        while (end := _element(ahead)) is None and len(ahead) >= size and size <= MAX_DOCUMENT:
            size *= 2
            ahead = lines.fill(size)
        if end is None:
            yield (
                _too_large(here)
                if size > MAX_DOCUMENT
                else FileFault(here, "JSON", "JSON", "a list cut short")
            )
            return
        yield Document(here, ahead[:end], discovered)
        lines.drop(end)


def _element(text: bytes) -> int | None:
    """The end of the JSON value at the beginning of these bytes; None if they do not hold all of it."""
    try:
        # A character of several bytes may be cut at the end.
        plain = text.decode("utf-8", "surrogateescape")
        _, end = _SPLITTER.raw_decode(plain)
    except (ValueError, RecursionError):
        return None
    return len(plain[:end].encode("utf-8", "surrogateescape"))


def _too_large(place: Place) -> FileFault:
    return FileFault(place, "size", f"at most {MAX_DOCUMENT >> 20} MiB", "more")


class _Unreadable(Exception):
    """The rest of an archive cannot be read."""


class _Header(tarfile.TarInfo):
    """A header in an archive. Raises _Unreadable where tarfile would silently end the archive."""

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


def _tar(plain: _Started, place: Place) -> Iterator[Document | FileFault | PassedOver]:
    try:
        with tarfile.open(fileobj=cast(IO[bytes], plain), mode="r|", tarinfo=_Header) as archive:
            for member in archive:
                archive.members = []  # type: ignore[attr-defined]  # else it keeps every header
                if member.isfile() and _is_packed(member.name):
                    yield PassedOver(Place(place.file, member.name), PACKED)
                if member.isfile() and _wanted(member.name) and (source := archive.extractfile(member)):
                    here = Place(place.file, member.name)
                    large = member.size > MAX_DOCUMENT and not member.name.endswith(_LINES)
                    yield from [_too_large(here)] if large else _text(_Started(source), here, True)
    except (*_PACKING, _Unreadable, ValueError) as fault:
        yield FileFault(place, "reading", "a whole .tar.gz archive", _why(fault))


# --- from documents to games ------------------------------------------------------------------------


class NotJson(ValueError):
    """The text is not JSON, or two readers would read it differently."""


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name}, which is not a JSON number")


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise NotJson(f"an object has the key {ascii(twice)[:60]} twice")
    return read


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant)


def parse(text: bytes) -> Any:
    """The JSON value in these bytes. Raises NotJson, whose message says what was found instead.

    This is not the service's own reader, which refuses more (control characters, depth) and is slower than
    the replay itself.
    """
    try:
        return _DECODER.decode(text.decode("utf-8-sig"))
    except NotJson:
        raise
    except (ValueError, RecursionError) as fault:
        raise NotJson(json_fault(fault)) from None


def json_fault_of(text: bytes) -> str:
    """Says what was found in place of JSON; ``no JSON`` if only a stricter reader refuses the text."""
    try:
        parse(text)
    except NotJson as fault:
        return str(fault)
    return "no JSON"


def replayed(document: Document) -> Replayed | FileFault | PassedOver:
    """The game of a document, or the reason why there is none."""
    place = document.place
    try:
        value = parse(document.text)
    except NotJson as fault:
        return FileFault(place, "JSON", "JSON", str(fault))
    if document.discovered and _something_else(value):
        return PassedOver(place, "not an avalon-replay record")
    try:
        record = read_record(value)
        return Replayed(place, record.id, replay(record))
    except InvalidRecord as fault:
        expected, _, found = str(fault).removeprefix("expected ").partition(", found ")
        rule, move = f"form at {fault.pointer or '/'}", _move_of(fault.pointer)
        quest, attempt = (None, None) if move is None else _reached(value["moves"], move)
        return FileFault(place, rule, expected, found, move, _id_of(value), quest, attempt)
    except IllegalRecord as fault:
        return FileFault(
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
        return FileFault(place, "rules", "a legal game", str(fault), record=_id_of(value))


def _id_of(value: Any) -> str | None:
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if isinstance(id_, str) else None


def _reached(moves: list[Any], number: int) -> tuple[int, int]:
    """The quest and the attempt of a move that cannot be read, according to that move and those before it."""
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
    """Whether the value neither claims to be a record nor looks like a broken one."""
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
    """(game, event) of one line of an export; None for a line that is not an event, such as the last one or
    a game's provenance.

    Raises CorruptLog for a line that claims to be an event but is not a valid one.
    """
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or value["type"] == PROVENANCE:
        return None
    payload = {key: inner for key, inner in value.items() if key not in _ENVELOPE}
    return str(value.get("game", "")), read_event(value["type"], without_place(value["type"], payload))
