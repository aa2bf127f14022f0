"""What a fake model was asked, and how much of it twice."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["PrefixCache", "QuestionCounts"]

BLOCK: Final = 64
"""Characters that are found in the cache together: 16 tokens."""

MOST_BLOCKS: Final = 4_000_000
"""When there are more, the cache is emptied; about half a gigabyte."""

MOST_KEYS: Final = 1_000_000
"""Further keys are counted together, as ``other``."""


class PrefixCache:
    """Finds how long a prompt's beginning was sent before, by blocks, as providers do."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def share(self, prompt: str) -> int:
        """Characters of the longest beginning that some earlier prompt had too; remembers this one."""
        if len(self._seen) > MOST_BLOCKS:
            self._seen.clear()
        chain, common, whole = 0, 0, True
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            if whole and chain in self._seen:
                common = start + BLOCK
            else:
                whole = False
                self._seen.add(chain)
        return common


@dataclass(slots=True)
class QuestionCounts:
    """Since the start, or since the last reset."""

    calls: int = 0
    """Completions asked for, whatever became of them."""
    answered: int = 0
    """Sent to the end, with status 200 and nothing wrong with the bytes."""
    abandoned: int = 0
    """The client was gone before the end."""
    in_flight: int = 0
    max_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    by_key: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def begin(self, key: str) -> None:
        """A completion is asked for. ``key`` stands for its messages."""
        self.calls += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.by_key[key if key in self.by_key or len(self.by_key) < MOST_KEYS else "other"] += 1

    def reset(self) -> None:
        """Counts from zero; what is in flight stays."""
        fresh = QuestionCounts(in_flight=self.in_flight, max_in_flight=self.in_flight)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def as_json(self, *, keys: bool = True) -> dict[str, Any]:
        """Every figure; ``by_key`` only when asked for."""
        out: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        out["faults"] = dict(self.faults)
        out["distinct"] = len(self.by_key)
        out["repeated"] = sum(self.by_key.values()) - len(self.by_key)
        if keys:
            out["by_key"] = dict(self.by_key)
        else:
            del out["by_key"]
        return out
