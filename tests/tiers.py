"""What of a test runs in which tier."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import pytest

__all__ = ["few_quickly", "postgres_in_long_tier"]


def few_quickly(values: Iterable[Any], few: int) -> list[Any]:
    """Values for one parameter of a test: the first ``few`` in the quick tier, the others in the long one."""
    rest = iter(values)
    return [*islice(rest, few), *(pytest.param(value, marks=pytest.mark.long) for value in rest)]


postgres_in_long_tier: Final = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""For a test of whole games, whose statements the quick tier runs on PostgreSQL in other tests: this one runs
on PostgreSQL in the long tier.
"""
