"""The tables. A game is its rows in ``events``; all other tables hold requests and indexes.

Columns that repeat what the log tells (status, winner, ending, head) are written in the same
transaction as the events they repeat.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Text
from sqlmodel import Field, SQLModel

from app.store.json_column import JsonColumn, YesNo

__all__ = [
    "ApiKeysTable",
    "BatchesTable",
    "EventsTable",
    "GamesTable",
    "HoldersTable",
    "IdempotencyTable",
    "InboxTable",
    "ModelCallsTable",
    "RefusalsTable",
    "TokenSecretsTable",
    "api_keys",
    "batches",
    "events",
    "games",
    "holders",
    "idempotency",
    "inbox",
    "model_calls",
    "refusals",
    "token_secrets",
]

Json = dict[str, Any]


class BatchesTable(SQLModel, table=True):
    """Games created together."""

    __tablename__ = "batches"

    batch_id: str = Field(primary_key=True, max_length=40)
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """UTC, milliseconds since 1970."""
    count: int
    """Games it shall have. Fewer rows: it is still being laid out."""
    seed: str
    """Decimal: what the games' own seeds are drawn from where none are given."""
    spec: Json = Field(sa_column=Column(JsonColumn(dict), nullable=False))
    """The checked request."""
    labels: Json = Field(sa_column=Column(JsonColumn(dict), nullable=False))
    cancelled: bool = False


class GamesTable(SQLModel, table=True):
    """One game beside its log."""

    __tablename__ = "games"
    __table_args__ = (
        Index("ix_games_batch", "batch_id", "position", unique=True),
        Index("ix_games_status", "status", "created_at"),
    )

    game_id: str = Field(primary_key=True, max_length=40)
    batch_id: str = Field(foreign_key="batches.batch_id", max_length=40)
    position: int
    """Place in the batch, from 0."""
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    finished_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    status: str
    """created, running, finished, cancelled, failed."""
    drive: str
    """auto or manual."""
    seed: str | None = None
    """What agents' own seeds are drawn from; decimal. Not the deal's where a game was forked off an
    imported one."""
    seats: list[Json] = Field(sa_column=Column(JsonColumn(list, dict), nullable=False))
    """The spec of seat 1 first. Empty: an imported game."""
    profile: str
    players: int
    head: int
    """Events in the log."""
    winner: str | None = None
    ending: str | None = None
    forked_from: Json | None = Field(
        default=None, sa_column=Column(JsonColumn(dict, none_as_null=True), nullable=True)
    )
    imported_from: Json | None = Field(
        default=None, sa_column=Column(JsonColumn(dict, none_as_null=True), nullable=True)
    )
    fault: str | None = None
    """Trace id of what failed the game; the error itself is in the service's own log."""
    epochs: dict[str, int] | None = Field(
        default=None, sa_column=Column(JsonColumn(dict, none_as_null=True), nullable=True)
    )
    """By seat, how often its tokens were made anew, from 1; a seat that is not named is at 1."""


class EventsTable(SQLModel, table=True):
    """One event. (game_id, seq) is unique: two writers cannot both be right."""

    __tablename__ = "events"
    __table_args__ = ({"sqlite_with_rowid": False},)

    game_id: str = Field(primary_key=True, max_length=40)
    seq: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """Place in the full log, from 1. Other viewers' positions are counted, never stored."""
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Commit time, UTC, milliseconds since 1970."""
    audience: int = Field(sa_column=Column(SmallInteger, nullable=False))
    """0 public, -1 full, else the seat that sees it beside full."""
    type: str
    payload: str = Field(sa_column=Column(Text, nullable=False))
    """JSON, fields in the order of the event's definition."""


class IdempotencyTable(SQLModel, table=True):
    """An answer kept for a repeated request."""

    __tablename__ = "idempotency"

    caller: str = Field(primary_key=True)
    route: str = Field(primary_key=True)
    key: str = Field(primary_key=True, max_length=128)
    body_hash: str
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    status: int
    answer: Json = Field(sa_column=Column(JsonColumn(dict), nullable=False))


