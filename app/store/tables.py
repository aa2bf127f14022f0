"""The tables. A game is its rows in ``events``; all other tables hold requests and indexes.

Tables that are read as typed rows have the fields of those rows as their columns. Rows about evaluations are
added and never changed. No table holds gold: it is read from the games' logs.
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
    Outage,
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
    "model_outages",
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
model_outages: Final = table_of(Outage)

events: Final = Table(
    "events",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    # The place in the full log, from 1. Positions of other viewers are counted, never stored.
    Column("seq", Integer, primary_key=True, autoincrement=False),
    # Commit time: UTC, milliseconds since 1970; so is every other ``at``.
    Column("at", BigInteger, nullable=False),
    # 0: public; -1: full; otherwise the seat that sees the event, as full does.
    Column("audience", SmallInteger, nullable=False),
    Column("type", String, nullable=False),
    # JSON, with the fields in the order in which the event defines them.
    Column("payload", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""One event in each row. The key is (game_id, seq), so two writers cannot both append the same event."""

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
"""Answers that are kept for repeated requests."""

model_calls: Final = Table(
    "model_calls",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("step", String(64), primary_key=True),
    # Tells apart the questions of one step; empty if the step asks only one.
    Column("about", String(200), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("seat", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("endpoint", String, nullable=False),
    # The provider's name for the model; without an answer, the name in the endpoint's settings.
    Column("model", String, nullable=False),
    Column("messages_sha256", String(64), nullable=False),
    # The prompt, as the JSON that was hashed. Null unless the settings keep prompts.
    Column("messages", Text),
    # What the seat asked for. The same question always asks for the same values.
    Column("asked_temperature", Float, nullable=False),
    Column("asked_max_tokens", Integer, nullable=False),
    # The seat's other parameters, as JSON. Null: none.
    Column("asked", Text),
    # The values in the last request, whatever the parameters were called there. Null: not in the request.
    Column("temperature", Float),
    Column("max_tokens", Integer),
    # Everything that was sent with the messages, as JSON. Null: nothing, or unknown (an earlier version).
    Column("parameters", Text),
    # The raw answer. Null: there was none.
    Column("text", Text),
    # The JSON value in the answer. Null: it has none.
    Column("value", Text),
    # Why there was no answer, as a short text. Null: there was one.
    Column("failure", String),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    # False: the provider gave no numbers, and these are our estimate.
    Column("tokens_known", BooleanColumn, nullable=False),
    # How many of the completion's tokens were reasoning. Null: not returned.
    Column("reasoning_tokens", BigInteger),
    Column("cost", Float, nullable=False),
    # What the provider says it charged. Null: not returned.
    Column("reported_cost", Float),
    Column("latency_s", Float, nullable=False),
    Column("finish", String, nullable=False),
    Column("http_calls", Integer, nullable=False),
    # Who served the answer, if a router says so. Null: not returned.
    Column("provider", String),
    # The provider's ``system_fingerprint``. Null: not returned.
    Column("fingerprint", String),
    # The model's reasoning, as a JSON string; only researchers see it. Null: not returned.
    Column("reasoning", Text),
)
"""One call to a model in each row: the answer, and what it took. A row is written once, before it is used.

A judge's calls have the id of its evaluation as ``game_id``, and name the game in ``about``. Texts from
outside are stored as JSON in ASCII, since not every database takes U+0000 or a lone surrogate.
"""

inbox: Final = Table(
    "inbox",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("seat", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    # Why no answer was accepted: deadline, attempts or cancelled. Null: an answer was accepted.
    Column("cause", String),
    # The action as it was sent, as canonical JSON (RFC 8785); lines end with LF.
    Column("action", Text),
    # The kept thoughts as they were sent, as a JSON list. Null: none.
    Column("thoughts", Text),
    # What was wrong with the other thoughts, as a JSON list of pointers and messages. Null: nothing.
    Column("thoughts_refused", Text),
    # The socket's connection, ``http``, or ``service``.
    Column("via", String(40), nullable=False),
    # Random: whoever wrote the row recognises it by this.
    Column("receipt", String(32), nullable=False),
)
"""The outcome of one request to a remote seat in each row: an accepted answer, or why the default is played.

A request never gets a second row: the answer and the deadline race for the primary key. Written once.
"""

refusals: Final = Table(
    "refusals",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    # From 1.
    Column("attempt", SmallInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    # The client's id of the message: the same message, sent again, uses up no further attempt.
    Column("message", String(64)),
    # SHA-256 of the canonical answer.
    Column("answer", String(64), nullable=False),
    Column("code", String(40), nullable=False),
    Column("detail", Text, nullable=False),
    Column("pointer", Text, nullable=False),
)
"""Refused answers of remote seats; each uses up an attempt."""

holders: Final = Table(
    "holders",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("seat", SmallInteger, primary_key=True, autoincrement=False),
    Column("conn", String(40), nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""Which connection holds each remote seat: the newest one, in any process."""

tasks: Final = Table(
    "annotation_tasks",
    METADATA,
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
    Column("caller", String, primary_key=True),
    Column("rater", String(80), primary_key=True),
    Column("at", BigInteger, nullable=False),
)
"""The speaking turns that each rater was dealt to judge."""

seen: Final = Table(
    "seen_turns",
    METADATA,
    Column("caller", String, primary_key=True),
    Column("game_id", String(40), primary_key=True),
    Column("request_id", String(40), primary_key=True),
)
"""The speaking turns whose choices a credential was shown. It may no longer guess them."""
