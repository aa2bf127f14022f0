"""What every command says on the terminal and writes to files: values as they are, faults in one sentence."""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

__all__ = [
    "REFUSED",
    "Output",
    "clean",
    "echo",
    "errors",
    "fail",
    "guarded",
    "note",
    "printable",
    "reason",
    "writing",
]

REFUSED: Final = 2
"""Exit status where nothing was done: wrong arguments, nothing to read, nowhere to write."""

CLOSED: Final = 141
"""Exit status where the reader of the output has gone, as a shell has it for SIGPIPE."""

errors = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def clean(text: str) -> str:
    """On one line, and with nothing in it that a terminal obeys or cannot show."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def printable(text: str, encoding: str | None = None) -> str:
    """What the stream can carry, where the terminal is no UTF-8."""
    into = encoding or "utf-8"
    return text.encode(into, "backslashreplace").decode(into)


def fail(message: str, code: int = REFUSED, *, named: bool = True) -> NoReturn:
    """Says why, behind the program's name if ``named``, and ends the command. Nothing in the message is
    taken for markup.
    """
    said = Text.assemble(("interintent: ", "bold")) if named else Text()
    errors.print(said.append(clean(message)), soft_wrap=True)
    raise typer.Exit(code)


def note(message: str) -> None:
    """A line on standard error, beside the command's own output."""
    errors.print(Text(clean(message)), soft_wrap=True)


def echo(line: str, *, err: bool = False) -> None:
    """A line of output as it is, except for what the stream cannot carry."""
    stream = sys.stderr if err else sys.stdout
    typer.echo(printable(line, stream.encoding), err=err)


class _CannotWrite(Exception):
    """A file that was being written cannot be."""


class Output:
    """A file whose faults cannot be taken for those of what is read meanwhile; those of standard output are
    ``guarded``'s business.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._named = file is not sys.stdout.buffer

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as fault:
            if not self._named or isinstance(fault, BrokenPipeError):
                raise
            raise _CannotWrite(reason(fault)) from None


@contextmanager
def writing(out: Path | None) -> Iterator[Output]:
    """Standard output, or a file that gets its name when it is whole: what fails leaves the old one as it
    was. Ends the command where it cannot be written.
    """
    if out is None:
        yield Output(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        # A device or a pipe has nothing to be put in place of.
        if out.exists() and not out.is_file():
            with out.open("wb") as file:
                yield Output(file)
                file.flush()
            return
        yield from _replacing(out)
    except _CannotWrite as fault:
        fail(f"cannot write {out}: {fault}")


def _replacing(out: Path) -> Iterator[Output]:
    place = Path(os.path.realpath(out))
    try:
        number, name = tempfile.mkstemp(prefix=".interintent-", suffix=".part", dir=place.parent)
    except OSError as fault:
        raise _CannotWrite(reason(fault)) from None
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            yield Output(file)
            try:
                file.flush()
                os.fsync(file.fileno())
                part.chmod(_mode(place))
                part.replace(place)
            except OSError as fault:
                raise _CannotWrite(reason(fault)) from None
    finally:
        part.unlink(missing_ok=True)


def _mode(place: Path) -> int:
    """As the file has it already, or as a new one gets it."""
    with suppress(OSError):
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def reason(fault: OSError) -> str:
    return fault.strerror or type(fault).__name__


def guarded(command: Callable[[], object]) -> None:
    """Runs the command line. What it cannot write, or read, is one sentence; what breaks in it is told by
    its place alone, since the message of a fault may quote what players said.
    """
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        raise SystemExit(CLOSED) from None
    except OSError as fault:
        _silence()
        where = "" if fault.filename is None else f"{os.fsdecode(fault.filename)}: "
        _end(f"{where}{reason(fault)}", REFUSED)
    except Exception as fault:
        last = traceback.extract_tb(fault.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        _end(f"something broke on our side: {type(fault).__name__} in {place}", 1)


def _end(message: str, code: int) -> NoReturn:
    with suppress(typer.Exit):
        fail(message)
    raise SystemExit(code) from None


def _silence() -> None:
    """Nobody takes what is still to be written; Python would try again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
