"""Limits on an endpoint's requests, at once and per minute. Waits are fair and safe to cancel."""

import asyncio
import math
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["AdaptiveLimit", "Bucket", "Parallel", "RateLimits", "Slot", "Slots"]

BURST_S: Final = 5.0
"""A bucket holds as much as flows in during this many seconds: short bursts pass, and no minute exceeds its
limit by more than 1/12.
"""

LOOK_S: Final = 0.25
"""The longest that a waiting caller sleeps before it looks whether its share of a rate has changed."""


class Bucket:
    """Hands out ``per_minute`` units a minute, first come, first served."""

    def __init__(self, per_minute: float, share: float = 1.0) -> None:
        """``share``: the part of the rate that this process may use, in [0, 1]; see ``divide``."""
        self._whole = per_minute / 60
        self._rate = self._capacity = 0.0
        self._set(share)
        self._level = self._capacity if share else 0.0
        self._filled: float | None = None
        self._turn = asyncio.Lock()

    def _set(self, share: float) -> None:
        self._rate = self._whole * share
        self._capacity = max(1.0, self._rate * BURST_S)

    def divide(self, share: float, *, full: bool = False) -> None:
        """Replaces this process's share of the rate. What was saved up goes with a share that is given up,
        and nothing comes with one that is gained, so all processes together never exceed the limit. ``full``:
        nobody else has used the rate lately, so the bucket is full.
        """
        self._fill()
        before = self._rate
        self._set(share)
        if full:
            self._level = self._capacity
        elif self._rate < before:
            self._level = min(self._level, self._level * self._rate / before)

    async def take(self, amount: float) -> None:
        """Waits for ``amount`` units. Units beyond the bucket's size are lent; later callers wait longer."""
        async with self._turn:
            while (missing := min(amount, self._capacity) - self._fill()) > 1e-9:  # noqa: ASYNC110 - time is what fills it
                await asyncio.sleep(min(LOOK_S, missing / self._rate) if self._rate else LOOK_S)
            self._level -= amount

    def give(self, amount: float) -> None:
        """Gives back reserved units that were not used. A negative amount means that more was used than was
        reserved.
        """
        self._level = min(self._capacity, self._level + amount)

    def _fill(self) -> float:
        now = asyncio.get_running_loop().time()
        since = 0.0 if self._filled is None else now - self._filled
        self._filled = now
        self._level = min(self._capacity, self._level + since * self._rate)
        return self._level


