"""Contrasts agree with scipy, statsmodels and hand-made cases, and are right about as often as they say."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import isnan, nan, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import Bounds, LinearConstraint, milp
from statsmodels.stats.proportion import proportion_confint

from evaluators.statistics.contrasts import _mcnemar, _two_shares, contrast, worst_case
from evaluators.statistics.figures import Kind
from evaluators.statistics.intervals import Counts, share


def cell(*counts: Counts) -> dict[str, Counts]:
    return {f"u{place}": row for place, row in enumerate(counts)}


def wins(won: int, games: int) -> dict[str, Counts]:
    return cell(*((int(place < won), 1) for place in range(games)))


# --- against others ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("won", "n", "other", "m"), [(9, 12, 3, 15), (0, 8, 5, 8), (26, 30, 30, 30), (4, 4, 4, 4)]
)
def test_single_trials_are_tested_over_all_that_could_have_come(won: int, n: int, other: int, m: int) -> None:
    told = contrast((wins(won, n), wins(other, m)), "share", paired=False)
    share_ = (won + other) / (n + m)

    def far(first: int, second: int) -> float:
        both = (first + second) / (n + m)
        return (first / n - second / m) ** 2 / (both * (1 - both)) if 0 < both < 1 else 0.0

    expected = sum(
        stats.binom.pmf(first, n, share_) * stats.binom.pmf(second, m, share_)
        for first, second in product(range(n + 1), range(m + 1))
        if far(first, second) >= far(won, other) - 1e-9
    )
    assert told.p_value == pytest.approx(expected, abs=1e-9)
    assert told.test == "exact"


def test_who_won_is_found_as_often_as_it_should_where_that_is_possible() -> None:
    # Exactly, over every result of 30 games a level that win with the same share.
    n = 30
    finds = np.array([[_two_shares(a, n, b, n) <= 0.05 for b in range(n + 1)] for a in range(n + 1)])

    def found(share_: float) -> float:
        chances = stats.binom.pmf(range(n + 1), n, share_)
        return float(chances @ finds @ chances)

    assert all(0.03 <= found(share_) <= 0.07 for share_ in (0.5, 0.6, 0.7, 0.8, 0.9, 0.935))
    assert max(found(share_) for share_ in np.linspace(0.01, 0.99, 99)) < 0.052


def test_no_test_finds_three_percent_at_0_95_with_30_games_that_finds_at_most_seven_anywhere() -> None:
    # Whether i losses against j > i are found, for all i and j up to 12: more against fewer are found, too.
    n, most = 30, 13
    cells = [(i, j) for i in range(most) for j in range(i + 1, most)]

    def chances(lost: float) -> Any:
        of = stats.binom.pmf(range(n + 1), n, lost)
        return np.array([2 * of[i] * of[j] for i, j in cells])

    rows = [chances(lost) for lost in np.linspace(0.02, 0.3, 29)]
    tops = [0.07] * len(rows)
    for place, (i, j) in enumerate(cells):
        for wider in ((i, j + 1), (i - 1, j)):
            if wider in cells:
                row = np.zeros(len(cells))
                row[place], row[cells.index(wider)] = 1, -1
                rows.append(row)
                tops.append(0.0)
    best = milp(
        -chances(0.05),
        constraints=LinearConstraint(np.array(rows), ub=np.array(tops)),
        integrality=np.ones(len(cells)),
        bounds=Bounds(0, 1),
    )
    beyond = 2 * stats.binom.sf(most - 1, n, 0.05)
    assert best.success
    assert 0.028 < -best.fun + beyond < 0.03


# The first: Newcombe, Statistics in Medicine 17 (1998), table II, method 6.
@pytest.mark.parametrize(
    ("won", "n", "other", "m"), [(56, 70, 48, 80), (9, 12, 3, 15), (0, 8, 5, 8), (30, 30, 26, 30)]
)
def test_single_trials_have_miettinen_and_nurminens_interval(won: int, n: int, other: int, m: int) -> None:
    told = contrast((wins(won, n), wins(other, m)), "share", paired=False)
    if n == 70:
        assert (told.low, told.high) == pytest.approx((0.0528, 0.3382), abs=5e-5)

    def score(apart: float) -> float:
        """With the likelihood's top from its cubic equation."""
        parts = (
            n + m,
            (n + 2 * m) * apart - (n + m) - (won + other),
            (m * apart - (n + m) - 2 * other) * apart + won + other,
            other * apart * (1 - apart),
        )
        inner = [
            root.real
            for root in np.roots(parts)
            if abs(root.imag) < 1e-7 and max(0, -apart) - 1e-9 <= root.real <= min(1, 1 - apart) + 1e-9
        ]

        def likelihood(second: float) -> float:
            return float(
                stats.binom.logpmf(won, n, np.clip(second + apart, 0, 1))
                + stats.binom.logpmf(other, m, np.clip(second, 0, 1))
            )

        second = max(inner, key=likelihood)
        first = second + apart
        variance = (first * (1 - first) / n + second * (1 - second) / m) * (n + m) / (n + m - 1)
        return float((won / n - other / m - apart) ** 2 / variance)

    for end in (told.low, told.high):
        assert score(end) == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-5)


