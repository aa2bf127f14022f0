"""The known traits of providers, so that no request has to find them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agents.model.capability import Capability, Format

__all__ = ["PROVIDERS", "UNKNOWN", "Provider", "ProviderTraits"]

Provider = Literal[
    "openai", "azure", "anthropic", "gemini", "deepseek", "mistral", "openrouter",
    "vllm", "sglang", "ollama", "llama.cpp", "lmstudio",
]  # fmt: skip


_EVERYTHING: Final = Capability()


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """The traits of one provider. Its refusals still teach the ladder what else a model does not accept."""

    begin: Capability = _EVERYTHING
    """The most that its models are asked for."""
    timeout_s: float = 60.0
    """The seconds for which it may send nothing."""
    hottest: float = 2.0
    """The highest temperature that it accepts."""
    cache_key: str | None = None
    """The field of a request for a key by which the provider finds the beginning of a prompt in its cache."""
    marks: bool = False
    """Whether it caches only what ``cache_control`` marks."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are added to every request."""


UNKNOWN: Final = ProviderTraits()

_SILENT_S: Final = 300.0
"""The silence allowed to models that reason without sending anything, and to engines that first load a model
or read a long prompt.
"""

PROVIDERS: Final[Mapping[Provider, ProviderTraits]] = {
    "openai": ProviderTraits(
        Capability(Format.REDUCED, limit="max_completion_tokens"), _SILENT_S, cache_key="prompt_cache_key"
    ),
    "azure": ProviderTraits(
        Capability(Format.REDUCED, limit="max_completion_tokens"), _SILENT_S, cache_key="prompt_cache_key"
    ),
    "anthropic": ProviderTraits(Capability(Format.PLAIN), _SILENT_S, hottest=1.0, marks=True),
    "gemini": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
    "deepseek": ProviderTraits(Capability(Format.OBJECT), _SILENT_S),
    "mistral": ProviderTraits(Capability(Format.REDUCED, counts=False), hottest=1.5),
    "openrouter": ProviderTraits(
        Capability(Format.REDUCED), _SILENT_S, cache_key="session_id", body={"usage": {"include": True}}
    ),
    "vllm": ProviderTraits(),
    "sglang": ProviderTraits(),
    "ollama": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
    "llama.cpp": ProviderTraits(timeout_s=_SILENT_S, body={"cache_prompt": True}),
    "lmstudio": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
}
