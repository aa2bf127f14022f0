"""What the client sends, what it remembers, and what it leaves behind."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agents.model.capability import Capability, Format
from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, Form, Message, ModelUnavailable, Prices, Usage, before_request
from app.instruments.fake_model import Fault, Latency
from app.instruments.fake_model.http import HttpConnection, HttpRequest, HttpServer, Response
from tests.agents.model.serving import ASKED, KEY, VOTE, table, until

GOOD = {
    "model": "served",
    "choices": [
        {"message": {"content": '{"approve": true, "reason": "", "seats": [1]}'}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
}


class Recorder:
    """Answers every request alike, and keeps it."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.requests: list[HttpRequest] = []
        self.server = HttpServer(self._handle)

    async def _handle(self, request: HttpRequest, connection: HttpConnection) -> None:
        self.requests.append(request)
        connection.send(self.response)

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].body)


@contextlib.asynccontextmanager
async def recorder(response: Any = GOOD, **more: Any) -> AsyncIterator[tuple[Recorder, OpenAIModel]]:
    if not isinstance(response, Response):
        response = Response(200, json.dumps(response).encode())
    kept = Recorder(response)
    url = await kept.server.start("127.0.0.1", 0)
    model = OpenAIModel(Endpoint("e", f"{url}/v1", "m", **more), jitter=lambda: 0.0)
    try:
        yield kept, model
    finally:
        await model.aclose()
        await kept.server.stop()


async def ask(model: OpenAIModel, *messages: Message, form: Form = VOTE) -> Any:
    return await model.complete(messages or ASKED, form, temperature=0.8, max_tokens=100)


async def test_every_request_asks_whether_it_may_be_sent_and_a_repeated_one_that_may_not_is_none() -> None:
    asked = 0

    async def may_send() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise asyncio.CancelledError

    async def ask_if_wanted(model: OpenAIModel) -> None:
        before_request.set(may_send)
        await ask(model)

    async with recorder(Response(503, b""), attempts=5) as (kept, model):
        with pytest.raises(asyncio.CancelledError) as cut:
            await asyncio.create_task(ask_if_wanted(model))
    assert len(kept.requests) == 2
    (spent,) = cut.value.args
    assert spent.calls == 2


async def test_a_request_says_what_the_protocol_wants() -> None:
    async with recorder(api_key=KEY) as (kept, model):
        await ask(model)
        assert kept.requests[0].path == "/v1/chat/completions"
        assert kept.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert kept.body == {
            "model": "m",
            "messages": [{"role": one.role, "content": one.content} for one in ASKED],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.8,
            "max_tokens": 100,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "vote", "schema": dict(VOTE.schema), "strict": True},
            },
        }


async def test_nothing_of_the_environment_reaches_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-another-account")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    async with recorder() as (kept, model):
        await ask(model)
        assert "authorization" not in kept.requests[0].headers
        assert "of-another-account" not in str(kept.requests[0])


async def test_what_an_operator_adds_to_requests_is_sent() -> None:
    extra = {"extra_body": {"reasoning_effort": "low"}, "extra_headers": {"X-Title": "avalon"}}
    async with recorder(**extra) as (kept, model):
        await ask(model)
        assert kept.body["reasoning_effort"] == "low"
        assert kept.requests[0].headers["x-title"] == "avalon"


async def test_a_reply_holds_what_the_server_told() -> None:
    async with recorder(prices=Prices(1e6, 2e6, 0.5e6)) as (_, model):
        reply = await ask(model)
        assert reply.value == {"approve": True, "reason": "", "seats": [1]}
        assert (reply.usage, reply.model) == (Usage(10, 4, 5, known=True), "served")
        assert (reply.finish, reply.calls) == ("stop", 1)
        assert reply.cost == 6 * 1 + 4 * 0.5 + 5 * 2
        assert 0 < reply.latency_s < 60


