"""What passes the door: requests of a caller that a browser cannot impersonate, and clean JSON.

``Door`` is a middleware in front of every route. ``read_json`` reads a body or a message strictly: no NaN, no
doubled keys, no U+0000, no lone surrogates, a bounded size, depth and number of elements.
"""

import json
import re
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from math import inf
from typing import Any, Final, NoReturn
from urllib.parse import unquote_plus

import jiter
from starlette.types import ASGIApp, Receive, Scope, Send

from app.callers import check_caller
from app.errors import CredentialInUrl, InvalidRequest, Unparsable
from app.faults import json_pointer
from app.problems import problem_response
from engine.errors import AvalonError

__all__ = [
    "MAX_ANSWER",
    "MAX_ANSWER_DEPTH",
    "MAX_BODY",
    "MAX_DEPTH",
    "MAX_RECORD",
    "Door",
    "check_url",
    "read_json",
]

MAX_BODY: Final = 1 << 20
"""Bytes of a request's body."""

MAX_RECORD: Final = 4 << 20
"""Bytes of a foreign record: the largest real one we have met takes 51 kB."""

MAX_ANSWER: Final = 32_768
"""Bytes of a seat's answer, over HTTP as over a socket."""

MAX_ANSWER_DEPTH: Final = 16
"""Arrays and objects inside each other in a seat's answer."""

MAX_DEPTH: Final = 32
"""Arrays and objects inside each other; our own deepest body has six."""

MAX_ELEMENTS: Final = 50_000
"""Elements of arrays and members of objects in a body, all together."""

_MAX_DIGITS: Final = 128

_CREDENTIAL: Final = re.compile(
    r"\bik_[A-Za-z0-9_-]{43}|\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\."
    r"|[?&](?:access_|auth_|seat_|watch_)?(?:token|key|api[_-]?key|authorization|bearer|jwt)=",
    re.IGNORECASE,
)


_TAKEN: Final = bytes(set(range(256)) - set(range(32)) - {0x7F} | set(b"\t\n"))
_TAKEN_OF_RECORDS: Final = bytes(range(1, 256))

_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_CLOSING: Final = bytes.maketrans(b"[{", b"]}")
_BLANK: Final = b" \t\n\r"
_CHUNK: Final = 4_096
_LONG: Final = 64
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
_DIGIT: Final = re.compile(rb"[0-9]")
_ZEROS: Final = bytes.maketrans(b"123456789E+", b"000000000e0")
_SEPARATORS: Final = bytes.maketrans(b',:[]{}"\t\n\r', b" " * 10)
_EXPONENT: Final = re.compile(rb"[eE][0-9+][0-9]{2}")


def read_json(
    body: bytes, *, max_depth: int = MAX_DEPTH, record: bool = False, check_text: bool = True
) -> Any:
    """The JSON value in ``body``, read strictly.

    ``record``: text of others' making, in which control characters are met and kept, all but
    U+0000. ``check_text``: False leaves to the caller what texts and numbers hold. Raises Unparsable
    for what is not JSON, InvalidRequest with a pointer for text we do not take, and for more than
    MAX_ELEMENTS elements.
    """
    try:
        if not body.isascii():
            body.decode()
    except UnicodeDecodeError as fault:
        raise Unparsable(f"the body is not UTF-8 at byte {fault.start}") from None
    found = _first_fault(body, max_depth, record, check_text)
    if found is None:
        return _parse(body) if check_text else _parse_as_sent(body)
    # The outline is gone by now: it takes room, and so does what is parsed.
    kind, message, prefix = found
    raise InvalidRequest(f"a key: {message}" if prefix.ends_in_key else message, prefix.pointer(), kind)


def _parse(body: bytes) -> Any:
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as fault:
        # The parser repeats a key that stands twice, which may be a secret.
        what, _, place = str(fault).rpartition(" at ")
        if what.startswith("Detected duplicate key"):
            what = "an object names each key once"
        raise Unparsable(f"no JSON at {place}: {what}") from None


def _parse_as_sent(body: bytes) -> Any:
    try:
        return _parse(body)
    except Unparsable as fault:
        # A lone surrogate is no text to jiter, and a fault of a text to the caller.
        try:
            return _AS_SENT.decode(body.decode())
        except ValueError:
            raise fault from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names each key once")
    return members


_AS_SENT: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant)


def _first_fault(
    body: bytes, max_depth: int, record: bool, check_text: bool
) -> "tuple[str, str, _Prefix] | None":
    # Before a value is built, and by passes of the interpreter's own over bytes: nothing here runs once for
    # each character or element.
    outline = _Outline(body)
    structure = outline.structure
    opened = structure.count(b"[") + structure.count(b"{")
    if opened > max_depth:
        _check_depth(structure.translate(_ALIKE, _NO_BRACKETS), max_depth)
    if opened + structure.count(b",") > MAX_ELEMENTS:
        _check_elements(structure)
    _check_digits(structure)
    if not check_text:
        return None
    if (b"\\" in body or b"\x7f" in body) and (fault := _text_fault(outline, record)):
        return "text", *fault
    if fault := _number_fault(outline):
        return "number", *fault
    return None


