"""Measures how much of a seat's prompts a provider can cache: the beginning that earlier prompts share."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from agents.model.model import Message

__all__ = ["PrefixMeter", "flat", "measured"]


def flat(messages: Sequence[Message]) -> str:
    """A conversation as one text, roles included."""
    return "".join(f"\x02{message.role}\x03{message.content}" for message in messages)


class PrefixMeter:
    """Counts the characters of one seat's prompts, and how many repeat the beginning of an earlier prompt."""

    def __init__(self) -> None:
        self.sent = 0
        self.repeated = 0
        self._earlier: list[str] = []

    def add(self, messages: Sequence[Message]) -> int:
        """Adds one prompt. Returns the length of the longest beginning that it shares with an earlier one."""
        text = flat(messages)
        at = bisect_left(self._earlier, text)
        # The prompt with the longest common prefix is a neighbour in sorted order.
        nearest = self._earlier[max(at - 1, 0) : at + 1]
        shared = max((_alike(text, earlier) for earlier in nearest), default=0)
        insort(self._earlier, text)
        self.sent += len(text)
        self.repeated += shared
        return shared

    @property
    def share(self) -> float:
        """The share of repeated characters among all characters, from 0 to 1; 0 if nothing was sent."""
        return self.repeated / self.sent if self.sent else 0.0


def _alike(text: str, other: str) -> int:
    """The length of the prefix that both texts share."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def measured(prompts: Iterable[Sequence[Message]]) -> PrefixMeter:
    """A meter of one seat's prompts, given in the order in which they were sent."""
    meter = PrefixMeter()
    for prompt in prompts:
        meter.add(prompt)
    return meter
