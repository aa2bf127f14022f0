"""Confidence intervals of a share, from the standard library alone.

Both hold for independent trials; quests and ballots of one game are not, so an interval over pooled
games is a little too narrow. An interval whose clusters are games is the bootstrap's (``resampling``).
"""

from functools import lru_cache
from math import exp, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

__all__ = ["Interval", "clopper_pearson", "wilson"]


class Interval(NamedTuple):
    low: float
    high: float


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of ``k`` in ``n``: shares in [0, 1]; (0, 1) when ``n`` is 0.

    Raises ValueError unless 0 <= k <= n and 0 < confidence < 1.
    Source: Wilson, JASA 22 (1927); Brown, Cai and DasGupta, Statistical Science 16 (2001).
    """
    _check(k, n, confidence)
    if n == 0:
        return Interval(0.0, 1.0)
    z = _z(confidence)
    share = k / n
    spread = z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / n + spread / (4 * n))
    # At the ends the formula gives 0 and 1 but for rounding.
    return Interval(0.0 if k == 0 else middle - half, 1.0 if k == n else middle + half)


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """The exact binomial interval of ``k`` in ``n``, to 1e-10; (0, 1) when ``n`` is 0.

    Raises ValueError unless 0 <= k <= n and 0 < confidence < 1.
    Source: Clopper and Pearson, Biometrika 26 (1934), by quantiles of the beta distribution.
    """
    _check(k, n, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if k == 0 else _beta_quantile(tail, k, n - k + 1)
    high = 1.0 if k == n else 1 - _beta_quantile(tail, n - k, k + 1)
    return Interval(low, high)


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"a share is k of n with 0 <= k <= n, got {k} of {n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence lies between 0 and 1, got {confidence}")


@lru_cache(maxsize=16)
def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _beta_quantile(p: float, a: int, b: int) -> float:
    """The x at which the regularised incomplete beta function reaches ``p``, by bisection."""
    low, high = 0.0, 1.0
    # Each step halves the bracket: 60 leave 1e-18, below what a double near 1 can hold.
    for _ in range(60):
        middle = (low + high) / 2
        if _beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_cdf(x: float, a: int, b: int) -> float:
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    # The continued fraction converges fast below the mean, and the other tail gives the rest.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: int, b: int) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method.

    Source: Abramowitz and Stegun, 26.5.8.
    """
    tiny = 1e-300
    c = 1.0
    d = 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    # It takes a few times sqrt(max(a, b)) terms.
    for m in range(1, 200 + 20 * int(sqrt(max(a, b)))):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
