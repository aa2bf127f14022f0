"""The model judge: asks a model about items by our rubric, and accepts only answers that it can check.

Every verdict must quote its evidence, and the judged text must contain the quote word for word, except for
case, punctuation and white space; else the answer is unusable. The model is told the faults of an unusable
answer and asked again, a limited number of times. If no answer is usable, there is no judgement: the failure
is counted and never becomes a score.

A judge's agreement with people is measured before its scores are shown beside theirs:
``agreement.judge_agreement``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.intentions import BY_ID, IntentionId
from evaluators.ground.items import Item
from evaluators.ground.judgements import SCORES, Judgement
from evaluators.ground.quoting import listed, quoted, words_of
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
from evaluators.judges.rubric import following_text, selection_text

__all__ = ["ATTEMPTS", "Evidence", "Verdict", "answer_schema", "judge", "messages"]

_WORDS: Final = 3
"""The least number of words in a quote, unless the whole text is shorter."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for one verdict."""

    intention: IntentionId
    of: str
    """``selection``, ``think`` or ``speak``."""
    quote: str
    """The words quoted; empty only for a score of 1."""
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of asking about one item."""

    item_id: str
    judgements: tuple[Judgement, ...]
    """One judgement for each intention; empty if no answer was usable."""
    evidence: tuple[Evidence, ...]
    answers: tuple[str, ...]
    """All answers in order, including unusable ones."""
    faults: tuple[str, ...]
    """The faults of the last answer; empty if it was used."""


def messages(item: Item) -> list[JudgeMessage]:
    """The question about one selection or following item: rubric, situation, texts, and form of the answer.

    Raises ValueError for an item of another dimension: guessing and summarisation have gold.
    """
    if item.dimension == "following":
        rubric, texts = following_text(), _texts(item)
        form = _form(", ".join(f'"{part}": {_PART}' for part in _parts(item)))
    elif item.dimension == "selection":
        rubric, texts = selection_text(), []
        form = _form('"quote": "…", "reason": "…", "reasonable": true|false')
    else:
        raise ValueError(f"a judge judges only selection and following, {item.id} is {item.dimension}")
    asked = [_asked(choice.id, choice.reason) for choice in item.asked]
    whole = [f"Of the selection as a whole it wrote: {quoted(item.reason)}"] if item.reason else []
    question = [item.context.text, "", *texts, "The seat chose:", *asked, *whole, "", form]
    return [JudgeMessage("system", rubric), JudgeMessage("user", "\n".join(question))]


_PART: Final = '{"quote": "…", "reason": "…", "score": 1|2|3|4|5}'


def _parts(item: Item) -> tuple[str, ...]:
    return ("think", "speak") if item.think.strip() else ("speak",)


def _texts(item: Item) -> list[str]:
    thinking = [f"Its thinking: {quoted(item.think)}"] if item.think.strip() else []
    team = [f"With this speech it proposed the team {listed(item.proposed)}."] if item.proposed else []
    return [*thinking, f"Its speech: {quoted(item.speech)}", *team, ""]


def _asked(intention: IntentionId, reason: str) -> str:
    known = BY_ID.get(intention)
    line = f"- {intention}: {known.label if known else intention}"
    return f"{line}. Its reason: {quoted(reason)}" if reason else line


def _form(verdict: str) -> str:
    """The form of an answer: the evidence comes before the verdict resting on it; ``|`` separates options."""
    return (
        "Answer with JSON alone, one entry for each intention chosen, in this form and this order:\n"
        f'{{"judgements": [{{"intention": "id", {verdict}}}]}}'
    )


def answer_schema(item: Item) -> dict[str, Any]:
    """JSON Schema of the answer about an item that is judged, for servers that can enforce it. Such servers
    write fields in this order, so here, too, the evidence comes before the verdict.
    """
    evidence = {"quote": TEXT, "reason": TEXT}
    if item.dimension == "selection":
        fields: dict[str, Any] = {**evidence, "reasonable": {"type": "boolean"}}
    else:
        score = {"type": "integer", "minimum": min(SCORES), "maximum": max(SCORES)}
        fields = dict.fromkeys(_parts(item), object_schema({**evidence, "score": score}))
    intention = {"type": "string", "enum": [choice.id for choice in item.asked]}
    entries = {"type": "array", "items": object_schema({"intention": intention, **fields})}
    return object_schema({"judgements": entries})


async def judge(item: Item, ask: Ask, rater: str, *, attempts: int = ATTEMPTS) -> Verdict:
    """Asks about one item until an answer is usable, at most ``attempts`` times.

    Raises ValueError for an item that has gold or for fewer than one attempt, and whatever ``ask`` raises.
    """
    reply = await until_usable(messages(item), ask, lambda answer: _read(answer, item), attempts)
    by_intention = reply.value or {}
    return Verdict(
        item.id,
        tuple(_judgement(item, entry, rater) for entry in by_intention.values()),
        tuple(_evidence(item, by_intention)),
        reply.answers,
        reply.faults,
    )


def _judgement(item: Item, entry: Mapping[str, Any], rater: str) -> Judgement:
    think, speak = entry.get("think"), entry.get("speak")
    return Judgement(
        item.game_id,
        item.request_id,
        item.stage,
        entry["intention"],
        entry.get("reasonable"),
        think["score"] if think else None,
        speak["score"] if speak else None,
        rater,
    )


def _evidence(item: Item, by_intention: Mapping[IntentionId, Mapping[str, Any]]) -> Iterator[Evidence]:
    for intention, entry in by_intention.items():
        if item.dimension == "selection":
            yield Evidence(intention, "selection", entry["quote"], entry["reason"])
        else:
            for part in _parts(item):
                yield Evidence(intention, part, entry[part]["quote"], entry[part]["reason"])


# --- reading an answer ---------------------------------------------------------------------------


def _read(answer: str, item: Item) -> tuple[dict[IntentionId, dict[str, Any]], list[str]]:
    """The entries by intention in the order asked, and all faults of the answer."""
    entries = entries_in(answer, "judgements")
    if entries is None:
        return {}, ['the answer is no JSON object with a list "judgements"']
    asked = [choice.id for choice in item.asked]
    faults: list[str] = []
    by_intention: dict[IntentionId, dict[str, Any]] = {}
    for entry in entries:
        intention = entry.get("intention")
        if intention not in asked:
            faults.append(f"{shown(intention)} was not asked about")
        elif intention in by_intention:
            faults.append(f"{intention} is judged twice")
        else:
            by_intention[intention] = entry
            faults += (f"{intention}: {fault}" for fault in _faults(entry, item))
    faults += (f"{intention} is not judged" for intention in asked if intention not in by_intention)
    return {intention: by_intention[intention] for intention in asked if intention in by_intention}, faults


def _faults(entry: Mapping[str, Any], item: Item) -> Iterator[str]:
    if item.dimension == "selection":
        if not isinstance(entry.get("reasonable"), bool):
            yield f"reasonable is true or false, got {shown(entry.get('reasonable'))}"
        reasons = (*(choice.reason for choice in item.asked), item.reason)
        yield from _quote_faults(entry, "the situation", _situation(item, reasons), may_be_empty=False)
        return
    for part in _parts(item):
        part_entry = entry.get(part)
        if not isinstance(part_entry, dict):
            yield f"{part} is an object with quote, reason and score"
            continue
        score = part_entry.get("score")
        if type(score) is not int or score not in SCORES:
            yield f"the score of {part} is 1 to 5, got {shown(score)}"
        text = item.think if part == "think" else item.speech
        for fault in _quote_faults(part_entry, f"the text of {part}", (text,), may_be_empty=score == 1):
            yield f"{part}: {fault}"


def _situation(item: Item, reasons: Iterable[str]) -> Sequence[str]:
    # The context's text quotes what seats wrote; its entries hold the same words unchanged.
    return (item.context.text, *(entry.text for entry in item.context.entries if entry.text), *reasons)


def _quote_faults(
    entry: Mapping[str, Any], where: str, texts: Sequence[str], *, may_be_empty: bool
) -> Iterator[str]:
    quote, reason = entry.get("quote"), entry.get("reason")
    if not isinstance(reason, str):
        yield f"the reason is a text, got {shown(reason)}"
    if not isinstance(quote, str):
        yield f"the quote is a text, got {shown(quote)}"
        return
    words = words_of(quote)
    if not words:
        if not may_be_empty:
            yield "the quote is empty"
        return
    candidates = [words_of(text) for text in texts]
    if not any(f" {words} " in f" {text} " for text in candidates):
        yield f"the quote {shown(quote)} does not stand in {where}"
    elif words.count(" ") + 1 < _WORDS and words not in candidates:
        yield f"the quote {shown(quote)} is shorter than {_WORDS} words"
