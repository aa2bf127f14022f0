"""The fake model: its protocol, its counts, and equal behaviour for equal seeds."""

import asyncio
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from app.instruments.fake_model import (
    FAULTS,
    FakeModel,
    FakeOptions,
    Fault,
    Latency,
    echo,
    noise,
    prose,
    read_fault,
    read_latency,
    server,
)
from app.instruments.fake_model.filling import fill
from tests.app.calling import WITHIN_S, until
from tests.app.typed import interintent

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean"},
        "kind": {"const": "vote"},
        "seat": {"type": "integer", "minimum": 2, "exclusiveMaximum": 5},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
        "label": {"enum": ["a", "b", None]},
        "seats": {"type": "array", "items": {"$ref": "#/$defs/seat"}, "minItems": 2, "maxItems": 3,
                  "uniqueItems": True},
        "either": {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 70, "maxLength": 71}]},
        "pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "items": False,
                 "maxItems": 2},
        "both": {"allOf": [{"$ref": "#/$defs/named"},
                           {"properties": {"b": {"const": 1}}, "required": ["b"]}]},
        "maybe": {"type": ["string", "null"]},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["approve", "kind", "seat", "share", "label", "seats", "either", "pair", "both", "tree"],
    "additionalProperties": False,
    "$defs": {
        "seat": {"type": "integer", "minimum": 1, "maximum": 3},
        "named": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        "tree": {"type": "object", "required": ["below"],
                 "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
    },
}  # fmt: skip

JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "vote", "schema": SCHEMA}}


