"""Sends one message over a socket at once, or not at all.

The relay of a game sends each event to thousands of sockets and may wait for none of them. ASGI's ``send`` is
a coroutine that waits while the peer does not read. Instead of a task for each, the relay runs the coroutine
by hand: one step, in which a ``send`` that need not wait is finished.
"""

from collections.abc import Coroutine
from typing import Any

__all__ = ["send_at_once"]


def send_at_once(sending: Coroutine[Any, Any, None]) -> bool:
    """Runs a ``send`` that need not wait. False: it would have had to, and nothing was sent.

    The server has to wait before it writes, as uvicorn does: with one that writes first, a message could be
    sent a second time. Raises what ``send`` raises.
    """
    try:
        sending.send(None)
    except StopIteration:
        return True
    sending.close()
    return False
