"""Why there is no answer: an outage, the account, the request, or what came as an answer."""

import asyncio
from typing import Any

import orjson
import pytest

from agents.model.answer import Failed, HttpAnswer
from agents.model.client import OpenAIModel
from agents.model.completion import CompletionReader
from agents.model.model import Endpoint, Message, ModelUnavailable
from agents.model.wire import Wire
from tests.agents.model.serving import ASKED, VOTE

QUOTA = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
NO_CREDIT = {"type": "error", "error": {"message": "Your credit balance is too low to use the API."}}
TOO_LONG = {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": None}}

GEMINI_MINUTE = [
    {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22s"}],
        }
    }
]


def answer(status: int, body: Any = None, **headers: str) -> HttpAnswer:
    return HttpAnswer(status, headers, orjson.dumps(body or {"error": {"message": "no"}}))


@pytest.mark.parametrize(
    ("given", "cause", "kind"),
    [
        (Failed("refused", None, 0, False), "refused", "outage"),
        (Failed("timeout", 200, 10, True), "timeout", "outage"),
        (Failed("truncated", 200, 10, True), "truncated", "outage"),
        (answer(408), "status_408", "outage"),
        (answer(425), "status_425", "outage"),
        (answer(429), "rate_limited", "outage"),
        (answer(500), "status_500", "outage"),
        (answer(529), "status_529", "outage"),
        (answer(401), "status_401", "account"),
        (answer(402), "status_402", "account"),
        (answer(402, {"error": {"message": "Insufficient Balance"}}), "quota", "account"),
        (answer(403), "status_403", "account"),
        (answer(404), "status_404", "account"),
        (answer(429, QUOTA), "quota", "account"),
        (answer(400, NO_CREDIT), "quota", "account"),
        (answer(404, {"error": {"message": "The model `x` does not exist"}}), "status_404", "account"),
        (answer(400, {"error": {"message": "Model Not Exist"}}), "model_not_found", "account"),
        (answer(400, {"error": {"message": "x/y is not a valid model ID"}}), "model_not_found", "account"),
        (answer(400, {"message": "Invalid model: x", "code": "1500"}), "model_not_found", "account"),
        (answer(422, {"error": {"code": "model_not_found", "message": "no"}}), "model_not_found", "account"),
        (answer(429, None, **{"retry-after": "90000"}), "rate_limited", "account"),
        (answer(429, None, **{"retry-after": "80000"}), "rate_limited", "outage"),
        (answer(429, GEMINI_MINUTE), "rate_limited", "outage"),
        (
            answer(400, [{"error": {"message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]),
            "status_401",
            "account",
        ),
        (
            answer(400, {"error": {"message": "This account is suspended."}}),
            "status_401",
            "account",
        ),
        (
            answer(400, {"error": {"message": "User location is not supported for the API use."}}),
            "status_401",
            "account",
        ),
        (answer(403, {"error": {"message": "Your account was flagged"}}), "status_403", "account"),
        (answer(403, {"error": "Content violates usage guidelines"}), "content_filter", "answer"),
        (answer(503, {"error": {"message": "Loading model"}}), "status_503", "outage"),
        (
            answer(500, {"error": {"message": "the request exceeds the available context size"}}),
            "context_length",
            "request",
        ),
        (answer(200, {"detail": "upstream is busy"}), "error_body", "outage"),
        (answer(200, {"object": "error", "message": "Model Not Exist"}), "model_not_found", "account"),
        (answer(200, {"error": {"code": "429", "message": "slow down"}}), "rate_limited", "outage"),
        (answer(200, {"error": {"code": 402, "message": "Insufficient credits"}}), "quota", "account"),
        (
            answer(200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
            "quota",
            "account",
        ),
        (
            answer(
                200,
                {"choices": None, "base_resp": {"status_code": 1027, "status_msg": "output new_sensitive"}},
            ),
            "content_filter",
            "answer",
        ),
        (answer(200, {"code": 401, "msg": "invalid token"}), "status_401", "account"),
        (answer(424), "status_424", "outage"),
        (answer(498), "status_498", "outage"),
        (answer(499), "status_499", "outage"),
        (
            answer(412, {"error": {"message": "Account x is suspended: monthly spending limit"}}),
            "quota",
            "account",
        ),
        (
            answer(429, {"error": {"type": "exceeded_current_quota_error", "message": "no"}}),
            "quota",
            "account",
        ),
        (answer(429, {"error": {"code": "1113", "message": "您的账户已欠费"}}), "quota", "account"),
        (answer(400, {"error": {"type": "budget_exceeded", "message": "no"}}), "quota", "account"),
        (answer(400, {"error": {"message": "Content Exists Risk"}}), "content_filter", "answer"),
        (
            answer(400, {"error": {"message": "The operation does not work with the specified model, e."}}),
            "model_not_found",
            "account",
        ),
        (
            answer(429, {"error": {"message": "Request too large for gpt: Limit 30, Requested 40."}}),
            "status_429",
            "request",
        ),
        (answer(400, {"error": "Model unloaded."}), "status_400", "outage"),
        (Failed("tls", None, 0, False), "tls", "outage"),
        (answer(301), "status_301", "account"),
        (answer(405), "status_405", "account"),
        (answer(410), "status_410", "account"),
        (answer(400, TOO_LONG), "context_length", "request"),
        (answer(413), "status_413", "request"),
        (
            answer(
                400,
                {
                    "error": {
                        "type": "exceed_context_size_error",
                        "message": "the request exceeds the available context size",
                    }
                },
            ),
            "context_length",
            "request",
        ),
        (
            answer(400, {"error": {"message": "prompt is too long: 213 tokens > 200 maximum"}}),
            "context_length",
            "request",
        ),
        (answer(400), "status_400", "request"),
        (answer(422, {"detail": "messages are wrong"}), "status_422", "request"),
        (answer(400, {"error": {"message": "no", "code": "content_filter"}}), "content_filter", "answer"),
        (
            answer(400, {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
            "content_filter",
            "answer",
        ),
        (
            answer(
                403,
                {
                    "error": {
                        "message": "Your chosen model requires moderation and your input was flagged",
                        "metadata": {"flagged_input": "…"},
                    }
                },
            ),
            "content_filter",
            "answer",
        ),
        (answer(200, {"promptFeedback": {"blockReason": "SAFETY"}}), "content_filter", "answer"),
        (Failed("too_large", 200, 10**6, True), "too_large", "answer"),
        (HttpAnswer(200, {"content-type": "text/html"}, b"<html>"), "html_page", "outage"),
        (HttpAnswer(200, {"content-type": "text/plain"}, b"So be it."), "not_json", "answer"),
        (answer(200, {"choices": []}), "no_choices", "answer"),
    ],
)
async def test_what_stands_between_us_and_an_answer_is_told_apart(
    given: HttpAnswer | Failed, cause: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def post(wire: Wire, body: object, reader: CompletionReader, *_: object) -> HttpAnswer | Failed:
        if isinstance(given, HttpAnswer) and given.status == 200:
            reader.feed(given.body)
        return given

    monkeypatch.setattr(Wire, "post", post)
    endpoint = Endpoint("m1", "http://127.0.0.1:9/v1", "fake", attempts=1)
    model = OpenAIModel(endpoint)
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=50)
    assert (fault.value.cause, fault.value.kind) == (cause, kind)
    await model.aclose()


async def test_how_long_the_server_asks_us_to_wait_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def post(*_: object) -> HttpAnswer:
        return answer(429, None, **{"retry-after": "500"})

    monkeypatch.setattr(Wire, "post", post)
    model = OpenAIModel(Endpoint("m1", "http://127.0.0.1:9/v1", "fake", attempts=1))
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=50)
    assert fault.value.after_s == 500
    await model.aclose()


async def words_of(given: HttpAnswer, asked: str, monkeypatch: pytest.MonkeyPatch) -> str:
    async def post(*_: object) -> HttpAnswer:
        return given

    monkeypatch.setattr(Wire, "post", post)
    model = OpenAIModel(Endpoint("m1", "http://127.0.0.1:9/v1", "fake", api_key="sk-secret", attempts=1))
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete([Message("user", asked)], VOTE, temperature=0.8, max_tokens=50)
    await model.aclose()
    assert fault.value.words in str(fault.value)
    return fault.value.words


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Unsupported value: 'role' for sk-secret", "Unsupported value: 'role' for ***"),
        ("input_value='your role: merlin\\nyour si...ht' is wrong", "input_value='…...ht' is wrong"),
        ('bad: {"content": "YOUR  ROLE:\\tmerlin"}', 'bad: {"content": "…"}'),
        ("long " * 100, ("long " * 100)[:299] + "…"),
    ],
)
async def test_a_providers_words_are_passed_on_without_the_prompt_and_without_secrets(
    said: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = answer(400, {"error": {"message": said}})
    assert await words_of(given, "your role: merlin\nyour side: loyal", monkeypatch) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            HttpAnswer(308, {"location": "https://new.example/"}, b""),
            "the server sends us on to https://new.example/",
        ),
        (HttpAnswer(403, {}, b"<!DOCTYPE html><html><title>\n Wait </title>"), "a page of HTML, Wait"),
        (answer(400, {"error": {"message": "Error", "metadata": {"raw": '{"no": 1}'}}}), 'Error: {"no": 1}'),
    ],
)
async def test_a_providers_words_are_found_where_they_stand(
    given: HttpAnswer, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await words_of(given, "Vote.", monkeypatch) == shown


async def test_a_connection_that_cannot_be_encrypted_says_so() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAIModel(Endpoint("m1", f"https://127.0.0.1:{port}/v1", "fake", attempts=1))
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=50)
    assert (fault.value.cause, fault.value.kind) == ("tls", "outage")
    assert fault.value.words
    await model.aclose()
    server.close()
