"""What a batch's models were paid for, and how much more they may be."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from agents.llm.session import CallKey
from app.base.errors import BudgetSpent
from app.store.call import BUDGET_SPENT, Call, Use, UseKey, use_of

__all__ = ["Account", "Budget", "SpendingLimits"]


@dataclass(frozen=True, slots=True)
class SpendingLimits:
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

    batch: SpendingLimits = SpendingLimits()
    game: SpendingLimits = SpendingLimits()
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
