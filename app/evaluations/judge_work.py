"""What a model judge is asked in each dimension, the form of its answers, and how its words are stored."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from agents.llm.desk import CallKey
from agents.llm.model import Form
from app.evaluations.judged import named
from app.store.evaluations import EvaluationStore
from app.store.games import Row
from evaluators.asking import Ask
from evaluators.items import Item, items
from evaluators.judge import Evidence, Verdict, judge
from evaluators.planted import planted
from evaluators.speeches import Speech, SpeechKey, speeches
from evaluators.statement_judge import Statement, StatementVerdict, judge_speech
from evaluators.statement_scores import Against, SpeechJudgement, rules_and_judge
from evaluators.turns import Game

__all__ = ["MOST", "STATEMENTS", "Judged", "Work", "plain", "spoken_from", "work_of"]

STATEMENTS: Final = "statements"
"""The dimension of what speeches say about the record."""

MOST: Final = 2000
"""Characters of an answer or a comment that are kept."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one question."""

    item_id: str
    usable: bool
    answer: str
    """The last one, as it came."""
    faults: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """What is to be stored, without grade and time."""


class Work(Protocol):
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

    async def judge(self, question: Any, ask: Ask, row: Row) -> Judged:
        """Asks until an answer can be used; what ``ask`` raises goes through."""
        ...

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: Row,
        game_id: str,
        rows: Sequence[dict[str, Any]],
        at: int,
    ) -> None:
        """Writes one game's rows in the caller's transaction, each with its grade."""
        ...


def work_of(dimension: str) -> Work:
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

    async def judge(self, question: Item, ask: Ask, row: Row) -> Judged:
        verdict = await judge(question, ask, row["rater"], attempts=row["wish"]["judge"]["attempts"])
        return Judged(
            question.id,
            bool(verdict.judgements),
            verdict.answers[-1],
            verdict.faults,
            self._rows(row, verdict),
        )

    def _rows(self, row: Row, verdict: Verdict) -> list[dict[str, Any]]:
        return [
            {
                **{name: getattr(one, name) for name in _FIELDS},
                "dimension": row["dimension"],
                "caller": row["caller"],
                "rater": row["rater"],
                "kind": "model",
                "evaluation_id": row["evaluation_id"],
                "comment": _comment(
                    [found for found in verdict.evidence if found.intention == one.intention]
                ),
            }
            for one in verdict.judgements
        ]

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: Row,
        game_id: str,
        rows: Sequence[dict[str, Any]],
        at: int,
    ) -> None:
        held = await store.grades(connection, row["caller"], row["rater"], [game_id])
        for one in rows:
            key = (one["game_id"], one["request_id"], one["stage"], one["intention"], one["dimension"])
            one |= {"grade": held.get(key, 0) + 1, "at": at}
        await store.insert_judgements(connection, rows)


_FIELDS: Final = ("game_id", "request_id", "stage", "intention", "reasonable", "think", "speak")


def _comment(evidence: Sequence[Evidence]) -> str:
    """The quotes and reasons of one intention as text."""
    return plain("\n".join(f"{one.of}: “{one.quote}” {one.reason}" for one in evidence))


class _OnStatements:
    """What speeches say about the record, speech by speech."""

    def questions(self, game: Game, spec: Mapping[str, Any]) -> Sequence[Speech]:
        return [*speeches(game.id, game.log), *planted(game.id, game.log, spec["planted"])]

    def nothing(self, game: Game) -> str:
        return "nobody spoke in it"

    def key(self, question: Speech, attempt: int) -> CallKey:
        game_id, request_id, turn = question.key
        return CallKey(request_id, "judge_statements", f"{game_id}/{turn}", attempt)

    def form(self, question: Speech) -> Form:
        verdict = {"type": "string", "enum": ["supported", "refuted", "uncheckable"]}
        entry = _object({"quote": _TEXT, "verdict": verdict, "record": _TEXT, "reason": _TEXT})
        return Form("judge_statements", _object({"statements": {"type": "array", "items": entry}}))

    async def judge(self, question: Speech, ask: Ask, row: Row) -> Judged:
        heard = await judge_speech(question, ask, attempts=row["wish"]["judge"]["attempts"])
        rows = []
        if heard.found is not None:
            rows.append(
                {
                    **question.key._asdict(),
                    "caller": row["caller"],
                    "rater": row["rater"],
                    "kind": "model",
                    "evaluation_id": row["evaluation_id"],
                    "statements": [_statement(question, one) for one in heard.found],
                    "planted": _planted(question, heard.found) if question.key.turn < 0 else None,
                }
            )
        game_id, request_id, turn = question.key
        item_id = f"{game_id}/statements/{request_id}/{turn}/-"
        return Judged(item_id, heard.found is not None, heard.answers[-1], heard.faults, rows)

    async def store(
        self,
        connection: AsyncConnection,
        store: EvaluationStore,
        row: Row,
        game_id: str,
        rows: Sequence[dict[str, Any]],
        at: int,
    ) -> None:
        held = await store.statement_grades(connection, row["caller"], row["rater"], game_id)
        for one in rows:
            one |= {"grade": held.get((one["request_id"], one["turn"]), 0) + 1, "at": at}
        await store.insert_statements(connection, rows)


def _planted(speech: Speech, found: Sequence[Statement]) -> dict[str, int]:
    spans, _ = rules_and_judge(speech, found)
    return {"/".join(span): n for span, n in spans.items()}


def _against(planted: Mapping[str, int] | None) -> dict[Against, int] | None:
    if planted is None:
        return None
    return {(rules, judge): n for (rules, _, judge), n in ((s.partition("/"), n) for s, n in planted.items())}


def _statement(speech: Speech, one: Statement) -> dict[str, Any]:
    told = asdict(one)
    return {
        **told,
        "quote": plain(speech.text[one.start : one.end]),
        "record": plain(one.record),
        "reason": plain(one.reason),
    }


def spoken_from(rows: Sequence[Row], shared_names: Collection[str] | None = None) -> list[SpeechJudgement]:
    """Stored words on statements as evaluators take them. Raters of one name under different credentials
    stay apart. ``shared_names``: the names that several credentials bear; None: as these rows tell it.
    """
    return [
        SpeechJudgement(
            SpeechKey(row["game_id"], row["request_id"], row["turn"]),
            tuple(_read(one) for one in row["statements"]),
            name,
            _against(row["planted"]),
        )
        for row, name in named(rows, shared_names)
    ]


def _read(one: Mapping[str, Any]) -> Statement:
    verdict: StatementVerdict = one["verdict"]
    return Statement(one["start"], one["end"], verdict, one["record"], one["reason"])


def plain(text: str) -> str:
    """What any database and any reader takes: no U+0000, no half of a surrogate."""
    return text[:MOST].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
