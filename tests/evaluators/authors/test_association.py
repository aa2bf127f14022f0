"""Theil's U, by worked values, and over games of the authors."""

from math import isnan

import pytest

from tests.evaluators.authors.association import association_figures, theils_u
from tests.evaluators.authors.folders import taken
from tests.evaluators.authors.making import make_run


def test_theils_u_is_the_share_of_uncertainty_that_is_removed() -> None:
    # The second decides the first: all of it. The first leaves open which of two the second is.
    pairs = [(0, "a"), (0, "b"), (1, "c"), (1, "d")]
    assert theils_u(pairs) == pytest.approx(1)
    assert theils_u([(other, one) for one, other in pairs]) == pytest.approx(0.5)
    # Of 4 and 4: H = ln 2; given the second, each half is 3 to 1: H = 0.562335; U = 1 - 0.811278.
    pairs = [(0, 0)] * 3 + [(0, 1)] + [(1, 0)] + [(1, 1)] * 3
    assert theils_u(pairs) == pytest.approx(0.188722, abs=1e-6)
    assert theils_u([(0, 0), (0, 1), (1, 0), (1, 1)]) == pytest.approx(0, abs=1e-12)
    assert isnan(theils_u([(1, 0), (1, 1)]))
    assert isnan(theils_u([]))


def test_every_quest_of_a_run_counts_once() -> None:
    _, games = taken(make_run(21, 2, 2))
    found = association_figures(games)
    assert found["quests"] == sum(len(game.state.table.quests) for game in games)
    for measure in ("selection", "following"):
        for name in (measure, f"{measure} reversed"):
            assert 0 <= (found[name] or 0) <= 1