class _Outline:
    """A body taken apart at its quotes: what stands outside of strings and inside, in turn."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)
        # Replaced by as many bytes, so that every place stays what it is.
        plain = body.replace(b"\\\\", b"--").replace(b'\\"', b"--") if b"\\" in body else body
        pieces = plain.split(b'"')
        self.strings = pieces[1::2]
        self.structure = b'"'.join(pieces[::2])
        """The body with one quote in the place of each string."""

    def before_string(self, number: int) -> "_Prefix":
        """The body up to a string, counted from 0."""
        return self.before(len(b'"'.join(self.structure.split(b'"', number + 1)[: number + 1])))

    def before(self, place: int) -> "_Prefix":
        """The body up to a place in its structure."""
        structure = self.structure[:place]
        strings = self.strings[: structure.count(b'"')]
        return _Prefix(self._body[: place + len(strings) + len(b"".join(strings))], structure)


class _Prefix:
    """The beginning of a body, up to something that is at fault."""

    def __init__(self, body: bytes, structure: bytes) -> None:
        brackets = structure.translate(None, _NO_BRACKETS)
        while (fewer := brackets.replace(b"[]", b"").replace(b"{}", b"")) != brackets:
            brackets = fewer
        self._open = brackets
        last = structure.rstrip(_BLANK)[-1:]
        self.ends_in_key = last == b"{" or (last == b"," and brackets.endswith(b"{"))
        if self.ends_in_key:
            body = body.rstrip(_BLANK).removesuffix(b",")
        elif last in (b"[", b":", b",", b""):
            body += b"null"
        self._whole = body + brackets[::-1].translate(_CLOSING)

    def pointer(self) -> str:
        """Of what comes next: the value, or the object that holds the key. Raises Unparsable."""
        node = _parse(self._whole)
        path = []
        # All is closed but what leads to the end, so the last of each is the way there.
        for _ in range(len(self._open) - self.ends_in_key):
            part = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
            node = node[part]
            path.append(part)
        return json_pointer(path)


def _check_depth(brackets: bytes, limit: int) -> None:
    shallow = brackets.replace(b"[]", b"")
    depth = 0
    for start in range(0, len(shallow), _CHUNK):
        chunk = shallow[start : start + _CHUNK]
        if 1 + max(accumulate(array("b", chunk.translate(_STEPS)), initial=depth)) > limit:
            raise Unparsable(f"arrays and objects nest at most {limit} deep")
        depth += chunk.count(b"[") - chunk.count(b"]")


def _check_elements(structure: bytes) -> None:
    dense = structure.translate(_ALIKE, _BLANK)
    if (elements := dense.count(b",") + dense.count(b"[") - dense.count(b"[]")) > MAX_ELEMENTS:
        raise InvalidRequest(
            f"a body has at most {MAX_ELEMENTS:,} elements, got {elements:,}", "", "too_many_elements"
        )


def _text_fault(outline: _Outline, record: bool) -> tuple[str, _Prefix] | None:
    strings = outline.strings
    numbers: Sequence[int] = range(len(strings))
    if len(strings) * _LONG < outline.length:
        # Few and long: most need not be looked at.
        numbers = [n for n in numbers if b"\\" in strings[n] or b"\x7f" in strings[n]]
        strings = [strings[n] for n in numbers]
    fault = _fault(_decoded(strings), record)
    if fault is None:
        return None
    low, high = 0, len(strings)
    while high - low > 1:
        middle = (low + high) // 2
        if _fault(_decoded(strings[low:middle]), record) is None:
            low = middle
        else:
            high = middle
    return fault, outline.before_string(numbers[low])


def _decoded(strings: Sequence[bytes]) -> str:
    try:
        text: str = json.loads(f'"{b" ".join(strings).decode()}"')
    except json.JSONDecodeError as fault:
        raise Unparsable(f"no JSON: {fault.msg}") from None
    return text


def _fault(text: str, record: bool) -> str | None:
    try:
        others = text.encode().translate(None, _TAKEN_OF_RECORDS if record else _TAKEN)
    except UnicodeEncodeError as fault:
        return f"text takes no lone surrogate, got U+{ord(text[fault.start]):04X}"
    return f"text takes no control character, got U+{others[0]:04X}" if others else None


def _check_digits(structure: bytes) -> None:
    # A number that is too long has a digit at one of these places.
    if _DIGIT.search(structure[::_MAX_DIGITS]) and b"0" * (_MAX_DIGITS + 1) in structure.translate(_ZEROS):
        raise Unparsable(f"a number has at most {_MAX_DIGITS} digits")


def _number_fault(outline: _Outline) -> tuple[str, _Prefix] | None:
    structure = outline.structure
    if b"e" not in structure and b"E" not in structure:
        return None
    alike = structure.translate(_ZEROS)
    if b"e000" not in alike:
        return None
    # Of the numbers between the first that is large and the last.
    first = max(0, alike.index(b"e000") - 3 * _MAX_DIGITS)
    part = slice(first, alike.rindex(b"e000") + 3 * _MAX_DIGITS)
    forms = alike[part].translate(_SEPARATORS).split()
    written = zip(structure[part].translate(_SEPARATORS).split(), forms, strict=True)
    try:
        values = [abs(float(number)) for number, form in written if b"e000" in form]
    except ValueError:
        return None  # it is no number, which the parser will tell
    if inf not in values:
        return None
    number = values.index(inf)
    [place] = islice(_EXPONENT.finditer(structure, first), number, number + 1)
    return "a number beyond what a double holds", outline.before(place.start())


class Door:
    """The middleware. ``keyless`` says whether no credential is asked for now (``check_caller``)."""

    def __init__(self, app: ASGIApp, *, keyless: Callable[[], bool], origins: Sequence[str]) -> None:
        self._app = app
        self._keyless = keyless
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check_caller(scope, keyless=self._keyless(), origins=self._origins)
                check_url(scope)
            except AvalonError as refusal:
                await problem_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_url(scope: Scope) -> None:
    """Raises CredentialInUrl for a key or a token in the path or the query, by its look or by its name."""
    url = unquote_plus(f"{scope['path']}?{scope['query_string'].decode('latin-1')}")
    if _CREDENTIAL.search(url):
        raise CredentialInUrl(
            "send it as Authorization: Bearer, or as token of identify; and replace this one: "
            "addresses end up in logs"
        )
