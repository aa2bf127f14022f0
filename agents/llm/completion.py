"""Reads a chat completion, however a server writes it."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.llm.model import Message, Usage
from agents.llm.parsing import clean

__all__ = ["Broken", "Completion", "estimate", "estimate_messages", "read_completion"]

_LONGEST_NAME: Final = 200
_MOST_TOKENS: Final = 10**9
"""What claims more is no count."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, as the server tells it."""

    text: str
    finish: str
    model: str
    usage: Usage | None
    """None: the server did not say."""
    written: int
    """Our estimate of the tokens it holds, thinking included."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A body that holds no answer."""

    cause: str
    error: Any = None
    """The body, where it tells of an error under a status of success."""
    status: int | None = None
    """The status that such an error names."""
    usage: Usage | None = None
    """What it says was paid all the same."""


def estimate(text: str) -> int:
    """Tokens of a text, roughly: a token is four bytes of UTF-8."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def estimate_messages(messages: Iterable[Message]) -> int:
    """Tokens of a prompt, roughly: four a message beside its text."""
    return sum(estimate(one.content) + 4 for one in messages)


def read_completion(body: bytes, content_type: str, asked: str) -> Completion | Broken:
    """The answer in a response of status 200. ``asked`` is the model's name where the body gives none."""
    text = body.decode("utf-8", "replace")
    if "event-stream" in content_type or text.lstrip().startswith("data:"):
        # Some servers stream whether asked or not.
        read: Any = _joined(text)
        if read is None:
            return Broken("truncated")
    else:
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            return Broken("malformed_json" if text.lstrip().startswith("{") else "not_json")
    if not isinstance(read, dict):
        return Broken("not_json")
    usage = _usage(read.get("usage"))
    choices = read.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return _without_choices(read, usage)
    message = first.get("message")
    if not isinstance(message, dict):
        return Broken("no_message", usage=usage)
    content = _content(message.get("content"))
    finish = _name(first.get("finish_reason"), "unknown")
    refusal = message.get("refusal")
    if not content and isinstance(refusal, str) and refusal:
        content, finish = refusal, "refusal"
    thinking = [message.get(key) for key in ("reasoning_content", "reasoning")]
    written = estimate(content) + max((estimate(one) for one in thinking if isinstance(one, str)), default=0)
    return Completion(clean(content), finish, _name(read.get("model"), asked), usage, written)


def _without_choices(read: dict[str, Any], usage: Usage | None) -> Broken:
    error = read.get("error")
    if not error:
        return Broken("no_choices", usage=usage)
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    return Broken("error_body", read, status, usage)


def _content(content: Any) -> str:
    """The text of a message: a string, or parts of which some are text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts: Sequence[Any] = [one.get("text") for one in content if isinstance(one, dict)]
        return "".join(one for one in parts if isinstance(one, str))
    return ""


def _name(value: Any, otherwise: str) -> str:
    return clean(value)[:_LONGEST_NAME] if isinstance(value, str) and value else otherwise


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_TOKENS else None


def _usage(said: Any) -> Usage | None:
    """The counts; None where they are missing, or claim that a prompt took nothing."""
    if not isinstance(said, dict):
        return None
    prompt, completion = _count(said.get("prompt_tokens")), _count(said.get("completion_tokens"))
    if not prompt or completion is None:
        return None
    details = said.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if cached is None:
        cached = _count(said.get("prompt_cache_hit_tokens")) or 0
    return Usage(prompt, min(cached, prompt), completion, known=True)


def _joined(text: str) -> dict[str, Any] | None:
    """A stream's chunks as one completion; None when it ended early.

    Early is: neither a reason to finish nor the mark of the end.
    """
    content: list[str] = []
    out: dict[str, Any] = {}
    message: dict[str, Any] = {}
    finish: Any = None
    done = False
    for line in text.splitlines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            done = True
            break
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(chunk, dict):
            return None
        out |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            continue
        finish = first.get("finish_reason") or finish
        delta = first.get("delta")
        if isinstance(delta, dict):
            content.append(_content(delta.get("content")))
            if isinstance(delta.get("refusal"), str):
                message["refusal"] = message.get("refusal", "") + delta["refusal"]
    if "error" in out:
        return out
    if not done and finish is None:
        return None
    message["content"] = "".join(content)
    return out | {"choices": [{"message": message, "finish_reason": finish}]}
