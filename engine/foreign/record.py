"""Reads and writes foreign records of the format avalon-replay v1, checking every field.

A record counts seats from 0; in memory, a seat is the record's number plus 1. This module
checks only the form; ``engine.foreign.replay`` checks whether the moves follow the rules.
Source: the avalon-replay v1 specification and its JSON schema (draft 2020-12), translated by hand,
since the engine has no schema library.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, get_args

from engine.errors import InvalidRecord
from engine.events import (
    AssassinationMade,
    CardPlayed,
    Event,
    EvilConferred,
    GameCreated,
    ProposalOpened,
    QuestResolved,
    SpeechDrafted,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VotesRevealed,
)
from engine.profile import Approval, Assassination, OnMaxRejections
from engine.state import State
from engine.terms import Ending, Role, Seat, Side

__all__ = [
    "SCHEMA",
    "Config",
    "Discuss",
    "Move",
    "Propose",
    "Quest",
    "Record",
    "RecordOutcome",
    "RecordRepropose",
    "RecordedShot",
    "Shoot",
    "Vote",
    "read_record",
    "record_of",
]

SCHEMA: Final = "avalon-replay/1"

Visibility = Literal["all", "evil"]


@dataclass(frozen=True, slots=True)
class Config:
    """The record's rules, in the record's own terms, except that seats count from 1."""

    players: int
    team_sizes: tuple[int, ...]
    fails_required: tuple[int, ...]
    approval: Approval
    max_rejections: int
    on_max_rejections: OnMaxRejections
    first_leader: Seat
    leader_step: int
    assassination: Assassination


@dataclass(frozen=True, slots=True)
class Discuss:
    name = "discuss"
    seat: Seat
    text: str
    think: str | None
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class Propose:
    name = "propose"
    quest: int
    attempt: int
    seat: Seat | None
    """None if the record does not say which seat led."""
    team: tuple[Seat, ...]
    """The seats in ascending order."""
    forced: bool
    text: str


class RecordRepropose(Propose):
    """Another team by the same leader, which replaces the current one."""

    __slots__ = ()
    name = "repropose"


@dataclass(frozen=True, slots=True)
class Vote:
    name = "vote"
    quest: int
    attempt: int
    votes: tuple[bool | None, ...]
    """Seat 1 first; None for a ballot that is not recorded."""
    approved: bool


@dataclass(frozen=True, slots=True)
class Quest:
    name = "quest"
    quest: int
    team: tuple[Seat, ...]
    """The seats in ascending order."""
    actions: tuple[tuple[Seat, bool], ...] | None
    """(seat, success) in ascending order of the seats; None if the cards are not recorded."""
    fails: int | None
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Shoot:
    name = "assassinate"
    seat: Seat
    target: Seat | None
    """None if the record only says whether the target was Merlin."""
    hit: bool


Move = Discuss | Propose | Vote | Quest | Shoot


@dataclass(frozen=True, slots=True)
class RecordedShot:
    target: Seat | None
    hit: bool


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    winner: Side
    reason: Ending
    quest_results: tuple[bool, ...]
    """Whether quest 1, 2, … succeeded."""
    shot: RecordedShot | None


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    seats: tuple[Seat, ...]
    """The seats in the order of the record's players."""
    names: tuple[str, ...]
    """The names in the same order."""
    roles: tuple[Role, ...]
    """Seat 1 first."""
    assassin_seat: Seat | None
    knowledge: tuple[tuple[str, tuple[Seat, ...]], ...]
    """(the seat's key in the record, which is its number from 0; the seats shown to it)."""
    config: Config
    moves: tuple[Move | None, ...]
    """None for a note in the record, so that the moves keep their numbers."""
    outcome: RecordOutcome


# --- reading: one small reader per shape; a fault's pointer grows on its way out -------------------

T = TypeVar("T")
Reader = Callable[[Any], T]


def _shown(value: object) -> str:
    """A value as error messages show it: one line of ASCII, cut short."""
    if isinstance(value, str | int | float | bool) or value is None:
        # An integer of thousands of digits must not be converted to text.
        if isinstance(value, int) and abs(value) > 10**12:
            return "a number with many digits"
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        plain = ascii(value[:61] if isinstance(value, str) else value)
        return plain if len(plain) <= 64 else f"{plain[:60]}…"
    return f"a list of {len(value)}" if isinstance(value, list) else "an object"


