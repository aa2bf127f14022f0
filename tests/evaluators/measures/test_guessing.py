"""Beliefs as guesses, role guesses, and what a stated confidence is worth."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from engine.actions import CastVote, Speak, Summarise
from engine.events import (
    ActionDefaulted,
    AgentsSeated,
    BeliefsFormed,
    Cause,
    GameCreated,
    ProposalOpened,
    SelectionPrepared,
)
from engine.rules import Request
from engine.seated import SeatedAgent
from engine.state import State
from engine.terms import Role
from evaluators.ground.answers import Guess
from evaluators.ground.items import Item, Variant, items
from evaluators.ground.turns import read_game
from evaluators.measures.guessing import BeliefScores, Span, believed
from evaluators.measures.scoring import Counts, RoleScores
from evaluators.statistics.rates import Rate
from tests.evaluators.talk import belief, by_hand, chose, log_by_hand, scripted

HEARD = "convince_leader"


def test_a_belief_is_a_guess_about_the_latest_speech_before_the_believers_turn() -> None:
    thought = belief(4, 2, f"{HEARD} stay_hidden", Role.PERCIVAL, 4)
    game = by_hand({"1.1.speak.2": chose(2, HEARD), "1.1.speak.4": [thought, *chose(4, "cast_suspicion")]})
    (guess,) = believed(game)
    assert guess == Guess(
        "g/guessing/1.1.speak.2/final/4", frozenset({HEARD, "stay_hidden"}), (), "belief", Role.PERCIVAL, 4
    )
    scores = BeliefScores()
    scores.add(game)
    assert scores.intentions.total == Counts(1, 2, 1)
    assert scores.roles.right == Rate(1, 1)
    # Seat 4's own speech and the other readers of seat 2's are nobody's silence.
    assert (scores.beliefs, scores.scored, scores.intentions.items) == (1, 1, 1)


def test_a_belief_about_a_seat_that_has_not_spoken_is_no_guess() -> None:
    assert list(believed(by_hand({"1.1.speak.2": [belief(2, 3, HEARD)]}))) == []


def test_only_the_first_belief_about_a_speech_counts() -> None:
    notes = {
        "1.1.speak.5": chose(5, HEARD),
        "2.1.propose_team.2": [belief(2, 5, HEARD)],
        "3.1.speak.4": [belief(4, 5, "stay_hidden")],
    }
    game = by_hand(notes, summaries=False)
    # Seat 5 spoke in 2.1 after seat 2 and before 3.1: two different speeches.
    assert [guess.item_id for guess in believed(game)] == [
        "g/guessing/1.1.speak.5/final/2",
        "g/guessing/2.1.speak.5/final/4",
    ]
    again = by_hand(
        {"1.1.speak.5": [belief(5, 4, HEARD)], "2.1.speak.3": [belief(3, 5, HEARD)], "2.1.speak.4": []},
        summaries=False,
    )
    assert [guess.rater for guess in believed(again)] == ["belief", "belief"]
    # Seat 1 opens 1.1 and speaks last in 2.1: what seat 5 believes there is again about 1.1.
    twice = by_hand(
        {"1.1.speak.5": [belief(5, 1, HEARD)], "2.1.speak.5": [belief(5, 1, "stay_hidden")]}, summaries=False
    )
    assert [(guess.item_id, guess.intentions) for guess in believed(twice)] == [
        ("g/guessing/1.1.propose_team.1/final/5", {HEARD})
    ]


def test_beliefs_may_be_restricted_to_speeches_of_the_same_attempt() -> None:
    notes = {"1.1.speak.5": chose(5, HEARD), "2.1.propose_team.2": [belief(2, 5, HEARD)]}
    game = by_hand(notes, summaries=False)
    assert len(list(believed(game))) == 1
    assert list(believed(game, "attempt")) == []
    same = by_hand({"1.1.speak.5": [belief(5, 4, HEARD)], "2.1.speak.5": [belief(5, 4, HEARD)]})
    assert [guess.item_id for guess in believed(same, "attempt")] == [
        "g/guessing/1.1.speak.4/final/5",
        "g/guessing/2.1.speak.4/final/5",
    ]


def test_a_speech_of_an_earlier_attempt_of_the_round_is_not_of_the_same_attempt() -> None:
    def reject(game: State, request: Request) -> Any:
        return CastVote(False) if request.id.startswith("1.1.vote.") else None

    # Seat 5 speaks last in 1.1, and seat 2 opens 1.2.
    notes = {"1.1.speak.5": chose(5, HEARD), "1.2.propose_team.2": [belief(2, 5, HEARD)]}
    game = read_game("g", log_by_hand(notes, reject, summaries=False))
    assert [guess.item_id for guess in believed(game)] == ["g/guessing/1.1.speak.5/final/2"]
    assert list(believed(game, "attempt")) == []


def test_a_seat_that_summed_up_nothing_still_has_the_speeches() -> None:
    def sums_up_nothing(game: State, request: Request) -> Any:
        return Summarise(()) if request.id == "1.1.summarise.2" else None

    notes = {
        "1.1.speak.5": chose(5, HEARD),
        "2.1.propose_team.2": [belief(2, 5, HEARD)],
        "2.1.speak.3": [belief(3, 5, HEARD)],
    }
    game = read_game("g", log_by_hand(notes, sums_up_nothing))
    assert [guess.item_id for guess in believed(game)] == ["g/guessing/1.1.speak.5/final/2"]


def test_a_belief_about_a_seat_whose_latest_speech_was_a_default_is_not_about_an_earlier_one() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id != "2.1.speak.3":
            return None
        return Speak("", (ActionDefaulted(3, request.id, "deadline"),))

    notes = {"1.1.speak.3": chose(3, HEARD), "2.1.speak.4": [belief(4, 3, HEARD)]}
    (guess,) = believed(read_game("g", log_by_hand(notes, answer, summaries=False)))
    assert guess.item_id == "g/guessing/2.1.speak.3/final/4"
    scores = BeliefScores()
    scores.add(read_game("g", log_by_hand(notes, answer, summaries=False)))
    # A default says nothing that could be guessed.
    assert (scores.beliefs, scores.scored) == (1, 0)


def test_what_a_seat_remembers_is_as_its_latest_agent_keeps_it() -> None:
    # A fork seats other agents in a game that has begun.
    game = by_hand({"1.1.speak.5": chose(5, HEARD), "2.1.propose_team.2": [belief(2, 5, HEARD)]})
    first, second = (
        n for n, event in enumerate(game.log) if isinstance(event, ProposalOpened) and event.round < 3
    )
    for before, after, guesses in (("summaries", "speeches", 1), ("speeches", "summaries", 0)):
        seated = [
            AgentsSeated((SeatedAgent("llm", "m", "m", {"memory": memory}),) * 5)
            for memory in (before, after)
        ]
        log = [*game.log[:first], seated[0], *game.log[first:second], seated[1], *game.log[second:]]
        log.append(seated[0])  # Later than the belief.
        assert len(list(believed(read_game("g", log)))) == guesses


def test_a_belief_about_a_speech_that_a_summary_has_replaced_is_no_guess() -> None:
    opens = {"1.1.speak.5": chose(5, HEARD), "2.1.propose_team.2": [belief(2, 5, HEARD)]}
    assert list(believed(by_hand(opens))) == []
    # An opener that was asked before it summed up still had the speeches.
    early = {**opens, "2.1.propose_team.2": [SelectionPrepared(2, "summary"), belief(2, 5, HEARD)]}
    assert [guess.item_id for guess in believed(by_hand(early))] == ["g/guessing/1.1.speak.5/final/2"]


@pytest.mark.parametrize(
    ("profile", "memory", "guesses"),
    [
        ("interintent", "speeches", 1),
        ("interintent", None, 0),
        ("official", "summaries", 0),
        ("official", None, 1),
    ],
)
def test_what_is_in_sight_goes_by_the_memory_of_the_seat(
    profile: str, memory: str | None, guesses: int
) -> None:
    game = by_hand({"1.1.speak.5": chose(5, HEARD), "2.1.propose_team.2": [belief(2, 5, HEARD)]})
    first = next(index for index, event in enumerate(game.log) if isinstance(event, ProposalOpened))
    parameters = {} if memory is None else {"memory": memory}
    other = SeatedAgent(
        "scripted", None, None, {"memory": "summaries" if memory != "summaries" else "speeches"}
    )
    agents = [other, SeatedAgent("llm", "m", "m", parameters), *[other] * 3]
    created = game.log[0]
    assert isinstance(created, GameCreated)
    created = replace(created, profile=replace(created.profile, name=profile))
    log = [created, *game.log[1:first], AgentsSeated(tuple(agents)), *game.log[first:]]
    assert len(list(believed(read_game("g", log)))) == guesses


def test_only_the_beliefs_of_the_seats_asked_for_are_counted() -> None:
    notes = {
        "1.1.speak.2": chose(2, HEARD),
        "1.1.speak.3": [belief(3, 2, HEARD, Role.PERCIVAL)],
        "1.1.speak.4": [belief(4, 2, "stay_hidden", Role.MERLIN)],
    }
    for seats, counts, right in (
        (None, Counts(1, 2, 2), Rate(1, 2)),
        ([3], Counts(1, 1, 1), Rate(1, 1)),
        ([4, 5], Counts(0, 1, 1), Rate(0, 1)),
    ):
        scores = BeliefScores()
        scores.add(by_hand(notes), seats)
        assert (scores.intentions.total, scores.roles.right) == (counts, right)
        assert scores.beliefs == scores.scored == counts.gold


def test_beliefs_of_roles_alone_are_no_silence_about_intentions() -> None:
    notes = {
        "1.1.speak.2": chose(2, HEARD),
        "1.1.speak.3": [belief(3, 2, "", Role.PERCIVAL)],
        "1.1.speak.4": [belief(4, 2, "", Role.MERLIN)],
    }
    scores = BeliefScores()
    scores.add(by_hand(notes))
    assert (scores.scored, scores.of_roles_alone, scores.roles.right) == (2, 2, Rate(1, 2))
    assert scores.intentions.items == 0
    # Where one belief of the game names an intention, the other is silent about it.
    scores.add(by_hand({**notes, "1.1.speak.4": [belief(4, 2, HEARD, Role.MERLIN)]}, "h"))
    assert (scores.scored, scores.of_roles_alone, scores.roles.right) == (4, 2, Rate(2, 4))
    assert scores.intentions.total == Counts(1, 1, 2)


def test_a_seat_that_names_no_intention_is_silent_counted_alone_as_it_is_among_all() -> None:
    # The game's beliefs are not of roles alone: seat 4 names an intention.
    game = by_hand(
        {
            "1.1.speak.2": chose(2, HEARD),
            "1.1.speak.3": [belief(3, 2, "", Role.PERCIVAL)],
            "1.1.speak.4": [belief(4, 2, HEARD, Role.MERLIN)],
        }
    )
    for seats, counts in ((None, Counts(1, 1, 2)), ([3], Counts(0, 0, 1)), ([4], Counts(1, 1, 1))):
        scores = BeliefScores()
        scores.add(game, seats)
        assert (scores.intentions.total, scores.of_roles_alone) == (counts, 0), seats


@pytest.mark.parametrize("cause", get_args(Cause))
def test_beliefs_of_a_defaulted_turn_are_left_out(cause: Cause) -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id != "1.1.speak.3":
            return None
        return Speak("", (belief(3, 2, HEARD), ActionDefaulted(3, request.id, cause)))

    assert list(believed(read_game("g", log_by_hand({}, answer)))) == []


def test_every_belief_that_is_no_guess_is_counted_with_its_reason() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id == "1.1.speak.3":
            return Speak("", (belief(3, 2, HEARD), ActionDefaulted(3, request.id, "deadline")))
        if request.id == "1.1.vote.3":
            return CastVote(True, (belief(3, 4, HEARD),))
        return None

    notes = {
        "1.1.speak.2": [belief(2, 3, HEARD), *chose(2, HEARD)],
        "1.1.speak.4": [belief(4, 2, HEARD, Role.PERCIVAL)],
        "1.1.speak.5": [belief(5, 1, HEARD)],
        "2.1.propose_team.2": [belief(2, 5, HEARD)],
        "2.1.speak.5": [belief(5, 1, "stay_hidden")],
    }
    never = {
        (2, "about a seat that had not spoken"): 1,
        (3, "of a turn for which a default was played"): 1,
        (3, "not held when the seat began to speak"): 1,
    }
    again = (5, "about a speech about which the seat already had a belief")
    earlier, replaced = "about a speech of an earlier attempt", "about a speech that a summary has replaced"
    expected: list[tuple[bool, Span, dict[tuple[int, str], int]]] = [
        (False, "game", {again: 1}),
        (False, "attempt", {(2, earlier): 1, (5, earlier): 1}),
        (True, "game", {(2, replaced): 1, (5, replaced): 1}),
    ]
    for summaries, span, more in expected:
        game = read_game("g", log_by_hand(notes, answer, summaries=summaries))
        scores = BeliefScores(span=span)
        beliefs = scores.read(game)
        assert beliefs.left_out == never | more
        scores.add(game, {2, 5}, beliefs)
        assert scores.left_out.total() + scores.beliefs == 4
        assert scores.left_out["of a turn for which a default was played"] == 0
        recorded = sum(len(event.beliefs) for event in game.log if isinstance(event, BeliefsFormed))
        assert recorded == sum(beliefs.left_out.values()) + len(beliefs.guesses) == 7


def test_with_the_impactful_options_a_belief_counts_by_what_it_names_of_them() -> None:
    game = by_hand({"1.1.speak.2": chose(2, HEARD), "1.1.speak.3": [belief(3, 2, f"{HEARD} stay_hidden")]})
    scores = BeliefScores(Variant(options="impactful"))
    scores.add(game)
    assert scores.intentions.total == Counts(1, 1, 1)


def test_what_scripted_seats_believe_is_clearly_above_chance() -> None:
    whole = BeliefScores()
    for number in range(10):
        whole.add(scripted(number))
    chance = whole.intentions.chance
    assert chance is not None
    assert whole.intentions.items > 400
    assert whole.intentions.micro > 3 * chance
    # Two of the five roles are left to a seat at the least, and it is right more often than that.
    assert whole.roles.right.rate is not None
    assert whole.roles.right.rate > 0.4
    # Every game alone is above chance.
    assert all(counts.f1 > chance for counts in whole.intentions.by_game.values())


# --- roles and confidence -----------------------------------------------------------------------------


def spoken_by_the_assassin() -> Item:
    game = by_hand({"1.1.speak.4": chose(4, HEARD)})
    return next(iter(items(game, "guessing", Variant(reader=3), with_gold=True)))


def role_guesses(*pairs: tuple[Role | None, float | None]) -> RoleScores:
    item = spoken_by_the_assassin()
    scores = RoleScores()
    for role, confidence in pairs:
        scores.add(item, Guess(item.id, frozenset(), role=role, confidence=confidence))
    return scores


def test_brier_score_and_reliability_curve_by_hand() -> None:
    right, wrong = Role.ASSASSIN, Role.MORGANA
    scores = role_guesses((right, 5), (wrong, 5), (right, 4), (wrong, 1), (right, None), (None, 3))
    assert scores.right == Rate(3, 5)
    # (1-1)² + (1-0)² + (0.8-1)² + (0.2-0)² = 1.08 over the four that state a confidence.
    assert scores.stated == 4
    assert scores.brier == pytest.approx(1.08 / 4)
    assert [(one.confidence, one.right) for one in scores.curve] == [
        (0, Rate(0, 0)),
        (1, Rate(0, 1)),
        (2, Rate(0, 0)),
        (3, Rate(0, 0)),
        (4, Rate(1, 1)),
        (5, Rate(1, 2)),
    ]
    # |0.2-0|/4 + |0.8-1|/4 + |1-1/2| 2/4 = 0.05 + 0.05 + 0.25
    assert scores.calibration_error == pytest.approx(0.35)
    assert scores.confusion == {(right, right): 3, (right, wrong): 2}


def test_guesses_are_counted_by_the_true_role() -> None:
    scores = role_guesses((Role.ASSASSIN, None), (Role.MERLIN, None), (Role.MERLIN, None))
    assert scores.by_role == {Role.ASSASSIN: Rate(1, 3)}
    assert scores.confusion == {(Role.ASSASSIN, Role.ASSASSIN): 1, (Role.ASSASSIN, Role.MERLIN): 2}


def test_a_mean_confidence_falls_to_the_nearest_step() -> None:
    curve = role_guesses((Role.ASSASSIN, 2.5), (Role.ASSASSIN, 2.4)).curve
    assert (curve[2].right, curve[3].right) == (Rate(1, 1), Rate(1, 1))
    assert (curve[2].stated, curve[3].stated) == (pytest.approx(0.48), pytest.approx(0.5))


def test_without_role_guesses_nothing_is_claimed() -> None:
    scores = role_guesses((None, 5))
    assert (scores.right, scores.brier, scores.calibration_error) == (Rate(0, 0), None, None)
    assert scores.as_json()["accuracy"] == {"num": 0, "den": 0, "rate": None}


@pytest.mark.parametrize("confidence", [6, 5.25, -0.25])
def test_a_confidence_outside_its_scale_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match=f"0 to 5, got {confidence}"):
        role_guesses((Role.ASSASSIN, confidence))
