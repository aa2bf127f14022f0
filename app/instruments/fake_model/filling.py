"""JSON that is valid under a schema: random, or as close to a draft as the schema allows."""

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["WORDS", "Span", "fill", "fitted", "spans"]

WORDS: Final = (
    "amber", "basin", "cedar", "delta", "ember", "fable", "grove", "harbour", "island", "jasper",
    "kettle", "lantern", "meadow", "nettle", "orchard", "pebble", "quarry", "ribbon", "saddle",
    "timber", "umbrella", "velvet", "willow", "yarrow", "zephyr",
)  # fmt: skip

_DEEPEST: Final = 24
_MOST_ITEMS: Final = 6
_TRIES: Final = 40


def fill(schema: Mapping[str, Any], chance: random.Random) -> Any:
    """A random value that is valid under ``schema``.

    Supports type, enum, const, anyOf, oneOf, allOf, local $ref, properties, required, items, prefixItems, and
    bounds of numbers, lengths and counts; not pattern, format and conditions.
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
    schema: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        schema = schema[part.replace("~1", "/").replace("~0", "~")]
    return schema


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> Any:
    required = schema.get("required", ())
    return {
        key: _fill(field, root, chance, depth + 1)
        for key, field in schema.get("properties", {}).items()
        if key in required or (depth < _DEEPEST // 2 and chance.random() < 0.5)
    }


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> Any:
    first: Sequence[Any] = schema.get("prefixItems", ())
    least = max(int(schema.get("minItems", 0)), len(first))
    most = int(schema.get("maxItems", least + 3))
    # Deep in a recursive schema, lists are as short as possible.
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


# --- close to a draft -----------------------------------------------------------------------------

Span = tuple[int, int]
"""The least and the most items of a list."""

_SPAN: Final = re.compile(r'"(\w+)": \[[^\[\]]*… (\d+)(?: to (\d+))?(?: of them)?\]')
_FITTING_TRIES: Final = 60


def spans(sketch: str) -> dict[str, Span]:
    """The least and the most items of each list in a sketch of an answer, by the list's field.

    An example of a sketch is ``{"team": [1|2|3, … 2 of them]}``. It is used where the schema has no bounds.
    """
    return {name: (int(low), int(high or low)) for name, low, high in _SPAN.findall(sketch)}


class _Misfit(Exception):
    """The schema does not allow the draft."""


def fitted(schema: Mapping[str, Any], draft: object, chance: random.Random, known: Mapping[str, Span]) -> Any:
    """A value that is valid under the schema and as close to ``draft`` as possible; missing parts are random.

    ``known``: lengths of lists for which the schema has no bounds. The items of a list are different, as far
    as the choices allow.
    """
    fitter = _Fitter(schema, chance, known)
    try:
        return fitter.fit(schema, draft)
    except _Misfit:
        return fitter.made_up(schema)


class _Fitter:
    def __init__(self, root: Mapping[str, Any], chance: random.Random, known: Mapping[str, Span]) -> None:
        self.root = root
        self.chance = chance
        self.known = known

    def made_up(self, schema: Mapping[str, Any]) -> Any:
        """A random value that is valid under the schema."""
        return fill({**schema, "$defs": self.root.get("$defs", {})}, self.chance)

    def fit(self, schema: Mapping[str, Any], draft: object, name: str = "") -> Any:
        """``draft`` fitted to this part of the schema. Raises _Misfit."""
        if "$ref" in schema:
            schema = self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        if "enum" in schema:
            if not any(type(choice) is type(draft) and choice == draft for choice in schema["enum"]):
                raise _Misfit
            return draft
        kind = schema.get("type")
        if kind == "object" and isinstance(draft, Mapping):
            return {
                key: self._field(field, draft, key) for key, field in schema.get("properties", {}).items()
            }
        if kind == "array" and isinstance(draft, Sequence) and not isinstance(draft, str):
            return self._list(schema, draft, name)
        if kind == "string" and isinstance(draft, str):
            return draft[: schema.get("maxLength", len(draft))]
        if kind == "boolean" and isinstance(draft, bool):
            return draft
        raise _Misfit

    def _field(self, schema: Mapping[str, Any], draft: Mapping[str, object], key: str) -> Any:
        try:
            return self.fit(schema, draft.get(key), key)
        except _Misfit:
            return self.made_up(schema)

    def _list(self, schema: Mapping[str, Any], draft: Sequence[object], name: str) -> list[Any]:
        low, high = self.known.get(name, (0, len(draft)))
        low, high = schema.get("minItems", low), schema.get("maxItems", high)
        items: list[Any] = []
        for part in draft:
            try:
                item = self._item(schema["items"], part)
            except _Misfit:
                continue
            if len(items) < high and self._differs(item, items):
                items.append(item)
        for _ in range(_FITTING_TRIES):
            if len(items) >= low:
                break
            item = self.made_up(schema["items"])
            if self._differs(item, items):
                items.append(item)
        return items

    def _item(self, schema: Mapping[str, Any], draft: object) -> Any:
        """One item of a list, fitted to the draft. Raises _Misfit if the schema does not allow the draft's
        value of an enum field: a random one would not match the rest of the item.
        """
        for key, field in schema.get("properties", {}).items():
            if "enum" in field and isinstance(draft, Mapping):
                self.fit(field, draft.get(key))
        return self.fit(schema, draft)

    def _differs(self, item: Any, items: Sequence[Any]) -> bool:
        if isinstance(item, Mapping) and "intention" in item:
            return all(other["intention"] != item["intention"] for other in items)
        return item not in items
