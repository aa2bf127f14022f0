"""How many tokens an answer may have: what servers say of it, and when an answer needs more."""

import re
from typing import Final

__all__ = ["LEAST_ROOM", "MORE", "fitting", "stated"]

LEAST_ROOM: Final = 64
"""Tokens below which no answer of ours fits: the prompt is too long then."""

MORE: Final = 4
"""How many times the room of a cut answer the next one gets."""

_LIMIT: Final = re.compile(r"max_?(completion_|new_|output_)?_?tokens|completion tokens|output tokens", re.I)
_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?!\w)|(?<![\w.])\d+(?![\w])")
_CONTEXT: Final = re.compile(r"context (?:length|window|size|limit)\D{0,24}?(\d+)", re.I)
_PROMPT: Final = re.compile(
    r"(\d+)(?: tokens)? (?:in|from) (?:the|your) (?:messages|prompt|input)|(\d+) (?:input|prompt) tokens"
    r"|(?:prompt|input) (?:contains|has)\D{0,12}(\d+)",
    re.I,
)
_SUM: Final = re.compile(r"(\d+) \+ \d+ > (\d+)")


def fitting(words: str, sent: int) -> int | None:
    """The tokens that a context has left for the answer beside the prompt, where the server's words tell it;
    None where they do not, or where that is not less than ``sent`` or too little.
    """
    summed = _SUM.search(words)
    if summed is not None:
        left = int(summed.group(2)) - int(summed.group(1))
    else:
        context, prompt = _CONTEXT.search(words), _PROMPT.search(words)
        if context is None or prompt is None:
            return None
        left = int(context.group(1)) - int(next(filter(None, prompt.groups())))
    return left if LEAST_ROOM <= left < sent else None


def stated(words: str, sent: int) -> int | None:
    """The most tokens that a model may write, from a server that refuses ``sent`` as too many; None where its
    words name no such number.
    """
    if _LIMIT.search(words) is None:
        return None
    numbers = [int(digits.replace(",", "")) for digits in _NUMBER.findall(words) if len(digits) < 12]
    return max((number for number in numbers if LEAST_ROOM <= number < sent), default=None)
