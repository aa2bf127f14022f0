"""A whole run folder: its games, its annotators, and what was guessed and summarised of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.terms import Role, Seat
from evaluators.authors.annotation import AnnotationRow, read_annotation
from evaluators.authors.conversation import Conversation, read_conversation
from evaluators.authors.files import CellPlace, read_json
from evaluators.authors.results import REJECTED, Quests, Results, read_quests, read_results
from evaluators.errors import InvalidRun

__all__ = ["ITEM_FILES", "AuthorsGame", "AuthorsItem", "Files", "Run", "natural", "read_run", "wanted"]

Files = Mapping[str, bytes]
"""Contents by path within the folder, with ``/``."""

ITEM_FILES: Final[Mapping[str, str]] = {
    "guesses.json": "guessed_intents",
    "guesses_second_order.json": "guessed_intents",
    "summaries.json": "summarized_intents",
}
"""The files of answers, and the key under which they hold them."""

_GAME_FILE: Final = re.compile(
    r"(game_[^/]+)/(?:results\.json|game_play_data[^/]*\.json|conversation\.csv|annotation-[^/]*\.csv)"
)
_AGREEMENT: Final = re.compile(r"agreement/([^/]+)/(annotation-[^/]*\.csv)")
_ITEM_ID: Final = re.compile(r"(.+)-player(\d+)-(\d+)(?:_(form|ref))?")


def wanted(path: str) -> bool:
    """Whether ``read_run`` reads this file of a folder."""
    return path in ITEM_FILES or bool(_GAME_FILE.fullmatch(path) or _AGREEMENT.fullmatch(path))


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key in which 9-5-7 comes before 9-12-7."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part)


@dataclass(frozen=True, slots=True)
class AuthorsGame:
    """One game's files, read and compared with one another; nothing is played yet."""

    name: str
    """Its folder's, e.g. ``game_2026-01-01-9-5-7``."""
    results: Results
    quests: Quests
    conversation: Conversation
    annotation: tuple[AnnotationRow, ...]
    """Empty where the folder holds none."""
    odd: tuple[str, ...]

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds that were begun, in their order."""
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
    """As in results.json."""
    stage: str
    """``form`` or ``ref`` of a summary; empty for a guess."""
    gold: tuple[str, ...]
    """What the file holds as the true intentions, if it does."""
    answer: tuple[str, ...]
    canonical: tuple[str, ...] | None
    """The answer after the released map, unmapped entries dropped; None: not in the file."""


@dataclass(frozen=True, slots=True)
class Run:
    games: tuple[AuthorsGame, ...]
    """In the natural order of their names."""
    broken: Mapping[str, InvalidRun]
    """Games that do not read, by name."""
    annotators: Mapping[str, Mapping[str, tuple[AnnotationRow, ...]]]
    """Rows by annotator and name of the file."""
    items: Mapping[str, tuple[AuthorsItem, ...]]
    """By name of the file; a file that is not there is not in it."""

    def annotation_file(self, game: str) -> str:
        """What an annotator's file of this game is called."""
        return f"annotation-{game.rpartition('_')[2]}.csv"


def read_run(files: Files) -> Run:
    """Everything a folder says. A game that does not read is in ``broken``.

    Raises InvalidRun where there is no game at all, and for an annotator's or an item file that does
    not read.
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
        name: _items(CellPlace(name), read_json(name, files[name]), key)
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
    spot = CellPlace(f"{name}/results.json")
    results = read_results(spot, read_json(spot.file, contents["results.json"]))
    quests = _quests(name, contents, odd)
    _same_deal(spot, results.roles, quests.roles)
    file = f"{name}/conversation.csv"
    conversation = read_conversation(file, contents["conversation.csv"], results.roles)
    return AuthorsGame(name, results, quests, conversation, _annotation(name, contents, odd), tuple(odd))


def _quests(name: str, contents: Mapping[str, bytes], odd: list[str]) -> Quests:
    """Of several files the one that tells of most quests: the program may be told to write again."""
    read = [
        read_quests(CellPlace(f"{name}/{file}"), read_json(f"{name}/{file}", contents[file]))
        for file in sorted(contents, key=natural)
        if file.startswith("game_play_data")
    ]
    if not read:
        raise InvalidRun(
            f"{name}: expected game_play_data.json, found {', '.join(sorted(contents))}; "
            f"a game cannot be told without it"
        )
    best = max(read, key=lambda one: len(one.succeeded))
    if len(read) > 1:
        odd.append(f"{name}: {len(read)} files game_play_data*.json, read {best.spot.file}")
    return best


def _same_deal(spot: CellPlace, roles: Mapping[Seat, Role], play_data_roles: Mapping[Seat, Role]) -> None:
    if dict(roles) != dict(play_data_roles):
        spot.refuse("the roles of game_play_data.json", {f"Player{s}": r.value for s, r in roles.items()})
    if sorted(roles) != list(range(1, len(roles) + 1)):
        spot.refuse("Player1 to the last without a gap", [f"Player{seat}" for seat in sorted(roles)])


def _annotation(name: str, contents: Mapping[str, bytes], odd: list[str]) -> tuple[AnnotationRow, ...]:
    own = f"annotation-{name.rpartition('_')[2]}.csv"
    candidates = [file for file in sorted(contents, key=natural) if file.startswith("annotation-")]
    if not candidates:
        odd.append(f"{name}: no annotation-*.csv, so no judgements of its own")
        return ()
    # The program writes an empty table of all samples beside the one that a rater fills.
    file = (
        own
        if own in candidates
        else next((one for one in candidates if "all-samples" not in one), candidates[0])
    )
    if len(candidates) > 1:
        odd.append(f"{name}: {len(candidates)} files annotation-*.csv, read {file}")
    return read_annotation(f"{name}/{file}", contents[file])


# --- answers ----------------------------------------------------------------------------------------


def _items(spot: CellPlace, value: Any, key: str) -> tuple[AuthorsItem, ...]:
    entries: Iterable[tuple[str, Any]]
    if isinstance(value, list):
        entries = ((str(spot.need(spot.mapping(one), "id")), one) for one in value)
    else:
        entries = spot.mapping(value).items()
    return tuple(_item(spot.at(id_), id_, spot.mapping(entry), key) for id_, entry in entries)


def _item(spot: CellPlace, id_: str, entry: Mapping[str, Any], key: str) -> AuthorsItem:
    match = _ITEM_ID.fullmatch(id_)
    if match is None:
        spot.refuse("an id such as game_…-player3-12", id_)
    canonical: Sequence[str] | None = entry.get(f"{key}_canonical")
    return AuthorsItem(
        id=id_,
        game=match[1],
        seat=int(match[2]),
        key=int(match[3]),
        stage=match[4] or "",
        gold=spot.at("intents").texts(entry.get("intents", [])),
        answer=spot.at(key).texts(spot.need(entry, key)),
        canonical=None if canonical is None else spot.at(f"{key}_canonical").texts(canonical),
    )
