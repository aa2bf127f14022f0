"""What the sockets tell Prometheus; the HTTP metrics do not see them."""

from typing import Final

from prometheus_client import Counter, Gauge

from app.metrics import REGISTRY

__all__ = ["close_label", "socket_closes", "socket_events", "socket_frames", "sockets_open"]

sockets_open = Gauge("interintent_sockets_open", "Sockets open now", registry=REGISTRY)
socket_frames = Counter(
    "interintent_socket_frames_total", "Messages over sockets", ["direction"], registry=REGISTRY
)
socket_events = Counter("interintent_socket_events_total", "Events sent over sockets", registry=REGISTRY)
socket_closes = Counter(
    "interintent_socket_closes_total", "Sockets that ended, by close code", ["code"], registry=REGISTRY
)

# What the server underneath closes with by itself; it reports them as if the peer had sent them.
_OF_THE_SERVER: Final = frozenset({1002, 1007, 1009, 1011, 1012})


def close_label(code: int) -> str:
    """The label of a close that reached us. A peer may send any of 4,000 codes; those share one label."""
    return str(code) if code in _OF_THE_SERVER else "peer"
