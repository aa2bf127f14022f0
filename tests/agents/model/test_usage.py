"""Tokens and money as providers count them."""

import json
from typing import Any

import pytest

from agents.model.model import FREE, Endpoint, Prices, Usage
from agents.model.usage import read_usage
from app.instruments.fake_model.http import Response
from tests.agents.model.scripted import answering, completion, error, events, streamed
from tests.agents.model.test_streams import HALF, STOP, piece

# Each with the prompt, what was cached, the completion, its reasoning and the cost.
COUNTED: list[tuple[dict[str, Any], tuple[int, int, int, int | None, float | None]]] = [
    # OpenAI
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
      "prompt_tokens_details": {"cached_tokens": 64},
      "completion_tokens_details": {"reasoning_tokens": 30}}, (100, 64, 50, 30, None)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
      "prompt_tokens_details": None, "completion_tokens_details": None}, (100, 0, 50, None, None)),
    ({"input_tokens": 100, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 64},
      "cache_read_input_tokens": 64}, (100, 64, 50, None, None)),
    # Anthropic counts what it found in its cache, and what it put there, apart.
    ({"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 900,
      "cache_creation_input_tokens": 20}, (1020, 900, 50, None, None)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "cache_read_input_tokens": 900},
     (1000, 900, 50, None, None)),
    ({"prompt_tokens": 1000, "completion_tokens": 50, "cache_read_input_tokens": 900},
     (1000, 900, 50, None, None)),
    # DeepSeek
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150, "prompt_cache_hit_tokens": 64,
      "prompt_cache_miss_tokens": 36, "completion_tokens_details": {"reasoning_tokens": 0}},
     (100, 64, 50, 0, None)),
    # Gemini leaves its thoughts out of the completion, xAI too; the total has them.
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 400}, (100, 0, 300, 250, None)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 400,
      "completion_tokens_details": {"reasoning_tokens": 250}}, (100, 0, 300, 250, None)),
    ({"promptTokenCount": 100, "candidatesTokenCount": 50, "thoughtsTokenCount": 250, "totalTokenCount": 400,
      "cachedContentTokenCount": 10}, (100, 10, 300, 250, None)),
    # Reasoning that is more than the completion cannot be a part of it.
    ({"prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 250}},
     (100, 0, 300, 250, None)),
    # OpenRouter
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150, "cost": 0.0125,
      "prompt_tokens_details": {"cached_tokens": 0}}, (100, 0, 50, None, 0.0125)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "cost": 0.01, "is_byok": True,
      "cost_details": {"upstream_inference_cost": 0.2}}, (100, 0, 50, None, 0.21)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "cost": None, "is_byok": True,
      "cost_details": {"upstream_inference_cost": 0.2}}, (100, 0, 50, None, 0.2)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "cost": 0.01, "is_byok": True,
      "cost_details": {"upstream_inference_cost": None}}, (100, 0, 50, None, 0.01)),
    ({"prompt_tokens": 100, "completion_tokens": 50, "cost": 0.01, "is_byok": False,
      "cost_details": {"upstream_inference_cost": 0.01}}, (100, 0, 50, None, 0.01)),
    # Moonshot, and servers that give a total alone.
    ({"prompt_tokens": 100, "completion_tokens": 50, "cached_tokens": 64}, (100, 64, 50, None, None)),
    ({"prompt_tokens": 100, "total_tokens": 150}, (100, 0, 50, None, None)),
    # What cannot be counted is not.
    ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 10, "cost": "free"},
     (100, 0, 50, None, None)),
    ({"prompt_tokens": 100.0, "completion_tokens": 50, "cost": float("nan")}, (100, 0, 50, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "read"), COUNTED)
def test_tokens_are_read_as_each_provider_counts_them(
    counts: dict[str, Any], read: tuple[int, int, int, int | None, float | None]
) -> None:
    prompt, cached, written, reasoning, cost = read
    assert read_usage(counts) == Usage(prompt, cached, written, True, reasoning, pytest.approx(cost))


@pytest.mark.parametrize(
    "counts", [None, 7, {}, {"prompt_tokens": 0, "completion_tokens": 1}, {"prompt_tokens": True}]
)
def test_without_counts_there_are_none(counts: Any) -> None:
    assert read_usage(counts) is None


