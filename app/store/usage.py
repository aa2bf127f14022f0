"""What calls to models add up to: tokens, cost, time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.store.call import Call

__all__ = ["BUDGET_SPENT", "Use", "UseKey", "total", "use_of"]

BUDGET_SPENT: Final = "budget spent"
"""The reason with which a game ends that can pay no further call."""


class UseKey(NamedTuple):
    """What uses are summed by."""

    endpoint: str
    model: str
    """As the provider names it."""
    step: str


@dataclass(slots=True)
class Use:
    """Sums over calls."""

    calls: int = 0
    failed: int = 0
    """Of the calls: those that nothing answered."""
    estimated: int = 0
    """Of the calls: those whose tokens the provider did not count."""
    http_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompts': those the provider found in its cache."""
    completion_tokens: int = 0
    cost: float = 0.0
    waiting_s: float = 0.0
    """Seconds that models took, summed: calls that ran side by side all count."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cached_share(self) -> float | None:
        """Of the prompt tokens, in [0, 1]; None where there were none."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    def add(self, other: "Use") -> None:
        self.calls += other.calls
        self.failed += other.failed
        self.estimated += other.estimated
        self.http_calls += other.http_calls
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.cost += other.cost
        self.waiting_s += other.waiting_s


def total(uses: Iterable[Use]) -> Use:
    """All of them together."""
    summed = Use()
    for use in uses:
        summed.add(use)
    return summed


def use_of(call: Call) -> Use:
    """What one call took."""
    return Use(
        calls=1,
        failed=call.text is None,
        estimated=not call.usage.known,
        http_calls=call.http_calls,
        prompt_tokens=call.usage.prompt,
        cached_tokens=call.usage.cached,
        completion_tokens=call.usage.completion,
        cost=call.cost,
        waiting_s=call.latency_s,
    )
