"""Ports to serve on that nobody else takes by chance."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

__all__ = ["steady_port"]

_FIRST: Final = 10_000
_HANDED_OUT: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def steady_port() -> int:
    """A port that is free on 127.0.0.1, and likely to stay so until it is used, and between two uses.

    One that the kernel hands out is given to the next connection of anybody, too; with thousands of them a
    minute, a server that stops and starts again finds its place taken now and then.
    """
    with contextlib.suppress(OSError, ValueError):
        below = int(_HANDED_OUT.read_text("ascii").split()[0])
        for port in random.SystemRandom().sample(range(_FIRST, below), 20):
            if _is_free(port):
                return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
