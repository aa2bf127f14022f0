"""What each of the twelve providers says instead of an answer, and how each streams one, byte by byte.

The groups tell what follows: a pause, a suspended batch, a failed game, or an answer that cannot be used.
"""

import json
from typing import Any, Final

import pytest

from agents.model.capability import Format
from agents.model.model import ModelUnavailable
from app.instruments.fake_model.http import Response
from tests.agents.model.scripted import USABLE, answering, completion, error, events
from tests.agents.model.test_odd_servers import EVENTS, JSON, asked, chunked, http, said
from tests.agents.model.test_streams import HALF, REST, STOP, piece

TEXT: Final = "Content-Type: text/plain"
PAGE: Final = "Content-Type: text/html"


def told(status: int, body: Any, *headers: str) -> bytes:
    """A response with this body, as JSON unless it is a text."""
    if isinstance(body, str):
        raw, kind = body.encode(), PAGE if body.lstrip().startswith("<") else TEXT
    else:
        raw, kind = json.dumps(body, ensure_ascii=False).encode(), JSON
    return http(raw, kind, *headers, status=f"{status} x")


def google(status: int, message: str, name: str, *details: Any) -> bytes:
    return told(status, [said(message, code=status, status=name, details=details)])


def page(title: str) -> str:
    return f"<html>\r\n<head><title>{title}</title></head>\r\n<body><h1>{title}</h1></body></html>"


PASSES: Final = {
    "OpenAI: tokens a minute": told(429, said(
        "Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used "
        "29000, "
        "Requested 2000. Please try again in 2s. Visit https://platform.openai.com/account/rate-limits",
        type="tokens", param=None, code="rate_limit_exceeded")),
    "OpenAI: requests a day": told(429, said(
        "Rate limit reached on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s. "
        "You can "
        "increase it by adding a payment method at https://platform.openai.com/account/billing.",
        code="rate_limit_exceeded")),
    "OpenAI: its own fault": told(500, said("The server had an error while processing your request.",
                                           type="server_error", param=None, code=None)),
    "OpenAI: too many at once": told(503, said("Slow down", type="server_error", code="slow_down")),
    "Azure: the tier": told(429, said(
        "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current "
        "OpenAI "
        "S0 pricing tier. Please retry after 6 seconds. To increase it: https://aka.ms/oai/quotaincrease",
        code="429"), "Retry-After: 6"),
    "Azure: it took too long": told(408, said("The operation was timeout.", code="Timeout")),
    "Anthropic: overloaded": told(529, {"type": "error", "error": {"type": "overloaded_error",
                                                                  "message": "Overloaded"}}),
    "Anthropic: the account's rate": told(429, {"type": "error", "error": {"type": "rate_limit_error",
        "message": "This request would exceed your account's rate limit. Please try again later."}}),
    "Gemini: requests a day": google(
        429, "You exceeded your current quota, please check your plan and billing details. \n* Quota "
            "exceeded "
        "for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 20, "
        "model: "
        "gemini\nPlease retry in 58.82s.", "RESOURCE_EXHAUSTED"),
    "Gemini: exhausted, without a pause": google(
        429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
    "Gemini behind a proxy that passes its error on as a text": told(429, said(json.dumps(said(
        "You exceeded your current quota, please check your plan and billing details.",
        details=[{"retryDelay": "22s"}])), code=429, status="Too Many Requests")),
    "Gemini: a deadline": google(504, "The request timed out. Please try again.", "DEADLINE_EXCEEDED"),
    "DeepSeek: busy": told(503, said("Service is too busy. We advise users to switch to alternative APIs.")),
    "Mistral: the tier": told(429, {"object": "error", "message": "Service tier capacity exceeded for this "
                                    "model.", "type": "invalid_request_error", "param": None, "code": None}),
    "Mistral: the rate": told(429, {"object": "error", "message": "Rate limit exceeded",
                                    "type": "rate_limited", "code": "1300", "raw_status_code": 429}),
    "OpenRouter: limited upstream": told(429, said(
        "Provider returned error", code=429, metadata={"provider_name": "X", "raw": "m is temporarily "
        "rate-limited upstream. Please retry shortly, or add your own key to accumulate your limits"})),
    "OpenRouter: a provider that went away": told(200, {"code": 502, "message": "Network connection lost.",
        "metadata": {"error_type": "provider_unavailable"}}),
    "OpenRouter: an error with a name": told(200, said("Rate limit exceeded", code="rate_limit_exceeded")),
    "OpenRouter: limited by the minute": told(429, said("Rate limit exceeded: free-models-per-min. "
        "", code=429,
        metadata={"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1732406400000"}})),
    "vLLM: a dead engine": told(500, {"object": "error", "message": "EngineCore encountered an issue. See "
        "stack"
        " trace (above) for the root cause.", "type": "InternalServerError", "code": 500}),
    "SGLang: a full queue": told(503, {"object": "error", "message": "The request queue is full.",
                                      "type": "SERVICE_UNAVAILABLE", "code": 503}),
    "SGLang: aborted, told by an object": told(200, {"choices": [{"index": 0, "message": {"content": HALF},
        "finish_reason": {"type": "abort", "message": "Aborted"}}]}),
    "Ollama: too many wait": told(503, {"error": "server busy, please try again.  maximum pending requests "
                                       "exceeded"}),
    "Ollama: a runner that stopped": told(500, {"error": {"message": "model runner has unexpectedly stopped, "
        "this may be due to resource limitations or an internal error", "type": "api_error"}}),
    "Ollama: an error as a line of its own": http(
        events(piece(content=HALF), '{"error":"an error was encountered while running the model: EOF"}').body,
        EVENTS),
    "llama.cpp: loading": told(503, said("Loading model", code=503, type="unavailable_error")),
    "llama.cpp: an error's own field": http(
        b'error: {"code":500,"message":"context shift is disabled","type":"server_error"}\n\n', EVENTS),
    "llama.cpp: an error's own field in mid-stream": http(
        events(piece(content=HALF), 'error: {"code":500,"message":"slot died","type":"server_error"}').body,
        EVENTS),
    "LM Studio: a crash": told(400, {"error": "The model has crashed without additional information. (Exit "
                                             "code: 18446744072635812000)"}),
    "LM Studio: a broken channel": told(400, {"error": "Error: Channel Error"}),
    "LM Studio: an error's event": http(
        b'event: error\ndata: {"error":{"message":"The model has been unloaded"}}\n\n', EVENTS),
    "Cloudflare: limited": told(429, page("Access denied | api.example used Cloudflare to restrict access")),
    "Cloudflare: a tunnel that is down": told(530, "error code: 1033"),
    "nginx: nobody behind it": told(502, page("502 Bad Gateway")),
    "a gateway's words under status 200": told(200, {"message": "Internal Server Error"}),
}  # fmt: skip


