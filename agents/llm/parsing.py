"""Finds the JSON value in what a model wrote, where there is no doubt which it is.

Repaired are: fences and prose around an object, a trailing comma, single quotes, Python's ``True``,
``False`` and ``None``, bare keys, line breaks within strings, comments. Not repaired is anything
that could be read in two ways: an object cut short, keys that occur twice with different values, several
different objects, numbers that no JSON writer would take back.
"""

import json
import math
import re
from collections.abc import Set
from typing import Any, Final

__all__ = ["NO_VALUE", "clean", "find_value", "read_json"]

MAX_DEPTH: Final = 32
MAX_STARTS: Final = 64
"""Braces in prose that are tried as the beginning of an object."""

MAX_INTEGER: Final = 2**53
"""Beyond it numbers change on their way through other JSON readers."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class _NoValue:
    """There is no value: ``None`` is one, JSON's ``null``."""


NO_VALUE: Final = _NoValue()


class _NotJson(ValueError):
    """Where reading stopped, and whether the text ended there."""

    def __init__(self, at: int, ended: bool = False) -> None:
        super().__init__(f"no JSON at {at}")
        self.at = at
        self.ended = ended


def clean(text: str) -> str:
    """``text`` as every store and every encoder takes it.

    Halves of a surrogate pair are joined where they stand together; others, and U+0000, become U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", _REPLACEMENT)


def read_json(text: str) -> Any:
    """The value of a text that is JSON and nothing else, strings cleaned; NO_VALUE otherwise."""
    try:
        return _checked(_STRICT.decode(text), 0)
    except (ValueError, RecursionError):
        return NO_VALUE


def find_value(text: str, required: Set[str] = frozenset()) -> Any:
    """The JSON value in a model's answer; None where there is none, or a doubt.

    Of several objects in prose the one counts that has all ``required`` keys.
    """
    text = _without_thinking(text).strip()
    whole = read_json(text)
    if whole is NO_VALUE:
        whole = read_json(_fenced(text))
    if whole is not NO_VALUE:
        return whole
    try:
        found = _objects(text)
    except RecursionError:
        return None
    able = [one for one in found if required <= one.keys()]
    return able[0] if able and all(_same(one, able[0]) for one in able[1:]) else None


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON, where 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _without_thinking(text: str) -> str:
    """What follows a model's loud thinking; nothing where it never ended."""
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after
    return "" if text.lstrip().startswith("<think>") else text


_FENCE: Final = re.compile(r"```[\w-]*[^\S\n]*\n")


def _fenced(text: str) -> str:
    """What stands in the fence, where the whole text is one."""
    opened = _FENCE.match(text)
    if opened is None or not text.endswith("```", opened.end()):
        return text
    return text[opened.end() : -3].strip()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out and not _same(out[key], value):
            raise ValueError("a key occurs twice")
        out[key] = value
    return out


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(value := int(digits)) > MAX_INTEGER:
        raise ValueError("an integer beyond 2**53")
    return value


def _fraction(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number without an end")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_integer,
    parse_float=_fraction,
    parse_constant=_constant,
    strict=False,
)
"""JSON, but for line breaks within strings, which models write and which mean what they look like."""


def _checked(value: Any, depth: int) -> Any:
    """The value with clean strings. Raises ValueError when it is too deep."""
    if depth > MAX_DEPTH:
        raise ValueError(f"deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return _unique([(clean(key), _checked(one, depth + 1)) for key, one in value.items()])
    if isinstance(value, list):
        return [_checked(one, depth + 1) for one in value]
    return value


def _objects(text: str) -> list[dict[str, Any]]:
    """The objects of a text, outermost ones only; none when the last is cut short."""
    found: list[dict[str, Any]] = []
    at = 0
    for _ in range(MAX_STARTS):
        start = text.find("{", at)
        if start < 0:
            return found
        try:
            value, at = _object(text, start, 0)
            found.append(_checked(value, 0))
        except _NotJson as fault:
            if fault.ended:
                # What stands inside an object that was cut short is not the answer.
                return []
            at = max(fault.at, start + 1)
        except ValueError:
            return []
    return []


_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.S)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?(?![\w.])")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_SINGLE: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.S)
_WORDS: Final = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    at = at if space is None else space.end()
    if at >= len(text):
        raise _NotJson(at, ended=True)
    return at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise ValueError(f"deeper than {MAX_DEPTH}")
    first = text[at]
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    if first in "\"'":
        return _string(text, at)
    number = _NUMBER.match(text, at)
    if number:
        whole = number.group(1) is None and number.group(2) is None
        return (_integer if whole else _fraction)(number.group()), number.end()
    word = _WORD.match(text, at)
    if word and word.group() in _WORDS:
        return _WORDS[word.group()], word.end()
    raise _NotJson(at)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    pairs: list[tuple[str, Any]] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        if text[at] in "\"'":
            key, at = _string(text, at)
        else:
            word = _WORD.match(text, at)
            if word is None:
                raise _NotJson(at)
            key, at = word.group(), word.end()
        at = _skip(text, at)
        if text[at] != ":":
            raise _NotJson(at)
        value, at = _value(text, _skip(text, at + 1), depth + 1)
        pairs.append((key, value))
        at = _next(text, at, "}")
    return _unique(pairs), at + 1


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, at = _value(text, at, depth + 1)
        items.append(value)
        at = _next(text, at, "]")
    return items, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Where the next entry begins, or the end; a comma before the end is passed over."""
    at = _skip(text, at)
    if text[at] == ",":
        return _skip(text, at + 1)
    if text[at] != end:
        raise _NotJson(at)
    return at


def _string(text: str, at: int) -> tuple[str, int]:
    if text[at] == '"':
        try:
            return _STRICT.raw_decode(text, at)
        except json.JSONDecodeError as fault:
            raise _NotJson(fault.pos, ended=fault.msg.startswith("Unterminated")) from None
    single = _SINGLE.match(text, at)
    if single is None:
        raise _NotJson(len(text), ended=True)
    inner = single.group(1).replace("\\'", "'")
    double = re.sub(r'(\\.)|"', lambda one: one.group(1) or '\\"', inner, flags=re.S)
    try:
        return _STRICT.decode(f'"{double}"'), single.end()
    except json.JSONDecodeError:
        raise _NotJson(at) from None
