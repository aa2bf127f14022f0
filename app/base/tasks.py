"""Runs tasks together, and ends them in an orderly way."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import structlog

__all__ = ["end_tasks", "keep_going", "run_together"]

log = structlog.get_logger()

AGAIN_S: Final = 1.0
"""Seconds until work that failed unexpectedly begins again."""


def keep_going(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> "asyncio.Task[None]":
    """Starts work that lasts as long as the service does. An error that the work itself does not expect is
    logged, and the work begins again a second later.
    """

    async def lasting() -> None:
        while True:
            try:
                return await work()
            except Exception:
                log.exception("a part of the service failed and begins again", part=name)
            await asyncio.sleep(AGAIN_S)

    return asyncio.create_task(lasting(), name=name)


async def run_together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs these, at least one, side by side until all have returned or one has raised; then the others are
    cancelled, and the error is raised.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await end_tasks(*tasks)
    for task in done:
        task.result()


async def end_tasks(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels these tasks, leaving out None, and waits until all of them have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
