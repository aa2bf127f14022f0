"""The messages of the socket as one AsyncAPI 3.0 document, made from the message models.

``python -m app.protocol.asyncapi openapi/asyncapi.json`` writes it. Schemas stay within what AsyncAPI's own
dialect (a superset of JSON Schema draft 7) and 2020-12 have in common.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.protocol.actions import ACTION_MODELS, THOUGHT_MODELS
from app.protocol.close_codes import CLOSE_CODES
from app.protocol.event_schemas import WORDS, event_schemas
from app.protocol.lobby import LOBBY_CLIENT_FRAMES, LOBBY_SERVER_FRAMES, LobbyIdentify
from app.protocol.messages import CLIENT_FRAMES, SERVER_FRAMES, SUBPROTOCOL

__all__ = ["document", "schemas", "standalone"]

Schema = dict[str, Any]

PREFIX: Final = "#/components/schemas/"

DESCRIPTION: Final = """\
One connection, one viewer, one game. The server says `hello`; the client `identify`s within
`identify_within_ms`; the server says `welcome` and sends the viewer's events from `after` + 1 on, first
the past events, then the new ones. A seat gets a `request` for each of its decisions, answers with `act`,
and gets an `ack` when the answer is committed, or an `error`.

Text frames, one JSON object each. Ignore fields and types that you do not know; the server refuses those
it does not know. Send an `act` again, over any connection, until it is acknowledged: it counts once.
After a close whose code asks for it, reconnect with `after` = the last `seq` you have processed, after a
pause of `random(0, min(30 s, 0.5 s * 2^n))`. `/docs/bots.md` of the service is the guide.

