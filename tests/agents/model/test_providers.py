"""What is known of a provider beforehand, what a seat asks for, and the key that its calls carry."""

from typing import Any

import pytest

from agents.errors import InvalidAgent
from agents.model.capability import PROVIDERS
from agents.model.model import Endpoint, Sampling, check_allowed, read_sampling
from tests.agents.model.scripted import answering, completion, error
from tests.agents.model.serving import ASKED, VOTE


async def sent(provider: str | None, sampling: Sampling = Sampling(), **settings: Any) -> dict[str, Any]:  # noqa: B008
    async with answering(completion(), provider=provider, **settings) as here:
        await here.ask(sampling=sampling, cache_key="k1")
        assert here.headers[0]["x-session-id"] == "k1"
        return here.requests[0]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_a_provider_refuses_is_not_sent_to_it(provider: str) -> None:
    settings = {"upstream": "together"} if provider == "openrouter" else {}
    body = await sent(provider, **settings)
    traits = PROVIDERS[provider]  # type: ignore[index]
    assert (traits.begin.limit in body, len({"max_tokens", "max_completion_tokens"} & body.keys())) == (
        True,
        1,
    )
    assert ("stream_options" in body) is traits.begin.counts
    assert body.get(traits.cache_key or "stream") == ("k1" if traits.cache_key else True)
    if provider in ("anthropic",):
        assert "response_format" not in body
        assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
        assert body["messages"][0]["content"][0]["text"] == ASKED[0].content
    if provider == "deepseek":
        assert body["response_format"] == {"type": "json_object"}


async def test_openrouter_is_pinned_to_one_provider_without_fallbacks() -> None:
    body = await sent("openrouter", upstream="together")
    assert body["provider"] == {"only": ["together"], "allow_fallbacks": False}
    with pytest.raises(ValueError, match="openrouter needs it"):
        Endpoint("e", "http://h/v1", "m", provider="openrouter")
    with pytest.raises(ValueError, match="the others have none"):
        Endpoint("e", "http://h/v1", "m", upstream="together")


async def test_a_temperature_beyond_what_a_provider_takes_is_lowered_to_it() -> None:
    async with answering(completion(), provider="anthropic") as here:
        await here.model.complete(ASKED, VOTE, temperature=1.7, max_tokens=400)
        assert here.requests[0]["temperature"] == 1.0


async def test_what_a_seat_asks_for_is_sent_and_told() -> None:
    asked = Sampling(top_p=0.9, seed=7, reasoning_effort="low", extra_body={"top_k": 40})
    async with answering(completion(), seat_keys=frozenset({"top_k"})) as here:
        reply = await here.ask(sampling=asked)
        wished = {"top_p": 0.9, "seed": 7, "reasoning_effort": "low", "top_k": 40}
        assert {name: here.requests[0].get(name) for name in wished} == wished
        assert reply.sent is not None
        assert {name: reply.sent.get(name) for name in wished} == wished


async def test_what_a_seat_asks_for_and_the_provider_refuses_fails_in_the_providers_words() -> None:
    refused = error(400, "Unsupported value: 'reasoning_effort' does not support 'minimal'.")
    async with answering(refused) as here:
        fault = await here.fails()
        assert (fault.kind, "reasoning_effort" in fault.words) == ("request", True)


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"top_p": 0}, "/options/top_p"),
        ({"top_p": True}, "/options/top_p"),
        ({"seed": 1.5}, "/options/seed"),
        ({"reasoning_effort": "very high"}, "/options/reasoning_effort"),
        ({"extra_body": [1]}, "/options/extra_body"),
    ],
)
def test_what_no_model_could_be_asked_is_refused_with_its_place(options: Any, pointer: str) -> None:
    with pytest.raises(InvalidAgent) as refused:
        read_sampling(options)
    assert refused.value.pointer == pointer


def test_a_seat_sets_only_the_fields_that_the_endpoint_allows() -> None:
    check_allowed(Sampling(extra_body={"top_k": 1}), {"top_k"})
    with pytest.raises(InvalidAgent, match="allows: top_k"):
        check_allowed(Sampling(extra_body={"min_p": 1}), {"top_k"})
    for name in ("model", "messages", "n", "stream"):
        with pytest.raises(ValueError, match="seats may not set"):
            Endpoint("e", "http://h/v1", "m", seat_keys=frozenset({name}))
