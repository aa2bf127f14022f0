"""Scores made of judgements: selection, following, self-correction. Worked values by hand."""

from dataclasses import replace
from typing import Any

import pytest

from engine.terms import Role, Side
from evaluators.ground.judgements import (
    FollowScore,
    Judgement,
    StageKey,
    by_game,
    follow_scores,
    good,
    sufficient,
)
from evaluators.ground.turns import Game
from evaluators.measures.judged import (
    ASPECTS,
    PARTS,
    CorrectionScores,
    FollowingScores,
    Histogram,
    SelectionScores,
    Shift,
    sign_test,
)
from evaluators.statistics.rates import Rate
from tests.evaluators.talk import by_hand, chose

SUPPORT, CONVINCE, DEFEND = "support_proposal", "convince_leader", "defend_self"


def said(
    turn: str,
    stage: Any,
    intention: str,
    reasonable: bool | None = None,
    think: Any = None,
    speak: Any = None,
) -> Judgement:
    """A judgement of game ``g`` by one rater."""
    return Judgement("g", turn, stage, intention, reasonable, think, speak, "r")


def three_turns() -> Game:
    """Percival changes, the servant modifies into the same set, the assassin does not modify."""
    return by_hand(
        {
            "1.1.speak.2": chose(2, f"{SUPPORT} {CONVINCE}", f"{SUPPORT} {DEFEND}"),
            "1.1.speak.3": chose(3, f"{SUPPORT} {CONVINCE}", f"{CONVINCE} {SUPPORT}"),
            "2.1.speak.4": chose(4, CONVINCE),
        }
    )


# --- judgements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0, 6, -1])
def test_a_score_outside_its_scale_is_refused(score: int) -> None:
    with pytest.raises(ValueError, match=f"think={score}"):
        said("1.1.speak.2", "first", SUPPORT, think=score)


def test_scores_fall_into_flawed_and_good_and_into_what_can_be_read_back() -> None:
    assert [good(score) for score in (1, 2, 3, 4, 5)] == [False, False, False, True, True]
    assert [sufficient(score) for score in (1, 2, 3, 4, 5)] == [False, False, True, True, True]


def test_following_scores_of_several_raters_are_averaged_where_given() -> None:
    judgements = [
        Judgement("g", "1.1.speak.2", "final", SUPPORT, None, 2, 5, "a"),
        Judgement("g", "1.1.speak.2", "final", SUPPORT, None, 3, None, "b"),
        Judgement("g", "1.1.speak.2", "final", DEFEND, True, None, None, "a"),
    ]
    assert follow_scores(judgements) == {
        StageKey("g", "1.1.speak.2", "final"): {
            SUPPORT: FollowScore(2.5, 5.0),
            DEFEND: FollowScore(None, None),
        }
    }
    assert by_game(judgements) == {"g": judgements}


# --- selection ----------------------------------------------------------------------------------------


def test_selection_accuracy_counts_first_selections_and_final_ones_that_changed() -> None:
    scores = SelectionScores()
    scores.add(
        three_turns(),
        [
            said("1.1.speak.2", "first", SUPPORT, True),
            said("1.1.speak.2", "first", CONVINCE, False),
            said("1.1.speak.2", "final", SUPPORT, True),
            said("1.1.speak.2", "final", DEFEND, True),
            said("1.1.speak.3", "first", SUPPORT, True),
            said("1.1.speak.3", "final", SUPPORT, False),  # unchanged: the same selection again
            said("2.1.speak.4", "first", CONVINCE, False),
            said("2.1.speak.4", "final", CONVINCE, False),  # unchanged
            said("2.1.speak.4", "first", CONVINCE, None),  # says nothing of it
            said("2.1.speak.4", "first", SUPPORT, True),  # never selected
            said("1.1.speak.5", "first", SUPPORT, True),  # selected nothing
            said("9.1.speak.5", "first", SUPPORT, True),  # no such turn
            Judgement("other", "1.1.speak.2", "first", SUPPORT, True, None, None, "r"),
        ],
    )
    # Reasonable 4 of 6: (1, 0), (1, 1) | 1 | 0.
    assert scores.total == Rate(4, 6)
    assert scores.by_stage == {"first": Rate(2, 4), "final": Rate(2, 2)}
    assert scores.by_role == {
        Role.PERCIVAL: Rate(3, 4),
        Role.SERVANT: Rate(1, 1),
        Role.ASSASSIN: Rate(0, 1),
    }
    assert scores.by_side == {Side.LOYAL: Rate(4, 5), Side.EVIL: Rate(0, 1)}
    assert scores.by_round == {1: Rate(4, 5), 2: Rate(0, 1)}
    assert scores.by_category == {
        "teamwork": Rate(3, 3),
        "persuasion": Rate(0, 2),
        "defense": Rate(1, 1),
    }
    assert scores.by_intention == {SUPPORT: Rate(3, 3), CONVINCE: Rate(0, 2), DEFEND: Rate(1, 1)}
    assert scores.by_game == {"g": Rate(4, 6)}
    assert scores.left_out == {"unchanged": 2, "not_judged": 1, "not_selected": 1, "no_turn": 2}