def test_paired_single_trials_are_tested_over_all_that_could_have_differed() -> None:
    first = cell(*[(1, 1)] * 14, *[(0, 1)] * 10)
    second = cell(*[(1, 1)] * 5, *[(0, 1)] * 9, *[(1, 1)] * 2, *[(0, 1)] * 8)
    told = contrast((first, second), "share", paired=True)
    assert told.p_value == pytest.approx(of_pairs(9, 2, 13), abs=1e-9)
    # Newcombe's tenth method by hand: 5 both, 9 and 2 alone, 8 neither.
    ends = [proportion_confint(k, 24, method="wilson") for k in (14, 7)]
    phi = max(5 * 8 - 9 * 2 - 12, 0) / sqrt(14 * 10 * 7 * 17)
    (low1, high1), (low2, high2) = ends
    p1, p2 = 14 / 24, 7 / 24
    down = (p1 - low1) ** 2 + (high2 - p2) ** 2 - 2 * phi * (p1 - low1) * (high2 - p2)
    up = (high1 - p1) ** 2 + (p2 - low2) ** 2 - 2 * phi * (high1 - p1) * (p2 - low2)
    assert (told.low, told.high) == pytest.approx((p1 - p2 - sqrt(down), p1 - p2 + sqrt(up)), abs=1e-9)


def of_pairs(ahead: int, behind: int, alike: int) -> float:
    """Over every table of as many pairs, by the chances that were seen: McNemar's statistic beyond what was
    seen, and half of what is as large.
    """
    pairs = ahead + behind + alike
    differ = (ahead + behind) / pairs
    seen, p = (ahead - behind) ** 2 / (ahead + behind), 0.0
    for first in range(pairs + 1):
        for second in range(pairs + 1 - first):
            size = (first - second) ** 2 / (first + second) if first + second else 0.0
            table = (first, second, pairs - first - second)
            chance = stats.multinomial.pmf(table, pairs, (differ / 2, differ / 2, 1 - differ))
            p += chance * (0.5 if abs(size - seen) < 1e-9 else float(size > seen))
    return p


@pytest.mark.parametrize(
    ("ahead", "behind", "alike"), [(4, 0, 11), (1, 0, 14), (3, 3, 2), (6, 1, 0), (2, 9, 40)]
)
def test_however_many_pairs_differ_the_test_is_that_over_every_table(
    ahead: int, behind: int, alike: int
) -> None:
    first = cell(*[(1, 1)] * ahead, *[(0, 1)] * behind, *[(1, 1)] * alike)
    second = cell(*[(0, 1)] * ahead, *[(1, 1)] * behind, *[(1, 1)] * alike)
    told = contrast((first, second), "share", paired=True)
    assert told.p_value == pytest.approx(min(1.0, of_pairs(ahead, behind, alike)), abs=1e-9)
    assert told.test == "exact"


