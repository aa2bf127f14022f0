"""How long a call waits, for our own limits and for a server: to the second, on a clock that jumps."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from agents.model.answer import Failed, HttpAnswer
from agents.model.client import Attempt, OpenAIModel
from agents.model.completion import CompletionReader
from agents.model.model import Endpoint, ModelUnavailable, Reply
from tests.agents.model.serving import ASKED, VOTE
from tests.jumping import JumpingLoop

JITTER: Final = 0.01
"""The share of every pause that is drawn."""


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": JumpingLoop}


def now() -> float:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    return loop.now


def answer(usage: int = 40) -> HttpAnswer:
    message = {"content": json.dumps({"approve": True, "reason": "", "seats": [1]})}
    body = {
        "model": "m",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": usage // 2, "completion_tokens": usage // 2},
    }
    return HttpAnswer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def too_many(**headers: str) -> HttpAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(429, named, b'{"error": {"message": "too many requests"}}')


SILENCE: Final = None


@dataclass
class Line:
    """Says what it is told to, then answers, each after ``takes_s``; ``SILENCE`` lasts until time is up."""

    says: Iterable[HttpAnswer | None] = ()
    takes_s: float = 0.0
    asked: list[float] = field(default_factory=list)
    """When each request came."""

    def __post_init__(self) -> None:
        self._says = iter(self.says)

    async def post(
        self, body: dict[str, Any], reader: CompletionReader, silence_s: float, total_s: float, *_: str
    ) -> HttpAnswer | Failed:
        timeout_s = min(silence_s, total_s)
        self.asked.append(now())
        said = next(self._says, answer())
        if said is SILENCE or self.takes_s > timeout_s:
            await asyncio.sleep(timeout_s)
            return Failed("timeout", None, 0, sent=True)
        await asyncio.sleep(self.takes_s)
        if said.status == 200:
            reader.feed(said.body)
        return said


@dataclass
class Caller:
    """A model over a line."""

    model: OpenAIModel
    attempts: list[Attempt]

    async def ask(self) -> Reply:
        return await self.model.complete(ASKED, VOTE, temperature=0.8, max_tokens=400)


def caller(line: Line, **settings: Any) -> Caller:
    attempts: list[Attempt] = []
    endpoint = Endpoint("here", "http://127.0.0.1:9/v1", "m", **settings)
    model = OpenAIModel(endpoint, attempts.append, jitter=lambda: JITTER)
    model._wire = line  # type: ignore[assignment]
    return Caller(model, attempts)


# Our own limits


async def test_waiting_for_our_own_limits_is_no_latency_and_no_timeout() -> None:
    here = caller(Line(takes_s=0.1), parallel=1, timeout_s=0.3, total_s=0.4)
    before = now()
    replies = await asyncio.gather(*(here.ask() for _ in range(8)))
    assert now() - before == pytest.approx(0.8)
    assert [reply.latency_s for reply in replies] == pytest.approx([0.1] * 8)
    assert [one.waited_s for one in here.attempts] == pytest.approx([0.1 * n for n in range(8)])


async def test_requests_a_minute_are_kept() -> None:
    # 60 a minute hold 5 at once; the sixth and seventh wait a second each.
    line = Line()
    here = caller(line, requests_per_minute=60.0)
    before = now()
    await asyncio.gather(*(here.ask() for _ in range(7)))
    assert [at - before for at in line.asked] == pytest.approx([0, 0, 0, 0, 0, 1, 2])


async def test_tokens_that_were_reserved_and_not_used_flow_back() -> None:
    # 12,000 a minute hold 1,000 at once; each request may use more than 400 and uses 40.
    here = caller(Line(), tokens_per_minute=12_000.0)
    for _ in range(8):
        await here.ask()
    assert [one.waited_s for one in here.attempts] == [0.0] * 8


async def test_tokens_a_minute_are_kept() -> None:
    here = caller(Line(says=[answer(1000)] * 3), tokens_per_minute=12_000.0)
    before = now()
    for _ in range(3):
        await here.ask()
    # 1,000 are there and are used; what is reserved for the next flows in at 200 a second, and what was used
    # beyond it is owed.
    assert here.attempts[0].waited_s == 0
    assert here.attempts[1].waited_s > 2
    assert here.attempts[2].waited_s == pytest.approx(5)
    assert now() - before == pytest.approx(sum(one.waited_s for one in here.attempts))


# What the server asks for


async def test_a_server_is_left_alone_as_long_as_it_asks() -> None:
    line = Line([too_many(retry_after="7")])
    reply = await caller(line).ask()
    # Beside it the pause of a first failure, drawn from half a second.
    assert line.asked[1] - line.asked[0] == pytest.approx(7 + JITTER * 0.5)
    assert reply.latency_s == pytest.approx(7 + JITTER * 0.5)


async def test_a_server_that_wants_a_day_of_peace_gets_as_much_as_we_have() -> None:
    line = Line([too_many(retry_after="86400")] * 3)
    with pytest.raises(ModelUnavailable, match="rate_limited") as failed:
        await caller(line, attempts=3, retry_after_s=20, total_s=60).ask()
    waits = [later - earlier for earlier, later in zip(line.asked, line.asked[1:], strict=False)]
    assert waits == pytest.approx([20 + JITTER * 0.5, 20 + JITTER * 1.0])
    assert failed.value.spent is not None
    assert failed.value.spent.latency_s == pytest.approx(sum(waits))


async def test_a_pause_that_outlasts_the_time_left_is_not_waited_for() -> None:
    line = Line([too_many(retry_after="86400")])
    before = now()
    with pytest.raises(ModelUnavailable, match="rate_limited"):
        await caller(line, retry_after_s=60, total_s=30).ask()
    assert now() == before
    assert len(line.asked) == 1


async def test_a_pause_that_one_was_asked_for_holds_for_all() -> None:
    line = Line([too_many(retry_after="7")])
    here = caller(line)
    first = asyncio.create_task(here.ask())
    await asyncio.sleep(1)
    before = now()
    second = await here.ask()
    # The six seconds that are left, and a little: not all at once, when it is over.
    assert second.latency_s == now() - before == pytest.approx(6 + JITTER * 0.5)
    await first
    assert len(line.asked) == 3


async def test_the_whole_call_is_bounded_whatever_its_attempts_may_take() -> None:
    line = Line([SILENCE] * 50)
    before = now()
    with pytest.raises(ModelUnavailable, match="timeout") as failed:
        await caller(line, attempts=50, timeout_s=40, total_s=100).ask()
    # Two whole attempts, and what is left for a third.
    assert now() - before == pytest.approx(100)
    assert failed.value.spent is not None
    assert (failed.value.spent.calls, failed.value.spent.latency_s) == (3, pytest.approx(100))


async def test_pauses_double_with_each_failure_up_to_twenty_seconds() -> None:
    line = Line([too_many()] * 9)
    await caller(line, attempts=10, total_s=1000).ask()
    waits = [later - earlier for earlier, later in zip(line.asked, line.asked[1:], strict=False)]
    assert waits == pytest.approx([JITTER * most for most in (0.5, 1, 2, 4, 8, 16, 20, 20, 20)])
