"""Reads JSON strictly: NaN, duplicate keys, U+0000 and lone surrogates are refused, and depth, number of
elements and length of numbers are bounded.
"""

import json
import re
import secrets
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final, NoReturn

import jiter
import orjson

from app.base.errors import InvalidRequest, Unparsable
from app.base.faults import json_pointer

__all__ = ["MAX_ANSWER", "MAX_ANSWER_DEPTH", "MAX_BODY", "MAX_DEPTH", "MAX_RECORD", "read_json"]

MAX_BODY: Final = 1 << 20
"""The most bytes of a request's body."""

MAX_RECORD: Final = 4 << 20
"""The most bytes of a foreign record; the largest known record is 51 kB."""

MAX_ANSWER: Final = 32_768
"""The most bytes of a seat's answer, over HTTP and over a socket."""

MAX_ANSWER_DEPTH: Final = 16
"""The deepest nesting of arrays and objects in a seat's answer."""

MAX_DEPTH: Final = 32
"""The deepest nesting of arrays and objects; our own deepest body has six levels."""

MAX_ELEMENTS: Final = 50_000
"""The most elements of arrays and members of objects in a body, in total."""

_MAX_DIGITS: Final = 128
_MANY_DIGITS: Final = 19
"""So many digits may be more than 64 bits."""

_SNIFFED: Final = 4_096
_SPARSE: Final = 20

_PIECES: Final = 10
_LONGEST: Final = 12
"""Bytes of the longest spelling of a character, a surrogate pair."""
_LONG: Final = 4_096

_ESCAPE: Final = re.compile(rb"\\(?:[bfr]|u[0-9a-fA-F]{4})|\x7f")
_BEFORE_QUOTE: Final = re.compile(rb"\\\"")


class _Texts:
    """The characters that a text may contain, but for lone surrogates. ``refused`` matches the escapes of the
    others after their backslash; ``raw`` are those of them that need no escape.
    """

    def __init__(self, refused: bytes, raw: bytes, taken: bytes) -> None:
        self.raw = raw
        self.taken = taken
        # As many escapes and other characters as are taken. Python 3.11.2 errs on possessive repetition.
        self.sound = re.compile(
            rb"(?:[^\\\x00-\x08\x0b\x0c\x0e-\x1f%b]+"
            rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
            rb'|\\(?!u[dD][89a-fA-F]|%b)(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*' % (raw, refused)
        )


_OURS: Final = _Texts(
    rb"[bfr]|u00(?:0[0-8b-fB-F]|1|7[fF])",
    b"\x7f",
    bytes(set(range(256)) - set(range(32)) - {0x7F} | set(b"\t\n")),
)
_OF_RECORDS: Final = _Texts(b"u0000", b"", bytes(range(1, 256)))

_OTHERS: Final = bytes(b"\\"[0] if byte == b"\\"[0] else b"x"[0] for byte in range(256))
_ONE_TEXT: Final = bytes.maketrans(b'"\t\n\r', b"/   ")

_MARK: Final = secrets.token_hex(16).encode()

_NO_MARKS: Final = bytes(set(range(256)) - set(b"[{,:\\"))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_BLANK: Final = b" \t\n\r"
_CHUNK: Final = 4_096
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)


