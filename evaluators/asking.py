"""What an evaluator needs of a language model: messages in, text out. ``app`` hands in the rest."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Ask", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


Ask = Callable[[Sequence[Message]], Awaitable[str]]
"""One answer to a conversation. What it raises (no model, no budget) is the caller's business."""
