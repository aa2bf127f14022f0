"""The messages of the socket: those of clients, read strictly, and those of the server.

Every frame is a model here; ``CLIENT_FRAMES`` and ``SERVER_FRAMES`` list the frames. Actions and thoughts,
which HTTP takes as well, are in ``actions``.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from app.base.errors import InvalidRequest, RefusedForNow
from app.base.faults import beginning, first_faults
from app.base.json_reader import MAX_ANSWER, MAX_ANSWER_DEPTH, read_json
from app.base.problems import problem_of
from app.base.schemas import AS_WHOLE, GameStatus, Shown, Strict
from app.protocol.actions import MAX_THOUGHTS, RefusedThought, Written, pointer_of, text_fault
from engine.errors import AvalonError, InvalidAction
from engine.terms import Kind

__all__ = [
    "CLIENT_FRAMES",
    "MAX_DEPTH",
    "MAX_IDENTIFY",
    "MAX_MESSAGE",
    "SERVER_FRAMES",
    "SUBPROTOCOL",
    "VERSION",
    "Ack",
    "Act",
    "ActAck",
    "Answer",
    "Asked",
    "Awaited",
    "Beat",
    "ClientMessage",
    "EventItem",
    "Events",
    "Hello",
    "Identify",
    "MessageId",
    "OpenRequests",
    "Ping",
    "Refusal",
    "SentAnswer",
    "Speaking",
    "UtteranceDelta",
    "UtteranceWithdrawn",
    "Watchers",
    "Welcome",
    "events_frame",
    "message_id",
    "read_answer",
    "read_message",
    "read_text",
    "refusal",
    "refusal_text",
    "text_place",
]

SUBPROTOCOL: Final = "avalon.v1"
VERSION: Final = 1

MAX_MESSAGE: Final = MAX_ANSWER
"""The most bytes of one message from a client."""

MAX_IDENTIFY: Final = 4_096
"""The most bytes of a client's first message."""

MAX_DEPTH: Final = MAX_ANSWER_DEPTH
"""The deepest nesting of arrays and objects in a message from a client."""

MessageId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=64)]


