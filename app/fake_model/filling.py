"""JSON that follows a schema and means nothing."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["WORDS", "fill"]

WORDS: Final = (
    "amber", "basin", "cedar", "delta", "ember", "fable", "grove", "harbour", "island", "jasper",
    "kettle", "lantern", "meadow", "nettle", "orchard", "pebble", "quarry", "ribbon", "saddle",
    "timber", "umbrella", "velvet", "willow", "yarrow", "zephyr",
)  # fmt: skip

_DEEPEST: Final = 24
_MOST_ITEMS: Final = 6
_TRIES: Final = 40


def fill(schema: Mapping[str, Any], chance: random.Random) -> Any:
    """A value that is valid under ``schema``, drawn at random.

    Understood: type, enum, const, anyOf, oneOf, allOf, local $ref, properties, required, items,
    prefixItems, and bounds of numbers, lengths and counts. Not: pattern, format, conditions.
    """
    return _fill(schema, schema, chance, 0)


def _fill(schema: Any, root: Mapping[str, Any], chance: random.Random, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return " ".join(chance.sample(WORDS, 3))  # `true` allows anything
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        return _fill(_resolved(str(schema["$ref"]), root), root, chance, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(list(schema["enum"]))
    if "allOf" in schema:
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            whole = _resolved(str(part["$ref"]), root) if "$ref" in part else part
            both = {**merged.get("properties", {}), **whole.get("properties", {})}
            required = [*merged.get("required", []), *whole.get("required", [])]
            merged |= dict(whole)
            if both:
                merged |= {"properties": both, "required": required}
        return _fill(merged, root, chance, depth + 1)
    for several in ("anyOf", "oneOf"):
        if schema.get(several):
            return _fill(chance.choice(list(schema[several])), root, chance, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    match kind:
        case "object":
            return _object(schema, root, chance, depth)
        case "array":
            return _array(schema, root, chance, depth)
        case "integer":
            low, high = _bounds(schema, 1)
            return chance.randint(math.ceil(low), max(math.ceil(low), math.floor(high)))
        case "number":
            low, high = _bounds(schema, 1e-6)
            return round(chance.uniform(low, high), 6)
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return _string(schema, chance)


def _resolved(ref: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> Any:
    required = schema.get("required", ())
    return {
        key: _fill(one, root, chance, depth + 1)
        for key, one in schema.get("properties", {}).items()
        if key in required or (depth < _DEEPEST // 2 and chance.random() < 0.5)
    }


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> Any:
    first: Sequence[Any] = schema.get("prefixItems", ())
    least = max(int(schema.get("minItems", 0)), len(first))
    most = int(schema.get("maxItems", least + 3))
    # Deep in a schema that refers to itself, lists stay as short as they may.
    most = least if depth > _DEEPEST // 3 else max(least, min(most, least + _MOST_ITEMS))
    count = chance.randint(least, most)
    items: list[Any] = []
    for _ in range(_TRIES * (count + 1)):
        if len(items) >= count:
            break
        at = len(items)
        item = _fill(first[at] if at < len(first) else schema.get("items", True), root, chance, depth + 1)
        if not schema.get("uniqueItems") or json.dumps(item) not in map(json.dumps, items):
            items.append(item)
    return items


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    low = schema.get("minimum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    high = schema.get("maximum")
    if "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - step
    if low is None:
        low = 0 if high is None else min(0, high - 10)
    return low, max(low, low + 10 if high is None else high)


def _string(schema: Mapping[str, Any], chance: random.Random) -> str:
    least = int(schema.get("minLength", 0))
    most = int(schema.get("maxLength", least + 60))
    text = " ".join(chance.choices(WORDS, k=chance.randint(2, 8)))
    while len(text) < least:
        text += " " + chance.choice(WORDS)
    text = text[:most].strip()
    return text + "x" * (least - len(text))
