"""The questions to a model judge in each dimension, the form of the answers, and how answers are stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from agents.llm.session import CallKey, ModelSession
from agents.model.model import Form, Message
from app.store.evaluations import EvaluationStore
from app.store.rows import EvaluationRow, JudgementRow, StatementsRow
from evaluators.ground.items import Item, items
from evaluators.ground.turns import Game
from evaluators.judges.asking import Ask, JudgeMessage
from evaluators.judges.control_speeches import control_speeches
from evaluators.judges.model import Evidence, Verdict, answer_schema, judge
from evaluators.judges.statement_scores import rules_and_judge
from evaluators.judges.statements import STATEMENTS_SCHEMA, Statement, judge_speech
from evaluators.measures.hallucination import Speech, speeches

__all__ = [
    "JUDGEMENT_FIELDS",
    "MOST",
    "STATEMENTS",
    "JudgeWork",
    "QuestionResult",
    "asking",
    "plain",
    "statements_as_json",
    "work_of",
]

STATEMENTS: Final = "statements"
"""The name of the dimension that judges what speeches say about the record."""

MOST: Final = 2000
"""The most characters of an answer or a comment that are kept."""


JUDGEMENT_FIELDS: Final = ("game_id", "request_id", "stage", "intention", "reasonable", "think", "speak")
"""What rows and files take over from a ``Judgement``."""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The outcome of one question."""

    item_id: str
    usable: bool
    answer: str
    """The last answer, as it was received."""
    faults: tuple[str, ...]
    rows: Sequence[JudgementRow | StatementsRow] = ()
    """The rows to store, still without grade and time."""


class JudgeWork(Protocol):
    """One dimension's questions."""

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Any]:
        """The questions to a judge of this spec about one game; empty if there is nothing to ask."""
        ...

    def nothing(self, game: Game) -> str:
        """The reason why there is nothing to ask about the game."""
        ...

    def key(self, question: Any, attempt: int) -> CallKey:
        """The key under which an answer is stored."""
        ...

    def form(self, question: Any) -> Form:
        """The form of an answer, for servers that can enforce it. The judge checks the answer in any case."""
        ...

    async def judge(self, question: Any, ask: Ask, row: EvaluationRow) -> QuestionResult:
        """Asks until an answer can be used. Raises what ``ask`` raises."""
        ...

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: EvaluationRow,
        game_id: str,
        rows: Sequence[Any],
        at: int,
    ) -> None:
        """Writes one game's rows in the caller's transaction, each with its grade."""
        ...


def work_of(dimension: str) -> JudgeWork:
    """The work of this dimension."""
    return _StatementWork() if dimension == STATEMENTS else _IntentionWork(dimension)


def asking(
    work: JudgeWork, question: Any, session: ModelSession, *, temperature: float, max_tokens: int
) -> Ask:
    """How a judge is asked one question; each answer is stored under a key of its own."""
    attempt = 0
    form = work.form(question)

    async def ask(conversation: Sequence[JudgeMessage]) -> str:
        nonlocal attempt
        attempt += 1
        messages = [Message(message.role, message.content) for message in conversation]
        key = work.key(question, attempt)
        reply = await session.ask(key, messages, form, temperature=temperature, max_tokens=max_tokens)
        return reply.text

    return ask