def body(text: str = "Vote.", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


async def post(client: httpx.AsyncClient, text: str = "Vote.", **more: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=body(text, **more))


@pytest.mark.parametrize("seed", range(100))
def test_noise_follows_the_schema(seed: int) -> None:
    value = fill(SCHEMA, random.Random(seed))
    jsonschema.Draft202012Validator(SCHEMA).validate(value)


async def test_it_answers_as_the_protocol_says() -> None:
    async with (
        FakeModel().serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        answer = (await post(client, response_format=JSON_SCHEMA)).json()
        message = answer["choices"][0]["message"]
        jsonschema.validate(json.loads(message["content"]), SCHEMA)
        assert (answer["object"], answer["choices"][0]["finish_reason"]) == ("chat.completion", "stop")
        usage = answer["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "fake"
        assert "test instrument" in (await client.get("/")).text
        assert (await client.get("/nowhere")).status_code == 404


async def test_a_stream_holds_the_same_answer() -> None:
    async with (
        FakeModel().serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        whole = (await post(client, response_format=JSON_SCHEMA)).json()
        streamed = await post(
            client, response_format=JSON_SCHEMA, stream=True, stream_options={"include_usage": True}
        )
        events = [line[6:] for line in streamed.text.splitlines() if line]
        assert events.pop() == "[DONE]"
        chunks = [json.loads(one) for one in events]
        assert chunks.pop()["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        said = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks)
        assert said == whole["choices"][0]["message"]["content"]


async def test_a_schema_in_the_last_message_is_followed_too() -> None:
    text = f"As you like.\n\nIt follows this JSON Schema:\n{json.dumps(SCHEMA)}"
    async with (
        FakeModel().serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        answer = (await post(client, text)).json()
        jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), SCHEMA)


async def test_an_answer_is_cut_at_the_asked_length() -> None:
    async with (
        FakeModel(FakeOptions(brain=prose(0))).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        answer = (await post(client, max_tokens=3)).json()
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    "wrong",
    [b"", b"{", b"[]", b"[" * 100_000, b'{"model": "m"}', b'{"model": "m", "messages": []}',
     b'{"model": "m", "messages": [7]}', b'{"messages": [{"role": "user", "content": ""}]}',
     b'{"model": "m", "messages": [{"role": "user", "content": ""}], "response_format": 7}',
     b'{"model": "m", "messages": [{"role": "user"}], "response_format": {"type": "json_object"}}'],
)  # fmt: skip
async def test_an_invalid_request_is_refused(wrong: bytes) -> None:
    async with (
        FakeModel().serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        answer = await client.post("/v1/chat/completions", content=wrong)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]
        assert fake.counts.calls == 0


async def test_it_counts_calls_by_their_messages_and_finds_prefixes() -> None:
    async with (
        FakeModel().serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        rules = "rules " * 100
        await post(client, rules)
        await post(client, rules + "and then " * 20)
        await post(client, rules)
        stats = (await client.get("/stats")).json()
        assert (stats["calls"], stats["answered"], stats["distinct"], stats["repeated"]) == (3, 3, 2, 1)
        assert sorted(stats["by_key"].values()) == [1, 2]
        # 600 characters of rules: nine blocks of 64 in the second prompt and in the third.
        assert stats["cached_tokens"] == 2 * 9 * 64 / 4
        assert "by_key" not in (await client.get("/stats?keys=false")).json()
        await client.post("/stats/reset")
        assert (await client.get("/stats")).json()["calls"] == 0


async def test_it_counts_calls_in_flight_and_abandoned_calls() -> None:
    options = FakeOptions(latency=Latency("fixed", (1.0,)))
    async with (
        FakeModel(options).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        calls = [asyncio.create_task(post(client, str(number))) for number in range(5)]
        await until(lambda: fake.counts.in_flight == 5)
        calls[0].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: fake.counts.in_flight == 0)
        assert (fake.counts.in_flight, fake.counts.max_in_flight) == (0, 5)
        assert (fake.counts.abandoned, fake.counts.answered) == (1, 4)


async def test_a_line_is_kept_of_every_call(tmp_path: Path) -> None:
    options = FakeOptions(count_file=tmp_path / "calls.ndjson", faults=(Fault("status_500", times=1),))
    async with (
        FakeModel(options).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        await post(client)
        await post(client)
    first, second = map(json.loads, (tmp_path / "calls.ndjson").read_text().splitlines())
    assert (first["status"], first["faults"], second["status"]) == (500, ["status_500"], 200)
    assert first["key"] == second["key"]


async def served(seed: int, order: list[int]) -> dict[int, tuple[int, str]]:
    faults = (Fault("status_500", 0.3), Fault("fences", 0.5), Fault("choices_null", 0.3))
    options = FakeOptions(seed=seed, faults=faults)
    async with (
        FakeModel(options).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
    ):
        out = {}
        for number in order:
            answer = await post(client, str(number), response_format=JSON_SCHEMA)
            told = json.dumps(answer.json().get("choices"))
            out[number] = (answer.status_code, told)
        return out


async def test_equal_seeds_behave_alike_in_any_order() -> None:
    numbers = list(range(20))
    first = await served(1, numbers)
    assert await served(1, numbers[::-1]) == first
    assert await served(2, numbers) != first
    assert {status for status, _ in first.values()} == {200, 500}


async def test_a_fault_comes_as_often_as_it_is_set() -> None:
    async with FakeModel(FakeOptions(faults=(Fault("status_503", 0.25),))).serving() as fake:
        async with httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client:
            for number in range(200):
                await post(client, str(number))
        assert 30 <= fake.counts.faults["status_503"] <= 70


SILENT = {"silence", "silence_after_headers", "slow_drip"}
"""Faults that only the client's own time ends."""


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"refused"}))
async def test_the_server_survives_every_fault(fault: str) -> None:
    options = FakeOptions(faults=(Fault(fault, times=1),))
    async with (
        FakeModel(options).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=60) as client,
    ):
        with contextlib.suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(0.5 if fault in SILENT else 60):
                await post(client, response_format=JSON_SCHEMA, temperature=0.5, max_tokens=900)
        fake.faults = ()
        if fault == "stale_connection":
            with pytest.raises(httpx.RemoteProtocolError):
                await post(client)
        assert (await post(client)).status_code == 200


@pytest.mark.parametrize("lasts", [True, False])
async def test_refused_callers_stay_refused_until_the_fault_ends(
    lasts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REFUSE_S", 3600.0 if lasts else 0.1)
    options = FakeOptions(faults=(Fault("refused", times=1),))
    async with (
        FakeModel(options).serving() as fake,
        httpx.AsyncClient(base_url=fake.url, timeout=60) as client,
    ):
        with pytest.raises(httpx.TransportError):
            await post(client)
        if lasts:
            with pytest.raises(httpx.ConnectError):
                await post(client)
            return
        await until(lambda: not fake._http.refusing)
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    assert (await post(client)).status_code == 200
                    return


@pytest.mark.parametrize("brain", [noise, prose, echo])
def test_a_brain_answers_equal_requests_equally(brain: Any) -> None:
    messages = [{"role": "user", "content": "Vote."}]
    assert brain(1)(messages, SCHEMA) == brain(1)(messages, SCHEMA)
    if brain is not echo:
        assert brain(1)(messages, SCHEMA) != brain(2)(messages, SCHEMA)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0", 0, 0), ("1.5", 1.5, 1.5), ("uniform:0.5,2", 0.5, 2), ("exponential:1", 0, 30),
     ("lognormal:1.0,0.5", 0.05, 20)],
)  # fmt: skip
def test_latencies_are_drawn_within_reason(text: str, low: float, high: float) -> None:
    drawn = [read_latency(text).draw(random.Random(seed)) for seed in range(500)]
    assert low <= min(drawn) <= max(drawn) <= high
    if text.startswith("lognormal"):
        assert 0.9 < sorted(drawn)[250] < 1.1


@pytest.mark.parametrize("text", ["", "fast", "uniform:1", "gamma:1,2", "-1", "nan", "lognormal:1,x"])
def test_no_other_latency_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"latency|takes"):
        read_latency(text)


