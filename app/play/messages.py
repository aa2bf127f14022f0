"""What passes over the socket (PROTOCOL 4): the client's messages, read strictly, and ours."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, TypeAdapter, ValidationError

from app.door import read_json
from app.errors import InvalidRequest
from app.games.schemas import Shown, Strict, Whole
from app.problems import problem_of
from engine.errors import AvalonError

__all__ = [
    "MAX_IDENTIFY",
    "MAX_MESSAGE",
    "SUBPROTOCOL",
    "UNKNOWN_REQUEST",
    "VERSION",
    "Ack",
    "Act",
    "Beat",
    "ClientMessage",
    "Hello",
    "Identify",
    "Ping",
    "Refusal",
    "Welcome",
    "events_frame",
    "message_id",
    "read_message",
    "read_text",
    "refusal",
]

SUBPROTOCOL: Final = "avalon.v1"
VERSION: Final = 1

MAX_MESSAGE: Final = 32_768
"""Bytes of one message from a client."""

MAX_IDENTIFY: Final = 4_096
"""Bytes of a client's first message."""

MAX_DEPTH: Final = 16
"""Arrays and objects inside each other."""

UNKNOWN_REQUEST: Final = "unknown-request"
"""No such request open, or another seat's: alike. A watcher has none at all."""

MessageId = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Identify(Strict):
    """Which game, through whose eyes, from where on."""

    t: Literal["identify"]
    v: Annotated[Whole, Field(ge=1, le=1)]
    token: Annotated[str, StringConstraints(max_length=2048)] | None = Field(None, repr=False)
    game: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    after: Annotated[Whole, Field(ge=0)] = 0
    """The last ``seq`` the client has processed."""
    viewer: Annotated[str, StringConstraints(max_length=16)] | None = None
    """Lowers a caller who may see everything."""
    client: Annotated[str, StringConstraints(max_length=128)] | None = None
    id: MessageId | None = None


class Ping(Strict):
    t: Literal["ping"]
    id: MessageId


class Act(Strict):
    """A seat's answer to its open request."""

    t: Literal["act"]
    id: MessageId
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    action: dict[str, JsonValue]
    thoughts: list[dict[str, JsonValue]] = Field(default_factory=list)


ClientMessage = Identify | Ping | Act

_READER: Final = TypeAdapter[ClientMessage](
    Annotated[ClientMessage, Field(discriminator="t")], config=ConfigDict(hide_input_in_errors=True)
)
_TAGS: Final = ("identify", "ping", "act")


def read_text(text: str) -> Any:
    """The JSON value of a message. Raises Unparsable or InvalidRequest."""
    return read_json(text.encode(), max_depth=MAX_DEPTH)


def message_id(value: Any) -> str | None:
    """What an answer to this value names as ``re``: its id, where it has a usable one."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and 1 <= len(found) <= 64 else None


def read_message(value: Any) -> ClientMessage:
    """The message of a JSON value. Raises InvalidRequest, which never names what was sent."""
    if not isinstance(value, dict):
        raise InvalidRequest("a message is a JSON object")
    if value.get("t") not in _TAGS:
        raise InvalidRequest(f"t is one of {', '.join(_TAGS)}", "/t")
    try:
        return _READER.validate_python(value)
    except ValidationError as fault:
        first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
        # The first part of the place is the message's own tag.
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in first["loc"][1:])
        raise InvalidRequest(str(first["msg"]), pointer, str(first["type"])) from None


class Hello(Shown):
    t: Literal["hello"] = "hello"
    v: int = VERSION
    conn: str
    identify_within_ms: int
    max_message: int = MAX_MESSAGE
    idle_ms: int


class Welcome(Shown):
    t: Literal["welcome"] = "welcome"
    game: str
    viewer: str
    head: int
    after: int


class Beat(Shown):
    """Nothing has happened for a while."""

    t: Literal["beat"] = "beat"
    head: int


class Ack(Shown):
    t: Literal["ack"] = "ack"
    re: str


class Refusal(Shown):
    """Why a client's message was not taken."""

    t: Literal["error"] = "error"
    re: str | None
    code: str
    detail: str
    pointer: str | None = None
    retry_after_ms: int | None = None


def refusal(re: str | None, error: AvalonError) -> Refusal:
    """The answer to a message that raised this: the same code as over HTTP."""
    return Refusal(
        re=re, code=problem_of(error).code, detail=str(error), pointer=getattr(error, "pointer", None) or None
    )


def events_frame(items: Sequence[str]) -> str:
    """A page of events; each item is JSON text already."""
    return f'{{"t":"events","items":[{",".join(items)}]}}'