@dataclass(slots=True)
class Slot:
    """Permission to send one request."""

    waited_s: float
    """Seconds spent waiting for these limits."""
    used: int | None = None
    """Tokens that the request used, once known."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """How many requests may be in flight: ``4-20-100`` begins with 20 and adapts between 4 and 100.

    A single number is both the beginning and the most; the least is then 1.
    """

    least: int
    first: int
    most: int

    @classmethod
    def read(cls, text: int | str) -> "Parallel":
        """Reads one number, or three numbers joined by ``-``. Raises ValueError for anything else, for zero,
        and for numbers that fall.
        """
        parts = str(text).split("-")
        if len(parts) not in (1, 3) or not all(part.isdecimal() and len(part) < 6 for part in parts):
            raise ValueError("parallel must be a number such as 16, or three such as 4-20-100")
        numbers = [int(part) for part in parts]
        least, first, most = numbers if len(numbers) == 3 else (1, *numbers, *numbers)
        if not 1 <= least <= first <= most:
            raise ValueError("the numbers of parallel must be 1 or more, and must not fall")
        return cls(least, first, most)


class AdaptiveLimit:
    """How much may be in flight at once, as far as the server can bear it: N becomes N + 1 after N answers,
    and half as many when a request is turned away.

    A limit that several processes share begins without any place. Whoever leases places for this process
    calls ``grant``, and asks ``report`` what has happened since: how the limit adapts is decided for all
    processes together, except that a process uses half of its own places at once after a request was turned
    away.
    """

    def __init__(self, parallel: Parallel, on_short: Callable[[], None] | None = None) -> None:
        """``on_short``: called when somebody begins to wait for a place, or wants a first one. None: this
        process alone uses the endpoint.
        """
        self.bounds = parallel
        self.on_short = on_short
        self.on_share: list[Callable[[float, bool], None]] = []
        """Called with this process's new share of the rates, and whether nobody else has used them lately."""
        self.share = 1.0 if on_short is None else 0.0
        """The part of the endpoint's rates that this process may use, in [0, 1]."""
        self.owners: Mapping[str, int] = {}
        """How many of the places are each owner's, where several processes divide them; empty: equal
        parts."""
        self._places = parallel.first if on_short is None else 0
        self._until = math.inf
        """Until when the places may be used, in the event loop's time."""
        self._reported: float = math.inf
        """What was said to be in flight, while the answer is awaited."""
        self._answers = 0
        self._lowered_at = -math.inf
        self._turned_away: float | None = None
        """When the last request was sent that was turned away and is not reported yet."""
        self.calls = Slots(self)
        """One queue for everybody who hands calls in, to however many clients."""
        self._slots = [self.calls]

    @property
    def now(self) -> int:
        """How much may be in flight now."""
        if self._until != math.inf and asyncio.get_running_loop().time() >= self._until:
            return 0
        return self._places if self._reported == math.inf else min(self._places, int(self._reported))

    @property
    def used(self) -> int:
        """How much is in flight."""
        return max(slots.used for slots in self._slots)

    @property
    def wanted(self) -> int:
        """How much would be in flight without this limit."""
        return max(slots.used + slots.waiting for slots in self._slots)

    @property
    def wanted_by_owner(self) -> dict[str, int]:
        """The same by owner, of those who say whose calls theirs are."""
        return self.calls.by_owner()

    def slots(self) -> "Slots":
        """Another queue of slots, as many as this limit says at any time. What one queue has handed out,
        another does not count.
        """
        self._slots.append(Slots(self))
        return self._slots[-1]

    def resize(self, parallel: Parallel) -> None:
        """Replaces the bounds. A limit that is not shared then starts again."""
        if parallel != self.bounds:
            self.bounds = parallel
            if self.on_short is None:
                self._places = parallel.first
                self._hand_out()

    def tell(self) -> int:
        """How much is in flight. No more will be until the next ``grant``: whoever divides the places gives
        the others what was free.
        """
        reported = self.used
        self._reported = reported
        return reported

    def grant(
        self,
        places: int,
        share: float,
        until: float,
        *,
        fresh: bool = False,
        owners: Mapping[str, int] | None = None,
    ) -> None:
        """Sets the places and the share of the rates that this process may use, until a time of the event
        loop. ``fresh``: no other process has used the endpoint lately. ``owners``: how many of the places are
        each owner's; equal parts are, if it is left out.
        """
        self._places, self._until, self._reported = places, until, math.inf
        self.owners = owners or {}
        if share != self.share or fresh:
            self.share = share
            for on_share in self.on_share:
                on_share(share, fresh)
        self._hand_out()

    def report(self) -> tuple[int, float | None]:
        """The answers since the last report, and how many seconds ago the last request was sent that was
        turned away since then; None: none was.
        """
        answers, self._answers = self._answers, 0
        sent_at, self._turned_away = self._turned_away, None
        return answers, None if sent_at is None else asyncio.get_running_loop().time() - sent_at

    def answered(self) -> None:
        """Counts an answer."""
        self._answers += 1
        if self.on_short is None and self._answers >= self._places and self._places < self.bounds.most:
            self._places += 1
            self._answers = 0
            self._hand_out()

    def turned_away(self, sent_at: float) -> None:
        """Halves the limit, unless it was halved after this request was sent: many requests that are turned
        away together count once. ``sent_at``: in the event loop's time.
        """
        if sent_at > self._lowered_at:
            self._places = max(min(self.bounds.least, self._places), self._places // 2)
            self._lowered_at = asyncio.get_running_loop().time()
            self._answers = 0
            self._turned_away = sent_at

    def _hand_out(self) -> None:
        for slots in self._slots:
            slots.hand_out()


class Slots:
    """Hands out the slots of a limit. The next one is of the owner that has the fewest in proportion to its
    part of the limit; of owners with equally many, and of the groups of callers of one owner, each has its
    turn. Within a group, first come, first served.
    """

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self.used = 0
        self.waiting = 0
        self._used_by: Counter[str] = Counter()
        """How many slots each owner has."""
        self._queues: OrderedDict[str, OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()
        """Those who wait, by owner and group; whose turn is next comes first."""

    @asynccontextmanager
    async def turn(self, group: str = "", owner: str = "") -> AsyncIterator[None]:
        """Holds a slot while the block lasts."""
        await self._take(owner, group)
        try:
            yield
        finally:
            self._release(owner)

    def by_owner(self) -> dict[str, int]:
        """How many slots each owner would have without the limit."""
        wanted = Counter(self._used_by)
        for owner, groups in self._queues.items():
            wanted[owner] += sum(map(len, groups.values()))
        return {owner: count for owner, count in wanted.items() if count > 0}

    async def _take(self, owner: str, group: str) -> None:
        if self.used < self._limit.now and not self.waiting:
            self._give(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, OrderedDict()).setdefault(group, deque()).append(turn)
        self.waiting += 1
        if self.waiting == 1 and self._limit.on_short is not None:
            self._limit.on_short()
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._release(owner)
            else:
                self._leave(owner, group, turn)
            raise

    def _leave(self, owner: str, group: str, turn: asyncio.Future[None]) -> None:
        groups = self._queues.get(owner, OrderedDict())
        queue = groups.get(group, ())
        if turn in queue:  # else `hand_out` has passed over it already
            self.waiting -= 1
            groups[group].remove(turn)
            if not queue:
                del groups[group]
            if not groups:
                del self._queues[owner]

    def _give(self, owner: str) -> None:
        self.used += 1
        self._used_by[owner] += 1

    def _release(self, owner: str) -> None:
        self.used -= 1
        self._used_by[owner] -= 1
        if not self._used_by[owner]:
            del self._used_by[owner]
        self.hand_out()

    def _share_used(self, owner: str) -> float:
        """How many slots the owner uses, as a share of its part: the lowest comes first. An owner without a
        part comes after those that have slots left in theirs.
        """
        part = self._limit.owners.get(owner, 0) if self._limit.owners else 1
        return self._used_by[owner] / part if part else 1.0 + self._used_by[owner]

    def hand_out(self) -> None:
        """Lets in those who wait, as far as the limit allows now."""
        while self.waiting and self.used < self._limit.now:
            owner = min(self._queues, key=self._share_used)
            groups = self._queues[owner]
            group, queue = next(iter(groups.items()))
            self._leave(owner, group, turn := queue[0])
            if turn.cancelled():
                continue  # its task has not run since
            if queue:
                groups.move_to_end(group)
            if groups:
                self._queues.move_to_end(owner)
            self._give(owner)
            turn.set_result(None)


class RateLimits:
    """The limits of one endpoint. They belong to the event loop that first waits for them."""

    def __init__(
        self, parallel: AdaptiveLimit, requests: float | None = None, tokens: float | None = None
    ) -> None:
        self.parallel = parallel
        self._slots = parallel.slots()
        self._requests = None if requests is None else Bucket(requests, parallel.share)
        self._tokens = None if tokens is None else Bucket(tokens, parallel.share)
        parallel.on_share.append(self._divide)
        self._paused_until = -math.inf

    def _divide(self, share: float, fresh: bool) -> None:
        for bucket in (self._requests, self._tokens):
            if bucket is not None:
                bucket.divide(share, full=fresh)

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """Holds one of the parallel slots while the block lasts.

        ``tokens`` is the most that the request may use; unused tokens are returned at the end.
        """
        loop = asyncio.get_running_loop()
        asked = loop.time()
        # Wait for the slot first: units of a rate must be used at once, not after waiting in a queue.
        async with self._slots.turn():
            if self._requests is not None:
                await self._requests.take(1)
            if self._tokens is not None:
                await self._tokens.take(tokens)
            slot = Slot(loop.time() - asked)
            try:
                yield slot
            finally:
                if self._tokens is not None and slot.used is not None:
                    self._tokens.give(tokens - slot.used)

    def pause(self, seconds: float) -> None:
        """Delays the next request of all callers, because the server asked for a pause."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def paused_s(self) -> float:
        """Seconds left of the pause that the server asked for."""
        return max(0.0, self._paused_until - asyncio.get_running_loop().time())