def test_verdicts_on_turns_that_give_no_items_are_left_out_and_counted() -> None:
    game = three_turns()
    percival, servant, assassin = (turn for turn in game.turns if turn.final is not None)
    game.turns = (replace(percival, defaulted="deadline"), replace(servant, repeated=True), assassin)
    scores = SelectionScores()
    scores.add(
        game,
        [said(turn.request_id, "first", CONVINCE, True) for turn in (percival, percival, servant, assassin)],
    )
    assert scores.total == Rate(1, 1)
    assert scores.left_out == {"defaulted": 2, "no_turn": 1}


def test_a_final_selection_alone_is_counted_as_one_that_changed() -> None:
    game = three_turns()
    game.turns = tuple(replace(turn, first=None) for turn in game.turns if turn.final is not None)
    scores = SelectionScores()
    scores.add(game, [said("2.1.speak.4", "final", CONVINCE, False)])
    assert scores.total == Rate(0, 1)
    assert scores.by_intention == {CONVINCE: Rate(0, 1)}


# --- following ----------------------------------------------------------------------------------------


def test_following_shares_by_part_stage_side_and_role() -> None:
    scores = FollowingScores()
    scores.add(
        three_turns(),
        [
            said("1.1.speak.2", "first", SUPPORT, think=5, speak=3),
            said("1.1.speak.2", "first", CONVINCE, think=4, speak=1),
            said("1.1.speak.3", "final", SUPPORT, think=5, speak=5),  # unchanged, but another speech
            said("2.1.speak.4", "first", CONVINCE, think=None, speak=4),
            said("2.1.speak.4", "final", CONVINCE),
        ],
    )
    assert scores.histogram("think") == Histogram(0, 0, 0, 1, 2)
    assert scores.histogram("speak") == Histogram(1, 0, 1, 1, 1)
    assert scores.histogram("speak", "first") == Histogram(1, 0, 1, 1, 0)
    assert scores.histogram("speak", side=Side.EVIL) == Histogram(0, 0, 0, 1, 0)
    assert scores.histogram("think", role=Role.PERCIVAL) == Histogram(0, 0, 0, 1, 1)
    speak = scores.histogram("speak")
    assert (speak.good, speak.flawed, speak.share(5)) == (Rate(2, 4), Rate(2, 4), Rate(1, 4))
    assert speak.mean == (1 + 3 + 5 + 4) / 4
    assert scores.by_game == {"g": {part: scores.histogram(part) for part in PARTS}}
    assert scores.left_out == {"not_judged": 1}
    told = scores.as_json()
    assert told["speak"]["first"]["by_role"]["assassin"]["counts"]["4"] == 1
    assert told["total"]["scored"] == 7
    assert list(told["think"]["all"]["by_role"]) == ["percival", "servant", "assassin"]
    assert told["speak"]["final"]["by_side"]["evil"]["scored"] == 0
    assert told["think"]["all"]["all"]["mean"] == pytest.approx(14 / 3)


def test_an_intention_judged_in_one_part_is_judged() -> None:
    for parts in ({"think": 4}, {"speak": 4}):
        scores = FollowingScores()
        scores.add(three_turns(), [said("1.1.speak.2", "first", SUPPORT, **parts)])
        assert scores.left_out == {}


@pytest.mark.parametrize("scores", [SelectionScores, FollowingScores, CorrectionScores])
def test_judgements_of_other_games_are_passed_over_wherever_they_stand(scores: Any) -> None:
    ours = [said("1.1.speak.2", stage, SUPPORT, True, 4, 4) for stage in ("first", "final")]
    others = [replace(one, game_id="h") for one in ours]
    alone, among = scores(), scores()
    alone.add(three_turns(), ours)
    among.add(three_turns(), [*others, *ours, *others])
    assert vars(among) == vars(alone)


def test_nothing_scored_has_no_mean_and_no_share() -> None:
    assert Histogram().mean is None
    assert Histogram().good.rate is None


# --- self-correction ----------------------------------------------------------------------------------