The channel `lobby` is a bot's own socket: after `identify` it gets a `snapshot`, then `game_started` for each
game in which it has been given a seat. It plays each of them over a connection to the channel `game`.
"""

_MESSAGE_NAMES: Final = {
    "Awaited": "turn",
    "Asked": "request",
    "Refusal": "error",
    "ActAck": "act_ack",
    "LobbySnapshot": "snapshot",
}
"""Names of messages that differ from the names of their models."""


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _message_name(model: type[BaseModel]) -> str:
    return _MESSAGE_NAMES.get(model.__name__) or _snake(model.__name__)


def _tidy(value: Any) -> Any:
    """A copy without pydantic's own additions: titles of fields, discriminators, JsonValue."""
    if isinstance(value, list):
        return [_tidy(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("$ref") == f"{PREFIX}JsonValue":
        return {name: part for name, part in value.items() if name != "$ref"}
    tidied = {}
    for name, part in value.items():
        if name == "discriminator" or (name == "title" and isinstance(part, str)):
            continue
        # The keys below `properties` are names of fields; examples and the like are plain values.
        if name == "properties":
            tidied[name] = {field: _tidy(schema) for field, schema in part.items()}
        elif name in ("examples", "default", "enum", "const"):
            tidied[name] = part
        else:
            tidied[name] = _tidy(part)
    return tidied


def _references(names: Any) -> list[Schema]:
    return [{"$ref": f"{PREFIX}{name}"} for name in names]


@cache
def schemas() -> Mapping[str, Schema]:
    """Every schema of the socket by name: frames, actions, thoughts, events."""
    read: list[type[BaseModel]] = [*CLIENT_FRAMES, LobbyIdentify, *ACTION_MODELS.values(), *THOUGHT_MODELS]
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in read]
    shown = dict.fromkeys((*SERVER_FRAMES, *LOBBY_SERVER_FRAMES))
    wanted += [(model, "serialization") for model in shown]
    _, made = models_json_schema(wanted, by_alias=True, ref_template=f"{PREFIX}{{model}}")
    found: dict[str, Schema] = {}
    for name, schema in made["$defs"].items():
        if name == "JsonValue":
            continue
        tidied = _tidy(schema)
        # A frame always holds its `t`, although the model has a default for it.
        if "const" in tidied.get("properties", {}).get("t", {}):
            tidied["properties"]["t"].pop("default", None)
            tidied["required"] = ["t", *(field for field in tidied.get("required", ()) if field != "t")]
        found[name] = {"title": name, **tidied}
    events = event_schemas()
    found |= events
    actions = {"anyOf": _references(model.__name__ for model in ACTION_MODELS.values())}
    act, asked = found["Act"]["properties"], found["Asked"]["properties"]
    act["action"] = {"description": act["action"]["description"], **actions}
    asked["default"] = {"description": asked["default"]["description"], **actions}
    asked["legal"] = {
        "description": asked["legal"]["description"],
        "anyOf": [{"type": "array", "items": actions}, {"type": "null"}],
    }
    act["thoughts"]["items"] = {"oneOf": _references(model.__name__ for model in THOUGHT_MODELS)}
    # Without EventItem, which would match every event: readers tell the events apart by `type`.
    found["Events"]["properties"]["items"] |= {
        "minItems": 1,
        "maxItems": 100,
        "items": {"oneOf": _references(events)},
    }
    moved: dict[str, Schema] = {}
    for name, schema in found.items():
        found[name] = {part: _by_name(value, moved) for part, value in schema.items()}
    return dict(sorted((found | moved).items()))


def _by_name(value: Any, moved: dict[str, Schema]) -> Any:
    """A copy that refers by name to each enumeration and each schema with a title, and collects these in
    ``moved``: generators make up names for schemas inside other schemas.
    """
    if isinstance(value, list):
        return [_by_name(part, moved) for part in value]
    if not isinstance(value, dict):
        return value
    words = next((name for name, schema in WORDS.items() if value.get("enum") == schema["enum"]), None)
    name = words or (value.get("title") if "properties" in value else None)
    inner = {key: _by_name(part, moved) for key, part in value.items()}
    if not isinstance(name, str):
        return inner
    # The field's own description moves along: readers ignore it beside a reference.
    moved[name] = {**moved.get(name, {}), "title": name, **inner}
    return {"$ref": f"{PREFIX}{name}"}


def standalone(name: str) -> Schema | None:
    """The schema of this name, with all schemas to which it refers, as JSON Schema 2020-12; None for an
    unknown name.
    """
    known = schemas()
    if name not in known:
        return None
    needed: list[str] = []
    waiting = [name]
    while waiting:
        for target in _targets(known[waiting.pop()]):
            if target not in needed and target != name:
                needed.append(target)
                waiting.append(target)
    moved = json.loads(
        json.dumps(
            {**known[name], **({"$defs": {part: known[part] for part in sorted(needed)}} if needed else {})}
        ).replace(PREFIX, "#/$defs/")
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **moved}


def _targets(value: Any) -> list[str]:
    if isinstance(value, list):
        return [target for part in value for target in _targets(part)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"].removeprefix(PREFIX)] if isinstance(value.get("$ref"), str) else []
    return own + [target for part in value.values() for target in _targets(part)]


def _message(model: type[BaseModel]) -> Schema:
    name = _message_name(model)
    schema = schemas()[model.__name__]
    examples = schema.get("examples", [])
    return {
        "name": name,
        "title": name,
        "summary": schema.get("description", "").split("\n\n")[0],
        "payload": {"$ref": f"{PREFIX}{model.__name__}"},
        **({"examples": [{"name": name, "payload": example} for example in examples]} if examples else {}),
    }


def _operation(
    action: str, summary: str, *messages: str, reply: tuple[str, ...] = (), on: str = "game"
) -> Schema:
    channel = {"$ref": f"#/channels/{on}"}

    def listed(names: tuple[str, ...]) -> list[Schema]:
        return [{"$ref": f"#/channels/{on}/messages/{name}"} for name in names]

    return {
        "action": action,
        "channel": channel,
        "summary": summary,
        "messages": listed(messages),
        **({"reply": {"channel": channel, "messages": listed(reply)}} if reply else {}),
    }


def _channel(address: str, title: str, models: Sequence[type[BaseModel]]) -> Schema:
    names = [_message_name(model) for model in models]
    return {
        "address": address,
        "title": title,
        "servers": [{"$ref": "#/servers/local"}],
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {
            "ws": {
                "method": "GET",
                "headers": {
                    "type": "object",
                    "properties": {
                        "Sec-WebSocket-Protocol": {"type": "string", "const": SUBPROTOCOL},
                        "Origin": {
                            "type": "string",
                            "description": "Sent by browsers; checked against the allowed origins.",
                        },
                    },
                },
                "bindingVersion": "0.1.0",
            }
        },
        "x-subprotocol": SUBPROTOCOL,
        "x-close-codes": [close._asdict() for close in CLOSE_CODES],
    }


def asyncapi() -> dict[str, Any]:
    """The document, from the server's side: its operations receive the messages of clients."""
    game = (*CLIENT_FRAMES, *SERVER_FRAMES)
    lobby = (*LOBBY_CLIENT_FRAMES, *LOBBY_SERVER_FRAMES)
    models = dict.fromkeys((*game, *lobby))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "InterIntent Server: the socket",
            "version": version("interintent-server"),
            "description": DESCRIPTION,
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "localhost:8000",
                "protocol": "ws",
                "description": "`make run`; elsewhere `wss` behind a proxy.",
                "security": [{"$ref": "#/components/securitySchemes/token"}],
            }
        },
        "channels": {
            "game": _channel("/ws", "One viewer's connection to one game", game),
            "lobby": _channel("/ws/lobby", "A bot's own connection", lobby),
        },
        "operations": {
            "greet": _operation("send", "The first frame.", "hello"),
            "identify": _operation(
                "receive",
                "The client's first message; an error is followed by a close.",
                "identify",
                reply=("welcome", "error"),
            ),
            "show": _operation("send", "What the viewer may see, in order.", "events"),
            "ask": _operation("send", "The seat is asked for a decision.", "request"),
            "act": _operation("receive", "The seat answers.", "act", reply=("act_ack", "error")),
            "ping": _operation("receive", "Asks for an `ack`.", "ping", reply=("ack",)),
            "beat": _operation("send", "Nothing has happened for `idle_ms`.", "beat"),
            "look_on": _operation(
                "send", "Beside the log, to those that identified with `live`.", "turn", "watchers"
            ),
            "overhear": _operation(
                "send",
                "What models are saying, to a full viewer that identified with `live`.",
                "speaking",
                "utterance_delta",
                "utterance_withdrawn",
            ),
            "greet_bot": _operation("send", "The first frame.", "hello", on="lobby"),
            "identify_bot": _operation(
                "receive",
                "The client's first message; an error is followed by a close.",
                "lobby_identify",
                reply=("snapshot", "error"),
                on="lobby",
            ),
            "start_game": _operation(
                "send", "The bot has been given a seat in a game.", "game_started", on="lobby"
            ),
            "close_seek": _operation("send", "A seek has ended without a game.", "seek_closed", on="lobby"),
            "beat_for_bot": _operation("send", "Comes every 10 s.", "lobby_beat", on="lobby"),
            "ping_as_bot": _operation("receive", "Asks for an `ack`.", "ping", reply=("ack",), on="lobby"),
        },
        "components": {
            "messages": {_message_name(model): _message(model) for model in models},
            "schemas": {name: dict(schema) for name, schema in schemas().items()},
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "password",
                    "description": "A seat token, a watch token or an API key, sent as `token` of "
                    "`identify`, never in the address. Left out if no key is configured.",
                }
            },
        },
        "x-actions": {kind.value: f"{PREFIX}{model.__name__}" for kind, model in ACTION_MODELS.items()},
    }


@cache
def document() -> str:
    """The text of the document: indented by two spaces, with a newline at the end."""
    return json.dumps(asyncapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), "utf-8")
