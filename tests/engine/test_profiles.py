"""Profiles: the two that we ship, every rule that can be changed, and every setting that is refused."""

from dataclasses import fields, replace
from typing import Any

import pytest

from engine.errors import InvalidProfile
from engine.profile import (
    INTERINTENT,
    OFFICIAL,
    PROFILES,
    RULES,
    Profile,
    make_profile,
    profile_from_settings,
    without_talk,
)
from engine.terms import Role


def test_interintent_is_the_game_of_the_paper() -> None:
    assert INTERINTENT.settings() == {
        "name": "interintent",
        "players": 5,
        "roles": ["merlin", "percival", "servant", "assassin", "morgana"],
        "team_sizes": [2, 3, 2, 3, 3],
        "fails_needed": [1, 1, 1, 1, 1],
        "approval": "strict_majority",
        "max_rejections": 2,
        "on_max_rejections": "last_team_goes",
        "discussion": "after_proposal",
        "reconsideration": True,
        "summaries": True,
        "assassination": "after_three_successes",
        "missed_shot": "loyal_wins",
        "first_leader": 1,
        "leader_step": 1,
        "reveal": "roles",
    }


def test_official_is_the_board_game() -> None:
    changed = {
        name: value for name, value in OFFICIAL.settings().items() if INTERINTENT.settings()[name] != value
    }
    assert changed == {
        "name": "official",
        "max_rejections": 5,
        "on_max_rejections": "evil_wins",
        "discussion": "before_proposal",
        "reconsideration": False,
        "summaries": False,
        "first_leader": None,
    }


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("players", range(5, 11))
def test_a_profile_reads_back_from_its_settings(name: str, players: int) -> None:
    profile = make_profile(name, players)
    assert profile_from_settings(profile.settings()) == profile
    assert set(profile.settings()) == {field.name for field in fields(Profile) if field.init}


def test_every_rule_can_be_overridden_and_only_rules() -> None:
    other: dict[str, Any] = {
        "team_sizes": [1, 2, 3, 4, 5],
        "fails_needed": [1, 2, 1, 2, 1],
        "approval": "at_least_half",
        "max_rejections": 3,
        "on_max_rejections": "quest_fails",
        "discussion": "none",
        "reconsideration": False,
        "summaries": False,
        "assassination": "none",
        "missed_shot": "play_on",
        "first_leader": 4,
        "leader_step": -1,
    }
    assert set(other) == set(RULES)
    settings = make_profile(rules=other).settings()
    assert {name: settings[name] for name in RULES} == other


def test_the_order_in_which_roles_are_named_does_not_matter() -> None:
    roles = ["morgana", "servant", "merlin", "assassin", "percival"]
    assert make_profile(roles=roles) == INTERINTENT


def test_without_talk_leaves_the_rules_alone() -> None:
    quiet = without_talk(INTERINTENT)
    assert (quiet.discussion, quiet.reconsideration, quiet.summaries) == ("none", False, False)
    assert replace(quiet, discussion="after_proposal", reconsideration=True, summaries=True) == INTERINTENT


