"""What a log records of the agent that plays a seat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ALIAS", "SeatedAgent"]

ALIAS: Final = "model_alias"
"""The parameter that holds the batch's own name of a model seat's model, if it is not its endpoint's."""


@dataclass(frozen=True, slots=True)
class SeatedAgent:
    """One seat's agent, in plain JSON values."""

    agent: str
    """Its kind, e.g. ``llm``, ``scripted`` or ``remote``."""
    endpoint: str | None
    """The name of its model's endpoint; None: it asks no endpoint."""
    model: str | None
    """The model's name, as configured for the endpoint; None: no model, or recorded answers."""
    parameters: Mapping[str, Any]
    """Its options. For a language model every parameter, defaults included, with the steps of a turn and the
    name (``prompts``) and hash (``prompts_hash``) of its templates."""
