"""Limits that all processes on a database keep together: an endpoint's calls and rates, a batch's budget, an
owner's works that take long.

What a process may use is leased in blocks (``app/store/leases.py``), renewed by one task in the background. A
call that finds a free place asks nobody. Without other processes (SQLite, a command) nothing is leased: this
process has it all.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol
from weakref import WeakValueDictionary

import structlog
from prometheus_client import Gauge

from agents.model.limits import AdaptiveLimit, Parallel
from app.base.tasks import end_tasks, keep_going
from app.models import metrics
from app.store.db import PASSING
from app.store.leases import LEASE_S, Demand, Granted

__all__ = ["LeaseStorage", "Leases", "Purse"]

log = structlog.get_logger()

RENEW_S: Final = 0.5
"""Seconds between two renewals of a lease. So much later at most, a process sees what others want."""

SHORT_S: Final = 0.2
"""Seconds between two renewals while somebody waits who has got nothing yet."""

GAP_S: Final = 0.02
"""The fewest seconds between two renewals."""

BUDGET_S: Final = 3.0
"""Seconds between two renewals of a part of a budget, unless it is used up earlier: each sums up a batch."""

AWAY_S: Final = 1.0
"""Seconds until a renewal is tried again that the database did not answer."""

IDLE_S: Final = 6.0
"""Seconds without a call after which a lease is given back. By then the rates have recovered from any burst
(``BURST_S``), so whoever leases next may begin with one.
"""


class LeaseStorage(Protocol):
    """Where leases are stored."""

    async def renew(self, demands: Sequence[Demand]) -> dict[str, Granted]:
        """Renews, changes or gives back the leases of this process; returns what is granted, by name."""
        ...

    async def give_back(self) -> None:
        """Gives back every lease of this process."""
        ...


class Purse:
    """The part of a batch's budget that this process may spend, if there are other processes."""

    def __init__(self, on_short: Callable[[], None]) -> None:
        self.max_tokens: int | None = None
        self.max_cost: float | None = None
        """The batch's budget, in all processes together."""
        self.tokens, self.cost = 0, 0.0
        """What the batch had spent at the last renewal. Calls since then are not among these, since nobody
        knows which of them the renewal has counted."""
        self.callers = 0
        """Calls that are about to be made, or are in flight."""
        self._on_short = on_short
        self._tokens = self._cost = 0.0
        """What has been spent since the last renewal began, or just before."""
        self._may = (0.0, 0.0)
        self._until = -math.inf
        self._renewed = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether another call may be made now."""
        now = asyncio.get_running_loop().time()
        return now < self._until and self._tokens < self._may[0] and self._cost < self._may[1]

    def add(self, tokens: int, cost: float) -> None:
        """Counts a stored call."""
        self._tokens += tokens
        self._cost += cost
        if self._tokens > self._may[0] / 2 or self._cost > self._may[1] / 2:
            self._on_short()  # before the block is used up, so that no call waits

    async def renewed(self) -> None:
        """Asks for more, and waits until there is an answer, whatever it is."""
        renewed = self._renewed
        self._on_short()
        await renewed.wait()

    def spending(self) -> tuple[float, float]:
        """What has been spent since the last renewal: what a renewal that begins now will have counted."""
        return self._tokens, self._cost

    def grant(self, grant: Granted, counted: tuple[float, float], until: float) -> None:
        """Takes over what was granted. ``counted``: what ``spending`` said when the renewal began."""
        self.tokens, self.cost = grant.spent_tokens, grant.spent_cost
        self._tokens -= counted[0]
        self._cost = max(0.0, self._cost - counted[1])
        self._may = (grant.tokens, grant.cost)
        self._until = until
        self._renewed.set()
        self._renewed = asyncio.Event()


class _Lease:
    """One limit, as this process uses it."""

    def __init__(self, limit: AdaptiveLimit | None, purse: Purse | None, gauge: Gauge | None = None) -> None:
        """``gauge``: shows the places."""
        self.limit = limit
        self.purse = purse
        self.gauge = gauge
        self.held = False
        self.renewed_at = -math.inf
        self.last_wanted = -math.inf
        self.reported: tuple[int, float | None] = (0, None)
        """What was reported last, until it is known to be stored."""

    @property
    def wanted(self) -> int:
        wanted = 0 if self.limit is None else self.limit.wanted
        return wanted if self.purse is None else max(wanted, self.purse.callers)

    @property
    def short(self) -> bool:
        """Whether somebody waits and nothing was granted. Who has something sees soon enough what others
        leave.
        """
        if self.limit is not None and self.limit.wanted and not (self.limit.now and self.limit.share):
            return True
        return self.purse is not None and not self.purse.open

    def due(self, now: float) -> bool:
        """Whether it is time to renew the lease."""
        return self.limit is not None or self.short or now - self.renewed_at >= BUDGET_S

    def demand(self, name: str, now: float) -> Demand:
        wanted, limit, purse = self.wanted, self.limit, self.purse
        if wanted:
            self.last_wanted = now
        elif now - self.last_wanted < IDLE_S:
            wanted = 1
        if limit is not None:
            answers, turned_away_s = limit.report()
            before, earlier = self.reported
            self.reported = answers + before, earlier if turned_away_s is None else turned_away_s
        bounds = None if limit is None else limit.bounds
        return Demand(
            name,
            None if bounds is None else (bounds.least, bounds.first, bounds.most),
            wanted,
            {} if limit is None else limit.wanted_by_owner,
            0 if limit is None else limit.tell(),
            *self.reported,
            None if purse is None else purse.max_tokens,
            None if purse is None else purse.max_cost,
        )


class Leases:
    """The leases of one process."""

    def __init__(self, storage: LeaseStorage | None = None) -> None:
        """``storage``: None if there are no other processes."""
        self._storage = storage
        self._leases: dict[str, _Lease] = {}
        """By name, those that are held or wanted."""
        self._endpoints: dict[str, AdaptiveLimit] = {}
        self._works: WeakValueDictionary[str, AdaptiveLimit] = WeakValueDictionary()
        self._short = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def shared(self) -> bool:
        """Whether there may be other processes."""
        return self._storage is not None

    def endpoint(self, name: str, parallel: Parallel) -> AdaptiveLimit:
        """The limit of an endpoint's calls, with this process's share of its rates. After a change of the
        settings it is the same one, since calls of games that began before are still made.
        """
        if self._storage is None:
            return AdaptiveLimit(parallel)
        known = self._endpoints.get(name)
        if known is not None:
            known.resize(parallel)
            return known
        limit = self._endpoints[name] = AdaptiveLimit(parallel, lambda: self._want(name, lease))
        lease = _Lease(limit, None, metrics.places_leased.labels(name))
        return limit

    def batch(self, batch_id: str) -> Purse | None:
        """The budget of a batch. None: there are no other processes, so whoever asks can count alone."""
        if self._storage is None:
            return None
        purse = Purse(lambda: self._want(batch_id, lease))
        lease = _Lease(None, purse)
        return purse

    def calls(self, batch_id: str) -> AdaptiveLimit:
        """The limit of a batch's calls at the same time. It has to be told how many they may be."""
        return self._limit(f"calls {batch_id}", Parallel(1, 1, 1))

    def works(self, kind: str, owner: str, most: int) -> AdaptiveLimit:
        """The limit of an owner's works of this kind, a short word, at the same time."""
        # Owners have longer names than the column takes.
        name = f"{kind} {hashlib.sha256(owner.encode()).hexdigest()[:40]}"
        limit = self._works.get(name)
        if limit is None:
            limit = self._works[name] = self._limit(name, Parallel(most, most, most))
        return limit

    def _limit(self, name: str, parallel: Parallel) -> AdaptiveLimit:
        if self._storage is None:
            return AdaptiveLimit(parallel)
        limit = AdaptiveLimit(parallel, lambda: self._want(name, lease))
        lease = _Lease(limit, None)
        return limit

    def start(self) -> None:
        """Begins to renew leases."""
        if self._storage is not None:
            self._renewing = keep_going(partial(self._keep_renewing, self._storage), "leases")

    async def stop(self) -> None:
        """Gives back every lease."""
        if self._renewing is None or self._storage is None:
            return
        await end_tasks(self._renewing)
        self._renewing = None
        if self._leases:
            try:
                await self._storage.give_back()
            except PASSING as fault:
                log.warning(
                    "cannot give back this process's part of the models' limits; it expires by itself",
                    cause=type(fault).__name__,
                )

    def _want(self, name: str, lease: _Lease) -> None:
        self._leases[name] = lease
        self._short.set()

    async def _keep_renewing(self, storage: LeaseStorage) -> None:
        pause_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._short.wait()
            except TimeoutError:
                pass
            self._short.clear()
            try:
                await self._renew(storage)
            except PASSING as fault:
                log.warning(
                    "cannot renew this process's part of the models' limits; it is tried again",
                    cause=type(fault).__name__,
                )
                await asyncio.sleep(AWAY_S)
                self._short.set()
                continue
            except Exception:
                log.exception("cannot renew this process's part of the models' limits; it is tried again")
                await asyncio.sleep(AWAY_S)
                self._short.set()
                continue
            if not self._leases:
                pause_s = None
            else:
                pause_s = SHORT_S if any(lease.short for lease in self._leases.values()) else RENEW_S
            await asyncio.sleep(GAP_S)

    async def _renew(self, storage: LeaseStorage) -> None:
        now = asyncio.get_running_loop().time()
        leases = {name: lease for name, lease in self._leases.items() if lease.due(now)}
        demands = [lease.demand(name, now) for name, lease in leases.items()]
        counted = {name: lease.purse.spending() for name, lease in leases.items() if lease.purse is not None}
        grants = await storage.renew(demands) if demands else {}
        for name, grant in grants.items():
            lease = leases[name]
            lease.reported = (0, None)
            until = now + LEASE_S
            if lease.limit is not None:
                fresh = grant.alone and not lease.held
                lease.limit.grant(grant.places, grant.share, until, fresh=fresh, owners=grant.owners)
                if lease.gauge is not None:
                    lease.gauge.set(grant.places)
            if lease.purse is not None:
                lease.purse.grant(grant, counted[name], until)
            lease.held, lease.renewed_at = True, now
        for demand in demands:
            lease = leases[demand.name]
            if not demand.wanted:
                lease.held = False
                if not lease.wanted and self._leases.get(demand.name) is lease:
                    del self._leases[demand.name]
