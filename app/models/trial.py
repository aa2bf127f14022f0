"""A trial of one endpoint: one call of each form that seats and judges ask for. Nothing of it is stored.

Each question is that of a seat at a fixed position of a seeded game, or of a judge about such a game, so its
size is real. An answer that
cannot be used, or does not come, is replaced by one that is made from the form, so that the next question is
asked all the same.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.replies import whole
from agents.llm.session import CallKey
from agents.model.completion import estimate
from agents.model.model import Endpoint, Form, Message, ModelUnavailable, Reply, Usage
from agents.scripted.agent import ScriptedAgent
from agents.table import play, settled
from app.base.errors import NotFound, TrialRunning
from app.models.endpoints import Endpoints, observe_attempt
from app.models.game_costs import PLAYERS, game_costs
from app.models.schemas import LearntView, TrialView, TriedForm
from engine.chance import secret
from engine.events import Event
from engine.profile import make_profile
from engine.rules import create, pending
from engine.state import fold
from engine.terms import Kind, Seat
from engine.view import Observation, observe
from evaluators.ground.items import items
from evaluators.ground.turns import read_game
from evaluators.judges.asking import Ask, JudgeMessage
from evaluators.judges.model import answer_schema, judge
from evaluators.judges.statements import STATEMENTS_SCHEMA, judge_speech
from evaluators.measures.hallucination import speeches

if TYPE_CHECKING:
    from agents.model.client import OpenAIModel

__all__ = ["MOST_TOKENS", "TrialPlan", "Trials", "plan_trial", "try_endpoint"]

MOST_TOKENS: Final = 400_000
"""After this many tokens a trial asks nothing more: several times what it takes usually."""

_SEED: Final = 1

_ROUND: Final = 2
"""The questions are those of this round; the shot's is that of the game's end."""

_TURNS: Final = (
    ("interintent", "paper", Kind.SPEAK),
    ("interintent", "two_pass", Kind.SPEAK),
    ("interintent", "one_pass", Kind.SPEAK),
    ("interintent", "direct", Kind.SPEAK),
    # This profile's opening team is part of a speech; there it is a question of its own.
    ("official", "direct", Kind.PROPOSE_TEAM),
    ("interintent", "direct", Kind.RECONSIDER),
    ("interintent", "direct", Kind.VOTE),
    ("interintent", "direct", Kind.CARD),
    ("interintent", "direct", Kind.SUMMARISE),
    ("interintent", "direct", Kind.ASSASSINATE),
)
"""The requests of a trial: profile, mechanism and kind."""

_JUDGED: Final[Sequence[Literal["selection", "following"]]] = ("selection", "following")
_JUDGE_TOKENS: Final = 2000
"""What a judge may write, unless its spec says more."""

_ASKED: Final = {"first_order": 2}
"""How often the questions of a step are asked; all others once. The second has the first one's prefix."""


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What a trial will send, before it does."""

    calls: int
    prompt_tokens: int
    """At four characters a token."""
    most_written: int
    """The most tokens of all answers, unless one is cut off and asked for again."""


@dataclass(slots=True)
class _TrialCall:
    """One question that is really asked, and what came of it."""

    key: CallKey
    again: bool
    sent: int
    """Tokens of the prompt, at four characters each."""
    room: int
    reply: Reply | None = None
    fault: ModelUnavailable | None = None
    usable: bool = False

    @property
    def usage(self) -> Usage:
        """Its tokens; none where nothing was asked or counted."""
        if self.reply is not None:
            return self.reply.usage
        spent = None if self.fault is None else self.fault.spent
        return Usage(0, 0, 0, known=True) if spent is None else spent.usage


class TrialRefused(Exception):
    """The endpoint answers nobody: no further question is asked. No agent handles it."""

    def __init__(self, fault: ModelUnavailable) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(slots=True)
class _TrialSession:
    """A session that asks the model once for each step; without a model it only notes the questions."""

    model: "OpenAIModel | None"
    most_tokens: int
    on_question: Callable[[int, str], None] = lambda asked, step: None
    calls: list[_TrialCall] = field(default_factory=list)
    unasked: int = 0
    _asked: Counter[str] = field(default_factory=Counter)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        # One after another: each call's time is to be its own.
        async with self._lock:
            if key.attempt > 1 or self._asked[key.step] >= _ASKED.get(key.step, 1):
                return _stand_in(form)
            self._asked[key.step] += 1
            sent = sum(estimate(message.content) for message in messages)
            call = _TrialCall(key, self._asked[key.step] > 1, sent, max_tokens)
            if self.model is None:
                self.calls.append(call)
                return _stand_in(form)
            spent = sum(one.usage.prompt + one.usage.completion for one in self.calls)
            if spent >= self.most_tokens:
                self.unasked += 1
                return _stand_in(form)
            self.on_question(len(self.calls), key.step)
            self.calls.append(call)
            try:
                call.reply = await self.model.complete(
                    messages, form, temperature=temperature, max_tokens=max_tokens, cache_key="trial"
                )
            except ModelUnavailable as fault:
                if fault.kind in ("account", "outage"):
                    raise TrialRefused(fault) from None
                call.fault = fault
                return replace(_stand_in(form), value=None)
            return call.reply

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return None

    async def linger(self, seat: Seat) -> None:
        """Returns at once."""

    def read(self, key: CallKey, *, usable: bool) -> None:
        for call in self.calls:
            if call.key == key and call.reply is not None:
                call.usable = usable

    async def unanswered(self, request_id: str) -> None:
        """Does nothing: the position is left anyway."""


async def plan_trial() -> TrialPlan:
    """What a trial sends, whichever the endpoint."""
    session = _TrialSession(None, MOST_TOKENS)
    await _ask_all(session)
    return TrialPlan(
        len(session.calls),
        sum(call.sent for call in session.calls),
        sum(call.room for call in session.calls),
    )


async def try_endpoint(
    endpoint: Endpoint,
    most_tokens: int = MOST_TOKENS,
    on_question: Callable[[int, str], None] = lambda asked, step: None,
) -> TrialView:
    """Tries the model of this endpoint. ``most_tokens``: no further call is made once these are used.
    ``on_question``: called before each question, with the number of those before it and its step.

    Raises ModelUnavailable where the endpoint cannot be reached, or refuses the account or the model's name.
    """
    # The import takes half a second.
    from agents.model.client import OpenAIModel

    model = OpenAIModel(endpoint, observe_attempt)
    session = _TrialSession(model, most_tokens, on_question)
    try:
        await _ask_all(session)
    except TrialRefused as refused:
        raise refused.fault from None
    finally:
        await model.aclose()
    return _view(endpoint, model, session)


class Trials:
    """The trials of one service: of each endpoint one at a time."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._running: set[str] = set()

    async def run(self, name: str, most_tokens: int = MOST_TOKENS) -> TrialView:
        """Tries the endpoint. Raises NotFound for an unknown one and for recorded answers, TrialRunning, and
        what ``try_endpoint`` raises.
        """
        known = name in self._endpoints.settings
        endpoint = self._endpoints.source(name).endpoint if known else None
        if endpoint is None:
            raise NotFound("no endpoint with a server is called so here")
        if name in self._running:
            raise TrialRunning(f"{name} is being tried already")
        self._running.add(name)
        try:
            return await try_endpoint(endpoint, most_tokens)
        finally:
            self._running.discard(name)


