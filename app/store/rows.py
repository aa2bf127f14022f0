"""Rows of the database: their columns, the types in which they are read, and the checks for damage.

SQLite keeps any value in any column, so every row is checked as it is read. One damaged value neither hides
the other rows nor is quoted in an error.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache, partial
from math import isfinite
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import structlog
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator
from sqlmodel import SQLModel

from app.base.schemas import GameStatus
from engine.errors import UNREADABLE, CorruptLog
from engine.intentions import BY_ID
from engine.profile import TEAM_SIZES
from engine.terms import Ending, Role, Side
from engine.thoughts import SelectionStage

__all__ = [
    "LAST_MS",
    "METADATA",
    "AnswerRow",
    "ApiKey",
    "BatchRow",
    "BooleanColumn",
    "BotRow",
    "Damaged",
    "EvaluationRow",
    "GameRow",
    "JsonColumn",
    "JudgementRow",
    "OpenGameRow",
    "Outage",
    "PlayerRow",
    "QuotaRow",
    "RaterKind",
    "RepeatedJsonColumn",
    "SeekRow",
    "SetAnswersRow",
    "SetEntryRow",
    "SetItemRow",
    "SetOriginRow",
    "SetRow",
    "StatementsRow",
    "TokenSecret",
    "check_row",
    "finite",
    "has_form",
    "is_moment",
    "is_readable",
    "is_text",
    "is_whole",
    "left_out_if_damaged",
    "name_of",
    "read_row",
    "reading",
    "row_name",
    "table_of",
    "typed_row",
    "values_of",
    "whole",
]

log = structlog.get_logger()

T = TypeVar("T")
R = TypeVar("R")

_MAY_BE_LONE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Half a surrogate pair as JSON writes it."""

LAST_MS: Final = 253_402_300_799_999
"""The last moment that can be written as a date: the end of the year 9999, UTC, ms."""

METADATA: Final = SQLModel.metadata

# --- types of columns -------------------------------------------------------------------------------


class Damaged:
    """Takes the place of a value that cannot be read. Any use of it raises CorruptLog."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise CorruptLog("a JSON column of the database cannot be read")

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()


def whole(value: T | Damaged) -> T:
    """The value. Raises CorruptLog for one that cannot be read."""
    if isinstance(value, Damaged):
        raise CorruptLog("a JSON column of the database cannot be read")
    return value


class BooleanColumn(TypeDecorator[Any]):
    """True or false. Any other value is left as it is stored: SQLAlchemy's own reader would call it true."""

    impl = Boolean
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        def read(stored: Any) -> Any:
            return bool(stored) if type(stored) is int and stored in (0, 1) else stored

        return read


class JsonColumn(TypeDecorator[Any]):
    """JSON of one kind, ``dict`` or ``list``; for a list also the kind of its items. Anything else reads as
    ``Damaged``.
    """

    impl = JSON
    cache_ok = True

    def __init__(self, kind: type, items: type = object, *, none_as_null: bool = False) -> None:
        super().__init__(none_as_null=none_as_null)
        self.kind = kind
        self.items = items
        self.none_as_null = none_as_null

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Reads the stored text itself: SQLAlchemy's reader, or the driver's, would end the whole result."""

        def read(stored: Any) -> Any:
            value = stored
            if isinstance(stored, str):
                try:
                    value = json.loads(stored)
                    stored.encode()  # bytes that are no UTF-8 arrive as lone surrogates
                    if _MAY_BE_LONE.search(stored):  # no answer can hold one
                        json.dumps(value, ensure_ascii=False).encode()
                except (ValueError, RecursionError):
                    return Damaged()
            if isinstance(value, self.kind) and isinstance(value, dict | list):
                fits = all(isinstance(item, self.items) for item in value)
            else:
                fits = value is None and self.none_as_null
            return value if fits else Damaged()

        return read


class RepeatedJsonColumn(JsonColumn):
    """As ``JsonColumn``, for results that hold the same again and again: equal texts give the same value,
    which nobody may change.
    """

    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return lru_cache(maxsize=256)(super().result_processor(dialect, coltype))


# --- tables out of typed rows -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """What a field's annotation says of its column beyond the type of its values."""

    type_: Any = None
    """SQLAlchemy's type; None: the default for the type of the field's values."""
    key: bool = False
    """Part of the primary key."""
    values: Iterable[Any] = ()
    """Everything that the column may hold, where that can be listed. Literals need no list."""
    nullable: bool = False
    """Nullable in the database, though it is always written."""
    unique: bool = False
    references: str | None = None
    name: str | None = None
    """The name in the database, where that differs from the field's."""


