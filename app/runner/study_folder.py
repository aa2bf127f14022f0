"""The folder of a study: what is in it, and how it is written so that nothing is lost when a run is killed.

    study.toml            the study file
    models.toml           endpoints, if the study brings its own
    frozen.json           hash and date of the frozen file, and the file itself
    run/games/CELL/       a file for each game: its log, and beside it what it took; GAME_anew1 is what
                          a server played anew in place of GAME
    run/answers/CELL/     the stored answers of each game's models
    run/raters/NAME/      what each judge and guesser said of each game, and its stored answers
    run/damaged/          files of games that could not be used, put aside before the games were played anew
    run/batches.json      the batches that servers play for the study, and what each has taken
    run/asked/NAME.json   for each cell and rater: the models that it asks, by endpoint
    run/notes.jsonl       what happened that the report has to tell: deviations, early looks
    pilot/                the same for pilot games, which no report counts

A file is either whole or not there: it gets its name when it is complete. Answers of models are appended one
by one, and an incomplete last line is dropped. So every state that a kill leaves is one that a run continues.
What a failing disk leaves is seen by each log's hash: such a game counts as not finished.
"""

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Final

import orjson

from app.models.recording import AnswersFile, CannotStore, InvalidAnswers, Recording, read_whole
from app.settings import InvalidPrompts, read_prompts
from app.store.call import Call, Use, use_of
from evaluators.study.design import Design, designed
from evaluators.study.file import InvalidStudy, Study, read_study

__all__ = [
    "ANEW",
    "FILE",
    "Frozen",
    "GameRecord",
    "NotWritten",
    "StudyFault",
    "StudyFolder",
    "differences",
    "hash_of_study",
    "inside",
    "prompt_folders",
    "prompts_of",
    "use_by_seat",
]

FILE: Final = "study.toml"

ANEW: Final = "_anew"
"""Between a game's name and the number of a game that a server played anew in its place, from 1."""


class StudyFault(Exception):
    """A study's folder that cannot be used as it is. The message says what to do."""


class NotWritten(StudyFault):
    """A file of the folder cannot be written. A run stops then: it would pay for what it cannot store."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A study file as it was frozen."""

    at: str
    sha256: str
    """Of ``study``, as canonical JSON: comments and the order of tables do not count."""
    study: Mapping[str, Any]
    cells: list[str]
    prompts: Mapping[str, str]
    version: str
    """Of this program."""


@dataclass(slots=True)
class GameRecord:
    """What a finished game took."""

    game: str
    cell: str
    seed: int
    index: int
    events: int
    seconds: float | None
    """From the first question to the end; None if the game was interrupted."""
    seats: list[dict[str, Any]]
    """By seat: model and preset as the study names them, and the sums over its calls."""
    asked: dict[str, str | None] = field(default_factory=dict)
    """By endpoint: the model that its settings named."""
    served: dict[str, list[str]] = field(default_factory=dict)
    """By endpoint: the models that the provider says it served."""
    decisions: int = 0
    """Of model seats."""
    defaulted: int = 0
    """Of these, played by default."""
    sha256: str | None = None
    """Of the game's log; None if an earlier version kept it."""

    @property
    def calls(self) -> int:
        """Questions to models, answered or failed."""
        return sum(seat["calls"] for seat in self.seats)

    @property
    def tokens(self) -> int:
        """Of prompts and answers."""
        return sum(seat["prompt_tokens"] + seat["completion_tokens"] for seat in self.seats)

    @property
    def cost(self) -> float:
        """In the currency of the endpoints' prices."""
        return float(sum(seat["cost"] for seat in self.seats))


