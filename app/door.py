"""What passes the door: requests of a caller that a browser cannot impersonate, and clean JSON.

``Door`` is a middleware in front of every route. ``read_json`` reads a body or a message strictly: no NaN, no
doubled keys, no U+0000, no lone surrogates, a bounded size, depth and number of elements.
"""

import json
import marshal
import re
import secrets
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from math import inf
from typing import Any, Final, NoReturn, TypeGuard
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


_SNIFFED: Final = 4_096
_SPARSE: Final = 32
_TAKEN: Final = bytes(set(range(256)) - set(range(32)) - {0x7F} | set(b"\t\n"))
_TAKEN_OF_RECORDS: Final = bytes(range(1, 256))

# A backslash that no other precedes, so that the search leaps from one run of them to the next.
_RUN: Final = re.compile(rb"\\(?<!\\\\)")
_CONTROL: Final = re.compile(
    _RUN.pattern + rb"(?:\\\\)*+(?:[bfr]|u00(?:0[0-8bcdefBCDEF]|1[0-9a-fA-F]|7[fF]))"
)
_NUL: Final = re.compile(_RUN.pattern + rb"(?:\\\\)*+u0000")
_HIGH: Final = re.compile(rb"\\u[dD][89abAB]..")
_AT: Final = re.compile(r" at line ([0-9]+) column ([0-9]+)$")
_IN_TEXT: Final = json.JSONDecoder(strict=False)

_NO_MARKS: Final = bytes(set(range(256)) - set(b"[{,\\"))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_BLANK: Final = b" \t\n\r"
_CHUNK: Final = 4_096
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_MARK: Final = secrets.token_hex(16)
_INFINITIES: Final = (marshal.dumps(inf, 2), marshal.dumps(-inf, 2))


def read_json(
    body: bytes, *, max_depth: int = MAX_DEPTH, record: bool = False, check_text: bool = True
) -> Any:
    """The JSON value in ``body``, read strictly.

    ``record``: text of others' making, in which control characters are met and kept, all but
    U+0000. ``check_text``: False leaves to the caller what texts and numbers hold. Raises Unparsable
    for what is not JSON, InvalidRequest with a pointer for text we do not take, and for more than
    MAX_ELEMENTS elements.
    """
    # Nothing here runs once for each character or element, but in passes of the interpreter's own. A body
    # whose beginning is no JSON costs no pass at all.
    try:
        if not body.isascii():
            body.decode()
    except UnicodeDecodeError as fault:
        raise Unparsable(f"the body is not UTF-8 at byte {fault.start}") from None
    if len(body) > _SNIFFED:
        _check_beginning(body[:_SNIFFED])
    marks = body.translate(None, _NO_MARKS)
    _check_structure(body, marks, max_depth)
    if not check_text:
        return _parse_as_sent(body)
    dense = marks.count(b"\\") * _SPARSE > len(body)
    try:
        if end := _control_character(body, record, dense=dense):
            raise _text_refused(body[:end])
        # The interpreter's own reads escapes in half the time, and objects in twice as much.
        own = dense and marks.count(b"{") * _SPARSE < len(body)
        value = _parse_as_python(body) if own else _parse(body)
    except _LoneSurrogate as fault:
        refused = _text_refused(fault.before, fault.code)
        raise refused if isinstance(refused, AvalonError) else Unparsable("no JSON") from None
    # What is too large for a double has an exponent: digits alone are too few.
    if (b"e" in body or b"E" in body) and _is_beyond(value):
        raise InvalidRequest("a number beyond what a double holds", json_pointer(_beyond(value)), "number")
    return value


def _parse(body: bytes) -> Any:
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as fault:
        raise _unparsable(fault, body) from None


def _parse_as_sent(body: bytes) -> Any:
    try:
        return _parse(body)
    except _LoneSurrogate:
        # It is no text to jiter, and a fault of a text to the caller.
        return _parse_as_python(body)


def _parse_as_python(body: bytes) -> Any:
    try:
        return _AS_SENT.decode(body.decode())
    except ValueError:
        with suppress(_LoneSurrogate):
            _parse(body)  # which tells what is wrong
        raise Unparsable("no JSON") from None


class _LoneSurrogate(Exception):
    """The parser met one: no fault of a caller yet, who may take texts as they were sent."""

    def __init__(self, message: str, body: bytes, fault: str) -> None:
        super().__init__(message)
        place = _AT.search(fault)
        assert place is not None
        line, column = map(int, place.groups())
        end = len(body) - len(body.split(b"\n", line - 1)[-1]) + column
        start = body.rindex(b"\\u", 0, end)
        # The one before it, which lacks its second half.
        before = body[: start - 6]
        if _HIGH.fullmatch(body, start - 6, start) and (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
            start -= 6
        self.before = body[:start]
        self.code = body[start + 2 : start + 6].decode("ascii", "replace").upper()


def _unparsable(fault: ValueError, body: bytes) -> Unparsable | _LoneSurrogate:
    # The parser repeats a key that stands twice, which may be a secret.
    what, _, place = str(fault).rpartition(" at ")
    if what.startswith("Detected duplicate key"):
        what = "an object names each key once"
    message = f"no JSON at {place}: {what}"
    if what.endswith("hex escape") and b"\\u" in body:
        return _LoneSurrogate(message, body, str(fault))
    return Unparsable(message)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names each key once")
    return members


_AS_SENT: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant)


