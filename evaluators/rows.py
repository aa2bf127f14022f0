"""Items as lines of JSON, for ``datasets`` and other tools that read tables."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from engine.intentions import BY_ID, CATALOGUE
from evaluators.items import Item
from evaluators.questions import question

__all__ = ["jsonl", "row"]


def row(item: Item) -> dict[str, Any]:
    """The item as plain values, made for tables: within a dimension every row has the same keys and
    types, and nothing is null.

    ``context`` and ``question`` together are a whole prompt; ``view`` is the context as data.
    ``reader`` is 0 where nobody guesses. ``options`` are given where they are chosen from, ``asked``
    where they are judged; ``gold`` and ``speaker_role`` only where the item holds them.
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
        # In the catalogue's order: a set has none, and equal items give equal bytes.
        values["gold"] = [one.id for one in CATALOGUE if one.id in item.gold]
    if item.speaker_role is not None:
        values["speaker_role"] = item.speaker_role.value
    return values


def jsonl(some: Iterable[Item]) -> Iterator[str]:
    """One line of JSON an item, without the line's end, for ``datasets.load_dataset("json")`` and the
    like. One dimension a file: others have other keys.
    """
    for item in some:
        line = json.dumps(row(item), ensure_ascii=False)
        for end, escaped in _LINE_ENDS:
            line = line.replace(end, escaped)
        yield line


# JSON leaves them as they are, and some readers end a line there.
_LINE_ENDS: Final = (("\x85", r"\u0085"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029"))