def _as_sent(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Accepts any value, which is read later."""
    return value


def _object_as_sent(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, dict) else read(value)


def _examples(*values: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(values)})


# --- from the client ------------------------------------------------------------------------------


class Identify(Strict):
    """The first message: the game, the viewer, and the position to start after."""

    model_config = _examples(
        {"t": "identify", "v": 1, "token": "eyJ…", "game": "g_k3", "after": 0, "client": "mybot/1.2"}
    )

    t: Literal["identify"]
    v: Annotated[int, Field(ge=1, le=1, description="The version of this protocol."), AS_WHOLE]
    token: Annotated[str, StringConstraints(max_length=2048)] | None = Field(
        None, repr=False, description="A seat's or watcher's token, or an API key."
    )
    game: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    after: Annotated[int, Field(ge=0), AS_WHOLE] = Field(
        0, description="The last `seq` you have processed: the stream continues after it."
    )
    viewer: Annotated[str, StringConstraints(max_length=16)] | None = Field(
        None, description="A viewer that sees less than the credential allows: `public` or `seat:2`."
    )
    live: bool = Field(
        False,
        description="Whether to send what happens beside the log as well: `turn`, `watchers` and, to the "
        "full viewer, `speaking`, `utterance_delta`, `utterance_withdrawn`.",
    )
    sit: bool | None = Field(
        None,
        description="Whether this connection holds the seat and answers for it, or only watches. "
        "If omitted: it holds the seat if its token is the seat's own.",
    )
    client: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        None, description="Your program and its version."
    )
    id: MessageId | None = Field(None, description="Echoed as `re` in an error.")


class Ping(Strict):
    """Asks for an `ack`."""

    model_config = _examples({"t": "ping", "id": "p1"})

    t: Literal["ping"]
    id: MessageId


class Answer(Strict):
    """A seat's answer to its open request, as HTTP takes it."""

    model_config = _examples({"action": {"approve": True}})

    action: Annotated[dict[str, JsonValue], WrapValidator(_object_as_sent)] = Field(
        description="An action that matches the request's `schema`."
    )
    # A fault in the thoughts does not cost the action.
    thoughts: Annotated[
        list[dict[str, JsonValue]], Field(max_length=MAX_THOUGHTS), WrapValidator(_as_sent)
    ] = Field(
        default_factory=list,
        description="The thoughts that led to the action, as in the request's `thoughts_schema`: stored as "
        "ground truth, seen by this seat and the researcher only. `ack` lists those that are refused.",
    )


SentAnswer = Annotated[Answer, WrapValidator(_as_sent)]
"""A request body of any JSON value, which ``read_answer`` reads when the open request is known."""


class Act(Answer):
    """A seat's answer to its open request. Send it again until it is acknowledged: it counts once."""

    model_config = _examples(
        {
            "t": "act",
            "id": "a1",
            "request_id": "2.1.vote.3",
            "action": {"approve": True},
            "thoughts": [{"type": "choice_explained", "text": "The team is clean."}],
        }
    )

    t: Literal["act"]
    id: MessageId = Field(description="Echoed as `re`. A message keeps its id when it is sent again.")
    request_id: RequestId


ClientMessage = Identify | Ping | Act

_READER: Final = TypeAdapter[ClientMessage](
    Annotated[ClientMessage, Field(discriminator="t")], config=ConfigDict(hide_input_in_errors=True)
)
_ANSWER: Final = TypeAdapter(Answer)
_TAGS: Final = ("identify", "ping", "act")


def read_text(text: str) -> Any:
    """The JSON value of a message; its texts are not checked yet. Raises Unparsable."""
    return read_json(text.encode(), max_depth=MAX_DEPTH, check_text=False)


def message_id(value: Any) -> str | None:
    """The id that an answer to this message repeats as ``re``; None for a message without a usable id."""
    name = value.get("id") if isinstance(value, dict) else None
    return name if isinstance(name, str) and 1 <= len(name) <= 64 and text_fault(name) is None else None


def read_message(value: Any) -> ClientMessage:
    """Reads the message in a JSON value, except the contents of an action and of thoughts.

    Raises InvalidRequest, which never repeats what was sent, and InvalidAction for a forbidden character in
    an ``act``.
    """
    if not isinstance(value, dict):
        raise InvalidRequest("a message is a JSON object")
    if value.get("t") not in _TAGS:
        raise InvalidRequest(f"t is one of {', '.join(_TAGS)}", "/t")
    if (place := _text_fault(_read_now(value))) is not None:
        raise InvalidAction(*place) if value["t"] == "act" else InvalidRequest(*place, "text")
    try:
        return _READER.validate_python(value)
    except ValidationError as fault:
        # Pydantic's path begins with the message's tag.
        raise _invalid(fault, value, _READER, 1) from None


def read_answer(value: Any) -> Answer:
    """Reads the body of an answer over HTTP; otherwise like ``read_message``."""
    if not isinstance(value, dict):
        raise InvalidRequest("an answer is a JSON object")
    try:
        return _ANSWER.validate_python(value)
    except ValidationError as fault:
        # A body that is taken has no text beside its action and its thoughts.
        if (place := _text_fault(_read_now(value))) is not None:
            raise InvalidAction(*place) from None
        raise _invalid(fault, value, _ANSWER, 0) from None


def _read_now(value: dict[str, Any]) -> dict[str, Any]:
    """A message without its action and its thoughts, which are read later. Only its first elements are kept,
    since a message that has more is refused anyway.
    """
    now: dict[str, Any] = beginning(
        {name: field for name, field in value.items() if name not in ("action", "thoughts")}
    )
    return now


def _invalid(fault: ValidationError, value: Any, model: TypeAdapter[Any], skipped: int) -> InvalidRequest:
    first = first_faults(fault, value, model)[0]
    return InvalidRequest(str(first["msg"]), pointer_of(first["loc"][skipped:]), str(first["type"]))


def text_place(value: Any) -> tuple[str, str] | None:
    """What is wrong with the first forbidden text of a message, and its pointer; None: nothing is."""
    return _text_fault(beginning(value))


def _text_fault(value: Any) -> tuple[str, str] | None:
    """The message for the first forbidden text, and its pointer. A key has the pointer of its object."""
    if isinstance(value, str):
        fault = text_fault(value)
        return None if fault is None else (fault, "")
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if isinstance(key, str) and (fault := text_fault(key)):
            return f"a key: {fault}", ""
        if (place := _text_fault(part)) is not None:
            return place[0], f"{pointer_of([key])}{place[1]}"
    return None


# --- from the server ------------------------------------------------------------------------------


class Hello(Shown):
    """The first frame: the limits of this server."""

    model_config = _examples(
        {
            "t": "hello",
            "v": 1,
            "conn": "c_5f",
            "identify_within_ms": 5000,
            "max_message": 32768,
            "idle_ms": 25000,
        }
    )

    t: Literal["hello"] = "hello"
    v: int = VERSION
    conn: str = Field(description="The id of this connection, for logs.")
    identify_within_ms: int
    max_message: int = Field(MAX_MESSAGE, description="The most bytes of one message of yours.")
    idle_ms: int = Field(description="A `beat` is sent after this many milliseconds without another frame.")


class Welcome(Shown):
    """The credential is accepted; the viewer's events follow."""

    model_config = _examples({"t": "welcome", "game": "g_k3", "viewer": "seat:2", "head": 41, "after": 0})

    t: Literal["welcome"] = "welcome"
    game: str
    viewer: str = Field(description="`public`, `seat:2` or `full`.")
    head: int = Field(description="Number of this viewer's events so far; those after `after` come at once.")
    after: int


class EventItem(Shown):
    """One event as a viewer gets it; the fields of its type follow these."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "seq": 7,
                    "at": "2026-03-01T12:00:00.000Z",
                    "type": "proposal_opened",
                    "game": "g_k3",
                    "round": 1,
                    "attempt": 1,
                    "leader": 1,
                }
            ]
        },
    )

    seq: int = Field(description="Position in this viewer's own stream: from 1, without holes.")
    at: str = Field(description="When it was committed: UTC, milliseconds.")
    type: str
    game: str


class Events(Shown):
    """1 to 100 events. Ignore those of a `type` that you do not know."""

    t: Literal["events"] = "events"
    items: list[EventItem]


class Asked(Shown):
    """A request to a seat. It comes over HTTP in a list; over the socket as a frame, after welcome and for
    each new request, and inside errors.
    """

    model_config = ConfigDict(
        frozen=True,
        serialize_by_alias=True,
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {
                    "t": "request",
                    "request_id": "1.1.propose_team.1",
                    "kind": "propose_team",
                    "team_size": 2,
                    "menu": ["convince_leader", "reveal_servant"],
                    "deadline": "2026-03-01T12:02:00.000Z",
                    "ttl_ms": 120000,
                    "schema": {"type": "object", "properties": {"team": {"type": "array"}}},
                    "thoughts_schema": {"type": "array", "maxItems": 20},
                    "legal": [{"team": [1, 2]}, {"team": [1, 3]}, {"team": [2, 3]}],
                    "default": {"team": [1, 2]},
                    "attempts_left": 3,
                }
            ]
        },
    )

    t: Literal["request"] = "request"
    request_id: str = Field(description="Round, attempt, kind, seat. The same after a reconnect.")
    kind: Kind
    team_size: int | None = Field(description="Number of seats to name, when the decision is a team.")
    menu: list[str] | None = Field(
        description="Ids of the intentions on offer, when the request is for a speech of the mechanism."
    )
    deadline: str | None = Field(
        description="When the default is played. Null: never, because the game is manual."
    )
    ttl_ms: int | None = Field(description="Milliseconds from now to the deadline; at least 0.")
    # Made here, so not validated again: that would take ten times as long as making the request.
    schema_: Annotated[dict[str, JsonValue], WrapValidator(_as_sent)] = Field(
        alias="schema", description="JSON Schema 2020-12 of the action."
    )
    thoughts_schema: Annotated[dict[str, JsonValue], WrapValidator(_as_sent)] = Field(
        description="JSON Schema 2020-12 of the `thoughts` that come with the action: matching ones are kept."
    )
    legal: Annotated[list[dict[str, JsonValue]] | None, WrapValidator(_as_sent)] = Field(
        description="Every legal action; null when there are more than 256, or when the action is a text."
    )
    default: dict[str, JsonValue] = Field(description="What is played when no answer comes.")
    attempts_left: int = Field(description="Answers that the seat may still give to this request.")

    def as_frame(self) -> str:
        """The frame's text: that of ``model_dump_json``, in a sixth of its time. The schemas are long."""
        values: dict[str, Any] = {
            "schema" if name == "schema_" else name: value for name, value in self.__dict__.items()
        }
        if isinstance(self.thoughts_schema, Written):
            values["thoughts_schema"] = orjson.Fragment(self.thoughts_schema.text)
        return orjson.dumps(values).decode()


class OpenRequests(Shown):
    """The open requests of a seat: none, or one."""

    status: GameStatus = Field(
        description="The game's status; a game that is `created` or `running` is not over yet."
    )
    requests: list[Asked]


class Beat(Shown):
    """Nothing has happened for a while."""

    model_config = _examples({"t": "beat", "head": 41})

    t: Literal["beat"] = "beat"
    head: int


class Awaited(Shown):
    """Whom the game waits for, as far as the public table tells. Beside the log: never replayed."""

    model_config = _examples({"t": "turn", "kind": "speak", "seats": [3]})

    t: Literal["turn"] = "turn"
    kind: Kind | None = Field(description="Null: nobody is asked, because the game is over.")
    seats: list[int] = Field(
        description="The seats that are asked, those that have answered in secret included; empty at an "
        "assassination, since nobody may know who shoots."
    )


class Watchers(Shown):
    """How many connections watch the game. Those that play or watch as a seat are not counted."""

    model_config = _examples({"t": "watchers", "n": 12})

    t: Literal["watchers"] = "watchers"
    n: int


class Speaking(Shown):
    """A seat's model is being asked (full viewer only). It holds until the seat's next event."""

    model_config = _examples(
        {
            "t": "speaking",
            "seat": 3,
            "request_id": "2.1.speak.3",
            "since": "2026-03-01T12:00:00.000Z",
            "step": "refinement",
        }
    )

    t: Literal["speaking"] = "speaking"
    seat: int
    request_id: str
    since: str = Field(description="When this step began.")
    step: str = Field(description="The step of the mechanism, or the kind of request.")


class UtteranceDelta(Shown):
    """A piece of the speech that a model is making (full viewer only). The event in the log has the last
    word.
    """

    model_config = _examples(
        {"t": "utterance_delta", "seat": 3, "request_id": "2.1.speak.3", "start": 18, "text": " clean team"}
    )

    t: Literal["utterance_delta"] = "utterance_delta"
    seat: int
    request_id: str
    start: int = Field(
        description="Characters before this piece. A viewer that has fewer came later, and misses some."
    )
    text: str


class UtteranceWithdrawn(Shown):
    """The speech so far does not count (full viewer only): its answer was refused, or broke off."""

    model_config = _examples({"t": "utterance_withdrawn", "seat": 3, "request_id": "2.1.speak.3"})

    t: Literal["utterance_withdrawn"] = "utterance_withdrawn"
    seat: int
    request_id: str


class Ack(Shown):
    """Answers a `ping`."""

    model_config = _examples({"t": "ack", "re": "p1"})

    t: Literal["ack"] = "ack"
    re: str


class ActAck(Shown):
    """The answer is committed. It counts, whatever happens to the connection or the server."""

    model_config = _examples(
        {"t": "ack", "re": "a1", "request_id": "2.1.vote.3", "status": "accepted", "duplicate": False}
    )

    t: Literal["ack"] = "ack"
    re: str | None = Field(description="The `id` of the `act`; null over HTTP.")
    request_id: str
    status: Literal["accepted"] = "accepted"
    duplicate: bool = Field(
        description="Whether the same action was accepted before; the thoughts sent with it then are kept."
    )
    thoughts_refused: list[RefusedThought] = Field(
        default_factory=list,
        exclude_if=lambda refused: not refused,
        description="Thoughts of the accepted answer that were left out; the others are kept. Absent: none. "
        "A duplicate repeats those of the answer that was accepted.",
    )


class Refusal(Shown):
    """The reason why a message was refused. The answer to an `act` includes the request still open."""

    model_config = _examples(
        {
            "t": "error",
            "re": "a1",
            "code": "illegal-action",
            "detail": "round 2 takes 3 seats, got [1, 4]",
            "pointer": "/team",
            "attempts_left": 2,
        }
    )

    t: Literal["error"] = "error"
    re: str | None = Field(description="The `id` of the message; null when it had no valid one.")
    code: str = Field(description="The same codes as over HTTP; `GET /problems/{code}` explains each.")
    detail: str
    pointer: str | None = Field(None, description="JSON pointer (RFC 6901) into the message.")
    retry_after_ms: int | None = None
    attempts_left: int | None = Field(
        None, description="Answers that the seat may still give to the request."
    )
    request: Asked | None = Field(None, description="The request that is still open to this seat.")


CLIENT_FRAMES: Final[tuple[type[BaseModel], ...]] = (Identify, Ping, Act)
SERVER_FRAMES: Final[tuple[type[BaseModel], ...]] = (
    Hello,
    Welcome,
    Events,
    Asked,
    Ack,
    ActAck,
    Beat,
    Awaited,
    Watchers,
    Speaking,
    UtteranceDelta,
    UtteranceWithdrawn,
    Refusal,
)


def refusal(re: str | None, error: AvalonError) -> Refusal:
    """The refusal of a message that raised this error, with the same code as over HTTP."""
    return Refusal(
        re=re,
        code=problem_of(error).code,
        detail=str(error),
        # An action that is wrong as a whole has the empty pointer.
        pointer=error.pointer
        if isinstance(error, InvalidAction)
        else getattr(error, "pointer", None) or None,
        retry_after_ms=math.ceil(error.retry_after_s * 1000) if isinstance(error, RefusedForNow) else None,
    )


def refusal_text(frame: Refusal) -> str:
    """The frame as JSON. Its null fields except ``re`` are left out, but its request keeps all nulls, as in a
    frame of its own.
    """
    left_out = {name for name, value in frame if value is None and name != "re"}
    text = frame.model_dump_json(exclude={"request", *left_out})
    return text if frame.request is None else f'{text[:-1]},"request":{frame.request.as_frame()}}}'


def events_frame(items: Sequence[str]) -> str:
    """The frame of a page of events; each item is JSON text already."""
    return f'{{"t":"events","items":[{",".join(items)}]}}'
