"""Early looks at a study, and what they cost: alpha spending.

Whoever looks early and stops where a difference shows finds differences that are not there. With every look a
part of the error of 5 % is spent, as little as possible at first (Lan and DeMets, Biometrika 1983, with the
spending function that is close to O'Brien and Fleming's bounds), so that all looks together err in 5 %.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final

__all__ = ["ALPHA", "levels", "spent"]

ALPHA: Final = 0.05
"""The two-sided error of all looks together."""

_BEYOND_ALL: Final = 8.0
"""A bound that no score exceeds, in standard deviations of the whole study's: where nothing may be spent."""

_NORMAL: Final = NormalDist()


def spent(share: float, alpha: float = ALPHA) -> float:
    """The error that may be spent once this share of the games is played, from 0 to 1."""
    if share <= 0:
        return 0.0
    # Half of the error for each side, as in published tables.
    return 4 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - alpha / 4) / sqrt(min(share, 1.0))))


def levels(
    shares: Sequence[float], alpha: float = ALPHA, spends: Sequence[float] | None = None
) -> list[float]:
    """For looks at these growing shares of the games: the p value below which a difference counts at each; 0
    where nothing is left to spend. ``spends``: the error that is spent up to each look; None: as ``spent``
    says.

    The score of each look is normal, and its increments are independent; the bounds follow one from another
    by integrating over the scores that did not stop the study (Armitage, McPherson and Rowe, 1969). Needs
    numpy. Raises ValueError for shares that do not grow or that leave (0, 1].
    """
    import numpy as np
    from scipy.special import ndtr

    if any(not 0 < share <= 1 for share in shares) or list(shares) != sorted(set(shares)):
        raise ValueError(
            f"looks come at growing shares of the games, above 0 and up to 1; got {list(shares)}"
        )
    found: list[float] = []
    # The density of the score (a Brownian motion at time ``share``) where no look has stopped the study.
    # At first it is zero for certain: one point, of all the weight.
    grid, weights = np.zeros(1), np.ones(1)
    before = gone = 0.0
    for share, total in zip(shares, spends or [spent(share, alpha) for share in shares], strict=True):
        spend, step = total - gone, sqrt(share - before)
        low, high, edge = 0.0, 40.0, _BEYOND_ALL
        for _ in range(100 if spend > 0 else 0):
            edge = (low + high) / 2
            # Both tails: the density is symmetric.
            beyond = 2 * float(weights @ ndtr((grid - edge) / step))
            low, high = (edge, high) if beyond > spend else (low, edge)
        found.append(0.0 if spend <= 0 else float(2 * ndtr(-edge / sqrt(share))))
        scores, width = np.linspace(-edge, edge, 2001, retstep=True)
        kernel = np.exp(-((scores[:, None] - grid[None, :]) ** 2) / (2 * step**2)) / (step * sqrt(2 * np.pi))
        grid, weights = scores, kernel @ weights * width
        before, gone = share, max(gone, total)
    return found
