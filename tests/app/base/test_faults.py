"""A fault says what would have been right."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.base.faults import first_faults
from app.games.schemas import NewGames

_MODEL: Any = TypeAdapter(NewGames)


@pytest.mark.parametrize(
    ("body", "expected", "not_expected"),
    [
        ({"seed": 3}, "seeds", "fails_needed"),
        ({"rules": {"size": [2]}}, "team_sizes", "seeds"),
        ({"seeds": {"from": 1, "to": 3}}, "allowed: from", "seats"),
        ({"seats": [{"agent": "random", "name": "x"}]}, "mechanism", "seeds"),
    ],
    ids=["at the top", "in an object", "in one of several kinds", "in a list"],
)
def test_an_unknown_field_is_answered_with_the_known_ones(
    body: dict[str, Any], expected: str, not_expected: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        _MODEL.validate_python(body)
    (fault,) = first_faults(refused.value, body, _MODEL)
    assert fault["msg"].startswith("there is no such field; allowed: ")
    assert expected in fault["msg"]
    assert not_expected not in fault["msg"]
