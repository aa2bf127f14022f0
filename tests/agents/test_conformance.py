"""The conformance suite that every agent kind passes, and faulty kinds that it must catch."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agents.agent import MakeAgent, Setup
from agents.conformance import check_agent_kind
from agents.kinds import kinds
from agents.scripted.agent import RandomAgent
from engine.actions import CastVote, PlayCard, ProposeTeam, SeatAction, Speak
from engine.events import ChoiceExplained, IntentionsSelected
from engine.terms import Kind
from engine.thoughts import Choice
from engine.view import Observation


@pytest.mark.parametrize(
    "kind", [*sorted({*kinds()} - {"scripted"}), pytest.param("scripted", marks=pytest.mark.long)]
)
def test_every_kind_conforms(kind: str) -> None:
    check_agent_kind(kinds()[kind])


class Asynchronous(RandomAgent):
    async def act(self, observation: Observation) -> SeatAction:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().act(observation)


def test_an_agent_that_has_to_be_awaited_conforms() -> None:
    check_agent_kind(Asynchronous)


class WrongAction(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        return CastVote(True)


class IllegalTeam(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        if observation.request.kind is Kind.PROPOSE_TEAM:
            return ProposeTeam((1, 1, 2))
        return super().act(observation)


class LoyalFail(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        if observation.request.kind is Kind.CARD:
            return PlayCard(False)
        return super().act(observation)


class OffTheMenu(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        if observation.request.kind is Kind.SPEAK:
            chosen = IntentionsSelected(observation.request.seat, "first", (Choice("made_up"),), False)
            return Speak("", (chosen,))
        return super().act(observation)


class OthersThoughts(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        action = super().act(observation)
        return replace(action, thoughts=(ChoiceExplained(11, observation.request.kind, "not mine"),))


class Meddler(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        observation.table.succeeded += 1
        return super().act(observation)


class Counting(RandomAgent):
    """Remembers what a new one in its place could not know."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._acts = 0

    def act(self, observation: Observation) -> SeatAction:
        self._acts += 1
        if observation.request.kind is Kind.SPEAK:
            return Speak(f"I act for the {self._acts}th time.")
        return super().act(observation)


class Sulking(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        if observation.refusals and observation.request.kind is Kind.PROPOSE_TEAM:
            return ProposeTeam(())
        return super().act(observation)


class NoAction(RandomAgent):
    def act(self, observation: Observation) -> SeatAction:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (WrongAction, "must be ProposeTeam, got CastVote|must be Speak, got CastVote"),
        (IllegalTeam, "illegal: .*takes 2 seats"),
        (LoyalFail, "illegal: .*loyal seat plays success"),
        (OffTheMenu, "illegal: .*not offered"),
        (OthersThoughts, "illegal: .*own thoughts"),
        (Meddler, "must not change anything"),
        (Counting, "a new agent must give the same answer"),
        (Sulking, "illegal: .*takes 2 seats"),
    ],
)
def test_a_faulty_kind_is_found(make: MakeAgent, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_agent_kind(make)


def test_an_answer_other_than_an_action_is_found() -> None:
    with pytest.raises((AssertionError, TypeError), match="action"):
        check_agent_kind(NoAction)


def test_a_complaint_names_game_seed_and_request() -> None:
    with pytest.raises(
        AssertionError, match=r"^interintent, 5 seats, seed 5, request 1\.1\.propose_team\.1: "
    ):
        check_agent_kind(IllegalTeam)


def test_a_kind_may_be_declared_nondeterministic() -> None:
    check_agent_kind(Counting, deterministic=False)


def test_options_reach_the_agent() -> None:
    seen: list[Any] = []

    def make(setup: Setup) -> RandomAgent:
        seen.append(setup.options)
        return RandomAgent(setup)

    check_agent_kind(make, options={"mood": "calm"})
    assert all(options == {"mood": "calm"} for options in seen)
