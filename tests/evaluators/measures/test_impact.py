"""Impactful intentions and the link between understanding and winning, counted by hand."""

from dataclasses import replace

import pytest

from engine.events import QuestResolved
from engine.profile import make_profile
from engine.terms import Role, Seat, Side
from engine.thoughts import Choice
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game, Stage, Turn
from evaluators.measures.impact import PAPER, RELEASED, ImpactCounts, ImpactRule, Link, LinkRule, link_rules
from evaluators.statistics.rates import Rate

LOYAL, EVIL = Side.LOYAL, Side.EVIL
# Seats 1 to 3 loyal, 4 and 5 evil.
ROLES = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.MORGANA, Role.ASSASSIN)


def quest(round_: int, won: bool) -> QuestResolved:
    return QuestResolved(round_, (1, 2), 0 if won else 1, won)


def stage(name: str, *ids: str) -> Stage:
    return Stage(name, tuple(map(Choice, ids)), None)  # type: ignore[arg-type]


def turn(
    round_: int,
    seat: Seat,
    first: str,
    final: str | None = None,
    *,
    attempt: int = 1,
    defaulted: str | None = None,
) -> Turn:
    """Intentions by id, separated by blanks; without ``final`` the first selection stands."""
    return Turn(
        request_id=f"{round_}.{attempt}.speak.{seat}",
        round=round_,
        attempt=attempt,
        seat=seat,
        opening=0,
        utterance=0,
        position=1,
        text="",
        first=stage("first", *first.split()),
        final=stage("final", *(final or first).split()),
        beliefs=(),
        without=None,
        unheard=range(0),
        modified=final is not None,
        defaulted=defaulted,  # type: ignore[arg-type]
        opens=False,
        repeated=False,
    )


def game(quests: str, winner: Side, *turns: Turn, id_: str = "g") -> Game:
    """``quests``: + a success, - a failure, in order."""
    log = [quest(round_, mark == "+") for round_, mark in enumerate(quests, 1)]
    profile = make_profile("interintent")
    names = tuple(f"Player {seat}" for seat in range(1, 6))
    return Game(id_, log, profile, names, ROLES, (), winner, turns)


def counted(one: Game, rule: ImpactRule = PAPER, *judgements: Judgement) -> dict[tuple[Side, str], Rate]:
    counts = ImpactCounts(rule)
    counts.add(one, judgements)
    return {(one.side, one.intention): one.won for one in counts.table()}


def test_a_round_counts_once_for_a_side_however_often_it_selected() -> None:
    # Loyal won rounds 1 and 3. stay_hidden: loyal in rounds 1 (three times), 2; evil in 2.
    one = game(
        "+-+--",
        EVIL,
        turn(1, 1, "stay_hidden"),
        turn(1, 2, "stay_hidden"),
        turn(1, 2, "stay_hidden", attempt=2),
        turn(2, 1, "defend_self", "stay_hidden"),
        turn(2, 4, "stay_hidden"),
        turn(3, 1, "defend_self"),
    )
    assert counted(one) == {
        (LOYAL, "stay_hidden"): Rate(1, 2),
        (LOYAL, "defend_self"): Rate(1, 2),  # rounds 2 (first selection only) and 3
        (EVIL, "stay_hidden"): Rate(1, 1),
    }


def test_the_released_way_counts_followed_final_selections_one_by_one() -> None:
    one = game(
        "+-",
        EVIL,
        turn(1, 1, "stay_hidden"),
        turn(1, 2, "stay_hidden"),
        turn(2, 1, "defend_self", "stay_hidden"),
        turn(2, 2, "stay_hidden"),
    )

    def said(request: str, intention: str, think: int | None, speak: int | None) -> Judgement:
        return Judgement("g", request, "final", intention, True, think, speak, "ann")

    judgements = (
        said("1.1.speak.1", "stay_hidden", 3, 3),
        said("1.1.speak.2", "stay_hidden", 5, 4),
        said("2.1.speak.1", "stay_hidden", 3, 3),
        said("2.1.speak.2", "stay_hidden", 5, 2),  # not followed in speaking
    )
    assert counted(one, RELEASED, *judgements) == {(LOYAL, "stay_hidden"): Rate(2, 3)}
    # Without scores nothing is known to be followed.
    assert counted(one, RELEASED) == {}
    assert counted(one, RELEASED, said("1.1.speak.1", "stay_hidden", 5, None)) == {}


