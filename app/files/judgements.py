"""Judgements and answers from files, in the forms in which the service sends and accepts them.

Judgements come as the CSV or JSON of ``GET /annotations``, or with one of its rows on each line; a row may
also be a speech of ``GET /evaluations/{e}/statements`` with its ``rater``. Answers come as bodies of ``POST
/evaluations``, or as single answers with a ``rater``, one on each line.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import orjson
from pydantic import BaseModel, ValidationError

from app.evaluations.rater_work import answered_by_game, judgements_from, judges_in, spoken_from
from app.evaluations.schemas import AnswerSpec, StatementView, VariantSpec
from app.files.replays import json_fault_of
from app.store.rows import AnswerRow, JudgementRow, RaterKind, StatementsRow
from engine.intentions import normalise
from evaluators.errors import UnknownItem
from evaluators.ground.items import ANSWERED, parse_id
from evaluators.ground.judgements import Judgement, by_game
from evaluators.json_faults import json_fault
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.report.builder import Answered
from evaluators.report.cells import plain

__all__ = ["JudgementFile", "UnreadableFile", "read_answers", "read_judgements"]


class UnreadableFile(ValueError):
    """A file that cannot be read. The message names the file and, if a single line is at fault, the line."""


@dataclass(frozen=True, slots=True)
class JudgementFile:
    """The content of a file of judgements."""

    by_game: Mapping[str, list[Judgement]]
    judges: frozenset[str]
    """The raters that are not people, whose scores are not pooled with those of people."""
    statements: Mapping[str, list[SpeechJudgement]] = field(default_factory=dict)
    """By game: what judges of statements found in its speeches."""


def read_judgements(path: Path) -> JudgementFile:
    """The judgements of a file; a rater without a kind counts as a person. A row with ``statements`` is what
    a judge found in a speech. Of several rows about the same, the last counts. Raises UnreadableFile,
    OSError.
    """
    text = _read(path)
    numbered: Iterable[tuple[int, Mapping[str, Any]]]
    if path.suffix == ".csv":
        numbered = enumerate(csv.DictReader(io.StringIO(text)), 2)
    else:
        numbered = _rows(path, text, "judgements")
    rows = []
    spoken: dict[tuple[str, str, str, int], StatementsRow] = {}
    for line, values in numbered:
        try:
            if "statements" in values:
                found = _spoken(values)
                spoken[found.rater, found.game_id, found.request_id, found.turn] = found
                continue
            intention = normalise(str(values["intention"])) or str(values["intention"])
            rows.append(
                JudgementRow(
                    game_id=_text(values["game_id"]),
                    request_id=values["request_id"],
                    stage=values["stage"],
                    intention=intention,
                    dimension="",
                    caller="",
                    rater=_text(values["rater"]),
                    kind=values.get("kind") or "human",
                    reasonable=_reasonable(values.get("reasonable")),
                    think=_score(values.get("think")),
                    speak=_score(values.get("speak")),
                )
            )
        except KeyError as missing:
            raise UnreadableFile(f"{path}:{line}: a judgement needs the field {missing}") from None
        except ValidationError as fault:
            first = fault.errors()[0]
            where = "/".join(map(str, first["loc"]))
            raise UnreadableFile(f"{path}:{line}: {where}: {first['msg']}") from None
        except ValueError as fault:
            raise UnreadableFile(f"{path}:{line}: {fault}") from None
    statements: dict[str, list[SpeechJudgement]] = {}
    for one in spoken_from(list(spoken.values())):
        statements.setdefault(one.key.game_id, []).append(one)
    try:
        return JudgementFile(by_game(judgements_from(rows)), judges_in(rows), statements)
    except ValueError as fault:
        raise UnreadableFile(f"{path}: {fault}") from None


class _SpeechRow(BaseModel):
    """What a judge found in one speech."""

    game_id: str
    request_id: str
    turn: int
    rater: str
    kind: RaterKind = "model"
    statements: list[StatementView]
    control_speeches: dict[str, int] | None = None


def _spoken(values: Mapping[str, Any]) -> StatementsRow:
    row = _SpeechRow.model_validate(dict(values))
    return StatementsRow(caller="", evaluation_id="", **row.model_dump())


def _text(value: Any) -> str:
    """A cell without the quote that keeps spreadsheets from reading a formula."""
    return plain(str(value))


def _reasonable(value: Any) -> bool | None:
    if value is None or value == "":
        return None
    if value in (True, 1, "1", "true", "True"):
        return True
    if value in (False, 0, "0", "false", "False"):
        return False
    raise ValueError(f"reasonable must be 1 or 0, got {value!r}")


def _score(value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or str(value) not in _SCORES:
        raise ValueError(f"a following score must be 1 to 5, got {value!r}")
    return int(value)


_SCORES: Final = frozenset("12345")


_OF_RATER: Final = frozenset({"rater", "kind", "variant", "dimension"})
"""The fields of a line that do not belong to its answer."""


def read_answers(path: Path) -> dict[str, list[Answered]]:
    """The answers of a file by game, with samples joined. A rater without a kind is a program, and one with
    several kinds is no person. As over HTTP, a later body's answers to an item take the place of all those
    above; the lines with single answers are one body. Raises UnreadableFile, also for a sample that a body
    gives twice; OSError.
    """
    kinds: dict[str, RaterKind] = {}
    by_rater: dict[tuple[str, str, bytes], dict[str, tuple[int, dict[int, AnswerRow]]]] = {}
    for line, values in _rows(path, _read(path), "answers"):
        try:
            rater, kind = values.get("rater", "answers"), values.get("kind", "program")
            if isinstance(rater, dict):
                rater, kind = rater["name"], rater.get("kind", "program")
            if kind not in get_args(RaterKind):
                raise ValueError(f"kind must be {', '.join(get_args(RaterKind))}, got {kind!r}")
            if kinds.get(str(rater), "human") == "human":
                kinds[str(rater)] = kind
            given_variant = VariantSpec.model_validate(values.get("variant", {}))
            # Reports have figures with and without the filter on what was followed.
            variant = {**given_variant.model_dump(mode="json"), "followed": False}
            answers, body = values.get("answers"), line
            if answers is None:
                answers, body = [{k: v for k, v in values.items() if k not in _OF_RATER}], 0
            for item in answers:
                answer = AnswerSpec.model_validate(item)
                parts = parse_id(answer.item_id)
                if parts.dimension not in ANSWERED:
                    raise ValueError(f"{parts.dimension} items are judged, not answered")
                row = AnswerRow(
                    item_id=answer.item_id,
                    sample=answer.sample,
                    game_id=parts.game_id,
                    dimension=parts.dimension,
                    named=answer.intentions,
                    role=None if answer.role is None else answer.role.value,
                    confidence=answer.confidence,
                )
                key = (str(rater), parts.dimension, orjson.dumps(variant))
                of_rater = by_rater.setdefault(key, {})
                given_in, samples = of_rater.get(answer.item_id, (body, {}))
                if given_in != body:
                    samples = {}
                if answer.sample in samples:
                    raise ValueError(
                        f"sample {answer.sample} of {answer.item_id} by {rater} was given above: remove one, "
                        "number samples, or put corrections into a later body of POST /evaluations"
                    )
                of_rater[answer.item_id] = (body, {**samples, answer.sample: row})
        except UnknownItem as fault:
            raise UnreadableFile(f"{path}:{line}: {fault}") from None
        except ValidationError as fault:
            first = fault.errors()[0]
            where = "/".join(map(str, first["loc"]))
            raise UnreadableFile(f"{path}:{line}: {where}: {first['msg']}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise UnreadableFile(f"{path}:{line}: {fault}") from None
    by_id: dict[str, list[Answered]] = {}
    for (rater, dimension, variant_text), rows in by_rater.items():
        for game_id, answered in answered_by_game(
            rater,
            dimension,
            orjson.loads(variant_text),
            [row for _, samples in rows.values() for row in samples.values()],
            kinds[rater],
        ).items():
            by_id.setdefault(game_id, []).append(answered)
    return by_id


def _rows(path: Path, text: str, inside: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """JSON objects and their lines. The file has one object on each line, or one document with all objects in
    a list named ``inside``.
    """
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get(inside), list) and inside == "judgements":
        whole = whole[inside]
    if isinstance(whole, list):
        values: Iterable[tuple[int, Any]] = enumerate(whole, 1)
    elif isinstance(whole, dict):
        values = [(1, whole)]
    else:
        values = _lines(path, text)
    for line, value in values:
        if not isinstance(value, dict):
            raise UnreadableFile(f"{path}:{line}: expected an object")
        yield line, value


def _lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError:
                raise UnreadableFile(
                    f"{path}:{number}: expected JSON, found {json_fault_of(line.encode())}"
                ) from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UnreadableFile(f"{path}: expected UTF-8, found {json_fault(fault)}") from None
