"""A fake judge, which answers the questions of our rubrics in the expected form, with quotes from the text.

Verdicts are random and mean nothing, but depend only on the text and the seed: equal questions get equal
answers.
"""

import json
import random
import re
from typing import Any, Final

from app.instruments.fake_model.prompt import NotOurs
from evaluators.judges.rubric import following_text, selection_text, statements_text

__all__ = ["judged"]

_ASKED: Final = re.compile(r"^- ([a-z_]+): ", re.M)
_TEXT: Final = re.compile(r'^Its (thinking|speech): (".*")$', re.M)
_PARTS: Final = {"thinking": "think", "speech": "speak"}
_SPEECH: Final = re.compile(r'^Now seat \d+ says: (".*")$', re.M)
_RECORD: Final = re.compile(r"^=== RECORD ===\n(.*)^=== END OF RECORD ===$", re.M | re.S)
_CLAIM: Final = re.compile(r"\b(?:was|were|led|voted|failed|succeeded|leads?)\b")


def judged(messages: list[dict[str, Any]], seed: int) -> str:
    """The verdicts as JSON. Raises NotOurs for messages that are not a question to our judges."""
    rubrics = (following_text(), selection_text(), statements_text())
    if len(messages) < 2 or messages[0].get("content") not in rubrics:
        raise NotOurs("the first message is not one of our rubrics")
    question = str(messages[1].get("content"))
    if messages[0]["content"] == statements_text():
        return _stated(question, random.Random(f"{seed}/{question}"))
    before, _, after = question.partition("\nThe seat chose:\n")
    asked = _ASKED.findall(after)
    if not asked:
        raise NotOurs("no intention is asked about")
    chance = random.Random(f"{seed}/{question}")
    following = messages[0]["content"] == following_text()
    texts = {_PARTS[name]: json.loads(text) for name, text in _TEXT.findall(before)} if following else {}
    entries = [
        {"intention": intention, **(_scored(texts, chance) if following else _ruled(before, chance))}
        for intention in asked
    ]
    return json.dumps({"judgements": entries}, ensure_ascii=False)


def _stated(question: str, chance: random.Random) -> str:
    """A verdict on every sentence of the speech that looks like a statement, on at most 40 sentences. A
    verdict cites the last line of the record with at least three words; ``uncheckable`` cites no line.
    """
    speech, record = _SPEECH.search(question), _RECORD.search(question)
    if speech is None or record is None:
        raise NotOurs("no speech or no record is shown")
    lines = [line for line in record[1].splitlines() if len(re.findall(r"[^\W_]+", line)) >= 3]
    entries = []
    for sentence in re.split(r"(?<=[.!?])\s+", json.loads(speech[1])):
        if not _CLAIM.search(sentence) or "?" in sentence:
            continue
        verdict = chance.choice(("supported", "supported", "supported", "refuted", "uncheckable"))
        if not lines:
            verdict = "uncheckable"
        record_line = "" if verdict == "uncheckable" else lines[-1]
        entries.append(
            {"quote": sentence, "record": record_line, "reason": "So the record stands.", "verdict": verdict}
        )
    return json.dumps({"statements": entries[:40]}, ensure_ascii=False)


def _scored(texts: dict[str, str], chance: random.Random) -> dict[str, Any]:
    scores = {}
    for part, text in texts.items():
        quote = _quote(text, chance)
        score = chance.choice((2, 3, 4, 4, 5, 5)) if quote else 1
        scores[part] = {"quote": quote, "reason": "These words show it.", "score": score}
    return scores


def _ruled(situation: str, chance: random.Random) -> dict[str, Any]:
    quote = _quote(max(situation.split("\n"), key=len), chance)
    return {"quote": quote, "reason": "So the record stands.", "reasonable": chance.random() < 0.8}


def _quote(text: str, chance: random.Random) -> str:
    """Four successive words of the text, or the whole text if these hold fewer than three words; empty if the
    text has no word.
    """
    words = text.split()
    start = chance.randrange(max(1, len(words) - 3))
    quote = " ".join(words[start : start + 4])
    short = len(re.findall(r"\w+", quote)) < 3
    quote = text if short else quote
    return quote if re.search(r"\w", quote) else ""
