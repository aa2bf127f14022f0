"""The room for an answer, in tokens: what servers say about it, and when an answer needs more."""

import re
from typing import Final

__all__ = ["LEAST_ROOM", "MORE", "fitting", "stated"]

LEAST_ROOM: Final = 64
"""The fewest tokens into which an answer fits; if less is left, the prompt is too long."""

MORE: Final = 4
"""After an answer that was cut off, the next one gets this many times its room."""

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
    """The tokens that the context has left for the answer beside the prompt, according to the server's words.
    None if they do not tell, or if the number is not less than ``sent``, or less than LEAST_ROOM.
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
    """The most tokens that a model may write, according to a server that refused ``sent`` as too many. None
    if its words name no such number.
    """
    if _LIMIT.search(words) is None:
        return None
    numbers = [int(digits.replace(",", "")) for digits in _NUMBER.findall(words) if len(digits) < 12]
    return max((number for number in numbers if LEAST_ROOM <= number < sent), default=None)
