"""Sessions through which seats ask models. A stored answer is used again; a new one is stored before use."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

import structlog

from agents.llm.session import Answering, CallKey, ModelSession
from agents.model.model import (
    PLAIN_SAMPLING,
    Form,
    Message,
    ModelUnavailable,
    Reply,
    Sampling,
    Spent,
    before_request,
)
from agents.model.overhearing import SpokenText, listening, spoken_path
from app.base.clock import now_ms
from app.base.errors import BudgetSpent
from app.base.schemas import OnUnusable
from app.models import metrics
from app.models.account import Account
from app.models.endpoints import Source
from app.models.health import EndpointHealth, Withdrawn
from app.models.recording import another_question
from app.models.stops import QUOTA, UNUSABLE, BatchStops, GameFails, GameParks, GameStops, Stop
from app.store.call import Call, StoredQuestion, answered, besides_of, failed, hash_of
from app.store.db import PASSING, Conflict, is_ours, passes
from engine.errors import AvalonError
from engine.terms import Kind, Seat

__all__ = ["LONGEST_PAUSE_S", "Answers", "Flights", "GameSessions", "Onlookers", "OverQuota", "Pause"]

log = structlog.get_logger()

Pause = Callable[[float], Awaitable[None]]
"""Sleeps for this many seconds."""

OverQuota = Callable[[str], Awaitable[str | None]]
"""Says which quota an owner has used up, or None while it may spend more on models."""

LONGEST_PAUSE_S: Final = 30.0
"""The longest pause in place of an answer; an answer that took longer was unusual."""

MOST_TRIES: Final = 8
"""A game stops after this many calls for one question without an answer, if the endpoint answers others."""

PATIENCE_S: Final = 30 * 60.0
"""The game does not stop before its tries have lasted this many seconds."""

STORE_FIRST_S: Final = 0.5
"""Seconds until an answer is stored again after the database did not take it; they double each time."""

STORE_LAST_S: Final = 10.0
"""The most of these seconds."""

T = TypeVar("T")

_ORDER: Final = (
    Kind.PROPOSE_TEAM, Kind.SPEAK, Kind.RECONSIDER, Kind.VOTE, Kind.CARD, Kind.ASSASSINATE, Kind.SUMMARISE
)  # fmt: skip
"""The order of a seat's requests in an attempt; its speech comes before its vote in every profile."""


def _position(call: Call) -> tuple[int, int, int]:
    """A sort key for the calls of one seat, since stored calls have no order: round, attempt and request."""
    round_, attempt, kind, _ = call.key.request_id.split(".")
    return int(round_), int(attempt), _ORDER.index(Kind(kind))


class Answers(Protocol):
    """A store of answers."""

    async def of_game(self, game: str) -> Mapping[CallKey, Call]:
        """The stored calls of a game, tries and answers that were put aside included."""
        ...

    async def keep(self, game: str, call: Call, owner: str = "") -> Call:
        """Stores a call durably. Returns the stored call, which is another writer's if that came first.
        ``owner``: who pays; empty: nobody counts it.
        """
        ...

    async def key_of_try(self, game: str, key: CallKey, job: int | None = None) -> CallKey | None:
        """The key to keep a try at this question under, a call that has cost something, was not answered and
        will be made again: its attempt is the game's next unused negative number. ``job``: None is returned
        unless this job drives the game.
        """
        ...

    async def put_aside(self, game: str, keys: Sequence[CallKey], job: int | None = None) -> None:
        """Makes room for new answers to these questions. The old answers stay stored, with negative attempts
        as in ``key_of_try``, and still count as paid. ``job``: only while this job drives the game.
        """
        ...


class Onlookers(Protocol):
    """Those who watch what seats' models say while they say it."""

    def has_listeners(self, game_id: str) -> bool:
        """Whether anybody listens to this game."""
        ...

    def asking(self, game_id: str, request_id: str, step: str) -> AbstractContextManager[None]:
        """While the block lasts, onlookers know that a seat's model is being asked."""
        ...

    def spoke(self, game_id: str, request_id: str, text: str) -> None:
        """The model has said more of what it says aloud."""
        ...

    def withdraw(self, game_id: str, request_id: str) -> None:
        """What it has said so far does not count."""
        ...

    def settled(self, game_id: str, request_id: str) -> None:
        """An answer could be used."""
        ...


