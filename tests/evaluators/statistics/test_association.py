"""Theil's U: by hand, against scipy's entropies, and where there is none."""

from math import isnan, log
from random import Random

import pytest
from scipy.stats import entropy

from evaluators.statistics.association import theil_u


def test_it_is_the_uncertainty_that_goes_away() -> None:
    assert theil_u([[4, 0], [0, 6]]) == 1.0
    assert theil_u([[2, 3], [4, 6]]) == pytest.approx(0, abs=1e-12)
    # Of 4 quests 2 and 2: log 2 of uncertainty. The first category leaves none, the second that of 1 in 3.
    left = 0.75 * (log(3) - 2 / 3 * log(2))
    assert theil_u([[1, 0], [1, 2]]) == pytest.approx((log(2) - left) / log(2))


def test_it_equals_scipy_s_entropies() -> None:
    rng = Random(4)
    for _ in range(30):
        table = [[rng.randint(0, 9) for _ in range(3)] for _ in range(rng.randint(1, 8))]
        table.append([1, 1, 0])
        totals = [sum(column) for column in zip(*table, strict=True)]
        left = sum(sum(row) * entropy(row) for row in table if sum(row)) / sum(totals)
        expected = (entropy(totals) - left) / entropy(totals)
        assert theil_u(table) == pytest.approx(expected, abs=1e-9)


def test_categories_that_never_occur_change_nothing() -> None:
    assert theil_u([[3, 1], [0, 0], [1, 2]]) == theil_u([[3, 1], [1, 2]])


@pytest.mark.parametrize("table", [[], [[0, 0]], [[5, 0], [3, 0]]])
def test_without_two_outcomes_there_is_nothing_to_explain(table: list[list[int]]) -> None:
    assert isnan(theil_u(table))
