"""The question that an item puts to a rater, in words; what stands before it is the item's context.

Guessing asks for the speaker's intentions; in the ``release`` view for what another seat would take
them to be, as the authors' prompt did. Summarisation asks the speaker for its own. The other two show
the intentions and ask for judgement; rubrics are the judges' business.
"""

from collections.abc import Iterator
from typing import Final

from engine.intentions import BY_ID
from evaluators.items import Item
from evaluators.quoting import quoted

__all__ = ["question"]

_FORM: Final = 'Answer with one JSON object and nothing else: {"intentions": ["…", "…"]}'


def question(item: Item) -> str:
    """The question with its options and the form of the answer. What seats wrote is quoted."""
    return "\n".join(_ASKED[item.dimension](item))


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
    yield f"It was your turn to speak. You thought: {quoted(item.think)}"
    yield f"You wrote as your speech: {quoted(item.speech)}"
    yield "Which two or three intentions did you pursue with it? Choose from these, by id:"
    yield from _options(item)
    yield _FORM


def _selection(item: Item) -> Iterator[str]:
    yield f"For its speech seat {item.speaker} selected these intentions:"
    yield from _chosen(item)
    yield (
        "Which of them are reasonable here? One is not where it contradicts the record, the role, or "
        "another one selected."
    )


def _following(item: Item) -> Iterator[str]:
    yield f"For its speech seat {item.speaker} selected these intentions:"
    yield from _chosen(item)
    yield f"It thought: {quoted(item.think)}"
    yield f"It wrote as its speech: {quoted(item.speech)}"
    yield "How well does each of the two act on each intention, from 1 (not at all) to 5 (perfectly)?"


_ASKED: Final = {
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