async def test_a_prompt_with_half_a_surrogate_pair_is_sent_without_it() -> None:
    async with recorder() as (kept, model):
        await ask(model, Message("user", "a\ud83d\ude00b\ud800c\0"))
        assert kept.body["messages"][0]["content"] == "a\N{GRINNING FACE}b\ufffdc\ufffd"


async def test_a_redirect_is_not_followed() -> None:
    moved = Response(302, b"", headers=(("Location", "http://127.0.0.1:1/"),))
    async with recorder(moved, api_key=KEY) as (kept, model):
        with pytest.raises(ModelUnavailable, match="status_302"):
            await ask(model)
        assert len(kept.requests) == 1


async def test_a_compressed_answer_is_bounded_by_what_it_unpacks_to() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    packed = Response(200, bomb, headers=(("Content-Encoding", "gzip"),))
    async with recorder(packed, attempts=1) as (_, model):
        with pytest.raises(ModelUnavailable, match="too_large"):
            await ask(model)
    body = gzip.compress(json.dumps(GOOD).encode())
    async with recorder(Response(200, body, headers=(("Content-Encoding", "gzip"),))) as (_, model):
        assert (await ask(model)).value["approve"] is True


@pytest.mark.parametrize(
    "usage",
    [{}, {"prompt_tokens": "12", "completion_tokens": 3}, {"prompt_tokens": -1, "completion_tokens": 1},
     {"prompt_tokens": 1e300, "completion_tokens": 1}, {"prompt_tokens": 0, "completion_tokens": 0}, [], 7],
)  # fmt: skip
async def test_counts_that_cannot_be_are_estimated(usage: Any) -> None:
    async with recorder(GOOD | {"usage": usage}) as (_, model):
        reply = await ask(model)
        assert not reply.usage.known
        assert 0 < reply.usage.prompt < 100


@pytest.mark.parametrize(
    "body",
    [[], 7, None, "text", {}, {"choices": [None]}, {"choices": [{}]}, {"choices": [{"message": None}]},
     {"choices": {"0": {}}}, {"error": "no"}, {"error": {"code": {}}}],
)  # fmt: skip
async def test_a_body_of_any_shape_is_a_failed_attempt(body: Any) -> None:
    async with recorder(body, attempts=2) as (kept, model):
        with pytest.raises(ModelUnavailable):
            await ask(model)
        assert len(kept.requests) == 2


@pytest.mark.parametrize(
    "message",
    [{"content": 7}, {"content": [None, 7, {"text": 3}]}, {"refusal": 7}, {}],
)
async def test_a_message_of_any_shape_is_a_reply_without_a_value(message: Any) -> None:
    async with recorder({"choices": [{"message": message, "finish_reason": 7}], "model": 7}) as (_, model):
        reply = await ask(model)
        assert (reply.text, reply.value, reply.finish, reply.model) == ("", None, "unknown", "m")


async def test_deep_nesting_breaks_nothing() -> None:
    deep = "[" * 100_000
    async with recorder(Response(200, deep.encode()), attempts=1) as (_, model):
        with pytest.raises(ModelUnavailable):
            await ask(model)
    nested = '{"a":' * 5_000 + "1" + "}" * 5_000
    async with recorder({"choices": [{"message": {"content": nested}}]}) as (_, model):
        assert (await ask(model)).value is None


# What is learnt of a server


async def test_the_first_calls_of_a_table_learn_together() -> None:
    faults = ("response_format_400", "max_tokens_400", "temperature_400", "system_400")
    # An answer that comes too late would be one call more.
    async with table(*faults, timeout_s=60.0, total_s=120.0) as here:
        replies = await asyncio.gather(*(here.ask(str(seat)) for seat in range(5)))
        assert all(reply.value is not None for reply in replies)
        assert max(reply.calls for reply in replies) <= 8
        assert here.model.capability("vote") == Capability(
            Format.PLAIN, limit="max_completion_tokens", temperature=False, system=False
        )
        here.server.counts.reset()
        await here.ask()
        assert here.server.counts.calls == 1