def test_how_often_modification_changes_the_choice() -> None:
    scores = CorrectionScores()
    scores.add(three_turns())
    # The assassin recorded no modification: it is asked about two turns.
    assert scores.changed == Rate(1, 2)
    assert scores.by_role == {Role.PERCIVAL: Rate(1, 1), Role.SERVANT: Rate(0, 1)}
    assert scores.by_side == {Side.LOYAL: Rate(1, 2)}
    assert scores.by_round == {1: Rate(1, 2)}
    # Percival keeps one, drops one, adds one; the servant keeps both.
    assert (scores.kept, scores.dropped, scores.added) == (3, 1, 1)
    scores.add(by_hand({"1.1.speak.2": chose(2, f"{SUPPORT} {CONVINCE}", SUPPORT)}))
    assert (scores.kept, scores.dropped, scores.added) == (4, 2, 1)


def test_a_turn_that_gives_no_items_is_no_change_of_mind() -> None:
    # A default was played for the one, the other spoke a second time, the third recorded no first selection.
    game = three_turns()
    percival, servant, assassin = (turn for turn in game.turns if turn.final is not None)
    game.turns = (
        replace(percival, defaulted="deadline"),
        replace(servant, repeated=True),
        replace(assassin, first=None, modified=True),
    )
    scores = CorrectionScores()
    scores.add(game, [said(percival.request_id, stage, SUPPORT, True, 5, 5) for stage in ("first", "final")])
    assert scores.changed == Rate(0, 0)
    assert scores.shifts == {}


def test_whether_modification_improves_is_asked_of_turns_judged_twice() -> None:
    scores = CorrectionScores()
    scores.add(
        three_turns(),
        [
            said("1.1.speak.2", "first", SUPPORT, True, think=5, speak=2),
            said("1.1.speak.2", "first", CONVINCE, False, think=3, speak=3),
            said("1.1.speak.2", "final", SUPPORT, True, think=4, speak=5),
            said("1.1.speak.2", "final", DEFEND, True, think=4, speak=4),
            said("1.1.speak.3", "first", SUPPORT, True, think=4, speak=4),
            said("1.1.speak.3", "final", SUPPORT, False, think=4, speak=2),
            said("2.1.speak.4", "first", CONVINCE, True, think=4, speak=4),
        ],
    )
    # Percival: reasonable 1/2 to 1, think 4 to 4, speak 2.5 to 4.5. Servant: think 4 to 4, speak 4 to 2;
    # its selection is one and the same, so reasonable is not compared.
    assert scores.shift("reasonable") == Shift(1, 0, 0, 0.5, 1.0)
    assert scores.shift("think") == Shift(0, 0, 2, 8.0, 8.0)
    assert scores.shift("speak") == Shift(1, 1, 0, 6.5, 6.5)
    assert scores.shift("speak", changed=True) == Shift(1, 0, 0, 2.5, 4.5)
    assert scores.shift("speak", changed=False) == Shift(0, 1, 0, 4.0, 2.0)
    assert [scores.shift(aspect).turns for aspect in ASPECTS] == [1, 2, 2]
    # A second game with the same verdicts: every count and sum doubles.
    one = scores.shift("speak")
    assert one.plus(one) == Shift(2, 2, 0, 13.0, 13.0)
    assert Shift(1, 2, 4).turns == 7


def test_a_turn_judged_in_one_stage_alone_is_not_compared() -> None:
    scores = CorrectionScores()
    judgements = [
        said("1.1.speak.2", "first", CONVINCE, True),
        said("1.1.speak.3", "final", SUPPORT, None, 4),
    ]
    scores.add(three_turns(), judgements)
    assert scores.shifts == {}


def test_raters_of_one_stage_are_averaged_before_stages_are_compared() -> None:
    scores = CorrectionScores()
    turn = "1.1.speak.2"
    scores.add(
        three_turns(),
        [
            Judgement("g", turn, "first", SUPPORT, None, None, 1, "a"),
            Judgement("g", turn, "first", SUPPORT, None, None, 4, "b"),
            Judgement("g", turn, "final", SUPPORT, None, None, 2, "a"),
        ],
    )
    assert scores.shift("speak") == Shift(0, 1, 0, 2.5, 2.0)


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [
        (0, 0, None),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (8, 1, 2 * (1 + 9) / 512),
        (1, 8, 2 * (1 + 9) / 512),
        (3, 3, 1.0),
        # Textbook: 7 of 10 pairs, p = 2 (1 + 10 + 45 + 120) / 1024.
        (7, 3, 352 / 1024),
    ],
)
def test_the_sign_test_by_hand(better: int, worse: int, p: float | None) -> None:
    assert sign_test(better, worse) == (None if p is None else pytest.approx(p))


def test_the_sign_test_holds_for_many_turns() -> None:
    assert sign_test(2100, 1900) == pytest.approx(0.0016, abs=1e-4)  # z = 3.146 with continuity
    assert sign_test(5000, 0) == 0.0
