"""Rows as the store hands them out, and takes them in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypeVar

from sqlalchemy import Table

from app.base.schemas import GameStatus
from app.store.evaluation_tables import answers, evaluations, judgements, statements
from app.store.json_column import Damaged
from app.store.row_checks import check_row, row_name
from app.store.tables import batches, games
from engine.thoughts import SelectionStage

__all__ = [
    "AnswerRow",
    "BatchRow",
    "DamagedGame",
    "EvaluationRow",
    "GameRow",
    "JudgementRow",
    "StatementsRow",
    "UnfinishedJudging",
    "name_of",
    "read_row",
    "table_of",
    "typed_row",
    "values_of",
]

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class BatchRow:
    """Games created together. See ``BatchesTable`` for the columns."""

    batch_id: str
    created_at: int
    count: int
    seed: str
    spec: Json | Damaged
    labels: Json | Damaged = field(default_factory=dict)
    cancelled: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class GameRow:
    """One game beside its log. See ``GamesTable`` for the columns."""

    game_id: str
    batch_id: str
    position: int
    created_at: int
    status: GameStatus
    drive: str
    seed: str
    seats: Sequence[Json] | Damaged
    profile: str
    players: int
    head: int
    finished_at: int | None = None
    winner: str | None = None
    ending: str | None = None
    forked_from: Json | Damaged | None = None
    imported_from: Json | Damaged | None = None
    fault: str | None = None
    epochs: Mapping[str, int] | Damaged | None = None


class DamagedGame(NamedTuple):
    """Stands in a list for the row of a game that does not read."""

    game_id: str
    forked_from: Any
    """As it is stored; None: not forked off another game."""


RaterKind = Literal["model", "human", "program"]


@dataclass(frozen=True, slots=True, repr=False)
class EvaluationRow:
    """Answers handed in together, or the work of a model judge. See ``EvaluationsTable`` for the columns."""

    evaluation_id: str
    created_at: int
    finished_at: int | None
    caller: str
    dimension: Literal["selection", "following", "summarisation", "guessing", "statements"]
    rater: str
    kind: RaterKind
    grade: int
    regrade_of: str | None
    status: Literal["scored", "judging", "cancelled", "failed"]
    spec: Json
    result: Json | None


class UnfinishedJudging(NamedTuple):
    """What is to be known of an evaluation whose judge is at work."""

    evaluation_id: str
    status: str
    spec: Json | Damaged


@dataclass(frozen=True, slots=True, repr=False)
class AnswerRow:
    """One rater's answer about one item. See ``AnswersTable`` for the columns."""

    item_id: str
    sample: int
    game_id: str
    dimension: str
    named: Sequence[str]
    role: str | None
    confidence: int | None
    caller: str = ""
    rater: str = ""
    grade: int = 1
    evaluation_id: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class JudgementRow:
    """One rater's judgement of one intention. See ``JudgementsTable`` for the columns."""

    game_id: str
    request_id: str
    stage: SelectionStage
    intention: str
    dimension: str
    caller: str
    rater: str
    kind: RaterKind
    grade: int = 1
    at: int = 0
    evaluation_id: str | None = None
    reasonable: bool | None = None
    think: int | None = None
    speak: int | None = None
    comment: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What is judged: a rater's later judgement of the same has the next grade."""
        return self.game_id, self.request_id, self.stage, self.intention, self.dimension


@dataclass(frozen=True, slots=True, repr=False)
class StatementsRow:
    """One rater's judgement of the statements of one speech. See ``StatementsTable`` for the columns."""

    game_id: str
    request_id: str
    turn: int
    caller: str
    rater: str
    kind: RaterKind
    evaluation_id: str
    statements: Sequence[Json]
    control_speeches: Mapping[str, int] | None = None
    grade: int = 1
    at: int = 0


_TABLES: Final[Mapping[type, Table]] = {
    BatchRow: batches,
    GameRow: games,
    EvaluationRow: evaluations,
    AnswerRow: answers,
    JudgementRow: judgements,
    StatementsRow: statements,
}

R = TypeVar("R")


def read_row(kind: type[R], row: Mapping[Any, Any]) -> R:
    """The row of the database as ``kind``. Raises CorruptLog, which names row and column and quotes nothing,
    for a plain value that the column cannot hold; JSON that does not read stays as ``Damaged``.
    """
    check_row(table_of(kind), row)
    return typed_row(kind, row)


def typed_row(kind: type[R], row: Mapping[Any, Any]) -> R:
    """The same of a row that was checked."""
    return kind(**{column.key: row[column.key] for column in table_of(kind).columns})


def table_of(kind: type) -> Table:
    """Where rows of this kind are stored."""
    return _TABLES[kind]


def name_of(row: Any) -> str:
    """How the row is told from others."""
    return row_name(table_of(type(row)), values_of(row))


def values_of(row: Any) -> dict[str, Any]:
    """The row as it is written, by column."""
    return {column.name: getattr(row, column.name) for column in fields(row)}
