"""The models of one service: its endpoints, the spending of batches, and sessions for games."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from agents.llm.session import CallKey, ModelSession
from agents.model.model import Sampling
from app.base.sums import Sums
from app.models.account import Account, Budget, SpendingLimits
from app.models.endpoints import Endpoints
from app.models.provenance import stored_provenance
from app.models.recording import UNUSED_SESSION
from app.models.sessions import Flights, GameSessions, Onlookers, OverQuota
from app.seats.seating import ModelSeats, has_models
from app.store.call import Call, Use, UseKey, total, use_of
from app.store.db import PASSING
from app.store.model_calls import CallStore
from app.store.rows import BatchRow, GameRow, Outage, whole
from engine.events import Event
from evaluators.ground.provenance import Provenance

if TYPE_CHECKING:
    from agents.llm.templates import Templates

__all__ = ["ModelRegistry", "Spending", "budget_of"]


LIMITS_S: Final = 2.0
"""Seconds between two checks whether budgets have changed."""


def budget_of(spec: Mapping[str, Any]) -> Budget:
    """The budget in a batch's stored spec; no limits if there is none."""
    given = spec.get("budget") or {}
    own = given.get("per_game") or {}
    return Budget(
        SpendingLimits(given.get("max_tokens"), given.get("max_cost")),
        SpendingLimits(own.get("max_tokens"), own.get("max_cost")),
        given.get("max_parallel"),
    )


@dataclass(frozen=True, slots=True)
class Spending:
    """What one batch has spent on models."""

    uses: Mapping[UseKey, Use] = field(default_factory=dict)
    budget: Mapping[str, Any] | None = None
    """The budget in the batch's spec; None: no limit."""
    spent: bool = False
    """Whether nothing more may be spent on the batch."""
    games_stopped: int = 0
    """Games that ended because of a spent budget."""
    outages: Sequence[Outage] = ()
    """The current outages of the endpoints that the batch's seats ask."""

    @property
    def total(self) -> Use:
        return total(self.uses.values())


