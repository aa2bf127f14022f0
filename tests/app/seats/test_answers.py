"""Bad answers of seats get the same refusals over the socket and over HTTP, always with the open request."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.app.calling import calling
from tests.app.real_server import Served
from tests.app.seated import SHORT, http_to, remote_game
from tests.app.watcher import Watcher, projection, watching
from tests.tiers import few_quickly

Frame = dict[str, Any]

TEAM = "1.1.propose_team.1"
LEGAL: Frame = {"team": [1, 2], "text": "Us."}
BELIEF: Frame = {"type": "beliefs_formed", "beliefs": [{"about": 2, "role": None, "confidence": 5}]}
BELIEFS = "/thoughts/0/beliefs"
WHY: Frame = {"type": "choice_explained", "text": "Because."}


@dataclass
class Chair:
    """A seat, and one way to answer for it. What comes back has the socket's form."""

    served: Served
    game: str
    token: str
    line: Watcher | None
    sent: int = 0

    @property
    def path(self) -> str:
        return f"/games/{self.game}/requests"

    async def request(self) -> Frame | None:
        async with http_to(self.served.url) as client:
            found = await client.get(self.path, params={"wait_s": 10}, headers=self._headers)
            return next(iter(found.json()["requests"]), None)

    @property
    def _headers(self) -> Frame:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    async def act(self, action: Any = LEGAL, *, request: str = TEAM, **more: Any) -> Frame:
        return await self.say({"action": action, **more}, request)

    async def say(self, message: Frame, request: str = TEAM) -> Frame:
        self.sent += 1
        if self.line is None:
            return await self._post(message, request)
        act = {"t": "act", "id": f"a{self.sent}", "request_id": request, **message}
        await self.line.connection.send(json.dumps(act))
        while (frame := await self.line.next())["t"] not in ("ack", "error"):
            pass
        assert frame["re"] == act["id"]
        return frame

    async def _post(self, message: Frame, request: str) -> Frame:
        async with http_to(self.served.url) as client:
            said = await client.post(
                f"{self.path}/{request}/action", content=json.dumps(message), headers=self._headers
            )
        found: Frame = said.json()
        if said.status_code == 200:
            return found
        pointers = [one["pointer"] for one in found.get("errors", ())]
        return {**found, "t": "error", **({"pointer": pointers[0]} if pointers else {})}


async def chair(served: Served, line: Watcher | None, seat: int = 1, **wish: Any) -> Chair:
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client, **{"rules": SHORT, **wish})
    if line is not None:
        await line.identify(game, token=tokens[seat])
    return Chair(served, game, tokens[seat], line)


@pytest.fixture(params=["socket", "http"])
async def line(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Watcher | None]:
    if request.param == "http":
        yield None
        return
    async with watching(served.ws_url) as one:
        yield one


# --- texts ----------------------------------------------------------------------------------------


async def test_crlf_is_lf_and_a_repetition_with_either_is_the_same_answer(
    served: Served, line: Watcher | None
) -> None:
    one = await chair(served, line)
    assert not (await one.act({"team": [1, 2], "text": "One.\r\nTwo.\n"}))["duplicate"]
    assert (await one.act({"team": [1, 2], "text": "One.\nTwo.\r\n"}))["duplicate"]
    assert (await one.act({"team": [1, 2], "text": "One.\nTwo.\n"}))["duplicate"]
    assert (await one.act({"team": [1, 2], "text": "One. Two.\n"}))["code"] == "already-answered"
    other = Chair(served, one.game, one.token, None)
    assert (await other.act({"team": [1, 2], "text": "One.\r\nTwo.\r\n"}))["duplicate"]
    row = await served.services.inbox.outcome(one.game, TEAM)
    assert row is not None
    assert row.action == '{"team":[1,2],"text":"One.\\nTwo.\\n"}'


