"""Every fault of a model server, from a real one: bounded, counted, survived."""

import asyncio
import time
import traceback
from typing import Any

import jsonschema
import pytest

from agents.model.capability import PROBES, Format
from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, ModelUnavailable, Prices
from agents.model.request import reduced
from app.instruments.fake_model import FAULTS, Fault
from app.instruments.fake_model.http import HttpConnection, HttpRequest, HttpServer, Response
from tests.agents.model.serving import KEY, VOTE, table
from tests.ports import steady_port

ATTEMPTS = 3


def valid(value: Any) -> bool:
    """Of the asked form; bounds are what some servers do not take, and the noise then breaks."""
    return jsonschema.Draft202012Validator(reduced(VOTE.schema)).is_valid(value)


# A fault whose reply is as good as any, once the client has dealt with it.
READ = [
    "json_schema_500", "json_schema_400", "schema_bounds_400", "object_schema_400", "response_format_400",
    "response_format_422", "response_format_unsaid", "max_tokens_400", "temperature_400", "system_400",
    "roles_400", "developer_400", "fences", "prose_around", "single_quotes", "trailing_commas", "thinking",
    "content_parts", "usage_null", "usage_missing", "reasoning", "stream_unasked", "huge",
]  # fmt: skip

# A fault whose reply says nothing, or something else: the client hands it on as it is.
UNUSABLE = {
    "format_ignored": "stop",
    "malformed_content": "stop",
    "length": "length",
    "empty": "stop",
    "content_null": "stop",
    "refusal": "refusal",
    "content_filter": "content_filter",
}
ODD = ["bounds_ignored", "wrong_schema", "surrogate_text", "surrogate_value", "injection"]

# A fault that leaves nothing to read, for ever: attempts are spent on it. With what the error then says.
FAILING = {
    "status_429": "rate_limited",
    "status_500": "status_500",
    "status_502": "status_502",
    "status_503": "status_503",
    "error_200": "error_body",
    "error_200_429": "rate_limited",
    "choices_null": "no_choices",
    "choices_empty": "no_choices",
    "not_json": "html_page",
    "malformed_body": "truncated",
    "truncated_body": "truncated",
    "truncated_silently": "truncated",
    "truncated_stream": "truncated",
    "reset_mid_body": "reset",
    "silence": "timeout",
    "silence_after_headers": "timeout",
    "slow_drip": "timeout",
    "disconnect": "disconnected",
    "stale_connection": "status_500",
    "refused": "refused",
}
SILENT = {fault: {"timeout_s": 0.5} for fault, cause in FAILING.items() if cause == "timeout"}
"""What ends by our own time alone gets little of it."""
PAUSING = ["status_429_seconds", "status_429_date", "status_429_huge"]
# Asking again is of no use.
FINAL = {
    "quota": "quota",
    "status_401": "status_401",
    "status_404": "status_404",
    "context_length": "context_length",
}


def test_every_fault_of_the_fake_model_is_tried_here() -> None:
    tried = {*READ, *UNUSABLE, *ODD, *FAILING, *PAUSING, *FINAL}
    assert tried == FAULTS.keys()


@pytest.mark.parametrize("fault", READ)
async def test_a_server_that_can_do_less_is_read_all_the_same(fault: str) -> None:
    async with table(fault, attempts=ATTEMPTS) as here:
        first = await here.ask()
        assert valid(first.value)
        assert first.calls <= ATTEMPTS + PROBES
        assert first.calls == here.server.counts.calls == len(here.attempts)
        # What was learnt is remembered: another call is one request.
        again = await here.ask("And now?")
        assert valid(again.value)
        assert again.calls == 1


@pytest.mark.parametrize("fault", UNUSABLE)
async def test_an_answer_without_json_is_a_reply_without_a_value(fault: str) -> None:
    async with table(fault) as here:
        reply = await here.ask()
        assert reply.value is None
        assert reply.finish == UNUSABLE[fault]
        # At most once again, with the schema in the prompt; what is cut gets more room, up to the limit.
        assert reply.calls <= (4 if fault == "length" else 2)
        assert (await here.ask()).calls == 1
        assert reply.usage.prompt > 0


