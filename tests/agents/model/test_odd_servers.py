"""Responses that no fault of the fake model has, byte by byte, and what providers say in their own words."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

import pytest

from agents.model import wire
from agents.model.answer import HttpAnswer, read_error_body
from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, ModelUnavailable, Reply
from agents.model.problem import of_status
from tests.agents.model.scripted import USABLE, completion, events, streamed
from tests.agents.model.serving import ASKED, VOTE
from tests.agents.model.test_streams import HALF, REST, STOP, piece

WHOLE: Final = completion().body
STREAM: Final = streamed(HALF, REST).body
JSON: Final = "Content-Type: application/json"
EVENTS: Final = "Content-Type: text/event-stream"


def http(body: bytes, *headers: str, status: str = "200 OK", longer: int = 0) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body) + longer}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"HTTP/1.1 200 OK\r\n{EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def counted(usage: Any) -> bytes:
    return http(completion(usage=usage).body, JSON)


async def asked(said: bytes, attempts: int = 2, *, hangs_up: bool = True) -> Reply:
    """The reply of a server that sends these bytes for every request, and hangs up or says no more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.write(said)
        if not hangs_up:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(Endpoint("here", url, "m", attempts=attempts), jitter=lambda: 0.001)
    try:
        return await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=400)
    finally:
        await model.aclose()
        server.close()


READ = {
    "compressed": http(gzip.compress(WHOLE), JSON, "Content-Encoding: gzip"),
    "a stream, compressed": http(gzip.compress(STREAM), EVENTS, "Content-Encoding: gzip"),
    "deflated": http(zlib.compress(WHOLE), JSON, "Content-Encoding: deflate"),
    "a word of the proxy after the body": http(WHOLE + b"\n<!-- served by proxy -->", JSON),
    "the body twice": http(WHOLE + WHOLE, JSON),
    "garbage after the response": http(WHOLE, JSON) + b"HTTQ garbage\r\n\r\n",
    "chunks without their end": chunked(STREAM, end=b""),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http(WHOLE, JSON),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + JSON.encode() + b"\r\n\r\n" + WHOLE,
    "an error of null": http(WHOLE[:-1] + b', "error": null}', JSON),
    "an error after the end": http(
        events(piece(content=USABLE), STOP, {"error": {"message": "late", "code": 500}}).body, EVENTS
    ),
    "an unknown reason to stop": http(completion(finish="eos_token").body, JSON),
    "a number as the reason to stop": http(completion(finish=1).body, JSON),  # type: ignore[arg-type]
    "the name of a tool, then its call letter by letter": http(
        events(
            piece(tool_calls=[{"index": 0, "id": "t", "function": {"name": "vote", "arguments": ""}}]),
            *(piece(tool_calls=[{"index": 0, "function": {"arguments": letter}}]) for letter in USABLE),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ).body,
        EVENTS,
    ),
    "words beside the call of a tool": http(
        events(
            piece(content="Let me vote."),
            piece(tool_calls=[{"index": 0, "function": {"arguments": USABLE}}]),
            STOP,
        ).body,
        EVENTS,
    ),
    "lines that end in a carriage return": http(STREAM.replace(b"\n", b"\r"), EVENTS),
    "counts beside choices of null": http(
        events(
            piece(content=USABLE),
            STOP,
            {"choices": None, "usage": {"prompt_tokens": 2, "completion_tokens": 1}},
        ).body,
        EVENTS,
    ),
    "a delta of null": http(
        events({"choices": [{"index": 0, "delta": None}]}, piece(content=USABLE), STOP).body, EVENTS
    ),
    "a letter of another encoding": http(WHOLE.replace(b"well", b"w\xe9ll"), JSON),
}


