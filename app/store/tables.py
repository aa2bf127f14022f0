"""The tables. A game is its rows in ``events``; all other tables hold requests and indexes.

The columns of tables that are read as typed rows are the fields of those rows. Of evaluations, rows are added
and never changed; gold is in none of their tables: it is a query over the games' logs.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Integer, SmallInteger, String, Table, Text

from app.store.rows import (
    METADATA,
    AnswerRow,
    ApiKey,
    BatchRow,
    BooleanColumn,
    EvaluationRow,
    GameRow,
    JsonColumn,
    JudgementRow,
    StatementsRow,
    TokenSecret,
    table_of,
)

__all__ = [
    "answers",
    "api_keys",
    "batches",
    "evaluations",
    "events",
    "games",
    "holders",
    "idempotency",
    "inbox",
    "judgements",
    "model_calls",
    "refusals",
    "seen",
    "statements",
    "tasks",
    "token_secrets",
]

batches: Final = table_of(BatchRow)
games: Final = table_of(GameRow)
evaluations: Final = table_of(EvaluationRow)
answers: Final = table_of(AnswerRow)
judgements: Final = table_of(JudgementRow)
statements: Final = table_of(StatementsRow)
api_keys: Final = table_of(ApiKey)
token_secrets: Final = table_of(TokenSecret)

# Every ``at`` is a commit time: UTC, milliseconds since 1970.

events: Final = Table(
    "events",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    # Place in the full log, from 1. Other viewers' positions are counted, never stored.
    Column("seq", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    # 0 public, -1 full, else the seat that sees it beside full.
    Column("audience", SmallInteger, nullable=False),
    Column("type", String, nullable=False),
    # JSON, fields in the order of the event's definition.
    Column("payload", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""One event. (game_id, seq) is unique: of two writers of the same event, one is refused."""

idempotency: Final = Table(
    "idempotency",
    METADATA,
    Column("caller", String, primary_key=True),
    Column("route", String, primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("body_hash", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("status", Integer, nullable=False),
    Column("answer", JsonColumn(dict), nullable=False),
)
"""An answer kept for a repeated request."""

model_calls: Final = Table(
    "model_calls",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("step", String(64), primary_key=True),
    # Tells sibling questions of a step apart; empty where there is only one.
    Column("about", String(200), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seat", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("model", String, nullable=False),
    Column("messages_sha256", String(64), nullable=False),
    Column("messages", Text),
    Column("asked_temperature", Float, nullable=False),
    Column("asked_max_tokens", Integer, nullable=False),
    Column("temperature", Float),
    Column("max_tokens", Integer),
    # Null also where an earlier version stored the call.
    Column("parameters", Text),
    Column("text", Text),
    Column("value", Text),
    Column("failure", String),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    # False: the provider did not say, and the numbers are our estimate.
    Column("tokens_known", BooleanColumn, nullable=False),
    Column("cost", Float, nullable=False),
    Column("latency_s", Float, nullable=False),
    Column("finish", String, nullable=False),
    Column("http_calls", Integer, nullable=False),
)
"""One call to a model, as ``app.store.call.Call`` describes it. Written once, before the answer is used.

A judge's calls are stored under its evaluation's id in place of a game's, and name the game in ``about``.
Text that others wrote is stored as JSON in ASCII: a database need not take U+0000 or half a surrogate.
"""

inbox: Final = Table(
    "inbox",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("seat", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("cause", String),
    Column("action", Text),
    Column("thoughts", Text),
    Column("thoughts_refused", Text),
    Column("via", String(40), nullable=False),
    Column("receipt", String(32), nullable=False),
)
"""The outcome of one request to a remote seat, as ``app.store.inbox.RequestOutcome`` describes it.

One row for a request, ever: answer and deadline race for the primary key. Written once.
"""

refusals: Final = Table(
    "refusals",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    # From 1.
    Column("attempt", SmallInteger, primary_key=True),
    Column("at", BigInteger, nullable=False),
    # The client's id of the message: the same message, sent again, is not another attempt.
    Column("message", String(64)),
    # SHA-256 of what was sent, canonical.
    Column("answer", String(64), nullable=False),
    Column("code", String(40), nullable=False),
    Column("detail", Text, nullable=False),
    Column("pointer", Text, nullable=False),
)
"""An answer of a remote seat that was refused; each one uses up an attempt."""

holders: Final = Table(
    "holders",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("seat", SmallInteger, primary_key=True),
    Column("conn", String(40), nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""Which connection holds a remote seat: the newest, on whichever replica."""

tasks: Final = Table(
    "annotation_tasks",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("caller", String, primary_key=True),
    Column("rater", String(80), primary_key=True),
    Column("at", BigInteger, nullable=False),
)
"""A speaking turn that a rater was dealt to judge."""

seen: Final = Table(
    "seen_turns",
    METADATA,
    Column("caller", String, primary_key=True),
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
)
"""A credential that was shown what a seat chose in a speaking turn: it may no longer guess that turn."""