class ModelCallsTable(SQLModel, table=True):
    """One call to a model: what was answered, and what it took. Written once, before it is used.

    A judge's calls stand under its evaluation's id in place of a game's, and name the game in ``about``.

    Text of others' making stands as JSON in ASCII: a database need not take U+0000 or half a surrogate.
    """

    __tablename__ = "model_calls"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    step: str = Field(primary_key=True, max_length=64)
    about: str = Field(primary_key=True, max_length=200)
    """What tells sibling questions of a step apart; empty where there is one."""
    attempt: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    seat: int = Field(sa_column=Column(SmallInteger, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Commit time, UTC, milliseconds since 1970."""
    endpoint: str
    model: str
    """As the provider names it; as our settings do where nothing was answered."""
    messages_sha256: str = Field(max_length=64)
    messages: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """What was asked, as the JSON that was hashed; null unless the setting says to keep it."""
    asked_temperature: float
    asked_max_tokens: int
    """What the seat asked for; the very same question asks for the same."""
    temperature: float | None = None
    max_tokens: int | None = None
    """As they were sent with the request that was answered so, under whatever name; null: without."""
    parameters: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """All that was sent with its messages, as JSON. Null: nothing was, or an earlier version stored this."""
    text: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The raw answer. Null: none came."""
    value: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The JSON value found in it. Null: there was none."""
    failure: str | None = None
    """Why nothing was answered, in a short word; null where something was."""
    prompt_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cached_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    completion_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    tokens_known: bool = Field(sa_column=Column(YesNo, nullable=False))
    """False: the provider did not say, and the numbers are our estimate."""
    cost: float
    latency_s: float
    finish: str
    http_calls: int


class InboxTable(SQLModel, table=True):
    """The outcome of one request to a remote seat: an accepted answer, or why the default is played.

    One row a request, ever: answer and deadline race for the primary key. Written once.
    """

    __tablename__ = "inbox"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    seat: int = Field(sa_column=Column(SmallInteger, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Commit time, UTC, milliseconds since 1970."""
    cause: str | None = None
    """deadline, attempts or cancelled: no answer came. Null: an answer."""
    action: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """Canonical JSON (RFC 8785) of the action as it was sent, lines ending with LF."""
    thoughts: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """JSON list of the thoughts that are kept, as they were sent. Null: none."""
    thoughts_refused: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """JSON list of what was wrong with the others: pointer and message. Null: nothing."""
    via: str = Field(max_length=40)
    """The socket's connection, ``http``, or ``service``."""
    receipt: str = Field(max_length=32)
    """Random: whoever wrote the row knows it by this."""


class RefusalsTable(SQLModel, table=True):
    """An answer of a remote seat that was refused; they count for the attempts left."""

    __tablename__ = "refusals"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    attempt: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    """From 1."""
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    message: str | None = Field(default=None, max_length=64)
    """The client's id of the message: the same message, sent again, is not another attempt."""
    answer: str = Field(max_length=64)
    """SHA-256 of what was sent, canonical."""
    code: str = Field(max_length=40)
    detail: str = Field(sa_column=Column(Text, nullable=False))
    pointer: str = Field(sa_column=Column(Text, nullable=False))


class HoldersTable(SQLModel, table=True):
    """Which connection holds a remote seat: the newest, on whichever replica."""

    __tablename__ = "holders"

    game_id: str = Field(primary_key=True, max_length=40)
    seat: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    conn: str = Field(max_length=40)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


class ApiKeysTable(SQLModel, table=True):
    """A key, ended ones too: a service that ever had one asks for one. The key itself is not stored."""

    __tablename__ = "api_keys"

    key_id: str = Field(primary_key=True, max_length=40)
    name: str = Field(max_length=100)
    hash: str = Field(max_length=64, unique=True)
    """SHA-256, hexadecimal. The key has 256 random bits, so there is nothing to guess."""
    scopes: list[str] = Field(sa_column=Column(JsonColumn(list, str), nullable=False))
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    used_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """The hour of the last use."""
    revoked_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


class TokenSecretsTable(SQLModel, table=True):
    """A secret that tokens are signed with, where the settings name none."""

    __tablename__ = "token_secrets"

    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """From 1; the highest signs. Two processes that make the same one cannot both be right."""
    secret: str
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))


_tables: Final = SQLModel.metadata.tables
batches: Final = _tables["batches"]
games: Final = _tables["games"]
events: Final = _tables["events"]
idempotency: Final = _tables["idempotency"]
model_calls: Final = _tables["model_calls"]
inbox: Final = _tables["inbox"]
refusals: Final = _tables["refusals"]
holders: Final = _tables["holders"]
api_keys: Final = _tables["api_keys"]
token_secrets: Final = _tables["token_secrets"]
