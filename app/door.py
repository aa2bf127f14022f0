"""What passes the door: clean JSON of a bounded size, from a caller a browser cannot impersonate.

One ASGI middleware in front of every route. It reads a body once, strictly (no NaN, no duplicate
keys, no U+0000, no lone surrogates, bounded depth and size), and hands it on as what it is, JSON,
whatever ``curl -d`` called it.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import unquote_plus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.callers import check_caller
from app.errors import CredentialInUrl, InvalidRequest, TooLarge, Unparsable, WrongMediaType
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

_MAX_DIGITS: Final = 128

# curl -d sends this type by itself, and a newcomer types curl -d '{}'.
_TAKEN_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded", ""})

_CREDENTIAL: Final = re.compile(
    r"\bik_[A-Za-z0-9_-]{43}|\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\."
    r"|[?&](?:access_|auth_|seat_|watch_)?(?:token|key|api[_-]?key|authorization|bearer|jwt)=",
    re.IGNORECASE,
)


def _no_constant(name: str) -> NoReturn:
    raise Unparsable(f"{name} is no JSON number")


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise Unparsable("an object names each key once")
    return read


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise Unparsable(f"a whole number has at most {_MAX_DIGITS} digits, got {len(digits)}")
    return int(digits)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_no_doubles, parse_constant=_no_constant, parse_int=_whole, strict=True
)


def read_json(
    body: bytes, *, max_depth: int = MAX_DEPTH, record: bool = False, check_text: bool = True
) -> Any:
    """The JSON value in ``body``, read strictly.

    ``record``: text of others' making, in which control characters are met and kept, all but
    U+0000. ``check_text``: False leaves to the caller what texts and numbers hold. Raises Unparsable
    for what is not JSON, InvalidRequest with a pointer for text we do not take.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise Unparsable(f"the body is not UTF-8 at byte {fault.start}") from None
    _check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as fault:
        raise Unparsable(f"no JSON at line {fault.lineno}, column {fault.colno}: {fault.msg}") from None
    if check_text:
        _check_text(value, record)
    return value


def _check_depth(text: str, limit: int) -> None:
    # Before parsing: the parser recurses, and a stack is no place to count in.
    depth = deepest = 0
    in_string = escaped = False
    for char in text if text.count("[") + text.count("{") > limit else ():
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    if deepest > limit:
        raise Unparsable(f"arrays and objects nest at most {limit} deep, got {deepest}")


def _check_text(value: Any, record: bool) -> None:
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        pointer, one = waiting.pop()
        if isinstance(one, str):
            if fault := _fault(one, record):
                raise InvalidRequest(fault, pointer, "text")
        elif isinstance(one, dict):
            for key, inner in one.items():
                if fault := _fault(key, record):
                    raise InvalidRequest(f"a key: {fault}", pointer, "text")
                escaped = key.replace("~", "~0").replace("/", "~1")
                waiting.append((f"{pointer}/{escaped}", inner))
        elif isinstance(one, list):
            waiting += ((f"{pointer}/{index}", inner) for index, inner in enumerate(one))
        elif isinstance(one, float) and one in (float("inf"), float("-inf")):
            raise InvalidRequest("a number beyond what a double holds", pointer, "number")


def _fault(text: str, record: bool) -> str | None:
    if text.isascii() and text.isprintable():
        return None
    for char in text:
        code = ord(char)
        if code == 0 or (not record and ((code < 32 and char not in "\t\n") or code == 127)):
            return f"text takes no control character, got U+{code:04X}"
        if 0xD800 <= code <= 0xDFFF:
            return f"text takes no lone surrogate, got U+{code:04X}"
    return None


class Door:
    """The middleware. ``keyless``: whether no credential is asked for."""

    def __init__(self, app: ASGIApp, *, keyless: Callable[[], bool], origins: Sequence[str]) -> None:
        self._app = app
        self._keyless = keyless
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = _headers(scope)
            check_caller(scope, keyless=self._keyless(), origins=self._origins)
            check_url(scope)
            if scope["method"] in ("POST", "PUT", "PATCH"):
                receive = await self._cleaned(scope, receive, headers)
        except AvalonError as refusal:
            await problem_response(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _cleaned(self, scope: Scope, receive: Receive, headers: dict[str, str]) -> Receive:
        record, answer = scope["path"].endswith("/import"), scope["path"].endswith("/action")
        limit = MAX_RECORD if record else MAX_ANSWER if answer else MAX_BODY
        body = await _read(receive, headers, limit)
        if body:
            given = headers.get("content-type", "").partition(";")[0].strip().lower()
            if given not in _TAKEN_TYPES and not given.endswith("+json"):
                raise WrongMediaType("send application/json")
            # Faults of a text in an answer are the route's to tell, with the request that is open.
            depth = MAX_ANSWER_DEPTH if answer else MAX_DEPTH
            read_json(body, max_depth=depth, record=record, check_text=not answer)
        kept = [(k, v) for k, v in scope["headers"] if k not in (b"content-type", b"content-length")]
        kept += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        # In place: the router writes the matched route into the scope, and the timing outside reads it.
        scope["headers"] = kept
        return replay


def check_url(scope: Scope) -> None:
    """Raises CredentialInUrl for a key or a token in the path or the query, by its look or by its name."""
    url = unquote_plus(f"{scope['path']}?{scope['query_string'].decode('latin-1')}")
    if _CREDENTIAL.search(url):
        raise CredentialInUrl(
            "send it as Authorization: Bearer, or as token of identify; and replace this one: "
            "addresses end up in logs"
        )


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _read(receive: Receive, headers: dict[str, str], limit: int) -> bytes:
    announced = headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limit:
        raise TooLarge(f"a body has at most {limit} bytes, got {announced[:20]}")
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Unparsable("the body ended before its length")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLarge(f"a body has at most {limit} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
