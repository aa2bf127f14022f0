"""Prometheus metrics of models. All labels are our own names, names from the settings, or short words."""

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from app.base.metrics import REGISTRY
from app.store.call import Call

if TYPE_CHECKING:
    from agents.model.client import Attempt

__all__ = [
    "calls_in_flight",
    "calls_parked",
    "calls_reused",
    "calls_waiting",
    "endpoints_away",
    "observe_attempt",
    "observe_call",
    "places_leased",
]

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 240)

_calls = Counter(
    "interintent_model_calls_total",
    "Calls to models that were stored, by outcome: answered, unparsed (no JSON in it), or why it failed",
    ["endpoint", "step", "outcome"],
    registry=REGISTRY,
)
_tokens = Counter(
    "interintent_model_tokens_total",
    "Tokens of stored calls; kind is prompt, cached (a part of prompt), completion or reasoning (a part "
    "of completion)",
    ["endpoint", "step", "kind"],
    registry=REGISTRY,
)
_cost = Counter(
    "interintent_model_cost_total",
    "Cost of stored calls, in the currency of the configured prices",
    ["endpoint", "step"],
    registry=REGISTRY,
)
_seconds = Histogram(
    "interintent_model_seconds",
    "Seconds a call took, with all its attempts",
    ["endpoint", "step"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_attempts = Histogram(
    "interintent_model_attempt_seconds",
    "Seconds one HTTP request to a model took, by outcome",
    ["endpoint", "outcome"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
calls_reused = Counter(
    "interintent_model_answers_reused_total",
    "Stored answers that were used instead of asking again",
    ["endpoint"],
    registry=REGISTRY,
)
calls_in_flight = Gauge(
    "interintent_model_calls_in_flight", "Calls to models now", ["endpoint"], registry=REGISTRY
)
places_leased = Gauge(
    "interintent_model_places_leased",
    "How many calls this process may have in flight, out of an endpoint's limit that all processes share",
    ["endpoint"],
    registry=REGISTRY,
)
calls_parked = Gauge(
    "interintent_model_calls_parked",
    "Calls that wait for an endpoint to answer again",
    ["endpoint"],
    registry=REGISTRY,
)
endpoints_away = Gauge(
    "interintent_model_endpoint_away",
    "1 while an endpoint does not answer and its calls wait",
    ["endpoint"],
    registry=REGISTRY,
)
calls_waiting = Gauge(
    "interintent_model_calls_waiting", "Calls that wait for our own limits", ["endpoint"], registry=REGISTRY
)


def observe_attempt(attempt: "Attempt") -> None:
    """Records one HTTP request."""
    _attempts.labels(attempt.endpoint, attempt.outcome).observe(attempt.seconds)


def observe_call(call: Call) -> None:
    """Records one stored call."""
    endpoint, step, usage = call.endpoint, call.key.step, call.usage
    if call.failure is not None:
        outcome = call.failure
    else:
        outcome = "unparsed" if call.value is None else "answered"
    _calls.labels(endpoint, step, outcome).inc()
    for kind, tokens in (
        ("prompt", usage.prompt),
        ("cached", usage.cached),
        ("completion", usage.completion),
        ("reasoning", usage.reasoning or 0),
    ):
        _tokens.labels(endpoint, step, kind).inc(tokens)
    _cost.labels(endpoint, step).inc(call.cost)
    _seconds.labels(endpoint, step).observe(call.latency_s)
