"""The messages of a bot's own socket, over which it hears which games it has been given a seat in.

The first message is an ``identify`` without a game; ``ping`` and ``ack``, ``hello`` and ``error`` are those
of a game's socket.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from app.base.errors import InvalidRequest
from app.base.faults import first_faults
from app.base.schemas import AS_WHOLE, Shown, Strict
from app.protocol.actions import pointer_of
from app.protocol.messages import Ack, Hello, MessageId, Ping, Refusal, text_place

__all__ = [
    "LOBBY_BEAT_S",
    "LOBBY_CLIENT_FRAMES",
    "LOBBY_SERVER_FRAMES",
    "BotName",
    "GameStarted",
    "LobbyBeat",
    "LobbyIdentify",
    "LobbySnapshot",
    "OpenSeek",
    "SeekClosed",
    "read_lobby_message",
]

LOBBY_BEAT_S: Final = 10.0
"""Seconds between two beats of a bot's socket."""

BotName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

_SEEK: Final[dict[str, Any]] = {
    "seek": "q_k3",
    "pool": "interintent/5/normal/casual",
    "starts_by": "2026-03-01T12:01:00.000Z",
}
_GAME: Final[dict[str, Any]] = {
    "seek": "q_k3",
    "game": "g_k3",
    "seat": 2,
    "token": "eyJ…",
    "rated": False,
    "at": "2026-03-01T12:00:40.000Z",
}


class LobbyIdentify(Strict):
    """The first message: whose socket this is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"t": "identify", "v": 1, "token": "ik_…", "bot": "mybot"}]}
    )

    t: Literal["identify"]
    v: Annotated[int, Field(ge=1, le=1, description="The version of this protocol."), AS_WHOLE]
    token: Annotated[str, StringConstraints(max_length=2048)] | None = Field(
        None, repr=False, description="An API key with the scope `bots:play`."
    )
    bot: BotName = Field("bot", description="The name that your seeks carry.")
    client: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        None, description="Your program and its version."
    )
    id: MessageId | None = Field(None, description="Echoed as `re` in an error.")


class OpenSeek(Shown):
    """A seek of yours that waits."""

    seek: str
    pool: str = Field(description="What it waits for; seeks of one pool are paired with one another.")
    starts_by: str = Field(description="When it starts with those who are there, or ends.")


class GameStarted(Shown):
    """A game in which you have a seat. Play it on a socket of its own: `identify` with its token at `/ws`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"t": "game_started", **_GAME}]})

    t: Literal["game_started"] = "game_started"
    seek: str = Field(description="The seek that was paired.")
    game: str
    seat: int
    token: str = Field(repr=False, description="The seat's token.")
    rated: bool
    at: str = Field(description="When it was paired: UTC, milliseconds.")


class LobbySnapshot(Shown):
    """The first frame after `identify`: your open seeks, and all games that you are in."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"t": "snapshot", "bot": "mybot", "seeks": [_SEEK], "games": []}]}
    )

    t: Literal["snapshot"] = "snapshot"
    bot: str
    seeks: list[OpenSeek]
    games: list[GameStarted] = Field(
        description="Games that are not over, oldest first. After a reconnect they come again, with fresh "
        "tokens: leave out those that you are playing."
    )


class SeekClosed(Shown):
    """A seek of yours has ended without a game."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"t": "seek_closed", "seek": "q_k3", "status": "expired"}]}
    )

    t: Literal["seek_closed"] = "seek_closed"
    seek: str
    status: str = Field(description="`withdrawn` or `expired`.")


class LobbyBeat(Shown):
    """Comes every 10 s. As long as you get it, your seeks count as yours to be paired."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"t": "beat", "seeks": 1, "games": 0}]})

    t: Literal["beat"] = "beat"
    seeks: int = Field(description="How many seeks of yours are open.")
    games: int = Field(description="How many games you are in.")


LOBBY_CLIENT_FRAMES: Final[tuple[type[BaseModel], ...]] = (LobbyIdentify, Ping)
LOBBY_SERVER_FRAMES: Final[tuple[type[BaseModel], ...]] = (
    Hello,
    LobbySnapshot,
    GameStarted,
    SeekClosed,
    LobbyBeat,
    Ack,
    Refusal,
)

_READER: Final = TypeAdapter[LobbyIdentify | Ping](
    Annotated[LobbyIdentify | Ping, Field(discriminator="t")], config=ConfigDict(hide_input_in_errors=True)
)


def read_lobby_message(value: Any) -> LobbyIdentify | Ping:
    """Reads the message in a JSON value. Raises InvalidRequest, which never repeats what was sent."""
    if not isinstance(value, dict):
        raise InvalidRequest("a message is a JSON object")
    if value.get("t") not in ("identify", "ping"):
        raise InvalidRequest("t is one of identify, ping", "/t")
    if (place := text_place(value)) is not None:
        raise InvalidRequest(*place, "text")
    try:
        return _READER.validate_python(value)
    except ValidationError as fault:
        first = first_faults(fault, value, _READER)[0]
        # Pydantic's path begins with the message's tag.
        raise InvalidRequest(str(first["msg"]), pointer_of(first["loc"][1:]), str(first["type"])) from None
