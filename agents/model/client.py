"""A Model over any server that speaks the OpenAI protocol, however loosely: with retries, waits and costs."""

import asyncio
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from agents.model.answer import (
    Completion,
    Failed,
    HttpAnswer,
    clean,
    find_value,
    read_completion,
    read_error_body,
    read_json,
    retry_after,
)
from agents.model.capability import PROBES, Capability, Format, Ladder, ServerRefusal, lower, read_refusal
from agents.model.limits import RateLimits
from agents.model.model import Endpoint, Form, Message, ModelUnavailable, Reply, Spent, Unavailability, Usage
from agents.model.request import parameters, request_body, required_keys

__all__ = ["Attempt", "Observer", "OpenAIModel"]

BACKOFF_S: Final = 0.5
"""A pause is drawn from 0 to this bound in seconds, which doubles with each failure (full jitter)."""
LONGEST_BACKOFF_S: Final = 20.0

_TOO_LONG: Final = re.compile(
    r"(maximum|exceed\w*) .{0,24}context|context[ _](length|window|size)|prompt is too long"
    r"|too many (input )?tokens|reduce the length",
    re.I,
)
_NO_MONEY: Final = re.compile(
    r"insufficient[_ ](quota|balance|credits?|funds)|credit balance is too low", re.I
)
"""How OpenAI, DeepSeek, OpenRouter and Anthropic say that nothing is left to pay with."""

_ENDED_BY_SERVER: Final = frozenset({"length", "content_filter", "refusal"})
"""Finish reasons after which the answer need not be JSON."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP request, for metrics. It holds no text of prompt or answer."""

    endpoint: str
    outcome: str
    """``ok``, or a short word: status_429, timeout, not_json, …"""
    status: int | None
    """None: no response began."""
    seconds: float
    waited_s: float
    """Time spent waiting for the client's own limits, before the request was sent."""
    format: Format
    usage: Usage
    cost: float


class Observer(Protocol):
    """Called after every HTTP request. It must not raise."""

    def __call__(self, attempt: Attempt, /) -> None: ...


class OpenAIModel:
    """The model of one endpoint, shared by all callers of one event loop.

    Only this class repeats failed requests. ``jitter`` draws a number from [0, 1).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        observer: Observer | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        # The import takes half a second: only games with models pay for it.
        from agents.model.wire import Wire

        self.endpoint = endpoint
        self._observer = observer
        self._jitter = jitter
        self._ladder = Ladder(endpoint.capability)
        self._limits = RateLimits(endpoint.parallel, endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._wire = Wire(endpoint)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.endpoint!r})"

    def capability(self, form: str) -> Capability:
        """What the server is known to accept for this form."""
        return self._ladder.now(form)

    async def complete(
        self, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """One reply, within the endpoint's attempts and time.

        At most ``endpoint.attempts`` requests may fail, and at most ``PROBES`` more probe what the server can
        do. A reply without a usable value is still a reply: its ``value`` is None. Raises ModelUnavailable,
        which holds what the call has cost.
        """
        call = _Call(self, messages, form, temperature, max_tokens)
        return await call.run()

    async def aclose(self) -> None:
        """Closes the connections. No call may follow."""
        await self._wire.aclose()


@dataclass(slots=True)
class _Problem:
    """Why a request brought no answer, and what follows for the next request."""

    cause: str
    status: int | None = None
    final: bool = False
    """True: repeating the request is useless."""
    refusal: ServerRefusal | None = None
    """What the server says it does not accept."""
    after_s: float | None = None
    """Seconds that the server asks us to wait before the next request."""
    message: str = ""
    """The part of the server's message that may be shown."""


