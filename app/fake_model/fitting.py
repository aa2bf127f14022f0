"""What is meant to be said, made to follow a schema: kept where it fits, made up where it does not."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.fake_model.filling import fill

__all__ = ["Span", "fitted", "spans"]

Span = tuple[int, int]
"""How many items a list takes, at least and at most."""

_SPAN: Final = re.compile(r'"(\w+)": \[[^\[\]]*… (\d+)(?: to (\d+))?(?: of them)?\]')
_TRIES: Final = 60


def spans(sketch: str) -> dict[str, Span]:
    """The lengths of lists by the name of their field, out of a form in short such as
    ``{"team": [1|2|3, … 2 of them]}``: what a schema may say whose bounds were taken out.
    """
    found = {}
    for name, low, high in _SPAN.findall(sketch):
        found[name] = (int(low), int(high or low))
    return found


class _Misfit(Exception):
    """The wish is none of what the schema allows."""


def fitted(schema: Mapping[str, Any], wish: object, chance: random.Random, known: Mapping[str, Span]) -> Any:
    """A value of the schema, as near to ``wish`` as it allows; what has no wish is drawn at random.

    ``known``: lengths of lists where the schema names none. Items of a list are different from each
    other, as far as choices go.
    """
    fitter = _Fitter(schema, chance, known)
    try:
        return fitter.fit(schema, wish)
    except _Misfit:
        return fitter.made_up(schema)


class _Fitter:
    def __init__(self, root: Mapping[str, Any], chance: random.Random, known: Mapping[str, Span]) -> None:
        self.root = root
        self.chance = chance
        self.known = known

    def made_up(self, schema: Mapping[str, Any]) -> Any:
        """Any value of the schema."""
        return fill({**schema, "$defs": self.root.get("$defs", {})}, self.chance)

    def fit(self, schema: Mapping[str, Any], wish: object, name: str = "") -> Any:
        """``wish`` under this part of the schema. Raises _Misfit."""
        if "$ref" in schema:
            schema = self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        if "enum" in schema:
            if not any(type(one) is type(wish) and one == wish for one in schema["enum"]):
                raise _Misfit
            return wish
        kind = schema.get("type")
        if kind == "object" and isinstance(wish, Mapping):
            return {key: self._field(one, wish, key) for key, one in schema.get("properties", {}).items()}
        if kind == "array" and isinstance(wish, Sequence) and not isinstance(wish, str):
            return self._list(schema, wish, name)
        if kind == "string" and isinstance(wish, str):
            return wish[: schema.get("maxLength", len(wish))]
        if kind == "boolean" and isinstance(wish, bool):
            return wish
        raise _Misfit

    def _field(self, schema: Mapping[str, Any], wish: Mapping[str, object], key: str) -> Any:
        try:
            return self.fit(schema, wish.get(key), key)
        except _Misfit:
            return self.made_up(schema)

    def _list(self, schema: Mapping[str, Any], wish: Sequence[object], name: str) -> list[Any]:
        low, high = self.known.get(name, (0, len(wish)))
        low, high = schema.get("minItems", low), schema.get("maxItems", high)
        items: list[Any] = []
        for one in wish:
            try:
                item = self._item(schema["items"], one)
            except _Misfit:
                continue
            if len(items) < high and self._differs(item, items):
                items.append(item)
        for _ in range(_TRIES):
            if len(items) >= low:
                break
            item = self.made_up(schema["items"])
            if self._differs(item, items):
                items.append(item)
        return items

    def _item(self, schema: Mapping[str, Any], wish: object) -> Any:
        """An item whose choices are all wished for: half a wish in a list is none."""
        for key, one in schema.get("properties", {}).items():
            if "enum" in one and isinstance(wish, Mapping):
                self.fit(one, wish.get(key))
        return self.fit(schema, wish)

    def _differs(self, item: Any, items: Sequence[Any]) -> bool:
        if isinstance(item, Mapping) and "intention" in item:
            return all(one["intention"] != item["intention"] for one in items)
        return item not in items