class StudyFolder:
    """One study on disk. ``pilot``: its pilot games in place of its games."""

    def __init__(self, path: Path, *, pilot: bool = False) -> None:
        self.path = path
        self.store = path / ("pilot" if pilot else "run")
        self._without_links = False
        """Whether its links were looked at, and lead nowhere else."""
        self._checked: dict[Path, tuple[tuple[int, ...], str | None]] = {}
        """By game's log: how it and its record looked when they were read, and why they cannot be used."""

    # --- the file -----------------------------------------------------------------------------------

    def text(self) -> str:
        """The study file. Raises StudyFault."""
        try:
            return (self.path / FILE).read_text("utf-8")
        except FileNotFoundError:
            raise StudyFault(
                f"{self.path} holds no {FILE}; interintent study new {self.path} writes an example"
            ) from None
        except (OSError, UnicodeDecodeError) as fault:
            raise StudyFault(f"{self.path / FILE} cannot be read: {fault}") from None

    def study(self) -> Study:
        """The study. Raises StudyFault, with every fault of the file."""
        try:
            return read_study(self.text())
        except InvalidStudy as fault:
            raise StudyFault(f"{self.path / FILE}:\n{fault}") from None

    def design(self, study: Study | None = None) -> Design:
        """The study's cells. Raises StudyFault."""
        chosen = self.study() if study is None else study
        try:
            return designed(chosen, prompts_of(self.path, chosen))
        except InvalidStudy as fault:
            raise StudyFault(f"{self.path / FILE}:\n{fault}") from None

    # --- frozen -------------------------------------------------------------------------------------

    def frozen(self) -> Frozen | None:
        """What was frozen; None: nothing yet. Raises StudyFault if it was altered."""
        try:
            values = orjson.loads((self.path / "frozen.json").read_bytes())
            frozen = Frozen(**values)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise StudyFault(f"{self.path / 'frozen.json'} was altered: it cannot be read") from None
        if hash_of_study(frozen.study) != frozen.sha256:
            raise StudyFault(
                f"{self.path / 'frozen.json'} was altered: its hash does not fit the study in it"
            )
        return frozen

    def freeze(self, design: Design, at: str, version: str) -> Frozen:
        """Writes hash and date of the study. Raises StudyFault if it is frozen, or games are there."""
        if (known := self.frozen()) is not None:
            raise StudyFault(
                f"the study has been frozen since {known.at}; what you change now is reported as a deviation"
            )
        if any(self.games()):
            raise StudyFault("games were played before the study was frozen; start again in another folder")
        values = design.study.model_dump(mode="json", exclude_unset=True)
        frozen = Frozen(
            at,
            hash_of_study(values),
            values,
            [cell.id for cell in design.cells],
            prompts_of(self.path, design.study),
            version,
        )
        self.write("frozen.json", asdict(frozen), at=self.path)
        return frozen

    # --- games --------------------------------------------------------------------------------------

    def game_file(self, cell: str, game: str) -> Path:
        """Where the log of a game is, once it is finished."""
        return self.store / "games" / cell / f"{game}.ndjson"

    def has(self, cell: str, game: str) -> bool:
        """Whether the game is finished, and its files are whole."""
        return self.game_file(cell, game).exists() and self.damage(cell, game) is None

    def damage(self, cell: str, game: str) -> str | None:
        """Why the files of a finished game cannot be used; None: they are whole, or there is no such game."""
        log = self.game_file(cell, game)
        files = [file.stat() for file in (log, log.with_suffix(".json")) if file.exists()]
        looks = tuple(value for file in files for value in (file.st_mtime_ns, file.st_size))
        known = self._checked.get(log)
        if known is None or known[0] != looks:
            known = self._checked[log] = looks, _damage(log) if log.exists() else None
        return known[1]

    def versions(self, cell: str, game: str) -> list[str]:
        """The game, whether or not it is finished, then the games played anew in its place, in that order."""
        names = [game]
        while self.game_file(cell, name := f"{game}{ANEW}{len(names)}").exists():
            names.append(name)
        return names

    def finished(self, cell: str, game: str) -> list[str]:
        """The ``versions`` that are finished and whole, up to the first that is not; empty if the game
        itself is not.
        """
        return list(takewhile(lambda name: self.has(cell, name), self.versions(cell, game)))

    def damaged(self, cell: str, games: Iterable[str]) -> list[str]:
        """Which of these games of a cell, and of those played anew in their place, cannot be used, each with
        its file and the reason.
        """
        return [
            f"{self.game_file(cell, name)}: {why}"
            for game in games
            for name in self.versions(cell, game)
            if (why := self.damage(cell, name)) is not None
        ]

    def put_aside(self, cell: str, game: str) -> Path:
        """Moves the damaged files of a game away, so that it is played anew from its stored answers. Returns
        where its log is now.
        """
        log = self.game_file(cell, game)
        number = 1 + len(self._put_aside(cell, game))
        aside = self._place(self.store / _DAMAGED / cell / f"{game}.{number}.ndjson")
        record = log.with_suffix(".json")
        if record.exists():
            record.replace(aside.with_suffix(".json"))
        log.replace(aside)
        return aside

    def _put_aside(self, cell: str, game: str) -> list[Path]:
        return sorted((self.store / _DAMAGED / cell).glob(f"{game}.*.ndjson"))

    def record(self, cell: str, game: str) -> GameRecord | None:
        """What a finished game took; None: it is not finished, or damaged."""
        return _record(self.game_file(cell, game)) if self.has(cell, game) else None

    def games(self) -> Iterator[tuple[str, str]]:
        """Cell and id of every finished game, in order; also of cells that the study no longer has."""
        for file in sorted((self.store / "games").glob("*/*.ndjson")):
            yield file.parent.name, file.stem

    def most_games(self) -> int:
        """The number of finished games of the cell that has most."""
        return max(Counter(cell for cell, _ in self.games()).values(), default=0)

    def keep(self, record: GameRecord, log: bytes) -> None:
        """Writes a finished game. The log comes last: with it, the game is finished.

        If a damaged game is replaced by one that took another course, since not all of its answers were
        there, what raters said of it is put aside.
        """
        file = self.game_file(record.cell, record.game)
        record.sha256 = hashlib.sha256(log).hexdigest()
        if (aside := self._put_aside(record.cell, record.game)) and not _same_game(aside[-1], record, log):
            self._put_ratings_aside(record.game)
            self.note("replaced", known_by=["game", "sha256"], game=record.game, sha256=record.sha256)
        self.write(file.with_suffix(".json").name, asdict(record), at=file.parent)
        self._put(file, log)

    def answers(self, cell: str, game: str) -> AnswersFile:
        """The stored answers of a game's models, to be used and added to. Raises StudyFault."""
        return self._answers(self.store / "answers" / cell / f"{game}.ndjson")

    def unfinished_calls(self) -> Iterator[Call]:
        """The stored answers of games that are not finished: they are paid for. Raises StudyFault."""
        for file in sorted((self.store / "answers").glob("*/*.ndjson")):
            if not self.has(file.parent.name, file.stem):
                yield from _calls(file)

    # --- raters -------------------------------------------------------------------------------------

    def rated_file(self, evaluation: str, game: str) -> Path:
        """What a judge or guesser said of a game, once it has said everything."""
        return self.store / "raters" / evaluation / f"{game}.json"

    def rated(self, evaluation: str, game: str) -> dict[str, Any] | None:
        """What was said; None: not yet, or the file is damaged, and is made anew from the stored answers."""
        row = _values(self.rated_file(evaluation, game))
        return row if row is not None and "rows" in row else None

    def _put_ratings_aside(self, game: str) -> None:
        for kind in ("json", "ndjson"):
            for file in sorted((self.store / "raters").glob(f"*/{game}.{kind}")):
                file.replace(self._place(self.store / _DAMAGED / file.parent.name / file.name))

    def rater_answers(self, evaluation: str, game: str) -> AnswersFile:
        """The stored answers of a judge or guesser about a game. Raises StudyFault."""
        return self._answers(self.rated_file(evaluation, game).with_suffix(".ndjson"))

    def unfinished_ratings(self) -> Iterator[Call]:
        """The stored answers of raters about games that they are not done with. Raises StudyFault."""
        for file in sorted((self.store / "raters").glob("*/*.ndjson")):
            if self.rated(file.parent.name, file.stem) is None:
                yield from _calls(file)

    # --- what is asked ------------------------------------------------------------------------------

    def asked(self, whose: str) -> dict[str, Any]:
        """By endpoint, how a cell or a rater (``rater_key``) asked for the answers that are stored; empty if
        none is, or if an earlier version stored them.
        """
        known: dict[str, Any] = self.read(f"{_ASKED}/{whose}.json") or {}
        return known if known and self._has_answers(whose) else {}

    def note_asked(self, whose: str, asked: Mapping[str, Any]) -> None:
        """Notes how a cell or a rater asks, before it does so."""
        known = self.asked(whose)
        if any(known.get(endpoint) != how for endpoint, how in asked.items()):
            self.write(f"{whose}.json", {**known, **asked}, at=self.store / _ASKED)

    def asked_otherwise(self, other: "StudyFolder") -> Iterator[tuple[str, str, Any, Any]]:
        """Where two folders hold answers that were asked differently: cell or rater, endpoint, how it was
        asked here, and how there.
        """
        for file in sorted((self.store / _ASKED).glob("*.json")):
            theirs = other.asked(file.stem)
            for endpoint, how in self.asked(file.stem).items():
                if theirs.get(endpoint, how) != how:
                    yield file.stem, endpoint, how, theirs[endpoint]

    def _has_answers(self, whose: str) -> bool:
        places = [self.store / kind / whose for kind in ("games", "answers", "raters")]
        return any(file.stat().st_size for place in places for file in place.glob("*.*json"))

    # --- notes --------------------------------------------------------------------------------------

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The notes of this kind, oldest first. Raises StudyFault for an altered file."""
        try:
            lines = (self.store / "notes.jsonl").read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        # The last line is empty, or incomplete: the process was killed while it wrote.
        try:
            return [note for line in lines[:-1] if (note := orjson.loads(line))["kind"] == kind]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise StudyFault(
                f"{self.store / 'notes.jsonl'} was altered: a line is no note; remove that line"
            ) from None

    def note(self, kind: str, *, known_by: Sequence[str], **values: Any) -> None:
        """Adds a note for the report, unless there is one of this kind with the same values of ``known_by``.

        Processes that share the folder add theirs one after another.
        """
        with self._alone():
            if any(all(note[name] == values[name] for name in known_by) for note in self.notes(kind)):
                return
            file = self.store / "notes.jsonl"
            known = file.read_bytes() if file.exists() else b""
            whole = known[: known.rfind(b"\n") + 1]
            self._put(file, whole + orjson.dumps({"kind": kind, **values}) + b"\n")

    # --- several processes --------------------------------------------------------------------------

    @contextmanager
    def locked(self, number: int = 1, of: int = 1) -> Iterator[None]:
        """Keeps other runs away while the block lasts. One part of several runs beside the other parts of as
        many, for these share no game. Raises StudyFault for what may not run now.
        """
        self._make_store()
        busy = f"another process runs this study in {self.path}; wait for it"
        with (
            self._lock_file(".run.lock") as every,
            self._lock_file(f".shard-{number}.lock") as own,
        ):
            with self._alone():
                if _lock(every, shared=False):
                    every.truncate(0)
                    every.write(str(of))
                    every.flush()
                    if of > 1:
                        _lock(every, shared=True)
                else:
                    if of == 1 or not _lock(every, shared=True):
                        raise StudyFault(busy)
                    every.seek(0)
                    if (others := every.read()) != str(of):
                        raise StudyFault(f"{busy}: it is one of {others} shards, this is one of {of}")
                if not _lock(own, shared=False):
                    raise StudyFault(f"another process runs shard {number}/{of} in {self.path}")
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits for other processes that write what all share, and keeps them away for that moment."""
        self._make_store()
        with self._lock_file(".lock") as file:
            try:
                import fcntl
            except ImportError:
                pass  # a system without such locks: one process at a time has to do
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_store(self) -> None:
        """Makes the folder of games. Raises StudyFault if it has links that lead out of the study."""
        self._refuse_links()
        self.store.mkdir(parents=True, exist_ok=True)

    def _refuse_links(self) -> None:
        """Raises StudyFault if a part of the folder of games is a link that leads out of the study: one that
        was handed on would have us write or read there.
        """
        if not self._without_links:
            for part in (self.store, *self.store.rglob("*")):
                if part.is_symlink():
                    inside(self.path, part.relative_to(self.path))
            self._without_links = True

    def _place(self, file: Path) -> Path:
        """The file, after making the directory that it is in. Raises StudyFault if it is a link that leads
        out of the study, or is behind one.
        """
        inside(self.path, file.relative_to(self.path))
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _put(self, file: Path, data: bytes) -> None:
        """Writes a file of the study, whole or not at all. Raises NotWritten, and StudyFault for a link.

        It is written under a name that nobody can foresee, and that must be new: whoever hands a study on
        could have put links there. What a killed process leaves under such a name is not read.
        """
        try:
            part = self._place(file).with_name(f".{file.name}.{secrets.token_hex(8)}.part")
            try:
                with part.open("xb") as new:
                    new.write(data)
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)
        except OSError as fault:
            raise NotWritten(str(CannotStore(file, fault))) from None

    def _answers(self, file: Path) -> AnswersFile:
        try:
            return AnswersFile(self._place(file))
        except InvalidAnswers as fault:
            raise StudyFault(f"{fault}; remove the file, and its answers are asked for again") from None
        except OSError as fault:
            raise NotWritten(str(CannotStore(file, fault))) from None

    def _lock_file(self, name: str) -> IO[str]:
        # Never through a link, and never emptied before it is locked.
        try:
            return os.fdopen(os.open(self.store / name, _LOCKS, 0o666), "r+")
        except OSError as fault:
            raise StudyFault(f"{self.store / name} cannot be locked: {fault.strerror}") from None

    def write(self, name: str, values: Any, *, at: Path | None = None) -> None:
        """Writes JSON into the store, whole or not at all."""
        self._put((self.store if at is None else at) / name, orjson.dumps(values, option=_INDENTED) + b"\n")

    @contextmanager
    def changing(self, name: str) -> Iterator[dict[str, Any]]:
        """JSON from the store, {} if there is none: what the block makes of it is written when it ends. Other
        processes that change it wait.
        """
        with self._alone():
            values = self.read(name) or {}
            yield values
            self.write(name, values)

    def read(self, name: str) -> Any:
        """JSON from the store; None: there is none."""
        return self._read(self.store / name)

    def _read(self, file: Path) -> Any:
        try:
            return orjson.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except orjson.JSONDecodeError:
            raise StudyFault(f"{file} was altered: it is not JSON; remove it to have it made again") from None

    def take(self, other: "StudyFolder") -> tuple[int, list[str]]:
        """Copies what another folder of the same study has and this one has not. Returns the number of
        games, and the names of games that are in both and differ, of which this folder keeps its own. Raises
        StudyFault if the other one has links that lead out of it: somebody else's files are not copied.
        """
        other._refuse_links()
        taken, differing = 0, []
        for cell, game in other.games():
            mine, theirs = self.game_file(cell, game), other.game_file(cell, game)
            if not other.has(cell, game) or game.partition(ANEW)[0] in differing:
                continue
            if mine.exists() and not self.has(cell, game):
                self.put_aside(cell, game)
            if mine.exists():
                if mine.read_bytes() != theirs.read_bytes():
                    differing.append(game)
                continue
            self._take_file(other, other.store / "answers" / cell / theirs.name)
            self._take_file(other, theirs.with_suffix(".json"))
            self._take_file(other, theirs)
            taken += 1
        for file in sorted((other.store / "raters").glob("*/*.json")):
            if (
                file.stem.partition(ANEW)[0] not in differing
                and self.rated(file.parent.name, file.stem) is None
            ):
                self._take_file(other, file.with_suffix(".ndjson"))
                self._take_file(other, file)
        for file in sorted((other.store / _ASKED).glob("*.json")):
            self.note_asked(file.stem, {**other.asked(file.stem), **self.asked(file.stem)})
        # Answers about what is not finished are paid for, too.
        for kind in ("answers", "raters"):
            for file in sorted((other.store / kind).glob("*/*.ndjson")):
                if file.stem.partition(ANEW)[0] not in differing and not self._mine(other, file).exists():
                    self._take_file(other, file)
        for kind in _NOTES:
            for note in other.notes(kind):
                values = {name: value for name, value in note.items() if name != "kind"}
                self.note(kind, known_by=list(values), **values)
        return taken, differing

    def _mine(self, other: "StudyFolder", file: Path) -> Path:
        return self.store / file.relative_to(other.store)

    def _take_file(self, other: "StudyFolder", file: Path) -> None:
        """Copies a file of another folder to its place in this one; does nothing if it does not exist."""
        if file.exists():
            self._put(self._mine(other, file), file.read_bytes())