_TYPES: Final[Mapping[type, Any]] = {int: Integer(), str: String(), bool: BooleanColumn()}
_TABLES: Final[dict[type, Table]] = {}


def _stored(name: str, *indexes: Index) -> Callable[[type[R]], type[R]]:
    """Makes the table of a typed row: a column for each field."""

    def register(kind: type[R]) -> type[R]:
        hints = get_type_hints(kind, include_extras=True)
        columns = [_column(part.name, hints[part.name]) for part in fields(kind)]  # type: ignore[arg-type]
        _TABLES[kind] = Table(name, METADATA, *columns, *indexes)
        return kind

    return register


def _column(name: str, hint: Any) -> Column[Any]:
    spec = ColumnSpec()
    types = []
    parts = [hint]
    while parts:
        part = parts.pop()
        if get_origin(part) is Annotated:
            spec = part.__metadata__[0]
            parts.append(part.__origin__)
        elif get_origin(part) in (Union, UnionType):
            parts += get_args(part)
        else:
            types.append(part)
    literals = [value for part in types if get_origin(part) is Literal for value in get_args(part)]
    return Column(
        spec.name or name,
        spec.type_ or (String() if literals else _TYPES[next(part for part in types if part in _TYPES)]),
        *([ForeignKey(spec.references)] if spec.references else []),
        key=name,
        primary_key=spec.key,
        autoincrement=False,
        nullable=spec.nullable or NoneType in types,
        unique=spec.unique or None,
        info={"values": frozenset(spec.values) or frozenset(literals)},
    )


Json = Mapping[str, Any]
Moment = Annotated[int, ColumnSpec(BigInteger())]
"""UTC, milliseconds since 1970."""
Id = Annotated[str, ColumnSpec(String(40))]
IdKey = Annotated[str, ColumnSpec(String(40), key=True)]
CallerKey = Annotated[str, ColumnSpec(key=True)]
"""The credential that handed it in, by its public name."""
RaterKey = Annotated[str, ColumnSpec(String(80), key=True)]
GradeKey = Annotated[int, ColumnSpec(key=True)]
"""1 at first; a second opinion is another row with the next grade."""
RaterKind = Literal["model", "human", "program"]
JsonOrNone = Annotated[Json | Damaged | None, ColumnSpec(JsonColumn(dict, none_as_null=True))]

_SCORES: Final = range(1, 6)

_JOBLESS: Final = text("job IS NULL AND drive = 'auto' AND status IN ('created', 'running')")
"""Games that nobody drives, although somebody should."""

_TAKEN: Final = text("taken IS NOT NULL")
"""Games with remote seats that are not their owner's."""

_OPEN: Final = text("status IN ('created', 'running', 'suspended')")
"""Games that are not over."""


@_stored(
    "batches",
    Index("ix_batches_created", "created_at", "batch_id", unique=True),
    Index("ix_batches_owner", "owner", "created_at", "batch_id"),
)
@dataclass(frozen=True, slots=True, repr=False)
class BatchRow:
    """Games created together."""

    batch_id: IdKey
    created_at: Moment
    count: int
    """The number of games that it will have. While fewer are stored, the rest are still being created."""
    seed: str
    """A decimal number from which the games' seeds are drawn, unless they are given."""
    spec: Annotated[Json | Damaged, ColumnSpec(JsonColumn(dict))]
    """The checked request."""
    labels: Annotated[Json | Damaged, ColumnSpec(JsonColumn(dict))] = field(default_factory=dict)
    cancelled: bool = False
    suspended: JsonOrNone = None
    """Why none of its games is driven until somebody resumes it: the fields of ``Suspension``."""
    owner: str = ""
    """Whose batch it is, and whose its games are: ``Caller.owner`` of who created it, or ``server``. Empty:
    unknown.
    """
    priority: int = 0
    """Among its owner's batches: games of a higher one begin first."""


