"""Whose turn it is, as everybody may know it."""

from random import Random

import pytest

from engine import rules, state
from engine.terms import PUBLIC, Kind
from engine.view import project
from tests.engine.games import chooser, new_game, random_profile

SECRET = {Kind.VOTE, Kind.CARD, Kind.SUMMARISE, Kind.ASSASSINATE}


@pytest.mark.parametrize("number", range(12))
def test_everybody_knows_whom_the_game_waits_for_but_not_who_has_answered_or_shoots(number: int) -> None:
    rng = Random(number)
    game = new_game(random_profile(rng), number)
    choose = chooser(rng, think=False)
    kinds = set()
    while requests := rules.pending(game):
        kind, seats = rules.turn_of(state.fold(project(game.log, PUBLIC)).table)
        kinds.add(kind)
        assert kind == requests[0].kind
        asked = tuple(request.seat for request in requests)
        if kind is Kind.ASSASSINATE:
            assert seats == ()
        elif kind in SECRET:
            assert set(asked) <= set(seats)
            assert (kind, seats) == rules.turn_of(game.table)
            # The same when some have answered in secret.
            some = [(asked[0], choose(game, requests[0]))]
            state.apply(game, rules.decide(game, some))
            continue
        else:
            assert seats == asked
        state.apply(game, rules.decide(game, [(one.seat, choose(game, one)) for one in requests]))
    assert {Kind.CARD, Kind.PROPOSE_TEAM} <= kinds
    assert rules.turn_of(game.table) == (None, ())
