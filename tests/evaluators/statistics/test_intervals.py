"""Intervals of rates and over games, against scipy, statsmodels, published values, and by what must hold."""

from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb, inf, isnan, sqrt
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from evaluators.statistics.intervals import (
    RATE,
    SCORE,
    SHARE,
    SIGNED,
    Counts,
    Spread,
    clustering,
    estimate,
    jackknife,
    limits,
    pooled_f1,
    ratio,
    share,
    student_p,
    student_quantile,
    wilson,
)
from tests.evaluators.statistics.known import known


def some_games(games: int, seed: int = 1) -> dict[str, tuple[int, int]]:
    """(k, n) by game, with another share in each: what happens within a game depends on the rest of it."""
    rng = Random(seed)
    drawn = {}
    for game in range(games):
        p, n = rng.betavariate(2, 3), rng.randint(5, 15)
        drawn[f"g{game}"] = sum(rng.random() < p for _ in range(n)), n
    return drawn


def as_items(games: dict[str, tuple[int, int]]) -> tuple[Any, Any]:
    """Ones and noughts, and the game of each."""
    values = [int(at < k) for k, n in games.values() for at in range(n)]
    return np.array(values, float), np.array([game for game, (_, n) in games.items() for _ in range(n)])


# --- against other people's libraries -------------------------------------------------------------


def test_student_s_quantile_and_p_value_are_scipy_s() -> None:
    for df in (*range(1, 40), 99, 249, 1000):
        for confidence in (0.5, 0.9, 0.95, 0.999):
            quantile = student_quantile(confidence, df)
            assert quantile == pytest.approx(stats.t.ppf((1 + confidence) / 2, df), rel=1e-9)
            assert student_p(quantile, df) == pytest.approx(2 * stats.t.sf(quantile, df), abs=1e-12)
    assert student_p(0, 3) == 1.0
    assert student_p(-2, 5) == student_p(2, 5)


@pytest.mark.parametrize(("confidence", "df"), [(0, 3), (1, 3), (0.95, 0)])
def test_a_quantile_outside_its_range_is_refused(confidence: float, df: int) -> None:
    with pytest.raises(ValueError, match="confidence in"):
        student_quantile(confidence, df)


def test_the_variance_is_that_of_regressions_without_each_game() -> None:
    for seed in range(5):
        games = some_games(12, seed)
        values, of = as_items(games)
        without = [OLS(values[of != game], np.ones((of != game).sum())).fit().params[0] for game in games]
        whole = OLS(values, np.ones(len(values))).fit().params[0]
        found = jackknife(list(games.values()))
        assert found.value == pytest.approx(whole, abs=1e-12)
        expected = 11 / 12 * sum((one - whole) ** 2 for one in without)
        assert found.variance == pytest.approx(expected, rel=1e-9)


def test_with_games_of_one_size_it_is_the_cluster_robust_variance() -> None:
    games = {game: (min(k, 6), 6) for game, (k, _) in some_games(20).items()}
    values, of = as_items(games)
    robust = OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": np.unique(of, return_inverse=True)[1]}
    )
    assert jackknife(list(games.values())).variance == pytest.approx(robust.bse[0] ** 2, rel=1e-9)


def test_the_limits_of_a_share_are_wilson_s_with_the_effective_number_of_trials() -> None:
    for games in (5, 15, 60):
        found = jackknife(list(some_games(games).values()))
        p, t = found.value, student_quantile(0.95, found.df)
        trials = p * (1 - p) / found.variance
        expected = proportion_confint(p * trials, trials, 2 * stats.norm.sf(t), method="wilson")
        interval, method = limits(found, SHARE)
        assert interval == pytest.approx(expected, abs=1e-9)
        assert method == "wilson, design effect"


def test_limits_without_ends_are_those_of_student_s_t() -> None:
    # Ten games of one number each: the textbook's mean.
    numbers = [3.1, 2.0, 4.4, 3.3, 2.7, 5.0, 1.9, 3.8, 3.0, 4.1]
    found = estimate({str(at): (number, 1) for at, number in enumerate(numbers)})
    expected = stats.t.interval(0.95, 9, np.mean(numbers), stats.sem(numbers))
    assert found.interval == pytest.approx(expected, abs=1e-9)
    assert (found.method, found.games) == ("t", 10)


# --- by hand --------------------------------------------------------------------------------------