@_stored(
    "games",
    Index("ix_games_batch", "batch_id", "position", unique=True),
    Index("ix_games_status", "status", "created_at"),
    Index("ix_games_job", "job"),
    Index("ix_games_jobless", "batch_id", postgresql_where=_JOBLESS, sqlite_where=_JOBLESS),
    Index("ix_games_open", "batch_id", postgresql_where=_OPEN, sqlite_where=_OPEN),
    Index("ix_games_taken", "batch_id", postgresql_where=_TAKEN, sqlite_where=_TAKEN),
)
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class GameRow:
    """One game, apart from its log. Status, winner, ending and head repeat what the log says; they are
    written in the same transaction as the events that they repeat.
    """

    game_id: IdKey
    batch_id: Annotated[str, ColumnSpec(String(40), references="batches.batch_id")]
    position: int
    """Place in the batch, from 0."""
    created_at: Moment
    finished_at: Moment | None = None
    status: GameStatus
    drive: Annotated[str, ColumnSpec(values=("auto", "manual"))]
    seed: Annotated[str, ColumnSpec(nullable=True)]
    """Decimal: the agents' own seeds are drawn from it. In a fork of an imported game it is not the seed of
    the deal.
    """
    seats: Annotated[Sequence[Json] | Damaged, ColumnSpec(JsonColumn(list, dict))]
    """The specs, seat 1 first. Empty: an imported game."""
    profile: str
    players: Annotated[int, ColumnSpec(values=TEAM_SIZES)]
    head: int
    """Events in the log."""
    winner: Annotated[str | None, ColumnSpec(values=Side)] = None
    ending: Annotated[str | None, ColumnSpec(values=Ending)] = None
    forked_from: JsonOrNone = None
    imported_from: JsonOrNone = None
    fault: str | None = None
    """Why the game failed or is suspended: what its model's provider said, or the trace id of an error of
    ours, which is in the service's own log.
    """
    epochs: Annotated[Mapping[str, int] | Damaged | None, ColumnSpec(JsonColumn(dict, none_as_null=True))] = (
        None
    )
    """By seat, the epoch of its valid tokens, from 1; a seat that is not named is at 1."""
    taken: JsonOrNone = None
    """By remote seat that is not the game's owner's, whose it is; empty: of whoever has, or will have, its
    code. None: every remote seat is the owner's.
    """
    defaults: JsonOrNone = None
    """By seat, its decisions and its defaults by cause, as ``DecisionCounter.as_json`` gives them. None: the
    game is not over, has failed, or ended in an earlier version.
    """
    invalid: JsonOrNone = None
    """Why somebody excluded the game from every report: the fields of ``Invalidation``."""
    rated: bool = False
    """Whether ratings count the game, once it has finished: it was made by pairing rated seeks, and nothing
    has happened since that makes it unfair. ``game_players`` says who played.
    """
    unrated: str | None = None
    """Why a game whose players sought a rated one is not rated: a short text. None: it is, or nobody did."""
    job: Annotated[int | None, ColumnSpec(BigInteger())] = None
    """The queue's job that drives the game, or will. None: nobody has to drive it, or the database has no
    queue.
    """
    driver: Annotated[int | None, ColumnSpec(BigInteger())] = None
    """The same job, once it has begun: nothing else may append to the log."""


@_stored("evaluations", Index("ix_evaluations_created", "created_at", "evaluation_id"))
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class EvaluationRow:
    """Answers handed in together, or the work of a judge."""

    evaluation_id: IdKey
    created_at: Moment
    finished_at: Moment | None
    caller: str
    """The credential that handed it in, by its public name."""
    dimension: Literal["selection", "following", "summarisation", "guessing", "statements"]
    rater: Annotated[str, ColumnSpec(String(80))]
    kind: RaterKind
    grade: int
    """1 at first; a re-grade has the grade of what it grades again, plus 1."""
    regrade_of: Id | None
    status: Literal["scored", "judging", "cancelled", "failed"]
    spec: Annotated[Json, ColumnSpec(JsonColumn(dict), name="wish")]
    """The variant of the items; for a judge, what it judges."""
    result: Annotated[Json | None, ColumnSpec(JsonColumn(dict, none_as_null=True))]
    """The scores, written once; while a judge works, its progress."""
    owner: str = ""
    """Whose evaluation it is. Empty: of the credential that handed it in."""


