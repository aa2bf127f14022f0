"""The brains of fake models: functions from messages and a schema to the content of the answer."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from app.instruments.fake_model.completions import Brain
from app.instruments.fake_model.filling import WORDS, fill
from app.instruments.fake_model.judging import judged
from app.instruments.fake_model.prompt import NotOurs
from app.instruments.fake_model.sensible import answer

__all__ = ["BRAINS", "echo", "noise", "prose", "sensible"]


def _chance(seed: int, messages: list[dict[str, Any]]) -> random.Random:
    return random.Random(f"{seed}/{json.dumps(messages, sort_keys=True)}")


def noise(seed: int) -> Brain:
    """Random JSON that is valid under the schema; random prose if there is no schema."""
    words = prose(seed)

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        if schema is None:
            return words(messages, None)
        return json.dumps(fill(schema, _chance(seed, messages)), ensure_ascii=False)

    return brain


def prose(seed: int) -> Brain:
    """Random sentences for every question, as from a model that cannot write JSON."""

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        chance = _chance(seed, messages)
        sentences = (
            " ".join(chance.choices(WORDS, k=chance.randint(4, 12))) for _ in range(chance.randint(2, 6))
        )
        return " ".join(f"{sentence.capitalize()}." for sentence in sentences)

    return brain


def echo(seed: int) -> Brain:
    """The last message, unchanged."""

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        content = messages[-1].get("content")
        return content if isinstance(content, str) else json.dumps(content)

    return brain


def sensible(seed: int) -> Brain:
    """Plays sensibly for our own seats, and gives verdicts for our judges; noise for any other prompt."""
    otherwise = noise(seed)

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        with suppress(NotOurs):
            return answer(messages, schema, seed)
        with suppress(NotOurs):
            return judged(messages, seed)
        return otherwise(messages, schema)

    return brain


BRAINS: dict[str, Callable[[int], Brain]] = {
    "noise": noise,
    "prose": prose,
    "echo": echo,
    "sensible": sensible,
}
"""Makes a brain from a seed, by the brain's name."""
