"""The interface of judges to a language model: messages in, text out. ``app`` supplies the client."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

__all__ = [
    "ATTEMPTS",
    "TEXT",
    "Ask",
    "JudgeMessage",
    "JudgeReply",
    "entries_in",
    "object_schema",
    "shown",
    "until_usable",
]

ATTEMPTS: Final = 3
"""The most answers that are asked for, including the first."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JudgeMessage:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


Ask = Callable[[Sequence[JudgeMessage]], Awaitable[str]]
"""Returns one answer to a conversation. Its errors (no model, no budget) reach the caller."""


@dataclass(frozen=True, slots=True)
class JudgeReply(Generic[T]):
    """The result of one question."""

    value: T | None
    """None if no answer was usable."""
    answers: tuple[str, ...]
    """All answers in order, including unusable ones."""
    faults: tuple[str, ...]
    """The faults of the last answer; empty if it was used."""


async def until_usable(
    question: Sequence[JudgeMessage], ask: Ask, read: Callable[[str], tuple[T, list[str]]], attempts: int
) -> JudgeReply[T]:
    """Asks until ``read`` finds no fault, at most ``attempts`` times; the model is told the faults.

    Raises ValueError for fewer than one attempt, and whatever ``ask`` raises.
    """
    if attempts < 1:
        raise ValueError(f"a judge is asked at least once, got {attempts} attempts")
    conversation = list(question)
    answers: list[str] = []
    faults: list[str] = []
    for _ in range(attempts):
        answer = await ask(tuple(conversation))
        answers.append(answer)
        value, faults = read(answer)
        if not faults:
            return JudgeReply(value, tuple(answers), ())
        again = "This answer cannot be used:\n" + "\n".join(f"- {fault}" for fault in faults)
        conversation += [
            JudgeMessage("assistant", answer),
            JudgeMessage("user", f"{again}\nAnswer again, whole, in the form asked for."),
        ]
    return JudgeReply(None, tuple(answers), tuple(faults))


TEXT: Final = {"type": "string"}
"""JSON Schema of a text."""


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with these fields, all of them required, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def entries_in(answer: str, name: str) -> list[dict[str, Any]] | None:
    """The objects of the list ``name`` in an answer; None if there is no such list of objects."""
    # Models put fences and words around their JSON: the text between the outer braces counts.
    start, end = answer.find("{"), answer.rfind("}")
    try:
        value = json.loads(answer[start : end + 1])
    except (ValueError, RecursionError):
        return None
    entries = value.get(name) if isinstance(value, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    return entries


def shown(value: Any) -> str:
    """A value of an answer, shortened for the text of a fault."""
    return json.dumps(value, ensure_ascii=False)[:80]
