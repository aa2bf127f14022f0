"""The tables. A game is its rows in ``events``; all other tables hold requests and indexes.

The columns of tables that are read as typed rows are the fields of those rows. Of evaluations, rows are added
and never changed; gold is in none of their tables: it is a query over the games' logs.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Text
from sqlmodel import Field, SQLModel

from app.store.rows import (
    METADATA,
    AnswerRow,
    ApiKey,
    BatchRow,
    BooleanColumn,
    BotRow,
    EvaluationRow,
    GameRow,
    JsonColumn,
    JudgementRow,
    OpenGameRow,
    Outage,
    PlayerRow,
    QuotaRow,
    SeekRow,
    SetAnswersRow,
    SetEntryRow,
    SetItemRow,
    SetOriginRow,
    SetRow,
    StatementsRow,
    TokenSecret,
    table_of,
)

__all__ = [
    "answers",
    "api_keys",
    "audit",
    "batches",
    "bots",
    "claim_codes",
    "deletions",
    "evaluations",
    "events",
    "game_players",
    "games",
    "holders",
    "idempotency",
    "inbox",
    "judgements",
    "model_calls",
    "model_leases",
    "model_limits",
    "model_outages",
    "model_spending",
    "open_games",
    "owner_spending",
    "quota_use",
    "quotas",
    "refusals",
    "schema_programs",
    "seeks",
    "seen",
    "seen_views",
    "set_answers",
    "set_entries",
    "set_items",
    "set_origins",
    "sets",
    "statements",
    "tasks",
    "token_secrets",
    "tokens",
]

batches: Final = table_of(BatchRow)
games: Final = table_of(GameRow)
evaluations: Final = table_of(EvaluationRow)
answers: Final = table_of(AnswerRow)
judgements: Final = table_of(JudgementRow)
statements: Final = table_of(StatementsRow)
sets: Final = table_of(SetRow)
set_items: Final = table_of(SetItemRow)
set_origins: Final = table_of(SetOriginRow)
set_entries: Final = table_of(SetEntryRow)
set_answers: Final = table_of(SetAnswersRow)
api_keys: Final = table_of(ApiKey)
quotas: Final = table_of(QuotaRow)
token_secrets: Final = table_of(TokenSecret)
model_outages: Final = table_of(Outage)
bots: Final = table_of(BotRow)
seeks: Final = table_of(SeekRow)
open_games: Final = table_of(OpenGameRow)
game_players: Final = table_of(PlayerRow)


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
    """0: public; -1: full; otherwise the seat that sees it, as full does."""
    type: str
    payload: str = Field(sa_column=Column(Text, nullable=False))
    """JSON, fields in the order of the event's definition."""


events: Final = METADATA.tables["events"]


class IdempotencyTable(SQLModel, table=True):
    """An answer kept for a repeated request."""

    __tablename__ = "idempotency"
    __table_args__ = (Index("ix_idempotency_created", "created_at"),)

    caller: str = Field(primary_key=True)
    route: str = Field(primary_key=True)
    key: str = Field(primary_key=True, max_length=128)
    body_hash: str
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    status: int
    answer: dict[str, Any] = Field(sa_column=Column(JsonColumn(dict), nullable=False))


idempotency: Final = METADATA.tables["idempotency"]


