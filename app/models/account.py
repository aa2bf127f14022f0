"""Budgets: what a batch has spent on models, and how much it may spend."""

import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from anyio import CapacityLimiter

from agents.llm.session import CallKey
from app.base.errors import BudgetSpent
from app.store.call import BUDGET_SPENT, Call, Use, UseKey, total, use_of

__all__ = ["Account", "Budget", "SpendingLimits"]


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """The most that may be spent. None: no limit."""

    max_tokens: int | None = None
    """Tokens of prompts and completions together."""
    max_cost: float | None = None
    """In the currency of the endpoints' prices."""

    def reached(self, use: Use) -> bool:
        """Whether nothing more may be spent after this use."""
        return (self.max_tokens is not None and use.tokens >= self.max_tokens) or (
            self.max_cost is not None and use.cost >= self.max_cost
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """A batch's limits."""

    batch: SpendingLimits = SpendingLimits()
    game: SpendingLimits = SpendingLimits()
    """The limits of each single game."""
    max_parallel: int | None = None
    """Concurrent calls, over all games of the batch."""


class Account:
    """The running sums of one batch's stored calls."""

    def __init__(self, budget: Budget, uses: Mapping[UseKey, Use]) -> None:
        self.uses = dict(uses)
        self._total = total(uses.values())
        self._games: dict[str, Use] = {}
        self._slots = CapacityLimiter(math.inf)
        self.limit(budget)

    def limit(self, budget: Budget) -> None:
        """Replaces the budget. Calls that have begun may finish."""
        self.budget = budget
        self._slots.total_tokens = math.inf if budget.max_parallel is None else budget.max_parallel

    def open_game(self, game: str, calls: Mapping[CallKey, Call]) -> None:
        """Adds a game with its stored calls; does nothing for a game that was added before."""
        if game not in self._games:
            self._games[game] = total(map(use_of, calls.values()))

    def check(self, game: str) -> None:
        """Raises BudgetSpent if this game may make no further call."""
        if self.budget.game.reached(self._games[game]) or self.is_spent:
            raise BudgetSpent(BUDGET_SPENT)

    @property
    def is_spent(self) -> bool:
        """Whether the whole batch may make no further call."""
        return self.budget.batch.reached(self._total)

    def add(self, game: str, call: Call) -> None:
        """Adds a stored call to the sums."""
        by_key = self.uses.setdefault(UseKey(call.endpoint, call.model, call.key.step), Use())
        for summed in (by_key, self._total, self._games[game]):
            summed.add(use_of(call))

    async def enter(self, stack: AsyncExitStack) -> None:
        """Takes one of the batch's slots for a call, and holds it until the stack is closed. Waits while no
        slot is free.
        """
        await stack.enter_async_context(self._slots)
