"""Reads JSON strictly: NaN, duplicate keys, U+0000 and lone surrogates are refused, and depth, number of
elements and length of numbers are bounded.
"""

import json
import re
import secrets
from array import array
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
_DENSE: Final = 5

# Where no backslash is escaped itself.
_CONTROL: Final = re.compile(rb"\\(?:[bfr]|u00(?:0[0-8bcdefBCDEF]|1[0-9a-fA-F]|7[fF]))")
_NUL: Final = re.compile(rb"\\u0000")
_COLON: Final = re.compile(rb"\\u003[aA]")

_BEFORE_QUOTE: Final = re.compile(rb"\\\"")

_ONE_TEXT: Final = bytes.maketrans(b'"\t\n\r', b"/   ")
_TAKEN: Final = bytes(set(range(256)) - set(range(32)) - {0x7F} | set(b"\t\n"))
_TAKEN_OF_RECORDS: Final = bytes(range(1, 256))

_MARK: Final = secrets.token_hex(16)

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
    # Checked before parsing, since elements take many times the memory of their text.
    marks = body.translate(None, _NO_MARKS)
    _check_structure(body, marks, max_depth)
    escapes = marks.count(b"\\")
    few_objects = marks.count(b"{") * _SPARSE < len(body)
    if not check_text:
        return _parse_as_sent(body, text) if few_objects else _parse_objects_as_sent(body)
    if (len(marks) - escapes) * _SPARSE < len(body):
        return _read_long_texts(body, marks, record)
    dense = escapes * _SPARSE > len(body)
    # A text can be invalid only by an escape or U+007F, and a number only by an exponent.
    if any(mark in body for mark in (b"\\", b"\x7f", b"e", b"E")):
        _check_controls(body, _read_scalars(body), record, dense=dense)
    # Python's own parser takes half the time for all but plain ASCII, and twice the time for objects.
    plain = body.isascii() and not dense
    return _parse_as_sent(body, text) if few_objects and not plain else _parse(body)


def _read_long_texts(body: bytes, marks: bytes, record: bool) -> Any:
    """The value of a body with few elements, by the parser that is fastest, but takes much memory for each
    element.
    """
    value = _read_scalars(body)
    if (escapes := marks.count(b"\\")) or b"\x7f" in body:
        # Written anew, most characters have no escape.
        dense = escapes * _DENSE > len(body)
        _check_controls(body if dense else orjson.dumps(value), value, record, dense=dense)
    # Of doubled members the last is kept, so colons are lost. Texts keep theirs, however they are spelled.
    if b"{" in marks and (colons := marks.count(b":")) > 1:
        if escapes and _COLON.search(body):
            colons += len(_COLON.findall(_without_escaped_backslashes(body)))
        if orjson.dumps(value).count(b":") != colons:
            if escapes * _SPARSE < len(body):
                _parse(body)  # raises, and knows the place, but is slow with escapes
            raise Unparsable("invalid JSON: an object repeats a key")
    # An integer of more than 64 bits was read as a float.
    return json.loads(body) if _has_digits(body, _MANY_DIGITS, 6) else value


def _parse(body: bytes) -> Any:
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as fault:
        raise _unparsable(fault) from None


def _parse_as_sent(body: bytes, text: str) -> Any:
    """The body's value; its texts may contain lone surrogates. ``text`` is the decoded body."""
    try:
        return _AS_SENT.decode(text)
    except ValueError:
        _parse(body)  # raises with a better message
        raise Unparsable("invalid JSON") from None


def _parse_objects_as_sent(body: bytes) -> Any:
    """Like ``_parse_as_sent``, but for bodies of many objects, on each of which the hook of Python's parser
    takes long.
    """
    try:
        return _parse(body)
    except Unparsable as fault:
        if not _is_surrogate(fault):
            raise
    # With U+E800 instead of U+D800, jiter reads on and finds any other fault.
    _parse(body.replace(b"\\ud", b"\\ue").replace(b"\\uD", b"\\uE"))
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
    long = all(_has_digits(body, _MAX_DIGITS, every) for every in (32, 4))
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