def test_defaulted_turns_and_rounds_without_a_quest_do_not_count() -> None:
    one = game("+", EVIL, turn(1, 1, "stay_hidden", defaulted="deadline"), turn(2, 1, "stay_hidden"))
    assert counted(one) == {}


@pytest.mark.parametrize(
    ("won", "of", "impactful"),
    [(7, 10, False), (8, 10, True), (3, 10, False), (2, 10, True), (2, 2, True), (0, 2, True), (1, 1, False)],
)
def test_impactful_is_strictly_beyond_the_limits_and_seen_twice(won: int, of: int, impactful: bool) -> None:
    counts = ImpactCounts()
    for place in range(of):
        counts.add(game("+" if place < won else "-", LOYAL, turn(1, 1, "defend_self")))
    (only,) = counts.table()
    assert (only.won, only.impactful) == (Rate(won, of), impactful)
    assert counts.impactful() == (frozenset({"defend_self"}) if impactful else frozenset())


def test_a_selection_that_stands_counts_once_and_one_that_was_changed_twice() -> None:
    rule = ImpactRule(per="selection")
    stands, changed = turn(1, 1, "defend_self"), turn(1, 2, "stay_hidden", "stay_hidden defend_self")
    assert counted(game("+", LOYAL, stands), rule) == {(LOYAL, "defend_self"): Rate(1, 1)}
    chosen_again = turn(1, 1, "defend_self", "defend_self")
    assert counted(game("+", LOYAL, chosen_again), rule) == {(LOYAL, "defend_self"): Rate(1, 1)}
    assert counted(game("+", LOYAL, changed), rule) == {
        (LOYAL, "stay_hidden"): Rate(2, 2),
        (LOYAL, "defend_self"): Rate(1, 1),
    }
    alone = replace(stands, first=None)
    assert counted(game("+", LOYAL, alone), rule) == {(LOYAL, "defend_self"): Rate(1, 1)}


def test_counts_of_parts_merge_into_those_of_the_whole() -> None:
    games = [
        game("+-", EVIL, turn(1, 1, "stay_hidden"), turn(2, 1, "stay_hidden")),
        game("--", EVIL, turn(1, 1, "stay_hidden"), turn(1, 4, "defend_self"), id_="h"),
    ]
    for order in (games, games[::-1]):
        first, second = ImpactCounts(), ImpactCounts()
        first.add(order[0])
        second.add(order[1])
        first.merge(second)
        assert {(one.side, one.intention): one.won for one in first.table()} == {
            (LOYAL, "stay_hidden"): Rate(1, 3),
            (EVIL, "defend_self"): Rate(1, 1),
        }


# --- the link ------------------------------------------------------------------------------------


def judged(
    round_: int, seat: Seat, intention: str, reasonable: bool | None, speak: int | None, **more: object
) -> Judgement:
    return Judgement(
        "g",
        f"{round_}.1.speak.{seat}",
        "final",
        intention,
        reasonable,
        more.get("think", 5),  # type: ignore[arg-type]
        speak,
        str(more.get("rater", "ann")),
    )


def linked(rule: LinkRule, one: Game, *judgements: Judgement) -> Link:
    link = Link(rule)
    link.add(one, judgements)
    return link


def outcome(link: Link, unit: str) -> list[tuple[Side, str]]:
    return [
        (side, relation)
        for side in (LOYAL, EVIL)
        for relation, rate in link.shares(unit, side).items()  # type: ignore[arg-type]
        for _ in range(rate.num)
    ]


ONE = game("+", LOYAL, turn(1, 1, "defend_self stay_hidden"), turn(1, 4, "defend_self express_loyalty"))


def test_r_divides_by_the_sides_seats() -> None:
    # Loyal: 2 reasonable of 3 seats, 2/3; evil: 1 of 2 seats, 1/2: below.
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 1, "stay_hidden", True, 3),
        judged(1, 4, "defend_self", True, 5),
        judged(1, 4, "express_loyalty", False, 5),
    ]
    assert outcome(linked(LinkRule("selection"), ONE, *judgements), "quest") == [(LOYAL, "below")]
    # By intentions: 2 of 2 against 1 of 2: below as well; a third for evil turns neither.
    assert outcome(linked(LinkRule("selection", per="intentions"), ONE, *judgements), "quest") == [
        (LOYAL, "below")
    ]


