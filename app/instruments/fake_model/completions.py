"""Requests and responses of the chat-completions protocol."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from app.instruments.fake_model.faults import ConnectionRefused, FaultyAnswer

__all__ = [
    "Brain",
    "asked_schema",
    "chunks",
    "completion",
    "key_of",
    "limit_of",
    "prompt_of",
    "tokens",
    "unreadable",
]

Brain = Callable[[list[dict[str, Any]], dict[str, Any] | None], str]
"""Takes the messages of a request and the JSON Schema for its answer, and returns the content of the answer.
The schema comes from the request or from its last message; None: there is none. Equal requests get equal
answers.
"""

_PIECE: Final = 24
"""The fewest characters of a chunk of a stream."""

_MOST_PIECES: Final = 1000


def tokens(text: str) -> int:
    """The number of tokens of a text: a quarter of its characters."""
    return math.ceil(len(text) / 4)


def unreadable(request: Any) -> ConnectionRefused | None:
    """The error for an invalid request; None for a valid one."""
    if not isinstance(request, dict):
        return ConnectionRefused(400, "We could not parse the JSON body of your request.")
    if not isinstance(request.get("model"), str):
        return ConnectionRefused(400, "you must provide a model parameter", param="model")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ConnectionRefused(400, "[] is too short - 'messages'", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return ConnectionRefused(
                400, "a message is an object with role and content", param=f"messages[{index}]"
            )
    asked = request.get("response_format")
    if asked is not None and not isinstance(asked, dict):
        return ConnectionRefused(400, "response_format is an object", param="response_format")
    if asked and asked.get("type") == "json_object" and "json" not in prompt_of(messages).lower():
        return ConnectionRefused(
            400, "'messages' must contain the word 'json' in some form", param="messages"
        )
    return None


def key_of(messages: list[dict[str, Any]]) -> str:
    """The key of these messages in the counts: equal messages have equal keys."""
    text = json.dumps(messages, sort_keys=True)
    return blake2b(text.encode(), digest_size=12).hexdigest()


def prompt_of(messages: list[dict[str, Any]]) -> str:
    """The messages as one text. The text of a longer conversation begins with that of a shorter one."""
    return "".join(f"<{message.get('role')}>{_text(message.get('content'))}\n" for message in messages)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def asked_schema(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in ``response_format``, or the one in the last message; None if there is neither."""
    asked = request.get("response_format") or {}
    holder = asked.get("json_schema") if asked.get("type") == "json_schema" else asked
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if isinstance(schema, dict):
        return schema
    return _written_schema(_text(request["messages"][-1].get("content")))


def _written_schema(text: str) -> dict[str, Any] | None:
    """The last JSON Schema of an object that begins at the start of a line; None if there is none."""
    decoder = json.JSONDecoder()
    at = len(text)
    while (at := text.rfind("{", 0, at)) >= 0:
        if at > 0 and text[at - 1] != "\n":
            continue
        try:
            read, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(read, dict) and "properties" in read:
            return read
    return None


def limit_of(request: Mapping[str, Any]) -> int | None:
    """The most tokens of the answer; None: no limit."""
    for name in ("max_completion_tokens", "max_tokens"):
        limit = request.get(name)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    return None


def completion(answer: FaultyAnswer) -> dict[str, Any]:
    """The body of a response."""
    message = {"role": "assistant", "content": answer.content, "refusal": None} | answer.message
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    return answer.body | {"choices": [choice] if answer.choices is ... else answer.choices}


def chunks(answer: FaultyAnswer, *, usage: bool) -> Iterator[str]:
    """The answer as server-sent events, with the event that ends the stream."""
    head = {**answer.body, "object": "chat.completion.chunk"}
    used = head.pop("usage", None)

    def event(delta: dict[str, Any], finish: str | None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        choices = [choice] if answer.choices is ... else answer.choices
        return f"data: {json.dumps(head | {'choices': choices})}\n\n"

    message = {"content": answer.content} | answer.message
    content = message.pop("content")
    yield event({"role": "assistant", "content": ""}, None)
    for name, value in message.items():
        for piece in _pieces(value):
            yield event({name: piece}, None)
    for piece in _pieces(content):
        yield event({"content": piece}, None)
    yield event({}, answer.finish)
    if usage and used is not None:
        yield f"data: {json.dumps(head | {'choices': [], 'usage': used})}\n\n"
    yield "data: [DONE]\n\n"


def _pieces(value: Any) -> list[Any]:
    if not isinstance(value, str):
        return [] if value is None else [value]
    length = max(_PIECE, len(value) // _MOST_PIECES)
    return [value[start : start + length] for start in range(0, len(value), length)]