@_stored(
    "answers",
    Index("ix_answers_evaluation", "evaluation_id"),
    Index("ix_answers_game", "game_id", "dimension"),
)
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class AnswerRow:
    """One rater's answer about one item. The key ensures that each is graded once."""

    caller: CallerKey = ""
    rater: RaterKey = ""
    item_id: Annotated[str, ColumnSpec(String(160), key=True)]
    sample: Annotated[int, ColumnSpec(SmallInteger(), key=True, values=_SCORES)]
    grade: GradeKey = 1
    evaluation_id: Annotated[str, ColumnSpec(String(40), references="evaluations.evaluation_id")] = ""
    game_id: Id
    dimension: Annotated[str, ColumnSpec(values=("summarisation", "guessing"))]
    named: Annotated[Sequence[str], ColumnSpec(JsonColumn(list, str))]
    """Ids or free text, as they were given."""
    role: Annotated[str | None, ColumnSpec(values=Role)]
    confidence: Annotated[int | None, ColumnSpec(SmallInteger(), values=range(6))]


@_stored("evaluation_sets", Index("ix_evaluation_sets_created", "created_at", "set_id"))
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SetRow:
    """A set of items on which raters are compared, sealed until a date."""

    set_id: IdKey
    created_at: Moment
    closes_at: Moment
    """Until then the set takes answers, and shows neither scores nor gold."""
    owner: str
    """Who made it."""
    name: Annotated[str, ColumnSpec(String(80))]
    dimension: Annotated[str, ColumnSpec(String(16), values=("summarisation", "guessing"))]
    variant: Annotated[Json | Damaged, ColumnSpec(JsonColumn(dict))]
    """How its items are made and scored."""
    items: int
    """How many items were drawn."""
    opened_at: Moment | None = None
    """When somebody first looked after its date. From then on it takes no answer, and shows everything."""
    scored_at: Moment | None = None
    """When its answers were scored. Until then its games are kept."""
    excluded: JsonOrNone = None
    """Once scored: how many of its items do not count, by reason."""
    withdrawn_at: Moment | None = None
    """When its owner withdrew it, before its date: it is never opened."""
    withdrawn: Annotated[str | None, ColumnSpec(String(500))] = None
    """Why it was withdrawn."""
    invalid: Annotated[
        Sequence[str] | Damaged | None, ColumnSpec(JsonColumn(list, str, none_as_null=True))
    ] = None
    """Its games that were marked as invalid when it opened: their items do not count, whatever is marked
    later. None: it is not open, or an earlier version opened it.
    """
    guessable_seeds: bool = True
    """Whether games with given seeds could be drawn. An earlier version always drew them."""


@_stored("set_items", Index("ix_set_items_game", "game_id"), Index("ix_set_items_origin", "origin"))
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SetItemRow:
    """An item of a set."""

    set_id: Annotated[str, ColumnSpec(String(40), key=True, references="evaluation_sets.set_id")]
    position: Annotated[int, ColumnSpec(key=True)]
    """From 0: by game, then in the order of its log."""
    item_id: Annotated[str, ColumnSpec(String(160))]
    game_id: Id
    origin: Id
    """The game at the beginning of its game's forks; its game itself if it is no fork."""
    request_id: Id
    seat: Annotated[int, ColumnSpec(SmallInteger())]
    """The only seat whose view the set's items show of this game."""


@_stored("set_origins")
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SetOriginRow:
    """That a set had items of a game of this origin that was deleted since. An open set has told everybody
    the gold of its turns, which other games of the origin may carry.
    """

    origin: IdKey
    set_id: Annotated[str, ColumnSpec(String(40), key=True, references="evaluation_sets.set_id")]