async def test_a_server_that_ignores_the_format_is_shown_the_schema() -> None:
    async with table("format_ignored:1:1") as here:
        assert (await here.ask()).calls == 2
        assert here.model.capability("vote") == Capability(show_schema=True)


async def test_a_server_that_keeps_to_the_format_is_not_doubted_for_one_slip() -> None:
    async with table() as here:
        await here.ask()
        here.server.faults = (Fault("format_ignored"),)
        reply = await here.ask()
        assert (reply.value, reply.calls) == (None, 1)
        assert here.model.capability("vote") == Capability()


async def test_a_form_that_a_server_cannot_take_leaves_the_others_as_they_were() -> None:
    plain = Form(
        "plain",
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    )
    async with table("schema_bounds_400") as here:
        await here.ask(form=plain)
        await here.ask()
        assert here.model.capability("plain").format is Format.SCHEMA
        assert here.model.capability("vote").format is Format.REDUCED


async def test_what_an_operator_fixes_is_not_found_out() -> None:
    fixed = Capability(Format.PLAIN, limit="max_completion_tokens", temperature=False, system=False)
    async with table("response_format_400", "system_400", capability=fixed) as here:
        assert (await here.ask()).calls == 1
        assert here.model.capability("vote") == fixed
    async with table("response_format_400", capability=Capability()) as here:
        with pytest.raises(ModelUnavailable, match="status_400"):
            await here.ask()
        assert here.server.counts.calls == 1


async def test_one_attempt_is_enough_to_find_out() -> None:
    async with table("json_schema_500", attempts=1) as here:
        assert (await here.ask()).value is not None


# Limits


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    async with table(parallel=3, latency=Latency("fixed", (0.1,))) as here:
        await asyncio.gather(*(here.ask(str(number)) for number in range(20)))
        assert here.server.counts.max_in_flight == 3


# What is left behind


@pytest.mark.parametrize("fault", ["silence", "silence_after_headers", "slow_drip", "status_429_seconds"])
async def test_a_cancelled_call_leaves_nothing_running(fault: str) -> None:
    async with table(parallel=1, timeout_s=30, total_s=60) as here:
        await here.ask("warm")
        tasks = asyncio.all_tasks()
        connections = set(here.server.connections)
        here.server.faults = (Fault(fault, times=1),)
        call = asyncio.create_task(here.ask("cancelled"))
        await until(lambda: here.server.counts.calls == 2)
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if fault != "status_429_seconds":
            await until(lambda: not here.server.connections & connections)
            assert here.server.counts.in_flight == 0
            assert here.outcomes[-1] == "cancelled"
        assert not {one for one in asyncio.all_tasks() - tasks if not one.get_name().startswith("fake-model")}
        # The only place among the parallel requests is free again.
        async with asyncio.timeout(100):
            assert (await here.ask("after")).value is not None


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_away() -> None:
    async with table(parallel=1, latency=Latency("fixed", (0.5,))) as here:
        calls = [asyncio.create_task(here.ask(str(number))) for number in range(5)]
        await until(lambda: here.server.counts.in_flight == 1)
        for one in calls[1:4]:
            one.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(one, BaseException) for one in done] == [False, True, True, True, False]
        assert here.server.counts.calls == 2


async def test_connections_are_kept_and_closed_at_the_end() -> None:
    async with table() as here:
        for number in range(5):
            await here.ask(str(number))
        assert len(here.server.connections) == 1
        await here.model.aclose()
        await until(lambda: not here.server.connections)


async def test_the_observer_is_told_of_every_request() -> None:
    async with table("status_503:1:1", "json_schema_400") as here:
        reply = await here.ask()
        assert here.outcomes == ["status_503", "status_400", "status_400", "ok"]
        assert [one.status for one in here.attempts] == [503, 400, 400, 200]
        assert [one.format for one in here.attempts] == [
            Format.SCHEMA, Format.SCHEMA, Format.REDUCED, Format.OBJECT_WITH_SCHEMA,
        ]  # fmt: skip
        assert here.attempts[-1].usage == reply.usage
        assert "approve" not in repr(here.attempts)