def _has_digits(body: bytes, count: int, every: int) -> bool:
    """Whether there are digits at so many sampled positions in a row as in a number of ``count`` digits."""
    return b"0" * (count // every) in body[::every].translate(_ZEROS)


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


def _read_scalars(body: bytes) -> Any:
    """The value. Raises InvalidRequest for a lone surrogate, and for a number beyond a double."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        beginning = fault.doc[: fault.pos].encode()
        if fault.msg.endswith("surrogate in string"):
            code = fault.doc[fault.pos + 2 : fault.pos + 6].upper()
            raise _text_refused(beginning, f"lone surrogate, got U+{code}") from None
        if fault.msg == "number is infinity when parsed as double":
            path, _ = _way_to_last(beginning + b"0")
            raise InvalidRequest(
                "the number is too large for a double", json_pointer(path), "number"
            ) from None
        # jiter has a better message.
        _parse(body)
        raise Unparsable(f"invalid JSON: {fault.msg}") from None


def _check_controls(body: bytes, value: Any, record: bool, *, dense: bool) -> None:
    """Raises InvalidRequest for a text with a control character that is not allowed."""
    if (control := _first_control(body, value, record, dense=dense)) is not None:
        beginning, character = control
        raise _text_refused(beginning, f"control character, got U+{ord(character):04X}")


def _first_control(body: bytes, value: Any, record: bool, *, dense: bool) -> tuple[bytes, str] | None:
    """The body before the first control character that a text must not contain, and that character; None if
    there is none. ``dense``: there are many escapes; the body is then serialised again.
    """
    if not dense:
        end = len(body) if record or (raw := body.find(b"\x7f")) < 0 else raw
        escape = body.find(b"\\", 0, end)
        plain = _without_escaped_backslashes(body[escape:end]) if escape >= 0 else b""
        if match := (_NUL if record else _CONTROL).search(plain):
            return body[: escape + match.start()], orjson.loads(b'"%b"' % match[0])
        return None if end == len(body) else (body[:end], "\x7f")
    # The search would stop at every escape. All of the body is read as one text instead, in which quotes
    # become slashes.
    text: str = orjson.loads(b'"%b"' % body.translate(_ONE_TEXT))
    refused = text.encode().translate(None, _TAKEN_OF_RECORDS if record else _TAKEN)
    if not refused:
        return None
    # Written anew, each character has one spelling.
    character = chr(refused[0])
    written = orjson.dumps(value)
    place = _find_escape(written, orjson.dumps(character)[1:-1])
    # Of a doubled key only the last value is written; the parser refuses such a body.
    return None if place < 0 else (written[:place], character)


def _find_escape(body: bytes, spelling: bytes) -> int:
    """The index of the first escape (or unescaped character) with this spelling; -1 if there is none."""
    # In texts full of backslashes, a third of the time of bytes.find.
    match = re.search(re.escape(spelling), body)
    place = match.start() if match else -1
    if place > 0 and body[place - 1] == ord("\\"):  # which may be escaped, or escape the one at this place
        return _without_escaped_backslashes(body).find(spelling)
    return place


def _without_escaped_backslashes(body: bytes) -> bytes:
    """The body with escaped backslashes replaced, at the same length; each one left begins an escape."""
    return body.replace(b"\\\\", b"--")


def _without_escaped_quotes(body: bytes) -> bytes:
    """The body with escaped quotes replaced, at the same length. Each quote left begins or ends a text."""
    if not _BEFORE_QUOTE.search(body):
        return body
    return _without_escaped_backslashes(body).replace(b'\\"', b"--")


def _text_refused(beginning: bytes, character: str) -> InvalidRequest:
    """The error for a body in which a text contains this character. ``beginning``: the body before the
    character.
    """
    quote = beginning.rfind(b'"')
    if beginning[quote - 1 : quote] == b"\\":  # which may escape it, or be escaped itself
        quote = _without_escaped_quotes(beginning).rfind(b'"')
    beginning = beginning[: quote + 1]  # where the text begins
    path: list[str | int] = []
    is_key = beginning[-64:-1].rstrip(_BLANK).endswith(b"{")
    if not is_key:
        path, text = _way_to_last(beginning + _MARK.encode())
        is_key = text != _MARK  # but a key after a comma
    if is_key:  # which the parser drops without a value
        path, _ = _way_to_last(beginning + _MARK.encode() + b'":0')
        path.pop()
    return InvalidRequest(
        f"{'a key: ' if is_key else ''}text takes no {character}", json_pointer(path), "text"
    )


def _way_to_last(beginning: bytes) -> tuple[list[str | int], Any]:
    """The path to the last scalar in a cut-off body, and the scalar."""
    node = jiter.from_json(beginning, partial_mode="trailing-strings")
    path: list[str | int] = []
    while isinstance(node, dict | list) and node:
        part = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
        path.append(part)
        node = node[part]
    return path, node
