"""Bootstrap and permutation over games: values by hand, what theory predicts, and determinism."""

from itertools import product
from math import isnan, sqrt
from random import Random
from statistics import NormalDist

import pytest

from evaluators.statistics import resampling
from evaluators.statistics.rates import Interval, wilson
from evaluators.statistics.resampling import bootstrap, by_game, paired, ratio, share


def some_games(games: int, seed: int = 1) -> dict[str, tuple[int, int]]:
    """(k, n) by game, the share drawn anew for each: what happens within a game hangs together."""
    rng = Random(seed)
    drawn = {}
    for game in range(games):
        p, n = rng.betavariate(2, 3), rng.randint(5, 15)
        drawn[f"g{game}"] = sum(rng.random() < p for _ in range(n)), n
    return drawn


def test_items_are_summed_within_their_games() -> None:
    counts = {"a": (1, 2), "b": (0, 3), "c": (5, 5)}
    assert by_game(counts, {"a": "g1", "b": "g1", "c": "g2"}) == {"g1": (1, 5), "g2": (5, 5)}
    with pytest.raises(KeyError):
        by_game(counts, {"a": "g1"})


def test_a_ratio_of_nothing_is_nan() -> None:
    assert ratio((3, 4)) == 0.75
    assert isnan(ratio((0, 0)))


def test_two_games_have_four_equally_likely_resamples() -> None:
    # Games (0 of 1) and (1 of 1): draws are 0, 1/2, 1/2, 1, each a quarter of the time, so that the 95 %
    # limits are the ends.
    found = bootstrap({"a": (0, 1), "b": (1, 1)})
    assert (found.value, found.interval, found.games, found.method) == (0.5, Interval(0.0, 1.0), 2, "bca")


def test_the_interval_is_the_linearised_one_when_there_are_many_games() -> None:
    for games in (400, 3000):  # one by one, and in blocks
        counts = some_games(games)
        found = bootstrap(counts)
        n = sum(den for _, den in counts.values())
        error = sqrt(sum((k - found.value * m) ** 2 for k, m in counts.values())) / n
        assert found.interval == pytest.approx(
            (found.value - 1.96 * error, found.value + 1.96 * error), abs=0.25 * error
        )


def test_clusters_widen_the_interval_as_they_should() -> None:
    # Twenty equal ballots a game tell as much as one.
    alone = {f"g{game}": (game % 3 == 0, 1) for game in range(90)}
    copied = {game: (20 * k, 20 * n) for game, (k, n) in alone.items()}
    assert bootstrap(copied).interval == bootstrap(alone).interval
    interval = bootstrap(copied).interval
    assert interval is not None
    assert interval.high - interval.low > 3 * (wilson(600, 1800).high - wilson(600, 1800).low)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    # Binomial with p = 0.95 and 200 trials: below 176 once in ten thousand; few games cover a little less.
    held = 0
    for seed in range(200):
        interval = bootstrap(some_games(20, seed), seed=seed, resamples=200).interval
        assert interval is not None
        held += interval.low <= 0.4 <= interval.high
    assert 174 <= held <= 199


def test_bca_shifts_a_skewed_interval_outwards() -> None:
    # Most games near nothing, a few large: the percentile interval lies too low.
    skewed = {f"g{game}": (round(1.25**game), 100) for game in range(24)}
    found = bootstrap(skewed).interval
    assert found is not None
    value = bootstrap(skewed).value
    assert found.high - value > 1.3 * (value - found.low)


def test_seed_and_counts_fix_the_interval_whatever_the_order() -> None:
    for games in (50, 1500):
        counts = some_games(games)
        backwards = dict(reversed(counts.items()))
        found = bootstrap(counts, seed=4, resamples=200)
        assert found == bootstrap(backwards, seed=4, resamples=200)
        assert found.interval != bootstrap(counts, seed=5, resamples=200).interval


def test_the_interval_stays_what_it_was() -> None:
    # A change here changes every report: it must be meant, and stand in the changelog.
    games = {f"g{game:02}": (game * game % 11, 11) for game in range(40)}
    assert bootstrap(games, seed="kept").interval == pytest.approx(
        (0.2840909090909, 0.4386363636364), abs=1e-12
    )


def test_without_two_games_or_any_difference_there_is_no_bootstrap() -> None:
    assert isnan(bootstrap({}).value)
    for games in ({}, {"a": (1, 2)}, {"a": (1, 2), "b": (2, 4), "none": (0, 0)}):
        found = bootstrap(games)
        assert (found.interval, found.method, found.resamples) == (None, "none", 0)
    assert bootstrap({"a": (1, 2), "b": (2, 4), "none": (0, 0)}).games == 2