def read_json(
    body: bytes, *, max_depth: int = MAX_DEPTH, record: bool = False, check_text: bool = True
) -> Any:
    """The JSON value in ``body``, read strictly.

    ``record``: a foreign record, whose texts may contain control characters other than U+0000.
    ``check_text``: with False, texts and numbers are not checked. Raises Unparsable for invalid JSON, too
    deep nesting or a number of more than 128 digits; InvalidRequest for more than MAX_ELEMENTS elements and,
    with a pointer, for a text or a number that is not allowed.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as fault:
        raise Unparsable(f"the body is not UTF-8 at byte {fault.start}") from None
    if len(body) > _SNIFFED:
        _check_beginning(body[:_SNIFFED])
    short = body
    if check_text:
        short = _check_texts(body, _OF_RECORDS if record else _OURS)
    # Checked before parsing, since elements take many times the memory of their text.
    marks = short.translate(None, _NO_MARKS)
    _check_structure(short, marks, max_depth)
    few_objects = marks.count(b"{") * _SPARSE < len(body)
    if not check_text:
        return _parse_as_sent(text) if few_objects else _parse_objects_as_sent(body)
    if short is not body and not _has_digits(short, _MANY_DIGITS, 6, 1):
        try:
            _parse(short)  # finds doubled keys
        except Unparsable:
            _parse_as_sent(text)  # knows the place in all of the body
            raise
        _read_numbers(short)
        return _read_numbers(body)  # which rounds long integers
    # A number can be invalid only by an exponent.
    if b"e" in body or b"E" in body:
        _read_numbers(body)
    # Python's own parser takes half the time for all but plain ASCII, and twice the time for objects.
    plain = body.isascii() and marks.count(b"\\") * _SPARSE <= len(body)
    return _parse_as_sent(text) if few_objects and not plain else _parse(body)


def _parse(body: bytes) -> Any:
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as fault:
        raise _unparsable(fault) from None


def _parse_as_sent(text: str) -> Any:
    """The value of a body, whose texts may contain lone surrogates."""
    try:
        return _AS_SENT.decode(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno} column {fault.colno}"
        raise Unparsable(f"invalid JSON at {place}: {fault.msg}") from None
    except ValueError as fault:
        raise Unparsable(f"invalid JSON: {fault}") from None


def _parse_objects_as_sent(body: bytes) -> Any:
    """Like ``_parse_as_sent``, but for bodies of many objects, on each of which the hook of Python's parser
    takes long.
    """
    # jiter refuses surrogates that may be lone; with U+E800 instead of U+D800 it finds any other fault.
    harmless = body.replace(b"\\ud", b"\\ue").replace(b"\\uD", b"\\uE")
    if harmless == body:
        return _parse(body)
    _parse(harmless)
    return json.loads(body)


def _check_beginning(beginning: bytes) -> None:
    """Raises Unparsable at little cost for a body whose beginning is invalid."""
    try:
        jiter.from_json(beginning, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as fault:
        if not (str(fault).startswith("EOF ") or _is_surrogate(fault)):
            raise _unparsable(fault) from None


def _is_surrogate(fault: Exception) -> bool:
    """Whether the parser stopped at a lone surrogate. Another function reports it, with its pointer."""
    return "hex escape" in str(fault)


def _unparsable(fault: ValueError) -> Unparsable:
    # The parser's message quotes a duplicate key, which may be a secret.
    what, _, place = str(fault).rpartition(" at ")
    if what.startswith("Detected duplicate key"):
        what = "an object repeats a key"
    return Unparsable(f"invalid JSON at {place}: {what}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a key")
    return members


_AS_SENT: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant)


def _check_structure(body: bytes, marks: bytes, max_depth: int) -> None:
    opened = marks.count(b"[") + marks.count(b"{")
    many = opened + marks.count(b",") > MAX_ELEMENTS
    long = _has_digits(body, _MAX_DIGITS, 32, 8)
    if opened <= max_depth and not many and not long:
        return
    # Each string is replaced by one quote.
    structure = b'"'.join(_without_escaped_quotes(body).split(b'"')[::2])
    if opened > max_depth:
        _check_depth(structure.translate(_ALIKE, _NO_BRACKETS), max_depth)
    if many:
        _check_elements(structure)
    if long and b"0" * (_MAX_DIGITS + 1) in structure.translate(_ZEROS):
        raise Unparsable(f"a number has at most {_MAX_DIGITS} digits")


def _has_digits(body: bytes, count: int, *steps: int) -> bool:
    """Whether there are as many digits in a row as in a number of ``count`` digits, if one looks at one
    character of so many; and then at more.
    """
    return all(b"0" * (count // step) in body[::step].translate(_ZEROS) for step in steps)


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


def _read_numbers(body: bytes) -> Any:
    """The value. Raises InvalidRequest for a number beyond a double."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        if fault.msg == "number is infinity when parsed as double":
            path, _ = _way_to_last(fault.doc[: fault.pos].encode() + b"0")
            raise InvalidRequest(
                "the number is too large for a double", json_pointer(path), "number"
            ) from None
        # jiter has a better message.
        _parse(body)
        raise Unparsable(f"invalid JSON: {fault.msg}") from None