def test_what_is_divided_by_decides_the_relation() -> None:
    # Loyal 1 of 1 intention, evil 1 of 2: by seats 1/3 < 1/2, by intentions 1/1 > 1/2.
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 4, "defend_self", True, 5),
        judged(1, 4, "express_loyalty", False, 5),
    ]
    assert outcome(linked(LinkRule("selection"), ONE, *judgements), "game") == [(LOYAL, "above")]
    assert outcome(linked(LinkRule("selection", per="intentions"), ONE, *judgements), "game") == [
        (LOYAL, "below")
    ]


def test_selection_counts_only_what_was_followed_above_two() -> None:
    judgements = [judged(1, 1, "defend_self", True, 2), judged(1, 4, "defend_self", True, 3)]
    assert outcome(linked(LinkRule("selection"), ONE, *judgements), "quest") == [(LOYAL, "above")]
    # A 2 on either side: nothing counts, and nothing equals nothing. It would be 1 of 3 seats and 1 of 2.
    judgements = [judged(1, seat, "defend_self", True, 2) for seat in (1, 4)]
    assert outcome(linked(LinkRule("selection"), ONE, *judgements), "quest") == [(LOYAL, "equal")]


@pytest.mark.parametrize(("threshold", "relation"), [(3, "above"), (4, "above"), (5, "equal")])
def test_following_counts_only_reasonable_intentions_from_the_threshold_on(
    threshold: int, relation: str
) -> None:
    # Loyal: an unreasonable 5 and a reasonable 2. Evil: a reasonable 4: at 5 both have nothing.
    judgements = [
        judged(1, 1, "defend_self", False, 5),
        judged(1, 1, "stay_hidden", True, 2),
        judged(1, 4, "defend_self", True, 4),
    ]
    rule = LinkRule("following", threshold)
    assert outcome(linked(rule, ONE, *judgements), "quest") == [(LOYAL, relation)]


def test_both_parts_are_two_scores() -> None:
    # Loyal 3 seats: think 5, speak 5 of one intention: 2/3. Evil 2 seats: think 5, speak 1: 1/2.
    judgements = [
        judged(1, 1, "defend_self", True, 5, think=5),
        judged(1, 4, "defend_self", True, 1, think=5),
    ]
    rule = LinkRule("following", 3, parts=("think", "speak"))
    assert outcome(linked(rule, ONE, *judgements), "quest") == [(LOYAL, "below")]
    assert outcome(linked(LinkRule("following", 3, parts=("think",)), ONE, *judgements), "quest") == [
        (LOYAL, "above")
    ]


def test_what_is_not_followed_in_one_part_counts_in_neither() -> None:
    judgements = [judged(1, 1, "defend_self", True, 2, think=5), judged(1, 4, "defend_self", False, 5)]
    both = LinkRule("selection", parts=("think", "speak"))
    assert outcome(linked(both, ONE, *judgements), "quest") == [(LOYAL, "equal")]
    assert outcome(linked(LinkRule("selection", parts=("think",)), ONE, *judgements), "quest") == [
        (LOYAL, "below")
    ]


def test_an_intention_without_every_score_that_is_looked_at_is_not_judged() -> None:
    judgements = [judged(1, 1, "defend_self", True, 5), judged(1, 4, "defend_self", True, None, think=5)]
    for rule in (LinkRule("selection", parts=("think", "speak")), LinkRule("selection")):
        link = linked(rule, ONE, *judgements)
        assert (link.left_out["quest"], link.left_out["game"]) == (1, 1)
        assert outcome(link, "quest") == []


def test_divided_by_intentions_every_score_counts_and_a_side_without_any_is_left_out() -> None:
    by_scores = LinkRule("following", 4, per="intentions")
    # Loyal 1 of 2 scores reaches 4, evil 1 of 1.
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 1, "stay_hidden", True, 3),
        judged(1, 4, "defend_self", True, 4),
    ]
    assert outcome(linked(by_scores, ONE, *judgements), "quest") == [(LOYAL, "above")]
    # Both sides are judged, but nothing reasonable of evil has a score.
    judgements[2] = judged(1, 4, "defend_self", False, 4)
    link = linked(by_scores, ONE, *judgements)
    assert (outcome(link, "quest"), link.left_out["quest"], link.left_out["game"]) == ([], 1, 1)


