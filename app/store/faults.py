"""Which of a database's faults pass by themselves."""

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

__all__ = ["PASSING", "is_ours"]

PASSING = (DBAPIError, PoolTimeout, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
"""Faults of a database that is restarting, or cannot be reached for a while; met in many forms."""


def is_ours(fault: Exception) -> bool:
    """Whether it would only come again: we sent nonsense."""
    return isinstance(fault, IntegrityError | DataError | ProgrammingError | NotSupportedError)
