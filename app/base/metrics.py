"""Metrics for Prometheus."""

import asyncio
import platform
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
)

__all__ = [
    "REGISTRY",
    "append_seconds",
    "batches_driven",
    "batches_suspended",
    "database_bytes",
    "database_connections",
    "decisions_defaulted",
    "events_written",
    "game_seconds",
    "games_active",
    "games_created",
    "games_ended",
    "games_oldest",
    "games_open",
    "games_parked",
    "judge_faults",
    "judges_waiting",
    "method_label",
    "phase_seconds",
    "quota_refusals",
    "requests",
    "watch_loop",
]

REGISTRY: Final = CollectorRegistry()

ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

LOOK_S: Final = 0.5
"""Seconds between measurements of how late the event loop is."""

_build = Gauge(
    "interintent_build_info", "1; the labels say what runs", ["version", "python"], registry=REGISTRY
)
_build.labels(version("interintent-server"), platform.python_version()).set(1)
_loop_lag = Histogram(
    "interintent_loop_lag_seconds",
    "How much later than asked for the event loop ran a task; looked at twice a second",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
    registry=REGISTRY,
)


async def watch_loop() -> None:
    """Keeps recording how late the event loop is, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_S
        await asyncio.sleep(LOOK_S)
        _loop_lag.observe(max(0.0, loop.time() - due))


games_open = Gauge(
    "interintent_games_open",
    "Games in the database that are not over, by status. created: in the queue. running: begun, "
    "even if they wait for people or an endpoint. held: not begun, in a suspended batch or stepped by hand. "
    "The same in every process that serves; a worker has none",
    ["status"],
    registry=REGISTRY,
)
games_oldest = Gauge(
    "interintent_games_oldest_seconds",
    "Seconds since the oldest game of this status, as in interintent_games_open, was created; 0 if there is "
    "none. The same in every process that serves; a worker has none",
    ["status"],
    registry=REGISTRY,
)
database_bytes = Gauge(
    "interintent_database_bytes",
    "Bytes of each table with its indexes, measured at most ten minutes ago; a worker has none",
    ["table"],
    registry=REGISTRY,
)
database_connections = Gauge(
    "interintent_database_connections",
    "Connections in this process's pool for reading and writing: in_use or idle",
    ["state"],
    registry=REGISTRY,
)
game_seconds = Histogram(
    "interintent_game_seconds",
    "Seconds from the creation of a game to its end, by status, including the wait for a place",
    ["status"],
    buckets=(0.1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800),
    registry=REGISTRY,
)
phase_seconds = Histogram(
    "interintent_phase_seconds",
    "Seconds that a phase took, in games with other seats than scripts; only phases that one process drove",
    ["phase"],
    buckets=(0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 7200, 86400),
    registry=REGISTRY,
)
decisions_defaulted = Counter(
    "interintent_decisions_defaulted_total",
    "Decisions that were played by default, by cause",
    ["cause"],
    registry=REGISTRY,
)

games_created = Counter(
    "interintent_games_created_total", "Games created, by origin", ["origin"], registry=REGISTRY
)
quota_refusals = Counter(
    "interintent_quota_refusals_total",
    "Requests, sockets and calls that a quota refused, by quota",
    ["quota"],
    registry=REGISTRY,
)
games_ended = Counter(
    "interintent_games_ended_total",
    "Games that ended in this process, by status and winner",
    ["status", "winner"],
    registry=REGISTRY,
)
# A series that begins with the first failures has not risen, as Prometheus sees it.
games_ended.labels("failed", "")
games_active = Gauge("interintent_games_active", "Games being driven now", registry=REGISTRY)
games_waiting = Gauge("interintent_games_waiting", "Games waiting to be driven", registry=REGISTRY)
batches_driven = Gauge("interintent_batches_driven", "Batches this process drives now", registry=REGISTRY)
games_parked = Gauge(
    "interintent_games_parked",
    "Games that wait for a model's endpoint to answer again; they take no place among the games driven",
    ["endpoint"],
    registry=REGISTRY,
)
batches_suspended = Counter(
    "interintent_batches_suspended_total",
    "Batches that this process suspended, by cause",
    ["cause"],
    registry=REGISTRY,
)
events_written = Counter(
    "interintent_events_total",
    "Events committed to logs, by origin: played, or laid with the games of an origin",
    ["origin"],
    registry=REGISTRY,
)
# An alert on a process that plays nothing needs the series.
events_written.labels("played")
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
    "Database faults that made a judge wait, by cause",
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