@dataclass(slots=True)
class _Tally:
    """What one call has cost so far."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    known: bool = True
    calls: int = 0
    seconds: float = 0.0

    def add(self, usage: Usage) -> None:
        self.prompt += usage.prompt
        self.cached += usage.cached
        self.completion += usage.completion
        self.known = self.known and usage.known

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt, self.cached, self.completion, self.known)


@dataclass(slots=True)
class _Call:
    """One call of ``complete``: sends requests until one is answered, or until it gives up."""

    model: OpenAIModel
    messages: Sequence[Message]
    form: Form
    temperature: float
    max_tokens: int
    tally: _Tally = field(default_factory=_Tally)
    failures: int = 0
    probes: int = 0
    sent: dict[str, Any] | None = None
    """The parameters of the last request."""

    async def run(self) -> Reply:
        ladder = self.model._ladder
        asking = ladder.now(self.form.name)
        while True:
            outcome = await self._request(asking)
            if isinstance(outcome, Completion):
                again = ladder.answered(asking, self.form.name, kept=self._kept(outcome))
                if again is None or self.probes >= PROBES or self._left_s() <= 0:
                    return self._reply(outcome)
                self.probes += 1
                asking = again
            else:
                asking = await self._after(outcome, asking)
            # Other calls may have learnt more meanwhile.
            asking = lower(asking, ladder.now(self.form.name))

    async def _after(self, problem: _Problem, asked: Capability) -> Capability:
        """Waits as long as needed, and returns the capability for the next request. Raises ModelUnavailable
        when the call has to give up.
        """
        ladder = self.model._ladder
        if problem.refusal is not None:
            less = ladder.refused(asked, self.form.name, problem.refusal)
            if less is None or self.probes >= PROBES:
                self._give_up(problem)
            self.probes += 1
            return less
        if problem.final:
            self._give_up(problem)
        less = None
        repeated = self.failures + 1 >= min(2, self.model.endpoint.attempts)
        if problem.status in (500, 501) and repeated and self.probes < PROBES:
            less = ladder.suspect(asked, self.form.name)
        if less is None:
            self.failures += 1
            if self.failures >= self.model.endpoint.attempts:
                self._give_up(problem)
        else:
            self.failures = max(self.failures, 1)
            self.probes += 1
        await self._pause(problem)
        return less or asked

    async def _pause(self, problem: _Problem) -> None:
        endpoint = self.model.endpoint
        longest = min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** min(self.failures - 1, 10))
        seconds = self.model._jitter() * longest
        if problem.after_s is not None:
            asked = min(problem.after_s, endpoint.retry_after_s)
            self.model._limits.pause(asked)
            seconds += asked
        elif problem.cause == "disconnected" and self.failures == 1:
            # Most likely the server had closed an idle connection: try a new one at once.
            return
        if seconds >= self._left_s():
            self._give_up(problem)
        await asyncio.sleep(seconds)
        self.tally.seconds += seconds

    async def _request(self, asking: Capability) -> Completion | _Problem:
        """One HTTP request, counted and reported to the observer."""
        endpoint, limits = self.model.endpoint, self.model._limits
        await self._await_pause()
        body, prompt = request_body(
            endpoint, self.messages, self.form, asking, self.temperature, self.max_tokens
        )
        if self._left_s() <= 0:
            self._give_up(_Problem("timeout"))
        async with limits.slot(prompt + self.max_tokens) as slot:
            loop = asyncio.get_running_loop()
            started = loop.time()
            self.tally.calls += 1
            self.sent = parameters(body)
            outcome: Completion | _Problem = _Problem("cancelled")
            usage = Usage(prompt, 0, 0, known=False)
            status: int | None = None
            try:
                exchange = await self.model._wire.post(body, min(endpoint.timeout_s, self._left_s()))
                status = exchange.status
                outcome, usage = self._understand(exchange, prompt)
            finally:
                seconds = loop.time() - started
                slot.used = usage.prompt + usage.completion
                self.tally.seconds += seconds
                self.tally.add(usage)
                self._report(outcome, status, seconds, slot.waited_s, asking, usage)
        return outcome

    async def _await_pause(self) -> None:
        """Waits until the pause ends that the server asked for, in this call or another."""
        paused = self.model._limits.paused_s()
        if paused <= 0:
            return
        # Jitter, so that not all calls resume at once.
        paused += self.model._jitter() * BACKOFF_S
        if paused >= self._left_s():
            self._give_up(_Problem("rate_limited"))
        await asyncio.sleep(paused)
        self.tally.seconds += paused

    def _understand(self, exchange: HttpAnswer | Failed, prompt: int) -> tuple[Completion | _Problem, Usage]:
        """The meaning of an exchange, and its tokens: a request that the server turned down is free."""
        free = Usage(0, 0, 0, known=True)
        if isinstance(exchange, Failed):
            spent = Usage(prompt, 0, math.ceil(exchange.received / 4), known=False)
            turned_down = not exchange.sent or (exchange.status is not None and exchange.status >= 300)
            return _Problem(exchange.cause, exchange.status), free if turned_down else spent
        if exchange.status != 200:
            return self._turned_down(exchange, exchange.status, read_error_body(exchange)), free
        kind = exchange.headers.get("content-type", "")
        read = read_completion(exchange.body, kind, self.model.endpoint.model)
        if isinstance(read, Completion):
            return read, read.usage or Usage(prompt, 0, read.written, known=False)
        if read.cause == "error_body":
            if read.status is None:
                return _Problem("error_body", 200), read.usage or free
            return self._turned_down(exchange, read.status, read.error), read.usage or free
        spent = Usage(prompt, 0, math.ceil(len(exchange.body) / 4), known=False)
        return _Problem(read.cause, 200), read.usage or spent

    def _turned_down(self, answer: HttpAnswer, status: int, body: Any) -> _Problem:
        """The meaning of an answer with an error status."""
        why = read_refusal(body, answer.body[:2000].decode("utf-8", "replace"))
        problem = _Problem(f"status_{status}", status)
        # The text of a 400, 422 or 5xx may quote the prompt: only its names are shown.
        if status in (401, 402, 403, 404, 429):
            problem.message = why.text
        problem.message = _short(self.model.endpoint.hidden(problem.message or _identifiers(why.names)))
        if status in (400, 402, 403, 429) and _NO_MONEY.search(f"{why.names} {why.text}"):
            problem.cause, problem.final = "quota", True
        elif status in (400, 413, 422) and _TOO_LONG.search(why.text):
            problem.cause, problem.final = "context_length", True
        elif status in (400, 403) and "content_filter" in why.names:
            problem.cause, problem.final = "content_filter", True
        elif status in (400, 422):
            problem.refusal = why
        elif status == 429:
            problem.cause = "rate_limited"
            problem.after_s = retry_after(answer.headers)
        elif status >= 500 or status in (408, 409, 425):
            problem.after_s = retry_after(answer.headers)
        else:
            problem.final = True
        return problem

    def _kept(self, completion: Completion) -> bool | None:
        """Whether the answer roughly has the form asked for; None where the server need not obey it."""
        if completion.finish in _ENDED_BY_SERVER:
            return None
        value = read_json(completion.text)
        return isinstance(value, dict) and required_keys(self.form.schema) <= value.keys()

    def _reply(self, completion: Completion) -> Reply:
        refused = completion.finish == "refusal"
        required = required_keys(self.form.schema)
        return Reply(
            text=completion.text,
            value=None if refused else find_value(completion.text, required),
            usage=self.tally.usage,
            cost=self.model.endpoint.prices.cost(self.tally.usage),
            latency_s=self.tally.seconds,
            model=completion.model,
            finish=completion.finish,
            calls=self.tally.calls,
            sent=self.sent,
        )

    def _left_s(self) -> float:
        return self.model.endpoint.total_s - self.tally.seconds

    def _report(
        self,
        outcome: Completion | _Problem,
        status: int | None,
        seconds: float,
        waited_s: float,
        asked: Capability,
        usage: Usage,
    ) -> None:
        observer, endpoint = self.model._observer, self.model.endpoint
        if observer is not None:
            word = outcome.cause if isinstance(outcome, _Problem) else "ok"
            cost = endpoint.prices.cost(usage)
            observer(Attempt(endpoint.name, word, status, seconds, waited_s, asked.format, usage, cost))

    def _give_up(self, problem: _Problem) -> NoReturn:
        tally, endpoint = self.tally, self.model.endpoint
        cost = endpoint.prices.cost(tally.usage)
        spent = Spent(tally.usage, cost, tally.seconds, tally.calls, self.sent)
        message = f": {problem.message}" if problem.message else ""
        raise ModelUnavailable(
            f"no usable answer to {self.form.name} from {endpoint.name} (requests: {tally.calls}, "
            f"{tally.seconds:.1f} s): {problem.cause}{message}",
            problem.cause,
            spent,
            _kind(problem),
            problem.after_s,
        ) from None


_OF_THE_QUESTION: Final = frozenset(
    {
        *("context_length", "content_filter", "too_large"),
        *("not_json", "malformed_json", "no_choices", "no_message"),
    }
)
"""Causes that lie in the question, or in what this model makes of it."""

_OF_THE_ACCOUNT: Final = frozenset({401, 402, 403, 404})


def _kind(problem: _Problem) -> Unavailability:
    if problem.refusal is not None or problem.cause in _OF_THE_QUESTION:
        return "question"
    if problem.cause == "quota" or problem.status in _OF_THE_ACCOUNT:
        return "account"
    return "question" if problem.final else "outage"


_IDENTIFIER: Final = re.compile(r"[\w.\[\]-]{1,64}\Z")


def _identifiers(names: str) -> str:
    return " ".join(name for name in names.split() if _IDENTIFIER.match(name))


def _short(message: str) -> str:
    return clean(" ".join(message.split()))[:200]
