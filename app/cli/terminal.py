"""Output of all commands: values unchanged, faults in one sentence, files written whole."""

import os
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import requires
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import orjson
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from app.store.rows import Outage

__all__ = [
    "REFUSED",
    "Output",
    "byte_bar",
    "checked",
    "clean",
    "count_bar",
    "echo",
    "end_with_damaged",
    "fail",
    "fail_reading",
    "guarded",
    "install_command",
    "note",
    "partial_of",
    "print_json",
    "reason",
    "refuse_link",
    "share_bar",
    "waiting_words",
    "work_bar",
    "writing",
]

REFUSED: Final = 2
"""Exit status if nothing was done: wrong arguments, nothing to read, nowhere to write."""

CLOSED: Final = 141
"""Exit status if the reader of the output has closed it; shells give the same for SIGPIPE."""

_errors = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def clean(text: str) -> str:
    """The text on one line, with characters escaped that a terminal would interpret or could not show."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def fail(message: str, *, named: bool = True) -> NoReturn:
    """Prints the message, after the program's name if ``named``, and ends the command with status 2. Markup
    in the message is not interpreted.
    """
    line = Text.assemble(("interintent: ", "bold")) if named else Text()
    _errors.print(line.append(clean(message)), soft_wrap=True)
    raise typer.Exit(REFUSED)


def install_command(extra: str) -> str:
    """What installs an extra beside the interpreter that runs now: from the checkout that runs, or else its
    packages by name. No index has the service itself.
    """
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    root = Path(__file__).parents[2]
    if (root / "pyproject.toml").is_file():
        return f"{pip} -e {shlex.quote(f'{root}[{extra}]')}"
    ours = re.compile(rf"(.+?) ?; ?extra == .{extra}.")
    named = (ours.fullmatch(line) for line in requires("interintent-server") or ())
    return " ".join([pip, *(shlex.quote(found[1]) for found in named if found)])


def checked(option: str, text: str, check: Callable[[str], str]) -> str:
    """The text given for an option. Ends the command with the words of a check that refuses the text."""
    try:
        return check(text)
    except ValueError as fault:
        fail(f"{option}: {fault}")


def note(message: str) -> None:
    """Prints a line on standard error."""
    _errors.print(Text(clean(message)), soft_wrap=True)


def echo(line: str, *, err: bool = False) -> None:
    """Prints a line; characters that the stream's encoding does not have are escaped."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    typer.echo(line.encode(encoding, "backslashreplace").decode(encoding), err=err)


def print_json(value: Any) -> None:
    """Prints a value on standard output as indented JSON."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def end_with_damaged(names: Collection[str]) -> None:
    """Names the damaged rows that were left out, and ends the command with status 1 if there are any."""
    for name in names:
        note(f"{name} is damaged and left out")
    if names:
        raise typer.Exit(1)


def waiting_words(outages: "Iterable[Outage]") -> str:
    """That models are waited for, which, and what to check; empty without outages."""
    named = ", ".join(
        f"{one.endpoint} ({'connection refused' if one.cause == 'refused' else one.cause})" for one in outages
    )
    return (
        f"WAITING for an answer from {named}: check base_url and network; Ctrl-C loses nothing"
        if named
        else ""
    )


@contextmanager
def _bar(title: str, total: int | None, *columns: ProgressColumn) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar on a terminal; prints nothing elsewhere."""
    with Progress(
        TextColumn(title, markup=False),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=_errors,
        disable=not _errors.is_terminal,
        # Lines for a pipe must not go to the terminal, and lines for the terminal must not break the bar.
        redirect_stdout=sys.stdout.isatty(),
        transient=True,
    ) as bar:
        yield bar, bar.add_task(title, total=total, words="")


