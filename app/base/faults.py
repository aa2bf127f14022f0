"""Where a value does not fit its model: a few places, as JSON pointers."""

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

__all__ = ["MAX_FAULTS", "beginning", "first_faults", "json_pointer"]

MAX_FAULTS: Final = 50
"""Faults that an answer names at most."""

_MAX_PART: Final = 256


def json_pointer(path: Iterable[str | int]) -> str:
    """The pointer (RFC 6901) to this place; to what holds it, where a key on the way is very long."""
    parts = takewhile(lambda part: len(part) <= _MAX_PART, map(str, path))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def first_faults(refused: ValidationError, value: Any, model: TypeAdapter[Any]) -> list[dict[str, Any]]:
    """MAX_FAULTS faults at most, of ``value`` which ``model`` refused. They never hold what was sent."""
    # Faults take many times the room of what they are about, so many are made of the beginning alone.
    if refused.error_count() > MAX_FAULTS:
        try:
            model.validate_python(beginning(value))
        except ValidationError as fewer:
            refused = fewer
        else:
            return [{"loc": (), "type": "many_faults", "msg": "much of this does not fit"}]
    faults = refused.errors(include_url=False, include_context=False, include_input=False)
    return [dict(fault) for fault in faults[:MAX_FAULTS]]


def beginning(value: Any) -> Any:
    """The value without most of its elements, where it has more than are named in any answer."""
    return _beginning(value, [2 * MAX_FAULTS])


def _beginning(value: Any, left: list[int]) -> Any:
    if not isinstance(value, dict | list):
        return value
    first = list(islice(value.items() if isinstance(value, dict) else enumerate(value), left[0]))
    left[0] -= len(first)
    inner = [(key, _beginning(item, left)) for key, item in first]
    return dict(inner) if isinstance(value, dict) else [item for _, item in inner]