def test_configured_prices_take_precedence_over_what_the_provider_charged() -> None:
    usage = Usage(1_000_000, 0, 0, True, None, 5.0)
    assert Endpoint("e", "http://h/v1", "m", prices=FREE).cost(usage) == 5.0
    assert Endpoint("e", "http://h/v1", "m", prices=Prices(prompt=2.0)).cost(usage) == 2.0
    assert Endpoint("e", "http://h/v1", "m").cost(Usage(10, 0, 0, True)) == 0.0


@pytest.mark.parametrize("counts", [{}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": "7"}])
async def test_a_charge_beside_counts_that_cannot_be_used_is_counted(counts: dict[str, Any]) -> None:
    usage = {**counts, "cost": 0.5}
    for response in (completion(usage=usage), streamed("{}", usage=usage)):
        async with answering(response) as here:
            reply = await here.ask()
            assert reply.cost == reply.usage.cost == 0.5 * reply.calls
            assert reply.usage.prompt
            assert not reply.usage.known


CHARGED: dict[str, Any] = {"usage": {"prompt_tokens": 30, "completion_tokens": 7, "cost": 0.5}}
LAST: dict[str, Any] = {"choices": [], **CHARGED}
AWAY: dict[str, Any] = {"error": {"message": "away", "code": 502}}
BROKEN_OFF: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}
FAULTY: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, **AWAY}]}


def failed(body: dict[str, Any]) -> Response:
    return Response(200, json.dumps(body).encode(), "application/json")


@pytest.mark.parametrize(
    "response",
    [
        events(piece(content=HALF), BROKEN_OFF, LAST, "data: [DONE]"),
        events(piece(content=HALF), AWAY, LAST, "data: [DONE]"),
        events(piece(content=HALF), AWAY, LAST),
        events(piece(content=HALF), AWAY | LAST),
        events(piece(content=HALF), FAULTY, LAST),
        events(LAST, AWAY),
        failed(AWAY | CHARGED),
        failed({"object": "error", "message": "away"} | CHARGED),
    ],
)
async def test_what_a_provider_charges_for_an_error_is_counted(response: Response) -> None:
    async with answering(response) as here:
        spent = (await here.fails()).spent
        assert spent.calls == len(here.requests) == 2
        assert (spent.usage.prompt, spent.usage.completion, spent.usage.known) == (60, 14, True)
        assert spent.cost == spent.usage.cost == 1.0


async def test_an_error_that_states_a_charge_alone_took_tokens() -> None:
    async with answering(failed(AWAY | {"usage": {"cost": 0.5}})) as here:
        spent = (await here.fails()).spent
        assert spent.cost == 1.0
        assert spent.usage.prompt
        assert not spent.usage.known


@pytest.mark.parametrize("response", [failed(AWAY), failed(AWAY | {"usage": {"cost": 0}}), error(502)])
async def test_an_error_without_an_answer_and_a_charge_is_free(response: Response) -> None:
    async with answering(response) as here:
        spent = (await here.fails()).spent
        assert spent.cost == spent.usage.prompt == spent.usage.completion == 0
        assert spent.usage.known


async def test_counts_after_an_error_that_comes_late_are_those_of_the_answer() -> None:
    async with answering(events(piece(content=HALF), STOP, AWAY, LAST)) as here:
        reply = await here.ask()
        assert reply.cost == 0.5 * reply.calls
        assert reply.usage.prompt == 30 * reply.calls


async def test_a_reply_says_who_served_it_and_what_it_cost() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "cost": 0.5}
    for response in (
        completion(usage=usage, provider="Together", system_fingerprint="fp_1"),
        streamed("{}", usage=usage, before=['data: {"provider": "Together", "system_fingerprint": "fp_1"}']),
    ):
        async with answering(response) as here:
            reply = await here.ask()
            assert (reply.provider, reply.fingerprint, reply.model) == ("Together", "fp_1", "served")
            assert reply.cost == 0.5 * reply.calls
    async with answering(completion()) as here:
        reply = await here.ask()
        assert (reply.provider, reply.fingerprint, reply.reasoning) == (None, None, None)
