"""What a language model is to us: messages and a form in, a reply out. Protocols and values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Form", "Message", "Model", "Reply", "Spent", "Usage"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Form:
    """What a reply must look like."""

    name: str
    """Short and stable, e.g. ``vote``; providers ask for one."""
    schema: Mapping[str, Any]
    """JSON Schema 2020-12 of an object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply, summed over every paid attempt that it took."""

    prompt: int
    cached: int
    """Of the prompt's: those the provider found in its cache."""
    completion: int
    known: bool
    """False: the provider did not say, and the numbers are our estimate."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a call without a reply took."""

    usage: Usage
    cost: float
    latency_s: float
    calls: int
    sent: Mapping[str, Any] | None = None
    """As of ``Reply``, of the last request; None: none was sent."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. Whether it means anything is for its reader to find out."""

    text: str
    """The content as it came."""
    value: object | None
    """The JSON value found in it; None where there is none."""
    usage: Usage
    cost: float
    """In the currency of the endpoint's configured prices."""
    latency_s: float
    """From the first attempt to the end of the last, waiting for our own limits not included."""
    model: str
    """As the provider names it."""
    finish: str
    """Why it stopped, in the provider's word: stop, length, content_filter, refusal, …"""
    calls: int
    """HTTP requests that it took."""
    sent: Mapping[str, Any] | None = None
    """The parameters of the request that was answered so, as they were sent (see ``request.parameters``);
    None: the model does not tell."""


class Model(Protocol):
    """A language model behind some endpoint."""

    async def complete(
        self, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """One reply, within bounded time and attempts. Raises ModelUnavailable when there is none."""
        ...