async def test_crlf_in_a_summary_and_in_a_thought_is_lf(served: Served, line: Watcher | None) -> None:
    seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
    one = await chair(served, line, seats=seats, rules={"discussion": "none", "reconsideration": False})
    request = await one.request()
    while request is not None and request["kind"] != "summarise":
        explained = {"type": "choice_explained", "text": "Well,\r\nso it is."}
        assert "thoughts_refused" not in await one.act(
            request["default"], request=request["request_id"], thoughts=[explained]
        )
        request = await one.request()
    assert request is not None
    name = request["request_id"]
    doubled = await one.act({"answers": {"a\r\nb": "x", "a\nb": "y"}}, request=name)
    assert (doubled["code"], doubled["pointer"]) == ("invalid-action", "/answers")
    assert not (await one.act({"answers": {"a\r\nb": "x\r\n"}}, request=name))["duplicate"]
    assert (await one.act({"answers": {"a\nb": "x\n"}}, request=name))["duplicate"]
    assert (await one.act({"answers": {"a b": "x\n"}}, request=name))["code"] == "already-answered"
    full = await projection(served.services, one.game, -1)
    texts = [event["text"] for event in full if event["type"] == "choice_explained" and event["seat"] == 1]
    assert texts
    assert set(texts) == {"Well,\nso it is."}


TEXT_FAULTS = {
    "U+0000": "a\0",
    "bell": "a\a",
    "backspace": "\b",
    "form feed": "\f",
    "escape": "\x1b[31m",
    "delete": "\x7f",
    "half a pair": "\ud800",
    "the other half": "x\udfff",
    "old Macintosh": "one\rtwo",
    "two CR before LF": "one\r\r\ntwo",
    "CR at the end": "\r",
    "too long": "x" * 4001,
}


async def test_a_faulty_text_of_an_action_is_an_invalid_action_and_no_strike(
    served: Served, line: Watcher | None
) -> None:
    for name, text in TEXT_FAULTS.items():
        async with watching(served.ws_url) as anew:
            one = await chair(served, None if line is None else anew)
            said = await one.act({"team": [1, 2], "text": text})
            assert (said["code"], said["pointer"]) == ("invalid-action", "/text"), name
            assert (said["attempts_left"], said["request"]["attempts_left"]) == (2, 2)
            assert said["request"]["request_id"] == TEAM
            if name == "too long":
                continue
            # A name within the answer; deep inside what is no field of the message.
            said = await one.act({**LEGAL, text: 1})
            assert (said["code"], said["pointer"], said["attempts_left"]) == ("invalid-action", "", 1), name
            said = await one.say({"action": LEGAL, "mood": [{"b": text}]})
            assert (said["code"], said["pointer"]) == ("invalid-action", "/mood/0/b"), name


@pytest.mark.parametrize("deep", [1, 11])
async def test_a_fault_deep_in_an_unknown_field_of_an_action_is_reported_at_that_field(
    served: Served, line: Watcher | None, deep: int
) -> None:
    one = await chair(served, line)
    nested: Any = "\0"
    for _ in range(deep):
        nested = [nested]
    said = await one.act({"team": [1, 2], "a~b/c": nested})
    assert (said["code"], said["pointer"], said["attempts_left"]) == ("invalid-action", "/a~0b~1c", 2)
    said = await one.act({"team": [1, [{"\0": "\ud800"}]]})
    assert (said["code"], said["pointer"], said["attempts_left"]) == ("invalid-action", "/team/1", 1)


async def test_faulty_texts_never_end_a_connection(served: Served) -> None:
    async with watching(served.ws_url) as line:
        one = await chair(served, line)
        for text in ("\0", "\ud800", "\r"):
            assert (await one.act({"team": [1, 2], "text": text}))["code"] == "invalid-action"
        for text in ("\0", "\ud800", "\r"):
            assert (await one.act({"team": [1, 2], "text": text}))["code"] == "too-late"
        for request in ("\0", "9.9.vote.1\r"):
            await line.send(t="act", id="x", request_id=request, action=LEGAL)
        await line.send(t="ping", id="p")
        while (await line.next()).get("re") != "p":
            pass
        found = [frame for frame in line.frames if frame.get("re") == "x"]
        assert [(one["code"], one["pointer"]) for one in found] == [("invalid-action", "/request_id")] * 2


# --- no refusal without the request that is open --------------------------------------------------


THOUGHT_TYPES = ("choice_explained", "beliefs_formed", "intentions_selected")

