"""Work that takes the event loop long is done in turns, so that everything else goes on in between."""

import asyncio
from collections import OrderedDict, deque

__all__ = ["Pace"]


BETWEEN = 4
"""Turns of the event loop from one piece of work to the next: most of what else there is takes several."""


class Pace:
    """Lets one piece of work begin at every fourth turn of the loop. Owners take turns; of one owner, who
    came first goes first. So however much of one owner waits, the work of another waits for one piece only.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By owner; whose turn is next comes first."""
        self._going = False
        self._turns = 0
        """Turns of the loop since the last piece."""

    async def turn(self, owner: str) -> None:
        """Waits until the next piece of work may begin. It should take a few milliseconds."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        if not self._going:
            self._going = True
            self._turns = 0
            loop.call_soon(self._next, loop)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._turns:
            self._turns -= 1
            loop.call_soon(self._next, loop)
            return
        while self._waiting:
            owner, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(owner)
            else:
                del self._waiting[owner]
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
                self._turns = BETWEEN - 1
                loop.call_soon(self._next, loop)
                return
        self._going = False
