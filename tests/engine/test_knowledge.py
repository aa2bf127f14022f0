"""What each role sees before the first proposal, and that nobody sees more."""

from itertools import permutations

import pytest

from engine.events import GameCreated, RoleLearned, payload, visible
from engine.knowledge import sees
from engine.terms import PUBLIC, Role
from tests.engine.games import new_game, random_game
from tests.engine.playing import Play
from tests.engine.referee import shown

ALL = "merlin percival servant servant servant assassin morgana mordred oberon servant"
"""Seats 1 to 10."""


@pytest.mark.parametrize(
    ("seat", "seen"),
    [
        (1, (6, 7, 9)),  # Merlin: evil, but not Mordred (8)
        (2, (1, 7)),  # Percival: Merlin and Morgana
        (3, ()),
        (10, ()),
        (6, (7, 8)),  # evil: evil, but not Oberon (9)
        (7, (6, 8)),
        (8, (6, 7)),
        (9, ()),  # Oberon: nobody
    ],
)
def test_a_role_sees_whom_the_rules_say(seat: int, seen: tuple[int, ...]) -> None:
    assert sees([Role(name) for name in ALL.split()], seat) == seen


def test_percival_sees_merlin_alone_without_morgana_and_morgana_alone_without_merlin() -> None:
    assert sees([Role(r) for r in ("percival", "merlin", "servant", "assassin", "minion")], 1) == (2,)
    assert sees([Role(r) for r in ("percival", "servant", "servant", "assassin", "morgana")], 1) == (5,)


def test_percival_is_not_told_which_of_the_two_is_merlin() -> None:
    roles = [Role(r) for r in ("percival", "merlin", "servant", "assassin", "morgana")]
    swapped = [Role(r) for r in ("percival", "morgana", "servant", "assassin", "merlin")]
    assert sees(roles, 1) == sees(swapped, 1) == (2, 5)


def test_minions_see_each_other_and_the_rest_of_evil() -> None:
    roles = [Role(r) for r in ("merlin", "servant", "servant", "servant", "minion", "minion", "assassin")]
    assert [sees(roles, seat) for seat in (1, 5, 6, 7)] == [(5, 6, 7), (6, 7), (5, 7), (5, 6)]


def test_knowledge_agrees_with_the_referee_in_every_order_of_the_special_roles() -> None:
    names = ("merlin", "percival", "assassin", "morgana", "mordred", "oberon")
    for order in permutations(names):
        roles = (*order, "servant", "servant", "servant")
        for seat in range(1, len(roles) + 1):
            assert list(sees([Role(role) for role in roles], seat)) == shown(roles, seat)


def test_a_seat_learns_its_own_role_and_no_other() -> None:
    game = Play()
    for seat in range(1, 6):
        learned = [e for e in game.state.log if type(e) is RoleLearned and visible(e, seat)]
        assert [event.seat for event in learned] == [seat]
        assert not any(type(event) is RoleLearned and visible(event, PUBLIC) for event in game.state.log)


def test_what_is_public_at_the_start_does_not_depend_on_the_deal() -> None:
    openings = set()
    for deal in permutations(("merlin", "percival", "servant", "assassin", "morgana")):
        game = Play(" ".join(deal))
        openings.add(str([payload(event) for event in game.state.public]))
    assert len(openings) == 1


def test_names_tell_nothing_of_who_plays() -> None:
    for number in range(10):
        created = random_game(number).log[0]
        assert type(created) is GameCreated
        assert created.names == tuple(f"Player {seat}" for seat in range(1, created.profile.players + 1))


def test_the_public_deck_has_the_same_order_for_every_deal() -> None:
    deal = [Role(name) for name in ["morgana", "servant", "assassin", "merlin", "percival"]]
    game = Play(" ".join(deal))
    assert [role.value for role in game.profile.roles] == [
        "merlin",
        "percival",
        "servant",
        "assassin",
        "morgana",
    ]
    assert new_game(game.profile, 1, deal=deal).roles == tuple(deal)
