"""A form's JSON Schema as servers take it."""

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["can_be_strict", "longest", "reduced", "required_keys"]

_BOUNDS: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "pattern", "format",
        "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "minProperties", "maxProperties", "patternProperties", "propertyNames",
        "dependentRequired", "dependentSchemas", "if", "then", "else", "not",
        "unevaluatedProperties", "unevaluatedItems",
        "default", "examples", "$schema", "$id", "$comment", "title",
    }
)  # fmt: skip
"""Keywords that some server refuses; without them a schema says less, and nothing false."""

_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
"""Keywords whose keys are names of the form's own, not keywords."""

_VERBATIM: Final = frozenset({"enum", "const", "required"})


def reduced(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without bounds, with ``const`` as an ``enum`` of one and ``oneOf`` as ``anyOf``.

    Everything valid under ``schema`` is valid under the result.
    """
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _BOUNDS or (key == "additionalProperties" and "patternProperties" in schema):
            continue
        if key == "const":
            out["enum"] = [value]
        elif key in _VERBATIM:
            out[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            out[key] = {name: _reduced(one) for name, one in value.items()}
        else:
            out["anyOf" if key == "oneOf" else key] = _reduced(value)
    return out


def _reduced(value: Any) -> Any:
    if isinstance(value, Mapping):
        return reduced(value)
    if isinstance(value, list | tuple):
        return [_reduced(one) for one in value]
    return value


def can_be_strict(schema: Mapping[str, Any]) -> bool:
    """Whether every object in it is closed and requires all that it has: the providers' strict mode."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        closed = schema.get("additionalProperties") is False
        if not closed or set(properties) != set(schema.get("required", ())):
            return False
    elif schema.get("type") == "object":
        return False
    return all(can_be_strict(one) for one in _below(schema))


def _below(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Any] = []
    for key, value in schema.items():
        if key in _VERBATIM:
            continue
        if key in _NAMED and isinstance(value, Mapping):
            found += value.values()
        elif isinstance(value, list | tuple):
            found += value
        else:
            found.append(value)
    return [one for one in found if isinstance(one, Mapping)]


def required_keys(schema: Mapping[str, Any]) -> frozenset[str]:
    """The keys an answer cannot do without; empty where the schema names none."""
    named = schema.get("required", ())
    return frozenset(one for one in named if isinstance(one, str))


def longest(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> int:
    """Characters of the longest JSON of a form of ours: every text in it has a bound."""
    root = schema if root is None else root
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema:
        return max(len(json.dumps(one)) for one in schema["enum"])
    match schema["type"]:
        case "object":
            named = schema["properties"].items()
            return 2 + sum(len(json.dumps(name)) + 4 + longest(one, root) for name, one in named)
        case "array":
            return 2 + int(schema["maxItems"]) * (2 + longest(schema["items"], root))
        case "boolean":
            return len("false")
        case _:
            return int(schema["maxLength"]) + 2