@pytest.mark.parametrize("fault", ODD)
async def test_strange_but_readable_json_is_handed_on_and_can_be_stored(fault: str) -> None:
    async with table(fault) as here:
        reply = await here.ask()
        reply.text.encode()
        assert isinstance(reply.value, dict) or fault == "surrogate_text"
        for text in (reply.text, str(reply.value)):
            assert "\0" not in text
            text.encode()


@pytest.mark.parametrize("fault", FAILING)
async def test_a_fault_that_lasts_ends_in_bounded_attempts_and_time(fault: str) -> None:
    async with table(fault, attempts=ATTEMPTS, **SILENT.get(fault, {})) as here:
        before = time.monotonic()
        with pytest.raises(ModelUnavailable) as failed:
            # For hangs alone. test_waits.py has a clock that is exact.
            async with asyncio.timeout(60):
                await here.ask()
        seconds = time.monotonic() - before
        assert failed.value.cause == FAILING[fault] or (fault, failed.value.cause) in {
            # The listening socket is closed only once the first request is in.
            ("refused", "disconnected"),
            ("stale_connection", "disconnected"),
        }
        spent = failed.value.spent
        assert spent is not None
        assert ATTEMPTS <= spent.calls <= ATTEMPTS + PROBES
        assert spent.calls == len(here.attempts)
        # All attempts with the pauses between them, and no more than went by outside. The second pause is at
        # least a hundredth of a second, the jitter of these tests.
        assert sum(one.seconds for one in here.attempts) + 0.0099 <= spent.latency_s <= seconds
        assert here.server.counts.in_flight == 0 or fault in ("silence", "silence_after_headers", "slow_drip")


@pytest.mark.parametrize("fault", [*FAILING, "status_429_seconds", "status_429_date"])
async def test_a_fault_that_passes_costs_no_answer(fault: str) -> None:
    # Who is refused needs a pause to come back after it.
    jitter = 0.6 if fault == "refused" else 0.01
    async with table(f"{fault}:1:1", retry_after_s=2.5, jitter=jitter, **SILENT.get(fault, {})) as here:
        reply = await here.ask()
        assert valid(reply.value)
        assert 2 <= reply.calls <= 4


@pytest.mark.parametrize("fault", FINAL)
async def test_what_will_not_change_is_asked_once(fault: str) -> None:
    async with table(fault) as here:
        with pytest.raises(ModelUnavailable) as failed:
            await here.ask()
        assert failed.value.cause == FINAL[fault]
        assert here.server.counts.calls == 1


@pytest.mark.parametrize(
    # A date has whole seconds: one second ahead may be a few milliseconds, or over when it is read.
    ("fault", "least", "most"),
    [("status_429_seconds", 1.0, 1.0), ("status_429_date", 0.0, 1.0)],
)
async def test_a_server_is_left_alone_as_long_as_it_asks(fault: str, least: float, most: float) -> None:
    async with table(f"{fault}:1:1") as here:
        before = time.monotonic()
        reply = await here.ask()
        seconds = time.monotonic() - before
        assert valid(reply.value)
        asked_for = reply.latency_s - sum(one.seconds for one in here.attempts)
        assert least <= asked_for <= most + 0.01
        assert seconds >= asked_for


async def test_a_server_that_is_silent_for_ever_ends_no_later_than_the_call() -> None:
    async with table("silence", attempts=50, timeout_s=3600, total_s=0.5) as here:
        with pytest.raises(ModelUnavailable) as failed:
            async with asyncio.timeout(60):
                await here.ask()
        assert failed.value.spent is not None
        assert failed.value.spent.calls == 1


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    endpoint = Endpoint("nowhere", f"http://127.0.0.1:{steady_port()}/v1", "m", attempts=2, timeout_s=1)
    model = OpenAIModel(endpoint, jitter=lambda: 0.0)
    with pytest.raises(
        ModelUnavailable, match=r"no usable answer to vote from nowhere \(requests: 2, "
    ) as failed:
        await model.complete([], VOTE, temperature=1, max_tokens=10)
    await model.aclose()
    assert failed.value.cause == "refused"
    assert failed.value.spent is not None
    assert failed.value.spent.usage.prompt == 0  # nothing was sent, nothing was paid


