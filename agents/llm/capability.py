"""What a server of the OpenAI protocol can do, from the most to the least.

Servers differ in what they refuse, and say so in words of their own, or with a 500, or not at all. What
one request taught is remembered for the endpoint, so that it is paid for once.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

__all__ = ["Capability", "Format", "Limit", "lower"]


class Format(IntEnum):
    """How a reply's form is asked for; higher is less."""

    SCHEMA = 0
    """``json_schema`` with the schema as it is, strict where the schema allows that."""
    REDUCED = 1
    """``json_schema`` without the bounds that some servers refuse."""
    OBJECT_WITH_SCHEMA = 2
    """``json_object`` with a schema beside it, as some servers take it; also in the prompt."""
    OBJECT = 3
    """``json_object``, the schema in the prompt."""
    PLAIN = 4
    """The schema in the prompt, and whatever JSON stands in the answer."""


Limit = Literal["max_tokens", "max_completion_tokens", "none"]
"""The field that bounds a completion."""

_LIMITS: tuple[Limit, ...] = ("max_tokens", "max_completion_tokens", "none")


@dataclass(frozen=True, slots=True)
class Capability:
    """What a request may ask for."""

    format: Format = Format.SCHEMA
    show_schema: bool = False
    """The prompt holds the schema although ``response_format`` does: the server ignores the latter."""
    limit: Limit = "max_tokens"
    temperature: bool = True
    """False: only its own temperature is taken, as reasoning models do."""
    system: bool = True
    """False: no system message; its text begins the first user message, and roles alternate."""

    @property
    def schema_in_prompt(self) -> bool:
        return self.show_schema or self.format >= Format.OBJECT_WITH_SCHEMA


def lower(one: Capability, other: Capability) -> Capability:
    """What both allow."""
    return Capability(
        max(one.format, other.format),
        one.show_schema or other.show_schema,
        max(one.limit, other.limit, key=_LIMITS.index),
        one.temperature and other.temperature,
        one.system and other.system,
    )
