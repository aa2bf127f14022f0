"""Wilson's interval of a rate, against published values and another library."""

import pytest

from evaluators.statistics.rates import wilson
from tests.evaluators.statistics.known import known


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


def test_it_equals_statsmodels_up_to_ten_million_trials() -> None:
    shares = known()["shares"]
    assert {one["k"] for one in shares} > {0, 1}
    assert any(one["k"] == one["n"] for one in shares)
    for one in shares:
        interval = wilson(one["k"], one["n"], one["confidence"])
        assert interval == pytest.approx(one["wilson"], abs=1e-12)


def test_all_or_nothing_gives_the_end_itself() -> None:
    assert wilson(0, 7).low == 0.0
    assert wilson(7, 7).high == 1.0


def test_it_holds_the_share_and_mirrors_its_complement() -> None:
    for n in (1, 5, 94, 10_000):
        for k in {0, 1, n // 3, n}:
            low, high = wilson(k, n)
            assert 0 <= low <= k / n <= high <= 1
            assert wilson(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_nothing_counted_tells_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("k", "n", "confidence"), [(2, 1, 0.95), (-1, 3, 0.95), (0, -1, 0.9), (1, 2, 0.0), (1, 2, 1.0)]
)
def test_what_is_no_share_is_refused(k: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"share|confidence"):
        wilson(k, n, confidence)