@pytest.mark.parametrize(("pairs", "most"), [(5, 0.08), (8, 0.06), (15, 0.06), (30, 0.06)])
def test_pairs_of_games_that_do_not_differ_are_found_to_about_as_often_as_they_should(
    pairs: int, most: float
) -> None:
    # Every table of so many pairs, whatever share of them differs.
    tables = [(ahead, n) for n in range(1, pairs + 1) for ahead in range(n + 1)]
    found = [(ahead, n) for ahead, n in tables if _mcnemar(ahead, n, pairs) <= 0.05]
    for differ in (0.05, 0.15, 0.24, 0.3, 0.5, 0.7, 0.9):
        rate = sum(stats.binom.pmf(n, pairs, differ) * stats.binom.pmf(ahead, n, 0.5) for ahead, n in found)
        assert rate < most, differ
        if pairs >= 15 and 0.2 <= differ <= 0.7:
            assert rate > 0.03, differ


@pytest.mark.parametrize("paired", [True, False])
def test_seats_that_win_together_are_one_trial_a_game(paired: bool) -> None:
    def played(won: Sequence[int], seats: int) -> dict[str, Counts]:
        return cell(*((seats * one, seats) for one in won))

    first, other = [1] * 14 + [0] * 16, [0] + [1] * 13 + [0] * 16
    for second in (first, other):
        by_game = contrast((played(first, 1), played(second, 1)), "share", paired=paired)
        assert by_game.test == "exact"
        # Cells may differ in their seats: two of one model and one of another.
        for seats in ((2, 2), (2, 1)):
            cells = [played(won, n) for won, n in zip((first, second), seats, strict=True)]
            assert contrast(cells, "share", paired=paired) == by_game
    # Games with more seats than others weigh more: they are no single trials.
    uneven = {**played(first, 2), "u0": (1, 1)}
    told = contrast((uneven, played(other, 2)), "share", paired=paired)
    assert told.levels[0] == pytest.approx(27 / 59)
    assert told.test == ("exact" if paired else "drawn")


@pytest.mark.parametrize("paired", [True, False])
def test_means_of_one_whole_number_a_game_are_no_single_trials(paired: bool) -> None:
    first, second = [(cell(*((score, 1) for score in scores))) for scores in ((5, 4, 5, 3), (2, 3, 1, 2))]
    twice = [{unit: (2 * counts[0], 2) for unit, counts in one.items()} for one in (first, second)]
    told = contrast((first, second), "mean", paired=paired)
    assert told.p_value == pytest.approx(contrast(twice, "mean", paired=paired).p_value)
    assert 0 < told.p_value < 0.2


def test_means_of_games_of_one_size_have_welchs_and_the_paired_t_interval() -> None:
    rng = np.random.RandomState(3)
    one, two = rng.uniform(1, 5, 14), rng.uniform(1, 4, 19)
    cells = [cell(*((value, 1) for value in values)) for values in (one, two)]
    told = contrast(cells, "mean", paired=False)
    ours = stats.ttest_ind(one, two, equal_var=False).confidence_interval()
    assert (told.low, told.high) == pytest.approx((ours.low, ours.high), abs=1e-9)
    pair = contrast((cells[0], cell(*((value, 1) for value in two[:14]))), "mean", paired=True)
    ours = stats.ttest_rel(one, two[:14]).confidence_interval()
    assert (pair.low, pair.high) == pytest.approx((ours.low, ours.high), abs=1e-9)


def linear(table: Any) -> float:
    return float(table[:, 0].sum() / table[:, 1].sum())


def spread(table: Any) -> float:
    """The variance of a ratio, term by term."""
    ratio, below = linear(table), table[:, 1].sum()
    n = len(table)
    return float(n / (n - 1) * sum(((num - ratio * den) / below) ** 2 for num, den in table))


def mid_p(seen: float, all_: Sequence[float]) -> float:
    sizes = np.abs(np.array(all_))
    even = np.isclose(sizes, abs(seen), rtol=1e-9)
    return float(((sizes > abs(seen)) & ~even).mean() + even.mean() / 2)