FIVE_ROLES = ["merlin", "percival", "servant", "assassin", "morgana"]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"name": "chess"}, "/profile"),
        ({"name": ""}, "/profile"),
        ({"name": None}, "/profile"),
        *[({"players": n}, "/players") for n in (4, 11, 0, -5, 5.0, "5", True, None)],
        ({"roles": []}, "/roles"),
        ({"roles": FIVE_ROLES[:4]}, "/roles"),
        ({"roles": [*FIVE_ROLES, "servant"]}, "/roles"),
        ({"roles": ["merlin", "merlin", "servant", "assassin", "morgana"]}, "/roles"),
        ({"roles": ["merlin", "servant", "servant", "assassin", "assassin"]}, "/roles"),
        ({"roles": ["servant"] * 5}, "/roles"),  # no evil
        ({"roles": ["merlin", "servant", "assassin", "morgana", "minion"]}, "/roles"),  # evil in the majority
        (
            {"players": 6, "roles": ["merlin", "servant", "servant", "assassin", "morgana", "minion"]},
            "/roles",
        ),
        ({"roles": [*FIVE_ROLES[:2], "king", *FIVE_ROLES[3:]]}, "/roles/2"),
        ({"roles": [*FIVE_ROLES[:4], 3]}, "/roles/4"),
        ({"roles": [*FIVE_ROLES[:4], None]}, "/roles/4"),
        ({"roles": [["merlin"], *FIVE_ROLES[1:]]}, "/roles/0"),
        ({"reveal": "everything"}, "/reveal"),
        ({"rules": {"dragons": True}}, "/rules"),
        ({"rules": {"players": 6}}, "/rules"),
        ({"rules": {"reveal": "all"}}, "/rules"),
    ],
)
def test_a_game_that_cannot_be_is_refused_with_a_pointer(arguments: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidProfile) as refusal:
        make_profile(**arguments)
    assert refusal.value.pointer == pointer


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("approval", ["majority", None, 1, ["strict_majority"]]),
        ("on_max_rejections", ["loyal_wins", None, True]),
        ("discussion", ["during", None, False]),
        ("assassination", ["always", None]),
        ("missed_shot", ["again", None]),
        ("reconsideration", [1, 0, "true", None]),
        ("summaries", [1, "no", None]),
        ("max_rejections", [0, -1, 11, 2.0, "2", True, None, float("nan")]),
        ("first_leader", [0, 6, -1, 1.0, "1", True]),
        ("leader_step", [0, 2, -2, 1.0, "1", True, None]),
        (
            "team_sizes",
            [[], [2] * 4, [2] * 6, [0, 2, 2, 2, 2], [6, 2, 2, 2, 2], [2.0] * 5, [True] * 5, 2, None, "22222"],
        ),
        (
            "fails_needed",
            [[], [1] * 4, [1] * 6, [0, 1, 1, 1, 1], [3, 1, 1, 1, 1], [1.0] * 5, 1, None, {"1": 1}],
        ),
    ],
)
def test_a_rule_out_of_range_is_refused_with_a_pointer_to_it(rule: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidProfile) as refusal:
            make_profile(rules={rule: value})
        assert refusal.value.pointer == f"/rules/{rule}", value


def test_a_quest_cannot_need_more_fails_than_its_team_has_seats() -> None:
    with pytest.raises(InvalidProfile, match="more fails than its team has seats") as refusal:
        make_profile(rules={"team_sizes": [1, 2, 2, 2, 2], "fails_needed": [2, 1, 1, 1, 1]})
    assert refusal.value.pointer == "/rules/fails_needed"


def test_settings_with_a_field_too_many_or_too_few_are_refused() -> None:
    settings = OFFICIAL.settings()
    for wrong in ({**settings, "extra": 1}, {k: v for k, v in settings.items() if k != "reveal"}, {}):
        with pytest.raises(InvalidProfile):
            profile_from_settings(wrong)


@pytest.mark.parametrize(("players", "roles"), [(4, FIVE_ROLES[:4]), (11, ["servant"] * 9 + ["minion"] * 2)])
def test_settings_of_a_table_too_small_or_too_large_are_refused(players: int, roles: list[str]) -> None:
    settings = OFFICIAL.settings() | {"players": players, "roles": roles}
    with pytest.raises(InvalidProfile, match="players must be 5 to 10") as refusal:
        profile_from_settings(settings)
    assert refusal.value.pointer == "/players"


def test_one_to_ten_rejections_are_allowed() -> None:
    for most in range(1, 11):
        assert make_profile(rules={"max_rejections": most}).max_rejections == most


def test_a_deck_may_hold_several_servants_and_minions_but_one_of_each_other_role() -> None:
    deck = ["servant"] * 6 + ["minion"] * 4
    assert make_profile(players=10, roles=deck).roles.count(Role.MINION) == 4
    for role in set(Role) - {Role.SERVANT, Role.MINION}:
        with pytest.raises(InvalidProfile, match=f"at most one {role}"):
            make_profile(players=10, roles=[role, role, *["servant"] * 6, "minion", "minion"])


def test_only_the_profiles_that_say_so_let_a_leader_reconsider() -> None:
    found = {name: make_profile(name, 5).reconsideration for name in ("interintent", "official")}
    assert found == {"interintent": True, "official": False}
