"""A model server as we are told of it: plain values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from agents.llm.capability import Capability
from agents.llm.model import Usage

__all__ = ["FREE", "Endpoint", "Prices"]

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in one currency."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    """Prompt tokens the provider found in its cache; None: like any other of the prompt's."""

    def __post_init__(self) -> None:
        for price in (self.prompt, self.completion, self.cached):
            if price is not None and not (math.isfinite(price) and price >= 0):
                raise ValueError(f"a price is zero or more, got {price}")

    def cost(self, usage: Usage) -> float:
        """What so many tokens cost."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt - usage.cached
        return (fresh * self.prompt + usage.cached * cached + usage.completion * self.completion) / _MILLION


FREE: Final = Prices()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model behind one server that speaks the OpenAI chat-completions protocol.

    Raises ValueError for limits that no call could keep. Neither key, headers nor body show in its repr.
    """

    name: str
    """What we call it in messages, metrics and seats."""
    base_url: str
    """Up to and including ``/v1``, without credentials."""
    model: str
    """As the server calls it."""
    api_key: str = field(default="", repr=False)
    """Empty: none is sent."""
    parallel: int = 16
    """Requests in flight at once."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Prompt and completion together, as providers count; a request reserves what it may use."""
    timeout_s: float = 60.0
    """One HTTP request, from connecting to the last byte."""
    attempts: int = 4
    """Failed requests after which a call gives up. Finding out what the server can do is not counted."""
    total_s: float = 180.0
    """One call with all its requests and pauses; waiting for our own limits is not counted."""
    retry_after_s: float = 30.0
    """A server that says when to come back is obeyed up to so long."""
    max_bytes: int = 512 * 1024
    """A longer answer is not read to its end."""
    prices: Prices = FREE
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields added to every request, e.g. a reasoning effort; they win over ours."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    capability: Capability | None = None
    """What the server can do. None: found out, and remembered."""

    def __post_init__(self) -> None:
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"endpoint {self.name!r}: base_url starts with http:// or https://")
        if url.username is not None or url.password is not None:
            raise ValueError(f"endpoint {self.name!r}: the key belongs in api_key, not in base_url")
        for secret in (self.api_key, *self.extra_headers, *self.extra_headers.values()):
            if not (secret.isascii() and (secret.isprintable())):
                raise ValueError(f"endpoint {self.name!r}: keys and headers are printable ASCII")
        for what, value in (("name", self.name), ("model", self.model)):
            if not value:
                raise ValueError(f"endpoint {self.name!r}: {what} is empty")
        for what, count in (
            ("parallel", self.parallel),
            ("attempts", self.attempts),
            ("max_bytes", self.max_bytes),
        ):
            if count < 1:
                raise ValueError(f"endpoint {self.name!r}: {what} is 1 or more, got {count}")
        for what, seconds in (
            ("timeout_s", self.timeout_s),
            ("total_s", self.total_s),
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
        ):
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"endpoint {self.name!r}: {what} is above zero, got {seconds}")
        if not (math.isfinite(self.retry_after_s) and self.retry_after_s >= 0):
            raise ValueError(f"endpoint {self.name!r}: retry_after_s is zero or more")

    def hidden(self, text: str) -> str:
        """``text`` without our key, should a server have echoed it."""
        for secret in (self.api_key, *self.extra_headers.values()):
            if len(secret) >= 4:
                text = text.replace(secret, "***")
        return text