def _wrong(expected: str, value: object) -> InvalidRecord:
    return InvalidRecord(f"expected {expected}, found {_shown(value)}")


def _field(read: Reader[T], of: Mapping[str, Any], key: str) -> T:
    if key not in of:
        raise InvalidRecord(f"expected the key {key}, found nothing")
    try:
        return read(of[key])
    except InvalidRecord as fault:
        escaped = key.replace("~", "~0").replace("/", "~1")
        raise InvalidRecord(str(fault), f"/{escaped}{fault.pointer}") from None


def _optional(read: Reader[T], of: Mapping[str, Any], key: str, otherwise: T) -> T:
    return _field(read, of, key) if key in of else otherwise


def _if_there(read: Reader[object], of: Mapping[str, Any], key: str) -> None:
    if key in of:
        _field(read, of, key)


def _items(read: Reader[T], values: Any, low: int = 0, high: int | None = None) -> tuple[T, ...]:
    _list(values)
    if len(values) < low or (high is not None and len(values) > high):
        size = f"{low}" if low == high else f"{low} to {'any number' if high is None else high}"
        raise InvalidRecord(f"expected a list of {size} values, found {len(values)}")
    read_ = []
    for index, value in enumerate(values):
        try:
            read_.append(read(value))
        except InvalidRecord as fault:
            raise InvalidRecord(str(fault), f"/{index}{fault.pointer}") from None
    return tuple(read_)


