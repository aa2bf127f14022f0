"""Ends tasks in an orderly way."""

import asyncio
from typing import Any

__all__ = ["end_tasks"]


async def end_tasks(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels these tasks, leaving out None, and waits until all of them have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