async def _ask_all(session: _TrialSession) -> None:
    games = {name: await _game(name) for name in sorted({name for name, _, _ in _TURNS})}
    for turn, (name, mechanism, kind) in enumerate(_TURNS):
        observation = _position(games[name], kind)
        options = {"mechanism": mechanism, "repairs": 1}
        setup = Setup(observation.request.seat, secret(str(_SEED), turn), options)
        await settled(LlmAgent(setup, session).act(observation))
    await _ask_judge(session, games["interintent"].log)


async def _ask_judge(session: _TrialSession, log: Sequence[Event]) -> None:
    """Asks one question of a judge in each dimension, about a turn of the trial's round."""
    game = read_game("trial", log)

    def asking(key: CallKey, schema: Mapping[str, Any]) -> Ask:
        async def ask(conversation: Sequence[JudgeMessage]) -> str:
            messages = [Message(message.role, message.content) for message in conversation]
            form = Form(key.step, schema)
            return (await session.ask(key, messages, form, temperature=0.0, max_tokens=_JUDGE_TOKENS)).text

        return ask

    for dimension in _JUDGED:
        item = next(one for one in items(game, dimension) if one.round == _ROUND)
        key = CallKey(item.request_id, f"judge_{dimension}", item.stage, 1)
        verdict = await judge(item, asking(key, answer_schema(item)), "trial", attempts=1)
        session.read(key, usable=bool(verdict.judgements))
    speech = next(one for one in speeches("trial", log) if one.key.request_id.startswith(f"{_ROUND}."))
    key = CallKey(speech.key.request_id, "judge_statements", "", 1)
    found = await judge_speech(speech, asking(key, STATEMENTS_SCHEMA), attempts=1)
    session.read(key, usable=found.statements is not None)


@dataclass(slots=True)
class _Played:
    """A whole game: its log, and where each step of it begins."""

    log: Sequence[Event]
    begins: Sequence[int]


class _StepEnds:
    """A journal that notes where each step ends."""

    def __init__(self, begin: int) -> None:
        self.ends = [begin]

    async def append(self, events: Sequence[Event]) -> None:
        self.ends.append(self.ends[-1] + len(events))


