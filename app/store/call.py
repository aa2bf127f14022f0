"""Calls to models as they are stored, each with an answer or a failure, and sums over calls."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agents.llm.session import CallKey
from agents.model.model import PLAIN_SAMPLING, Form, Message, ModelUnavailable, Reply, Sampling, Usage

__all__ = [
    "BUDGET_SPENT",
    "Call",
    "StoredQuestion",
    "Use",
    "UseKey",
    "answered",
    "asked",
    "besides_of",
    "failed",
    "hash_of",
    "total",
    "use_of",
]

BUDGET_SPENT: Final = "budget spent"
"""The reason of a game that ended because its budget allowed no further call."""

_NOTHING: Final = Usage(0, 0, 0, True)

_WORD: Final = 200
"""The most characters that are kept of each text of a provider, such as the name of its model."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question to a session."""

    key: CallKey
    messages: Sequence[Message]
    form: Form
    temperature: float
    max_tokens: int
    sampling: Sampling = PLAIN_SAMPLING


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it is stored. A failure is stored like an answer: the log holds what was played after it,
    and a run from recorded answers has to fail in the same place. The key of a call that no question uses, a
    try or an answer that was put aside, has a negative attempt.
    """

    key: CallKey
    endpoint: str
    model: str
    """The provider's name for the model; without an answer, the name in the endpoint's settings."""
    messages_sha256: str
    messages: str | None
    """The prompt as it was hashed (see ``asked``). None unless the settings keep prompts."""
    asked_temperature: float
    asked_max_tokens: int
    """What the seat asked for, even if the server accepts other values. The same question always asks for the
    same values."""
    temperature: float | None
    max_tokens: int | None
    """The values in the last request, under any name; None: not in the request."""
    parameters: str | None
    """Everything that was sent with the messages, as JSON in ASCII. None: nothing, or unknown."""
    text: str | None
    """The raw answer as a JSON string in ASCII, which every database and file can hold. None: no answer."""
    value: str | None
    """The JSON value in the answer, in ASCII. None: there is none."""
    failure: str | None
    """The cause of the ModelUnavailable that was raised. None: there was an answer."""
    usage: Usage
    cost: float
    latency_s: float
    finish: str
    http_calls: int
    asked: str | None = None
    """The seat's other parameters (see ``Sampling.named``), as JSON in ASCII. None: there are none."""
    provider: str | None = None
    """Who served the answer, if a router says so. None, here and in the next two fields: not returned."""
    fingerprint: str | None = None
    """The provider's name for the state of its system."""
    reasoning: str | None = None
    """What the model thought, as a JSON string in ASCII. For researchers: no seat and no watcher sees it."""

    @property
    def seat(self) -> int:
        """The seat that was asked: the last part of the request's id."""
        return int(self.key.request_id.rpartition(".")[2])

    @property
    def is_paid(self) -> bool:
        """Whether the call took tokens or money, as far as anybody counted them."""
        return bool(self.usage.prompt or self.usage.completion or self.cost)

    def answer(self) -> Reply:
        """The reply, the same now and after every restart. Raises ModelUnavailable for a failure."""
        if self.text is None:
            raise ModelUnavailable(
                "the model was asked this before, and did not answer", self.failure or "unknown"
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
            reasoning=None if self.reasoning is None else json.loads(self.reasoning),
            provider=self.provider,
            fingerprint=self.fingerprint,
        )


def asked(messages: Sequence[Message]) -> str:
    """The messages as canonical JSON in ASCII; ``messages_sha256`` is the hash of this text."""
    return _json([{"content": message.content, "role": message.role} for message in messages])


def answered(question: StoredQuestion, endpoint: str, reply: Reply, *, whole: bool) -> Call:
    """The call that returned this reply. ``whole``: with the messages."""
    try:
        value = None if reply.value is None else _json(reply.value)
    except (RecursionError, ValueError):
        value = None  # nested too deeply to be an answer to any of our questions
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
        asked=besides_of(question.sampling),
        provider=None if reply.provider is None else _plain(reply.provider),
        fingerprint=None if reply.fingerprint is None else _plain(reply.fingerprint),
        reasoning=None if reply.reasoning is None else _json(reply.reasoning),
    )


def failed(
    question: StoredQuestion, endpoint: str, model: str, fault: ModelUnavailable, *, whole: bool
) -> Call:
    """A failed call, which may still have cost something."""
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
        asked=besides_of(question.sampling),
    )


def besides_of(sampling: Sampling) -> str | None:
    """The seat's parameters other than temperature and limit, in the form of ``Call.asked``."""
    named = sampling.named()
    return json.dumps(named, ensure_ascii=True, sort_keys=True, separators=(",", ":")) if named else None


def _number(sent: Mapping[str, Any] | None, name: str) -> float | None:
    value = None if sent is None else sent.get(name)
    # What an operator adds to requests overrides our own values, and may be anything.
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
    """A provider's own text, cut, and made safe for any database, log and label."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in word[:_WORD])


# --- sums over calls --------------------------------------------------------------------------------


class UseKey(NamedTuple):
    """The key by which uses are summed."""

    endpoint: str
    model: str
    """As the provider names it."""
    step: str


@dataclass(slots=True)
class Use:
    """Sums over stored calls, tries included."""

    calls: int = 0
    failed: int = 0
    """Calls without an answer."""
    estimated: int = 0
    """Calls whose tokens the provider did not count."""
    http_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the provider found in its cache."""
    completion_tokens: int = 0
    reasoning_tokens: int | None = None
    """Completion tokens that were reasoning, as far as the provider says; None: it says so of no call."""
    cost: float = 0.0
    waiting_s: float = 0.0
    """Seconds that models took, summed over calls, even where calls ran side by side."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cached_share(self) -> float | None:
        """The share of cached prompt tokens, in [0, 1]; None without prompt tokens."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    def add(self, other: "Use") -> None:
        self.calls += other.calls
        self.failed += other.failed
        self.estimated += other.estimated
        self.http_calls += other.http_calls
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        if other.reasoning_tokens is not None:
            self.reasoning_tokens = (self.reasoning_tokens or 0) + other.reasoning_tokens
        self.cost += other.cost
        self.waiting_s += other.waiting_s


def total(uses: Iterable[Use]) -> Use:
    """The sum of all uses."""
    summed = Use()
    for use in uses:
        summed.add(use)
    return summed


def use_of(call: Call) -> Use:
    """The use of one call."""
    return Use(
        calls=1,
        failed=call.text is None,
        estimated=not call.usage.known,
        http_calls=call.http_calls,
        prompt_tokens=call.usage.prompt,
        cached_tokens=call.usage.cached,
        completion_tokens=call.usage.completion,
        reasoning_tokens=call.usage.reasoning,
        cost=call.cost,
        waiting_s=call.latency_s,
    )
