"""A chat-completions request, for a server of a given capability."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.llm.capability import Capability, Format
from agents.llm.completion import estimate_messages
from agents.llm.endpoint import Endpoint
from agents.llm.model import Form, Message
from agents.llm.parsing import clean
from agents.llm.schema import can_be_strict, reduced

__all__ = ["parameters", "request_body"]


def request_body(
    endpoint: Endpoint,
    messages: Sequence[Message],
    form: Form,
    asking: Capability,
    temperature: float,
    max_tokens: int,
) -> tuple[dict[str, Any], int]:
    """The request, and an estimate of its prompt's tokens."""
    messages = [Message(one.role, clean(one.content)) for one in messages]
    if asking.schema_in_prompt:
        messages = _with_instruction(messages, form)
    if not asking.system:
        messages = _alternating(messages)
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": one.role, "content": one.content} for one in messages],
    }
    if asking.temperature:
        body["temperature"] = temperature
    if asking.limit != "none":
        body[asking.limit] = max_tokens
    if asking.format is not Format.PLAIN:
        body["response_format"] = _response_format(form, asking.format)
    return body | dict(endpoint.extra_body), estimate_messages(messages)


_SECRET: Final = re.compile("key|secret|password|auth|credential|token$", re.I)


def parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request's fields but its model, its messages and the schema of its form.

    What an operator adds to requests may be a secret: by its name, it is not told.
    """
    return {name: _told(name, one) for name, one in body.items() if name not in ("model", "messages")}


def _told(name: str, value: Any) -> Any:
    if _SECRET.search(name):
        return "***"
    if isinstance(value, Mapping):
        return {key: _told(key, one) for key, one in value.items() if key != "schema"}
    return [_told(name, one) for one in value] if isinstance(value, list) else value


def _response_format(form: Form, asked: Format) -> dict[str, Any]:
    if asked is Format.OBJECT:
        return {"type": "json_object"}
    if asked is Format.OBJECT_WITH_SCHEMA:
        return {"type": "json_object", "schema": reduced(form.schema)}
    schema = dict(form.schema) if asked is Format.SCHEMA else reduced(form.schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": form.name, "schema": schema, "strict": can_be_strict(schema)},
    }


def _with_instruction(messages: list[Message], form: Form) -> list[Message]:
    """The messages, the last of which also says what JSON to answer with.

    At the end, so that what was sent before stays a prefix of what is sent now.
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
    """The same text in turns of user and assistant, the user's first."""
    out: list[Message] = []
    for one in messages:
        role = "assistant" if one.role == "assistant" else "user"
        if out and out[-1].role == role:
            out[-1] = Message(out[-1].role, f"{out[-1].content}\n\n{one.content}")
        else:
            out.append(Message("assistant" if role == "assistant" else "user", one.content))
    if out and out[0].role == "assistant":
        out.insert(0, Message("user", "Go on."))
    return out
