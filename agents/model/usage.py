"""Reads a provider's counts of tokens, which OpenAI, Anthropic, DeepSeek, Gemini and OpenRouter name
differently.
"""

from collections.abc import Mapping
from typing import Any, Final

from agents.model.model import Usage

__all__ = ["read_charge", "read_usage"]

_MOST_TOKENS: Final = 10**9
"""Larger counts are ignored."""

_MOST_COST: Final = 10**6


def read_usage(counts: Any) -> Usage | None:
    """The counts as ``Usage``; None if they are missing, or if they claim that the prompt took no tokens.

    The completion is ``max(completion, total - prompt)``: some providers leave the reasoning out of the
    completion and count it in the total only. Reasoning that exceeds this completion is in neither count, and
    is added.
    """
    if not isinstance(counts, Mapping):
        return None
    prompt, cached = _prompt(counts)
    written = _first(counts, "completion_tokens", "output_tokens", "candidatesTokenCount")
    whole = _first(counts, "total_tokens", "totalTokenCount")
    if not prompt or (written is None and whole is None):
        return None
    completion = max(written or 0, (whole or 0) - prompt)
    reasoning = _reasoning(counts)
    if reasoning is None:
        reasoning = completion - written if written is not None and completion > written else None
    elif reasoning > completion:
        completion += reasoning
    return Usage(
        prompt, min(cached, prompt), completion, known=True, reasoning=reasoning, cost=read_charge(counts)
    )


def _prompt(counts: Mapping[str, Any]) -> tuple[int | None, int]:
    """The prompt's tokens, and how many of them were cached. Anthropic counts cached tokens separately."""
    prompt = _first(counts, "prompt_tokens", "promptTokenCount")
    read = _first(counts, "cache_read_input_tokens")
    if prompt is None:
        prompt = _first(counts, "input_tokens")
        if prompt is not None and "input_tokens_details" not in counts:
            prompt += (read or 0) + (_first(counts, "cache_creation_input_tokens") or 0)
    cached = _detail(counts, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    for other in (
        _first(counts, "prompt_cache_hit_tokens", "cached_tokens", "cachedContentTokenCount"),
        read,
    ):
        cached = other if not cached and other is not None else cached
    if prompt is not None and read is not None and read > prompt:
        # More tokens than the prompt has cannot be a part of it, so they were counted separately.
        prompt += read
    return prompt, cached or 0


def _reasoning(counts: Mapping[str, Any]) -> int | None:
    detail = _detail(counts, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    return _first(counts, "reasoning_tokens", "thoughtsTokenCount") if detail is None else detail


def read_charge(counts: Any) -> float | None:
    """The provider's charge, including the upstream charge to a key of the caller's own; None if there is
    none. It may stand beside counts of tokens that cannot be used.
    """
    if not isinstance(counts, Mapping):
        return None
    cost = _amount(counts.get("cost"))
    details = counts.get("cost_details")
    if counts.get("is_byok") is True and isinstance(details, Mapping):
        upstream = _amount(details.get("upstream_inference_cost"))
        cost = cost if upstream is None else (cost or 0.0) + upstream
    return _amount(counts.get("estimated_cost")) if cost is None else cost


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_COST else None  # neither holds for NaN


def _first(counts: Mapping[str, Any], *names: str) -> int | None:
    return next((count for name in names if (count := _count(counts.get(name))) is not None), None)


def _detail(counts: Mapping[str, Any], groups: tuple[str, ...], name: str) -> int | None:
    details = (counts.get(group) for group in groups)
    return next((_count(group.get(name)) for group in details if isinstance(group, Mapping)), None)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_TOKENS else None