_LOCKS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

_ASKED: Final = "asked"

_DAMAGED: Final = "damaged"

_NOTES: Final = ("deviation", "look", "replaced")
"""The kinds of notes that merging takes over."""

_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


def _lock(file: IO[str], *, shared: bool) -> bool:
    """Takes the lock of a file until it is closed, if nobody else has it. Returns whether it was free."""
    # Imported here: there are systems without it, on which everything else works.
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _values(file: Path) -> dict[str, Any] | None:
    """A file's JSON object; None if there is none, or if it cannot be read."""
    try:
        values = orjson.loads(file.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return values if isinstance(values, dict) else None


def _record(log: Path) -> GameRecord | None:
    """The record beside a log; None if there is none that can be read."""
    values = _values(log.with_suffix(".json"))
    try:
        # A later version may say more of a game than this one knows.
        return (
            None if values is None else GameRecord(**{name: values[name] for name in values if name in _SAID})
        )
    except TypeError:
        return None


_SAID: Final = frozenset(known.name for known in fields(GameRecord))


def _damage(log: Path) -> str | None:
    record = _record(log)
    if record is None:
        return f"what the game took cannot be read in {log.with_suffix('.json').name}"
    text = log.read_bytes()
    if record.sha256 is not None:
        return None if hashlib.sha256(text).hexdigest() == record.sha256 else _ALTERED
    # An earlier version wrote no hash: all of the game's events have to be there.
    try:
        lines = [orjson.loads(line) for line in text.splitlines()]
    except orjson.JSONDecodeError:
        return _ALTERED
    events = [line for line in lines if isinstance(line, dict) and "seq" in line]
    return None if len(events) == record.events else _ALTERED


_ALTERED: Final = "its log was altered or cut off after it was written"


def _same_game(aside: Path, record: GameRecord, log: bytes) -> bool:
    """Whether a game that was played anew is the one whose damaged log was put aside."""
    before = _record(aside)
    if before is None:
        # Where a game comes from stands in the first line, with the version that played it.
        return aside.read_bytes().splitlines()[1:] == log.splitlines()[1:]
    unlike = {"seconds": None, "sha256": None}
    return {**asdict(before), **unlike} == {**asdict(record), **unlike}


def _calls(file: Path) -> Iterator[Call]:
    try:
        recording: Recording = read_whole(file)[0]
    except InvalidAnswers as fault:
        raise StudyFault(f"{fault}; remove the file, and its answers are asked for again") from None
    yield from recording.calls(file.stem).values()


def inside(folder: Path, file: str | Path) -> Path:
    """A file or directory that a study names, by its path from the study's folder. Raises StudyFault if it is
    not in there, or is a link that leads out of it: a study that was handed on reaches no file of ours.
    """
    path = folder / file
    try:
        if path.resolve().is_relative_to(folder.resolve()):
            return path
    except (OSError, RuntimeError):
        pass  # links in a circle
    raise StudyFault(
        f"{path} is not in {folder}, or is a link that leads out of it; a study's files are in it"
    )


def use_by_seat(calls: Iterator[Call]) -> dict[int, Use]:
    """The sums over calls by seat."""
    uses: dict[int, Use] = {}
    for call in calls:
        uses.setdefault(call.seat, Use()).add(use_of(call))
    return uses


def hash_of_study(values: Mapping[str, Any]) -> str:
    """SHA-256 of a study's values as canonical JSON."""
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()


def prompts_of(folder: Path, study: Study) -> dict[str, str]:
    """The hash of each set of prompts that the study brings, by name. Raises StudyFault."""
    try:
        read = read_prompts(prompt_folders(folder, study))
    except InvalidPrompts as fault:
        raise StudyFault(f"{folder / FILE}: {fault}") from None
    return {name: templates.digest for name, templates in read.items()}


def prompt_folders(folder: Path, study: Study) -> dict[str, Path]:
    """The directories of the study's templates, by name. Raises StudyFault if one, or a template in it, is
    not in the study's folder.
    """
    folders = {name: inside(folder, where) for name, where in study.prompts.items()}
    for name, directory in folders.items():
        for file in directory.glob("*.jinja"):
            inside(folder, Path(study.prompts[name], file.name))
    return folders


def differences(before: Any, after: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ: pointer, the value before, the value after; None for a missing one."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            yield from differences(before.get(name), after.get(name), f"{at}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{at}/{index}")
    elif before != after:
        yield at, before, after