def test_games_that_carry_the_variance_alone_are_its_degrees_of_freedom() -> None:
    # Squared deviations of one size: every game carries as much.
    assert jackknife([(0, 1), (1, 1)] * 10).df == 19
    # One game of 30 deviates, 29 hardly do: 2 * 30 / 29 is 2.07.
    assert jackknife([(0, 10)] * 29 + [(10, 10)]).df == 2


def test_a_rate_s_limits_solve_the_score_equation() -> None:
    found = jackknife([(0, 10), (2, 10), (1, 10), (0, 8), (3, 12)])
    interval, method = limits(found, RATE)
    assert interval is not None
    t = student_quantile(0.95, found.df)
    for limit in interval:
        assert (found.value - limit) ** 2 == pytest.approx(t * t * found.variance * limit / found.value)
    assert 0 < interval.low < found.value < interval.high
    assert interval.high - found.value > found.value - interval.low
    assert method == "score"


def test_the_design_effect_of_items_that_are_all_alike_is_their_number() -> None:
    alone = {f"g{game}": (game % 3 == 0, 1) for game in range(90)}
    copied = {game: (20 * k, 20 * n) for game, (k, n) in alone.items()}
    found = share(copied)
    assert found.clustering == pytest.approx((20, 1))
    interval = found.interval
    assert interval is not None
    assert interval.high - interval.low > 4 * (wilson(600, 1800).high - wilson(600, 1800).low)


def test_the_intraclass_correlation_is_the_one_by_which_games_were_drawn() -> None:
    rng = np.random.default_rng(5)
    for icc in (0.0, 0.1, 0.3):
        n = rng.integers(2, 20, 3000)
        p = rng.beta(0.4 * (1 - icc) / icc, 0.6 * (1 - icc) / icc, 3000) if icc else np.full(3000, 0.4)
        games = list(zip(rng.binomial(n, p).tolist(), n.tolist(), strict=True))
        found = clustering(jackknife(games), float(n.sum()), float((n * n).sum()))
        assert found is not None
        assert found.icc == pytest.approx(icc, abs=0.02)


def test_nothing_hangs_together_where_nothing_is_shared() -> None:
    assert clustering(Spread(0.0, 0.0, 0, 4), 40, 400) is None
    assert clustering(Spread(0.5, 0.01, 3, 4), 4, 4) == pytest.approx((0.04 / 0.26, None))
    assert share({"a": (1, 1), "b": (0, 1)}).clustering is None


def test_games_that_are_one_trial_each_have_wilson_s_interval() -> None:
    # One of three: Wilson's score interval by its formula, z = 1.959964.
    found = share({"a": (1, 1), "b": (0, 1), "c": (0, 1), "d": (0, 0)})
    assert (found.value, found.games, found.method) == (1 / 3, 3, "wilson")
    assert found.interval == pytest.approx((0.061492, 0.792340), abs=1e-6)


def test_a_share_without_spread_has_wilson_s_interval_with_each_game_as_one_trial() -> None:
    for alike, hits in (((0, 10), 0), ((10, 10), 4), ((5, 10), 2)):
        found = share({f"g{game}": alike for game in range(4)})
        assert found.interval == pytest.approx(wilson(hits, 4))
        assert (found.method, found.games) == ("wilson", 4)


def test_a_share_always_has_an_interval() -> None:
    assert share({}).interval == (0.0, 1.0)
    assert share({"a": (0, 12)}).interval == wilson(0, 1)
    half = share({"a": (1, 2)}).interval
    assert half is not None
    assert half.low < 0.1 < 0.9 < half.high


def test_without_two_games_or_any_difference_other_figures_have_none() -> None:
    for within in (None, RATE, SCORE, SIGNED):
        for games in ({}, {"a": (4, 2)}, {"a": (4, 2), "b": (8, 4), "none": (0, 0)}):
            scaled = {game: (k / 4 if within == SIGNED else k, n) for game, (k, n) in games.items()}
            found = estimate(scaled, within=within)
            assert (found.interval, found.method) == (None, "none")
    assert isnan(estimate({}).value)
    assert estimate({"a": (1, 2), "b": (2, 4), "none": (0, 0)}).games == 2


def test_what_lies_at_the_end_of_its_range_has_an_interval() -> None:
    # Perfect agreement in ten games: as ten of ten, on the scale from -1 to 1.
    low, high = estimate({f"g{game}": (5, 5) for game in range(10)}, within=SIGNED).interval or (0, 0)
    assert (low, high) == pytest.approx((2 * wilson(10, 10).low - 1, 1))