REFUSALS: dict[str, tuple[Frame, str, str, str | None, int]] = {
    "another field": ({"action": LEGAL, "mood": 1}, TEAM, "invalid-request", "/mood", 3),
    "a field with signs": ({"action": LEGAL, "a/b~c": 1}, TEAM, "invalid-request", "/a~1b~0c", 3),
    "no action": ({}, TEAM, "invalid-request", "/action", 3),
    "null for an action": ({"action": None}, TEAM, "invalid-request", "/action", 3),
    "a list for an action": ({"action": [1, 2]}, TEAM, "invalid-request", "/action", 3),
    "a word for an action": ({"action": "yes"}, TEAM, "invalid-request", "/action", 3),
    "a text in a field": ({"action": LEGAL, "mood": "\0"}, TEAM, "invalid-action", "/mood", 2),
    "an empty action": ({"action": {}}, TEAM, "invalid-action", "/team", 2),
    "a wrong type": ({"action": {"team": "all"}}, TEAM, "invalid-action", "/team", 2),
    "a wrong type inside": ({"action": {"team": [1, "2"]}}, TEAM, "invalid-action", "/team/1", 2),
    "a huge number": ({"action": {"team": [1, 10**100]}}, TEAM, "invalid-action", "/team/1", 2),
    "illegal": ({"action": {"team": [1, 2, 3]}}, TEAM, "illegal-action", "/team", 2),
    "another seat's": ({"action": LEGAL}, "1.1.propose_team.2", "unknown-request", None, 3),
    "none at all": ({"action": LEGAL}, "9.9.vote.1", "unknown-request", None, 3),
    "nonsense": ({"action": LEGAL}, "nonsense", "unknown-request", None, 3),
    "other digits": ({"action": LEGAL}, "1.1.vote.\u0661", "unknown-request", None, 3),
    "far too long": ({"action": LEGAL}, "1" * 63, "unknown-request", None, 3),
}


async def test_every_refusal_of_an_act_names_it_and_what_is_open(
    served: Served, line: Watcher | None
) -> None:
    for case, (message, request, code, pointer, left) in REFUSALS.items():
        async with watching(served.ws_url) as anew:
            one = await chair(served, None if line is None else anew)
            before = await one.request()
            for _ in range(2 if left == 3 else 1):  # the third of what cannot be read ends the connection
                said = await one.say(message, request)
                assert (said["t"], said["code"], said.get("pointer")) == ("error", code, pointer), case
                assert said["request"]["request_id"] == TEAM
                assert said["request"]["attempts_left"] == left
                if code != "unknown-request":
                    assert said["attempts_left"] == left
            assert before is not None
            changing = {"attempts_left": 0, "ttl_ms": 0}
            assert said["request"] | changing == before | changing
            # It is as open as it says.
            assert (await one.act())["t"] == "ack", case


@pytest.mark.parametrize(
    ("fields", "re", "code", "pointer"),
    [
        ({"request_id": None}, "x", "invalid-request", "/request_id"),
        ({"request_id": 7}, "x", "invalid-request", "/request_id"),
        ({"request_id": ""}, "x", "invalid-request", "/request_id"),
        ({"request_id": "1" * 65}, "x", "invalid-request", "/request_id"),
        ({"request_id": "1.1.propose_team.1\0"}, "x", "invalid-action", "/request_id"),
        ({"request_id": "1.1.propose_team.1\n"}, "x", "unknown-request", None),
        ({"id": 7}, None, "invalid-request", "/id"),
        ({"id": ""}, None, "invalid-request", "/id"),
        ({"id": "x" * 65}, None, "invalid-request", "/id"),
        ({"id": "x\0"}, None, "invalid-action", "/id"),
        ({"id": "\ud83d"}, None, "invalid-action", "/id"),
        ({"v": 1}, "x", "invalid-request", "/v"),
        ({"\ud83d": 1}, "x", "invalid-action", ""),
    ],
)
async def test_an_act_with_a_wrong_envelope_is_answered_with_what_is_open(
    served: Served, fields: Frame, re: str | None, code: str, pointer: str | None
) -> None:
    async with watching(served.ws_url) as line:
        one = await chair(served, line)
        for _ in range(2):
            act = {"t": "act", "id": "x", "request_id": TEAM, "action": LEGAL, **fields}
            await line.connection.send(json.dumps(act))
            while (said := await line.next())["t"] != "error":
                pass
            assert (said["re"], said["code"], said.get("pointer")) == (re, code, pointer)
            assert ("request" in said) == (said.get("attempts_left") != 0)
        # An attempt where a text is none, and its request is named; the same message by its id counts once.
        asked = await one.request()
        assert asked is not None
        assert asked["attempts_left"] == {("invalid-action", ""): 2, ("invalid-action", "/id"): 1}.get(
            (code, pointer or ""), 3
        )
        act = {"t": "act", "id": "x", "action": LEGAL}
        await line.connection.send(json.dumps(act))
        while (said := await line.next())["t"] != "error":
            pass
        assert (said["re"], said["pointer"]) == ("x", "/request_id")


