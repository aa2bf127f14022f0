"""Keeps track of whether a model endpoint answers.

While an endpoint does not answer, its games are parked, and one call at a time tries again, after growing
pauses. So an outage costs games nothing but time, and an endpoint that comes back is not overrun. Whoever has
failed lets others try first, since the fault may lie in one question alone. Processes on one database share
what they know of an endpoint (``Outages``).
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Protocol

import structlog

from agents.model.model import ModelUnavailable
from app.base.clock import now_ms
from app.models import metrics
from app.models.stops import GameParks
from app.store.rows import Outage

__all__ = ["EndpointHealth", "Outages", "Withdrawn"]

log = structlog.get_logger()

OPEN_AFTER: Final = 3
"""After this many calls in a row without an answer, all calls to the endpoint wait."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""The first and the last bound of the pause between two tries. The bound doubles with each failure, and the
pause is drawn from the upper half of the range from 0 to the bound.
"""

RECENT: Final = 20
"""How many of its latest answers an endpoint is judged by."""

LONGEST_ASKED_S: Final = 24 * 3600.0
"""The longest pause that a server may ask for. A longer one is ignored."""

LEASE_S: Final = 60.0
"""How long only one process may try, unless it reports the outcome of a try earlier."""

TOLD_FROM_S: Final = 60.0
"""A single call without an answer is told in the log if it took as long as this."""

UNTRIED_S: Final = 3.0
"""So long after the time of the next try, other processes that would try have shown it in the database."""

GIVES_WAY: Final = 2
"""Who has failed waits for so many more FIRST_PAUSE_S, in which another process looks whether it may try."""

_SOON_MS: Final = 50
"""The clocks of the event loop and of the database's rows need not agree to the millisecond."""


class Withdrawn(Exception):
    """The endpoint has stopped answering since the caller got its turn, or its settings were replaced. The
    caller has to wait for another turn, or to go on with the new settings.
    """


class Outages(Protocol):
    """The outages that all processes on a database know of."""

    async def all(self) -> Mapping[str, Outage] | None:
        """The outages by endpoint; None if they cannot be read now."""
        ...

    async def put(self, outage: Outage) -> None:
        """Stores an outage, or changes its ``try_at``."""
        ...

    async def claim(self, endpoint: str, now: int, until: int) -> bool:
        """Returns whether the caller may try now. If it may, nobody else may try before ``until``."""
        ...

    async def end(self, endpoint: str) -> None: ...

    async def end_unwanted(self, endpoint: str, before: int) -> None:
        """Ends an outage whose next try was due before ``before``, unless games wait for the endpoint."""
        ...


