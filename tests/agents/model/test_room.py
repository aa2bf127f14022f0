"""Answers that were cut off: more room, up to a limit, and what servers say of the room there is."""

import pytest

from agents.model.request import fitting, stated
from tests.agents.model.scripted import USABLE, answering, completion, error

CUT = completion(USABLE[:20], finish="length")
EMPTY = completion("", finish="length", message={"reasoning_content": "Let me think."})


async def test_a_cut_answer_is_asked_for_again_with_more_room() -> None:
    async with answering(CUT, completion()) as here:
        reply = await here.ask(400)
        assert reply.value is not None
        assert [body["max_tokens"] for body in here.requests] == [400, 1600]
        assert reply.usage.completion == 20
        assert reply.calls == 2


async def test_the_room_that_a_form_needed_is_remembered() -> None:
    async with answering(CUT, completion()) as here:
        await here.ask(400)
        await here.ask(400)
        assert [body["max_tokens"] for body in here.requests] == [400, 1600, 1600]


async def test_no_answer_gets_more_room_than_the_endpoint_allows() -> None:
    async with answering(CUT, max_output_tokens=1000) as here:
        reply = await here.ask(400)
        assert (reply.value, reply.finish) == (None, "length")
        assert [body["max_tokens"] for body in here.requests] == [400, 1000]


async def test_an_empty_answer_at_the_limit_stops_at_once_and_says_why() -> None:
    async with answering(EMPTY, max_output_tokens=1000) as here:
        fault = await here.fails(400)
        assert (fault.cause, fault.kind) == ("reasoning_only", "answer")
        assert "reasoning took all of its 1000 tokens" in fault.words
        assert [body["max_tokens"] for body in here.requests] == [400, 1000]


async def test_an_answer_that_used_its_whole_room_is_cut_whatever_the_server_says() -> None:
    used = {"prompt_tokens": 20, "completion_tokens": 400, "total_tokens": 420}
    async with answering(completion(USABLE[:20], finish="stop", usage=used), completion()) as here:
        await here.ask(400)
        assert [body["max_tokens"] for body in here.requests] == [400, 1600]


async def test_an_operators_own_limit_is_never_raised() -> None:
    async with answering(CUT, extra_body={"max_tokens": 200}) as here:
        assert (await here.ask(400)).finish == "length"
        assert [body["max_tokens"] for body in here.requests] == [200]


async def test_a_model_that_writes_less_is_asked_for_less_from_then_on() -> None:
    refused = error(400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]")
    async with answering(refused, completion()) as here:
        await here.ask(10_000)
        await here.ask(10_000)
        assert [body["max_tokens"] for body in here.requests] == [10_000, 8192, 8192]


async def test_an_answer_gets_what_the_context_has_left() -> None:
    refused = error(
        400,
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
        "(5000 in the messages, 4000 in the completion).",
    )
    async with answering(refused, completion()) as here:
        await here.ask(4000)
        assert [body["max_tokens"] for body in here.requests] == [4000, 3192]


@pytest.mark.parametrize(
    ("words", "sent", "left"),
    [
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 20_000, 10_000),
        ("too large: 5000. The maximum context length is 4096 tokens and your request has 100 input tokens",
         5000, 3996),
        ("maximum context length is 8192 tokens and your prompt contains 8190 tokens", 100, None),
        ("prompt is too long: 213462 tokens > 200000 maximum", 4000, None),
    ],
)  # fmt: skip
def test_what_is_left_of_a_context_is_read_from_words(words: str, sent: int, left: int | None) -> None:
    assert fitting(words, sent) == left


@pytest.mark.parametrize(
    ("words", "sent", "most"),
    [
        ("max_tokens is too large: 20000. This model supports at most 16384 tokens.", 20_000, 16_384),
        ("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens", 100_000, 64_000),
        ("max_tokens must be at most 4,096", 10_000, 4096),
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", 10_000, None),
        ("the temperature is 5000", 10_000, None),
    ],
)  # fmt: skip
def test_the_most_a_model_writes_is_read_from_words(words: str, sent: int, most: int | None) -> None:
    assert stated(words, sent) == most
