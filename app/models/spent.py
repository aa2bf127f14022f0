"""What a batch has paid, beside what it may pay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.models.registry import ModelRegistry, budget_of
from app.seats.seating import has_models
from app.store.call import Use, UseKey, total
from app.store.rows import BatchRow, whole

__all__ = ["Paid", "paid"]


@dataclass(frozen=True, slots=True)
class Paid:
    """The sums of one batch."""

    uses: Mapping[UseKey, Use] = field(default_factory=dict)
    budget: Mapping[str, Any] | None = None
    """As it was given; None: no limit."""
    spent: bool = False
    """Nothing more may be paid for the batch."""
    games_stopped: int = 0
    """Games that ended because they could pay no further call."""

    @property
    def total(self) -> Use:
        return total(self.uses.values())


async def paid(models: ModelRegistry, batch: BatchRow) -> Paid:
    """The sums of a stored batch."""
    spec = whole(batch.spec)
    budget = spec.get("budget")
    # Most batches have no models: they need not look through the calls of all others.
    uses = await models.uses(batch.batch_id) if has_models(spec.get("seats") or []) else {}
    if budget is None:
        return Paid(uses)
    summed = total(uses.values())
    return Paid(
        uses,
        budget,
        budget_of(spec).batch.reached(summed.tokens, summed.cost),
        await models.calls.stopped_by_budget(batch.batch_id),
    )