class _Overhearing:
    """Takes what is said aloud out of an answer that is still being written."""

    def __init__(self, onlookers: Onlookers, game: str, request_id: str, path: Sequence[str]) -> None:
        self._onlookers, self._game, self._request_id, self._path = onlookers, game, request_id, path
        self._spoken = SpokenText(path)

    def begin(self) -> None:
        self._onlookers.withdraw(self._game, self._request_id)
        self._spoken = SpokenText(self._path)

    def hear(self, piece: str) -> None:
        self._onlookers.spoke(self._game, self._request_id, self._spoken.feed(piece))


@dataclass(slots=True, eq=False)
class _Flight:
    """A call in flight, and the number of tasks that wait for it."""

    task: asyncio.Task[Call] | None = None
    waiters: int = 0
    begun: bool = False
    """Whether the call may have cost something, so that it must not be cancelled."""
    waits: bool = False
    """Whether it waits for its endpoint, which is away."""
    asks: bool = False
    """Whether the model is being asked, and nothing is being stored."""
    hung_up: bool = False
    """Whether its game is cancelled, so that nobody will ever want the answer."""
    given_up: bool = False
    """Whether it was not sent again because nobody waits for it any more."""


@dataclass(slots=True)
class _Tries:
    """The calls for one question that were not answered."""

    health: EndpointHealth
    answers: int
    """How many questions the endpoint had answered before the first of them."""
    began_ms: int
    calls: int = 0
    free: int = 0
    """The requests of those that cost nothing; the stored call counts them."""


