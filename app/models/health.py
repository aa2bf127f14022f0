"""Whether a model endpoint answers, as far as this process has seen.

While it does not, its calls wait together, and one at a time tries again, after growing pauses. An outage
costs games nothing but time, and an endpoint that comes back is not overrun.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from agents.model.model import ModelUnavailable
from app.base.clock import now_ms
from app.models import metrics

__all__ = ["EndpointHealth", "Outage"]

log = structlog.get_logger()

OPEN_AFTER: Final = 3
"""Calls in a row without an answer after which all calls of the endpoint wait."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Bounds of the pause between two tries; each is twice the one before, and drawn from its upper half."""


RECENT: Final = 20
"""The latest answers by which an endpoint is judged."""

LONGEST_ASKED_S: Final = 24 * 3600.0
"""The longest pause that a server may ask for; who asks for more is tried like one who asks for none."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Since when an endpoint does not answer, and why."""

    endpoint: str
    since: int
    """ms"""
    cause: str
    """As in ``ModelUnavailable``."""


class EndpointHealth:
    """One endpoint's. Belongs to one event loop."""

    def __init__(self, endpoint: str, jitter: Callable[[], float] = random.random) -> None:
        self.outage: Outage | None = None
        """None: the endpoint answers."""
        self.answers = 0
        """Calls that were answered so far."""
        self._recent = deque[bool](maxlen=RECENT)
        """Whether each of the latest answers could be used, oldest first."""
        self._endpoint = endpoint
        self._jitter = jitter
        self._failures = 0
        self._try_at = 0.0
        self._trying = False
        self._news = asyncio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Holds the permission to make one call while the block lasts. Waits while the endpoint does not
        answer, unless it is time for a try and nobody else tries.

        A ModelUnavailable that leaves the block counts as a failure unless it lies in the request or the
        answer; a block that ends otherwise without an exception counts as an answer.
        """
        tries = await self._wait()
        try:
            yield
        except ModelUnavailable as fault:
            if fault.kind in ("request", "answer"):
                self._answered()
            else:
                self._failed(fault)
            raise
        else:
            self._answered()
        finally:
            if tries:
                self._trying = False
                self._tell()

    def read(self, *, usable: bool) -> None:
        """Takes note whether a new answer could be used."""
        self._recent.append(usable)

    @property
    def unusable(self) -> tuple[int, int]:
        """How many of the latest answers could not be used, and of how many: at most RECENT."""
        return self._recent.count(False), len(self._recent)

    def pause_s(self, failures: int) -> float:
        """How long a call pauses after so many failures in a row."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
        return longest * (1 + self._jitter()) / 2

    async def _wait(self) -> bool:
        """Returns whether the caller is the one that tries."""
        while self.outage is not None:
            left = self._try_at - asyncio.get_running_loop().time()
            if left <= 0 and not self._trying:
                self._trying = True
                return True
            try:
                async with asyncio.timeout(None if self._trying else left):
                    await self._news.wait()
            except TimeoutError:
                pass
        return False

    def _tell(self) -> None:
        """Wakes all that wait."""
        self._news.set()
        self._news = asyncio.Event()

    def _answered(self) -> None:
        self._failures = 0
        self.answers += 1
        if self.outage is not None:
            seconds = round((now_ms() - self.outage.since) / 1000, 1)
            log.info("a model endpoint answers again", endpoint=self._endpoint, after_s=seconds)
            self.outage = None
            metrics.endpoints_away.labels(self._endpoint).set(0)
            self._tell()

    def _failed(self, fault: ModelUnavailable) -> None:
        self._failures += 1
        if self.outage is None:
            if self._failures < OPEN_AFTER and fault.kind == "outage":
                return
            self.outage = Outage(self._endpoint, now_ms(), fault.cause)
            metrics.endpoints_away.labels(self._endpoint).set(1)
            log.warning(
                "a model endpoint does not answer: its games wait", endpoint=self._endpoint, cause=str(fault)
            )
        asked = fault.after_s or 0.0
        pause = max(self.pause_s(self._failures), asked if asked <= LONGEST_ASKED_S else 0.0)
        self._try_at = asyncio.get_running_loop().time() + pause
