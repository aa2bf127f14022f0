"""The places where a value does not fit its model, as JSON pointers."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

__all__ = ["MAX_FAULTS", "beginning", "first_faults", "json_pointer"]

MAX_FAULTS: Final = 50
"""The most faults that an answer names."""

_MAX_PART: Final = 256

_MAX_MADE: Final = 500
"""The most faults that are made in order to name some of them."""


def json_pointer(path: Iterable[str | int]) -> str:
    """The pointer (RFC 6901) for this path, cut off before a key of more than 256 characters."""
    parts = takewhile(lambda part: len(part) <= _MAX_PART, map(str, path))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def first_faults(refused: ValidationError, value: Any, model: TypeAdapter[Any]) -> list[dict[str, Any]]:
    """The first MAX_FAULTS faults of the ``value`` that ``model`` refused, without the value's text."""
    # Faults take many times the memory of their value, so if there are very many, only those of the beginning
    # are made.
    if refused.error_count() > _MAX_MADE:
        try:
            model.validate_python(beginning(value))
        except ValidationError as fewer:
            refused = fewer
        else:
            return [{"loc": (), "type": "many_faults", "msg": "much of this does not fit"}]
    faults = refused.errors(include_url=False, include_context=False, include_input=False)
    return [_shown(dict(fault), model) for fault in faults[:MAX_FAULTS]]


def _shown(fault: dict[str, Any], model: TypeAdapter[Any]) -> dict[str, Any]:
    """The fault; that of an unknown field with the names that would be known."""
    if fault["type"] == "extra_forbidden":
        names = _fields_at(model, fault["loc"][:-1])
        fault["msg"] = "there is no such field" + (f"; allowed: {', '.join(names)}" if names else "")
    return fault


@lru_cache(maxsize=256)
def _schema(model: TypeAdapter[Any]) -> dict[str, Any]:
    return model.json_schema()


def _fields_at(model: TypeAdapter[Any], loc: Sequence[str | int]) -> list[str]:
    """The names of the fields at this place of what ``model`` takes; empty if they differ by kind."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})
    for part in (None, *loc):
        if part is not None:
            schema = schema.get("items" if isinstance(part, int) else "properties", {})
            schema = schema if isinstance(part, int) else schema.get(part, {})
        while "$ref" in schema or "anyOf" in schema:
            if "$ref" in schema:
                schema = definitions[schema["$ref"].rpartition("/")[2]]
            else:
                objects = [one for one in schema["anyOf"] if one.get("type") != "null"]
                schema = objects[0] if len(objects) == 1 else {}
    return sorted(schema.get("properties", {}))


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
