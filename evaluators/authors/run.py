"""A run folder: its games, its annotators, and the guesses and summaries about it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.terms import Role, Seat
from evaluators.authors.annotation import AnnotationRow, read_annotation
from evaluators.authors.conversation import Conversation, read_conversation
from evaluators.authors.files import FileLocation, read_json
from evaluators.authors.results import REJECTED, Quests, Results, read_quests, read_results
from evaluators.errors import InvalidRun

__all__ = [
    "ITEM_FILES",
    "AuthorsGame",
    "AuthorsItem",
    "Files",
    "Run",
    "annotation_file",
    "natural",
    "read_run",
    "wanted",
]

Files = Mapping[str, bytes]
"""Contents by relative path, with ``/``."""

ITEM_FILES: Final[Mapping[str, str]] = {
    "guesses.json": "guessed_intents",
    "guesses_second_order.json": "guessed_intents",
    "summaries.json": "summarized_intents",
}
"""The files of answers, with the key of the answers."""

_GAME_FILE: Final = re.compile(
    r"(game_[^/]+)/(?:results\.json|game_play_data[^/]*\.json|conversation\.csv|annotation-[^/]*\.csv)"
)
_AGREEMENT: Final = re.compile(r"agreement/([^/]+)/(annotation-[^/]*\.csv)")
_ITEM_ID: Final = re.compile(r"(.+)-player(\d+)-(\d+)(?:_(form|ref))?")


def wanted(path: str) -> bool:
    """Whether ``read_run`` reads this file of a folder."""
    return path in ITEM_FILES or bool(_GAME_FILE.fullmatch(path) or _AGREEMENT.fullmatch(path))


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key that puts 9-5-7 before 9-12-7."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part)


@dataclass(frozen=True, slots=True)
class AuthorsGame:
    """The files of one game, read and checked against each other, but not yet played."""

    name: str
    """The name of the game's folder, e.g. ``game_2026-01-01-9-5-7``."""
    results: Results
    quests: Quests
    conversation: Conversation
    annotation: tuple[AnnotationRow, ...]
    """Empty if the folder has no annotation file."""
    odd: tuple[str, ...]
    """Sentences about unusual things in the files."""

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds that were begun, in order."""
        return tuple(sorted({key % REJECTED for key in self.results.keys}))

    def keys(self, round_: int) -> tuple[int, ...]:
        """The keys of a round's attempts in results.json, in order."""
        rejected = round_ + REJECTED
        return (rejected, round_) if rejected in self.results.keys else (round_,)


@dataclass(frozen=True, slots=True)
class AuthorsItem:
    """One answer of a guesser or summariser."""

    id: str
    game: str
    seat: Seat
    key: int
    """The key of the attempt in results.json."""
    stage: str
    """``form`` or ``ref`` for a summary; empty for a guess."""
    gold: tuple[str, ...]
    """The true intentions, if the file has them."""
    answer: tuple[str, ...]
    canonical: tuple[str, ...] | None
    """The answer after the released map, without unmapped entries; None if it is not in the file."""


@dataclass(frozen=True, slots=True)
class Run:
    games: tuple[AuthorsGame, ...]
    """The games in the natural order of their names."""
    broken: Mapping[str, InvalidRun]
    """The errors of games that cannot be read, by name."""
    annotators: Mapping[str, Mapping[str, tuple[AnnotationRow, ...]]]
    """Rows by annotator and file name."""
    items: Mapping[str, tuple[AuthorsItem, ...]]
    """Answers by file name, without files that are missing."""


def annotation_file(game: str) -> str:
    """The name of the annotation file of a game."""
    return f"annotation-{game.rpartition('_')[2]}.csv"


def read_run(files: Files) -> Run:
    """Reads a folder. The errors of games that cannot be read are in ``broken``.

    Raises InvalidRun if there is no game at all, or if an annotator's file or an item file cannot be read.
    """
    by_game: dict[str, dict[str, bytes]] = {}
    annotators: dict[str, dict[str, tuple[AnnotationRow, ...]]] = {}
    for path in sorted(files, key=natural):
        if match := _GAME_FILE.fullmatch(path):
            by_game.setdefault(match[1], {})[path.rpartition("/")[2]] = files[path]
        elif match := _AGREEMENT.fullmatch(path):
            annotators.setdefault(match[1], {})[match[2]] = read_annotation(path, files[path])
    if not by_game:
        raise InvalidRun(
            "expected folders game_… with results.json, game_play_data.json and conversation.csv, found none"
        )
    games, broken = [], {}
    for name, contents in by_game.items():
        try:
            games.append(_game(name, contents))
        except InvalidRun as fault:
            broken[name] = fault
    items = {
        name: _items(FileLocation(name), read_json(name, files[name]), key)
        for name, key in ITEM_FILES.items()
        if name in files
    }
    return Run(tuple(games), broken, annotators, items)


