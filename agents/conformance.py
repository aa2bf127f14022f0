"""A check of the requirements for agent kinds, for authors of agents.

    from agents.conformance import check_agent_kind
    check_agent_kind(MyAgent)        # None, or an AssertionError that says what is wrong and where

It plays games of every size under both profiles and their variations, with agents of one kind on every seat.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from agents.agent import Agent, MakeAgent, Setup
from agents.table import MemoryJournal, settled, step
from engine.actions import ACTION_OF, SeatAction
from engine.chance import secret
from engine.errors import IllegalAction
from engine.events import BeliefsFormed, Event, IntentionsSelected, payload, read_event, type_name
from engine.profile import Profile, make_profile
from engine.rules import Request, check, create, pending
from engine.state import State, fold
from engine.terms import Seat
from engine.view import observe

__all__ = ["ConformanceGame", "check_agent_kind", "games"]

_SEVEN_ODD_ROLES: Final = ("merlin", "percival", "servant", "servant", "assassin", "mordred", "oberon")

_VARIATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "no talk": {"discussion": "none"},
    "talk after the proposal": {"discussion": "after_proposal"},
    "reconsidered": {"reconsideration": True, "summaries": True},
    "half approves": {"approval": "at_least_half"},
    "last team goes without a vote": {"max_rejections": 3, "on_max_rejections": "forced_team"},
    "last team goes although rejected": {"max_rejections": 2, "on_max_rejections": "last_team_goes"},
    "rejections fail the quest": {"max_rejections": 2, "on_max_rejections": "quest_fails"},
    "two fails on every quest": {"fails_needed": (2, 2, 2, 2, 2)},
    "a shot after any quest": {"assassination": "after_any_quest", "missed_shot": "play_on"},
    "a shot after any quest, a miss ends it": {"assassination": "after_any_quest"},
    "no shot": {"assassination": "none"},
    "leadership goes left": {"leader_step": -1, "first_leader": 3},
}


class ConformanceGame(NamedTuple):
    """One game of the suite."""

    name: str
    profile: Profile
    seed: int


def games() -> Iterator[ConformanceGame]:
    """Both profiles at every size, and each variation of the rules at five and at seven seats."""
    for players in range(5, 11):
        for name in ("interintent", "official"):
            yield ConformanceGame(f"{name}, {players} seats", make_profile(name, players), players)
    for players, roles in ((5, None), (7, _SEVEN_ODD_ROLES)):
        for name, rules in _VARIATIONS.items():
            profile = make_profile("official", players, roles=roles, rules=rules)
            yield ConformanceGame(f"official, {players} seats, {name}", profile, 100 + players)
    all_evil = ("merlin", "percival", *["servant"] * 4, "assassin", "morgana", "mordred", "oberon")
    for name in ("interintent", "official"):
        yield ConformanceGame(f"{name}, 10 seats, one of each", make_profile(name, 10, roles=all_evil), 11)
    no_merlin = ("percival", "servant", "servant", "morgana", "assassin")
    yield ConformanceGame(
        "official, 5 seats, without Merlin", make_profile("official", 5, roles=no_merlin), 1
    )


def check_agent_kind(
    make: MakeAgent, *, options: Mapping[str, Any] | None = None, deterministic: bool = True
) -> None:
    """Plays the whole suite with agents of one kind. Raises AssertionError if a requirement is not met:

    - every first answer is a legal action of the requested kind, with legal thoughts and with values that
      survive storing;
    - acting changes neither the table nor the hand nor the record;
    - after a refusal the agent answers with a legal action;
    - equal seeds give equal answers, and a new agent for one request, as after a restart, answers like an
      agent that has played from the start.

    ``deterministic`` False leaves out the last point, for kinds that ask a model or a person.
    """
    asyncio.run(_check_all(make, options or {}, deterministic))


async def _check_all(make: MakeAgent, options: Mapping[str, Any], deterministic: bool) -> None:
    for game in games():
        await _Suite(make, options, deterministic, game).play()


class _Suite:
    def __init__(
        self, make: MakeAgent, options: Mapping[str, Any], deterministic: bool, game: ConformanceGame
    ) -> None:
        self._make = make
        self._options = options
        self._deterministic = deterministic
        self._game = game

    def _agent(self, seat: Seat) -> Agent:
        return self._make(Setup(seat, secret(self._game.seed, "conformance", seat), self._options))

    async def play(self) -> None:
        log = create(self._game.profile, self._game.seed)
        state = fold(log)
        kept = {seat: self._agent(seat) for seat in range(1, state.table.players + 1)}
        while requests := pending(state):
            before = fold(state.log)
            answers = {}
            for request in requests:
                answers[request.seat] = await self._asked(state, before, request, kept[request.seat])
                await self._after_a_refusal(state, request)
            await step(state, {seat: _Repeater(answer) for seat, answer in answers.items()}, MemoryJournal())

    async def _asked(self, state: State, before: State, request: Request, agent: Agent) -> SeatAction:
        answer = await self._answer(state, request, agent)
        assert state == before, self._says(request, "acting must not change anything the agent is shown")
        self._check_legal(state, request, answer)
        self._check_plain(request, answer)
        if self._deterministic:
            again = await self._answer(state, request, self._agent(request.seat))
            assert again == answer, self._says(
                request,
                f"a new agent must give the same answer, got {again!r} where the first gave {answer!r}",
            )
        return answer

    async def _answer(
        self, state: State, request: Request, agent: Agent, refusals: tuple[str, ...] = ()
    ) -> SeatAction:
        answer = await settled(agent.act(observe(state, request, refusals)))
        expected = ACTION_OF[request.kind]
        assert type(answer) is expected, self._says(
            request, f"the answer must be {expected.__name__}, got {type(answer).__name__}"
        )
        return answer

    async def _after_a_refusal(self, state: State, request: Request) -> None:
        answer = await self._answer(state, request, self._agent(request.seat), ("refused, as a test",))
        self._check_legal(state, request, answer)

    def _check_legal(self, state: State, request: Request, answer: SeatAction) -> None:
        try:
            check(state.table, state.hand(request.seat), answer)
        except IllegalAction as refusal:
            raise AssertionError(self._says(request, f"the answer is illegal: {refusal}")) from refusal

    def _check_plain(self, request: Request, answer: SeatAction) -> None:
        text = getattr(answer, "text", "")
        assert isinstance(text, str), self._says(request, f"text must be a string, got {text!r}")
        for thought in answer.thoughts:
            self._check_thought(request, thought)

    def _check_thought(self, request: Request, thought: Event) -> None:
        name = type_name(thought)
        assert read_event(name, payload(thought)) == thought, self._says(
            request, f"{name} cannot be read back"
        )
        if isinstance(thought, IntentionsSelected):
            assert thought.intentions, self._says(request, "a selection must hold an intention")
        if isinstance(thought, BeliefsFormed):
            about = [belief.about for belief in thought.beliefs]
            assert len(set(about)) == len(about), self._says(
                request, f"at most one belief about each seat, got {about}"
            )

    def _says(self, request: Request, what: str) -> str:
        return f"{self._game.name}, seed {self._game.seed}, request {request.id}: {what}"


class _Repeater:
    """An agent that repeats one answer."""

    def __init__(self, answer: SeatAction) -> None:
        self._answer = answer

    def act(self, observation: object) -> SeatAction:
        return self._answer
