"""How much of a seat's prompts a provider can take from its cache: what begins like an earlier one."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from agents.model.model import Message

__all__ = ["PrefixMeter", "flat", "measured"]


def flat(messages: Sequence[Message]) -> str:
    """A conversation as one text, roles included."""
    return "".join(f"\x02{message.role}\x03{message.content}" for message in messages)


class PrefixMeter:
    """Counts, for one seat, the characters sent and those of them that began an earlier prompt alike."""

    def __init__(self) -> None:
        self.sent = 0
        self.repeated = 0
        self._earlier: list[str] = []

    def add(self, messages: Sequence[Message]) -> int:
        """Takes one prompt in; returns how many of its characters an earlier one began with."""
        text = flat(messages)
        at = bisect_left(self._earlier, text)
        # The longest common prefix is with a neighbour in the order of the alphabet.
        nearest = self._earlier[max(at - 1, 0) : at + 1]
        shared = max((_alike(text, earlier) for earlier in nearest), default=0)
        insort(self._earlier, text)
        self.sent += len(text)
        self.repeated += shared
        return shared

    @property
    def share(self) -> float:
        """Of all characters sent, those repeated; 0 where nothing was sent."""
        return self.repeated / self.sent if self.sent else 0.0


def _alike(text: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def measured(prompts: Iterable[Sequence[Message]]) -> PrefixMeter:
    """One seat's prompts, in the order they were sent."""
    meter = PrefixMeter()
    for prompt in prompts:
        meter.add(prompt)
    return meter