def test_what_was_said_in_a_round_without_a_quest_counts_for_the_game_alone() -> None:
    two = game("+", LOYAL, turn(1, 1, "defend_self"), turn(1, 4, "defend_self"), turn(2, 4, "stay_hidden"))
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 4, "defend_self", False, 5),
        judged(2, 4, "stay_hidden", True, 5),
    ]
    link = linked(LinkRule("selection"), two, *judgements)
    assert outcome(link, "quest") == [(LOYAL, "below")]
    assert outcome(link, "game") == [(LOYAL, "above")]


def test_equal_fractions_are_equal() -> None:
    # 3 of 3 seats and 2 of 2: r is 1 for both, whatever thirds come to.
    judgements = [judged(1, seat, "defend_self", True, 5) for seat in (1, 2, 3, 4, 5)]
    whole = game("+", LOYAL, *(turn(1, seat, "defend_self") for seat in range(1, 6)))
    assert outcome(linked(LinkRule("selection"), whole, *judgements), "quest") == [(LOYAL, "equal")]


def test_raters_are_taken_together() -> None:
    # Two of three raters say reasonable; a tie is not more than half.
    three = [
        judged(1, 1, "defend_self", said, 5, rater=str(said) + str(n))
        for n, said in enumerate((True, True, False))
    ]
    evil = [judged(1, 4, "defend_self", said, 5, rater=str(said)) for said in (True, False)]
    assert outcome(linked(LinkRule("selection"), ONE, *three, *evil), "quest") == [(LOYAL, "below")]


@pytest.mark.parametrize(("scores", "relation"), [((2, 3), "below"), ((3, 3), "above")])
def test_raters_whose_mean_lies_below_the_threshold_do_not_reach_it(
    scores: tuple[int, int], relation: str
) -> None:
    # Loyal: 1 of 3 seats. Evil: 1 of 2 seats, if the mean of both raters reaches 3.
    loyal = judged(1, 1, "defend_self", True, 5)
    evil = [judged(1, 4, "defend_self", True, score, rater=str(n)) for n, score in enumerate(scores)]
    assert outcome(linked(LinkRule("following", 3), ONE, loyal, *evil), "quest") == [(LOYAL, relation)]


def said_of(
    stage: str, seat: Seat, reasonable: bool | None, speak: int | None, rater: str = "ann"
) -> Judgement:
    """Of ``defend_self`` in the first round's speech of this seat."""
    return Judgement("g", f"1.1.speak.{seat}", stage, "defend_self", reasonable, speak, speak, rater)  # type: ignore[arg-type]


SAME = game("+", LOYAL, turn(1, 1, "defend_self"), turn(1, 4, "defend_self", "defend_self"))
"""Nobody changed anything: seat 1 did not modify, seat 4 chose the same again."""


@pytest.mark.parametrize("rule", link_rules(), ids=str)
def test_an_unchanged_final_selection_carries_the_verdict_on_the_first(rule: LinkRule) -> None:
    # Asked are: both first selections, and how both final speeches follow. Loyal: unreasonable, 0 of 3
    # seats; evil: reasonable and followed with 5, 1 of 2 seats.
    judgements = [
        said_of("first", 1, False, 5),
        said_of("final", 1, None, 5),
        said_of("first", 4, True, 1),
        said_of("final", 4, None, 5),
    ]
    link = linked(rule, SAME, *judgements)
    assert outcome(link, "quest") == outcome(link, "game") == [(LOYAL, "above")]
    assert (link.left_out["quest"], link.left_out["game"]) == (0, 0)


def test_a_changed_final_selection_carries_no_verdict() -> None:
    # defend_self stays in the selection, but beside another intention: it is asked about anew.
    changed = game(
        "+", LOYAL, turn(1, 1, "defend_self", "defend_self stay_hidden"), turn(1, 4, "defend_self")
    )
    judgements = [said_of("first", 1, True, 5), said_of("final", 1, None, 5)]
    evil = [said_of("first", 4, True, 5), said_of("final", 4, None, 5)]
    assert linked(LinkRule("selection"), changed, *judgements, *evil).left_out["quest"] == 1
    judgements[1] = said_of("final", 1, False, 5)
    assert outcome(linked(LinkRule("selection"), changed, *judgements, *evil), "quest") == [(LOYAL, "above")]


