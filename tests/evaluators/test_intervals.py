"""Intervals of a share, against published values and against each other."""

from math import comb

import pytest

from evaluators.intervals import clopper_pearson, wilson
from tests.evaluators.known import known


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


def test_clopper_pearson_gives_the_published_interval() -> None:
    # The same table, method 5.
    for k, n, low, high in [
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ]:
        interval = clopper_pearson(k, n)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_both_equal_statsmodels_up_to_ten_million_trials() -> None:
    shares = known()["shares"]
    assert {one["k"] for one in shares} > {0, 1}
    assert any(one["k"] == one["n"] for one in shares)
    for one in shares:
        found = wilson(one["k"], one["n"], one["confidence"])
        assert found == pytest.approx(one["wilson"], abs=1e-12)
        found = clopper_pearson(one["k"], one["n"], one["confidence"])
        assert found == pytest.approx(one["clopper_pearson"], abs=1e-10)


def test_all_or_nothing_gives_the_end_itself() -> None:
    for interval in (wilson, clopper_pearson):
        assert interval(0, 7).low == 0.0
        assert interval(7, 7).high == 1.0
    # Nothing in n: the exact limit solves (1 - p)^n = 2.5 %.
    assert clopper_pearson(0, 7).high == pytest.approx(1 - 0.025 ** (1 / 7), abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 7, 20, 60])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_clopper_pearson_leaves_exactly_half_the_rest_in_each_tail(n: int, confidence: float) -> None:
    def at_most(k: int, p: float) -> float:
        return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))

    for k in range(n + 1):
        low, high = clopper_pearson(k, n, confidence)
        tail = (1 - confidence) / 2
        if k > 0:
            assert 1 - at_most(k - 1, low) == pytest.approx(tail, abs=1e-10)
        if k < n:
            assert at_most(k, high) == pytest.approx(tail, abs=1e-10)


def test_both_hold_the_share_and_mirror_each_other() -> None:
    for interval in (wilson, clopper_pearson):
        for n in (1, 5, 94, 10_000):
            for k in {0, 1, n // 3, n}:
                low, high = interval(k, n)
                assert 0 <= low <= k / n <= high <= 1
                other = interval(n - k, n)
                assert other == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_the_intervals_agree_when_there_is_much_data() -> None:
    assert wilson(300_000, 1_000_000) == pytest.approx(clopper_pearson(300_000, 1_000_000), abs=2e-6)


def test_nothing_counted_tells_nothing() -> None:
    assert wilson(0, 0) == clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("k", "n", "confidence"), [(2, 1, 0.95), (-1, 3, 0.95), (0, -1, 0.9), (1, 2, 0.0), (1, 2, 1.0)]
)
@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_what_is_no_share_is_refused(interval: object, k: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"share|confidence"):
        interval(k, n, confidence)  # type: ignore[operator]
