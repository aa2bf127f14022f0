"""Quotas: how much of the service an owner may use.

The settings' quotas hold for every owner, unless the database has others for it. The operator's key, and
callers of a service that needs no key, have none unless the database has some.

What is counted over days, and open games, are rows of the database, right over several processes. Sockets and
requests a second are counted by each process for itself: they are to keep this process answering everybody.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.datastructures import State
from starlette.types import ASGIApp, Receive, Scope, Send

from app.base.allowance import Allowance
from app.base.clock import DAY_MS, now_ms
from app.base.errors import QuotaExceeded
from app.base.metrics import quota_refusals
from app.base.problems import problem_response
from app.base.tasks import end_tasks, keep_going
from app.settings import QuotaName, Settings
from app.store.quotas import QuotaStore
from app.store.seeks import lock_owner

__all__ = ["EXEMPT", "QUOTAS", "Quota", "QuotaCheck", "QuotaUse", "Quotas"]

log = structlog.get_logger()

FRESH_S: Final = 2.0
"""Seconds after which a changed quota holds, and after which counts in memory are stored."""

BURST_S: Final = 1.0
"""After a pause, an owner may send as many requests at once as its quota allows in this many seconds."""

FOR_TOKENS: Final = 3
"""How many times the quota ``requests`` all tokens of an owner have together."""

OF_KEYS: Final = "bytes_a_day"
OF_TOKENS: Final = "token_bytes_a_day"
"""The names under which the bytes are stored that an owner's keys send, and those that its tokens send."""

EXEMPT: Final = frozenset({"", "keyless", "operator", "server"})
"""Owners for which the settings' quotas do not hold."""

SPENT_S: Final = 1.0
"""Seconds between checks of what models have cost an owner, while they are asked."""

_FORGET_AT: Final = 10_000

NEVER_S: Final = 86_400.0
"""What Retry-After says if waiting does not help."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What one quota limits."""

    name: QuotaName
    of: str
    """In words, for messages."""
    per: Literal["second", "day", "request", "once"]
    """Used up by what was counted in this second or on this day of UTC, by one request, or by all at once."""
    counted: Literal["process", "server"]
    """Whether each process counts for itself, or all together."""


QUOTAS: Final[Mapping[QuotaName, Quota]] = {
    quota.name: quota
    for quota in (
        Quota("requests", "requests a second", "second", "process"),
        Quota("sockets", "sockets and requests in progress at once", "once", "process"),
        Quota("bytes_a_day", "bytes received on one day", "day", "server"),
        Quota("batch_size", "games in one request", "request", "server"),
        Quota("open_games", "games that are not over", "once", "server"),
        Quota("games_a_day", "games created on one day", "day", "server"),
        Quota("open_seeks", "seeks that wait for others", "once", "server"),
        Quota("waiting_games", "games that wait for players", "once", "server"),
        Quota("submissions_a_day", "submissions on one day", "day", "server"),
        Quota("tokens_a_day", "tokens, and codes for seats, made on one day", "day", "server"),
        Quota("model_tokens_a_day", "tokens of models on one day", "day", "server"),
        Quota("model_cost_a_day", "spent on models on one day", "day", "server"),
    )
}


