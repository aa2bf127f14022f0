"""Theil's U: how much of one thing's uncertainty another thing removes."""

from collections.abc import Hashable, Iterable, Mapping
from math import log, nan

__all__ = ["theils_u"]


Pair = tuple[Hashable, Hashable]


def theils_u(counts: Mapping[Pair, float]) -> float:
    """The share of the first's uncertainty that the second removes: 0 nothing, 1 all of it. ``counts``: how
    often each pair occurs.

    nan where the first never varies. Source: Theil, American Journal of Sociology 76 (1970).
    """
    firsts: dict[Hashable, float] = {}
    seconds: dict[Hashable, float] = {}
    for (one, other), n in counts.items():
        firsts[one] = firsts.get(one, 0) + n
        seconds[other] = seconds.get(other, 0) + n
    first = _entropy(firsts.values())
    if first <= 1e-12:
        return nan
    return max(0.0, first + _entropy(seconds.values()) - _entropy(counts.values())) / first


def _entropy(counts: Iterable[float]) -> float:
    listed = list(counts)
    total = sum(listed)
    return -sum(n / total * log(n / total) for n in listed if n)
