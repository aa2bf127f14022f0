"""The JSON in an answer, where there is no doubt which it is."""

import json
import time
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.answer import MAX_INTEGER, NO_VALUE, clean, find_value, read_json

VOTE = {"approve": True, "reason": 'it\'s "fine"', "seats": [1, 2]}
TEXT = json.dumps(VOTE)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}```",
        f"Sure, here it is:\n{TEXT}\nAnything else?",
        f"The set {{1, 2}} and {{as asked}}: {TEXT}",
        f"{TEXT} I repeat: {TEXT}",
        f"<think>{{\"approve\": false}}, or not?</think>{TEXT}",
        f"perhaps {{\"approve\": false}}</think>\n{TEXT}",
        repr(VOTE),
        "{approve: true, reason: 'it\\'s \"fine\"', seats: [1, 2,],}",
        '{"approve": true, // yes\n "reason": "it\'s \\"fine\\"", /* both */ "seats": [1, 2]}',
        '{"approve": True, "reason": "it\'s \\"fine\\"", "seats": [1, 2]}',
        '{"approve": true, "approve": true, "reason": "it\'s \\"fine\\"", "seats": [1, 2]}',
    ],
)  # fmt: skip
def test_an_object_is_found_however_it_is_wrapped(text: str) -> None:
    assert find_value(text) == VOTE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON here",
        TEXT[:-1],
        TEXT[: len(TEXT) // 2],
        f"first {TEXT}, then {TEXT[:-4]}",
        f'{{"vote": {TEXT}',  # what stands in an object that was cut short is not the answer
        f'{{"vote": {TEXT} oops}}',
        '{"approve": true} or {"approve": false}',
        '{"approve": 1} or {"approve": true}',
        '{"approve": true, "approve": false}',
        '{"a": NaN}',
        '{"a": 1e999}',
        f'{{"a": {MAX_INTEGER + 1}}}',
        '{"a": ' + "9" * 5000 + "}",
        "{'a': 'it's'}",
        "<think>" + TEXT,
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 100 + "1" + "}" * 100,
        "{'",
        '{"a": "\\',
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(text: str) -> None:
    assert find_value(text) is None


@pytest.mark.parametrize("run", ["\n", " ", " \n", "\r\n"])
def test_a_fence_that_is_never_closed_is_read_in_the_time_of_its_length(run: str) -> None:
    # Sixteen times the white space: a pattern that tries every end for every beginning takes the third power.
    def cost(length: int) -> float:
        text = f"```\n{(run * length)[:length]}x"
        times = []
        for _ in range(5):
            begun = process_time()
            assert find_value(text) is None
            times.append(process_time() - begun)
        return min(times)

    assert cost(640) < 40 * max(cost(40), 1e-5)
    assert find_value(f"```json{run}\n{run * 99}{TEXT}{run * 99}```") == VOTE


def test_of_several_objects_the_one_with_the_required_keys_counts() -> None:
    text = 'Given {"seat": 1}, I say {"approve": true}.'
    assert find_value(text) is None
    assert find_value(text, {"approve"}) == {"approve": True}
    assert find_value(text, {"missing"}) is None


@pytest.mark.parametrize(("text", "value"), [("[1, 2]", [1, 2]), ("7", 7), ('"yes"', "yes"), ("null", None)])
def test_a_text_that_is_json_as_a_whole_is_read_whatever_it_is(text: str, value: Any) -> None:
    assert find_value(text) == value


def test_a_line_break_within_a_string_is_one() -> None:
    assert find_value('{"a": "one\ntwo\tthree"}') == {"a": "one\ntwo\tthree"}


def test_strings_and_keys_can_be_stored_whatever_was_escaped() -> None:
    assert find_value('{"a\\ud800": "b\\udc00\\u0000\\ud83d\\ude00"}') == {
        "a\ufffd": "b\ufffd\ufffd\U0001f600"
    }
    assert find_value('{"\\ud800": 1, "\\udc00": 2}') is None  # the same key, once cleaned


@given(st.text(st.characters()) | st.text("\ud83d\ude00\ud800a\0"))
def test_a_clean_text_can_be_encoded_and_is_clean(text: str) -> None:
    once = clean(text)
    once.encode()
    assert "\0" not in once
    assert clean(once) == once


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text().map(clean),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=5).map(clean), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_every_json_value_is_read_as_it_is(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@given(st.dictionaries(st.text("abc", min_size=1), JSON))
def test_an_object_in_prose_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert find_value(f"I think: {json.dumps(value)} That is all.") == value


@given(st.text("{}[]\"':,a1 \\tn/*\ntrue", max_size=60))
def test_no_text_breaks_the_search_and_json_is_never_read_differently(text: str) -> None:
    found = find_value(text)
    json.dumps(found)
    if read_json(text) is not NO_VALUE:
        assert found == read_json(text)


@pytest.mark.parametrize(
    "piece", ["{", '{"a":', "{'a':[", "{a:", '"', "'", "/*", "{/*", "\\", "{} ", '{"a":1} x ']
)
def test_half_a_megabyte_of_anything_takes_ten_times_a_tenth_of_it(piece: str) -> None:
    def seconds(size: int) -> float:
        before = time.process_time()
        find_value(piece * (size // len(piece)))
        return time.process_time() - before

    # Ten times as much; were each character to look at all the others, a hundred times.
    tenth = max(0.005, *(seconds(50_000) for _ in range(3)))
    assert min(seconds(500_000) for _ in range(3)) < 40 * tenth