def test_a_game_with_nothing_to_divide_by_says_nothing() -> None:
    # (matched, predicted, gold): the third game predicts nothing.
    games: list[Counts] = [(1, 2, 3), (2, 3, 3), (0, 0, 4)]
    assert jackknife(games) == jackknife(games[:2])
    assert jackknife(games, pooled_f1).games == 3
    # All that there is to divide by lies in one game: without it there is no figure.
    assert jackknife([(1, 2), (0, 0), (0, 0)]).games == 0


# --- for any counts -------------------------------------------------------------------------------

GAMES = st.lists(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=40
)


def named(games: list[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {f"g{at}": counts for at, counts in enumerate(games)}


@settings(max_examples=150)
@given(GAMES)
def test_a_share_s_interval_lies_within_its_ends_and_holds_it(games: list[tuple[int, int]]) -> None:
    found = share(named(games))
    assert found.interval is not None
    assert 0 <= found.interval.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.interval.high <= 1
    assert (found.value == 0) is (found.interval.low == 0)
    assert (found.value == 1) is (found.interval.high == 1)


@settings(max_examples=100)
@given(GAMES)
def test_misses_have_the_mirrored_interval(games: list[tuple[int, int]]) -> None:
    hits, misses = share(named(games)).interval, share(named([(n - k, n) for k, n in games])).interval
    assert hits is not None
    assert misses == pytest.approx((1 - hits.high, 1 - hits.low), abs=1e-9)


@settings(max_examples=100)
@given(GAMES, st.randoms(use_true_random=False))
def test_neither_order_nor_copies_of_items_change_the_interval(
    games: list[tuple[int, int]], rng: Random
) -> None:
    found = estimate(named(games), within=SHARE).interval
    shuffled = list(named([(3 * k, 3 * n) for k, n in games]).items())
    rng.shuffle(shuffled)
    assert estimate(dict(shuffled), within=SHARE).interval == pytest.approx(found, abs=1e-9)


def test_more_hits_in_every_game_move_both_limits_up() -> None:
    games = some_games(20)
    found = [
        share({game: (min(k + more, 20), 20) for game, (k, _) in games.items()}).interval for more in range(5)
    ]
    for one, other in pairwise(found):
        assert one is not None
        assert other is not None
        assert one.low < other.low
        assert one.high < other.high


def test_more_games_make_the_interval_narrower() -> None:
    widths = [
        interval.high - interval.low
        for games in (10, 20, 40, 80, 160)
        if (interval := share(some_games(games)).interval)
    ]
    assert widths == sorted(widths, reverse=True)


def test_scores_stay_between_one_and_five() -> None:
    games = {f"g{game}": (50 - (game == 3), 10) for game in range(8)}
    found = estimate(games, within=SCORE)
    assert found.interval is not None
    assert 1 < found.interval.low < found.value < found.interval.high < 5


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    # Binomial with p = 0.95 and 1,000 trials: 929 to 970 but once in a thousand.
    held = 0
    for seed in range(1000):
        interval = share(some_games(15, seed)).interval
        assert interval is not None
        held += interval.low <= 0.4 <= interval.high
    assert 929 <= held <= 970


def test_the_interval_stays_what_it_was() -> None:
    # A change here changes every report: it must be meant, and stand in the changelog.
    games = {f"g{game:02}": (game * game % 11, 11) for game in range(40)}
    assert share(games).interval == pytest.approx((0.279222848163, 0.442731820711), abs=1e-11)


def _of_trials(n: int, share: Fraction) -> list[Fraction]:
    return [comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]


def test_who_won_near_the_ends_covers_in_steps_that_the_guide_has_exactly() -> None:
    # Limits that rise with the wins accept a run of counts, so its chance is all that can be covered.
    guide = Path("docs/statistics.md").read_text()
    for n in (15, 30, 60):
        for percent in (90, 95, 97, 98, 99):
            share = Fraction(percent, 100)
            chances = _of_trials(n, share)
            below_k = list(accumulate(chances, initial=Fraction(0)))
            runs = [below_k[b] - below_k[a] for a in range(n + 1) for b in range(a + 1, n + 2)]
            below = max(run for run in runs if run < Fraction(95, 100))
            above = min(run for run in runs if run >= Fraction(95, 100))
            held = Fraction(0)
            for k, chance in enumerate(chances):
                low, high = wilson(k, n)
                held += chance if low <= share <= high else 0
            reachable = any(Fraction(93, 100) <= run <= Fraction(97, 100) for run in runs)
            cells = [f"{100 * float(value):.1f}" for value in (*chances[:-4:-1], below, above, held)]
            assert f"| {n}, 0.{percent} | {' | '.join(cells)} | {'yes' if reachable else 'no'} |" in guide
            assert held in runs


def test_who_won_near_the_ends_cannot_be_told_apart_in_three_to_seven_percent() -> None:
    # A test that finds 3 losses against none also finds more against none: too often where losses are
    # commoner. One that does not finds nothing where neither level has 4: too seldom where they are rare.
    def unpaired(n: int, lost: Fraction) -> tuple[Fraction, Fraction]:
        chances = _of_trials(n, 1 - lost)[::-1]
        return 2 * chances[0] * sum(chances[3:]), 1 - sum(chances[:4]) ** 2

    def paired(n: int, lost: Fraction) -> tuple[Fraction, Fraction]:
        one = lost * (1 - lost)  # a pair that only one level lost; of those that only the other lost, as many

        def chance(a: int, b: int) -> Fraction:
            return comb(n, a) * comb(n - a, b) * one ** (a + b) * (1 - 2 * one) ** (n - a - b)

        few = sum(chance(a, b) for a in range(4) for b in range(4))
        return 2 * sum(chance(a, 0) for a in range(3, n + 1)), 1 - few

    guide = Path("docs/statistics.md").read_text()
    for n, rare in ((15, Fraction(5, 100)), (30, Fraction(3, 100)), (60, Fraction(1, 100))):
        cells = []
        for design in (unpaired, paired):
            finds = max(design(n, Fraction(lost, 200))[0] for lost in range(1, 60))
            other = design(n, rare)[1]
            assert other < Fraction(3, 100) < Fraction(7, 100) < finds
            cells += [f"{100 * float(finds):.1f}", f"{100 * float(other):.1f}"]
        assert f"| {n}, {float(1 - rare):g} | {' | '.join(cells)} |" in guide


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 1.5])
def test_a_confidence_outside_its_range_is_refused(confidence: float) -> None:
    for make in (estimate, share):
        with pytest.raises(ValueError, match="between 0 and 1"):
            make({}, confidence=confidence)