def test_every_deal_of_few_games_is_tried() -> None:
    one = np.array([(3, 7), (5, 6), (2, 9), (6, 8)], float)
    two = np.array([(1, 5), (2, 8), (4, 9), (0, 4), (3, 6)], float)
    pooled = np.vstack([one, two])

    def statistic(chosen: Sequence[int]) -> float:
        first = pooled[list(chosen)]
        second = pooled[[row for row in range(9) if row not in chosen]]
        return (linear(first) - linear(second)) / sqrt(spread(first) + spread(second))

    told = contrast((cell(*map(tuple, one)), cell(*map(tuple, two))), "share", paired=False)
    expected = mid_p(statistic(range(4)), [statistic(chosen) for chosen in combinations(range(9), 4)])
    assert (told.p_value, told.test) == (pytest.approx(expected, abs=1e-9), "exact")


def test_every_exchange_within_few_pairs_is_tried() -> None:
    one = np.array([(3, 7), (5, 6), (2, 9), (6, 8), (4, 4)], float)
    two = np.array([(1, 5), (2, 8), (4, 9), (0, 4), (3, 6)], float)

    def statistic(swaps: Sequence[int]) -> float:
        turned = np.array(swaps, bool)[:, None]
        first, second = np.where(turned, two, one), np.where(turned, one, two)
        parts = [
            (a - linear(first) * b) / first[:, 1].sum() - (c - linear(second) * d) / second[:, 1].sum()
            for (a, b), (c, d) in zip(first, second, strict=True)
        ]
        return (linear(first) - linear(second)) / sqrt(5 / 4 * sum(part**2 for part in parts))

    told = contrast((cell(*map(tuple, one)), cell(*map(tuple, two))), "share", paired=True)
    expected = mid_p(statistic([0] * 5), [statistic(swaps) for swaps in product((0, 1), repeat=5)])
    assert (told.p_value, told.test) == (pytest.approx(expected, abs=1e-9), "exact")


@pytest.mark.parametrize("paired", [False, True])
def test_exchanges_are_the_same_however_many_are_computed_at_a_time(
    monkeypatch: pytest.MonkeyPatch, paired: bool
) -> None:
    rng = np.random.RandomState(7)
    one, two = ([(int(rng.binomial(n, p)), int(n)) for n in rng.randint(5, 20, 40)] for p in (0.6, 0.5))
    told = contrast((cell(*one), cell(*two)), "share", paired=paired)
    assert told.test == "drawn"
    for part in (1, 10**9):
        monkeypatch.setattr("evaluators.statistics.contrasts._PART", part)
        assert contrast((cell(*one), cell(*two)), "share", paired=paired) == told


def test_a_level_has_the_interval_of_every_other_figure() -> None:
    one, two = cell((3, 7), (5, 6), (2, 9), (6, 8)), cell((10, 10), (10, 10), (10, 10))
    told = contrast((one, two), "share", paired=False)
    (low, high), (below, above) = (share(level).interval for level in (one, two))  # type: ignore[misc]
    p, q = told.levels
    assert told.low == pytest.approx(p - q - sqrt((p - low) ** 2 + (above - q) ** 2), abs=1e-12)
    assert told.high == pytest.approx(p - q + sqrt((high - p) ** 2 + (q - below) ** 2), abs=1e-12)


def test_draws_come_near_what_every_exchange_gives() -> None:
    rng = np.random.RandomState(5)
    one, two = (rng.uniform(0, 1, 40) + shift for shift in (0.18, 0.0))
    told = contrast([cell(*((value, 1) for value in values)) for values in (one, two)], "mean", paired=False)
    assert told.test == "drawn"
    assert told.p_value == pytest.approx(stats.ttest_ind(one, two, equal_var=False).pvalue, abs=0.02)


