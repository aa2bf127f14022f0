"""Where seats ask their models: a stored answer is used again, a new one is stored before it is used."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol

import structlog

from agents.llm.session import Answering, CallKey, ModelSession
from agents.model.model import Form, Message, ModelUnavailable, Reply
from app.models import metrics
from app.models.account import Account
from app.models.endpoints import Source
from app.models.recording import another_question
from app.store.call import Call, StoredQuestion, answered, failed, hash_of
from engine.errors import AvalonError
from engine.terms import Kind, Seat

__all__ = ["LONGEST_PAUSE_S", "Answers", "Flights", "GameSessions", "Pause"]

log = structlog.get_logger()

Pause = Callable[[float], Awaitable[None]]
"""Lets so many seconds pass."""

LONGEST_PAUSE_S: Final = 30.0
"""What took longer was no common answer."""

_ORDER: Final = (
    Kind.PROPOSE_TEAM, Kind.SPEAK, Kind.RECONSIDER, Kind.VOTE, Kind.CARD, Kind.ASSASSINATE, Kind.SUMMARISE
)  # fmt: skip
"""Of what a seat is asked in an attempt; where all speak first, its speech still comes before its vote."""


def _when(call: Call) -> tuple[int, int, int]:
    """Where in its game a seat was asked this: stored calls are in no order."""
    round_, attempt, kind, _ = call.key.request_id.split(".")
    return int(round_), int(attempt), _ORDER.index(Kind(kind))


def _asked(call: Call) -> tuple[str, float, int, str]:
    """Of whom, for what, and which question."""
    return call.endpoint, call.asked_temperature, call.asked_max_tokens, call.messages_sha256


class Answers(Protocol):
    """Where answers are stored."""

    async def of_game(self, game: str) -> Mapping[CallKey, Call]:
        """What is stored of a game."""
        ...

    async def keep(self, game: str, call: Call) -> Call:
        """Stores a call durably and returns the one that is stored: another's, where that came first."""
        ...


class _Flight:
    """A call that somebody waits for."""

    __slots__ = ("begun", "task", "waiters")

    def __init__(self) -> None:
        self.task: asyncio.Task[Call] | None = None
        self.waiters = 0
        self.begun = False
        """It may cost something from here on, so that nobody breaks it off."""


