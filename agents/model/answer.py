"""Reads a server's response: the HTTP answer, and the JSON value in a text.

A value is accepted only where it is unambiguous. The reader repairs fences and prose around an object, a
trailing comma, single quotes, Python's ``True``, ``False`` and ``None``, bare keys, line breaks within
strings, and comments. It repairs nothing ambiguous: an object cut short, a key with two different values,
several different objects, or numbers that no JSON writer would reproduce.
"""

import json
import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

__all__ = [
    "AROUND",
    "NO_VALUE",
    "Failed",
    "HttpAnswer",
    "clean",
    "find_value",
    "read_error_body",
    "read_json",
    "retry_after",
    "thoughts_and_rest",
]


@dataclass(slots=True)
class HttpAnswer:
    """A complete response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    first_s: float | None = None
    """Seconds from the request to the first piece of its text. None: the body came in one piece."""


@dataclass(slots=True)
class Failed:
    """A request without a complete response."""

    cause: str
    """One of timeout, connect_timeout, refused, unknown_host, tls, disconnected, reset, too_large, truncated,
    encoding, connection."""
    status: int | None
    """The status of the response; None if no response began."""
    received: int
    """The number of bytes received of the response's body."""
    sent: bool
    """True: the server may have received the request, and may charge for it."""
    words: str = ""
    """What is wrong, where the cause does not say it all."""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks us to wait; may be infinite. None if the headers do not say. Servers give
    the time in milliseconds, in seconds or as a date.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                until = parsedate_to_datetime(value)
            except (ValueError, OverflowError):
                continue
            if until.tzinfo is None:
                until = until.replace(tzinfo=UTC)
            seconds = (until - (now or datetime.now(UTC))).total_seconds()
        if math.isfinite(seconds):
            return max(0.0, seconds)
        if seconds > 0:
            return seconds
    return None


def read_error_body(answer: HttpAnswer) -> Any:
    """The JSON of an error's body; None if the body is not JSON. Google wraps the error in a list of one
    element, which is removed.
    """
    try:
        body = json.loads(answer.body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return body[0] if isinstance(body, list) and len(body) == 1 else body


MAX_DEPTH: Final = 32
MAX_STARTS: Final = 64
"""How many braces in prose are tried, at most, as the beginning of an object."""

MAX_INTEGER: Final = 2**53
"""Other JSON readers change larger integers."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class _NoValue:
    """The type of NO_VALUE. None is a value of JSON, ``null``."""


NO_VALUE: Final = _NoValue()


class _NotJson(ValueError):
    """The text is not JSON. The exception holds where reading stopped, and whether the text ended there."""

    def __init__(self, at: int, ended: bool = False) -> None:
        super().__init__(f"no JSON at {at}")
        self.at = at
        self.ended = ended


def clean(text: str) -> str:
    """``text`` in a form that every store and every encoder accepts.

    Adjacent halves of a surrogate pair are joined; other halves, and U+0000, become U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", _REPLACEMENT)


def read_json(text: str) -> Any:
    """The value of a text that consists of JSON alone, with clean strings; NO_VALUE for any other text."""
    try:
        return _checked(_STRICT.decode(text), 0)
    except (ValueError, RecursionError):
        return NO_VALUE


def find_value(text: str, required: Set[str] = frozenset()) -> Any:
    """The JSON value in a model's answer; None if there is none, or if it is ambiguous.

    Of several objects in prose, only those with all ``required`` keys count.
    """
    text = thoughts_and_rest(text)[1].strip(AROUND)
    whole = read_json(text)
    if whole is NO_VALUE:
        whole = read_json(_fenced(text))
    if whole is not NO_VALUE:
        return whole
    try:
        objects = _objects(text)
    except RecursionError:
        return None
    complete = [value for value in objects if required <= value.keys()]
    return complete[0] if complete and all(_same(value, complete[0]) for value in complete[1:]) else None


AROUND: Final = " \t\r\n\v\f\N{ZERO WIDTH NO-BREAK SPACE}\N{NO-BREAK SPACE}"

_OPENS: Final = re.compile(r"\s*(?:<(?:(?:seed:)?think|thinking|thought|reasoning)>|\[THINK\]|◁think▷)")
_CLOSING: Final = re.compile(
    r"</(?:(?:seed:)?think|thinking|thought|reasoning)>|\[/THINK\]|◁/think▷"
    r"|<\|channel\|>final(?:[^<]|<\|constrain\|>){0,64}<\|message\|>"
)
"""The marks with which models end the thoughts that they write into their answer."""


def thoughts_and_rest(text: str) -> tuple[str, str]:
    """The thoughts that a model wrote at the beginning of its answer, and the text after their last end mark.

    The whole answer counts as thoughts if they begin and never end. There are no thoughts if they neither
    begin nor end, or if the whole answer is JSON.
    """
    if not any(sign in text for sign in "<[◁") or read_json(text.strip(AROUND)) is not NO_VALUE:
        return "", text
    ends = list(_CLOSING.finditer(text))
    opened = _OPENS.match(text)
    if ends:
        return text[opened.end() if opened else 0 : ends[-1].start()].strip(), text[ends[-1].end() :]
    return (text[opened.end() :].strip(), "") if opened else ("", text)


def _same(value: Any, other: Any) -> bool:
    """Whether the two values are equal as JSON, where 1 does not equal true."""
    return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)


_FENCE: Final = re.compile(r"```[\w-]*[^\S\n]*\n")


def _fenced(text: str) -> str:
    """The text inside the code fence if the whole text is one fence, else the text itself."""
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
        raise ValueError("a number that is not finite")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_integer,
    parse_float=_fraction,
    parse_constant=_constant,
    strict=False,
)
"""Reads strict JSON, but allows line breaks in strings: models write them, and they are unambiguous."""


def _checked(value: Any, depth: int) -> Any:
    """The value with clean strings. Raises ValueError when it is nested more than ``MAX_DEPTH`` deep."""
    if depth > MAX_DEPTH:
        raise ValueError(f"deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return _unique([(clean(key), _checked(item, depth + 1)) for key, item in value.items()])
    if isinstance(value, list):
        return [_checked(item, depth + 1) for item in value]
    return value


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost objects of a text; empty when the last object is cut short."""
    objects: list[dict[str, Any]] = []
    at = 0
    for _ in range(MAX_STARTS):
        start = text.find("{", at)
        if start < 0:
            return objects
        try:
            value, at = _object(text, start, 0)
            objects.append(_checked(value, 0))
        except _NotJson as fault:
            if fault.ended:
                # An object inside one that was cut short is not the answer.
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
    """The position of the next entry, or of the end; a comma before the end is skipped."""
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
    double = re.sub(r'(\\.)|"', lambda match: match.group(1) or '\\"', inner, flags=re.S)
    try:
        return _STRICT.decode(f'"{double}"'), single.end()
    except json.JSONDecodeError:
        raise _NotJson(at) from None
