"""Work that takes longer than a moment, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["off_loop"]

_T = TypeVar("_T")

_THREADS: Final = ThreadPoolExecutor(2, thread_name_prefix="heavy")
"""Few: each that computes makes the loop wait for its turn, and holds what it works on in memory."""


async def off_loop(work: Callable[..., _T], /, *arguments: object) -> _T:
    """What ``work`` gives or raises, while the loop goes on with other things."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: work(*arguments))