class EndpointHealth:
    """The health of one endpoint, as far as this process knows it. Belongs to one event loop."""

    def __init__(
        self, endpoint: str, jitter: Callable[[], float] = random.random, outages: Outages | None = None
    ) -> None:
        """``outages``: None if no other process asks this endpoint."""
        self.outage: Outage | None = None
        """The current outage; None while the endpoint answers."""
        self.answers = 0
        """Calls that were answered so far."""
        self.changes = 0
        """How often ``outage`` has changed."""
        self.withdrawn = False
        """Whether the endpoint's settings were replaced: what happens here tells nothing of the new ones."""
        self.left = False
        """Whether it did not answer then, or since: nobody asks with these settings any more."""
        self._recent = deque[bool](maxlen=RECENT)
        """Whether each of the latest answers could be used, oldest first."""
        self._endpoint = endpoint
        self._jitter = jitter
        self._outages = outages
        self._failures = 0
        self._try_at = 0.0
        self._due_at = 0.0
        """When the next try is due in any process, in the time of the event loop."""
        self._trying = False
        self._leased_until = 0.0
        """Until when only this process may try, in the time of the event loop."""
        self._tester: str | None = None
        """The game that is not parked, because its call is the next one to try the endpoint."""
        self._tester_asks: tuple[str, ...] = ()
        self._handed_on = False
        """Whether the game that tried has left, and no other has been woken in its place."""
        self._failed_at: dict[tuple[str, ...], int] = {}
        """Whose calls have failed since the last answer: every beginning of an ``asker``, and when."""
        self._waiting: list[tuple[str, ...]] = []
        """The ``asker`` of each call that waits for its turn."""
        self._calls = Counter[str]()
        """For each game, the number of its calls that wait for their turn or hold it."""
        self._news = asyncio.Event()
        # Without a value, a panel cannot tell an endpoint that answers from one that nobody watches.
        metrics.endpoints_away.labels(endpoint).set(0)

    @asynccontextmanager
    async def turn(
        self, game: str | None = None, asker: tuple[str, ...] = ()
    ) -> AsyncIterator[Callable[[], None]]:
        """Holds the permission to make one call while the block lasts. Waits while the endpoint does not
        answer, unless it is time for another try, nobody else is trying, and nobody of a lower ``rank``
        waits.

        A block that waits for something else before its call then calls what it was given, which raises
        Withdrawn if the permission is gone, because the endpoint has stopped answering meanwhile.

        ``game``: a game that can be parked; GameParks is raised if another game is waiting to try, unless
        that is not trying yet and has a higher ``rank``. With None, the caller waits. ``asker``: owner,
        group, game and question, each within the one before; empty: nobody gives way to others.

        A ModelUnavailable that leaves the block counts as a failure, unless its kind is ``request`` or
        ``answer``; those, and a block that ends without an exception, count as an answer.
        """
        if game is not None:
            self._calls[game] += 1
        tries = False
        try:
            tries = await self._wait(game, asker)
            yield partial(self._check, tries=tries)
        except ModelUnavailable as fault:
            if fault.kind in ("request", "answer"):
                await self._answered()
            else:
                self._note_failure(asker)
                await self._failed(fault, tries=tries)
            raise
        else:
            await self._answered()
        finally:
            if tries:
                self._trying = False
                self._tell()
            if game is not None:
                self._leave(game)

    def _check(self, *, tries: bool) -> None:
        if self.left or (self.outage is not None and not tries):
            raise Withdrawn

    def withdraw(self) -> None:
        """Has calls that wait go on with the endpoint's new settings, and others as soon as they fail."""
        self.withdrawn, self.left = True, self.outage is not None
        if self.outage is not None:
            log.warning(
                "the settings of a model endpoint that is away have changed: its games go on with them",
                endpoint=self._endpoint,
            )
            self._forget()

    async def back(self) -> bool:
        """Waits, and returns True once the endpoint answers, or False once no game is left that would try, in
        this process or in another.
        """
        loop = asyncio.get_running_loop()
        while self.outage is not None:
            pause = None
            if self._tester is None:
                if self._outages is None or self._handed_on or loop.time() >= self._due_at + UNTRIED_S:
                    self._handed_on = False
                    break
                pause = FIRST_PAUSE_S  # that another process tries is no news here
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
        return self.outage is None

    def read(self, *, usable: bool) -> None:
        """Records whether a new answer could be used."""
        self._recent.append(usable)

    @property
    def unusable(self) -> tuple[int, int]:
        """How many of the latest answers could not be used, and how many answers that is out of (at most
        RECENT).
        """
        return self._recent.count(False), len(self._recent)

    @property
    def is_trying(self) -> bool:
        """Whether a call of this process tries now whether the endpoint answers again."""
        return self._trying

    def pause_s(self, failures: int) -> float:
        """How long a call pauses after so many failures in a row."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
        return longest * (1 + self._jitter()) / 2

    def learn(self, outage: Outage | None) -> None:
        """Takes over what another process knows. None: the endpoint has answered it, nothing waits for the
        endpoint any more, or it had no outage.
        """
        if self.withdrawn:
            return
        if outage is None:
            if self.outage is not None:
                self._close("a model endpoint answers again, or nothing waits for it any more")
            return
        self._due_at = _loop_time(outage.try_at)
        if self.outage is None:
            self._failures = max(self._failures, OPEN_AFTER)
            self._open(outage)
            # Later on the row may hold a time that this process has set itself, and knows better by now.
            self._try_at = self._due_at

    def rank(self, asker: Sequence[str]) -> list[int]:
        """Whose turn it is to try: the lowest comes first. Owners that have failed since the last answer come
        after all others, in the order of their last failures; likewise each owner's groups, their games, and
        the questions of those. ``asker``: as in ``turn``, or a beginning of that.
        """
        return [self._failed_at.get(tuple(asker[:n]), 0) for n in range(1, len(asker) + 1)]

    def _note_failure(self, asker: tuple[str, ...]) -> None:
        now = max(self._failed_at.values(), default=0) + 1
        self._failed_at.update((asker[:n], now) for n in range(1, len(asker) + 1))
        self._tell()

    async def _wait(self, game: str | None, asker: tuple[str, ...]) -> bool:
        """Waits until the caller may make its call. Returns whether that call is a try during an outage, for
        which all other calls wait.
        """
        if self.outage is not None:
            self._waiting.append(asker)
            try:
                while self.outage is not None:
                    if await self._tries(game, asker, self.outage):
                        return True
            finally:
                self._waiting.remove(asker)
                if self.outage is not None:
                    self._tell()  # it is somebody else's turn
        self._check(tries=False)
        return False

    async def _tries(self, game: str | None, asker: tuple[str, ...], outage: Outage) -> bool:
        """Whether the caller may try now. If not, waits until that may have changed."""
        if game is not None and self._tester != game:
            if self._tester is not None and (
                self._trying or self.rank(asker) >= self.rank(self._tester_asks)
            ):
                raise GameParks(self._endpoint, outage.cause, "it does not answer", asker)
            self._tester, self._tester_asks, self._handed_on = game, asker, False
            self._tell()
        rank = self.rank(asker)
        left = self._try_at - asyncio.get_running_loop().time()
        if self._outages is not None and any(rank):
            left += GIVES_WAY * FIRST_PAUSE_S
        if left <= 0 and not self._trying and rank <= min(map(self.rank, self._waiting)):
            return await self._claimed()
        with suppress(TimeoutError):
            async with asyncio.timeout(left if left > 0 and not self._trying else None):
                await self._news.wait()
        return False

    async def _claimed(self) -> bool:
        """Whether this call may try, as far as other processes are concerned."""
        loop = asyncio.get_running_loop()
        self._trying = True
        claimed = self._outages is None or loop.time() < self._leased_until
        try:
            if not claimed and self._outages is not None:
                now, lease = now_ms() + _SOON_MS, loop.time() + LEASE_S
                claimed = await self._outages.claim(self._endpoint, now, now + round(LEASE_S * 1000))
                if claimed:
                    self._leased_until = lease
        finally:
            if not claimed:
                self._trying = False
                # The other process will report how its try ended, so look again soon.
                self._try_at = loop.time() + FIRST_PAUSE_S
        return claimed

    def _leave(self, game: str) -> None:
        self._calls[game] -= 1
        if not self._calls[game]:
            del self._calls[game]
            if self._tester == game:
                self._tester, self._handed_on = None, True
                self._tell()

    def _tell(self) -> None:
        """Wakes everything that waits."""
        self._news.set()
        self._news = asyncio.Event()

    def _open(self, outage: Outage) -> None:
        self.outage = outage
        self.changes += 1
        metrics.endpoints_away.labels(self._endpoint).set(1)

    def _close(self, why: str) -> None:
        assert self.outage is not None
        seconds = round((now_ms() - self.outage.since) / 1000, 1)
        log.warning(why, endpoint=self._endpoint, after_s=seconds)
        self._failures = 0
        self._leased_until = 0.0
        self._forget()

    def _forget(self) -> None:
        self.outage = None
        self.changes += 1
        metrics.endpoints_away.labels(self._endpoint).set(0)
        self._tell()

    async def _answered(self) -> None:
        self._failures = 0
        self._failed_at.clear()
        self.answers += 1
        if self.outage is not None:
            self._close("a model endpoint answers again")
            if self._outages is not None:
                await self._outages.end(self._endpoint)

    async def _failed(self, fault: ModelUnavailable, *, tries: bool) -> None:
        if self.withdrawn:
            self.left = True
            return
        on_its_way = self.outage is not None and not tries
        self._failures += not on_its_way
        if self.outage is None and self._failures < OPEN_AFTER and fault.kind == "outage":
            if fault.spent is not None and fault.spent.latency_s >= TOLD_FROM_S:
                log.warning(
                    "a call to a model had no answer, and is made again",
                    endpoint=self._endpoint,
                    cause=str(fault),
                )
            return
        asked = fault.after_s or 0.0
        pause = asked if asked <= LONGEST_ASKED_S else 0.0
        loop = asyncio.get_running_loop()
        if on_its_way and loop.time() + pause <= self._try_at:
            return  # sent before the outage was known, it tells nothing new of it
        if not on_its_way:
            pause = max(self.pause_s(self._failures), pause)
        self._try_at = self._due_at = loop.time() + pause
        since = now_ms() if self.outage is None else self.outage.since
        outage = Outage(self._endpoint, since, fault.cause, now_ms() + round(pause * 1000))
        if self.outage is None:
            log.warning(
                "a model endpoint does not answer: what asks it waits",
                endpoint=self._endpoint,
                cause=str(fault),
            )
            self._open(outage)
        self.outage = outage
        self._leased_until = 0.0
        if self._outages is not None:
            await self._outages.put(outage)


def _loop_time(at: int) -> float:
    """Converts a time in milliseconds since 1970 to the clock of the event loop."""
    return asyncio.get_running_loop().time() + (at - now_ms()) / 1000
