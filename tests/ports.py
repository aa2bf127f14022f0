"""Ports that no other program takes by chance."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

__all__ = ["steady_port"]

_FIRST: Final = 10_000
_HANDED_OUT: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def steady_port() -> int:
    """A port that is free on 127.0.0.1, and likely to stay free before and between its uses.

    The kernel gives a port of its own range to the next connection of any program. With thousands of
    connections a minute, a server that restarts would sometimes find such a port taken.
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