# --- one game ---------------------------------------------------------------------------------------


def _game(name: str, contents: Mapping[str, bytes]) -> AuthorsGame:
    odd: list[str] = []
    for needed in ("results.json", "conversation.csv"):
        if needed not in contents:
            raise InvalidRun(
                f"{name}: expected {needed}, found {', '.join(sorted(contents))}; "
                f"a game cannot be told without it"
            )
    location = FileLocation(f"{name}/results.json")
    results = read_results(location, read_json(location.file, contents["results.json"]))
    quests = _quests(name, contents, odd)
    _same_deal(location, results.roles, quests.roles)
    file = f"{name}/conversation.csv"
    conversation = read_conversation(file, contents["conversation.csv"], results.roles)
    return AuthorsGame(name, results, quests, conversation, _annotation(name, contents, odd), tuple(odd))


def _quests(name: str, contents: Mapping[str, bytes], odd: list[str]) -> Quests:
    """The file with the most quests: the program can write several files."""
    read = [
        read_quests(FileLocation(f"{name}/{file}"), read_json(f"{name}/{file}", contents[file]))
        for file in sorted(contents, key=natural)
        if file.startswith("game_play_data")
    ]
    if not read:
        raise InvalidRun(
            f"{name}: expected game_play_data.json, found {', '.join(sorted(contents))}; "
            f"a game cannot be told without it"
        )
    best = max(read, key=lambda quests: len(quests.succeeded))
    if len(read) > 1:
        odd.append(f"{name}: {len(read)} files game_play_data*.json, read {best.location.file}")
    return best


def _same_deal(
    location: FileLocation, roles: Mapping[Seat, Role], play_data_roles: Mapping[Seat, Role]
) -> None:
    if dict(roles) != dict(play_data_roles):
        location.refuse("the roles of game_play_data.json", {f"Player{s}": r.value for s, r in roles.items()})
    if sorted(roles) != list(range(1, len(roles) + 1)):
        location.refuse("Player1 to the last without a gap", [f"Player{seat}" for seat in sorted(roles)])


def _annotation(name: str, contents: Mapping[str, bytes], odd: list[str]) -> tuple[AnnotationRow, ...]:
    own = annotation_file(name)
    candidates = [file for file in sorted(contents, key=natural) if file.startswith("annotation-")]
    if not candidates:
        odd.append(f"{name}: no annotation-*.csv, so no judgements of its own")
        return ()
    # The program writes an empty table of all samples beside the table for the rater.
    file = (
        own
        if own in candidates
        else next((file for file in candidates if "all-samples" not in file), candidates[0])
    )
    if len(candidates) > 1:
        odd.append(f"{name}: {len(candidates)} files annotation-*.csv, read {file}")
    return read_annotation(f"{name}/{file}", contents[file])


# --- answers ----------------------------------------------------------------------------------------


def _items(location: FileLocation, value: Any, key: str) -> tuple[AuthorsItem, ...]:
    entries: Iterable[tuple[str, Any]]
    if isinstance(value, list):
        entries = ((str(location.need(location.mapping(entry), "id")), entry) for entry in value)
    else:
        entries = location.mapping(value).items()
    return tuple(_item(location.at(id_), id_, location.mapping(entry), key) for id_, entry in entries)


def _item(location: FileLocation, id_: str, entry: Mapping[str, Any], key: str) -> AuthorsItem:
    match = _ITEM_ID.fullmatch(id_)
    if match is None:
        location.refuse("an id such as game_…-player3-12", id_)
    canonical: Sequence[str] | None = entry.get(f"{key}_canonical")
    return AuthorsItem(
        id=id_,
        game=match[1],
        seat=int(match[2]),
        key=int(match[3]),
        stage=match[4] or "",
        gold=location.at("intents").texts(entry.get("intents", [])),
        answer=location.at(key).texts(location.need(entry, key)),
        canonical=None if canonical is None else location.at(f"{key}_canonical").texts(canonical),
    )
