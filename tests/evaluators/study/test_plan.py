"""What a study will take: sums of further games from measured ones."""

from math import sqrt

import pytest

from evaluators.study.plan import QUANTITIES, expected, measured_costs


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # Deviation sqrt(2): two errors of a sum of 4 values, known from 2, are 2 * sqrt(2 * (4 + 16 / 2)).
        ((9, 11), 40 - 2 * sqrt(24), 40 + 2 * sqrt(24)),
        ((1, 3), 0, 8 + 2 * sqrt(24)),
        # Of one value, three tenths are taken for the deviation: 2 * 3 * sqrt(4 + 16).
        ((10,), 40 - 6 * sqrt(20), 40 + 6 * sqrt(20)),
    ],
)
def test_a_sum_is_as_uncertain_as_the_games_and_their_mean(
    values: tuple[float, ...], low: float, high: float
) -> None:
    found = expected(values, 4)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_seats_without_a_model_are_not_measured() -> None:
    asked = {"model": "small", "preset": "paper", **dict.fromkeys(QUANTITIES, 7)}
    scripted = {"model": "clever", "preset": None, **dict.fromkeys(QUANTITIES, 0)}
    found = measured_costs([[asked, scripted], [scripted, asked]])
    assert {seat: costs.values for seat, costs in found.items()} == {
        ("small", "paper"): {quantity: [7, 7] for quantity in QUANTITIES}
    }
    assert found["small", "paper"].basis == "measured in 2 seats of finished games"