# Endpoints


@pytest.mark.parametrize(
    "wrong",
    [{"base_url": "localhost:8000"}, {"base_url": "http://user:secret@host/v1"}, {"model": ""},
     {"parallel": 0}, {"attempts": 0}, {"timeout_s": 0}, {"total_s": float("inf")},
     {"requests_per_minute": 0}, {"tokens_per_minute": float("nan")}, {"retry_after_s": -1},
     {"api_key": "a\nb"}, {"api_key": "clé"}, {"extra_headers": {"X": "a\r\nY: b"}}],
)  # fmt: skip
def test_an_endpoint_that_no_call_could_keep_is_refused_without_its_secrets(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="endpoint") as refused:
        Endpoint(**({"name": "e", "base_url": "http://h/v1", "model": "m"} | wrong))
    assert "secret" not in str(refused.value)


def test_importing_the_client_does_not_import_openai() -> None:
    import subprocess
    import sys

    code = "import sys, agents.model.client; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=200).returncode == 0


# What a reply says of its request


@pytest.mark.parametrize(
    ("faults", "sent"),
    [
        ((), {"temperature": 0.8, "max_tokens": 400}),
        (("temperature_400",), {"max_tokens": 400}),
        (("max_tokens_400",), {"temperature": 0.8, "max_completion_tokens": 400}),
        (("temperature_400", "max_tokens_400"), {"max_completion_tokens": 400}),
    ],
)
async def test_a_reply_holds_the_parameters_that_its_server_took(
    faults: tuple[str, ...], sent: dict[str, Any]
) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "vote", "strict": True}}
    sent = {"stream": True, "stream_options": {"include_usage": True}, **sent}
    async with table(*faults) as here:
        for _ in range(2):
            assert (await here.ask()).sent == {**sent, "response_format": form}
    async with table(*faults, "response_format_400") as here:
        assert (await here.ask()).sent == sent
    async with table(*faults, "json_schema_400", "object_schema_400") as here:
        assert (await here.ask()).sent == {**sent, "response_format": {"type": "json_object"}}


async def test_a_failure_holds_the_parameters_of_its_last_request_if_there_was_one() -> None:
    async with table("temperature_400", "max_tokens_400", "status_500") as here:
        with pytest.raises(ModelUnavailable) as failed:
            await here.ask()
        assert failed.value.spent is not None
        assert failed.value.spent.sent is not None
        assert failed.value.spent.sent.keys() & {"temperature", "max_tokens", "max_completion_tokens"}
    async with recorder(Response(404, b"{}"), extra_body={"temperature": 1}) as (kept, model):
        with pytest.raises(ModelUnavailable) as failed:
            await ask(model)
        assert failed.value.spent is not None
        assert failed.value.spent.sent is not None
        assert failed.value.spent.sent["temperature"] == kept.body["temperature"] == 1


async def test_what_an_operator_adds_is_told_but_for_secrets() -> None:
    extra = {
        "temperature": 1, "reasoning": {"effort": "low"}, "api_key": KEY, "logit_bias": {},
        "extra": [{"auth_token": KEY, "max_tokens": 5}], "stop": ["x"],
    }  # fmt: skip
    async with recorder(extra_body=extra) as (_, model):
        sent = (await ask(model)).sent
        assert sent is not None
        assert KEY not in json.dumps(sent)
        assert sent == {
            **extra,
            "stream": True,
            "stream_options": {"include_usage": True},
            "api_key": "***",
            "extra": [{"auth_token": "***", "max_tokens": 5}],
            "max_tokens": 100,
            "response_format": {"type": "json_schema", "json_schema": {"name": "vote", "strict": True}},
        }
