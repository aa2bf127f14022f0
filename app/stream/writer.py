"""Sends one message over a socket at once, or not at all.

The relay of a game sends each event to thousands of sockets and must not wait for any of them. ASGI's
``send`` is a coroutine that waits while the peer does not read. Instead of starting a task for each, the
relay runs one step of the coroutine by hand: a ``send`` that need not wait finishes in it.
"""

from collections.abc import Coroutine
from typing import Any

__all__ = ["send_at_once"]


def send_at_once(sending: Coroutine[Any, Any, None]) -> bool:
    """Runs a ``send`` that need not wait. False: it would have had to wait, and nothing was sent.

    The ASGI server must wait before it writes, as uvicorn does: one that writes first could send a message
    twice. Raises what ``send`` raises.
    """
    try:
        sending.send(None)
    except StopIteration:
        return True
    sending.close()
    return False
