"""Prometheus metrics of sockets and remote seats; the HTTP metrics do not cover sockets."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from app.base.metrics import REGISTRY

__all__ = [
    "answer_seconds",
    "answers",
    "answers_accepted",
    "close_label",
    "deadlines_missed",
    "frames_in",
    "frames_out",
    "requests_open",
    "socket_closes",
    "socket_events",
    "sockets_open",
    "stand_ins",
]

sockets_open = Gauge("interintent_sockets_open", "Sockets open now", registry=REGISTRY)
socket_frames = Counter(
    "interintent_socket_frames_total", "Messages over sockets", ["direction"], registry=REGISTRY
)
frames_in, frames_out = socket_frames.labels("in"), socket_frames.labels("out")
socket_events = Counter("interintent_socket_events_total", "Events sent over sockets", registry=REGISTRY)
socket_closes = Counter(
    "interintent_socket_closes_total", "Sockets that ended, by close code", ["code"], registry=REGISTRY
)

requests_open = Gauge(
    "interintent_remote_requests_open", "Requests that wait for a remote seat here", registry=REGISTRY
)
answers = Counter(
    "interintent_remote_answers_total",
    "Answers of remote seats: accepted, duplicate, or the code of their refusal",
    ["outcome"],
    registry=REGISTRY,
)
answers_accepted = answers.labels("accepted")
deadlines_missed = Counter(
    "interintent_remote_deadlines_missed_total",
    "Requests to remote seats that were closed at their deadline",
    registry=REGISTRY,
)
stand_ins = Counter(
    "interintent_stand_ins_total",
    "Remote seats that a stand-in took over, since they were absent",
    registry=REGISTRY,
)
answer_seconds = Histogram(
    "interintent_remote_answer_seconds",
    "Seconds from the opening of a request to the acceptance of its answer",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600),
    registry=REGISTRY,
)

# The ASGI server closes with these codes by itself, and reports them as if the peer had sent them.
_SERVER_CODES: Final = frozenset({1002, 1007, 1009, 1011, 1012})


def close_label(code: int) -> str:
    """The label of a close that was received. A peer may send any of 4,000 codes: they share one label."""
    return str(code) if code in _SERVER_CODES else "peer"
