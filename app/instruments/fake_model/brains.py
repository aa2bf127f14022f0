"""What a fake model answers: functions from messages and the asked schema to the content."""

import json
import random
from collections.abc import Callable
from typing import Any

from app.instruments.fake_model.completions import Brain
from app.instruments.fake_model.filling import WORDS, fill
from app.instruments.fake_model.judging import judged
from app.instruments.fake_model.prompt import NotOurs
from app.instruments.fake_model.sensible import sensible

__all__ = ["BRAINS", "echo", "judging", "noise", "prose"]


def _chance(seed: int, messages: list[dict[str, Any]]) -> random.Random:
    return random.Random(f"{seed}/{json.dumps(messages, sort_keys=True)}")


def noise(seed: int) -> Brain:
    """Valid JSON of the asked schema, with random content; prose where no schema was asked."""
    words = prose(seed)

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        if schema is None:
            return words(messages, None)
        return json.dumps(fill(schema, _chance(seed, messages)), ensure_ascii=False)

    return brain


def prose(seed: int) -> Brain:
    """Words in sentences, whatever was asked: a model that has never heard of JSON."""

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        chance = _chance(seed, messages)
        sentences = (
            " ".join(chance.choices(WORDS, k=chance.randint(4, 12))) for _ in range(chance.randint(2, 6))
        )
        return " ".join(f"{sentence.capitalize()}." for sentence in sentences)

    return brain


def echo(seed: int) -> Brain:
    """The last message back, as it is."""

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        content = messages[-1].get("content")
        return content if isinstance(content, str) else json.dumps(content)

    return brain


def judging(seed: int, otherwise: Brain) -> Brain:
    """Answers what our judges are asked; ``otherwise`` any other prompt."""

    def brain(messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        try:
            return judged(messages, seed)
        except NotOurs:
            return otherwise(messages, schema)

    return brain


BRAINS: dict[str, Callable[[int], Brain]] = {
    "noise": noise,
    "prose": prose,
    "echo": echo,
    "sensible": lambda seed: sensible(seed, otherwise=judging(seed, otherwise=noise(seed))),
}
"""Name: what makes the brain from a seed."""