class QuotaCheck:
    """Middleware that refuses requests beyond the quotas ``requests`` and ``sockets`` before anything else is
    done for them. Of a credential that is not known yet, the first request is counted later.
    """

    def __init__(self, app: ASGIApp, *, state: State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = self._state.keys.known_owner(scope) if scope["type"] == "http" else None
        if known is None:
            await self._app(scope, receive, send)
            return
        owner, by_token = known
        quotas: Quotas = self._state.quotas
        with ExitStack() as stack:
            try:
                quotas.admit(owner, by_token=by_token)
                stack.enter_context(quotas.open(owner, by_token=by_token))
            except QuotaExceeded as refused:
                await problem_response(refused)(scope, receive, send)
                return
            scope["counted"] = True
            await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What an owner has used of one quota."""

    quota: Quota
    limit: float | None
    """None: no limit."""
    used: float
    resets_ms: int | None
    """When the count resets, in ms since 1970; None: never, or at once."""


class Quotas:
    """The quotas of one process."""

    def __init__(self, settings: Settings, store: QuotaStore) -> None:
        self._defaults = settings.owner_quotas()
        self._store = store
        self._named: Mapping[str, Mapping[str, float | None]] = {}
        self._allowances: dict[tuple[str, bool], tuple[float, Allowance]] = {}
        """By owner, and whether for its tokens: the limit, and what is left of it."""
        self._open: Counter[tuple[str, bool]] = Counter()
        self._received: Counter[tuple[str, str]] = Counter()
        """Bytes that are not stored yet, by owner and name."""
        self._stored: dict[tuple[str, str], tuple[int, int]] = {}
        """By owner and name: the day, and the bytes that are stored for it."""
        self._models_checked: dict[str, tuple[float, str | None]] = {}
        """By owner: when it was looked what models have cost, and which quota was used up."""
        self._looking = WeakValueDictionary[str, asyncio.Lock]()
        """By owner: held while it is looked what models have cost."""
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Reads the quotas in the database, and begins to follow them."""
        await self.read()
        self._loop = keep_going(self._keep_fresh, "quotas")

    async def read(self) -> None:
        """Reads the quotas in the database."""
        self._named = await self._store.limits()
        self._models_checked.clear()

    async def stop(self) -> None:
        """Stores what was counted in memory."""
        if self._loop is None:
            return
        await end_tasks(self._loop)
        self._loop = None
        try:
            await self._store_received()
        except Exception as fault:
            log.warning(
                "cannot store how many bytes owners have sent; it is tried again", cause=type(fault).__name__
            )

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(FRESH_S)
            try:
                await self.read()
                await self._store_received()
            except Exception as fault:
                log.warning(
                    "cannot read the quotas: changes to them do not count in this process yet",
                    cause=type(fault).__name__,
                )

    # --- limits -----------------------------------------------------------------------------

    def limit(self, owner: str, name: QuotaName) -> float | None:
        """The owner's quota of this name; None: no limit."""
        named = self._named.get(owner)
        if named is not None and name in named:
            return named[name]
        return None if owner in EXEMPT else self._defaults[name]

    def has_any(self, owner: str) -> bool:
        """Whether anything is counted for this owner."""
        return owner not in EXEMPT or owner in self._named

    def _exceeded(
        self, name: QuotaName, limit: float, wait_s: float | None = None, *, hint: str = ""
    ) -> QuotaExceeded:
        """``wait_s``: None: until the next day of UTC."""
        quota = QUOTAS[name]
        if wait_s is None:
            wait_s = (DAY_MS - now_ms() % DAY_MS) / 1000
            if limit:
                hint = hint or "it resets at midnight UTC"
        quota_refusals.labels(name).inc()
        message = (
            f"your quota {name} allows {limit:,.10g} ({quota.of}); {hint or 'GET /me shows your quotas'}"
        )
        return QuotaExceeded(message, wait_s, name, limit)

    # --- what each process counts for itself ------------------------------------------------

    def admit(self, owner: str, *, by_token: bool = False) -> None:
        """Counts one request. Raises QuotaExceeded if there were too many in this second. ``by_token``: the
        owner's tokens have a count of their own, so that the holder of a token cannot use up what the owner's
        keys need; bots may send more than programs that only watch.
        """
        limit = self.limit(owner, "requests")
        if limit is None:
            return
        if by_token:
            limit *= FOR_TOKENS
        now = time.monotonic()
        known = self._allowances.get((owner, by_token))
        if known is None or known[0] != limit:
            if len(self._allowances) >= _FORGET_AT:
                self._allowances = {k: v for k, v in self._allowances.items() if not v[1].is_full(now)}
            known = (limit, Allowance(limit, max(1, int(limit * BURST_S)), now))
            self._allowances[owner, by_token] = known
        allowance = known[1]
        if not allowance.spend(now):
            raise self._exceeded("requests", limit, allowance.next_s)

    @contextmanager
    def open(self, owner: str, *, by_token: bool = False) -> Iterator[None]:
        """Counts a socket, or a request in progress, while the block lasts. Raises QuotaExceeded."""
        limit, holder = self.limit(owner, "sockets"), (owner, by_token)
        if limit is not None and self._open.get(holder, 0) >= limit:
            raise self._exceeded("sockets", limit, 5.0, hint="close some first")
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]

    # --- bytes: in memory at first, and stored soon -----------------------------------------

    def receive(self, owner: str, count: int, *, by_token: bool = False) -> None:
        """Counts bytes that the owner sends. Raises QuotaExceeded if it has sent too many today. What other
        processes received in the last seconds is not among them. ``by_token``: as for ``admit``.
        """
        limit = self.limit(owner, "bytes_a_day")
        if limit is None:
            return
        sender = owner, OF_TOKENS if by_token else OF_KEYS
        if self._received_today(sender) + count > limit:
            raise self._exceeded("bytes_a_day", limit)
        self._received[sender] += count

    def _received_today(self, sender: tuple[str, str]) -> int:
        day, stored = self._stored.get(sender, (0, 0))
        return self._received.get(sender, 0) + (stored if day == now_ms() // DAY_MS else 0)

    async def _store_received(self) -> None:
        received, day = +self._received, now_ms() // DAY_MS
        if not received:
            return
        totals = await self._store.add_all(day, received)
        # What came in meanwhile stays for the next time.
        self._received.subtract(received)
        self._received = +self._received
        self._stored |= {sender: (day, total) for sender, total in totals.items()}
        if len(self._stored) >= _FORGET_AT:
            self._stored = {sender: known for sender, known in self._stored.items() if known[0] == day}

    # --- what all processes count together --------------------------------------------------

    def check_batch(self, owner: str, count: int) -> None:
        """Raises QuotaExceeded for a request that creates too many games."""
        limit = self.limit(owner, "batch_size")
        if limit is not None and count > limit:
            hint = f"{count:,} games are more: create smaller batches"
            raise self._exceeded("batch_size", limit, NEVER_S, hint=hint)

    async def take_games(
        self, connection: AsyncConnection, owner: str, count: int, *, opened: bool = True
    ) -> None:
        """Counts games that the caller's transaction has just stored. Raises QuotaExceeded if there are now
        too many of this day or, if they are still to be played (``opened``), too many open games.
        """
        if not self.has_any(owner):
            return
        limit = self.limit(owner, "open_games") if opened else None
        if limit is not None:
            # The day's count does not keep others waiting for whom it is another day already.
            await lock_owner(connection, owner)
        await self.take(connection, owner, "games_a_day", count)
        if limit is not None and await self._store.open_games(owner, connection) > limit:
            raise self._exceeded("open_games", limit, 60.0, hint="wait until some are over, or cancel some")

    async def check_waiting(
        self, connection: AsyncConnection, owner: str, name: Literal["open_seeks", "waiting_games"]
    ) -> None:
        """Raises QuotaExceeded if what the caller's transaction has just stored is too much. Nobody else may
        store more for this owner until the transaction ends.
        """
        limit = self.limit(owner, name)
        if limit is not None and (await self._store.waiting(owner, connection))[name] > limit:
            raise self._exceeded(name, limit, 10.0, hint="wait until some have begun, or withdraw some")

    async def take(self, connection: AsyncConnection, owner: str, name: QuotaName, count: int = 1) -> None:
        """Raises the day's count in the caller's transaction, which must fail with the error. Raises
        QuotaExceeded.
        """
        if not self.has_any(owner):
            return
        total = await self._store.add(connection, owner, now_ms() // DAY_MS, name, count)
        limit = self.limit(owner, name)
        if limit is not None and total > limit:
            raise self._exceeded(name, limit)

    async def check(self, owner: str, name: QuotaName) -> None:
        """Raises QuotaExceeded if nothing is left of the day's count, so that nothing dear is done in vain.
        It counts nothing: ``take`` does.
        """
        limit = self.limit(owner, name)
        if limit is not None and (await self._store.used(owner, now_ms() // DAY_MS)).get(name, 0) >= limit:
            raise self._exceeded(name, limit)

    async def check_models(self, owner: str) -> None:
        """Raises QuotaExceeded if nothing is left of what the owner may spend on models today."""
        tokens, cost = self.limit(owner, "model_tokens_a_day"), self.limit(owner, "model_cost_a_day")
        if tokens is None and cost is None:
            return
        spent = await self._store.spent(owner, now_ms() // DAY_MS)
        if tokens is not None and spent.tokens >= tokens:
            raise self._exceeded("model_tokens_a_day", tokens)
        if cost is not None and spent.cost >= cost:
            raise self._exceeded("model_cost_a_day", cost)

    async def over_quota(self, owner: str) -> str | None:
        """Which quota the owner has used up, so that no model is asked for it any more today; None: it may go
        on. What was stored in the last second may be missing.
        """
        if self.limit(owner, "model_tokens_a_day") is None and self.limit(owner, "model_cost_a_day") is None:
            return None
        looking = self._looking.setdefault(owner, asyncio.Lock())
        # Those who ask meanwhile wait for the answer.
        async with looking:
            looked_at, words = self._models_checked.get(owner, (-math.inf, None))
            if time.monotonic() - looked_at >= SPENT_S:
                try:
                    await self.check_models(owner)
                    words = None
                except QuotaExceeded as refused:
                    words = str(refused)
                self._models_checked[owner] = (time.monotonic(), words)
        return words

    # --- looking ----------------------------------------------------------------------------

    async def used(self, owner: str, *, shared: bool = True) -> list[QuotaUse]:
        """What the owner has used of each quota, in the order of ``QUOTAS``. ``shared``: with what models
        have used in games that have not ended in which others have seats, which tells who is a model.
        """
        now = now_ms()
        day = now // DAY_MS
        counts: dict[str, Any] = dict(await self._store.used(owner, day))
        spent = await self._store.spent(owner, day, shared=shared)
        known = self._allowances.get((owner, False))
        limit = self.limit(owner, "requests")
        counts |= {
            "requests": 0
            if known is None or limit is None
            else limit * BURST_S - known[1].left(time.monotonic()),
            "sockets": self._open.get((owner, False), 0),
            "bytes_a_day": counts.get("bytes_a_day", 0) + self._received.get((owner, OF_KEYS), 0),
            "batch_size": 0,
            "open_games": await self._store.open_games(owner),
            **await self._store.waiting(owner),
            "model_tokens_a_day": spent.tokens,
            "model_cost_a_day": spent.cost,
        }
        midnight = (day + 1) * DAY_MS
        return [
            QuotaUse(
                quota,
                self.limit(owner, name),
                counts.get(name, 0),
                midnight if quota.per == "day" else None,
            )
            for name, quota in QUOTAS.items()
        ]
