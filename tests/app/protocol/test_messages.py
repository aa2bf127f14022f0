"""What a client sends on the socket, read without a server."""

from typing import Any

import pytest

from app.base.errors import InvalidRequest
from app.protocol.messages import Act, Ping, message_id, read_answer, read_message
from engine.errors import InvalidAction

ACT: dict[str, Any] = {"t": "act", "id": "a1", "request_id": "1.1.vote.1", "action": {"approve": True}}


@pytest.mark.parametrize("value", [None, True, 7, "act", ["t", "act"], []])
def test_a_message_and_an_answer_are_objects(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="a message is a JSON object"):
        read_message(value)
    with pytest.raises(InvalidRequest, match="an answer is a JSON object"):
        read_answer(value)
    assert message_id(value) is None


@pytest.mark.parametrize("tag", [None, "", "Act", "hello", 1, ["act"], {"t": "act"}])
def test_a_message_says_of_which_kind_it_is(tag: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_message({**ACT, "t": tag})
    assert refused.value.pointer == "/t"


@pytest.mark.parametrize(
    ("member", "detail", "pointer"),
    [
        ({"\x01": 0}, "a key: text takes no control character, got U+0001", ""),
        ({"x": {"\x7f": 0}}, "a key: text takes no control character, got U+007F", "/x"),
        ({"x": [0, "\ud800"]}, "text takes no lone surrogate, got U+D800", "/x/1"),
        ({"a/b": "\x00"}, "text takes no control character, got U+0000", "/a~1b"),
    ],
)
def test_a_forbidden_character_is_reported_with_its_place(
    member: dict[str, Any], detail: str, pointer: str
) -> None:
    for of, fault in (({"t": "ping", "id": "p1"}, InvalidRequest), (ACT, InvalidAction)):
        with pytest.raises(fault) as refused:
            read_message({**of, **member})
        assert (str(refused.value), refused.value.pointer) == (detail, pointer)  # type: ignore[attr-defined]
    with pytest.raises(InvalidAction) as refused:
        read_answer({"action": {}, **member})
    assert (str(refused.value), refused.value.pointer) == (detail, pointer)


def test_the_action_and_the_thoughts_are_left_for_the_reader_of_the_request() -> None:
    later = {"action": {"text": "\x01", "\x01": 0}, "thoughts": ["\ud800"]}
    read = read_message({**ACT, **later})
    assert isinstance(read, Act)
    assert (read.action, read.thoughts) == (later["action"], later["thoughts"])
    assert read_answer(later).thoughts == later["thoughts"]
    assert read_answer({"action": {}}).thoughts == []


@pytest.mark.parametrize("action", [None, [], "approve", 1])
def test_an_action_is_an_object(action: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_message({**ACT, "action": action})
    assert refused.value.pointer == "/action"
    with pytest.raises(InvalidRequest) as refused:
        read_answer({"action": action})
    assert refused.value.pointer == "/action"


def test_an_id_has_1_to_64_characters() -> None:
    for name in ("p", "p" * 64):
        assert message_id({"id": name}) == name
        assert read_message({"t": "ping", "id": name}) == Ping(t="ping", id=name)
    for wrong in ("", "p" * 65, 7, None, ["p"], "a\x01"):
        assert message_id({"id": wrong}) is None
        with pytest.raises(InvalidRequest) as refused:
            read_message({"t": "ping", "id": wrong})
        assert refused.value.pointer == "/id"