@pytest.mark.parametrize("kind", ["f1", "precision", "recall", "share", "mean_of_shares"])
def test_the_spread_of_a_figure_is_that_of_its_jackknife(kind: Kind) -> None:
    rng = np.random.RandomState(8)
    gold = rng.randint(20, 40, 60)
    matched = rng.binomial(gold, 0.6)
    rows = {
        "share": [(m, g) for m, g in zip(matched, gold, strict=True)],
        "mean_of_shares": [(m, g, 2, 3 + g) for m, g in zip(matched, gold, strict=True)],
    }.get(kind, [(m, m + 5, g) for m, g in zip(matched, gold, strict=True)])
    told = contrast((cell(*rows), cell(*rows[::-1])), kind, paired=False)
    assert told.value == pytest.approx(0, abs=1e-12)
    table = np.array(rows, float)

    def figure(sums: Any) -> float:
        if kind == "mean_of_shares":
            return float((sums[0] / sums[1] + sums[2] / sums[3]) / 2)
        return {
            "f1": lambda: 2 * sums[0] / (sums[1] + sums[2]),
            "precision": lambda: sums[0] / sums[1],
            "recall": lambda: sums[0] / sums[2],
            "share": lambda: sums[0] / sums[1],
        }[kind]()

    assert told.levels[0] == pytest.approx(figure(table.sum(0)), abs=1e-12)
    left = np.array([figure(table.sum(0) - row) for row in table])
    variance = 59 / 60 * ((left - left.mean()) ** 2).sum()
    half = stats.t.ppf(0.975, 59) * sqrt(2 * variance)
    assert told.high == pytest.approx(half, rel=0.02)


# --- what it means ----------------------------------------------------------------------------------


def test_an_interaction_is_a_difference_of_differences() -> None:
    cells = [cell(*[(k, 10)] * 3, (k + 1, 10)) for k in (8, 4, 5, 4)]
    for paired in (True, False):
        told = contrast(cells, "share", paired=paired)
        assert told.value == pytest.approx(0.3)
        assert told.low < 0.3 < told.high
    rng = np.random.RandomState(2)
    drawn = [cell(*((value, 1) for value in rng.uniform(0, 1, 25))) for _ in range(4)]
    paired_ = contrast(drawn, "mean", paired=True)
    each = [np.array([counts[0] for counts in one.values()]) for one in drawn]
    ours = stats.ttest_1samp(each[0] - each[1] - each[2] + each[3], 0)
    limits = ours.confidence_interval()
    assert (paired_.low, paired_.high) == pytest.approx((limits.low, limits.high), abs=1e-9)
    assert paired_.p_value == pytest.approx(ours.pvalue, abs=0.03)


def test_levels_exchanged_turn_the_sign_and_nothing_else() -> None:
    one, two = cell((3, 7), (5, 6), (2, 9)), cell((1, 5), (2, 8), (4, 9))
    for paired in (True, False):
        told, turned = (
            contrast((one, two), "share", paired=paired),
            contrast((two, one), "share", paired=paired),
        )
        assert (turned.value, turned.low, turned.high) == pytest.approx((-told.value, -told.high, -told.low))
        assert turned.p_value == pytest.approx(told.p_value)


def test_what_cannot_be_told_is_nan() -> None:
    told = contrast((cell((1, 2)), cell()), "share", paired=False)
    assert isnan(told.value)
    assert isnan(told.p_value)
    single = contrast((cell((1, 2)), cell((1, 3))), "share", paired=False)
    assert (single.value, single.units) == (pytest.approx(1 / 6), (1, 1))
    assert isnan(single.low)
    assert isnan(single.p_value)
    # One game tells nothing of others, neither of who won nor beside many pairs.
    for kind, one, many in (
        ("share", (1, 1), (0, 1)),
        ("share", (9, 10), (2, 10)),
        ("mean", (4.0, 1), (2.0, 1)),
    ):
        for paired in (False, True):
            alone = contrast((cell(one), cell(*[many] * 12)), kind, paired=paired)
            assert (alone.units, isnan(alone.low), isnan(alone.p_value)) == ((1, 12), True, True)
    with pytest.raises(ValueError, match="sum"):
        contrast((cell((1,)), cell((2,))), "sum", paired=False)
    with pytest.raises(ValueError, match="got 3"):
        contrast((cell(), cell(), cell()), "share", paired=False)