async def _game(profile: str) -> _Played:
    begin = create(make_profile(profile, PLAYERS), _SEED)
    seats = range(1, PLAYERS + 1)
    agents = {seat: ScriptedAgent(Setup(seat, secret(str(_SEED), seat), {})) for seat in seats}
    journal = _StepEnds(len(begin))
    state = await play(begin, agents, journal)
    return _Played(state.log, journal.ends[:-1])


def _position(game: _Played, kind: Kind) -> Observation:
    """What the seat sees that is asked for this last in the round; for the shot, at the game's end."""
    return list(_observations(game, kind))[-1]


def _observations(game: _Played, kind: Kind) -> Iterator[Observation]:
    for place in game.begins:
        state = fold(game.log[:place])
        request = next((one for one in pending(state) if one.kind is kind), None)
        if request is not None and (request.round == _ROUND or kind is Kind.ASSASSINATE):
            yield observe(state, request)


def _stand_in(form: Form) -> Reply:
    value = _filled(whole(form.schema), 0)
    return Reply("", value, Usage(0, 0, 0, known=True), 0.0, 0.0, "", "stop", 0)


def _filled(schema: Mapping[str, Any], place: int) -> Any:
    """A value of this form; ``place`` tells the entries of a list apart."""
    if "enum" in schema:
        return schema["enum"][place % len(schema["enum"])]
    match schema["type"]:
        case "object":
            return {name: _filled(part, place) for name, part in schema["properties"].items()}
        case "array":
            return [_filled(schema["items"], entry) for entry in range(schema.get("minItems", 0))]
        case "boolean":
            return False
        case _:
            return "Nothing to say yet."


def _view(endpoint: Endpoint, model: "OpenAIModel", session: _TrialSession) -> TrialView:
    tried = [_tried(endpoint, model, call) for call in session.calls]
    answered = [one for one in tried if one.finish is not None]
    replies = [call.reply for call in session.calls if call.reply is not None]
    written = sum(one.completion_tokens for one in answered)
    seconds = sum(one.seconds for one in answered)
    reasoned = [one for one in answered if one.reasoning_tokens is not None and one.completion_tokens]
    reasoning = sum(one.reasoning_tokens or 0 for one in reasoned)
    again = next((one for one in answered if one.again and one.tokens_known), None)
    cached = None if again is None else again.cached_tokens / max(1, again.prompt_tokens)
    counted = [call for call in session.calls if call.reply is not None and call.reply.calls == 1]
    ratio = sum(call.usage.prompt for call in counted) / max(1, sum(call.sent for call in counted))
    of_seats = [one for one in tried if not one.step.startswith("judge_")]
    now = model.capability("trial")
    first = [one.first_s for one in answered if one.first_s is not None]
    return TrialView(
        endpoint=endpoint.name,
        model=replies[0].model if replies else endpoint.model,
        forms=tried,
        usable=sum(one.usable for one in tried),
        unasked=session.unasked,
        first_s=median(first) if first else None,
        tokens_per_s=written / seconds if seconds else None,
        reasoning_share=reasoning / sum(one.completion_tokens for one in reasoned) if reasoned else None,
        cached_share=cached,
        tokens=sum(one.prompt_tokens + one.completion_tokens for one in tried),
        cost=sum(one.cost for one in tried),
        learnt=LearntView(
            format=now.format.name.lower(),
            limit=now.limit,
            temperature=now.temperature,
            system=now.system,
            stream=now.stream,
            counts=now.counts,
        ),
        games=game_costs(
            of_seats,
            endpoint.prices,
            token_ratio=ratio if counted else 1.0,
            cached_share=cached or 0.0,
        ),
    )


_BEGINNING: Final = 160
"""The characters of an unusable answer that are shown."""


def _fault(call: _TrialCall) -> str | None:
    if call.fault is not None:
        return call.fault.words or call.fault.cause
    if call.reply is None or call.usable:
        return None
    text = " ".join(call.reply.text.split())
    if not text:
        return "it answered nothing"
    return f"it answered {text[:_BEGINNING]}{'…' if len(text) > _BEGINNING else ''}"


def _tried(endpoint: Endpoint, model: "OpenAIModel", call: _TrialCall) -> TriedForm:
    reply, fault, usage = call.reply, call.fault, call.usage
    spent = None if fault is None else fault.spent
    return TriedForm(
        step=call.key.step,
        again=call.again,
        usable=call.usable,
        finish=None if reply is None else reply.finish,
        fault=_fault(call),
        seconds=reply.latency_s if reply is not None else 0.0 if spent is None else spent.latency_s,
        first_s=None if reply is None else reply.first_s,
        requests=reply.calls if reply is not None else 0 if spent is None else spent.calls,
        prompt_tokens=usage.prompt,
        cached_tokens=usage.cached,
        completion_tokens=usage.completion,
        reasoning_tokens=usage.reasoning,
        tokens_known=usage.known,
        cost=endpoint.cost(usage),
        format=model.capability(call.key.step).format.name.lower(),
    )