@_stored("set_entries", Index("ix_set_entries_entry", "entry_id", unique=True))
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SetEntryRow:
    """A rater's last answers to a set."""

    set_id: Annotated[str, ColumnSpec(String(40), key=True, references="evaluation_sets.set_id")]
    owner: Annotated[str, ColumnSpec(key=True)]
    rater: RaterKey
    entry_id: Id
    kind: RaterKind
    at: Moment
    answers: int
    """Answers handed in; each sample counts."""
    items: int
    """Items that they answer."""
    result: JsonOrNone = None
    """The scores, written once, after the set's date."""


@_stored("set_answers")
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SetAnswersRow:
    """The answers of an entry to the items of one game."""

    entry_id: IdKey
    game_id: IdKey
    given: Annotated[Sequence[Json] | Damaged, ColumnSpec(JsonColumn(list, dict))]
    """Each with item_id, sample, named, role and confidence, as in ``AnswerRow``."""


@_stored("judgements", Index("ix_judgements_game", "game_id"))
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class JudgementRow:
    """One rater's judgement of one intention in one stage of a speaking turn."""

    game_id: IdKey
    request_id: IdKey
    stage: Annotated[SelectionStage, ColumnSpec(String(8), key=True)]
    intention: Annotated[str, ColumnSpec(String(80), key=True, values=BY_ID)]
    dimension: Annotated[str, ColumnSpec(String(16), key=True, values=("selection", "following"))]
    """selection: ``reasonable`` is given; following: ``think``, ``speak``, or both."""
    caller: CallerKey
    rater: RaterKey
    grade: GradeKey = 1
    at: Moment = 0
    kind: RaterKind
    evaluation_id: Id | None = None
    """For a model judge: the evaluation that asked it."""
    reasonable: bool | None = None
    think: Annotated[int | None, ColumnSpec(SmallInteger(), values=_SCORES)] = None
    speak: Annotated[int | None, ColumnSpec(SmallInteger(), values=_SCORES)] = None
    comment: Annotated[str | None, ColumnSpec(Text())] = None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The key of what is judged: a rater's later judgement with the same key has the next grade."""
        return self.game_id, self.request_id, self.stage, self.intention, self.dimension


@_stored(
    "statement_judgements",
    Index("ix_statement_judgements_evaluation", "evaluation_id", "game_id", "request_id", "turn"),
)
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class StatementsRow:
    """One rater's judgement of a speech: what the speech says about the record, and whether that is true."""

    game_id: IdKey
    request_id: IdKey
    turn: Annotated[int, ColumnSpec(key=True)]
    """Utterances before it in the attempt; negative: a control speech."""
    caller: CallerKey
    rater: RaterKey
    grade: GradeKey = 1
    at: Moment = 0
    kind: RaterKind
    evaluation_id: Id
    statements: Annotated[Sequence[Json], ColumnSpec(JsonColumn(list, dict))]
    """Each with start, end, quote, verdict, record and reason; empty: the speech states nothing."""
    control_speeches: Annotated[
        Mapping[str, int] | None, ColumnSpec(JsonColumn(dict, none_as_null=True), name="planted")
    ] = None
    """For a control speech: how often rules and judge agree or differ about its statements."""


@_stored("api_keys")
@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key as it is stored: what it may do and its hash, never the key itself. Revoked keys stay, since
    a service that ever had a key always asks for one.
    """

    key_id: IdKey
    name: Annotated[str, ColumnSpec(String(100))]
    hash: Annotated[str, ColumnSpec(String(64), unique=True)]
    """SHA-256 of the key, hexadecimal. The key has 256 random bits, so there is nothing to guess."""
    scopes: Annotated[tuple[str, ...], ColumnSpec(JsonColumn(list, str))]
    created_at: Moment
    expires_at: Moment | None = None
    used_at: Moment | None = None
    """The hour of the last use."""
    revoked_at: Moment | None = None
    project: Annotated[str | None, ColumnSpec(String(64))] = None
    """Its keys own together what each of them makes. None: the key owns alone."""
    compromised_at: Moment | None = None
    """When it was revoked as compromised: tokens that came from it died with it."""
    saw_all_until: Moment | None = None
    """When it last lost the scope ``export:full:any``. None: it never had it, or has had it ever since."""

    def state(self, now_ms: int) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now_ms else "active"


@_stored("quotas")
@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The quotas of an owner that differ from the settings."""

    owner: Annotated[str, ColumnSpec(String(120), key=True)]
    limits: Annotated[Mapping[str, float | None], ColumnSpec(JsonColumn(dict))]
    """By name; null: no limit."""