def test_a_share_without_spread_has_wilson_s_interval_with_each_game_as_one_trial() -> None:
    for alike, hits in (((0, 10), 0), ((10, 10), 4), ((5, 10), 2)):
        found = share({f"g{game}": alike for game in range(4)})
        assert found.interval == wilson(hits, 4)
        assert (found.method, found.games, found.resamples) == ("wilson", 4, 0)
    # A third of two games is nearly one of two: the limits still hold the share itself.
    third = share({"a": (1, 30), "b": (1, 30)})
    low, high = wilson(0, 2)
    assert third.interval == (min(low, 1 / 30), high)


def test_games_of_two_trials_are_no_single_trials() -> None:
    assert share({"a": (0, 2), "b": (2, 2), "c": (1, 2)}).method == "bca"
    single = share({"a": (0, 1), "b": (1, 1)})
    assert (single.method, single.resamples) == ("wilson", 0)


def test_a_share_always_has_an_interval() -> None:
    # Four games without a hit are four trials, however many shots each had.
    assert share({f"g{game}": (0, 10) for game in range(4)}).interval == wilson(0, 4)
    assert share({f"g{game}": (10, 10) for game in range(4)}).method == "wilson"
    assert share({}).interval == (0.0, 1.0)
    half = share({"a": (1, 2), "b": (1, 2), "c": (2, 4)})
    assert half.interval is not None
    assert half.interval.low <= 0.5 <= half.interval.high
    assert share(some_games(20)) == bootstrap(some_games(20))


def test_games_that_are_one_trial_each_have_wilson_s_interval() -> None:
    # One of three: Wilson's score interval by its formula, z = 1.959964.
    found = share({"a": (1, 1), "b": (0, 1), "c": (0, 1), "d": (0, 0)})
    assert (found.value, found.games, found.method) == (1 / 3, 3, "wilson")
    assert found.interval == pytest.approx((0.061492, 0.792340), abs=1e-6)


def test_the_limits_are_efron_s_bias_corrected_and_accelerated_percentiles() -> None:
    # Efron 1987: z0 of the share of draws below the value, half of the ties among them, and a from the
    # skewness of the jackknife. On 10,000 draws that are their own ranks the limits can be told one by one.
    normal = NormalDist()
    draws, value, left_out = range(10_000), 4_200, (1.0, 2.0, 3.0, 10.0)
    z0 = normal.inv_cdf(4_200.5 / 10_000)
    # Around their mean, 4, they lie 3, 2, 1 and -6: squares sum to 50, cubes to -180.
    a = -180 / (6 * 50**1.5)
    expected = []
    for tail in (0.025, 0.975):
        z = z0 + normal.inv_cdf(tail)
        expected.append(normal.cdf(z0 + z / (1 - a * z)) * 10_001 - 1)
    assert resampling._bca(draws, value, left_out, 0.95) == pytest.approx(expected, abs=0.51)


@pytest.mark.parametrize(("value", "end"), [(-1, 0), (100, 99)])
def test_a_value_beyond_all_draws_counts_as_half_a_draw_from_the_end(value: float, end: int) -> None:
    # z0 is that of 1 in 200, -2.58 or 2.58: either limit is the last draw on that side.
    assert resampling._bca(range(100), value, (), 0.95) == (end, end)


