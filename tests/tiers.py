"""What of a test runs in which tier."""

from typing import Final

import pytest

__all__ = ["postgres_in_long_tier"]

postgres_in_long_tier: Final = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""For a test of whole games, whose statements the quick tier runs on PostgreSQL in other tests: this one runs
on PostgreSQL in the long tier.
"""
