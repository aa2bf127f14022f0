"""Cursors: a valid one holds a place that fits its columns, and every other text is refused."""

import base64
import json
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, Integer, String

from app.base.errors import InvalidRequest
from app.store.cursors import next_cursor, read_cursor, write_cursor
from engine.errors import CorruptLog

PLACE: dict[str, Column[Any]] = {
    "created_at": Column("created_at", BigInteger),
    "number": Column("number", Integer),
    "game_id": Column("game_id", String),
}


def cursor(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def is_refused(text: str) -> bool:
    try:
        read_cursor(text, PLACE)
    except InvalidRequest as refused:
        return refused.pointer == "/cursor"
    return False


@pytest.mark.parametrize("values", [[0, 0, ""], [2**53 - 1, 2**31 - 1, "g_?>~"], [17, 4, "x" * 100]])
def test_a_place_comes_back_as_it_was_given_and_fits_into_an_address(values: list[Any]) -> None:
    text = write_cursor(*values)
    assert text.replace("-", "a").replace("_", "a").isalnum()
    assert read_cursor(text, PLACE) == values


@pytest.mark.parametrize(
    "values",
    [
        [2**53, 0, "g"],
        [0, 2**31, "g"],
        [-1, 0, "g"],
        [0, -1, "g"],
        [True, 0, "g"],
        [0.0, 0, "g"],
        ["0", 0, "g"],
        [0, 0, 7],
        [0, 0, None],
        [0, 0, "é"],
        [0, 0, "g\0"],
        [0, 0],
        [0, 0, "g", 0],
        [],
        {"created_at": 0, "number": 0, "game_id": "g"},
        "0,0,g",
        7,
        None,
    ],
)
def test_a_cursor_that_does_not_fit_the_columns_is_refused(values: Any) -> None:
    assert is_refused(cursor(values))


@pytest.mark.parametrize(
    "text", ["", "=", "!", "WzAs", "a" * 5, "WzAsMCwiZyJd\n", " WzAsMCwiZyJd", "[0,0]", "é"]
)
def test_an_invalid_cursor_is_refused(text: str) -> None:
    assert is_refused(text)


def row(*values: Any) -> Any:
    return {**dict(zip(PLACE, values, strict=True)), "status": "finished"}


def test_the_next_page_begins_after_the_last_row() -> None:
    rows = [row(5, 1, "g_a"), row(6, 2, "g_b")]
    assert read_cursor(next_cursor(rows, PLACE), PLACE) == [6, 2, "g_b"]


def test_the_next_page_begins_after_the_last_row_whose_place_is_sound() -> None:
    rows = [row(5, 1, "g_a"), row(6, 2, "g_b"), row(7, 3, object()), row(-1, 4, "g_d")]
    assert read_cursor(next_cursor(rows, PLACE), PLACE) == [6, 2, "g_b"]
    with pytest.raises(CorruptLog):
        next_cursor(rows[2:], PLACE)
