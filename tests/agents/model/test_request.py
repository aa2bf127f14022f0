"""A schema as servers take it."""

import random
from typing import Any

import jsonschema
import pytest

from agents.model.request import can_be_strict, reduced, required_keys
from app.instruments.fake_model.filling import fill

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"minimum": {"type": "integer", "minimum": 1}, "kind": {"const": "vote"}},
    "required": ["minimum", "kind"],
    "additionalProperties": False,
}


def test_bounds_go_and_names_stay() -> None:
    assert reduced(CLOSED)["properties"] == {"minimum": {"type": "integer"}, "kind": {"enum": ["vote"]}}


@pytest.mark.parametrize(
    "schema",
    [
        CLOSED,
        {"type": "object", "properties": {"a": {"oneOf": [{"const": 1}, {"const": 2}]}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#/$defs/one"}, "minItems": 2, "uniqueItems": True,
         "$defs": {"one": {"enum": ["a", "b", "c"]}}},
        {"type": "object", "patternProperties": {"^a": {}}, "properties": {}, "additionalProperties": False},
    ],
)  # fmt: skip
def test_what_is_valid_stays_valid(schema: dict[str, Any]) -> None:
    for seed in range(50):
        value = fill(schema, random.Random(seed))
        jsonschema.Draft202012Validator(schema).validate(value)
        jsonschema.Draft202012Validator(reduced(schema)).validate(value)


def test_strict_is_asked_only_of_a_schema_that_allows_it() -> None:
    assert can_be_strict(CLOSED)
    assert not can_be_strict({"type": "object"})
    assert not can_be_strict({**CLOSED, "required": ["kind"]})
    assert not can_be_strict({**CLOSED, "additionalProperties": True})
    nested = {**CLOSED, "properties": {"minimum": {"type": "array", "items": {"type": "object"}}, "kind": {}}}
    assert not can_be_strict(nested)


def test_required_keys_are_those_named() -> None:
    assert required_keys(CLOSED) == {"minimum", "kind"}
    assert required_keys({}) == frozenset()