@pytest.mark.parametrize("what", PASSES)
async def test_what_passes_is_waited_for(what: str) -> None:
    with pytest.raises(ModelUnavailable) as fault:
        await asked(PASSES[what], attempts=1)
    assert fault.value.kind == "outage"
    assert fault.value.words or what == "SGLang: aborted, told by an object"


SUSPENDS: Final = {
    "OpenAI: a model of others": told(403, said("Project `proj_1` does not have access to model `gpt-5`",
                                               code="model_not_found")),
    "OpenAI: no chat model": told(404, said("This is not a chat model and thus not supported in the "
        "v1/chat/completions endpoint. Did you mean to use v1/completions?", param="model")),
    "OpenAI: the limit of the month": told(429, said("You exceeded your current quota, please check your "
        "plan "
        "and billing details.", type="insufficient_quota", code="insufficient_quota")),
    "Azure: no such deployment": told(404, said("The API deployment for this resource does not exist. If you "
        "created it within the last 5 minutes, please wait and try again.", code="DeploymentNotFound")),
    "Azure: a network": told(403, said("Access denied due to Virtual Network/Firewall rules.", code="403")),
    "Azure: a key of another resource": told(401, said("Access denied due to invalid subscription key or "
        "wrong "
                                                      "API endpoint.", code="401")),
    "Anthropic: no permission": told(403, {"type": "error", "error": {"type": "permission_error", "message":
        "Your API key does not have permission to use the specified resource."}}),
    "Anthropic: no such model": told(404, {"type": "error", "error": {"type": "not_found_error",
                                                                     "message": "model: claude-x"}}),
    "Anthropic: a workspace's limit": told(400, {"type": "error", "error": {"type": "invalid_request_error",
        "message": "You have reached your specified workspace API usage limits. You will regain access on "
        "2026-12-01 at 00:00 UTC."}}),
    "Gemini: a model that is in no plan": google(
        429, "You exceeded your current quota. \n* Quota exceeded for metric: "
            "generativelanguage.googleapis.com/"
        "generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro\nPlease retry in 29.1s.",
        "RESOURCE_EXHAUSTED", {"retryDelay": "29s"}),
    "Gemini: an old key": google(400, "API key expired. Please renew the API key.", "INVALID_ARGUMENT",
                                {"reason": "API_KEY_INVALID"}),
    "Gemini: a key that was published": google(
        403, "Your API key was reported as leaked. Please use another API key.", "PERMISSION_DENIED"),
    "Gemini: an old model": google(404, "models/gemini-1.0 is not found for API version v1main, or is not "
                                  "supported for generateContent.", "NOT_FOUND"),
    "DeepSeek: no such user": told(401, said("Authentication Fails, Your api key: ****abcd is invalid",
                                            type="authentication_error", code="invalid_request_error")),
    "Mistral: a key or its plan": told(401, {"detail": "Unauthorized"}),
    "OpenRouter: no money": told(402, said("This request requires more credits, or fewer max_tokens. You "
        "requested up to 16384 tokens, but can only afford 3212.", code=402)),
    "OpenRouter: no money for the prompt": told(402, said("Prompt tokens limit exceeded: 20000 > 15000. To "
                                                         "increase, visit the settings", code=402)),
    "OpenRouter: a key's limit": told(403, said("Key limit exceeded (total limit). Manage it in the settings",
                                               code=403)),
    "OpenRouter: an upstream that does not serve it": told(404, said(
        "No allowed providers are available for the selected model.", code=404)),
    "vLLM: another name": told(404, {"object": "error", "message": "The model `x` does not exist.",
                                    "type": "NotFoundError", "param": "model", "code": 404}),
    "vLLM: its key": told(401, {"error": "Unauthorized"}),
    "Ollama: not pulled": told(404, {"error": {"message": 'model "x" not found, try pulling it first',
                                              "type": "api_error"}}),
    "Ollama: the limit of a session": told(429, {"error": "you (x) have reached your session usage limit, "
                                                 "upgrade for higher limits: https://ollama.com/upgrade"}),
    "Ollama: an address without /v1": told(404, "404 page not found"),
    "llama.cpp: its key": told(401, said("Invalid API Key", code=401, type="authentication_error")),
    "LM Studio: nothing loaded": told(404, said("No models loaded. Please load a model in the developer page "
        "or use the `lms load` command.", param="model", code="model_not_found")),
    "LM Studio: a model that cannot be loaded": told(400, said(
        'Failed to load model "x". Error: Model loading was stopped due to insufficient system resources.')),
    "OpenAI: access that was ended": told(
        429, said("Your access was terminated due to violation of our policies.", code="access_terminated")
    ),
    "Gemini: paid in advance, and used up": google(
        429, "Your prepayment credits are depleted. Please go to AI Studio.", "RESOURCE_EXHAUSTED"
    ),
    "Gemini: the cap of a project": google(
        429, "Your project has exceeded its monthly spending cap.", "RESOURCE_EXHAUSTED"
    ),
    "Mistral: the tokens of a month": told(429, {"message": "You have exceeded your monthly token limit"}),
    "llama.cpp: a router without its model": told(500, said("model name=x failed to load", code=500)),
    "a gateway's refusal under status 200": told(200, {"detail": "Not authenticated"}),
    "LM Studio: an address without /v1": told(200, {"error": "Unexpected endpoint or method. (POST "
                                                   "/chat/completions)"}),
    "nginx: http instead of https": told(400, page("400 The plain HTTP request was sent to HTTPS port")),
    "Go: http instead of https": told(400, "Client sent an HTTP request to an HTTPS server.\n"),
    "Cloudflare: turned away": told(403, page("Attention Required! | Cloudflare")),
    "a proxy that wants a name": told(407, page("Proxy Authentication Required")),
    "a portal": told(302, "", "Location: https://portal.example/login"),
}  # fmt: skip


