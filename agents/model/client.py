"""A Model over any server that speaks the OpenAI protocol, however loosely: with retries, waits and costs."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, Protocol

from agents.model.answer import (
    AROUND,
    Failed,
    HttpAnswer,
    find_value,
    read_error_body,
    read_json,
    thoughts_and_rest,
)
from agents.model.capability import PROBES, Capability, Format, Ladder, lower
from agents.model.completion import CUT, RUNAWAY, Completion, CompletionReader, is_cut
from agents.model.limits import AdaptiveLimit, Parallel, RateLimits
from agents.model.model import (
    PLAIN_SAMPLING,
    Endpoint,
    Form,
    Message,
    ModelUnavailable,
    Reply,
    Sampling,
    Spent,
    Usage,
    before_request,
)
from agents.model.overhearing import listening
from agents.model.problem import CallProblem, of_body, of_status, of_transfer, without_prompt
from agents.model.request import MORE, fitting, parameters, request_body, required_keys, sent_room, stated

__all__ = ["Attempt", "Observer", "OpenAIModel"]

log = logging.getLogger(__name__)

BACKOFF_S: Final = 0.5
"""The first bound of a pause, in seconds. The pause is drawn from 0 to the bound (full jitter), and the bound
doubles with each failure.
"""
LONGEST_BACKOFF_S: Final = 20.0

_ENDED_BY_SERVER: Final = CUT | {RUNAWAY, "content_filter", "refusal", "safety", "prohibited_content"}
"""Finish reasons after which the answer need not be JSON."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP request, for metrics. It holds no text of the prompt or the answer."""

    endpoint: str
    outcome: str
    """``ok``, or a short word: status_429, timeout, not_json, …"""
    status: int | None
    """The status of the response; None if no response began."""
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
        parallel: AdaptiveLimit | None = None,
    ) -> None:
        """``parallel``: shared with who hands calls in, so that no more of them begin than can be sent."""
        # Imported here, since it takes half a second, which only games with models need to spend.
        from agents.model.wire import Wire

        self.endpoint = endpoint
        self._observer = observer
        self._jitter = jitter
        self._ladder = Ladder(
            endpoint.capability, common=replace(endpoint.traits.begin, stream=endpoint.stream)
        )
        limit = parallel or AdaptiveLimit(Parallel.read(endpoint.parallel))
        self._limits = RateLimits(limit, endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._wire = Wire(endpoint)
        self._ceiling: int | None = None
        """The most tokens that the model can write, according to the server; None: not known."""
        self._rooms: dict[str, int] = {}
        """For each form whose answers were cut off, the room in tokens that its later answers got."""

    def __repr__(self) -> str:
        return f"OpenAIModel({self.endpoint!r})"

    def capability(self, form: str) -> Capability:
        """The most that the server may be asked for with this form, as far as we know."""
        return self._ladder.now(form)

    async def complete(
        self,
        messages: Sequence[Message],
        form: Form,
        *,
        temperature: float,
        max_tokens: int,
        sampling: Sampling = PLAIN_SAMPLING,
        cache_key: str = "",
    ) -> Reply:
        """One reply, within the endpoint's attempts and time.

        At most ``endpoint.attempts`` requests may fail, and at most ``PROBES`` further requests find out what
        the server can do. A reply without a usable value is still a reply: its ``value`` is None. Raises
        ModelUnavailable, which holds the cost of the call. If it is cancelled after a request has been sent,
        the CancelledError has the ``Spent`` so far as its argument.
        """
        call = _Call(self, messages, form, temperature, max_tokens, sampling, cache_key)
        try:
            return await call.run()
        except asyncio.CancelledError:
            if not call.tally.calls:
                raise
            raise asyncio.CancelledError(call.spent) from None

    def _most_room(self) -> int:
        most = self.endpoint.max_output_tokens
        return most if self._ceiling is None else min(most, self._ceiling)

    def _room(self, form: str, asked: int) -> int:
        """The room in tokens for the first request of a call: ``asked``, or more if earlier answers of this
        form were cut off, but never more than the server allows.
        """
        room = max(asked, min(self._rooms.get(form, 0), self.endpoint.max_output_tokens))
        return room if self._ceiling is None else min(room, self._ceiling)

    async def aclose(self) -> None:
        """Closes the connections. No call may follow."""
        await self._wire.aclose()


@dataclass(slots=True)
class _Tally:
    """What one call has cost so far."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    known: bool = True
    reasoning: int | None = None
    cost: float | None = None
    calls: int = 0
    seconds: float = 0.0

    def add(self, usage: Usage) -> None:
        self.prompt += usage.prompt
        self.cached += usage.cached
        self.completion += usage.completion
        self.known = self.known and usage.known
        if usage.reasoning is not None:
            self.reasoning = (self.reasoning or 0) + usage.reasoning
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt, self.cached, self.completion, self.known, self.reasoning, self.cost)


@dataclass(slots=True)
class _Call:
    """One call of ``complete``: sends requests until one is answered, or until it gives up."""

    model: OpenAIModel
    messages: Sequence[Message]
    form: Form
    temperature: float
    max_tokens: int
    sampling: Sampling
    cache_key: str
    tally: _Tally = field(default_factory=_Tally)
    failures: int = 0
    probes: int = 0
    room: int = 0
    """Tokens that the next answer may have."""
    sent: dict[str, Any] | None = None
    """The parameters of the last request."""
    first_s: float | None = None
    """Of the last answer, as in ``Reply``."""

    async def run(self) -> Reply:
        ladder = self.model._ladder
        asking = ladder.now(self.form.name)
        self.room = self.model._room(self.form.name, self.max_tokens)
        while True:
            outcome = await self._request(asking)
            if isinstance(outcome, Completion) and self._needs_room(outcome):
                if self._grow():
                    continue
                if not outcome.text.strip():
                    self._give_up(_nothing_left(self.room))
            if isinstance(outcome, Completion):
                again = ladder.answered(asking, self.form.name, kept=self._kept(outcome))
                if again is None or self.probes >= PROBES or self._left_s() <= 0:
                    return self._reply(outcome)
                self.probes += 1
                asking = again
            else:
                asking = await self._after(outcome, asking)
            # Other calls may have learnt more about the server meanwhile.
            asking = lower(asking, ladder.now(self.form.name))

    def _needs_room(self, completion: Completion) -> bool:
        if not is_cut(completion, sent_room(self.sent or {})):
            return False
        return find_value(completion.text, required_keys(self.form.schema)) is None

    def _grow(self) -> bool:
        """Gives the next answer more room than this one had. Returns False if that is not possible."""
        most = self.model._most_room()
        # There is nothing to raise if an operator set the limit, or if the server takes no limit.
        if self.room >= most or sent_room(self.sent or {}) != self.room or self._left_s() <= 0:
            return False
        self.room = min(most, self.room * MORE)
        self.model._rooms[self.form.name] = self.room
        return True

    def _shrink(self, problem: CallProblem) -> bool:
        """Gives the next answer as much room as the server says there is. Returns False if it does not tell
        or the room cannot be changed.
        """
        sent = sent_room(self.sent or {})
        if sent is None or sent != self.room or self.probes >= PROBES:
            return False
        if problem.cause == "context_length":
            room = fitting(problem.words, sent)
        elif problem.refusal is not None and (room := stated(problem.words, sent)) is not None:
            self.model._ceiling = room
        else:
            return False
        if room is None:
            return False
        self.room, self.probes = room, self.probes + 1
        return True

    async def _after(self, problem: CallProblem, asked: Capability) -> Capability:
        """Waits as long as needed, and returns the capability for the next request. Raises ModelUnavailable
        if the call has to give up.
        """
        ladder = self.model._ladder
        if self._shrink(problem) or (problem.cause == "reasoning_only" and self._grow()):
            return asked
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

    async def _pause(self, problem: CallProblem) -> None:
        endpoint = self.model.endpoint
        longest = min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** min(self.failures - 1, 10))
        seconds = self.model._jitter() * longest
        if problem.after_s is not None:
            asked = min(problem.after_s, endpoint.retry_after_s)
            self.model._limits.pause(asked)
            seconds += asked
        elif problem.cause == "disconnected" and self.failures == 1:
            # Most likely the server had closed an idle connection, so try a new one at once.
            return
        if seconds >= self._left_s():
            self._give_up(problem)
        await asyncio.sleep(seconds)
        self.tally.seconds += seconds

    async def _request(self, asking: Capability) -> Completion | CallProblem:
        """Sends one HTTP request, counts it, and reports it to the observer."""
        endpoint, limits = self.model.endpoint, self.model._limits
        await self._await_pause()
        body, prompt = request_body(
            endpoint,
            self.messages,
            self.form,
            asking,
            self.temperature,
            self.room,
            self.sampling,
            self.cache_key,
        )
        if self._left_s() <= 0:
            self._give_up(CallProblem("timeout"))
        async with limits.slot(prompt + self.room) as slot:
            if (may_send := before_request.get()) is not None:
                slot.used = 0
                await may_send()
            loop = asyncio.get_running_loop()
            started = loop.time()
            self.tally.calls += 1
            self.sent = parameters(body)
            outcome: Completion | CallProblem = CallProblem("cancelled")
            usage = Usage(prompt, 0, 0, known=False)
            status: int | None = None
            listener = listening.get()
            if listener is not None:
                listener.begin()
            reader = CompletionReader(
                endpoint.model,
                room=self.room,
                max_bytes=endpoint.max_bytes,
                on_text=None if listener is None else listener.hear,
            )
            silence_s = endpoint.timeout_s if body.get("stream") else self._left_s()
            try:
                exchange = await self.model._wire.post(
                    body, reader, silence_s, self._left_s(), self.cache_key
                )
                status = exchange.status
                self.first_s = exchange.first_s if isinstance(exchange, HttpAnswer) else None
                outcome, usage = self._understand(exchange, reader, prompt)
                if isinstance(outcome, Completion):
                    limits.parallel.answered()
                elif outcome.cause == "rate_limited":
                    limits.parallel.turned_away(started)
            except asyncio.CancelledError:
                usage = self._partial(reader, prompt)
                raise
            except Exception:
                if status is None and not reader.begin:
                    raise  # there is no answer yet
                # The fault is ours, but a provider must not be able to end games with it.
                log.exception("an answer of %s could not be read", endpoint.name)
                outcome = CallProblem("unreadable", status, "answer", words="unreadable answer")
                usage = self._partial(reader, prompt)
            finally:
                seconds = loop.time() - started
                if reader.charge is not None:
                    usage = replace(usage, cost=reader.charge)
                slot.used = usage.prompt + usage.completion
                self.tally.seconds += seconds
                self.tally.add(usage)
                self._report(outcome, status, seconds, slot.waited_s, asking, usage)
        return outcome

    async def _await_pause(self) -> None:
        """Waits for the end of any pause that the server asked for, in this call or in another one."""
        paused = self.model._limits.paused_s()
        if paused <= 0:
            return
        # Jitter, so that not all calls resume at once.
        paused += self.model._jitter() * BACKOFF_S
        if paused >= self._left_s():
            self._give_up(CallProblem("rate_limited"))
        await asyncio.sleep(paused)
        self.tally.seconds += paused

    def _understand(
        self, exchange: HttpAnswer | Failed, reader: CompletionReader, prompt: int
    ) -> tuple[Completion | CallProblem, Usage]:
        """The meaning of an exchange, and its tokens. A request that the server turned down is free."""
        free = Usage(0, 0, 0, known=True)
        if isinstance(exchange, Failed):
            turned_down = not exchange.sent or (exchange.status is not None and exchange.status >= 300)
            return of_transfer(exchange), free if turned_down else self._partial(reader, prompt)
        if not 200 <= exchange.status < 300:
            error = read_error_body(exchange)
            return of_status(exchange.status, exchange.headers, error, exchange.body), free
        read = reader.end()
        if isinstance(read, Completion):
            read = self._in_reasoning(read)
            return read, read.usage or Usage(prompt, 0, read.written, known=False)
        if read.cause == "error_body":
            problem = of_status(read.status, exchange.headers, read.error, reader.begin)
            written = self._partial(reader, prompt) if reader.written() or reader.charge else free
            return problem, read.usage or written
        problem = of_body(read, reader.begin)
        if problem.cause == "html_page":
            return problem, free
        counted = None if read.cause == "truncated" else read.usage
        return problem, counted or self._partial(reader, prompt)

    def _partial(self, reader: CompletionReader, prompt: int) -> Usage:
        """The tokens of an answer that was not received whole."""
        written = reader.written()
        if reader.usage is None:
            return Usage(prompt, 0, written, known=False)
        return replace(reader.usage, completion=max(reader.usage.completion, written), known=False)

    def _in_reasoning(self, completion: Completion) -> Completion:
        """The completion; if the model wrote its answer only in its reasoning, with the reasoning as text."""
        if completion.text.strip() or completion.reasoning is None or completion.finish.lower() in CUT:
            return completion
        required = required_keys(self.form.schema)
        value = find_value(completion.reasoning, required)
        if not isinstance(value, dict) or not required <= value.keys():
            return completion
        return replace(completion, text=completion.reasoning)

    def _kept(self, completion: Completion) -> bool | None:
        """Whether the answer roughly has the requested form; None if it need not, because of its finish
        reason.
        """
        if completion.finish.lower().partition(":")[0] in _ENDED_BY_SERVER:
            return None
        value = read_json(thoughts_and_rest(completion.text)[1].strip(AROUND))
        return isinstance(value, dict) and required_keys(self.form.schema) <= value.keys()

    def _reply(self, completion: Completion) -> Reply:
        refused = completion.finish == "refusal"
        required = required_keys(self.form.schema)
        return Reply(
            text=completion.text,
            value=None if refused else find_value(completion.text, required),
            usage=self.tally.usage,
            cost=self.model.endpoint.cost(self.tally.usage),
            latency_s=self.tally.seconds,
            model=completion.model,
            finish=completion.finish,
            calls=self.tally.calls,
            sent=self.sent,
            reasoning=completion.reasoning or thoughts_and_rest(completion.text)[0] or None,
            provider=completion.provider,
            fingerprint=completion.fingerprint,
            first_s=self.first_s,
        )

    def _left_s(self) -> float:
        return self.model.endpoint.total_s - self.tally.seconds

    def _report(
        self,
        outcome: Completion | CallProblem,
        status: int | None,
        seconds: float,
        waited_s: float,
        asked: Capability,
        usage: Usage,
    ) -> None:
        observer, endpoint = self.model._observer, self.model.endpoint
        if observer is not None:
            word = outcome.cause if isinstance(outcome, CallProblem) else "ok"
            cost = endpoint.cost(usage)
            observer(Attempt(endpoint.name, word, status, seconds, waited_s, asked.format, usage, cost))

    @property
    def spent(self) -> Spent:
        tally = self.tally
        return Spent(
            tally.usage, self.model.endpoint.cost(tally.usage), tally.seconds, tally.calls, self.sent
        )

    def _give_up(self, problem: CallProblem) -> NoReturn:
        tally, endpoint = self.tally, self.model.endpoint
        words = without_prompt(endpoint.hidden(problem.words), self.messages)
        reason = f": {words}" if words else ""
        raise ModelUnavailable(
            f"no usable answer to {self.form.name} from {endpoint.name} (requests: {tally.calls}, "
            f"{tally.seconds:.1f} s): {problem.cause}{reason}",
            problem.cause,
            self.spent,
            problem.kind,
            problem.after_s,
            words,
        ) from None


def _nothing_left(room: int) -> CallProblem:
    words = f"the answer is empty: the model's reasoning took all of its {room} tokens"
    return CallProblem("reasoning_only", 200, "answer", final=True, words=words)
