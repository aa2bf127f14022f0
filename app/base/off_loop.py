"""Runs long work in threads, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["off_loop"]

_T = TypeVar("_T")

_THREADS: Final = ThreadPoolExecutor(2, thread_name_prefix="heavy")
"""The threads. They are few, since each busy one delays the loop and keeps its input in memory."""


async def off_loop(work: Callable[..., _T], /, *arguments: object) -> _T:
    """Runs ``work`` in a thread. Returns its result, or raises its exception."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: work(*arguments))