@pytest.mark.parametrize("what", SUSPENDS)
async def test_what_somebody_has_to_change_is_asked_once_and_said(what: str) -> None:
    with pytest.raises(ModelUnavailable) as fault:
        await asked(SUSPENDS[what])
    assert fault.value.kind == "account"
    assert fault.value.words
    assert fault.value.spent is not None
    assert (fault.value.spent.calls, fault.value.spent.usage.prompt) == (1, 0)


FAILS: Final = {
    "OpenAI: its window": (told(400, said("Your input exceeds the context window of this model. Please "
        "adjust "
        "your input and try again.", code="context_length_exceeded")), "context_length"),
    "OpenAI: an effort that it does not know": (told(400, said(
        "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values "
        "are: 'low', 'medium', and 'high'.", param="reasoning_effort", code="unsupported_value")),
            "status_400"),
    "Anthropic: a body too large": (told(413, {"type": "error", "error": {"type": "request_too_large",
        "message": "Request exceeds the maximum size"}}), "context_length"),
    "Gemini: a field that it does not know": (google(
        400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', "INVALID_ARGUMENT"),
        "status_400"),
    "Mistral: a field that it does not know": (told(422, {"detail": [{"type": "extra_forbidden",
        "loc": ["body",
        "top_k"], "msg": "Extra inputs are not permitted", "input": 20}]}), "status_422"),
    "Mistral: a message that is an object": (told(422, {"object": "error", "message": {"detail": [{"type":
        "value_error", "loc": ["body", "seed"], "msg": "no"}]}, "type": "invalid_request_error"}),
            "status_422"),
    "SGLang: its context": (told(400, {"object": "error", "message": "The input (9000 tokens) is longer "
        "than the "
        "model's context length (8192 tokens).", "type": "BadRequestError", "code": 400}), "context_length"),
    "llama.cpp: its context": (told(400, said("request (9000 tokens) exceeds the available context size "
        "(8192 "
        "tokens), try increasing it", type="exceed_context_size_error", n_ctx=8192)), "context_length"),
    "LM Studio: its context": (told(400, {"error": "Trying to keep the first 9000 tokens when context the "
        "overflows. However, the model is loaded with context length of only 4096 "
        "tokens"}), "context_length"),
    "OpenRouter: what a provider behind it turned down": (told(200, said("Provider returned error", code=400,
        metadata={"raw": json.dumps(said("maximum context length is 8192 tokens"))})), "context_length"),
    "vLLM: no template": (told(400, {"object": "error", "message": "As of transformers v4.44, default chat "
        "template is no longer allowed, so you must provide a chat template", "code": 400}), "status_400"),
    "Ollama: a model that does not chat": (told(400, {"error": {"message": '"embed" does not support chat',
                                                               "type": "api_error"}}), "status_400"),
    "nginx: a body too large": (told(413, page("413 Request Entity Too Large")), "status_413"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILS)
async def test_what_is_turned_down_for_good_fails_the_game_in_the_providers_words(what: str) -> None:
    response, cause = FAILS[what]
    with pytest.raises(ModelUnavailable) as fault:
        await asked(response)
    assert (fault.value.cause, fault.value.kind) == (cause, "request")
    assert fault.value.words


UNUSABLE: Final = {
    "Anthropic: the output is filtered": told(400, {"type": "error",
        "error": {"type": "invalid_request_error",
        "message": "Output blocked by content filtering policy"}}),
    "Anthropic: the output is filtered in mid-stream": http(events(piece(content=HALF), {"type": "error",
        "error": {"details": None, "message": "Output blocked by content filtering policy"}}).body, EVENTS),
    "Azure: the prompt is filtered": told(400, said(
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        param="prompt", code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"})),
    "Gemini: prohibited, under 200": told(200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    "OpenRouter: flagged": told(403, said("deepseek requires moderation on X. Your input was flagged for "
        "\"violence\". No credits were charged.", code=403, metadata={"reasons": ["violence"]})),
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSABLE)
async def test_what_moderation_keeps_back_is_an_answer_that_cannot_be_used(what: str) -> None:
    with pytest.raises(ModelUnavailable) as fault:
        await asked(UNUSABLE[what])
    assert (fault.value.cause, fault.value.kind) == ("content_filter", "answer")
    assert fault.value.spent is not None
    assert fault.value.spent.calls == 1


def stopped(reason: Any, **message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": message, "finish_reason": reason}]}


EMPTY: Final = {
    "Gemini: filtered, without a message": (
        {"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]},
        "content_filter: PROHIBITED_CONTENT",
    ),
    "Gemini: it had nothing to say": (
        {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 15, "completion_tokens": 0, "total_tokens": 200}},
        "stop",
    ),
    "Anthropic: a refusal by its reason": (
        {"choices": [{"index": 0, "message": {"content": ""}, "finish_reason": "refusal"}]}, "refusal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EMPTY)
async def test_an_answer_without_a_word_keeps_its_reason(what: str) -> None:
    body, reason = EMPTY[what]
    async with answering(Response(200, json.dumps(body).encode())) as here:
        reply = await here.ask()
        assert (reply.text, reply.value, reply.finish) == ("", None, reason)


WISE: Final = json.dumps({"approve": True, "reason": "Зима 🦉 冬", "seats": [1]}, ensure_ascii=False)
OWL: Final = ('{"approve": true, "seats": [1], "reason": "\ud83d', '\ude00"}')
"""An answer with a letter that JSON writes in two halves, each in a piece of its own."""


def bytewise(body: bytes) -> bytes:
    return chunked(*(body[at : at + 1] for at in range(len(body))))


def utf8(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\n\n" for one in chunks)


STREAMS: Final = {
    "OpenAI: fields of its own": http(events(
        {**piece(role="assistant", content="", refusal=None), "service_tier": "default", "obfuscation": "x9"},
        {"choices": [{"index": 0, "delta": {"content": USABLE}, "logprobs": None, "finish_reason": None}],
         "usage": None, "obfuscation": "q"}, STOP,
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18,
                                  "completion_tokens_details": None}}, "data: [DONE]").body, EVENTS),
    "Azure: its filter before, between and after": http(events(
        {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{}]},
        piece(content=HALF),
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 9},
                      "content_filter_results": {"hate": {"filtered": False}}}]},
        piece(content=REST), STOP, "data: [DONE]").body, EVENTS),
    "Anthropic: pings": http(events(
        'event: ping\ndata: {"type": "ping"}', piece(content=HALF), 'data: {"type": "ping"}',
        piece(content=REST), stopped("end_turn")).body, EVENTS),
    "Gemini: thoughts in the text": http(events(
        piece(role="assistant", content="<thought>Is {seat 2} "
            "loyal?", extra_content={"google": {"thought": 1}}),
        piece(content=f"</thought>{HALF}"), piece(content=REST), stopped("stop", role="assistant")).body,
            EVENTS),
    "DeepSeek: both kinds of pieces in each": http(events(
        ": keep-alive", piece(content=None, reasoning_content="Hm."), piece(content="",
            reasoning_content=None),
        piece(content=USABLE, reasoning_content=None), stopped("stop", content="")).body, EVENTS),
    "Mistral: thinking in parts": http(events(
        piece(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm {"}]}]),
        piece(content=[{"type": "text", "text": HALF}]), piece(content=REST), STOP).body, EVENTS),
    "OpenRouter: reasoning that nobody may read": http(events(
        ": OPENROUTER PROCESSING", piece(content="", reasoning=None, reasoning_details=[
            {"type": "reasoning.encrypted", "data": "Z2Fy", "index": 0}]), piece(content=USABLE),
        {"provider": "X", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop",
                                       "native_finish_reason": "STOP"}]}, STOP).body, EVENTS),
    "vLLM: a reason to stop beside the reason": http(events(
        piece(role="assistant", content=""), piece(content=USABLE),
        {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop", "stop_reason": 128009,
                      "token_ids": None}], "prompt_token_ids": None}).body, EVENTS),
    "SGLang: a reason that is an object": http(events(
        piece(content=USABLE), stopped({"type": "stop", "matched": 151645})).body, EVENTS),
    "Ollama: thinking in a field of its own": http(events(
        piece(role="assistant", content="", reasoning="Hm."), piece(role="assistant", content=USABLE),
        stopped("stop", role="assistant", content="")).body, EVENTS),
    "llama.cpp: how far it has read": http(events(
        {**piece(role="assistant", content=None), "prompt_progress": {"total": 90, "processed": 60}},
        piece(content=USABLE), {**STOP, "timings": {"predicted_n": 12}}).body, EVENTS),
    "LM Studio: what harmony leaves": http(events(
        piece(content="<|channel|>analysis<|message|>{Hm}<|end|><|start|>assistant"),
        piece(content=f"<|channel|>final "
            f"<|constrain|>json<|message|>{USABLE}<|return|>"), STOP).body, EVENTS),
    "other words for thinking": http(completion(f"<seed:think>{{a}}</seed:think>{USABLE}").body, JSON),
    "yet others": http(completion(f"◁think▷{{a}}◁/think▷{USABLE}").body, JSON),
    "letters of several bytes, byte by byte": bytewise(utf8(piece(content=WISE[:40]),
        piece(content=WISE[40:]),
                                                           STOP)),
    "a letter whose halves come apart": http(events(*(piece(content=half) for half in OWL), STOP).body,
        EVENTS),
    "identifiers, pauses and events before each line": http(events(
        f"id: 1\nretry: 3000\nevent: message\ndata: {json.dumps(piece(content=HALF))}",
        f"id: 2\nevent: message\ndata:{json.dumps(piece(content=REST))}", f"data:{json.dumps(STOP)}",
        "data:[DONE]").body, EVENTS),
    "counts with every piece, and none at the end": http(events(
        *({**piece(content=part), "usage": {"prompt_tokens": 9, "completion_tokens": at}}
          for at, part in enumerate((HALF, REST), 1)), {**STOP, "usage": None}).body, EVENTS),
    "a status without words": http(completion().body, JSON, status="200"),
    "a header in another alphabet": http(completion().body, JSON, "Server: caf\u00e9"),
    "chunks with extensions and trailers": chunked(
        *(one for one in (events(piece(content=HALF)).body, events(piece(content=REST), STOP).body)),
        end=b"0\r\nX-Checksum: 1\r\n\r\n").replace(b"\r\n\r\n", b"\r\nTrailer: X-Checksum\r\n\r\n", 1),
}  # fmt: skip