class ModelCallsTable(SQLModel, table=True):
    """One call to a model: what was answered, and what it took. Written once, before it is used.

    A judge's calls are stored under its evaluation's id in place of a game's, and name the game in ``about``.

    Texts from outside are stored as JSON in ASCII: not every database takes U+0000 or a lone surrogate.
    """

    __tablename__ = "model_calls"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    step: str = Field(primary_key=True, max_length=64)
    about: str = Field(primary_key=True, max_length=200)
    """What tells sibling questions of a step apart; empty where there is only one."""
    attempt: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    seat: int = Field(sa_column=Column(SmallInteger, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Commit time, UTC, milliseconds since 1970."""
    endpoint: str
    model: str
    """As the provider names it; without an answer, as the endpoint's settings name it."""
    messages_sha256: str = Field(max_length=64)
    messages: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """What was asked, as the JSON that was hashed. Null unless the settings keep it."""
    asked_temperature: float
    asked_max_tokens: int
    """What the seat asked for; the same question asks for the same values."""
    asked: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """What the seat asked for besides, as JSON; a name that is not in it was not asked for. Null: nothing."""
    temperature: float | None = None
    max_tokens: int | None = None
    """As they were sent with the last request, under whatever name. Null: it was sent without."""
    parameters: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """Everything that was sent with the messages, as JSON. Null: nothing, or unknown (an earlier version)."""
    text: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The raw answer. Null: none came."""
    value: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """The JSON value found in it. Null: there was none."""
    failure: str | None = None
    """The cause, if there was no answer, as a short text. Null: there was an answer."""
    prompt_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cached_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    completion_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    tokens_known: bool = Field(sa_column=Column(BooleanColumn, nullable=False))
    """False: the provider did not say, and the numbers are our estimate."""
    reasoning_tokens: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Of the completion's tokens, the reasoning. Null: not returned."""
    cost: float
    reported_cost: float | None = None
    """What the provider says it charged. Null: not returned."""
    latency_s: float
    finish: str
    http_calls: int
    provider: str | None = None
    """Who served the answer, where a router says so. Null: not returned."""
    fingerprint: str | None = None
    """The provider's ``system_fingerprint``. Null: not returned."""
    reasoning: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    """What the model thought, as a JSON string; for researchers alone. Null: not returned."""


model_calls: Final = METADATA.tables["model_calls"]


class ModelSpendingTable(SQLModel, table=True):
    """What one game has spent on models: sums over its calls, changed in the transaction that stores a call.

    A batch's sum over its games tells every process what is left of its budget.
    """

    __tablename__ = "model_spending"

    game_id: str = Field(primary_key=True, max_length=40)
    batch_id: str = Field(max_length=40, index=True)
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Of prompts and completions."""
    cost: float
    owner: str | None = Field(default=None, max_length=120)
    """Whose quota its calls count towards. Null: nobody's, or not known yet (an earlier version)."""


model_spending: Final = METADATA.tables["model_spending"]


class OwnerSpendingTable(SQLModel, table=True):
    """What one game, or one judge, has spent on models on one day: sums over its calls, changed in the
    transaction that stores a call. An owner's sum over a day tells every process what is left of its quota.

    These rows stay when a game is deleted, since what it cost was spent all the same.
    """

    __tablename__ = "owner_spending"
    __table_args__ = (Index("ix_owner_spending_owner", "owner", "day"),)

    account: str = Field(primary_key=True, max_length=40)
    """A game, or the evaluation of a judge."""
    day: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """Of UTC, counted from 1970."""
    owner: str = Field(max_length=120)
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Of prompts and completions."""
    cost: float


owner_spending: Final = METADATA.tables["owner_spending"]


class QuotaUseTable(SQLModel, table=True):
    """How much of one quota an owner has used on one day."""

    __tablename__ = "quota_use"

    owner: str = Field(primary_key=True, max_length=120)
    day: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """Of UTC, counted from 1970."""
    name: str = Field(primary_key=True, max_length=40)
    amount: int = Field(sa_column=Column(BigInteger, nullable=False))


quota_use: Final = METADATA.tables["quota_use"]


class ModelLeasesTable(SQLModel, table=True):
    """What one process may use of a limit that all processes keep together; see ``app/store/leases.py``."""

    __tablename__ = "model_leases"

    name: str = Field(primary_key=True, max_length=64)
    """An endpoint, the id of a batch, or an owner's works of a kind."""
    process: str = Field(primary_key=True, max_length=32)
    places: int
    wanted: int
    """How many places it would use without the limit."""
    owners: dict[str, int] | None = Field(
        default=None, sa_column=Column(JsonColumn(dict, none_as_null=True), nullable=True)
    )
    """The same by owner. Null: a program of an earlier release, which does not say."""
    share: float
    """Of the endpoint's requests and tokens a minute, in [0, 1]."""
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cost: float
    """How much of a batch's budget it may spend beyond what was stored when it asked."""
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """By the database's clock, in ms since 1970."""


model_leases: Final = METADATA.tables["model_leases"]


class ModelLimitsTable(SQLModel, table=True):
    """How many calls an endpoint bears at once, as all processes together have found out."""

    __tablename__ = "model_limits"

    name: str = Field(primary_key=True, max_length=64)
    bounds: str = Field(max_length=20)
    """The setting that the number belongs to, ``least-first-most``."""
    places: int
    answers: int
    """Answers since the number last changed."""
    lowered_at: int = Field(sa_column=Column(BigInteger, nullable=False))


model_limits: Final = METADATA.tables["model_limits"]


class InboxTable(SQLModel, table=True):
    """The outcome of one request to a remote seat: an accepted answer, or why the default is played.

    One row per request, ever: answer and deadline race for the primary key. Written once.
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
    """JSON list of what was wrong with the other thoughts: pointer and message. Null: nothing."""
    via: str = Field(max_length=40)
    """The socket's connection, ``http``, or ``service``."""
    receipt: str = Field(max_length=32)
    """Random: whoever wrote the row recognises it by this."""


inbox: Final = METADATA.tables["inbox"]


class RefusalsTable(SQLModel, table=True):
    """A refused answer of a remote seat; each uses up an attempt."""

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


refusals: Final = METADATA.tables["refusals"]


class HoldersTable(SQLModel, table=True):
    """Which connection holds a remote seat: the newest, on whichever replica."""

    __tablename__ = "holders"

    game_id: str = Field(primary_key=True, max_length=40)
    seat: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    conn: str = Field(max_length=40)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """When the connection came."""


holders: Final = METADATA.tables["holders"]


class ClaimCodesTable(SQLModel, table=True):
    """A one-time code that is exchanged for a seat's token. At most one code of a seat is open."""

    __tablename__ = "claim_codes"

    code: str = Field(primary_key=True, max_length=64)
    """SHA-256 of the code: 130 random bits, so there is nothing to guess."""
    game_id: str = Field(max_length=40, index=True)
    seat: int = Field(sa_column=Column(SmallInteger, nullable=False))
    epoch: int
    """Of the seat's tokens when the code was made: revoking them revokes the code."""
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    used_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    by: str | None = Field(default=None, max_length=100)
    """The public name of the credential that made it; its token comes from the same. Null: unknown."""
    used_by: str | None = Field(default=None, max_length=100)
    """The owner who used it. Null: nobody with a key, or unknown (an earlier version)."""


claim_codes: Final = METADATA.tables["claim_codes"]


class TokensTable(SQLModel, table=True):
    """A token that was minted on demand: it can be listed and revoked. The token itself is not kept."""

    __tablename__ = "tokens"
    __table_args__ = (
        Index("ix_tokens_owner", "owner", "created_at", "token_id"),
        Index("ix_tokens_expires", "expires_at"),
    )

    token_id: str = Field(primary_key=True, max_length=40)
    game_id: str | None = Field(default=None, max_length=40, index=True)
    """Null: it watches the whole batch."""
    batch_id: str = Field(max_length=40)
    seat: int | None = Field(default=None, sa_column=Column(SmallInteger, nullable=True))
    """Null: it only watches."""
    owner: str = Field(max_length=100)
    by: str = Field(max_length=100)
    """The public name of the credential that it came from."""
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    revoked_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


tokens: Final = METADATA.tables["tokens"]


class AuditTable(SQLModel, table=True):
    """Who did what: rows are added, and never changed."""

    __tablename__ = "audit"

    number: int = Field(
        sa_column=Column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)
    )
    at: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    """UTC, milliseconds since 1970."""
    by: str = Field(max_length=100)
    """The credential's public name, or the user of the operating system."""
    owner: str = Field(max_length=100)
    """The owner of what that credential makes."""
    action: str = Field(max_length=40)
    object: str = Field(max_length=100, index=True)
    """The id of the game, batch, evaluation, token or key."""
    detail: dict[str, Any] = Field(sa_column=Column(JsonColumn(dict), nullable=False))


audit: Final = METADATA.tables["audit"]


class TasksTable(SQLModel, table=True):
    """A speaking turn that a rater was dealt to judge."""

    __tablename__ = "annotation_tasks"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    caller: str = Field(primary_key=True)
    rater: str = Field(primary_key=True, max_length=80)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


tasks: Final = METADATA.tables["annotation_tasks"]


class SeenTable(SQLModel, table=True):
    """An owner who was shown what a seat chose in a speaking turn: no key of it may guess that any more."""

    __tablename__ = "seen_turns"

    caller: str = Field(primary_key=True)
    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)


