"""The values of a language model: an endpoint, messages, a form and what a seat asks for as input, a reply as
output.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from agents.errors import InvalidAgent, Unanswered
from agents.model.capability import PROVIDERS, UNKNOWN, Capability, Provider, ProviderTraits
from agents.model.limits import Parallel

__all__ = [
    "FREE",
    "NEVER_OF_SEATS",
    "PLAIN_SAMPLING",
    "SAMPLING",
    "Endpoint",
    "Form",
    "Message",
    "Model",
    "ModelUnavailable",
    "Prices",
    "Reply",
    "Sampling",
    "Spent",
    "Unavailability",
    "Usage",
    "before_request",
    "check_allowed",
    "read_sampling",
]


before_request: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("before_request", default=None)
"""What a call that this task makes awaits before each of its requests, repeated ones too. It raises
CancelledError if nobody wants the answer any more.
"""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Form:
    """What a reply must look like."""

    name: str
    """A short and stable name, e.g. ``vote``, since providers require one."""
    schema: Mapping[str, Any]
    """JSON Schema 2020-12 of an object."""
    aloud: bool = False
    """Whether the reply becomes the action, so that everybody at the table hears a speech in it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a seat asks of its model besides a temperature and a limit; a value of None is not sent."""

    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    """``low``, ``medium``, ``high``, or another word of the provider."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request. Their names are among the endpoint's ``seat_keys``."""

    def named(self) -> dict[str, Any]:
        """The values that are asked for, by name; empty if there are none."""
        values = {name: getattr(self, name) for name in SAMPLING}
        return {name: value for name, value in values.items() if value not in (None, {})}


NEVER_OF_SEATS: Final = frozenset(
    {
        *("model", "models", "messages", "n", "stream", "stream_options", "response_format", "tools"),
        *("tool_choice", "temperature", "max_tokens", "max_completion_tokens", "provider", "session_id"),
        *("top_p", "seed", "reasoning_effort", "extra_body", "prompt_cache_key", "usage"),
    }
)
"""Fields of a request that no seat may set in ``extra_body``."""

SAMPLING: Final = ("top_p", "seed", "reasoning_effort", "extra_body")

PLAIN_SAMPLING: Final = Sampling()
"""A sampling that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply, summed over all its paid attempts."""

    prompt: int
    cached: int
    """How many of the prompt's tokens the provider found in its cache."""
    completion: int
    known: bool
    """False: the provider gave no counts, and the numbers are estimates."""
    reasoning: int | None = None
    """How many of the completion's tokens were reasoning. None: not returned."""
    cost: float | None = None
    """The price that the provider says it charged, in its own currency. None: not returned."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a call without a reply."""

    usage: Usage
    cost: float
    latency_s: float
    calls: int
    sent: Mapping[str, Any] | None = None
    """The parameters of the last request, as in ``Reply``; None: no request was sent."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a model. Its reader has to check whether it makes sense."""

    text: str
    """The content as received."""
    value: object | None
    """The JSON value found in the text; None if there is none."""
    usage: Usage
    cost: float
    """The cost by the endpoint's configured prices, in their currency; without prices, as charged by the
    provider.
    """
    latency_s: float
    """Seconds from the first attempt to the end of the last, without waits for the client's own limits."""
    model: str
    """The model's name, as the provider gives it."""
    finish: str
    """Why the model stopped, as the provider names it: stop, length, content_filter, refusal, …"""
    calls: int
    """The number of HTTP requests for the reply."""
    sent: Mapping[str, Any] | None = None
    """The parameters of the request that brought this reply (see ``request.parameters``); None: unknown."""
    reasoning: str | None = None
    """The model's thoughts, as far as the provider shows them. None: not returned."""
    provider: str | None = None
    """The provider that served the reply, if a router names it. None: not returned."""
    fingerprint: str | None = None
    """The provider's ``system_fingerprint``. None: not returned."""
    first_s: float | None = None
    """Seconds from the request that brought this reply to the first piece of its text, reasoning included.
    None: the answer came in one piece."""


class Model(Protocol):
    """A language model behind some endpoint."""

    async def complete(
        self,
        messages: Sequence[Message],
        form: Form,
        *,
        temperature: float,
        max_tokens: int,
        sampling: Sampling = PLAIN_SAMPLING,
        cache_key: str = "",
    ) -> Reply:
        """One reply, within bounded time and attempts. ``cache_key``: the same for all calls whose prompts
        have the same beginning. Raises ModelUnavailable if the model does not answer.
        """
        ...