def test_counts_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equally long in every game, got lengths \[2, 3\]"):
        estimate({"a": (1, 2), "b": (1, 2, 3)})


def test_the_linearised_interval_is_the_limit_for_many_games() -> None:
    counts = some_games(3000)
    found = share(counts)
    n = sum(den for _, den in counts.values())
    error = sqrt(sum((k - found.value * m) ** 2 for k, m in counts.values())) / n
    expected = (found.value - 1.96 * error, found.value + 1.96 * error)
    assert found.interval == pytest.approx(expected, abs=0.05 * error)
    assert ratio((1, 0)) != ratio((1, 0))
    assert RATE[1] == inf


# --- Wilson's interval of independent trials --------------------------------------------------------


def test_wilson_gives_the_published_interval() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for k, n, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        interval = wilson(k, n)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_wilson_equals_statsmodels_up_to_ten_million_trials() -> None:
    shares = known()["shares"]
    assert {one["k"] for one in shares} > {0, 1}
    assert any(one["k"] == one["n"] for one in shares)
    for one in shares:
        interval = wilson(one["k"], one["n"], one["confidence"])
        assert interval == pytest.approx(one["wilson"], abs=1e-12)


def test_wilson_of_all_or_nothing_gives_the_end_itself() -> None:
    assert wilson(0, 7).low == 0.0
    assert wilson(7, 7).high == 1.0


def test_wilson_holds_the_share_and_mirrors_its_complement() -> None:
    for n in (1, 5, 94, 10_000):
        for k in {0, 1, n // 3, n}:
            low, high = wilson(k, n)
            assert 0 <= low <= k / n <= high <= 1
            assert wilson(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_wilson_of_nothing_tells_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("k", "n", "confidence"), [(2, 1, 0.95), (-1, 3, 0.95), (0, -1, 0.9), (1, 2, 0.0), (1, 2, 1.0)]
)
def test_wilson_refuses_what_is_no_share(k: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"share|confidence"):
        wilson(k, n, confidence)