@contextmanager
def count_bar(title: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for a count. Yields a function that takes the number done and the total number."""
    with _bar(title, total, MofNCompleteColumn()) as (bar, task):
        yield lambda done, of: bar.update(task, completed=done, total=of)


_LINE_S: Final = 30.0
"""Seconds between two lines of progress where there is no terminal, as in the log of a cluster's job."""


@contextmanager
def work_bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with words beside it; elsewhere than on a terminal, a line from time to time. Yields a
    function that takes the number of calls done, the number expected, and the words.
    """
    last = time.monotonic()
    shown = ""

    def line(done: int, of: int, words: str) -> None:
        nonlocal last, shown
        if (
            time.monotonic() - last >= _LINE_S
            and (words := f"calls {done:,} of about {of:,}, {words}") != shown
        ):
            last, shown = time.monotonic(), words
            note(f"{title}: {words}")

    if not _errors.is_terminal:
        yield line
        return
    with _bar(title, None, MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False)) as (
        bar,
        task,
    ):
        yield lambda done, of, words: bar.update(task, completed=done, total=of, words=words)


@contextmanager
def byte_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar for bytes read. Yields a function that takes the number of bytes read since its last
    call.
    """
    with _bar(title, total, TaskProgressColumn()) as (bar, task):
        yield lambda size: bar.advance(task, size)


@contextmanager
def share_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar that shows a percentage. Yields a function that takes what is done, and what there is in
    all.
    """
    with _bar(title, None, TaskProgressColumn()) as (bar, task):
        yield lambda done, of: bar.update(task, completed=done, total=of)


class _CannotWrite(Exception):
    """The file being written cannot be written further."""


class Output:
    """An output file. Its faults can be told from those of files that are being read. Faults of standard
    output are left to ``guarded``.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._named = file is not sys.stdout.buffer

    def write(self, data: bytes) -> None:
        if self._named:
            with _faults_of_writing():
                self._file.write(data)
        else:
            self._file.write(data)


@contextmanager
def writing(out: Path | None) -> Iterator[Output]:
    """Standard output, or a file that gets its name only when it is complete, so that an old file is left
    unchanged after a failure. Ends the command if it cannot be written, or leaves a study by a link.
    """
    if out is None:
        yield Output(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    refuse_link(out)
    try:
        # A device or a pipe cannot be replaced by a file.
        if out.exists() and not out.is_file():
            with _closed_at_last(out.open("wb")) as file:
                yield Output(file)
                with _faults_of_writing():
                    file.flush()
            return
        yield from _replacing(out)
    except _CannotWrite as fault:
        fail(f"cannot write {out}: {fault}")


def _replacing(out: Path) -> Iterator[Output]:
    target = Path(os.path.realpath(out))
    try:
        number, name = tempfile.mkstemp(prefix=".interintent-", suffix=".part", dir=target.parent)
    except OSError as fault:
        raise _CannotWrite(reason(fault)) from None
    part = Path(name)
    try:
        with _closed_at_last(os.fdopen(number, "wb")) as file:
            yield Output(file)
            with _faults_of_writing():
                file.flush()
                os.fsync(file.fileno())
                part.chmod(_mode(target))
                part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _faults_of_writing() -> Iterator[None]:
    """A fault in this block is one of the file that is written."""
    try:
        yield
    except OSError as fault:
        if isinstance(fault, BrokenPipeError):
            raise
        raise _CannotWrite(reason(fault)) from None


@contextmanager
def _closed_at_last(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Closes the file. What could not be written was told before; Python would try once more, and tell that
    instead.
    """
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _mode(file: Path) -> int:
    """The mode of the existing file, or the mode of new files."""
    with suppress(OSError):
        return file.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refuse_link(out: Path) -> None:
    """Ends the command for a file in a study's folder that is a link which leads out of it, or is behind one:
    the folder may have come from somebody else.
    """
    for folder in out.absolute().parents:
        if (folder / "study.toml").is_file():
            # Imported here, since it takes long.
            from app.runner.study_folder import StudyFault, inside

            try:
                inside(folder, out.absolute().relative_to(folder))
            except StudyFault as fault:
                fail(str(fault))


def refuse_existing(file: Path, *, overwrite: bool) -> None:
    """Ends the command for a file that exists, unless it may be replaced."""
    if file.exists() and not overwrite:
        fail(f"{file} exists: name another file, or replace it (--overwrite)")


def refuse_input(out: Path | None, *inputs: str | Path | None) -> None:
    """Ends the command if ``out`` is one of the files that the command reads, by whatever name, or a folder
    that holds one, or leaves a study by a link. Of a directory among the inputs, these are the files that
    hold games, by their endings.
    """
    if out is not None:
        refuse_link(out)
    if out is None or not (out.is_file() or out.is_dir()):
        return
    # Imported here, since most commands read no games.
    from app.files.replays import files_in

    target = out.resolve()
    for path in inputs:
        named = "/dev/stdin" if path == "-" else path
        if named is not None and Path(named).exists():
            for file in files_in(str(named)):
                if file.resolve().is_relative_to(target):
                    fail(f"{out} {'is' if out.is_file() else 'holds'} {file}, which is read: name another")


def partial_of(folder: Path) -> Path:
    """Where a folder or an archive is written before it is whole: beside it, so that the next command for the
    same name replaces what a killed one left. A link of that name, which may be somebody else's, is removed.
    Ends the command for one without a name of its own, such as ``.`` or ``/``, and for one that leaves a
    study by a link.
    """
    if folder.name in ("", ".."):
        fail(f"{folder} cannot be made: name a folder that can, such as {folder / 'new'}")
    refuse_link(folder)
    part = folder.with_name(f"{folder.name}.partial")
    if part.is_symlink():
        part.unlink()
    return part


def reason(fault: OSError) -> str:
    return fault.strerror or type(fault).__name__


def fail_reading(fault: OSError) -> NoReturn:
    """Ends the command for a file that cannot be read: says which, and why."""
    fail(_named_reason(fault))


def _named_reason(fault: OSError) -> str:
    if fault.filename is None:
        return reason(fault)
    file = str(fault.filename) if isinstance(fault.filename, int) else os.fsdecode(fault.filename)
    if isinstance(fault, FileNotFoundError):
        return f"no such file or directory: {file}"
    return f"{file}: {reason(fault)}"


def guarded(command: Callable[[], object]) -> None:
    """Runs the command line. A file that cannot be read or written is reported in one sentence, and so is an
    argument that is not UTF-8 and names no file. For a bug, only the place is printed, since the message may
    quote players.
    """
    for word in _not_utf8():
        # The name of a file may be of any bytes, and is known to be one if the file is there.
        if not os.path.lexists(word.partition("=")[2] if word.startswith("--") else word):
            _end(f"this argument is not UTF-8: {word}", REFUSED)
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
        _end(_named_reason(fault), REFUSED)
    except Exception as fault:
        if "surrogates not allowed" in str(fault) and (words := list(_not_utf8())):
            _end(f"this argument is not UTF-8: {words[0]}", REFUSED)
        last = traceback.extract_tb(fault.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        _end(f"something broke on our side: {type(fault).__name__} in {place}", 1)


def _not_utf8() -> Iterator[str]:
    """The arguments that are not UTF-8; Python reads their other bytes as lone surrogates."""
    return (word for word in sys.argv[1:] if any("\ud800" <= letter <= "\udfff" for letter in word))


def _end(message: str, code: int) -> NoReturn:
    with suppress(typer.Exit):
        fail(message)
    raise SystemExit(code) from None


def _silence() -> None:
    """Discards pending output, which nobody reads and which Python would otherwise try to write at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
