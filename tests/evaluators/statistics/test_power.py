"""Power: against statsmodels, and against studies that are simulated."""

import numpy as np
import pytest
from scipy.stats import ttest_rel
from statsmodels.stats.power import TTestIndPower, TTestPower

from evaluators.statistics.contrasts import contrast
from evaluators.statistics.power import games_for, power_of, smallest_difference, variation


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


@pytest.mark.parametrize(("difference", "sd"), [(0.1, 0.5), (0.5, 0.3), (0.03, 0.2)])
def test_as_many_games_as_are_needed_find_the_difference_and_one_less_does_not(
    difference: float, sd: float
) -> None:
    games = games_for(difference, sd=sd, correlation=0.2)
    assert games is not None
    found, less = (
        smallest_difference(count, sd=sd, correlation=0.2).difference for count in (games, games - 1)
    )
    assert found is not None
    assert found <= difference
    assert less is None or less > difference
    assert games_for(1e-6) is None


def test_pairing_helps() -> None:
    differences = [
        smallest_difference(20, correlation=correlation).difference for correlation in (0, 0.5, 0.9)
    ]
    assert differences == sorted(differences, reverse=True)


def rates(
    random: np.random.Generator, games: int, difference: float = 0.0
) -> list[dict[str, tuple[int, int]]]:
    """Hits of 10 to 20 items a game under two conditions; what a pair's deal is like moves both."""
    deal = random.normal(size=games) * 0.1
    cells = []
    for raised in (difference / 2, -difference / 2):
        items = random.integers(10, 21, size=games)
        hits = random.binomial(items, np.clip(0.5 + raised + deal + random.normal(size=games) * 0.1, 0, 1))
        cells.append({f"deal {at}": (int(hits[at]), int(items[at])) for at in range(games)})
    return cells


def test_a_rate_of_items_is_found_as_often_as_its_pilot_games_say() -> None:
    random = np.random.default_rng(5)
    known = variation(rates(random, 400), "share", paired=True)
    assert known is not None
    # Of a game's share: chance of some 15 items, the deal and the game; the deal is common to a pair.
    variance = 0.25 / 15 + 0.01 + 0.01
    assert known.sd == pytest.approx(np.sqrt(variance), rel=0.08)
    assert known.correlation == pytest.approx(0.01 / variance, abs=0.08)
    found = smallest_difference(20, sd=known.sd, correlation=known.correlation).difference
    assert found is not None
    told = [
        contrast(rates(random, 20, found), "share", paired=True, drawn=199, seed=study).p_value < 0.05
        for study in range(400)
    ]
    assert np.mean(told) == pytest.approx(0.8, abs=0.06)


def test_single_trials_vary_as_shares_with_a_game_more_of_each_outcome_do() -> None:
    # 3 of 6 and 4 of 6 won: 4 of 8 and 5 of 8.
    first = {f"deal {at}": (int(at < 3), 1) for at in range(6)}
    second = {f"deal {at}": (int(at < 4), 1) for at in range(6)}
    known = variation([first, second], "share", paired=True)
    assert known is not None
    assert known.sd**2 == pytest.approx((0.25 + min(0.25, 15 / 64 * 8 / 7)) / 2)
    assert (known.units, known.paired) == (6, True)
    # Equal games prove nothing: they vary by the games that were added, and are never wholly alike.
    same = {f"deal {at}": (1, 1) for at in range(6)}
    assert (alike := variation([same, same], "share", paired=True)) is not None
    assert 0.2 < alike.sd < 0.5
    assert alike.correlation < 0.8
    assert variation([first, dict(list(second.items())[:3])], "share", paired=True) is None


def test_scores_f1_and_interactions_have_their_own_range() -> None:
    random = np.random.default_rng(2)
    scores = [{f"g{at}": (float(random.integers(10, 51)), 10) for at in range(40)} for _ in range(2)]
    assert (known := variation(scores, "mean", paired=False, limits=(1, 5))) is not None
    assert known.sd == pytest.approx(np.std([s / n for s, n in scores[0].values()]), rel=0.1)
    assert known.correlation == 0
    assert variation([{f"g{at}": (0.0, 1) for at in range(9)}] * 2, "mean", paired=False, limits=None) is None
    alike = {f"g{at}": (3.3 * at, at) for at in range(3, 20)}
    assert variation([alike] * 2, "mean", paired=False, limits=None) is None, "they differ by rounding alone"
    matched = [{f"g{at}": (int(random.integers(0, 9)), 8, 8) for at in range(40)} for _ in range(4)]
    assert (f1 := variation(matched[:2], "f1", paired=True)) is not None
    assert f1.sd == pytest.approx(np.std([m / 8 for m, _, _ in matched[0].values()]), rel=0.15)
    # The difference of two differences varies twice as much.
    assert (crossed := variation(matched, "f1", paired=False)) is not None
    assert crossed.sd == pytest.approx(np.sqrt(2) * f1.sd, rel=0.15)


def singles(*values: float) -> dict[str, tuple[float, int]]:
    """A cell of one item a deal."""
    return {f"deal {at}": (value, 1) for at, value in enumerate(values)}


def test_pairs_correlate_as_with_two_more_that_say_nothing_and_never_by_more_than_four_fifths() -> None:
    # Both vary by 5/3. The products of their deviations, 2.25 + 0.25 + 0.75 + 0.75, are divided by 4 + 2:
    # 4/6 of 5/3.
    four = [singles(1, 2, 3, 4), singles(1, 2, 4, 3)]
    assert (known := variation(four, "mean", paired=True, limits=None)) is not None
    assert (known.sd**2, known.correlation) == pytest.approx((5 / 3, 0.4))
    # Of 31 equal pairs it would be 30/33.
    assert (same := variation([singles(*range(31))] * 2, "mean", paired=True, limits=None)) is not None
    assert same.correlation == 0.8


def test_what_the_first_and_the_last_cell_have_in_common_widens_an_interaction() -> None:
    # Each cell varies by 5/3. Four equal pairs correlate by 3/6, rising and mixed values by 0. So
    # first - second - third + fourth varies by 5/3 * (4 + 1 + 1), or (4 - 1 - 1) if cells are alike that are
    # subtracted; half of that is told, as if of two levels.
    rising, mixed = singles(1, 2, 3, 4), singles(2, 4, 1, 3)
    for cells, variance in (
        ([rising, mixed, mixed, rising], 5 / 3 * 6 / 2),
        ([rising, rising, mixed, mixed], 5 / 3 * 2 / 2),
        ([rising, mixed, rising, mixed], 5 / 3 * 2 / 2),
    ):
        assert (known := variation(cells, "mean", paired=True, limits=None)) is not None
        assert known.sd**2 == pytest.approx(variance)