async def test_what_failed_attempts_cost_is_counted_with_the_answer() -> None:
    prices = Prices(prompt=1_000_000, completion=2_000_000, cached=500_000)
    async with table("choices_null:1:2", prices=prices) as here:
        reply = await here.ask()
        counts = here.server.counts
        assert reply.calls == 3
        assert reply.usage.known
        # What is taken from the cache stands in the prompt's figure too.
        assert (reply.usage.prompt, reply.usage.cached, reply.usage.completion) == (
            counts.prompt_tokens,
            counts.cached_tokens,
            counts.completion_tokens,
        )
        fresh = reply.usage.prompt - reply.usage.cached
        assert reply.cost == fresh * 1 + reply.usage.cached * 0.5 + reply.usage.completion * 2
        assert sum(one.cost for one in here.attempts) == pytest.approx(reply.cost)


async def test_what_was_paid_without_an_answer_stands_in_the_error() -> None:
    async with table("silence", attempts=2, timeout_s=0.2, prices=Prices(prompt=1_000_000)) as here:
        with pytest.raises(ModelUnavailable) as failed:
            await here.ask("x" * 4000)
    spent = failed.value.spent
    assert spent is not None
    assert spent.usage.prompt > 2000
    assert not spent.usage.known
    assert spent.cost == spent.usage.prompt


async def test_tokens_are_estimated_when_the_server_does_not_count() -> None:
    async with table("usage_null") as here:
        reply = await here.ask("x" * 4000)
        assert not reply.usage.known
        assert 1000 <= reply.usage.prompt <= 1100
        assert reply.usage.completion == pytest.approx(len(reply.text) / 4, abs=1)


async def test_an_outage_does_not_make_a_server_one_that_can_do_less() -> None:
    async with table() as here:
        await here.ask()
        here.server.faults = (Fault("status_500", times=3),)
        assert valid((await here.ask("again")).value)
        assert here.model.capability("vote").format is Format.SCHEMA


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_no_error_and_no_repr_shows_the_key(fault: str) -> None:
    async with table(fault, attempts=1, timeout_s=0.2, retry_after_s=0.1) as here:
        try:
            shown = repr(await here.ask())
        except ModelUnavailable as failed:
            shown = "".join(traceback.format_exception(failed))
        assert KEY not in shown
        assert KEY not in repr(here.model)
        assert KEY not in repr(here.attempts)


async def test_a_key_that_the_server_echoes_is_masked() -> None:
    async def echo(request: HttpRequest, connection: HttpConnection) -> None:
        said = request.headers["authorization"]
        connection.send(Response(401, f'{{"error": {{"message": "wrong key {said}"}}}}'.encode()))

    server = HttpServer(echo)
    url = await server.start("127.0.0.1", 0)
    model = OpenAIModel(Endpoint("e", url, "m", api_key=KEY))
    with pytest.raises(ModelUnavailable, match=r"wrong key Bearer \*\*\*"):
        await model.complete([], VOTE, temperature=1, max_tokens=10)
    await model.aclose()
    await server.stop()


async def test_everything_at_once_is_survived() -> None:
    # Silence and slowness cost their timeout each; they have their own tests above.
    slow = {"silence", "silence_after_headers", "slow_drip", "status_429_date", "status_429_huge"}
    final = {"refused", *FINAL}
    mixed = [f"{fault}:0.03" for fault in FAULTS if fault not in slow | final]
    async with table(*mixed, parallel=20, attempts=6, total_s=600) as here:
        done = await asyncio.gather(*(here.ask(str(number)) for number in range(300)), return_exceptions=True)
        lost = [one for one in done if isinstance(one, BaseException)]
        assert all(isinstance(one, ModelUnavailable) for one in lost)
        assert len(lost) <= 30
        assert here.server.counts.in_flight == 0
        # A connection that closes unread is a request of ours, and none of the server's.
        assert here.server.counts.calls <= len(here.attempts) <= 300 * 6
        spent = [
            one.spent.calls if isinstance(one, ModelUnavailable) and one.spent else one.calls for one in done
        ]  # type: ignore[union-attr]
        assert sum(spent) == len(here.attempts)
        assert max(spent) <= 6 + PROBES
