"""Items as rows of JSON with their question as text, for ``datasets`` and other tools that read tables.

The item's context comes before the question. Guessing asks for the speaker's intentions; in the ``release``
view it asks, like the authors' prompt, what another seat would take them to be. Summarisation asks the
speaker for its own intentions. Selection and following show the intentions and ask for a judgement;
``judges`` has their rubrics.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from engine.intentions import BY_ID, CATALOGUE
from evaluators.ground.items import Item
from evaluators.ground.quoting import listed, quoted

__all__ = ["jsonl", "question", "row"]


def row(item: Item) -> dict[str, Any]:
    """The item as plain values for tables: within a dimension every row has the same keys and types, and
    nothing is null.

    ``context`` and ``question`` together are a whole prompt; ``view`` is the context as data. ``reader`` is 0
    if nobody guesses. Items of guessing and summarisation have ``options``, items to judge have ``asked``;
    ``gold`` and ``speaker_role`` are present only if the item has them.
    """
    values: dict[str, Any] = {
        "id": item.id,
        "game_id": item.game_id,
        "position": item.position,
        "dimension": item.dimension,
        "request_id": item.request_id,
        "round": item.round,
        "attempt": item.attempt,
        "stage": item.stage,
        "speaker": item.speaker,
        "reader": item.reader or 0,
        "context": item.context.text,
        "question": question(item),
        "view": item.context.as_json(),
        "think": item.think,
        "speech": item.speech,
    }
    if item.options:
        values["options"] = [option._asdict() for option in item.options]
    else:
        values["asked"] = [
            {"id": choice.id, "label": BY_ID[choice.id].label, "reason": choice.reason}
            for choice in item.asked
        ]
        values["reason"] = item.reason
    if item.gold is not None:
        # In the order of the catalogue, so that equal items give equal bytes.
        values["gold"] = [intention.id for intention in CATALOGUE if intention.id in item.gold]
    if item.speaker_role is not None:
        values["speaker_role"] = item.speaker_role.value
    return values


def jsonl(items: Iterable[Item]) -> Iterator[str]:
    """One line of JSON per item, without the line end, for ``datasets.load_dataset("json")`` and similar
    tools. Write one dimension per file: the dimensions have different keys.
    """
    for item in items:
        line = json.dumps(row(item), ensure_ascii=False)
        for end, escaped in _LINE_ENDS:
            line = line.replace(end, escaped)
        yield line


# JSON allows these characters, but some readers take them for line ends.
_LINE_ENDS: Final = (("\x85", r"\u0085"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029"))


# --- the question --------------------------------------------------------------------------------


_FORM: Final = (
    "Answer with one JSON object and nothing else: first, in a sentence or two, what your choice rests on, "
    'then the ids: {"reason": "…", "intentions": ["…", "…"]}'
)


def question(item: Item) -> str:
    """The question with its options and the form of the answer. Text written by seats is quoted."""
    return "\n".join(_QUESTIONS[item.dimension](item))


def _guessing(item: Item) -> Iterator[str]:
    yield f"Seat {item.speaker} has just said: {quoted(item.speech)}"
    if item.context.view == "release":
        yield (
            f"You are that seat. Which two or three intentions would seat {item.reader} take you to "
            "have had with this speech? Choose from these, by id:"
        )
    else:
        yield (
            f"Which two or three intentions did seat {item.speaker} most likely have with this speech? "
            "Its words may mislead. Choose from these, by id:"
        )
    yield from _options(item)
    yield _FORM


def _summarisation(item: Item) -> Iterator[str]:
    thought = f" You thought: {quoted(item.think)}" if item.think.strip() else ""
    yield f"It was your turn to speak.{thought}"
    yield f"You wrote as your speech: {quoted(item.speech)}"
    if item.proposed:
        yield f"With this speech you proposed the team {listed(item.proposed)}."
    yield "Which two or three intentions did you pursue with it? Choose from these, by id:"
    yield from _options(item)
    yield _FORM


def _selection(item: Item) -> Iterator[str]:
    yield f"Judge seat {item.speaker} from outside. For its speech it selected these intentions:"
    yield from _chosen(item)
    yield (
        "Which of them are reasonable here? One is not where it contradicts the record, the role, or "
        "another one selected. For each say first why."
    )


def _following(item: Item) -> Iterator[str]:
    yield f"Judge seat {item.speaker} from outside. For its speech it selected these intentions:"
    yield from _chosen(item)
    thinks = bool(item.think.strip())
    if thinks:
        yield f"It thought: {quoted(item.think)}"
    yield f"It wrote as its speech: {quoted(item.speech)}"
    if item.proposed:
        yield f"With this speech it proposed the team {listed(item.proposed)}."
    yield (
        f"How well {'do thinking and speech each' if thinks else 'does the speech'} act on each intention, "
        "from 1 (not at all) to 5 (perfectly)? For each say first why."
    )


_QUESTIONS: Final = {
    "selection": _selection,
    "following": _following,
    "summarisation": _summarisation,
    "guessing": _guessing,
}


def _options(item: Item) -> Iterator[str]:
    for option in item.options:
        yield f"- {option.id}: {option.label}"


def _chosen(item: Item) -> Iterator[str]:
    for choice in item.asked:
        reason = f", because {quoted(choice.reason)}" if choice.reason else ""
        yield f"- {choice.id}: {BY_ID[choice.id].label}{reason}"
    if item.reason:
        yield f"Of the selection as a whole it wrote: {quoted(item.reason)}"
