"""The rule judge: each rule by example, the table of pairs, and scripted seats that keep the rules."""

from dataclasses import replace

import pytest

from engine.intentions import BY_ID, FACTS, allowed
from engine.terms import Role
from engine.thoughts import Choice
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game, Stage, Turn
from evaluators.judges.rules import CONTRADICTIONS, contradictions, rule, ruled
from tests.evaluators.scripted_games import scripted_game

EVERYTHING = frozenset(FACTS)


def test_a_role_that_may_not_select_it_is_refused_first() -> None:
    assert rule(Role.SERVANT, "hint_about_evil", (), EVERYTHING) == ("role", "servant may not select it")
    assert rule(Role.SERVANT, "vouch_for_teammate", (), ()) == ("role", "servant may not select it")


@pytest.mark.parametrize(
    ("intention", "fact", "reason"),
    [
        ("question_missing_vote", "earlier_vote", "no vote has been taken before"),
        ("concern_failed_quest_member", "failed_quest", "no quest has failed"),
        ("support_failed_team_loyals", "last_quest_failed", "the last quest did not fail"),
        ("question_leader_absence", "leader_not_on_team", "the leader is on the team, or no team stands"),
        ("counter_not_on_team", "seat_not_on_team", "the seat is on the team, or no team stands"),
    ],
)
def test_what_the_record_does_not_hold_cannot_be_acted_on(intention: str, fact: str, reason: str) -> None:
    assert rule(Role.MERLIN, intention, (), EVERYTHING - {fact}) == ("fact", reason)
    assert rule(Role.MERLIN, intention, (), {fact}) is None


def test_every_fact_has_its_words() -> None:
    for one in BY_ID.values():
        if one.requires:
            refused = rule(sorted(one.roles)[0], one.id, (), ())
            assert refused is not None
            assert refused[0] == "fact"


def test_two_that_exclude_each_other_are_both_refused() -> None:
    # The paper's example: Percival and Merlin at once.
    chosen = {"pretend_percival", "pretend_merlin_hints", "defend_self"}
    refused = {one: rule(Role.SERVANT, one, chosen - {one}, ()) for one in chosen}
    assert refused["defend_self"] is None
    found = refused["pretend_percival"]
    assert found == (
        "contradiction",
        "with pretend_merlin_hints: One seat cannot pass for Percival and for Merlin at once.",
    )
    assert refused["pretend_merlin_hints"] is not None
    assert contradictions("support_proposal", ["counter_evil_on_team", "defend_self"]) == [
        "counter_evil_on_team"
    ]


def test_what_no_rule_refuses_is_undecided() -> None:
    assert rule(Role.SERVANT, "support_proposal", ("defend_self",), ()) is None
    assert rule(Role.SERVANT, "an intention of its own", ("defend_self",), ()) is None


@pytest.mark.parametrize("pair", CONTRADICTIONS, ids=lambda pair: "+".join(sorted(pair)))
def test_every_pair_is_of_the_catalogue_and_open_to_some_role(pair: frozenset[str]) -> None:
    assert len(pair) == 2
    assert pair <= BY_ID.keys()
    assert any(pair <= set(allowed(role)) for role in Role)
    assert CONTRADICTIONS[pair].endswith(".")


def with_turn(game: Game, place: int, turn: Turn) -> Game:
    return replace(game, turns=(*game.turns[:place], turn, *game.turns[place + 1 :]))


def stage(name: str, *ids: str) -> Stage:
    return Stage(name, tuple(map(Choice, ids)), None)  # type: ignore[arg-type]


def test_scripted_seats_select_nothing_that_the_rules_refuse() -> None:
    for players, seed in ((5, 1), (5, 2), (8, 3)):
        rulings = list(ruled(scripted_game(seed, players)))
        assert len(rulings) > 50
        assert all(one.rule is None and one.judgement is None and one.reason == "" for one in rulings)


def test_a_planted_failed_quest_that_never_was_is_found() -> None:
    game = scripted_game(1)
    place = next(p for p, turn in enumerate(game.turns) if turn.round == 1 and ".speak." in turn.request_id)
    turn = game.turns[place]
    first = stage("first", "concern_failed_quest_member", "defend_self")
    planted = with_turn(game, place, replace(turn, first=first, final=replace(first, name="final")))
    refused = [one for one in ruled(planted) if one.rule]
    # Unchanged by modification, it is one selection.
    assert [(one.intention, one.rule, one.reason) for one in refused] == [
        ("concern_failed_quest_member", "fact", "no quest has failed")
    ]
    assert refused[0].judgement == Judgement(
        game.id, turn.request_id, "first", "concern_failed_quest_member", False, None, None, "rules"
    )


def test_a_changed_selection_is_ruled_on_in_both_stages_and_a_default_in_none() -> None:
    game = scripted_game(1)
    turn = replace(
        game.turns[1], first=stage("first", "defend_self"), final=stage("final", "support_proposal")
    )
    key = turn.request_id
    stages = [one.key.stage for one in ruled(with_turn(game, 1, turn)) if one.key.request_id == key]
    assert stages == ["first", "final"]
    defaulted = with_turn(game, 1, replace(turn, defaulted="deadline"))
    assert not [one for one in ruled(defaulted) if one.key.request_id == key]
