"""The strict JSON reader reports the first forbidden text at the same place as a simple, slow reader."""

import json
import random
import re
import tracemalloc
from itertools import repeat
from typing import Any

import pytest

from app.base import json_reader
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


def nested(chance: random.Random, depth: int) -> str:
    """A value with white space between its parts, and with brackets, commas and quotes in its texts."""

    def space() -> str:
        return chance.choice(["", "", "", " ", "\n", "\t \r"])

    def between(parts: list[str]) -> str:
        return space() + f"{space()},{space()}".join(parts) + space()

    kind = chance.choice(["text", "scalar", "array", "object"]) if depth else "scalar"
    if kind == "text":
        letters = [*LETTERS, "[", "]", "{", "}", ",", ":", "[]", r"\\\""]
        return f'"{"".join(chance.choices(letters, k=chance.choice([0, 1, 4, 30])))}"'
    if kind == "scalar":
        return chance.choice(["0", "-1.5e3", "true", "null"])
    parts = [nested(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == "array":
        return f"[{between(parts)}]"
    members = [f'"{number}{chance.choice(LETTERS)}"{space()}:{part}' for number, part in enumerate(parts)]
    return f"{{{between(members)}}}"


def size_of(value: Any) -> tuple[int, int, int]:
    """(elements of arrays, members of objects, depth)."""
    if not isinstance(value, list | dict):
        return 0, 0, 0
    parts = [size_of(part) for part in (value.values() if isinstance(value, dict) else value)]
    elements, members, depth = map(list, zip(*parts, strict=True)) if parts else ([], [], [])
    own = (0, len(value)) if isinstance(value, dict) else (len(value), 0)
    return own[0] + sum(elements), own[1] + sum(members), 1 + max(depth, default=0)


def test_elements_and_members_are_counted_exactly_whatever_stands_in_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(12)
    kinds = set()
    for _ in range(4_000):
        body = f"[{nested(chance, 7)},{nested(chance, 5)}]"
        elements, members, depth = size_of(json.loads(body))
        most, deepest = chance.choice([1, 5, 20]), chance.choice([3, 32])
        monkeypatch.setattr(json_reader, "MAX_ELEMENTS", most)
        monkeypatch.setattr(json_reader, "_PIECE", chance.choice([1, 2, 5, 70]))
        monkeypatch.setattr(json_reader, "_SAMPLES", chance.choice([1, 32]))
        monkeypatch.setattr(json_reader, "_BEGINNINGS", chance.choice([(1, 3, 9), (2_048,)]))
        if depth > deepest:
            expected = f"arrays and objects nest at most {deepest} deep"
        elif elements > most:
            expected = f"a body has at most {most} elements, got {elements}"
        elif members > most:
            expected = f"a body has at most {most} members of objects, got {members}"
        else:
            assert read_json(body.encode(), max_depth=deepest) == json.loads(body)
            kinds.add("taken")
            continue
        kinds.add(re.sub(r"[0-9]+", "", expected))
        with pytest.raises((InvalidRequest, Unparsable)) as refused:
            read_json(body.encode(), max_depth=deepest)
        assert str(refused.value) == expected, body
    assert len(kinds) == 4


TOO_MANY = {
    "arrays": "[],",
    "deep arrays": "[" * 30 + "]" * 30 + ",",
    "objects": '{"a":{}},',
    "objects in each other": '{"a":' * 30 + "0" + "}" * 30 + ",",
    "numbers": "0,",
    "texts": r'"\"",',
}


ENDS = ["0]", '"', "x]", r'"\ud800"]', "1e999]", r'"\u0000"]', '{"a":0,"a":0}]']
STARTS = ["[", '["', r'["\",["', '["[{,",']


@pytest.mark.parametrize("many", TOO_MANY.values(), ids=TOO_MANY)
def test_no_object_is_made_of_a_body_of_too_many_elements(many: str) -> None:
    # Nor of one that does not end, or whose texts begin where others end.
    for start, end in [*zip(repeat("["), ENDS), *zip(STARTS, repeat("0]"))]:
        body = (start + many * (700_000 // len(many)) + end).encode()
        tracemalloc.start()
        with pytest.raises((InvalidRequest, Unparsable)):
            read_json(body)
        room = tracemalloc.get_traced_memory()[1] / len(body)
        tracemalloc.stop()
        assert room < 14, (start, end)  # orjson reserves 12 bytes a byte; a number takes 4 more, an array 20


def test_what_comes_before_the_many_is_refused_first() -> None:
    many = "[]," * (MAX_ELEMENTS + 1)
    for start, told in (
        (r'["\ud800",', "no lone surrogate"),
        ("[1e999,", "too large for a double"),
        ("[NaN,", "NaN is no number"),
        ("[?,", "Expecting value"),
        ("[],", "Extra data"),
    ):
        with pytest.raises((InvalidRequest, Unparsable), match=told):
            read_json(f"{start}{many}0]".encode())
    for end in (r'"\ud800"]', "1e999]", "NaN]", "?", "0]]"):
        with pytest.raises(InvalidRequest, match=r"at most 50,000 elements, got 50,00[12]"):
            read_json(f"[{many}{end}".encode())
    with pytest.raises(Unparsable, match="not UTF-8"):
        read_json(f'[{many}"'.encode() + b'\xff"]')


TOKENS = ["true", "false", "null", "-0", "1.5e-10", "1E+300", "0." + "3" * 100, "7" * 128]
TOKENS += ['"abc"', '"é€😀"', r'"\ud83d\ude00"', r'"\u0041\n\"\\"', '"[{,"', '{"é":{"":[]}}', "[ 1 , {} ]"]


def test_sound_json_is_read_wherever_its_beginning_is_cut_off() -> None:
    # Faults are looked for in the first 2,048 bytes before the rest is.
    for token in TOKENS:
        for begin in range(2_048 - len(token.encode()), 2_049):
            for start, member, end in (("[", "", "]"), ('{"a":', '"b":', "}")):
                body = f'{start}"{"x" * (begin - len(start) - 3)}",{member}{token}{" " * 20_000}{end}'
                assert (read := body.encode()).index(token.encode()) == begin + len(member)
                assert read_json(read) == json.loads(body)


@pytest.mark.parametrize(
    "fault", ["?", "nul ", "01", "1.e", '"\t\x01"', r'"\x"', r'"\ud800"', "1e999", "[1 2]", "{a:1}"]
)
def test_a_fault_near_the_beginning_is_named_as_in_a_short_body(fault: str) -> None:
    for before in ("", "[" + "0," * 999, '{"a":"' + "é" * 999 + '","b":'):
        short = f"{before}{fault}".encode()
        with pytest.raises((InvalidRequest, Unparsable)) as expected:
            read_json(short + b"   ")
        for behind in (b"[" * 200_000, b'"' * 200_000, b" " * 200_000, b"\n,[]" * 90_000):
            with pytest.raises(type(expected.value)) as refused:
                read_json(short + b"   " + behind)
            assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize(
    "body", [b"\x80" * 300_000, b'["' + b"\xf0\x9f\x98" * 90_000, b"[" * 20_000 + b"\xff"]
)
def test_what_is_not_utf8_is_refused_whatever_its_bytes(body: bytes) -> None:
    with pytest.raises(Unparsable, match=r"the body is not UTF-8 at byte|invalid JSON|nest at most"):
        read_json(body)


def test_a_body_has_as_many_members_as_elements() -> None:
    def body(members: int) -> bytes:
        return json.dumps([{f"k{n}": 0 for n in range(members - 9)}, [{"a": 0}] * 9, "x" * 500_000]).encode()

    assert len(read_json(body(MAX_ELEMENTS))[0]) == MAX_ELEMENTS - 9
    with pytest.raises(InvalidRequest, match="at most 50,000 members of objects, got 50,001"):
        read_json(body(MAX_ELEMENTS + 1))


@pytest.mark.parametrize("spaces", range(9))
def test_an_integer_of_more_than_64_bits_is_exact_on_either_side_of_zero(spaces: int) -> None:
    for number in (2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 1 - 10**19, -(2**64)):
        assert read_json(b" " * spaces + b"[%d, 0.5]" % number) == [number, 0.5]


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_every_control_character_is_refused_as_an_escape(number: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"U\+{number:04X}"):
        read_json(rb'["\u%04x"]' % number)


def test_a_repeated_key_is_refused_beside_a_lone_surrogate_that_is_let_through() -> None:
    assert read_json(rb'{"a":"\ud800","b":1}', check_text=False) == {"a": "\ud800", "b": 1}
    with pytest.raises(Unparsable, match="an object repeats a key"):
        read_json(rb'{"a":"\ud800","a":1}', check_text=False)


def test_a_long_text_of_surrogate_pairs_is_read_wherever_it_is_cut_into_pieces() -> None:
    for more in range(20):
        text = "\U0001f600" * (20_000 + more) + "\n"
        assert read_json(json.dumps([text]).encode()) == [text]
