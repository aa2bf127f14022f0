"""Checks every frame of a socket, in both directions, against its schema."""

from functools import cache
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from app.protocol.asyncapi import standalone
from engine.events import EVENT_TYPES

__all__ = ["Frames", "check_event", "check_frame"]

_FROM_SERVER: Final = {
    "hello": "Hello",
    "welcome": "Welcome",
    "events": "Events",
    "request": "Asked",
    "beat": "Beat",
    "turn": "Awaited",
    "watchers": "Watchers",
    "speaking": "Speaking",
    "utterance_delta": "UtteranceDelta",
    "utterance_withdrawn": "UtteranceWithdrawn",
    "error": "Refusal",
}
_FROM_CLIENT: Final = {"identify": "Identify", "ping": "Ping", "act": "Act"}


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = standalone(name)
    assert schema is not None, name
    if name == "Events":
        # Each event is checked by its own schema: one of thirty would say little, and slowly.
        schema["properties"]["items"]["items"] = {"type": "object"}
    if name in _EVENTS.values():
        schema["unevaluatedProperties"] = False
    return Draft202012Validator(schema)


_EVENTS: Final = {name: kind.__name__ for name, kind in EVENT_TYPES.items()}


def check_event(item: dict[str, Any]) -> None:
    """Raises if an event does not match its schema."""
    _validator(_EVENTS[item["type"]]).validate(item)


def check_frame(frame: dict[str, Any]) -> None:
    """Raises if a frame from the server does not match its schema."""
    name = _FROM_SERVER.get(frame["t"]) or ("ActAck" if "request_id" in frame else "Ack")
    _validator(name).validate(frame)
    for item in frame["items"] if name == "Events" else ():
        check_event(item)


class Frames:
    """One connection's frames. A client's message is checked once the server has accepted it."""

    def __init__(self) -> None:
        self._sent: dict[str | None, dict[str, Any]] = {}

    def sent(self, message: dict[str, Any]) -> None:
        """Remembers the message until it is answered."""
        self._sent[None if message.get("t") == "identify" else message.get("id")] = message

    def received(self, frame: dict[str, Any]) -> None:
        """Raises if the frame, or the message that it accepts, does not match its schema."""
        check_frame(frame)
        taken = self._sent.pop(frame.get("re"), None) if frame["t"] in ("welcome", "ack") else None
        if taken is not None:
            if "thoughts_refused" in frame:
                # The action was taken, and of the thoughts what is none was left out.
                taken = {name: value for name, value in taken.items() if name != "thoughts"}
            _validator(_FROM_CLIENT[taken["t"]]).validate(taken)
