"""Bad input of every kind gets a clear problem, changes nothing, causes no 5xx and is never echoed."""

import asyncio
import importlib
import json
import pkgutil
import re
import socket
import subprocess
import sys
import tracemalloc
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import structlog

import agents.errors
import app.base.errors
import engine.errors
import evaluators.errors
from app.base.json_reader import MAX_BODY, MAX_RECORD
from app.base.problem_kinds import INTERNAL, PROBLEMS, guide, problem_kinds
from app.serving import http_limits
from engine.errors import AvalonError, leaves
from tests.app.calling import PROJECT, WITHIN_S, Caller, calling, problem
from tests.app.real_server import local_settings, running_server

EMBARRASSING = "correct-horse-battery-staple"
"""What no answer may repeat."""

DECK = ["merlin", "percival", "servant", "morgana", "assassin"]


def _deal(*roles: str) -> dict[str, str]:
    return {str(seat): role for seat, role in enumerate(roles, 1)}


INVALID, PROFILE, AGENT = "invalid-request", "invalid-profile", "invalid-agent"

WISHES: list[tuple[Any, str, str]] = [
    ({"x": 1}, INVALID, "/x"),
    ({"rules": {"x": 1}}, INVALID, "/rules/x"),
    ({"seeds": {"from": 1, "to": 2}}, INVALID, "/seeds/to"),
    ({"seats": [{"agent": "random", "model": "m1"}]}, AGENT, "/seats/0/model"),
    ({"a/b~c": 1}, INVALID, "/a~1b~0c"),
    ({"players": 4}, INVALID, "/players"),
    ({"players": 11}, INVALID, "/players"),
    ({"players": "5"}, INVALID, "/players"),
    ({"players": True}, INVALID, "/players"),
    ({"players": 5.5}, INVALID, "/players"),
    ({"players": [5]}, INVALID, "/players"),
    ({"players": -(10**100)}, INVALID, "/players"),
    ({"count": 0}, INVALID, "/count"),
    ({"count": 10_001}, INVALID, "/count"),
    ({"count": None}, INVALID, "/count"),
    ({"count": 10**100}, INVALID, "/count"),
    ({"seeds": {"from": -1}}, INVALID, "/seeds/from"),
    ({"seeds": {"from": 2**128}}, INVALID, "/seeds/from"),
    ({"seeds": {}}, INVALID, "/seeds/from"),
    ({"seeds": 5}, INVALID, "/seeds"),
    ({"profile": "Official"}, INVALID, "/profile"),
    ({"drive": "autopilot"}, INVALID, "/drive"),
    ({"reveal": "some"}, INVALID, "/reveal"),
    ({"rotate": 1}, INVALID, "/rotate"),
    ({"rotate": "true"}, INVALID, "/rotate"),
    ({"roles": ["merlin", "merlin", "servant", "morgana", "assassin"]}, PROFILE, "/roles"),
    ({"roles": [*DECK[:3], "servant", "servant"]}, PROFILE, "/roles"),
    ({"roles": [*DECK[:2], "minion", "morgana", "assassin"]}, PROFILE, "/roles"),
    ({"roles": DECK, "players": 6}, PROFILE, "/roles"),
    ({"roles": DECK[:4]}, INVALID, "/roles"),
    ({"roles": [*DECK[:4], "jester"]}, INVALID, "/roles/4"),
    ({"roles": "merlin"}, INVALID, "/roles"),
    ({"deal": _deal("merlin", "merlin", "servant", "morgana", "assassin")}, PROFILE, "/deal"),
    ({"deal": _deal(*DECK), "players": 6}, INVALID, "/deal"),
    ({"deal": _deal(*DECK), "roles": [*DECK[:4], "mordred"]}, INVALID, "/deal"),
    ({"deal": {**_deal(*DECK[:4]), "6": "assassin"}}, INVALID, "/deal"),
    ({"deal": {**_deal(*DECK[:4]), "05": "assassin"}}, INVALID, "/deal/05"),
    ({"deal": DECK}, INVALID, "/deal"),
    ({"seats": []}, INVALID, "/seats"),
    ({"seats": [{}] * 3}, PROFILE, "/seats"),
    ({"seats": [{}] * 11}, INVALID, "/seats"),
    ({"seats": [{"agent": "random"}] * 6, "players": 5}, INVALID, "/seats"),
    ({"seats": [{"agent": "llm"}]}, AGENT, "/seats/0/agent"),
    ({"seats": [{}, {}, {"agent": "llm"}, {}, {}]}, AGENT, "/seats/2/agent"),
    ({"seats": [{"agent": "../etc"}]}, INVALID, "/seats/0/agent"),
    ({"seats": [{"agent": "a" * 65}]}, INVALID, "/seats/0/agent"),
    ({"seats": [{"agent": "random", "options": {"depth": 3}}]}, AGENT, "/seats/0/options"),
    ({"seats": [{"agent": "scripted", "options": []}]}, INVALID, "/seats/0/options"),
    ({"seats": "scripted"}, INVALID, "/seats"),
    ({"names": {"11": "Ann"}}, INVALID, "/names/11"),
    ({"names": {"6": "Ann"}}, INVALID, "/names/6"),
    ({"names": {"1": ""}}, INVALID, "/names/1"),
    ({"names": {"1": "x" * 41}}, INVALID, "/names/1"),
    ({"names": {"1": "Ann", "2": "ANN"}}, INVALID, "/names"),
    ({"names": {"1": "player 2"}}, INVALID, "/names"),
    ({"names": {"1": 7}}, INVALID, "/names/1"),
    ({"labels": {"": "x"}}, INVALID, "/labels/"),
    ({"labels": {"a": "x" * 257}}, INVALID, "/labels/a"),
    ({"labels": {"a": 1}}, INVALID, "/labels/a"),
    ({"labels": {str(n): "" for n in range(33)}}, INVALID, "/labels"),
    ({"rules": {"team_sizes": [2, 3, 2, 3]}}, INVALID, "/rules/team_sizes"),
    ({"rules": {"team_sizes": [2, 3, 2, 3, 6]}}, PROFILE, "/rules/team_sizes"),
    ({"rules": {"team_sizes": [2, 3, 2, 3, "3"]}}, INVALID, "/rules/team_sizes/4"),
    ({"rules": {"team_sizes": [0, 3, 2, 3, 3]}}, INVALID, "/rules/team_sizes/0"),
    ({"rules": {"fails_needed": [1, 1, 1, 3, 1]}}, INVALID, "/rules/fails_needed/3"),
    (
        {"rules": {"team_sizes": [1, 3, 2, 3, 3], "fails_needed": [2, 1, 1, 1, 1]}},
        PROFILE,
        "/rules/fails_needed",
    ),
    ({"rules": {"approval": "unanimous"}}, INVALID, "/rules/approval"),
    ({"rules": {"approval": None}}, INVALID, "/rules"),
    ({"rules": {"max_rejections": 0}}, INVALID, "/rules/max_rejections"),
    ({"rules": {"max_rejections": 11}}, INVALID, "/rules/max_rejections"),
    ({"rules": {"first_leader": 6}}, PROFILE, "/rules/first_leader"),
    ({"rules": {"leader_step": 2}}, INVALID, "/rules/leader_step"),
    ({"rules": {"leader_step": True}}, INVALID, "/rules/leader_step"),
    ({"rules": {"reconsideration": "yes"}}, INVALID, "/rules/reconsideration"),
    ({"rules": []}, INVALID, "/rules"),
    ([], INVALID, ""),
    ("{}", INVALID, ""),
    (None, INVALID, ""),
    (5, INVALID, ""),
]


