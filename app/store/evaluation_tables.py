"""The tables of evaluations: what raters answered and judged, and what they were shown.

Rows are added, never changed: a second opinion is another row with the next ``grade``. Gold stands in
none of them; it is a query over the games' logs.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Text
from sqlmodel import Field, SQLModel

from app.store.json_column import JsonColumn, YesNo

__all__ = [
    "AnswersTable",
    "EvaluationsTable",
    "JudgementsTable",
    "SeenTable",
    "StatementsTable",
    "TasksTable",
    "answers",
    "evaluations",
    "judgements",
    "seen",
    "statements",
    "tasks",
]

Json = dict[str, Any]


class EvaluationsTable(SQLModel, table=True):
    """Answers handed in together, or the work of a model judge."""

    __tablename__ = "evaluations"
    __table_args__ = (Index("ix_evaluations_created", "created_at", "evaluation_id"),)

    evaluation_id: str = Field(primary_key=True, max_length=40)
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    """UTC, milliseconds since 1970."""
    finished_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    caller: str
    """The credential that handed it in, by its public name."""
    dimension: str
    rater: str = Field(max_length=80)
    kind: str
    """model, human or program."""
    grade: int
    """1 at first; a re-grade has that of what it grades again, plus 1."""
    regrade_of: str | None = Field(default=None, max_length=40)
    status: str
    """scored, judging, cancelled or failed."""
    spec: Json = Field(sa_column=Column("wish", JsonColumn(dict), key="spec", nullable=False))
    """The variant, and for a judge what it judges."""
    result: Json | None = Field(
        default=None, sa_column=Column(JsonColumn(dict, none_as_null=True), nullable=True)
    )
    """The scores; written once."""


class AnswersTable(SQLModel, table=True):
    """One rater's answer about one item. The key is what makes it graded once."""

    __tablename__ = "answers"
    __table_args__ = (
        Index("ix_answers_evaluation", "evaluation_id"),
        Index("ix_answers_game", "game_id", "dimension"),
    )

    caller: str = Field(primary_key=True)
    rater: str = Field(primary_key=True, max_length=80)
    item_id: str = Field(primary_key=True, max_length=160)
    sample: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    grade: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    evaluation_id: str = Field(foreign_key="evaluations.evaluation_id", max_length=40)
    game_id: str = Field(max_length=40)
    dimension: str
    named: list[str] = Field(sa_column=Column(JsonColumn(list, str), nullable=False))
    """Ids or free text, as they were given."""
    role: str | None = None
    confidence: int | None = Field(default=None, sa_column=Column(SmallInteger, nullable=True))


class JudgementsTable(SQLModel, table=True):
    """One rater's word on one intention of one stage of a speaking turn."""

    __tablename__ = "judgements"
    __table_args__ = (Index("ix_judgements_game", "game_id"),)

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    stage: str = Field(primary_key=True, max_length=8)
    intention: str = Field(primary_key=True, max_length=80)
    dimension: str = Field(primary_key=True, max_length=16)
    """selection: ``reasonable`` is given; following: ``think``, ``speak``, or both."""
    caller: str = Field(primary_key=True)
    rater: str = Field(primary_key=True, max_length=80)
    grade: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    kind: str
    evaluation_id: str | None = Field(default=None, max_length=40)
    """Of a model judge: the evaluation that asked it."""
    reasonable: bool | None = Field(default=None, sa_column=Column(YesNo, nullable=True))
    think: int | None = Field(default=None, sa_column=Column(SmallInteger, nullable=True))
    speak: int | None = Field(default=None, sa_column=Column(SmallInteger, nullable=True))
    comment: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class StatementsTable(SQLModel, table=True):
    """One rater's word on the statements of one speech: what it says of the record, and if that is so."""

    __tablename__ = "statement_judgements"
    __table_args__ = (
        Index("ix_statement_judgements_evaluation", "evaluation_id", "game_id", "request_id", "turn"),
    )

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    turn: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """Utterances before it in the attempt; negative: a control speech."""
    caller: str = Field(primary_key=True)
    rater: str = Field(primary_key=True, max_length=80)
    grade: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    kind: str
    evaluation_id: str = Field(max_length=40)
    statements: list[Json] = Field(sa_column=Column(JsonColumn(list, dict), nullable=False))
    """Each with start, end, quote, verdict, record and reason; empty: the speech states nothing."""
    control_speeches: Json | None = Field(
        default=None,
        sa_column=Column(
            "planted", JsonColumn(dict, none_as_null=True), key="control_speeches", nullable=True
        ),
    )
    """Of a control speech: how often rules and judge say what of its statements."""


class TasksTable(SQLModel, table=True):
    """A speaking turn that a rater was dealt to judge."""

    __tablename__ = "annotation_tasks"

    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)
    caller: str = Field(primary_key=True)
    rater: str = Field(primary_key=True, max_length=80)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


class SeenTable(SQLModel, table=True):
    """A credential that was shown what a seat chose in a speaking turn: it may not guess that any more."""

    __tablename__ = "seen_turns"

    caller: str = Field(primary_key=True)
    game_id: str = Field(primary_key=True, max_length=40)
    request_id: str = Field(primary_key=True, max_length=40)


_tables: Final = SQLModel.metadata.tables
evaluations: Final = _tables["evaluations"]
answers: Final = _tables["answers"]
judgements: Final = _tables["judgements"]
tasks: Final = _tables["annotation_tasks"]
seen: Final = _tables["seen_turns"]
statements: Final = _tables["statement_judgements"]
