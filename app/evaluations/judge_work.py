"""What a model judge is asked in each dimension, the form of its answers, and how its words are stored."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from agents.llm.session import CallKey
from agents.model.model import Form
from app.evaluations.judged import named
from app.store.evaluations import EvaluationStore
from app.store.rows import EvaluationRow, JudgementRow, StatementsRow
from evaluators.ground.items import Item, items
from evaluators.ground.turns import Game
from evaluators.judges.asking import Ask
from evaluators.judges.control_speeches import control_speeches
from evaluators.judges.model import Evidence, Verdict, judge
from evaluators.judges.statement_scores import Against, SpeechJudgement, rules_and_judge
from evaluators.judges.statements import Statement, StatementVerdict, judge_speech
from evaluators.measures.speeches import Speech, SpeechKey, speeches

__all__ = ["MOST", "STATEMENTS", "JudgeWork", "QuestionResult", "plain", "spoken_from", "work_of"]

STATEMENTS: Final = "statements"
"""The dimension of what speeches say about the record."""

MOST: Final = 2000
"""Characters of an answer or a comment that are kept."""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What came of one question."""

    item_id: str
    usable: bool
    answer: str
    """The last one, as it came."""
    faults: tuple[str, ...]
    rows: Sequence[JudgementRow | StatementsRow] = ()
    """What is to be stored, but for grade and time."""


class JudgeWork(Protocol):
    """One dimension's questions."""

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Any]:
        """What a judge of this spec is asked about one game; empty where there is nothing to ask."""
        ...

    def nothing(self, game: Game) -> str:
        """Why there is nothing to ask about it."""
        ...

    def key(self, question: Any, attempt: int) -> CallKey:
        """The key that an answer is stored under."""
        ...

    def form(self, question: Any) -> Form:
        """The form of an answer, for servers that hold a model to one; what counts is read by the judge."""
        ...

    async def judge(self, question: Any, ask: Ask, row: EvaluationRow) -> QuestionResult:
        """Asks until an answer can be used; what ``ask`` raises goes through."""
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
    return _OnStatements() if dimension == STATEMENTS else _OnIntentions(dimension)


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: Final = {"type": "string"}


class _OnIntentions:
    """Selections and how they were followed, item by item."""

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
        if self._dimension == "selection":
            said: dict[str, Any] = {"reasonable": {"type": "boolean"}, "quote": _TEXT, "reason": _TEXT}
        else:
            score = {"type": "integer", "minimum": 1, "maximum": 5}
            part = _object({"score": score, "quote": _TEXT, "reason": _TEXT})
            said = dict.fromkeys(("think", "speak") if question.think.strip() else ("speak",), part)
        intention = {"type": "string", "enum": [choice.id for choice in question.asked]}
        entries = {"type": "array", "items": _object({"intention": intention, **said})}
        return Form(f"judge_{self._dimension}", _object({"judgements": entries}))

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
                **{name: getattr(judgement, name) for name in _FIELDS},
                dimension=row.dimension,
                caller=row.caller,
                rater=row.rater,
                kind="model",
                evaluation_id=row.evaluation_id,
                comment=_comment([one for one in verdict.evidence if one.intention == judgement.intention]),
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
        await store.insert_judgements(connection, graded)


_FIELDS: Final = ("game_id", "request_id", "stage", "intention", "reasonable", "think", "speak")


def _comment(evidence: Sequence[Evidence]) -> str:
    """The quotes and reasons of one intention as text."""
    return plain("\n".join(f"{one.of}: “{one.quote}” {one.reason}" for one in evidence))


class _OnStatements:
    """What speeches say about the record, speech by speech."""

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Speech]:
        return [*speeches(game.id, game.log), *control_speeches(game.id, game.log, spec["planted"])]

    def nothing(self, game: Game) -> str:
        return "nobody spoke in it"

    def key(self, question: Speech, attempt: int) -> CallKey:
        game_id, request_id, turn = question.key
        return CallKey(request_id, "judge_statements", f"{game_id}/{turn}", attempt)

    def form(self, question: Speech) -> Form:
        verdict = {"type": "string", "enum": ["supported", "refuted", "uncheckable"]}
        entry = _object({"quote": _TEXT, "verdict": verdict, "record": _TEXT, "reason": _TEXT})
        return Form("judge_statements", _object({"statements": {"type": "array", "items": entry}}))

    async def judge(self, question: Speech, ask: Ask, row: EvaluationRow) -> QuestionResult:
        heard = await judge_speech(question, ask, attempts=row.spec["judge"]["attempts"])
        rows = []
        if heard.statements is not None:
            rows.append(
                StatementsRow(
                    **question.key._asdict(),
                    caller=row.caller,
                    rater=row.rater,
                    kind="model",
                    evaluation_id=row.evaluation_id,
                    statements=[_statement(question, one) for one in heard.statements],
                    control_speeches=_compared(question, heard.statements) if question.key.turn < 0 else None,
                )
            )
        game_id, request_id, turn = question.key
        item_id = f"{game_id}/statements/{request_id}/{turn}/-"
        return QuestionResult(item_id, heard.statements is not None, heard.answers[-1], heard.faults, rows)

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


def _compared(speech: Speech, found: Sequence[Statement]) -> dict[str, int]:
    spans, _ = rules_and_judge(speech, found)
    return {"/".join(span): n for span, n in spans.items()}


def _against(control_speeches: Mapping[str, int] | None) -> dict[Against, int] | None:
    if control_speeches is None:
        return None
    return {
        (rules, judge): n
        for (rules, _, judge), n in ((s.partition("/"), n) for s, n in control_speeches.items())
    }


def _statement(speech: Speech, one: Statement) -> dict[str, Any]:
    told = asdict(one)
    return {
        **told,
        "quote": plain(speech.text[one.start : one.end]),
        "record": plain(one.record),
        "reason": plain(one.reason),
    }


def spoken_from(
    rows: Sequence[StatementsRow], shared_names: Collection[str] | None = None
) -> list[SpeechJudgement]:
    """Stored words on statements as evaluators take them. Raters of one name under different credentials
    stay apart. ``shared_names``: the names that several credentials bear; None: as these rows tell it.
    """
    return [
        SpeechJudgement(
            SpeechKey(row.game_id, row.request_id, row.turn),
            tuple(_read(one) for one in row.statements),
            name,
            _against(row.control_speeches),
        )
        for row, name in named(rows, shared_names)
    ]


def _read(one: Mapping[str, Any]) -> Statement:
    verdict: StatementVerdict = one["verdict"]
    return Statement(one["start"], one["end"], verdict, one["record"], one["reason"])


def plain(text: str) -> str:
    """What any database and any reader takes: no U+0000, no half of a surrogate."""
    return text[:MOST].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