async def test_wishes_that_make_no_game_are_refused_at_the_place(caller: Caller) -> None:
    before = await caller.rows()
    for wish, code, pointer in WISHES:
        answer = await caller.post("/games", content=json.dumps(wish))
        assert answer.status_code == 422, (wish, answer.status_code, answer.text)
        problem(answer, 422, code, pointer)
    assert await caller.rows() == before


async def test_refusals_do_not_depend_on_the_database(database_url: str) -> None:
    async with calling(database_url) as caller:
        before = await caller.rows()
        for wish, code, pointer in WISHES[::9]:
            problem(await caller.post("/games", content=json.dumps(wish)), 422, code, pointer)
        for position in (2**31 - 1, 2**31, 2**53 - 1, 2**63, 10**30):
            token = f'[0,"b_x",{position}]'.encode()
            cursor = urlsafe_b64encode(token).decode().rstrip("=")
            answer = await caller.get("/games", params={"cursor": cursor})
            assert answer.status_code in (200, 422), answer.text
        assert await caller.rows() == before


BODIES: list[tuple[str, bytes, int, str]] = [
    ("nothing", b"", 422, INVALID),
    ("blank", b" ", 400, "unparsable"),
    ("half", b'{"count":', 400, "unparsable"),
    ("two values", b"{} {}", 400, "unparsable"),
    ("a comment", b"{} // x", 400, "unparsable"),
    ("a trailing comma", b'{"count": 1,}', 400, "unparsable"),
    ("single quotes", b"{'count': 1}", 400, "unparsable"),
    ("a byte order mark", b"\xef\xbb\xbf{}", 400, "unparsable"),
    ("UTF-16", '{"count": 1}'.encode("utf-16"), 400, "unparsable"),
    ("bytes that are no UTF-8", b'{"names": {"1": "\xff\xfe"}}', 400, "unparsable"),
    ("an overlong encoding", b'{"names": {"1": "\xc0\xaf"}}', 400, "unparsable"),
    ("a surrogate as UTF-8", b'{"names": {"1": "\xed\xa0\x80"}}', 400, "unparsable"),
    ("NaN", b'{"count": NaN}', 400, "unparsable"),
    ("Infinity", b'{"count": -Infinity}', 400, "unparsable"),
    ("beyond a double", b'{"count": 1e999}', 422, INVALID),
    ("a key twice", b'{"count": 1, "count": 2}', 400, "unparsable"),
    ("a key twice, deep", b'{"labels": {"a": "1", "\\u0061": "2"}}', 400, "unparsable"),
    ("U+0000", b'{"names": {"1": "\\u0000"}}', 422, INVALID),
    ("U+0000 in a key", b'{"labels": {"\\u0000": ""}}', 422, INVALID),
    ("a raw control character", b'{"names": {"1": "\x01"}}', 400, "unparsable"),
    ("an escaped control character", b'{"names": {"1": "\\u001b[31m"}}', 422, INVALID),
    ("U+007F", b'{"names": {"1": "\x7f"}}', 422, INVALID),
    ("a lone surrogate", b'{"names": {"1": "\\ud800"}}', 422, INVALID),
    ("surrogates in the wrong order", b'{"names": {"1": "\\udc00\\ud800"}}', 422, INVALID),
    ("a lone surrogate in a key", b'{"\\udfff": 1}', 422, INVALID),
    ("5,000 digits", b'{"count": ' + b"9" * 5000 + b"}", 400, "unparsable"),
    ("120 digits", b'{"count": ' + b"9" * 120 + b"}", 422, INVALID),
    ("100,000 arrays", b"[" * 100_000, 400, "unparsable"),
    ("100,000 arrays, closed", b"[" * 100_000 + b"]" * 100_000, 400, "unparsable"),
    ("100,000 objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400, "unparsable"),
    ("33 levels of both kinds", b'{"a":[' * 17 + b"]}" * 17, 400, "unparsable"),
    (
        "options nested too deep",
        b'{"seats":[{"options":{"a":' + b"[" * 40 + b"]" * 40 + b"}}]}",
        400,
        "unparsable",
    ),
    ("100,000 keys", b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}", 422, INVALID),
]


async def test_bodies_other_than_clean_json_are_refused(caller: Caller) -> None:
    _, [game] = await caller.create(drive="manual")
    before = await caller.rows()
    for name, body, status, code in BODIES:
        for path in ("/games", f"/games/{game}/step", f"/games/{game}/fork"):
            answer = await caller.post(path, content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (status, code), (
                name,
                path,
                answer.text[:300],
            )
            problem(answer, status, code)
    # A record is others' text: control characters may stand in it, but never U+0000.
    for name, body, _, _ in BODIES:
        answer = await caller.post("/games/import", content=body)
        assert answer.status_code in (400, 422), (name, answer.text[:300])
    assert await caller.rows() == before


async def test_a_batch_is_resumed_and_retried_without_a_body_as_with_an_empty_one(caller: Caller) -> None:
    batch, [game] = await caller.played()
    assert (await caller.post(f"/games/{game}/invalidate", json={"reason": "wrong key"})).status_code == 200
    bare, empty = [await caller.post(f"/batches/{batch}/resume", **body) for body in ({}, {"json": {}})]
    assert (bare.status_code, bare.json()["code"]) == (empty.status_code, empty.json()["code"])
    retried = await caller.post(f"/batches/{batch}/retry")
    assert [one["instead_of"] for one in retried.json()["anew"]] == [game]


async def test_ten_megabytes_are_refused_however_they_come(caller: Caller) -> None:
    before = await caller.rows()
    body = b'{"labels": {"a": "' + b"x" * 10_000_000 + b'"}}'

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    for path in ("/games", "/games/import", "/games/g_nobody/step"):
        problem(await caller.post(path, content=body), 413, "too-large")
        problem(await caller.post(path, content=chunks()), 413, "too-large")
    problem(await caller.post("/nowhere", content=body), 404, "not-found")
    problem(await caller.post("/nowhere", content=chunks()), 404, "not-found")
    just = b" " * (MAX_BODY - 2) + b"{}"
    assert (await caller.post("/games", content=just)).status_code == 201
    problem(await caller.post("/games", content=just + b" "), 413, "too-large")
    problem(await caller.post("/games/import", content=b" " * MAX_RECORD + b"{}"), 413, "too-large")
    assert (await caller.rows())["batches"] == before["batches"] + 1


async def test_ten_megabytes_do_not_hold_up_a_real_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rest of a body that was answered is passed over, however slowly it is sent: nobody hangs up on it.
    monkeypatch.setattr(http_limits, "UNREAD_BODY_S", 100.0)
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
        host, port = served.url.removeprefix("http://").split(":")

        def announced(length: str) -> bytes:
            with socket.create_connection((host, int(port)), timeout=200) as raw:
                raw.sendall(
                    f"POST /games HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()
                )
                return raw.recv(65_536)

        # Refused by its announced length: not a byte of it was waited for.
        said = await anyio.to_thread.run_sync(announced, "10000000")
        assert said.startswith(b"HTTP/1.1 413")
        assert b"application/problem+json" in said
        for length in ("-1", "1e3", "0x10", "9" * 40):
            said = await anyio.to_thread.run_sync(announced, length)
            assert re.match(rb"HTTP/1.1 4\d\d", said), (length, said[:200])
        async with httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as client:
            sent = 0

            async def chunks() -> AsyncIterator[bytes]:
                nonlocal sent
                for _ in range(160):
                    sent += 65_536
                    yield b" " * 65_536

            tracemalloc.start()
            try:
                answer = await client.post("/games", content=chunks(), timeout=100)
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            problem(answer, 413, "too-large")
            assert sent > 10_000_000
            assert most < 4 * MAX_BODY, "more of the body was kept than may be read of it"
            assert (await client.post("/games", json={"drive": "manual"})).status_code == 201


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/xml", "multipart/form-data; boundary=x", "nonsense", "application/jsonp"]
)
async def test_a_body_with_another_content_type_is_refused(caller: Caller, kind: str) -> None:
    before = await caller.rows()
    for path in ("/games", "/games/import"):
        answer = await caller.post(path, content=b"{}", headers={"content-type": kind})
        problem(answer, 415, "wrong-media-type")
    assert await caller.rows() == before
    for taken in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"):
        answer = await caller.post("/games", content=b'{"drive":"manual"}', headers={"content-type": taken})
        assert answer.status_code == 201


QUERIES: list[tuple[str, dict[str, Any], str]] = [
    ("/games", {"limit": 0}, "/limit"),
    ("/games", {"limit": 1001}, "/limit"),
    ("/games", {"limit": "abc"}, "/limit"),
    ("/games", {"limit": 10**30}, "/limit"),
    ("/games", {"limit": ""}, "/limit"),
    ("/games", {"status": "done"}, "/status"),
    ("/games", {"batch": "b_'; DROP TABLE games;--"}, "/batch"),
    ("/games", {"batch": "b_\x00"}, "/batch"),
    ("/games", {"batch": "g_abc"}, "/batch"),
    ("/games", {"cursor": "%%%"}, "/cursor"),
    ("/games", {"cursor": ""}, "/cursor"),
    ("/games", {"cursor": "abc"}, "/cursor"),
    ("/games", {"cursor": "x" * 201}, "/cursor"),
    ("/games", {"cursor": "a"}, "/cursor"),
    *(
        ("/games", {"cursor": urlsafe_b64encode(text.encode()).decode().rstrip("=")}, "/cursor")
        for text in (
            "[]",
            "{}",
            "null",
            "[1,2]",
            "[1,2,3]",
            '["0","b",1]',
            '[0,"b",true]',
            '[0,"b",-1]',
            '[0,"b",1.5]',
            '[0,"b",9007199254740991]',
            '[0,"b\\u0000",1]',
            '[0,"\\ud800",1]',
            '[1e999,"b",1]',
            "[[[[[[",
        )
    ),
    ("{game}", {"viewer": "seat:6"}, "/viewer"),
    ("{game}", {"viewer": "seat:0"}, "/viewer"),
    ("{game}", {"viewer": "seat:01"}, "/viewer"),
    ("{game}", {"viewer": "seat:+1"}, "/viewer"),
    ("{game}", {"viewer": "seat:11"}, "/viewer"),
    ("{game}", {"viewer": "Full"}, "/viewer"),
    ("{game}", {"viewer": ""}, "/viewer"),
    ("{game}", {"viewer": "public\n"}, "/viewer"),
    ("{game}/events", {"after": -1}, "/after"),
    ("{game}/events", {"after": "x"}, "/after"),
    ("{game}/events", {"after": 2**53 + 1}, "/after"),
    ("{game}/events", {"after": 1.5}, "/after"),
    ("{game}/events", {"limit": 0}, "/limit"),
    ("{game}/events", {"limit": 1001}, "/limit"),
    ("{game}/events", {"follow": "perhaps"}, "/follow"),
    ("{game}/events", {"viewer": "seat:9"}, "/viewer"),
    ("{batch}/export", {"view": "seat:1"}, "/view"),
    ("{batch}/export", {"after": -1}, "/after"),
    ("{batch}/export", {"partial": "x"}, "/partial"),
    ("{batch}/events", {"follow": "x"}, "/follow"),
]


async def test_parameters_of_the_wrong_shape_are_refused_by_name(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [game] = await caller.played(seats=[{"agent": "random"}])
        before = await caller.rows()
        for path, query, pointer in QUERIES:
            path = path.format(game=f"/games/{game}", batch=f"/batches/{batch}")
            answer = await caller.get(path, params=query)
            assert answer.status_code == 422, (path, query, answer.status_code, answer.text[:300])
            problem(answer, 422, INVALID, pointer)
        assert await caller.rows() == before


IDS = [
    "g_'%20OR%201=1--",
    "g_%00",
    "g_" + "a" * 33,
    "g_" + "a" * 10_000,
    "g_%F0%9F%97%A1",
    "g_%ff",
    "G_abc",
    "g_ABC",
    "g_",
    "1",
    "%20",
    "g_abc%0A",
    "g_%2e%2e%2f",
    "null",
    "g_{0}",
    "g_$(id)",
]


async def test_invalid_ids_find_nothing(caller: Caller) -> None:
    before = await caller.rows()
    for wrong in IDS:
        for method, path in (
            ("GET", f"/games/{wrong}"),
            ("GET", f"/games/{wrong}/events"),
            ("POST", f"/games/{wrong}/cancel"),
            ("GET", f"/batches/{wrong}"),
            ("GET", f"/batches/{wrong}/export"),
        ):
            answer = await caller.request(method, path)
            assert answer.status_code in (404, 422), (path, answer.status_code)
            problem(answer, answer.status_code, "not-found" if answer.status_code == 404 else INVALID)
    assert await caller.rows() == before


async def test_unknown_paths_are_not_found(caller: Caller) -> None:
    for path in (
        "/nowhere",
        "/games/",
        "/Games",
        "http://localhost//games",
        "/games/../../etc/passwd",
        "/games/%2e%2e/%2e%2e",
        "/games/g_abc/nothing",
        "/problems",
        "/problems/nothing",
        "/problems/%00",
        "/.env",
        "/static/../app/main.py",
        "/openapi.yaml",
        "/games;x=1",
    ):
        problem(await caller.get(path), 404, "not-found")


async def test_a_wrong_method_is_answered_with_the_allowed_ones(caller: Caller) -> None:
    before = await caller.rows()
    for method, path, allowed in (
        ("PUT", "/games", {"GET", "POST"}),
        ("DELETE", "/games", {"GET", "POST"}),
        ("OPTIONS", "/games", {"GET", "POST"}),
        ("TRACE", "/games", {"GET", "POST"}),
        ("BREW", "/games", {"GET", "POST"}),
        ("GET", "/games/import", {"POST"}),
        ("PUT", "/games/g_abc", {"DELETE", "GET"}),
        ("PATCH", "/games/g_abc/step", {"POST"}),
        ("POST", "/batches/b_abc", {"DELETE", "GET"}),
        ("POST", "/livez", {"GET"}),
    ):
        answer = await caller.request(method, path)
        if path == "/games/import":  # it reads like the id of a game, and is none
            assert answer.status_code in (405, 422)
            continue
        problem(answer, 405, "method-not-allowed")
        assert set(answer.headers["allow"].replace(" ", "").split(",")) <= allowed
    answer = await caller.head("/games")
    assert answer.status_code == 405
    assert answer.headers["allow"]
    assert await caller.rows() == before


async def test_a_page_of_another_site_is_not_this_machine(caller: Caller) -> None:
    before = await caller.rows()
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://[evil"},
        {"host": "evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "evil.example:8000"},
        {"host": "localhost@evil.example"},
        {"host": ""},
        {"host": "[::1"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "0.0.0.0"},
    ):
        for path in ("/games", "/openapi.json", "/livez"):
            answer = await caller.get(path, headers=headers)
            assert answer.status_code == 403, (headers, answer.status_code)
            problem(answer, 403, "forbidden")
        problem(await caller.post("/games", json={}, headers=headers), 403, "forbidden")
    assert await caller.rows() == before
    for headers in (
        {"origin": "http://localhost"},
        {"host": "127.0.0.1:8000"},
        {"host": "LOCALHOST"},
        {"host": "[::1]:8000"},
    ):
        assert (await caller.get("/games", headers=headers)).status_code == 200, headers


async def test_an_origin_on_the_list_may_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url, origins=("https://ours.example",)) as caller:
        assert (await caller.get("/games", headers={"origin": "https://ours.example"})).status_code == 200
        answer = await caller.get("/games", headers={"origin": "https://evil.example"})
        problem(answer, 403, "forbidden")


async def test_headers_that_make_no_sense_are_passed_over_or_refused(caller: Caller) -> None:
    _, [game] = await caller.create(drive="manual")
    before = await caller.rows()
    for garbage in ("garbage", '"', "W/", '"public.1.created', ",,,", "x" * 5000, "\u00ff"):
        answer = await caller.get(
            f"/games/{game}",
            headers={"if-none-match": garbage.encode("latin-1")},  # type: ignore[dict-item]
        )
        assert answer.status_code == 200
        answer = await caller.post(
            f"/games/{game}/step",
            json={},
            headers={"if-match": garbage.encode("latin-1")},  # type: ignore[dict-item]
        )
        problem(answer, 412, "stale")
    for key in (b"", b"x" * 129, b"\xff", b"tab\there", "schlüssel".encode("latin-1")):
        answer = await caller.post("/games", json={}, headers={"idempotency-key": key})  # type: ignore[dict-item]
        problem(answer, 422, INVALID, "/idempotency-key")
    for accept in ("text/html", "image/*;q=0", "garbage"):
        assert (await caller.get("/games", headers={"accept": accept})).status_code == 200
    for language in ("Bearer", "Basic eDp5", "Bearer " + "x" * 5000, "\u00ff"):
        answer = await caller.get("/games", headers={"authorization": language.encode("latin-1")})  # type: ignore[dict-item]
        # No key is configured, so none is asked for; but who shows one is not taken for who shows none.
        problem(answer, 401, "unauthenticated")
    assert await caller.rows() == before


async def test_unreadable_input_is_not_echoed(caller: Caller) -> None:
    for wish in (
        {"profile": EMBARRASSING},
        {"players": EMBARRASSING},
        {"drive": EMBARRASSING},
        {"roles": [EMBARRASSING] * 5},
        {"deal": {"1": EMBARRASSING}},
        {"seeds": {"from": EMBARRASSING}},
        {"seeds": EMBARRASSING},
        {"names": {"1": [EMBARRASSING]}},
        {"names": {"1": EMBARRASSING * 10}},
        {"names": {"1": EMBARRASSING, "2": EMBARRASSING}},
        {"labels": {"a": {"b": EMBARRASSING}}},
        {"rules": {"approval": EMBARRASSING}},
        {"seats": [{"agent": f"{EMBARRASSING}!"}]},
        {"unknown": EMBARRASSING},
        [EMBARRASSING],
        EMBARRASSING,
    ):
        answer = await caller.post("/games", content=json.dumps(wish))
        problem(answer, 422, INVALID)
        assert EMBARRASSING not in answer.text, wish
    for body in (f'{{"names": {EMBARRASSING}', f'{{"a": NaN, "b": "{EMBARRASSING}"}}', EMBARRASSING):
        answer = await caller.post("/games", content=body)
        assert EMBARRASSING not in problem(answer, 400, "unparsable")["detail"]
    for path, query in (
        ("/games", {"status": EMBARRASSING}),
        ("/games", {"cursor": EMBARRASSING}),
        ("/games", {"limit": EMBARRASSING}),
        ("/games/g_abc", {"viewer": EMBARRASSING}),
    ):
        assert EMBARRASSING not in (await caller.get(path, params=query)).text
    answer = await caller.post("/games", json={}, headers={"idempotency-key": EMBARRASSING * 9})
    assert EMBARRASSING not in answer.text


async def test_internal_errors_reveal_nothing_to_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError(EMBARRASSING)

        monkeypatch.setattr(caller.app.state.lists, "games", broken)
        with structlog.testing.capture_logs() as logged:
            answer = await caller.get("/games")
        body = problem(answer, 500, "internal")
        assert [(line["log_level"], line["trace_id"]) for line in logged] == [("error", body["trace_id"])]
        assert body["detail"] == INTERNAL.title
        assert EMBARRASSING not in answer.text
        assert (await caller.get("/livez")).status_code == 200


BREAKS = f"""
import structlog
from app.base.logs import configure
configure()
def broken(seed):
    prompt = "{EMBARRASSING}"
    raise RuntimeError("out of order")
try:
    broken(12)
except RuntimeError as fault:
    structlog.get_logger().exception("a game failed", exc_info=fault)
"""


def test_the_services_own_log_names_the_fault_and_no_variable() -> None:
    said = subprocess.run(
        [sys.executable, "-c", BREAKS], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stderr
    assert "out of order" in said
    assert "broken" in said
    # The line of code that failed may be named, the values in it not.
    assert '"locals"' not in said
    assert EMBARRASSING not in said


OPEN = (
    *("/intentions", "/profiles", "/livez", "/readyz"),
    *("/openapi.json", "/asyncapi.json", "/schemas/Act", "/problems/stale"),
    *("/", "/docs", "/docs/index.html", "/docs/bots.md"),
)

OTHERS_OPEN = (
    *("/problems/{code}", "/schemas/{name}", "/docs/{name}", "/ws", "/ws/lobby"),
    *("/ui", "/ui/{path}"),
    # The code in its body is the credential.
    "/claims",
)

KEY = "ik_" + "k" * 43


async def test_with_a_key_configured_every_other_route_asks_for_it(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=KEY) as caller:
        before = await caller.rows()
        asked = []
        for path, methods in (await caller.get("/openapi.json")).json()["paths"].items():
            if path in OPEN or path in OTHERS_OPEN:
                continue
            concrete = path.format(
                game_id="g_abc",
                batch_id="b_abc",
                evaluation_id="e_abc",
                token_id="t_abc",
                bot_id="p_abc",
                set_id="s_abc",
                entry_id="r_abc",
                seek_id="q_abc",
                other="e_abd",
                request_id="1.1.vote.1",
                code="stale",
                name="small",
                seat=1,
                path="index.html",
            )
            for method in methods:
                asked.append((method.upper(), concrete))
        assert ("GET", "/metrics") in asked
        assert ("POST", "/games/import") in asked
        assert len(asked) >= 13
        for headers in (
            {},
            {"authorization": f"Bearer {KEY[:-1]}"},
            {"authorization": f"Basic {KEY}"},
            {"authorization": "Bearer "},
            {"authorization": f"Bearer {KEY}x"},
            {"authorization": "Bearer \u00ff".encode("latin-1")},
        ):
            for method, path in asked:
                # What was sent is not looked at before it is clear who sent it.
                body = {"wrong": True} if method == "POST" else None
                answer = await caller.request(method, path, json=body, headers=headers)  # type: ignore[arg-type]
                problem(answer, 401, "unauthenticated")
                assert answer.headers["www-authenticate"] == "Bearer"
        for path in OPEN:
            assert (await caller.get(path)).status_code == 200, path
        assert await caller.rows() == before
        good = {"authorization": f"Bearer {KEY}"}
        assert (await caller.post("/games", json={"drive": "manual"}, headers=good)).status_code == 201
        # Who shows a key may call the service by any name.
        named = {**good, "host": "games.example"}
        assert (await caller.get("/games", headers=named)).status_code == 200
        assert KEY not in (await caller.get("/openapi.json")).text


async def test_many_bad_requests_at_once_leave_the_service_well(caller: Caller) -> None:
    before = await caller.rows()
    sent = [caller.post("/games", content=body) for _, body, _, _ in BODIES for _ in range(3)]
    answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} <= {400, 413, 422}
    assert len({answer.json()["trace_id"] for answer in answers}) == len(answers)
    assert await caller.rows() == before


def _import_everything() -> None:
    for package in ("engine", "agents", "evaluators", "app"):
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def test_every_error_has_a_problem() -> None:
    _import_everything()
    assert set(leaves(AvalonError)) == set(PROBLEMS)


def test_the_trees_at_the_top_of_the_error_modules_name_every_error() -> None:
    trees = [
        module.__doc__ or "" for module in (agents.errors, app.base.errors, engine.errors, evaluators.errors)
    ]
    drawn = re.findall(r"── (\w+)", "".join(trees))
    assert {error.__name__ for error in PROBLEMS} <= set(drawn)


def test_the_guide_to_problems_is_made_of_what_is_served() -> None:
    text = (PROJECT / "docs" / "problems.md").read_text("utf-8")
    assert text == guide(), "run make openapi"
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| \S[^|]*\. \| \S[^|]*\. \|$", text, re.MULTILINE)
    assert {(code, int(status)) for code, status in rows} == {
        (one.code, one.status) for one in problem_kinds()
    }


async def test_every_problem_says_what_it_means_and_what_to_do(caller: Caller) -> None:
    kinds = {one.code: one for one in problem_kinds()}
    assert len(kinds) == len(PROBLEMS) + 1
    for code, one in kinds.items():
        served = (await caller.get(f"/problems/{code}")).json()
        assert served == asdict(one)
        assert all(served.values()), code
