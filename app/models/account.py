"""What a batch's models were paid for, and how much more they may be."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from agents.llm.desk import CallKey
from app.errors import BudgetSpent
from app.models.call import Call

__all__ = ["BUDGET_SPENT", "Account", "Budget", "Limits", "Use", "UseKey", "total", "use_of"]

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


@dataclass(frozen=True, slots=True)
class Limits:
    """Where to stop paying. None: nowhere."""

    max_tokens: int | None = None
    """Prompt and completion together."""
    max_cost: float | None = None
    """In the currency of the endpoints' prices."""

    def reached(self, tokens: int, cost: float) -> bool:
        """Whether nothing more may be paid."""
        return (self.max_tokens is not None and tokens >= self.max_tokens) or (
            self.max_cost is not None and cost >= self.max_cost
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """A batch's limits."""

    batch: Limits = Limits()
    game: Limits = Limits()
    """Of each game by itself."""
    max_parallel: int | None = None
    """Calls in flight at once, over all games of the batch."""


@dataclass(slots=True)
class _Paid:
    tokens: int = 0
    cost: float = 0.0


class Account:
    """The running sums of one batch, beside the stored calls that they are the sums of."""

    def __init__(self, budget: Budget, uses: Mapping[UseKey, Use]) -> None:
        self.budget = budget
        self.uses = dict(uses)
        self._total = _Paid(sum(use.tokens for use in uses.values()), sum(use.cost for use in uses.values()))
        self._games: dict[str, _Paid] = {}
        self._slots = None if budget.max_parallel is None else asyncio.Semaphore(budget.max_parallel)

    def open_game(self, game: str, calls: Mapping[CallKey, Call]) -> None:
        """Takes over what this game has paid, the first time that it is heard of."""
        if game not in self._games:
            self._games[game] = _Paid(
                sum(call.usage.prompt + call.usage.completion for call in calls.values()),
                sum(call.cost for call in calls.values()),
            )

    def check(self, game: str) -> None:
        """Raises BudgetSpent when this game may pay no further call."""
        paid = self._games[game]
        if self.budget.game.reached(paid.tokens, paid.cost) or self.is_spent:
            raise BudgetSpent(BUDGET_SPENT)

    @property
    def is_spent(self) -> bool:
        """Whether the whole batch may pay no further call."""
        return self.budget.batch.reached(self._total.tokens, self._total.cost)

    def add(self, game: str, call: Call) -> None:
        """Counts a call that has been stored."""
        use = use_of(call)
        self.uses.setdefault(UseKey(call.endpoint, call.model, call.key.step), Use()).add(use)
        for paid in (self._total, self._games[game]):
            paid.tokens += use.tokens
            paid.cost += use.cost

    async def enter(self, stack: AsyncExitStack) -> None:
        """Waits for one of the batch's calls in flight to end, where their number is limited."""
        if self._slots is not None:
            await stack.enter_async_context(self._slots)
