"""Answers that come in pieces, and answers in forms that nobody asked for."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from agents.model import completion as completion_module
from agents.model.completion import Broken, Completion, CompletionReader
from agents.model.wire import nap_s
from app.instruments.fake_model.http import Response
from tests.agents.model.scripted import USABLE, answering, completion, error, events, streamed
from tests.agents.model.serving import table

HALF, REST = USABLE[:20], USABLE[20:]


def piece(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
TOOL = {"index": 0, "id": "t", "type": "function", "function": {"name": "vote", "arguments": HALF}}
REASONED = {"reasoning_content": "Hm. ", "reasoning": "Hm. "}


READ = {
    "pieces": streamed(HALF, REST),
    "no end mark": streamed(HALF, REST, done=False),
    "no finish reason": streamed(HALF, REST, finish=None),
    "no counts": streamed(HALF, REST, usage=None),
    "an event in several lines": events(
        json.dumps(piece(content=USABLE), indent=1).replace("{", "data: {", 1).replace("\n", "\ndata: "), STOP
    ),
    "comments": streamed(HALF, REST, before=[": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING"]),
    "comments under the type of JSON": Response(
        200, streamed(HALF, REST, before=[": wait"]).body, "application/json"
    ),
    "comments before a body": Response(200, b": wait\n\n: wait\n\n" + completion().body),
    "blank lines before a body": Response(200, b"\n\n\n  " + completion().body),
    "a body as a stream": Response(200, completion().body, "text/event-stream"),
    "a byte order mark before a body": Response(200, b"\xef\xbb\xbf" + completion().body),
    "a byte order mark before a stream": Response(
        200, b"\xef\xbb\xbf" + streamed(HALF, REST).body, "text/event-stream"
    ),
    "a byte order mark before the answer": completion(f"\ufeff{USABLE}"),
    "other ends of lines": Response(
        200, streamed(HALF, REST).body.replace(b"\n", b"\r\n"), "text/event-stream"
    ),
    "line separators in strings": streamed('{"approve": true, "reason": "a\u2028b", "seats": [1]}'),
    "a tool call": completion(None, message={"tool_calls": [TOOL | {"function": {"arguments": USABLE}}]}),
    "a tool call with an object": completion(
        None, message={"tool_calls": [{"function": {"arguments": json.loads(USABLE)}}]}
    ),
    "a function call": completion(None, message={"function_call": {"name": "v", "arguments": USABLE}}),
    "a tool call in pieces": events(
        piece(tool_calls=[TOOL]), piece(tool_calls=[{"index": 0, "function": {"arguments": REST}}]), STOP
    ),
    "reasoning in pieces": events(piece(**REASONED), piece(**REASONED), piece(content=USABLE), STOP),
    "the answer in the reasoning": completion("", message={"reasoning_content": f"So:\n{USABLE}"}),
    "thinking aloud": completion(f'<think>Maybe {{"a": 1}}.</think>{USABLE}'),
    "thinking aloud in brackets": completion(f"[THINK]Hm.[/THINK]{USABLE}"),
    "only the end of thinking": completion(f"Hm.</think>\n{USABLE}"),
    "channels": completion(f"<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>{USABLE}"),
    "the end of thinking as a word": completion(
        '{"approve": true, "reason": "</think> {", "seats": [1]}'
    ),
    "parts": completion(
        [{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": USABLE}]
    ),
    "another choice first": events(
        {"choices": [{"index": 1, "delta": {"content": "no"}}]}, piece(content=USABLE), STOP
    ),
    "a whole message in an event": events(json.loads(completion().body)),
    "the whole message after its pieces": events(
        piece(content=HALF), piece(content=REST), json.loads(completion().body)
    ),
    "a finish reason of null in words": events(
        {"choices": [{"delta": {"content": HALF}, "finish_reason": "null"}]}, piece(content=REST), STOP
    ),
    "words that keep the connection open": events(
        "event: ping\ndata: ping", piece(content=HALF), "data: null", piece(content=REST), STOP, "data: ping"
    ),
    "an end mark as a string": events(piece(content=HALF), piece(content=REST), STOP, 'data: "[DONE]"'),
    "events that a gateway wrapped again": events(
        *(f"data: data: {json.dumps(one)}" for one in (piece(content=HALF), piece(content=REST), STOP)),
        "data: data: [DONE]",
    ),
    "events in lists of one": events(
        *(f"data: {json.dumps([one])}" for one in (piece(content=HALF), piece(content=REST), STOP))
    ),
    "each piece with all before it": events(
        *(piece(content=USABLE[:end]) for end in range(1, len(USABLE))), piece(content=USABLE), STOP
    ),
    "a second call of a tool": events(
        piece(tool_calls=[TOOL]), piece(tool_calls=[{"index": 0, "function": {"arguments": REST}}]),
        piece(tool_calls=[TOOL | {"index": 1, "function": {"arguments": '{"approve": false}'}}]), STOP
    ),
    "an index as a text": events(
        {"choices": [{"index": "0", "delta": {"content": USABLE}, "finish_reason": "stop"}]}
    ),
    "an object as content": completion(json.loads(USABLE)),
    "status 201": Response(201, completion().body),
    "garbage after the end": Response(200, streamed(HALF, REST).body + b"data: {no\n\n", "text/event-stream"),
    "an error and garbage after the end": events(
        piece(content=USABLE), STOP, {"error": {"message": "late", "code": 500}}, "data: [1, 2]", "data: {no"
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", READ)
async def test_an_answer_is_read_in_whatever_form_it_comes(said: str) -> None:
    async with answering(READ[said]) as here:
        reply = await here.ask()
        assert isinstance(reply.value, dict)
        assert reply.value["approve"] is True
        assert reply.calls == (2 if said == "the answer in the reasoning" else 1)


@pytest.mark.parametrize("block", [1, 3, 50])
@pytest.mark.parametrize("said", READ)
def test_where_the_blocks_of_a_body_are_cut_does_not_matter(said: str, block: int) -> None:
    whole, cut = CompletionReader("m"), CompletionReader("m")
    body = READ[said].body
    whole.feed(body)
    for start in range(0, len(body), block):
        cut.feed(body[start : start + block])
    read = whole.end()
    assert isinstance(read, Completion)
    assert cut.end() == read


def test_lines_that_cannot_be_read_are_not_gathered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each is looked at together with those before it: a megabyte of them would stop the service for seconds.
    looked_at = 0

    def loads(text: str) -> Any:
        nonlocal looked_at
        looked_at += len(text)
        return json.loads(text)

    monkeypatch.setattr(completion_module, "json", SimpleNamespace(loads=loads, JSONDecoder=json.JSONDecoder))
    reader = CompletionReader("m")
    line = b"data: {broken " + b"x" * 1_000 + b"}\n"
    for _ in range(50):
        reader.feed(line * 20)
    assert looked_at < 100 * len(line) * 1_000
    assert isinstance(reader.end(), Broken)


CUT = {
    "a stream without an end": (streamed(HALF, finish=None, usage=None, done=False), "truncated", "outage"),
    "a chunk cut in two": (Response(200, b'data: {"choices"', "text/event-stream"), "truncated", "outage"),
    "nothing at all": (Response(200, b"", "text/event-stream"), "truncated", "outage"),
    "an error in mid-stream": (
        events(piece(content=HALF), {"error": {"code": 502, "message": "upstream"}}), "status_502", "outage"
    ),
    "an error in the choice": (
        completion(HALF, finish="error"), "error_body", "outage"
    ),
    "an engine that had no resources": (
        completion(HALF, finish="insufficient_system_resource"), "error_body", "outage"
    ),
    "an error by another name": (
        events(piece(content=HALF), {"type": "error", "message": "overloaded"}), "error_body", "outage"
    ),
    "an error in mid-stream by the event's name alone": (
        events(piece(content=HALF), 'event: error\ndata: {"message": "engine died"}'), "error_body", "outage"
    ),
    "an end without anything": (events("data: [DONE]"), "no_choices", "answer"),
}  # fmt: skip


@pytest.mark.parametrize("said", CUT)
async def test_an_answer_that_stops_half_way_is_no_answer_and_counted(said: str) -> None:
    response, cause, kind = CUT[said]
    async with answering(response) as here:
        fault = await here.fails()
        assert (fault.cause, fault.kind) == (cause, kind)
        assert fault.spent is not None
        assert fault.spent.calls == 2
        if "stream" in said and "error" not in said:
            assert fault.spent.usage.completion == 2 * 5  # HALF has twenty characters
            assert not fault.spent.usage.known


async def test_an_answer_is_not_cut_for_being_repeated_with_every_piece() -> None:
    long = json.dumps({"approve": True, "reason": "".join(f"word {n} " for n in range(250)), "seats": [1]})
    pieces = [long[:end] for end in range(5, len(long), 5)]
    async with answering(streamed(*pieces, long)) as here:
        assert (await here.ask(600)).text == long


async def test_what_was_thought_is_told_apart_from_what_was_said() -> None:
    for response, thought in (
        (READ["reasoning in pieces"], "Hm. Hm. "),
        (READ["thinking aloud in brackets"], "Hm."),
        (READ["parts"], "Hm."),
        (READ["pieces"], None),
    ):
        async with answering(response) as here:
            assert (await here.ask()).reasoning == thought


async def test_a_model_that_repeats_itself_for_ever_is_cut() -> None:
    async with answering(streamed(*[USABLE, *["\n   "] * 10_000], finish=None, done=False)) as here:
        reply = await here.ask()
        assert (reply.finish, reply.calls) == ("runaway", 1)
        assert reply.value is not None
        assert not reply.usage.known
    async with answering(streamed(*["I agree with seat 3. "] * 1000, usage=None)) as here:
        reply = await here.ask()
        assert (reply.finish, reply.value, len(reply.text) < 4096) == ("runaway", None, True)


async def test_a_server_that_ignores_the_limit_is_cut_far_beyond_it() -> None:
    words = [f"word {number} " for number in range(5_000)]
    async with answering(streamed(*words)) as here:
        reply = await here.ask(100)
        assert reply.finish == "runaway"
        assert len(reply.text) < 16 * 100 + 1100


async def test_a_server_that_does_not_stream_is_asked_without() -> None:
    refused = error(400, "Your organization must be verified to stream this model.", param="stream")
    async with answering(refused, completion()) as here:
        assert (await here.ask()).value is not None
        assert (await here.ask()).calls == 1
        assert [body.get("stream") for body in here.requests] == [True, None, None]
        assert "stream_options" not in here.requests[1]


async def test_a_server_without_stream_options_streams_without_them() -> None:
    refused = Response(
        422, json.dumps({"detail": [{"loc": ["body", "stream_options"], "msg": "extra"}]}).encode()
    )
    async with answering(refused, streamed(USABLE, usage=None)) as here:
        reply = await here.ask()
        assert (reply.value is not None, reply.usage.known) == (True, False)
        assert [("stream_options" in body, body["stream"]) for body in here.requests] == [
            (True, True),
            (False, True),
        ]


async def test_an_endpoint_may_do_without_streams() -> None:
    async with answering(completion(), stream=False) as here:
        await here.ask()
        assert "stream" not in here.requests[0]


async def test_a_stream_leaves_its_connection_for_the_next_request() -> None:
    async with table() as here:
        for _ in range(3):
            await here.ask()
        assert len(here.server.connections) == 1


async def test_the_time_to_the_first_token_is_kept_where_the_answer_comes_in_pieces() -> None:
    async with answering(events(piece(role="assistant"), piece(content=USABLE), STOP)) as here:
        reply = await here.ask()
        assert reply.first_s is not None
        assert 0 < reply.first_s <= reply.latency_s
    async with answering(completion()) as here:
        assert (await here.ask()).first_s is None


@pytest.mark.parametrize("silence_s", [0.04, 2.0, 60.0])
def test_calls_wake_up_together_and_sleep_far_less_than_a_silence_may_last(silence_s: float) -> None:
    elapsed, ends = [0.001 * 1.3**n for n in range(40)], set()
    for number, since in enumerate(elapsed):
        now = 1000 + 0.0001 * number
        slept = nap_s(now, since, silence_s)
        assert 0 < slept <= silence_s / 4
        assert slept <= max(0.05, since * 0.05 + 0.05)
        ends.add(round((now + slept) / 0.05, 6))
    if silence_s >= 2:
        # Forty calls that began at different times wake up at six.
        assert ends == set(map(float, range(20001, 20007)))
