"""What a model says aloud is read out of its answer while the answer is still being written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.replies import proposal_shape, speech_shape, vote_shape
from agents.model.completion import CompletionReader
from agents.model.overhearing import SpokenText, spoken_path

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def overheard(text: str, path: tuple[str, ...], size: int = 1) -> str:
    spoken = SpokenText(path)
    return "".join(spoken.feed(text[place : place + size]) for place in range(0, len(text), size))


@given(
    before=st.dictionaries(st.text(max_size=6), VALUES, max_size=4),
    said=st.text(max_size=40),
    after=st.dictionaries(st.text(max_size=6), VALUES, max_size=2),
    size=st.integers(1, 9),
    ascii_=st.booleans(),
    lead=st.sampled_from(["", "\n", "```json\n", '<think>a {"speak": "no"} plan</think>\n']),
    indent=st.sampled_from([None, 2]),
)
def test_the_speech_is_read_whatever_stands_around_it_and_however_it_is_cut(
    before: dict[str, Any],
    said: str,
    after: dict[str, Any],
    size: int,
    ascii_: bool,
    lead: str,
    indent: int | None,
) -> None:
    for path in (("speak",), ("final", "speak")):
        inner: Any = said
        for name in reversed(path[1:]):
            inner = {"think": before, name: inner, "last": after}
        others = {name: value for name, value in before.items() if name != path[0]}
        answer = {**others, path[0]: inner, **{n: v for n, v in after.items() if n not in (*others, path[0])}}
        text = lead + json.dumps(answer, ensure_ascii=ascii_, indent=indent)
        assert overheard(text, path, size) == said


def test_drafts_and_thoughts_are_not_overheard() -> None:
    answer = {
        "draft": {"think": "plan", "speak": "a draft"},
        "reading": {"speak": 1},
        "final": {"speak": "Hi"},
    }
    assert overheard(json.dumps(answer), ("final", "speak")) == "Hi"
    assert overheard(json.dumps({"then": {"speak": "later"}, "vote": "agree"}), ()) == ""
    assert overheard("no object at all", ("speak",)) == ""
    assert overheard('{"speak": "\\ud83d\\ude00 \\ud83d!"}', ("speak",)) == "😀 !"


def test_the_place_of_a_speech_is_read_from_the_form() -> None:
    assert spoken_path(speech_shape("refinement").form.schema) == ("speak",)
    assert spoken_path(proposal_shape("propose", 2, 5, talks=True).form.schema) == ("speak",)
    assert spoken_path(proposal_shape("propose", 2, 5, talks=False).form.schema) == ()
    assert spoken_path(vote_shape().form.schema) == ()
    final = {"properties": {"draft": {}, "final": {"properties": {"speak": {}}}}}
    assert spoken_path(final) == ("final", "speak")


@pytest.mark.parametrize("streams", [True, False])
def test_a_reader_lets_pieces_be_heard_as_they_come(streams: bool) -> None:
    heard: list[str] = []
    reader = CompletionReader("m", on_text=heard.append)
    pieces = ['{"speak": "He', "llo", ' all"}']
    if streams:
        chunks = [{"choices": [{"delta": {"reasoning_content": "hidden"}}]}]
        chunks += [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
        # Some servers send the whole message once more.
        chunks.append({"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": "stop"}]})
        for count, chunk in enumerate(chunks):
            reader.feed(f"data: {json.dumps(chunk)}\n\n".encode())
            assert len(heard) == min(count, len(pieces))
        assert heard == pieces
    else:
        message = {"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": "stop"}]}
        reader.feed(json.dumps(message).encode())
        reader.end()
        assert heard == []
