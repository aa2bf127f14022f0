"""Text frames made once for all who get them, and the way past the ASGI interface to write them.

ASGI has one way to send: a coroutine that encodes, for each socket anew. A server that can write a frame
as it stands offers ``scope["extensions"][PUSH]``, a ``Push``.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["PUSH", "Push", "frame_payload", "text_frame"]

PUSH: Final = "interintent.push"

Push = Callable[[bytes], bool]
"""Writes a whole frame where the peer takes it without waiting. False: nothing was written, and the
ordinary way tells why."""


def text_frame(payload: bytes) -> bytes:
    """UTF-8 text as a server's frame: final, unmasked, not compressed (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        head = bytes((0x81, size))
    elif size < 1 << 16:
        head = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + size.to_bytes(8, "big")
    return head + payload


def frame_payload(frame: bytes) -> bytes:
    """What ``text_frame`` was given."""
    return frame[{126: 4, 127: 10}.get(frame[1], 2) :]
