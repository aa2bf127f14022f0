"""Runs tasks together, and ends them in an orderly way."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

__all__ = ["end_tasks", "run_together"]


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
