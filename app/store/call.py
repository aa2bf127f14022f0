"""One call to a model, as it is kept: an answer or a failure, and what it took."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.llm.session import CallKey
from agents.model.model import Form, Message, ModelUnavailable, Reply, Usage

__all__ = ["Call", "StoredQuestion", "answered", "asked", "failed", "hash_of"]

_NOTHING: Final = Usage(0, 0, 0, True)

_WORD: Final = 200
"""Characters kept of what a provider says of itself: its model's name, why it stopped."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What a session was asked."""

    key: CallKey
    messages: Sequence[Message]
    form: Form
    temperature: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Call:
    """What is stored of one call. A failure is kept like an answer: what was played upon it is in the log,
    and a run from recorded answers has to fail in the same place.
    """

    key: CallKey
    endpoint: str
    model: str
    """As the provider names it; as the endpoint's settings do where nothing was answered."""
    messages_sha256: str
    messages: str | None
    """What was asked (see ``asked``); None where it is not kept."""
    asked_temperature: float
    asked_max_tokens: int
    """What the seat asked for, whatever the server takes; the very same question asks for the same."""
    temperature: float | None
    max_tokens: int | None
    """As they were sent, the last time; None: without."""
    parameters: str | None
    """All that was sent with the messages, as JSON in ASCII. None: nothing was, or it is not known."""
    text: str | None
    """The raw answer as a JSON string in ASCII, so that every database and file takes it. None: none came."""
    value: str | None
    """The JSON value found in it, in ASCII. None: there was none."""
    failure: str | None
    """The cause of the ModelUnavailable that the asker got."""
    usage: Usage
    cost: float
    latency_s: float
    finish: str
    http_calls: int

    @property
    def seat(self) -> int:
        """Who was asked: the last part of the request's id."""
        return int(self.key.request_id.rpartition(".")[2])

    def answer(self) -> Reply:
        """What the asker gets, now and after every restart. Raises ModelUnavailable where that was it."""
        if self.text is None:
            raise ModelUnavailable(
                "the model was asked for this, and did not answer", self.failure or "unknown"
            )
        return Reply(
            text=json.loads(self.text),
            value=None if self.value is None else json.loads(self.value),
            usage=self.usage,
            cost=self.cost,
            latency_s=self.latency_s,
            model=self.model,
            finish=self.finish,
            calls=self.http_calls,
            sent=None if self.parameters is None else json.loads(self.parameters),
        )


def asked(messages: Sequence[Message]) -> str:
    """The messages as canonical JSON in ASCII: what ``messages_sha256`` is the hash of."""
    return _json([{"content": one.content, "role": one.role} for one in messages])


def answered(question: StoredQuestion, endpoint: str, reply: Reply, *, whole: bool) -> Call:
    """The call that brought this reply. ``whole``: with the messages."""
    try:
        value = None if reply.value is None else _json(reply.value)
    except (RecursionError, ValueError):
        value = None  # nested beyond reason: nothing that an answer of ours could be
    text = asked(question.messages)
    return Call(
        key=question.key,
        endpoint=endpoint,
        model=_plain(reply.model),
        messages_sha256=_hash(text),
        messages=text if whole else None,
        asked_temperature=question.temperature,
        asked_max_tokens=question.max_tokens,
        temperature=_number(reply.sent, "temperature"),
        max_tokens=_limit(reply.sent),
        parameters=None if reply.sent is None else _json(reply.sent),
        text=_json(reply.text),
        value=value,
        failure=None,
        usage=reply.usage,
        cost=reply.cost,
        latency_s=reply.latency_s,
        finish=_plain(reply.finish),
        http_calls=reply.calls,
    )


def failed(
    question: StoredQuestion, endpoint: str, model: str, fault: ModelUnavailable, *, whole: bool
) -> Call:
    """The call that came to nothing; paid it may have been all the same."""
    text = asked(question.messages)
    spent = fault.spent
    sent = None if spent is None else spent.sent
    return Call(
        key=question.key,
        endpoint=endpoint,
        model=_plain(model),
        messages_sha256=_hash(text),
        messages=text if whole else None,
        asked_temperature=question.temperature,
        asked_max_tokens=question.max_tokens,
        temperature=_number(sent, "temperature"),
        max_tokens=_limit(sent),
        parameters=None if sent is None else _json(sent),
        text=None,
        value=None,
        failure=_plain(fault.cause) or "unknown",
        usage=_NOTHING if spent is None else spent.usage,
        cost=0.0 if spent is None else spent.cost,
        latency_s=0.0 if spent is None else spent.latency_s,
        finish="",
        http_calls=0 if spent is None else spent.calls,
    )


def _number(sent: Mapping[str, Any] | None, name: str) -> float | None:
    value = None if sent is None else sent.get(name)
    # What an operator adds to requests wins over ours, and may be anything.
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _limit(sent: Mapping[str, Any] | None) -> int | None:
    limits = (_number(sent, name) for name in ("max_completion_tokens", "max_tokens"))
    return next((int(limit) for limit in limits if limit is not None), None)


def hash_of(messages: Sequence[Message]) -> str:
    """SHA-256, in hex, of the canonical JSON of messages."""
    return _hash(asked(messages))


def _hash(question: str) -> str:
    return hashlib.sha256(question.encode("ascii")).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=False, separators=(",", ":"))


def _plain(word: str) -> str:
    """A provider's own word, fit for any database, log and label."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in word[:_WORD])
