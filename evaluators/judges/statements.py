"""The model judge of statements: it finds a speech's claims about the record, and checks them.

The model is asked once per speech and sees what the table saw: the public record before the speech, and the
speech. It judges every statement that it finds, including those that the rules read, and is not told the
verdicts of the rules: where both read the same statement, the rules measure the judge (``statement_scores``).
The speech must contain the quote, and the record the evidence; else the answer is unusable, as with the other
judges.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from evaluators.ground.quoting import positions_of, quoted, words_of
from evaluators.judges.asking import (
    ATTEMPTS,
    TEXT,
    Ask,
    JudgeMessage,
    entries_in,
    object_schema,
    shown,
    until_usable,
)
from evaluators.judges.rubric import statements_text
from evaluators.measures.hallucination import Speech, SpeechKey

__all__ = [
    "MOST",
    "STATEMENTS_SCHEMA",
    "Statement",
    "StatementVerdict",
    "Statements",
    "judge_speech",
    "speech_messages",
]

MOST: Final = 40
"""The most statements in one speech; a judge that finds more splits it into single words."""

_QUOTED: Final = 2
"""The least number of words in a statement, as in "I led"."""

_RECORDED: Final = 3
"""The least number of words quoted from the record, unless the line is shorter."""

StatementVerdict = Literal["supported", "refuted", "uncheckable"]
"""``uncheckable``: a statement about the public record that the record cannot decide."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a speech, as a judge reads it."""

    start: int
    end: int
    """The statement is ``text[start:end]`` of the speech."""
    verdict: StatementVerdict
    record: str
    """The line of the record that decides the statement; empty if none does."""
    reason: str


@dataclass(frozen=True, slots=True)
class Statements:
    """The result of asking about one speech."""

    key: SpeechKey
    statements: tuple[Statement, ...] | None
    """In the order of the speech; empty if it states nothing about the record. None if no answer was
    usable."""
    answers: tuple[str, ...]
    faults: tuple[str, ...]
    """The faults of the last answer; empty if it was used."""


STATEMENTS_SCHEMA: Final = object_schema(
    {
        "statements": {
            "type": "array",
            "items": object_schema(
                {
                    "quote": TEXT,
                    "record": TEXT,
                    "reason": TEXT,
                    "verdict": {"type": "string", "enum": list(get_args(StatementVerdict))},
                }
            ),
        }
    }
)
"""JSON Schema of the answer about a speech, the evidence before the verdict."""


def speech_messages(speech: Speech) -> list[JudgeMessage]:
    """The question about one speech; the record comes first, so all questions of a game share a prefix."""
    verdicts = "|".join(f'"{verdict}"' for verdict in get_args(StatementVerdict))
    shape = f'{{"statements": [{{"quote": "…", "record": "…", "reason": "…", "verdict": {verdicts}}}]}}'
    question = [
        *speech.game,
        "",
        "=== RECORD ===",
        *speech.record,
        "=== END OF RECORD ===",
        "",
        f"Now seat {speech.seat} says: {quoted(speech.text)}",
        "",
        "Answer with JSON alone, one entry for each statement about the record, none where there is none:",
        shape,
    ]
    return [JudgeMessage("system", statements_text()), JudgeMessage("user", "\n".join(question))]


async def judge_speech(speech: Speech, ask: Ask, *, attempts: int = ATTEMPTS) -> Statements:
    """Asks about one speech until an answer is usable, at most ``attempts`` times.

    Raises ValueError for fewer than one attempt, and whatever ``ask`` raises.
    """
    reply = await until_usable(speech_messages(speech), ask, lambda answer: _read(answer, speech), attempts)
    return Statements(speech.key, reply.value, reply.answers, reply.faults)


def _read(answer: str, speech: Speech) -> tuple[tuple[Statement, ...], list[str]]:
    entries = entries_in(answer, "statements")
    if entries is None:
        return (), ['the answer is no JSON object with a list "statements"']
    if len(entries) > MOST:
        return (), [f"{len(entries)} statements, {MOST} are the most that a speech can make"]
    faults: list[str] = []
    statements: list[Statement] = []
    used: set[tuple[int, int]] = set()
    for entry in entries:
        span, fault = _place(entry.get("quote"), speech.text, used)
        line, wrong = _evidence(entry, speech)
        faults += filter(None, (fault, *wrong))
        if span is not None and not wrong:
            used.add(span)
            statements.append(Statement(*span, entry["verdict"], line, entry["reason"]))
    return tuple(sorted(statements, key=lambda statement: (statement.start, statement.end))), faults


def _place(quote: Any, text: str, used: set[tuple[int, int]]) -> tuple[tuple[int, int] | None, str]:
    if not isinstance(quote, str):
        return None, f"the quote is a text, got {shown(quote)}"
    spans = list(positions_of(quote, text))
    if not spans:
        return None, f"the quote {shown(quote)} does not stand in the speech"
    words = words_of(quote)
    if words.count(" ") + 1 < _QUOTED and words != words_of(text):
        return None, f"the quote {shown(quote)} is shorter than {_QUOTED} words"
    # Words that occur twice may be two statements.
    left = [span for span in spans if span not in used]
    return (left[0], "") if left else (None, f"{shown(quote)} is judged twice")


def _evidence(entry: dict[str, Any], speech: Speech) -> tuple[str, list[str]]:
    """The line of the record that an entry rests on, and the faults of its verdict and evidence."""
    quote, verdict = shown(entry.get("quote")), entry.get("verdict")
    faults = []
    if verdict not in get_args(StatementVerdict):
        faults.append(f"{quote}: the verdict is supported, refuted or uncheckable, got {shown(verdict)}")
    if not isinstance(entry.get("reason"), str):
        faults.append(f"{quote}: the reason is a text, got {shown(entry.get('reason'))}")
    record = entry.get("record")
    if verdict == "uncheckable":
        return "", faults
    if not isinstance(record, str) or not words_of(record):
        return "", [*faults, f"{quote}: the record is words of one of its lines, got {shown(record)}"]
    words = words_of(record)
    for line in (*speech.record, *speech.game):
        line_words = words_of(line)
        if f" {words} " in f" {line_words} " and (words.count(" ") + 1 >= _RECORDED or words == line_words):
            return line, faults
    return "", [
        *faults,
        f"{quote}: {shown(record)} are not {_RECORDED} words or more that stand in one line of the record",
    ]
