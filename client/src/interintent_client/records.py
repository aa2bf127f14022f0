"""What is read from the server: fields that this version does not know stay in ``raw``; how JSON is sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Ack", "Event", "Json", "Request", "wire"]

Json = Mapping[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as one viewer sees it. ``event["team"]`` gives a field of the event's type."""

    seq: int
    """Position in this viewer's stream: 1, 2, 3, …"""
    at: datetime
    type: str
    game: str
    raw: Json

    def __getitem__(self, name: str) -> Any:
        return self.raw[name]

    @classmethod
    def read(cls, raw: Json) -> "Event":
        """Reads an item of the stream, or a line of NDJSON."""
        return cls(raw["seq"], datetime.fromisoformat(raw["at"]), raw["type"], raw["game"], raw)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the game to this seat for one decision."""

    request_id: str
    """The id: round, attempt, kind and seat. It stays the same after a reconnect."""
    kind: str
    """propose_team, speak, reconsider, vote, card, summarise or assassinate."""
    default: Json
    """The action that is played if no answer comes."""
    legal: Sequence[Json] | None
    """All legal actions; None if the action is a text, or if there are too many."""
    team_size: int | None
    menu: Sequence[str] | None
    """Ids of the intentions on offer, for a speech."""
    schema: Json
    thoughts_schema: Json
    """The schema of the thoughts that the server accepts with the action."""
    deadline: datetime | None
    ttl_ms: int | None
    """Milliseconds from the time when the server sent the request to its deadline; None: no deadline."""
    attempts_left: int | None
    raw: Json

    @property
    def round(self) -> int:
        return int(self.request_id.split(".")[0])

    @property
    def attempt(self) -> int:
        return int(self.request_id.split(".")[1])

    @property
    def seat(self) -> int:
        return int(self.request_id.split(".")[3])

    @classmethod
    def read(cls, raw: Json) -> "Request":
        deadline = raw.get("deadline")
        return cls(
            request_id=raw["request_id"],
            kind=raw["kind"],
            default=raw.get("default") or {},
            legal=raw.get("legal"),
            team_size=raw.get("team_size"),
            menu=raw.get("menu"),
            schema=raw.get("schema") or {},
            thoughts_schema=raw.get("thoughts_schema") or {},
            deadline=None if deadline is None else datetime.fromisoformat(deadline),
            ttl_ms=raw.get("ttl_ms"),
            attempts_left=raw.get("attempts_left"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Ack:
    """The server has committed the answer: it counts."""

    request_id: str
    duplicate: bool
    """Whether the same answer had been accepted before."""
    thoughts_refused: Sequence[Json] = ()
    """The refused thoughts, each with ``pointer`` and ``message``. The action counts nevertheless."""

    @classmethod
    def read(cls, raw: Json) -> "Ack":
        return cls(raw["request_id"], bool(raw.get("duplicate")), raw.get("thoughts_refused") or ())


def wire(message: Json) -> str:
    """The text of a message, as short as it may be. Raises ValueError for what is not JSON."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False)
    except TypeError as fault:
        raise ValueError(str(fault)) from None
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate: the server refuses it, and says where it is.
        return json.dumps(message)
    return text