class Flights:
    """The calls of one process that are under way.

    A call that has been sent is let finish and stored although its game was cancelled or the service
    stops: it is paid for. One that still waits for our own limits ends with the last who waits for it.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, CallKey], _Flight] = {}

    async def join(self, session: "_GameSession", question: StoredQuestion) -> Call:
        """What comes of the call; of the one under way, where the same is asked for already."""
        place = (session.game, question.key)
        flight = self._under_way.get(place)
        if flight is None:
            flight = self._under_way[place] = _Flight()
            flight.task = asyncio.create_task(session.pay(flight, question), name="model call")
            flight.task.add_done_callback(lambda task: self._landed(place, flight, task))
        assert flight.task is not None
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.begun and not flight.task.done():
                flight.task.cancel()
                self._forget(place, flight)

    def _landed(self, place: tuple[str, CallKey], flight: _Flight, task: "asyncio.Task[Call]") -> None:
        self._forget(place, flight)
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not isinstance(fault, AvalonError):
            # Perhaps nobody waits for it any more. The fault's own words may quote what was asked.
            log.error("a call to a model broke", fault=type(fault).__name__)

    def _forget(self, place: tuple[str, CallKey], flight: _Flight) -> None:
        if self._under_way.get(place) is flight:
            del self._under_way[place]

    async def land(self, within_s: float) -> None:
        """Lets what has been sent come back and be stored, for so long; breaks off the rest."""
        flights = [flight for flight in self._under_way.values() if flight.task is not None]
        tasks = [flight.task for flight in flights if flight.task is not None]
        begun = [flight.task for flight in flights if flight.task is not None and flight.begun]
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
        lent: Mapping[CallKey, Call] | None = None,
        pause: Pause | None = None,
    ) -> None:
        """``lent``: answers of the game that this one repeats from some point on; each is used where the
        very same question is asked, and is not paid again. ``strict``: a stored answer must be one to
        the very question that is asked. Not for games of a database, which go on with what they have
        paid although the templates were changed. ``pause``: how a seat lets time pass, so that nobody sees
        by it that it was not asked; None: nobody times this game.
        """
        self._game, self._seed = game, seed
        self._strict = strict
        self._stored = dict(stored)
        self._lent = lent or {}
        self._answers, self._account, self._flights = answers, account, flights
        self._keep_messages = keep_messages
        self._pause = pause
        account.open_game(game, self._stored)

    def session(self, source: Source) -> ModelSession:
        """Where one seat asks the model of this endpoint."""
        return _GameSession(
            self._game,
            source,
            source.session(self._seed),
            self._stored,
            self._answers,
            self._account,
            self._flights,
            keep_messages=self._keep_messages,
            strict=self._strict,
            lent=self._lent,
            pause=self._pause,
        )


class _GameSession:
    """One game's session at one endpoint."""

    def __init__(
        self,
        game: str,
        source: Source,
        behind: Answering,
        stored: dict[CallKey, Call],
        answers: Answers,
        account: Account,
        flights: Flights,
        *,
        keep_messages: bool,
        strict: bool,
        lent: Mapping[CallKey, Call],
        pause: Pause | None,
    ) -> None:
        self.game = game
        self._lent = lent
        self._pause = pause
        self._strict = strict
        self._source = source
        self._behind = behind
        self._stored = stored
        self._answers = answers
        self._account = account
        self._flights = flights
        self._keep_messages = keep_messages

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """The stored answer, or the model's when it has been stored.

        Raises ModelUnavailable where that was stored, BudgetSpent when nothing more may be paid, and
        MissingAnswer where a recording has none.
        """
        call = self._stored.get(key)
        question = StoredQuestion(key, messages, form, temperature, max_tokens)
        if call is None and (lent := self._lent.get(key)) is not None and self._same(lent, question):
            metrics.calls_reused.labels(self._source.name).inc()
            return lent.answer()
        if call is None:
            call = await self._flights.join(self, question)
            self._stored[key] = call
        else:
            if self._strict and call.messages_sha256 != hash_of(messages):
                raise another_question(self.game, key)
            metrics.calls_reused.labels(self._source.name).inc()
        return call.answer()

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        """The stored answer, this game's own or a lent one, where it is one to this very question."""
        call = self._stored.get(key) or self._lent.get(key)
        asked = (self._source.name, temperature, max_tokens, hash_of(messages))
        return None if call is None or asked != _asked(call) else call.answer()

    async def linger(self, seat: Seat) -> None:
        """As long as the seat's latest answer took, within bounds."""
        mine = [call for call in self._stored.values() if call.seat == seat]
        if self._pause is not None and mine:
            await self._pause(min(max(mine, key=_when).latency_s, LONGEST_PAUSE_S))

    def _same(self, lent: Call, question: StoredQuestion) -> bool:
        """Whether the answer was given to this very question, by this very endpoint."""
        asked = (self._source.name, question.temperature, question.max_tokens, hash_of(question.messages))
        return asked == _asked(lent)

    async def pay(self, flight: _Flight, question: StoredQuestion) -> Call:
        """Asks, stores, counts. Returns the call that is stored: another writer's, where that was first."""
        name = self._source.name
        async with AsyncExitStack() as stack:
            with metrics.calls_waiting.labels(name).track_inprogress():
                await self._account.enter(stack)
                await stack.enter_async_context(self._source.slots)
            self._account.check(self.game)
            flight.begun = True
            stack.enter_context(metrics.calls_in_flight.labels(name).track_inprogress())
            call = await self._asked(question)
            stored = await self._answers.keep(self.game, call)
            # What was paid counts, whether it was stored or another's was.
            self._account.add(self.game, call)
            metrics.observe_call(call)
        return stored

    async def _asked(self, question: StoredQuestion) -> Call:
        try:
            reply = await self._behind.ask(
                question.key,
                question.messages,
                question.form,
                temperature=question.temperature,
                max_tokens=question.max_tokens,
            )
        except ModelUnavailable as fault:
            source = self._source
            return failed(question, source.name, source.model_name, fault, whole=self._keep_messages)
        return answered(question, self._source.name, reply, whole=self._keep_messages)
