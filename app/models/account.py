"""Budgets: what a batch has spent on models, and how much it may spend."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from agents.llm.session import CallKey
from agents.model.limits import Parallel
from app.base.errors import BudgetSpent
from app.models.leases import Leases
from app.store.call import BUDGET_SPENT, Call, Use, UseKey, total, use_of

__all__ = ["Account", "Budget", "SpendingLimits"]


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """The most that may be spent. None: no limit; none left: 0, or less if it was overdrawn."""

    max_tokens: int | None = None
    """Tokens of prompts and completions together."""
    max_cost: float | None = None
    """In the currency of the endpoints' prices."""

    def after(self, tokens: int, cost: float) -> "SpendingLimits":
        """What is left of it once this much is spent."""
        return SpendingLimits(
            None if self.max_tokens is None else self.max_tokens - tokens,
            None if self.max_cost is None else self.max_cost - cost,
        )

    def reached(self, tokens: float, cost: float) -> bool:
        """Whether nothing more may be spent once this much is."""
        return (self.max_tokens is not None and tokens >= self.max_tokens) or (
            self.max_cost is not None and cost >= self.max_cost
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
    """The running sums of one batch's stored calls, and its limits."""

    def __init__(
        self, budget: Budget, uses: Mapping[UseKey, Use], leases: Leases | None = None, batch_id: str = ""
    ) -> None:
        """``uses``: what was spent before. ``leases``: how the process shares the batch with others; None: no
        other process makes calls for this account.
        """
        self.uses = dict(uses)
        """What calls through this account have used, and what was spent before."""
        leases = leases or Leases()
        self._total = total(uses.values())
        self._games: dict[str, Use] = {}
        self._purse = leases.batch(batch_id)
        self._parallel = leases.calls(batch_id)
        self.limit(budget)

    def limit(self, budget: Budget) -> None:
        """Replaces the budget. Calls that have begun may finish."""
        self.budget = budget
        if budget.max_parallel is not None:
            self._parallel.resize(Parallel.read(budget.max_parallel))
        if self._purse is not None:
            self._purse.max_tokens, self._purse.max_cost = budget.batch.max_tokens, budget.batch.max_cost

    def open_game(self, game: str, calls: Mapping[CallKey, Call]) -> None:
        """Adds a game with its stored calls. If it was added before, the larger sum counts: other processes
        may have driven it since.
        """
        stored = total(map(use_of, calls.values()))
        known = self._games.get(game, stored)
        self._games[game] = max(known, stored, key=lambda use: (use.tokens, use.cost))

    def check(self, game: str) -> None:
        """Raises BudgetSpent if this game may make no further call."""
        spent = self._games[game]
        if self.budget.game.reached(spent.tokens, spent.cost) or self.is_spent:
            raise BudgetSpent(BUDGET_SPENT)

    @property
    def is_spent(self) -> bool:
        """Whether the whole batch may make no further call."""
        of = self._total if self._purse is None else self._purse
        return self.budget.batch.reached(of.tokens, of.cost)

    @property
    def may_call(self) -> bool:
        """Whether this process may make a call now; if not, other processes may still spend what is left."""
        return self._purse is None or self.budget.batch == SpendingLimits() or self._purse.open

    @asynccontextmanager
    async def caller(self, game: str) -> AsyncIterator[None]:
        """Holds while a call of this game is made. Waits until this process may spend something. Raises
        BudgetSpent if the game may make no further call.
        """
        self.check(game)
        if self._purse is None or self.budget.batch == SpendingLimits():
            yield
            return
        self._purse.callers += 1
        try:
            while not self._purse.open:
                await self._purse.renewed()
                self.check(game)
            yield
        finally:
            self._purse.callers -= 1

    def add(self, game: str, call: Call) -> None:
        """Adds a stored call to the sums."""
        use = use_of(call)
        by_key = self.uses.setdefault(UseKey(call.endpoint, call.model, call.key.step), Use())
        for summed in (by_key, self._total, self._games[game]):
            summed.add(use)
        if self._purse is not None and self.budget.batch != SpendingLimits():
            self._purse.add(use.tokens, use.cost)

    def count(self, key: UseKey, use: Use) -> None:
        """Counts what was spent elsewhere, in place of what was counted under this key before."""
        self.uses[key] = use
        self._total = total(self.uses.values())

    async def enter(self, stack: AsyncExitStack) -> None:
        """Takes one of the batch's slots for a call, and holds it until the stack is closed. Waits while no
        slot is free.
        """
        if self.budget.max_parallel is not None:
            await stack.enter_async_context(self._parallel.calls.turn())