@pytest.mark.parametrize("said", READ)
async def test_an_answer_is_read_through_what_stands_around_it(said: str) -> None:
    reply = await asked(READ[said])
    assert isinstance(reply.value, dict)
    assert (reply.value["approve"], reply.calls) == (True, 1)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        True,
        [1],
        {},
        {"prompt_tokens": -1, "completion_tokens": -5},
        {"prompt_tokens": "20", "completion_tokens": "10"},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": float("nan")},
    ],
)
async def test_counts_that_cannot_be_are_replaced_by_an_estimate(usage: Any) -> None:
    reply = await asked(counted(usage))
    assert isinstance(reply.value, dict)
    assert not reply.usage.known
    assert reply.usage.prompt > 0 < reply.usage.completion


async def test_counts_with_decimals_are_counts() -> None:
    assert (await asked(counted({"prompt_tokens": 20.0, "completion_tokens": 10.0}))).usage.known


BROKEN = {
    "compressed, and cut": (http(gzip.compress(WHOLE)[:-30], JSON, "Content-Encoding: gzip"), "truncated"),
    "said to be compressed": (http(WHOLE, JSON, "Content-Encoding: gzip"), "reset"),
    "shorter than it says": (http(WHOLE, JSON, longer=10), "truncated"),
    "cut where it says": (http(WHOLE[:-10], JSON), "truncated"),
    "cut behind an object in it": (http(WHOLE[: WHOLE.rindex(b"}", 0, -1) + 1], JSON), "truncated"),
    "cut behind a brace in a text": (http(WHOLE[: WHOLE.index(b"}") + 1], JSON), "truncated"),
    "a chunk that is shorter than it says": (
        chunked(STREAM[:50]).replace(b"32\r\n", b"39\r\n", 1), "truncated"
    ),
    "a chunk whose length is a word": (
        chunked(end=b"zz\r\n" + STREAM), "truncated"
    ),
    "chunks that stop": (chunked(STREAM[:60], end=b""), "truncated"),
    "another protocol": (b"HTTQ/9 200\r\n\r\n" + WHOLE, "disconnected"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", "truncated"),
    "an event of an error in words": (
        http(events(piece(content=HALF), "event: error\ndata: upstream timed out").body, EVENTS), "truncated"
    ),
    "an error as a text in mid-stream": (
        http(events(piece(content=HALF), {"error": "engine died"}).body, EVENTS), "error_body"
    ),
    "a failure beside success: false": (
        http(b'{"success": false, "errors": [{"code": 7009, "message": "away"}]}', JSON), "error_body"
    ),
    "a head without an end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", "disconnected"),
    "a misdirected request": (http(b"", status="421 Misdirected Request"), "status_421"),
    "a pause in words": (http(b"", "Retry-After: soon", status="429 Too Many"), "rate_limited"),
    "a pause before now": (http(b"", "Retry-After: -5", status="429 Too Many"), "rate_limited"),
    **{
        f"status {status} of a network in between": (
            http(f"error code: {status}".encode(), status=f"{status} x"), f"status_{status}"
        )
        for status in range(520, 527)
    },
}  # fmt: skip


@pytest.mark.parametrize("said", BROKEN)
async def test_what_breaks_on_its_way_is_an_outage(said: str) -> None:
    given, cause = BROKEN[said]
    with pytest.raises(ModelUnavailable) as fault:
        await asked(given, attempts=1)
    assert (fault.value.cause, fault.value.kind) == (cause, "outage")


async def test_nothing_is_awaited_after_an_error_but_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "nap_s", lambda *_: 0.4)  # as in an answer that has taken long
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "cost": 0.5}
    said = [events(chunk).body for chunk in (piece(content=HALF), {"error": "engine died"}, {"usage": usage})]
    async with asyncio.timeout(5):
        with pytest.raises(ModelUnavailable) as fault:
            await asked(chunked(*said, end=b""), attempts=1, hangs_up=False)
    assert (fault.value.cause, fault.value.spent.cost) == ("error_body", 0.5)


@pytest.mark.parametrize("body", [b"null", b"[]", b'"ok"', b"true", b"12", WHOLE.decode().encode("utf-16")])
async def test_json_that_is_no_answer_is_none(body: bytes) -> None:
    with pytest.raises(ModelUnavailable) as fault:
        await asked(http(body, JSON))
    assert (fault.value.cause, fault.value.kind) == ("not_json", "answer")


