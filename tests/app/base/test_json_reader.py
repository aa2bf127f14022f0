"""The strict JSON reader reports the first forbidden text at the same place as a simple, slow reader."""

import json
import random
from typing import Any

import pytest

from app.base.errors import InvalidRequest, Unparsable
from app.base.faults import json_pointer
from app.base.json_reader import MAX_ELEMENTS, read_json

LETTERS = [r"\\", r"\"", "a", "b", "u0001", "é", r"\n", r"\t", r"\u0041", r"\ud83d\ude00", "/", " "]
CONTROLS = [r"\b", r"\f", r"\r", r"\u0000", r"\u001f", r"\u007F", "\x7f"]

REFUSED = {*range(32), 127} - {9, 10}
REFUSED_IN_RECORDS = {0}

LONE = range(0xD800, 0xE000)
ALL_LETTERS = [*LETTERS, r"\\\\\\", r"\\\"", r"\\ud83d", r"\u3042", "x" * 30, "9" * 20]
ALL_FAULTS = [*CONTROLS, r"\ud800", r"\uDFFF"]


class Members(list[tuple[str, Any]]):
    """An object's members in their order."""


def text(chance: random.Random) -> str:
    taken = [chance.choice(LETTERS) for _ in range(chance.choice([0, 1, 3, 8, 40]))]
    if chance.random() < 0.15:
        taken.insert(chance.randint(0, len(taken)), chance.choice(CONTROLS))
    return f'"{"".join(taken)}"'


def value(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    if depth > 3 or kind < 0.4:
        return text(chance)
    if kind < 0.5:
        return chance.choice(["1", "1e5", "null", "true"])
    if kind < 0.75:
        return f"[{','.join(value(chance, depth + 1) for _ in range(chance.randrange(4)))}]"
    members = {
        json.loads(name, strict=False): name for name in (text(chance) for _ in range(chance.randrange(4)))
    }
    return f"{{{','.join(f'{name}:{value(chance, depth + 1)}' for name in members.values())}}}"


def first_refused(node: Any, refused: set[int], path: tuple[str | int, ...] = ()) -> tuple[str, str] | None:
    """(sentence, pointer) of the first character that is not taken. A key counts where its object stands."""
    if isinstance(node, Members):
        for name, member in node:
            for character in name:
                if ord(character) in refused:
                    return _told("a key: ", character, path)
            if found := first_refused(member, refused, (*path, name)):
                return found
    elif isinstance(node, list):
        for index, element in enumerate(node):
            if found := first_refused(element, refused, (*path, index)):
                return found
    elif isinstance(node, str):
        for character in node:
            if ord(character) in refused:
                return _told("", character, path)
    return None


def _told(key: str, character: str, path: tuple[str | int, ...]) -> tuple[str, str]:
    kind = "lone surrogate" if ord(character) in LONE else "control character"
    sentence = f"{key}text takes no {kind}, got U+{ord(character):04X}"
    return sentence, json_pointer(list(path))


@pytest.mark.parametrize("beginning", ["", r"\"\\" * 3_000, r"\n" * 3_000, "x" * 6_000])
@pytest.mark.parametrize("record", [False, True])
def test_the_first_control_character_is_named_with_its_place(record: bool, beginning: str) -> None:
    chance = random.Random(f"{record} {beginning[:2]}")
    named = 0
    for _ in range(400):
        body = f'["{beginning}",{value(chance)}]'.encode()
        expected = first_refused(
            json.loads(body, object_pairs_hook=Members), REFUSED_IN_RECORDS if record else REFUSED
        )
        if expected is None:
            assert read_json(body, record=record) == json.loads(body)
            continue
        named += 1
        with pytest.raises(InvalidRequest) as refused:
            read_json(body, record=record)
        assert (str(refused.value), refused.value.pointer) == expected, body
    assert named > (10 if record else 80)


def test_the_first_fault_of_a_long_text_is_named_wherever_it_stands() -> None:
    # Long texts are read in pieces, which must not be cut within an escape, and the pointer is of the whole.
    chance = random.Random(11)
    for size in (3_000, 30_000, 60_000) * 20:
        letters = chance.choices(ALL_LETTERS, [chance.random() ** 8 for _ in ALL_LETTERS], k=size)
        key = "".join(letters[: chance.choice([0, 5, 2_000])])
        for faults in (0, 0, 1, 1, 2):
            places = [chance.randrange(len(letters)) for _ in range(faults)]
            told = list(letters)
            for place in places:
                told[place] = chance.choice(ALL_FAULTS)
            cut = chance.randrange(len(told))
            text = f'[{{"_{key}":["{"".join(told[:cut])}",[],"{"".join(told[cut:])}"],"b":1e3}}]'
            body = text.encode()
            refused = REFUSED | set(LONE)
            sent = json.loads(body, object_pairs_hook=Members)
            expected = first_refused(sent, refused)
            if expected is None:
                assert read_json(body) == json.loads(body)
                continue
            with pytest.raises(InvalidRequest) as found:
                read_json(body)
            assert (str(found.value), found.value.pointer) == expected


@pytest.mark.parametrize("colon", [r"\u003a", r"\u003A"])
def test_a_repeated_key_is_noticed_beside_an_escaped_colon(colon: str) -> None:
    with pytest.raises(Unparsable, match="an object repeats a key"):
        read_json(b'{"a":1,"a":"%b"}' % colon.encode())


def test_an_object_has_as_many_members_as_are_allowed_and_no_more() -> None:
    members = [b'"%d":0' % member for member in range(MAX_ELEMENTS + 1)]
    assert len(read_json(b"{%b}" % b",".join(members[1:]))) == MAX_ELEMENTS
    with pytest.raises(InvalidRequest, match="got 50,001"):
        read_json(b"{%b}" % b",".join(members))
