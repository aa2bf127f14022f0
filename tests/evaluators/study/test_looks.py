"""Early looks: the published bounds, and that all looks together err in five per cent."""

from statistics import NormalDist

import numpy as np
import pytest

from evaluators.study.looks import levels, spent


def bounds(*shares: float) -> list[float]:
    return [NormalDist().inv_cdf(1 - level / 2) for level in levels(shares)]


def test_a_single_look_at_the_end_costs_nothing() -> None:
    assert levels([1.0]) == [pytest.approx(0.05, abs=1e-9)]


def test_bounds_of_equal_looks_are_the_published_ones() -> None:
    # Lan-DeMets with the O'Brien-Fleming-like spending function, two-sided 5 % (Reboussin et al. 2000).
    assert bounds(0.5, 1) == pytest.approx([2.963, 1.969], abs=0.002)
    assert bounds(0.2, 0.4, 0.6, 0.8, 1) == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.003)


def test_all_looks_together_err_in_five_per_cent() -> None:
    shares = np.array([0.3, 0.55, 1.0])
    limits = np.array(bounds(*shares))
    random = np.random.default_rng(5)
    steps = random.normal(size=(200_000, 3)) * np.sqrt(np.diff(shares, prepend=0.0))
    scores = np.cumsum(steps, axis=1) / np.sqrt(shares)
    assert (np.abs(scores) > limits).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)


def test_hardly_anything_is_spent_early() -> None:
    assert spent(0) == 0
    assert spent(0.1) < 1e-9
    assert spent(1) == pytest.approx(0.05)


def test_what_is_spent_is_not_spent_again() -> None:
    assert levels([0.5, 1], spends=[0.05, 0.05]) == [pytest.approx(0.05, abs=1e-9), 0]
    first, between, last = levels([0.25, 0.5, 1], spends=[0.02, 0.02, 0.05])
    assert (first, between) == (pytest.approx(0.02, abs=1e-9), 0)
    assert last == pytest.approx(levels([0.25, 1], spends=[0.02, 0.05])[1], abs=1e-4)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.6, 0.3], [0.0], [1.2]])
def test_looks_come_one_after_another(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="growing shares"):
        levels(shares)