@pytest.mark.parametrize("what", STREAMS)
async def test_each_providers_stream_is_read(what: str) -> None:
    reply = await asked(STREAMS[what])
    assert isinstance(reply.value, dict), reply.text
    # What stands around the JSON lets the client put the schema into the prompt, once.
    assert (reply.value["approve"], reply.calls) == (True, 2 if "harmony" in what else 1)
    if "letters" in what:
        assert reply.value["reason"] == "Зима 🦉 冬"
    if "halves" in what:
        assert "😀" in reply.text
    if "counts" in what:
        assert (reply.usage.prompt, reply.usage.completion) == (9, 2)
    if "harmony" in what or "thinking" in what or "thoughts" in what or what == "yet others":
        assert reply.reasoning


# --- what a refusal teaches ------------------------------------------------------------------------------

SPENT: Final = (
    "Could not finish the message because max_tokens or model output limit was reached. Please try again "
    "with "
    "higher max_tokens."
)


async def test_an_answer_that_its_reasoning_left_no_room_for_gets_more_of_it() -> None:
    async with answering(error(400, SPENT), completion()) as here:
        assert (await here.ask(400)).value is not None
        assert [body["max_tokens"] for body in here.requests] == [400, 1600]
        await here.ask(400)
        assert here.requests[-1]["max_tokens"] == 1600