class _IntentionWork:
    """Judges, item by item, selections and how they were followed."""

    def __init__(self, dimension: Any) -> None:
        self._dimension = dimension

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Item]:
        return list(items(game, self._dimension))

    def nothing(self, game: Game) -> str:
        excluded: Counter[Any] = Counter()
        for _ in items(game, self._dimension, excluded=excluded):
            pass
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(excluded.items()))
        return f"it has no {self._dimension} item" + (f": {why}" if why else ": nobody spoke")

    def key(self, question: Item, attempt: int) -> CallKey:
        about = f"{question.game_id}/{question.stage}"
        return CallKey(question.request_id, f"judge_{self._dimension}", about, attempt)

    def form(self, question: Item) -> Form:
        return Form(f"judge_{self._dimension}", answer_schema(question))

    async def judge(self, question: Item, ask: Ask, row: EvaluationRow) -> QuestionResult:
        verdict = await judge(question, ask, row.rater, attempts=row.spec["judge"]["attempts"])
        return QuestionResult(
            question.id,
            bool(verdict.judgements),
            verdict.answers[-1],
            verdict.faults,
            self._rows(row, verdict),
        )

    def _rows(self, row: EvaluationRow, verdict: Verdict) -> list[JudgementRow]:
        return [
            JudgementRow(
                **{name: getattr(judgement, name) for name in JUDGEMENT_FIELDS},
                dimension=row.dimension,
                caller=row.caller,
                rater=row.rater,
                kind="model",
                evaluation_id=row.evaluation_id,
                comment=_comment(
                    [quote for quote in verdict.evidence if quote.intention == judgement.intention]
                ),
            )
            for judgement in verdict.judgements
        ]

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: EvaluationRow,
        game_id: str,
        rows: Sequence[JudgementRow],
        at: int,
    ) -> None:
        grades = await store.grades(connection, row.caller, row.rater, [game_id])
        graded = [replace(judged, grade=grades.get(judged.key, 0) + 1, at=at) for judged in rows]
        await store.insert_judgements(connection, graded, by=None)


def _comment(evidence: Sequence[Evidence]) -> str:
    """The quotes and reasons of one intention as text."""
    return plain("\n".join(f"{part.of}: “{part.quote}” {part.reason}" for part in evidence))


class _StatementWork:
    """Judges what speeches say about the record, speech by speech."""

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Speech]:
        return [*speeches(game.id, game.log), *control_speeches(game.id, game.log, spec["planted"])]

    def nothing(self, game: Game) -> str:
        return "nobody spoke in it"

    def key(self, question: Speech, attempt: int) -> CallKey:
        game_id, request_id, turn = question.key
        return CallKey(request_id, "judge_statements", f"{game_id}/{turn}", attempt)

    def form(self, question: Speech) -> Form:
        return Form("judge_statements", STATEMENTS_SCHEMA)

    async def judge(self, question: Speech, ask: Ask, row: EvaluationRow) -> QuestionResult:
        verdict = await judge_speech(question, ask, attempts=row.spec["judge"]["attempts"])
        rows = []
        if verdict.statements is not None:
            rows.append(
                StatementsRow(
                    **question.key._asdict(),
                    caller=row.caller,
                    rater=row.rater,
                    kind="model",
                    evaluation_id=row.evaluation_id,
                    **statements_as_json(question, verdict.statements),
                )
            )
        game_id, request_id, turn = question.key
        item_id = f"{game_id}/statements/{request_id}/{turn}/-"
        return QuestionResult(
            item_id, verdict.statements is not None, verdict.answers[-1], verdict.faults, rows
        )

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: EvaluationRow,
        game_id: str,
        rows: Sequence[StatementsRow],
        at: int,
    ) -> None:
        grades = await store.statement_grades(connection, row.caller, row.rater, game_id)
        graded = [
            replace(judged, grade=grades.get((judged.request_id, judged.turn), 0) + 1, at=at)
            for judged in rows
        ]
        await store.insert_statements(connection, graded)


def statements_as_json(speech: Speech, statements: Sequence[Statement]) -> dict[str, Any]:
    """What a judge found in a speech, as it is stored: ``statements`` and ``control_speeches``."""
    return {
        "statements": [_as_json(speech, statement) for statement in statements],
        "control_speeches": _compared(speech, statements) if speech.key.turn < 0 else None,
    }


def _compared(speech: Speech, statements: Sequence[Statement]) -> dict[str, int]:
    spans, _ = rules_and_judge(speech, statements)
    return {"/".join(span): n for span, n in spans.items()}


def _as_json(speech: Speech, statement: Statement) -> dict[str, Any]:
    return {
        **asdict(statement),
        "quote": plain(speech.text[statement.start : statement.end]),
        "record": plain(statement.record),
        "reason": plain(statement.reason),
    }


def plain(text: str) -> str:
    """The text in a form that every database and reader accepts: cut to ``MOST`` characters, without U+0000
    and lone surrogates.
    """
    return text[:MOST].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
