"""Reads JSON strictly: NaN, doubled keys, U+0000 and lone surrogates are refused, and depth, number of
elements and length of numbers are bounded.

Reading takes about as much CPU time as two to four times ``json.loads`` for the same bytes. What follows a
fault of the JSON is hardly looked at; a fault in the first eighth of a body costs no more than this either.
A body of too many elements is refused before one of them is made: objects are made and freed in one step, in
which the whole process waits.
"""

import gc
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import jiter
import orjson
from pydantic_core import to_json

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
"""The most elements of all arrays in a body, and the most members of all objects."""

_MAX_DIGITS: Final = 128

_LONG: Final = 4_096
"""Bytes from which on a text is worth looking at how it is written."""

_BEGINNINGS: Final = (1 << 11, 1 << 13, 1 << 15, 1 << 17)
"""Bytes in which a fault is looked for before more is done with a body that is more than eight times as
long.
"""

_PIECES: Final = 20
_FEW: Final = 50
_STEP: Final = 11
_MANY: Final = 25
_SAMPLES: Final = 32
_SAMPLE: Final = 128

_PIECE: Final = 32_768
_BEFORE: Final = b",[{"
"""Each element or member follows one of these."""
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPE: Final = re.compile(rb"\\(?:[bfr]|u[0-9a-fA-F]{4})|\x7f")

_ESCAPED_COLON: Final = re.compile(rb"\\u003[aA]")

_ONE_TEXT: Final = bytes.maketrans(b'"\t\n\r', b"/   ")
_OTHERS: Final = b"x" * 92 + b"\\" + b"x" * 163
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_MARK: Final = secrets.token_hex(16).encode()


class _Texts:
    """The characters that a text may contain, but for lone surrogates."""

    def __init__(self, refused: bytes, raw: bytes, taken: bytes) -> None:
        self.refused = re.compile(rb"\\(?<!\\\\)(?:\\\\)*(%b)" % refused)
        """The first escape of another character; what follows its backslash is the group."""
        self.raw = raw
        """A character that needs no escape, and is not taken either; or nothing."""
        self.taken = taken


_OURS: Final = _Texts(
    rb"[bfr]|u00(?:0[0-8b-fB-F]|1|7[fF])",
    b"\x7f",
    bytes(set(range(256)) - set(range(32)) - {0x7F} | set(b"\t\n")),
)
_OF_RECORDS: Final = _Texts(b"u0000", b"", bytes(range(1, 256)))


