"""Metrics for Prometheus."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = [
    "REGISTRY",
    "append_seconds",
    "batches_driven",
    "batches_suspended",
    "events_written",
    "games_active",
    "games_created",
    "games_ended",
    "games_parked",
    "judge_faults",
    "judges_waiting",
    "method_label",
    "requests",
]

REGISTRY: Final = CollectorRegistry()

games_created = Counter(
    "interintent_games_created_total", "Games created, by origin", ["origin"], registry=REGISTRY
)
games_ended = Counter(
    "interintent_games_ended_total",
    "Games that ended in this process, by status and winner",
    ["status", "winner"],
    registry=REGISTRY,
)
games_active = Gauge("interintent_games_active", "Games being driven now", registry=REGISTRY)
games_waiting = Gauge("interintent_games_waiting", "Games waiting to be driven", registry=REGISTRY)
batches_driven = Gauge("interintent_batches_driven", "Batches this process drives now", registry=REGISTRY)
games_parked = Gauge(
    "interintent_games_parked",
    "Games that wait for a model's endpoint to answer again, without a place among those driven",
    ["endpoint"],
    registry=REGISTRY,
)
batches_suspended = Counter(
    "interintent_batches_suspended_total",
    "Batches suspended by this process until somebody resumes them, by cause",
    ["cause"],
    registry=REGISTRY,
)
events_written = Counter("interintent_events_total", "Events committed to logs", registry=REGISTRY)
append_seconds = Histogram(
    "interintent_commit_seconds",
    "Seconds a grouped commit took",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
append_group = Histogram(
    "interintent_commit_appends",
    "Appends that shared a commit",
    buckets=(1, 2, 5, 10, 20, 50),
    registry=REGISTRY,
)
judges_waiting = Gauge(
    "interintent_judges_waiting", "Judges that wait for the database in this process", registry=REGISTRY
)
judge_faults = Counter(
    "interintent_judge_faults_total",
    "Faults of the database that a judge met and waited for, by cause",
    ["cause"],
    registry=REGISTRY,
)
requests = Histogram(
    "interintent_http_seconds",
    "Seconds until a response began, by route and status",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


def method_label(method: str) -> str:
    """The label of a request's method; all unknown methods share one label."""
    return method if method in _METHODS else "other"