def test_undefined_draws_are_left_out_and_counted() -> None:
    # One game in three has something to divide by: of 3 draws none is it with 8/27.
    found = bootstrap({"a": (1, 2), "b": (1, 0), "c": (3, 0)}, resamples=1000)
    assert 0 < found.resamples < 1000


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"resamples": 99}, "100 resamples or more, got 99"), ({"confidence": 1.0}, "between 0 and 1, got 1.0")],
)
def test_settings_out_of_range_are_refused(kwargs: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap({}, **kwargs)  # type: ignore[arg-type]


def test_counts_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equally long in every game, got lengths \[2, 3\]"):
        bootstrap({"a": (1, 2), "b": (1, 2, 3)})


# --- two raters ----------------------------------------------------------------------------------


def test_an_exact_p_value_counted_by_hand() -> None:
    # Three games, one item each, the first rater right everywhere, the second nowhere: the difference is
    # 1, and of 8 ways to exchange them only all and none give as much: 2/8.
    game_of = {"x": "g1", "y": "g2", "z": "g3"}
    found = paired(dict.fromkeys(game_of, (1, 1)), dict.fromkeys(game_of, (0, 1)), game_of)
    assert (found.first, found.second, found.difference.value) == (1.0, 0.0, 1.0)
    assert (found.p_value, found.exact, found.items, found.left_out) == (0.25, True, 3, 0)


def test_a_game_is_exchanged_whole() -> None:
    # The same three differences within one game are one trial: 2 of 2 ways are as extreme.
    game_of = dict.fromkeys("xyz", "g1")
    found = paired(dict.fromkeys("xyz", (1, 1)), dict.fromkeys("xyz", (0, 1)), game_of)
    assert found.p_value == 1.0
    assert found.difference.interval is None


def test_the_exact_p_value_equals_enumeration_by_the_definition() -> None:
    rng = Random(7)
    items = {f"i{item}": f"g{item % 6}" for item in range(30)}
    first = {item: (rng.randint(0, 3), 3) for item in items}
    second = {item: (rng.randint(0, 4), 4) for item in items}
    found = paired(first, second, items)
    a, b = by_game(first, items), by_game(second, items)

    def difference(swapped: tuple[bool, ...]) -> float:
        one = [b[g] if swap else a[g] for g, swap in zip(sorted(a), swapped, strict=True)]
        two = [a[g] if swap else b[g] for g, swap in zip(sorted(a), swapped, strict=True)]
        return ratio([sum(c) for c in zip(*one, strict=True)]) - ratio(
            [sum(c) for c in zip(*two, strict=True)]
        )

    seen = abs(difference((False,) * 6))
    ways = [abs(difference(way)) >= seen - 1e-12 for way in product((False, True), repeat=6)]
    assert found.p_value == sum(ways) / 64


def test_up_to_12_games_every_exchange_is_tried() -> None:
    for games, exact in ((12, True), (13, False)):
        items = {f"i{item}": f"g{item}" for item in range(games)}
        found = paired(dict.fromkeys(items, (1, 1)), dict.fromkeys(items, (0, 1)), items)
        assert found.exact is exact
        # All or none of the games exchanged give as much.
        assert found.p_value == (2 / 2**12 if exact else pytest.approx(0, abs=0.005))


def test_an_exchange_that_was_drawn_at_random_counts_the_observed_one_too() -> None:
    # Phipson and Smyth: with games that all differ so, none of 100 random exchanges is as large, but the
    # observed one is.
    items = {f"i{item}": f"g{item}" for item in range(40)}
    counts = [dict.fromkeys(items, (hit, 1)) for hit in (1, 0)]
    assert paired(counts[0], counts[1], items, resamples=100).p_value == 1 / 101


def test_equal_raters_do_not_differ() -> None:
    counts = {f"i{item}": (item % 2, 1) for item in range(40)}
    game_of = {item: f"g{place % 20}" for place, item in enumerate(counts)}
    found = paired(counts, counts, game_of)
    assert found.difference.value == 0
    assert found.p_value == 1.0


def test_raters_change_places_with_the_sign() -> None:
    first = {f"i{item}": (item % 3 == 0, 1) for item in range(90)}
    second = {f"i{item}": (item % 2 == 0, 1) for item in range(90)}
    game_of = {item: f"g{place % 30}" for place, item in enumerate(first)}
    here, there = paired(first, second, game_of), paired(second, first, game_of)
    assert here.difference.value == -there.difference.value
    assert here.p_value == pytest.approx(there.p_value, abs=0.03)
    assert here.p_value > 0.01
    assert not here.exact


def test_a_clear_difference_has_a_small_p_value_and_an_interval_beside_zero() -> None:
    rng = Random(2)
    first = {f"i{item}": (int(rng.random() < 0.7), 1) for item in range(400)}
    second = {f"i{item}": (int(rng.random() < 0.4), 1) for item in range(400)}
    game_of = {item: f"g{place % 40}" for place, item in enumerate(first)}
    found = paired(first, second, game_of)
    assert found.p_value < 0.005
    assert found.difference.interval is not None
    assert found.difference.interval.low > 0.1


def test_only_items_that_both_answered_are_compared() -> None:
    game_of = {"x": "g1", "y": "g2", "z": "g3"}
    found = paired({"x": (1, 1), "y": (1, 1)}, {"y": (0, 1), "z": (0, 1)}, game_of)
    assert (found.items, found.left_out, found.first, found.second) == (1, 2, 1.0, 0.0)
    nothing = paired({"x": (1, 1)}, {"z": (0, 1)}, game_of)
    assert nothing.items == 0
    assert isnan(nothing.p_value)
    assert isnan(nothing.first)


def test_many_games_are_dealt_into_blocks_of_equal_size() -> None:
    games = {f"g{game}": (1, 1) for game in range(2500)}
    blocks = resampling._clusters(games)
    assert len(blocks) == resampling.BLOCKS
    assert {tuple(block) for block in blocks} == {(2, 2), (3, 3)}


def test_a_bootstrap_takes_100_resamples_or_more_and_a_confidence_between_0_and_1() -> None:
    counts = {"a": (1, 2), "b": (1, 4), "c": (3, 4)}
    assert bootstrap(counts, resamples=100).resamples == 100
    with pytest.raises(ValueError, match="100 resamples or more, got 99"):
        bootstrap(counts, resamples=99)
    for confidence in (0.0, 1.0, -0.5, 1.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            bootstrap(counts, resamples=100, confidence=confidence)