def _check_beginning(beginning: bytes) -> None:
    try:
        jiter.from_json(beginning, allow_inf_nan=False, partial_mode="trailing-strings")
    except ValueError as fault:
        if not str(fault).startswith(("EOF ", "lone ", "unexpected end of hex escape")):
            raise _unparsable(fault, b"") from None


def _check_structure(body: bytes, marks: bytes, max_depth: int) -> None:
    opened = marks.count(b"[") + marks.count(b"{")
    many = opened + marks.count(b",") > MAX_ELEMENTS
    # A number that is too long has digits at four of these places.
    long = len(body) > _MAX_DIGITS and b"0000" in body[:: _MAX_DIGITS // 4].translate(_ZEROS)
    if opened <= max_depth and not many and not long:
        return
    # Of strings, one quote each is left.
    plain = body.replace(b"\\\\", b"--").replace(b'\\"', b"--") if b"\\" in body else body
    structure = b'"'.join(plain.split(b'"')[::2])
    if opened > max_depth:
        _check_depth(structure.translate(_ALIKE, _NO_BRACKETS), max_depth)
    if many:
        _check_elements(structure)
    if long and b"0" * (_MAX_DIGITS + 1) in structure.translate(_ZEROS):
        raise Unparsable(f"a number has at most {_MAX_DIGITS} digits")


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


def _control_character(body: bytes, record: bool, *, dense: bool) -> int:
    """Where the first control character that we do not take has ended; 0 where there is none."""
    pattern = _NUL if record else _CONTROL
    raw = 0 if record else body.find(b"\x7f") + 1
    low, high = 0, raw or len(body)
    if dense:
        # A search would stop at each of them. Reading them all as one text is faster.
        text = _unescaped(body[: high - bool(raw)])
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            _parse(body)  # which tells where the surrogate is
            encoded = text.encode("utf-8", "surrogatepass")
        if not _holds_control(encoded, record):
            return raw
        while high - low > _CHUNK:
            middle = (low + high) // 2
            while (run := _RUN.search(body, middle, high)) is None and middle - low > _CHUNK:
                middle = (low + middle) // 2
            if run is None or run.start() == low:
                break
            part = _unescaped(body[low : run.start()]).encode("utf-8", "surrogatepass")
            if _holds_control(part, record):
                high = run.start()
            else:
                low = run.start()
    found = pattern.search(body, low, high)
    return raw if found is None else found.end()


def _unescaped(part: bytes) -> str:
    """Part of a body as one text: an escaped quote becomes an escaped slash, and any other a slash."""
    text = part.replace(b'"', b"/").replace(b"\r", b" ").decode()
    try:
        read: str = _IN_TEXT.decode(f'"{text}"')
    except json.JSONDecodeError as fault:
        raise Unparsable(f"no JSON: {fault.msg}") from None
    return read


def _holds_control(text: bytes, record: bool) -> bool:
    return bool(text.translate(None, _TAKEN_OF_RECORDS if record else _TAKEN))


def _text_refused(prefix: bytes, surrogate: str | None = None) -> AvalonError | _LoneSurrogate:
    """Why a body is refused that begins so, up to the end of its first control character, or up to a lone
    surrogate.
    """
    refused: Unparsable | _LoneSurrogate = Unparsable("no JSON")
    marked = prefix + _MARK.encode()
    for rest in (b"", b'":0'):  # a key counts only with its value
        try:
            node = jiter.from_json(marked + rest, catch_duplicate_keys=True, partial_mode="trailing-strings")
        except ValueError as fault:
            refused = _unparsable(fault, prefix)
            continue
        # Nothing is closed on the way there, so it is the last of each.
        path: list[str | int] = []
        text = node
        while isinstance(node, dict | list) and node:
            part = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
            node = node[part]
            text = part if rest and isinstance(part, str) else node
            if rest and _is_marked(text):
                break
            path.append(part)
        if _is_marked(text):
            control = text.removesuffix(_MARK)[-1:]
            found = (
                f"lone surrogate, got U+{surrogate}"
                if surrogate
                else f"control character, got U+{ord(control):04X}"
            )
            return InvalidRequest(
                f"{'a key: ' if rest else ''}text takes no {found}", json_pointer(path), "text"
            )
    return refused


def _is_marked(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and text.endswith(_MARK)


def _is_beyond(value: Any) -> bool:
    written = marshal.dumps(value, 2)
    return any(infinity in written for infinity in _INFINITIES)


def _beyond(node: Any) -> Sequence[str | int]:
    """The way to the first infinite number of a value which holds one."""
    path: list[str | int] = []
    while isinstance(node, dict | list):
        parts: Sequence[Any] = list(node) if isinstance(node, dict) else range(len(node))
        inner = list(node.values()) if isinstance(node, dict) else node
        low, high = 0, len(inner)
        while high - low > 1:
            middle = (low + high) // 2
            if _is_beyond(inner[low:middle]):
                high = middle
            else:
                low = middle
        path.append(parts[low])
        node = inner[low]
    return path


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