def _check_texts(body: bytes, texts: _Texts) -> bytes:
    """The same body but for long stretches of texts with escapes, which are slow to read; keys are kept.

    Raises InvalidRequest for the first character that these texts don't take.
    """
    raw = body.find(texts.raw) if texts.raw else -1
    end = len(body) if raw < 0 else raw
    kept: list[bytes] = []
    done = read = 0
    is_value = False
    for begin, upto in _pieces(body, 0, end, max(end // _PIECES, _LONG)):
        if (in_one_text := _is_sound(body[begin:upto], texts)) is None:
            place = _first_fault(body, begin, upto, texts)
            raise _text_refused(body, place, b"".join([*kept, body[done:place]]))
        if (quote := body.rfind(b'"', read, begin)) >= 0:  # where the text begins
            before = body[max(quote - 64, 0) : quote].rstrip(_BLANK)[-1:]
            is_value = before in (b"[", b":") or quote == 0
        is_value = in_one_text and (is_value or _is_value(body, upto))
        if is_value and upto - begin >= _LONG:
            kept.append(body[done:begin])
            done = upto
        read = upto
    if raw >= 0:
        raise _text_refused(body, raw, b"".join([*kept, body[done:raw]]))
    return b"".join([*kept, body[done:]]) if kept else body


def _is_value(body: bytes, place: int) -> bool:
    """Whether the text that this place, before a character, is in, is a value. False if that is not known."""
    quote = body.find(b'"', place)
    after = body[quote + 1 : quote + 64].lstrip(_BLANK)[:1]
    return after in (b",", b"]", b"}") and not _is_escaped(body, place, quote)


def _first_fault(body: bytes, start: int, end: int, texts: _Texts) -> int:
    """Where the first escape begins that these texts don't take, or that is none. There is one between
    ``start`` and ``end``.
    """
    for begin, upto in _pieces(body, start, end, max((end - start) // _PIECES, 1_024)):
        start = begin
        if _is_sound(body[begin:upto], texts) is None:
            break
    sound = texts.sound.match(body, start, end + _LONGEST)
    return start if sound is None else sound.end()


def _pieces(body: bytes, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of stretches of about so many bytes that contain all escapes between ``start`` and
    ``end``, none of them cut. Each begins with an escape.
    """
    while (start := body.find(b"\\", start, end)) >= 0:
        upto = start + size
        if upto >= end:
            upto = end
        elif (last := body.rfind(b"\\", upto - _LONGEST, upto)) >= 0:
            is_second = body[last + 1 : last + 4].lower() in (b"udc", b"udd", b"ude", b"udf")
            upto = last + 1 if _is_escaped(body, start, last) else last - 6 * is_second
        else:
            upto -= next(bytes_back for bytes_back in range(4) if body[upto - bytes_back] & 0xC0 != 0x80)
        yield start, upto
        start = upto


def _is_escaped(body: bytes, start: int, place: int) -> bool:
    """Whether there is an odd number of backslashes before this place, counted from ``start``."""
    first = max(start, place - 64)
    if (other := body[first:place].translate(_OTHERS).rfind(b"x")) < 0:
        first = start
        other = body[first:place].translate(_OTHERS).rfind(b"x")
    return (place - first - 1 - other) % 2 == 1


def _is_sound(piece: bytes, texts: _Texts) -> bool | None:
    """None if an escape of this piece is wrong, otherwise whether all of it belongs to one text."""
    in_one_text = True
    try:
        text: str = orjson.loads(b'"%b"' % piece)
    except orjson.JSONDecodeError:
        in_one_text = False
        try:  # with quotes as slashes, so that it is read as one text
            text = orjson.loads(b'"%b"' % piece.translate(_ONE_TEXT))
        except orjson.JSONDecodeError:
            return None
    return None if text.encode().translate(None, texts.taken) else in_one_text


def _without_escaped_backslashes(body: bytes) -> bytes:
    """The body with escaped backslashes replaced, at the same length; each one left begins an escape."""
    return body.replace(b"\\\\", b"--")


def _without_escaped_quotes(body: bytes) -> bytes:
    """The body with escaped quotes replaced, at the same length. Each quote left begins or ends a text."""
    if not _BEFORE_QUOTE.search(body):
        return body
    return _without_escaped_backslashes(body).replace(b'\\"', b"--")


def _text_refused(body: bytes, place: int, beginning: bytes) -> Exception:
    """The error for a body with a character at this place that a text does not take. ``beginning``: the body
    before it, perhaps shortened.
    """
    escape = _ESCAPE.match(body, place)
    path: list[str | int] = []
    last = None
    with suppress(ValueError):  # told by _parse
        # Read as a member if it is in a key; otherwise the parser stops at the colon.
        path, last = _way_to_last(beginning + _MARK + b'":0')
    is_key = bool(path) and str(path[-1]).endswith(_MARK.decode())
    if escape is None or not (is_key or str(last).endswith(_MARK.decode())):
        _parse(body)  # raises: this is no character of a text
        return Unparsable("invalid JSON: invalid text")
    code = ord(json.loads(b'"%b"' % escape[0]))
    kind = "lone surrogate" if code >= 0xD800 else "control character"
    what = f"{'a key: ' if is_key else ''}text takes no {kind}, got U+{code:04X}"
    return InvalidRequest(what, json_pointer(path[:-1] if is_key else path), "text")


def _way_to_last(beginning: bytes) -> tuple[list[str | int], Any]:
    """The path to the last scalar in a cut-off body, and the scalar."""
    node = jiter.from_json(beginning, partial_mode="trailing-strings")
    path: list[str | int] = []
    while isinstance(node, dict | list) and node:
        part = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
        path.append(part)
        node = node[part]
    return path, node