@_stored("token_secrets")
@dataclass(frozen=True, slots=True)
class TokenSecret:
    """A secret that tokens are signed with, where the settings name none."""

    number: Annotated[int, ColumnSpec(key=True)]
    """From 1; the highest signs. Of two processes that take the same number, only one can store it."""
    secret: str
    created_at: Moment


@_stored("model_outages")
@dataclass(frozen=True, slots=True)
class Outage:
    """Since when an endpoint does not answer, and why."""

    endpoint: Annotated[str, ColumnSpec(String(64), key=True)]
    since: Moment
    cause: Annotated[str, ColumnSpec(String(200))]
    """As in ``ModelUnavailable``."""
    try_at: Moment
    """When the next call may try."""


@_stored(
    "bots",
    Index("ix_bots_name", "owner", "name", "version", unique=True),
    Index("ix_bots_created", "created_at", "bot_id"),
    Index("ix_bots_check_game", "check_game"),
)
@dataclass(frozen=True, slots=True)
class BotRow:
    """One version of a bot: what is paired and rated."""

    bot_id: IdKey
    owner: Annotated[str, ColumnSpec(String(100))]
    """Whose bot it is, as ``Caller.owner`` names it."""
    name: Annotated[str, ColumnSpec(String(64))]
    version: Annotated[str, ColumnSpec(String(64))]
    created_at: Moment
    check_game: Id | None = None
    """The game of its latest check. None: it was never checked."""
    checked_at: Moment | None = None
    """When it last passed a check; None: it has passed none."""


_BOT: Final = String(64)

_WAITS: Final = text("status = 'open'")


