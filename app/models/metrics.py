"""Prometheus metrics of models. All labels are our own names, names from the settings, or short words."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from app.base.metrics import REGISTRY

__all__ = [
    "attempt_seconds",
    "call_cost",
    "call_seconds",
    "call_tokens",
    "calls",
    "calls_in_flight",
    "calls_parked",
    "calls_reused",
    "calls_waiting",
    "endpoints_away",
    "places_leased",
]

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 240)

calls = Counter(
    "interintent_model_calls_total",
    "Calls to models that were stored, by outcome: answered, unparsed (no JSON in it), or why it failed",
    ["endpoint", "step", "outcome"],
    registry=REGISTRY,
)
call_tokens = Counter(
    "interintent_model_tokens_total",
    "Tokens of stored calls; kind is prompt, cached (a part of prompt), completion or reasoning (a part "
    "of completion)",
    ["endpoint", "step", "kind"],
    registry=REGISTRY,
)
call_cost = Counter(
    "interintent_model_cost_total",
    "Cost of stored calls, in the currency of the configured prices",
    ["endpoint", "step"],
    registry=REGISTRY,
)
call_seconds = Histogram(
    "interintent_model_seconds",
    "Seconds a call took, with all its attempts",
    ["endpoint", "step"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
attempt_seconds = Histogram(
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