class ModelRegistry:
    """Makes sessions, and keeps account of their spending."""

    def __init__(
        self,
        endpoints: Endpoints,
        calls: CallStore,
        *,
        keep_messages: bool,
        prompts: Mapping[str, "Templates"] | None = None,
        onlookers: Onlookers | None = None,
        over_quota: OverQuota | None = None,
        surely_ours: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``onlookers``: hear what seats' models say while they say it; None: nobody does. ``over_quota``,
        ``surely_ours``: see ``GameSessions``.
        """
        self._over_quota = over_quota
        self._surely_ours = surely_ours
        self.endpoints = endpoints
        self._onlookers = onlookers
        self.calls = calls
        self._keep_messages = keep_messages
        self._prompts = prompts or {}
        self._flights = Flights()
        # An account lives as long as a session uses it; it can be rebuilt from the stored calls.
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._opening = asyncio.Lock()
        self._uses = Sums(self.uses)

    def check(self, models: Mapping[str, Mapping[str, Any]]) -> ModelSeats:
        """Model seats for checking whether agents can be made; no question can be asked through them."""

        def session(name: str, sampling: Sampling) -> ModelSession:
            self.endpoints.source(name).check(sampling)  # raises InvalidAgent
            return UNUSED_SESSION

        return ModelSeats(session, models, self.endpoints.asked, self._prompts)

    async def seats(
        self,
        game: GameRow,
        batch: BatchRow,
        on_wait: Callable[[], None] | None = None,
        job: int | None = None,
    ) -> ModelSeats:
        """The model seats of a stored game; stored answers are used again. ``GameSessions`` explains
        ``on_wait`` and ``job``.
        """
        spec = whole(batch.spec)
        stored = await self.calls.of_game(game.game_id)
        spent = total(map(use_of, stored.values()))
        owner = batch.owner
        await self.calls.open_account(game.game_id, batch.batch_id, spent.tokens, spent.cost, owner or None)
        account = await self._account(batch.batch_id, budget_of(spec))
        sessions = GameSessions(
            game.game_id,
            game.seed,
            stored,
            self.calls,
            account,
            self._flights,
            keep_messages=self._keep_messages,
            on_wait=on_wait,
            on_unusable=spec.get("on_unusable"),
            lent=await self._lent(spec.get("repeats") or ()),
            pause=asyncio.sleep,
            onlookers=self._onlookers,
            group=batch.batch_id,
            owner=owner,
            over_quota=self._over_quota,
            surely_ours=self._surely_ours,
            job=job,
        )
        return ModelSeats(
            lambda name, sampling: sessions.session(self.endpoints.source(name), sampling),
            spec.get("models") or {},
            self.endpoints.asked,
            self._prompts,
        )

    async def provenance(self, game: GameRow, batch: BatchRow, log: Sequence[Event]) -> Provenance:
        """Where a stored game comes from. Raises CorruptLog for rows that cannot be read."""
        served = await self.calls.served(game.game_id) if has_models(whole(game.seats)) else {}
        return stored_provenance(game, batch, log, served, self.endpoints.settings)

    async def judge_account(self, evaluation_id: str, spec: Mapping[str, Any], owner: str) -> Account:
        """The account of a judge, with what it has spent before."""
        uses = await self.calls.uses_of(evaluation_id)
        spent = total(uses.values())
        await self.calls.open_account(evaluation_id, evaluation_id, spent.tokens, spent.cost, owner or None)
        return Account(budget_of(spec), uses)

    def judge_session(
        self, evaluation_id: str, name: str, stored: Mapping[CallKey, Call], account: Account, owner: str
    ) -> ModelSession:
        """A judge's session about one game; its calls are stored under the evaluation's id.

        Raises InvalidAgent for an unknown endpoint.
        """
        source = self.endpoints.source(name)
        sessions = GameSessions(
            evaluation_id,
            evaluation_id,
            stored,
            self.calls,
            account,
            self._flights,
            keep_messages=self._keep_messages,
            stops=False,
            group=evaluation_id,
            owner=owner,
            over_quota=self._over_quota,
            surely_ours=self._surely_ours,
        )
        return sessions.session(source)

    async def _lent(self, games: Sequence[str]) -> dict[CallKey, Call]:
        """The answers of the games that a fork repeats; an earlier game in the list takes precedence."""
        lent: dict[CallKey, Call] = {}
        for game in games:
            lent = {**await self.calls.of_game(game), **lent}
        return lent

    async def _account(self, batch_id: str, budget: Budget) -> Account:
        # Locked, since with two accounts for one batch both sums would be wrong.
        async with self._opening:
            account = self._accounts.get(batch_id)
            if account is None:
                # Where processes share a batch, its sums come with the leases.
                shared = self.endpoints.leases.shared
                before = {} if shared else await self.calls.uses(batch_id)
                account = Account(budget, before, self.endpoints.leases, batch_id)
                self._accounts[batch_id] = account
            return account

    async def follow_limits(self, specs: Callable[[Sequence[str]], Awaitable[Mapping[str, Any]]]) -> None:
        """Keeps taking over changed budgets of running batches. ``specs``: reads the specs of batches, by
        id.
        """
        while True:
            await asyncio.sleep(LIMITS_S)
            names = list(self._accounts)
            for first in range(0, len(names), 100):
                try:
                    known = await specs(names[first : first + 100])
                except PASSING:
                    continue
                for batch_id, spec in known.items():
                    if (account := self._accounts.get(batch_id)) is not None:
                        account.limit(budget_of(spec))

    async def uses(self, batch_id: str) -> Mapping[UseKey, Use]:
        """The batch's use of models so far, by endpoint, model and step."""
        account = self._accounts.get(batch_id)
        if account is None or self.endpoints.leases.shared:
            return await self.calls.uses(batch_id)
        return account.uses

    async def spending(self, batch: BatchRow, *, over: bool) -> Spending:
        """The spending of a stored batch, with its budget. ``over``: whether all of its games are over. While
        a large batch is not, its use of models may be that of a moment ago.
        """
        spec = whole(batch.spec)
        seats = spec.get("seats") or []
        # Most batches have no models, so they need no search through the calls of all other batches.
        uses = await self._uses.get(batch.batch_id, batch.count, over=over) if has_models(seats) else {}
        outages = self.endpoints.outages(seat["model"] for seat in seats if "model" in seat)
        if (budget := spec.get("budget")) is None:
            return Spending(uses, outages=outages)
        spent = budget_of(spec).batch.reached(*await self.calls.spent(batch.batch_id))
        stopped = await self.calls.stopped_by_budget(batch.batch_id)
        return Spending(uses, budget, spent, stopped, outages)

    def hang_up(self, game_id: str) -> None:
        """Breaks off the calls of a game that is cancelled."""
        self._flights.hang_up(game_id)

    def calls_wait(self, game_id: str) -> list[bool]:
        """For each call of the game that is not over, whether it waits for an endpoint that is away."""
        return self._flights.wait(game_id)

    async def landed(self, game_id: str) -> None:
        """Waits until the game's calls in flight are stored."""
        await self._flights.land_game(game_id)

    async def stop(self, within_s: float) -> None:
        """Waits up to ``within_s`` seconds for calls in flight to be stored, and closes every connection."""
        await self._flights.land(within_s)
        await self.endpoints.aclose()