def _maybe(read: Reader[T]) -> Reader[T | None]:
    return lambda value: None if value is None else read(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("an object", value)
    return value


def _closed(value: Any, known: frozenset[str]) -> dict[str, Any]:
    for key in _object(value):
        if key not in known:
            raise InvalidRecord(f"expected only keys of the schema, found {_shown(key)}")
    return value  # type: ignore[no-any-return]


def _flag(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise _wrong("true or false", value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("text", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRecord("expected text, found a lone surrogate in it") from None
    if "\0" in value:
        # PostgreSQL cannot store this character.
        raise InvalidRecord("expected text, found U+0000 in it")
    return value


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    # For JSON Schema, 1.0 is an integer.
    if type(value) is float and value.is_integer():
        return int(value)
    raise _wrong("a whole number", value)


def _between(low: int, high: int) -> Reader[int]:
    allowed = frozenset(range(low, high + 1))

    def read(value: Any) -> int:
        if type(value) is int and value in allowed:
            return value
        if (number := _whole(value)) not in allowed:
            raise _wrong(f"a whole number from {low} to {high}", value)
        return number

    return read


def _word(words: Mapping[str, T]) -> Reader[T]:
    expected = " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}"

    def read(value: Any) -> T:
        if type(value) is not str or value not in words:
            raise _wrong(expected, value)
        return words[value]

    return read


def _same(words: tuple[str, ...]) -> Reader[Any]:
    return _word({word: word for word in words})


def _exactly(wanted: Any) -> Reader[Any]:
    def read(value: Any) -> Any:
        if value != wanted or type(value) is not type(wanted):
            raise _wrong(_shown(wanted), value)
        return value

    return read


_number = _between(0, 9)


def _seat(value: Any) -> Seat:
    return _number(value) + 1


_MAYBE_SEAT: Final = _maybe(_seat)
_PART: Final = _between(1, 5)
_RESULT: Final = _word({"success": True, "fail": False})
_VISIBILITY: Final = _same(get_args(Visibility))
_TALK_PHASE: Final = _same(("assassination",))
_FORCED: Final = _exactly(True)
_MAYBE_TEXT: Final = _maybe(_text)
_MAYBE_FLAG: Final = _maybe(_flag)


def _team(value: Any) -> tuple[Seat, ...]:
    team = tuple(sorted(_items(_seat, value, 1, 6)))
    if len(set(team)) != len(team):
        raise InvalidRecord("expected each seat at most once, found one twice")
    return team


def _count(value: Any) -> int:
    if (number := _whole(value)) < 0:
        raise _wrong("a whole number of 0 or more", value)
    return number


_MAYBE_COUNT: Final = _maybe(_count)
_SEAT_KEYS: Final = {str(seat - 1): seat for seat in range(1, 11)}


def _actions(value: Any) -> tuple[tuple[Seat, bool], ...] | None:
    if value is None:
        return None
    read = []
    for key in _object(value):
        if key not in _SEAT_KEYS:
            raise _wrong("seats 0 to 9 as keys", key)
        read.append((_SEAT_KEYS[key], _field(_RESULT, value, key)))
    return tuple(sorted(read))


def _votes(value: Any) -> tuple[bool | None, ...]:
    return _items(_MAYBE_FLAG, value)


def _read_discuss(move: dict[str, Any]) -> Discuss:
    _if_there(_TALK_PHASE, move, "phase")
    return Discuss(
        _field(_seat, move, "seat"),
        _field(_text, move, "text"),
        _optional(_MAYBE_TEXT, move, "think", None),
        _optional(_VISIBILITY, move, "visibility", "all"),
    )


def _read_proposal(kind: type[Propose]) -> Callable[[dict[str, Any]], Propose]:
    def read(move: dict[str, Any]) -> Propose:
        return kind(
            _field(_PART, move, "quest"),
            _field(_PART, move, "attempt"),
            _field(_MAYBE_SEAT, move, "seat"),
            _field(_team, move, "team"),
            _optional(_FORCED, move, "forced", False),
            _optional(_text, move, "text", ""),
        )

    return read


def _read_vote(move: dict[str, Any]) -> Vote:
    _if_there(_list, move, "comments")
    return Vote(
        _field(_PART, move, "quest"),
        _field(_PART, move, "attempt"),
        _field(_votes, move, "votes"),
        _field(_flag, move, "approved"),
    )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong("a list", value)
    return value


def _read_quest(move: dict[str, Any]) -> Quest:
    return Quest(
        _field(_PART, move, "quest"),
        _field(_team, move, "team"),
        _field(_actions, move, "actions"),
        _field(_MAYBE_COUNT, move, "fails"),
        _field(_RESULT, move, "result"),
    )


def _read_shoot(move: dict[str, Any]) -> Shoot:
    _if_there(_text, move, "text")
    return Shoot(_field(_seat, move, "seat"), _field(_MAYBE_SEAT, move, "target"), _field(_flag, move, "hit"))


_MOVES: Final[dict[str, Callable[[dict[str, Any]], Move | None]]] = {
    "discuss": _read_discuss,
    "propose": _read_proposal(Propose),
    "repropose": _read_proposal(RecordRepropose),
    "vote": _read_vote,
    "quest": _read_quest,
    "assassinate": _read_shoot,
    "note": lambda move: None,
}

_MOVE_KIND: Final = _word(_MOVES)


def _move(value: Any) -> Move | None:
    return _field(_MOVE_KIND, _object(value), "type")(value)


_CONFIG_KEYS: Final = frozenset(
    [
        "n_players",
        "team_sizes",
        "fails_required",
        "approval",
        "max_rejections",
        "on_max_rejections",
        "rejections_reset",
        "first_leader",
        "leader_step",
        "leader_rule",
        "discussion",
        "assassination",
        "extra_cards",
    ]
)


def _config(value: Any) -> Config:
    _closed(value, _CONFIG_KEYS)
    _field(_exactly("per_quest"), value, "rejections_reset")
    _field(_text, value, "leader_rule")
    _field(_text, value, "discussion")
    _if_there(_texts, value, "extra_cards")
    return Config(
        _field(_between(5, 10), value, "n_players"),
        _field(_TEAM_SIZES, value, "team_sizes"),
        _field(_FAILS_REQUIRED, value, "fails_required"),
        _field(_APPROVAL, value, "approval"),
        _field(_whole, value, "max_rejections"),
        _field(_ON_MAX_REJECTIONS, value, "on_max_rejections"),
        _field(_seat, value, "first_leader"),
        _field(_leader_step, value, "leader_step"),
        _field(_ASSASSINATION, value, "assassination"),
    )


def _five(read: Reader[int]) -> Reader[tuple[int, ...]]:
    return lambda value: _items(read, value, 5, 5)


def _leader_step(value: Any) -> int:
    if (step := _whole(value)) not in (1, -1):
        raise _wrong("1 or -1", value)
    return step


def _texts(value: Any) -> tuple[str, ...]:
    return _items(_text, value)


_TEAM_SIZES: Final = _five(_between(2, 6))
_FAILS_REQUIRED: Final = _five(_between(1, 2))
_APPROVAL: Final = _same(get_args(Approval))
_ON_MAX_REJECTIONS: Final = _same(get_args(OnMaxRejections))
_ASSASSINATION: Final = _same(get_args(Assassination))

_SOURCE_TEXTS: Final = ("name", "repository", "path", "licence", "agents")
_HEX: Final = frozenset("0123456789abcdef")


def _commit(value: Any) -> str:
    if len(_text(value)) != 40 or not _HEX.issuperset(value):
        raise _wrong("40 hexadecimal digits", value)
    return value  # type: ignore[no-any-return]


def _source(value: Any) -> None:
    _object(value)
    for key in _SOURCE_TEXTS:
        _field(_text, value, key)
    _field(_commit, value, "commit")
    _field(_flag, value, "anonymised")


def _knowledge(value: Any) -> tuple[tuple[str, tuple[Seat, ...]], ...]:
    return tuple((key, _field(_seats, value, key)) for key in _object(value))


def _seats(value: Any) -> tuple[Seat, ...]:
    return _items(_seat, value)


def _player(value: Any) -> tuple[Seat, str]:
    return _field(_seat, _object(value), "seat"), _field(_text, value, "name")


def _players(value: Any) -> tuple[tuple[Seat, str], ...]:
    return _items(_player, value, 5, 10)


_ROLE: Final = _word({role.value: role for role in Role})


def _roles(value: Any) -> tuple[Role, ...]:
    return _items(_ROLE, value, 5, 10)


def _moves(value: Any) -> tuple[Move | None, ...]:
    return _items(_move, value)


def _shot(value: Any) -> RecordedShot | None:
    if value is None:
        return None
    # The schema allows any value for both keys, but no other value could agree with a shot.
    return RecordedShot(_field(_MAYBE_SEAT, _object(value), "target"), _field(_flag, value, "hit"))


_OUTCOME_KEYS: Final = frozenset({"winner", "reason", "quest_results", "assassination"})
_WINNER: Final = _word({side.value: side for side in Side})
_REASON: Final = _word({ending.value: ending for ending in Ending})


def _results(value: Any) -> tuple[bool, ...]:
    return _items(_RESULT, value, 0, 5)


def _outcome(value: Any) -> RecordOutcome:
    _closed(value, _OUTCOME_KEYS)
    return RecordOutcome(
        _field(_WINNER, value, "winner"),
        _field(_REASON, value, "reason"),
        _field(_results, value, "quest_results"),
        _field(_shot, value, "assassination"),
    )


_KEYS: Final = frozenset(
    [
        "schema",
        "id",
        "source",
        "players",
        "roles",
        "assassin_seat",
        "knowledge",
        "config",
        "notes",
        "annotations",
        "moves",
        "outcome",
    ]
)


def read_record(data: object) -> Record:
    """The record that a parsed JSON value holds; every field of the schema is checked.

    Unknown keys are ignored where the schema leaves an object open (moves, players, source).
    ``knowledge`` is not compared with the roles: it is what the source showed to its players. Raises
    InvalidRecord with a pointer to the first fault.
    """
    _field(_exactly(SCHEMA), _object(data), "schema")
    value = _closed(data, _KEYS)
    _field(_source, value, "source")
    knowledge = _field(_knowledge, value, "knowledge") if "knowledge" in value else ()
    _if_there(_texts, value, "notes")
    _if_there(_object, value, "annotations")
    players = _field(_players, value, "players")
    return Record(
        id=_field(_text, value, "id"),
        seats=tuple(seat for seat, _ in players),
        names=tuple(name for _, name in players),
        roles=_field(_roles, value, "roles"),
        assassin_seat=_field(_MAYBE_SEAT, value, "assassin_seat"),
        knowledge=knowledge,
        config=_field(_config, value, "config"),
        moves=_field(_moves, value, "moves"),
        outcome=_field(_outcome, value, "outcome"),
    )


# --- writing ----------------------------------------------------------------------------------------


def record_of(state: State, id_: str) -> dict[str, Any]:
    """A finished game of ours as an avalon-replay v1 record, ready for JSON.

    Speech (with its refined thinking), votes, cards, shots and outcome are complete; the format has no
    place for other thoughts or for summaries. Raises ValueError for a game that is not over, or whose deal is
    not in the log.
    """
    table = state.table
    if table.winner is None or table.ending is None or state.roles is None:
        raise ValueError("a record needs a finished game and its deal")
    profile = table.profile
    moves = _moves_of(state.log)
    first = next(move["seat"] for move in moves if move["type"] == "propose")
    shots = [move for move in moves if move["type"] == "assassinate"]
    return {
        "schema": SCHEMA,
        "id": id_,
        "source": dict(_OUR_SOURCE),
        "players": [{"seat": seat, "name": name} for seat, name in enumerate(table.names)],
        "roles": [role.value for role in state.roles],
        "assassin_seat": None if state.shooter is None else state.shooter - 1,
        "config": {
            "n_players": profile.players,
            "team_sizes": list(profile.team_sizes),
            "fails_required": list(profile.fails_needed),
            "approval": profile.approval,
            "max_rejections": profile.max_rejections,
            "on_max_rejections": profile.on_max_rejections,
            "rejections_reset": "per_quest",
            "first_leader": first,
            "leader_step": profile.leader_step,
            "leader_rule": "next_seat",
            "discussion": profile.discussion,
            "assassination": profile.assassination,
        },
        "moves": moves,
        "outcome": {
            "winner": table.winner.value,
            "reason": table.ending.value,
            "quest_results": [_result(quest.succeeded) for quest in table.quests],
            "assassination": {key: shots[0][key] for key in ("target", "hit")} if shots else None,
        },
    }


_OUR_SOURCE: Final[Mapping[str, Any]] = {
    "name": "interintent",
    "repository": "",
    "commit": "0" * 40,
    "path": "",
    "licence": "",
    "agents": "",
    "anonymised": True,
}


def _result(succeeded: bool) -> str:
    return "success" if succeeded else "fail"


def _moves_of(log: list[Event]) -> list[dict[str, Any]]:
    moves: list[dict[str, Any]] = []
    thinking: dict[Seat, str] = {}
    cards: dict[Seat, bool] = {}
    place: dict[str, int] = {}
    forced = 0
    for event in log:
        match event:
            case GameCreated(profile=profile) if profile.on_max_rejections == "forced_team":
                forced = profile.max_rejections
            case SpeechDrafted(seat=seat, stage="refinement", think=think):
                thinking[seat] = think
            case UtteranceMade(seat=seat, text=text):
                moves.append(
                    {"type": "discuss", "seat": seat - 1, "text": text, "think": thinking.pop(seat, None)}
                )
            case EvilConferred(seat=seat, text=text):
                moves.append({"type": "discuss", "seat": seat - 1, "text": text, "visibility": "evil"})
            case TeamProposed(leader=leader, team=team):
                moves.append({"type": "propose", **place, "seat": leader - 1, "team": [s - 1 for s in team]})
                if place["attempt"] == forced:
                    moves[-1]["forced"] = True
            case TeamConfirmed(leader=leader, team=team, changed=True):
                again = {"type": "repropose", **place, "seat": leader - 1, "team": [s - 1 for s in team]}
                stood = next(move for move in reversed(moves) if move["type"] in ("propose", "repropose"))
                if "forced" in stood:
                    # The format cannot change a team that is never voted on.
                    stood["team"] = again["team"]
                else:
                    moves.append(again)
            case VotesRevealed(votes=votes, approved=approved):
                moves.append({"type": "vote", **place, "votes": list(votes), "approved": approved})
            case CardPlayed(seat=seat, success=success):
                cards[seat] = success
            case QuestResolved(round=round_, team=team, fails=fails, succeeded=succeeded) if team:
                played = {str(seat - 1): _result(cards[seat]) for seat in team} if cards else None
                cards = {}
                moves.append(
                    {
                        "type": "quest",
                        "quest": round_,
                        "team": [seat - 1 for seat in team],
                        "actions": played,
                        "fails": fails,
                        "result": _result(succeeded),
                    }
                )
            case AssassinationMade(assassin=assassin, target=target, hit=hit):
                at = None if target is None else target - 1
                moves.append({"type": "assassinate", "seat": assassin - 1, "target": at, "hit": hit})
            case ProposalOpened(round=round_, attempt=attempt):
                place = {"quest": round_, "attempt": attempt}
    return moves
