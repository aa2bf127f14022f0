"""Bodies cost nothing until the sender is known, and little afterwards."""

import gc
import itertools
import json
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.routing import BaseRoute

from app.base.errors import InvalidRequest, TooLarge, Unparsable
from app.base.faults import MAX_FAULTS, beginning, first_faults, json_pointer
from app.base.json_reader import MAX_ANSWER, MAX_ELEMENTS, MAX_RECORD, read_json
from app.base.problem_kinds import PROBLEMS
from app.base.schemas import Strict
from app.edge import bodies
from app.edge.auth import OPERATOR, hash_of, new_key
from app.edge.bodies import BodyRoute, Bounds
from app.evaluations.schemas import NewEvaluation
from app.games import service
from app.main import create_app
from app.protocol.messages import message_id, read_message, read_text, refusal, refusal_text
from app.store import log
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from engine.errors import InvalidAction
from engine.terms import FULL
from tests.app.calling import NAMES, PROJECT, Caller, calling, problem
from tests.app.real_server import local_settings

KEY = "ik_" + "k" * 43


async def ask(
    app: FastAPI, method: str, path: str, receive: Callable[[], Awaitable[Any]], **headers: str
) -> int:
    """The status of an answer, with nothing between the caller and the application."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *((k.encode(), v.encode()) for k, v in headers.items())],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def poisoned() -> Any:
    raise AssertionError("a byte of the body was asked for")


def whole(body: bytes) -> Callable[[], Awaitable[Any]]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def routes(of: Any) -> Iterator[BaseRoute]:
    """Every route of an application, those of included routers too."""
    for route in of.routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from routes(inner)


def unguarded(of: Any) -> list[str]:
    """Routes that could read a body before they know who sends it."""
    return [
        route.path for route in routes(of) if isinstance(route, APIRoute) and not isinstance(route, BodyRoute)
    ]


def taking(app: FastAPI) -> list[str]:
    """The paths that document a body."""
    return [
        path for path, methods in app.openapi()["paths"].items() if "requestBody" in methods.get("post", ())
    ]


OPEN = "/claims"
"""The one route that anybody may send a body to, and a small one: a code is its own credential."""


def test_no_route_reads_a_body_but_through_the_guard() -> None:
    app = create_app(local_settings("sqlite:///unused.db"))
    assert unguarded(app) == []
    found = {route.path for route in routes(app) if isinstance(route, BodyRoute) and route.takes_body}
    assert found == set(taking(app))
    assert len(found) >= 8
    # And one that forgets it is found.
    forgetful = APIRouter()
    forgetful.add_api_route("/forgotten", lambda wish: None, methods=["POST"])
    app.include_router(forgetful)
    assert unguarded(app) == ["/forgotten"]


async def test_a_body_is_not_read_before_route_credential_and_scope_are_checked(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=KEY) as caller:
        app = caller.app
        useless = new_key()
        key = ApiKey("k_1", "useless", hash_of(useless), ("metrics:read",), 1)
        await KeyStore(caller.services.database).add(key)
        good = {"authorization": f"Bearer {KEY}"}
        for path in [path.format(**NAMES) for path in taking(app) if path != OPEN]:
            # Who may answer for no seat is not told whether the game exists.
            refused = 404 if path.endswith("/action") else 403
            for bearer, expected in ((None, 401), (KEY + "x", 401), (useless, refused)):
                headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
                assert await ask(app, "POST", path, poisoned, **headers) == expected, (path, bearer)
            assert await ask(app, "PATCH", path, poisoned, **good) == 405
            too_long = {"content-length": str(MAX_RECORD + 1), **good}
            assert await ask(app, "POST", path, poisoned, **too_long) == 413
        assert await ask(app, "POST", OPEN, poisoned, **{"content-length": "1025"}) == 413
        assert await ask(app, "POST", OPEN, whole(b" " * 1025)) == 413
        for path in ("/nowhere", "/games/", "/games/g_abc/action", "/x/import"):
            assert await ask(app, "POST", path, poisoned, **good) == 404
        assert await ask(app, "POST", "/games/NONE/step", poisoned, **good) == 422
        for path in ("/games/g_abc/cancel", "/batches/b_abc/cancel", "/evaluations/e_abc/cancel"):
            assert await ask(app, "POST", path, poisoned, **good) == 404


async def test_each_route_has_its_own_limit(caller: Caller) -> None:
    for path, limit in (
        ("/games/import", MAX_RECORD),
        ("/games", 1 << 20),
        ("/games/g_abc/step", 1 << 20),
        ("/games/g_abc/requests/import/action", MAX_ANSWER),
    ):
        assert await ask(caller.app, "POST", path, whole(b" " * (limit + 1))) == 413, path
        assert await ask(caller.app, "POST", path, whole(b" " * limit)) == 400, path


PAIRS = r"\ud83d\ude00"


CONTROL = r"\u0001"
FALSE = r"\\u0001"
LONE = r"\udc00"
ESCAPED_QUOTE = r"\""


def shapes(size: int) -> dict[str, bytes]:
    """Nasty bodies of about so many bytes."""

    def many(piece: str, end: str = "0") -> str:
        return "[" + f"{piece}," * (size // (len(piece) + 1)) + end + "]"

    nested = f'{{"{"k" * (size // 14)}":' * 12
    quoted = (PAIRS * 9 + ESCAPED_QUOTE) * (size // 110)
    found = {
        "a wide array": many("1"),
        "a wide object": "{" + ",".join(f'"{n:x}":0' for n in range(size // 9)) + "}",
        "empty arrays": many("[]"),
        "empty objects": many("{}"),
        "deep, again and again": many("[" * 12 + "]" * 12),
        "deep objects, again and again": many('{"":' * 12 + "0" + "}" * 12),
        "deep, then wide": "[" * 14 + "1," * (size // 2) + "1" + "]" * 14,
        "deeper than it may": "[" * 60 + "1," * (size // 2) + "1" + "]" * 60,
        "long keys in each other": nested + "0" + "}" * 12,
        "long keys in each other, a fault at the end": nested + r'"\u0000"' + "}" * 12,
        "one key, again and again": "{" + ",".join(['"a":0'] * (size // 6)) + "}",
        "tiny strings": many('"ab"'),
        "objects, a surrogate at the end": many('{"a":0}', r'"\ud800"'),
        "arrays, a control character at the end": many("[]", r'"\u0001"'),
        "escapes": many(r'"\n\t\u0041"'),
        "large numbers": many("9" * 100),
        "numbers of 64 bits": many("9223372036854775808"),
        "members of 64 bits": "{" + ",".join(f'"k{n}":12345678901234567890' for n in range(size // 29)) + "}",
        "numbers of 64 bits among short ones": many("9223372036854775808,1,2,3"),
        "numbers of 65 bits": many("18446744073709551616"),
        "numbers with exponents": many("1e300"),
        "a number beyond a double at the end": many("1e30", "1e999"),
        "a number beyond a double after white space": f"[1e30,{' ' * size}1e999]",
        "brackets that never close": "[" * size,
        "brackets that were never opened": "]" * size,
        "quotes": '"' * size,
        "commas": "," * size,
        "tiny strings, a control character at the end": many('"ab"', r'"\u0001"'),
        "one string, a control character at the end": f'"{"a" * size}\\u0001"',
        "line ends": many(r'"\n\n\n\n\n\n\n\n\n\n\n\n"'),
        "escaped backslashes": f'"{chr(92) * (size // 2 * 2)}"',
        "surrogate pairs": f'"{PAIRS * (size // 12)}"',
        "two bytes a letter": '"' + "\u00e9" * (size // 2) + '"',
        "escaped letters, then a control character": '["' + r"\u0041" * (size // 6) + r'",{"\u0001":0}]',
        "escaped quotes": '"' + r"\"" * (size // 2) + '"',
        "escaped backslashes before u0001": f'["{FALSE * (size // 7)}","{CONTROL}"]',
        "two bytes a letter, then an escape": '"' + "\u00e9" * (size // 2) + r'\n"',
        "two bytes a letter, then a control character": f'["{chr(0xE9) * (size // 2)}","{CONTROL}"]',
        "escaped letters, then U+007F": '["' + r"\u0041" * (size // 6) + r'",{"\u007f":0}]',
        "keys with escapes": "{" + ",".join(rf'"{n:x}\n":0' for n in range(size // 11)) + "}",
        "escapes here and there": '"' + (r"\n" + "x" * 20) * (size // 22) + '"',
        "U+007F at the end": f'"{"x" * size}\x7f"',
        "tiny strings, then a control character inside": many('"ab"', r'["\u0001"]'),
        "escaped quotes, then a control character": '["' + r"\"" * (size // 2) + f'","{CONTROL}"]',
        "escaped backslashes, then a control character": '["' + r"\\" * (size // 2) + f'","{CONTROL}"]',
        "line ends, then a control character": '["' + r"\n" * (size // 2) + f'","{CONTROL}"]',
        "surrogate pairs, then a control character": f'["{PAIRS * (size // 12)}","{CONTROL}"]',
        "surrogate pairs, then a lone one": f'["{PAIRS * (size // 12)}","{LONE}"]',
        "surrogate pairs in an object": f'{{"a":"{PAIRS * (size // 12)}"}}',
        "keys with surrogate pairs": "{"
        + ",".join(f'"{n:x}{PAIRS}":0' for n in range(size // 20))
        + f',"{CONTROL}":0}}',
        "surrogate pairs, then a doubled key": f'{{"a":"{PAIRS * (size // 12)}","a":0}}',
        "two bytes a letter, then a lone surrogate": f'["{chr(0xE9) * (size // 2)}","{LONE}"]',
        "line ends, then a surrogate": f'[{chr(10) * size}"{chr(92)}ud800"]',
        "surrogate pairs, then another member": f'{{"a":"{PAIRS * (size // 12)}","b":0}}',
        "two bytes a letter, then another member": '{"a":"' + "\u00e9" * (size // 2) + '","b":0}',
        "surrogate pairs beside many arrays": f'[{"[]," * 40}"{PAIRS * (size // 12)}"]',
        "escaped backslashes beside many arrays": f'[{"[]," * 40}"{chr(92) * (size // 2 * 2)}"]',
        "digits in a text": f'{{"a":"{"7" * size}","b":0}}',
        "a line end every five letters": f'"{(chr(92) + "nabc") * (size // 5)}"',
        "a line end every seven letters": f'"{(chr(92) + "nabcde") * (size // 7)}"',
        "colons, escaped and not": f'{{"a":"{(chr(92) + "u003a:") * (size // 7)}","b":0}}',
        "surrogate pairs and quotes beside many arrays": f'[{"[]," * 40}{{"a":"{quoted}","b":[1e3]}}]',
        "escaped quotes beside many arrays": f'[{"[]," * 40}["{ESCAPED_QUOTE * (size // 2)}"]]',
        "surrogate pairs, then a number beyond a double": f'["{PAIRS * (size // 12)}",1e999]',
        "escaped quotes, then a faulty key": f'{{"a":"{ESCAPED_QUOTE * (size // 2)}","{CONTROL}":0}}',
        "escapes in a key": f'{{"{(chr(92) + "n" + "x" * 20) * (size // 22)}":["{CONTROL}"]}}',
        "surrogate pairs and quotes behind many objects": f'[{"{}," * 300}"{quoted}"]',
        "brackets in a text beside many objects": f'[{"{}," * 300}"{"[{" * (size // 2)}"]',
        "commas in a text, then a doubled key": f'["{"," * size}",{{"a":0,"a":0}}]',
        "commas in a text, then a number beyond a double": f'["{"," * size}",1e999]',
        "a text broken off behind 4 kB, then objects": f'["{"x" * 4_200}"?{"{}," * (size // 3)}',
        "a text broken off behind 4 kB, then text": f'["{"x" * 4_200}"?{"x" * size}',
        "pairs broken off behind 4 kB, then arrays": f'["{PAIRS * 350}"?{"[]," * (size // 3)}',
        "objects broken off behind 4 kB, then quotes": "[" + '{"a":0},' * 525 + "?" + '"' * size,
        "a text of commas, then quotes": f'["{"," * (size // 2)}" {chr(34) * (size // 2)}',
        "one number": "7" * size,
        "a line end, then zeros": rf'["\n{"0" * size}"]',
        "a line end, then what looks like escapes": rf'["\n{"u00" * (size // 3)}"]',
        "an escaped colon, then zeros": rf'["\u003a{"0" * size}"]',
        "an escaped colon, then a long number": rf'["\u003a{"u00" * (size // 3)}",{"7" * 30}]',
        "escaped line ends, then a long number": '["' + r"\u000a" * (size // 6) + f'",{"7" * 30}]',
        "white space": "[" + " \n\t" * (size // 6) + ",".join(["0"] * (size // 12)) + "]",
    }
    return {name: text.encode() for name, text in found.items()} | {
        "no UTF-8 at the end": many("1.5", '"?"').encode().replace(b"?", b"\xff")
    }


def loads(body: bytes) -> None:
    with suppress(ValueError, RecursionError):
        json.loads(body)


def read(body: bytes) -> None:
    with suppress(Unparsable, InvalidRequest):
        read_json(body, max_depth=16)


TIMES = 6
"""A body costs at most so many times json.loads of it, and all the shapes together at most 4 times. One of
them alone may come to more: how fast one parser is beside another depends on the machine. The same few bodies
took 3.7 to 4.6 times as long in runs of one day.
"""

SMALL = rb'{"a":"\n\u0041","b":[1.5,12345678901234567890]}'

ATTEMPTS = 8
ROUNDS = 30
"""Measurements of a cost that looks too high: others compute on the machine too."""


def cpu(work: Callable[[], object], times: int = 1) -> float:
    """Seconds that this process computes while it does the work so many times."""
    began = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - began


class Least:
    """The least that each of several things took. They are measured in turns, so that whatever else the
    machine does slows all of them. What is compared takes equally long, by repetition if need be: something
    shorter would find an undisturbed moment sooner.
    """

    def __init__(self) -> None:
        self._least: dict[str, float] = {}

    def __getitem__(self, name: str) -> float:
        return self._least[name]

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self._least.items())

    def add(self, name: str, seconds: float) -> None:
        self._least[name] = min(seconds, self._least.get(name, inf))


def rounds() -> Iterator[Least]:
    """What is known at each measurement. An attempt forgets what those before it found, since once in a while
    one of the two happens to find its memory in better order. Objects are not looked through for garbage
    meanwhile.
    """
    gc.disable()
    try:
        for _ in range(ATTEMPTS):
            least = Least()
            for _ in range(ROUNDS):
                yield least
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [30_000, 300_000])
def test_reading_takes_at_most_48_bytes_a_byte(size: int) -> None:
    for name, body in shapes(size).items():
        tracemalloc.start()
        read(body)
        room = tracemalloc.get_traced_memory()[1] / len(body)
        tracemalloc.stop()
        assert room <= 48, (name, room)


@pytest.mark.parametrize("size", [100_000, 400_000])
def test_reading_takes_at_most_4_times_what_json_does(size: int) -> None:
    # Also where json.loads stops at the first byte, as it does for quotes: so do we. What is added are the
    # few calls that any body costs.
    ours = four_times = 0.0
    for name, body in shapes(size).items():
        for least in rounds():
            least.add("ours", cpu(partial(read, body)))
            least.add("json", cpu(partial(loads, body), TIMES))
            least.add("any body", cpu(partial(read, SMALL), TIMES))
            if least["ours"] <= least["json"] + least["any body"]:
                break
        else:
            pytest.fail(f"{name}: {least['ours'] / least['json'] * TIMES:.1f} times json.loads")
        ours += least["ours"]
        four_times += (least["json"] + least["any body"]) * 4 / TIMES
    assert ours <= four_times


def lines_run(work: Callable[[], object]) -> int:
    """Lines of our own Python that it runs: the same on every machine."""
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if "/app/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_reading_runs_no_python_for_each_element_or_letter() -> None:
    for name, body in shapes(400_000).items():
        assert lines_run(partial(read, body)) <= 1_000, name


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [30_000, pytest.param(200_000, marks=pytest.mark.long)])
async def test_a_body_costs_little_at_every_entrance(caller: Caller, size: int) -> None:
    batch, [game] = await caller.create(drive="manual")
    ids = {**NAMES, "game_id": game, "batch_id": batch}
    for path in taking(caller.app):
        if path != OPEN:  # too small for a costly one
            await _costs_little(caller, path.format(**ids), 30_000 if "{request_id}" in path else size)


async def spent_at(app: FastAPI, at: str, body: bytes) -> float:
    """Seconds that this process computes for a request that is refused."""
    began = time.process_time()
    assert await ask(app, "POST", at, whole(body)) in (400, 404, 422)
    return time.process_time() - began


async def _costs_little(caller: Caller, at: str, size: int) -> None:
    """At most TIMES json.loads, and twice what any body of this size costs: the way to the route, a thread,
    the answer.
    """
    harmless = b'"' + b"x" * size + b'"'
    for name, body in shapes(size * 9 // 10).items():
        for least in rounds():
            least.add("any", await spent_at(caller.app, at, harmless))
            least.add("ours", await spent_at(caller.app, at, body))
            least.add("json", cpu(partial(loads, body), TIMES))
            if least["ours"] <= least["json"] + 2 * least["any"]:
                break
        else:
            over = least["ours"] - least["any"]
            told = f"{over / least['json'] * TIMES:.1f} times json.loads, {over * 1e3:.2f} ms"
            pytest.fail(f"{at}, {name}: {told}")


async def test_a_body_has_at_most_50000_elements(caller: Caller) -> None:
    assert len(read_json(b"[" + b"0," * (MAX_ELEMENTS - 1) + b"0]")) == MAX_ELEMENTS
    assert read_json(json.dumps(["," * MAX_ELEMENTS + "[{" * 40]).encode())
    for element in (b"[]", b"{}"):
        assert len(read_json(b"[" + b",".join([element] * MAX_ELEMENTS) + b"]")) == MAX_ELEMENTS
        with pytest.raises(InvalidRequest, match="got 50,001"):
            read_json(b"[" + b",".join([element] * (MAX_ELEMENTS + 1)) + b"]")
    body = b'{"labels":[' + b"[]," * MAX_ELEMENTS + b"0]}"
    told = problem(await caller.post("/games", content=body), 422, "invalid-request", "")
    assert "50,000 elements" in told["detail"]


@pytest.mark.parametrize("before", [0, 1, 2_035, 2_040, 5_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"[]":', "}")])
def test_arrays_and_objects_nest_as_deep_as_they_may_and_no_deeper(
    before: int, opens: str, closes: str
) -> None:
    # Ten levels, in them so many arrays that are less deep, and then the deep part.
    def nested(depth: int) -> bytes:
        shallow = "[[0]]," * before
        return f"{'[' * 10}{shallow}{opens * (depth - 10)}0{closes * (depth - 10)}{']' * 10}".encode()

    for most in (16, 32):
        assert read_json(nested(most), max_depth=most)
        with pytest.raises(Unparsable, match=f"nest at most {most} deep"):
            read_json(nested(most + 1), max_depth=most)
    with pytest.raises(Unparsable, match="nest at most 32 deep"):
        read_json(nested(33))


async def test_many_faults_are_counted_and_the_first_of_them_named(caller: Caller) -> None:
    answer = await caller.post("/games", json={f"k{n}": n for n in range(40_000)})
    told = problem(answer, 422, "invalid-request")
    assert told["detail"].startswith("at least 100 things to correct")
    assert len(told["errors"]) == MAX_FAULTS
    assert told["errors"][0]["pointer"] == "/k0"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (rb'{"a":[1,{"b~/":["\\","\"","\u0001"]}]}', "/a/1/b~0~1/2"),
        (rb'{"a":{"x":"[{,","\u0001":1}}', "/a"),
        (rb'"\ud800"', ""),
        (rb'{"a":[], "b" : [ [ 1 , "\ud83d\ude00\ude00" ] ] }', "/b/0/1"),
        (rb'{"a":"e309","b":[1,-12.5e+400]}', "/b/1"),
        (rb"[1e308,0e999,1E0309]", "/2"),
        (rb'["\n",1234567890123456789012345,1e999]', "/2"),
        (rb'["\n",-1234567890123456789012345,"\ud800"]', "/2"),
        (rb'{"a":{"b":[1,2],"c":{"d":0,"e":[[-1e999]]}}}', "/a/c/e/0/0"),
        (
            b'{"a":["' + rb"\u0041\\" * 9_000 + rb'\\u0001",{"' + rb"\ud83d\ude00" * 9 + rb'":"\b"}]}',
            f"/a/1/{chr(0x1F600) * 9}",
        ),
        (b'{"a":["' + rb"\\\"" * 9_000 + rb'\\u0001",{"b":0,"\"\r":1}]}', "/a/1"),
        (b'{\n\n"a":[\n"' + rb"\n" * 9_000 + rb'\\u0001",{"b":0,"c":"\\\ud83d\n"}]}', "/a/1/c"),
        (b'[1,"\\\\u0001\x7f"]', "/1"),
    ],
)
def test_an_error_in_a_body_comes_with_its_place(body: bytes, pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_json(body)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("filling", ["x", r"\\:", r"\u003a", r"\\u003a", ":", r"\ud83d\ude00", r"\n"])
@pytest.mark.parametrize("times", [0, 1, 2, 900])
def test_a_doubled_key_is_found_beside_whatever_texts(filling: str, times: int) -> None:
    text = filling * times
    once = f'{{"a":"{text}","{text}:":{{"a":"\\\\u003A"}},"b":[{{"c":0,"d":"::"}}]}}'
    assert read_json(once.encode()) == json.loads(once)
    for doubled in (
        once.replace('"c":0,', '"c":0,"c":"",'),
        once.replace('"b":', '"a":":","b":'),
        once.replace('"b":', '"a" : "","b":'),
        once.replace('"b":', r'"\u0061":"\u003a","b":'),
        once.replace('"d":', r'"d":"\u003A","\u0064":'),
    ):
        assert doubled != once
        where = r" at line 1 column \d+" if len(doubled) <= 4_096 else ""
        with pytest.raises(Unparsable, match=f"invalid JSON{where}: an object repeats a key"):
            read_json(doubled.encode())


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"secret":0,"secret":1}', "line 1 column 22"),
        (b'{\n  "a": [{"\xc3\xa9": 1}],\n  "b": {"secret": {}, "secret": 2}\n}', "line 3 column 32"),
        (rb'{"n":123456789012345678901,"t":"\n","secret":0,"\u0073ecret":1}', "line 1 column 62"),
    ],
)
def test_a_short_body_with_a_doubled_key_is_refused_with_the_place_and_without_the_key(
    body: bytes, place: str
) -> None:
    for check_text in (True, False):
        with pytest.raises(Unparsable) as refused:
            read_json(body, check_text=check_text)
        assert str(refused.value) == f"invalid JSON at {place}: an object repeats a key"


@pytest.mark.parametrize("filling", [0, 6_000])
def test_an_integer_of_many_digits_is_exact(filling: int) -> None:
    for number in (2**63, 2**64, 2**128 - 1, -(2**64), 10**18, 10**19):
        body = f'{{"text":"{"x" * filling}","n":[{number}]}}'.encode()
        assert read_json(body) == {"text": "x" * filling, "n": [number]}


@pytest.mark.parametrize("filling", [0, 6_000])
def test_a_lone_surrogate_is_reported_with_its_place_in_short_and_long_bodies(filling: int) -> None:
    body = rb'{"a":["\ud800"],"b":"' + b"x" * filling + b'"}'
    with pytest.raises(InvalidRequest, match=r"U\+D800") as refused:
        read_json(body)
    assert refused.value.pointer == "/a/0"


def test_a_number_has_at_most_128_digits_wherever_it_stands() -> None:
    for before in range(130):
        start = b"[" + b" " * before
        assert read_json(start + b"7" * 128 + b"]") == [int("7" * 128)]
        assert read_json(start + b'"' + b"7" * 300 + b'"]') == ["7" * 300]
        with pytest.raises(Unparsable, match="at most 128 digits"):
            read_json(start + b"7" * 129 + b"]")


def test_a_pointer_ends_before_a_key_of_more_than_256_characters() -> None:
    assert json_pointer(["a/b~", 0, "k" * 256, 1]) == f"/a~1b~0/0/{'k' * 256}/1"
    assert json_pointer(["a", "k" * 257, 1]) == "/a"


def test_at_most_50_faults_are_named_and_never_what_was_sent() -> None:
    model = TypeAdapter(list[int])

    def faults(sent: object) -> list[dict[str, Any]]:
        with pytest.raises(ValidationError) as refused:
            model.validate_python(sent)
        return first_faults(refused.value, sent, model)

    for count in (1, MAX_FAULTS, MAX_FAULTS + 1, 5_000):
        found = faults(["secret"] * count)
        assert {name for one in found for name in one} == {"type", "loc", "msg"}
        assert [one["loc"] for one in found] == [(n,) for n in range(min(count, MAX_FAULTS))]
        assert "secret" not in repr(found)
    # Of very many faults none is near the beginning: no place is named.
    assert [one["type"] for one in faults([0] * 1_000 + ["secret"] * 501)] == ["many_faults"]
    assert faults([0] * 1_000 + ["secret"] * 51)[0]["loc"] == (1_000,)
    assert len(faults([0] * 1_000 + ["secret"] * MAX_FAULTS)) == MAX_FAULTS


def test_faults_of_a_long_list_have_their_places_in_it() -> None:
    model = TypeAdapter(NewEvaluation)
    answers: list[Any] = [{"item_id": "g/x", "intentions": []} for _ in range(2_000)]
    sent = {"dimension": "guessing", "rater": {"name": "r"}, "answers": answers}
    assert len(model.validate_python(sent).answers) == 2_000
    answers[1_999] = {"item_id": 1, "intentions": [], "confidence": 3}
    answers[1_234] = {"item_id": "g/x", "intentions": ["a"], "roll": "merlin"}
    with pytest.raises(ValidationError) as refused:
        model.validate_python(sent)
    [fault] = first_faults(refused.value, sent, model)
    assert fault["loc"] == ("answers", 1_234, "roll")
    assert fault["msg"].startswith("there is no such field; allowed: confidence, intentions, item_id")
    answers[200:300] = [0] * 100
    with pytest.raises(ValidationError) as refused:
        model.validate_python(sent)
    assert [fault["loc"] for fault in first_faults(refused.value, sent, model)] == [
        ("answers", place) for place in range(200, 200 + MAX_FAULTS)
    ]
    with pytest.raises(ValidationError, match="at most 2000 items, got 2001"):
        model.validate_python({**sent, "answers": [*answers, 0]})


async def test_a_list_of_what_does_not_fit_costs_little(caller: Caller) -> None:
    # Of each list that a body may have: many items that are wrong, or more than it may have.
    bodies = {
        "/evaluations": ({"dimension": "guessing", "rater": {"name": "r"}}, ["answers"]),
        "/annotations": ({"rater": {"name": "r"}}, ["judgements"]),
        "/evaluations/sets/s_abc/answers": ({"rater": {"name": "r"}}, ["answers"]),
        "/evaluations/sets": ({"name": "s", "dimension": "guessing", "closes_at": "x"}, ["batches"]),
        "/games": ({}, ["seats", "roles"]),
    }
    answer = {"item_id": "g/x", "intentions": ["a"] * 15_000}
    for path, (rest, names) in bodies.items():
        for name, item in itertools.product(names, ("a", None, {}, [], answer)):
            many = [item] * (1 if item is answer else 15_000)
            body = json.dumps({**rest, name: many}).encode()
            harmless = b'"' + b"x" * len(body) + b'"'
            for least in rounds():
                least.add("any", await spent_at(caller.app, path, harmless))
                least.add("ours", await spent_at(caller.app, path, body))
                least.add("json", cpu(partial(loads, body), TIMES))
                if least["ours"] <= least["json"] + 2 * least["any"]:
                    break
            else:
                pytest.fail(f"{path}, {name} of {item!r:.40}: {least['ours']}, {least['json']}")


class Unwritten(list[Any]):
    def __repr__(self) -> str:
        pytest.fail("was written out")


def below(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for body in of.__subclasses__():
        yield body
        yield from below(body)


def test_what_is_no_name_of_an_enumeration_is_not_written_out() -> None:
    # However long it is: Python's own enumerations put it into their error.
    fields = set()
    for body in below(Strict):
        for name in body.model_fields if body.__module__.startswith("app.") else ():
            fields.add(name)
            for sent in (Unwritten(), [Unwritten()], {"1": Unwritten()}):
                with suppress(ValidationError):
                    body.model_validate({name: sent})
    assert fields >= {"about", "deal", "phase", "role", "roles"}


def test_the_beginning_of_a_value_has_100_elements_in_all() -> None:
    assert beginning([[0, 1], {"a": [2]}]) == [[0, 1], {"a": [2]}]
    assert beginning(list(range(200))) == list(range(100))
    assert beginning({"a": [0] * 200, "b": [1]}) == {"a": [0] * 98, "b": []}


async def test_an_import_is_replayed_off_the_loop(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    replayed = service.replay

    def replay(record: Any) -> Any:
        threads.append(threading.current_thread())
        return replayed(record)

    monkeypatch.setattr(service, "replay", replay)
    record = (PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes()
    assert (await caller.post("/games/import", content=record)).status_code == 201
    assert threads
    assert threading.current_thread() not in threads


LONG_LOG = 1_200
"""Speeches of an import whose log is long."""


def long_record() -> bytes:
    record = json.loads((PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes())
    speech = {"type": "discuss", "seat": 1, "text": "No."}
    record["moves"][1:1] = [speech] * LONG_LOG
    return json.dumps(record).encode()


async def test_a_long_log_is_read_and_cut_off_the_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[threading.Thread]] = {}

    def watch(module: Any, name: str) -> None:
        work = getattr(module, name)

        def watched(*arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread())
            return work(*arguments)

        monkeypatch.setattr(module, name, watched)

    watch(log, "_event")
    watch(service, "cut_after_phase")
    game = (await caller.post("/games/import", content=long_record())).json()["game_id"]
    assert (await caller.get(f"/games/{game}")).status_code == 200
    after = {"round": 1, "attempt": 1, "phase": "vote"}
    fork = {"after": after, "seats": [{"agent": "scripted"}], "drive": "manual"}
    assert (await caller.post(f"/games/{game}/fork", json=fork)).status_code == 201
    assert set(threads) == {"_event", "cut_after_phase"}
    for name, of_work in threads.items():
        assert threading.current_thread() not in of_work, name


async def test_an_export_is_written_many_lines_at_a_time(caller: Caller) -> None:
    imported = (await caller.post("/games/import", content=long_record())).json()
    batch = imported["batch_id"]
    pieces = [
        piece async for piece in caller.services.games.exporter.batch(OPERATOR, batch, FULL, 0, partial=False)
    ]
    lines = [line for piece in pieces for line in piece]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    assert len(lines) == imported["events"] + 2  # its provenance, and the end
    assert len(pieces) <= 2 + imported["events"] / 500
    later = [
        piece
        async for piece in caller.services.games.exporter.batch(OPERATOR, batch, FULL, 700, partial=False)
    ]
    assert [line for piece in later for line in piece] == lines[700:]


def frames() -> dict[str, str]:
    """Nasty messages of a socket, of about 30 kB."""

    def act(**members: Any) -> str:
        given = {"t": "act", "id": "a1", "request_id": "1.1.vote.1", "action": {}}
        return json.dumps({**given, **members})

    return {
        "unknown members": act(**{f"k{number}": 0 for number in range(3_000)}),
        "an unknown member of many": act(x=[[number] for number in range(5_000)]),
        "many objects, a surrogate at the end": act(x=[{"": 0}] * 4_000 + ["\ud800"]),
        "many texts": act(x=["ab"] * 5_000),
        "an action of many": act(action={f"k{number}": 0 for number in range(3_000)}),
        "a name of many": act(id=["a"] * 5_000),
        "a request of control characters": act(request_id="\x01" * 5_000),
        "an unknown type": json.dumps({"t": ["act"] * 4_000}),
        "a ping of many": json.dumps({"t": "ping", "id": "p1", "q": [0] * 10_000}),
        "an identify of many": json.dumps({"t": "identify", "v": 1, "token": ["x"] * 6_000}),
        "brackets": "[" * 32_000,
        "quotes": '"' * 32_000,
    }


def hear(text: str) -> None:
    value: Any = None
    try:
        value = read_text(text)
        read_message(value)
    except (InvalidAction, InvalidRequest, Unparsable) as fault:
        refusal_text(refusal(message_id(value), fault))


def test_a_message_costs_little_more_than_json_does() -> None:
    # What any message costs that is refused.
    harmless = partial(hear, json.dumps({"t": "ping", "id": ["x"], "q": 0, "text": "x" * 30_000}))
    for name, text in frames().items():
        for least in rounds():
            least.add("any", cpu(harmless))
            least.add("ours", cpu(partial(hear, text)))
            least.add("json", cpu(partial(loads, text.encode()), TIMES))
            if least["ours"] <= least["json"] + 2 * least["any"] + 0.0005:
                break
        else:
            over = least["ours"] - least["any"]
            pytest.fail(f"{name}: {over / least['json'] * TIMES:.1f} times json.loads, {over * 1e3:.2f} ms")
        tracemalloc.start()
        hear(text)
        room = tracemalloc.get_traced_memory()[1] / len(text)
        tracemalloc.stop()
        assert room <= 48, (name, room)


def test_the_problem_of_a_body_that_is_too_large_names_every_limit() -> None:
    meaning = PROBLEMS[TooLarge].meaning
    for size in {Bounds().size, *(bounds.size for bounds in bodies._BOUNDS.values())}:
        assert (f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB") in meaning