class Flights:
    """The calls in flight of one process.

    A call that has been sent finishes and is stored even if its game is paused or the service stops: it is
    paid for, and its answer is used later. If its game is cancelled, it is broken off, and what it may have
    cost is stored. A call that still waits for our own limits, or to be made again, is cancelled when nobody
    waits for it any more.
    """

    def __init__(self) -> None:
        self._flights: dict[tuple[str, CallKey], _Flight] = {}
        self.parked: dict[tuple[str, CallKey], _Tries] = {}
        """What was tried for questions of games that are parked."""

    async def join(self, session: "_GameSession", question: StoredQuestion) -> Call:
        """The result of the call, or of a call in flight for the same game and key."""
        place = (session.game, question.key)
        flight = self._flights.get(place)
        if flight is None or flight.given_up:
            flight = self._flights[place] = _Flight()
            flight.task = asyncio.create_task(session.pay(flight, question), name="model call")
            flight.task.add_done_callback(lambda task: self._landed(place, flight, task))
        assert flight.task is not None
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            if flight.hung_up and flight.task.cancelled():
                raise Conflict("the game is cancelled") from None
            raise
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.begun and not flight.task.done():
                flight.task.cancel()
                self._forget(place, flight)

    def _landed(self, place: tuple[str, CallKey], flight: _Flight, task: "asyncio.Task[Call]") -> None:
        self._forget(place, flight)
        fault = None if task.cancelled() else task.exception()
        # A database that was away before the call cost nothing.
        if fault is not None and not passes(fault) and not isinstance(fault, AvalonError | Stop):
            # Perhaps nobody waits for the call any more, so log the fault, but not its message, which may
            # quote prompts.
            log.error("a call to a model broke", fault=type(fault).__name__)

    def _forget(self, place: tuple[str, CallKey], flight: _Flight) -> None:
        if self._flights.get(place) is flight:
            del self._flights[place]

    def hang_up(self, game: str) -> None:
        """Breaks off the game's calls: it is cancelled, so nobody will ever want their answers."""
        for (of, _), flight in self._flights.items():
            if of == game and flight.task is not None and not flight.hung_up:
                flight.hung_up = True
                if flight.asks or not flight.begun:
                    flight.task.cancel()

    def wait(self, game: str) -> list[bool]:
        """For each call of the game, whether it waits for an endpoint that is away."""
        return [flight.waits for (of, _), flight in self._flights.items() if of == game]

    async def land_game(self, game: str) -> None:
        """Waits, as long as they take, for the game's calls that have been sent."""
        tasks = [
            flight.task
            for (of, _), flight in self._flights.items()
            if of == game and flight.begun and flight.task is not None
        ]
        if tasks:
            await asyncio.wait(tasks)

    async def land(self, within_s: float) -> None:
        """Waits up to ``within_s`` seconds for the calls that have been sent; cancels all others."""
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        begun = [flight.task for flight in self._flights.values() if flight.task is not None and flight.begun]
        if begun and within_s > 0:
            await asyncio.wait(begun, timeout=within_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class GameSessions:
    """The sessions of one game's seats."""

    def __init__(
        self,
        game: str,
        seed: str,
        stored: Mapping[CallKey, Call],
        answers: Answers,
        account: Account,
        flights: Flights,
        *,
        keep_messages: bool,
        strict: bool = False,
        stops: bool = True,
        on_wait: Callable[[], None] | None = None,
        on_unusable: OnUnusable | None = None,
        lent: Mapping[CallKey, Call] | None = None,
        pause: Pause | None = None,
        onlookers: Onlookers | None = None,
        group: str = "",
        owner: str = "",
        over_quota: OverQuota | None = None,
        surely_ours: Callable[[], Awaitable[None]] | None = None,
        job: int | None = None,
    ) -> None:
        """``lent``: answers of the games that this one repeats up to some point. Each is used where exactly
        the same question is asked, and is not paid for again.

        ``strict``: a stored answer must belong to exactly the question that is asked. Games of a database
        leave this off: they keep their paid answers even if templates have changed.

        ``stops``: Stop is raised if a question is turned down or the account is refused. A judge turns this
        off, since its questions do not depend on each other: a question that is turned down goes without an
        answer, and a refused account is waited for.

        ``on_wait``: called before a call waits for an endpoint that is away; GameParks is raised if another
        game is waiting already. None: all calls wait.

        ``on_unusable``: what to do when no answer could be used for a decision. None: ``suspend`` if most of
        the endpoint's latest answers were unusable, else ``default``.

        ``pause``: sleeps as long as an answer would take, so that the timing does not show which seats were
        not asked. None: nobody can time this game.

        ``group``: the batch or judging that the game's calls belong to; ``owner``: whose it is. Owners take
        turns at an endpoint, and so do the groups of one owner. ``over_quota``: whether the owner may spend
        nothing more today; then BatchStops is raised, or for a judge BudgetSpent. None: there are no quotas.

        ``surely_ours``: awaited before each request to a model. It returns once this process has let go of
        games that others drive. None: no others do.

        ``job``: of the queue, which has to drive the game. None: there is no queue.
        """
        self.game, self.seed = game, seed
        self.strict = strict
        self.stored = dict(stored)
        self.lent = lent or {}
        self.answers, self.account, self.flights = answers, account, flights
        self.keep_messages = keep_messages
        self.stops = stops
        self.on_wait = on_wait
        self.on_unusable = on_unusable
        self.pause = pause
        self.onlookers = onlookers
        self.group, self.owner = group, owner
        self.over_quota = over_quota
        self.surely_ours = surely_ours
        self.job = job
        account.open_game(game, self.stored)

    def session(self, source: Source, sampling: Sampling = PLAIN_SAMPLING) -> ModelSession:
        """A seat's session with the model of this endpoint."""
        return _GameSession(self, source, sampling)


class _GameSession:
    """One game's session at one endpoint."""

    def __init__(self, sessions: GameSessions, source: Source, sampling: Sampling) -> None:
        self.game = sessions.game
        self._sampling = sampling
        self._sessions = sessions
        self._source = source
        self._model = source.session(sessions.seed, sessions.game, sampling)
        self._new: set[CallKey] = set()
        """Keys of new answers that have not been read yet."""
        self._unusable: dict[str, list[CallKey]] = {}
        """For each request, the keys of its answers that could not be used."""
        self._words: dict[CallKey, str] = {}
        """Of calls without a usable response, what was wrong; those of earlier processes are missing."""

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """The stored answer, or else a new answer of the model, stored before it is returned.

        Raises ModelUnavailable if it is stored that the model did not answer, BudgetSpent if the budget is
        spent, MissingAnswer if a recording has no answer, and Stop.
        """
        call = self._sessions.stored.get(key)
        if call is None:
            call = self._sessions.lent.get(key)
            if call is None or not self._answers(call, messages, temperature, max_tokens):
                question = StoredQuestion(key, messages, form, temperature, max_tokens, self._sampling)
                with self._asking(key):
                    call = await self._sessions.flights.join(self, question)
                self._sessions.stored[key] = call
                self._new.add(key)
                return self._reply(call)
        elif self._sessions.strict and not self._answers(call, messages, temperature, max_tokens):
            raise another_question(self.game, key)
        metrics.calls_reused.labels(self._source.name).inc()
        return self._reply(call)

    def _asking(self, key: CallKey) -> AbstractContextManager[None]:
        onlookers = self._sessions.onlookers
        return nullcontext() if onlookers is None else onlookers.asking(self.game, key.request_id, key.step)

    def _reply(self, call: Call) -> Reply:
        try:
            return call.answer()
        except ModelUnavailable:
            self.read(call.key, usable=False)
            raise

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        """The stored or lent answer if it belongs to exactly this question, else None."""
        call = self._sessions.stored.get(key) or self._sessions.lent.get(key)
        if call is None or not self._answers(call, messages, temperature, max_tokens):
            return None
        return call.answer()

    async def linger(self, seat: Seat) -> None:
        """Pauses for as long as the seat's latest answer took, at most LONGEST_PAUSE_S."""
        calls = [
            call for call in self._sessions.stored.values() if call.seat == seat and call.key.attempt > 0
        ]
        if self._sessions.pause is not None and calls:
            await self._sessions.pause(min(max(calls, key=_position).latency_s, LONGEST_PAUSE_S))

    def read(self, key: CallKey, *, usable: bool) -> None:
        """Records whether the answer under this key could be used."""
        if key in self._new:
            self._new.discard(key)
            self._source.health.read(usable=usable)
            if (onlookers := self._sessions.onlookers) is not None:
                (onlookers.settled if usable else onlookers.withdraw)(self.game, key.request_id)
        if not usable:
            self._unusable.setdefault(key.request_id, []).append(key)

    async def unanswered(self, request_id: str) -> None:
        """Raises BatchStops or GameFails unless the default may be played. Before it raises, it puts the
        unusable answers aside, so that the model is asked again when the game goes on.
        """
        unusable, answers = self._source.health.unusable
        act = self._sessions.on_unusable
        if act is None:
            act = "suspend" if unusable > answers / 2 else "default"
        if act == "default" or not self._sessions.stops:
            return
        stop = GameFails if act == "fail" else BatchStops
        words = f"{unusable} of its last {answers} answers could not be used, among them all to {request_id}"
        keys = self._unusable.pop(request_id, [])
        if keys:
            words += f"; the last one: {self._what(keys[-1])}"
        await self._sessions.answers.put_aside(self.game, keys, self._sessions.job)
        raise stop(self._source.name, UNUSABLE, words)

    def _what(self, key: CallKey) -> str:
        """What an answer that could not be used was like, without its text."""
        call = self._sessions.stored.get(key) or self._sessions.lent[key]
        if call.failure is not None:
            return self._words.get(key) or call.failure
        what = "not in the form asked for" if call.value is not None else "no JSON"
        return f"{what} ({call.finish})" if call.finish else what

    def _answers(self, call: Call, messages: Sequence[Message], temperature: float, max_tokens: int) -> bool:
        """Whether the call asked this endpoint exactly this question, with the same parameters."""
        asked = (
            call.endpoint,
            call.asked_temperature,
            call.asked_max_tokens,
            call.messages_sha256,
            call.asked,
        )
        besides = besides_of(self._sampling)
        return asked == (self._source.name, temperature, max_tokens, hash_of(messages), besides)

    async def pay(self, flight: _Flight, question: StoredQuestion) -> Call:
        """Asks until there is an answer, then stores and counts it. Returns the stored call, which is another
        writer's if that came first.

        While the endpoint does not answer, the call waits and is made again: an outage is no answer. What
        such a try has cost is stored and counted at once. Raises Stop, see ``GameSessions``.
        """
        parked, place = self._sessions.flights.parked, (self.game, question.key)
        tries = parked.pop(place, None)
        while True:
            health = self._present().health
            if tries is None or tries.health is not health:
                # Tries with other settings do not count.
                tries = _Tries(health, health.answers, now_ms(), free=0 if tries is None else tries.free)
            # If the endpoint has answered other questions meanwhile, the fault may lie in this one.
            last = (
                tries.calls + 1 >= MOST_TRIES
                and now_ms() - tries.began_ms >= PATIENCE_S * 1000
                and health.answers > tries.answers
            )
            try:
                call = await self._try(flight, question, tries, last=last)
            except GameParks:
                parked[place] = tries
                raise
            if call is not None:
                return call
            flight.begun = False
            if not flight.waiters:
                # Its game is driven elsewhere by now, paused or over: that it was sent before is no reason.
                raise asyncio.CancelledError
            if health.outage is not None and self._sessions.on_wait is not None:
                # The fault may lie in this question: the others are to try first.
                parked[place] = tries
                asker = self._asker(question)
                raise GameParks(self._source.name, health.outage.cause, "it does not answer", asker)
            if health.outage is None and not health.left:  # else the call waits for its turn instead
                with metrics.calls_parked.labels(self._source.name).track_inprogress():
                    await asyncio.sleep(health.pause_s(tries.calls))

    def _asker(self, question: StoredQuestion) -> tuple[str, ...]:
        sessions = self._sessions
        return sessions.owner, sessions.group, self.game, repr(question.key)

    def _present(self) -> Source:
        """The endpoint's source, whose settings may have been mended. Raises InvalidAgent if it has none."""
        source = self._source.present()
        if source is not self._source:
            self._model = source.session(self._sessions.seed, self.game, self._sampling)
            self._source = source
        return source

    async def _try(
        self, flight: _Flight, question: StoredQuestion, tries: _Tries, *, last: bool
    ) -> Call | None:
        """Makes one call. Returns the stored call, or None after a failure that may pass; the failed call has
        then been added to ``tries``, unless the endpoint went away before the call could be made. ``last``:
        such a failure now stops the game, and a judge goes without the answer. The stored call counts the
        requests of tries that cost nothing.
        """
        source, model, sessions = self._source, self._model, self._sessions
        whole, account = sessions.keep_messages, sessions.account
        try:
            async with AsyncExitStack() as stack:
                parks = self.game if sessions.on_wait is not None else None
                turn = source.health.turn(parks, self._asker(question))
                if source.health.outage is not None and sessions.on_wait is not None:
                    sessions.on_wait()
                flight.waits = source.health.outage is not None
                try:
                    with metrics.calls_parked.labels(source.name).track_inprogress():
                        check_turn = await stack.enter_async_context(turn)
                finally:
                    flight.waits = False
                with metrics.calls_waiting.labels(source.name).track_inprogress():
                    await self._enter(stack, source)
                # Many calls may have waited for a slot while the first of them found nobody there.
                check_turn()
                flight.begun = True
                stack.enter_context(metrics.calls_in_flight.labels(source.name).track_inprogress())
                try:
                    reply = await self._ask(flight, model, question)
                    call = answered(question, source.name, reply, whole=whole)
                except asyncio.CancelledError as cut:
                    if flight.hung_up or flight.given_up:
                        await self._keep_cut(flight, question, source, cut)
                    raise
                except ModelUnavailable as fault:
                    call = failed(question, source.name, source.model_name, fault, whole=whole)
                    if fault.kind != "answer" and (sessions.stops or not (fault.kind == "request" or last)):
                        tries.calls += 1
                        tries.free += 0 if call.is_paid else call.http_calls
                        if call.is_paid:
                            await self._keep_try(call, sessions.job)
                            account.add(self.game, call)
                            _observe(call)
                        if sessions.stops and fault.kind == "account" and not source.health.withdrawn:
                            raise BatchStops(source.name, fault.cause, fault.words or str(fault)) from None
                        raise
                    self._words[question.key] = ": ".join(filter(None, (fault.cause, fault.words)))
                call = replace(call, http_calls=call.http_calls + tries.free)
                stored = await self._stored(lambda: sessions.answers.keep(self.game, call, sessions.owner))
                # A paid call counts even if another writer's call was stored.
                account.add(self.game, call)
                _observe(call)
        except ModelUnavailable as fault:
            if sessions.stops and (fault.kind == "request" or last):
                stop = GameFails if fault.kind == "request" else GameStops
                raise stop(source.name, fault.cause, fault.words or str(fault)) from None
            return None
        except Withdrawn:
            return None
        return stored

    async def _keep_cut(
        self, flight: _Flight, question: StoredQuestion, source: Source, cut: asyncio.CancelledError
    ) -> None:
        """Stores and counts what a call that was broken off may have cost: the provider did not say."""
        spent = next((one for one in cut.args if isinstance(one, Spent)), None)
        fault = ModelUnavailable("nobody wants its answer any more", "cancelled", spent)
        whole = self._sessions.keep_messages
        call = failed(question, source.name, source.model_name, fault, whole=whole)
        if call.is_paid:
            # Nobody drives a cancelled game any more.
            await self._keep_try(call, job=None if flight.hung_up else self._sessions.job)
            self._sessions.account.add(self.game, call)
            _observe(call)

    async def _keep_try(self, call: Call, job: int | None) -> None:
        """Stores what a call without an answer has cost, once: its key is chosen before the first commit, of
        which the acknowledgement may be lost. Stores nothing if ``job`` no longer drives the game.
        """
        answers, owner, stored = self._sessions.answers, self._sessions.owner, None
        # Another process that still plays this game may have stored a try of its own under the key.
        while stored is None or stored.latency_s != call.latency_s:
            key = await self._stored(lambda: answers.key_of_try(self.game, call.key, job))
            if key is None:
                return
            tried = replace(call, key=key)
            stored = await self._stored(lambda tried=tried: answers.keep(self.game, tried, owner))  # type: ignore[misc]

    async def _stored(self, store: Callable[[], Awaitable[T]]) -> T:
        """Stores what was paid for. While the database is away it waits, and holds its slot: others are not
        to pay for answers that cannot be stored either.
        """
        delay_s = STORE_FIRST_S
        while True:
            try:
                return await store()
            except PASSING as fault:
                if is_ours(fault):
                    raise
                log.debug("an answer waits for the database", game=self.game, again_in_s=delay_s)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, STORE_LAST_S)

    async def _enter(self, call: AsyncExitStack, source: Source) -> None:
        """Waits until a call may be made: for a part of the batch's budget, then for a slot of the batch and
        one of the endpoint. Holds all of it until the stack is closed. Raises BudgetSpent.
        """
        account = self._sessions.account
        while True:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(account.caller(self.game))
                await account.enter(stack)
                await stack.enter_async_context(source.slots.turn(self._sessions.group, self._sessions.owner))
                account.check(self.game)
                await self._check_quota()
                # Meanwhile this process's part of the budget may have been spent. Who waits for more holds no
                # slot: those who spend what is left need one.
                if account.may_call:
                    await call.enter_async_context(stack.pop_all())
                    return

    async def _check_quota(self) -> None:
        sessions = self._sessions
        words = None if sessions.over_quota is None else await sessions.over_quota(sessions.owner)
        if words is None:
            return
        if sessions.stops:
            raise BatchStops(self._source.name, QUOTA, words)
        raise BudgetSpent(words)

    async def _ask(self, flight: _Flight, model: Answering, question: StoredQuestion) -> Reply:
        # What is set here counts in the task of this call alone.
        wanted = before_request.set(lambda: self._check_wanted(flight))
        onlookers, form = self._sessions.onlookers, question.form
        listens = onlookers is not None and form.aloud and onlookers.has_listeners(self.game)
        if onlookers is not None and listens and (path := spoken_path(form.schema)):
            listening.set(_Overhearing(onlookers, self.game, question.key.request_id, path))
        flight.asks = True
        try:
            return await model.ask(
                question.key,
                question.messages,
                question.form,
                temperature=question.temperature,
                max_tokens=question.max_tokens,
            )
        finally:
            flight.asks = False
            # Else the call's context and its task would keep each other in memory.
            before_request.reset(wanted)

    async def _check_wanted(self, flight: _Flight) -> None:
        """Raises CancelledError if nobody waits for the call any more: its game is paused, or another process
        took it over while this one stood still.
        """
        if self._sessions.surely_ours is not None:
            await self._sessions.surely_ours()
        if not flight.waiters:
            flight.given_up = True
            raise asyncio.CancelledError


def _observe(call: Call) -> None:
    """Counts one stored call in the metrics."""
    endpoint, step, usage = call.endpoint, call.key.step, call.usage
    outcome = call.failure or ("unparsed" if call.value is None else "answered")
    metrics.calls.labels(endpoint, step, outcome).inc()
    tokens = {
        "prompt": usage.prompt,
        "cached": usage.cached,
        "completion": usage.completion,
        "reasoning": usage.reasoning or 0,
    }
    for kind, count in tokens.items():
        metrics.call_tokens.labels(endpoint, step, kind).inc(count)
    metrics.call_cost.labels(endpoint, step).inc(call.cost)
    metrics.call_seconds.labels(endpoint, step).observe(call.latency_s)
