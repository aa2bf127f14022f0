"""Decisions and defaults are those that agents were asked for in play."""

import asyncio
from collections import Counter
from random import Random

import pytest

from agents.agent import Setup
from agents.scripted.agent import RandomAgent, ScriptedAgent
from agents.table import MemoryJournal, play
from engine.actions import SeatAction
from engine.chance import secret
from engine.events import ActionDefaulted, TeamProposed, UtteranceMade, VoteCast
from engine.profile import PROFILES, make_profile
from engine.rules import cancel, create, pending
from engine.terms import Kind, Seat
from engine.view import Observation
from evaluators.measures.defaults import DecisionCounter
from tests.engine.games import chooser, new_game, random_profile, step


class Counting:
    """Another agent; what it was asked is counted by seat."""

    def __init__(self, agent: RandomAgent | ScriptedAgent, seat: Seat, asked: Counter[Seat]) -> None:
        self.agent, self.seat, self.asked = agent, seat, asked

    def act(self, observation: Observation) -> SeatAction:
        self.asked[self.seat] += not observation.refusals
        return self.agent.act(observation)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("players", [5, 7, 10])
def test_each_request_that_agents_answered_is_one_decision(profile: str, players: int) -> None:
    for seed in range(8):
        asked = Counter[Seat]()
        kind = ScriptedAgent if seed % 2 else RandomAgent
        seats = {
            seat: Counting(kind(Setup(seat, secret(seed, seat))), seat, asked)
            for seat in range(1, players + 1)
        }
        log = create(make_profile(profile, players), seed)
        state = asyncio.run(play(log, seats, MemoryJournal()))
        counted = DecisionCounter(state.log).seats
        assert {seat: one.decisions for seat, one in counted.items()} == asked, (profile, players, seed)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_so_it_is_under_every_rule_there_is_and_for_logs_that_come_in_portions(first: int) -> None:
    for number in range(first, first + 50):
        rng = Random(number)
        choose = chooser(rng)
        game = new_game(random_profile(rng), number)
        asked, defaulted = Counter[Seat](), set[tuple[Seat, str]]()
        counter = DecisionCounter(game.log)
        while requests := pending(game):
            asked.update(request.seat for request in requests)
            events = step(game, choose)
            defaulted |= {(e.seat, e.request_id) for e in events if isinstance(e, ActionDefaulted)}
            counter.add(events)
        assert {seat: one.decisions for seat, one in counter.seats.items()} == asked, number
        by_seat = Counter(seat for seat, _ in defaulted)
        for seat, one in counter.seats.items():
            assert one.defaulted.total() == by_seat[seat] <= one.decisions, number
        assert counter.as_json() == DecisionCounter(game.log).as_json()


def test_a_request_that_was_closed_with_its_game_is_no_decision() -> None:
    game = new_game(make_profile("official", 5, rules={"discussion": "none"}), 1)
    broken_off = (ActionDefaulted(game.table.leader, "1.1.propose_team.1", "cancelled"), *cancel("enough"))
    assert DecisionCounter((*game.log, *broken_off)).seats == {}


def test_who_speaks_beside_the_proposal_of_another_decides_too() -> None:
    # In a foreign record anybody may speak at any time.
    said = [UtteranceMade(seat, 1, 1, seat, "discuss", "So be it.") for seat in (2, 1)]
    counted = DecisionCounter([TeamProposed(1, (1, 2)), *said]).seats
    assert {seat: one.decisions for seat, one in counted.items()} == {1: 2, 2: 1}
    # What the leader says right after it belongs to its proposal.
    counted = DecisionCounter([TeamProposed(1, (1, 2)), *reversed(said)]).seats
    assert {seat: one.decisions for seat, one in counted.items()} == {1: 1, 2: 1}


def test_models_are_counted_in_their_own_seats_or_by_the_cause_where_nobody_knows_them() -> None:
    # Seats 1 to 3 decide twice each; seat 1 defaults for a model, seat 2 too late, seat 3 never.
    votes = [VoteCast(seat, approve=True) for seat in (1, 2, 3)] * 2
    late = ActionDefaulted(2, f"1.2.{Kind.VOTE}.2", "deadline")
    failed = ActionDefaulted(1, f"1.2.{Kind.VOTE}.1", "model_error")
    counter = DecisionCounter((failed, late, *votes))
    assert counter.of_models({1, 3}) == (1, 4)
    assert counter.of_models({2}) == (1, 2)
    assert counter.of_models(set()) == (0, 0)
    assert counter.of_models(None) == (1, 6)
    assert counter.as_json()["1"] == {"decisions": 2, "defaulted": {"model_error": 1}}
