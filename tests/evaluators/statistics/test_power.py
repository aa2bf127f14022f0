"""Power: against statsmodels, and against studies that are simulated."""

import numpy as np
import pytest
from scipy.stats import ttest_rel
from statsmodels.stats.power import TTestIndPower, TTestPower

from evaluators.statistics.power import power_of, smallest_difference


@pytest.mark.parametrize("games", [5, 15, 30, 200])
def test_the_smallest_difference_is_that_of_statsmodels(games: int) -> None:
    paired = smallest_difference(games, sd=0.5, correlation=0.4)
    effect = TTestPower().solve_power(nobs=games, alpha=0.05, power=0.8)
    assert paired.difference == pytest.approx(effect * 0.5 * np.sqrt(2 * 0.6), rel=1e-5)
    free = smallest_difference(games, paired=False)
    effect = TTestIndPower().solve_power(nobs1=games, alpha=0.05, power=0.8)
    assert free.difference == pytest.approx(effect * 0.5, rel=1e-5)


@pytest.mark.parametrize("games", [15, 40])
def test_simulated_studies_find_the_difference_as_often_as_reckoned(games: int) -> None:
    found = smallest_difference(games, sd=0.3, correlation=0.5)
    assert found.difference is not None
    random = np.random.default_rng(games)
    common = random.normal(size=(4000, games)) * 0.3 * np.sqrt(0.5)
    first, second = (common + random.normal(size=(4000, games)) * 0.3 * np.sqrt(0.5) for _ in range(2))
    share = (ttest_rel(first + found.difference, second, axis=1).pvalue < 0.05).mean()
    # Three standard errors of 4,000 studies.
    assert share == pytest.approx(0.8, abs=0.02)


def test_shares_of_games_come_close() -> None:
    # Games won with probability 1/2 and 1/2 less the difference, unpaired in fact: the worst case.
    found = smallest_difference(60)
    assert found.difference is not None
    random = np.random.default_rng(1)
    first = random.random((4000, 60)) < 0.5 + found.difference / 2
    second = random.random((4000, 60)) < 0.5 - found.difference / 2
    share = (ttest_rel(first.astype(float), second.astype(float), axis=1).pvalue < 0.05).mean()
    assert share == pytest.approx(0.8, abs=0.03)


def test_one_game_finds_nothing_and_no_variance_finds_everything() -> None:
    assert smallest_difference(1).difference is None
    assert smallest_difference(10, sd=0.0).difference == 0.0
    assert power_of(0.3, 1, sd=0.5, correlation=0, paired=True, alpha=0.05) == 0.0
    assert power_of(0.0, 50, sd=0.5, correlation=0, paired=True, alpha=0.05) == pytest.approx(0.05)


def test_pairing_helps() -> None:
    differences = [
        smallest_difference(20, correlation=correlation).difference for correlation in (0, 0.5, 0.9)
    ]
    assert differences == sorted(differences, reverse=True)
