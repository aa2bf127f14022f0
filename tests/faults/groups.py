"""The faults, in the groups that the client promises to handle, and the set-up of games with them."""

from dataclasses import dataclass, field
from typing import Any, Final

from app.instruments.fake_model import FAULTS

__all__ = ["DIRECT", "GROUPS", "RULES_ALONE", "WAITED_FOR", "Group"]


@dataclass(frozen=True, slots=True)
class Group:
    """Similar faults, and games that show their effect."""

    faults: tuple[str, ...]
    read: bool = False
    """Whether the client recovers, so that no default is played."""
    endpoint: dict[str, Any] = field(default_factory=dict)
    """The endpoint's settings in addition to its address."""
    seat: dict[str, Any] = field(default_factory=dict)
    game: dict[str, Any] = field(default_factory=dict)


_BRISK: Final = {"attempts": 2, "timeout_s": 0.25, "total_s": 1.0, "retry_after_s": 0.05}
"""Short limits, for faults without an answer: an answer can be too late for them on a slow machine."""

RULES_ALONE: Final = {
    "profile": "official",
    "rules": {"discussion": "none", "reconsideration": False, "summaries": False, "max_rejections": 2},
}
"""A game of proposals, votes, cards and the assassination, for faults that affect all answers alike."""

_TALKING: Final = {"profile": "interintent", "rules": {"max_rejections": 1}}
"""A game with every kind of request and one attempt in each round, for faults in the content."""

DIRECT: Final = {"mechanism": "direct"}
_ONE_PASS: Final = {"mechanism": "one_pass", "options": {"repairs": 1}}


def _transport(*faults: str) -> Group:
    return Group(faults, endpoint=_BRISK, seat=DIRECT, game=RULES_ALONE)


def _answered(*faults: str) -> Group:
    return Group(faults, endpoint={"attempts": 2}, seat=DIRECT, game=RULES_ALONE)


def _content(*faults: str) -> Group:
    return Group(faults, seat=_ONE_PASS, game=_TALKING)


def _read(*faults: str) -> Group:
    return Group(faults, read=True, seat=_ONE_PASS, game=_TALKING)


def _asked(*faults: str) -> Group:
    return Group(faults, read=True, seat=DIRECT, game=RULES_ALONE)


GROUPS: Final = {
    "json_schema answered with 500": _asked("json_schema_500"),
    "response_format refused": _asked(
        "json_schema_400",
        "object_schema_400",
        "response_format_400",
        "response_format_422",
        "response_format_unsaid",
    ),
    "response_format accepted and ignored": _content("format_ignored"),
    "schema bounds refused": _asked("schema_bounds_400"),
    "schema bounds not enforced": _content("bounds_ignored"),
    "valid JSON of the wrong schema": _content("wrong_schema"),
    "lone surrogates": _content("surrogate_value", "surrogate_text"),
    "choices null or empty": _answered("choices_null", "choices_empty"),
    "usage null": _read("usage_null", "usage_missing"),
    "200 with a body that is no JSON": _transport("not_json", "malformed_body"),
    "malformed JSON": _content("malformed_content"),
    "JSON in other clothes": _read(
        "fences", "prose_around", "single_quotes", "trailing_commas", "thinking", "content_parts"
    ),
    "truncated without an error": _transport("truncated_silently", "truncated_stream"),
    "a stream nobody asked for": _asked("stream_unasked"),
    "finish_reason length in mid-JSON": _content("length"),
    "roles refused": _asked("developer_400", "system_400", "roles_400"),
    "max_tokens or temperature refused": _asked("max_tokens_400", "temperature_400"),
    "429": _transport("status_429", "status_429_seconds", "status_429_date", "status_429_huge", "quota"),
    "5xx": _transport("status_500", "status_502", "status_503"),
    "what no repetition mends": _transport("status_401", "status_404", "context_length"),
    "an error under status 200": _transport("error_200", "error_200_429"),
    "connections refused or lost": _transport("refused", "disconnect", "stale_connection"),
    "cut in mid-body": _transport("reset_mid_body", "truncated_body"),
    "silence and slow drip": _transport("silence", "silence_after_headers", "slow_drip"),
    "refusals and filters": _content("refusal", "content_filter"),
    "nothing said": _content("empty", "content_null"),
    "a 1 MB answer": _answered("huge"),
    "reasoning beside the content": _read("reasoning"),
    "orders to the reader": _content("injection"),
}

WAITED_FOR: Final = frozenset(
    {
        *("status_401", "status_404", "quota", "context_length", "error_200", "error_200_429"),
        *("status_429", "status_429_seconds", "status_429_date", "status_429_huge"),
        *("status_500", "status_502", "status_503"),
        *("refused", "disconnect", "reset_mid_body", "truncated_body"),
        *("truncated_stream", "truncated_silently", "malformed_body", "not_json"),
        *("silence", "silence_after_headers", "slow_drip"),
    }
)
"""Faults without an answer. While they affect every request, games wait or stop."""

assert sorted(fault for group in GROUPS.values() for fault in group.faults) == sorted(FAULTS)