seen: Final = METADATA.tables["seen_turns"]


class SeenViewsTable(SQLModel, table=True):
    """An owner who was shown a seat's view of a game: no key of it may answer items of other views."""

    __tablename__ = "seen_views"

    owner: str = Field(primary_key=True)
    """Where ``held``, perhaps the public name of a key."""
    game_id: str = Field(primary_key=True, max_length=40)
    seat: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    held: bool = Field(default=False, sa_column=Column(BooleanColumn, nullable=False, default=False))
    """Whether it held this seat in a fork of the game that was deleted since."""


seen_views: Final = METADATA.tables["seen_views"]


class DeletionsTable(SQLModel, table=True):
    """A game that somebody deleted. Its id is all that is left of what was played."""

    __tablename__ = "deletions"

    game_id: str = Field(primary_key=True, max_length=40)
    batch_id: str = Field(max_length=40)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """UTC, milliseconds since 1970."""
    by: str = Field(max_length=100)
    """The credential's public name, or the user of the operating system."""
    events: int
    """The length of its log."""


deletions: Final = METADATA.tables["deletions"]


class SchemaProgramsTable(SQLModel, table=True):
    """A revision of the schema whose programs can use the schema as it is now (see ``app.store.schema``)."""

    __tablename__ = "schema_programs"

    revision: str = Field(primary_key=True, max_length=32)


schema_programs: Final = METADATA.tables["schema_programs"]
