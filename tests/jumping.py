"""An event loop whose clock stands still while any task works, and jumps ahead when all tasks wait."""

import asyncio
import selectors
from typing import Any

__all__ = ["JumpingLoop"]


class JumpingLoop(asyncio.SelectorEventLoop):
    """Sleeps of hours end at once, in the right order, and seconds are exact on any machine.

    It suits code that waits only for time and tasks. The peer of a socket would have no time to answer.
    """

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(None)
        self._loop.now += max(0.0, timeout)
        return super().select(0)