def test_games_that_do_not_differ_claim_no_certainty() -> None:
    told = contrast((cell(*[(10, 10)] * 16), cell(*[(0, 10)] * 16)), "share", paired=False)
    assert told.value == 1
    assert -1 <= told.low < 0.85
    assert told.high <= 1
    same = contrast((cell(*[(5, 10)] * 16), cell(*[(5, 10)] * 16)), "share", paired=True)
    assert same.low < 0 < same.high
    assert same.p_value == 1.0


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("high", "low"), [(4.0, 2.0), (3.3, 2.1), (0.7, 0.2), (1e6 + 0.1, 0.3)])
def test_means_of_games_that_do_not_differ_have_no_interval(high: float, low: float, paired: bool) -> None:
    sizes = np.random.RandomState(1).randint(3, 41, (2, 16))
    cells = [cell(*((mean * n, n) for n in row)) for mean, row in zip((high, low), sizes, strict=True)]
    told = contrast(cells, "mean", paired=paired)
    assert told.value == pytest.approx(high - low)
    assert isnan(told.low)
    assert isnan(told.high)
    # That every game of one level is above those of the other is no chance.
    assert told.p_value < 0.001


def test_levels_that_differ_by_rounding_alone_do_not_differ() -> None:
    one, two = cell((0.1, 1), (0.2, 1), (0.3, 1)), cell((0.3, 1), (0.2, 1), (0.1, 1))
    told = contrast((one, two), "mean", paired=False)
    assert told.levels[0] != told.levels[1]
    assert told.value == 0
    assert told.low < 0 < told.high


def test_pairs_without_a_partner_stay_in() -> None:
    one, two = cell((3, 7), (5, 6), (2, 9), (6, 8)), cell((1, 5), (2, 8), (4, 9))
    told = contrast((one, two), "share", paired=True)
    assert told.units == (4, 3)
    assert told.levels == (pytest.approx(16 / 30), pytest.approx(7 / 22))


def test_a_level_of_few_deals_is_known_no_better_for_the_many_of_the_other() -> None:
    rng = np.random.RandomState(1)
    found, held = 0, 0
    for study in range(400):
        deals = rng.normal(size=60)
        few, many = ({f"deal {at}": (deals[at] + rng.normal(), 1) for at in range(size)} for size in (8, 60))
        told = contrast((few, many), "mean", paired=True, seed=study, drawn=199)
        found += told.p_value <= 0.05
        held += told.low <= 0 <= told.high
    # 5 and 95 %, give or take two standard errors; with the degrees of freedom of 60 deals 9 and 91.
    assert found <= 28
    assert held >= 372


def test_the_worst_case_counts_excluded_games_against_the_difference() -> None:
    one, two = cell((8, 10), (8, 10)), cell((6, 10), (6, 10))
    out: Mapping[str, Counts] = {"x": (4, 10), "y": (0, 0)}
    worse = worst_case((one, two), (out, {"z": (1, 5)}), "share", 0.2)
    # Of the first none of 10, and none of as many as its games have; of the second all of 5.
    assert [tuple(map(sum, zip(*cell_.values(), strict=True))) for cell_ in worse] == [(16, 40), (17, 25)]
    f1 = worst_case((cell((3, 4, 4)), cell((1, 4, 4))), ({"x": (2, 4, 6)}, {"y": (2, 4, 6)}), "f1", 1)
    assert (f1[0]["x"], f1[1]["y"]) == ((0, 4, 6), (5, 5, 5))
    mean = worst_case((cell((9, 3)), cell((3, 3))), ({"x": (9, 3)}, {"y": (3, 3)}), "mean", 2, (1, 5))
    assert (mean[0]["x"], mean[1]["y"]) == ((3, 3), (15, 3))
    assert worst_case((one, {}), ({}, {"z": (0, 0)}), "share", nan)[1] == {}


# --- how often it is right ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("kind", ["win", "share", "f1", "mean"])
@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.85, 0.85), (0.8, 0.5)])
def test_of_2000_studies_intervals_hold_and_no_difference_is_found_as_often_as_they_say(
    kind: Any, paired: bool, first: float, second: float
) -> None:
    from bench.contrasts import judged

    told = judged(kind, paired=paired, shares=(first, second), games=15, studies=2000)
    assert 0.93 <= told.covered <= 0.97
    if first == second:
        assert 0.03 <= told.found <= 0.07