@_stored(
    "seeks",
    Index("ix_seeks_pool", "status", "pool", "created_at"),
    Index("ix_seeks_open", "owner", "bot", "pool", unique=True, postgresql_where=_WAITS, sqlite_where=_WAITS),
    Index("ix_seeks_bot", "owner", "bot", "closed_at"),
    Index("ix_seeks_game_id", "game_id"),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SeekRow:
    """A bot's or a person's wish for a seat. Seeks of one pool are paired with one another."""

    seek_id: IdKey
    owner: Annotated[str, ColumnSpec(String(100))]
    """Whose it is, as ``Caller.owner``."""
    caller: Annotated[str, ColumnSpec(String(100))]
    """The credential that sent it, by its public name."""
    bot: Annotated[str, ColumnSpec(_BOT)]
    """The name of the bot, or that of the person's program."""
    version: Annotated[str, ColumnSpec(_BOT)]
    """The bot's; empty: it has told none."""
    pool: Annotated[str, ColumnSpec(String(80))]
    """What it waits for: the terms in words; ``open:`` and the id of a game with open seats; or ``rematch:``
    and the id of the game before.
    """
    terms: Annotated[Json | Damaged, ColumnSpec(JsonColumn(dict))]
    """What was asked for, as the seeker is shown it."""
    created_at: Moment
    starts_by: Annotated[int, ColumnSpec(BigInteger())]
    """When it is paired with those who are there, or ends; ms."""
    seen_at: Moment
    """When its bot was last known to be there: nobody is paired with a bot that is away. 0: the seek is left,
    since the key that sent it was revoked or may not seek any more. Then another credential of its owner has
    to say that the bot is there.
    """
    status: Literal["open", "paired", "withdrawn", "expired"]
    closed_at: Moment | None = None
    game_id: Id | None = None
    """The game that it was paired for."""
    seat: Annotated[int | None, ColumnSpec(SmallInteger())] = None


@_stored("open_games", Index("ix_open_games_status", "status", "created_at"))
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGameRow:
    """A game with open seats that has not begun. Its id is that of the game that it becomes."""

    game_id: IdKey
    owner: Annotated[str, ColumnSpec(String(100))]
    """Whose it is, as ``Caller.owner``."""
    caller: Annotated[str, ColumnSpec(String(100))]
    """The credential that made it, by its public name."""
    created_at: Moment
    starts_by: Annotated[int, ColumnSpec(BigInteger())]
    """When seats that are still open are filled with scripted ones; ms."""
    spec: Annotated[Json | Damaged, ColumnSpec(JsonColumn(dict))]
    """The checked request, as for any batch, with ``remote`` in place of open seats."""
    seats: Annotated[Sequence[int] | Damaged, ColumnSpec(JsonColumn(list, int))]
    """The open ones."""
    status: Literal["open", "begun", "withdrawn", "expired"]


@_stored("game_players", Index("ix_game_players_bot", "owner", "bot", "version"))
@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerRow:
    """Who plays a seat of a game that was made by pairing, or whose open seat somebody claimed."""

    game_id: IdKey
    seat: Annotated[int, ColumnSpec(SmallInteger(), key=True)]
    owner: Annotated[str, ColumnSpec(String(100))]
    """Whose bot it is, as ``Caller.owner``."""
    caller: Annotated[str, ColumnSpec(String(100))]
    """The credential that sought the seat, by its public name."""
    bot: Annotated[str, ColumnSpec(_BOT)]
    version: Annotated[str, ColumnSpec(_BOT)]
    """Empty: the bot has told none."""
    seek_id: Id
    absent_at: Moment | None = None
    """When a stand-in took over, since the bot was absent. None: the bot plays, or played to the end."""


# --- reading and writing ----------------------------------------------------------------------------


def read_row(kind: type[R], row: Mapping[Any, Any]) -> R:
    """The row of the database as ``kind``. JSON that cannot be read becomes ``Damaged``. Raises CorruptLog
    for a plain value that the column cannot hold; the error names row and column, and quotes nothing.
    """
    check_row(table_of(kind), row)
    return typed_row(kind, row)


def typed_row(kind: type[R], row: Mapping[Any, Any]) -> R:
    """As ``read_row``, for a row that was checked before."""
    return kind(**{column.key: row[column.key] for column in table_of(kind).columns})


def table_of(kind: type) -> Table:
    """The table that holds rows of this kind."""
    return _TABLES[kind]


def name_of(row: Any) -> str:
    """The typed row's name for error messages and logs, as ``row_name`` gives it."""
    return row_name(table_of(type(row)), values_of(row))


@contextmanager
def reading(row: Any) -> Iterator[None]:
    """Raises CorruptLog, which names the typed row and quotes nothing, where its values make no sense to
    those that use them in the block.
    """
    try:
        yield
    except (CorruptLog, *UNREADABLE):
        raise CorruptLog(f"{name_of(row)} cannot be read") from None


@contextmanager
def left_out_if_damaged() -> Iterator[None]:
    """Logs what cannot be read in the block, so that the others are shown."""
    try:
        yield
    except CorruptLog as fault:
        log.error("a damaged row is left out", cause=str(fault))


def values_of(row: Any) -> dict[str, Any]:
    """The row as it is written, by column."""
    return {column.name: getattr(row, column.name) for column in fields(row)}


# --- checks -----------------------------------------------------------------------------------------

_REQUEST: Final = r"[0-9]{1,2}\.[0-9]{1,2}\.[a-z_]{1,20}\.[0-9]{1,2}"

_IDS: Final[Mapping[str, re.Pattern[str]]] = {
    "game_id": re.compile(r"[ge]_[a-z0-9]{1,38}"),  # a judge's calls are stored under its evaluation
    "evaluation_id": re.compile(r"e_[a-z0-9]{1,38}"),
    "set_id": re.compile(r"s_[a-z0-9]{1,38}"),
    "entry_id": re.compile(r"r_[a-z0-9]{1,38}"),
    "request_id": re.compile(_REQUEST),
    "step": re.compile(r"[a-z_]{1,40}"),
    "item_id": re.compile(rf"g_[a-z0-9]{{1,38}}/[a-z]{{1,16}}/{_REQUEST}/[a-z]{{1,8}}/(-|[0-9]{{1,2}})"),
    "pool": re.compile(r"[a-z_]{1,40}/[0-9]{1,2}/[a-z]{1,10}/(rated|casual)|(open|rematch):g_[a-z0-9]{1,38}"),
}
"""The forms of ids. Nothing that a player says has one of them."""

_FORMS_CHECKED: Final = frozenset(
    {"annotation_tasks", "answers", "judgements", "seeks", "set_items", "statement_judgements"}
)
"""Tables in which every id must have its form."""


def check_row(table: Table, row: Mapping[Any, Any]) -> None:
    """Raises CorruptLog for a plain value of the wrong kind; the error names row and column, and quotes
    nothing. JSON is not looked at: it reads as ``Damaged``. Nor are columns that the row does not have.
    """
    for name, nullable, fits in _checks(table):
        if name not in row:
            continue
        value = row[name]
        if not (nullable if value is None else fits(value)):
            raise CorruptLog(f"{row_name(table, row, but=name)} cannot be read ({name})")


def is_readable(table: Table, row: Mapping[Any, Any]) -> bool:
    """Whether ``check_row`` accepts the row."""
    try:
        check_row(table, row)
    except CorruptLog:
        return False
    return True


def is_whole(table: Table, row: Mapping[Any, Any]) -> bool:
    """Whether everything in the row can be read, its JSON too."""
    return is_readable(table, row) and not any(isinstance(value, Damaged) for value in row.values())


def row_name(table: Table, row: Mapping[Any, Any], *, but: str = "") -> str:
    """The row's name for error messages and logs: the parts of its key that can only be ids, numbers or terms
    of ours. ``but``: the column that is damaged.
    """
    first = next(iter(table.primary_key)).name
    parts = [
        str(row[column.name])
        for column in table.primary_key
        if column.name != but and _is_safe(column, row[column.name], first=column.name == first)
    ]
    return f"the row {' '.join(parts) or 'without a name'} of {table.name}"


def _is_safe(column: Column[Any], value: object, *, first: bool) -> bool:
    """Whether a message may quote this part of a key."""
    if column.name in _IDS:
        return has_form(column.name, value)
    if values := column.info.get("values"):
        return _is_one_of(values, value)
    if column.name == "caller":
        return False
    # Bytes that are no UTF-8 arrive as lone surrogates.
    return first and type(value) is str and value.isprintable()


def has_form(name: str, value: object) -> bool:
    """Whether the value has the form of ids in columns of this name."""
    return type(value) is str and _IDS[name].fullmatch(value) is not None


def _is_one_of(values: Collection[Any], value: object) -> bool:
    return type(value) in (int, str) and value in values


def finite(total: Any) -> float:
    """A sum of numbers as the database gives it, None for no rows, as a number. A damaged row can make it
    infinite, or no number: it is the largest one then, so that nothing more is spent.
    """
    number = float(total or 0)
    return number if isfinite(number) else sys.float_info.max


def is_moment(value: object) -> bool:
    """Whether it is a time as we store it: UTC, ms since 1970."""
    return type(value) is int and 0 <= value <= LAST_MS


def is_text(value: object) -> bool:
    """Whether it is a text. Bytes that are no UTF-8 arrive as lone surrogates."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _checks(table: Table) -> tuple[tuple[str, bool, Callable[[Any], bool]], ...]:
    return tuple(
        (column.key, bool(column.nullable), _check(table.name, column))
        for column in table.columns
        if not isinstance(column.type, JsonColumn)
    )


def _check(table: str, column: Column[Any]) -> Callable[[Any], bool]:
    name = column.name
    if values := column.info.get("values"):
        return lambda value: _is_one_of(values, value)
    if table in _FORMS_CHECKED and name in _IDS:
        return partial(has_form, name)
    if name in ("at", "since", "starts_by") or name.endswith("_at"):
        return is_moment
    if isinstance(column.type, Boolean | BooleanColumn):
        return lambda value: type(value) is bool
    if isinstance(column.type, Integer):
        return lambda value: type(value) is int
    if isinstance(column.type, Float):
        return lambda value: type(value) in (int, float) and isfinite(value)
    return is_text