Unavailability = Literal["outage", "account", "request", "answer"]
"""Why there is no answer. ``outage``: the server cannot be reached or is overloaded; it will answer later.
``account``: the provider refuses the account or the model's name; it answers once somebody has changed that.
``request``: the provider turns down this particular request, e.g. as too long; leaving out options does not
help.
``answer``: the provider's response cannot be used, e.g. because its moderation blocked the text.
"""


class ModelUnavailable(Unanswered):
    """The model did not answer within the allowed attempts and time.

    ``cause`` is a short word for statistics: timeout, refused, rate_limited, status_500, not_json, …
    ``spent`` is the cost of the call, which counts nevertheless; None if nobody counted it. ``after_s``:
    seconds that the server asks us to wait; None if it does not say. ``words``: the provider's message, in at
    most 300 characters, without secrets and without quotations from the prompt; empty if it gave none.
    """

    def __init__(
        self,
        message: str,
        cause: str,
        spent: Spent | None = None,
        kind: Unavailability = "answer",
        after_s: float | None = None,
        words: str = "",
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.spent = spent
        self.kind = kind
        self.after_s = after_s
        self.words = words


_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens, in one currency."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    """The price of prompt tokens that the provider found in its cache; None: the same as ``prompt``."""

    def __post_init__(self) -> None:
        for price in (self.prompt, self.completion, self.cached):
            if price is not None and not (math.isfinite(price) and price >= 0):
                raise ValueError(f"a price must be zero or more, got {price}")

    def cost(self, usage: Usage) -> float:
        """The cost of these tokens."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt - usage.cached
        return (fresh * self.prompt + usage.cached * cached + usage.completion * self.completion) / _MILLION


FREE: Final = Prices()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model behind one server that speaks the OpenAI chat-completions protocol.

    Raises ValueError for a value that no call could work with. Its repr shows no key, headers or body.
    """

    name: str
    """The endpoint's name in messages, metrics and seats."""
    base_url: str
    """The address up to and including ``/v1``, without credentials."""
    model: str
    """The server's name for the model."""
    api_key: str = field(default="", repr=False)
    """The key; if it is empty, none is sent."""
    parallel: int | str = 16
    """Requests in flight at once; ``4-20-100`` adapts between 4 and 100 (see ``Parallel``)."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """The limit for prompts and completions together, as providers count them. A request reserves the most
    tokens that it may use.
    """
    stream: bool = True
    """Whether answers come in pieces, so that a stalled answer can be told from a slow one."""
    timeout_s: float = 60.0
    """The longest wait for the next piece of an answer, the first included. An answer that does not stream is
    one piece, whose wait only ``total_s`` bounds."""
    attempts: int = 4
    """A call gives up after this many failed requests, not counting probes of what the server can do."""
    total_s: float = 900.0
    """The longest time of one call with all its requests and pauses, without waits for the client's own
    limits.
    """
    retry_after_s: float = 30.0
    """The longest pause that a server may ask for."""
    max_output_tokens: int = 16_384
    """An answer that was cut off is asked for again with more room, up to this many tokens."""
    max_bytes: int = 512 * 1024
    """The most bytes of an answer; longer ones are not read to the end."""
    prices: Prices = FREE
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields added to every request, e.g. a reasoning effort; they replace the usual fields."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    provider: Provider | None = None
    """The provider that runs the server (see ``PROVIDERS``); None if it is not known."""
    upstream: str | None = None
    """For ``openrouter``: the only provider that serves the model, without a fallback to others."""
    seat_keys: frozenset[str] = frozenset()
    """The fields of a request that seats may set in ``extra_body``."""
    capability: Capability | None = None
    """What the server can do. None: the client probes it, and remembers the result."""

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"endpoint {self.name!r}: base_url must start with http:// or https://")
        if url.username is not None or url.password is not None:
            raise ValueError(f"endpoint {self.name!r}: the key belongs in api_key, not in base_url")
        for secret in (self.api_key, *self.extra_headers, *self.extra_headers.values()):
            if not (secret.isascii() and (secret.isprintable())):
                raise ValueError(f"endpoint {self.name!r}: the key and the headers must be printable ASCII")
        for what, value in (("name", self.name), ("model", self.model)):
            if not value:
                raise ValueError(f"endpoint {self.name!r}: {what} must not be empty")
        for what, count in (
            ("attempts", self.attempts),
            ("max_bytes", self.max_bytes),
            ("max_output_tokens", self.max_output_tokens),
        ):
            if count < 1:
                raise ValueError(f"endpoint {self.name!r}: {what} must be 1 or more, got {count}")
        for what, seconds in (
            ("timeout_s", self.timeout_s),
            ("total_s", self.total_s),
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
        ):
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"endpoint {self.name!r}: {what} must be above zero, got {seconds}")
        try:
            Parallel.read(self.parallel)
        except ValueError as fault:
            raise ValueError(f"endpoint {self.name!r}: {fault}") from None
        if (self.upstream is None) == (self.provider == "openrouter"):
            raise ValueError(
                f"endpoint {self.name!r}: upstream names whom openrouter passes requests to; "
                "openrouter needs it, the others have none"
            )
        if wrong := sorted(NEVER_OF_SEATS & set(self.seat_keys)):
            raise ValueError(f"endpoint {self.name!r}: seats may not set {', '.join(wrong)}")
        if not (math.isfinite(self.retry_after_s) and self.retry_after_s >= 0):
            raise ValueError(
                f"endpoint {self.name!r}: retry_after_s must be zero or more, got {self.retry_after_s}"
            )

    @property
    def traits(self) -> ProviderTraits:
        """The known traits of the provider."""
        return UNKNOWN if self.provider is None else PROVIDERS[self.provider]

    def cost(self, usage: Usage) -> float:
        """The cost of these tokens by the configured prices; without prices, as the provider charged it."""
        return usage.cost or 0.0 if self.prices == FREE else self.prices.cost(usage)

    def hidden(self, text: str) -> str:
        """``text`` without the key and the headers, in case a server echoed them."""
        for secret in (self.api_key, *self.extra_headers.values()):
            if len(secret) >= 4:
                text = text.replace(secret, "***")
        return text


# --- what a seat asks for, from the options of its spec --------------------------------------------------

_MOST_KEYS: Final = 20


def _top_p(value: object) -> str | None:
    fits = type(value) in (int, float) and math.isfinite(value) and 0 < value <= 1  # type: ignore[arg-type, operator]
    return None if fits else "a number above 0, to 1"


def _seed(value: object) -> str | None:
    return None if type(value) is int and abs(value) < 2**53 else "a whole number"


def _effort(value: object) -> str | None:
    fits = isinstance(value, str) and 0 < len(value) <= 32 and value.isascii() and value.isalnum()
    return None if fits else "a word such as low, medium or high"


def _body(value: object) -> str | None:
    fits = isinstance(value, Mapping) and len(value) <= _MOST_KEYS
    return None if fits else f"an object of at most {_MOST_KEYS} fields"


_WRONG: Final[Mapping[str, Callable[[object], str | None]]] = {
    "top_p": _top_p,
    "seed": _seed,
    "reasoning_effort": _effort,
    "extra_body": _body,
}
assert set(_WRONG) == set(SAMPLING)


def read_sampling(options: Mapping[str, Any]) -> tuple[Sampling, dict[str, Any]]:
    """The sampling that these options ask for, and the remaining options.

    Raises InvalidAgent with a pointer such as ``/options/top_p``.
    """
    asked = {name: value for name, value in options.items() if name in SAMPLING and value is not None}
    for name, value in asked.items():
        if expected := _WRONG[name](value):
            raise InvalidAgent(f"{name} must be {expected}, got {value!r}", f"/options/{name}")
    return Sampling(**asked), {name: value for name, value in options.items() if name not in SAMPLING}


def check_allowed(sampling: Sampling, allowed: Collection[str]) -> None:
    """Raises InvalidAgent for a field of ``extra_body`` that the endpoint does not allow seats to set."""
    for name in sampling.extra_body:
        if name not in allowed:
            named = ", ".join(sorted(allowed)) or "none"
            raise InvalidAgent(
                f"this model's endpoint allows seats no field {name!r} of requests; it allows: {named}",
                "/options/extra_body",
            )
