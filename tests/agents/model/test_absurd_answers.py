"""Whatever stands in a field or a header of a response, it is a reply or a call that failed."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.model import client
from agents.model.answer import HttpAnswer, clean, retry_after
from agents.model.client import OpenAIModel
from agents.model.completion import CompletionReader
from agents.model.model import Endpoint, ModelUnavailable, Reply
from tests.agents.model.scripted import USABLE, completion
from tests.agents.model.serving import ASKED, VOTE

FAR: Final = "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"


class FixedWire:
    """Answers every request with the same response."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._answer = HttpAnswer(status, headers, b"" if status < 300 else body)
        self._body = body

    async def post(self, _body: Any, reader: CompletionReader, *_: Any) -> HttpAnswer:
        if self._answer.status < 300:
            reader.feed(self._body)
        return self._answer

    async def aclose(self) -> None:
        pass


def asked(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Reply | ModelUnavailable:
    """What comes of a call that gets this response."""
    with patch("agents.model.wire.Wire", return_value=FixedWire(status, headers or {}, body)):
        endpoint = Endpoint("here", "http://127.0.0.1:1/v1", "m", attempts=1, retry_after_s=0)
        model = OpenAIModel(endpoint, jitter=lambda: 0.0)
    try:
        return asyncio.run(model.complete(ASKED, VOTE, temperature=0.8, max_tokens=400))
    except ModelUnavailable as fault:
        return fault


def paths(value: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """The places of all values within a value."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from paths(item, *at, name)


def put(value: Any, at: tuple[Any, ...], new: Any) -> None:
    for name in at[:-1]:
        value = value[name]
    value[at[-1]] = new


USAGE: Final = {
    "prompt_tokens": 5,
    "input_tokens": 5,
    "completion_tokens": 5,
    "total_tokens": 10,
    "reasoning_tokens": 1,
    "cached_tokens": 1,
    "cache_read_input_tokens": 1,
    "cost": 0.1,
    "estimated_cost": 0.1,
    "is_byok": True,
    "cost_details": {"upstream_inference_cost": 0.1},
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
MESSAGE: Final = {
    "role": "assistant",
    "content": USABLE,
    "reasoning": "why",
    "reasoning_details": [{"text": "why"}],
    "refusal": None,
    "tool_calls": [{"index": 0, "function": {"arguments": USABLE}}],
    "function_call": {"arguments": USABLE},
}
ANSWER: Final = {
    "model": "m",
    "provider": "p",
    "system_fingerprint": "f",
    "choices": [{"index": 0, "message": MESSAGE, "delta": None, "finish_reason": "stop", "error": None}],
    "usage": USAGE,
    "x_groq": {"usage": USAGE},
    "base_resp": {"status_code": 0},
}
ERROR: Final = {
    "error": {
        "message": "no",
        "type": "t",
        "code": "429",
        "param": "p",
        "status": "s",
        "innererror": {"code": "c"},
        "metadata": {"raw": "r"},
        "details": [{"retryDelay": "3s"}],
    },
    "detail": [{"loc": ["body", "x"], "msg": "m"}],
    "errors": None,
    "object": "error",
}

TEXTS: Final = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        *("²", "٣", "4²9", "9" * 5000, "\ud800", "\\ud800", "\\u0000", "\0", "\ufeff", "1.2.3", FAR),
        *("<think>", "{'a': ²}", '{"a": 1' + "0" * 400, "try again in 99999999999999999999h9m9s"),
        "maximum context length is 9 and 9 input tokens",
    ]
)
PARTS: Final = [*FAR.split(), "2015", "-9999", "+0000", "²", ":", ",", "-", "1e999", "nan", "12", "UTC"]
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(10**400), 2**53, 10**18])
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_field_breaks_the_reading(data: st.DataObject, caplog: pytest.LogCaptureFixture) -> None:
    body: Any = json.loads(json.dumps(data.draw(st.sampled_from([ANSWER, ERROR]))))
    for at in data.draw(st.lists(st.sampled_from(list(paths(body))), min_size=1, max_size=2)):
        with suppress(TypeError, LookupError):  # the first value may have taken the place of the second
            put(body, at, data.draw(VALUES))
    text, status = json.dumps(body), data.draw(st.sampled_from([200, 200, 400, 401, 404, 429, 500]))
    streams = status == 200 and data.draw(st.booleans())
    came = asked(f"data: {text}\n\ndata: [DONE]\n\n".encode() if streams else text.encode(), status)
    assert not isinstance(came, ModelUnavailable) or came.words == clean(came.words)
    # No fault is left to the net below.
    assert not caplog.records


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["retry-after", "retry-after-ms"]),
    st.text() | st.lists(st.sampled_from(PARTS)).map(" ".join),
)
def test_no_header_breaks_the_reading(name: str, value: str) -> None:
    seconds = retry_after({name: value})
    assert seconds is None or seconds >= 0


def test_absurd_fields_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    throttled = asked(b"{}", 429, {"retry-after": FAR})
    assert isinstance(throttled, ModelUnavailable)
    assert (throttled.cause, throttled.kind) == ("rate_limited", "outage")
    for code in ("²", "9" * 5000):
        failed = asked(json.dumps({"error": {"code": code}}).encode())
        assert isinstance(failed, ModelUnavailable)
        assert failed.cause == "error_body"
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "cost": 10**400}
    reply = asked(completion(usage=usage).body)
    assert isinstance(reply, Reply)
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.cost) == (20, 10, None)
    escaped = asked(json.dumps({"error": {"message": "bad: \\ud800 \\u0000"}}).encode(), 400)
    assert isinstance(escaped, ModelUnavailable)
    assert escaped.words == "bad: \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}"
    assert not caplog.records


def test_a_fault_of_the_reader_fails_the_call_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(CompletionReader, "end", broken)
    with caplog.at_level(logging.ERROR, client.__name__):
        failed = asked(completion().body)
    assert isinstance(failed, ModelUnavailable)
    assert (failed.cause, failed.kind, failed.words) == ("unreadable", "answer", "unreadable answer")
    assert failed.spent is not None
    assert not failed.spent.usage.known
    assert failed.spent.usage.prompt > 0
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
