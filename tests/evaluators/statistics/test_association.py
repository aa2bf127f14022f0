"""Theil's U against values worked out by hand."""

from math import isnan, log

import pytest

from evaluators.statistics.association import theils_u


def test_theils_u_is_the_share_of_the_firsts_uncertainty_that_the_second_removes() -> None:
    # The second tells the first exactly, but the first only halves what is open of the second.
    counts = {("a", 1): 1, ("a", 2): 1, ("b", 3): 1, ("b", 4): 1}
    assert theils_u(counts) == pytest.approx(1)
    assert theils_u({(two, one): n for (one, two), n in counts.items()}) == pytest.approx(log(2) / log(4))
    # Independent: nothing is removed.
    assert theils_u({(one, two): 1 for one in "ab" for two in "cd"}) == pytest.approx(0)


def test_where_nothing_is_uncertain_no_share_of_it_is_removed() -> None:
    assert isnan(theils_u({("a", 1): 3, ("a", 2): 1}))
    assert isnan(theils_u({("a", 1): 5}))
    assert isnan(theils_u({}))