@pytest.mark.parametrize(
    ("coding", "package"),
    [("br", "brotli"), ("zstd", "backports.zstd"), ("gzip, Br", "brotli"), ("compress", "")],
)
async def test_whoever_compresses_as_nobody_asked_is_told_so(coding: str, package: str) -> None:
    """Neither of them has a decoder here, and no request offers it."""
    with pytest.raises(ModelUnavailable) as fault:
        await asked(http(b"\x1b\x00\xf8" * 40, JSON, f"Content-Encoding: {coding}"))
    found = fault.value
    assert (found.cause, found.kind) == ("encoding", "account")
    assert found.spent is not None
    assert found.spent.calls == 1, "no repetition mends it"
    name = coding.rpartition(" ")[2].lower()
    assert f"compressed its response with {name}, which was not asked for" in found.words
    assert found.words.endswith(package or "send plain text or gzip")


async def test_a_login_page_is_no_answer_and_costs_nothing() -> None:
    page = b"<!DOCTYPE html><html><head><title>Sign in - Campus</title></head><body>...</body></html>"
    with pytest.raises(ModelUnavailable) as fault:
        await asked(http(page, "Content-Type: text/html"))
    found = fault.value
    assert (found.cause, found.kind) == ("html_page", "outage")
    assert found.words == "the server answered with a page of HTML, Sign in - Campus"
    assert found.spent is not None
    assert (found.spent.usage.prompt, found.spent.usage.completion, found.spent.cost) == (0, 0, 0)


async def test_an_error_whose_words_are_compressed_keeps_its_status() -> None:
    body = b"\x1b\x00\xf8" * 40
    with pytest.raises(ModelUnavailable) as fault:
        await asked(http(body, JSON, "Content-Encoding: br", status="503 Away"), attempts=1)
    assert (fault.value.cause, fault.value.kind) == ("status_503", "outage")
    assert "compressed its response with br" in fault.value.words


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_whoever_is_sent_elsewhere_is_told_where(status: int) -> None:
    with pytest.raises(ModelUnavailable) as fault:
        await asked(http(b"", "Location: https://new.example/v1", status=f"{status} Elsewhere"))
    assert (fault.value.kind, fault.value.words) == (
        "account",
        "the server sends us on to https://new.example/v1",
    )


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