def test_a_carried_verdict_is_each_raters_own_and_the_first_counts() -> None:
    # Of the loyal seat ann says yes of the first, and no of the same selection again, which is no second
    # word; bob says no of the first, and alone scores the speech; cid was asked about the final one alone.
    loyal = [
        said_of("first", 1, True, None),
        said_of("final", 1, False, None),
        said_of("first", 1, False, None, "bob"),
        said_of("final", 1, None, 5, "bob"),
        said_of("final", 1, True, None, "cid"),
    ]
    evil = [said_of("first", 4, False, 5), said_of("final", 4, None, 5)]
    # Two yes of three.
    assert outcome(linked(LinkRule("selection"), SAME, *loyal, *evil), "quest") == [(LOYAL, "below")]
    loyal[-1] = said_of("final", 1, False, None, "cid")
    assert outcome(linked(LinkRule("selection"), SAME, *loyal, *evil), "quest") == [(LOYAL, "equal")]


def test_the_link_passes_over_what_was_not_selected_and_what_was_not_spoken() -> None:
    again = replace(turn(1, 1, "defend_self"), repeated=True)
    other = turn(1, 5, "stay_hidden", defaulted="deadline")
    four = game("+", LOYAL, turn(1, 1, "defend_self"), again, turn(1, 4, "stay_hidden"), other)
    judgements = [
        said_of("first", 1, True, 5),
        said_of("final", 1, None, 5),
        said_of("final", 4, True, 5),  # never selected
        judged(1, 4, "stay_hidden", False, 5),
        judged(1, 5, "stay_hidden", True, 5),  # a default was played
    ]
    assert outcome(linked(LinkRule("selection"), four, *judgements), "quest") == [(LOYAL, "below")]
    # One intention of three seats is 1/3, not 2/3: the repeated turn gives no item. Evil's half is more.
    judgements[3] = judged(1, 4, "stay_hidden", True, 5)
    assert outcome(linked(LinkRule("selection"), four, *judgements), "quest") == [(LOYAL, "above")]


def test_a_side_without_judgements_leaves_the_quest_out() -> None:
    two = game("+-", EVIL, turn(1, 1, "defend_self"), turn(1, 4, "defend_self"), turn(2, 1, "defend_self"))
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 4, "defend_self", None, 5),
        judged(2, 1, "defend_self", True, None),
    ]
    link = linked(LinkRule("selection"), two, *judgements)
    assert (link.left_out["quest"], link.left_out["game"]) == (2, 1)
    assert link.shares("quest", LOYAL) == {"above": Rate(0, 0), "below": Rate(0, 0), "equal": Rate(0, 0)}


def test_quests_and_games_are_grouped_by_who_won_them() -> None:
    three = game(
        "+--",
        EVIL,
        *(turn(round_, seat, "defend_self") for round_ in (1, 2, 3) for seat in (1, 4)),
    )
    judgements = [
        judged(1, 1, "defend_self", True, 5),
        judged(1, 4, "defend_self", False, 5),
        judged(2, 1, "defend_self", False, 5),
        judged(2, 4, "defend_self", True, 5),
        judged(3, 1, "defend_self", False, 5),
        judged(3, 4, "defend_self", False, 5),
    ]
    link = linked(LinkRule("selection"), three, *judgements)
    assert link.shares("quest", LOYAL) == {"above": Rate(0, 1), "below": Rate(1, 1), "equal": Rate(0, 1)}
    assert link.shares("quest", EVIL) == {"above": Rate(1, 2), "below": Rate(0, 2), "equal": Rate(1, 2)}
    # The whole game: 1/3 against 1/2.
    assert link.shares("game", EVIL) == {"above": Rate(1, 1), "below": Rate(0, 1), "equal": Rate(0, 1)}


def test_judgements_of_other_games_are_passed_over() -> None:
    other = Judgement("h", "1.1.speak.1", "final", "defend_self", True, 5, 5, "ann")
    assert linked(LinkRule("selection"), ONE, other).left_out["quest"] == 1


def test_the_papers_four_links_have_their_thresholds() -> None:
    assert [(rule.measure, rule.threshold) for rule in link_rules()] == [
        ("selection", 3),
        ("following", 3),
        ("following", 4),
        ("following", 5),
    ]
    with pytest.raises(ValueError, match=r"3, 4 or 5 .*, got 2"):
        LinkRule("following", 2)
    with pytest.raises(ValueError, match="one part"):
        LinkRule("following", 3, parts=())
    with pytest.raises(ValueError, match="one stage"):
        LinkRule("following", 3, stages=())