def read_json(
    body: bytes, *, max_depth: int = MAX_DEPTH, record: bool = False, check_text: bool = True
) -> Any:
    """The JSON value in ``body``, read strictly.

    ``record``: a foreign record, whose texts may contain control characters other than U+0000.
    ``check_text``: with False, texts and numbers are not checked. Raises Unparsable for invalid JSON, too
    deep nesting or a number of more than 128 digits; InvalidRequest for more than MAX_ELEMENTS elements or
    members and, with a pointer, for a text or a number that is not allowed.
    """
    texts = (_OF_RECORDS if record else _OURS) if check_text else None
    if texts is not None:
        _check_beginnings(body, max_depth, texts)
    try:
        _check_size(body, max_depth)
        value = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        return _read_slowly(body, fault, max_depth, texts)
    _check_depth(value, max_depth)
    written = _write(value, body)
    if texts is not None:
        _check_texts(written, texts)
    if written == body:
        return value
    # orjson rounds integers of more than 64 bits, and keeps the last of doubled keys. Every colon of the body
    # is written again, but for those behind keys that were dropped; so is every escaped one.
    is_exact = not (
        _has_digits(_without_long_texts(body), 19, 9, 4) and _has_floats(value) and _has_long_numbers(body)
    )
    if is_exact and not _has_escaped_colon(body):
        if _count(body, b":") == _count(written, b":"):
            return value
        raise _doubled(body)
    try:
        return jiter.from_json(body, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError:
        raise _doubled(body) from None


def _check_beginnings(body: bytes, max_depth: int, texts: _Texts) -> None:
    """Raises for a fault near the beginning of a long body, of which no more is read then; and for a long
    body that is ASCII but for something that is not UTF-8.
    """
    if len(body) > 8 * _BEGINNINGS[0] and not body.isascii() and _sample(body).isascii():
        try:
            body.decode()
        except UnicodeDecodeError as wrong:
            raise _not_utf8(wrong) from None
    for size in _BEGINNINGS:
        if len(body) <= 8 * size:
            return
        # No character is cut in it.
        beginning = body[: next((end for end in range(size, size - 4, -1) if body[end] & 0xC0 != 0x80), size)]
        try:
            # As a member of an object that does not end, so that no objects are made of sound JSON.
            orjson.loads(b'{"":' + beginning)
        except orjson.JSONDecodeError as fault:
            if fault.msg.startswith("unexpected end"):  # the only fault of sound JSON that is cut
                continue
        try:
            orjson.loads(beginning)
        except orjson.JSONDecodeError as fault:
            _read_slowly(beginning, fault, max_depth, texts)


def _check_size(body: bytes, max_depth: int) -> None:
    """Raises for more elements or members than a body may have; of a body that is no JSON, before its fault.
    None of them is made into an object, since to make and free a million takes longer than the service may
    stand still. May raise orjson's error for a fault of the JSON.
    """
    if not _may_have_many(body):
        return
    try:
        # orjson makes no objects of what it refuses, and this it refuses for its end, if not before.
        orjson.loads(body + b"!")
    except orjson.JSONDecodeError as fault:
        has_fault = fault.pos < len(fault.doc) - 1 or not fault.doc
        sound = fault.doc[: fault.pos].encode() if has_fault else body
        if _may_have_many(sound):
            _check_counts(sound, max_depth)
        if has_fault:
            raise


def _check_counts(body: bytes, max_depth: int) -> None:
    """As `_check_size`, for valid JSON or its beginning."""
    bare = b"".join(_without_texts(body))
    members = bare.count(b":")
    elements = _count_any(bare, _BEFORE) - bare.count(b"[]") - bare.count(b"{}") - members
    if max(elements, members) <= MAX_ELEMENTS:
        return
    brackets = bare.translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    if b"]" in brackets:
        raise _too_deep(max_depth)
    got = f"elements, got {elements:,}" if elements > MAX_ELEMENTS else f"members of objects, got {members:,}"
    raise InvalidRequest(f"a body has at most {MAX_ELEMENTS:,} {got}", "", "too_many_elements")


def _may_have_many(body: bytes) -> bool:
    """False only if no parser makes more than MAX_ELEMENTS elements and members of it."""
    if len(body) <= MAX_ELEMENTS:
        return False
    body = _without_long_texts(body)
    sample = _sample(body)
    found = _count_any(sample, _BEFORE)
    if found * len(body) > MAX_ELEMENTS * len(sample):
        return True
    if found * _MANY > len(sample):
        return _count_any(body, _BEFORE) > MAX_ELEMENTS
    return sum(_count(body, before) for before in (b",", b"[", b"{")) > MAX_ELEMENTS


def _sample(body: bytes) -> bytes:
    step = len(body) // _SAMPLES + 1
    return b"".join(body[begin : begin + _SAMPLE] for begin in range(0, len(body), step))


def _without_long_texts(body: bytes) -> bytes:
    """JSON up to its first fault, with a quote in the place of each text, if it has only few texts and no
    quote in them; otherwise all of it. What follows the first fault may be anything.
    """
    parts, begin = [], 0
    for number in range(_FEW):
        place = body.find(b'"', begin)
        if number % 2 == 0:
            parts.append(body[begin : place if place >= 0 else None])
        if place < 0:
            return b'"'.join(parts)
        if body[place - 1 : place] == b"\\":
            break
        begin = place + 1
    return body


def _without_texts(body: bytes) -> Iterator[bytes]:
    """JSON up to its first fault, in pieces: without white space, and with a quote or two in the place of a
    text. What follows the first fault may be anything.
    """
    begun = b""
    for begin in range(0, len(body), _PIECE):
        piece = begun + body[begin : begin + _PIECE]
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        yield b'"'.join(parts[::2]).translate(None, b" \t\r\n")
        begun = (b"" if len(parts) % 2 else b'"') + (b"\\" if piece.endswith(b"\\") else b"")


def _write(value: Any, body: bytes) -> bytes:
    """The value as JSON without white space.

    orjson writes long texts up to ten times as fast as pydantic, and large integers twenty times as fast, but
    takes three times as long where every character is written as an escape, and up to 220 bytes an element of
    an array and 600 a member of an object: too much for short ones.
    """
    sample = body[::_STEP]
    escapes, members, elements = map(sample.count, (b"\\", b":", b","))
    if max(escapes * 8, members * 16, elements * 6) > len(sample):
        return to_json(value)
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, which only other parsers read
        return to_json(value)


def _doubled(body: bytes) -> Unparsable:
    where = ""
    # jiter takes too long to find the place in a long body.
    if len(body) <= _LONG:
        try:
            jiter.from_json(body, catch_duplicate_keys=True)
        except ValueError as fault:
            what, _, place = str(fault).rpartition(" at ")
            if what.startswith("Detected duplicate key"):  # followed by the key, which may be a secret
                where = f" at {place}"
    return Unparsable(f"invalid JSON{where}: an object repeats a key")


def _count(text: bytes, character: bytes) -> int:
    """How often it occurs. Python finds a few characters much faster than it counts."""
    place, found = text.find(character), 0
    while place >= 0 and found < _FEW:
        place, found = text.find(character, place + 1), found + 1
    return found if place < 0 else found + text.count(character, place)


def _count_any(text: bytes, characters: bytes) -> int:
    """How often one of them occurs. It takes the same time however many there are."""
    return len(text) - len(text.translate(None, characters))


def _has_escaped_colon(text: bytes) -> bool:
    if (begin := text.find(b"\\")) < 0:
        return False
    return _ESCAPED_COLON.search(text, begin, text.rfind(b"\\") + len(b"\\u003a")) is not None


def _read_slowly(body: bytes, fault: orjson.JSONDecodeError, max_depth: int, texts: _Texts | None) -> Any:
    """The value of a body that orjson refuses: one with a lone surrogate or a number beyond a double, if
    texts and numbers are not to be checked. Raises for any other.
    """
    place = fault.pos if body.isascii() else len(fault.doc[: fault.pos].encode())
    number = _NUMBER.match(body, place) if fault.msg.startswith("number is infinity") else None
    if texts is not None and (number or ("surrogate" in fault.msg and _SURROGATE.match(body, place))):
        if number:
            _has_long_numbers(number[0])
        raise _scalar_refused(body, place, texts)
    objects: list[list[tuple[str, Any]]] = []
    decoder = json.JSONDecoder(object_pairs_hook=objects.append, parse_constant=_no_constant)
    try:
        decoder.decode(body.decode())
    except UnicodeDecodeError as wrong:
        raise _not_utf8(wrong) from None
    except json.JSONDecodeError as wrong:
        where = f"line {wrong.lineno} column {wrong.colno}"
        raise Unparsable(f"invalid JSON at {where}: {wrong.msg}") from None
    except LookupError as constant:
        where = f"line {fault.lineno} column {fault.colno}"
        raise Unparsable(f"invalid JSON at {where}: {constant.args[0]} is no number") from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError:  # Python reads no integer of thousands of digits
        raise _too_long() from None
    if texts is not None:
        raise Unparsable(f"invalid JSON at line {fault.lineno} column {fault.colno}: {fault.msg}")
    if sum(map(len, objects)) != sum(map(len, map(dict, objects))):
        raise _doubled(body)
    del objects[:]  # the value takes as much memory
    _has_long_numbers(body)
    if _may_have_many(body):
        _check_counts(body, max_depth)
    value = json.loads(body)
    _check_depth(value, max_depth)
    return value


def _not_utf8(fault: UnicodeDecodeError) -> Unparsable:
    return Unparsable(f"the body is not UTF-8 at byte {fault.start}")


def _no_constant(name: str) -> NoReturn:
    raise LookupError(name)


def _too_deep(limit: int) -> Unparsable:
    return Unparsable(f"arrays and objects nest at most {limit} deep")


def _too_long() -> Unparsable:
    return Unparsable(f"a number has at most {_MAX_DIGITS} digits")


def _check_depth(value: Any, max_depth: int) -> None:
    level = [value]
    for _ in range(max_depth):
        if not (level := gc.get_referents(*level)):
            break
    if not {list, dict}.isdisjoint(map(type, level)):
        raise _too_deep(max_depth)


def _has_long_numbers(body: bytes) -> bool:
    """Whether the body may have an integer of more than 64 bits. Raises Unparsable for too long a number.

    Worth asking only if there are 19 digits in a row and orjson reads a float, as it reads such integers.
    """
    if not _has_digits(body, _MAX_DIGITS, 32, 8, 1):
        return True
    numbers: list[str] = []
    json.JSONDecoder(parse_int=numbers.append, parse_float=numbers.append).decode(body.decode())
    joined = ",".join(numbers).encode()
    if _has_digits(joined, _MAX_DIGITS + 1, 1):
        raise _too_long()
    return _has_digits(joined, 19, 1)


def _has_floats(value: Any) -> bool:
    level = [value]
    while level:
        if float in map(type, level):
            return True
        level = gc.get_referents(*level)
    return False


def _has_digits(body: bytes, count: int, *steps: int) -> bool:
    """Whether there are as many digits in a row as in a number of ``count`` digits, if one looks at one
    character of so many; and then at more.
    """
    return all(b"0" * (count // step) in body[::step].translate(_ZEROS) for step in steps)


def _check_texts(text: bytes, texts: _Texts) -> None:
    """Raises InvalidRequest for the first escape or character in valid JSON that its texts do not take."""
    end = text.find(texts.raw) if texts.raw else -1
    sound = text if end < 0 else text[:end]
    if (place := _first_refused(sound, texts)) is None and end >= 0:
        place = end
    if place is not None:
        # Read as a member if it is in a key; otherwise the parser stops at the colon.
        raise _text_refused(_cut_off(text[:place] + _MARK + b'":0'), text, place)


def _first_refused(text: bytes, texts: _Texts) -> int | None:
    """Where the first escape begins that these texts don't take. A writer of ours wrote the text: it escapes
    no surrogates.
    """
    if (begin := text.find(b"\\")) < 0:
        return None
    end = len(text)
    if text.count(b"\\", begin) * 16 > end - begin > _LONG:
        # Cheaper than to look at so many escapes is to read them, as one text.
        size = max((end - begin) // _PIECES, 2 * _LONG)
        while begin < len(text):
            end = _between_escapes(text, begin, begin + size)
            read: str = orjson.loads(b'"%b"' % text[begin:end].translate(_ONE_TEXT))
            if read.encode().translate(None, texts.taken):
                break
            begin = end
    end = min(end, text.rfind(b"\\", begin, end) + len(b"\\u0000"))
    found = texts.refused.search(text[begin:end])
    return found and begin + found.start(1) - 1


def _between_escapes(text: bytes, begin: int, place: int) -> int:
    """The first place from this one on where no escape is cut. None is cut at ``begin``."""
    if (place := text.find(b"\\", place)) < 0:
        return len(text)
    last_other = text[begin:place].translate(_OTHERS).rfind(b"x")  # rstrip takes three times as long
    if (place - begin - last_other - 1) % 2:
        return place + 1
    return place


def _scalar_refused(body: bytes, place: int, texts: _Texts) -> InvalidRequest:
    """The error for the lone surrogate, or the number beyond a double, at this place; or for a character
    before it that texts do not take.
    """
    before = body[:place]
    if (refused := _first_refused_as_sent(before, texts)) is not None:
        place = refused
    elif body[place : place + 1] != b"\\":
        pointer = json_pointer(_way_to_last(_cut_off(_shortened(before) + b"0")))
        return InvalidRequest("the number is too large for a double", pointer, "number")
    return _text_refused(_cut_off(_shortened(body[:place]) + _MARK + b'":0'), body, place)


def _first_refused_as_sent(beginning: bytes, texts: _Texts) -> int | None:
    """As `_first_refused`, of JSON that another wrote and that ends too early."""
    raw = beginning.find(texts.raw) if texts.raw else -1
    if b"\\" in beginning:
        read: str = orjson.loads(b'"%b"' % beginning.translate(_ONE_TEXT))
        if read.encode().translate(None, texts.taken) and (found := texts.refused.search(beginning)):
            escape = found.start(1) - 1
            return escape if raw < 0 else min(escape, raw)
    return raw if raw >= 0 else None


def _shortened(beginning: bytes) -> bytes:
    """JSON that ends too early, without the long values in it if there are few texts and no quotes in them:
    jiter reads escapes four times as slowly as orjson.
    """
    if len(beginning) <= _LONG or _count(beginning, b'"') > _FEW:
        return beginning
    parts = beginning.split(b'"')
    if not any(part.endswith(b"\\") for part in parts):
        for place in range(1, len(parts), 2):
            is_key = place + 1 < len(parts) and parts[place + 1].lstrip().startswith(b":")
            if len(parts[place]) > _LONG and not is_key:
                parts[place] = b""
    return b'"'.join(parts)


def _text_refused(node: Any, text: bytes, place: int) -> InvalidRequest:
    """The error for a character of a text, at this place, that it does not take. ``node``: all before it."""
    path = _way_to_last(node)
    is_key = bool(path) and str(path[-1]).endswith(_MARK.decode())
    character = _ESCAPE.match(text, place)
    assert character is not None
    code = ord(json.loads(b'"%b"' % character[0]))
    kind = "lone surrogate" if code >= 0xD800 else "control character"
    what = f"{'a key: ' if is_key else ''}text takes no {kind}, got U+{code:04X}"
    return InvalidRequest(what, json_pointer(path[:-1] if is_key else path), "text")


def _cut_off(beginning: bytes) -> Any:
    """The value of a body that ends too early."""
    return jiter.from_json(beginning, partial_mode="trailing-strings")


def _way_to_last(node: Any) -> list[str | int]:
    """The path to the last scalar in a value."""
    path: list[str | int] = []
    while isinstance(node, dict | list) and node:
        part = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
        path.append(part)
        node = node[part]
    return path