async def test_a_message_other_than_an_act_still_counts_as_a_strike(served: Served) -> None:
    async with watching(served.ws_url) as line:
        await chair(served, line)
        for message in ({"t": "akt"}, {"t": "ping", "id": "\0"}, {"t": "ping"}):
            await line.connection.send(json.dumps(message))
        assert await line.until_closed() == 4400


async def test_answers_that_come_too_fast_are_refused_with_what_is_open(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("app.seats.wire", "app.seats.seats"):
        monkeypatch.setattr(f"{module}.BURST", 3)
        monkeypatch.setattr(f"{module}.RATE", 0.001)
    async with watching(served.ws_url) as line:
        one = await chair(served, line)
        for _ in range(2):
            assert (await one.act(request="9.9.vote.1"))["code"] == "unknown-request"
        # The fourth message, with the identify.
        last = await one.act()
        assert await line.until_closed() == 4429
    over_http = Chair(served, one.game, one.token, None)
    for _ in range(3):
        assert (await over_http.act(request="9.9.vote.1"))["code"] == "unknown-request"
    for said in (last, await over_http.act()):
        assert said["code"] == "rate-limited"
        assert said["request"]["request_id"] == TEAM
        assert said["request"]["attempts_left"] == 3
    assert last["retry_after_ms"] > 0


@pytest.fixture
def three_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three messages, and none comes back with time."""
    for module in ("app.seats.wire", "app.seats.seats"):
        monkeypatch.setattr(f"{module}.BURST", 3)
        monkeypatch.setattr(f"{module}.RATE", 1e-6)


@pytest.mark.usefixtures("three_messages")
async def test_a_seat_that_answers_at_once_is_never_too_fast(served: Served, line: Watcher | None) -> None:
    one = await chair(served, line, seats=[{"agent": "remote"}, *[{"agent": "scripted"}] * 4])
    answered = 0
    while (request := await one.request()) is not None:
        said = await one.act(request["default"], request=request["request_id"])
        assert said.get("code") is None, said
        answered += 1
    assert answered > 3


@pytest.mark.usefixtures("three_messages")
async def test_an_accepted_answer_that_is_sent_again_and_again_is_a_flood(
    served: Served, line: Watcher | None
) -> None:
    one = await chair(served, line)
    assert not (await one.act())["duplicate"]
    said = [await one.act()]
    while "code" not in said[-1] and len(said) < 9:
        said.append(await one.act())
    assert said[-1]["code"] == "rate-limited"
    assert all(again["duplicate"] for again in said[:-1])


async def test_too_late_and_already_answered_say_what_is_open_now(
    served: Served, line: Watcher | None
) -> None:
    one = await chair(served, line)
    assert (await one.act())["t"] == "ack"
    vote = await one.request()
    assert vote is not None
    said = await one.act({"team": [1, 3]})
    assert (said["code"], said["request"]["request_id"]) == ("already-answered", vote["request_id"])
    # Whatever else is wrong with it.
    for action in ({"team": "x"}, {"team": [1, 2], "text": "\0"}, {}):
        said = await one.act(action)
        assert (said["code"], said["request"]["request_id"]) == ("already-answered", vote["request_id"])


# --- thoughts -------------------------------------------------------------------------------------

CHOSEN: Frame = {"type": "intentions_selected", "stage": "final", "intentions": [{"id": "convince_leader"}]}
DRAFT: Frame = {"type": "speech_drafted", "stage": "refinement", "think": "Hm.", "speak": "Us."}


def believed(*beliefs: Frame) -> Frame:
    return {"type": "beliefs_formed", "beliefs": list(beliefs)}


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"type": "choice_explained"}, "/thoughts"),
    "null": (None, "/thoughts"),
    "a word": ("because", "/thoughts"),
    "no object": ([WHY, 7], "/thoughts/1"),
    "no type": ([{"text": "x"}, WHY], "/thoughts/0/type"),
    "an unknown type": ([WHY, {"type": "vote_cast", "seat": 1, "approve": True}], "/thoughts/1/type"),
    "a field of its own": ([{**WHY, "mo/od~": 1}], "/thoughts/0/mo~1od~0"),
    "no text": ([{"type": "choice_explained"}], "/thoughts/0/text"),
    "U+0000": ([WHY, {**WHY, "text": "\0"}], "/thoughts/1/text"),
    "half a pair": ([believed({"about": 2, "snippets": ["a", "\ud800"]})], f"{BELIEFS}/0/snippets/1"),
    "a key that is no text": ([{**WHY, "\ud800": 1}], "/thoughts/0"),
    "too long": ([{**WHY, "text": "x" * 4001}], "/thoughts/0/text"),
    "another seat's": ([WHY, {**WHY, "seat": 2}], "/thoughts/1"),
    "no seat at all": ([{**WHY, "seat": 0}], "/thoughts/0/seat"),
    "doubled": ([BELIEF, WHY, BELIEF, WHY], "/thoughts/2"),
    "doubled stage": ([DRAFT, {**DRAFT, "stage": "formulation"}, DRAFT], "/thoughts/2"),
    "off the menu": ([{**CHOSEN, "intentions": [{"id": "fly"}]}, WHY], "/thoughts/0/intentions/0/id"),
    "no menu": ([WHY, CHOSEN], "/thoughts/1"),
    "confidence 6": ([believed({"about": 2, "confidence": 6})], f"{BELIEFS}/0/confidence"),
    "confidence -1": ([believed({"about": 2, "confidence": -1})], f"{BELIEFS}/0/confidence"),
    "confidence true": ([believed({"about": 2, "confidence": True})], f"{BELIEFS}/0/confidence"),
    "about itself": ([believed({"about": 3}, {"about": 1})], f"{BELIEFS}/1/about"),
    "about nobody": ([believed({"about": 6})], f"{BELIEFS}/0/about"),
    "no such role here": ([believed({"about": 2, "role": "oberon"})], f"{BELIEFS}/0/role"),
    "no role": ([believed({"about": 2, "role": "wizard"})], f"{BELIEFS}/0/role"),
    "no such intention": ([believed({"about": 2, "intentions": ["fly"]})], f"{BELIEFS}/0/intentions"),
    "too many": ([WHY] * 25, "/thoughts/20"),
}  # fmt: skip


async def recorded(one: Chair) -> list[Frame]:
    """What its seat sees, once its answer is in the log."""
    async with asyncio.timeout(60):
        while True:
            events = await projection(one.served.services, one.game, 1)
            if any(event["type"] == "team_proposed" for event in events):
                return events
            await asyncio.sleep(0.05)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", few_quickly(["socket", "http"], 1))
async def test_a_wrong_thought_costs_neither_the_action_nor_the_others(served: Served, way: str) -> None:
    for case, (thoughts, pointer) in WRONG.items():
        rules = SHORT if case == "no menu" else {**SHORT, "discussion": "after_proposal"}
        async with watching(served.ws_url) as line:
            one = await chair(served, line if way == "socket" else None, rules=rules)
            ack = await one.act(LEGAL, thoughts=thoughts)
            assert (ack["t"], ack.get("duplicate")) == ("ack", False), case
            assert [fault["pointer"] for fault in ack["thoughts_refused"]] == [pointer], case
            assert all(fault["message"] for fault in ack["thoughts_refused"])
            # The same again, with other thoughts, or by the other way: the first ones stand.
            for other in (one, Chair(served, one.game, one.token, None)):
                for more in ({"thoughts": thoughts}, {"thoughts": [WHY]}, {}):
                    assert await other.act(LEGAL, **more) == {
                        **ack, "re": None if other.line is None else f"a{other.sent}", "duplicate": True
                    }, case  # fmt: skip
        events = await recorded(one)
        kept = [event for event in events if event["type"] in (*THOUGHT_TYPES, "speech_drafted")]
        total = 20 if case == "too many" else len(thoughts) - 1 if isinstance(thoughts, list) else 0
        assert len(kept) == total, case
        assert [event["team"] for event in events if event["type"] == "team_proposed"] == [[1, 2]]


async def test_each_wrong_thought_is_reported_and_a_good_one_of_the_same_type_after_it_is_kept(
    served: Served, line: Watcher | None
) -> None:
    one = await chair(served, line, rules={**SHORT, "discussion": "after_proposal"})
    request = await one.request()
    assert request is not None
    good = {**CHOSEN, "intentions": [{"id": request["menu"][0]}]}
    bad = {**CHOSEN, "intentions": [{"id": request["menu"][0]}, {"id": "fly"}]}
    twice = {**CHOSEN, "intentions": [{"id": request["menu"][0]}] * 2}
    ack = await one.act(LEGAL, thoughts=[bad, twice, good, good, {**WHY, "seat": 3}])
    assert [fault["pointer"] for fault in ack["thoughts_refused"]] == [
        "/thoughts/0/intentions/1/id", "/thoughts/1/intentions", "/thoughts/3", "/thoughts/4"
    ]  # fmt: skip
    events = await recorded(one)
    kept = [event for event in events if event["type"] == "intentions_selected"]
    assert [[chosen["id"] for chosen in event["intentions"]] for event in kept] == [[request["menu"][0]]]


async def test_an_illegal_action_is_reported_and_its_thoughts_are_not(
    served: Served, line: Watcher | None
) -> None:
    one = await chair(served, line)
    said = await one.act({"team": [1, 1]}, thoughts=[{**WHY, "seat": 4}, 9])
    assert (said["code"], said["pointer"]) == ("illegal-action", "/team")
    assert "thoughts_refused" not in said


async def test_refused_thoughts_are_remembered_across_a_restart(database_url: str) -> None:
    token = game = ""
    first: Frame = {}
    for start in range(2):
        async with calling(database_url, runner=bool(start)) as caller:
            if not start:
                game, tokens = await remote_game(caller, rules=SHORT)
                token = tokens[1]
            said = await caller.post(
                f"/games/{game}/requests/{TEAM}/action",
                content=json.dumps(
                    {"action": LEGAL, "thoughts": [WHY, {**WHY, "text": "\0"}, {"\ud800": 1}]}
                ),
                headers={"Authorization": f"Bearer {token}"},
            )
            assert said.status_code == 200, said.text
            first = first or said.json()
            assert said.json() == {**first, "duplicate": bool(start)}
            pointers = [one["pointer"] for one in first["thoughts_refused"]]
            assert pointers == ["/thoughts/1/text", "/thoughts/2/type"]


async def test_a_refused_text_is_stored_by_either_database(database_url: str) -> None:
    async with calling(database_url) as caller:
        game, tokens = await remote_game(caller, rules=SHORT)
        bodies = [
            {"action": {"\0\ud800": "\0"}},
            {"action": {"team": [1, 2], "\ud800": 1}},
            {"action": {"text": "\0"}},
        ]
        for left, body in zip((2, 1, 0), bodies, strict=True):
            for request in (TEAM, "1.1.vote%00.1", "%00.1", "%ED%A0%80.1"):
                said = await caller.post(
                    f"/games/{game}/requests/{request}/action",
                    content=json.dumps(body),
                    headers={"Authorization": f"Bearer {tokens[1]}"},
                )
                assert said.status_code == (422 if request == TEAM else 404), said.text
                if request == TEAM:
                    assert said.json()["attempts_left"] == left
