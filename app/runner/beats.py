"""Beats: they tell other processes that this one works on its jobs.

They come from a thread of their own, so that a loop that is busy for seconds loses no job. If the loop has
not come round for as long as a job may be silent, it hangs, with every game that it drives: then the beats
stop and the process ends. If the whole process stood still (it was stopped, or its machine slept), it goes
on, and finds out what others took over meanwhile.

The same thread ends sessions of other processes that hold locks and have been silent for that long.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import structlog
from sqlalchemy.pool import NullPool

from app.store.db import postgres_engine
from app.store.jobs import end_silent_sessions, queries_on

__all__ = ["BEATS", "Beats", "end_process"]

log = structlog.get_logger()

BEATS: Final = 6
"""Beats in the time after which a job counts as abandoned."""

PATIENCE_S: Final = 5.0
"""Seconds that the database may take for a beat."""

HUNG: Final = 70
"""The exit status of a process that ends because its loop hangs."""


def end_process() -> None:
    """Ends this process at once, in the middle of whatever it does."""
    os._exit(HUNG)


class Beats:
    """The beats of one process."""

    def __init__(
        self,
        url: str,
        held: Callable[[], list[Any]],
        stale_s: float,
        on_hung: Callable[[], None],
        on_silence: Callable[[], None] = lambda: None,
    ) -> None:
        """``held``: gives the ids of the jobs that this process works on. ``on_hung``: called in the thread
        when the loop hangs, again and again until it comes round. ``on_silence``: called in the loop when
        the database has not answered a beat.
        """
        self._url = url
        self._held = held
        self._stale_s = stale_s
        self._on_hung = on_hung
        self._on_silence = on_silence
        self._came_round = time.monotonic()
        self._beat_at = time.monotonic()
        self._ticking: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._beating: Future[asyncio.Task[None]] = Future()
        """The task that beats, in the thread's loop."""

    @property
    def _pause_s(self) -> float:
        return self._stale_s / BEATS

    def start(self) -> None:
        self._came_round = self._beat_at = time.monotonic()
        self._ticking = asyncio.create_task(self._tick(), name="ticking")
        self._thread = threading.Thread(
            target=self._run, args=(asyncio.get_running_loop(),), name="beats", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        if self._thread is not None:
            await asyncio.to_thread(self._end, self._thread)
            self._thread = None

    def _end(self, thread: threading.Thread) -> None:
        """Ends the thread, whatever it waits for."""
        task = self._beating.result()
        task.get_loop().call_soon_threadsafe(task.cancel)
        thread.join()

    async def _tick(self) -> None:
        while True:
            self._came_round = time.monotonic()
            await asyncio.sleep(min(1.0, self._pause_s))

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._beat(loop))

    async def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._beating.set_result(task)
        while True:
            try:
                await self._beat_on()
            except Exception as fault:
                if isinstance(fault, TimeoutError):
                    loop.call_soon_threadsafe(self._on_silence)
                log.warning(
                    "cannot tell the queue that this process is alive: others will soon take over its games",
                    after_s=self._stale_s,
                    cause=type(fault).__name__,
                )
            await asyncio.sleep(min(1.0, self._pause_s))

    async def _beat_on(self) -> None:
        """Beats until the connection breaks."""
        engine = postgres_engine(self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        try:
            async with asyncio.timeout(PATIENCE_S):
                connection = await engine.connect()
            try:
                queries = queries_on((await connection.get_raw_connection()).driver_connection)
                while True:
                    if self._comes_round():
                        async with asyncio.timeout(PATIENCE_S):
                            if held := self._held():
                                await queries.update_heartbeat(held)
                            await end_silent_sessions(queries, timedelta(seconds=self._stale_s))
                    await asyncio.sleep(self._pause_s)
            finally:
                await connection.invalidate()
                await connection.close()
        finally:
            await engine.dispose()

    def _comes_round(self) -> bool:
        """Whether the loop still comes round, as far as this thread can know."""
        now = time.monotonic()
        if now - self._beat_at > self._stale_s / 2:
            # This thread stood still, too, or the database kept it: that says nothing about the loop.
            self._came_round = max(self._came_round, now)
        self._beat_at = now
        silent_s = now - self._came_round
        if silent_s <= self._stale_s:
            return True
        log.critical("this process hangs: it gives up its games and ends", for_s=round(silent_s, 1))
        self._on_hung()
        return False