async def test_where_no_more_room_is_to_be_had_nothing_is_repeated() -> None:
    async with answering(error(400, SPENT), max_output_tokens=1000) as here:
        fault = await here.fails(400)
        assert (fault.cause, fault.kind, fault.words) == ("reasoning_only", "answer", SPENT)
        assert [body["max_tokens"] for body in here.requests] == [400, 1000]


@pytest.mark.parametrize(
    "message",
    [
        (
            "\n------------\nWhile executing CallExpression at line 19 in source:\n{{ "
            "raise_exception('Conv\nError: "
            "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
        ),
        "System role not supported at row 1, column 40",
    ],
)
async def test_a_template_without_a_system_message_gets_none_though_it_says_500(message: str) -> None:
    async with answering(error(500, message, code=500, type="server_error"), completion()) as here:
        assert (await here.ask()).calls == 2
        assert [len(body["messages"]) for body in here.requests] == [2, 1]
        assert here.model.capability("vote").format is Format.SCHEMA


@pytest.mark.parametrize(
    ("words", "room"),
    [
        (
            (
                "This endpoint's maximum context length is 8192 tokens. However, you requested about 20000 "
                "tokens "
                "(4000 of text input, 16000 in the output)."
            ),
            4192,
        ),
        (
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 4000 "
                "`inputs` "
                "tokens and 16000 `max_new_tokens`"
            ),
            4192,
        ),
        (
            (
                "Requested token count exceeds the model's maximum context length of 8192 tokens. You "
                "requested a "
                "a total of 20000 tokens: 4000 tokens from the input messages and 16000 tokens for the "
                "completion."
            ),
            4192,
        ),
        (
            (
                "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for "
                "claude-3-5-sonnet-20241022"
            ),
            8192,
        ),
        (
            (
                "Unable to submit request because it has a maxOutputTokens value of 16000 but the supported "
                "range is "
                "from 1 (inclusive) to 8193 (exclusive)."
            ),
            8192,
        ),
    ],
)
async def test_the_room_that_a_provider_names_is_asked_for(words: str, room: int) -> None:
    async with answering(error(400, words), completion()) as here:
        assert (await here.ask(16_000)).value is not None
        assert [body["max_tokens"] for body in here.requests] == [16_000, room]
        assert here.model.capability("vote").format is Format.SCHEMA