WORDS: Sequence[tuple[str, int, Any, str, str]] = (
    # Too long for the model: the game fails, alone.
    ("Anthropic", 400, {"type": "error", "error": {"message": "input length and `max_tokens` exceed context "
     "limit: 190000 + 16384 > 200000"}}, "context_length", "request"),
    ("Gemini", 400, [said("The input token count (1200000) exceeds the maximum number of tokens allowed "
     "(1048576).")], "context_length", "request"),
    ("Mistral", 400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too "
     "large for model with 32768 maximum context length"}, "context_length", "request"),
    ("Cohere", 400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"},
     "context_length", "request"),
    ("Together", 422, said("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193"),
     "context_length", "request"),
    ("xAI", 400, {"code": "invalid", "error": "This model's maximum prompt length is 131072 but the request "
     "contains 150000 tokens."}, "context_length", "request"),
    ("DashScope", 400, said("Range of input length should be [1, 30720]"), "context_length", "request"),
    ("LiteLLM", 400, said("litellm.ContextWindowExceededError: no"), "context_length", "request"),
    ("Bedrock", 400, {"message": "Input is too long for requested model."}, "context_length", "request"),
    ("AI21", 422, {"detail": "Input tokens exceed the limit"}, "context_length", "request"),
    ("Groq", 413, said("Request too large for model `x` on tokens per minute: Limit 60, Requested 70"),
     "status_413", "request"),
    # The account is empty: the batch is suspended.
    ("xAI", 429, {"code": "exhausted", "error": "Your team has either used all available credits or reached "
     "its monthly spending limit."}, "quota", "account"),
    ("xAI", 403, {"code": "no", "error": "Your team doesn't have any credits yet. You can purchase credits."},
     "quota", "account"),
    ("Anthropic", 400, said("You have reached your specified API usage limits."), "quota", "account"),
    ("Hugging Face", 402, {"error": "You have exceeded your monthly included credits."}, "quota", "account"),
    ("SiliconFlow", 403, {"code": 30001, "message": "Sorry, your account balance is insufficient"},
     "quota", "account"),
    ("DashScope", 400, said("Access denied, please make sure your account is in good standing.",
     code="Arrearage"), "quota", "account"),
    ("Cohere", 429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."},
     "quota", "account"),
    ("an error of true", 200, {"error": True, "message": "insufficient_quota"}, "quota", "account"),
    ("DeepInfra", 402, {"detail": {"error": "inference prohibited, enter a payment method"}},
     "status_402", "account"),
    # Nobody is let in here, or there is no such model.
    ("Gemini", 400, [said("Gemini API free tier is not available in your country. Please enable billing.")],
     "status_401", "account"),
    ("Cloudflare", 401, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]},
     "status_401", "account"),
    ("OpenAI", 403, said("Country, region, or territory not supported"), "status_403", "account"),
    ("Bedrock", 400, {"message": "The provided model identifier is invalid."}, "model_not_found", "account"),
    ("Hugging Face", 400, said("The requested model 'x' is not supported by any provider you have enabled."),
     "model_not_found", "account"),
    ("SiliconFlow", 400, {"code": 30003, "message": "Model disabled."}, "model_not_found", "account"),
    ("OpenRouter", 404, said("No endpoints found matching your data policy"), "status_404", "account"),
    ("Ollama", 500, said("model requires more system memory (8.4 GiB) than is available (4.1 GiB)"),
     "status_500", "account"),
    *(
        ("a gateway", status, "no", f"status_{status}", "account")
        for status in (406, 411, 415, 426, 431, 451)
    ),
    # It passes.
    ("Ollama", 500, said("llama runner process has terminated: exit status 2"), "status_500", "outage"),
    ("Anthropic", 429, said("This request would exceed your organization's rate limit of 40,000 tokens."),
     "rate_limited", "outage"),
    ("Bedrock", 400, {"__type": "ThrottlingException", "message": "Too many tokens, please wait before "
     "trying again."}, "rate_limited", "outage"),
    ("OpenRouter", 429, said("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000"),
     "rate_limited", "outage"),
    ("Moonshot", 429, said("The engine is currently overloaded", type="engine_overloaded_error"),
     "rate_limited", "outage"),
    ("Gemini", 503, [said("The model is overloaded. Please try again later.")], "status_503", "outage"),
    # The model's answer is kept back, or was none.
    ("OpenAI", 400, said("Invalid prompt: it was flagged as potentially violating our usage policy."),
     "content_filter", "answer"),
    ("LiteLLM", 400, said("litellm.ContentPolicyViolationError: no"), "content_filter", "answer"),
    ("Zhipu", 400, said("系统检测到输入或生成内容可能包含不安全或敏感内容"), "content_filter", "answer"),
    ("Groq", 400, said("Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed"),
     "status_400", "answer"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "cause", "kind"),
    [pytest.param(*case, id=f"{who} {case[0]} {case[2]} {at}") for at, (who, *case) in enumerate(WORDS)],
)
def test_what_a_provider_says_in_its_own_words_is_understood(
    status: int, body: Any, cause: str, kind: str
) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()
    given = HttpAnswer(status, {}, raw)
    problem = of_status(None if status == 200 else status, {}, read_error_body(given), raw)
    assert (problem.cause, problem.kind) == (cause, kind)
    assert problem.words, "whoever reads of it is told what the provider said"


def test_how_long_azure_asks_us_to_wait_is_read_from_its_words() -> None:
    words = "Requests have exceeded call rate limit of your tier. Please retry after 24 seconds."
    problem = of_status(429, {}, said(words), b"")
    assert (problem.kind, problem.after_s) == ("outage", 24)
