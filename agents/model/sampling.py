"""What a seat may ask of its model besides a temperature and a limit, from the options of its spec."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from agents.errors import InvalidAgent
from agents.model.model import SAMPLING, Sampling

__all__ = ["check_allowed", "read_sampling"]

_MOST_KEYS: Final = 20


def _top_p(value: object) -> str | None:
    fits = type(value) in (int, float) and math.isfinite(value) and 0 < value <= 1  # type: ignore[arg-type, operator]
    return None if fits else "a number above 0, to 1"


def _seed(value: object) -> str | None:
    return None if type(value) is int and abs(value) < 2**53 else "a whole number"


def _effort(value: object) -> str | None:
    fits = isinstance(value, str) and 0 < len(value) <= 32 and value.isascii() and value.isalnum()
    return None if fits else "a word such as low, medium or high"


def _body(value: object) -> str | None:
    fits = isinstance(value, Mapping) and len(value) <= _MOST_KEYS
    return None if fits else f"an object of at most {_MOST_KEYS} fields"


_WRONG: Final[Mapping[str, Callable[[object], str | None]]] = {
    "top_p": _top_p,
    "seed": _seed,
    "reasoning_effort": _effort,
    "extra_body": _body,
}
assert set(_WRONG) == set(SAMPLING)


def read_sampling(options: Mapping[str, Any]) -> tuple[Sampling, dict[str, Any]]:
    """The sampling that these options ask for, and the remaining options.

    Raises InvalidAgent with a pointer such as ``/options/top_p``.
    """
    asked = {name: value for name, value in options.items() if name in SAMPLING and value is not None}
    for name, value in asked.items():
        if expected := _WRONG[name](value):
            raise InvalidAgent(f"{name} must be {expected}, got {value!r}", f"/options/{name}")
    return Sampling(**asked), {name: value for name, value in options.items() if name not in SAMPLING}


def check_allowed(sampling: Sampling, allowed: Collection[str]) -> None:
    """Raises InvalidAgent for a field of ``extra_body`` that the endpoint does not allow seats to set."""
    for name in sampling.extra_body:
        if name not in allowed:
            named = ", ".join(sorted(allowed)) or "none"
            raise InvalidAgent(
                f"this model's endpoint allows seats no field {name!r} of requests; it allows: {named}",
                "/options/extra_body",
            )
