"""The places where a value does not fit its model, as JSON pointers."""

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

__all__ = ["MAX_FAULTS", "beginning", "first_faults", "json_pointer"]

MAX_FAULTS: Final = 50
"""The most faults that an answer names."""

_MAX_PART: Final = 256


def json_pointer(path: Iterable[str | int]) -> str:
    """The pointer (RFC 6901) for this path, cut off before a key of more than 256 characters."""
    parts = takewhile(lambda part: len(part) <= _MAX_PART, map(str, path))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def first_faults(refused: ValidationError, value: Any, model: TypeAdapter[Any]) -> list[dict[str, Any]]:
    """The first MAX_FAULTS faults of the ``value`` that ``model`` refused, without the value's text."""
    # Faults take many times the memory of their value, so if there are many, only those of the beginning
    # are made.
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
    """The value cut to the first 2 * MAX_FAULTS of its elements, nested ones included."""
    return _beginning(value, [2 * MAX_FAULTS])


def _beginning(value: Any, left: list[int]) -> Any:
    if not isinstance(value, dict | list):
        return value
    first = list(islice(value.items() if isinstance(value, dict) else enumerate(value), left[0]))
    left[0] -= len(first)
    inner = [(key, _beginning(item, left)) for key, item in first]
    return dict(inner) if isinstance(value, dict) else [item for _, item in inner]
