"""Theil's U: how much of the uncertainty about an outcome goes away when a category is known."""

from collections.abc import Sequence
from math import fsum, log, nan

__all__ = ["theil_u"]


def theil_u(table: Sequence[Sequence[float]]) -> float:
    """Theil's U of a table with a row for each category and a column for each outcome: (H(outcome) -
    H(outcome | category)) / H(outcome), from 0 (the category says nothing) to 1 (it decides the outcome).

    nan if there is one outcome only, or nothing was counted. By chance alone U is above 0, and the more so
    the fewer counts and the more categories there are. Source: Theil, On the Estimation of Relationships
    Involving Qualitative Variables, American Journal of Sociology 76 (1970).
    """
    outcomes = [fsum(column) for column in zip(*table, strict=True)]
    if sum(count > 0 for count in outcomes) < 2:
        return nan
    uncertain = _entropy(outcomes)
    left = fsum(fsum(row) * _entropy(row) for row in table) / fsum(outcomes)
    return min(1.0, max(0.0, (uncertain - left) / uncertain))


def _entropy(counts: Sequence[float]) -> float:
    """In nats; 0 if one outcome is certain."""
    total = fsum(counts)
    return -fsum(count / total * log(count / total) for count in counts if count > 0)
