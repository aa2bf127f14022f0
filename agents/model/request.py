"""Writes a chat-completions request, and its schema, for a server of a given capability, and reads from a
server's words how much room its answer may have.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from agents.model.answer import clean
from agents.model.capability import Capability, Format
from agents.model.completion import estimate
from agents.model.model import PLAIN_SAMPLING, Endpoint, Form, Message, Sampling

__all__ = [
    "LEAST_ROOM",
    "MORE",
    "can_be_strict",
    "fitting",
    "longest",
    "parameters",
    "reduced",
    "request_body",
    "required_keys",
    "sent_room",
    "stated",
]


def request_body(
    endpoint: Endpoint,
    messages: Sequence[Message],
    form: Form,
    asking: Capability,
    temperature: float,
    max_tokens: int,
    sampling: Sampling = PLAIN_SAMPLING,
    cache_key: str = "",
) -> tuple[dict[str, Any], int]:
    """The request, and an estimate of its prompt's tokens."""
    traits = endpoint.traits
    messages = [Message(message.role, clean(message.content)) for message in messages]
    if asking.schema_in_prompt:
        messages = _with_instruction(messages, form)
    if not asking.system:
        messages = _alternating(messages)
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": message.role, "content": message.content} for message in messages],
    }
    if asking.stream:
        body["stream"] = True
        if asking.counts:
            body["stream_options"] = {"include_usage": True}
    if asking.temperature:
        body["temperature"] = min(temperature, traits.hottest)
    if asking.limit != "none":
        body[asking.limit] = max_tokens
    if asking.format is not Format.PLAIN:
        body["response_format"] = _response_format(form, asking.format)
    body |= traits.body
    if endpoint.upstream is not None:
        body["provider"] = {"only": [endpoint.upstream], "allow_fallbacks": False}
    if cache_key and traits.cache_key is not None:
        body[traits.cache_key] = cache_key
    if traits.marks or (endpoint.provider == "openrouter" and endpoint.model.startswith("anthropic/")):
        _mark(body["messages"])
    named = sampling.named()
    return body | dict(endpoint.extra_body) | named.pop("extra_body", {}) | named, _estimate(messages)


def _mark(messages: list[dict[str, Any]]) -> None:
    """Marks the first message, which all prompts of a seat share, for the provider's cache."""
    text = {"type": "text", "text": messages[0]["content"], "cache_control": {"type": "ephemeral"}}
    messages[0]["content"] = [text]


def _estimate(messages: Iterable[Message]) -> int:
    """A rough count of the tokens of a prompt: those of its text, and four more for each message."""
    return sum(estimate(message.content) + 4 for message in messages)


_SECRET: Final = re.compile("key|secret|password|auth|credential|token$", re.I)


def parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, without its model, its messages and the schema of its form.

    A field that an operator added may hold a secret: ``***`` replaces values whose names suggest one.
    """
    return {name: _shown(name, value) for name, value in body.items() if name not in ("model", "messages")}


_OURS: Final = frozenset({"prompt_cache_key", "session_id"})


def _shown(name: str, value: Any) -> Any:
    if _SECRET.search(name) and name not in _OURS:
        return "***"
    if isinstance(value, Mapping):
        return {key: _shown(key, item) for key, item in value.items() if key != "schema"}
    return [_shown(name, item) for item in value] if isinstance(value, list) else value


def _response_format(form: Form, format_: Format) -> dict[str, Any]:
    if format_ is Format.OBJECT:
        return {"type": "json_object"}
    if format_ is Format.OBJECT_WITH_SCHEMA:
        return {"type": "json_object", "schema": reduced(form.schema)}
    schema = dict(form.schema) if format_ is Format.SCHEMA else reduced(form.schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": form.name, "schema": schema, "strict": can_be_strict(schema)},
    }


def _with_instruction(messages: list[Message], form: Form) -> list[Message]:
    """The messages, with a request for JSON of this form added to the last one.

    The instruction comes last, so that earlier prompts stay prefixes of this one.
    """
    schema = json.dumps(form.schema, ensure_ascii=False, separators=(",", ":"))
    instruction = (
        "Answer with one JSON object and nothing before or after it. "
        f"It follows this JSON Schema:\n{clean(schema)}"
    )
    if not messages or messages[-1].role == "assistant":
        return [*messages, Message("user", instruction)]
    last = messages[-1]
    return [*messages[:-1], Message(last.role, f"{last.content}\n\n{instruction}")]


def _alternating(messages: list[Message]) -> list[Message]:
    """The same text in messages that alternate between user and assistant, beginning with the user."""
    out: list[Message] = []
    for message in messages:
        role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
        if out and out[-1].role == role:
            out[-1] = Message(role, f"{out[-1].content}\n\n{message.content}")
        else:
            out.append(Message(role, message.content))
    if out and out[0].role == "assistant":
        out.insert(0, Message("user", "Go on."))
    return out


_BOUNDS: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "pattern", "format",
        "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "minProperties", "maxProperties", "patternProperties", "propertyNames",
        "dependentRequired", "dependentSchemas", "if", "then", "else", "not",
        "unevaluatedProperties", "unevaluatedItems",
        "default", "examples", "$schema", "$id", "$comment", "title",
    }
)  # fmt: skip
"""Keywords that some servers refuse. A schema without them says less, but nothing false."""

_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
"""Keywords of JSON Schema under which the keys are names, not keywords."""

_VERBATIM: Final = frozenset({"enum", "const", "required"})


def reduced(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without bounds, with ``const`` as an ``enum`` of one value and ``oneOf`` as ``anyOf``.

    Everything valid under ``schema`` is valid under the result.
    """
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _BOUNDS or (key == "additionalProperties" and "patternProperties" in schema):
            continue
        if key == "const":
            out["enum"] = [value]
        elif key in _VERBATIM:
            out[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            out[key] = {name: _reduced(item) for name, item in value.items()}
        else:
            out["anyOf" if key == "oneOf" else key] = _reduced(value)
    return out


def _reduced(value: Any) -> Any:
    if isinstance(value, Mapping):
        return reduced(value)
    if isinstance(value, list | tuple):
        return [_reduced(item) for item in value]
    return value


def can_be_strict(schema: Mapping[str, Any]) -> bool:
    """Whether strict mode accepts the schema: each object is closed and requires all of its properties."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        closed = schema.get("additionalProperties") is False
        if not closed or set(properties) != set(schema.get("required", ())):
            return False
    elif schema.get("type") == "object":
        return False
    return all(can_be_strict(child) for child in _below(schema))


def _below(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    children: list[Any] = []
    for key, value in schema.items():
        if key in _VERBATIM:
            continue
        if key in _NAMED and isinstance(value, Mapping):
            children += value.values()
        elif isinstance(value, list | tuple):
            children += value
        else:
            children.append(value)
    return [child for child in children if isinstance(child, Mapping)]


def required_keys(schema: Mapping[str, Any]) -> frozenset[str]:
    """The keys that an answer must have; empty if the schema names none."""
    return frozenset(key for key in schema.get("required", ()) if isinstance(key, str))


def longest(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> int:
    """The number of characters of the longest JSON that a schema allows, if it bounds every text."""
    root = schema if root is None else root
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema:
        return max(len(json.dumps(value)) for value in schema["enum"])
    match schema["type"]:
        case "object":
            properties = schema["properties"].items()
            return 2 + sum(len(json.dumps(name)) + 4 + longest(child, root) for name, child in properties)
        case "array":
            return 2 + int(schema["maxItems"]) * (2 + longest(schema["items"], root))
        case "boolean":
            return len("false")
        case _:
            return int(schema["maxLength"]) + 2


def sent_room(body: Mapping[str, Any]) -> int | None:
    """The room that a request asks for; None where it asks for none."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


# --- the room for an answer, in tokens -------------------------------------------------------------------

LEAST_ROOM: Final = 64
"""The fewest tokens into which an answer fits; if less is left, the prompt is too long."""

MORE: Final = 4
"""After an answer that was cut off, the next one gets this many times its room."""

_LIMIT: Final = re.compile(r"max_?(completion|new|output)?_?tokens|completion tokens|output tokens", re.I)
_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?!\w)|(?<![\w.])\d+(?![\w])")
_CONTEXT: Final = re.compile(
    r"(?:context (?:length|window|size|limit)\D{0,24}?|max_new_tokens` must be <= )(\d+)", re.I
)
_PROMPT: Final = re.compile(
    r"(\d+)(?: tokens)? (?:in|from) (?:the|your) (?:messages|prompt|input)|(\d+) (?:input|prompt) tokens"
    r"|(?:prompt|input) (?:contains|has)\D{0,12}(\d+)|(\d+) of text input|(\d+) `inputs` tokens",
    re.I,
)
_SUM: Final = re.compile(r"(\d+) \+ \d+ > (\d+)")
_BEYOND: Final = re.compile(r"(\d{1,11}) \(exclusive\)")


def fitting(words: str, sent: int) -> int | None:
    """The tokens that the context has left for the answer beside the prompt, according to the server's words.
    None if they do not tell, or if the number is not less than ``sent``, or less than LEAST_ROOM.
    """
    summed = _SUM.search(words)
    if summed is not None:
        left = int(summed.group(2)) - int(summed.group(1))
    else:
        context, prompt = _CONTEXT.search(words), _PROMPT.search(words)
        if context is None or prompt is None:
            return None
        left = int(context.group(1)) - int(next(filter(None, prompt.groups())))
    return left if LEAST_ROOM <= left < sent else None


def stated(words: str, sent: int) -> int | None:
    """The most tokens that a model may write, according to a server that refused ``sent`` as too many. None
    if its words name no such number.
    """
    if _LIMIT.search(words) is None:
        return None
    words = _BEYOND.sub(lambda beyond: str(int(beyond.group(1)) - 1), words)
    numbers = [int(digits.replace(",", "")) for digits in _NUMBER.findall(words) if len(digits) < 12]
    return max((number for number in numbers if LEAST_ROOM <= number < sent), default=None)
