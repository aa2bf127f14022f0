"""How a fake model imitates a provider: what the provider refuses, and the form in which it answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.instruments.fake_model.faults import ConnectionRefused, FaultyAnswer, format_of

__all__ = ["BEHAVIOURS", "Behaviour"]

Request = Mapping[str, Any]
Rule = Callable[[Request], ConnectionRefused | None]
Reshape = Callable[[FaultyAnswer], None]


def _nothing(answer: FaultyAnswer) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of one provider."""

    rules: tuple[Rule, ...] = ()
    """The provider's rules; the first rule that refuses a request decides."""
    reshape: Reshape = _nothing
    """Gives an answer the form of this provider's answers."""
    before: str = ""
    """The text with which a stream begins."""
    ignores_format: bool = False
    """Whether ``response_format`` is accepted but not obeyed."""
    always_counts: bool = False
    """Whether a stream includes its counts even if the request does not ask for them."""
    wrapped: bool = False
    """Whether an error comes in a list of one element."""

    def refuse(self, request: Request) -> ConnectionRefused | None:
        """The error for a request that this provider refuses; None if it accepts the request."""
        refused = next((found for rule in self.rules if (found := rule(request)) is not None), None)
        if refused is not None and self.wrapped:
            refused.body = [refused.as_json()]
        return refused


def _without(field: str, message: str, status: int = 400) -> Rule:
    """Refuses requests with this field."""
    refused = ConnectionRefused(status, message, param=field)
    return lambda request: refused if field in request else None


def _not_format(kind: str, message: str) -> Rule:
    return lambda request: ConnectionRefused(400, message) if format_of(request) == kind else None


def _not_hotter(most: float) -> Rule:
    refused = ConnectionRefused(400, f"temperature: range: 0..{most}")
    return lambda request: refused if (request.get("temperature") or 0) > most else None


def _only_temperature_one(request: Request) -> ConnectionRefused | None:
    if request.get("temperature", 1) == 1:
        return None
    message = "Unsupported value: 'temperature' does not support other values with this model."
    return ConnectionRefused(400, message, param="temperature", code="unsupported_value")


def _without_bounds(request: Request) -> ConnectionRefused | None:
    asked = json.dumps(request.get("response_format"))
    bound = next((word for word in ("maxLength", "uniqueItems") if f'"{word}"' in asked), None)
    message = f"Invalid schema for response_format: In context=(), '{bound}' is not permitted."
    return None if bound is None else ConnectionRefused(400, message, param="response_format")


def _pinned(request: Request) -> ConnectionRefused | None:
    routing = request.get("provider") or {}
    if routing.get("only") and routing.get("allow_fallbacks") is False:
        return None
    return ConnectionRefused(400, "this instrument wants one provider and no fallbacks")


def _counting(change: Callable[[dict[str, Any]], None], **more: Any) -> Reshape:
    """Changes the counts of an answer, and adds fields to its body."""

    def reshape(answer: FaultyAnswer) -> None:
        change(answer.body["usage"])
        answer.body |= more

    return reshape


def _openai(usage: dict[str, Any]) -> None:
    usage["completion_tokens_details"] = {"reasoning_tokens": 0}


def _reasoned(usage: dict[str, Any]) -> None:
    usage["completion_tokens"] += 64
    usage["total_tokens"] += 64
    usage["completion_tokens_details"] = {"reasoning_tokens": 64}


def _gemini(usage: dict[str, Any]) -> None:
    usage["total_tokens"] += 64  # its thoughts, which are in no other count
    del usage["prompt_tokens_details"]


def _deepseek(usage: dict[str, Any]) -> None:
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    usage |= {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": usage["prompt_tokens"] - cached}


def _openrouter(usage: dict[str, Any]) -> None:
    usage["cost"] = usage["total_tokens"] / 1_000_000


def _undetailed(usage: dict[str, Any]) -> None:
    usage["prompt_tokens_details"] = None


def _thinking(reshape: Reshape, *names: str) -> Reshape:
    """Makes the answer also give its reasoning, under these names."""

    def both(answer: FaultyAnswer) -> None:
        reshape(answer)
        answer.message |= dict.fromkeys(names, 'I could say {"no": 1}.')

    return both


_NO_MAX_TOKENS: Final = _without(
    "max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
)

BEHAVIOURS: Final[Mapping[str, Behaviour]] = {
    "openai": Behaviour((_without_bounds,), _counting(_openai, system_fingerprint="fp_fake")),
    "openai-reasoning": Behaviour(
        (_NO_MAX_TOKENS, _only_temperature_one, _without_bounds), _counting(_reasoned)
    ),
    "azure": Behaviour(
        (_without_bounds,),
        _counting(_openai, system_fingerprint="fp_fake"),
        before='data: {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}\n\n',
    ),
    "anthropic": Behaviour((_not_hotter(1.0),), _counting(_undetailed), ignores_format=True),
    "gemini": Behaviour(
        (
            _without("prompt_cache_key", 'Unknown name "prompt_cache_key": Cannot find field.'),
            _without_bounds,
        ),
        _counting(_gemini),
        wrapped=True,
    ),
    "deepseek": Behaviour(
        (_not_format("json_schema", "This response_format type is unavailable now"),),
        _thinking(_counting(_deepseek), "reasoning_content"),
        before=": keep-alive\n\n",
    ),
    "mistral": Behaviour(
        (_without("stream_options", "Extra inputs are not permitted: stream_options", 422), _not_hotter(1.5)),
        _counting(_undetailed),
        always_counts=True,
    ),
    "openrouter": Behaviour(
        (_pinned,),
        _thinking(_counting(_openrouter, provider="Together"), "reasoning"),
        before=": OPENROUTER PROCESSING\n\n",
    ),
    "vllm": Behaviour(reshape=_thinking(_counting(_undetailed), "reasoning_content", "reasoning")),
    "sglang": Behaviour(reshape=_counting(_undetailed)),
    "ollama": Behaviour(reshape=_counting(_undetailed, system_fingerprint="fp_ollama")),
    "llama.cpp": Behaviour(reshape=_counting(_undetailed, timings={"prompt_n": 1})),
    "lmstudio": Behaviour(
        (_not_format("json_object", "'response_format.type' must be 'json_schema' or 'text'"),),
        _counting(_undetailed, stats={}),
    ),
}
"""The imitations, by name."""