def test_faults_are_read() -> None:
    assert read_fault("status_429") == Fault("status_429")
    assert read_fault("status_429:0.2") == Fault("status_429", 0.2)
    assert read_fault("status_429:1:3") == Fault("status_429", 1.0, 3)
    for wrong in ("nothing", "status_429:2", "status_429:x", "status_429:1:x"):
        with pytest.raises(ValueError, match=r"fault|rate"):
            read_fault(wrong)


def test_it_serves_on_the_other_event_loop_too() -> None:
    uvloop = pytest.importorskip("uvloop", reason="there is no uvloop for this platform")

    async def ask() -> int:
        async with (
            FakeModel().serving() as fake,
            httpx.AsyncClient(base_url=fake.url, timeout=WITHIN_S) as client,
        ):
            return (await post(client)).status_code

    assert uvloop.run(ask()) == 200


def test_its_help_says_what_it_is_and_every_fault_is_listed() -> None:
    said = interintent("fake-model", "--help")
    assert "TEST INSTRUMENT" in said.output
    listed = interintent("fake-model", "--list-faults").output
    assert {line.split()[0] for line in listed.splitlines()} == FAULTS.keys()


@pytest.mark.parametrize("wrong", [["--fault", "nothing"], ["--latency", "soon"], ["--brain", "human"]])
def test_a_wrong_option_is_refused_in_a_line(wrong: list[str]) -> None:
    done = interintent("fake-model", *wrong)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_the_command_serves_until_it_is_stopped() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", "fake-model", "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"(http://[\d.:]+)/v1", said)
        assert found, said
        assert httpx.get(f"{found[1]}/stats", timeout=200).json()["calls"] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 0


async def test_a_request_that_cannot_be_read_is_refused_and_the_connection_closed() -> None:
    async with FakeModel().serving() as fake:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(fake.url.rpartition(":")[2]))
        writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 411 ")
    assert b"\r\nConnection: close\r\n" in answer
